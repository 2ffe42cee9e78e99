/*
 * courier - the thread that sends a node's letters: tasks to the nodes that are to run them, and the news
 * that one has finished to the node it came from. See tasks.h.
 *
 * It has one lane to each node (client.h), so letters to a node arrive in the order in which they were
 * handed over, and survive broken connections. It also watches over the nodes that tasks of this one are
 * at: a task whose node is dead, or gives no sign for the deadline, fails. A node is asked for a
 * sign, by a letter that says nothing, when tasks wait for it and no other letter is under way.
 */
#include "node/tasks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

enum { LOOK_MS = 100 }; /* how often it looks for dead nodes, while tasks are under way */

#define MS UINT64_C(1000000)

struct round {
    struct tasks *tasks;
    struct remote remote;
    struct letter *under_way; /* a list */
    bool has_tasks;           /* tasks may be at other nodes */
    uint64_t watched_ns;      /* when it last looked after them */
    uint64_t asked_ns;        /* when it last asked for a sign */
};

struct letter *letter_new(size_t n)
{
    struct letter *letter = calloc(1, sizeof *letter + FINISHED_HEADER_BYTES + n);
    if (letter)
        letter->body = letter->room;
    return letter;
}

void letter_free(struct letter *letter)
{
    if (!letter)
        return;
    free(letter->memory);
    free(letter);
}

static void wake(const struct tasks *tasks)
{
    uint64_t one = 1;
    ssize_t n = write(tasks->wake_fd, &one, sizeof one);
    (void)n; /* it fails only when the count is full, and then the thread is awake */
}

void courier_send(struct tasks *tasks, struct letter *letter)
{
    letter->next = NULL;
    if (tasks->last_letter)
        tasks->last_letter->next = letter;
    else
        tasks->outbox = letter;
    tasks->last_letter = letter;
    wake(tasks);
}

/* ---- Sending ------------------------------------------------------------------------------------ */

static bool is_dead(const struct round *round, uint32_t node)
{
    return atomic_load_explicit(&round->remote.engine->dead, memory_order_relaxed) == node + 1;
}

/* A letter was not delivered. News of an end is sent again as long as its node may live. */
static bool undelivered(struct round *round, struct letter *letter, enum tern_status status)
{
    struct tasks *tasks = round->tasks;
    bool again = letter->kind == FRAME_FINISHED && letter->a && status == TERN_PEER &&
                 !is_dead(round, letter->node);
    pthread_mutex_lock(&tasks->lock);
    if (letter->kind == FRAME_TASK)
        tasks_finish(tasks, letter->worker, letter->id, letter->node, status, tern_error(),
                     strlen(tern_error()));
    else if (!letter->a)
        tasks_fail_node(tasks, letter->node, tern_error());
    again &= !tasks->stop;
    pthread_mutex_unlock(&tasks->lock);
    return again;
}

/* Puts a letter on its lane; drops it if it cannot be. */
static void post(struct round *round, struct letter *letter)
{
    letter->op = (struct op){
        .a = letter->a, .b = letter->b, .payload = letter->body, .payload_bytes = letter->n_bytes};
    struct client *client = &round->remote.client;
    enum tern_status status = client_call(client, letter->node, &letter->op, letter->kind);
    if (status) {
        undelivered(round, letter, status);
        letter_free(letter);
        return;
    }
    letter->next = round->under_way;
    round->under_way = letter;
    round->has_tasks |= letter->kind == FRAME_TASK;
    remote_nudge(&round->remote, client_lane(client, letter->node));
}

static void post_outbox(struct round *round)
{
    struct tasks *tasks = round->tasks;
    pthread_mutex_lock(&tasks->lock);
    struct letter *letter = tasks->outbox;
    tasks->outbox = tasks->last_letter = NULL;
    pthread_mutex_unlock(&tasks->lock);
    while (letter) {
        struct letter *next = letter->next;
        post(round, letter);
        letter = next;
    }
}

/* Ends letters that were answered, or given up. */
static void reap(struct round *round)
{
    struct letter *left = round->under_way;
    round->under_way = NULL;
    while (left) {
        struct letter *letter = left;
        left = letter->next;
        if (!op_is_done(&letter->op)) {
            letter->next = round->under_way;
            round->under_way = letter;
            continue;
        }
        enum tern_status status = op_end(&letter->op);
        buffer_free(&letter->op.answer_body);
        if (status && undelivered(round, letter, status))
            post(round, letter);
        else
            letter_free(letter);
    }
}

