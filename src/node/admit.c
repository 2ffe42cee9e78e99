/* admit - see admit.h. */
#include "node/admit.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "core/technique.h"

#define MS UINT64_C(1000000)

enum { LOOK_MS = 2 }; /* the longest wait on a single node before looking again */

/* ---- The clocks of workers ----------------------------------------------------------------------- */

void admit_init(struct tern_node *node)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&node->clocks_change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&node->clocks_lock, NULL);
    worker_clocks_init(&node->clocks);
}

void admit_fini(struct tern_node *node)
{
    worker_clocks_fini(&node->clocks);
    pthread_cond_destroy(&node->clocks_change);
    pthread_mutex_destroy(&node->clocks_lock);
}

/* A worker's clock as others count it. */
static uint64_t clock_of(const struct tern_worker *worker)
{
    return atomic_load_explicit(&worker->clock, memory_order_relaxed) + worker->clock_ahead;
}

/* Publishes the lowest clock. The caller holds the clocks' lock. */
static void publish(struct tern_node *node)
{
    atomic_store_explicit(&node->min_clock, worker_clocks_now(&node->clocks).clock,
                          memory_order_release);
}

static uint64_t min_clock(const struct tern_node *node)
{
    return atomic_load_explicit(&node->min_clock, memory_order_acquire);
}

/* Tells where a worker is, or CLOCK_RESTS. */
static void tell(struct tern_worker *worker, uint64_t clock)
{
    struct tern_node *node = worker->node;
    pthread_mutex_lock(&node->clocks_lock);
    bool changed = worker_clocks_set(&node->clocks, worker->clock_index, clock);
    if (changed) {
        publish(node);
        pthread_cond_broadcast(&node->clocks_change);
    }
    pthread_mutex_unlock(&node->clocks_lock);
    if (changed && node->engine) {
        round_driver_hurry(&node->engine->shards[0].round_driver);
        worker->drive_ns = 0;
    }
}

void admit_begin(struct tern_node *node)
{
    if (atomic_exchange_explicit(&node->has_clocks, true, memory_order_seq_cst))
        return;
    if (node->engine)
        atomic_store_explicit(&node->engine->is_prompt, true, memory_order_relaxed);
    pthread_mutex_lock(&node->clocks_lock);
    for (struct tern_worker *worker = node->workers; worker; worker = worker->next)
        if (worker->clock_index != NO_WORKER &&
            node->clocks.min.values[worker->clock_index] != CLOCK_RESTS)
            worker_clocks_set(&node->clocks, worker->clock_index,
                              atomic_load_explicit(&worker->clock, memory_order_relaxed));
    publish(node);
    pthread_mutex_unlock(&node->clocks_lock);
}

/* A worker that is opened when others have gone on already takes part from its first update on. */
enum tern_status admit_open(struct tern_worker *worker)
{
    struct tern_node *node = worker->node;
    pthread_mutex_lock(&node->clocks_lock);
    worker->rests = node->clocks.highest > 0;
    bool opened = worker_clocks_open(&node->clocks, (uint32_t)worker->number,
                                     worker->rests ? CLOCK_RESTS : 0, &worker->clock_index);
    if (!opened)
        worker->clock_index = NO_WORKER;
    pthread_mutex_unlock(&node->clocks_lock);
    return opened ? TERN_OK : fail(TERN_NO_MEMORY, "no memory to open a worker");
}

void admit_close(struct tern_worker *worker)
{
    struct tern_node *node = worker->node;
    if (worker->clock_index == NO_WORKER)
        return;
    tell(worker, CLOCK_RESTS);
    pthread_mutex_lock(&node->clocks_lock);
    worker_clocks_close(&node->clocks, worker->clock_index);
    pthread_mutex_unlock(&node->clocks_lock);
}

void admit_advanced(struct tern_worker *worker)
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
    struct access access;     /* of a read */
};

/* Whether it need not wait any longer; a failure also ends the wait. */
typedef bool ready_function(struct wait *wait, enum tern_status *status);

/* The sentence for a wait that is given up, or TERN_OK to go on; the caller knows more than where others are. */
typedef enum tern_status late_function(struct wait *wait, double seconds);

static void wait_single(struct tern_node *node)
{
    uint64_t end = clock_now_ns() + LOOK_MS * MS;
    struct timespec until = {.tv_sec = (time_t)(end / UINT64_C(1000000000)),
                             .tv_nsec = (long)(end % UINT64_C(1000000000))};
    pthread_mutex_lock(&node->clocks_lock);
    pthread_cond_timedwait(&node->clocks_change, &node->clocks_lock, &until);
    pthread_mutex_unlock(&node->clocks_lock);
}

