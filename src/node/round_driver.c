/* round_driver - see round_driver.h. */
#include "core/technique.h"
#include "node/round_driver.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/thread.h"
#include "core/rounds.h"
#include "node/engine.h"
#include "node/remote.h"
#include "node/explain.h"

enum {
    IDLE_MS = 50,   /* the thread's pause after the last round */
    SHORT_MS = 2,   /* pauses up to which the thread is woken for what is urgent only */
    MAX_PASSES = 8, /* of asking about a table in one round */
    HELP_MS = 1,    /* the longest wait of a worker that helps */
};

#define MS UINT64_C(1000000)
#define DRIVEN_NS (2 * MS) /* how long the thread leaves the rounds to workers that drive them */
#define AWAKE_NS (MS / 5)  /* how long a worker that helps does not sleep */

/* What the thread does; it is not woken from a nap during which workers drive. */
enum nap { NAP_NONE, NAP_SHORT, NAP_LONG };

struct rounding {
    struct round_driver *driver;
    struct remote remote;
    struct rounds rounds;
};

void round_driver_init(struct round_driver *driver, struct shard *shard)
{
    *driver = (struct round_driver){.shard = shard};
    condition_init(&driver->nap_end);
    lock_init(&driver->lock, RANK_ROUNDS, shard->number);
    lock_init(&driver->nap_lock, RANK_THREADS, 0);
}

static void wake(struct round_driver *driver, bool stop)
{
    lock_take(&driver->nap_lock);
    driver->wanted = true;
    driver->stop |= stop;
    pthread_cond_signal(&driver->nap_end);
    lock_release(&driver->nap_lock);
}

void round_driver_poke(struct round_driver *driver, bool is_urgent)
{
    int naps = atomic_load_explicit(&driver->naps, memory_order_seq_cst);
    if (naps == NAP_LONG || (is_urgent && naps == NAP_SHORT))
        wake(driver, false);
}

/* ---- The driver of core/rounds.h ---------------------------------------------------------------- */

static uint64_t io_now_ns(void *context)
{
    (void)context;
    return clock_now_ns();
}

static void io_enter(void *context)
{
    const struct round_driver *driver = context;
    lock_take(&driver->shard->lock);
}

static void io_leave(void *context)
{
    const struct round_driver *driver = context;
    lock_release(&driver->shard->lock);
}

static void io_wake(void *context)
{
    const struct round_driver *driver = context;
    shard_wake(driver->shard);
}

static struct node_clock io_clock(void *context)
{
    const struct round_driver *driver = context;
    struct engine *engine = driver->shard->engine;
    lock_take(engine->clocks_lock);
    struct node_clock clock = worker_clocks_now(engine->clocks);
    lock_release(engine->clocks_lock);
    return clock;
}

static const struct io thread_io = {
    .now_ns = io_now_ns, .enter = io_enter, .leave = io_leave, .wake = io_wake, .clock = io_clock};

/* Does what can be done without waiting, for a worker or not. The caller holds the lock. */
static void step(struct rounding *rounding, uint64_t now_ns, bool works)
{
    struct shard *shard = rounding->driver->shard;
    const uint64_t n_ended = rounding->rounds.n_ended;
    status_aside(); /* a connection that breaks is made again */
    rounding->remote.reads = true;
    rounds_step(&rounding->rounds, now_ns, works);
    status_back();
    if (rounding->rounds.n_ended == n_ended)
        return;
    lock_take(&shard->lock);
    bool has_events = explain_has_events(shard);
    lock_release(&shard->lock);
    if (has_events)
        explain_write(shard);
}

void round_driver_drive(struct round_driver *driver, uint64_t now_ns)
{
    if (!atomic_load_explicit(&driver->is_running, memory_order_acquire) ||
        !lock_try(&driver->lock))
        return;
    step(driver->rounding, now_ns, true);
    lock_release(&driver->lock);
}

/* Sleeps until a round is wanted, if it may be woken for that, or the pause, if there is any, is over;
 * false when there is to be no other. */
static bool nap(struct round_driver *driver, uint64_t pause_ns, bool may_be_poked)
{
    enum nap naps = !may_be_poked ? NAP_NONE : pause_ns > SHORT_MS * MS ? NAP_LONG : NAP_SHORT;
    uint64_t end = clock_now_ns() + pause_ns;
    atomic_store_explicit(&driver->naps, naps, memory_order_seq_cst);
    lock_take(&driver->nap_lock);
    bool in_time = pause_ns;
    while (in_time && !driver->stop && !driver->wanted)
        in_time = lock_wait_until(&driver->nap_lock, &driver->nap_end, end);
    if (driver->wanted)
        rounds_want(&driver->rounding->rounds);
    driver->wanted = false;
    bool goes_on = !driver->stop;
    lock_release(&driver->nap_lock);
    atomic_store_explicit(&driver->naps, NAP_NONE, memory_order_relaxed);
    return goes_on;
}

