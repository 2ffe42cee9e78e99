/* worker - see worker.h. */
#include "sim/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "core/counting.h"
#include "core/defect.h"
#include "sim/bounds.h"
#include "sim/graph_check.h"
#include "store/evict.h"

#define US UINT64_C(1000)

enum {
    REST_US = 1500,
    HOT_KEYS = 8,
    HOTTEST_KEYS = 3, /* so that workers of a node use the same replicas at the same time */
    STEPS_PER_PLAN = 2,
    STEPS_PER_SAMPLE = 5,
    STEPS_PER_DRAW = 4,
    DRAWS_PER_FAILURE = 8,
    STEPS_PER_CLOSE = 30,
    STEPS_PER_REST = 20,
    STEPS_PER_SWEEP = 8,
    STRAGGLER = 6, /* times as slow */
    RESTS_EARLY = 4,
    MISSED_CLOCKS = 4,
};

static uint64_t below(const struct worker *worker, uint64_t n)
{
    return rand_below(sim_random(worker->sim_node->sim), n);
}

/* ---- What a worker does next ------------------------------------------------------------------ */

/* A worker that rests only reads; where reads are bounded, what it reads is still promised. */
static enum sim_table choose_table(const struct worker *worker)
{
    static const enum sim_table tables[] = {
        DENSE_COUNTS,   SPARSE_COUNTS,  REPLICA_COUNTS, ADAPTIVE_COUNTS, ADAPTIVE_COUNTS,
        MANAGED_COUNTS, MANAGED_COUNTS, UPDATED_COUNTS, LAST_VALUES,     LAST_VALUES,
        BOUNDED_COUNTS, BOUNDED_COUNTS, LIMITED_COUNTS, LIMITED_COUNTS,  GRAPH_COUNTS,
        GRAPH_COUNTS,   GRAPH_COUNTS,
    };
    if (worker->rests)
        return below(worker, 2) ? BOUNDED_COUNTS : LIMITED_COUNTS;
    return tables[below(worker, sizeof tables / sizeof *tables)];
}

static size_t choose_n(const struct worker *worker)
{
    uint64_t draw = below(worker, 10);
    return draw < 5 ? 1 : draw < 8 ? 2 + below(worker, 3) : 1 + below(worker, MAX_KEYS);
}

static enum frame_kind choose_kind(const struct worker *worker, enum sim_table table)
{
    bool writes = below(worker, 10) < 5 && !worker->rests;
    if (table != LAST_VALUES)
        return writes ? FRAME_PUSH : FRAME_PULL;
    if (!writes || worker->index >= KEYS)
        return FRAME_PULL;
    /* What is pushed through an updater is not seen before its round. */
    return below(worker, 3) || tables_updated(&worker->sim_node->check->tables, table) ? FRAME_SET
                                                                                       : FRAME_PUSH;
}

static uint32_t choose_index(const struct worker *worker, enum sim_table table, bool writes)
{
    const uint32_t n_workers = worker->sim_node->check->n_workers;
    uint32_t index;
    if (table == LAST_VALUES && writes) {
        uint32_t n_own = (KEYS - 1 - worker->index) / n_workers + 1;
        return worker->index + n_workers * (uint32_t)below(worker, n_own);
    }
    if (table == GRAPH_COUNTS && below(worker, 4))
        return (uint32_t)below(worker, HOTTEST_KEYS);
    if (below(worker, 2) && plans_choose(&worker->plans, table, &index))
        return index;
    return (uint32_t)below(worker, below(worker, 2) ? HOT_KEYS : KEYS);
}

static const struct link *link_of(const struct worker *worker, const struct slot *slot, size_t i)
{
    const struct core *core = worker->sim_node->core;
    const struct store *store = &worker->sim_node->tables[slot->operation.table].store;
    const struct core_table *table = &worker->sim_node->tables[slot->operation.table];
    uint32_t node = core_home(core_for(core, table), store, slot->keys[i]);
    return &worker->caller.lanes.links[node * core->n_shards + store_shard(store, slot->keys[i])];
}

static void free_slot(struct slot *slot)
{
    free(slot->operation.values);
    free(slot->operation.bounds);
    *slot = (struct slot){.used = false};
}

