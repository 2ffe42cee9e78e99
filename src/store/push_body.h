/*
 * The loops of push.c for one instruction set: that which finds the entries of keys, and those that add to
 * f32 rows of common lengths. The set is given by TARGET (a function attribute), MATCH (of sparse.h),
 * VECTOR and UNALIGNED (types of floats), SHORTEST (bytes of the shortest rows that it has loops for) and NAME
 * (to make a function's name). The values added need no alignment. No include guard: it is included once per set.
 */
#include "store/find_body.h"

/* Finds the entries of some of `keys`, given by their positions, that are not in their first lines or have
 * no row: first those in the second lines, then the others. Makes the rows that are missing. */
TARGET static __attribute__((noinline)) enum tern_status NAME(reserve_later)(
    struct store *store, const uint64_t *keys, size_t *later, size_t n, struct entry **entries)
{
    size_t n_further = 0;
    for (size_t i = 0; i < n; i++) {
        struct entry *entry = NAME(find_second)(store, keys[later[i]]);
        if (!entry || !entry_has_row(entry_read(entry)))
            later[n_further++] = later[i];
        else
            entries[later[i]] = entry;
    }
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < n_further; i++) {
        struct entry **entry = &entries[later[i]];
        *entry = sparse_search(store->sparse, keys[later[i]]);
        status = reserve_one(store, keys[later[i]], entry);
    }
    return status;
}

/* Keys that are not in their first lines are left for later, when those lines' buddies have also come. Until
 * a key is looked for, its place in `entries` has the first entry of its line. */
TARGET static enum tern_status NAME(reserve_sparse)(struct store *store, const uint64_t *keys,
                                                    size_t n, struct entry **entries)
{
    const struct sparse *index = store->sparse;
    const uintptr_t uniform = sparse_uniform(index);
    size_t later[LATER], n_later = 0;
    for (size_t i = 0; i < n && i < INDEX_AHEAD; i++)
        entries[i] = line_ahead(index, uniform, keys[i])->entries;
    for (size_t i = 0; i < n; i++) {
        if (__builtin_expect(i + INDEX_AHEAD < n, 1)) {
            prefetch(entries[i + INDEX_AGAIN], true);
            entries[i + INDEX_AHEAD] = line_ahead(index, uniform, keys[i + INDEX_AHEAD])->entries;
        }
        struct index_line *line = line_of_first(entries[i]);
        struct entry *entry = NAME(find_in)(line, keys[i]);
        entries[i] = entry;
        if (__builtin_expect(entry && entry_has_row(entry_read(entry)), 1))
            continue;
        prefetch(sparse_buddy(line), true);
        later[n_later++] = i;
        if (n_later == LATER) {
            enum tern_status status = NAME(reserve_later)(store, keys, later, LATER, entries);
            if (status)
                return status;
            n_later = 0;
        }
    }
    return NAME(reserve_later)(store, keys, later, n_later, entries);
}

INLINE TARGET void NAME(add_row)(char *row, const char *value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(VECTOR))
        *(VECTOR *)(row + i) += *(const UNALIGNED *)(value + i);
}

/* As different_rows, adding floats. */
INLINE TARGET size_t NAME(add_different)(struct store *store, struct layout l, bool natural,
                                         const uint64_t *keys, size_t n,
                                         const struct repeats *repeats,
                                         struct entry *const *entries, const char *values,
                                         uint32_t *missed, bool exclusive)
{
    size_t n_missed = 0;
    for (size_t k = 0; k < ROWS_AHEAD && k < n; k++)
        prefetch_changed(store, &l, natural, false, keys, entries, repeats_first(repeats, k));
    for (size_t k = 0; k < n; k++) {
        if (k + ROWS_AHEAD < n)
            prefetch_changed(store, &l, natural, false, keys, entries,
                             repeats_first(repeats, k + ROWS_AHEAD));
        size_t i = repeats_first(repeats, k);
        struct entry *entry = natural ? &l.entries[keys[i]] : entries[i];
        struct latched latched = latch_row(store, keys[i], entry,
                                           natural ? entry_read(entry) : word_of(entry), exclusive);
        if (__builtin_expect(!latched.entry, 0)) {
            for (missed[n_missed++] = (uint32_t)i; (i = repeats_next(repeats, i)) != 0;)
                missed[n_missed++] = (uint32_t)i;
            continue;
        }
        char *row = natural && __builtin_expect(is_natural(&l, keys[i], latched.word), 1)
                        ? natural_row(&l, keys[i])
                        : row_at(&l, entry_slot(latched.word));
        do {
            NAME(add_row)(row, values + i * l.bytes, l.bytes);
            i = repeats_next(repeats, i);
        } while (i);
        entry_release_same(latched.entry, latched.word);
    }
    return n_missed;
}