/* Drives while no worker does: waits for answers, and naps between rounds. */
static void *sync_main(void *context)
{
    struct round_driver *driver = context;
    struct rounding *rounding = driver->rounding;
    const struct rounds *rounds = &rounding->rounds;
    const struct round *round = &rounds->round;
    for (bool goes_on = true; goes_on;) {
        uint64_t now_ns = clock_now_ns(), pause_ns = DRIVEN_NS;
        bool is_driven = shard_is_driven(driver->shard, now_ns);
        if (!is_driven) {
            lock_take(&driver->lock);
            now_ns = clock_now_ns();
            step(rounding, now_ns, false);
            if (round->runs)
                remote_wait_for_any(&rounding->remote, 1);
            uint64_t next_ns = rounds_next_ns(rounds, false);
            pause_ns = round->runs ? 0 : next_ns > now_ns ? next_ns - now_ns : 1;
            if (rounds->trouble)
                pause_ns = IDLE_MS * MS;
            lock_release(&driver->lock);
        }
        goes_on = nap(driver, pause_ns, !is_driven);
    }
    return NULL;
}

static struct rounding *rounding_new(struct round_driver *driver)
{
    struct shard *shard = driver->shard;
    struct rounding *rounding = calloc(1, sizeof *rounding);
    if (!rounding || remote_init_shard(&rounding->remote, shard->engine, shard->number)) {
        free(rounding);
        return NULL;
    }
    rounding->driver = driver;
    rounds_init(&rounding->rounds, &rounding->remote.lanes, &shard->service.server, &shard->intents,
                MAX_PASSES, &thread_io, driver);
    rounding->rounds.lane_number = rounding->remote.lane;
    return rounding;
}

static void rounding_free(struct rounding *rounding)
{
    struct client *client = &rounding->remote.client;
    for (uint32_t i = 0; i < client->n_lanes; i++)
        lane_fail(client, &client->lanes[i], TERN_CLOSED, "the node is being closed");
    rounds_fini(&rounding->rounds);
    remote_fini(&rounding->remote);
    free(rounding);
}

void round_driver_fini(struct round_driver *driver)
{
    atomic_store_explicit(&driver->is_running, false, memory_order_relaxed);
    wake(driver, true);
    if (driver->has_thread)
        pthread_join(driver->thread, NULL);
    lock_take(&driver->shard->lock);
    driver->shard->service.server.rounds_status = TERN_OK;
    lock_release(&driver->shard->lock);
    if (driver->rounding)
        rounding_free(driver->rounding);
    pthread_cond_destroy(&driver->nap_end);
    lock_fini(&driver->nap_lock);
    lock_fini(&driver->lock);
}

enum tern_status round_driver_start(struct round_driver *driver)
{
    if (driver->has_thread)
        return TERN_OK;
    if (!driver->rounding)
        driver->rounding = rounding_new(driver);
    if (!driver->rounding)
        return fail(TERN_NO_MEMORY, "no memory for rounds");
    enum tern_status status = thread_start(&driver->thread, sync_main, driver);
    if (status)
        return status;
    driver->has_thread = true;
    atomic_store_explicit(&driver->is_running, true, memory_order_release);
    return TERN_OK;
}

void round_driver_lock(struct round_driver *driver)
{
    lock_take(&driver->lock);
}

void round_driver_unlock(struct round_driver *driver)
{
    lock_release(&driver->lock);
}

void round_driver_hurry(struct round_driver *driver)
{
    if (!atomic_load_explicit(&driver->is_running, memory_order_acquire))
        return;
    rounds_hurry(&driver->rounding->rounds);
    round_driver_poke(driver, true);
}

struct rounds *round_driver_get(const struct round_driver *driver)
{
    return atomic_load_explicit(&driver->is_running, memory_order_acquire)
               ? &driver->rounding->rounds
               : NULL;
}

uint64_t round_driver_rounds(const struct round_driver *driver)
{
    const struct rounds *rounds = round_driver_get(driver);
    return rounds ? atomic_load_explicit(&rounds->n_ended, memory_order_acquire) : 0;
}

