/*
 * bench_point - one combination of `tern bench local`, measured.
 *
 * The contenders take turns within each repeat, so that a disturbance of the machine affects all of
 * them. The amount of work is calibrated once, with Tern, and is the same for all.
 */
#include "bench_point.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "quantile.h"

enum contender {
    TERN,
    RAW_FIRST, /* the raw loops follow in the order of enum raw_kind */
    N_CONTENDERS = RAW_FIRST + RAW_N_KINDS,
};

/* Holds threads back until all of them are there. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t n_waiting;
    enum { GATE_SHUT, GATE_OPEN, GATE_CANCELLED } state;
};

struct job {
    const struct point *point;
    const struct lane *lane;
    enum contender contender;
    size_t n_batches;
    struct gate *gate;
    pthread_t thread;
    double ns;
    char error[256]; /* tern_error() belongs to the thread; "" when all went well */
};

/* The CPU time of this thread, which other programs do not affect. */
static double own_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- The loops ------------------------------------------------------------------------------- */

/* The batch after the one at `at`; the stream is walked round and round. */
static size_t next_batch(const struct job *job, size_t at)
{
    at += job->point->batch;
    return at + job->point->batch <= job->lane->keys->n ? at : 0;
}

static enum tern_status run_tern(const struct job *job)
{
    const struct point *point = job->point;
    const struct lane *lane = job->lane;
    const uint64_t *keys = point->index == TERN_SPARSE ? lane->keys->sparse : lane->keys->rows;
    enum tern_status status = TERN_OK;
    for (size_t i = 0, at = 0; i < job->n_batches && status == TERN_OK; i++) {
        if (point->op == RAW_PULL)
            status = tern_pull(lane->worker, point->table, keys + at, point->batch, lane->values);
        else
            status = tern_push(lane->worker, point->table, keys + at, point->batch, lane->values);
        at = next_batch(job, at);
    }
    return status;
}

