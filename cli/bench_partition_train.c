/*
 * bench_partition_train - mf, linear and fm on several nodes under each placement, and under graph:S. See bench_partition.h.
 *
 * The graph becomes data with a planted model: ratings by users of items, and examples with labels; a tenth of either is for
 * testing. Every training is a separate process, and nodes share no memory, as on hosts of their own.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_models.h"
#include "bench_partition.h"
#include "bench_train.h"
#include "command.h"
#include "common/rng.h"

enum { PATH_BYTES = 512, N_WAYS = 5, N_MODELS = 3, PLANTED_RANK = 4 };

static const double test_share = 0.1;

struct bench {
    const struct partition_training *options;
    char folder[PATH_BYTES];
    struct granules granules;
    struct block block; /* the whole graph */
    struct partition_map maps[PARTITION_MAX_MAPS];
    size_t n_maps;
    double none_bytes; /* of the model at hand, without a placement, */
    double zero_bytes; /* and with one under graph:0 without replicas; 0: not known yet */
};

static const struct way {
    const char *name;
    enum partition_method method;
} ways[N_WAYS] = {{"random", METHOD_RANDOM},
                  {"hybrid", METHOD_HYBRID},
                  {"parsa", METHOD_PARSA},
                  {"auto", METHOD_AUTO},
                  {"metis", METHOD_METIS}};

static const struct model {
    const char *name;
    char *words[8]; /* of its command line, without data */
} models[N_MODELS] = {{"mf", {"--rank", "16", NULL}},
                      {"linear", {"--solver", "online", "--intercept", "none", NULL}},
                      {"fm", {"--dims", "16", "--no-intercept", "--no-shrink", NULL}}};

static const char *const graphs[] = {"graph:0", "graph:10", "graph:100", "graph:10000",
                                     "graph:inf"};

/* ---- Data ------------------------------------------------------------------------------------ */

static bool is_test(uint64_t number)
{
    struct rng rng = rng_seed(7, number);
    return rng_unit(&rng) < test_share;
}

/* A number of about -1 to 1 for each key and factor. */
static double planted(uint64_t kind, uint64_t key, uint64_t factor)
{
    struct rng rng = rng_seed(kind * 16 + factor, key);
    return 2 * rng_unit(&rng) - 1;
}

static FILE *open_file(const struct bench *bench, const char *name)
{
    char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", bench->folder, name);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        complain("cannot write %s", path);
    return file;
}

/* Items are numbered from 1 on, as features are. */
static void write_ratings(const struct bench *bench, FILE *train, FILE *test)
{
    const struct block *block = &bench->block;
    for (uint32_t r = 0; r < block->n_rows; r++)
        for (uint32_t i = block->row_begin[r]; i < block->row_begin[r + 1]; i++) {
            double rating = 3;
            for (uint64_t f = 0; f < PLANTED_RANK; f++)
                rating += 2 * planted(0, r, f) * planted(1, block->row_keys[i], f);
            fprintf(is_test(i) ? test : train, "%u %u %.2f\n", r, block->row_keys[i] + 1, rating);
        }
}

static void write_examples(const struct bench *bench, FILE *train, FILE *test)
{
    const struct block *block = &bench->block;
    for (uint32_t r = 0; r < block->n_rows; r++) {
        const uint32_t begin = block->row_begin[r], end = block->row_begin[r + 1];
        FILE *file = is_test(r) ? test : train;
        double sum = 0;
        for (uint32_t i = begin; i < end; i++)
            sum += planted(2, block->row_keys[i], 0);
        fputs(sum > 0 ? "1" : "-1", file);
        for (uint32_t i = begin; i < end; i++)
            fprintf(file, " %u:1", block->row_keys[i] + 1);
        fputc('\n', file);
    }
}

static bool write_pair(const struct bench *bench, const char *train_name, const char *test_name,
                       void (*write)(const struct bench *, FILE *, FILE *))
{
    FILE *train = open_file(bench, train_name);
    FILE *test = train != NULL ? open_file(bench, test_name) : NULL;
    if (test != NULL)
        write(bench, train, test);
    bool ok = train != NULL && fclose(train) == 0;
    ok = test != NULL && fclose(test) == 0 && ok;
    return ok;
}

static bool make_data(struct bench *bench)
{
    granules_init(&bench->granules, 1, (size_t)PARTITION_MEMORY_MIB << 20);
    bool ok = read_rows(bench->options->data, READ_AUTO, false, &bench->granules) &&
              granules_load(&bench->granules, 1, 0, &bench->block);
    if (!ok)
        complain("%s", task_error());
    return ok && write_pair(bench, "train.txt", "test.txt", write_ratings) &&
           write_pair(bench, "train.svm", "test.svm", write_examples);
}