static void inquire(const struct wait *wait)
{
    struct engine *engine = wait->worker->node->engine;
    if (!engine || !wait->table)
        return;
    pthread_mutex_lock(&engine->shards[0].lock);
    wait->table->core.technique->inquire(&wait->table->core);
    pthread_mutex_unlock(&engine->shards[0].lock);
    round_driver_hurry(&engine->shards[0].round_driver);
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
        /* Another node may hold the table back than the one announced: ask before naming one, and early
         * enough to find a node that does not answer. */
        if (n_inquiries < 3 && now - begin > (n_inquiries + 1) * (node->deadline_ns / 4)) {
            inquire(wait);
            n_inquiries++;
        }
        if (node->engine)
            status = round_driver_help(&node->engine->shards[0].round_driver, begin);
        else
            wait_single(node);
        if (!status)
            status = interrupt_check();
        if (!status && now - begin >= node->deadline_ns && node->engine)
            status = round_driver_status(&node->engine->shards[0].round_driver);
        if (!status && now - begin >= node->deadline_ns)
            status = late(wait, (double)(now - begin) / 1e9);
    }
    uint64_t waited = clock_now_ns() - begin;
    count_add(&worker->waited_ns, waited);
    if (wait->table)
        count_add(&worker->space->counts[wait->table->id].waited_ns, waited);
    return status;
}

/* ---- Reads --------------------------------------------------------------------------------------- */

/* A node that does not answer is to blame for whatever is waited for. */
static bool find_silent(const struct tern_node *node, uint32_t *silent)
{
    return node->engine && round_driver_find_silent(&node->engine->shards[0].round_driver,
                                                    node->deadline_ns / 2, silent);
}

static enum tern_status late_read(struct wait *wait, double seconds)
{
    struct tern_table *table = wait->table;
    struct tern_node *node = table->node;
    struct engine *engine = node->engine;
    uint32_t silent;
    if (find_silent(node, &silent))
        return fail(TERN_LATE,
                    "table '%s': node %" PRIu32 " does not answer; a read at clock %" PRIu64
                    " has waited %.1f s for it",
                    table->core.store.name, silent, wait->access.clock, seconds);
    pthread_mutex_lock(&node->clocks_lock);
    const struct node_clock now = worker_clocks_now(&node->clocks);
    pthread_mutex_unlock(&node->clocks_lock);
    if (engine)
        pthread_mutex_lock(&engine->shards[0].lock);
    enum tern_status status = table->core.technique->blame(
        engine ? &engine->core : NULL, &table->core, &wait->access, now, seconds);
    if (engine)
        pthread_mutex_unlock(&engine->shards[0].lock);
    return status;
}

static bool may_read(struct wait *wait, enum tern_status *status)
{
    struct core_table *table = &wait->table->core;
    struct engine *engine = wait->worker->node->engine;
    wait->access.min_clock = min_clock(wait->worker->node);
    if (table->technique->admit(table, &wait->access))
        return true;
    const uint64_t n_rounds = engine ? round_driver_rounds(&engine->shards[0].round_driver) : 0;
    if (!wait->access.n_stale || n_rounds < wait->access.fetch_round)
        return false;
    pthread_mutex_lock(&engine->shards[0].lock);
    bool admitted = admit_fetch(table, &wait->access, n_rounds, status);
    pthread_mutex_unlock(&engine->shards[0].lock);
    round_driver_hurry(&engine->shards[0].round_driver);
    return admitted;
}

static enum tern_status before_read(struct tern_worker *worker, struct tern_table *table,
                                    const uint64_t *keys, size_t n)
{
    struct counts *counts = &worker->space->counts[table->id];
    enum tern_status status = TERN_OK;
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS) {
        struct wait wait = {.worker = worker,
                            .table = table,
                            .access = {.clock = clock_of(worker),
                                       .keys = keys + done,
                                       .n = n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS,
                                       .stale = worker->space->missed}};
        if (!may_read(&wait, &status) && !status) {
            /* What it has told may be older, if it began before there were bounded tables. */
            if (!worker->rests)
                tell(worker, wait.access.clock);
            status = wait_until(&wait, may_read, late_read);
        }
        for (int i = 0; !status && i < TERN_CLOCK_STEPS; i++)
            if (wait.access.ages[i])
                count_add(&counts->ages[i], wait.access.ages[i]);
    }
    return status;
}

