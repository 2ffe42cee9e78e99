/*
 * access - the public calls on keys: pull, push, set, their asynchronous forms, and pin.
 *
 * A call checks everything first, so that what fails changes nothing: handles and arrays, then every
 * key, then, for what writes, that each key has a row. Only then does it touch values. Keys that are
 * at other nodes are left over from that and go to remote.h; on a node that is alone there are none,
 * and every operation is finished when its start returns.
 */
#include "node/node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "node/alone.h"
#include "node/bound.h"

enum tern_status access_refuse(const struct tern_worker *worker, const struct tern_table *table,
                               const void *keys, const void *values, const char *what)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    if (worker->node != table->node)
        return fail(TERN_MISMATCH, "table '%s' belongs to another node than the worker",
                    table->core.store.name);
    if (!keys)
        return fail(TERN_INVALID, "table '%s': the pointer `keys` is NULL", table->core.store.name);
    if (!values)
        return fail(TERN_INVALID, "table '%s': the pointer `%s` is NULL", table->core.store.name,
                    what);
    return fail(TERN_INVALID, "table '%s': the arguments make no sense", table->core.store.name);
}

/* Names the first key that is outside a dense table. */
static enum tern_status refuse_key(const struct store *store, const uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (keys[i] >= store->n_keys)
            return fail(TERN_RANGE,
                        "key %" PRIu64 " at position %zu is outside table '%s' of %" PRIu64 " keys",
                        keys[i], i, store->name, store->n_keys);
    return TERN_OK;
}

/* Keys of a dense table are below 2^40 (TERN_MAX_DENSE_KEYS), so a key is outside exactly if the top bit
 * of the key itself or of the difference to the last one is set: no comparison, two keys at a time. */
static inline enum tern_status check_keys(const struct store *store, const uint64_t *keys, size_t n)
{
    if (store->index == TERN_SPARSE)
        return TERN_OK;
    uint64_t last_key = store->last_key, outside = 0;
    for (size_t i = 0; i < n; i++)
        outside |= (last_key - keys[i]) | keys[i];
    return outside >> 63 ? refuse_key(store, keys, n) : TERN_OK;
}

/* Makes room to note that n more keys of a call are at other nodes. */
static enum tern_status reserve_away(struct workspace *space, size_t n)
{
    if (space->n_away + n <= space->max_away)
        return TERN_OK;
    size_t max = 2 * space->max_away + BLOCK_KEYS;
    uint32_t *away = realloc(space->away, max * sizeof *away);
    if (!away)
        return fail(TERN_NO_MEMORY, "no memory for a call on more than %zu keys", space->n_away);
    space->away = away;
    space->max_away = max;
    return TERN_OK;
}

/* Notes that the key at `position` of a call is at another node. */
static enum tern_status add_away(struct workspace *space, size_t position)
{
    enum tern_status status = reserve_away(space, 1);
    if (!status)
        space->away[space->n_away++] = (uint32_t)position;
    return status;
}

/* Whether none of n keys can be here. Not a look-up of each: a large call on keys of another node would
 * otherwise keep that node waiting for its first request. */
static bool none_is_here(const struct tern_worker *worker, const struct store *store,
                         const uint64_t *keys, size_t n)
{
    if (!worker->remote || !store_is_homebound(store))
        return false;
    size_t i = 0;
    while (i < n && !store_is_home(store, keys[i]))
        i++;
    return i == n;
}

/* Notes that n keys, from position `begin` on, are at other nodes. There must be room. */
static void add_all_away(struct workspace *space, size_t begin, size_t n)
{
    uint32_t *away = space->away + space->n_away;
    for (size_t i = 0; i < n; i++)
        away[i] = (uint32_t)(begin + i);
    space->n_away += n;
}

