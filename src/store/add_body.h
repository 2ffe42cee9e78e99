/*
 * The loops of push.c that add to f32 rows in their natural places, for one instruction set, given by
 * TARGET (a function attribute), VECTOR and UNALIGNED (types of floats) and NAME (to make a function's
 * name). The values added need no alignment. No include guard: it is included once per set.
 */

INLINE TARGET void NAME(add_row)(char *row, const char *value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(VECTOR))
        *(VECTOR *)(row + i) += *(const UNALIGNED *)(value + i);
}

INLINE TARGET size_t NAME(add_rows)(struct store *store, size_t bytes, const uint64_t *keys,
                                    size_t n, const char *values, uint32_t *missed)
{
    size_t n_missed = 0;
    for (size_t i = 0; i < NATURAL_AHEAD && i < n; i++)
        prefetch_natural(store, bytes, true, keys[i]);
    for (size_t i = 0; i < n; i++, values += bytes) {
        if (i + NATURAL_AHEAD < n)
            prefetch_natural(store, bytes, true, keys[i + NATURAL_AHEAD]);
        struct entry *entry = &store->dense[keys[i]];
        uint64_t word = entry_read(entry);
        if (__builtin_expect(!entry_readable(word) || !entry_try_latch(entry, word), 0)) {
            entry = latch_row(store, keys[i], entry, &word);
            if (!entry) {
                missed[n_missed++] = (uint32_t)i;
                continue;
            }
        }
        char *row = __builtin_expect(entry_slot(word) == store_natural_slot(store, keys[i]), 1)
                        ? store_natural(store, keys[i])
                        : slabs_at(&store->rows, entry_slot(word));
        NAME(add_row)(row, values, bytes);
        entry_release_same(entry, word);
    }
    return n_missed;
}

#define INSTANCE(size)                                                                          \
    TARGET static size_t NAME(add_##size)(struct store * store, const uint64_t *keys, size_t n, \
                                          const void *values, uint32_t *missed)                 \
    {                                                                                           \
        return NAME(add_rows)(store, size, keys, n, values, missed);                            \
    }

INSTANCE(32)
INSTANCE(64)
INSTANCE(128)
INSTANCE(256)
INSTANCE(512)
INSTANCE(2048)

static add_function *NAME(add_for)(size_t bytes)
{
    switch (bytes) {
    case 32:
        return NAME(add_32);
    case 64:
        return NAME(add_64);
    case 128:
        return NAME(add_128);
    case 256:
        return NAME(add_256);
    case 512:
        return NAME(add_512);
    case 2048:
        return NAME(add_2048);
    default:
        return NULL;
    }
}

#undef INSTANCE
#undef TARGET
#undef VECTOR
#undef UNALIGNED
#undef NAME
