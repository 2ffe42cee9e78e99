/* sync - see sync.h. */
#include "node/sync.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/bounded.h"
#include "core/exchange.h"
#include "core/manager.h"
#include "core/replica.h"
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
#define COLLECT_SHARE 80  /* of the time, one part is spent on collecting */
#define AWAKE_NS (MS / 5) /* how long a worker that helps does not sleep */

struct rounds {
    struct sync *sync;
    struct remote remote;
    struct core *core;
    /* By the places of tables; NULL: there was none so far. */
    struct exchange *exchanges[TERN_MAX_TABLES];
    uint32_t n_places;         /* that were in use */
    bool runs;                 /* a round is under way: some of the exchanges run */
    uint64_t pause_ns;         /* after the last round, */
    uint64_t ended_ns;         /* which ended then */
    uint64_t exchanged_ns;     /* when something was exchanged last */
    uint64_t collected_ns;     /* when changes were collected last */
    uint64_t collect_pause_ns; /* from then on */
    unsigned n_hurried;        /* callers that wait until everything is collected and told */
    enum tern_status status;   /* of this round */
    bool busy;                 /* something was exchanged in it */
    bool left_over;            /* something must go into another one */
    bool sweeps;               /* a sweep is under way (core/sweep.h); it may take several rounds */
    bool intends;              /* workers have open intents, or replicas are kept */
};