/* Reads keys that have no row here: those at home get one, the others are noted as away. */
static enum tern_status pull_missed(struct workspace *space, struct store *store,
                                    const uint64_t *keys, size_t done, char *values,
                                    size_t n_missed)
{
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < n_missed; i++) {
        size_t position = done + space->missed[i];
        bool here = store_is_home(store, keys[position]);
        if (here)
            status = store_pull_new(store, keys[position], values + position * store->value_bytes,
                                    &here);
        if (!status && !here)
            status = add_away(space, position);
    }
    return status;
}

/* Pulls the keys whose rows are here and notes the others. */
static enum tern_status pull_here(struct tern_worker *worker, struct tern_table *table,
                                  const uint64_t *keys, size_t n, char *values)
{
    struct store *store = &table->core.store;
    struct workspace *space = worker->space;
    space->n_away = 0;
    enum tern_status status = check_keys(store, keys, n);
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS) {
        size_t block = n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS;
        if (none_is_here(worker, store, keys + done, block)) {
            status = reserve_away(space, block);
            if (!status)
                add_all_away(space, done, block);
            continue;
        }
        size_t n_missed = store_pull(store, keys + done, block, values + done * store->value_bytes,
                                     space->missed);
        if (__builtin_expect(n_missed != 0, 0))
            status = pull_missed(space, store, keys, done, values, n_missed);
    }
    return status;
}

/* Makes the rows of keys at home here. */
static enum tern_status reserve_rows(struct tern_worker *worker, struct store *store,
                                     const uint64_t *keys, size_t n)
{
    enum tern_status status = TERN_OK;
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS) {
        size_t block = n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS;
        if (!none_is_here(worker, store, keys + done, block))
            status = store_reserve(store, keys + done, block, worker->space->entries);
    }
    return status;
}

/* Writes to the rows of a block of keys, whose entries are found; gives the number of those without one. */
static size_t write_block(struct tern_worker *worker, struct store *store, enum frame_kind kind,
                          const uint64_t *keys, size_t n, const char *values)
{
    static size_t (*const writes[2][2])(struct store *, const uint64_t *, size_t,
                                        struct entry *const *, const void *, uint32_t *) = {
        {store_set, store_set_alone}, {store_push, store_push_alone}};
    struct workspace *space = worker->space;
    bool alone = alone_begin(worker);
    size_t n_missed =
        writes[kind == FRAME_PUSH][alone](store, keys, n, space->entries, values, space->missed);
    alone_end(worker);
    return n_missed;
}

/* Writes to the keys whose rows are, or belong, here and notes the others. */
static enum tern_status write_here(struct tern_worker *worker, struct tern_table *table,
                                   enum frame_kind kind, const uint64_t *keys, size_t n,
                                   const char *values)
{
    struct store *store = &table->core.store;
    struct workspace *space = worker->space;
    space->n_away = 0;
    enum tern_status status = check_keys(store, keys, n);
    /* All rows before any value: then nothing can fail half way. */
    if (!status && n > BLOCK_KEYS)
        status = reserve_rows(worker, store, keys, n);
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS) {
        size_t block = n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS;
        if (none_is_here(worker, store, keys + done, block)) {
            status = reserve_away(space, block);
            if (!status)
                add_all_away(space, done, block);
            continue;
        }
        status = store_reserve(store, keys + done, block, space->entries);
        if (status)
            break;
        size_t n_missed = write_block(worker, store, kind, keys + done, block,
                                      values + done * store->value_bytes);
        for (size_t i = 0; !status && i < n_missed; i++)
            status = add_away(space, done + space->missed[i]);
    }
    return status;
}

/* The same in a table with bounded reads, which may have to wait, and has a row for every key. */
static enum tern_status do_bounded(struct tern_worker *worker, struct tern_table *table,
                                   enum frame_kind kind, const uint64_t *keys, size_t n,
                                   void *values)
{
    enum tern_status status = check_keys(&table->core.store, keys, n);
    if (!status)
        status = bound_before(worker, table, kind, keys, n);
    if (!status)
        status = kind == FRAME_PULL ? pull_here(worker, table, keys, n, values)
                                    : write_here(worker, table, kind, keys, n, values);
    if (!status)
        bound_after(worker, table, kind, keys, n, values);
    return status;
}

