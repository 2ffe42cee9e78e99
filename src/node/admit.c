/* admit - see admit.h. */
#include "node/admit.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "core/technique.h"

#define MS UINT64_C(1000000)

enum { LOOK_MS = 2 }; /* the longest wait in one memory before looking again */

void admit_init(struct tern_node *node)
{
    condition_init(&node->clocks_change);
    lock_init(&node->clocks_lock, RANK_CLOCKS, 0);
    worker_clocks_init(&node->clocks);
}

void admit_fini(struct tern_node *node)
{
    worker_clocks_fini(&node->clocks);
    pthread_cond_destroy(&node->clocks_change);
    lock_fini(&node->clocks_lock);
}

/* A worker's clock as others count it. */
static uint64_t clock_of(const struct tern_worker *worker)
{
    return atomic_load_explicit(&worker->clock, memory_order_relaxed) + worker->clock_ahead;
}

/* Publishes the lowest clock, also to processes that share a table. The caller holds the clocks' lock. */
static void publish(struct tern_node *node)
{
    const struct node_clock now = worker_clocks_now(&node->clocks);
    atomic_store_explicit(&node->min_clock, now.clock, memory_order_release);
    for (size_t i = 0; node->engine && i < TERN_MAX_TABLES; i++) {
        const struct core_table *table =
            atomic_load_explicit(&node->engine->core.tables[i], memory_order_acquire);
        struct bell *bell =
            table && table->technique->told ? table->technique->told(table, now) : NULL;
        if (bell)
            bell_ring(bell);
    }
}

/* ---- The driver of core/admit.h ------------------------------------------------------------------ */

static struct shard *first_shard(const struct tern_worker *worker)
{
    return worker->node->engine ? &worker->node->engine->shards[0] : NULL;
}

static uint64_t io_now_ns(void *driver)
{
    (void)driver;
    return clock_now_ns();
}

static void io_hurry(void *driver)
{
    struct tern_worker *worker = driver;
    if (!worker->node->engine)
        return;
    round_driver_hurry(&first_shard(worker)->round_driver);
    worker->drive_ns = 0;
}

static struct node_clock io_clock(void *driver)
{
    struct tern_node *node = ((const struct tern_worker *)driver)->node;
    lock_take(&node->clocks_lock);
    const struct node_clock clock = worker_clocks_now(&node->clocks);
    lock_release(&node->clocks_lock);
    return clock;
}

static uint64_t io_min_clock(void *driver)
{
    const struct tern_worker *worker = driver;
    return atomic_load_explicit(&worker->node->min_clock, memory_order_acquire);
}

static bool io_tell(void *driver, uint64_t clock)
{
    const struct tern_worker *worker = driver;
    struct tern_node *node = worker->node;
    lock_take(&node->clocks_lock);
    const bool changed = worker_clocks_set(&node->clocks, worker->clock_index, clock);
    if (changed) {
        publish(node);
        pthread_cond_broadcast(&node->clocks_change);
    }
    lock_release(&node->clocks_lock);
    return changed;
}

/* On a single node nobody else uses what a worker looks at. */
static void io_enter_shard(void *driver, uint32_t shard)
{
    struct engine *engine = ((const struct tern_worker *)driver)->node->engine;
    if (engine)
        lock_take(&engine->shards[shard].lock);
}

static void io_leave_shard(void *driver, uint32_t shard)
{
    struct engine *engine = ((const struct tern_worker *)driver)->node->engine;
    if (engine)
        lock_release(&engine->shards[shard].lock);
}

static void io_enter_rounds(void *driver)
{
    round_driver_lock(&first_shard(driver)->round_driver);
}

static void io_leave_rounds(void *driver)
{
    round_driver_unlock(&first_shard(driver)->round_driver);
}

const struct io worker_io = {.now_ns = io_now_ns,
                             .hurry = io_hurry,
                             .clock = io_clock,
                             .min_clock = io_min_clock,
                             .tell = io_tell,
                             .enter_shard = io_enter_shard,
                             .leave_shard = io_leave_shard,
                             .enter_rounds = io_enter_rounds,
                             .leave_rounds = io_leave_rounds};

