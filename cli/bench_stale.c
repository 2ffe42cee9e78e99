/*
 * tern bench stale - the age of the values that workers read under ssp and essp, in stochastic gradient descent
 * for a matrix factorization, as in Figure 2 (left) of Dai et al., AAAI 2015.
 *
 * Each worker has its own ratings, made from factors and noise. A clock is a minibatch in ten parts: pull some
 * rows and columns, go through their ratings, push the differences. All workers share the columns. The table
 * counts how far behind each key was; a clock differential is the clock up to which a value is complete minus
 * the reader's clock: -1 at best.
 *
 * The workers should be equally fast, as on the machines of a cluster. Processes that share cores are not: then a
 * value is old because its writer is slow, whatever the policy sends. So each clock has a start time, unless
 * --clock-ms is 0.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <tern/tern.h>

#include "bench_cluster.h"
#include "bench_stale.h"
#include "command.h"
#include "options.h"
#include "series.h"
#include "steps.h"

#include <pthread.h>

enum { ROWS = 200, COLUMNS = 300, RANK = 32, BATCH = 100, PARTS = 10, N_COUNTS = STALE_STEPS };

static struct {
    bool json;
    const char *svg;
    int64_t n_nodes, n_threads, n_clocks, n_cells;
    double clock_ms;
    struct int_list bounds;
} args;

static const struct option options[] = {
    {"nodes", OPTION_INT, &args.n_nodes, "2", "N", "nodes, all on this host", .min = 2, .max = 8},
    {"threads", OPTION_INT, &args.n_threads, "1", "N", "workers of each node", .min = 1, .max = 4},
    {"clocks", OPTION_INT, &args.n_clocks, "200", "N", "clocks of each worker", .min = 1,
     .max = 1e7},
    {"cells", OPTION_INT, &args.n_cells, "50000", "N", "ratings that a clock goes through",
     .min = PARTS, .max = 1e9},
    {"clock-ms", OPTION_DOUBLE, &args.clock_ms, "8", "MS", "time of a clock; 0: as fast as it goes",
     .min = 0, .max = 1e6},
    {"staleness", OPTION_INTS, &args.bounds, "0,1,3,10", "LIST", "staleness bounds to measure",
     .min = 0, .max = STALE_STEPS - 2},
    {"svg", OPTION_STRING, &args.svg, .takes = "FILE", .help = "draw the distributions to FILE"},
    {"json", OPTION_FLAG, &args.json, .help = "a JSON object per line instead of tables"},
};

static const struct option_set option_set = {
    .program = "tern bench stale",
    .about = "Measures the age of the values that workers read under ssp and essp, while they "
             "factorize a matrix.",
    .notes = "JSON fields: bench, policy, staleness, nodes, threads, clocks, mean (clock "
             "differential), differentials (shares of -1, -2, ...), waited (share of a worker's "
             "time, by worker), seconds, first_loss, last_loss (mean squared error of the first "
             "and last tenth of a worker's clocks).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

struct job {
    const struct cluster *cluster;
    struct stale_run *run; /* shared by all processes; node 0 fills it in */
    size_t node;
    struct tern_node *tern;
    struct tern_table *table;
};

