/*
 * range - the public calls on all existing entries of a range of keys, in ascending order.
 *
 * Dense: every key of the range. Sparse: what the indexes of all nodes hold, collected and sorted, each once; where
 * keys come and go, what the homes know of. This also holds where every node has every key: an entry that was made
 * and not changed, for instance by a read, is only at the node that made it. Unless rows are removed
 * (evict.h), equal numbers of entries mean equal entries; push_range relies on it, and refuses tables from which some were.
 */
#include "node/node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "wire/keys.h"

static enum tern_status check_range(const struct store *store, uint64_t begin, uint64_t end)
{
    if (store->sketch)
        return fail(TERN_INVALID, "table '%s' is a sketch and has no ranges: it has no entries",
                    store->name);
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

/* Keys gathered from several nodes. */
struct gathered {
    uint64_t *keys;
    size_t n, capacity;
};

static enum tern_status gather(struct gathered *to, const uint64_t *keys, size_t n)
{
    if (to->n + n > to->capacity) {
        size_t capacity = 2 * (to->n + n);
        uint64_t *grown = realloc(to->keys, capacity * sizeof *grown);
        if (!grown)
            return fail(TERN_NO_MEMORY, "no memory for %zu keys of a range", capacity);
        to->keys = grown;
        to->capacity = capacity;
    }
    if (n)
        memcpy(to->keys + to->n, keys, n * sizeof *keys);
    to->n += n;
    return TERN_OK;
}

/* Asks a node for the first keys it has from `begin` on; *last is set when there are no more. */
static enum tern_status gather_page(struct tern_worker *worker, const struct tern_table *table,
                                    uint32_t node, uint64_t begin, uint64_t end, uint32_t limit,
                                    struct gathered *to, bool *last)
{
    struct op op = {.table = table->core.number, .fields.range = {begin, end}, .limit = limit};
    enum tern_status status = engine_call(worker->remote, node, &op, FRAME_RANGE);
    if (status)
        return status;
    size_t n = op.answer.count;
    uint64_t *keys = malloc((n ? n : 1) * sizeof *keys);
    if (!keys)
        status = fail(TERN_NO_MEMORY, "no memory for %zu keys of a range", n);
    else if (!keys_decode(buffer_head(&op.answer_body), op.answer.keys_bytes, op.answer.flags, n,
                          keys))
        status = fail(TERN_PEER, "node %" PRIu32 " sent keys that cannot be decoded", node);
    else
        status = gather(to, keys, n);
    *last = n < limit;
    free(keys);
    buffer_free(&op.answer_body);
    return status;
}

static enum tern_status gather_from(struct tern_worker *worker, const struct tern_table *table,
                                    uint32_t node, uint64_t begin, uint64_t end, size_t most,
                                    struct gathered *to)
{
    bool last = false;
    enum tern_status status = TERN_OK;
    for (size_t had = to->n; !status && !last && to->n - had < most;) {
        size_t left = most - (to->n - had), before = to->n;
        uint32_t limit = (uint32_t)(left < FRAME_MAX_KEYS ? left : FRAME_MAX_KEYS);
        status = gather_page(worker, table, node, begin, end, limit, to, &last);
        if (to->n > before)
            begin = to->keys[to->n - 1] + 1;
    }
    return status;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts keys and leaves each once; returns how many are left. */
static size_t sort_keys(uint64_t *keys, size_t n)
{
    if (n)
        qsort(keys, n, sizeof *keys, compare_keys);
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++)
        if (!n_left || keys[i] != keys[n_left - 1])
            keys[n_left++] = keys[i];
    return n_left;
}

/* The first `most` existing keys of the range over all nodes, ascending. *keys is to be freed. */
static enum tern_status collect(struct tern_worker *worker, struct tern_table *table,
                                uint64_t begin, uint64_t end, size_t most, uint64_t **keys,
                                size_t *n)
{
    /* Nodes may have rows of keys that are at home elsewhere, and under a bounded policy no node has all: the union of
     * theirs is what the cluster has. */
    enum tern_status status = store_collect(&table->core.store, begin, end, most, keys, n);
    if (status || table_is_whole(table))
        return status;
    struct gathered all = {.keys = *keys, .n = *n, .capacity = *n};
    const struct core *core = table_core(table);
    view_each_while (node, core->view, !status)
        if (node != core->node)
            status = gather_from(worker, table, node, begin, end, most, &all);
    if (status) {
        free(all.keys);
        return status;
    }
    *keys = all.keys;
    *n = sort_keys(all.keys, all.n);
    return TERN_OK;
}

static enum tern_status pull_sparse(struct tern_worker *worker, struct tern_table *table,
                                    uint64_t begin, uint64_t end, size_t capacity, uint64_t *keys,
                                    char *values, size_t *n)
{
    uint64_t *found;
    size_t n_found;
    enum tern_status status = collect(worker, table, begin, end, capacity, &found, &n_found);
    if (status)
        return status;
    if (n_found > capacity)
        n_found = capacity;
    if (values)
        status = tern_pull(worker, table, found, n_found, values);
    if (!status && n_found)
        memcpy(keys, found, n_found * sizeof *keys);
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
    enum tern_status status = check_range(&table->core.store, begin, end);
    if (status)
        return status;
    if (table->core.store.index == TERN_SPARSE)
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
    size_t n = (size_t)(end - begin);
    uint64_t *keys = malloc((n ? n : 1) * sizeof *keys);
    if (!keys)
        return fail(TERN_NO_MEMORY, "no memory for %zu keys of a range", n);
    for (size_t i = 0; i < n; i++)
        keys[i] = begin + i;
    enum tern_status status = tern_push(worker, table, keys, n, updates);
    free(keys);
    return status;
}

static enum tern_status push_sparse(struct tern_worker *worker, struct tern_table *table,
                                    uint64_t begin, uint64_t end, size_t n, const char *updates)
{
    const struct store *store = &table->core.store;
    if (store->evicts ||
        atomic_load_explicit(&store->counts->eviction.n_removed, memory_order_relaxed))
        return fail(
            TERN_INVALID,
            "table '%s': rows were or may be removed, so that updates of a range could go to "
            "other keys; use tern_push",
            store->name);
    uint64_t *found;
    size_t n_found;
    enum tern_status status = collect(worker, table, begin, end, SIZE_MAX, &found, &n_found);
    if (status)
        return status;
    if (n_found == n)
        status = tern_push(worker, table, found, n, updates);
    else
        status = refuse_count(&table->core.store, begin, end, n_found, n);
    free(found);
    return status;
}

enum tern_status tern_push_range(struct tern_worker *worker, struct tern_table *table,
                                 uint64_t begin, uint64_t end, size_t n, const void *updates)
{
    if (!access_allowed(worker, table, updates, n, updates))
        return access_refuse(worker, table, table, updates, "updates");
    enum tern_status status = check_range(&table->core.store, begin, end);
    if (status)
        return status;
    if (table->core.store.index == TERN_SPARSE)
        return push_sparse(worker, table, begin, end, n, updates);
    if (end - begin != n)
        return refuse_count(&table->core.store, begin, end, end - begin, n);
    return push_dense(worker, table, begin, end, updates);
}
