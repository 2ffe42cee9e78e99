/*
 * tern bench converge - how fast a model learns under ssp and essp: the objective over clocks and over seconds, as
 * in Figure 3 of Dai et al., AAAI 2015.
 *
 * Each training is a separate process (bench_train.h) that starts several nodes of one worker. An epoch has few
 * clocks, so that a bound of ten clocks spans several epochs and reads may be very old. Replicas are not
 * synchronised between epochs (`tern train --clocks`), so only the policy refreshes them. The objective is the
 * training loss that the workers see.
 */
#include "bench_converge.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench_cluster.h"
#include "bench_models.h"
#include "command.h"
#include "link.h"
#include "options.h"
#include "steps.h"

enum { MAX_WORDS = 28 }; /* of a training, besides those given by the user */

static struct {
    const char *data, *svg, *link;
    int64_t n_nodes, n_epochs, n_clocks, slow;
    double limit_s;
    struct int_list bounds;
    bool json;
    struct operand_list operands;
} args;

static const struct option options[] = {
    {"data", OPTION_STRING, &args.data, .takes = "PATH",
     .help = "training data, as for 'tern train'; unless given, 'tern data' makes some"},
    {"nodes", OPTION_INT, &args.n_nodes, "4", "N", "nodes with one worker each", .min = 2,
     .max = TRAINING_MAX_WORKERS},
    {"epochs", OPTION_INT, &args.n_epochs, "24", "N", "passes through the data", .min = 1,
     .max = TRAINING_MAX_EPOCHS},
    {"clocks", OPTION_INT, &args.n_clocks, "2", "N", "clocks of an epoch", .min = 1, .max = 1e6},
    {"staleness", OPTION_INTS, &args.bounds, "0,1,3,10", "LIST", "staleness bounds to compare",
     .min = 0, .max = 1000},
    {"limit", OPTION_DOUBLE, &args.limit_s, "600", "S", "seconds that one training may take",
     .min = 1, .max = 1e6},
    {"link", OPTION_STRING, &args.link, .takes = "RATE[,DELAY]",
     .help = "make each node a host of its own, as 'tern run --link' does, such as 10gbit,0.1ms"},
    BENCH_SLOW_OPTION(args.slow),
    {"svg", OPTION_STRING, &args.svg, .takes = "FILE", .help = "draw the objective to FILE"},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object a line instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench converge",
    .about = "Trains a model under ssp and essp with several staleness bounds, and compares how "
             "fast it learns.",
    .notes =
        "MODEL is mf or lda. All words after '--' go to 'tern train MODEL':\n"
        "  tern bench converge lda --data DIR -- --topics 50\n"
        "\n"
        "JSON fields: bench, task, policy, staleness, nodes, link, slow, quality (after the last "
        "epoch; null: not measured), bytes (sent in all epochs), waited (share of a worker's time, "
        "by worker); and, with a value for each epoch, clocks, seconds and objective (the "
        "mean loss of its examples).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
    .operands = "MODEL [-- OPTION...]",
    .given = &args.operands,
};

struct bench {
    const struct bench_model *model;
    char *const *further; /* options of `tern train`, then NULL */
    size_t n_further;
    const char *data;
    struct converge_run *runs;
    size_t n_runs;
};

/* ---- Figures --------------------------------------------------------------------------------- */

static double figure_of(const struct converge_run *run, size_t epoch, enum epoch_figure figure)
{
    return run->training.epochs[epoch].figures[figure];
}

double converge_seconds(const struct converge_run *run, size_t epoch)
{
    double seconds = 0;
    for (size_t i = 0; i <= epoch; i++)
        seconds += figure_of(run, i, EPOCH_SECONDS);
    return seconds;
}

/* The share of its time for which a worker waited. */
static double waited(const struct converge_run *run, size_t worker)
{
    const size_t n = run->training.n_epochs;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += run->training.epochs[i].waited[worker] * figure_of(run, i, EPOCH_SECONDS);
    return sum / converge_seconds(run, n - 1);
}

