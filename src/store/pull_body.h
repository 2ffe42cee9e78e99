/*
 * The loops of pull.c for one instruction set, given by TARGET (a function attribute), COPY (of
 * kernel/racy.h) and NAME (to make a function's name). No include guard: it is included once per set.
 */

/* Copies the row that `word`, just read from `entry`, says is here; false if a writer came between. */
INLINE TARGET bool NAME(copy_row)(const struct entry *entry, uint64_t word, const char *row,
                                  char *value, size_t bytes)
{
    COPY(value, row, bytes);
    return entry_unchanged(entry, word);
}

/*
 * One key, in as few instructions as possible: its cost is the wait for memory, and the fewer
 * instructions a call takes, the more calls wait at the same time. Where the row is in its natural
 * place, its address does not depend on the entry's content, so both are fetched at once.
 */
INLINE TARGET bool NAME(one_natural)(const struct store *store, size_t bytes, uint64_t key,
                                     char *value)
{
    const struct entry *entry = &store->dense[key];
    uint64_t word = entry_read(entry);
    if (__builtin_expect(
            !entry_readable(word) || entry_slot(word) != store_natural_slot(store, key), 0))
        return pull_again(store, key, value);
    if (__builtin_expect(!NAME(copy_row)(entry, word, store_natural(store, key), value, bytes), 0))
        return pull_again(store, key, value);
    return true;
}

/* Many keys whose rows are mostly in their natural places: entry and row are prefetched together. */
INLINE TARGET size_t NAME(many_natural)(const struct store *store, size_t bytes,
                                        const uint64_t *keys, size_t n, char *values,
                                        uint32_t *missed)
{
    size_t n_missed = 0;
    for (size_t i = 0; i < NATURAL_AHEAD && i < n; i++)
        prefetch_natural(store, bytes, false, keys[i]);
    for (size_t i = 0; i < n; i++, values += bytes) {
        if (i + NATURAL_AHEAD < n)
            prefetch_natural(store, bytes, false, keys[i + NATURAL_AHEAD]);
        uint64_t key = keys[i];
        const struct entry *entry = &store->dense[key];
        uint64_t word = entry_read(entry);
        if (__builtin_expect(
                entry_readable(word) && entry_slot(word) == store_natural_slot(store, key), 1) &&
            NAME(copy_row)(entry, word, store_natural(store, key), values, bytes))
            continue;
        if (!pull_again(store, key, values))
            missed[n_missed++] = (uint32_t)i;
    }
    return n_missed;
}

/* One key, and many keys, wherever their rows are. */
INLINE TARGET bool NAME(one)(const struct store *store, bool sparse, size_t bytes, uint64_t key,
                             char *value)
{
    const struct entry *entry = find(store, sparse, key);
    uint64_t word = !sparse || entry ? entry_read(entry) : 0;
    if (__builtin_expect(entry_readable(word), 1) &&
        NAME(copy_row)(entry, word, slabs_at(&store->rows, entry_slot(word)), value, bytes))
        return true;
    return pull_again(store, key, value);
}

INLINE TARGET size_t NAME(many)(const struct store *store, bool sparse, size_t bytes,
                                const uint64_t *keys, size_t n, char *values, uint32_t *missed)
{
    struct pipeline p;
    size_t n_missed = 0;
    pipeline_start(&p, store, sparse, bytes, keys, n);
    for (size_t i = 0; i < n; i++, values += bytes) {
        const struct entry *entry = pipeline_step(&p, store, sparse, bytes, keys, n, i);
        uint64_t word = !sparse || entry ? entry_read(entry) : 0;
        if (__builtin_expect(entry_readable(word), 1) &&
            NAME(copy_row)(entry, word, slabs_at(&store->rows, entry_slot(word)), values, bytes))
            continue;
        if (!pull_again(store, keys[i], values))
            missed[n_missed++] = (uint32_t)i;
    }
    return n_missed;
}

/* Instances for values of `size` bytes: of rows in their natural places, and of a sparse table. */
#define INSTANCES(suffix, size)                                                                    \
    TARGET static bool NAME(one_natural_##suffix)(const struct store *store, uint64_t key,         \
                                                  char *value)                                     \
    {                                                                                              \
        return NAME(one_natural)(store, size, key, value);                                         \
    }                                                                                              \
    TARGET static size_t NAME(many_natural_##suffix)(                                              \
        const struct store *store, const uint64_t *keys, size_t n, void *values, uint32_t *missed) \
    {                                                                                              \
        return NAME(many_natural)(store, size, keys, n, values, missed);                           \
    }                                                                                              \
    TARGET static bool NAME(one_sparse_##suffix)(const struct store *store, uint64_t key,          \
                                                 char *value)                                      \
    {                                                                                              \
        return NAME(one)(store, true, size, key, value);                                           \
    }                                                                                              \
    TARGET static size_t NAME(many_sparse_##suffix)(                                               \
        const struct store *store, const uint64_t *keys, size_t n, void *values, uint32_t *missed) \
    {                                                                                              \
        return NAME(many)(store, true, size, keys, n, values, missed);                             \
    }                                                                                              \
    static struct pull_loops NAME(loops_##suffix)(const struct store *store)                       \
    {                                                                                              \
        return store->index == TERN_SPARSE                                                         \
                   ? (struct pull_loops){NAME(one_sparse_##suffix), NAME(many_sparse_##suffix)}    \
                   : (struct pull_loops){NAME(one_natural_##suffix), NAME(many_natural_##suffix)}; \
    }

INSTANCES(32, 32)
INSTANCES(64, 64)
INSTANCES(128, 128)
INSTANCES(256, 256)
INSTANCES(512, 512)
INSTANCES(any, store->value_bytes)

/* A dense table that has no natural places is too large for them; it takes any size. */
TARGET static bool NAME(one_dense)(const struct store *store, uint64_t key, char *value)
{
    return NAME(one)(store, false, store->value_bytes, key, value);
}

TARGET static size_t NAME(many_dense)(const struct store *store, const uint64_t *keys, size_t n,
                                      void *values, uint32_t *missed)
{
    return NAME(many)(store, false, store->value_bytes, keys, n, values, missed);
}

static struct pull_loops NAME(loops_for)(const struct store *store)
{
    if (store->index == TERN_DENSE && !store->n_natural)
        return (struct pull_loops){NAME(one_dense), NAME(many_dense)};
    switch (store->value_bytes) {
    case 32:
        return NAME(loops_32)(store);
    case 64:
        return NAME(loops_64)(store);
    case 128:
        return NAME(loops_128)(store);
    case 256:
        return NAME(loops_256)(store);
    case 512:
        return NAME(loops_512)(store);
    default:
        return NAME(loops_any)(store);
    }
}

#undef INSTANCES
#undef TARGET
#undef COPY
#undef NAME
