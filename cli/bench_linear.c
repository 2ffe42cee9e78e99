/*
 * tern bench linear - the figures of chapters 3, 6, 7 and 8 of M. Li's thesis about sparse linear models: objective over
 * time beside liblinear and scikit-learn, delays, waiting, the KKT filter, bytes, batch sizes, and late updates.
 *
 * Each training is a separate process (bench_train.h); all of a figure run one after the other in the same command, with
 * the baselines. Times are those of training, with the time that the solver takes to put the examples in order, and
 * without that of reading them; they are medians of --repeats runs.
 */
#include "bench_linear.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_models.h"
#include "bench_train.h"
#include "command.h"
#include "options.h"
#include "quantile.h"
#include "steps.h"

enum { MAX_WORDS = 40, N_LEVELS = 2, N_DELAYS = 5, N_SIZES = 3, N_RATES = 7, N_PASSES = 5 };

static struct {
    const char *figure, *data, *svg, *link;
    int64_t n_rows, n_features, n_epochs, n_nodes, n_blocks, n_repeats, seed;
    double limit_s;
    bool json;
} args;

/* Distances from the optimum to which times are measured. */
static const double LEVELS[N_LEVELS] = {0.01, 0.001};

/* ---- Trainings ------------------------------------------------------------------------------- */

bool bench_linear_train(const struct linear_bench *bench, const struct setting *setting,
                        int64_t n_epochs, struct training *training)
{
    char epochs[24];
    char *words[MAX_WORDS] = {"tern",        "train",     "linear",   "--json",
                              "--intercept", "none",      "--data",   (char *)bench->data,
                              "--metric",    "objective", "--epochs", epochs};
    size_t n = 0;
    snprintf(epochs, sizeof epochs, "%lld", (long long)n_epochs);
    while (words[n] != NULL)
        n++;
    for (size_t i = 0;
         i < sizeof setting->words / sizeof *setting->words && setting->words[i] != NULL; i++)
        words[n++] = (char *)setting->words[i];
    words[n] = NULL;
    return training_run(words, args.limit_s, training);
}

double bench_linear_value(const struct training *training, size_t epoch, enum epoch_figure figure)
{
    const double value = training->epochs[epoch].figures[figure];
    return isfinite(value) ? value : 0;
}

static double sum_of(const struct training *training, enum epoch_figure figure)
{
    double sum = 0;
    for (size_t i = 0; i < training->n_epochs; i++)
        sum += bench_linear_value(training, i, figure);
    return sum;
}

struct curve *bench_linear_curve(struct linear_bench *bench, const char *name)
{
    struct curve *curve = &bench->curves[bench->n++];
    const double none = (double)NAN;
    *curve = (struct curve){.has_row = true};
    for (size_t k = 0; k < CURVE_MAX_VALUES; k++)
        curve->values[k] = none;
    snprintf(curve->name, sizeof curve->name, "%s", name);
    return curve;
}

void bench_linear_point(struct curve *curve, double x, double y)
{
    if (curve->n < CURVE_MAX_POINTS) {
        curve->x[curve->n] = x;
        curve->y[curve->n++] = y;
    }
}

/* The objective over seconds. */
static void take_objective(const struct training *training, struct curve *curve)
{
    double seconds = bench_linear_value(training, 0, EPOCH_SETUP_S);
    curve->n = 0;
    for (size_t i = 0; i < training->n_epochs; i++) {
        seconds += bench_linear_value(training, i, EPOCH_SECONDS);
        bench_linear_point(curve, seconds, bench_linear_value(training, i, EPOCH_QUALITY));
    }
}

static void lower_best(struct linear_bench *bench, const struct curve *curve)
{
    for (size_t i = 0; i < curve->n; i++)
        bench->best = fmin(bench->best, curve->y[i]);
}

/* When a curve is within a share of the optimum for the first time; NAN: never. */
static double seconds_to(const struct curve *curve, double best, double level)
{
    for (size_t i = 0; i < curve->n; i++)
        if (curve->y[i] <= best * (1 + level))
            return curve->x[i];
    return (double)NAN;
}

