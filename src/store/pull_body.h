/*
 * The loops of pull.c for one instruction set, given by TARGET (a function attribute), COPY (of
 * kernel/racy.h), MATCH (of sparse.h) and NAME (to make a function's name). No include guard: it is
 * included once per set.
 */
#include "store/find_body.h"

/* Copies the row that `word`, just read from `entry`, says is here; false if a writer came between. */
INLINE TARGET bool NAME(copy_row)(const struct entry *entry, uint64_t word, const char *row,
                                  char *value, size_t bytes)
{
    COPY(value, row, bytes);
    return entry_unchanged(entry, word);
}

/* Copies the row of a key from its natural slot; false if it is not there, or is being written. Its
 * address does not depend on the entry's content, so both are fetched at once. */
INLINE TARGET bool NAME(copy_natural)(const struct layout *l, uint64_t key, char *value)
{
    const struct entry *entry = &l->entries[key];
    uint64_t word = entry_read(entry);
    return __builtin_expect(is_natural(l, key, word), 1) &&
           NAME(copy_row)(entry, word, natural_row(l, key), value, l->bytes);
}

/*
 * One key, in as few instructions as possible: its cost is the wait for memory, and the fewer
 * instructions a call takes, the more calls wait at the same time. What is rare is left to pull_again,
 * so that nothing need be kept for it.
 */
INLINE TARGET bool NAME(one_natural)(const struct store *store, struct layout l, uint64_t key,
                                     char *value)
{
    if (__builtin_expect(!NAME(copy_natural)(&l, key, value), 0))
        return pull_again(store, key, value);
    return true;
}

INLINE TARGET bool NAME(one)(const struct store *store, bool sparse, struct layout l, uint64_t key,
                             char *value)
{
    const struct entry *entry = NAME(find_first)(store, sparse, key);
    if (sparse && __builtin_expect(!entry, 0))
        return pull_again(store, key, value);
    uint64_t word = entry_read(entry);
    if (__builtin_expect(!entry_readable(word), 0))
        return pull_again(store, key, value);
    const char *row = row_at(&l, entry_slot(word));
    if (__builtin_expect(!NAME(copy_row)(entry, word, row, value, l.bytes), 0))
        return pull_again(store, key, value);
    return true;
}

/* Many keys whose rows are mostly in their natural slots: entry and row are prefetched together. */
INLINE TARGET size_t NAME(many_natural)(const struct store *store, struct layout l,
                                        const uint64_t *keys, size_t n, char *values,
                                        uint32_t *missed)
{
    size_t n_missed = 0;
    for (size_t i = 0; i < NATURAL_AHEAD && i < n; i++)
        prefetch_natural(&l, false, keys[i]);
    for (size_t i = 0; i < n; i++) {
        if (i + NATURAL_AHEAD < n)
            prefetch_natural(&l, false, keys[i + NATURAL_AHEAD]);
        if (__builtin_expect(!NAME(copy_natural)(&l, keys[i], values + i * l.bytes), 0))
            missed[n_missed++] = (uint32_t)i;
    }
    return pull_missed(store, keys, values, missed, n_missed);
}

/* Finds and prefetches the rows of n keys whose lines of the index are on their way. Keys that are not in
 * their lines are left for later, when those lines' buddies have also come. */
INLINE TARGET void NAME(fetch_group)(const struct layout *l, bool sparse, const uint64_t *keys,
                                     size_t n, struct group *group)
{
    group->n_later = 0;
    for (size_t i = 0; i < n; i++) {
        struct entry *entry =
            sparse ? NAME(find_in)(group->lines[i], keys[i]) : &l->entries[keys[i]];
        if (!sparse || __builtin_expect(entry != NULL, 1)) {
            fetch_row(l, entry, group, i);
        } else {
            prefetch(sparse_buddy(group->lines[i]), false);
            group->later[group->n_later++] = (uint8_t)i;
        }
    }
}

INLINE TARGET void NAME(fetch_later)(const struct store *store, const struct layout *l,
                                     const uint64_t *keys, struct group *group)
{
    for (size_t i = 0; i < group->n_later; i++) {
        size_t later = group->later[i];
        fetch_row(l, NAME(find_further)(store, keys[later]), group, later);
    }
}

/* Copies the rows of n keys, and notes the positions, from `at` on, of those that could not be. */
INLINE TARGET size_t NAME(copy_group)(const struct group *group, size_t n, char *values,
                                      size_t bytes, size_t at, uint32_t *missed)
{
    size_t n_missed = 0;
    for (size_t i = 0; i < n; i++, values += bytes) {
        const struct entry *entry = group->entries[i];
        const char *row = group->rows[i];
        uint64_t word = __builtin_expect(row != NULL, 1) ? entry_read(entry) : 0;
        if (__builtin_expect(!row || !same_row(word, group->words[i]) ||
                                 !NAME(copy_row)(entry, word, row, values, bytes),
                             0))
            missed[n_missed++] = (uint32_t)(at + i);
    }
    return n_missed;
}

/* Many keys, wherever their rows are. */
INLINE TARGET size_t NAME(many)(const struct store *store, bool sparse, struct layout l,
                                const uint64_t *keys, size_t n, char *values, uint32_t *missed)
{
    struct group groups[2];
    const size_t most = l.bytes <= SHORT_BYTES ? GROUP_SHORT : GROUP;
    size_t n_missed = 0;
    for (size_t placed = 0, turn = 0; placed < n + 2 * most; placed += most, turn ^= 1) {
        struct group *even = &groups[turn], *odd = &groups[turn ^ 1];
        place_group(store, sparse, keys + placed, group_size(n, placed, most), even->lines);
        size_t fetched = placed - most, at = placed - 2 * most;
        if (sparse && placed >= 2 * most)
            NAME(fetch_later)(store, &l, keys + at, even);
        if (placed >= most)
            NAME(fetch_group)(&l, sparse, keys + fetched, group_size(n, fetched, most), odd);
        if (placed >= 2 * most)
            n_missed += NAME(copy_group)(even, group_size(n, at, most), values + at * l.bytes,
                                         l.bytes, at, missed + n_missed);
    }
    return pull_missed(store, keys, values, missed, n_missed);
}

