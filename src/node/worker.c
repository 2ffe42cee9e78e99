/* worker - opening and closing workers, and their clocks. See node.h. */
#include "node/node.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "node/exclusive.h"
#include "node/admit.h"

#define DRIVE_NS UINT64_C(40000)

/* Gives a worker its own connections to the other nodes. */
static enum tern_status connect_worker(struct tern_worker *worker)
{
    worker->remote = calloc(1, sizeof *worker->remote);
    if (!worker->remote)
        return fail(TERN_NO_MEMORY, "no memory to open a worker");
    struct engine *engine = worker->node->engine;
    const uint32_t n_shards = engine->core.n_shards;
    bool ready = true;
    for (uint32_t i = 0; ready && i < n_shards; i++)
        ready = (worker->intents[i] = intents_new());
    enum tern_status status = ready ? remote_init(worker->remote, engine)
                                    : fail(TERN_NO_MEMORY, "no memory to open a worker");
    if (status) {
        for (uint32_t i = 0; i < n_shards && worker->intents[i]; i++)
            intents_free(worker->intents[i]);
        free(worker->remote);
        return status;
    }
    worker->remote->drives = true;
    for (uint32_t i = 0; i < n_shards; i++) {
        struct shard *shard = &engine->shards[i];
        lock_take(&shard->lock);
        worker->intents[i]->next = shard->intents;
        shard->intents = worker->intents[i];
        lock_release(&shard->lock);
    }
    return TERN_OK;
}

enum tern_status node_open_worker(struct tern_node *node, bool is_pool_thread,
                                  struct tern_worker **worker)
{
    struct tern_worker *made = calloc(1, sizeof *made);
    struct workspace *space = calloc(1, sizeof *space);
    if (!made || !space) {
        free(made);
        free(space);
        return fail(TERN_NO_MEMORY, "no memory to open a worker");
    }
    made->node = node;
    made->space = space;
    made->is_pool_thread = is_pool_thread;
    made->opened_ns = clock_now_ns();
    lock_init(&made->intents_lock, RANK_INTENTS, 0);
    made->takes_intents = node->engine != NULL;
    enum tern_status status = node->engine ? connect_worker(made) : TERN_OK;
    if (status) {
        free(made);
        free(space);
        return status;
    }
    handle_init(&made->handle, HANDLE_WORKER);

    lock_take(&node->lock);
    made->number = node->n_workers_opened++;
    status = admit_open(made); /* before a table that is being opened finds it in the list */
    made->next = node->workers;
    node->workers = made;
    if (!status)
        status = exclusive_open(made);
    lock_release(&node->lock);
    if (status) {
        tern_worker_close(made);
        return status;
    }
    *worker = made;
    return TERN_OK;
}

enum tern_status tern_worker_open(struct tern_node *node, struct tern_worker **worker)
{
    if (!handle_is((const struct handle *)node, HANDLE_NODE))
        return handle_refuse((const struct handle *)node, HANDLE_NODE);
    if (!worker)
        return fail(TERN_INVALID, "tern_worker_open: the pointer `worker` for the result is NULL");
    return node_open_worker(node, false, worker);
}

/* The rounds end the intents of a worker that is being closed; without rounds there are none. The caller holds
 * the node's lock, so that none begin now. */
static void end_intents(struct shard *shard, struct intents *intents)
{
    if (atomic_load_explicit(&shard->round_driver.is_running, memory_order_relaxed)) {
        /* Release: partner of the acquire in intents_round. */
        atomic_store_explicit(&intents->is_over, true, memory_order_release);
        round_driver_poke(&shard->round_driver, true);
        return;
    }
    lock_take(&shard->lock);
    struct intents **link = &shard->intents;
    while (*link != intents)
        link = &(*link)->next;
    *link = intents->next;
    lock_release(&shard->lock);
    intents_free(intents);
}

/* A loader thread may be about to add an intent: it waits for the lock, and finds that it came too late. */
static void end_all_intents(struct tern_worker *worker)
{
    lock_take(&worker->intents_lock);
    worker->takes_intents = false;
    for (uint32_t i = 0; i < STORE_MAX_SHARDS && worker->intents[i]; i++)
        end_intents(&worker->node->engine->shards[i], worker->intents[i]);
    lock_release(&worker->intents_lock);
}

enum tern_status tern_worker_close(struct tern_worker *worker)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    if (worker->n_pins)
        return fail(TERN_BUSY, "the worker still holds %" PRIu64 " pinned row%s; unpin first",
                    worker->n_pins, worker->n_pins == 1 ? "" : "s");
    enum tern_status status = tasks_end_worker(worker);
    if (status)
        return status;
    struct tern_node *node = worker->node;
    if (worker->remote) {
        access_finish_all(worker);
        remote_fini(worker->remote);
        free(worker->remote);
    }
    lock_take(&node->lock);
    struct tern_worker **link = &node->workers;
    while (*link != worker)
        link = &(*link)->next;
    *link = worker->next;
    exclusive_close(node);
    end_all_intents(worker);
    admit_close(worker);
    sample_end_worker(worker);
    for (size_t i = 0; i < TERN_MAX_TABLES; i++)
        if (node->tables[i])
            counts_sum(&node->tables[i]->ended, &worker->space->counts[i]);
    lock_release(&node->lock);
    free(worker->space->away);
    free(worker->space->gathered);
    order_fini(&worker->space->order);
    for (size_t i = 0; i < TERN_MAX_TABLES; i++)
        keymap_free(&worker->space->pins[i]);
    free(worker->space);
    handle_close(&worker->handle);
    return TERN_OK;
}

void worker_drive(struct tern_worker *worker)
{
    struct engine *engine = worker->node->engine;
    if (!engine || !engine_has_rounds(engine))
        return;
    uint64_t now_ns = clock_now_ns();
    if (now_ns < worker->drive_ns)
        return;
    engine_drive(engine, now_ns);
    worker->drive_ns = now_ns + DRIVE_NS;
}

enum tern_status tern_worker_advance(struct tern_worker *worker, uint64_t *clock)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    enum tern_status status = TERN_OK;
    if (worker->rests || worker->is_limited)
        status = admit_before_advance(worker);
    if (status)
        return status;
    uint64_t now = atomic_load_explicit(&worker->clock, memory_order_relaxed) + 1;
    atomic_store_explicit(&worker->clock, now, memory_order_relaxed);
    if (atomic_load_explicit(&worker->node->has_clocks, memory_order_acquire))
        admit_advanced(worker);
    for (uint32_t i = 0; i < STORE_MAX_SHARDS && worker->intents[i]; i++)
        atomic_store_explicit(&worker->intents[i]->clock, now, memory_order_relaxed);
    worker_drive(worker);
    if (atomic_load_explicit(&worker->node->has_ages, memory_order_relaxed))
        evict_advanced(worker, now);
    if (clock)
        *clock = now;
    return TERN_OK;
}

void worker_forget_table(struct tern_worker *worker, uint32_t table)
{
    worker->space->counts[table] = (struct counts){0};
    worker->space->noted[table] = 0;
    worker->space->unseen[table] = (struct unseen){0};
}

enum tern_status tern_worker_clock(struct tern_worker *worker, uint64_t *clock)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    if (!clock)
        return fail(TERN_INVALID, "tern_worker_clock: the pointer `clock` is NULL");
    *clock = worker->clock;
    return TERN_OK;
}
