/*
 * tern bench stale - the age of the values that workers read under ssp and essp, in stochastic gradient descent
 * for a matrix factorization, and the time for which they compute and communicate, as in Figure 2 of Dai et al., AAAI 2015.
 *
 * Each worker has its own ratings, made from factors and noise. A clock is a minibatch in ten parts: pull some
 * rows and columns, go through their ratings, push the differences. All workers share the columns. The table
 * counts how far behind each key was; a clock differential is the clock up to which a value is complete minus
 * the reader's clock: -1 at best.
 *
 * The workers should be equally fast, as on the machines of a cluster. Processes that share cores are not: then a
 * value is old because its writer is slow, whatever the policy sends. So each clock has a start time, unless
 * --clock-ms is 0.
 *
 * --slow makes the workers of a node stragglers (common/straggler.h), whose clocks have that much more time. The times are
 * those of the other nodes' workers, which the stragglers make wait.
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
#include "common/straggler.h"
#include "options.h"
#include "series.h"
#include "steps.h"

#include <pthread.h>

enum {
    ROWS = 200,
    COLUMNS = 300,
    RANK = 32,
    BATCH = 100,
    PARTS = 10,
    N_COUNTS = STALE_STEPS,
};

static struct {
    bool json;
    const char *svg, *link;
    int64_t n_nodes, n_threads, n_clocks, n_cells, slow;
    double clock_ms;
    struct int_list bounds;
} args;

static struct link_speed speed; /* of args.link */

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
    {"link", OPTION_STRING, &args.link, .takes = "RATE[,DELAY]",
     .help = "make each node a host of its own, as 'tern run --link' does, such as 10gbit,0.1ms"},
    BENCH_SLOW_OPTION(args.slow),
    {"svg", OPTION_STRING, &args.svg, .takes = "FILE",
     .help = "draw the distributions and the times to FILE"},
    {"json", OPTION_FLAG, &args.json, .help = "a JSON object per line instead of tables"},
};

static const struct option_set option_set = {
    .program = "tern bench stale",
    .about = "Measures the age of the values that workers read under ssp and essp, while they "
             "factorize a matrix, and how long they compute and communicate.",
    .notes = "JSON fields: bench, policy, staleness, nodes, threads, clocks, cells, link, slow, "
             "mean (clock differential), differentials (shares of -1, -2, ...), waited (share of a "
             "worker's time, by worker), seconds, compute, communicate (seconds of a worker, on "
             "average of all but the slow node's), bytes (that all nodes sent), first_loss, "
             "last_loss (mean squared error of the first and last tenth of a worker's clocks).",
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
    double compute_s, communicate_s;
    bool ok;
};

static bool is_slow(const struct job *job)
{
    return (int64_t)job->node == args.slow;
}

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
    const int64_t n_cells = args.n_cells / PARTS;
    double loss = 0;
    for (int64_t i = 0; i < n_cells; i++) {
        uint64_t draw = next_random(learner);
        size_t at_row = draw % BATCH, at_column = BATCH + (draw >> 32) % BATCH;
        float *row = values + at_row * RANK, *column = values + at_column * RANK;
        float error = rating(keys[at_row], keys[at_column]);
        for (size_t k = 0; k < RANK; k++)
            error -= row[k] * column[k];
        loss += (double)(error * error) / (double)n_cells;
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
    const double begin_s = now_s();
    if (tern_pull(learner->worker, table, keys, 2 * BATCH, values) != TERN_OK)
        return false;
    const double pulled_s = now_s();
    memcpy(updates, values, sizeof updates);
    *loss = descend(learner, keys, values);
    for (size_t i = 0; i < 2 * BATCH * RANK; i++)
        updates[i] = values[i] - updates[i];
    const double computed_s = now_s();
    const bool ok = tern_push(learner->worker, table, keys, 2 * BATCH, updates) == TERN_OK;
    learner->compute_s += computed_s - pulled_s;
    learner->communicate_s += pulled_s - begin_s + now_s() - computed_s;
    return ok;
}

/* Sleeps until the start time of the clock. A late worker does not sleep, so it can catch up. */
static void keep_to_timetable(const struct job *job, double begin_s, double clocks)
{
    double s = begin_s + clocks * (is_slow(job) ? STRAGGLER_SLOWNESS : 1) * args.clock_ms / 1e3;
    struct timespec until = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - floor(s)) * 1e9)};
    if (args.clock_ms > 0)
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
}

