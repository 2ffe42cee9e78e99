/*
 * sketch - pushes to and pulls from sketches, tern_top, and cells as numbers. Keys at home here are done at once, the others are noted for
 * away.c. See access.h and store/sketch.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "node/access.h"
#include "node/exclusive.h"
#include "wire/bytes.h"

/* Counts or estimates a block of keys that are at home here. */
static void do_block(struct tern_worker *worker, struct store *store, enum frame_kind kind,
                     const uint64_t *keys, size_t n, char *values)
{
    if (kind == FRAME_PULL) {
        sketch_estimate(store->sketch, keys, n, values);
        return;
    }
    const bool exclusive = exclusive_begin(worker);
    sketch_add(store->sketch, keys, n, values, exclusive, store->watch);
    exclusive_end(worker);
}

/* The same for a block of keys that may be at home anywhere: those elsewhere are noted. Runs of keys at home here are done
 * together. */
static enum tern_status do_homes(struct tern_worker *worker, struct store *store,
                                 enum frame_kind kind, const uint64_t *keys, size_t begin,
                                 size_t end, char *values)
{
    uint64_t *own = worker->space->keys;
    uint64_t own_values[BLOCK_KEYS];
    const size_t bytes = store->value_bytes;
    size_t n_own = 0;
    uint32_t *positions = worker->space->missed;
    enum tern_status status = TERN_OK;
    for (size_t i = begin; !status && i < end; i++) {
        if (!store_is_home(store, keys[i])) {
            status = access_add_away(worker->space, i);
            continue;
        }
        memcpy((char *)own_values + n_own * bytes, values + i * bytes, bytes);
        own[n_own] = keys[i];
        positions[n_own++] = (uint32_t)(i - begin);
    }
    if (status)
        return status;
    do_block(worker, store, kind, own, n_own, (char *)own_values);
    for (size_t i = 0; kind == FRAME_PULL && i < n_own; i++)
        memcpy(values + (begin + positions[i]) * bytes, (char *)own_values + i * bytes, bytes);
    return TERN_OK;
}

enum tern_status access_sketch(struct tern_worker *worker, struct tern_table *table,
                               enum frame_kind kind, const uint64_t *keys, size_t n, void *values)
{
    struct store *store = &table->core.store;
    enum tern_status status = TERN_OK;
    worker->space->n_away = 0;
    if (kind == FRAME_SET)
        return fail(TERN_INVALID, "table '%s' is a sketch: counts are pushed, and cannot be set",
                    store->name);
    if (kind == FRAME_PUSH)
        status = store_check_counts(store, keys, n, values);
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS) {
        const size_t block = n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS;
        if (store->home.has)
            status = do_homes(worker, store, kind, keys, done, done + block, values);
        else
            do_block(worker, store, kind, keys + done, block,
                     (char *)values + done * store->value_bytes);
    }
    return status ? status : store_check_lost(store);
}

/* ---- The heaviest keys ------------------------------------------------------------------------------ */

struct heaviest {
    struct top_counter *counters;
    size_t n, most;
};

/* Adds what another node has. */
static enum tern_status ask(struct tern_worker *worker, const struct tern_table *table,
                            uint32_t node, size_t k, struct heaviest *to)
{
    enum { BYTES = 3 * sizeof(uint64_t) };
    const uint32_t limit = (uint32_t)(k < FRAME_MAX_KEYS ? k : FRAME_MAX_KEYS);
    struct op op = {.table = table->core.number, .limit = limit};
    enum tern_status status = engine_call(worker->remote, node, &op, FRAME_TOP);
    if (status)
        return status;
    const size_t bytes = buffer_size(&op.answer_body), n = bytes / BYTES;
    const uint8_t *body = buffer_head(&op.answer_body);
    if (op.answer.kind != FRAME_VALUES || bytes % BYTES || n > limit || n > to->most - to->n)
        status = fail(TERN_PEER, "node %" PRIu32 " sent heaviest keys of %zu bytes", node, bytes);
    for (size_t i = 0; !status && i < n; i++, body += BYTES)
        to->counters[to->n++] = (struct top_counter){
            .key = get_u64(body), .count = get_u64(body + 8), .least = get_u64(body + 16)};
    buffer_free(&op.answer_body);
    return status;
}