/* Chooses the keys of an earlier operation, in tables whose lists of keys may be named. False: this time others. */
static bool choose_again(struct worker *worker, struct slot *slot, enum sim_table *table, size_t *n)
{
    if (!worker->sim_node->check->tables.filters || worker->rests || !worker->again.n ||
        below(worker, 4))
        return false;
    *table = worker->again.table;
    *n = worker->again.n;
    slot->kind = choose_kind(worker, *table);
    memcpy(slot->indexes, worker->again.indexes, sizeof slot->indexes);
    return true;
}

static void note_again(struct worker *worker, const struct slot *slot, enum sim_table table,
                       size_t n)
{
    if (n <= MAX_KEYS / 2 || table == LAST_VALUES)
        return;
    worker->again.table = table;
    worker->again.n = n;
    memcpy(worker->again.indexes, slot->indexes, sizeof slot->indexes);
}

/* Chooses keys, and what is done to them. */
static void choose_keys(struct worker *worker, struct slot *slot, enum sim_table *table, size_t *n)
{
    if (choose_again(worker, slot, table, n))
        return;
    *table = choose_table(worker);
    *n = choose_n(worker);
    slot->kind = choose_kind(worker, *table);
    for (size_t i = 0; i < *n; i++)
        slot->indexes[i] = choose_index(worker, *table, slot->kind != FRAME_PULL);
    note_again(worker, slot, *table, *n);
}

/* The same with keys of a sample; false if there is none, or if they are given back at once, as they are
 * when there is no memory to pull them. */
static bool choose_drawn_keys(struct worker *worker, struct slot *slot, enum sim_table *table,
                              size_t *n)
{
    struct open_sample *drawn =
        sample_check_take(&worker->samples, table, slot->indexes, slot->keys, n);
    if (!drawn)
        return false;
    if (below(worker, DRAWS_PER_FAILURE) == 0) {
        sample_check_return(drawn, slot->keys, *n);
        return false;
    }
    slot->kind = below(worker, 3) ? FRAME_PULL : FRAME_PUSH;
    if (slot->kind == FRAME_PULL)
        slot->drawn = drawn;
    else
        sample_check_used(&worker->samples, drawn);
    return true;
}

/* Chooses an operation; false when memory runs out. */
static bool fill_slot(struct worker *worker, struct slot *slot)
{
    enum sim_table table;
    size_t n;
    if (worker->rests || below(worker, STEPS_PER_DRAW) ||
        !choose_drawn_keys(worker, slot, &table, &n))
        choose_keys(worker, slot, &table, &n);
    const size_t bytes =
        n * tables_length(&worker->sim_node->check->tables, table) * sizeof(int64_t);
    slot->used = true;
    slot->operation = (struct operation){.worker = worker->index,
                                         .number = worker->n_started++,
                                         .table = table,
                                         .n = n,
                                         .indexes = slot->indexes,
                                         .values = malloc(bytes),
                                         .bounds = malloc(bytes),
                                         .copies = slot->copies,
                                         .mains = slot->mains,
                                         .was_away = slot->was_away};
    for (size_t i = 0; i < n; i++) {
        slot->keys[i] = table_key(table, slot->indexes[i]);
        slot->resumed[i] = link_of(worker, slot, i)->n_resumed;
    }
    if (!slot->operation.values || !slot->operation.bounds)
        return false;
    if (slot->kind != FRAME_PULL && table != LAST_VALUES)
        check_fill(worker->sim_node->check, &slot->operation);
    return true;
}

/* ---- One operation ---------------------------------------------------------------------------- */

static bool is_managed(const struct worker *worker, const struct slot *slot)
{
    return tables_managed(&worker->sim_node->check->tables, slot->operation.table);
}

/* Notes which keys have replicas here, just before they are used. */
static void note_replicas(const struct worker *worker, struct slot *slot)
{
    const struct core_table *table = &worker->sim_node->tables[slot->operation.table];
    const struct store *store = &table->store;
    const struct counting *counting = table->technique->counting;
    for (size_t i = 0; counting && i < slot->operation.n; i++)
        if (slot->kind == FRAME_PULL && counting->has_replica(table, slot->keys[i]))
            slot->copies[i] = USED_REPLICA;
    for (size_t i = 0; !store_is_homebound(store) && i < slot->operation.n; i++) {
        bool is_replica = !store_may_be_asked(store, slot->keys[i]);
        if (is_managed(worker, slot))
            sim_node_has(worker->sim_node, slot->operation.table, slot->indexes[i], &is_replica);
        slot->copies[i] = is_replica ? USED_REPLICA : USED_MAIN;
    }
}