/* ---- Watching ----------------------------------------------------------------------------------- */

static bool is_under_way_to(const struct round *round, uint32_t node)
{
    for (const struct letter *letter = round->under_way; letter; letter = letter->next)
        if (letter->node == node)
            return true;
    return false;
}

/* A letter that says nothing: its answer is a sign of life. */
static void ask_for_sign(struct round *round, uint32_t node)
{
    struct letter *letter = letter_new(0);
    if (!letter)
        return; /* the next time, then */
    struct finished_message nothing = {.status = TERN_OK};
    finished_encode(&nothing, letter->body);
    letter->node = node;
    letter->kind = FRAME_FINISHED;
    letter->n_bytes = FINISHED_HEADER_BYTES;
    post(round, letter);
}

/* Looks after the nodes that tasks wait for, every LOOK_MS. */
static void watch(struct round *round)
{
    struct tasks *tasks = round->tasks;
    uint64_t now = clock_now_ns();
    if (!round->has_tasks || now - round->watched_ns < LOOK_MS * MS)
        return;
    bool ask = now - round->asked_ns > round->remote.engine->place.deadline_ns / 4;
    round->has_tasks = false;
    round->watched_ns = now;
    if (ask)
        round->asked_ns = now;
    for (uint32_t node = 0; node < tasks->n_nodes; node++) {
        pthread_mutex_lock(&tasks->lock);
        bool waits = node != tasks->self && tasks_wait_for(tasks, node);
        if (waits && is_dead(round, node))
            tasks_fail_node(tasks, node, "the node has died");
        pthread_mutex_unlock(&tasks->lock);
        round->has_tasks |= waits;
        if (waits && ask && !is_under_way_to(round, node))
            ask_for_sign(round, node);
    }
}

/* ---- The thread --------------------------------------------------------------------------------- */

static bool is_over(struct tasks *tasks)
{
    pthread_mutex_lock(&tasks->lock);
    bool stop = tasks->stop;
    pthread_mutex_unlock(&tasks->lock);
    return stop;
}

static void *courier_main(void *context)
{
    struct round *round = context;
    struct tasks *tasks = round->tasks;
    while (!is_over(tasks)) {
        post_outbox(round);
        remote_progress(&round->remote);
        reap(round);
        watch(round);
        remote_wait_for_any(&round->remote, round->has_tasks || round->under_way ? LOOK_MS : -1);
        uint64_t count;
        ssize_t n = read(tasks->wake_fd, &count, sizeof count);
        (void)n; /* nothing to read: it was something else that ended the wait */
    }
    while (round->under_way) {
        struct letter *letter = round->under_way;
        round->under_way = letter->next;
        lane_fail(&round->remote.client, client_lane(&round->remote.client, letter->node), TERN_CLOSED,
                  "the node is being closed");
        op_end(&letter->op);
        buffer_free(&letter->op.answer_body);
        letter_free(letter);
    }
    remote_fini(&round->remote);
    free(round);
    return NULL;
}

enum tern_status courier_start(struct tasks *tasks)
{
    if (tasks->has_courier || !tasks->node->engine)
        return TERN_OK;
    struct round *round = calloc(1, sizeof *round);
    if (!round)
        return fail(TERN_NO_MEMORY, "no memory to send tasks to other nodes");
    enum tern_status status = remote_init_shard(&round->remote, tasks->node->engine, 0);
    if (status)
        goto no_remote;
    tasks->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (tasks->wake_fd < 0) {
        status = fail(TERN_NETWORK, "no descriptor to wait with: %s", strerror(errno));
        goto no_descriptor;
    }
    round->tasks = tasks;
    round->remote.wake_fd = tasks->wake_fd;
    int failure = pthread_create(&tasks->courier, NULL, courier_main, round);
    if (failure) {
        status = fail(TERN_NO_MEMORY, "no thread can be started: %s", strerror(failure));
        goto no_thread;
    }
    tasks->has_courier = true;
    return TERN_OK;

no_thread:
    close(tasks->wake_fd);
    tasks->wake_fd = -1;
no_descriptor:
    remote_fini(&round->remote);
no_remote:
    free(round);
    return status;
}

void courier_end(struct tasks *tasks)
{
    if (tasks->has_courier) {
        wake(tasks);
        pthread_join(tasks->courier, NULL);
        close(tasks->wake_fd);
    }
    for (struct letter *letter = tasks->outbox, *next; letter; letter = next) {
        next = letter->next;
        letter_free(letter);
    }
}
