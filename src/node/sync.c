/* sync - see sync.h. */
#include "node/sync.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/round.h"
#include "node/engine.h"
#include "node/remote.h"
#include "node/why.h"

enum {
    IDLE_MS = 50,    /* the longest pause */
    INTENT_MS = 2,   /* the longest while there are intents: a worker may go on at any time; */
    QUIET_MS = 1000, /* but after so long without anything to exchange, only if one does */
    MAX_PASSES = 8,  /* of asking about a table in one round */
    HELP_MS = 1,     /* the longest wait of a worker that helps */
};

#define MS UINT64_C(1000000)
#define DRIVEN_NS (2 * MS) /* how long the thread leaves the rounds to workers that drive them */
#define BUSY_NS (MS / 20)  /* the pause when there is something to do */
/* Between two collections of what was changed in rows that have copies. A hot key is changed in every
 * step: that all its copies get each change would cost more than the steps. So the pause grows with what
 * a collection takes, which is a part of what it makes others do. */
#define COLLECT_MIN_NS (2 * MS)
#define COLLECT_MAX_NS (20 * MS)
#define COLLECT_SHARE 80  /* of the time, one part is spent on collecting, by all shards */
#define AWAKE_NS (MS / 5) /* how long a worker that helps does not sleep */

/* What the thread does; it is not woken from a nap during which workers drive. */
enum nap { NAP_NONE, NAP_SHORT, NAP_LONG };

struct rounds {
    struct sync *sync;
    struct remote remote;
    struct round round;
    uint64_t pause_ns;         /* after the last round, */
    uint64_t ended_ns;         /* which ended then */
    uint64_t exchanged_ns;     /* when something was exchanged last */
    uint64_t collected_ns;     /* when changes were collected last */
    uint64_t collect_pause_ns; /* from then on */
    unsigned n_hurried;        /* callers that wait until everything is collected and told */
};

void sync_init(struct sync *sync, struct shard *shard)
{
    *sync = (struct sync){.shard = shard};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&sync->nap_end, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&sync->change, NULL);
    pthread_mutex_init(&sync->lock, NULL);
    pthread_mutex_init(&sync->nap_lock, NULL);
}

static void wake(struct sync *sync, bool stop)
{
    pthread_mutex_lock(&sync->nap_lock);
    sync->wanted = true;
    sync->stop |= stop;
    pthread_cond_signal(&sync->nap_end);
    pthread_mutex_unlock(&sync->nap_lock);
}

void sync_poke(struct sync *sync, bool is_urgent)
{
    int naps = atomic_load_explicit(&sync->naps, memory_order_seq_cst);
    if (naps == NAP_LONG || (is_urgent && naps == NAP_SHORT))
        wake(sync, false);
}

/* ---- Rounds ------------------------------------------------------------------------------------- */

/* Collects what was changed in rows that have copies. The caller holds the shard's lock. */
static void collect(struct rounds *rounds)
{
    uint64_t begin_ns = clock_now_ns();
    round_collect(&rounds->round);
    uint64_t taken_ns = (clock_now_ns() - begin_ns) * rounds->round.core->n_shards;
    uint64_t pause_ns = COLLECT_SHARE * taken_ns;
    rounds->collected_ns = begin_ns;
    rounds->collect_pause_ns = pause_ns < COLLECT_MIN_NS   ? COLLECT_MIN_NS
                               : pause_ns > COLLECT_MAX_NS ? COLLECT_MAX_NS
                                                           : pause_ns;
}

/* How far the workers are, which is to be known before what they have changed until then. */
static struct node_clock workers_clock(struct engine *engine)
{
    pthread_mutex_lock(engine->pace_lock);
    struct node_clock clock = pace_now(engine->pace);
    pthread_mutex_unlock(engine->pace_lock);
    return clock;
}

static void begin_round(struct rounds *rounds, uint64_t now_ns)
{
    struct shard *shard = rounds->sync->shard;
    bool is_due = now_ns >= rounds->collected_ns + rounds->collect_pause_ns;
    atomic_store_explicit(&rounds->sync->is_hurried, false, memory_order_relaxed);
    pthread_mutex_lock(&shard->lock);
    round_begin(&rounds->round, &shard->intents);
    if (is_due || rounds->n_hurried)
        collect(rounds);
    round_ask(&rounds->round, workers_clock(shard->engine), now_ns);
    pthread_mutex_unlock(&shard->lock);
}

