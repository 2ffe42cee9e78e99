/*
 * checkpoint_restore - rows back into a table. See checkpoint.h.
 *
 * Each node reads all parts of the table and takes the rows whose main copies it has. Where every node has every row, it
 * takes all rows; of a table that n processes share, each process takes every n-th part. Nothing is sent. Each part is compared
 * with its hash by one of the nodes, before any row is replaced. Layers come one after the other, at all nodes together. In the
 * end the nodes add up what they have taken: each row of the parts once.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "node/checkpoint.h"
#include "store/rows.h"

enum { BLOCK_BYTES = 4 << 20 };

struct restoring {
    struct tern_table *table;
    const struct tern_checkpoint *checkpoint;
    struct meeting meeting;
    bool everywhere; /* every node has every row */
    size_t n_block;  /* rows read at a time */
    uint64_t *keys;
    char *values, *states;
    uint64_t n_taken; /* main copies */
};

/* ---- Before any row is replaced ----------------------------------------------------------------- */

static const char *type_of(enum tern_type type)
{
    return part_type_name(part_type_of(type));
}

enum tern_status checkpoint_check_shape(const struct tern_table *table,
                                        const struct manifest_table *listed)
{
    const struct store *store = &table->core.store;
    const char *name = store->name;
    const char *updater = table->options.updater.name ? table->updater_name : "add";
    if (store->index != listed->index)
        return fail(TERN_MISMATCH, "table '%s' is %s in the checkpoint", name,
                    listed->index == TERN_DENSE    ? "dense"
                    : listed->index == TERN_SKETCH ? "a sketch"
                                                   : "sparse");
    if (store->type != listed->type || store->length != listed->length)
        return fail(
            TERN_MISMATCH,
            "table '%s' has values of %" PRIu32 " %s, those of the checkpoint are %" PRIu64 " %s",
            name, store->length, type_of(store->type), listed->length, type_of(listed->type));
    if (store->index == TERN_DENSE && store->n_keys != listed->n_keys)
        return fail(TERN_MISMATCH,
                    "table '%s' has %" PRIu64 " keys, and %" PRIu64 " in the checkpoint", name,
                    store->n_keys, listed->n_keys);
    if (strcmp(updater, listed->updater) != 0 ||
        rows_state_bytes(store) != listed->n_state * type_bytes(store->type))
        return fail(TERN_MISMATCH, "table '%s' has updater '%s', and '%s' in the checkpoint", name,
                    updater, listed->updater);
    return TERN_OK;
}

/* Whether a part is there and is what it should be; its hash, if that is this node's to compare. */
static enum tern_status check_part(const struct restoring *r, size_t part)
{
    struct part_reader reader;
    enum tern_status status = reader_open(r->checkpoint, part, &reader);
    if (status)
        return status;
    reader_close(&reader);
    return part % r->meeting.n == r->meeting.rank
               ? files_check(r->checkpoint->path, &r->checkpoint->manifest->parts[part])
               : TERN_OK;
}

static enum tern_status check_all(struct restoring *r, size_t table)
{
    const struct manifest *manifest = r->checkpoint->manifest;
    enum tern_status status = checkpoint_check_shape(r->table, &manifest->tables[table]);
    for (size_t i = 0; !status && i < manifest->n_parts; i++)
        if (manifest->parts[i].table == table)
            status = check_part(r, i);
    return status;
}

/* ---- Rows --------------------------------------------------------------------------------------- */

static enum tern_status put_block(struct restoring *r, size_t n)
{
    struct store *store = &r->table->core.store;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < n; i++) {
        const uint64_t key = r->keys[i];
        if (key > store->last_key)
            return fail(TERN_INVALID,
                        "the checkpoint has key %" PRIu64 ", which table '%s' cannot "
                        "have",
                        key, store->name);
        const bool is_main = rows_is_main(store, key);
        r->n_taken += is_main;
        if (is_main || r->everywhere)
            status = rows_put(store, key, r->values + i * store->value_bytes,
                              r->states + i * rows_state_bytes(store), r->everywhere);
    }
    return status;
}

static enum tern_status put_part(struct restoring *r, size_t part)
{
    struct part_reader reader;
    const uint64_t n_rows = r->checkpoint->manifest->parts[part].n_rows;
    enum tern_status status = reader_open(r->checkpoint, part, &reader);
    if (status)
        return status;
    for (uint64_t at = 0; !status && at < n_rows; at += r->n_block) {
        const size_t n = n_rows - at < r->n_block ? (size_t)(n_rows - at) : r->n_block;
        status = reader_rows(&reader, at, n, r->keys, r->values, r->states);
        if (!status)
            status = put_block(r, n);
    }
    reader_close(&reader);
    return status;
}

