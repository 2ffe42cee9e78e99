/*
 * range - the public calls on all existing entries of a range of keys, in ascending order.
 *
 * Dense: every key of the range. Sparse: what the index holds, collected and sorted. Since entries are
 * never removed, equal numbers of entries mean equal entries; push_range relies on it.
 */
#include "node/node.h"

#include <inttypes.h>
#include <stdlib.h>

static enum tern_status check_range(const struct store *store, uint64_t begin, uint64_t end)
{
    if (begin > end)
        return fail(TERN_INVALID,
                    "table '%s': the range begins at %" PRIu64 " and ends at %" PRIu64, store->name,
                    begin, end);
    if (store->index == TERN_DENSE && end > store->n_keys)
        return fail(TERN_RANGE,
                    "the range's end %" PRIu64 " is outside table '%s' of %" PRIu64 " keys", end,
                    store->name, store->n_keys);
    return TERN_OK;
}

static enum tern_status pull_dense(struct tern_worker *worker, struct tern_table *table,
                                   uint64_t begin, size_t n, uint64_t *keys, char *values)
{
    for (size_t i = 0; i < n; i++)
        keys[i] = begin + i;
    return values ? tern_pull(worker, table, keys, n, values) : TERN_OK;
}

static enum tern_status pull_sparse(struct tern_worker *worker, struct tern_table *table,
                                    uint64_t begin, uint64_t end, size_t capacity, uint64_t *keys,
                                    char *values, size_t *n)
{
    uint64_t *found;
    size_t n_found;
    enum tern_status status = store_collect(&table->store, begin, end, &found, &n_found);
    if (status)
        return status;
    if (n_found > capacity)
        n_found = capacity;
    if (values)
        status = tern_pull(worker, table, found, n_found, values);
    for (size_t i = 0; !status && i < n_found; i++)
        keys[i] = found[i];
    if (!status)
        *n = n_found;
    free(found);
    return status;
}

enum tern_status tern_pull_range(struct tern_worker *worker, struct tern_table *table,
                                 uint64_t begin, uint64_t end, size_t capacity, uint64_t *keys,
                                 void *values, size_t *n)
{
    if (!access_allowed(worker, table, keys, capacity, n) || !n)
        return access_refuse(worker, table, capacity ? keys : (void *)&capacity, n, "n");
    enum tern_status status = check_range(&table->store, begin, end);
    if (status)
        return status;
    if (table->store.index == TERN_SPARSE)
        return pull_sparse(worker, table, begin, end, capacity, keys, values, n);
    size_t wanted = end - begin < capacity ? end - begin : capacity;
    status = pull_dense(worker, table, begin, wanted, keys, values);
    if (!status)
        *n = wanted;
    return status;
}

static enum tern_status refuse_count(const struct store *store, uint64_t begin, uint64_t end,
                                     uint64_t n_found, size_t n)
{
    return fail(TERN_CONFLICT,
                "table '%s' has %" PRIu64 " entries in [%" PRIu64 ", %" PRIu64 "), but %zu updates "
                "were given",
                store->name, n_found, begin, end, n);
}

static enum tern_status push_dense(struct tern_worker *worker, struct tern_table *table,
                                   uint64_t begin, uint64_t end, const char *updates)
{
    struct store *store = &table->store;
    struct workspace *space = worker->space;
    /* First every row, then every update: what fails must have changed nothing. */
    for (int writing = 0; writing <= 1; writing++) {
        for (uint64_t done = begin; done < end; done += BLOCK_KEYS) {
            size_t n = end - done < BLOCK_KEYS ? end - done : BLOCK_KEYS;
            for (size_t i = 0; i < n; i++)
                space->keys[i] = done + i;
            enum tern_status status = store_reserve(store, space->keys, n, space->entries);
            if (status)
                return status;
            if (writing)
                store_push(store, space->keys, n, space->entries,
                           updates + (done - begin) * store->value_bytes, space->missed);
        }
    }
    count_add(&space->counts[table->id].pushed, end - begin);
    return TERN_OK;
}

static enum tern_status push_sparse(struct tern_worker *worker, struct tern_table *table,
                                    uint64_t begin, uint64_t end, size_t n, const char *updates)
{
    uint64_t *found;
    size_t n_found;
    enum tern_status status = store_collect(&table->store, begin, end, &found, &n_found);
    if (status)
        return status;
    if (n_found == n)
        status = tern_push(worker, table, found, n, updates);
    else
        status = refuse_count(&table->store, begin, end, n_found, n);
    free(found);
    return status;
}

enum tern_status tern_push_range(struct tern_worker *worker, struct tern_table *table,
                                 uint64_t begin, uint64_t end, size_t n, const void *updates)
{
    if (!access_allowed(worker, table, updates, n, updates))
        return access_refuse(worker, table, table, updates, "updates");
    enum tern_status status = check_range(&table->store, begin, end);
    if (status)
        return status;
    if (table->store.index == TERN_SPARSE)
        return push_sparse(worker, table, begin, end, n, updates);
    if (end - begin != n)
        return refuse_count(&table->store, begin, end, end - begin, n);
    return push_dense(worker, table, begin, end, updates);
}
