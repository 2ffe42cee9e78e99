/* bound - see bound.h. */
#include "node/bound.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"

#define MS UINT64_C(1000000)

enum { LOOK_MS = 2 }; /* the longest wait on a node that is alone before looking again */

/* ---- The clocks of workers ----------------------------------------------------------------------- */

void bound_init(struct tern_node *node)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&node->pace_change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&node->pace_lock, NULL);
    pace_init(&node->pace);
}

void bound_fini(struct tern_node *node)
{
    pace_fini(&node->pace);
    pthread_cond_destroy(&node->pace_change);
    pthread_mutex_destroy(&node->pace_lock);
}

/* A worker's clock as others count it. */
static uint64_t clock_of(const struct tern_worker *worker)
{
    return atomic_load_explicit(&worker->clock, memory_order_relaxed) + worker->pace_ahead;
}

/* Publishes the lowest clock, and the table clock of a node that is alone. The caller holds the pace's
 * lock. */
static void publish(struct tern_node *node)
{
    struct node_clock now = pace_now(&node->pace);
    uint64_t clock = now.clock == CLOCK_RESTS ? now.highest : now.clock;
    atomic_store_explicit(&node->lowest_clock, now.clock, memory_order_release);
    if (clock > atomic_load_explicit(&node->table_clock, memory_order_relaxed))
        atomic_store_explicit(&node->table_clock, clock, memory_order_release);
}

static uint64_t lowest_clock(const struct tern_node *node)
{
    return atomic_load_explicit(&node->lowest_clock, memory_order_acquire);
}

/* Tells where a worker is, or CLOCK_RESTS. */
static void tell(struct tern_worker *worker, uint64_t clock)
{
    struct tern_node *node = worker->node;
    pthread_mutex_lock(&node->pace_lock);
    bool changed = pace_set(&node->pace, worker->pace_index, clock);
    if (changed) {
        publish(node);
        pthread_cond_broadcast(&node->pace_change);
    }
    pthread_mutex_unlock(&node->pace_lock);
    if (changed && node->engine) {
        sync_hurry(&node->engine->shards[0].sync);
        worker->drive_ns = 0;
    }
}

void bound_begin(struct tern_node *node)
{
    if (atomic_exchange_explicit(&node->is_paced, true, memory_order_seq_cst))
        return;
    if (node->engine)
        atomic_store_explicit(&node->engine->is_prompt, true, memory_order_relaxed);
    pthread_mutex_lock(&node->pace_lock);
    for (struct tern_worker *worker = node->workers; worker; worker = worker->next)
        if (worker->pace_index != NO_WORKER &&
            node->pace.clocks.values[worker->pace_index] != CLOCK_RESTS)
            pace_set(&node->pace, worker->pace_index,
                     atomic_load_explicit(&worker->clock, memory_order_relaxed));
    publish(node);
    pthread_mutex_unlock(&node->pace_lock);
}

/* A worker that is opened when others have gone on already takes part from its first update on. */
enum tern_status bound_open(struct tern_worker *worker)
{
    struct tern_node *node = worker->node;
    pthread_mutex_lock(&node->pace_lock);
    worker->rests = node->pace.highest > 0;
    bool opened = pace_open(&node->pace, (uint32_t)worker->number, worker->rests ? CLOCK_RESTS : 0,
                            &worker->pace_index);
    if (!opened)
        worker->pace_index = NO_WORKER;
    pthread_mutex_unlock(&node->pace_lock);
    return opened ? TERN_OK : fail(TERN_NO_MEMORY, "no memory to open a worker");
}

void bound_close(struct tern_worker *worker)
{
    struct tern_node *node = worker->node;
    if (worker->pace_index == NO_WORKER)
        return;
    tell(worker, CLOCK_RESTS);
    pthread_mutex_lock(&node->pace_lock);
    pace_close(&node->pace, worker->pace_index);
    pthread_mutex_unlock(&node->pace_lock);
}

void bound_advance(struct tern_worker *worker)
{
    tell(worker, clock_of(worker));
}