INLINE TARGET size_t NAME(add_rows)(struct store *store, struct layout l, bool natural,
                                    const uint64_t *keys, size_t n, struct entry *const *entries,
                                    const char *values, uint32_t *missed, bool exclusive)
{
    struct repeats repeats;
    if (!exclusive && repeats_find(&repeats, keys, n))
        return NAME(add_different)(store, l, natural, keys, repeats.n, &repeats, entries, values,
                                   missed, false);
    return NAME(add_different)(store, l, natural, keys, n, NULL, entries, values, missed,
                               exclusive);
}

/* Adds to the row of one key; false if it has none. The row is prefetched
 * before it is latched: a locked instruction lets nothing after it begin, but a row that is on its way
 * arrives beside those of the calls before. */
INLINE TARGET bool NAME(add_one)(struct store *store, struct layout l, bool natural, uint64_t key,
                                 const char *value, bool exclusive)
{
    struct entry *entry = NAME(find_first)(store, !natural, key);
    uint64_t word = natural ? entry_read(entry) : word_of(entry);
    if (natural && __builtin_expect(key - store->home.begin < store->n_natural, 1))
        prefetch_at_once(natural_row(&l, key), l.bytes);
    if (!natural && __builtin_expect(entry_in_slabs(word), 1))
        prefetch_at_once(row_at(&l, entry_slot(word)), l.bytes);
    struct latched latched = latch_row(store, key, entry, word, exclusive);
    if (__builtin_expect(!latched.entry, 0))
        return false;
    NAME(add_row)(row_at(&l, entry_slot(latched.word)), value, l.bytes);
    entry_release_same(latched.entry, latched.word);
    return true;
}

/* The two for rows of `size` bytes. */
#define INSTANCE(index, natural, size)                                                             \
    TARGET static size_t NAME(add_rows_##index##_##size)(                                          \
        struct store * store, const uint64_t *keys, size_t n, struct entry *const *entries,        \
        const void *values, uint32_t *missed, bool exclusive)                                      \
    {                                                                                              \
        return NAME(add_rows)(store, layout_of(store, size, size), natural, keys, n, entries,      \
                              values, missed, exclusive);                                          \
    }                                                                                              \
    TARGET static bool NAME(add_one_##index##_##size)(struct store * store, uint64_t key,          \
                                                      const void *value, bool exclusive)           \
    {                                                                                              \
        return NAME(add_one)(store, layout_of(store, size, size), natural, key, value, exclusive); \
    }

#define INSTANCES(size)                                                                            \
    INSTANCE(dense, true, size)                                                                    \
    INSTANCE(sparse, false, size)                                                                  \
    static struct add_loops NAME(add_##size)(const struct store *store)                            \
    {                                                                                              \
        return store->index == TERN_SPARSE                                                         \
                   ? (struct add_loops){NAME(add_one_sparse_##size), NAME(add_rows_sparse_##size)} \
                   : (struct add_loops){NAME(add_one_dense_##size), NAME(add_rows_dense_##size)};  \
    }

#if SHORTEST <= 32
INSTANCES(32)
INSTANCES(64)
INSTANCES(128)
INSTANCES(256)
#endif
INSTANCES(512)
INSTANCES(2048)

static struct add_loops NAME(add_for)(const struct store *store)
{
    switch (store->rows.stride == store->value_bytes ? store->value_bytes : 0) {
#if SHORTEST <= 32
    case 32:
        return NAME(add_32)(store);
    case 64:
        return NAME(add_64)(store);
    case 128:
        return NAME(add_128)(store);
    case 256:
        return NAME(add_256)(store);
#endif
    case 512:
        return NAME(add_512)(store);
    case 2048:
        return NAME(add_2048)(store);
    default:
        return (struct add_loops){0};
    }
}

#undef INSTANCES
#undef INSTANCE
#undef TARGET
#undef MATCH
#undef VECTOR
#undef UNALIGNED
#undef SHORTEST
#undef NAME