/* Gathers the heaviest keys of this node, or of the memory that it shares, and of all others. */
static enum tern_status gather(struct tern_worker *worker, struct tern_table *table, size_t k,
                               struct heaviest *to)
{
    struct store *store = &table->core.store;
    if (!sketch_heaviest(store->sketch, k, to->counters, &to->n, store->watch))
        return store_check_lost(store);
    enum tern_status status = TERN_OK;
    if (worker->remote && !table->segment) {
        const struct core *core = worker->remote->client.core;
        view_each_while (node, core->view, !status)
            if (node != core->node)
                status = ask(worker, table, node, k, to);
    }
    return status;
}

static int64_t capped(uint64_t count)
{
    return count > INT64_MAX ? INT64_MAX : (int64_t)count;
}

enum tern_status tern_top(struct tern_worker *worker, struct tern_table *table, size_t k,
                          uint64_t *keys, int64_t *counts, int64_t *errors, size_t *n)
{
    if (!access_allowed(worker, table, keys, k, counts))
        return access_refuse(worker, table, keys, counts, "counts");
    const struct store *store = &table->core.store;
    if (!n)
        return fail(TERN_INVALID, "table '%s': the pointer `n` is NULL", store->name);
    if (!store->sketch || !store->sketch->n_counters)
        return fail(TERN_INVALID,
                    "table '%s' does not keep its heaviest keys: it has no sketch.counters",
                    store->name);
    enum tern_status status =
        worker->pending ? ticket_wait_for_turn(worker, table, NULL, 0) : TERN_OK;
    if (!status)
        status = access_check_all(worker, table);
    if (status)
        return status;
    struct heaviest found = {.most = (size_t)store->sketch->n_counters *
                                     view_n_nodes(node_view(worker->node))};
    found.counters = malloc(found.most * sizeof *found.counters);
    if (!found.counters)
        return fail(TERN_NO_MEMORY, "no memory for the heaviest keys of table '%s'", store->name);
    status = gather(worker, table, k, &found);
    if (!status) {
        qsort(found.counters, found.n, sizeof *found.counters, top_compare);
        *n = found.n < k ? found.n : k;
        for (size_t i = 0; i < *n; i++) {
            keys[i] = found.counters[i].key;
            counts[i] = capped(found.counters[i].count);
            if (errors)
                errors[i] = capped(found.counters[i].count - found.counters[i].least);
        }
    }
    free(found.counters);
    return status;
}

/* ---- Cells as numbers ------------------------------------------------------------------------------- */

/* Whether n cells from `first` on are cells of a sketch that the worker may use now. */
static enum tern_status check_cells(struct tern_worker *worker, struct tern_table *table,
                                    uint64_t first, size_t n, const int64_t *cells)
{
    if (!access_allowed(worker, table, &first, n, cells))
        return access_refuse(worker, table, &first, cells, "cells");
    const struct sketch *sketch = table->core.store.sketch;
    const char *name = table->core.store.name;
    if (!sketch)
        return fail(TERN_INVALID, "table '%s' has no cells: it is not a sketch", name);
    const uint64_t n_cells = sketch->width * sketch->depth;
    if (first > n_cells || n > n_cells - first)
        return fail(TERN_RANGE,
                    "%zu cells from %" PRIu64 " on are outside table '%s' of %" PRIu64 " cells", n,
                    first, name, n_cells);
    enum tern_status status =
        worker->pending ? ticket_wait_for_turn(worker, table, NULL, 0) : TERN_OK;
    return status ? status : access_check_all(worker, table);
}

enum tern_status tern_sketch_read_cells(struct tern_worker *worker, struct tern_table *table,
                                        uint64_t first, size_t n, int64_t *cells)
{
    enum tern_status status = check_cells(worker, table, first, n, cells);
    if (!status)
        sketch_read(table->core.store.sketch, first, n, cells);
    return status;
}

enum tern_status tern_sketch_add_cells(struct tern_worker *worker, struct tern_table *table,
                                       uint64_t first, size_t n, const int64_t *cells)
{
    enum tern_status status = check_cells(worker, table, first, n, cells);
    if (status)
        return status;
    for (size_t i = 0; i < n; i++)
        if (cells[i] < 0)
            return fail(TERN_INVALID, "table '%s': what is added to cell %" PRIu64 " is negative",
                        table->core.store.name, first + i);
    sketch_merge(table->core.store.sketch, first, n, cells);
    return TERN_OK;
}
