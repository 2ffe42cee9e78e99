/*
 * tern bench local - pulls and pushes of one node against raw loops on a plain array.
 *
 * The command measures all combinations of its lists. The outer loops are over lengths and kinds of table, so
 * that a table and an array are filled once for all combinations that use them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tern/tern.h>

#include "bench_point.h"
#include "bench_raw.h"
#include "command.h"
#include "keys.h"
#include "options.h"
#include "steps.h"

#define STREAM_KEYS ((size_t)1 << 20)
#define FILL_KEYS ((size_t)1000)

/* In the order of enum raw_op, enum tern_index, enum keys_distribution and enum raw_kind. */
static const char *const op_names[] = {"pull", "push", NULL};
static const char *const table_names[] = {"dense", "sparse", NULL};
static const char *const dist_names[] = {"uniform", "zipf", NULL};
static const char *const raw_names[] = {"simple", "prefetch", "far", NULL};

static struct {
    bool json;
    struct string_list ops, tables, dists;
    struct int_list lengths, batches, threads;
    int64_t n_keys, repeats;
    double seconds_per_point;
} args;

static const struct option options[] = {
    {"op", OPTION_STRINGS, &args.ops, "pull,push", "LIST", "operations", .choices = op_names},
    {"table", OPTION_STRINGS, &args.tables, "dense,sparse", "LIST", "kinds of table",
     .choices = table_names},
    {"len", OPTION_INTS, &args.lengths, "1,8,32,128,512", "LIST", "floats per key", .min = 1,
     .max = 65536},
    {"batch", OPTION_INTS, &args.batches, "1,10,100,1000", "LIST", "keys per call", .min = 1,
     .max = 1e6},
    {"threads", OPTION_INTS, &args.threads, "1,2", "LIST", "threads at work", .min = 1, .max = 256},
    {"dist", OPTION_STRINGS, &args.dists, "uniform,zipf", "LIST",
     "how keys are drawn; zipf has exponent 1.1", .choices = dist_names},
    {"keys", OPTION_INT, &args.n_keys, "1000000", "N", "keys in a table", .min = 1, .max = 1e9},
    {"repeats", OPTION_INT, &args.repeats, "5", "N", "measurements of each loop", .min = 1,
     .max = MAX_REPEATS},
    {"seconds-per-point", OPTION_DOUBLE, &args.seconds_per_point, "1", "S",
     "time for one combination, shared by its measurements", .min = 0.001, .max = 3600},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object per line instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench local",
    .about = "Measures pulls and pushes on one node, for all combinations of the lists, against a "
             "raw loop over a plain array with the same keys in the same run.",
    .notes =
        "Figures are nanoseconds of CPU time per key, medians of the repeats. The raw loop copies "
        "or adds rows without latches, index or bounds checks. There are three raw loops (simple, "
        "prefetching to the first cache level, prefetching further ahead to the second); the "
        "fastest one counts. Tern and the raw loops take turns. The ratio is the raw loop's median "
        "over Tern's: at 1, Tern costs no more than the memory itself. The spread is the range of "
        "the ratios of single repeats. With several threads, each thread draws its own keys, and "
        "the raw loop's pushes race.\n"
        "\n"
        "JSON fields: bench, op, table, len, batch, threads, dist, ns_per_key, raw_ns_per_key, "
        "ratio, then ratio_min, ratio_max, raw (which raw loop), repeats, keys, kernel.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

/* The state of the command. */
struct bench {
    struct tern_node *node;
    struct lane *lanes;
    size_t n_lanes;
    struct keys *keys[KEYS_ZIPF + 1]; /* by distribution, then lane; NULL when not asked for */
};

/* One combination: indexes into the lists of names, and numbers. */
struct combination {
    size_t op, table, dist;
    size_t length, batch, n_threads;
};

static size_t greatest(const struct int_list *list)
{
    int64_t most = 0;
    for (size_t i = 0; i < list->n; i++)
        most = list->at[i] > most ? list->at[i] : most;
    return (size_t)most;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void print_json(const struct combination *c, const struct figures *f)
{
    printf("{\"bench\":\"local\",\"op\":\"%s\",\"table\":\"%s\",\"len\":%zu,\"batch\":%zu,"
           "\"threads\":%zu,\"dist\":\"%s\",\"ns_per_key\":%.3f,\"raw_ns_per_key\":%.3f,"
           "\"ratio\":%.4f,\"ratio_min\":%.4f,\"ratio_max\":%.4f,\"raw\":\"%s\",\"repeats\":%lld,"
           "\"keys\":%lld,\"kernel\":\"%s\"}\n",
           op_names[c->op], table_names[c->table], c->length, c->batch, c->n_threads,
           dist_names[c->dist], f->ns, f->raw_ns, f->ratio, f->ratio_min, f->ratio_max,
           raw_names[f->raw], (long long)args.repeats, (long long)args.n_keys, tern_kernel_name());
}

static void print_heading(const struct combination *c)
{
    if (args.json)
        return;
    printf("\n%s table, %lld keys of %zu float%s\n\n", table_names[c->table],
           (long long)args.n_keys, c->length, c->length == 1 ? "" : "s");
    printf("  %-4s %-7s %7s %6s %9s %9s  %-8s %6s  %s\n", "op", "keys", "threads", "batch",
           "Tern ns", "raw ns", "raw loop", "ratio", "spread");
}

static void print_row(const struct combination *c, const struct figures *f)
{
    printf("  %-4s %-7s %7zu %6zu %9.2f %9.2f  %-8s %6.2f  %.2f..%.2f\n", op_names[c->op],
           dist_names[c->dist], c->n_threads, c->batch, f->ns, f->raw_ns, raw_names[f->raw],
           f->ratio, f->ratio_min, f->ratio_max);
}

static void print_legend(void)
{
    printf("\nns are per key, medians of %lld. ratio = raw / Tern; at 1.00 Tern costs no more\n"
           "than a plain array without latches. spread = the ratios of single repeats.\n",
           (long long)args.repeats);
}

/* ---- Points ---------------------------------------------------------------------------------- */

/* Opens and closes workers so that exactly the first n lanes have one, because a single worker is cheaper than
 * one of several. */
static bool set_workers(struct bench *bench, size_t n)
{
    for (size_t i = 0; i < bench->n_lanes; i++) {
        struct tern_worker **worker = &bench->lanes[i].worker;
        if (i < n && *worker == NULL && tern_worker_open(bench->node, worker) != TERN_OK) {
            complain_tern("cannot open a worker");
            return false;
        }
        if (i >= n && *worker != NULL) {
            if (tern_worker_close(*worker) != TERN_OK) {
                complain_tern("cannot close a worker");
                return false;
            }
            *worker = NULL;
        }
    }
    return true;
}

static bool run_point(struct bench *bench, const struct combination *c, struct tern_table *table,
                      const struct raw_array *array)
{
    for (size_t i = 0; i < c->n_threads; i++)
        bench->lanes[i].keys = &bench->keys[c->dist][i];
    struct point point = {.op = (enum raw_op)c->op,
                          .index = (enum tern_index)c->table,
                          .table = table,
                          .array = array,
                          .batch = c->batch,
                          .lanes = bench->lanes,
                          .n_lanes = c->n_threads};
    char doing[128];
    snprintf(doing, sizeof doing, "%s %s, %zu floats, %s keys, threads: %zu, batches of %zu",
             table_names[c->table], op_names[c->op], c->length, dist_names[c->dist], c->n_threads,
             c->batch);
    steps_next("%s", doing);
    struct figures figures;
    if (!set_workers(bench, c->n_threads) ||
        !point_measure(&point, (size_t)args.repeats, args.seconds_per_point, &figures))
        return false;
    steps_end();
    (args.json ? print_json : print_row)(c, &figures);
    return flush_output();
}

/* The points that share a table and an array. */
static bool run_points(struct bench *bench, struct combination c, struct tern_table *table,
                       const struct raw_array *array)
{
    steps_end();
    print_heading(&c);
    for (size_t i = 0; i < args.ops.n; i++) {
        c.op = args.ops.choice[i];
        for (size_t j = 0; j < args.dists.n; j++) {
            c.dist = args.dists.choice[j];
            for (size_t k = 0; k < args.threads.n; k++) {
                c.n_threads = (size_t)args.threads.at[k];
                for (size_t l = 0; l < args.batches.n; l++) {
                    c.batch = (size_t)args.batches.at[l];
                    if (!run_point(bench, &c, table, array))
                        return false;
                }
            }
        }
    }
    return true;
}

/* Creates every row by adding zeros to it. */
static bool fill_table(struct bench *bench, enum tern_index index, size_t length,
                       struct tern_table *table)
{
    uint64_t keys[FILL_KEYS];
    float *zeros = calloc(FILL_KEYS * length, sizeof *zeros);
    size_t n_keys = (size_t)args.n_keys;
    enum tern_status status = TERN_OK;
    if (zeros == NULL) {
        complain("no memory for %zu rows of %zu floats", FILL_KEYS, length);
        return false;
    }
    for (size_t done = 0, n; done < n_keys && status == TERN_OK; done += n) {
        n = n_keys - done < FILL_KEYS ? n_keys - done : FILL_KEYS;
        for (size_t i = 0; i < n; i++)
            keys[i] = index == TERN_SPARSE ? keys_sparse(done + i) : done + i;
        status = tern_push(bench->lanes[0].worker, table, keys, n, zeros);
    }
    free(zeros);
    if (status != TERN_OK)
        complain_tern("cannot fill the table");
    return status == TERN_OK;
}

static bool run_table(struct bench *bench, struct combination c, const struct raw_array *array)
{
    enum tern_index index = (enum tern_index)c.table;
    struct tern_table_options shape = {
        .struct_size = sizeof shape,
        .index = index,
        .n_keys = index == TERN_DENSE ? (uint64_t)args.n_keys : 0,
        .length = (uint32_t)c.length,
    };
    struct tern_table *table;
    steps_prepare("filling a table");
    if (tern_table_open(bench->node, "bench", &shape, &table) != TERN_OK) {
        complain_tern("cannot open a table");
        return false;
    }
    bool ok = set_workers(bench, 1) && fill_table(bench, index, c.length, table) &&
              run_points(bench, c, table, array);
    if (tern_table_close(table) != TERN_OK) {
        complain_tern("cannot close the table");
        return false;
    }
    return ok;
}

static bool run_length(struct bench *bench, size_t length)
{
    struct raw_array array;
    steps_prepare("filling an array");
    if (!raw_array_init(&array, (size_t)args.n_keys, length)) {
        complain("no memory for an array of %lld times %zu floats", (long long)args.n_keys, length);
        return false;
    }
    bool ok = true;
    for (size_t i = 0; i < args.tables.n && ok; i++)
        ok = run_table(
            bench, (struct combination){.length = length, .table = args.tables.choice[i]}, &array);
    raw_array_fini(&array);
    return ok;
}

/* ---- The command ----------------------------------------------------------------------------- */

/* Memory available without swapping; 0 if unknown. */
static double available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    unsigned long long kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return (double)kib * 1024;
}

/* Checked here because Linux would grant the memory and kill the process when it is touched. */
static bool fits_memory(void)
{
    double row_bytes = (double)greatest(&args.lengths) * sizeof(float);
    double table_bytes = (double)args.n_keys * (row_bytes + 32);
    double array_bytes = (double)args.n_keys * row_bytes;
    double lane_bytes = (double)greatest(&args.batches) * row_bytes;
    double needed = table_bytes + array_bytes + (double)greatest(&args.threads) * lane_bytes;
    double available = available_bytes();
    if (available == 0 || needed < available)
        return true;
    complain("a table and an array of %lld keys with %zu floats need %.1f GB and %.1f GB are "
             "available; choose a smaller --keys, --len or --batch",
             (long long)args.n_keys, greatest(&args.lengths), needed / 1e9, available / 1e9);
    return false;
}

static bool make_lane(struct bench *bench, size_t i)
{
    size_t batch = greatest(&args.batches);
    size_t n_values = batch * greatest(&args.lengths);
    size_t n_keys = batch > STREAM_KEYS ? batch : STREAM_KEYS;
    size_t line = 64, bytes = (n_values * sizeof(float) + line - 1) / line * line;
    bool ok = (bench->lanes[i].values = aligned_alloc(line, bytes)) != NULL;
    for (size_t j = 0; j < args.dists.n && ok; j++) {
        size_t dist = args.dists.choice[j];
        if (bench->keys[dist][i].n == 0)
            ok = keys_init(&bench->keys[dist][i], (enum keys_distribution)dist, (size_t)args.n_keys,
                           n_keys, i);
    }
    if (!ok) {
        complain("no memory for the keys and values of %zu threads", bench->n_lanes);
        return false;
    }
    return true;
}

static bool bench_init(struct bench *bench)
{
    *bench = (struct bench){.n_lanes = greatest(&args.threads)};
    steps_begin(args.ops.n * args.tables.n * args.dists.n * args.lengths.n * args.batches.n *
                args.threads.n);
    bench->lanes = calloc(bench->n_lanes, sizeof *bench->lanes);
    for (size_t i = 0; i <= KEYS_ZIPF; i++)
        bench->keys[i] = calloc(bench->n_lanes, sizeof *bench->keys[i]);
    if (bench->lanes == NULL || bench->keys[KEYS_UNIFORM] == NULL ||
        bench->keys[KEYS_ZIPF] == NULL) {
        complain("no memory for %zu threads", bench->n_lanes);
        return false;
    }
    if (tern_node_open(NULL, &bench->node) != TERN_OK) {
        complain_tern("cannot open a node");
        return false;
    }
    steps_prepare("drawing keys");
    for (size_t i = 0; i < bench->n_lanes; i++)
        if (!make_lane(bench, i))
            return false;
    return true;
}

/* Also cleans up after a bench_init that failed halfway. */
static bool bench_fini(struct bench *bench)
{
    bool ok = bench->lanes == NULL || set_workers(bench, 0);
    for (size_t i = 0; i < bench->n_lanes && bench->lanes != NULL; i++)
        free(bench->lanes[i].values);
    for (size_t i = 0; i <= KEYS_ZIPF; i++) {
        for (size_t j = 0; j < bench->n_lanes && bench->keys[i] != NULL; j++)
            keys_fini(&bench->keys[i][j]);
        free(bench->keys[i]);
    }
    if (bench->node != NULL)
        ok = tern_node_close(bench->node) == TERN_OK && ok;
    free(bench->lanes);
    if (!ok)
        complain_tern("cannot close the node");
    return ok;
}

int bench_local_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (!fits_memory())
        return EXIT_FAILED;
    struct bench bench;
    bool ok = bench_init(&bench);
    steps_end();
    if (ok && !args.json)
        printf("Tern %s (%s) and a plain array, f32\n", tern_version(), tern_kernel_name());
    for (size_t i = 0; i < args.lengths.n && ok; i++)
        ok = run_length(&bench, (size_t)args.lengths.at[i]);
    steps_end();
    if (ok && !args.json)
        print_legend();
    ok = bench_fini(&bench) && ok;
    return ok ? EXIT_OK : EXIT_FAILED;
}