/* Finds the optimum with one long run. */
static bool find_best(struct linear_bench *bench)
{
    static struct training training;
    struct curve *curve = bench_linear_curve(bench, "optimum");
    const struct setting setting = {"optimum", {"--tolerance", "1e-6", "--kkt", "1"}};
    steps_next("the optimum");
    bool ok = bench_linear_train(bench, &setting, CURVE_MAX_POINTS, &training);
    if (ok)
        take_objective(&training, curve);
    lower_best(bench, curve);
    bench->n--;
    return ok;
}

/* Runs a setting several times: the curve is that of the last run, times are medians. */
static bool repeat(struct linear_bench *bench, const struct setting *setting, struct curve *curve)
{
    static struct training training;
    double seconds[N_LEVELS][LINEAR_MAX_REPEATS];
    bool ok = true;
    for (int64_t r = 0; ok && r < args.n_repeats; r++) {
        steps_next("%s, repeat %lld", setting->name, (long long)r + 1);
        ok = bench_linear_train(bench, setting, args.n_epochs, &training);
        if (!ok)
            break;
        take_objective(&training, curve);
        lower_best(bench, curve);
        for (size_t k = 0; k < N_LEVELS; k++)
            seconds[k][r] = seconds_to(curve, bench->best, LEVELS[k]);
    }
    for (size_t k = 0; ok && k < N_LEVELS; k++)
        curve->values[k] = median(seconds[k], (size_t)args.n_repeats);
    return ok;
}

/* ---- Objective ------------------------------------------------------------------------------- */

/* The median of the seconds at each tolerance, and its objective, which is always the same. */
static void add_baseline(struct linear_bench *bench, const char *name, baseline *run,
                         int64_t n_repeats)
{
    struct curve *curve = bench_linear_curve(bench, name), last;
    double seconds[CURVE_MAX_POINTS][LINEAR_MAX_REPEATS] = {{0}};
    const double enough = bench->best * (1 + LEVELS[N_LEVELS - 1]);
    bool ok = true;
    for (int64_t r = 0; ok && r < n_repeats; r++) {
        steps_next("%s, repeat %lld", name, (long long)r + 1);
        last = (struct curve){0};
        ok = run(bench->data, enough, &last);
        for (size_t i = 0; i < last.n; i++)
            seconds[i][r] = last.x[i];
    }
    if (!ok) {
        complain("%s is not installed: it is left out", name);
        bench->n--;
        return;
    }
    for (size_t i = 0; i < last.n; i++)
        bench_linear_point(curve, median(seconds[i], (size_t)n_repeats), last.y[i]);
    lower_best(bench, curve);
    for (size_t k = 0; k < N_LEVELS; k++)
        curve->values[k] = seconds_to(curve, bench->best, LEVELS[k]);
}

static bool run_objective(struct linear_bench *bench)
{
    static const struct setting settings[] = {
        {"dbpg, 1 thread", {"--threads", "1"}},
        {"dbpg, 2 threads", {"--threads", "2"}},
        {"dbpg, 2 nodes", {"--nodes", "2", "--threads", "1"}},
        {"emso-cd, 1 thread", {"--threads", "1", "--solver", "emso-cd"}},
        {"emso-gd, 1 thread", {"--threads", "1", "--solver", "emso-gd"}},
    };
    const size_t n = sizeof settings / sizeof *settings;
    steps_begin((size_t)args.n_repeats * (n + 1) + 2);
    bool ok = find_best(bench);
    for (size_t i = 0; ok && i < n; i++)
        ok = repeat(bench, &settings[i], bench_linear_curve(bench, settings[i].name));
    if (!ok)
        return false;
    add_baseline(bench, "liblinear", baseline_liblinear, args.n_repeats);
    add_baseline(bench, "scikit-learn, saga", baseline_sklearn, 1);
    const struct curve *liblinear = NULL;
    for (size_t c = 0; c < bench->n; c++)
        if (strcmp(bench->curves[c].name, "liblinear") == 0)
            liblinear = &bench->curves[c];
    for (size_t c = 0; c < bench->n; c++) {
        struct curve *curve = &bench->curves[c];
        for (size_t k = 0; liblinear != NULL && k < N_LEVELS; k++)
            curve->values[N_LEVELS + k] = curve->values[k] / liblinear->values[k];
        for (size_t i = 0; i < curve->n; i++)
            curve->y[i] = fmax(curve->y[i] / bench->best - 1, 1e-9);
    }
    return true;
}