static void print_numbers(const char *name, const double *values, size_t n)
{
    printf(",\"%s\":", name);
    for (size_t i = 0; i < n; i++)
        printf("%c%.6g", i == 0 ? '[' : ',', values[i]);
    putchar(']');
}

static void print_json(const struct bench *bench, const struct converge_run *run)
{
    const size_t n = run->training.n_epochs, n_workers = run->training.epochs[0].n_workers;
    double clocks[TRAINING_MAX_EPOCHS], seconds[TRAINING_MAX_EPOCHS];
    double objective[TRAINING_MAX_EPOCHS], waits[TRAINING_MAX_WORKERS], bytes = 0;
    const char *quote = args.link != NULL ? "\"" : "";
    for (size_t i = 0; i < n; i++) {
        clocks[i] = (double)((int64_t)(i + 1) * args.n_clocks);
        seconds[i] = converge_seconds(run, i);
        objective[i] = figure_of(run, i, EPOCH_LOSS);
        bytes += figure_of(run, i, EPOCH_BYTES);
    }
    for (size_t i = 0; i < n_workers; i++)
        waits[i] = waited(run, i);
    printf("{\"bench\":\"converge\",\"task\":\"%s\",\"policy\":\"%s\",\"staleness\":%lld,"
           "\"nodes\":%lld,\"link\":%s%s%s,\"slow\":%lld,\"quality\":",
           bench->model->name, run->policy, (long long)run->bound, (long long)args.n_nodes, quote,
           args.link != NULL ? args.link : "null", quote, (long long)args.slow);
    double quality = figure_of(run, n - 1, EPOCH_QUALITY);
    if (quality == quality)
        printf("%.6g", quality);
    else
        printf("null");
    printf(",\"bytes\":%.0f", bytes);
    print_numbers("waited", waits, n_workers);
    print_numbers("clocks", clocks, n);
    print_numbers("seconds", seconds, n);
    print_numbers("objective", objective, n);
    printf("}\n");
}

/* Prints the objective after each quarter of the clocks, and how far it ever rose above its lowest value. */
static void print_line(const struct converge_run *run)
{
    const size_t n = run->training.n_epochs;
    double least = 1, most = 0, rise = 0, best = figure_of(run, 0, EPOCH_LOSS), bytes = 0;
    for (size_t i = 0; i < run->training.epochs[0].n_workers; i++) {
        double share = waited(run, i);
        least = share < least ? share : least;
        most = share > most ? share : most;
    }
    for (size_t i = 0; i < n; i++) {
        double loss = figure_of(run, i, EPOCH_LOSS);
        best = loss < best ? loss : best;
        rise = loss / best - 1 > rise ? loss / best - 1 : rise;
        bytes += figure_of(run, i, EPOCH_BYTES);
    }
    printf("  %-5s%4lld %8.2f %7.1f %3.0f%%..%3.0f%%", run->policy, (long long)run->bound,
           converge_seconds(run, n - 1), bytes / 1e6, 100 * least, 100 * most);
    for (size_t quarter = 1; quarter <= 4; quarter++)
        printf(" %7.4f", figure_of(run, n * quarter / 4 > 0 ? n * quarter / 4 - 1 : 0, EPOCH_LOSS));
    printf(" %6.1f%%\n", 100 * rise);
}

static void print_all(const struct bench *bench)
{
    if (!args.json)
        printf("%s, %lld nodes, %lld clocks an epoch; the objective after each quarter of %lld "
               "epochs,\nand how far it ever rose above its lowest value\n\n"
               "  policy  s  seconds      MB     waited     1/4     2/4     3/4     4/4    rise\n",
               bench->model->name, (long long)args.n_nodes, (long long)args.n_clocks,
               (long long)args.n_epochs);
    for (size_t i = 0; i < bench->n_runs; i++) {
        if (args.json)
            print_json(bench, &bench->runs[i]);
        else
            print_line(&bench->runs[i]);
    }
}

