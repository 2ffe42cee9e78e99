/*
 * The loops of latch.c for one instruction set, given by TARGET, COPY and NAME
 * as in store/pull_body.h. No include guard: it is included once per set.
 */

/* A copy behind a pointer, which the compiler cannot see through. */
TARGET static void NAME(copy)(char *to, const char *from, size_t bytes)
{
    COPY(to, from, bytes);
}

static void (*volatile NAME(copy_call))(char *, const char *, size_t) = NAME(copy);

/* Rows in their natural places, read as the store reads them but protected in
 * another way. */
INLINE TARGET void NAME(rows)(const struct subject *subject, enum protection protection,
                              size_t bytes, const uint64_t *keys, size_t n, char *values)
{
    const struct store *store = &subject->store;
    for (size_t i = 0; i < NATURAL_AHEAD && i < n; i++)
        prefetch_protected(subject, protection, bytes, keys[i]);
    for (size_t i = 0; i < n; i++, values += bytes) {
        if (i + NATURAL_AHEAD < n)
            prefetch_protected(subject, protection, bytes, keys[i + NATURAL_AHEAD]);
        uint64_t key = keys[i];
        if (protection == NOTHING) {
            COPY(values, subject->array + key * bytes, bytes);
        } else if (protection == LATCH) {
            uint64_t word;
            entry_latch(&store->dense[key], NULL, &word);
            COPY(values, store_natural(store, key), bytes);
            put_back(&store->dense[key], word);
        } else {
            uint64_t word;
            do {
                word = entry_read(&store->dense[key]);
                NAME(copy_call)(values, store_natural(store, key), bytes);
            } while (!entry_readable(word) || !entry_unchanged(&store->dense[key], word));
        }
    }
}

#define ROWS(name, protection)                                                                   \
    TARGET static void NAME(name)(const struct subject *subject, const uint64_t *keys, size_t n, \
                                  char *values)                                                  \
    {                                                                                            \
        if (subject->bytes == 128)                                                               \
            NAME(rows)(subject, protection, 128, keys, n, values);                               \
        else                                                                                     \
            NAME(rows)(subject, protection, 512, keys, n, values);                               \
    }

ROWS(latched, LATCH)
ROWS(called, SEQUENCE_AND_CALL)
ROWS(raw, NOTHING)

static const struct loops NAME(loops) = {NAME(latched), NAME(called), NAME(raw)};

#undef ROWS
#undef TARGET
#undef COPY
#undef NAME