/*
 * Of several sets of a key in one call the last one stays. If the key comes or goes meanwhile, some of them are done
 * here, and others would be done at another node later: of those that are left for others, only a key's last one
 * counts, and only if no later one was done here.
 */
static enum tern_status leave_last(struct workspace *space, const uint64_t *keys, size_t n)
{
    struct keymap *last = &space->last;
    if (!keymap_reserve(last, space->n_away))
        return fail(TERN_NO_MEMORY, "no memory for a call on %zu keys", n);
    for (size_t i = 0; i < space->n_away; i++)
        keymap_set(last, keys[space->away[i]], 1);
    for (size_t i = 0; i < n; i++)
        if (keymap_get(last, keys[i]))
            keymap_set(last, keys[i], (uint32_t)i + 1);
    size_t n_left = 0;
    for (size_t i = 0; i < space->n_away; i++) {
        uint32_t position = space->away[i];
        if (keymap_get(last, keys[position]) != position + 1)
            continue;
        keymap_set(last, keys[position], 0);
        space->away[n_left++] = position;
    }
    space->n_away = n_left;
    for (size_t i = 0; last->n && i < n; i++)
        keymap_set(last, keys[i], 0);
    return TERN_OK;
}

static enum tern_status set_here(struct tern_worker *worker, struct tern_table *table,
                                 const uint64_t *keys, size_t n, const char *values)
{
    enum tern_status status = write_here(worker, table, FRAME_SET, keys, n, values);
    if (!status && core_is_managed(&table->core) && n > 1 && worker->space->n_away)
        status = leave_last(worker->space, keys, n);
    return status;
}

/* Who died may have left a row of a table that all nodes share half written. */
static enum tern_status check_neighbours(const struct tern_worker *worker,
                                         const struct tern_table *table)
{
    return table->piece ? engine_check_dead(worker->node->engine) : TERN_OK;
}

/* One of the three operations, as far as it can be done here. */
static enum tern_status do_here(struct tern_worker *worker, struct tern_table *table,
                                enum frame_kind kind, const uint64_t *keys, size_t n, void *values)
{
    if (policy_is_bounded(&table->policy))
        return do_bounded(worker, table, kind, keys, n, values);
    enum tern_status status = check_neighbours(worker, table);
    if (status)
        return status;
    switch (kind) {
    case FRAME_PULL:
        return pull_here(worker, table, keys, n, values);
    case FRAME_PUSH:
        return write_here(worker, table, FRAME_PUSH, keys, n, values);
    default:
        return set_here(worker, table, keys, n, values);
    }
}

static void count_keys(struct tern_worker *worker, const struct tern_table *table,
                       enum frame_kind kind, size_t n)
{
    struct counts *counts = &worker->space->counts[table->id];
    count_add(kind == FRAME_PULL   ? &counts->pulled
              : kind == FRAME_PUSH ? &counts->pushed
                                   : &counts->set,
              n);
    if (!worker->space->n_away)
        return;
    count_add(&counts->remote, worker->space->n_away);
    count_add(&counts->remote_bytes,
              worker->space->n_away * (sizeof(uint64_t) + table->core.store.value_bytes));
}

/* Starts the part of an operation that concerns other nodes. */
static enum tern_status start_away(struct tern_worker *worker, const struct tern_table *table,
                                   enum frame_kind kind, const uint64_t *keys, void *values,
                                   struct op *op)
{
    struct client *client = &worker->remote->client;
    enum tern_status status = client_start(client, op, kind, &table->core, keys, values,
                                           worker->space->away, worker->space->n_away);
    for (uint32_t i = 0; !status && i < client->n_lanes; i++)
        if (client->lanes[i].unsent)
            remote_nudge(worker->remote, &client->lanes[i]);
    return status;
}