static void run_raw(const struct job *job)
{
    const struct point *point = job->point;
    const struct lane *lane = job->lane;
    enum raw_kind kind = (enum raw_kind)(job->contender - RAW_FIRST);
    raw_loop *loop = raw_loop_for(point->op, kind, point->array->length);
    for (size_t i = 0, at = 0; i < job->n_batches; i++) {
        loop(point->array, lane->keys->rows + at, point->batch, lane->values);
        at = next_batch(job, at);
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

static bool gate_pass(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->n_waiting++;
    pthread_cond_broadcast(&gate->changed);
    while (gate->state == GATE_SHUT)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    bool open = gate->state == GATE_OPEN;
    pthread_mutex_unlock(&gate->mutex);
    return open;
}

/* Opens the gate once n threads wait at it, or cancels what those n would have done. */
static void gate_open(struct gate *gate, size_t n, bool cancel)
{
    pthread_mutex_lock(&gate->mutex);
    while (gate->n_waiting < n)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    gate->state = cancel ? GATE_CANCELLED : GATE_OPEN;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

static void *lane_main(void *argument)
{
    struct job *job = argument;
    if (!gate_pass(job->gate))
        return NULL;
    double start_ns = own_ns();
    if (job->contender != TERN)
        run_raw(job);
    else if (run_tern(job) != TERN_OK)
        snprintf(job->error, sizeof job->error, "%s", tern_error());
    job->ns = own_ns() - start_ns;
    return NULL;
}

/* Runs all jobs beside each other; false after a complaint. */
static bool run_jobs(struct job *jobs, size_t n)
{
    struct gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    size_t n_started = 0;
    int error = 0;
    for (; n_started < n && error == 0; n_started += error == 0) {
        jobs[n_started].gate = &gate;
        error = pthread_create(&jobs[n_started].thread, NULL, lane_main, &jobs[n_started]);
    }
    gate_open(&gate, n_started, error != 0);
    for (size_t i = 0; i < n_started; i++)
        pthread_join(jobs[i].thread, NULL);
    if (error != 0) {
        complain("cannot start %zu threads: %s", n, strerror(error));
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].error[0] != '\0') {
            complain("the table failed while it was measured: %s", jobs[i].error);
            return false;
        }
    }
    return true;
}

/* ---- Measurements ---------------------------------------------------------------------------- */

/* One measurement: nanoseconds per key, averaged over the lanes. */
static bool measure(const struct point *point, enum contender contender, size_t n_batches,
                    double *ns_per_key)
{
    struct job *jobs = calloc(point->n_lanes, sizeof *jobs);
    if (jobs == NULL) {
        complain("no memory for %zu threads", point->n_lanes);
        return false;
    }
    for (size_t i = 0; i < point->n_lanes; i++)
        jobs[i] = (struct job){.point = point,
                               .lane = &point->lanes[i],
                               .contender = contender,
                               .n_batches = n_batches};
    bool ok = run_jobs(jobs, point->n_lanes);
    double sum_ns = 0;
    for (size_t i = 0; i < point->n_lanes; i++)
        sum_ns += jobs[i].ns;
    if (ok)
        *ns_per_key = sum_ns / (double)point->n_lanes / (double)(n_batches * point->batch);
    free(jobs);
    return ok;
}

/* Finds how many batches Tern does in `target_ns`. */
static bool calibrate(const struct point *point, double target_ns, size_t *n_batches)
{
    double ns_per_key, ns = 0;
    size_t n = 1;
    for (;; n *= 4) {
        if (!measure(point, TERN, n, &ns_per_key))
            return false;
        ns = ns_per_key * (double)(n * point->batch);
        if (ns >= target_ns / 8)
            break;
    }
    double scaled = (double)n * target_ns / ns;
    *n_batches = scaled < 1 ? 1 : (size_t)scaled;
    return true;
}

/* Leaves the values as they are. */
static double median_of(const double *values, size_t n)
{
    double sorted[MAX_REPEATS];
    memcpy(sorted, values, n * sizeof *sorted);
    return median(sorted, n);
}

static void summarise(double (*ns)[MAX_REPEATS], size_t n, struct figures *figures)
{
    for (enum raw_kind kind = 0; kind < RAW_N_KINDS; kind++) {
        double raw_ns = median_of(ns[RAW_FIRST + kind], n);
        if (kind > 0 && raw_ns >= figures->raw_ns)
            continue;
        figures->raw = kind;
        figures->raw_ns = raw_ns;
    }
    figures->ns = median_of(ns[TERN], n);
    figures->ratio = figures->raw_ns / figures->ns;
    for (size_t i = 0; i < n; i++) {
        double ratio = ns[RAW_FIRST + figures->raw][i] / ns[TERN][i];
        figures->ratio_min = i == 0 || ratio < figures->ratio_min ? ratio : figures->ratio_min;
        figures->ratio_max = i == 0 || ratio > figures->ratio_max ? ratio : figures->ratio_max;
    }
}

bool point_measure(const struct point *point, size_t repeats, double seconds,
                   struct figures *figures)
{
    double ns[N_CONTENDERS][MAX_REPEATS];
    double target_ns = seconds * 1e9 / (double)(repeats * N_CONTENDERS);
    size_t n_batches;
    /* What the last pulls left in the buffers would make pushed rows grow without bound. */
    for (size_t i = 0; point->op == RAW_PUSH && i < point->n_lanes; i++)
        for (size_t j = 0; j < point->batch * point->array->length; j++)
            point->lanes[i].values[j] = 0x1p-20f;
    if (!calibrate(point, target_ns, &n_batches))
        return false;
    for (size_t i = 0; i < repeats; i++)
        for (enum contender c = TERN; c < N_CONTENDERS; c++)
            if (!measure(point, c, n_batches, &ns[c][i]))
                return false;
    summarise(ns, repeats, figures);
    return true;
}