enum tern_status tern_worker_rest(struct tern_worker *worker)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    if (!worker->rests)
        tell(worker, CLOCK_RESTS);
    worker->rests = true;
    return TERN_OK;
}

/* ---- Waiting ------------------------------------------------------------------------------------- */

/* What a worker waits for. */
struct wait {
    struct tern_worker *worker;
    struct tern_table *table; /* NULL: not for one table */
    const uint64_t *keys;     /* that are to be fresh */
    size_t n;
    uint64_t clock;
    uint32_t ages[BOUNDED_STEPS]; /* of the keys, once they are */
    uint64_t asked_round;         /* after which keys that are not there are asked for again */
};

/* Whether it need not wait any longer; a failure ends the wait, too. */
typedef bool ready_function(struct wait *wait, enum tern_status *status);

/* The sentence for a wait that is given up; the caller knows more than where others are. */
typedef enum tern_status late_function(const struct wait *wait, double seconds);

static void wait_alone(struct tern_node *node)
{
    uint64_t end = clock_now_ns() + LOOK_MS * MS;
    struct timespec until = {.tv_sec = (time_t)(end / UINT64_C(1000000000)),
                             .tv_nsec = (long)(end % UINT64_C(1000000000))};
    pthread_mutex_lock(&node->pace_lock);
    pthread_cond_timedwait(&node->pace_change, &node->pace_lock, &until);
    pthread_mutex_unlock(&node->pace_lock);
}

static void inquire(const struct wait *wait)
{
    struct engine *engine = wait->worker->node->engine;
    if (!engine || !wait->table)
        return;
    pthread_mutex_lock(&engine->shards[0].lock);
    bounded_inquire(wait->table->core.bounded);
    pthread_mutex_unlock(&engine->shards[0].lock);
    sync_hurry(&engine->shards[0].sync);
}

static enum tern_status wait_until(struct wait *wait, ready_function *is_ready, late_function *late)
{
    struct tern_worker *worker = wait->worker;
    struct tern_node *node = worker->node;
    uint64_t begin = clock_now_ns(), now = begin;
    enum tern_status status = TERN_OK;
    uint64_t n_inquiries = 0;
    while (!is_ready(wait, &status) && !status) {
        now = clock_now_ns();
        /* Who holds a table back may have changed since it was announced: ask before naming anybody, and
         * early enough that who does not answer is found out. */
        if (n_inquiries < 3 && now - begin > (n_inquiries + 1) * (node->deadline_ns / 4)) {
            inquire(wait);
            n_inquiries++;
        }
        if (node->engine)
            status = sync_help(&node->engine->shards[0].sync, begin);
        else
            wait_alone(node);
        if (!status && now - begin >= node->deadline_ns && node->engine)
            status = sync_status(&node->engine->shards[0].sync);
        if (!status && now - begin >= node->deadline_ns)
            status = late(wait, (double)(now - begin) / 1e9);
    }
    uint64_t waited = clock_now_ns() - begin;
    count_add(&worker->waited_ns, waited);
    if (wait->table)
        count_add(&worker->space->counts[wait->table->id].waited_ns, waited);
    return status;
}

/* ---- Bounds by clocks ---------------------------------------------------------------------------- */

/* A node that does not answer is to blame for whatever is waited for. */
static bool find_silent(const struct tern_node *node, uint32_t *silent)
{
    return node->engine && sync_find_silent(&node->engine->shards[0].sync, node->deadline_ns / 2, silent);
}

/* Who holds a table back, as far as is known. */
static struct standing slowest_of(const struct tern_table *table, uint64_t clock)
{
    struct tern_node *node = table->node;
    if (node->engine && bounded_needs(table->core.bounded, clock) <= lowest_clock(node)) {
        pthread_mutex_lock(&node->engine->shards[0].lock);
        struct standing standing = bounded_slowest(table->core.bounded);
        pthread_mutex_unlock(&node->engine->shards[0].lock);
        return standing;
    }
    pthread_mutex_lock(&node->pace_lock);
    struct node_clock now = pace_now(&node->pace);
    pthread_mutex_unlock(&node->pace_lock);
    return (struct standing){.clock = now.clock,
                             .worker = now.slowest,
                             .node = node->engine ? node->engine->core.node : 0};
}