static struct waiter waiter_of(struct tern_worker *worker)
{
    const struct tern_node *node = worker->node;
    const struct engine *engine = node->engine;
    return (struct waiter){.core = engine ? &engine->core : NULL,
                           .rounds =
                               engine ? round_driver_get(&engine->shards[0].round_driver) : NULL,
                           .peers = engine ? &engine->peers : NULL,
                           .deadline_ns = node->deadline_ns,
                           .io = &worker_io,
                           .driver = worker};
}

static void tell(struct tern_worker *worker, uint64_t clock)
{
    const struct waiter waiter = waiter_of(worker);
    admit_tell(&waiter, clock);
}

/* ---- The clocks of workers ----------------------------------------------------------------------- */

void admit_begin(struct tern_node *node)
{
    const bool is_first = !atomic_exchange(&node->has_clocks, true);
    if (node->engine)
        atomic_store_explicit(&node->engine->is_prompt, true, memory_order_relaxed);
    lock_take(&node->clocks_lock);
    for (struct tern_worker *worker = node->workers; is_first && worker; worker = worker->next)
        if (worker->clock_index != NO_WORKER &&
            node->clocks.min.values[worker->clock_index] != CLOCK_RESTS)
            worker_clocks_set(&node->clocks, worker->clock_index,
                              atomic_load_explicit(&worker->clock, memory_order_relaxed));
    publish(node);
    lock_release(&node->clocks_lock);
}

void admit_end(struct tern_node *node)
{
    lock_take(&node->clocks_lock);
    lock_release(&node->clocks_lock);
}

/* A worker that is opened when others have gone on already takes part from its first update on. */
enum tern_status admit_open(struct tern_worker *worker)
{
    struct tern_node *node = worker->node;
    lock_take(&node->clocks_lock);
    worker->rests = node->clocks.highest > 0;
    bool opened = worker_clocks_open(&node->clocks, (uint32_t)worker->number,
                                     worker->rests ? CLOCK_RESTS : 0, &worker->clock_index);
    if (!opened)
        worker->clock_index = NO_WORKER;
    lock_release(&node->clocks_lock);
    return opened ? TERN_OK : fail(TERN_NO_MEMORY, "no memory to open a worker");
}

void admit_close(struct tern_worker *worker)
{
    struct tern_node *node = worker->node;
    if (worker->clock_index == NO_WORKER)
        return;
    tell(worker, CLOCK_RESTS);
    lock_take(&node->clocks_lock);
    worker_clocks_close(&node->clocks, worker->clock_index);
    lock_release(&node->clocks_lock);
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

static void wait_single(struct tern_node *node)
{
    lock_take(&node->clocks_lock);
    lock_wait_until(&node->clocks_lock, &node->clocks_change, clock_now_ns() + LOOK_MS * MS);
    lock_release(&node->clocks_lock);
}

/* Waits for another process to come further in a table that is shared. `seen` is what its bell read before. */
static void wait_shared(const struct tern_worker *worker, struct bell *bell, uint32_t seen)
{
    engine_drive(worker->node->engine, clock_now_ns());
    bell_wait(bell, seen, LOOK_MS * MS);
}

/* Waits until the worker may go on, driving the rounds itself. */
static enum tern_status wait_for(struct tern_worker *worker, struct wait *wait)
{
    const struct waiter waiter = waiter_of(worker);
    struct shard *shard = first_shard(worker);
    struct bell *bell = wait->table && wait->table->technique->bell
                            ? wait->table->technique->bell(wait->table)
                            : NULL;
    uint32_t seen = bell ? bell_read(bell) : 0;
    enum tern_status status;
    wait->access.clock = clock_of(worker);
    wait->worker = (uint32_t)worker->number;
    wait->rests = worker->rests;
    while (!admit_look(&waiter, wait, &status) && !status) {
        if (bell)
            wait_shared(worker, bell, seen);
        else if (shard)
            status = round_driver_help(&shard->round_driver, wait->begin_ns);
        else
            wait_single(worker->node);
        if (!status)
            status = interrupt_check();
        if (status)
            break;
        seen = bell ? bell_read(bell) : 0;
    }
    if (!wait->begin_ns)
        return status;
    const uint64_t waited = clock_now_ns() - wait->begin_ns;
    count_add(&worker->waited_ns, waited);
    if (wait->table)
        count_add(&worker->space->counts[table_around(wait->table)->id].waited_ns, waited);
    return status;
}

/* ---- Operations ---------------------------------------------------------------------------------- */

static void count_ages(struct counts *counts, const struct access *access)
{
    for (int i = 0; i < TERN_CLOCK_STEPS; i++)
        if (access->ages[i])
            count_add(&counts->ages[i], access->ages[i]);
}

static enum tern_status before_read(struct tern_worker *worker, struct tern_table *table,
                                    const uint64_t *keys, size_t n)
{
    enum tern_status status = TERN_OK;
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS) {
        struct wait wait = {.turn = TURN_TO_READ,
                            .table = &table->core,
                            .access = {.keys = keys + done,
                                       .n = n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS,
                                       .stale = worker->space->missed}};
        status = wait_for(worker, &wait);
        if (!status)
            count_ages(&worker->space->counts[table->id], &wait.access);
    }
    return status;
}