/* ---- Delays ---------------------------------------------------------------------------------- */

/* One training on links for each delay. The curve over delays is of the seconds to 1 %, or of the share of waiting. */
static bool run_delays(struct linear_bench *bench, bool of_waiting)
{
    static const char *const delays[N_DELAYS] = {"0", "1", "2", "4", "8"};
    static struct training training;
    char nodes[24], blocks[24];
    snprintf(nodes, sizeof nodes, "%lld", (long long)args.n_nodes);
    snprintf(blocks, sizeof blocks, "%lld", (long long)args.n_blocks);
    steps_begin(N_DELAYS * (size_t)args.n_repeats + 1);
    bool ok = find_best(bench);
    struct curve *curve = bench_linear_curve(bench, args.link);
    curve->has_row = false;
    for (size_t d = 0; ok && d < N_DELAYS; d++) {
        const struct setting setting = {delays[d],
                                        {"--nodes", nodes, "--threads", "1", "--link", args.link,
                                         "--delay", delays[d], "--blocks", blocks}};
        double seconds[LINEAR_MAX_REPEATS], waiting[LINEAR_MAX_REPEATS];
        for (int64_t r = 0; ok && r < args.n_repeats; r++) {
            struct curve trial = {0};
            steps_next("delay %s, repeat %lld", delays[d], (long long)r + 1);
            ok = bench_linear_train(bench, &setting, args.n_epochs, &training);
            if (!ok)
                break;
            take_objective(&training, &trial);
            seconds[r] = seconds_to(&trial, bench->best, LEVELS[0]);
            waiting[r] = sum_of(&training, EPOCH_WAITING) / (double)training.n_epochs;
        }
        if (!ok)
            break;
        struct curve *row = bench_linear_curve(bench, delays[d]);
        row->values[0] = median(seconds, (size_t)args.n_repeats);
        row->values[1] = median(waiting, (size_t)args.n_repeats);
        bench_linear_point(curve, atof(delays[d]), row->values[of_waiting]);
    }
    return ok;
}

static bool run_delay(struct linear_bench *bench)
{
    return run_delays(bench, false);
}

static bool run_waiting(struct linear_bench *bench)
{
    return run_delays(bench, true);
}

/* ---- The KKT filter -------------------------------------------------------------------------- */