static enum tern_status pull_here(struct slot *slot, struct store *store)
{
    uint32_t missed[MAX_KEYS];
    size_t n_missed =
        store_pull(store, slot->keys, slot->operation.n, slot->operation.values, missed);
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < n_missed; i++) {
        uint64_t key = slot->keys[missed[i]];
        char *value = (char *)slot->operation.values + missed[i] * store->value_bytes;
        bool here = store_is_home(store, key);
        if (here)
            status = store_pull_new(store, key, value, &here);
        if (!here)
            slot->away[slot->n_away++] = missed[i];
    }
    return status;
}

/* Sets what can be set at this node. Which copy the other keys use is known at the end, if they are sent at all. */
static enum tern_status set_here(struct order *order, struct slot *slot, struct core_table *table,
                                 struct entry **entries)
{
    const size_t n = slot->operation.n;
    slot->n_away =
        store_set(&table->store, slot->keys, n, entries, slot->operation.values, slot->away);
    for (size_t i = 0; i < slot->n_away; i++)
        slot->copies[slot->away[i]] = USED_EITHER;
    return order_leave_last(order, table, slot->keys, n, slot->away, &slot->n_away);
}

/* The same in a table whose rows count their updates. */
static enum tern_status do_counted(struct slot *slot, struct core_table *table)
{
    const struct counting *counting = table->technique->counting;
    const size_t n = slot->operation.n, size = table->store.value_bytes;
    struct entry *entries[MAX_KEYS];
    char *values = (char *)slot->operation.values;
    if (slot->kind == FRAME_PULL) {
        enum tern_status status = pull_here(slot, &table->store);
        slot->n_away =
            counting->read_unchecked(table, slot->keys, slot->away, slot->n_away, values);
        return status;
    }
    enum tern_status status = store_reserve(&table->store, slot->keys, n, entries);
    if (!status)
        status = counting->reserve(table, slot->keys, n);
    for (size_t i = 0; !status && i < n; i++) {
        if (!store_is_home(&table->store, slot->keys[i]) ||
            !counting->write(table, slot->kind, slot->keys[i], values + i * size))
            slot->away[slot->n_away++] = (uint32_t)i;
    }
    return status;
}

/* The same of a sketch, whose counts are where its keys are at home. */
static void do_sketch(struct slot *slot, struct store *store)
{
    for (size_t i = 0; i < slot->operation.n; i++) {
        int64_t *value = &slot->operation.values[i];
        if (!store_is_home(store, slot->keys[i]))
            slot->away[slot->n_away++] = (uint32_t)i;
        else if (slot->kind == FRAME_PULL)
            sketch_estimate(store->sketch, &slot->keys[i], 1, value);
        else
            sketch_add(store->sketch, &slot->keys[i], 1, value, true, store->watch);
    }
}

/* Pushes to the keys at home here that have no row, where that can be; the others are elsewhere. */
static enum tern_status push_missed(struct slot *slot, struct store *store)
{
    const size_t n_missed = slot->n_away;
    enum tern_status status = TERN_OK;
    slot->n_away = 0;
    for (size_t i = 0; !status && i < n_missed; i++) {
        const uint32_t at = slot->away[i];
        const char *value = (const char *)slot->operation.values + at * store->value_bytes;
        bool here = store_may_miss(store, true) && store_is_home(store, slot->keys[at]);
        if (here)
            status = store_push_new(store, slot->keys[at], value, &here);
        if (!here)
            slot->away[slot->n_away++] = at;
    }
    return status;
}

/* Does what can be done at this node; notes the positions of the other keys. */
static enum tern_status do_here(struct order *order, struct slot *slot, struct core_table *table)
{
    const size_t n = slot->operation.n;
    struct entry *entries[MAX_KEYS];
    if (table->technique->counting)
        return do_counted(slot, table);
    if (table->store.sketch) {
        do_sketch(slot, &table->store);
        return TERN_OK;
    }
    if (slot->kind == FRAME_PULL)
        return pull_here(slot, &table->store);
    enum tern_status status = store_reserve(&table->store, slot->keys, n, entries);
    if (status)
        return status;
    if (slot->kind == FRAME_SET)
        return set_here(order, slot, table, entries);
    slot->n_away =
        store_push(&table->store, slot->keys, n, entries, slot->operation.values, slot->away);
    return push_missed(slot, &table->store);
}

