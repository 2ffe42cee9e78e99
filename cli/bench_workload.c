/* bench_workload - see bench_workload.h. */
#include "bench_workload.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <tern/tern.h>

#include "command.h"
#include "keys.h"

enum { STREAM_KEYS = 2000000, STEPS_PER_LOOK = 16, SUM_KEYS = 1000 };

/* What a process leaves in memory that all of them share. */
struct outcome {
    struct workload_figures figures;
    double pushed, stored; /* sums of the values pushed, and of those found in the table */
};

/* One run, as a process of it sees it. */
struct job {
    const struct workload *workload;
    const struct cluster *cluster;
    size_t node;
    struct outcome *outcome;
    struct tern_node *tern;
    struct tern_table *table;
    pthread_barrier_t start;
};

struct worker {
    struct job *job;
    size_t number; /* among those of all nodes */
    uint64_t *stream;
    float *values, *updates, *vector;
    struct tern_worker *tern;
    bool ok;
    double steps, seconds;
    double pushed, pulled; /* sums of values */
    struct workload_figures figures;
};

/* ---- Keys --------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static double next_unit(uint64_t *state)
{
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

/* A rank of Zipf's law with exponent 1 over n: the inverse of the continuous law, close enough here. */
static uint64_t draw_zipf(uint64_t n, uint64_t *random)
{
    double rank = pow((double)n + 1, next_unit(random));
    uint64_t below = (uint64_t)rank - 1;
    return below < n ? below : n - 1;
}

/* Scatters ranks over the keys, so that hot keys have different homes: a permutation for n, which is
 * not a multiple of the prime. */
static uint64_t scatter(uint64_t rank, uint64_t n)
{
    return (uint64_t)((unsigned __int128)rank * UINT64_C(2654435761) % n);
}

/* A rank of Zipf's law with exponent 1.1. */
static uint64_t draw_zipf_11(uint64_t n, uint64_t *random)
{
    const double most = 1 - pow((double)n + 1, -0.1);
    uint64_t below = (uint64_t)pow(1 - next_unit(random) * most, -10) - 1;
    return below < n ? below : n - 1;
}

static uint64_t draw_key(const struct workload *workload, size_t number, uint64_t *random)
{
    uint64_t n = workload->n_keys;
    if (workload->keys == WORKLOAD_UNIFORM)
        return next_random(random) % n;
    if (workload->keys == WORKLOAD_RANKED)
        return draw_zipf_11(n, random);
    if (workload->keys == WORKLOAD_LOCAL && next_random(random) % 10) {
        uint64_t tenth = n / 10;
        return number % 10 * tenth + scatter(draw_zipf(tenth, random), tenth);
    }
    return scatter(draw_zipf(n, random), n);
}

static uint64_t *make_stream(const struct workload *workload, size_t number)
{
    uint64_t random = 1000 + number;
    if (workload->keys == WORKLOAD_ZIPF_11) {
        struct keys keys;
        if (!keys_init(&keys, KEYS_ZIPF, workload->n_keys, STREAM_KEYS, number))
            return NULL;
        uint64_t *rows = keys.rows;
        keys.rows = NULL;
        keys_fini(&keys);
        return rows;
    }
    uint64_t *stream = malloc(STREAM_KEYS * sizeof *stream);
    for (size_t i = 0; stream != NULL && i < STREAM_KEYS; i++)
        stream[i] = draw_key(workload, number, &random);
    return stream;
}

static const uint64_t *batch_at(const struct worker *worker, uint64_t clock)
{
    size_t batch = worker->job->workload->batch;
    return worker->stream + clock % (STREAM_KEYS / batch) * batch;
}

/* ---- A step ------------------------------------------------------------------------------------- */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* In eight sums at once, as vector units add. */
static float dot(const float *values, const float *vector, size_t n)
{
    float sums[8] = {0}, sum = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++)
            sums[k] += values[i + k] * vector[i + k];
    for (; i < n; i++)
        sum += values[i] * vector[i];
    for (size_t k = 0; k < 8; k++)
        sum += sums[k];
    return sum;
}