/*
 * Keys of a managed table that are at another node when an operation is started may be here when the
 * next one is, which must not overtake it; in a table with replicas of every key, that is so of sets that are
 * done at the main copy. So the keys under way are counted, and an operation on one of them waits until
 * those before it are done. (Keys that tables have in common count as one.)
 */
static bool may_be_overtaken(const struct core_table *table)
{
    return core_is_managed(table) || table->replication;
}

static void count_under_way(struct tern_worker *worker, struct pending *pending, bool counts)
{
    struct keymap *under_way = &worker->space->under_way;
    const struct op *op = &pending->op;
    bool changes = may_be_overtaken(op->of) && pending->is_counted != counts;
    for (size_t i = 0; changes && i < op->n; i++) {
        uint32_t count = keymap_get(under_way, op->sorted[i]);
        keymap_set(under_way, op->sorted[i], counts ? count + 1 : count - 1);
    }
    pending->is_counted = counts;
}

static bool outran_untold(const struct tern_worker *worker, const struct op *op)
{
    struct engine *engine = worker->node->engine;
    bool outran = false;
    for (uint32_t i = 0; !outran && i < op->of->store.n_shards; i++) {
        pthread_mutex_lock(&engine->shards[i].lock);
        outran = op_outran_untold(op, i);
        pthread_mutex_unlock(&engine->shards[i].lock);
    }
    return outran;
}

/* A worker goes on from a write that was done at another node when it will see what it wrote: when all has come
 * that owners had to tell, of replicas that they knew of all the time. (One that is pinned may stay unknown for
 * as long as it is.) */
static enum tern_status catch_up(struct tern_worker *worker, const struct op *op)
{
    enum { MOST_SWEEPS = 16 };
    enum tern_status status = TERN_OK;
    bool waits = op_outran_replicas(op);
    for (int i = 0; !status && waits && i < MOST_SWEEPS; i++) {
        waits = outran_untold(worker, op);
        status = engine_wait_news(worker->node->engine);
        waits |= !status && outran_untold(worker, op);
    }
    return status;
}

static bool is_under_way(const struct tern_worker *worker, const struct tern_table *table,
                         const uint64_t *keys, size_t n)
{
    const struct keymap *under_way = &worker->space->under_way;
    bool found = false;
    for (size_t i = 0; may_be_overtaken(&table->core) && under_way->n && !found && i < n; i++)
        found = keymap_get(under_way, keys[i]);
    return found;
}

