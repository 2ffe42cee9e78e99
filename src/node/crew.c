/*
 * crew - the threads that run functions for tasks. See tasks.h.
 *
 * Each has a worker of its own, which it keeps, and with it connections, from task to task. A thread is
 * started when an errand finds none idle, until TERN_MAX_TASK_THREADS are at work; one that waits for
 * tasks its own function has submitted is not at work, so that those can run here, too.
 *
 * Before a thread takes an errand it has the letter in which to report: from then on nothing can keep
 * the outcome from being told.
 */
#include "node/tasks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RETRY_US = 10000 }; /* for memory */

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

/* ---- One errand -------------------------------------------------------------------------------- */

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
                 const struct errand *errand, struct outcome *outcome)
{
    uint8_t *memory = calloc(1, RESULT_AT + (size_t)errand->result_bytes);
    if (!memory) {
        outcome_fail(outcome, TERN_NO_MEMORY, "no memory for its result");
        return;
    }
    struct tern_task task = {.worker = worker,
                             .caller = errand->from,
                             .id = errand->id,
                             .begin = errand->begin,
                             .end = errand->end,
                             .argument = errand->argument,
                             .argument_bytes = errand->argument_bytes,
                             .result = memory + RESULT_AT,
                             .result_room = errand->result_bytes};
    fail(TERN_OK, "the function gave no reason");
    enum tern_status status = function->function(function->context, &task);
    task.trouble[sizeof task.trouble - 1] = '\0';
    outcome->result = memory;
    outcome->n_bytes = task.result_bytes;
    if (status) {
        /* A status that cannot be told is at least not success. */
        outcome_fail(outcome, (unsigned)status > UINT16_MAX ? TERN_INVALID : status,
                     task.trouble[0] ? task.trouble : tern_error());
    } else if (task.result_bytes > errand->result_bytes) {
        fail(TERN_LIMIT, "the result has %zu bytes, but the caller has room for %" PRIu32,
             task.result_bytes, errand->result_bytes);
        outcome_fail(outcome, TERN_LIMIT, tern_error());
    }
}

static void run(struct tasks *tasks, struct tern_worker *worker, const struct errand *errand,
                struct outcome *outcome)
{
    pthread_mutex_lock(&tasks->lock);
    const struct function *function = tasks_find(tasks, errand->name);
    pthread_mutex_unlock(&tasks->lock);
    if (errand->is_one_too_many) {
        fail(TERN_LIMIT, "%d MiB of tasks wait there; wait for some before submitting more",
             INBOX_MAX_BYTES >> 20);
        outcome_fail(outcome, TERN_LIMIT, tern_error());
    } else if (!function) {
        outcome_fail(outcome, TERN_INVALID,
                     "no function of this name is registered there; register it at every node, "
                     "then pass a barrier");
    } else {
        call(function, worker, errand, outcome);
        settle(tasks, worker, outcome);
    }
}

/* ---- Reporting ---------------------------------------------------------------------------------- */

void letter_tell(struct letter *letter, const struct errand *errand, enum tern_status status,
                 const char *sentence)
{
    letter->node = errand->from;
    letter->kind = FRAME_FINISHED;
    letter->a = errand->id;
    letter->b = errand->worker;
    size_t n = status ? strnlen(sentence, MAX_SENTENCE) : 0;
    struct finished_message message = {.status = status, .n_bytes = (uint32_t)n, .bytes = sentence};
    finished_encode(&message, letter->body);
    letter->n_bytes = (uint32_t)finished_bytes(&message);
}

/* Puts a result into a letter. It is sent from where it is: the header goes in front of it. */
static void enclose(struct letter *letter, struct outcome *outcome)
{
    struct finished_message message = {.status = TERN_OK};
    letter->memory = outcome->result;
    letter->body = outcome->result + RESULT_AT - FINISHED_HEADER_BYTES;
    finished_encode(&message, letter->body);
    letter->n_bytes += (uint32_t)outcome->n_bytes;
    outcome->result = NULL;
}