static void end_slot(struct worker *worker, struct slot *slot, enum tern_status status)
{
    const struct sim_node *sim_node = worker->sim_node;
    char what[80];
    snprintf(what, sizeof what, "operation %" PRIu32 ", a %s of worker %" PRIu32 ",",
             slot->operation.number, frame_kind_name(slot->kind), worker->index);
    sim_node_ended(sim_node, status, what);
    const bool is_counted = tables_counted(&sim_node->check->tables, slot->operation.table);
    for (size_t i = 0; i < slot->n_away; i++) {
        if (!is_counted)
            slot->copies[slot->away[i]] =
                slot->was_local && is_managed(worker, slot) ? USED_EITHER : USED_MAIN;
        slot->was_away[slot->away[i]] = !slot->was_local;
    }
    if (slot->kind != FRAME_PULL) {
        check_written(sim_node->check, &slot->operation, !status);
    } else if (!status) {
        bool resumed[MAX_KEYS];
        for (size_t i = 0; i < slot->operation.n; i++)
            resumed[i] = !is_managed(worker, slot) &&
                         link_of(worker, slot, i)->n_resumed != slot->resumed[i];
        if (!sim_node->may_fail)
            check_seen(sim_node->check, &slot->operation, resumed);
        if (!sim_node->may_fail && is_counted)
            graph_check_end(sim_node->check, &slot->operation);
    }
    if (slot->drawn && status)
        sample_check_return(slot->drawn, slot->keys, slot->operation.n);
    else if (slot->drawn)
        sample_check_used(&worker->samples, slot->drawn);
    if (worker->waits_for == slot)
        worker->waits_for = NULL;
    free_slot(slot);
}

/* What a read must get from other nodes is wanted here, where the table acts on that. */
static void want_missed(struct worker *worker, const struct slot *slot)
{
    struct plans *plans = &worker->plans;
    for (size_t i = 0; slot->kind == FRAME_PULL && plans->intents[0] && i < slot->n_away; i++)
        plans_want(plans, BY_MISS, slot->operation.table, &slot->keys[slot->away[i]],
                   &slot->indexes[slot->away[i]], 1, plans->clock + MISSED_CLOCKS);
}

static void start_slot(struct worker *worker, struct slot *slot)
{
    const struct sim_node *sim_node = worker->sim_node;
    slot->started = true;
    slot->operation.clock = worker->clock;
    note_replicas(worker, slot);
    if (slot->kind == FRAME_PULL && sim_node->tables[slot->operation.table].technique->counting)
        graph_check_begin(sim_node->check, &slot->operation);
    if (slot->kind == FRAME_PULL)
        check_read(sim_node->check, &slot->operation);
    else
        check_write(sim_node->check, &slot->operation, slot->kind == FRAME_SET);
    struct core_table *table = &sim_node->tables[slot->operation.table];
    enum tern_status status = do_here(&worker->order, slot, table);
    bounds_pushed(worker, slot);
    want_missed(worker, slot);
    if (!status && slot->n_away && !order_reserve(&worker->order, table, slot->n_away))
        status = fail(TERN_NO_MEMORY, "no memory for an operation");
    if (!status && slot->n_away)
        status = client_start(&worker->caller.client, &slot->op, slot->kind, table, slot->keys,
                              slot->operation.values, slot->away, slot->n_away);
    if (status || !slot->n_away) {
        end_slot(worker, slot, status);
        return;
    }
    op_count(&slot->op, slot->operation.n);
    order_began(&worker->order, &slot->op);
    if (slot->drawn || below(worker, 2))
        worker->waits_for = slot;
}

/* Ends an operation that could not be started. */
static void give_up(struct worker *worker, struct slot *slot, enum tern_status status)
{
    sim_node_ended(worker->sim_node, status, "an operation on a bounded table");
    if (worker->waits_for == slot)
        worker->waits_for = NULL;
    free_slot(slot);
}