void sync_init(struct sync *sync, struct engine *engine)
{
    *sync = (struct sync){.engine = engine};
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

void sync_poke(struct sync *sync)
{
    if (atomic_load_explicit(&sync->naps, memory_order_seq_cst))
        wake(sync, false);
}

/* Notes what became of a part of a round. The first failure is the round's, with its sentence: another thread may
 * end the round. */
static void note_status(struct rounds *round, enum tern_status status)
{
    if (!status || round->status)
        return;
    round->status = status;
    snprintf(round->sync->sentence, sizeof round->sync->sentence, "%s", tern_error());
}

/* ---- Intents ------------------------------------------------------------------------------------ */

static struct core_table *table_at(const struct rounds *round, uint32_t number)
{
    return atomic_load_explicit(&round->core->tables[number], memory_order_acquire);
}

static struct manager *manager_of(const struct core *core, const struct intent *intent)
{
    struct core_table *table =
        atomic_load_explicit(&core->tables[intent->table], memory_order_acquire);
    return table && table->manager && manager_generation(table->manager) == intent->generation
               ? table->manager
               : NULL;
}

static void begin_intent(void *context, const struct intent *intent)
{
    struct manager *manager = manager_of(context, intent);
    if (manager && intent->kind == INTENT_HERE)
        manager_fetch(manager, intent->keys, intent->n);
    else if (manager)
        manager_want(manager, intent->keys, intent->n);
}

static void end_intent(void *context, const struct intent *intent)
{
    struct manager *manager = manager_of(context, intent);
    if (manager)
        manager_unwant(manager, intent->keys, intent->n);
}

/* Collects what was changed in rows that have copies. The caller holds the engine's lock. */
static enum tern_status collect(struct rounds *round)
{
    enum tern_status status = TERN_OK;
    uint64_t begin_ns = clock_now_ns();
    for (uint16_t i = 0; !status && i < TERN_MAX_TABLES; i++) {
        struct core_table *table = table_at(round, i);
        if (table && table->manager)
            status = manager_take(table->manager);
    }
    uint64_t pause_ns = COLLECT_SHARE * (clock_now_ns() - begin_ns);
    round->collected_ns = begin_ns;
    round->collect_pause_ns = pause_ns < COLLECT_MIN_NS   ? COLLECT_MIN_NS
                              : pause_ns > COLLECT_MAX_NS ? COLLECT_MAX_NS
                                                          : pause_ns;
    return status;
}

/* Looks at what the workers intend, and at what was changed. */
static enum tern_status look(struct rounds *round, uint64_t now_ns)
{
    struct engine *engine = round->sync->engine;
    enum tern_status status = TERN_OK;
    pthread_mutex_lock(&engine->lock);
    for (struct intents **place = &engine->intents; *place;) {
        struct intents *intents = *place;
        bool is_over = atomic_load_explicit(&intents->is_over, memory_order_acquire);
        bool complete = intents_round(intents, begin_intent, end_intent, round->core);
        if (!complete && !status)
            status = fail(TERN_NO_MEMORY, "no memory for the intents of a worker");
        round->intends |= intents_are_open(intents);
        if (is_over && complete) {
            *place = intents->next;
            intents_free(intents);
        } else {
            place = &intents->next;
        }
    }
    bool is_due = now_ns >= round->collected_ns + round->collect_pause_ns;
    if (!status && (is_due || round->n_hurried))
        status = collect(round);
    pthread_mutex_unlock(&engine->lock);
    return status;
}

/* ---- Rounds ------------------------------------------------------------------------------------- */

/* The exchange about the table at a place, made if it is not there; NULL when memory is used up. */
static struct exchange *exchange_at(struct rounds *round, uint32_t place)
{
    struct exchange *exchange = round->exchanges[place];
    if (exchange)
        return exchange;
    exchange = calloc(1, sizeof *exchange);
    if (!exchange || exchange_init(exchange, &round->remote.client, MAX_PASSES)) {
        free(exchange);
        return NULL;
    }
    round->exchanges[place] = exchange;
    if (round->n_places <= place)
        round->n_places = place + 1;
    return exchange;
}

/* Sends the questions that are queued, those about all tables together. */
static void send_questions(struct rounds *round)
{
    for (uint32_t i = 0; i < round->core->n_nodes; i++)
        if (round->remote.client.lanes[i].unsent)
            remote_nudge(&round->remote, &round->remote.client.lanes[i]);
}

/* How far the workers are, which is to be known before what they have changed until then. */
static struct node_clock workers_clock(struct engine *engine)
{
    pthread_mutex_lock(engine->pace_lock);
    struct node_clock clock = pace_now(engine->pace);
    pthread_mutex_unlock(engine->pace_lock);
    return clock;
}

/* Begins to ask about all tables; false if there is nothing to ask. */
static bool begin_exchanges(struct rounds *round, uint64_t now_ns)
{
    struct engine *engine = round->sync->engine;
    struct node_clock clock = workers_clock(engine);
    bool runs = false;
    for (uint32_t i = 0; i < TERN_MAX_TABLES && !round->status; i++) {
        struct core_table *table = table_at(round, i);
        if (!table || (!table->manager && !table->replication && !table->bounded))
            continue;
        struct exchange *exchange = exchange_at(round, i);
        if (!exchange) {
            note_status(round, fail(TERN_NO_MEMORY, "no memory for rounds"));
            break;
        }
        pthread_mutex_lock(&engine->lock);
        note_status(round, exchange_begin(exchange, table, clock, now_ns));
        pthread_mutex_unlock(&engine->lock);
        round->busy |= exchange->busy;
        runs |= exchange->runs;
    }
    send_questions(round);
    return runs && !round->status;
}

/* The table that an exchange is about; NULL if it was closed since. */
static struct core_table *table_of(const struct rounds *round, uint32_t place)
{
    struct core_table *table = table_at(round, place);
    return table && table->number == round->exchanges[place]->number ? table : NULL;
}

/* Takes the answers that have come, and asks again where there is more; false when nothing is under way. */
static bool step_exchanges(struct rounds *round, uint64_t now_ns)
{
    struct engine *engine = round->sync->engine;
    bool runs = false;
    for (uint32_t i = 0; i < round->n_places && !round->status; i++) {
        struct exchange *exchange = round->exchanges[i];
        if (!exchange || !exchange->runs)
            continue;
        if (exchange_is_answered(exchange)) {
            pthread_mutex_lock(&engine->lock);
            note_status(round, exchange_step(exchange, table_of(round, i), now_ns,
                                             round->collect_pause_ns));
            pthread_mutex_unlock(&engine->lock);
            round->busy |= exchange->busy;
        }
        runs |= exchange->runs;
    }
    send_questions(round);
    return runs && !round->status;
}

/* The pause after a round. */
static uint64_t next_pause(struct rounds *round)
{
    if (round->busy || round->left_over) {
        round->exchanged_ns = round->ended_ns;
        return BUSY_NS;
    }
    bool is_quiet = round->ended_ns > round->exchanged_ns + QUIET_MS * MS;
    uint64_t most = (round->intends && !is_quiet ? INTENT_MS : IDLE_MS) * MS;
    uint64_t next = 2 * round->pause_ns + BUSY_NS;
    return next < most ? next : most;
}

/* Begins a sweep through what all owners have to tell, unless one is under way. */
static void begin_sweep(struct rounds *round)
{
    if (round->sweeps)
        return;
    struct engine *engine = round->sync->engine;
    pthread_mutex_lock(&engine->lock);
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table = table_at(round, i);
        if (table && table->manager)
            manager_begin_sweep(table->manager);
        if (table && table->replication)
            replication_begin_sweep(table->replication);
    }
    pthread_mutex_unlock(&engine->lock);
    round->sweeps = true;
    round->sync->n_sweeps_begun++;
}