static enum tern_status late_read(const struct wait *wait, double seconds)
{
    const struct tern_table *table = wait->table;
    struct standing standing = slowest_of(table, wait->clock);
    uint32_t silent;
    if (find_silent(table->node, &silent))
        return fail(TERN_LATE,
                    "table '%s': node %" PRIu32 " does not answer; a read at clock %" PRIu64
                    " has waited %.1f s for it",
                    table->core.store.name, silent, wait->clock, seconds);
    if (table->core.bounded && bounded_needs(table->core.bounded, wait->clock) <= standing.clock) {
        uint64_t key = wait->keys[wait->worker->space->missed[0]];
        return fail(TERN_LATE,
                    "table '%s': node %" PRIu32
                    " has not sent the value of a key that a read at clock %" PRIu64
                    " has waited %.1f s for",
                    table->core.store.name,
                    core_home(&table->node->engine->core, &table->core.store, key), wait->clock,
                    seconds);
    }
    if (standing.worker == NO_WORKER)
        return fail(TERN_LATE,
                    "table '%s': a read at clock %" PRIu64 " has waited %.1f s for node %" PRIu32
                    ", which has no worker that works; every node opens one",
                    table->core.store.name, wait->clock, seconds, standing.node);
    return fail(TERN_LATE,
                "table '%s': worker %" PRIu32 " of node %" PRIu32 " holds everybody back: it is at "
                "clock %" PRIu64 ", and a read at clock %" PRIu64 " with a bound of %" PRIu64
                " has waited %.1f s for it",
                table->core.store.name, standing.worker, standing.node, standing.clock, wait->clock,
                table->policy.clocks, seconds);
}

static bool is_fresh_alone(struct wait *wait)
{
    const struct policy *policy = &wait->table->policy;
    uint64_t clock = atomic_load_explicit(&wait->worker->node->table_clock, memory_order_acquire);
    uint64_t behind = wait->clock > clock ? wait->clock - clock : 0;
    if (policy->bound == BOUND_VALUE)
        behind = 0;
    if (behind > policy->clocks && policy->bound == BOUND_CLOCKS)
        return false;
    wait->ages[behind < BOUNDED_STEPS ? behind : BOUNDED_STEPS - 1] += (uint32_t)wait->n;
    return true;
}

/* Asks for keys that are too old, as soon as newer values can be had; again if they did not come. */
static enum tern_status ask(struct wait *wait, size_t n_stale)
{
    struct engine *engine = wait->worker->node->engine;
    struct bounded *bounded = wait->table->core.bounded;
    bool can_be_had = bounded->policy->refresh == REFRESH_EACH_CLOCK ||
                      bounded_may_read(bounded, wait->clock, lowest_clock(wait->worker->node));
    if (!can_be_had || sync_rounds(&engine->shards[0].sync) < wait->asked_round)
        return TERN_OK;
    pthread_mutex_lock(&engine->shards[0].lock);
    enum tern_status status =
        bounded_want(bounded, wait->keys, wait->worker->space->missed, n_stale);
    pthread_mutex_unlock(&engine->shards[0].lock);
    /* The round under way may be past this table. */
    wait->asked_round = sync_rounds(&engine->shards[0].sync) + 2;
    sync_hurry(&engine->shards[0].sync);
    return status;
}

static bool is_fresh(struct wait *wait, enum tern_status *status)
{
    const struct bounded *bounded = wait->table->core.bounded;
    if (!bounded)
        return is_fresh_alone(wait);
    for (int tries = 0; tries < 2 && !*status; tries++) {
        uint32_t ages[BOUNDED_STEPS] = {0};
        size_t n_stale = bounded_check(bounded, wait->clock, lowest_clock(wait->worker->node),
                                       wait->keys, wait->n, wait->worker->space->missed, ages);
        if (!n_stale) {
            for (int i = 0; i < BOUNDED_STEPS; i++)
                wait->ages[i] = ages[i];
            return true;
        }
        /* What is at home here can be read as soon as it was asked for. */
        *status = ask(wait, n_stale);
    }
    return false;
}