static void take_answers(struct rounds *rounds, uint64_t now_ns)
{
    struct shard *shard = rounds->sync->shard;
    remote_progress(&rounds->remote);
    if (!round_has_answers(&rounds->round))
        return;
    pthread_mutex_lock(&shard->lock);
    round_step(&rounds->round, now_ns, rounds->collect_pause_ns);
    pthread_mutex_unlock(&shard->lock);
}

/* Sends the questions that are queued, those about all tables together. */
static void send_questions(struct rounds *rounds)
{
    struct lane *lanes = rounds->remote.client.lanes;
    for (uint32_t i = 0; i < rounds->remote.client.n_lanes; i++)
        if (lanes[i].unsent)
            remote_nudge(&rounds->remote, &lanes[i]);
}

/* The pause after a round. */
static uint64_t next_pause(struct rounds *rounds)
{
    const struct round *round = &rounds->round;
    if (round->busy || round->left_over) {
        rounds->exchanged_ns = rounds->ended_ns;
        return BUSY_NS;
    }
    bool is_quiet = rounds->ended_ns > rounds->exchanged_ns + QUIET_MS * MS;
    bool is_awaited = round->awaits || (round->intends && !is_quiet);
    uint64_t most = (is_awaited ? INTENT_MS : IDLE_MS) * MS;
    uint64_t next = 2 * rounds->pause_ns + BUSY_NS;
    return next < most ? next : most;
}

/* Whether what has happened to keys is to be written to files. */
static bool has_news(const struct shard *shard)
{
    const struct core *core = &shard->engine->core;
    bool found = false;
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table = atomic_load_explicit(&core->tables[i], memory_order_acquire);
        struct manager *manager = table ? table->managers[shard->number] : NULL;
        found |= manager && why_has_news(manager);
    }
    return found;
}

/* An all-reduce needs all nodes: this one may wait for a node that lives and itself waits for one that is dead. */
static void look_for_dead(struct rounds *rounds)
{
    if (rounds->round.awaits)
        round_fail(&rounds->round, engine_check_dead(rounds->sync->shard->engine));
}

static void end_round(struct rounds *rounds, uint64_t now_ns)
{
    struct sync *sync = rounds->sync;
    struct shard *shard = sync->shard;
    const struct round *round = &rounds->round;
    pthread_mutex_lock(&shard->lock);
    round_end(&rounds->round);
    look_for_dead(rounds);
    bool is_news = has_news(shard);
    shard->server.rounds_status = round->status;
    shard->server.why_no_rounds = round->sentence;
    bool held = shard->server.holds_for_round;
    shard->server.holds_for_round = false;
    pthread_mutex_unlock(&shard->lock);
    if (held)
        shard_wake(shard);
    if (is_news)
        why_write(shard);
    rounds->ended_ns = now_ns;
    rounds->pause_ns = next_pause(rounds);
    sync->n_all_rounds++;
    sync->n_rounds += !round->left_over && !round->awaits && !round->status;
    sync->trouble = round->status;
    pthread_cond_broadcast(&sync->change);
}

/* When the next round is to begin. Intents begin and end when a worker advances its clock, and then it asks for itself:
 * who asks for nobody lets more time pass, unless somebody waits or there is more to say. */
static uint64_t next_begin(const struct rounds *rounds, bool works)
{
    const struct round *round = &rounds->round;
    uint64_t next_ns = atomic_load_explicit(&rounds->sync->next_ns, memory_order_relaxed);
    uint64_t intent_ns = rounds->ended_ns + INTENT_MS * MS;
    if (atomic_load_explicit(&rounds->sync->is_hurried, memory_order_relaxed))
        return 0;
    if (!round->intends || !next_ns || (!works && (round->left_over || round->awaits)))
        return next_ns;
    return works == (intent_ns < next_ns) ? intent_ns : next_ns;
}

/* Does what can be done without waiting, for a worker or not. The caller holds the lock. */
static void step(struct rounds *rounds, uint64_t now_ns, bool works)
{
    struct sync *sync = rounds->sync;
    if (sync->trouble || (!rounds->round.runs && now_ns < next_begin(rounds, works)))
        return;
    if (rounds->round.runs)
        take_answers(rounds, now_ns);
    else
        begin_round(rounds, now_ns);
    send_questions(rounds);
    if (!round_is_over(&rounds->round))
        return;
    end_round(rounds, now_ns);
    atomic_store_explicit(&sync->next_ns, now_ns + rounds->pause_ns, memory_order_relaxed);
}

