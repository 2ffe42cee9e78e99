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
#include "core/manager.h"
#include "core/replica.h"
#include "node/engine.h"
#include "node/remote.h"
#include "node/why.h"

enum {
    IDLE_MS = 50,    /* the longest pause */
    INTENT_MS = 2,   /* the longest while there are intents: a worker may go on at any time; */
    QUIET_MS = 1000, /* but after so long without anything to exchange, only if one does */
    MAX_PASSES = 8,  /* of asking in one round */
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

/* The request to one node in one round. */
struct question {
    struct op op;
    struct buffer body, answer;
    bool asked, more;
    uint64_t sent_ns, last_sent_ns; /* the present and the previous one with an answer; 0: none */
};

/* The rounds. While one runs, questions are under way about the table at place `table`, which has `number`. */
struct rounds {
    struct sync *sync;
    struct remote remote;
    struct core *core;
    struct question *questions; /* by node */
    bool runs;
    uint32_t table;
    uint16_t number;
    int pass;
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

/* ---- One node's answer -------------------------------------------------------------------------- */

/* Sends the request in the question's body. */
static enum tern_status send_question(struct rounds *round, uint32_t node, enum frame_kind kind,
                                      struct op op)
{
    struct question *question = &round->questions[node];
    question->op = op;
    question->op.payload = buffer_head(&question->body);
    question->op.payload_bytes = (uint32_t)buffer_size(&question->body);
    question->op.answer_body = question->answer;
    question->op.answer_body.begin = question->op.answer_body.end = 0;
    enum tern_status status = client_call(&round->remote.client, node, &question->op, kind);
    if (status)
        return status;
    question->asked = true;
    question->sent_ns = clock_now_ns();
    remote_nudge(&round->remote, &round->remote.client.lanes[node]);
    return TERN_OK;
}

/* The outcome of a question that is answered. */
static enum tern_status hear(struct question *question)
{
    question->asked = false;
    question->answer = question->op.answer_body;
    return op_end(&question->op);
}

/* ---- Tables with replicas of every key ---------------------------------------------------------- */

/* Asks one owner: sends deltas, if there are any, and wants the news. */
static enum tern_status ask_owner(struct rounds *round, struct replication *replication,
                                  uint16_t table, uint32_t owner)
{
    struct question *question = &round->questions[owner];
    struct frame frame;
    enum tern_status status =
        replication_request(replication, owner, &question->body, &frame, &question->more);
    if (status)
        return status;
    return send_question(round, owner, FRAME_SYNC,
                         (struct op){.table = table,
                                     .limit = frame.count,
                                     .flags = frame.flags,
                                     .keys_bytes = frame.keys_bytes});
}

static enum tern_status hear_owner(struct rounds *round, struct replication *replication,
                                   uint32_t owner)
{
    struct question *question = &round->questions[owner];
    enum tern_status status = hear(question);
    if (status == TERN_CLOSED) {
        question->more = false;
        return TERN_OK;
    }
    if (!status)
        status = replication_answer(replication, owner, &question->op.answer,
                                    buffer_head(&question->op.answer_body));
    round->busy |= question->op.answer.count || question->op.limit;
    question->more |= question->op.answer.a != 0;
    return status;
}

/* ---- Managed tables ----------------------------------------------------------------------------- */

/* Asks a peer if there is a reason to. */
static enum tern_status ask_peer(struct rounds *round, struct manager *manager, uint16_t table,
                                 uint32_t peer)
{
    struct engine *engine = round->sync->engine;
    enum tern_status status = TERN_OK;
    pthread_mutex_lock(&engine->lock);
    bool has_request = manager_has_request(manager, peer);
    if (has_request)
        status = manager_request(manager, peer, &round->questions[peer].body);
    pthread_mutex_unlock(&engine->lock);
    if (!has_request)
        return TERN_OK;
    round->busy |= buffer_size(&round->questions[peer].body) > 0;
    if (!status)
        status = send_question(round, peer, FRAME_ROUND, (struct op){.table = table});
    return status;
}

static enum tern_status hear_peer(struct rounds *round, struct manager *manager, uint32_t peer)
{
    struct engine *engine = round->sync->engine;
    struct question *question = &round->questions[peer];
    bool more = false;
    enum tern_status status = hear(question);
    pthread_mutex_lock(&engine->lock);
    /* The owner may have collected its own changes as long ago as it may, which is taken to be as here. */
    if (!status && question->last_sent_ns)
        manager_note_staleness(manager, peer, question->last_sent_ns - round->collect_pause_ns,
                               clock_now_ns());
    question->last_sent_ns = question->sent_ns;
    if (!status)
        status = manager_answer(manager, peer, &question->body, &question->op.answer,
                                buffer_head(&question->op.answer_body), &more);
    question->more |= more;
    if (status == TERN_CLOSED) {
        manager_forget_peer(manager, peer);
        status = TERN_OK;
    }
    /* An ask or a delta that went astray may now be for another peer, which is then asked, too. */
    for (uint32_t i = 0; i < round->core->n_nodes; i++)
        round->questions[i].more |= manager_has_todo(manager, i);
    pthread_mutex_unlock(&engine->lock);
    round->busy |= question->op.answer.body_bytes > 0;
    return status;
}

/* ---- Tables with bounded reads ------------------------------------------------------------------ */

static enum tern_status take_bounded(struct rounds *round, struct bounded *bounded)
{
    struct engine *engine = round->sync->engine;
    pthread_mutex_lock(&engine->lock);
    /* First how far the workers are, then what they have changed until then. */
    pthread_mutex_lock(engine->pace_lock);
    struct node_clock now = pace_now(engine->pace);
    pthread_mutex_unlock(engine->pace_lock);
    enum tern_status status = bounded_take(bounded, now);
    pthread_mutex_unlock(&engine->lock);
    return status;
}

static enum tern_status ask_bounded(struct rounds *round, struct bounded *bounded, uint16_t table,
                                    uint32_t peer)
{
    struct engine *engine = round->sync->engine;
    enum tern_status status = TERN_OK;
    pthread_mutex_lock(&engine->lock);
    bool has_request = bounded_has_request(bounded, peer);
    if (has_request)
        status = bounded_request(bounded, peer, &round->questions[peer].body);
    pthread_mutex_unlock(&engine->lock);
    if (!has_request)
        return TERN_OK;
    round->busy = true;
    if (!status)
        status = send_question(round, peer, FRAME_ROUND, (struct op){.table = table});
    return status;
}

static enum tern_status hear_bounded(struct rounds *round, struct bounded *bounded, uint32_t peer)
{
    struct engine *engine = round->sync->engine;
    struct question *question = &round->questions[peer];
    enum tern_status status = hear(question);
    pthread_mutex_lock(&engine->lock);
    if (!status)
        status = bounded_answer(bounded, peer, &question->op.answer,
                                buffer_head(&question->op.answer_body));
    if (status == TERN_CLOSED) {
        bounded_forget_peer(bounded, peer);
        status = TERN_OK;
    }
    question->more = bounded_has_request(bounded, peer);
    pthread_mutex_unlock(&engine->lock);
    return status;
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

/* Asks a peer about the present table, if there is a reason to. */
static enum tern_status ask(struct rounds *round, const struct core_table *table, uint32_t peer)
{
    const uint16_t number = table->number;
    if (table->bounded)
        return ask_bounded(round, table->bounded, number, peer);
    return table->manager ? ask_peer(round, table->manager, number, peer)
                          : ask_owner(round, table->replication, number, peer);
}

/* Takes its answer. */
static enum tern_status hear_answer(struct rounds *round, const struct core_table *table,
                                    uint32_t peer)
{
    if (table->bounded)
        return hear_bounded(round, table->bounded, peer);
    return table->manager ? hear_peer(round, table->manager, peer)
                          : hear_owner(round, table->replication, peer);
}

/* Asks all peers there is a reason to ask about the present table; true if there was one. */
static bool ask_all(struct rounds *round, const struct core_table *table)
{
    bool asked = false;
    for (uint32_t i = 0; !round->status && i < round->core->n_nodes; i++)
        if (round->questions[i].more)
            note_status(round, ask(round, table, i));
    for (uint32_t i = 0; i < round->core->n_nodes; i++)
        asked |= round->questions[i].asked;
    return asked;
}

/* Goes on to the next table with something to ask, from `table` on; false if there is none. */
static bool begin_table(struct rounds *round, uint32_t table)
{
    for (; table < TERN_MAX_TABLES && !round->status; table++) {
        struct core_table *found = table_at(round, table);
        if (!found || (!found->manager && !found->replication && !found->bounded))
            continue;
        round->table = table;
        round->number = found->number;
        round->pass = 0;
        for (uint32_t i = 0; i < round->core->n_nodes; i++)
            round->questions[i].more = i != round->core->node;
        if (found->replication)
            note_status(round, replication_take(found->replication));
        if (found->bounded)
            note_status(round, take_bounded(round, found->bounded));
        if (!round->status && ask_all(round, found))
            return true;
    }
    return false;
}

/* The table that answers are about; NULL if it was closed since it was asked about. */
static const struct core_table *present_table(const struct rounds *round)
{
    const struct core_table *table = table_at(round, round->table);
    return table && table->number == round->number ? table : NULL;
}

/* Answers about a table that was closed meanwhile concern nobody. */
static void drop_answers(struct rounds *round)
{
    for (uint32_t i = 0; i < round->core->n_nodes; i++)
        if (round->questions[i].asked)
            (void)hear(&round->questions[i]);
}

/* Takes all answers about the present table, then asks again or goes on to the next. */
static bool take_answers(struct rounds *round)
{
    const struct core_table *table = present_table(round);
    struct question *questions = round->questions;
    if (!table) {
        drop_answers(round);
        return begin_table(round, round->table);
    }
    bool again = false;
    for (uint32_t i = 0; !table->replication && i < round->core->n_nodes; i++)
        questions[i].more = false;
    for (uint32_t i = 0; i < round->core->n_nodes; i++)
        if (questions[i].asked)
            note_status(round, hear_answer(round, table, i));
    for (uint32_t i = 0; i < round->core->n_nodes; i++)
        again |= questions[i].more;
    if (again && !round->status && ++round->pass < MAX_PASSES &&
        ask_all(round, table))
        return true;
    return begin_table(round, round->table + 1);
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

static bool all_answered(const struct rounds *round)
{
    for (uint32_t i = 0; i < round->core->n_nodes; i++)
        if (round->questions[i].asked && !op_is_done(&round->questions[i].op))
            return false;
    return true;
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
        if (begin_table(round, 0))
            return;
    } else {
        remote_progress(&round->remote);
        if (!all_answered(round) || take_answers(round))
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
    round->questions = calloc(round->core->n_nodes, sizeof *round->questions);
    if (round->questions && !remote_init(&round->remote, sync->engine))
        return round;
    free(round->questions);
    free(round);
    return NULL;
}

static void rounds_free(struct rounds *round)
{
    for (uint32_t i = 0; i < round->core->n_nodes; i++) {
        if (round->questions[i].asked)
            lane_fail(&round->remote.client, &round->remote.client.lanes[i], TERN_CLOSED,
                      "the node is being closed");
        buffer_free(&round->questions[i].body);
        buffer_free(round->questions[i].asked ? &round->questions[i].op.answer_body
                                              : &round->questions[i].answer);
    }
    remote_fini(&round->remote);
    free(round->questions);
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
    uint64_t now_ns = clock_now_ns();
    for (uint32_t i = 0; round && !found && i < round->core->n_nodes; i++) {
        const struct question *question = &round->questions[i];
        found = question->asked && !op_is_done(&question->op) &&
                now_ns - question->sent_ns > silent_ns;
        *node = i;
    }
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