static enum tern_status before_read(struct tern_worker *worker, struct tern_table *table,
                                    const uint64_t *keys, size_t n)
{
    struct counts *counts = &worker->space->counts[table->id];
    enum tern_status status = TERN_OK;
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS) {
        struct wait wait = {.worker = worker,
                            .table = table,
                            .keys = keys + done,
                            .n = n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS,
                            .clock = clock_of(worker)};
        if (!is_fresh(&wait, &status) && !status) {
            /* What it has told may be older, if it began before there were bounded tables. */
            if (!worker->rests)
                tell(worker, wait.clock);
            status = wait_until(&wait, is_fresh, late_read);
        }
        for (int i = 0; !status && i < BOUNDED_STEPS; i++)
            if (wait.ages[i])
                count_add(&counts->ages[i], wait.ages[i]);
    }
    return status;
}

/* ---- Coming back --------------------------------------------------------------------------------- */

/* Whether all homes of a node's bounded tables wait for its workers, and the highest clock they know. */
static bool is_awaited(struct tern_node *node, uint64_t *highest)
{
    bool awaited = true;
    *highest = atomic_load_explicit(&node->table_clock, memory_order_relaxed);
    if (!node->engine)
        return true;
    *highest = 0;
    pthread_mutex_lock(&node->engine->shards[0].lock);
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        const struct core_table *table =
            atomic_load_explicit(&node->engine->core.tables[i], memory_order_acquire);
        if (!table || !table->bounded)
            continue;
        awaited &= bounded_is_awaited(table->bounded);
        if (bounded_highest(table->bounded) > *highest)
            *highest = bounded_highest(table->bounded);
    }
    pthread_mutex_unlock(&node->engine->shards[0].lock);
    return awaited;
}

/* Takes part at a clock that nobody has passed. Until all homes know, it only says that it is there. */
static bool has_returned(struct wait *wait, enum tern_status *status)
{
    struct tern_worker *worker = wait->worker;
    struct tern_node *node = worker->node;
    uint64_t clock = clock_of(worker), highest;
    (void)status;
    bool awaited = is_awaited(node, &highest);
    pthread_mutex_lock(&node->pace_lock);
    uint64_t lowest = node->pace.clocks.lowest;
    pthread_mutex_unlock(&node->pace_lock);
    if (highest > clock)
        clock = highest;
    if (lowest != CLOCK_RESTS && lowest > clock)
        clock = lowest;
    worker->pace_ahead = clock - atomic_load_explicit(&worker->clock, memory_order_relaxed);
    tell(worker, clock);
    worker->rests = !awaited;
    return awaited;
}

static enum tern_status late_return(const struct wait *wait, double seconds)
{
    (void)wait;
    return fail(TERN_LATE,
                "a worker that rested waits for %.1f s to hear how far the others have come",
                seconds);
}

static enum tern_status come_back(struct tern_worker *worker)
{
    struct wait wait = {.worker = worker};
    return worker->rests ? wait_until(&wait, has_returned, late_return) : TERN_OK;
}

/* ---- Bounds by value ----------------------------------------------------------------------------- */

/* Whether the updates of a worker to a table allow it to go on. The first shard's lock is held. */
static bool may_go_on(const struct tern_worker *worker, const struct core_table *table, uint32_t id)
{
    return !table || !table->bounded || table->policy->bound != BOUND_VALUE ||
           bounded_may_go_on(table->bounded, &worker->space->unseen[id], clock_of(worker));
}

/* The same for one table, or for all that it has pushed to. A table may be closed meanwhile by others, so
 * it is looked up each time. */
static bool is_seen(struct wait *wait, enum tern_status *status)
{
    const struct tern_worker *worker = wait->worker;
    struct engine *engine = worker->node->engine;
    bool seen = true;
    (void)status;
    pthread_mutex_lock(&engine->shards[0].lock);
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++)
        if (worker->space->unseen[i].epochs[0] || worker->space->unseen[i].epochs[1])
            seen &= may_go_on(
                worker, atomic_load_explicit(&engine->core.tables[i], memory_order_acquire), i);
    pthread_mutex_unlock(&engine->shards[0].lock);
    return seen;
}

