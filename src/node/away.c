/*
 * away - the part of an operation that concerns keys at other nodes. It sends the part there; after a write, the worker
 * continues when it will see what it wrote. See access.h.
 */
#include "node/access.h"

#include "core/technique.h"
#include "node/admit.h"

/* Keys that a read must get from other nodes are wanted here for the next clocks, if the table acts on that. It is a hint:
 * without memory for it they are asked for again. */
static void want_missed(struct tern_worker *worker, const struct tern_table *table,
                        const uint64_t *keys)
{
    enum { BLOCK = 64, CLOCKS = 16 };
    const struct workspace *space = worker->space;
    const uint64_t clock = atomic_load_explicit(&worker->clock, memory_order_relaxed);
    enum intent_kind kind = intent_kind_of(table, BY_MISS);
    uint64_t missed[BLOCK];
    for (size_t done = 0; kind && done < space->n_away; done += BLOCK) {
        size_t n = space->n_away - done < BLOCK ? space->n_away - done : BLOCK;
        for (size_t i = 0; i < n; i++)
            missed[i] = keys[space->away[done + i]];
        (void)intent_add(worker, table, kind, missed, n, clock, clock + CLOCKS);
    }
}

enum tern_status away_start(struct tern_worker *worker, const struct tern_table *table,
                            enum frame_kind kind, const uint64_t *keys, size_t n, void *values,
                            struct op *op)
{
    return away_start_present(worker, table, kind, keys, n, values, NULL, op);
}

/* What the request asks for must be known before the first byte is sent: an answer of another form would break the
 * connection. */
enum tern_status away_start_present(struct tern_worker *worker, const struct tern_table *table,
                                    enum frame_kind kind, const uint64_t *keys, size_t n,
                                    void *values, bool *present, struct op *op)
{
    struct client *client = &worker->remote->client;
    if (kind == FRAME_PULL)
        want_missed(worker, table, keys);
    enum tern_status status = client_start(client, op, kind, &table->core, keys, values,
                                           worker->space->away, worker->space->n_away);
    op->present = status ? NULL : present;
    if (!status)
        op_count(op, n);
    for (uint32_t i = 0; !status && i < client->n_lanes; i++)
        if (client->lanes[i].unsent)
            remote_nudge(worker->remote, &client->lanes[i]);
    return status;
}

enum tern_status away_catch_up(struct tern_worker *worker, const struct op *op)
{
    struct catch_up catch_up = {0};
    enum tern_status status = TERN_OK;
    while (!status && order_catches_up(&catch_up, op, &worker_io, worker))
        status = engine_wait_changes(worker->node->engine);
    return status;
}

/* Has what the worker has written to pinned rows told as if it had unpinned them. */
static void mark_pinned(struct tern_worker *worker, struct tern_table *table, const uint64_t *keys,
                        size_t n)
{
    const struct keymap *pins = &worker->space->pins[table->id];
    void *row;
    for (size_t i = 0; pins->n && i < n; i++)
        if (keymap_get(pins, keys[i]) && !store_pin(&table->core.store, keys[i], &row))
            store_unpin(&table->core.store, keys[i]);
}

/* What was pushed to a replica waits here for a round, but a set may go to the main copy at once. What the worker
 * pushed before, or wrote in place, must be there before. */
enum tern_status away_send_ahead(struct tern_worker *worker, struct tern_table *table,
                                 const uint64_t *keys, size_t n)
{
    const struct store *store = &table->core.store;
    if (!store_sets_at_owner(store) || store_is_homebound(store))
        return TERN_OK;
    enum tern_status status = access_check_keys(store, keys, n);
    if (!status && store_has_replica(store, keys, n)) {
        mark_pinned(worker, table, keys, n);
        status = engine_wait(worker->node->engine);
    }
    return status;
}

/* The outcome of an operation on keys that were at other nodes. */
enum tern_status away_end(struct tern_worker *worker, struct op *op)
{
    enum tern_status status = away_catch_up(worker, op);
    enum tern_status outcome = op_end(op);
    return outcome ? outcome : status;
}