/* ---- Trainings ------------------------------------------------------------------------------- */

static bool run_one(const struct bench *bench, struct converge_run *run)
{
    char nodes[24], epochs[24], clocks[24], slow[24], policy[32];
    char *words[MAX_WORDS + LIST_MAX] = {"tern", "train", (char *)bench->model->name, "--json"};
    size_t n = 4;
    snprintf(nodes, sizeof nodes, "%lld", (long long)args.n_nodes);
    snprintf(epochs, sizeof epochs, "%lld", (long long)args.n_epochs);
    snprintf(clocks, sizeof clocks, "%lld", (long long)args.n_clocks);
    snprintf(slow, sizeof slow, "%lld", (long long)args.slow);
    snprintf(policy, sizeof policy, "%s:%lld", run->policy, (long long)run->bound);
    /* Evaluation would synchronise all replicas, so there is one at the end only. */
    char *const own[] = {"--data",       (char *)bench->data,
                         "--nodes",      nodes,
                         "--threads",    "1",
                         "--policy",     policy,
                         "--clocks",     clocks,
                         "--slow",       slow,
                         "--epochs",     epochs,
                         "--eval-every", epochs,
                         "--patience",   "0"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        words[n++] = own[i];
    if (args.link != NULL) {
        words[n++] = "--link";
        words[n++] = (char *)args.link;
    }
    for (size_t i = 0; i < bench->n_further; i++)
        words[n++] = bench->further[i];
    words[n] = NULL;
    (void)setenv("TERN_SHARE", "0", 1); /* nodes exchange messages, as between hosts */
    steps_next("training under %s", policy);
    if (training_run(words, args.limit_s, &run->training))
        return true;
    complain("the training under '%s' failed", policy);
    return false;
}

static int run_bench(void *context, const char *data)
{
    struct bench *bench = context;
    static const char *const policies[] = {"ssp", "essp"};
    bool ok = true;
    bench->data = data;
    bench->runs = calloc(2 * args.bounds.n, sizeof *bench->runs);
    if (bench->runs == NULL) {
        complain("no memory for the figures");
        return EXIT_FAILED;
    }
    steps_begin(2 * args.bounds.n);
    for (size_t i = 0; ok && i < 2 * args.bounds.n; i++) {
        struct converge_run *run = &bench->runs[bench->n_runs++];
        run->policy = policies[i % 2];
        run->bound = args.bounds.at[i / 2];
        ok = run_one(bench, run);
    }
    steps_end();
    if (ok)
        print_all(bench);
    ok = ok &&
         (args.svg == NULL || converge_draw(args.svg, bench->runs, bench->n_runs, args.n_clocks));
    free(bench->runs);
    return ok ? EXIT_OK : EXIT_FAILED;
}

int bench_converge_command(int argc, char **argv)
{
    int status, n_own = bench_own_words(argc, argv);
    if (!options_read(&option_set, n_own, argv, &status))
        return status;
    struct link_speed speed;
    if (args.link != NULL && !link_parse(args.link, &speed))
        return EXIT_USAGE;
    if (!bench_has_slow(args.slow, args.n_nodes))
        return EXIT_USAGE;
    struct bench bench = {
        .model = args.operands.n == 1 ? bench_model_find(args.operands.at[0]) : NULL,
        .further = argv + n_own + 1,
        .n_further = n_own < argc ? (size_t)(argc - n_own - 1) : 0,
    };
    if (bench.model == NULL || !bench.model->adds) {
        bench_complain_task(option_set.program, args.operands.n == 1 ? args.operands.at[0] : "",
                            "mf or lda");
        return EXIT_USAGE;
    }
    if (bench.n_further > LIST_MAX) {
        complain("at most %d words may follow the '--'", LIST_MAX);
        return EXIT_USAGE;
    }
    return bench_on_data(bench.model, args.data, run_bench, &bench);
}