enum tern_status round_driver_help(struct round_driver *driver, uint64_t since_ns)
{
    struct shard *shard = driver->shard;
    uint64_t now_ns = clock_now_ns();
    enum tern_status status = TERN_OK;
    engine_drive(shard->engine, now_ns);
    /* To fall asleep and be woken takes longer than most answers. */
    if (now_ns < since_ns + AWAKE_NS) {
        sched_yield();
        return TERN_OK;
    }
    if (!lock_try(&driver->lock)) {
        poll(&(struct pollfd){.fd = shard->epoll_fd, .events = POLLIN}, 1, HELP_MS);
        return TERN_OK;
    }
    status = rounds_status(&driver->rounding->rounds);
    if (!status)
        remote_wait_driving(&driver->rounding->remote, HELP_MS);
    lock_release(&driver->lock);
    return status;
}

/* Drives the rounds for a moment on behalf of somebody who waits for them. The caller holds the lock. */
static enum tern_status drive(struct round_driver *driver)
{
    struct rounding *rounding = driver->rounding;
    const struct round *round = &rounding->rounds.round;
    rounds_want(&rounding->rounds);
    step(rounding, clock_now_ns(), true);
    if (!round->runs && !round->awaits)
        return TERN_OK;
    /* Others may ask this node before they answer, and nobody else may be there to serve them. */
    lock_release(&driver->lock);
    engine_drive(driver->shard->engine, clock_now_ns());
    lock_take(&driver->lock);
    if (round->runs)
        remote_wait_for_any(&rounding->remote, 1);
    else
        poll(&(struct pollfd){.fd = driver->shard->epoll_fd, .events = POLLIN}, 1, 1);
    return interrupt_check();
}

/* Waits until a counter of the rounds has reached a value, driving them itself. The caller holds the lock. */
static enum tern_status wait_for(struct round_driver *driver, const uint64_t *count,
                                 uint64_t enough)
{
    const struct rounds *rounds = &driver->rounding->rounds;
    enum tern_status status = TERN_OK;
    while (*count < enough && !rounds->trouble && !status)
        status = drive(driver);
    return status ? status : rounds_status(rounds);
}

enum tern_status round_driver_wait(struct round_driver *driver)
{
    if (!atomic_load_explicit(&driver->is_running, memory_order_acquire))
        return TERN_OK;
    round_driver_lock(driver);
    struct rounds *rounds = &driver->rounding->rounds;
    enum tern_status status = wait_for(driver, &rounds->n_clean, rounds_begin_flush(rounds));
    rounds_end_flush(rounds);
    round_driver_unlock(driver);
    return status;
}

enum tern_status round_driver_wait_changes(struct round_driver *driver)
{
    if (!atomic_load_explicit(&driver->is_running, memory_order_acquire))
        return TERN_OK;
    round_driver_lock(driver);
    struct rounds *rounds = &driver->rounding->rounds;
    const uint64_t sweep = rounds_next_sweep(rounds);
    rounds_await_sweep(rounds, sweep);
    enum tern_status status = wait_for(driver, &rounds->round.n_sweeps, sweep);
    round_driver_unlock(driver);
    return status;
}

void round_driver_retire(struct round_driver *driver, struct core_table *table)
{
    struct shard *shard = driver->shard;
    if (!atomic_load_explicit(&driver->is_running, memory_order_acquire))
        return;
    round_driver_lock(driver);
    enum tern_status status = TERN_OK;
    for (bool has_more = true; has_more && !status && !driver->rounding->rounds.trouble;) {
        lock_take(&shard->lock);
        has_more = table->technique->retire(table, shard->number);
        lock_release(&shard->lock);
        if (has_more)
            status = drive(driver);
    }
    round_driver_unlock(driver);
}

enum tern_status round_driver_hold(struct round_driver *driver)
{
    if (!atomic_load_explicit(&driver->is_running, memory_order_acquire))
        return TERN_OK;
    round_driver_lock(driver);
    struct rounds *rounds = &driver->rounding->rounds;
    const uint64_t enough = rounds_hold(rounds);
    enum tern_status status = TERN_OK;
    while (rounds->n_ended < enough && !rounds->trouble && !status)
        status = drive(driver);
    if (!status)
        status = rounds_status(rounds);
    round_driver_unlock(driver);
    return status;
}

void round_driver_release(struct round_driver *driver)
{
    if (!atomic_load_explicit(&driver->is_running, memory_order_acquire))
        return;
    round_driver_lock(driver);
    rounds_release(&driver->rounding->rounds);
    round_driver_unlock(driver);
    round_driver_poke(driver, true);
}