/* ---- Placements ------------------------------------------------------------------------------ */

static bool is_mf(const struct model *model)
{
    return strcmp(model->name, "mf") == 0;
}

/* Partitions the training data of a model into the folder `parts`. */
static bool partition(const struct bench *bench, const struct model *model, const struct way *way,
                      double replicas, char parts[PATH_BYTES + 32])
{
    char data[PATH_BYTES + 32];
    struct partition_report report;
    snprintf(data, sizeof data, "%s/train.%s", bench->folder, is_mf(model) ? "txt" : "svm");
    snprintf(parts, PATH_BYTES + 32, "%s/parts", bench->folder);
    const struct train_options job = {.n_nodes = 1,
                                      .n_threads = 1,
                                      .seed = bench->options->seed,
                                      .data = data,
                                      .out = parts,
                                      .overwrite = true,
                                      .json = true};
    const struct partition_options how = {.n_parts = bench->options->n_nodes,
                                          .method = way->method,
                                          .n_initial = PARTITION_INITIAL,
                                          .delay = -1,
                                          .n_passes = -1,
                                          .replicas = replicas,
                                          .memory_mib = PARTITION_MEMORY_MIB};
    const bool ok = partition_run(&job, &how, &report);
    if (!ok)
        complain("%s: %s", way->name, task_error());
    return ok;
}

/* ---- Trainings ------------------------------------------------------------------------------- */

struct figures {
    double bytes, seconds, quality, remote;
    double traffic[PARTITION_MAX_NODES][PARTITION_MAX_NODES]; /* bytes of an epoch */
};

/* Trains a model; `parts` is the folder of a placement or NULL. */
static bool train(const struct bench *bench, const struct model *model, const char *policy,
                  const char *parts, struct figures *figures)
{
    static struct training training;
    char data[2 * PATH_BYTES + 64], test[PATH_BYTES + 32], *further[16];
    size_t n = 0;
    snprintf(test, sizeof test, "%s/test.svm", bench->folder);
    if (is_mf(model))
        snprintf(data, sizeof data, "%s/train.txt,%s/test.txt", bench->folder, bench->folder);
    else
        snprintf(data, sizeof data, "%s/train.svm", bench->folder);
    while (model->words[n] != NULL) {
        further[n] = model->words[n];
        n++;
    }
    if (!is_mf(model)) {
        further[n++] = "--test";
        further[n++] = test;
    }
    if (parts != NULL) {
        further[n++] = "--placement";
        further[n++] = (char *)parts;
    }
    const struct training_order order = {.model = model->name,
                                         .data = data,
                                         .n_epochs = (size_t)bench->options->n_epochs,
                                         .n_nodes = (size_t)bench->options->n_nodes,
                                         .n_threads = 1,
                                         .policy = policy,
                                         .further = further,
                                         .n_further = n,
                                         .limit_s = bench->options->limit_s};
    if (!training_run_order(&order, &training))
        return false;
    *figures = (struct figures){0};
    for (size_t i = 0; i < training.n_epochs; i++) {
        const double *epoch = training.epochs[i].figures;
        figures->bytes += epoch[EPOCH_BYTES] / (double)training.n_epochs;
        figures->seconds += epoch[EPOCH_SECONDS] / (double)training.n_epochs;
        figures->quality = epoch[EPOCH_QUALITY];
        figures->remote = epoch[EPOCH_REMOTE_SHARE];
    }
    for (size_t i = 0; i < PARTITION_MAX_NODES; i++)
        for (size_t j = 0; j < PARTITION_MAX_NODES; j++)
            figures->traffic[i][j] = training.traffic[i][j] / (double)training.n_epochs;
    return true;
}

/* Keeps the bytes between nodes for the maps. */
static void add_map(struct bench *bench, const char *name, const struct figures *figures)
{
    struct partition_map *map = &bench->maps[bench->n_maps++];
    *map = (struct partition_map){.name = name, .n_nodes = (uint32_t)bench->options->n_nodes};
    memcpy(map->bytes, figures->traffic, sizeof map->bytes);
}

static void print(const struct bench *bench, const struct model *model, const char *placement,
                  const char *policy, const struct figures *figures)
{
    const double ratio = bench->none_bytes > 0 ? figures->bytes / bench->none_bytes : 0;
    const double of_zero = bench->zero_bytes > 0 ? figures->bytes / bench->zero_bytes : 0;
    if (bench->options->json)
        printf("{\"bench\": \"partition\", \"model\": \"%s\", \"placement\": \"%s\", "
               "\"policy\": \"%s\", \"bytes\": %.0f, \"bytes_of_none\": %.4f, "
               "\"bytes_of_graph_0\": %.4f, \"seconds\": %.4f, "
               "\"quality\": %.6g, \"remote_share\": %.4f}\n",
               model->name, placement, policy, figures->bytes, ratio, of_zero, figures->seconds,
               figures->quality, figures->remote);
    else
        printf("%-7s %-14s %-12s %9.2f %6.2f %6.2f %8.3f %9.5g %7.3f\n", model->name, placement,
               policy, figures->bytes / 1e6, ratio, of_zero, figures->seconds, figures->quality,
               figures->remote);
    (void)flush_output();
}