void sync_drive(struct sync *sync, uint64_t now_ns)
{
    if (!atomic_load_explicit(&sync->is_running, memory_order_acquire) ||
        pthread_mutex_trylock(&sync->lock))
        return;
    step(sync->rounds, now_ns, true);
    pthread_mutex_unlock(&sync->lock);
}

/* Sleeps until a round is wanted, if it may be woken for that, or the pause, if there is any, is over;
 * false when there is to be no other. */
static bool nap(struct sync *sync, uint64_t pause_ns, bool may_be_poked)
{
    enum nap naps = !may_be_poked ? NAP_NONE : pause_ns > INTENT_MS * MS ? NAP_LONG : NAP_SHORT;
    uint64_t end = clock_now_ns() + pause_ns;
    struct timespec until = {.tv_sec = (time_t)(end / UINT64_C(1000000000)),
                             .tv_nsec = (long)(end % UINT64_C(1000000000))};
    atomic_store_explicit(&sync->naps, naps, memory_order_seq_cst);
    pthread_mutex_lock(&sync->nap_lock);
    int outcome = pause_ns ? 0 : ETIMEDOUT;
    while (outcome != ETIMEDOUT && !sync->stop && !sync->wanted)
        outcome = pthread_cond_timedwait(&sync->nap_end, &sync->nap_lock, &until);
    if (sync->wanted)
        atomic_store_explicit(&sync->next_ns, 0, memory_order_relaxed);
    sync->wanted = false;
    bool goes_on = !sync->stop;
    pthread_mutex_unlock(&sync->nap_lock);
    atomic_store_explicit(&sync->naps, NAP_NONE, memory_order_relaxed);
    return goes_on;
}

/* Drives while no worker does: waits for answers, and naps between rounds. */
static void *sync_main(void *context)
{
    struct sync *sync = context;
    struct rounds *rounds = sync->rounds;
    const struct round *round = &rounds->round;
    for (bool goes_on = true; goes_on;) {
        uint64_t now_ns = clock_now_ns(), pause_ns = DRIVEN_NS;
        bool is_driven = shard_is_driven(sync->shard, now_ns);
        if (!is_driven) {
            pthread_mutex_lock(&sync->lock);
            now_ns = clock_now_ns();
            step(rounds, now_ns, false);
            if (round->runs)
                remote_wait_for_any(&rounds->remote, 1);
            uint64_t next_ns = next_begin(rounds, false);
            pause_ns = round->runs ? 0 : next_ns > now_ns ? next_ns - now_ns : 1;
            if (sync->trouble)
                pause_ns = IDLE_MS * MS;
            pthread_mutex_unlock(&sync->lock);
        }
        goes_on = nap(sync, pause_ns, !is_driven);
    }
    return NULL;
}

static struct rounds *rounds_new(struct sync *sync)
{
    struct rounds *rounds = calloc(1, sizeof *rounds);
    if (!rounds || remote_init_shard(&rounds->remote, sync->shard->engine, sync->shard->number)) {
        free(rounds);
        return NULL;
    }
    rounds->sync = sync;
    round_init(&rounds->round, &sync->shard->engine->core, &rounds->remote.client, MAX_PASSES);
    return rounds;
}

static void rounds_free(struct rounds *rounds)
{
    struct client *client = &rounds->remote.client;
    for (uint32_t i = 0; i < client->n_lanes; i++)
        lane_fail(client, &client->lanes[i], TERN_CLOSED, "the node is being closed");
    round_fini(&rounds->round);
    remote_fini(&rounds->remote);
    free(rounds);
}

void sync_fini(struct sync *sync)
{
    atomic_store_explicit(&sync->is_running, false, memory_order_relaxed);
    wake(sync, true);
    if (sync->has_thread)
        pthread_join(sync->thread, NULL);
    pthread_mutex_lock(&sync->shard->lock);
    sync->shard->server.rounds_status = TERN_OK;
    pthread_mutex_unlock(&sync->shard->lock);
    if (sync->rounds)
        rounds_free(sync->rounds);
    pthread_cond_destroy(&sync->nap_end);
    pthread_cond_destroy(&sync->change);
    pthread_mutex_destroy(&sync->nap_lock);
    pthread_mutex_destroy(&sync->lock);
}

enum tern_status sync_start(struct sync *sync)
{
    if (sync->has_thread)
        return TERN_OK;
    if (!sync->rounds)
        sync->rounds = rounds_new(sync);
    if (!sync->rounds)
        return fail(TERN_NO_MEMORY, "no memory for rounds");
    int failure = pthread_create(&sync->thread, NULL, sync_main, sync);
    if (failure)
        return fail(TERN_NO_MEMORY, "no thread can be started: %s", strerror(failure));
    sync->has_thread = true;
    atomic_store_explicit(&sync->is_running, true, memory_order_release);
    return TERN_OK;
}