/* Tells the caller. The lock is held; takes the letter if it goes to another node. */
static void report(struct tasks *tasks, const struct errand *errand, struct outcome *outcome,
                   struct letter **letter)
{
    enum tern_status status = outcome->status;
    if (errand->from == tasks->self) {
        const void *bytes = outcome->sentence;
        size_t n = strlen(outcome->sentence);
        if (!status) {
            bytes = outcome->result + RESULT_AT;
            n = outcome->n_bytes;
        }
        tasks_finish(tasks, errand->worker, errand->id, errand->from, status, bytes, n);
        return;
    }
    letter_tell(*letter, errand, status, outcome->sentence);
    if (!status)
        enclose(*letter, outcome);
    courier_send(tasks, *letter);
    *letter = NULL;
}

/* ---- Threads ------------------------------------------------------------------------------------ */

/* Waits for an errand; NULL: the crew is to end. */
static struct errand *next_errand(struct tasks *tasks)
{
    struct errand *errand = NULL;
    while (!tasks->stop && !(errand = inbox_next(tasks->inbox))) {
        tasks->n_idle++;
        pthread_cond_wait(&tasks->work, &tasks->lock);
        tasks->n_idle--;
    }
    return errand;
}

/* Opens the worker of a thread. It has no steps of its own that anybody could wait for. */
static enum tern_status hire(struct tasks *tasks, struct tern_worker **worker)
{
    enum tern_status status = node_open_worker(tasks->node, true, worker);
    return status ? status : tern_worker_rest(*worker);
}

static void *crew_main(void *context)
{
    struct tasks *tasks = context;
    struct tern_worker *worker = NULL;
    struct letter *letter = NULL;
    for (;;) {
        while (!letter && !(letter = letter_new(MAX_SENTENCE)))
            usleep(RETRY_US);
        pthread_mutex_lock(&tasks->lock);
        struct errand *errand = next_errand(tasks);
        pthread_mutex_unlock(&tasks->lock);
        if (!errand)
            break;
        struct outcome outcome = {0};
        enum tern_status status = worker ? TERN_OK : hire(tasks, &worker);
        if (status)
            outcome_fail(&outcome, status, tern_error());
        else
            run(tasks, worker, errand, &outcome);
        pthread_mutex_lock(&tasks->lock);
        report(tasks, errand, &outcome, &letter);
        pthread_mutex_unlock(&tasks->lock);
        free(outcome.result);
        free(errand);
    }
    letter_free(letter);
    if (worker)
        tern_worker_close(worker);
    return NULL;
}

enum tern_status crew_start(struct tasks *tasks)
{
    if (tasks->n_crew)
        return TERN_OK;
    int failure = pthread_create(&tasks->crew[0], NULL, crew_main, tasks);
    if (failure)
        return fail(TERN_NO_MEMORY, "no thread can be started: %s", strerror(failure));
    tasks->n_crew = 1;
    return TERN_OK;
}

void crew_call(struct tasks *tasks)
{
    pthread_cond_signal(&tasks->work);
    bool needed = inbox_count(tasks->inbox) > tasks->n_idle;
    /* One that is idle may have been called already: it will be at work, too. */
    size_t n_hands = tasks->n_crew - tasks->n_waiting;
    if (!needed || n_hands >= TERN_MAX_TASK_THREADS || tasks->n_crew == MAX_CREW)
        return;
    /* If there can be no more threads, those that are there do the work. */
    if (!pthread_create(&tasks->crew[tasks->n_crew], NULL, crew_main, tasks))
        tasks->n_crew++;
}

void crew_end(struct tasks *tasks)
{
    pthread_mutex_lock(&tasks->lock);
    tasks->stop = true;
    pthread_cond_broadcast(&tasks->work);
    pthread_cond_broadcast(&tasks->finished);
    pthread_mutex_unlock(&tasks->lock);
    for (size_t i = 0; i < tasks->n_crew; i++)
        pthread_join(tasks->crew[i], NULL);
}