struct learner {
    struct job *job;
    size_t number; /* among all workers */
    struct tern_worker *worker;
    uint64_t random;
    double losses[2]; /* of the first and the last tenth */
    double waited;
    bool ok;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t next_random(struct learner *learner)
{
    uint64_t x = learner->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* The rating of a cell: of rank 1, with some noise that depends on the cell alone. */
static float rating(uint64_t row, uint64_t column)
{
    uint64_t noise = (row << 32 | column) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    return (float)(row % 7) / 7 * (float)(column % 11) / 11 * 4 + (float)(noise % 100) / 500;
}

/* Goes through some cells of the rows and columns that were pulled; the mean squared error. */
static double descend(struct learner *learner, const uint64_t *keys, float *values)
{
    const float rate = 0.002f, decay = 0.01f;
    double loss = 0;
    for (int64_t i = 0; i < args.n_cells / PARTS; i++) {
        uint64_t draw = next_random(learner);
        size_t at_row = draw % BATCH, at_column = BATCH + (draw >> 32) % BATCH;
        float *row = values + at_row * RANK, *column = values + at_column * RANK;
        float error = rating(keys[at_row], keys[at_column]);
        for (size_t k = 0; k < RANK; k++)
            error -= row[k] * column[k];
        loss += (double)(error * error) / (double)(args.n_cells / PARTS);
        for (size_t k = 0; k < RANK; k++) {
            float was = row[k];
            row[k] += rate * (error * column[k] - decay * was);
            column[k] += rate * (error * was - decay * column[k]);
        }
    }
    return loss;
}

/* Each worker's part of the keys has its share of the columns and then its rows. So all nodes are home to equally
 * many columns, and no worker is faster than the others. */
static uint64_t columns_each(void)
{
    uint64_t n_workers = (uint64_t)(args.n_nodes * args.n_threads);
    return (COLUMNS + n_workers - 1) / n_workers;
}

static uint64_t keys_each(void)
{
    return columns_each() + ROWS;
}

static uint64_t column_key(uint64_t column)
{
    return column / columns_each() * keys_each() + column % columns_each();
}

static uint64_t row_key(uint64_t worker, uint64_t row)
{
    return worker * keys_each() + columns_each() + row;
}

/* A part of a minibatch: the cells of some rows and columns. */
static bool learn_part(struct learner *learner, double *loss)
{
    struct tern_table *table = learner->job->table;
    static _Thread_local uint64_t keys[2 * BATCH];
    static _Thread_local float values[2 * BATCH * RANK], updates[2 * BATCH * RANK];
    uint64_t first_row = next_random(learner) % ROWS, first_column = next_random(learner) % COLUMNS;
    for (size_t i = 0; i < BATCH; i++) {
        keys[i] = row_key(learner->number, (first_row + i) % ROWS);
        keys[BATCH + i] = column_key((first_column + i) % COLUMNS);
    }
    if (tern_pull(learner->worker, table, keys, 2 * BATCH, values) != TERN_OK)
        return false;
    memcpy(updates, values, sizeof updates);
    *loss = descend(learner, keys, values);
    for (size_t i = 0; i < 2 * BATCH * RANK; i++)
        updates[i] = values[i] - updates[i];
    return tern_push(learner->worker, table, keys, 2 * BATCH, updates) == TERN_OK;
}

/* Sleeps until the start time of the clock. A late worker does not sleep, so it can catch up. */
static void keep_to_timetable(double begin_s, double clocks)
{
    double s = begin_s + clocks * args.clock_ms / 1e3;
    struct timespec until = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - floor(s)) * 1e9)};
    if (args.clock_ms > 0)
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
}

/* One clock is a minibatch. */
static bool step(struct learner *learner, double begin_s, int64_t clock, double *loss)
{
    bool ok = true;
    for (int i = 0; ok && i < PARTS; i++) {
        double of_part = 0;
        keep_to_timetable(begin_s, (double)clock + (double)i / PARTS);
        ok = learn_part(learner, &of_part);
        *loss += of_part / PARTS;
    }
    return ok && tern_worker_advance(learner->worker, NULL) == TERN_OK;
}

static void *learn(void *context)
{
    struct learner *learner = context;
    struct tern_worker_stats stats = {.struct_size = sizeof stats};
    int64_t tenth = args.n_clocks / 10 + 1;
    double begin = now_s();
    learner->ok = true;
    for (int64_t i = 0; learner->ok && i < args.n_clocks; i++) {
        double loss = 0;
        learner->ok = step(learner, begin, i, &loss);
        if (i < tenth)
            learner->losses[0] += loss / (double)tenth;
        if (i >= args.n_clocks - tenth)
            learner->losses[1] += loss / (double)tenth;
    }
    double seconds = now_s() - begin;
    learner->ok = learner->ok && tern_worker_rest(learner->worker) == TERN_OK &&
                  tern_worker_get_stats(learner->worker, &stats) == TERN_OK;
    learner->waited = stats.waited_s / seconds;
    if (!learner->ok)
        complain_tern("a worker failed");
    return NULL;
}

