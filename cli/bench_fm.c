/*
 * tern bench fm - factorization machines that adapt their memory, beside logistic regression and fixed dimensions: size,
 * time, loss, bytes, fixed-point numbers and scaling, as in section 10.5 of M. Li's thesis.
 *
 * Each training is a separate process (bench_train.h), and all of a figure run one after the other in the same
 * command. Entries are read from the model that the training writes.
 */
#include "bench_fm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_models.h"
#include "bench_train.h"
#include "command.h"
#include "fm/fm_files.h"
#include "options.h"
#include "steps.h"
#include "train.h"

static struct {
    const char *figure, *data, *svg;
    int64_t n_rows, n_features, n_epochs, n_batch, n_threads, threshold;
    struct int_list dims, nodes;
    double limit_s;
    bool json;
} args;

const char *const fm_setting_names[FM_N_SETTINGS] = {"logistic regression", "fixed", "threshold",
                                                     "threshold, l1"};

enum { SIZE, TIME, LOSS, BYTES, FIXED, SCALE, N_FIGURES };

static const struct fm_figure figures[N_FIGURES] = {
    {"size", "Entries of embeddings in use", "entries", FM_OVER_DIMS, false},
    {"time", "Seconds of an epoch", "seconds", FM_OVER_DIMS, false},
    {"loss", "Log loss relative to logistic regression", "%", FM_OVER_DIMS, false},
    {"bytes", "MB sent in an epoch under static", "MB", FM_OVER_DIMS, true},
    {"fixed", "Log loss relative to numbers of 4 bytes", "%", FM_OVER_BYTES, true},
    {"scale", "Rows per second", "rows/s", FM_OVER_NODES, false},
};

static const char *const figure_names[] = {"size", "time", "loss", "bytes", "fixed", "scale", NULL};

