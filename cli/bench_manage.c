/*
 * tern bench manage - one workload under every policy, against a single node.
 *
 * A worker's step takes a batch of keys, pulls them, computes a dot product and an axpy with each value
 * and pushes the result. Intent is signalled some batches ahead, as a data loader would. The baseline is
 * one process with as many threads as the cluster has workers, on the same keys, in the same run. An
 * access is one key pulled or pushed.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <tern/tern.h>

#include "bench_cluster.h"
#include "command.h"
#include "options.h"
#include "quantile.h"

enum { BATCH = 100, STREAM_BATCHES = 20000, MAX_WORKERS = 64, MAX_REPEATS = 99 };

enum distribution { DIST_ZIPF, DIST_UNIFORM, DIST_LOCAL };

static const char *const dist_names[] = {"zipf", "uniform", "local", NULL};

static struct {
    bool json;
    int64_t n_nodes, n_keys, length, n_repeats;
    double seconds, warm_up;
    const char *link;
    struct string_list policies, dists;
    struct int_list ahead;
} args;

static struct link_speed speed; /* of args.link */

static const struct option options[] = {
    {"nodes", OPTION_INT, &args.n_nodes, "2", "N", "nodes, with one worker each", .min = 1,
     .max = MAX_WORKERS},
    {"link", OPTION_STRING, &args.link, .takes = "RATE[,DELAY]",
     .help = "make each node a host of its own, as 'tern run --link' does, such as 1gbit,0.1ms"},
    {"policies", OPTION_STRINGS, &args.policies,
     "adaptive,adaptive-apart,adaptive-replicate,adaptive-relocate,static", "LIST",
     "policies to compare; 'adaptive' shares rows among nodes of one host, 'adaptive-apart' does not",
     .choices = NULL},
    {"dists", OPTION_STRINGS, &args.dists, "zipf", "LIST",
     "how keys are drawn: zipf (exponent 1), uniform, local (90 % from a tenth of the node's own)",
     .choices = dist_names},
    {"ahead", OPTION_INTS, &args.ahead, "100", "LIST", "batches between intent and use", .min = 0,
     .max = 10000},
    {"keys", OPTION_INT, &args.n_keys, "1000000", "N", "keys of the table", .min = 100, .max = 1e9},
    {"length", OPTION_INT, &args.length, "128", "N", "floats of a value", .min = 1, .max = 65536},
    {"warm-up", OPTION_DOUBLE, &args.warm_up, "5", "S", "seconds before the measurement", .min = 0,
     .max = 600},
    {"seconds", OPTION_DOUBLE, &args.seconds, "2", "S", "seconds of each measurement", .min = 0.01,
     .max = 600},
    {"repeats", OPTION_INT, &args.n_repeats, "5", "N", "repeats, of which the median counts",
     .min = 1, .max = MAX_REPEATS},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object a line instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench manage",
    .about = "Runs one workload under each policy, and on a single node with as many threads.",
    .notes =
        "JSON fields: bench, policy, dist, nodes, ahead, accesses_s, single_node_accesses_s,\n"
        "ratio (of these; the median over repeats, with ratio_min and ratio_max), remote_share\n"
        "(of accesses), bytes_per_access, staleness_ms_mean, staleness_ms_p99.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
};

/* What a run measured, summed over all workers. In memory that the processes share. */
struct figures {
    double accesses_s, remote, accesses, bytes;
    double staleness_ms_mean, staleness_ms_p99;
};

/* One run: a policy on a cluster, or a single node. */
struct job {
    const struct cluster *cluster; /* NULL: a single node */
    size_t node;
    const char *policy;
    enum distribution dist;
    uint64_t ahead;
    struct figures *figures; /* by node */
    /* Of the process. */
    struct tern_node *tern;
    struct tern_table *table;
    pthread_barrier_t start;
};

