/*
 * tern bench intent - the cost of intent: the time of tern_intent in the worker, against a raw copy of the keys,
 * and the memory of many intents, before they start and while they are active.
 *
 * There are two nodes. The first signals intent; the second owns half of the keys.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tern/tern.h>

#include "bench_cluster.h"
#include "command.h"
#include "options.h"
#include "quantile.h"
#include "steps.h"

enum { BATCH = 100, TIMED_BATCHES = 1000, MAX_REPEATS = 99 };

/* The start of intents that must not become active. */
#define FAR UINT64_C(1000000000)

static struct {
    bool json;
    int64_t n_keys, n_repeats;
} args;

static const struct option options[] = {
    {"keys", OPTION_INT, &args.n_keys, "10000000", "N", "keys to signal intent for",
     .min = TIMED_BATCHES * BATCH, .max = 1e9},
    {"repeats", OPTION_INT, &args.n_repeats, "5", "N", "repeats, of which the median counts",
     .min = 1, .max = MAX_REPEATS},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object instead of sentences"},
};

static const struct option_set option_set = {
    .program = "tern bench intent",
    .about = "Measures the time a worker takes to signal intent, and the memory that intents need.",
    .notes = "JSON fields: bench, keys, ns_per_key (CPU time of tern_intent in batches of 100), "
             "raw_ns_per_key (CPU time of copying the keys), waiting_bytes_per_key (intents that "
             "start far in the future), active_bytes_per_key (the same intents once they are "
             "active, with the rows of one float that came here and their index).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

struct job {
    const struct cluster *cluster;
    size_t node;
    struct tern_node *tern;
    struct tern_table *table;
    struct tern_worker *worker;
};

static double thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double resident_bytes(void)
{
    unsigned long size, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%lu %lu", &size, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* Each of n keys once, in a scattered order. */
static uint64_t key_at(uint64_t i, uint64_t n)
{
    return (uint64_t)((unsigned __int128)i * UINT64_C(2654435761) % n);
}

/* Signals intent for the first n batches, with clocks from `start` on. */
static bool signal_batches(struct job *job, const uint64_t *keys, size_t n, uint64_t start)
{
    for (size_t i = 0; i < n; i++)
        if (tern_intent(job->worker, job->table, keys + i * BATCH, BATCH, start, start + 2) !=
            TERN_OK)
            return false;
    return true;
}

/* Measures the time per key of intents that end soon. */
static bool measure_time(struct job *job, const uint64_t *keys, double *ns, double *raw_ns)
{
    double times[MAX_REPEATS], raw_times[MAX_REPEATS];
    uint64_t clock = 0, *copy = malloc(TIMED_BATCHES * BATCH * sizeof *copy);
    bool ok = copy != NULL;
    for (int64_t i = -1; ok && i < args.n_repeats; i++) { /* the first is not counted */
        double begin = thread_ns();
        ok = signal_batches(job, keys, TIMED_BATCHES, clock + 1);
        double middle = thread_ns();
        for (size_t k = 0; k < TIMED_BATCHES; k++)
            memcpy(copy + k * BATCH, keys + k * BATCH, BATCH * sizeof *copy);
        __asm__ volatile("" : : "r"(copy) : "memory");
        double end = thread_ns();
        if (i >= 0) {
            times[i] = (middle - begin) / (TIMED_BATCHES * BATCH);
            raw_times[i] = (end - middle) / (TIMED_BATCHES * BATCH);
        }
        for (int k = 0; ok && k < 4; k++)
            ok = tern_worker_advance(job->worker, &clock) == TERN_OK;
        ok = ok && tern_flush(job->worker) == TERN_OK;
    }
    free(copy);
    *ns = ok ? median(times, (size_t)args.n_repeats) : 0;
    *raw_ns = ok ? median(raw_times, (size_t)args.n_repeats) : 0;
    return ok;
}

/* Measures the memory of intents for all keys, first waiting, then active. tern_flush waits for the rounds that
 * read them. */
static bool measure_memory(struct job *job, const uint64_t *keys, double *waiting, double *active)
{
    size_t n = (size_t)args.n_keys / BATCH;
    double n_keys = (double)(n * BATCH), before = resident_bytes();
    bool ok = signal_batches(job, keys, n, FAR) && tern_flush(job->worker) == TERN_OK;
    *waiting = (resident_bytes() - before) / n_keys;
    uint64_t clock;
    ok = ok && tern_worker_clock(job->worker, &clock) == TERN_OK &&
         signal_batches(job, keys, n, clock);
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    double with_both = 0;
    for (int i = 0; ok && i < 1000; i++) {
        ok = tern_flush(job->worker) == TERN_OK &&
             tern_table_get_stats(job->table, &stats) == TERN_OK;
        with_both = resident_bytes();
        if (stats.moved_here + stats.replicas_made >= (uint64_t)args.n_keys / 2 - BATCH)
            break;
    }
    *active = (with_both - before) / n_keys - *waiting;
    return ok;
}

static void print(double ns, double raw_ns, double waiting, double active)
{
    if (args.json) {
        printf("{\"bench\":\"intent\",\"keys\":%lld,\"ns_per_key\":%.2f,\"raw_ns_per_key\":%.2f,"
               "\"waiting_bytes_per_key\":%.1f,\"active_bytes_per_key\":%.1f}\n",
               (long long)args.n_keys, ns, raw_ns, waiting, active);
        return;
    }
    printf("Signalling intent takes %.1f ns a key, copying the keys %.1f.\n", ns, raw_ns);
    printf("Intents for %lld keys take %.1f bytes a key while they wait,\n"
           "and %.1f once they are active, with half of the rows moved here.\n",
           (long long)args.n_keys, waiting, active);
}

static bool signal_all(struct job *job)
{
    uint64_t n = (uint64_t)args.n_keys, *keys = malloc(n * sizeof *keys);
    if (!keys) {
        complain("no memory for %lld keys", (long long)args.n_keys);
        return false;
    }
    for (uint64_t i = 0; i < n; i++)
        keys[i] = key_at(i, n);
    double ns, raw_ns, waiting, active;
    bool ok = measure_time(job, keys, &ns, &raw_ns) && measure_memory(job, keys, &waiting, &active);
    if (ok)
        print(ns, raw_ns, waiting, active);
    free(keys);
    return ok;
}

static int node_main(void *context)
{
    struct job *job = context;
    /* Nodes that share the table would ignore intent. */
    struct tern_table_options shape = {.struct_size = sizeof shape,
                                       .n_keys = (uint64_t)args.n_keys,
                                       .length = 1,
                                       .policy = cluster_share_nothing("adaptive")};
    cluster_enter(job->cluster, job->node);
    bool ok = tern_node_open(NULL, &job->tern) == TERN_OK &&
              tern_table_open(job->tern, "intent", &shape, &job->table) == TERN_OK &&
              tern_worker_open(job->tern, &job->worker) == TERN_OK &&
              tern_barrier(job->tern) == TERN_OK && (job->node || signal_all(job)) &&
              tern_barrier(job->tern) == TERN_OK && tern_worker_close(job->worker) == TERN_OK &&
              tern_node_close(job->tern) == TERN_OK;
    fflush(stdout);
    return ok ? EXIT_OK : complain_tern("a node failed");
}

int bench_intent_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    struct cluster cluster;
    struct job job = {.cluster = &cluster};
    bool ok = cluster_open(&cluster, TRANSPORT_UNIX, 2);
    if (!ok)
        return EXIT_FAILED;
    steps_begin(1);
    steps_next("signalling intent for %lld keys", (long long)args.n_keys);
    for (job.node = 0; ok && job.node < 2; job.node++)
        ok = cluster_fork(&cluster, node_main, &job);
    ok = cluster_close(&cluster, ok);
    steps_end();
    return ok ? EXIT_OK : EXIT_FAILED;
}
