/*
 * task_pool - the threads that run functions for tasks. See tasks.h.
 *
 * Each has a worker of its own, which it keeps, and with it connections, from task to task. A thread is
 * started when a task finds none idle, until TERN_MAX_TASK_THREADS are at work; one that waits for
 * tasks its own function has submitted is not at work, so that those can also run here.
 *
 * Before a thread takes a task it has the message in which to report: from then on nothing can keep
 * the outcome from being told.
 */
#include "node/tasks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"

enum {
    RETRY_US = 10000, /* for memory */
    LOOK_US = 2000,   /* while the pool is to come to rest */
};

/* Where the result begins in a body: aligned, with the header just before it. */
enum { RESULT_AT = _Alignof(max_align_t) };
_Static_assert((int)RESULT_AT >= (int)FINISHED_HEADER_BYTES,
               "the header fits in front of an aligned result");

/* What a function has come to. */
struct outcome {
    enum tern_status status;
    char sentence[MAX_SENTENCE]; /* if it failed */
    uint8_t *result;             /* memory that has it at RESULT_AT; NULL: it failed before */
    size_t n_bytes;
};

static void outcome_fail(struct outcome *outcome, enum tern_status status, const char *sentence)
{
    outcome->status = status;
    snprintf(outcome->sentence, sizeof outcome->sentence, "%s", sentence);
}

/* ---- One task -------------------------------------------------------------------------------- */

/* The rest of a task once its function has returned: what it left under way. */
static void settle(struct tasks *tasks, struct tern_worker *worker, struct outcome *outcome)
{
    if (worker->remote)
        access_finish_all(worker);
    if (worker->caller) {
        enum tern_status status = tasks_wait(tasks, worker, 0, 0);
        if (status && !outcome->status)
            outcome_fail(outcome, status, tern_error());
        tern_task_delay(worker, 0); /* as the next function expects it */
    }
    if (worker->n_pins && !outcome->status) {
        fail(TERN_BUSY, "the function left %" PRIu64 " rows pinned", worker->n_pins);
        outcome_fail(outcome, TERN_BUSY, tern_error());
    }
    access_unpin_all(worker);
    sample_end_open(worker);
    tern_worker_rest(
        worker); /* an update of a bounded table made it take part: others would wait for it */
}

static void call(const struct function *function, struct tern_worker *worker,
                 const struct inbox_task *received, struct outcome *outcome)
{
    uint8_t *memory = calloc(1, RESULT_AT + (size_t)received->result_bytes);
    if (!memory) {
        outcome_fail(outcome, TERN_NO_MEMORY, "no memory for its result");
        return;
    }
    struct tern_task task = {.worker = worker,
                             .caller = received->from,
                             .id = received->id,
                             .begin = received->begin,
                             .end = received->end,
                             .argument = received->argument,
                             .argument_bytes = received->argument_bytes,
                             .result = memory + RESULT_AT,
                             .result_room = received->result_bytes};
    fail(TERN_OK, "the function gave no reason");
    enum tern_status status = function->function(function->context, &task);
    task.trouble[sizeof task.trouble - 1] = '\0';
    outcome->result = memory;
    outcome->n_bytes = task.result_bytes;
    if (status) {
        /* A status that cannot be told is at least not success. */
        outcome_fail(outcome, (unsigned)status > UINT16_MAX ? TERN_INVALID : status,
                     task.trouble[0] ? task.trouble : tern_error());
    } else if (task.result_bytes > received->result_bytes) {
        fail(TERN_LIMIT, "the result has %zu bytes, but the caller has room for %" PRIu32,
             task.result_bytes, received->result_bytes);
        outcome_fail(outcome, TERN_LIMIT, tern_error());
    }
}

static void run(struct tasks *tasks, struct tern_worker *worker, const struct inbox_task *task,
                struct outcome *outcome)
{
    lock_take(&tasks->lock);
    const struct function *function = tasks_find(tasks, task->name);
    lock_release(&tasks->lock);
    if (task->is_one_too_many) {
        fail(TERN_LIMIT, "%d MiB of tasks wait there; wait for some before submitting more",
             INBOX_MAX_BYTES >> 20);
        outcome_fail(outcome, TERN_LIMIT, tern_error());
    } else if (!function) {
        outcome_fail(outcome, TERN_INVALID,
                     "no function of this name is registered there; register it at every node, "
                     "then pass a barrier");
    } else {
        call(function, worker, task, outcome);
        settle(tasks, worker, outcome);
    }
}

/* ---- Reporting ---------------------------------------------------------------------------------- */

void message_tell(struct message *message, const struct inbox_task *task, enum tern_status status,
                  const char *sentence)
{
    message->node = task->from;
    message->kind = FRAME_FINISHED;
    message->fields.finished.number = task->id;
    message->fields.finished.worker = task->worker;
    size_t n = status ? strnlen(sentence, MAX_SENTENCE) : 0;
    struct finished_message content = {.status = status, .n_bytes = (uint32_t)n, .bytes = sentence};
    finished_encode(&content, message->body);
    message->n_bytes = (uint32_t)finished_bytes(&content);
}