/* Starts an operation unless it has to wait, or never can be. */
static void try_slot(struct worker *worker, struct slot *slot)
{
    enum tern_status status = TERN_OK;
    bool waits = order_must_wait(&worker->order, &worker->sim_node->tables[slot->operation.table],
                                 slot->keys, slot->operation.n) ||
                 (tables_bounded(&worker->sim_node->check->tables, slot->operation.table) &&
                  !bounds_are_kept(worker, slot, &status));
    if (status) {
        give_up(worker, slot, status);
    } else if (waits) {
        worker->waits_for = slot;
    } else {
        if (worker->waits_for == slot)
            worker->waits_for = NULL;
        start_slot(worker, slot);
    }
}

/* An operation is done at all nodes. */
static void finish_slot(struct worker *worker, struct slot *slot)
{
    struct sim_node *sim_node = worker->sim_node;
    if (sim_node_is_swept(sim_node, &slot->awaited) &&
        order_catches_up(&slot->catch_up, &slot->op, &bounds_io, worker))
        slot->awaited = sim_node_next_sweeps(sim_node);
    bool waits = !sim_node_is_swept(sim_node, &slot->awaited);
    if (waits && !sim_node->rounds_over) {
        sim_node_want_sweeps(sim_node, &slot->awaited);
        return;
    }
    order_ended(&worker->order, &slot->op);
    enum tern_status status = op_end(&slot->op);
    if (!status && waits)
        status = fail(TERN_PEER, "there are no further rounds");
    end_slot(worker, slot, status);
}

/* ---- A worker --------------------------------------------------------------------------------- */

enum tern_status worker_open(struct worker *worker)
{
    enum tern_status status = plans_open(&worker->plans, worker->sim_node);
    if (!status)
        status = sample_check_open(&worker->samples, worker->sim_node, &worker->plans,
                                   rand_at(worker->stream, worker->n_opened++));
    if (status)
        plans_close(&worker->plans);
    return status;
}

void worker_close(struct worker *worker)
{
    sample_check_close(&worker->samples);
    plans_close(&worker->plans);
}

void worker_begin(struct worker *worker, uint32_t n)
{
    worker->n_left = n;
}

static struct slot *find_free(struct worker *worker)
{
    for (int i = 0; i < SLOTS; i++)
        if (!worker->slots[i].used)
            return &worker->slots[i];
    return NULL;
}

/* Ends what is done, and starts what had to wait. True if nothing is under way. */
static bool go_on(struct worker *worker)
{
    bool idle = true, waits_here = lane_is_waiting(&worker->caller.client.local);
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &worker->slots[i];
        slot->was_local |= slot->started && waits_here;
        if (slot->started && op_is_done(&slot->op))
            finish_slot(worker, slot);
    }
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &worker->slots[i];
        if (slot->used && !slot->started)
            try_slot(worker, slot);
        idle &= !slot->used;
    }
    return idle;
}

struct sweeping {
    struct sim_node *sim_node;
    uint64_t n; /* rows that are to go */
};

/* A row may leave its home alone: nobody wants it there, and no other node has a replica. */
static void check_leaves(const struct sim_node *sim_node, const struct core_table *table,
                         uint64_t key, uint32_t index)
{
    struct check *check = sim_node->check;
    const struct core *core = core_for(sim_node->core, table);
    bool is_wanted = false;
    if (!table->technique->copy || !tables_managed(&check->tables, SPARSE_COUNTS))
        return;
    check_that(check,
               table->technique->copy(core, table, key, &is_wanted) == COPY_MAIN && !is_wanted,
               "key %" PRIu32 " of table '%s' leaves while its home wants it", index,
               table_name(SPARSE_COUNTS));
    for (uint32_t i = 0; i < TERN_SIM_MAX_NODES; i++) {
        const struct core_table *other = check->sparse[i];
        struct entry *entry;
        check_that(check,
                   !other || entry_state(store_look(&other->store, key, &entry)) != ENTRY_REPLICA,
                   "key %" PRIu32 " of table '%s' leaves while node %" PRIu32 " has a replica",
                   index, table_name(SPARSE_COUNTS), i);
    }
}

static bool leaves(void *context, uint64_t key, const void *value)
{
    struct sweeping *sweeping = context;
    uint32_t index = 0;
    while (index < KEYS && table_key(SPARSE_COUNTS, index) != key)
        index++;
    check_that(sweeping->sim_node->check, index < KEYS, "a sweep meets a key that nobody used");
    if (index == KEYS || rand_below(sim_random(sweeping->sim_node->sim), 3))
        return false;
    check_leaves(sweeping->sim_node, &sweeping->sim_node->tables[SPARSE_COUNTS], key, index);
    check_swept(sweeping->sim_node->check, index, value);
    sweeping->n++;
    return true;
}