bool admit_now(struct tern_worker *worker, const struct tern_table *table, uint64_t key)
{
    struct counts *counts = &worker->space->counts[table->id];
    uint32_t stale;
    struct access access = {.clock = clock_of(worker),
                            .min_clock = min_clock(worker->node),
                            .keys = &key,
                            .n = 1,
                            .stale = &stale};
    if (!table->core.technique->admit(&table->core, &access))
        return false;
    for (int i = 0; i < TERN_CLOCK_STEPS; i++)
        if (access.ages[i])
            count_add(&counts->ages[i], access.ages[i]);
    return true;
}

/* ---- Coming back --------------------------------------------------------------------------------- */

static bool has_returned(struct wait *wait, enum tern_status *status)
{
    struct tern_worker *worker = wait->worker;
    struct tern_node *node = worker->node;
    struct engine *engine = node->engine;
    uint64_t clock = clock_of(worker);
    (void)status;
    if (engine)
        pthread_mutex_lock(&engine->shards[0].lock);
    pthread_mutex_lock(&node->clocks_lock);
    bool returned = admit_return(engine ? &engine->core : NULL, &node->clocks, &clock);
    pthread_mutex_unlock(&node->clocks_lock);
    if (engine)
        pthread_mutex_unlock(&engine->shards[0].lock);
    worker->clock_ahead = clock - atomic_load_explicit(&worker->clock, memory_order_relaxed);
    tell(worker, clock);
    worker->rests = !returned;
    return returned;
}

static enum tern_status late_return(struct wait *wait, double seconds)
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

/* ---- Updates ------------------------------------------------------------------------------------- */

static bool may_update(struct wait *wait, enum tern_status *status)
{
    const struct tern_worker *worker = wait->worker;
    const struct unseen *unseen = worker->space->unseen;
    struct engine *engine = worker->node->engine;
    (void)status;
    pthread_mutex_lock(&engine->shards[0].lock);
    bool admitted = wait->table
                        ? wait->table->core.technique->admit_update(
                              &wait->table->core, &unseen[wait->table->id], clock_of(worker))
                        : admit_advance(&engine->core, unseen, clock_of(worker));
    pthread_mutex_unlock(&engine->shards[0].lock);
    return admitted;
}

/* A node that died while this worker waited for another is known by then. */
static bool may_be_dead(const struct tern_node *node, double seconds)
{
    return seconds * 1e9 < 1.5 * (double)node->deadline_ns;
}

static enum tern_status late_update(struct wait *wait, double seconds)
{
    const char *name = wait->table ? wait->table->core.store.name : NULL;
    uint32_t silent;
    if (find_silent(wait->worker->node, &silent))
        return fail(TERN_LATE,
                    "%s%s%s: node %" PRIu32 " does not answer; an update has waited %.1f s",
                    name ? "table '" : "tables bounded by value", name ? name : "", name ? "'" : "",
                    silent, seconds);
    if (may_be_dead(wait->worker->node, seconds))
        return TERN_OK;
    return fail(TERN_LATE,
                "%s%s%s: updates of worker %" PRIu64
                " have not been seen by all nodes for %.1f s, and "
                "their sum is above the bound",
                name ? "table '" : "tables bounded by value", name ? name : "", name ? "'" : "",
                wait->worker->number, seconds);
}

/* Before an update of a table, or, of NULL, the advance of the clock. */
static enum tern_status before_update(struct tern_worker *worker, struct tern_table *table)
{
    struct wait wait = {.worker = worker, .table = table};
    enum tern_status status = come_back(worker);
    if (status || !worker->is_limited || may_update(&wait, &status))
        return status;
    return wait_until(&wait, may_update, late_update);
}

/* ---- Operations ---------------------------------------------------------------------------------- */

enum tern_status admit_before_advance(struct tern_worker *worker)
{
    return before_update(worker, NULL);
}

enum tern_status admit_before(struct tern_worker *worker, struct tern_table *table,
                              enum frame_kind kind, const uint64_t *keys, size_t n)
{
    enum tern_status status = kind == FRAME_PULL ? TERN_OK : before_update(worker, table);
    /* What a set changes is the difference to what it finds. */
    if (!status && kind != FRAME_PUSH)
        status = before_read(worker, table, keys, n);
    return status;
}

void admit_after(struct tern_worker *worker, const struct tern_table *table, enum frame_kind kind,
                 const uint64_t *keys, size_t n, const void *values)
{
    struct unseen *unseen = &worker->space->unseen[table->id];
    if (kind == FRAME_PULL)
        return;
    table->core.technique->updated(&table->core, unseen, keys, n,
                                   kind == FRAME_PUSH ? values : NULL);
    worker->is_limited |= unseen->epochs[0] || unseen->epochs[1];
}

void admit_settle_all(struct tern_node *node)
{
    struct engine *engine = node->engine;
    pthread_mutex_lock(&engine->shards[0].lock);
    admit_settle(&engine->core);
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
