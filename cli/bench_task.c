/*
 * tern bench task - trains one model in several ways on the same data, and compares time and quality.
 *
 * The ways: on ordinary arrays with T threads, the program for one machine that a parameter manager must
 * be compared with; by Tern on one node with T threads; and on T nodes with one thread each, under each
 * of several policies. Each is a process of its own (bench_train.h) that reads the data, trains and
 * evaluates; only training counts as time. Repeats go round all of them, so that slow changes of the
 * machine meet all alike, and ratios are those of one round.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_compare.h"
#include "bench_models.h"
#include "command.h"
#include "options.h"

enum { MAX_WORDS = 16 }; /* of a training, beside those that go to it as they are */

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
     .help = "what to learn from, as for 'tern train'; made by 'tern data' unless given"},
    {"workers", OPTION_INT, &args.n_workers, "2", "T",
     "threads of a single node, and nodes with one thread each", .min = 1, .max = 64},
    {"link", OPTION_STRING, &args.link, .takes = "RATE[,DELAY]",
     .help = "make each node a host of its own, as 'tern run --link' does, such as 1gbit,0.1ms"},
    {"policies", OPTION_STRINGS, &args.policies,
     "adaptive,adaptive-apart,adaptive-replicate,adaptive-relocate,static,replicate,relocate", "LIST",
     "policies to compare", .choices = NULL},
    {"epochs", OPTION_INT, &args.n_epochs, "3", "N", "times to go through the data", .min = 1,
     .max = TRAINING_MAX_EPOCHS},
    {"repeats", OPTION_INT, &args.n_repeats, "1", "N", "repeats, of which medians count", .min = 1,
     .max = COMPARISON_MAX_REPEATS},
    {"limit", OPTION_DOUBLE, &args.limit_s, "600", "S", "seconds that one training may take",
     .min = 1, .max = 1e6},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object a line instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench task",
    .about =
        "Trains a model on plain arrays, by Tern on one node, and on several nodes under each\n"
        "policy, and compares how long it takes and how good it gets.",
    .notes =
        "MODEL is kge, wordvec or mf. What follows a '--' goes to 'tern train MODEL' as it is:\n"
        "  tern bench task wordvec --data TEXT -- --dim 200 --questions FILE\n"
        "\n"
        "speed is the time of plain arrays divided by this one's. 'to 90 %' are the seconds of\n"
        "training until the quality is within 90 % of the best that plain arrays reached: 0.9 of\n"
        "it, or 1/0.9 where less is better. Where a model has no test, the loss stands in for the\n"
        "quality.\n"
        "\n"
        "JSON fields: bench, task, system (plain, one-node or the policy), nodes, threads, "
        "epochs,\n"
        "repeats, seconds_per_epoch, speed, speed_min, speed_max, remote_share, measure,\n"
        "seconds_to_90 (null: never); and, with a value for each epoch, epoch_quality,\n"
        "epoch_seconds, epoch_bytes, epoch_remote_share, epoch_staleness_ms.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "MODEL [-- OPTION...]",
    .given = &args.operands,
};

/* ---- Ways to train --------------------------------------------------------------------------- */

struct bench {
    const struct bench_model *model;
    char *const *further; /* options of `tern train`, NULL behind the last */
    size_t n_further;
    const char *data;
    struct comparison comparison;
};

/* The first is what the others are compared with. */
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
    char workers[24], epochs[24];
    char *words[MAX_WORDS + LIST_MAX] = {"tern", "train", (char *)bench->model->name, "--json"};
    size_t n = 4;
    snprintf(workers, sizeof workers, "%lld", (long long)args.n_workers);
    snprintf(epochs, sizeof epochs, "%lld", (long long)args.n_epochs);
    char *const common[] = {"--data", (char *)bench->data, "--epochs", epochs};
    char *const cluster[] = {"--nodes", workers, "--threads", "1", "--policy", (char *)way->system};
    char *const single[] = {"--threads", workers, "--plain"};
    size_t n_single = strcmp(way->system, "plain") == 0 ? 3 : 2;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        words[n++] = common[i];
    for (size_t i = 0; i < (way->is_cluster ? 6 : n_single); i++)
        words[n++] = way->is_cluster ? cluster[i] : single[i];
    if (way->is_cluster && args.link != NULL) {
        words[n++] = "--link";
        words[n++] = (char *)args.link;
    }
    for (size_t i = 0; i < bench->n_further; i++)
        words[n++] = bench->further[i];
    words[n] = NULL;
    return training_run(words, args.limit_s, result);
}

static bool run_all(struct bench *bench)
{
    for (size_t r = 0; r < (size_t)args.n_repeats; r++)
        for (size_t i = 0; i < bench->comparison.n_ways; i++) {
            struct way *way = &bench->comparison.ways[i];
            if (!args.json)
                fprintf(stderr, "repeat %zu of %lld: %s\n", r + 1, (long long)args.n_repeats,
                        way->system);
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
    bool ok = run_all(bench);
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
        complain("which model? tern bench task kge, wordvec or mf");
        return EXIT_USAGE;
    }
    if (bench.n_further > LIST_MAX) {
        complain("at most %d words may follow the '--'", LIST_MAX);
        return EXIT_USAGE;
    }
    return bench_on_data(bench.model, args.data, run_bench, &bench);
}
