/*
 * engine - see engine.h.
 *
 * One lock guards everything; it is released while an operation runs. Threads are detached: at the end of the process
 * they are asleep or in an operation whose result nobody waits for.
 */
#include "nd/engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "base/thread.h"

enum { MAX_THREADS = 256 };

/* A sentence that several variables share. */
struct failure {
    uint32_t refs;
    enum tern_status status;
    char sentence[STATUS_SENTENCE_BYTES];
};
static struct failure no_memory = {1, TERN_NO_MEMORY,
                                   "there was no memory for the sentence of a failure"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work =
    PTHREAD_COND_INITIALIZER; /* something became ready, or threads shall leave */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER; /* an operation, or a thread, has ended */
static pthread_cond_t message =
    PTHREAD_COND_INITIALIZER; /* an operation that communicates is ready */
static struct queue {
    struct operation *head, *tail;
} ready, communicating; /* the second: ready operations that communicate */
static bool has_communicator;

/* The parts of an operation, in the memory of the thread that waits for them. */
struct batch {
    void (*part)(void *context, unsigned i);
    void *context;
    unsigned n, n_begun, n_left;
    struct batch *next;
};
static struct batch *batches;   /* those of which not all parts have begun */
static atomic_uint n_submitted; /* and not ended */
static uint64_t n_ended;
static unsigned n_wanted, n_workers, n_leaving, n_waiting;

/* ---- Failures ------------------------------------------------------------------------------------ */

static void failure_drop(struct failure *failure)
{
    if (failure && failure != &no_memory && --failure->refs == 0)
        free(failure);
}

static struct failure *failure_keep(struct failure *failure)
{
    if (failure && failure != &no_memory)
        failure->refs++;
    return failure;
}

static struct failure *failure_new(enum tern_status status, const char *name)
{
    struct failure *failure = malloc(sizeof *failure);
    if (!failure)
        return &no_memory;
    failure->refs = 1;
    failure->status = status;
    snprintf(failure->sentence, sizeof failure->sentence, "%s: %.400s", name, tern_error());
    return failure;
}

/* The failure that an operation has from its variables; a new reference. */
static struct failure *inherited(const struct operation *operation)
{
    for (uint32_t i = 0; i < operation->n_links; i++) {
        const struct link *link = &operation->links[i];
        if (link->variable->failure && (!link->writes || link->keeps))
            return failure_keep(link->variable->failure);
    }
    return NULL;
}

/* ---- Queues -------------------------------------------------------------------------------------- */

static void missing_one_less(struct operation *operation)
{
    if (--operation->n_missing)
        return;
    /* Without the thread for them, operations that communicate run where the others do. */
    const bool communicates = operation->communicates && has_communicator;
    struct queue *queue = communicates ? &communicating : &ready;
    operation->next = NULL;
    if (queue->tail)
        queue->tail->next = operation;
    else
        queue->head = operation;
    queue->tail = operation;
    pthread_cond_signal(communicates ? &message : &work);
}

/* Lets the first links of a variable's queue go on, as far as its users permit. */
static void grant(struct variable *variable)
{
    while (variable->head && !variable->is_written) {
        struct link *link = variable->head;
        if (link->writes && variable->n_reading)
            return;
        variable->head = link->next;
        if (!variable->head)
            variable->tail = NULL;
        if (link->writes)
            variable->is_written = true;
        else
            variable->n_reading++;
        missing_one_less(link->operation);
    }
}

static void release(struct operation *operation, struct failure *failure)
{
    for (uint32_t i = 0; i < operation->n_links; i++) {
        struct variable *variable = operation->links[i].variable;
        if (operation->links[i].writes) {
            variable->is_written = false;
            variable->n_pending_writes--;
            failure_drop(variable->failure);
            variable->failure = failure_keep(failure);
        } else {
            variable->n_reading--;
        }
        grant(variable);
    }
}

/* Runs the first operation of a queue. Called and left with the lock. */
static void run_one(struct queue *queue)
{
    struct operation *operation = queue->head;
    queue->head = operation->next;
    if (!queue->head)
        queue->tail = NULL;
    struct failure *failure = inherited(operation);
    if (!failure) {
        pthread_mutex_unlock(&lock);
        enum tern_status status = operation->run(operation->context);
        if (status)
            failure = failure_new(status, operation->name);
        pthread_mutex_lock(&lock);
    }
    release(operation, failure);
    failure_drop(failure);
    /* It may free variables, which takes the lock. */
    pthread_mutex_unlock(&lock);
    operation->ended(operation->context);
    pthread_mutex_lock(&lock);
    atomic_fetch_sub(&n_submitted, 1);
    n_ended++;
    if (n_waiting)
        pthread_cond_broadcast(&ended);
}

/* Runs the next part of a batch. Called and left with the lock; the batch may be gone then. */
static void run_part(struct batch *batch)
{
    const unsigned i = batch->n_begun++;
    if (batch->n_begun == batch->n) {
        struct batch **link = &batches;
        while (*link != batch)
            link = &(*link)->next;
        *link = batch->next;
    }
    pthread_mutex_unlock(&lock);
    batch->part(batch->context, i);
    pthread_mutex_lock(&lock);
    if (!--batch->n_left && n_waiting)
        pthread_cond_broadcast(&ended);
}

void nd_engine_parts(unsigned n, void (*part)(void *context, unsigned i), void *context)
{
    if (n == 1) {
        part(context, 0);
        return;
    }
    struct batch batch = {.part = part, .context = context, .n = n, .n_left = n};
    pthread_mutex_lock(&lock);
    batch.next = batches;
    batches = &batch;
    pthread_cond_broadcast(&work);
    if (n_waiting)
        pthread_cond_broadcast(&ended);
    while (batch.n_begun < n)
        run_part(&batch);
    while (batch.n_left) {
        n_waiting++;
        pthread_cond_wait(&ended, &lock);
        n_waiting--;
    }
    pthread_mutex_unlock(&lock);
}

unsigned nd_engine_split(int64_t size, int64_t least)
{
    if (size < 2 * least)
        return 1;
    const unsigned threads = nd_engine_threads(),
                   most = threads < ENGINE_PARTS ? threads : ENGINE_PARTS;
    return size / least < most ? (unsigned)(size / least) : most;
}

/* Waits for an operation to end, or runs one. Called and left with the lock. */
static void progress(void)
{
    if (batches) {
        run_part(batches);
        return;
    }
    if (ready.head) {
        run_one(&ready);
        return;
    }
    n_waiting++;
    pthread_cond_wait(&ended, &lock);
    n_waiting--;
}

/* ---- Threads ------------------------------------------------------------------------------------- */

static void *work_on(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        if (n_leaving) {
            n_leaving--;
            n_workers--;
            pthread_cond_broadcast(&ended);
            break;
        }
        if (batches)
            run_part(batches);
        else if (ready.head)
            run_one(&ready);
        else
            pthread_cond_wait(&work, &lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *communicate(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        if (communicating.head)
            run_one(&communicating);
        else
            pthread_cond_wait(&message, &lock);
    }
    return NULL;
}

/* Starts the thread of operations that communicate; called with the lock. */
static void start_communicator(void)
{
    pthread_t thread;
    if (has_communicator || thread_start(&thread, communicate, NULL))
        return;
    pthread_detach(thread);
    has_communicator = true;
}

static unsigned threads_at_first(void)
{
    const char *text = getenv("TERN_THREADS");
    long n = text ? strtol(text, NULL, 10) : 0;
    if (n < 1)
        n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (unsigned)n;
}

/* Starts the threads that are missing; called with the lock. Without them the waiting thread does all the work. */
static enum tern_status start_threads(void)
{
    if (!n_wanted)
        n_wanted = threads_at_first();
    while (n_workers + 1 < n_wanted) {
        pthread_t thread;
        enum tern_status status = thread_start(&thread, work_on, NULL);
        if (status)
            return status;
        pthread_detach(thread);
        n_workers++;
    }
    return TERN_OK;
}

unsigned nd_engine_threads(void)
{
    pthread_mutex_lock(&lock);
    const unsigned n = n_wanted ? n_wanted : threads_at_first();
    pthread_mutex_unlock(&lock);
    return n;
}

enum tern_status nd_engine_set_threads(unsigned n)
{
    if (n < 1 || n > MAX_THREADS)
        return fail(TERN_INVALID, "the engine has 1 to %d threads, not %u", MAX_THREADS, n);
    pthread_mutex_lock(&lock);
    while (atomic_load(&n_submitted))
        progress();
    n_wanted = n;
    enum tern_status status = start_threads();
    if (n_workers + 1 > n) {
        n_leaving = n_workers + 1 - n;
        pthread_cond_broadcast(&work);
        while (n_leaving)
            progress();
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- Submitting and waiting ---------------------------------------------------------------------- */

void nd_engine_submit(struct operation *operation)
{
    pthread_mutex_lock(&lock);
    if (n_workers + 1 != n_wanted)
        (void)start_threads();
    if (operation->communicates)
        start_communicator();
    atomic_fetch_add(&n_submitted, 1);
    operation->n_missing = operation->n_links + 1;
    for (uint32_t i = 0; i < operation->n_links; i++) {
        struct link *link = &operation->links[i];
        struct variable *variable = link->variable;
        link->operation = operation;
        link->next = NULL;
        variable->n_pending_writes += link->writes;
        if (variable->tail)
            variable->tail->next = link;
        else
            variable->head = link;
        variable->tail = link;
        grant(variable);
    }
    missing_one_less(operation);
    if (n_waiting)
        pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
}

static enum tern_status wait_until(struct variable *variable, bool idle)
{
    enum tern_status status = TERN_OK;
    pthread_mutex_lock(&lock);
    while (variable->n_pending_writes || (idle && (variable->n_reading || variable->head)))
        progress();
    if (variable->failure)
        status = fail(variable->failure->status, "%s", variable->failure->sentence);
    pthread_mutex_unlock(&lock);
    return status;
}

enum tern_status nd_engine_wait(struct variable *variable)
{
    return wait_until(variable, false);
}

enum tern_status nd_engine_wait_idle(struct variable *variable)
{
    return wait_until(variable, true);
}

void nd_engine_wait_for(const atomic_uint *left)
{
    pthread_mutex_lock(&lock);
    while (atomic_load(left))
        progress();
    pthread_mutex_unlock(&lock);
}

void nd_engine_wait_all(void)
{
    nd_engine_wait_for(&n_submitted);
}

void nd_engine_forget(struct variable *variable)
{
    pthread_mutex_lock(&lock);
    failure_drop(variable->failure);
    variable->failure = NULL;
    pthread_mutex_unlock(&lock);
}

uint64_t nd_engine_count(void)
{
    pthread_mutex_lock(&lock);
    const uint64_t n = n_ended;
    pthread_mutex_unlock(&lock);
    return n;
}
