/*
 * tern bench task - trains one model in several ways on the same data, and compares time and quality.
 *
 * The ways: on plain arrays with T threads, which is the single-machine program that a parameter manager must
 * be compared with; with Tern on one node with T threads; and on T nodes with one thread each under each of
 * several policies. Each run is a separate process (bench_train.h) that reads the data, trains and evaluates;
 * only training time counts. All ways run in each repeat, so that slow changes of the machine affect all of
 * them, and a ratio compares runs of the same repeat.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_compare.h"
#include "bench_models.h"
#include "command.h"
#include "options.h"
#include "steps.h"

/* ---- Options --------------------------------------------------------------------------------- */

static struct {
    const char *data, *link;
    int64_t n_workers, n_epochs, n_repeats;
    double limit_s;
    struct string_list policies;
    bool json;
    struct operand_list operands;
} args;

static const struct option options[] = {
    {"data", OPTION_STRING, &args.data, .takes = "PATH",
     .help = "training data, as for 'tern train'; unless given, 'tern data' makes some"},
    {"workers", OPTION_INT, &args.n_workers, "2", "T",
     "threads of a single node, and nodes with one thread each", .min = 1, .max = 64},
    {"link", OPTION_STRING, &args.link, .takes = "RATE[,DELAY]",
     .help = "make each node a host of its own, as 'tern run --link' does, such as 1gbit,0.1ms"},
    {"policies", OPTION_STRINGS, &args.policies,
     "adaptive,adaptive-apart,adaptive-replicate,adaptive-relocate,static,replicate,relocate",
     "LIST", "policies to compare", .choices = NULL},
    {"epochs", OPTION_INT, &args.n_epochs, "3", "N", "passes through the data", .min = 1,
     .max = TRAINING_MAX_EPOCHS},
    {"repeats", OPTION_INT, &args.n_repeats, "1", "N", "repeats, of which medians count", .min = 1,
     .max = COMPARISON_MAX_REPEATS},
    {"limit", OPTION_DOUBLE, &args.limit_s, "600", "S", "seconds that one training may take",
     .min = 1, .max = 1e6},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object a line instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench task",
    .about = "Trains a model on plain arrays, with Tern on one node, and on several nodes under "
             "each policy, and compares time and quality.",
    .notes =
        "MODEL is kge, wordvec or mf. All words after '--' go to 'tern train MODEL':\n"
        "  tern bench task wordvec --data TEXT -- --dim 200 --questions FILE\n"
        "\n"
        "speed is the time of plain arrays divided by the time of this system, and cpu_speed "
        "is that of CPU time, of all nodes, which other work on the machine disturbs less. 'to 90 "
        "%' is "
        "the training time until the quality is within 90 % of the best that plain arrays "
        "reached: 0.9 times it, or 1/0.9 times it where less is better. If a model has no "
        "test, the loss takes the place of the quality.\n"
        "\n"
        "JSON fields: bench, task, system (plain, one-node or the policy), nodes, threads, "
        "epochs, repeats, seconds_per_epoch, speed, speed_min, speed_max, cpu_speed, remote_share, "
        "measure, seconds_to_90 (null: never); and, with a value for each epoch, "
        "epoch_quality, epoch_seconds, epoch_bytes, epoch_remote_share, epoch_staleness_ms.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
    .operands = "MODEL [-- OPTION...]",
    .given = &args.operands,
};

/* ---- Ways to train --------------------------------------------------------------------------- */

struct bench {
    const struct bench_model *model;
    char *const *further; /* options of `tern train`, then NULL */
    size_t n_further;
    const char *data;
    struct comparison comparison;
};

/* The others are compared with the first. */
static void list_ways(struct comparison *comparison)
{
    comparison->ways[comparison->n_ways++].system = "plain";
    comparison->ways[comparison->n_ways++].system = "one-node";
    for (size_t i = 0; i < args.policies.n; i++) {
        struct way *way = &comparison->ways[comparison->n_ways++];
        way->system = args.policies.at[i];
        way->is_cluster = true;
    }
}

static bool run_way(const struct bench *bench, const struct way *way, struct training *result)
{
    const struct training_order order = {
        .model = bench->model->name,
        .data = bench->data,
        .n_epochs = (size_t)args.n_epochs,
        .n_nodes = (size_t)args.n_workers,
        .n_threads = way->is_cluster ? 1 : (size_t)args.n_workers,
        .is_plain = strcmp(way->system, "plain") == 0,
        .policy = way->is_cluster ? way->system : NULL,
        .link = args.link,
        .further = bench->further,
        .n_further = bench->n_further,
        .limit_s = args.limit_s,
    };
    /* 'adaptive' shares memory among the nodes of one host; the others are compared as between hosts. */
    setenv("TERN_SHARE", strcmp(way->system, "adaptive") == 0 ? "1" : "0", 1);
    return training_run_order(&order, result);
}

static bool run_all(struct bench *bench)
{
    for (size_t r = 0; r < (size_t)args.n_repeats; r++)
        for (size_t i = 0; i < bench->comparison.n_ways; i++) {
            struct way *way = &bench->comparison.ways[i];
            steps_next("repeat %zu, %s", r + 1, way->system);
            if (run_way(bench, way, &way->runs[r]))
                continue;
            complain("the training under '%s' failed", way->system);
            return false;
        }
    return true;
}

/* ---- The command ----------------------------------------------------------------------------- */

static int run_bench(void *context, const char *data)
{
    struct bench *bench = context;
    struct comparison *comparison = &bench->comparison;
    bench->data = data;
    *comparison = (struct comparison){
        .task = bench->model->name,
        .measure = bench->model->measure,
        .lower_is_better = bench->model->lower_is_better,
        .n_workers = (size_t)args.n_workers,
        .n_repeats = (size_t)args.n_repeats,
        .ways = calloc(COMPARISON_MAX_WAYS, sizeof *comparison->ways),
    };
    if (comparison->ways == NULL) {
        complain("no memory for the figures");
        return EXIT_FAILED;
    }
    list_ways(comparison);
    steps_begin((size_t)args.n_repeats * comparison->n_ways);
    bool ok = run_all(bench);
    steps_end();
    if (ok)
        comparison_print(comparison, args.json);
    free(comparison->ways);
    return ok ? EXIT_OK : EXIT_FAILED;
}

int bench_task_command(int argc, char **argv)
{
    int status, n_own = bench_own_words(argc, argv);
    if (!options_read(&option_set, n_own, argv, &status))
        return status;
    struct bench bench = {
        .model = args.operands.n == 1 ? bench_model_find(args.operands.at[0]) : NULL,
        .further = argv + n_own + 1,
        .n_further = n_own < argc ? (size_t)(argc - n_own - 1) : 0,
    };
    if (bench.model == NULL || bench.model->measure == NULL) {
        bench_complain_task(option_set.program, args.operands.n == 1 ? args.operands.at[0] : "",
                            "kge, wordvec or mf");
        return EXIT_USAGE;
    }
    if (bench.n_further > LIST_MAX) {
        complain("at most %d words may follow the '--'", LIST_MAX);
        return EXIT_USAGE;
    }
    return bench_on_data(bench.model, args.data, run_bench, &bench);
}