/* One dot product and one axpy per key: the shape of a gradient step. */
static void compute_gradient(struct worker *worker)
{
    size_t length = worker->job->workload->length;
    const float *values = worker->values, *vector = worker->vector;
    float *updates = worker->updates;
    for (size_t i = 0; i < worker->job->workload->batch; i++) {
        float step = 1e-6f * (1 - dot(values, vector, length));
        for (size_t j = 0; j < length; j++)
            updates[j] = step * vector[j];
        values += length;
        updates += length;
    }
}

/* Computing is a chain of multiplications, so that it takes CPU time whoever else wants the core, and the same
 * work in every run. Its pace is measured once, by the parent of all processes. */
static double spins_per_us;

static uint64_t spin(uint64_t x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        x = x * UINT64_C(6364136223846793005) + 1;
        __asm__ volatile("" : "+r"(x)); /* each must be computed */
    }
    return x;
}

static void measure_spins(void)
{
    enum { N_TRIALS = 20, N_SPINS = 1000000 };
    for (int i = 0; i < N_TRIALS; i++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        (void)spin((uint64_t)i, N_SPINS);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        double us = (double)(end.tv_sec - begin.tv_sec) * 1e6 +
                    (double)(end.tv_nsec - begin.tv_nsec) * 1e-3;
        spins_per_us = fmax(spins_per_us, N_SPINS / us);
    }
}

/* Reads all values and makes updates of one whole number from -3 to 3, another one for each step. They are exact
 * in a float, since sums of random signs stay small. */
static void compute_sums(struct worker *worker, uint64_t clock)
{
    const struct workload *workload = worker->job->workload;
    uint64_t random = clock * WORKLOAD_MAX_WORKERS + worker->number;
    size_t n = workload->batch * workload->length;
    uint64_t drawn = next_random(&random);
    float update = (float)(int)(1 + drawn % 3);
    update = drawn >> 63 ? update : -update;
    for (size_t i = 0; i < workload->batch; i++)
        worker->pulled +=
            (double)dot(worker->values + i * workload->length, worker->vector, workload->length);
    for (size_t i = 0; i < n; i++)
        worker->updates[i] = update;
    worker->pushed += (double)update * (double)n;
    (void)spin(drawn, (uint64_t)(workload->compute_us * spins_per_us));
}

static bool step(struct worker *worker, uint64_t clock)
{
    const struct workload *workload = worker->job->workload;
    struct tern_table *table = worker->job->table;
    const uint64_t *keys = batch_at(worker, clock);
    uint64_t ahead = workload->ahead;
    size_t n = workload->batch;
    if (ahead && tern_intent(worker->tern, table, batch_at(worker, clock + ahead), n, clock + ahead,
                             clock + ahead + 1) != TERN_OK)
        return false;
    if (workload->gradient &&
        tern_localize_start(worker->tern, table, batch_at(worker, clock + workload->localize_ahead),
                            n, NULL) != TERN_OK)
        return false;
    if (tern_pull(worker->tern, table, keys, n, worker->values) != TERN_OK)
        return false;
    if (workload->gradient)
        compute_gradient(worker);
    else
        compute_sums(worker, clock);
    return tern_push(worker->tern, table, keys, n, worker->updates) == TERN_OK &&
           tern_worker_advance(worker->tern, NULL) == TERN_OK;
}

/* ---- A worker ----------------------------------------------------------------------------------- */

/* Steps until the time is over; the clock goes on. */
static bool run_for(struct worker *worker, double seconds, uint64_t *clock)
{
    double end = now_s() + seconds;
    do {
        for (int i = 0; i < STEPS_PER_LOOK; i++)
            if (!step(worker, (*clock)++))
                return false;
    } while (now_s() < end);
    return true;
}

static bool read_stats(const struct job *job, struct tern_table_stats *stats)
{
    *stats = (struct tern_table_stats){.struct_size = sizeof *stats};
    return tern_table_get_stats(job->table, stats) == TERN_OK;
}