/* Opens the workers of this node, all before any of them advances. */
static bool open_learners(struct job *job, struct learner *learners)
{
    bool ok = true;
    for (size_t i = 0; ok && i < (size_t)args.n_threads; i++) {
        size_t number = job->node * (size_t)args.n_threads + i;
        learners[i] = (struct learner){.job = job, .number = number, .random = number};
        ok = tern_worker_open(job->tern, &learners[i].worker) == TERN_OK;
    }
    return ok;
}

static bool run_learners(struct learner *learners)
{
    pthread_t threads[4];
    size_t n = 0;
    while (n < (size_t)args.n_threads &&
           pthread_create(&threads[n], NULL, learn, &learners[n]) == 0)
        n++;
    bool ok = n == (size_t)args.n_threads;
    for (size_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        ok = ok && learners[i].ok;
    }
    return ok;
}

/* Adds up the counters of all nodes. */
static bool gather(struct job *job, const struct learner *learners, double seconds)
{
    struct stale_run *run = job->run;
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    size_t n_workers = (size_t)(args.n_nodes * args.n_threads);
    double sums[N_COUNTS + STALE_MAX_WORKERS + 3] = {0};
    if (tern_table_get_stats(job->table, &stats) != TERN_OK)
        return false;
    for (int i = 0; i < N_COUNTS; i++)
        sums[i] = (double)stats.clocks_behind[i];
    for (size_t i = 0; i < (size_t)args.n_threads; i++) {
        sums[N_COUNTS + learners[i].number] = learners[i].waited;
        for (int k = 0; k < 2; k++)
            sums[N_COUNTS + STALE_MAX_WORKERS + k] += learners[i].losses[k] / (double)n_workers;
    }
    sums[N_COUNTS + STALE_MAX_WORKERS + 2] = seconds / (double)args.n_nodes;
    if (tern_all_reduce(job->tern, TERN_F64, sizeof sums / sizeof *sums, sums) != TERN_OK)
        return false;
    double n_reads = 0;
    for (int i = 0; i < N_COUNTS; i++)
        n_reads += sums[i];
    for (int i = 0; job->node == 0 && i < N_COUNTS; i++) {
        run->shares[i] = sums[i] / n_reads;
        run->mean -= run->shares[i] * (1 + i);
    }
    if (job->node == 0) {
        memcpy(run->waited, sums + N_COUNTS, sizeof run->waited);
        run->first_loss = sums[N_COUNTS + STALE_MAX_WORKERS];
        run->last_loss = sums[N_COUNTS + STALE_MAX_WORKERS + 1];
        run->seconds = sums[N_COUNTS + STALE_MAX_WORKERS + 2];
    }
    return true;
}

static int node_main(void *context)
{
    struct job *job = context;
    struct learner learners[4];
    char policy[32];
    snprintf(policy, sizeof policy, "%s:%lld", job->run->policy, (long long)job->run->bound);
    struct tern_table_options shape = {.struct_size = sizeof shape,
                                       .n_keys =
                                           (uint64_t)(args.n_nodes * args.n_threads) * keys_each(),
                                       .length = RANK,
                                       .init = {.kind = TERN_INIT_NORMAL, .seed = 1, .b = 0.3},
                                       .policy = policy};
    cluster_enter(job->cluster, job->node);
    bool ok = tern_node_open(NULL, &job->tern) == TERN_OK &&
              tern_table_open(job->tern, "factors", &shape, &job->table) == TERN_OK &&
              open_learners(job, learners) && tern_barrier(job->tern) == TERN_OK;
    double begin = now_s();
    ok = ok && run_learners(learners);
    double seconds = now_s() - begin;
    ok = ok && gather(job, learners, seconds);
    for (size_t i = 0; ok && i < (size_t)args.n_threads; i++)
        ok = tern_worker_close(learners[i].worker) == TERN_OK;
    ok = ok && tern_node_close(job->tern) == TERN_OK;
    return ok ? EXIT_OK : complain_tern("a node failed");
}