static __attribute__((noinline)) enum tern_status wait_for_turn(struct tern_worker *worker,
                                                                const struct tern_table *table,
                                                                const uint64_t *keys, size_t n)
{
    if (!is_under_way(worker, table, keys, n))
        return TERN_OK;
    enum tern_status status = TERN_OK;
    for (struct pending *pending = worker->pending; pending && !status; pending = pending->next) {
        if (!pending->is_counted)
            continue;
        remote_wait(worker->remote, &pending->op, false);
        status = catch_up(worker, &pending->op);
        if (!status)
            count_under_way(worker, pending, false);
    }
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
static enum tern_status send_ahead(struct tern_worker *worker, struct tern_table *table,
                                   enum frame_kind kind, const uint64_t *keys, size_t n)
{
    if (kind != FRAME_SET || !store_sets_at_owner(&table->core.store))
        return TERN_OK;
    if (table->core.replication)
        return engine_wait_news(worker->node->engine);
    const struct store *store = &table->core.store;
    enum tern_status status = check_keys(store, keys, n);
    if (!status && core_is_managed(&table->core) && store_has_replica(store, keys, n)) {
        mark_pinned(worker, table, keys, n);
        status = engine_wait(worker->node->engine);
    }
    return status;
}

/* The outcome of an operation on keys that were at other nodes. */
static enum tern_status end_away(struct tern_worker *worker, struct op *op)
{
    enum tern_status status = op->status ? TERN_OK : catch_up(worker, op);
    enum tern_status outcome = op_end(op);
    return outcome ? outcome : status;
}

/* Takes a turn before an operation that is long beside looking at the clock: keys that have arrived are then
 * found here, and whoever waits for this node does not wait for the end of the worker's step. */
static void drive_before(struct tern_worker *worker, size_t n)
{
    enum { MANY = 64 };
    if (n >= MANY)
        worker_drive(worker);
}

/* An operation from start to end. */
static __attribute__((noinline)) enum tern_status operate(struct tern_worker *worker,
                                                          struct tern_table *table,
                                                          enum frame_kind kind,
                                                          const uint64_t *keys, size_t n,
                                                          void *values)
{
    drive_before(worker, n);
    enum tern_status status =
        worker->pending ? wait_for_turn(worker, table, keys, n) : TERN_OK;
    if (!status)
        status = send_ahead(worker, table, kind, keys, n);
    if (!status)
        status = do_here(worker, table, kind, keys, n, values);
    if (!status && worker->space->n_away) {
        struct op op;
        status = start_away(worker, table, kind, keys, values, &op);
        if (!status) {
            remote_wait(worker->remote, &op, false);
            status = end_away(worker, &op);
        }
    }
    if (!status)
        count_keys(worker, table, kind, n);
    return status;
}

/* Memory for an operation under way, and back: a few are kept, so that none is made on the way. */
static struct pending *take_pending(struct tern_worker *worker)
{
    struct pending *pending = worker->free_pending;
    if (pending)
        worker->free_pending = pending->next;
    else
        pending = malloc(sizeof *pending);
    return pending;
}

static void give_pending(struct tern_worker *worker, struct pending *pending)
{
    pending->next = worker->free_pending;
    worker->free_pending = pending;
}

/* Puts an operation that was started under the next ticket. */
static void add_pending(struct tern_worker *worker, struct pending *pending)
{
    pending->is_counted = false;
    count_under_way(worker, pending, true);
    atomic_fetch_add_explicit(&pending->table->n_under_way, 1, memory_order_relaxed);
    pending->ticket = worker->last_ticket + 1;
    pending->next = NULL;
    pending->before = worker->last_pending;
    if (worker->last_pending)
        worker->last_pending->next = pending;
    else
        worker->pending = pending;
    worker->last_pending = pending;
}

/* Starts what is left to do for other nodes. */
static enum tern_status start_pending(struct tern_worker *worker, struct tern_table *table,
                                      enum frame_kind kind, const uint64_t *keys, void *values)
{
    bool has_room = !may_be_overtaken(&table->core) ||
                    keymap_reserve(&worker->space->under_way, worker->space->n_away);
    struct pending *pending = has_room ? take_pending(worker) : NULL;
    if (!pending)
        return fail(TERN_NO_MEMORY, "no memory for an operation under way");
    pending->table = table;
    enum tern_status status = start_away(worker, table, kind, keys, values, &pending->op);
    if (status)
        give_pending(worker, pending);
    else
        add_pending(worker, pending);
    return status;
}

/* An operation that is started now; what is left to do for other nodes waits under its ticket. */
static enum tern_status operate_start(struct tern_worker *worker, struct tern_table *table,
                                      enum frame_kind kind, const uint64_t *keys, size_t n,
                                      void *values, uint64_t *ticket)
{
    if (!ticket)
        return fail(TERN_INVALID, "the pointer `ticket` for the result is NULL");
    drive_before(worker, n);
    enum tern_status status =
        worker->pending ? wait_for_turn(worker, table, keys, n) : TERN_OK;
    if (!status)
        status = send_ahead(worker, table, kind, keys, n);
    if (!status)
        status = do_here(worker, table, kind, keys, n, values);
    if (!status && worker->space->n_away)
        status = start_pending(worker, table, kind, keys, values);
    if (status)
        return status;
    count_keys(worker, table, kind, n);
    *ticket = ++worker->last_ticket;
    return TERN_OK;
}

/*
 * A call on a single key goes straight to its row, in as few instructions as possible. While one waits
 * for memory the processor begins those that follow, but it looks only some hundred instructions ahead.
 */
static inline bool goes_straight(const struct tern_worker *worker, const struct tern_table *table,
                                 const uint64_t *keys, size_t n, const void *values)
{
    return n == 1 && access_allowed(worker, table, keys, 1, values) &&
           keys[0] < atomic_load_explicit(&table->n_straight, memory_order_relaxed) &&
           !worker->pending;
}

/* What such a call needs if the key is not here after all. It is put aside in memory: registers that
 * outlive the look-up would have to be saved, set and restored, needed or not. */
struct call {
    struct tern_worker *worker;
    struct tern_table *table;
    const uint64_t *keys;
    void *values;
};

static inline void put_aside(volatile struct call *call, struct tern_worker *worker,
                             struct tern_table *table, const uint64_t *keys, void *values)
{
    call->worker = worker;
    call->table = table;
    call->keys = keys;
    call->values = values;
}

static __attribute__((noinline)) enum tern_status check_and_pull(struct tern_worker *worker,
                                                                 struct tern_table *table,
                                                                 const uint64_t *keys, size_t n,
                                                                 void *values)
{
    if (!access_allowed(worker, table, keys, n, values))
        return access_refuse(worker, table, keys, values, "values");
    return operate(worker, table, FRAME_PULL, keys, n, values);
}

enum tern_status tern_pull(struct tern_worker *worker, struct tern_table *table,
                           const uint64_t *keys, size_t n, void *values)
{
    if (!goes_straight(worker, table, keys, n, values))
        return check_and_pull(worker, table, keys, n, values);
    volatile struct call call;
    put_aside(&call, worker, table, keys, values);
    _Atomic uint64_t *counter = &worker->space->counts[table->id].pulled;
    if (__builtin_expect(!store_pull_one(&table->core.store, keys[0], values), 0))
        return operate(call.worker, call.table, FRAME_PULL, call.keys, 1, call.values);
    count_add(counter, 1);
    return TERN_OK;
}

static __attribute__((noinline)) enum tern_status check_and_push(struct tern_worker *worker,
                                                                 struct tern_table *table,
                                                                 const uint64_t *keys, size_t n,
                                                                 void *updates)
{
    if (!access_allowed(worker, table, keys, n, updates))
        return access_refuse(worker, table, keys, updates, "updates");
    return operate(worker, table, FRAME_PUSH, keys, n, updates);
}

enum tern_status tern_push(struct tern_worker *worker, struct tern_table *table,
                           const uint64_t *keys, size_t n, const void *updates)
{
    void *values = (void *)(uintptr_t)updates;
    if (!goes_straight(worker, table, keys, n, values))
        return check_and_push(worker, table, keys, n, values);
    volatile struct call call;
    put_aside(&call, worker, table, keys, values);
    _Atomic uint64_t *counter = &worker->space->counts[table->id].pushed;
    bool done = alone_begin(worker) ? store_push_one_alone(&table->core.store, keys[0], values)
                                    : store_push_one(&table->core.store, keys[0], values);
    alone_end(call.worker);
    if (__builtin_expect(!done, 0))
        return operate(call.worker, call.table, FRAME_PUSH, call.keys, 1, call.values);
    count_add(counter, 1);
    return TERN_OK;
}

enum tern_status tern_set(struct tern_worker *worker, struct tern_table *table,
                          const uint64_t *keys, size_t n, const void *values)
{
    if (!access_allowed(worker, table, keys, n, values))
        return access_refuse(worker, table, keys, values, "values");
    return operate(worker, table, FRAME_SET, keys, n, (void *)(uintptr_t)values);
}

enum tern_status tern_pull_start(struct tern_worker *worker, struct tern_table *table,
                                 const uint64_t *keys, size_t n, void *values, uint64_t *ticket)
{
    if (!access_allowed(worker, table, keys, n, values))
        return access_refuse(worker, table, keys, values, "values");
    return operate_start(worker, table, FRAME_PULL, keys, n, values, ticket);
}

enum tern_status tern_push_start(struct tern_worker *worker, struct tern_table *table,
                                 const uint64_t *keys, size_t n, const void *updates,
                                 uint64_t *ticket)
{
    if (!access_allowed(worker, table, keys, n, updates))
        return access_refuse(worker, table, keys, updates, "updates");
    return operate_start(worker, table, FRAME_PUSH, keys, n, (void *)(uintptr_t)updates, ticket);
}

enum tern_status tern_set_start(struct tern_worker *worker, struct tern_table *table,
                                const uint64_t *keys, size_t n, const void *values,
                                uint64_t *ticket)
{
    if (!access_allowed(worker, table, keys, n, values))
        return access_refuse(worker, table, keys, values, "values");
    return operate_start(worker, table, FRAME_SET, keys, n, (void *)(uintptr_t)values, ticket);
}

/* The operation with this ticket; NULL if it is finished. The list is searched from the end that is nearer. */
static struct pending *find_pending(const struct tern_worker *worker, uint64_t ticket)
{
    struct pending *first = worker->pending, *last = worker->last_pending;
    if (!first || ticket < first->ticket || ticket > last->ticket)
        return NULL;
    bool forwards = ticket - first->ticket < last->ticket - ticket;
    struct pending *pending = forwards ? first : last;
    while (forwards && pending->ticket < ticket)
        pending = pending->next;
    while (!forwards && pending->ticket > ticket)
        pending = pending->before;
    return pending->ticket == ticket ? pending : NULL;
}

/* Takes a finished operation out of the list and gives its outcome. */
static enum tern_status end_pending(struct tern_worker *worker, struct pending *pending)
{
    *(pending->before ? &pending->before->next : &worker->pending) = pending->next;
    *(pending->next ? &pending->next->before : &worker->last_pending) = pending->before;
    bool is_behind = pending->is_counted; /* else it was waited for already */
    count_under_way(worker, pending, false);
    enum tern_status status = is_behind ? end_away(worker, &pending->op) : op_end(&pending->op);
    atomic_fetch_sub_explicit(&pending->table->n_under_way, 1, memory_order_release);
    give_pending(worker, pending);
    return status;
}

static enum tern_status check_ticket(const struct tern_worker *worker, uint64_t ticket)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    if (!ticket || ticket > worker->last_ticket)
        return fail(TERN_INVALID, "ticket %" PRIu64 " was not given out by this worker", ticket);
    return TERN_OK;
}