/* Puts a result into a message. It is sent from where it is: the header goes in front of it. */
static void enclose(struct message *message, struct outcome *outcome)
{
    struct finished_message content = {.status = TERN_OK};
    message->memory = outcome->result;
    message->body = outcome->result + RESULT_AT - FINISHED_HEADER_BYTES;
    finished_encode(&content, message->body);
    message->n_bytes += (uint32_t)outcome->n_bytes;
    outcome->result = NULL;
}

/* Tells the caller. The lock is held; takes the message if it goes to another node. */
static void report(struct tasks *tasks, const struct inbox_task *task, struct outcome *outcome,
                   struct message **message)
{
    enum tern_status status = outcome->status;
    if (task->from == tasks->self) {
        const void *bytes = outcome->sentence;
        size_t n = strlen(outcome->sentence);
        if (!status) {
            bytes = outcome->result + RESULT_AT;
            n = outcome->n_bytes;
        }
        tasks_finish(tasks, task->worker, task->id, task->from, status, bytes, n);
        return;
    }
    message_tell(*message, task, status, outcome->sentence);
    if (!status)
        enclose(*message, outcome);
    sender_send(tasks, *message);
    *message = NULL;
}

/* ---- Threads ------------------------------------------------------------------------------------ */

/* Waits for a task; NULL: the pool is to end. */
static struct inbox_task *next_task(struct tasks *tasks)
{
    struct inbox_task *task = NULL;
    while (!tasks->stop && (tasks->is_held || !(task = inbox_next(tasks->inbox)))) {
        tasks->n_idle++;
        lock_wait(&tasks->lock, &tasks->work);
        tasks->n_idle--;
    }
    return task;
}

/* Opens the worker of a thread. It has no steps of its own that anybody could wait for. */
static enum tern_status hire(struct tasks *tasks, struct tern_worker **worker)
{
    enum tern_status status = node_open_worker(tasks->node, true, worker);
    return status ? status : tern_worker_rest(*worker);
}

static void *pool_main(void *context)
{
    struct tasks *tasks = context;
    struct tern_worker *worker = NULL;
    struct message *message = NULL;
    for (;;) {
        while (!message && !(message = message_new(MAX_SENTENCE)))
            usleep(RETRY_US);
        lock_take(&tasks->lock);
        struct inbox_task *task = next_task(tasks);
        lock_release(&tasks->lock);
        if (!task)
            break;
        struct outcome outcome = {0};
        enum tern_status status = worker ? TERN_OK : hire(tasks, &worker);
        if (status)
            outcome_fail(&outcome, status, tern_error());
        else
            run(tasks, worker, task, &outcome);
        lock_take(&tasks->lock);
        report(tasks, task, &outcome, &message);
        lock_release(&tasks->lock);
        free(outcome.result);
        free(task);
    }
    message_free(message);
    if (worker)
        tern_worker_close(worker);
    return NULL;
}

enum tern_status pool_start(struct tasks *tasks)
{
    if (tasks->n_pool)
        return TERN_OK;
    enum tern_status status = thread_start(&tasks->pool[0], pool_main, tasks);
    tasks->n_pool = !status;
    return status;
}

void pool_call(struct tasks *tasks)
{
    pthread_cond_signal(&tasks->work);
    bool needed = inbox_count(tasks->inbox) > tasks->n_idle;
    /* One that is idle may have been called already: it will also be at work. */
    size_t n_hands = tasks->n_pool - tasks->n_waiting;
    if (!needed || n_hands >= TERN_MAX_TASK_THREADS || tasks->n_pool == MAX_POOL)
        return;
    /* If there can be no more threads, those that are there do the work. */
    if (!thread_start(&tasks->pool[tasks->n_pool], pool_main, tasks))
        tasks->n_pool++;
}

void tasks_hold(struct tasks *tasks)
{
    lock_take(&tasks->lock);
    while (inbox_count(tasks->inbox) || tasks->n_idle < tasks->n_pool || tasks->outbox ||
           tasks->is_sending) {
        lock_release(&tasks->lock);
        usleep(LOOK_US);
        lock_take(&tasks->lock);
    }
    tasks->is_held = true;
    lock_release(&tasks->lock);
}

void tasks_release(struct tasks *tasks)
{
    lock_take(&tasks->lock);
    tasks->is_held = false;
    pthread_cond_broadcast(&tasks->work);
    lock_release(&tasks->lock);
}

void pool_end(struct tasks *tasks)
{
    lock_take(&tasks->lock);
    tasks->stop = true;
    pthread_cond_broadcast(&tasks->work);
    pthread_cond_broadcast(&tasks->finished);
    lock_release(&tasks->lock);
    for (size_t i = 0; i < tasks->n_pool; i++)
        pthread_join(tasks->pool[i], NULL);
}