static void end_round(struct rounds *round, uint64_t now_ns)
{
    struct sync *sync = round->sync;
    struct engine *engine = sync->engine;
    bool has_news = false; /* for traces */
    round->sweeps = false;
    pthread_mutex_lock(&engine->lock);
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table = table_at(round, i);
        if (table && table->bounded)
            round->left_over |= bounded_is_busy(table->bounded);
        if (table && table->replication) {
            round->left_over |= replication_round_ended(table->replication);
            round->sweeps |= !replication_is_swept(table->replication);
        }
        if (!table || !table->manager)
            continue;
        round->left_over |= manager_is_busy(table->manager);
        round->intends |= manager_is_sharing(table->manager);
        manager_round_ended(table->manager);
        round->sweeps |= !manager_is_swept(table->manager);
        has_news |= why_has_news(table->manager);
    }
    bool held = engine->server.holds_for_round;
    engine->server.holds_for_round = false;
    pthread_mutex_unlock(&engine->lock);
    if (held)
        engine_wake(engine);
    if (has_news)
        why_write(engine);
    round->runs = false;
    round->ended_ns = now_ns;
    round->pause_ns = next_pause(round);
    sync->n_all_rounds++;
    if (!round->sweeps)
        sync->n_sweeps = sync->n_sweeps_begun;
    sync->n_rounds += !round->left_over && !round->status;
    sync->trouble = round->status;
    pthread_cond_broadcast(&sync->change);
}

/* When the next round is to begin. Who asks for a worker that goes on asks for more frequent ones. */
static uint64_t next_begin(const struct rounds *round, bool works)
{
    uint64_t next_ns = atomic_load_explicit(&round->sync->next_ns, memory_order_relaxed);
    uint64_t latest_ns = round->ended_ns + INTENT_MS * MS;
    return works && round->intends && latest_ns < next_ns ? latest_ns : next_ns;
}

/* Does what can be done without waiting, for a worker or not. The caller holds the lock. */
static void step(struct rounds *round, uint64_t now_ns, bool works)
{
    struct sync *sync = round->sync;
    if (sync->trouble)
        return;
    if (!round->runs) {
        if (now_ns < next_begin(round, works))
            return;
        round->runs = true;
        round->busy = round->left_over = round->intends = false;
        begin_sweep(round);
        note_status(round, look(round, now_ns));
        if (begin_exchanges(round, now_ns))
            return;
    } else {
        remote_progress(&round->remote);
        if (step_exchanges(round, now_ns))
            return;
    }
    end_round(round, now_ns);
    atomic_store_explicit(&sync->next_ns, now_ns + round->pause_ns, memory_order_relaxed);
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
    uint64_t end = clock_now_ns() + pause_ns;
    struct timespec until = {.tv_sec = (time_t)(end / UINT64_C(1000000000)),
                             .tv_nsec = (long)(end % UINT64_C(1000000000))};
    atomic_store_explicit(&sync->naps, may_be_poked, memory_order_seq_cst);
    pthread_mutex_lock(&sync->nap_lock);
    int outcome = pause_ns ? 0 : ETIMEDOUT;
    while (outcome != ETIMEDOUT && !sync->stop && !sync->wanted)
        outcome = pthread_cond_timedwait(&sync->nap_end, &sync->nap_lock, &until);
    if (sync->wanted)
        atomic_store_explicit(&sync->next_ns, 0, memory_order_relaxed);
    sync->wanted = false;
    bool goes_on = !sync->stop;
    pthread_mutex_unlock(&sync->nap_lock);
    atomic_store_explicit(&sync->naps, false, memory_order_relaxed);
    return goes_on;
}