static bool run_kkt(struct linear_bench *bench)
{
    static const struct setting settings[] = {
        {"--kkt 0.1", {"--kkt", "0.1"}},
        {"--kkt 0.5", {"--kkt", "0.5"}},
        {"--kkt 1 (no filter)", {"--kkt", "1"}},
    };
    static struct training training;
    const size_t n = sizeof settings / sizeof *settings;
    bool ok = true;
    steps_begin(n);
    for (size_t i = 0; ok && i < n; i++) {
        steps_next("%s", settings[i].name);
        ok = bench_linear_train(bench, &settings[i], args.n_epochs, &training);
        if (!ok)
            break;
        struct curve *curve = bench_linear_curve(bench, settings[i].name);
        double least = 1;
        for (size_t e = 0; e < training.n_epochs; e++) {
            const double skipped = 1 - bench_linear_value(&training, e, EPOCH_ACTIVE);
            bench_linear_point(curve, (double)(e + 1), 100 * skipped);
            if (e >= 10)
                least = fmin(least, skipped);
        }
        curve->values[0] = training.n_epochs > 10 ? 100 * least : (double)NAN;
        curve->values[1] = (double)training.n_epochs;
        curve->values[2] = bench_linear_value(&training, training.n_epochs - 1, EPOCH_QUALITY);
    }
    return ok;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static bool run_bytes(struct linear_bench *bench)
{
    char nodes[24];
    snprintf(nodes, sizeof nodes, "%lld", (long long)args.n_nodes);
    const struct setting settings[] = {
        {"none", {"--nodes", nodes, "--threads", "1", "--kkt", "1"}},
        {"KKT", {"--nodes", nodes, "--threads", "1"}},
        {"KKT, keys", {"--nodes", nodes, "--threads", "1", "--filters", "keys"}},
        {"KKT, keys, fixed:24", {"--nodes", nodes, "--threads", "1", "--filters", "keys,fixed:24"}},
    };
    static struct training training;
    const size_t n = sizeof settings / sizeof *settings;
    bool ok = true;
    steps_begin(n);
    (void)setenv("TERN_SHARE", "0",
                 1); /* nodes of one host would share the table and send nothing */
    for (size_t i = 0; ok && i < n; i++) {
        steps_next("%s", settings[i].name);
        ok = bench_linear_train(bench, &settings[i], args.n_epochs, &training);
        if (!ok)
            break;
        struct curve *curve = bench_linear_curve(bench, settings[i].name);
        for (size_t e = 0; e < training.n_epochs; e++)
            bench_linear_point(curve, (double)(e + 1),
                               bench_linear_value(&training, e, EPOCH_BYTES) / 1e6);
        curve->values[0] = sum_of(&training, EPOCH_REQUEST_BYTES) / 1e6;
        curve->values[1] = sum_of(&training, EPOCH_REPLY_BYTES) / 1e6;
        curve->values[2] = bench_linear_value(&training, training.n_epochs - 1, EPOCH_QUALITY);
    }
    return ok;
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* The sum of losses, without penalties, after some passes; the lowest of several learning rates, if there are any. */
static bool some_passes(struct linear_bench *bench, const char *solver, const char *size,
                        const char *const *rates, size_t n_rates, double *objective, double *rate)
{
    static struct training training;
    *objective = (double)INFINITY;
    for (size_t i = 0; i < n_rates; i++) {
        const bool is_sgd = rates[i] != NULL;
        const struct setting setting = {solver,
                                        {"--threads", "1", "--l1", "0", "--solver", solver,
                                         "--batch", size, is_sgd ? "--updater" : NULL, "sgd",
                                         "--rate", is_sgd ? rates[i] : NULL}};
        steps_next("%s, batches of %s%s%s", solver, size, is_sgd ? ", rate " : "",
                   is_sgd ? rates[i] : "");
        if (!bench_linear_train(bench, &setting, N_PASSES, &training))
            return false;
        const double tried = bench_linear_value(&training, training.n_epochs - 1, EPOCH_QUALITY);
        if (tried < *objective)
            *rate = is_sgd ? atof(rates[i]) : (double)NAN;
        *objective = fmin(*objective, tried);
    }
    return true;
}

static bool run_batch(struct linear_bench *bench)
{
    static const char *const sizes[N_SIZES] = {"1000", "10000", "100000"};
    static const char *const rates[N_RATES] = {"0.01",   "0.003", "0.001", "0.0003",
                                               "0.0001", "1e-5",  "1e-6"};
    static const char *const none[1] = {NULL};
    static const char *const solvers[] = {"emso-cd", "emso-gd", "online"};
    bool ok = true;
    steps_begin(N_SIZES * (2 + N_RATES));
    for (size_t s = 0; ok && s < 3; s++) {
        const bool is_sgd = s == 2;
        struct curve *curve = bench_linear_curve(bench, is_sgd ? "sgd, best rate" : solvers[s]);
        for (size_t i = 0; ok && i < N_SIZES; i++) {
            double objective, rate = (double)NAN;
            ok = some_passes(bench, solvers[s], sizes[i], is_sgd ? rates : none,
                             is_sgd ? N_RATES : 1, &objective, &rate);
            bench_linear_point(curve, atof(sizes[i]), objective);
            if (i == 0)
                curve->values[3] = rate;
        }
        if (!ok)
            break;
        curve->values[0] = curve->y[0];
        curve->values[1] = curve->y[N_SIZES - 1];
        curve->values[2] = 100 * (curve->y[N_SIZES - 1] / curve->y[0] - 1);
    }
    return ok;
}

/* ---- Stragglers ------------------------------------------------------------------------------ */

static bool make_data(char *folder, int64_t number)
{
    char rows[24], features[24], seed[24];
    snprintf(rows, sizeof rows, "%lld", (long long)args.n_rows);
    snprintf(features, sizeof features, "%lld", (long long)args.n_features);
    snprintf(seed, sizeof seed, "%lld", (long long)args.seed + number);
    char *words[] = {"data",   "clicks", "--rows", rows,  "--features",
                     features, "--seed", seed,     folder};
    return data_command(sizeof words / sizeof *words, words) == EXIT_OK;
}

/* Puts the next set of data where the last one was; data that were given are the only set. */
static bool make_set(struct linear_bench *bench, size_t number)
{
    return args.data != NULL || number == 0 || make_data(bench->folder, (int64_t)number);
}

static bool run_stragglers(struct linear_bench *bench)
{
    const struct linear_sets sets = {args.data != NULL ? 1 : (size_t)args.n_repeats,
                                     (size_t)args.n_rows, make_set};
    return bench_linear_stragglers(bench, &sets);
}

/* ---- Output ---------------------------------------------------------------------------------- */

static const struct linear_figure figures[] = {
    {"objective",
     "Distance of the objective from the optimum",
     "seconds",
     "share of the optimum",
     true,
     true,
     {"s_to_1%", "s_to_0.1%", "of_liblinear_1%", "of_liblinear_0.1%"},
     run_objective},
    {"delay",
     "Seconds to 1 % of the optimum",
     "delay",
     "seconds",
     false,
     false,
     {"s_to_1%", "waiting"},
     run_delay},
    {"kkt",
     "Coordinates that the KKT filter skips",
     "epochs",
     "%",
     false,
     false,
     {"skipped_%_after_10", "epochs", "objective"},
     run_kkt},
    {"bytes",
     "MB sent in an epoch by all nodes",
     "epochs",
     "MB",
     false,
     true,
     {"MB_by_workers", "MB_by_servers", "objective"},
     run_bytes},
    {"waiting",
     "Share of time that nodes wait for others",
     "delay",
     "share",
     false,
     false,
     {"s_to_1%", "waiting"},
     run_waiting},
    {"batch",
     "Sum of losses after five passes",
     "examples of a batch",
     "sum of losses",
     true,
     false,
     {"at_1000", "at_100000", "rise_%", "rate_at_1000"},
     run_batch},
    {"stragglers",
     "Progressive log loss of updates that come late",
     "mean delay in % of all updates",
     "log loss",
     false,
     false,
     {"log_loss", "vs_async_%", "rate_low", "rate_high", "memory_MB"},
     run_stragglers},
};

static const char *const figure_names[] = {"objective", "delay", "kkt",        "bytes",
                                           "waiting",   "batch", "stragglers", NULL};

static const struct option options[] = {
    {"figure", OPTION_STRING, &args.figure, .initial = "objective", .takes = "NAME",
     .help = "objective, delay, kkt, bytes, waiting, batch or stragglers", .choices = figure_names},
    {"data", OPTION_STRING, &args.data, .takes = "FILE",
     .help = "training examples in libsvm's format; unless given, 'tern data clicks' makes some"},
    {"rows", OPTION_INT, &args.n_rows, "100000", "N", "examples of data that are made", .min = 100,
     .max = 1e9},
    {"features", OPTION_INT, &args.n_features, "200000", "N", "features of data that are made",
     .min = 100, .max = 1e9},
    {"seed", OPTION_INT, &args.seed, "1", "N", "seed of data that are made", .min = 0, .max = 1e15},
    {"epochs", OPTION_INT, &args.n_epochs, "40", "N", "passes over the examples, at most", .min = 1,
     .max = CURVE_MAX_POINTS},
    {"nodes", OPTION_INT, &args.n_nodes, "4", "N", "nodes of the figures delay, waiting and bytes",
     .min = 2, .max = 64},
    {"blocks", OPTION_INT, &args.n_blocks, "0", "N",
     "blocks of features in the figures delay and waiting; 0: chosen for each delay", .min = 0,
     .max = 1000},
    {"link", OPTION_STRING, &args.link, .initial = "1gbit,1ms", .takes = "RATE[,DELAY]",
     .help = "links between nodes in the figures delay and waiting"},
    {"repeats", OPTION_INT, &args.n_repeats, "5", "N",
     "runs of which times are the median; stragglers: sets of data", .min = 1,
     .max = LINEAR_MAX_REPEATS},
    {"limit", OPTION_DOUBLE, &args.limit_s, "600", "S", "seconds that one training may take",
     .min = 1, .max = 1e6},
    {"svg", OPTION_STRING, &args.svg, .takes = "FILE", .help = "draw the figure to FILE"},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object a line instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench linear",
    .about =
        "Trains sparse linear models, L1 logistic regression with lambda 1 and no intercept, and\n"
        "compares solvers, delays and filters, also with liblinear and scikit-learn if they are\n"
        "installed (Debian: liblinear4, python3-sklearn).",
    .notes = "JSON fields: bench, figure, setting, x and y (of the curve), and the columns of the "
             "table.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

static void print_number(double value)
{
    if (isfinite(value))
        printf("%.9g", value);
    else
        printf("null");
}

static void print_numbers(const char *name, const double *values, size_t n)
{
    printf(",\"%s\":[", name);
    for (size_t i = 0; i < n; i++) {
        printf("%s", i > 0 ? "," : "");
        print_number(values[i]);
    }
    printf("]");
}

static void print_json(const struct linear_bench *bench, const struct curve *curve)
{
    printf("{\"bench\":\"linear\",\"figure\":\"%s\",\"setting\":\"%s\"", bench->figure->name,
           curve->name);
    for (size_t k = 0; k < CURVE_MAX_VALUES && bench->figure->columns[k] != NULL; k++) {
        printf(",\"%s\":", bench->figure->columns[k]);
        print_number(curve->values[k]);
    }
    print_numbers("x", curve->x, curve->n);
    print_numbers("y", curve->y, curve->n);
    printf("}\n");
}

static int column_width(const char *name)
{
    const int n = (int)strlen(name);
    return n > 9 ? n : 9;
}

static void print_all(const struct linear_bench *bench)
{
    const struct linear_figure *figure = bench->figure;
    if (!args.json) {
        printf("%s\n\n  %-32s", figure->title, "");
        for (size_t k = 0; k < CURVE_MAX_VALUES && figure->columns[k] != NULL; k++)
            printf(" %*s", column_width(figure->columns[k]), figure->columns[k]);
        printf("\n");
    }
    for (size_t c = 0; c < bench->n; c++) {
        const struct curve *curve = &bench->curves[c];
        if (args.json)
            print_json(bench, curve);
        else if (curve->has_row) {
            printf("  %-32s", curve->name);
            for (size_t k = 0; k < CURVE_MAX_VALUES && figure->columns[k] != NULL; k++)
                if (isfinite(curve->values[k]))
                    printf(" %*.6g", column_width(figure->columns[k]), curve->values[k]);
                else
                    printf(" %*s", column_width(figure->columns[k]), "-");
            printf("\n");
        }
    }
}

/* Runs the benchmark; `folder` is for its files. */
static int run_bench(void *context, const char *folder)
{
    struct linear_bench *bench = context;
    snprintf(bench->folder, sizeof bench->folder, "%s", folder);
    if (args.data != NULL)
        snprintf(bench->data, sizeof bench->data, "%s", args.data);
    else
        snprintf(bench->data, sizeof bench->data, "%s/train.txt", folder);
    bool ok = args.data != NULL || make_data(bench->folder, 0);
    bench->best = (double)INFINITY;
    ok = ok && bench->figure->run(bench);
    steps_end();
    if (ok)
        print_all(bench);
    ok = ok &&
         (args.svg == NULL || bench_linear_draw(args.svg, bench->figure, bench->curves, bench->n));
    return ok ? EXIT_OK : EXIT_FAILED;
}

int bench_linear_command(int argc, char **argv)
{
    static const struct bench_model nothing = {.name = "linear"};
    static struct curve curves[BENCH_MAX_CURVES];
    struct linear_bench bench = {.curves = curves};
    int status;
    size_t figure = 0;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (args.data != NULL && strlen(args.data) > 400) {
        complain("--data: the path is too long");
        return EXIT_USAGE;
    }
    while (strcmp(figures[figure].name, args.figure) != 0)
        figure++;
    bench.figure = &figures[figure];
    return bench_on_data(&nothing, NULL, run_bench, &bench);
}