/* Values that are in the entries of a sparse index: one, and many. */
TARGET static bool NAME(one_word_sparse)(const struct store *store, uint64_t key, char *value)
{
    return one_word(store, NAME(find_first)(store, true, key), key, value);
}

/* Reads those that are in their second lines, then the others; leaves and counts the positions of keys
 * without a row. */
INLINE TARGET size_t NAME(read_missed)(const struct store *store, const uint64_t *keys,
                                       char *values, uint32_t *missed, size_t n)
{
    size_t n_missed = 0;
    for (size_t i = 0; i < n; i++) {
        const struct entry *entry = NAME(find_second)(store, keys[missed[i]]);
        uint64_t word = entry ? entry_read(entry) : 0;
        if (__builtin_expect(entry_is_inline(word), 1))
            put_word(values + missed[i] * sizeof(uint32_t), word);
        else
            missed[n_missed++] = missed[i];
    }
    return pull_missed(store, keys, values, missed, n_missed);
}

TARGET static size_t NAME(words_sparse)(const struct store *store, const uint64_t *keys, size_t n,
                                        void *values, uint32_t *missed)
{
    const struct sparse *index = store->sparse;
    struct index_line *ring[INDEX_AHEAD];
    size_t n_missed = 0;
    const uintptr_t uniform = sparse_uniform(index);
    first_lines(index, uniform, keys, n, ring);
    for (size_t i = 0; i < n; i++) {
        struct index_line *line = next_line(index, uniform, keys, n, i, ring);
        const struct entry *entry = NAME(find_in)(line, keys[i]);
        uint64_t word = __builtin_expect(entry != NULL, 1) ? entry_read(entry) : 0;
        if (__builtin_expect(entry_is_inline(word), 1)) {
            put_word((char *)values + i * sizeof(uint32_t), word);
        } else {
            prefetch(sparse_buddy(line), false);
            missed[n_missed++] = (uint32_t)i;
        }
    }
    return NAME(read_missed)(store, keys, values, missed, n_missed);
}

/* Instances for values of `size` bytes: of rows in their natural slots, and of a sparse table. */
#define INSTANCES(suffix, size, stride)                                                            \
    TARGET static bool NAME(one_natural_##suffix)(const struct store *store, uint64_t key,         \
                                                  char *value)                                     \
    {                                                                                              \
        return NAME(one_natural)(store, layout_of(store, size, stride), key, value);               \
    }                                                                                              \
    TARGET static size_t NAME(many_natural_##suffix)(                                              \
        const struct store *store, const uint64_t *keys, size_t n, void *values, uint32_t *missed) \
    {                                                                                              \
        return NAME(many_natural)(store, layout_of(store, size, stride), keys, n, values, missed); \
    }                                                                                              \
    TARGET static bool NAME(one_sparse_##suffix)(const struct store *store, uint64_t key,          \
                                                 char *value)                                      \
    {                                                                                              \
        return NAME(one)(store, true, layout_of(store, size, stride), key, value);                 \
    }                                                                                              \
    TARGET static size_t NAME(many_sparse_##suffix)(                                               \
        const struct store *store, const uint64_t *keys, size_t n, void *values, uint32_t *missed) \
    {                                                                                              \
        return NAME(many)(store, true, layout_of(store, size, stride), keys, n, values, missed);   \
    }                                                                                              \
    static struct pull_loops NAME(loops_##suffix)(const struct store *store)                       \
    {                                                                                              \
        return store->index == TERN_SPARSE                                                         \
                   ? (struct pull_loops){NAME(one_sparse_##suffix), NAME(many_sparse_##suffix)}    \
                   : (struct pull_loops){NAME(one_natural_##suffix), NAME(many_natural_##suffix)}; \
    }

INSTANCES(32, 32, 32)
INSTANCES(64, 64, 64)
INSTANCES(128, 128, 128)
INSTANCES(256, 256, 256)
INSTANCES(512, 512, 512)
INSTANCES(any, store->value_bytes, store->rows.stride)

/* A dense table that has no natural slots takes any size. */
TARGET static bool NAME(one_dense)(const struct store *store, uint64_t key, char *value)
{
    return NAME(one)(store, false, layout_of(store, store->value_bytes, store->rows.stride), key,
                     value);
}

TARGET static size_t NAME(many_dense)(const struct store *store, const uint64_t *keys, size_t n,
                                      void *values, uint32_t *missed)
{
    return NAME(many)(store, false, layout_of(store, store->value_bytes, store->rows.stride), keys,
                      n, values, missed);
}

static struct pull_loops NAME(loops_for)(const struct store *store)
{
    if (store->inlined)
        return store->index == TERN_SPARSE
                   ? (struct pull_loops){NAME(one_word_sparse), NAME(words_sparse)}
                   : (struct pull_loops){one_word_dense, words_dense};
    if (store->index == TERN_DENSE && !store->n_natural)
        return (struct pull_loops){NAME(one_dense), NAME(many_dense)};
    switch (store->rows.stride == store->value_bytes ? store->value_bytes : 0) {
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
#undef MATCH
#undef NAME