/* Removes a third of the rows that a node has of SPARSE_COUNTS. */
static void sweep(struct sim_node *sim_node)
{
    struct store *store = &sim_node->tables[SPARSE_COUNTS].store;
    struct sweeping sweeping = {.sim_node = sim_node};
    const uint64_t before = store_rows(store);
    uint64_t n = 0;
    enum tern_status status = evict_sweep(store, leaves, &sweeping, &n);
    check_that(sim_node->check, !status && n == sweeping.n && store_rows(store) == before - n,
               "a sweep removed %" PRIu64 " rows, not %" PRIu64, n, sweeping.n);
}

/* Between operations: the clock advances, intents are signalled and samples prepared, now and then the
 * worker is closed and another opened in its place. */
static void look_ahead(struct worker *worker, bool idle)
{
    struct plans *plans = &worker->plans;
    plans_check(plans);
    if (idle && below(worker, STEPS_PER_CLOSE) == 0) {
        worker_close(worker);
        worker_open(worker);
    }
    if (plans->intents[0] && below(worker, 2)) {
        plans_advance(plans);
        bounds_advance(worker);
    }
    if (worker->sim_node->check->tables.has_sweeps && below(worker, STEPS_PER_SWEEP) == 0)
        sweep(worker->sim_node);
    const struct tables *tables = &worker->sim_node->check->tables;
    if (tables->are_backed && !tables->have_copies)
        return; /* no key comes or goes */
    if (plans->intents[0] && below(worker, STEPS_PER_PLAN) == 0)
        plans_make(plans);
    if (plans->intents[0] && !tables->are_backed && below(worker, STEPS_PER_SAMPLE) == 0)
        sample_check_prepare(&worker->samples);
}

/* One worker in eight is slower than the others. */
static bool is_straggler(const struct worker *worker)
{
    return rand_at(worker->sim_node->check->tables.round_bytes, worker->index) % 8 == 0;
}

/* Begins the next operation in a free slot. */
static void begin_next(struct worker *worker, struct slot *slot)
{
    worker->n_left--;
    if (!fill_slot(worker, slot))
        free_slot(slot);
    else
        try_slot(worker, slot);
    worker->resting = true;
    uint64_t longest_ns = (is_straggler(worker) ? STRAGGLER : UINT64_C(1)) * REST_US * US;
    sim_timer(worker->sim_node->sim, worker->sim_node->core->node, below(worker, longest_ns),
              worker->tag);
}

/* Whether a worker that rests goes on without coming back. */
static bool rests_on(const struct worker *worker)
{
    return worker->rests && !worker->returning.begin_ns && below(worker, 2);
}

bool worker_run(struct worker *worker)
{
    bool idle = go_on(worker);
    struct slot *slot = find_free(worker);
    bool goes_on = worker->n_left && slot && !worker->waits_for && !worker->resting;
    if (goes_on && !worker->rests && below(worker, STEPS_PER_CLOSE) == 0)
        bounds_reopen(worker);
    else if (goes_on && idle && below(worker, STEPS_PER_REST) == 0)
        bounds_rest(worker);
    if (goes_on && (rests_on(worker) || bounds_return(worker))) {
        if (!worker->rests)
            look_ahead(worker, idle);
        begin_next(worker, slot);
        idle = false;
    }
    lanes_advance(&worker->caller.lanes);
    bool done = !worker->n_left && idle;
    if (done)
        bounds_rest(worker);
    else if (defect(DEFECT_RESTS_TOO_EARLY) && worker->n_left < RESTS_EARLY)
        worker_clocks_set(&worker->sim_node->clocks, worker->clock_index, CLOCK_RESTS);
    return done;
}

void worker_fini(struct worker *worker)
{
    caller_fini(&worker->caller);
    order_fini(&worker->order);
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &worker->slots[i];
        if (!slot->used)
            continue;
        op_end(&slot->op);
        if (slot->started && slot->kind != FRAME_PULL)
            check_written(worker->sim_node->check, &slot->operation, false);
        free_slot(slot);
    }
    sample_check_close(&worker->samples);
}
