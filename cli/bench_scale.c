/*
 * tern bench scale - how a task speeds up with the number of nodes.
 *
 * For each number N of nodes the task runs on N nodes with T threads each, and in one process with N * T threads.
 * Speed-up is relative to one node with T threads, as published work counts it; `of one process` is relative to
 * the process with as many threads, which is what a host of that size would do. Raw is the time of an epoch,
 * effective the time until the goal (bench_compare.h). All take turns within a repeat.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_compare.h"
#include "bench_models.h"
#include "bench_workload.h"
#include "command.h"
#include "options.h"
#include "quantile.h"
#include "steps.h"

/* ---- Options --------------------------------------------------------------------------------- */

enum { BATCH = 100, MAX_COUNTS = 16 };

static struct {
    const char *data, *link, *policy;
    int64_t n_threads, n_epochs, n_repeats, n_keys, length, ahead;
    double limit_s, warm_up, seconds;
    struct int_list nodes;
    bool share, json;
    struct operand_list operands;
} args;

static struct link_speed speed; /* of args.link */

static const struct option options[] = {
    {"nodes", OPTION_INTS, &args.nodes, "1,2,4,8", "LIST", "numbers of nodes", .min = 1,
     .max = WORKLOAD_MAX_WORKERS, .group = "Cluster"},
    {"threads", OPTION_INT, &args.n_threads, "1", "T", "threads of each node", .min = 1,
     .max = WORKLOAD_MAX_WORKERS},
    {"link", OPTION_STRING, &args.link, .takes = "RATE[,DELAY]",
     .help = "make each node a host of its own, as 'tern run --link' does, such as 10gbit,0.1ms"},
    {"policy", OPTION_STRING, &args.policy, "adaptive", "NAME",
     .help = "how the nodes manage the parameters"},
    {"share", OPTION_FLAG, &args.share, .help = "let the nodes share memory where they can"},
    {"data", OPTION_STRING, &args.data, .takes = "PATH",
     .help = "training data, as for 'tern train'; unless given, 'tern data' makes some",
     .group = "kge, wordvec, mf"},
    {"epochs", OPTION_INT, &args.n_epochs, "3", "N", "passes through the data", .min = 1,
     .max = TRAINING_MAX_EPOCHS},
    {"limit", OPTION_DOUBLE, &args.limit_s, "600", "S", "seconds that one training may take",
     .min = 1, .max = 1e6},
    {"keys", OPTION_INT, &args.n_keys, "1000000", "N", "keys of the table", .min = 100, .max = 1e9,
     .group = "manage"},
    {"len", OPTION_INT, &args.length, "128", "N", "floats of a value", .min = 1, .max = 65536,
     .aliases = "length"},
    {"ahead", OPTION_INT, &args.ahead, "100", "N", "steps between intent and use", .min = 0,
     .max = 10000},
    {"warm-up", OPTION_DOUBLE, &args.warm_up, "3", "S", "seconds before each measurement", .min = 0,
     .max = 600},
    {"seconds", OPTION_DOUBLE, &args.seconds, "2", "S", "seconds of each measurement", .min = 0.01,
     .max = 600},
    {"repeats", OPTION_INT, &args.n_repeats, "3", "N", "repeats, of which the median counts",
     .min = 1, .max = COMPARISON_MAX_REPEATS, .group = "Measurement"},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object a line instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench scale",
    .about = "Runs a task on growing numbers of nodes that share no memory, and reports the "
             "speed-up against one node, and against one process with as many threads.",
    .notes =
        "TASK is kge, wordvec or mf, which train a model, or manage, the workload of 'tern bench "
        "manage'. All words after '--' go to 'tern train':\n"
        "  tern bench scale kge --nodes 1,2,4 --link 10gbit,0.1ms -- --dim 100\n"
        "\n"
        "Raw speed-up compares the time of an epoch (manage: accesses per second), effective "
        "speed-up the training time until the quality is within 90 % of the best that one node "
        "reached. The ideal speed-up is the number of nodes, if the machine has a core for each "
        "thread; the ideal ratio to one process with as many threads is 1.\n"
        "\n"
        "JSON fields: bench, task, policy, share, link, nodes, threads, repeats, measure; "
        "speedup, speedup_min, speedup_max, effective_speedup; ratio, ratio_min, ratio_max, "
        "effective_ratio (to one process with as many threads); remote_share; for a training "
        "seconds_per_epoch, seconds_to_90, bytes_per_epoch, quality (after the last epoch); for "
        "manage accesses_s, bytes_per_access. Figures that do not exist are null.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
    .operands = "TASK [-- OPTION...]",
    .given = &args.operands,
};