bool admit_now(struct tern_worker *worker, const struct tern_table *table, uint64_t key)
{
    uint32_t stale;
    struct access access = {.clock = clock_of(worker),
                            .min_clock = io_min_clock(worker),
                            .keys = &key,
                            .n = 1,
                            .stale = &stale};
    if (!table->core.technique->admit(&table->core, &access))
        return false;
    count_ages(&worker->space->counts[table->id], &access);
    return true;
}

static enum tern_status come_back(struct tern_worker *worker)
{
    struct wait wait = {.turn = TURN_TO_RETURN};
    enum tern_status status = wait_for(worker, &wait);
    if (status)
        return status;
    worker->clock_ahead =
        wait.access.clock - atomic_load_explicit(&worker->clock, memory_order_relaxed);
    worker->rests = false;
    return TERN_OK;
}

/* Before an update of a table, or, of NULL, the advance of the clock. */
static enum tern_status before_update(struct tern_worker *worker, struct tern_table *table)
{
    const struct unseen *unseen = worker->space->unseen;
    struct wait wait = {.turn = TURN_TO_UPDATE,
                        .table = table ? &table->core : NULL,
                        .unseen = table ? &unseen[table->id] : unseen,
                        .size = table ? worker->update_size : 0};
    enum tern_status status = worker->rests ? come_back(worker) : TERN_OK;
    return status || !worker->is_limited ? status : wait_for(worker, &wait);
}

enum tern_status admit_before_advance(struct tern_worker *worker)
{
    return before_update(worker, NULL);
}

enum tern_status admit_before(struct tern_worker *worker, struct tern_table *table,
                              enum frame_kind kind, const uint64_t *keys, size_t n,
                              const void *values)
{
    enum tern_status status = TERN_OK;
    if (kind != FRAME_PULL) {
        worker->update_size =
            table->core.technique->size(&table->core, keys, n, kind == FRAME_PUSH ? values : NULL);
        status = before_update(worker, table);
    }
    /* What a set changes is the difference to what it finds. */
    if (!status && kind != FRAME_PUSH)
        status = before_read(worker, table, keys, n);
    return status;
}

void admit_after(struct tern_worker *worker, const struct tern_table *table, enum frame_kind kind)
{
    struct unseen *unseen = &worker->space->unseen[table->id];
    if (kind == FRAME_PULL)
        return;
    table->core.technique->updated(&table->core, unseen, worker->update_size);
    worker->is_limited |= unseen->epochs[0] || unseen->epochs[1];
}

void admit_settle_all(struct tern_node *node)
{
    struct engine *engine = node->engine;
    lock_take(&engine->shards[0].lock);
    admit_settle(&engine->core);
    lock_release(&engine->shards[0].lock);
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