enum tern_status tern_wait(struct tern_worker *worker, uint64_t ticket)
{
    enum tern_status status = check_ticket(worker, ticket);
    if (status)
        return status;
    struct pending *pending = find_pending(worker, ticket);
    if (!pending)
        return TERN_OK;
    remote_wait(worker->remote, &pending->op, false);
    return end_pending(worker, pending);
}

enum tern_status tern_test(struct tern_worker *worker, uint64_t ticket, bool *done)
{
    if (!done)
        return fail(TERN_INVALID, "tern_test: the pointer `done` is NULL");
    enum tern_status status = check_ticket(worker, ticket);
    if (status)
        return status;
    struct pending *pending = find_pending(worker, ticket);
    if (pending && !op_is_done(&pending->op))
        remote_progress(worker->remote);
    bool finished = !pending || op_is_done(&pending->op);
    if (pending && finished)
        status = end_pending(worker, pending);
    if (!status)
        *done = finished;
    return status;
}

void access_finish_all(struct tern_worker *worker)
{
    while (worker->pending) {
        remote_wait(worker->remote, &worker->pending->op, false);
        end_pending(worker, worker->pending);
    }
    for (struct pending *pending = worker->free_pending, *next; pending; pending = next) {
        next = pending->next;
        free(pending);
    }
    worker->free_pending = NULL;
}