/* ---- Rows ------------------------------------------------------------------------------------ */

/* The figures of one number of nodes; NAN: there is none. */
struct row {
    size_t n_nodes;
    double time; /* seconds of an epoch, or accesses per second */
    double speedup, speedup_min, speedup_max, effective_speedup;
    double ratio, ratio_min, ratio_max, effective_ratio;
    double remote_share, bytes, seconds_to_goal, quality;
};

static void print_field(const char *name, int n_decimals, double value)
{
    printf(",\"%s\":", name);
    print_json_number(n_decimals, value);
}

static void print_json(const char *task, const char *measure, const struct row *row)
{
    bool is_training = measure != NULL;
    const char *quote = args.link != NULL ? "\"" : "";
    printf("{\"bench\":\"scale\",\"task\":\"%s\",\"policy\":\"%s\",\"share\":%s,\"link\":%s%s%s,"
           "\"nodes\":%zu,\"threads\":%" PRId64 ",\"repeats\":%" PRId64 ",\"measure\":%s%s%s",
           task, args.policy, args.share ? "true" : "false", quote,
           args.link != NULL ? args.link : "null", quote, row->n_nodes, args.n_threads,
           args.n_repeats, is_training ? "\"" : "", is_training ? measure : "null",
           is_training ? "\"" : "");
    print_field("speedup", 4, row->speedup);
    print_field("speedup_min", 4, row->speedup_min);
    print_field("speedup_max", 4, row->speedup_max);
    print_field("effective_speedup", 4, row->effective_speedup);
    print_field("ratio", 4, row->ratio);
    print_field("ratio_min", 4, row->ratio_min);
    print_field("ratio_max", 4, row->ratio_max);
    print_field("effective_ratio", 4, row->effective_ratio);
    print_field("remote_share", 8, row->remote_share);
    print_field(is_training ? "seconds_per_epoch" : "accesses_s", is_training ? 4 : 0, row->time);
    print_field(is_training ? "bytes_per_epoch" : "bytes_per_access", is_training ? 0 : 2,
                row->bytes);
    if (is_training) {
        print_field("seconds_to_90", 4, row->seconds_to_goal);
        print_field("quality", 6, row->quality);
    }
    printf("}\n");
}

static void print_cell(int width, int n_decimals, double value)
{
    if (isfinite(value))
        printf(" %*.*f", width, n_decimals, value);
    else
        printf(" %*s", width, "-");
}

static void print_row(bool is_training, const struct row *row)
{
    printf("  %5zu", row->n_nodes);
    print_cell(8, is_training ? 3 : 2, is_training ? row->time : row->time / 1e6);
    print_cell(8, 2, row->speedup);
    print_cell(9, 2, row->effective_speedup);
    print_cell(7, 3, row->ratio);
    print_cell(9, 3, row->effective_ratio);
    print_cell(9, 6, row->remote_share);
    print_cell(8, 1, is_training ? row->bytes / 1e6 : row->bytes);
    if (is_training)
        print_cell(7, 4, row->quality);
    printf("\n");
}

