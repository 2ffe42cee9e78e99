/*
 * The look-up of keys for one instruction set, given by TARGET (a function attribute), MATCH (of
 * sparse.h) and NAME (to make a function's name). No include guard: it is included once per set.
 */

/* The entry of a key of a sparse index if it is in the line; otherwise NULL. */
INLINE TARGET struct entry *NAME(find_in)(struct index_line *line, uint64_t key)
{
    unsigned match = MATCH(line, key);
    return __builtin_expect(match != 0, 1) ? sparse_matched(line, match) : NULL;
}

/* The entry of a key; NULL if it has none, or none in the first line of a sparse index. */
INLINE TARGET struct entry *NAME(find_first)(const struct store *store, bool sparse, uint64_t key)
{
    return sparse ? NAME(find_in)(sparse_line(store->sparse, key), key) : &store->dense[key];
}

/* The entry of a key of a sparse index that is not in its first line but in the second; NULL otherwise, and
 * then the line where it may be is on its way. Key 0 is in no second line, but free cells there seem to
 * hold it, until another key takes them. */
INLINE TARGET struct entry *NAME(find_second)(const struct store *store, uint64_t key)
{
    struct index_line *line = sparse_buddy(sparse_line(store->sparse, key));
    struct entry *entry = __builtin_expect(key != 0, 1) ? NAME(find_in)(line, key) : NULL;
    if (__builtin_expect(!entry, 0))
        prefetch(sparse_next(line), false);
    return entry;
}

/* The entry of a key of a sparse index that is not in its first line; NULL if it has none. */
INLINE TARGET struct entry *NAME(find_further)(const struct store *store, uint64_t key)
{
    struct entry *entry = NAME(find_second)(store, key);
    return __builtin_expect(entry != NULL, 1) ? entry : sparse_search(store->sparse, key);
}