struct worker {
    struct job *job;
    size_t number; /* among those of all nodes */
    uint64_t *stream;
    bool ok;
    double accesses, seconds, remote, bytes;
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

static uint64_t draw_key(enum distribution dist, size_t number, uint64_t *random)
{
    uint64_t n = (uint64_t)args.n_keys;
    if (dist == DIST_UNIFORM)
        return next_random(random) % n;
    if (dist == DIST_LOCAL && next_random(random) % 10) {
        uint64_t tenth = n / 10;
        return number % 10 * tenth + scatter(draw_zipf(tenth, random), tenth);
    }
    return scatter(draw_zipf(n, random), n);
}

static uint64_t *make_stream(enum distribution dist, size_t number)
{
    size_t n = (size_t)STREAM_BATCHES * BATCH;
    uint64_t *stream = malloc(n * sizeof *stream), random = 1000 + number;
    for (size_t i = 0; stream && i < n; i++)
        stream[i] = draw_key(dist, number, &random);
    return stream;
}

static const uint64_t *batch_at(const struct worker *worker, uint64_t clock)
{
    return worker->stream + clock % STREAM_BATCHES * BATCH;
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

/* ---- The work ----------------------------------------------------------------------------------- */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One dot product and one axpy per key: the shape of a gradient step. */
static void compute(const float *values, const float *vector, size_t length, float *updates)
{
    for (size_t i = 0; i < BATCH; i++, values += length, updates += length) {
        float sums[8] = {0}, sum = 0;
        size_t j = 0;
        for (; j + 8 <= length; j += 8)
            for (size_t k = 0; k < 8; k++)
                sums[k] += values[j + k] * vector[j + k];
        for (; j < length; j++)
            sum += values[j] * vector[j];
        for (size_t k = 0; k < 8; k++)
            sum += sums[k];
        float step = 1e-6f * (1 - sum);
        for (j = 0; j < length; j++)
            updates[j] = step * vector[j];
    }
}

struct buffers {
    float *values, *updates, *vector;
    struct tern_worker *tern;
};

static bool step(struct worker *worker, const struct buffers *buffers, uint64_t clock)
{
    struct job *job = worker->job;
    const uint64_t *keys = batch_at(worker, clock);
    if (job->ahead && tern_intent(buffers->tern, job->table, batch_at(worker, clock + job->ahead),
                                  BATCH, clock + job->ahead, clock + job->ahead + 1) != TERN_OK)
        return false;
    if (tern_localize(buffers->tern, job->table, keys, BATCH) != TERN_OK ||
        tern_pull(buffers->tern, job->table, keys, BATCH, buffers->values) != TERN_OK)
        return false;
    compute(buffers->values, buffers->vector, (size_t)args.length, buffers->updates);
    return tern_push(buffers->tern, job->table, keys, BATCH, buffers->updates) == TERN_OK &&
           tern_worker_advance(buffers->tern, NULL) == TERN_OK;
}

static bool read_stats(const struct job *job, struct tern_table_stats *stats)
{
    *stats = (struct tern_table_stats){.struct_size = sizeof *stats};
    return tern_table_get_stats(job->table, stats) == TERN_OK;
}

/* Steps until the time is over; the clock goes on. */
static bool run_for(struct worker *worker, const struct buffers *buffers, double seconds,
                    uint64_t *clock)
{
    double end = now_s() + seconds;
    do {
        for (int i = 0; i < 16; i++)
            if (!step(worker, buffers, (*clock)++))
                return false;
    } while (now_s() < end);
    return true;
}

static bool work_with(struct worker *worker, const struct buffers *buffers)
{
    struct job *job = worker->job;
    struct tern_table_stats before, after;
    uint64_t clock = 0;
    pthread_barrier_wait(&job->start);
    if (!run_for(worker, buffers, args.warm_up, &clock) || !read_stats(job, &before))
        return false;
    uint64_t first = clock;
    double begin = now_s();
    if (!run_for(worker, buffers, args.seconds, &clock))
        return false;
    worker->seconds = now_s() - begin;
    worker->accesses = 2.0 * BATCH * (double)(clock - first);
    if (!read_stats(job, &after))
        return false;
    worker->remote = (double)(after.remote_keys - before.remote_keys);
    worker->bytes =
        (double)(after.remote_bytes - before.remote_bytes + after.sent_bytes - before.sent_bytes);
    return true;
}

static void *work(void *context)
{
    struct worker *worker = context;
    size_t n = BATCH * (size_t)args.length;
    stay_on_core(worker->number);
    struct buffers buffers = {.values = malloc(n * sizeof(float)),
                              .updates = malloc(n * sizeof(float)),
                              .vector = malloc((size_t)args.length * sizeof(float))};
    worker->stream = make_stream(worker->job->dist, worker->number);
    worker->ok = buffers.values && buffers.updates && buffers.vector && worker->stream;
    for (int64_t i = 0; worker->ok && i < args.length; i++)
        buffers.vector[i] = 0.01f * (float)(i % 7);
    worker->ok = worker->ok && tern_worker_open(worker->job->tern, &buffers.tern) == TERN_OK;
    worker->ok = worker->ok && work_with(worker, &buffers);
    if (!worker->ok)
        complain_tern("a worker failed");
    if (buffers.tern)
        tern_worker_close(buffers.tern);
    free(buffers.values);
    free(buffers.updates);
    free(buffers.vector);
    free(worker->stream);
    return NULL;
}

static bool open_all(struct job *job)
{
    struct tern_table_options shape = {.struct_size = sizeof shape,
                                       .n_keys = (uint64_t)args.n_keys,
                                       .length = (uint32_t)args.length,
                                       .policy = job->policy};
    return tern_node_open(NULL, &job->tern) == TERN_OK &&
           tern_table_open(job->tern, "manage", &shape, &job->table) == TERN_OK &&
           tern_barrier(job->tern) == TERN_OK;
}

/* Runs the workers of this process; their figures are added up at `figures`. */
static bool run_workers(struct job *job, size_t n_workers, size_t first_number)
{
    pthread_t threads[MAX_WORKERS];
    struct worker workers[MAX_WORKERS];
    struct figures *figures = &job->figures[job->node];
    bool ok = true;
    pthread_barrier_init(&job->start, NULL, (unsigned)n_workers);
    for (size_t i = 0; i < n_workers; i++) {
        workers[i] = (struct worker){.job = job, .number = first_number + i};
        if (pthread_create(&threads[i], NULL, work, &workers[i])) {
            complain("cannot start a thread");
            exit(EXIT_FAILED);
        }
    }
    *figures = (struct figures){0};
    for (size_t i = 0; i < n_workers; i++) {
        pthread_join(threads[i], NULL);
        ok &= workers[i].ok;
        figures->accesses_s += ok ? workers[i].accesses / workers[i].seconds : 0;
        figures->accesses += workers[i].accesses;
        figures->remote += workers[i].remote;
        figures->bytes += workers[i].bytes;
    }
    pthread_barrier_destroy(&job->start);
    struct tern_table_stats stats;
    ok = ok && read_stats(job, &stats);
    if (ok) {
        figures->staleness_ms_mean = stats.staleness_ms_mean;
        figures->staleness_ms_p99 = stats.staleness_ms_p99;
    }
    return ok;
}

static int node_main(void *context)
{
    struct job *job = context;
    stay_on_core(job->node);
    cluster_enter(job->cluster, job->node);
    bool ok = open_all(job) && run_workers(job, 1, job->node) &&
              tern_barrier(job->tern) == TERN_OK && tern_node_close(job->tern) == TERN_OK;
    return ok ? EXIT_OK : complain_tern("a node failed");
}

static int single_main(void *context)
{
    struct job *job = context;
    bool ok = open_all(job) && run_workers(job, (size_t)args.n_nodes, 0) &&
              tern_node_close(job->tern) == TERN_OK;
    return ok ? EXIT_OK : complain_tern("the single node failed");
}

/* ---- Runs --------------------------------------------------------------------------------------- */

static struct figures sum_up(const struct figures *figures, size_t n)
{
    struct figures sum = {0};
    for (size_t i = 0; i < n; i++) {
        sum.accesses_s += figures[i].accesses_s;
        sum.accesses += figures[i].accesses;
        sum.remote += figures[i].remote;
        sum.bytes += figures[i].bytes;
        sum.staleness_ms_mean += figures[i].staleness_ms_mean / (double)n;
        sum.staleness_ms_p99 = fmax(sum.staleness_ms_p99, figures[i].staleness_ms_p99);
    }
    return sum;
}

/* Runs a policy once, or the single node if there is none. */
static bool run(struct job *job, struct figures *result)
{
    struct cluster cluster;
    size_t n = job->policy ? (size_t)args.n_nodes : 1;
    struct figures *shared = mmap(NULL, MAX_WORKERS * sizeof *shared, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        complain("no memory to share with the nodes");
        return false;
    }
    bool ok = args.link != NULL && job->policy ? cluster_open_linked(&cluster, n, &speed)
                                               : cluster_open(&cluster, TRANSPORT_UNIX, n);
    if (ok) {
        job->cluster = &cluster;
        job->figures = shared;
        for (job->node = 0; ok && job->node < n; job->node++)
            ok = cluster_fork(&cluster, job->policy ? node_main : single_main, job);
        ok = cluster_close(&cluster, ok);
    }
    *result = sum_up(shared, n);
    munmap(shared, MAX_WORKERS * sizeof *shared);
    return ok;
}

static double per(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void print_figures(const struct job *job, const struct figures *runs,
                          const struct figures *singles)
{
    size_t n = (size_t)args.n_repeats;
    double rate[MAX_REPEATS], single[MAX_REPEATS], ratio[MAX_REPEATS], remote[MAX_REPEATS],
        bytes[MAX_REPEATS], mean[MAX_REPEATS], p99[MAX_REPEATS];
    for (size_t i = 0; i < n; i++) {
        rate[i] = runs[i].accesses_s;
        single[i] = singles[i].accesses_s;
        ratio[i] = per(rate[i], single[i]);
        remote[i] = per(runs[i].remote, runs[i].accesses);
        bytes[i] = per(runs[i].bytes, runs[i].accesses);
        mean[i] = runs[i].staleness_ms_mean;
        p99[i] = runs[i].staleness_ms_p99;
    }
    double middle = median(ratio, n); /* and sorted */
    if (args.json)
        printf("{\"bench\":\"manage\",\"policy\":\"%s\",\"dist\":\"%s\",\"nodes\":%lld,"
               "\"ahead\":%llu,\"accesses_s\":%.0f,\"single_node_accesses_s\":%.0f,"
               "\"ratio\":%.4f,\"ratio_min\":%.4f,\"ratio_max\":%.4f,\"remote_share\":%.7f,"
               "\"bytes_per_access\":%.2f,\"staleness_ms_mean\":%.3f,\"staleness_ms_p99\":%.3f}\n",
               job->policy, dist_names[job->dist], (long long)args.n_nodes,
               (unsigned long long)job->ahead, median(rate, n), median(single, n), middle,
               ratio[0], ratio[n - 1], median(remote, n), median(bytes, n), median(mean, n),
               median(p99, n));
    else
        printf("%-18s %-8s %5llu %12.0f %7.3f (%.3f-%.3f) %10.6f %10.1f %8.2f %8.2f\n", job->policy,
               dist_names[job->dist], (unsigned long long)job->ahead, median(rate, n), middle,
               ratio[0], ratio[n - 1], median(remote, n), median(bytes, n), median(mean, n),
               median(p99, n));
    flush_output();
}

/* All policies with keys of one distribution. Repeats go round all of them, so that slow changes of the
 * machine meet all alike. */
static bool run_all(enum distribution dist)
{
    enum { MAX_LINES = 256 };
    size_t n_repeats = (size_t)args.n_repeats, n_lines = args.policies.n * args.ahead.n;
    if (n_lines > MAX_LINES) {
        complain("that would be %zu lines; at most %d", n_lines, MAX_LINES);
        return false;
    }
    static struct figures runs[MAX_LINES][MAX_REPEATS], singles[MAX_REPEATS];
    static struct job jobs[MAX_LINES];
    bool ok = true;
    for (size_t i = 0; i < n_lines; i++)
        jobs[i] = (struct job){.policy = args.policies.at[i / args.ahead.n],
                               .dist = dist,
                               .ahead = (uint64_t)args.ahead.at[i % args.ahead.n]};
    for (size_t r = 0; ok && r < n_repeats; r++) {
        struct job single = {.dist = dist};
        ok = run(&single, &singles[r]);
        for (size_t i = 0; ok && i < n_lines; i++)
            ok = run(&jobs[i], &runs[i][r]);
    }
    for (size_t i = 0; ok && i < n_lines; i++)
        print_figures(&jobs[i], runs[i], singles);
    return ok;
}

int bench_manage_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (args.link != NULL && !link_parse(args.link, &speed))
        return EXIT_USAGE;
    if (!args.json)
        printf("%-18s %-8s %5s %12s %23s %10s %10s %8s %8s\n", "policy", "keys", "ahead",
               "accesses/s", "of a single node", "remote", "bytes/acc", "stale ms", "p99 ms");
    for (size_t i = 0; i < args.dists.n; i++)
        if (!run_all((enum distribution)args.dists.choice[i]))
            return EXIT_FAILED;
    return EXIT_OK;
}