static void print_rows(const char *task, const char *measure, const struct row *rows)
{
    bool is_training = measure != NULL;
    if (!args.json)
        printf("%s under %s%s, T = %" PRId64 " threads per node;\nmedians of %" PRId64 "\n\n"
               "                 against 1 x T      of one process\n"
               "  %5s %8s %8s %9s %7s %9s %9s %8s%s%s\n",
               task, args.policy, args.share ? "" : " without shared memory", args.n_threads,
               args.n_repeats, "nodes", is_training ? "s/epoch" : "M/s", "raw", "effective", "raw",
               "effective", "remote", is_training ? "MB/epoch" : "B/access",
               is_training ? "    " : "", is_training ? measure : "");
    for (size_t i = 0; i < args.nodes.n; i++) {
        if (args.json)
            print_json(task, measure, &rows[i]);
        else
            print_row(is_training, &rows[i]);
    }
}

/* ---- A training ------------------------------------------------------------------------------ */

struct bench {
    const struct bench_model *model;
    const char *policy;
    char *const *further; /* options of `tern train` */
    size_t n_further;
};

/* Ways: 0 is one node; from there on two for each number of nodes, a cluster and one process. */
enum { WAY_BASE, WAYS_BEFORE };

static size_t cluster_way(size_t i)
{
    return WAYS_BEFORE + 2 * i;
}

static bool train(const struct bench *bench, const char *data, size_t n_nodes, size_t n_threads,
                  struct training *result)
{
    const struct training_order order = {
        .model = bench->model->name,
        .data = data,
        .n_epochs = (size_t)args.n_epochs,
        .n_nodes = n_nodes,
        .n_threads = n_threads,
        .policy = n_nodes > 1 ? bench->policy : NULL,
        .link = args.link,
        .further = bench->further,
        .n_further = bench->n_further,
        .limit_s = args.limit_s,
    };
    return training_run_order(&order, result);
}

/* One repeat. A cluster of one node is one process, so it is not run twice. */
static bool train_all(const struct bench *bench, const char *data, struct way *ways, size_t r)
{
    size_t n_threads = (size_t)args.n_threads;
    steps_next("repeat %zu, one node", r + 1);
    bool ok = train(bench, data, 1, n_threads, &ways[WAY_BASE].runs[r]);
    for (size_t i = 0; ok && i < args.nodes.n; i++) {
        size_t n = (size_t)args.nodes.at[i];
        struct way *cluster = &ways[cluster_way(i)], *single = cluster + 1;
        if (n == 1) {
            cluster->runs[r] = single->runs[r] = ways[WAY_BASE].runs[r];
            continue;
        }
        steps_next("repeat %zu, %zu nodes", r + 1, n);
        ok = train(bench, data, n, n_threads, &cluster->runs[r]);
        if (ok)
            steps_next("repeat %zu, one process with %zu threads", r + 1, n * n_threads);
        ok = ok && train(bench, data, 1, n * n_threads, &single->runs[r]);
    }
    return ok;
}

static struct row row_of(const struct comparison *comparison, size_t i)
{
    static struct way_figures base, own, single, to_single; /* too large for the stack */
    const struct way *ways = comparison->ways, *cluster = &ways[cluster_way(i)];
    comparison_sum_up(comparison, &ways[WAY_BASE], &ways[WAY_BASE], &base);
    comparison_sum_up(comparison, &ways[WAY_BASE], cluster, &own);
    comparison_sum_up(comparison, cluster + 1, cluster + 1, &single);
    comparison_sum_up(comparison, cluster + 1, cluster, &to_single);
    double goal_s = own.seconds_to_goal;
    return (struct row){
        .n_nodes = (size_t)args.nodes.at[i],
        .time = own.seconds,
        .speedup = own.speed,
        .speedup_min = own.speed_min,
        .speedup_max = own.speed_max,
        .effective_speedup = isfinite(goal_s) ? base.seconds_to_goal / goal_s : (double)NAN,
        .ratio = to_single.speed,
        .ratio_min = to_single.speed_min,
        .ratio_max = to_single.speed_max,
        .effective_ratio = isfinite(goal_s) ? single.seconds_to_goal / goal_s : (double)NAN,
        .remote_share = own.remote_share,
        .bytes = own.bytes,
        .seconds_to_goal = goal_s,
        .quality = own.epochs[own.n_epochs - 1].figures[EPOCH_QUALITY],
    };
}