/* ---- Direct use ---------------------------------------------------------------------------------- */

/* Ends the pins of the first n keys. */
static void unpin_all(struct store *store, const uint64_t *keys, size_t n)
{
    while (n-- > 0)
        store_unpin(store, keys[n]);
}

/* Adds a pin of the worker's, for which there is room. */
static void note_pin(struct keymap *pins, uint64_t key)
{
    keymap_set(pins, key, keymap_get(pins, key) + 1);
}

/* Takes a pin of the worker's; false if it has none of this key. */
static bool forget_pin(struct keymap *pins, uint64_t key)
{
    uint32_t count = keymap_get(pins, key);
    if (count)
        keymap_set(pins, key, count - 1);
    return count;
}

enum tern_status tern_pin(struct tern_worker *worker, struct tern_table *table,
                          const uint64_t *keys, size_t n, void **rows)
{
    if (!access_allowed(worker, table, keys, n, rows))
        return access_refuse(worker, table, keys, rows, "rows");
    struct store *store = &table->core.store;
    if (policy_is_bounded(&table->policy))
        return fail(TERN_INVALID,
                    "table '%s': rows cannot be pinned under policy '%s', which looks at every read",
                    store->name, table->policy.name);
    struct keymap *pins = &worker->space->pins[table->id];
    enum tern_status status = check_keys(store, keys, n);
    if (!status)
        status = check_neighbours(worker, table);
    if (!status && !keymap_reserve(pins, n))
        status = fail(TERN_NO_MEMORY, "no memory to pin %zu rows of table '%s'", n, store->name);
    if (!status)
        status = reserve_rows(worker, store, keys, n);
    for (size_t i = 0; !status && i < n; i++) {
        status = store_pin(store, keys[i], &rows[i]);
        if (!status && !rows[i])
            status = fail(TERN_INVALID, "key %" PRIu64 " of table '%s' is at another node%s",
                          keys[i], store->name,
                          store->updater.apply ? ", where its updater runs" : "");
        if (status)
            unpin_all(store, keys, i);
    }
    if (status)
        return status;
    for (size_t i = 0; i < n; i++)
        note_pin(pins, keys[i]);
    worker->n_pins += n;
    count_add(&worker->space->counts[table->id].pinned, n);
    return TERN_OK;
}

