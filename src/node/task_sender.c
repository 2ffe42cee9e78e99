/*
 * task_sender - the thread that sends a node's messages: tasks to the nodes that run them, and outcomes
 * to the nodes they came from. See tasks.h.
 *
 * It has one lane to each node (client.h), so messages to a node arrive in the order in which they were
 * handed over, and survive broken connections. It also watches over the nodes that tasks of this one are
 * at: a task whose node is dead, or gives no sign for the deadline, fails. A node is asked for a
 * sign, by a message that says nothing, when tasks wait for it and no other message is under way.
 */
#include "node/tasks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

enum { LOOK_MS = 100 }; /* how often it looks for dead nodes, while tasks are under way */

#define MS UINT64_C(1000000)

struct round {
    struct tasks *tasks;
    struct remote remote;
    struct message *under_way; /* a list */
    bool has_tasks;            /* tasks may be at other nodes */
    uint64_t watched_ns;       /* when it last looked after them */
    uint64_t asked_ns;         /* when it last asked for a sign */
};

struct message *message_new(size_t n)
{
    struct message *message = calloc(1, sizeof *message + FINISHED_HEADER_BYTES + n);
    if (message)
        message->body = message->room;
    return message;
}

void message_free(struct message *message)
{
    if (!message)
        return;
    free(message->memory);
    free(message);
}

static void wake(const struct tasks *tasks)
{
    uint64_t one = 1;
    ssize_t n = write(tasks->wake_fd, &one, sizeof one);
    (void)n; /* it fails only when the count is full, and then the thread is awake */
}

void sender_send(struct tasks *tasks, struct message *message)
{
    message->next = NULL;
    if (tasks->last_message)
        tasks->last_message->next = message;
    else
        tasks->outbox = message;
    tasks->last_message = message;
    wake(tasks);
}

/* ---- Sending ------------------------------------------------------------------------------------ */

static bool is_dead(const struct round *round, uint32_t node)
{
    return peers_dead(&round->remote.engine->peers) == node + 1;
}

/* A message was not delivered. An outcome is sent again as long as its node may live. */
static bool undelivered(struct round *round, struct message *message, enum tern_status status)
{
    struct tasks *tasks = round->tasks;
    bool again = message->kind == FRAME_FINISHED && message->fields.finished.number &&
                 status == TERN_PEER && !is_dead(round, message->node);
    lock_take(&tasks->lock);
    if (message->kind == FRAME_TASK)
        tasks_finish(tasks, message->worker, message->id, message->node, status, tern_error(),
                     strlen(tern_error()));
    else if (!message->fields.finished.number)
        tasks_fail_node(tasks, message->node, tern_error());
    again &= !tasks->stop;
    lock_release(&tasks->lock);
    return again;
}

/* Puts a message on its lane; drops it if it cannot be. */
static void post(struct round *round, struct message *message)
{
    message->op = (struct op){
        .fields = message->fields, .payload = message->body, .payload_bytes = message->n_bytes};
    struct client *client = &round->remote.client;
    enum tern_status status = client_call(client, message->node, &message->op, message->kind);
    if (status) {
        undelivered(round, message, status);
        message_free(message);
        return;
    }
    message->next = round->under_way;
    round->under_way = message;
    round->has_tasks |= message->kind == FRAME_TASK;
    remote_nudge(&round->remote, client_lane(client, message->node));
}

static void post_outbox(struct round *round)
{
    struct tasks *tasks = round->tasks;
    lock_take(&tasks->lock);
    struct message *message = tasks->outbox;
    tasks->outbox = tasks->last_message = NULL;
    tasks->is_sending |= message != NULL;
    lock_release(&tasks->lock);
    while (message) {
        struct message *next = message->next;
        post(round, message);
        message = next;
    }
}

/* Ends messages that were answered, or given up. */
static void reap(struct round *round)
{
    struct message *left = round->under_way;
    round->under_way = NULL;
    while (left) {
        struct message *message = left;
        left = message->next;
        if (!op_is_done(&message->op)) {
            message->next = round->under_way;
            round->under_way = message;
            continue;
        }
        enum tern_status status = op_end(&message->op);
        buffer_free(&message->op.answer_body);
        if (status && undelivered(round, message, status))
            post(round, message);
        else
            message_free(message);
    }
    lock_take(&round->tasks->lock);
    round->tasks->is_sending = round->under_way;
    lock_release(&round->tasks->lock);
}

/* ---- Watching ----------------------------------------------------------------------------------- */

static bool is_under_way_to(const struct round *round, uint32_t node)
{
    for (const struct message *message = round->under_way; message; message = message->next)
        if (message->node == node)
            return true;
    return false;
}

/* A message that says nothing: its answer is a sign of life. */
static void ask_for_sign(struct round *round, uint32_t node)
{
    struct message *message = message_new(0);
    if (!message)
        return; /* the next time, then */
    struct finished_message nothing = {.status = TERN_OK};
    finished_encode(&nothing, message->body);
    message->node = node;
    message->kind = FRAME_FINISHED;
    message->n_bytes = FINISHED_HEADER_BYTES;
    post(round, message);
}

/* Looks after the nodes that tasks wait for, every LOOK_MS. */
static void watch(struct round *round)
{
    struct tasks *tasks = round->tasks;
    uint64_t now = clock_now_ns();
    if (!round->has_tasks || now - round->watched_ns < LOOK_MS * MS)
        return;
    bool ask = now - round->asked_ns > round->remote.engine->launch.deadline_ns / 4;
    round->has_tasks = false;
    round->watched_ns = now;
    if (ask)
        round->asked_ns = now;
    view_each (node, tasks->view) {
        lock_take(&tasks->lock);
        bool waits = node != tasks->self && tasks_wait_for(tasks, node);
        if (waits && is_dead(round, node))
            tasks_fail_node(tasks, node, "the node has died");
        lock_release(&tasks->lock);
        round->has_tasks |= waits;
        if (waits && ask && !is_under_way_to(round, node))
            ask_for_sign(round, node);
    }
}

/* ---- The thread --------------------------------------------------------------------------------- */

static bool is_over(struct tasks *tasks)
{
    lock_take(&tasks->lock);
    bool stop = tasks->stop;
    lock_release(&tasks->lock);
    return stop;
}

static void *sender_main(void *context)
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
        struct message *message = round->under_way;
        round->under_way = message->next;
        lane_fail(&round->remote.client, client_lane(&round->remote.client, message->node),
                  TERN_CLOSED, "the node is being closed");
        op_end(&message->op);
        buffer_free(&message->op.answer_body);
        message_free(message);
    }
    remote_fini(&round->remote);
    free(round);
    return NULL;
}

enum tern_status sender_start(struct tasks *tasks)
{
    if (tasks->has_sender || !tasks->node->engine)
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
    status = thread_start(&tasks->sender, sender_main, round);
    if (status)
        goto no_thread;
    tasks->has_sender = true;
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

void sender_end(struct tasks *tasks)
{
    if (tasks->has_sender) {
        wake(tasks);
        pthread_join(tasks->sender, NULL);
        close(tasks->wake_fd);
    }
    for (struct message *message = tasks->outbox, *next; message; message = next) {
        next = message->next;
        message_free(message);
    }
}