/* As many as have more than one node. */
static size_t n_clusters(void)
{
    size_t n = 0;
    for (size_t i = 0; i < args.nodes.n; i++)
        n += args.nodes.at[i] > 1;
    return n;
}

static int scale_training(void *context, const char *data)
{
    struct bench *bench = context;
    struct comparison comparison = {
        .task = bench->model->name,
        .measure = bench->model->measure,
        .lower_is_better = bench->model->lower_is_better,
        .n_repeats = (size_t)args.n_repeats,
        .n_ways = WAYS_BEFORE + 2 * args.nodes.n,
        .ways = calloc(WAYS_BEFORE + 2 * args.nodes.n, sizeof *comparison.ways),
    };
    struct row rows[MAX_COUNTS];
    if (comparison.ways == NULL) {
        complain("no memory for the figures");
        return EXIT_FAILED;
    }
    bool ok = true;
    steps_begin((size_t)args.n_repeats * (1 + 2 * n_clusters()));
    for (size_t r = 0; ok && r < (size_t)args.n_repeats; r++)
        ok = train_all(bench, data, comparison.ways, r);
    steps_end();
    if (ok) {
        comparison_judge(&comparison);
        for (size_t i = 0; i < args.nodes.n; i++)
            rows[i] = row_of(&comparison, i);
        print_rows(bench->model->name, comparison.measure, rows);
    }
    free(comparison.ways);
    return ok ? EXIT_OK : EXIT_FAILED;
}

/* ---- The workload of bench manage ------------------------------------------------------------ */

static bool run_workload(size_t n_nodes, const char *policy, struct workload_figures *figures)
{
    const struct workload workload = {.n_nodes = n_nodes,
                                      .n_threads = (size_t)args.n_threads,
                                      .policy = policy,
                                      .may_share = args.share,
                                      .link = args.link != NULL ? &speed : NULL,
                                      .keys = WORKLOAD_ZIPF,
                                      .n_keys = (uint64_t)args.n_keys,
                                      .ahead = (uint64_t)args.ahead,
                                      .length = (uint32_t)args.length,
                                      .batch = BATCH,
                                      .gradient = true,
                                      .warm_up_s = args.warm_up,
                                      .seconds = args.seconds};
    return workload_run(&workload, figures);
}

/* Of one number of nodes in each repeat. */
struct measured {
    struct workload_figures cluster[COMPARISON_MAX_REPEATS], single[COMPARISON_MAX_REPEATS];
};

static bool manage_all(struct workload_figures *base, struct measured *measured, size_t r)
{
    steps_next("repeat %zu, one node", r + 1);
    bool ok = run_workload(1, NULL, base);
    for (size_t i = 0; ok && i < args.nodes.n; i++) {
        size_t n = (size_t)args.nodes.at[i];
        if (n == 1) {
            measured[i].cluster[r] = measured[i].single[r] = *base;
            continue;
        }
        steps_next("repeat %zu, %zu nodes", r + 1, n);
        ok = run_workload(n, args.policy, &measured[i].cluster[r]);
        if (ok)
            steps_next("repeat %zu, one process with %zu threads", r + 1,
                       n * (size_t)args.n_threads);
        ok = ok && run_workload(n, NULL, &measured[i].single[r]);
    }
    return ok;
}