static enum tern_status late_update(const struct wait *wait, double seconds)
{
    const char *name = wait->table ? wait->table->core.store.name : NULL;
    uint32_t silent;
    if (name && find_silent(wait->worker->node, &silent))
        return fail(TERN_LATE,
                    "table '%s': node %" PRIu32 " does not answer; an update has waited %.1f s",
                    name, silent, seconds);
    return fail(TERN_LATE,
                "%s%s%s: updates of worker %" PRIu64
                " have not been seen by all nodes for %.1f s, and "
                "their sum is above the bound",
                name ? "table '" : "tables bounded by value", name ? name : "", name ? "'" : "",
                wait->worker->number, seconds);
}

static enum tern_status wait_for_seen(struct tern_worker *worker, struct tern_table *table)
{
    struct wait wait = {.worker = worker, .table = table};
    enum tern_status status = TERN_OK;
    return is_seen(&wait, &status) ? status : wait_until(&wait, is_seen, late_update);
}

/* ---- Operations ---------------------------------------------------------------------------------- */

enum tern_status bound_before_advance(struct tern_worker *worker)
{
    enum tern_status status = come_back(worker);
    if (!status && worker->is_limited)
        status = wait_for_seen(worker, NULL);
    return status;
}

enum tern_status bound_before(struct tern_worker *worker, struct tern_table *table,
                              enum frame_kind kind, const uint64_t *keys, size_t n)
{
    enum tern_status status = TERN_OK;
    if (kind != FRAME_PULL)
        status = come_back(worker);
    if (!status && kind != FRAME_PULL && table->policy.bound == BOUND_VALUE && table->core.bounded)
        status = wait_for_seen(worker, table);
    /* What a set changes is the difference to what it finds. */
    if (!status && kind != FRAME_PUSH)
        status = before_read(worker, table, keys, n);
    return status;
}

void bound_after(struct tern_worker *worker, const struct tern_table *table, enum frame_kind kind,
                 const uint64_t *keys, size_t n, const void *values)
{
    struct bounded *bounded = table->core.bounded;
    if (kind == FRAME_PULL || table->policy.bound != BOUND_VALUE || !bounded)
        return;
    const struct store *store = &table->core.store;
    double size = kind == FRAME_SET ? (double)INFINITY : 0;
    for (size_t done = 0; kind == FRAME_PUSH && done < n; done += BOUNDED_BLOCK) {
        size_t block = n - done < BOUNDED_BLOCK ? n - done : BOUNDED_BLOCK;
        size += bounded_size(store, keys + done, block,
                             (const char *)values + done * store->value_bytes);
    }
    bounded_pushed(bounded, &worker->space->unseen[table->id], size);
    worker->is_limited = true;
}

void bound_settle(struct tern_node *node)
{
    struct engine *engine = node->engine;
    pthread_mutex_lock(&engine->shards[0].lock);
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table =
            atomic_load_explicit(&engine->core.tables[i], memory_order_acquire);
        if (table && table->bounded)
            bounded_settle(table->bounded);
    }
    pthread_mutex_unlock(&engine->shards[0].lock);
}

enum tern_status tern_worker_get_stats(struct tern_worker *worker, struct tern_worker_stats *stats)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    if (!stats)
        return fail(TERN_INVALID, "tern_worker_get_stats: the pointer `stats` is NULL");
    if (stats->struct_size != sizeof *stats)
        return fail(TERN_INVALID,
                    "tern_worker_stats.struct_size is %zu; set it to sizeof, which is %zu",
                    stats->struct_size, sizeof *stats);
    uint64_t waited = atomic_load_explicit(&worker->waited_ns, memory_order_relaxed);
    *stats =
        (struct tern_worker_stats){.struct_size = sizeof *stats,
                                   .open_s = (double)(clock_now_ns() - worker->opened_ns) / 1e9,
                                   .waited_s = (double)waited / 1e9};
    return TERN_OK;
}
