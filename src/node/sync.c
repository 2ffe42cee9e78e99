/* sync - see sync.h. */
#include "node/sync.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/replica.h"
#include "node/engine.h"
#include "node/remote.h"

enum { SYNC_IDLE_MS = 50 };

#define MS UINT64_C(1000000)

/* The request to one owner in one round. */
struct question {
    struct op op;
    struct buffer body;
    bool asked, more;
};

void sync_init(struct sync *sync, struct engine *engine)
{
    *sync = (struct sync){.engine = engine};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&sync->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&sync->lock, NULL);
}

void sync_fini(struct sync *sync)
{
    pthread_mutex_lock(&sync->lock);
    sync->stop = true;
    pthread_cond_broadcast(&sync->change);
    pthread_mutex_unlock(&sync->lock);
    if (sync->has_thread)
        pthread_join(sync->thread, NULL);
    pthread_cond_destroy(&sync->change);
    pthread_mutex_destroy(&sync->lock);
}

/* Asks one owner: sends deltas, if there are any, and wants the news. */
static enum tern_status ask(struct remote *remote, struct replication *replication, uint16_t table,
                            uint32_t owner, struct question *question)
{
    struct frame frame;
    enum tern_status status =
        replication_request(replication, owner, &question->body, &frame, &question->more);
    if (status)
        return status;
    question->op = (struct op){.table = table,
                               .limit = frame.count,
                               .flags = frame.flags,
                               .keys_bytes = frame.keys_bytes,
                               .payload = buffer_head(&question->body),
                               .payload_bytes = frame.body_bytes};
    status = client_call(&remote->client, owner, &question->op, FRAME_SYNC);
    if (status)
        return status;
    question->asked = true;
    remote_nudge(remote, &remote->client.lanes[owner]);
    return TERN_OK;
}

/* Waits for an owner's answer and takes it over. */
static enum tern_status take_answer(struct remote *remote, struct replication *replication,
                                    struct question *question, bool *busy)
{
    remote_wait(remote, &question->op, false);
    question->asked = false;
    enum tern_status status = op_end(&question->op);
    if (!status)
        status = replication_answer(replication, &question->op.answer,
                                    buffer_head(&question->op.answer_body));
    *busy |= question->op.answer.count || question->op.limit;
    question->more |= question->op.answer.a != 0;
    buffer_free(&question->op.answer_body);
    return status;
}

/* One round of one table; again while an owner has more. */
static enum tern_status sync_table(struct remote *remote, uint16_t number,
                                   struct replication *replication, struct question *questions,
                                   bool *busy)
{
    const struct core *core = remote->client.core;
    enum tern_status status = replication_take(replication);
    for (uint32_t i = 0; i < core->n_nodes; i++)
        questions[i].more = i != core->node;
    for (bool again = true; again && !status;) {
        again = false;
        for (uint32_t i = 0; !status && i < core->n_nodes; i++)
            if (questions[i].more)
                status = ask(remote, replication, number, i, &questions[i]);
        /* What was asked must be heard, or its memory could not be freed. */
        for (uint32_t i = 0; i < core->n_nodes; i++) {
            if (!questions[i].asked)
                continue;
            enum tern_status outcome = take_answer(remote, replication, &questions[i], busy);
            status = status ? status : outcome;
            again |= questions[i].more;
        }
    }
    return status;
}

/* One round of all tables. */
static enum tern_status sync_tables(struct remote *remote, struct question *questions, bool *busy)
{
    struct core *core = remote->client.core;
    enum tern_status status = TERN_OK;
    for (uint16_t i = 0; !status && i < TERN_MAX_TABLES; i++) {
        struct core_table *table = atomic_load_explicit(&core->tables[i], memory_order_acquire);
        if (table && table->replication)
            status = sync_table(remote, i, table->replication, questions, busy);
    }
    return status;
}

/* Sleeps until a round is wanted or the pause is over. The caller holds the lock. */
static void pause_for(struct sync *sync, uint64_t pause_ns)
{
    uint64_t wake = clock_now_ns() + pause_ns;
    struct timespec until = {.tv_sec = (time_t)(wake / UINT64_C(1000000000)),
                             .tv_nsec = (long)(wake % UINT64_C(1000000000))};
    int outcome = 0;
    while (outcome != ETIMEDOUT && !sync->stop && !sync->wanted)
        outcome = pthread_cond_timedwait(&sync->change, &sync->lock, &until);
    sync->wanted = false;
}

static void run_rounds(struct sync *sync, struct remote *remote, struct question *questions)
{
    uint64_t pause_ns = 0;
    pthread_mutex_lock(&sync->lock);
    while (!sync->stop && !sync->trouble) {
        bool busy = false;
        sync->trouble = sync_tables(remote, questions, &busy);
        if (sync->trouble)
            snprintf(sync->sentence, sizeof sync->sentence, "%s", tern_error());
        else
            sync->n_rounds++;
        pthread_cond_broadcast(&sync->change);
        pause_ns = busy ? MS / 4 : pause_ns < SYNC_IDLE_MS * MS ? 2 * pause_ns + MS : pause_ns;
        pause_for(sync, pause_ns);
    }
    pthread_mutex_unlock(&sync->lock);
}

static void *sync_main(void *context)
{
    struct sync *sync = context;
    uint32_t n_nodes = sync->engine->core.n_nodes;
    struct remote remote;
    struct question *questions = calloc(n_nodes, sizeof *questions);
    enum tern_status status = remote_init(&remote, sync->engine);
    if (questions && !status)
        run_rounds(sync, &remote, questions);
    else
        sync->trouble = TERN_NO_MEMORY;
    for (uint32_t i = 0; questions && i < n_nodes; i++)
        buffer_free(&questions[i].body);
    free(questions);
    if (!status)
        remote_fini(&remote);
    return NULL;
}

enum tern_status sync_start(struct sync *sync)
{
    if (sync->has_thread)
        return TERN_OK;
    int failure = pthread_create(&sync->thread, NULL, sync_main, sync);
    if (failure)
        return fail(TERN_NO_MEMORY, "no thread can be started: %s", strerror(failure));
    sync->has_thread = true;
    return TERN_OK;
}

enum tern_status sync_wait(struct sync *sync)
{
    if (!sync->has_thread)
        return TERN_OK;
    pthread_mutex_lock(&sync->lock);
    uint64_t enough = sync->n_rounds + 2;
    while (sync->n_rounds < enough && !sync->trouble) {
        sync->wanted = true;
        pthread_cond_broadcast(&sync->change);
        pthread_cond_wait(&sync->change, &sync->lock);
    }
    enum tern_status status = sync->trouble ? fail(sync->trouble, "%s", sync->sentence) : TERN_OK;
    pthread_mutex_unlock(&sync->lock);
    return status;
}