/* Without a placement, then with that of each method. */
static bool compare_placements(struct bench *bench, const struct model *model)
{
    struct figures figures;
    char parts[PATH_BYTES + 32];
    bench->none_bytes = bench->zero_bytes = 0;
    if (!train(bench, model, "static", NULL, &figures))
        return false;
    bench->none_bytes = figures.bytes;
    print(bench, model, "none", "static", &figures);
    if (is_mf(model))
        add_map(bench, "none", &figures);
    for (size_t i = 0; i < N_WAYS; i++) {
        if (ways[i].method == METHOD_METIS && !partition_has_metis())
            continue;
        if (!partition(bench, model, &ways[i], 0, parts) ||
            !train(bench, model, "static", parts, &figures))
            return false;
        print(bench, model, ways[i].name, "static", &figures);
        if (is_mf(model))
            add_map(bench, ways[i].name, &figures);
    }
    return true;
}

/* Trains with the placement of the best method and replicas of a share of the keys. */
static bool compare_replicas(struct bench *bench, const struct model *model, double replicas,
                             const char *name, const char *const *policies, size_t n)
{
    const struct way best = {"auto", METHOD_AUTO};
    struct figures figures;
    char parts[PATH_BYTES + 32];
    bool ok = partition(bench, model, &best, replicas, parts);
    for (size_t i = 0; ok && i < n; i++) {
        ok = train(bench, model, policies[i], parts, &figures);
        if (ok && bench->zero_bytes <= 0)
            bench->zero_bytes = figures.bytes;
        if (ok)
            print(bench, model, name, policies[i], &figures);
    }
    return ok;
}

/* Under graph:0 without replicas, then with replicas, and with those of all keys and no bound: fewer bytes there cannot be. */
static bool compare_bounds(struct bench *bench, const struct model *model)
{
    const size_t n = sizeof graphs / sizeof *graphs;
    return compare_replicas(bench, model, 0, "auto", graphs, 1) &&
           compare_replicas(bench, model, bench->options->replicas, "auto, replicas", graphs, n) &&
           compare_replicas(bench, model, 1, "auto, all", graphs + n - 1, 1);
}

static void print_maps(const struct bench *bench)
{
    for (size_t m = 0; m < bench->n_maps; m++) {
        const struct partition_map *map = &bench->maps[m];
        if (bench->options->json)
            printf("{\"bench\": \"partition\", \"map\": \"%s\", \"bytes\": [", map->name);
        else
            printf("\n%s: MB of mf between nodes; rows use keys, columns are their homes\n",
                   map->name);
        for (uint32_t i = 0; i < map->n_nodes; i++)
            for (uint32_t j = 0; j < map->n_nodes; j++)
                printf(bench->options->json ? "%s%.0f%s" : "%s%8.2f%s",
                       !bench->options->json ? ""
                       : j == 0              ? i == 0 ? "[" : ", ["
                                             : ", ",
                       bench->options->json ? map->bytes[i][j] : map->bytes[i][j] / 1e6,
                       j + 1 < map->n_nodes   ? ""
                       : bench->options->json ? "]"
                                              : "\n");
        if (bench->options->json)
            printf("]}\n");
    }
}

static int run(void *context, const char *folder)
{
    struct bench *bench = context;
    snprintf(bench->folder, sizeof bench->folder, "%s", folder);
    /* Nodes of one host would share their tables and send nothing. */
    (void)setenv("TERN_SHARE", "0", 1);
    bool ok = make_data(bench);
    if (ok && !bench->options->json)
        printf("model   placement      policy       MB/epoch of none of g:0 seconds   quality  "
               "remote\n");
    for (size_t i = 0; ok && i < N_MODELS; i++)
        ok = compare_placements(bench, &models[i]) && compare_bounds(bench, &models[i]);
    if (ok)
        print_maps(bench);
    ok = ok && (bench->options->svg == NULL ||
                partition_draw(bench->options->svg, bench->maps, bench->n_maps));
    block_fini(&bench->block);
    granules_fini(&bench->granules);
    return ok && flush_output() ? EXIT_OK : EXIT_FAILED;
}

int partition_train(const struct partition_training *training)
{
    static const struct bench_model nothing = {.name = "partition"};
    static struct bench bench;
    bench.options = training;
    return bench_on_data(&nothing, NULL, run, &bench);
}