static enum tern_status make_room(struct restoring *r)
{
    const struct store *store = &r->table->core.store;
    const size_t row_bytes = sizeof *r->keys + store->value_bytes + rows_state_bytes(store);
    r->n_block = row_bytes < BLOCK_BYTES ? BLOCK_BYTES / row_bytes : 1;
    r->keys = malloc(r->n_block * sizeof *r->keys);
    r->values = malloc(r->n_block * store->value_bytes);
    r->states = malloc(r->n_block * rows_state_bytes(store) + 1);
    return r->keys && r->values && r->states
               ? TERN_OK
               : fail(TERN_NO_MEMORY, "no memory to restore table '%s'", store->name);
}

static enum tern_status put_layer(struct restoring *r, size_t table, uint64_t layer)
{
    const struct manifest *manifest = r->checkpoint->manifest;
    const struct rows_share share = table_share(r->table);
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < manifest->n_parts; i++)
        if (manifest->parts[i].table == table && manifest->parts[i].layer == layer &&
            i % share.n == share.i)
            status = put_part(r, i);
    return status;
}

static enum tern_status put_all(struct restoring *r, size_t table)
{
    const struct manifest *manifest = r->checkpoint->manifest;
    enum tern_status status = checkpoint_agree(r->table->node, make_room(r));
    for (uint64_t layer = 0; !status && (layer = layers_next(manifest, table, layer)) != UINT64_MAX;
         layer++)
        status = checkpoint_agree(r->table->node, put_layer(r, table, layer));
    return status;
}

/* Whether all nodes together have taken each row of the table's parts once. */
static enum tern_status check_count(struct tern_node *node, const struct restoring *r, size_t table)
{
    const struct manifest *manifest = r->checkpoint->manifest;
    int64_t n_taken = (int64_t)r->n_taken;
    uint64_t n_rows = 0;
    for (size_t i = 0; i < manifest->n_parts; i++)
        if (manifest->parts[i].table == table)
            n_rows += manifest->parts[i].n_rows;
    enum tern_status status = tern_all_reduce(node, TERN_I64, 1, &n_taken);
    if (!status && (uint64_t)n_taken != n_rows)
        status =
            fail(TERN_BUSY,
                 "table '%s': %" PRId64 " of %" PRIu64 " rows found their place; a worker used "
                 "the table meanwhile",
                 r->table->core.store.name, n_taken, n_rows);
    return status;
}

enum tern_status tern_checkpoint_restore(struct tern_table *table,
                                         struct tern_checkpoint *checkpoint)
{
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    if (!handle_is((const struct handle *)checkpoint, HANDLE_CHECKPOINT))
        return handle_refuse((const struct handle *)checkpoint, HANDLE_CHECKPOINT);
    struct tern_node *node = table->node;
    const struct manifest *manifest = checkpoint->manifest;
    struct restoring r = {.table = table, .checkpoint = checkpoint};
    r.everywhere = table->core.store.home.rows_everywhere && !table->is_admitted;
    const size_t place = manifest_find(manifest, table->core.store.name);
    enum tern_status status = meeting_begin(node, &r.meeting);
    if (status)
        return status;
    if (place == manifest->n_tables)
        status = fail(TERN_MISMATCH, "checkpoint '%s' has no table '%s'", checkpoint->path,
                      table->core.store.name);
    if (!status)
        status = check_all(&r, place);
    status = checkpoint_agree(node, status);
    if (!status)
        status = tern_quiesce(node);
    if (!status)
        status = checkpoint_agree(node, meeting_check(node, &r.meeting));
    const bool is_sketch = table->core.store.sketch;
    if (!status)
        status =
            is_sketch ? sketch_restore(table, checkpoint, place, &r.meeting) : put_all(&r, place);
    if (!status)
        status = checkpoint_agree(node, meeting_check(node, &r.meeting));
    if (!status && !is_sketch)
        status = check_count(node, &r, place);
    if (!status)
        status = tern_quiesce(node);
    free(r.keys);
    free(r.values);
    free(r.states);
    return status;
}

/* ---- Clocks ------------------------------------------------------------------------------------- */

enum tern_status tern_checkpoint_restore_clock(struct tern_worker *worker,
                                               struct tern_checkpoint *checkpoint)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    struct tern_checkpoint_info info = {.struct_size = sizeof info};
    enum tern_status status = tern_checkpoint_get_info(checkpoint, &info);
    if (status)
        return status;
    const uint64_t clock = atomic_load_explicit(&worker->clock, memory_order_relaxed);
    if (clock)
        return fail(TERN_INVALID,
                    "the worker is at clock %" PRIu64
                    " already; restore the clock of one that was just opened",
                    clock);
    if (info.lowest_clock > INT64_MAX)
        return fail(TERN_INVALID, "checkpoint '%s' has a clock of %" PRIu64 ", which none can be",
                    checkpoint->path, info.lowest_clock);
    if (!info.lowest_clock)
        return TERN_OK;
    /* The last step is one like any other, so that everybody hears of it. */
    atomic_store_explicit(&worker->clock, info.lowest_clock - 1, memory_order_relaxed);
    return tern_worker_advance(worker, NULL);
}