/* Drives while no worker does: waits for answers, and naps between rounds. */
static void *sync_main(void *context)
{
    struct sync *sync = context;
    struct rounds *round = sync->rounds;
    for (bool goes_on = true; goes_on;) {
        uint64_t now_ns = clock_now_ns(), pause_ns = DRIVEN_NS;
        bool is_driven = engine_is_driven(sync->engine, now_ns);
        if (!is_driven) {
            pthread_mutex_lock(&sync->lock);
            step(round, now_ns, false);
            if (round->runs)
                remote_wait_for_any(&round->remote, 1);
            uint64_t next_ns = atomic_load_explicit(&sync->next_ns, memory_order_relaxed);
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
    struct rounds *round = calloc(1, sizeof *round);
    if (!round)
        return NULL;
    round->sync = sync;
    round->core = &sync->engine->core;
    if (!remote_init(&round->remote, sync->engine))
        return round;
    free(round);
    return NULL;
}

static void rounds_free(struct rounds *round)
{
    for (uint32_t i = 0; i < round->core->n_nodes; i++)
        lane_fail(&round->remote.client, &round->remote.client.lanes[i], TERN_CLOSED,
                  "the node is being closed");
    for (uint32_t i = 0; i < round->n_places; i++) {
        if (round->exchanges[i])
            exchange_fini(round->exchanges[i]);
        free(round->exchanges[i]);
    }
    remote_fini(&round->remote);
    free(round);
}

void sync_fini(struct sync *sync)
{
    atomic_store_explicit(&sync->is_running, false, memory_order_relaxed);
    wake(sync, true);
    if (sync->has_thread)
        pthread_join(sync->thread, NULL);
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
    atomic_store_explicit(&sync->next_ns, 0, memory_order_relaxed);
    sync_poke(sync);
}

uint64_t sync_rounds(const struct sync *sync)
{
    return atomic_load_explicit(&sync->n_all_rounds, memory_order_acquire);
}

enum tern_status sync_status(struct sync *sync)
{
    pthread_mutex_lock(&sync->lock);
    enum tern_status status = sync->trouble ? fail(sync->trouble, "%s", sync->sentence) : TERN_OK;
    pthread_mutex_unlock(&sync->lock);
    return status;
}

bool sync_find_silent(struct sync *sync, uint64_t silent_ns, uint32_t *node)
{
    bool found = false;
    pthread_mutex_lock(&sync->lock);
    const struct rounds *round = sync->rounds;
    uint64_t before_ns = clock_now_ns() - silent_ns;
    for (uint32_t i = 0; round && !found && i < round->n_places; i++)
        found = round->exchanges[i] && exchange_find_silent(round->exchanges[i], before_ns, node);
    pthread_mutex_unlock(&sync->lock);
    return found;
}

enum tern_status sync_help(struct sync *sync, uint64_t since_ns)
{
    struct engine *engine = sync->engine;
    uint64_t now_ns = clock_now_ns();
    enum tern_status status = TERN_OK;
    engine_drive(engine, now_ns);
    /* To fall asleep and be woken takes longer than most answers. */
    if (now_ns < since_ns + AWAKE_NS) {
        sched_yield();
        return TERN_OK;
    }
    if (pthread_mutex_trylock(&sync->lock)) {
        poll(&(struct pollfd){.fd = engine->epoll_fd, .events = POLLIN}, 1, HELP_MS);
        return TERN_OK;
    }
    if (sync->trouble)
        status = fail(sync->trouble, "%s", sync->sentence);
    else
        remote_wait_driving(&sync->rounds->remote, HELP_MS);
    pthread_mutex_unlock(&sync->lock);
    return status;
}

/* Takes the lock between two rounds: those that begin from now on see all that has happened before. */
static void lock_between_rounds(struct sync *sync)
{
    pthread_mutex_lock(&sync->lock);
    while (sync->rounds->runs && !sync->trouble) {
        step(sync->rounds, clock_now_ns(), true);
        if (sync->rounds->runs)
            remote_wait_for_any(&sync->rounds->remote, 1);
    }
}

/* Waits until a counter has reached a value, driving the rounds itself. The caller holds the lock. */
static enum tern_status wait_for(struct sync *sync, uint64_t (*count)(const struct sync *),
                                 uint64_t enough)
{
    while (count(sync) < enough && !sync->trouble) {
        atomic_store_explicit(&sync->next_ns, 0, memory_order_relaxed);
        step(sync->rounds, clock_now_ns(), true);
        if (!sync->rounds->runs)
            continue;
        /* Others may ask this node before they answer, and nobody else may be there to serve them. */
        pthread_mutex_unlock(&sync->lock);
        engine_drive(sync->engine, clock_now_ns());
        pthread_mutex_lock(&sync->lock);
        if (sync->rounds->runs)
            remote_wait_for_any(&sync->rounds->remote, 1);
    }
    return sync->trouble ? fail(sync->trouble, "%s", sync->sentence) : TERN_OK;
}

static uint64_t clean_rounds(const struct sync *sync)
{
    return sync->n_rounds;
}

enum tern_status sync_wait(struct sync *sync)
{
    if (!sync->has_thread)
        return TERN_OK;
    lock_between_rounds(sync);
    sync->rounds->n_hurried++;
    enum tern_status status = wait_for(sync, clean_rounds, sync->n_rounds + 2);
    sync->rounds->n_hurried--;
    sync_unlock(sync);
    return status;
}

static uint64_t sweeps(const struct sync *sync)
{
    return sync->n_sweeps;
}

enum tern_status sync_wait_news(struct sync *sync)
{
    if (!sync->has_thread)
        return TERN_OK;
    lock_between_rounds(sync);
    enum tern_status status = wait_for(sync, sweeps, sync->n_sweeps_begun + 1);
    sync_unlock(sync);
    return status;
}