void sync_lock(struct sync *sync)
{
    pthread_mutex_lock(&sync->lock);
}

void sync_unlock(struct sync *sync)
{
    pthread_mutex_unlock(&sync->lock);
}

void sync_hurry(struct sync *sync)
{
    atomic_store_explicit(&sync->is_hurried, true, memory_order_relaxed);
    sync_poke(sync, true);
}

uint64_t sync_rounds(const struct sync *sync)
{
    return atomic_load_explicit(&sync->n_all_rounds, memory_order_acquire);
}

enum tern_status sync_status(struct sync *sync)
{
    pthread_mutex_lock(&sync->lock);
    enum tern_status status = sync->trouble ? fail(sync->trouble, "%s", sync->rounds->round.sentence) : TERN_OK;
    pthread_mutex_unlock(&sync->lock);
    return status;
}

bool sync_find_silent(struct sync *sync, uint64_t silent_ns, uint32_t *node)
{
    pthread_mutex_lock(&sync->lock);
    bool found = sync->rounds && round_find_silent(&sync->rounds->round,
                                                   clock_now_ns() - silent_ns, node);
    pthread_mutex_unlock(&sync->lock);
    return found;
}

enum tern_status sync_help(struct sync *sync, uint64_t since_ns)
{
    struct shard *shard = sync->shard;
    uint64_t now_ns = clock_now_ns();
    enum tern_status status = TERN_OK;
    engine_drive(shard->engine, now_ns);
    /* To fall asleep and be woken takes longer than most answers. */
    if (now_ns < since_ns + AWAKE_NS) {
        sched_yield();
        return TERN_OK;
    }
    if (pthread_mutex_trylock(&sync->lock)) {
        poll(&(struct pollfd){.fd = shard->epoll_fd, .events = POLLIN}, 1, HELP_MS);
        return TERN_OK;
    }
    if (sync->trouble)
        status = fail(sync->trouble, "%s", sync->rounds->round.sentence);
    else
        remote_wait_driving(&sync->rounds->remote, HELP_MS);
    pthread_mutex_unlock(&sync->lock);
    return status;
}

/* Waits until a counter has reached a value, driving the rounds itself. The caller holds the lock. */
static enum tern_status wait_for(struct sync *sync, uint64_t (*count)(const struct sync *),
                                 uint64_t enough)
{
    while (count(sync) < enough && !sync->trouble) {
        atomic_store_explicit(&sync->next_ns, 0, memory_order_relaxed);
        step(sync->rounds, clock_now_ns(), true);
        if (!sync->rounds->round.runs && !sync->rounds->round.awaits)
            continue;
        /* Others may ask this node before they answer, and nobody else may be there to serve them. */
        pthread_mutex_unlock(&sync->lock);
        engine_drive(sync->shard->engine, clock_now_ns());
        pthread_mutex_lock(&sync->lock);
        if (sync->rounds->round.runs)
            remote_wait_for_any(&sync->rounds->remote, 1);
        else
            poll(&(struct pollfd){.fd = sync->shard->epoll_fd, .events = POLLIN}, 1, 1);
    }
    return sync->trouble ? fail(sync->trouble, "%s", sync->rounds->round.sentence) : TERN_OK;
}

static uint64_t clean_rounds(const struct sync *sync)
{
    return sync->n_rounds;
}

enum tern_status sync_wait(struct sync *sync)
{
    if (!atomic_load_explicit(&sync->is_running, memory_order_acquire))
        return TERN_OK;
    sync_lock(sync);
    sync->rounds->n_hurried++;
    /* One that runs began before. */
    enum tern_status status =
        wait_for(sync, clean_rounds, sync->n_rounds + 2 + sync->rounds->round.runs);
    sync->rounds->n_hurried--;
    sync_unlock(sync);
    return status;
}

static uint64_t sweeps(const struct sync *sync)
{
    return sync->rounds->round.n_sweeps;
}

enum tern_status sync_wait_news(struct sync *sync)
{
    if (!atomic_load_explicit(&sync->is_running, memory_order_acquire))
        return TERN_OK;
    sync_lock(sync);
    enum tern_status status = wait_for(sync, sweeps, sync->rounds->round.n_sweeps_begun + 1);
    sync_unlock(sync);
    return status;
}