/* One clock is a minibatch. */
static bool step(struct learner *learner, double begin_s, int64_t clock, double *loss)
{
    struct straggler straggler;
    bool ok = true;
    for (int i = 0; ok && i < PARTS; i++) {
        double of_part = 0;
        keep_to_timetable(learner->job, begin_s, (double)clock + (double)i / PARTS);
        straggler_begin(&straggler, learner->worker);
        ok = learn_part(learner, &of_part);
        if (is_slow(learner->job))
            straggler_lag(&straggler, learner->worker);
        *loss += of_part / PARTS;
    }
    const double advance_s = now_s();
    ok = ok && tern_worker_advance(learner->worker, NULL) == TERN_OK;
    learner->communicate_s += now_s() - advance_s;
    return ok;
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

/* What is added up over all nodes. */
struct sums {
    double behind[N_COUNTS], waited[STALE_MAX_WORKERS], losses[2];
    double seconds, compute_s, communicate_s, bytes;
};

static void fill_run(struct stale_run *run, const struct sums *sums)
{
    double n_reads = 0;
    for (int i = 0; i < N_COUNTS; i++)
        n_reads += sums->behind[i];
    for (int i = 0; i < N_COUNTS; i++) {
        run->shares[i] = sums->behind[i] / n_reads;
        run->mean -= run->shares[i] * (1 + i);
    }
    memcpy(run->waited, sums->waited, sizeof run->waited);
    run->first_loss = sums->losses[0];
    run->last_loss = sums->losses[1];
    run->seconds = sums->seconds;
    run->compute_s = sums->compute_s;
    run->communicate_s = sums->communicate_s;
    run->bytes = sums->bytes;
}

/* Adds up the counters of all nodes. */
static bool gather(struct job *job, const struct learner *learners, double seconds)
{
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    const double n_workers = (double)(args.n_nodes * args.n_threads);
    const double n_timed = (double)((args.n_nodes - (args.slow >= 0)) * args.n_threads);
    struct sums sums = {.seconds = seconds / (double)args.n_nodes};
    if (tern_table_get_stats(job->table, &stats) != TERN_OK)
        return false;
    for (int i = 0; i < N_COUNTS; i++)
        sums.behind[i] = (double)stats.clocks_behind[i];
    sums.bytes = (double)stats.sent_bytes;
    for (size_t i = 0; i < (size_t)args.n_threads; i++) {
        sums.waited[learners[i].number] = learners[i].waited;
        for (int k = 0; k < 2; k++)
            sums.losses[k] += learners[i].losses[k] / n_workers;
        sums.compute_s += is_slow(job) ? 0 : learners[i].compute_s / n_timed;
        sums.communicate_s += is_slow(job) ? 0 : learners[i].communicate_s / n_timed;
    }
    if (tern_all_reduce(job->tern, TERN_F64, sizeof sums / sizeof(double), &sums) != TERN_OK)
        return false;
    if (job->node == 0)
        fill_run(job->run, &sums);
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
                                       .policy = cluster_share_nothing(policy)};
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
    bool ok = args.link != NULL ? cluster_open_linked(&cluster, (size_t)args.n_nodes, &speed)
                                : cluster_open(&cluster, TRANSPORT_UNIX, (size_t)args.n_nodes);
    if (!ok)
        return false;
    for (job.node = 0; ok && job.node < (size_t)args.n_nodes; job.node++)
        ok = cluster_fork(&cluster, node_main, &job);
    return cluster_close(&cluster, ok);
}

static void print_json(const struct stale_run *run)
{
    const char *quote = args.link != NULL ? "\"" : "";
    printf("{\"bench\":\"stale\",\"policy\":\"%s\",\"staleness\":%lld,\"nodes\":%lld,"
           "\"threads\":%lld,\"clocks\":%lld,\"cells\":%lld,\"link\":%s%s%s,\"slow\":%lld,"
           "\"mean\":%.4f,\"differentials\":[",
           run->policy, (long long)run->bound, (long long)args.n_nodes, (long long)args.n_threads,
           (long long)args.n_clocks, (long long)args.n_cells, quote,
           args.link != NULL ? args.link : "null", quote, (long long)args.slow, run->mean);
    for (int64_t i = 0; i <= run->bound; i++)
        printf("%s%.4f", i ? "," : "", run->shares[i]);
    printf("],\"waited\":[");
    for (int64_t i = 0; i < args.n_nodes * args.n_threads; i++)
        printf("%s%.3f", i ? "," : "", run->waited[i]);
    printf("],\"seconds\":%.3f,\"compute\":%.3f,\"communicate\":%.3f,\"bytes\":%.0f,"
           "\"first_loss\":%.5f,\"last_loss\":%.5f}\n",
           run->seconds, run->compute_s, run->communicate_s, run->bytes, run->first_loss,
           run->last_loss);
}

static void print_line(const struct stale_run *run)
{
    double least = 1, most = 0;
    for (int64_t i = 0; i < args.n_nodes * args.n_threads; i++) {
        least = run->waited[i] < least ? run->waited[i] : least;
        most = run->waited[i] > most ? run->waited[i] : most;
    }
    printf("  %-5s %3lld %7.2f  %4.0f%%..%3.0f%% %8.2f %8.2f %8.2f %7.1f  %7.4f\n", run->policy,
           (long long)run->bound, run->mean, 100 * least, 100 * most, run->seconds, run->compute_s,
           run->communicate_s, run->bytes / 1e6, run->last_loss);
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
    if (args.link != NULL && !link_parse(args.link, &speed))
        return EXIT_USAGE;
    if (!bench_has_slow(args.slow, args.n_nodes))
        return EXIT_USAGE;
    struct stale_run *runs = mmap(NULL, STALE_MAX_RUNS * sizeof *runs, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (runs == MAP_FAILED || 2 * args.bounds.n > STALE_MAX_RUNS) {
        complain("cannot store the figures of %zu runs", 2 * args.bounds.n);
        return EXIT_FAILED;
    }
    if (!args.json)
        printf("%lld nodes, %lld workers each, %lld clocks; clock differentials of keys read\n\n"
               "  policy  s    mean      waited  seconds  compute  commun.      MB     loss\n",
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