enum tern_status tern_unpin(struct tern_worker *worker, struct tern_table *table,
                            const uint64_t *keys, size_t n)
{
    if (!access_allowed(worker, table, keys, n, keys))
        return access_refuse(worker, table, keys, keys, "keys");
    struct store *store = &table->core.store;
    struct keymap *pins = &worker->space->pins[table->id];
    enum tern_status status = check_keys(store, keys, n);
    if (status)
        return status;
    for (size_t i = 0; i < n; i++) {
        if (forget_pin(pins, keys[i]))
            continue;
        uint64_t key = keys[i];
        while (i-- > 0)
            note_pin(pins, keys[i]);
        return fail(TERN_INVALID, "key %" PRIu64 " of table '%s' is not pinned by this worker", key,
                    store->name);
    }
    unpin_all(store, keys, n);
    worker->n_pins -= n;
    return TERN_OK;
}

/* The table whose rows are pinned stays open meanwhile. */
static struct store *pinned_store(struct tern_node *node, size_t id)
{
    pthread_mutex_lock(&node->lock);
    struct store *store = &node->tables[id]->core.store;
    pthread_mutex_unlock(&node->lock);
    return store;
}

void access_unpin_all(struct tern_worker *worker)
{
    for (size_t id = 0; worker->n_pins && id < TERN_MAX_TABLES; id++) {
        struct keymap *pins = &worker->space->pins[id];
        struct store *store = pins->n ? pinned_store(worker->node, id) : NULL;
        for (size_t i = 0; store && i <= pins->mask; i++)
            for (uint32_t left = pins->cells[i].value; left > 0; left--) {
                store_unpin(store, pins->cells[i].key);
                worker->n_pins--;
            }
        keymap_free(pins);
    }
}