/* The bytes that this host has sent on its link. */
static double sent_on_link(const struct job *job)
{
    char line[512];
    double sum = 0, sent;
    FILE *file = job->workload->link != NULL ? fopen("/proc/thread-self/net/dev", "r") : NULL;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *figures = strchr(line, ':');
        if (figures != NULL && strstr(line, " lo:") == NULL &&
            sscanf(figures + 1, "%*s %*s %*s %*s %*s %*s %*s %*s %lf", &sent) == 1)
            sum += sent;
    }
    if (file != NULL)
        fclose(file);
    return sum;
}

/* The CPU time that a process has taken: 0 is the caller's. */
static double cpu_s(pid_t process)
{
    struct timespec t = {0};
    clockid_t clock;
    if (clock_getcpuclockid(process, &clock) == 0)
        clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double relay_cpu_s(const struct job *job)
{
    const pid_t relay = job->cluster->links.relay;
    return relay > 0 ? cpu_s(relay) : 0;
}

/* What the node has done between two readings of its counters. */
static void sum_up_node(const struct tern_table_stats *before, const struct tern_table_stats *after,
                        double seconds, struct workload_figures *figures)
{
    figures->remote = (double)(after->remote_keys - before->remote_keys);
    figures->bytes = (double)(after->remote_bytes - before->remote_bytes) +
                     (double)(after->sent_bytes - before->sent_bytes);
    figures->rounds_s = (double)(after->rounds - before->rounds) / seconds;
    figures->staleness_ms_mean = after->staleness_ms_mean;
    figures->staleness_ms_p99 = after->staleness_ms_p99;
}

static bool work_with(struct worker *worker)
{
    struct job *job = worker->job;
    const struct workload *workload = job->workload;
    struct tern_table_stats before, after;
    uint64_t clock = 0;
    pthread_barrier_wait(&job->start);
    if (!run_for(worker, workload->warm_up_s, &clock) || !read_stats(job, &before))
        return false;
    uint64_t first = clock;
    double begin = now_s(), relay_s = relay_cpu_s(job), sent = sent_on_link(job), own_s = cpu_s(0);
    if (!run_for(worker, workload->seconds, &clock))
        return false;
    worker->seconds = now_s() - begin;
    worker->steps = (double)(clock - first);
    worker->figures.relay_cores = (relay_cpu_s(job) - relay_s) / worker->seconds;
    own_s = cpu_s(0) - own_s;
    if (!read_stats(job, &after))
        return false;
    sum_up_node(&before, &after, worker->seconds, &worker->figures);
    worker->figures.sent = sent_on_link(job) - sent;
    worker->figures.cpu_s = own_s;
    return true;
}

/* Keeps the calling thread, and those it will start, on one core: with as many workers as cores each has
 * its own, as launchers of clusters see to, and the figures do not depend on where they wake up. */
static void stay_on_core(size_t number)
{
    cpu_set_t cores, one;
    if (sched_getaffinity(0, sizeof cores, &cores))
        return;
    size_t skip = number % (size_t)CPU_COUNT(&cores), core = 0;
    while (!CPU_ISSET(core, &cores) || skip--)
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static bool worker_init(struct worker *worker)
{
    const struct workload *workload = worker->job->workload;
    size_t n = workload->batch * workload->length;
    worker->values = malloc(n * sizeof(float));
    worker->updates = malloc(n * sizeof(float));
    worker->vector = malloc(workload->length * sizeof(float));
    worker->stream = make_stream(workload, worker->number);
    if (!worker->values || !worker->updates || !worker->vector || !worker->stream) {
        complain("no memory for the keys and values of a worker");
        return false;
    }
    for (uint32_t i = 0; i < workload->length; i++)
        worker->vector[i] = workload->gradient ? 0.01f * (float)(i % 7) : 1;
    return true;
}

static void *work(void *context)
{
    struct worker *worker = context;
    stay_on_core(worker->number);
    bool ready = worker_init(worker);
    worker->ok =
        ready && tern_worker_open(worker->job->tern, &worker->tern) == TERN_OK && work_with(worker);
    if (ready && !worker->ok)
        complain_tern("a worker failed");
    if (worker->tern)
        tern_worker_close(worker->tern);
    free(worker->values);
    free(worker->updates);
    free(worker->vector);
    free(worker->stream);
    return NULL;
}

/* ---- A process ---------------------------------------------------------------------------------- */

/* Adds what a worker has done; what the whole node has done is the same for all of its workers. */
static void add_worker(struct outcome *outcome, const struct worker *worker)
{
    struct workload_figures *figures = &outcome->figures;
    struct workload_figures sum = worker->figures;
    sum.steps_s = figures->steps_s + worker->steps / worker->seconds;
    sum.steps = figures->steps + worker->steps;
    sum.accesses = 2 * (double)worker->job->workload->batch * sum.steps;
    *figures = sum;
    outcome->pushed += worker->pushed;
    if (!isfinite(worker->pulled))
        outcome->pushed = (double)NAN;
}

/* Runs the workers of this process. */
static bool run_workers(struct job *job, size_t n_workers, size_t first_number)
{
    pthread_t threads[WORKLOAD_MAX_WORKERS];
    static struct worker workers[WORKLOAD_MAX_WORKERS];
    bool ok = true;
    pthread_barrier_init(&job->start, NULL, (unsigned)n_workers);
    for (size_t i = 0; i < n_workers; i++) {
        workers[i] = (struct worker){.job = job, .number = first_number + i};
        if (pthread_create(&threads[i], NULL, work, &workers[i])) {
            complain("cannot start a thread");
            exit(EXIT_FAILED);
        }
    }
    for (size_t i = 0; i < n_workers; i++) {
        pthread_join(threads[i], NULL);
        ok &= workers[i].ok;
        if (ok)
            add_worker(job->outcome, &workers[i]);
    }
    pthread_barrier_destroy(&job->start);
    return ok;
}

/* Adds up the values of this process's part of the keys, once all copies agree. */
static bool add_stored(struct job *job, size_t n_processes)
{
    const struct workload *workload = job->workload;
    uint64_t begin = workload->n_keys * job->node / n_processes, keys[SUM_KEYS];
    uint64_t end = workload->n_keys * (job->node + 1) / n_processes;
    float *values = malloc(SUM_KEYS * workload->length * sizeof *values);
    struct tern_worker *worker = NULL;
    bool ok = values != NULL && tern_quiesce(job->tern) == TERN_OK &&
              tern_worker_open(job->tern, &worker) == TERN_OK;
    for (uint64_t at = begin; ok && at < end; at += SUM_KEYS) {
        size_t n = end - at < SUM_KEYS ? (size_t)(end - at) : SUM_KEYS;
        for (size_t i = 0; i < n; i++)
            keys[i] = at + i;
        ok = tern_pull(worker, job->table, keys, n, values) == TERN_OK;
        for (size_t i = 0; ok && i < n * workload->length; i++)
            job->outcome->stored += (double)values[i];
    }
    job->outcome->figures.n_checked = (double)((end - begin) * workload->length);
    if (worker != NULL)
        tern_worker_close(worker);
    free(values);
    return ok;
}

/* How often each key occurs in the first worker's stream, which is like all others; NULL after a complaint. */
static uint64_t *count_keys(const struct workload *workload)
{
    uint64_t *stream = make_stream(workload, 0);
    uint64_t *counts = calloc(workload->n_keys, sizeof *counts);
    for (size_t i = 0; stream && counts && i < STREAM_KEYS; i++)
        counts[stream[i]]++;
    if (!stream || !counts) {
        complain("no memory to count keys");
        free(counts);
        counts = NULL;
    }
    free(stream);
    return counts;
}

static bool open_all(struct job *job, const char *policy)
{
    uint64_t *counts = NULL;
    const bool is_multi = policy != NULL && strcmp(policy, "multi") == 0;
    if (is_multi && !(counts = count_keys(job->workload)))
        return false;
    struct tern_table_options shape = {.struct_size = sizeof shape,
                                       .n_keys = job->workload->n_keys,
                                       .length = job->workload->length,
                                       .policy = policy,
                                       .scatter = job->workload->scatter,
                                       .staleness_ms = policy ? job->workload->staleness_ms : 0,
                                       .frequencies = counts,
                                       .hot_factor = is_multi ? job->workload->hot_factor : 0};
    bool ok = tern_node_open(NULL, &job->tern) == TERN_OK &&
              tern_table_open(job->tern, "workload", &shape, &job->table) == TERN_OK &&
              tern_barrier(job->tern) == TERN_OK;
    free(counts);
    return ok;
}

static int node_main(void *context)
{
    struct job *job = context;
    const struct workload *workload = job->workload;
    const char *policy = workload->policy;
    size_t n_processes = job->cluster->n_nodes;
    if (policy != NULL) {
        if (workload->n_threads == 1)
            stay_on_core(job->node);
        if (!workload->may_share && workload->n_hosts == 0)
            policy = cluster_share_nothing(policy);
        cluster_enter(job->cluster, job->node);
    }
    size_t n_workers = policy ? workload->n_threads : workload->n_nodes * workload->n_threads;
    bool ok = open_all(job, policy) && run_workers(job, n_workers, job->node * n_workers) &&
              (workload->gradient || add_stored(job, n_processes)) &&
              tern_barrier(job->tern) == TERN_OK && tern_node_close(job->tern) == TERN_OK;
    return ok ? EXIT_OK : complain_tern(policy ? "a node failed" : "the single node failed");
}

/* ---- A run -------------------------------------------------------------------------------------- */

static bool sum_up(const struct workload *workload, const struct outcome *outcomes, size_t n,
                   struct workload_figures *sum)
{
    double pushed = 0, stored = 0, n_managing = 0; /* of each host, one process manages the rows */
    *sum = (struct workload_figures){0};
    for (size_t i = 0; i < n; i++) {
        const struct workload_figures *one = &outcomes[i].figures;
        sum->steps_s += one->steps_s;
        sum->steps += one->steps;
        sum->accesses += one->accesses;
        sum->remote += one->remote;
        sum->bytes += one->bytes;
        sum->n_checked += one->n_checked;
        sum->sent += one->sent;
        sum->cpu_s += one->cpu_s;
        sum->busiest = fmax(sum->busiest, one->sent);
        n_managing += one->rounds_s > 0;
        sum->rounds_s += one->rounds_s;
        sum->staleness_ms_mean += one->staleness_ms_mean;
        sum->staleness_ms_p99 = fmax(sum->staleness_ms_p99, one->staleness_ms_p99);
        pushed += outcomes[i].pushed;
        stored += outcomes[i].stored;
    }
    sum->rounds_s /= fmax(n_managing, 1);
    sum->staleness_ms_mean /= fmax(n_managing, 1);
    sum->busiest = sum->sent > 0 ? sum->busiest * (double)n / sum->sent : 0;
    sum->relay_cores = outcomes[0].figures.relay_cores;
    if (workload->gradient || pushed == stored)
        return true;
    complain("the values of the table add up to %.0f instead of %.0f, which was pushed", stored,
             pushed);
    return false;
}

bool workload_run(const struct workload *workload, struct workload_figures *figures)
{
    struct cluster cluster;
    bool is_linked = workload->link != NULL && workload->policy != NULL;
    size_t n = workload->policy ? workload->n_nodes : 1;
    size_t n_bytes = WORKLOAD_MAX_WORKERS * sizeof(struct outcome);
    struct outcome *outcomes =
        mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcomes == MAP_FAILED) {
        complain("no memory to share with the nodes");
        return false;
    }
    if (spins_per_us == 0 && workload->compute_us > 0)
        measure_spins();
    const size_t n_hosts = !workload->policy ? 0 : workload->n_hosts;
    bool ok = n_hosts > 0 ? cluster_open_hosts(&cluster, n, n_hosts, workload->link)
              : is_linked ? cluster_open_linked(&cluster, n, workload->link)
                          : cluster_open(&cluster, TRANSPORT_UNIX, n);
    if (ok) {
        struct job job = {.workload = workload, .cluster = &cluster};
        for (; ok && job.node < n; job.node++) {
            job.outcome = &outcomes[job.node];
            ok = cluster_fork(&cluster, node_main, &job);
        }
        ok = cluster_close(&cluster, ok);
    }
    ok = ok && sum_up(workload, outcomes, n, figures);
    munmap(outcomes, n_bytes);
    return ok;
}