static const struct option options[] = {
    {"figure", OPTION_STRING, &args.figure, .initial = "size", .takes = "NAME",
     .help = "size, time, loss, bytes (over dimensions), fixed (over bytes of a number) or scale "
             "(over nodes)",
     .choices = figure_names},
    {"data", OPTION_STRING, &args.data, .takes = "DIR",
     .help = "a folder with train.txt and test.txt; unless given, 'tern data clicks --pairs' makes "
             "one"},
    {"rows", OPTION_INT, &args.n_rows, "100000", "N", "training rows of data that are made",
     .min = 100, .max = 1e9},
    {"features", OPTION_INT, &args.n_features, "500000", "N", "features of data that are made",
     .min = 100, .max = 1e12},
    {"dims", OPTION_INTS, &args.dims, "1,4,16,64", "LIST",
     "dimensions to compare; fixed and scale: the first one is used", .min = 1, .max = FM_MAX_DIMS},
    {"threshold", OPTION_INT, &args.threshold, "10", "N",
     "occurrences after which a feature has an embedding", .min = 1, .max = TERN_MAX_ADMIT},
    {"epochs", OPTION_INT, &args.n_epochs, "3", "N", "passes over the rows", .min = 1,
     .max = TRAINING_MAX_EPOCHS},
    {"batch", OPTION_INT, &args.n_batch, "16", "N", "examples of a batch", .min = 1, .max = 1e6},
    {"nodes", OPTION_INTS, &args.nodes, "1,2,4", "LIST",
     "scale: numbers of nodes to compare; bytes and fixed: the last one is used", .min = 1,
     .max = 64},
    {"threads", OPTION_INT, &args.n_threads, "1", "N", "threads of a node", .min = 1, .max = 1024},
    {"limit", OPTION_DOUBLE, &args.limit_s, "600", "S", "seconds that one training may take",
     .min = 1, .max = 1e6},
    {"svg", OPTION_STRING, &args.svg, .takes = "FILE", .help = "draw the figure to FILE"},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object a line instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench fm",
    .about = "Trains factorization machines that adapt their memory, beside logistic regression "
             "and fixed\ndimensions.",
    .notes = "JSON fields: bench, figure, setting, dims, nodes, "
             "number_bytes (in messages), seconds (median epoch), rows_per_s, log_loss (best "
             "epoch, test rows), bytes (of an epoch), entries (of "
             "embeddings in use).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

struct bench {
    size_t figure;
    char train[512], test[512], model[512];
    struct fm_point points[FM_MAX_POINTS];
    size_t n;
};

/* ---- Trainings ------------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void summarise(const struct training *training, double n_rows, struct fm_point *point)
{
    double seconds[TRAINING_MAX_EPOCHS];
    point->log_loss = (double)INFINITY;
    for (size_t i = 0; i < training->n_epochs; i++) {
        const double *epoch = training->epochs[i].figures;
        seconds[i] = epoch[EPOCH_SECONDS];
        point->log_loss = fmin(point->log_loss, epoch[EPOCH_QUALITY]);
        point->bytes += epoch[EPOCH_BYTES] / (double)training->n_epochs;
    }
    qsort(seconds, training->n_epochs, sizeof *seconds, compare);
    point->seconds = seconds[training->n_epochs / 2];
    point->rate = n_rows / point->seconds;
}

/* Runs one training and fills in its figures. */
static bool run_point(const struct bench *bench, struct fm_point *point)
{
    static struct training training;
    char dims[64], filters[64], batch[24];
    if (point->setting == FM_LINEAR)
        snprintf(dims, sizeof dims, "0");
    else if (point->setting == FM_FIXED)
        snprintf(dims, sizeof dims, "%lld", (long long)point->n_dims);
    else
        snprintf(dims, sizeof dims, "%lld@%lld", (long long)point->n_dims,
                 (long long)args.threshold);
    char *further[16] = {"--test", (char *)bench->test,  "--dims",      dims,
                         "--out",  (char *)bench->model, "--overwrite", "--batch",
                         batch};
    size_t n_further = 9;
    snprintf(batch, sizeof batch, "%lld", (long long)args.n_batch);
    if (point->setting != FM_SHRUNK)
        further[n_further++] = "--no-shrink";
    if (point->n_bytes < FM_PLAIN_BYTES) {
        snprintf(filters, sizeof filters, "keys,fixed:%lld,lz4", 8 * (long long)point->n_bytes);
        further[n_further++] = "--filters";
        further[n_further++] = filters;
    }
    const struct training_order order = {.model = "fm",
                                         .data = bench->train,
                                         .n_epochs = (size_t)args.n_epochs,
                                         .n_nodes = (size_t)point->n_nodes,
                                         .n_threads = (size_t)args.n_threads,
                                         .policy = point->n_nodes == 1                 ? NULL
                                                   : figures[bench->figure].on_cluster ? "static"
                                                                                       : "adaptive",
                                         .further = further,
                                         .n_further = n_further,
                                         .limit_s = args.limit_s};
    struct fm_info info;
    steps_next("%s, %lld dimensions, %lld nodes, numbers of %lld bytes",
               fm_setting_names[point->setting], (long long)point->n_dims,
               (long long)point->n_nodes, (long long)point->n_bytes);
    if (!training_run_order(&order, &training))
        return false;
    if (!fm_files_read_info(bench->model, &info)) {
        complain("%s", task_error());
        return false;
    }
    point->entries = (double)info.n_entries;
    summarise(&training, (double)args.n_rows, point);
    return true;
}

/* The same training with exact numbers; the points with these come first. */
static const struct fm_point *exact_of(const struct bench *bench, const struct fm_point *point)
{
    const struct fm_point *exact = bench->points;
    while (exact->setting != point->setting)
        exact++;
    return exact;
}

static double value_of(const struct bench *bench, const struct fm_point *point)
{
    switch (bench->figure) {
    case SIZE:
        return point->entries;
    case TIME:
        return point->seconds;
    case LOSS:
        return 100 * (point->log_loss / bench->points[0].log_loss - 1);
    case BYTES:
        return point->bytes / 1e6;
    case FIXED:
        return 100 * (point->log_loss / exact_of(bench, point)->log_loss - 1);
    default:
        return point->rate;
    }
}

/* Lists the trainings of the figure; logistic regression is the first, and so are exact numbers. */
static void list_points(struct bench *bench)
{
    const struct fm_figure *figure = &figures[bench->figure];
    const enum fm_axis axis = figure->axis;
    const size_t n_outer = axis == FM_OVER_DIMS    ? args.dims.n
                           : axis == FM_OVER_NODES ? args.nodes.n
                                                   : FM_PLAIN_BYTES;
    const int64_t n_nodes = figure->on_cluster ? args.nodes.at[args.nodes.n - 1] : 1;
    for (size_t i = 0; i < n_outer; i++)
        for (int setting = 0; setting < FM_N_SETTINGS; setting++) {
            const bool is_same = setting == FM_LINEAR && i > 0 && axis == FM_OVER_DIMS;
            if (is_same || bench->n == FM_MAX_POINTS)
                continue;
            bench->points[bench->n++] = (struct fm_point){
                .setting = (enum fm_setting)setting,
                .n_dims = setting == FM_LINEAR ? 0 : args.dims.at[axis == FM_OVER_DIMS ? i : 0],
                .n_nodes = axis == FM_OVER_NODES ? args.nodes.at[i] : n_nodes,
                .n_bytes = FM_PLAIN_BYTES - (axis == FM_OVER_BYTES ? (int64_t)i : 0)};
        }
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void print_all(const struct bench *bench)
{
    const struct fm_figure *figure = &figures[bench->figure];
    if (!args.json)
        printf("%s\n\n  %-20s %5s %5s %5s %12s %9s %10s %9s %9s %10s\n", figure->title, "setting",
               "dims", "nodes", "bytes", figure->unit, "seconds", "rows/s", "log loss", "MB",
               "entries");
    for (size_t i = 0; i < bench->n; i++) {
        const struct fm_point *point = &bench->points[i];
        const char *name = fm_setting_names[point->setting];
        if (args.json)
            printf("{\"bench\":\"fm\",\"figure\":\"%s\",\"setting\":\"%s\",\"dims\":%lld,"
                   "\"nodes\":%lld,\"number_bytes\":%lld,\"seconds\":%.6g,\"rows_per_s\":%.6g,"
                   "\"log_loss\":%.6g,"
                   "\"bytes\":%.0f,\"entries\":%.0f}\n",
                   figure->name, name, (long long)point->n_dims, (long long)point->n_nodes,
                   (long long)point->n_bytes, point->seconds, point->rate, point->log_loss,
                   point->bytes, point->entries);
        else
            printf("  %-20s %5lld %5lld %5lld %12.6g %9.3f %10.0f %9.4f %9.2f %10.0f\n", name,
                   (long long)point->n_dims, (long long)point->n_nodes, (long long)point->n_bytes,
                   point->value, point->seconds, point->rate, point->log_loss, point->bytes / 1e6,
                   point->entries);
    }
}

static bool make_data(char *folder)
{
    char rows[24], features[24];
    snprintf(rows, sizeof rows, "%lld", (long long)args.n_rows);
    snprintf(features, sizeof features, "%lld", (long long)args.n_features);
    char *words[] = {"data", "clicks", "--pairs", "--rows", rows, "--features", features, folder};
    return data_command(sizeof words / sizeof *words, words) == EXIT_OK;
}

/* Counts the rows of data that were given. */
static bool count_rows(const char *path)
{
    struct input input;
    char *line;
    size_t length;
    int64_t n = 0;
    enum input_result result = INPUT_FAILED;
    if (input_open(&input, path)) {
        while ((result = input_line(&input, &line, &length)) == INPUT_LINE)
            n++;
        input_close(&input);
    }
    args.n_rows = n;
    if (result != INPUT_END)
        complain("%s", task_error());
    return result == INPUT_END;
}

/* Runs the benchmark; `folder` is for its files. */
static int run_bench(void *context, const char *folder)
{
    struct bench *bench = context;
    const char *data = args.data != NULL ? args.data : folder;
    snprintf(bench->train, sizeof bench->train, "%s/train.txt", data);
    snprintf(bench->test, sizeof bench->test, "%s/test.txt", data);
    snprintf(bench->model, sizeof bench->model, "%s/model", folder);
    bool ok = args.data != NULL ? count_rows(bench->train) : make_data((char *)folder);
    list_points(bench);
    /* Nodes of one host would share their tables and send nothing. */
    if (figures[bench->figure].on_cluster)
        (void)setenv("TERN_SHARE", "0", 1);
    steps_begin(bench->n);
    for (size_t i = 0; ok && i < bench->n; i++) {
        ok = run_point(bench, &bench->points[i]);
        bench->points[i].value = value_of(bench, &bench->points[i]);
    }
    steps_end();
    if (ok)
        print_all(bench);
    ok = ok && (args.svg == NULL ||
                bench_fm_draw(args.svg, &figures[bench->figure], bench->points, bench->n));
    return ok ? EXIT_OK : EXIT_FAILED;
}

int bench_fm_command(int argc, char **argv)
{
    static const struct bench_model nothing = {.name = "fm"};
    static struct bench bench;
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (args.data != NULL && strlen(args.data) > 400) {
        complain("--data: the path is too long");
        return EXIT_USAGE;
    }
    while (strcmp(figures[bench.figure].name, args.figure) != 0)
        bench.figure++;
    return bench_on_data(&nothing, NULL, run_bench, &bench);
}