static bool run_cluster(struct stale_run *run)
{
    struct cluster cluster;
    struct job job = {.cluster = &cluster, .run = run};
    bool ok = cluster_open(&cluster, TRANSPORT_UNIX, (size_t)args.n_nodes);
    if (!ok)
        return false;
    for (job.node = 0; ok && job.node < (size_t)args.n_nodes; job.node++)
        ok = cluster_fork(&cluster, node_main, &job);
    return cluster_close(&cluster, ok);
}

static void print_json(const struct stale_run *run)
{
    printf("{\"bench\":\"stale\",\"policy\":\"%s\",\"staleness\":%lld,\"nodes\":%lld,"
           "\"threads\":%lld,\"clocks\":%lld,\"cells\":%lld,\"mean\":%.4f,\"differentials\":[",
           run->policy, (long long)run->bound, (long long)args.n_nodes, (long long)args.n_threads,
           (long long)args.n_clocks, (long long)args.n_cells, run->mean);
    for (int64_t i = 0; i <= run->bound; i++)
        printf("%s%.4f", i ? "," : "", run->shares[i]);
    printf("],\"waited\":[");
    for (int64_t i = 0; i < args.n_nodes * args.n_threads; i++)
        printf("%s%.3f", i ? "," : "", run->waited[i]);
    printf("],\"seconds\":%.3f,\"first_loss\":%.5f,\"last_loss\":%.5f}\n", run->seconds,
           run->first_loss, run->last_loss);
}

static void print_line(const struct stale_run *run)
{
    double least = 1, most = 0;
    for (int64_t i = 0; i < args.n_nodes * args.n_threads; i++) {
        least = run->waited[i] < least ? run->waited[i] : least;
        most = run->waited[i] > most ? run->waited[i] : most;
    }
    printf("  %-5s %5lld %8.2f   %4.0f%%..%3.0f%% %9.2f   %7.4f\n", run->policy,
           (long long)run->bound, run->mean, 100 * least, 100 * most, run->seconds, run->last_loss);
    double percent[STALE_STEPS];
    for (int64_t i = 0; i <= run->bound; i++)
        percent[i] = 100 * run->shares[i];
    series_print("% of -1, -2, ...:", 18, percent, (size_t)run->bound + 1, 1);
}

int bench_stale_command(int argc, char **argv)
{
    static const char *const policies[] = {"ssp", "essp"};
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    struct stale_run *runs = mmap(NULL, STALE_MAX_RUNS * sizeof *runs, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (runs == MAP_FAILED || 2 * args.bounds.n > STALE_MAX_RUNS) {
        complain("cannot store the figures of %zu runs", 2 * args.bounds.n);
        return EXIT_FAILED;
    }
    if (!args.json)
        printf("%lld nodes, %lld workers each, %lld clocks; clock differentials of keys read\n\n"
               "  policy    s     mean       waited   seconds      loss\n",
               (long long)args.n_nodes, (long long)args.n_threads, (long long)args.n_clocks);
    size_t n = 0;
    bool ok = true;
    steps_begin(2 * args.bounds.n);
    for (size_t i = 0; ok && i < args.bounds.n; i++) {
        for (size_t k = 0; ok && k < 2; k++) {
            struct stale_run *run = &runs[n++];
            snprintf(run->policy, sizeof run->policy, "%s", policies[k]);
            run->bound = args.bounds.at[i];
            steps_next("%s with staleness %lld", policies[k], (long long)run->bound);
            ok = run_cluster(run);
            steps_end();
            if (ok && args.json)
                print_json(run);
            else if (ok)
                print_line(run);
            ok = ok && flush_output();
        }
    }
    if (ok && args.svg)
        ok = stale_draw(args.svg, runs, n);
    munmap(runs, STALE_MAX_RUNS * sizeof *runs);
    return ok ? EXIT_OK : EXIT_FAILED;
}