static struct row manage_row(const struct workload_figures *bases, const struct measured *measured,
                             size_t n_nodes)
{
    size_t n = (size_t)args.n_repeats;
    double rate[COMPARISON_MAX_REPEATS], speedup[COMPARISON_MAX_REPEATS],
        ratio[COMPARISON_MAX_REPEATS], remote[COMPARISON_MAX_REPEATS],
        bytes[COMPARISON_MAX_REPEATS];
    for (size_t r = 0; r < n; r++) {
        const struct workload_figures *own = &measured->cluster[r];
        rate[r] = 2 * BATCH * own->steps_s;
        speedup[r] = own->steps_s / bases[r].steps_s;
        ratio[r] = own->steps_s / measured->single[r].steps_s;
        remote[r] = own->remote / own->accesses;
        bytes[r] = own->bytes / own->accesses;
    }
    const double none = (double)NAN;
    struct row row = {.n_nodes = n_nodes,
                      .time = median(rate, n),
                      .speedup = median(speedup, n), /* and sorted */
                      .ratio = median(ratio, n),
                      .remote_share = median(remote, n),
                      .bytes = median(bytes, n),
                      .effective_speedup = none,
                      .effective_ratio = none,
                      .seconds_to_goal = none,
                      .quality = none};
    row.speedup_min = speedup[0];
    row.speedup_max = speedup[n - 1];
    row.ratio_min = ratio[0];
    row.ratio_max = ratio[n - 1];
    return row;
}

static int scale_manage(void)
{
    static struct workload_figures bases[COMPARISON_MAX_REPEATS];
    static struct measured measured[MAX_COUNTS];
    struct row rows[MAX_COUNTS];
    bool ok = true;
    steps_begin((size_t)args.n_repeats * (1 + 2 * n_clusters()));
    for (size_t r = 0; ok && r < (size_t)args.n_repeats; r++)
        ok = manage_all(&bases[r], measured, r);
    steps_end();
    for (size_t i = 0; ok && i < args.nodes.n; i++)
        rows[i] = manage_row(bases, &measured[i], (size_t)args.nodes.at[i]);
    if (ok)
        print_rows("manage", NULL, rows);
    return ok ? EXIT_OK : EXIT_FAILED;
}

/* ---- The command ----------------------------------------------------------------------------- */

static bool check_options(void)
{
    for (size_t i = 0; i < args.nodes.n; i++)
        if (args.nodes.at[i] * args.n_threads > WORKLOAD_MAX_WORKERS) {
            complain("--nodes times --threads is %" PRId64 "; at most %d are possible",
                     args.nodes.at[i] * args.n_threads, WORKLOAD_MAX_WORKERS);
            return false;
        }
    if (args.nodes.n > MAX_COUNTS) {
        complain("--nodes takes at most %d numbers", MAX_COUNTS);
        return false;
    }
    return args.link == NULL || link_parse(args.link, &speed);
}

int bench_scale_command(int argc, char **argv)
{
    int status, n_own = bench_own_words(argc, argv);
    if (!options_read(&option_set, n_own, argv, &status))
        return status;
    const char *task = args.operands.n == 1 ? args.operands.at[0] : "";
    struct bench bench = {.model = bench_model_find(task),
                          .policy = args.policy,
                          .further = argv + n_own + 1,
                          .n_further = n_own < argc ? (size_t)(argc - n_own - 1) : 0};
    bool is_manage = strcmp(task, "manage") == 0;
    if (!is_manage && (bench.model == NULL || bench.model->measure == NULL)) {
        bench_complain_task(option_set.program, task, "kge, wordvec, mf or manage");
        return EXIT_USAGE;
    }
    if (bench.n_further > LIST_MAX || (is_manage && bench.n_further > 0)) {
        complain("at most %d words may follow the '--'", is_manage ? 0 : LIST_MAX);
        return EXIT_USAGE;
    }
    if (!check_options())
        return EXIT_USAGE;
    if (is_manage)
        return scale_manage();
    if (!args.share)
        bench.policy = cluster_share_nothing(args.policy);
    return bench_on_data(bench.model, args.data, scale_training, &bench);
}
