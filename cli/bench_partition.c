/*
 * tern bench partition - all methods of `tern partition` on one data set, beside METIS where it is installed.
 *
 * The methods take turns, one seed after the other; figures are medians over the seeds. Processor time does not count
 * reading, and METIS' is that of its library alone.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench_partition.h"
#include "bench_train.h"
#include "command.h"
#include "options.h"
#include "quantile.h"

enum { N_WAYS = 6 };

static struct {
    bool json, trains, sweeps;
    int64_t n_repeats, n_threads, seed, n_nodes, n_epochs;
    double replicas, limit_s;
    const char *svg;
    struct int_list parts;
    struct operand_list operands;
} args;

static const struct option options[] = {
    {"parts", OPTION_INTS, &args.parts, "8,32", "LIST", "parts to make", .min = 1,
     .max = MAX_PARTS},
    {"repeats", OPTION_INT, &args.n_repeats, "5", "N", "seeds of each method", .min = 1,
     .max = PARTITION_MAX_REPEATS},
    {"threads", OPTION_INT, &args.n_threads, "1", "N", "threads of 'auto' and 'parsa'", .min = 1,
     .max = 64},
    {"seed", OPTION_INT, &args.seed, "1", "S", "the first seed", .min = 0, .max = 1e15},
    {"train", OPTION_FLAG, &args.trains,
     .help = "instead train mf, linear and fm with each placement and under graph:S"},
    {"sweep", OPTION_FLAG, &args.sweeps,
     .help = "instead partition with other numbers of blocks, initial blocks, threads and nodes"},
    {"nodes", OPTION_INT, &args.n_nodes, "4", "N", "with --train: nodes", .min = 2,
     .max = PARTITION_MAX_NODES},
    {"epochs", OPTION_INT, &args.n_epochs, "3", "N", "with --train: passes over the data", .min = 1,
     .max = TRAINING_MAX_EPOCHS},
    {"replicas", OPTION_DOUBLE, &args.replicas, "0.01", "SHARE",
     "with --train: of the keys, replicas of each part under graph:S", .min = 0, .max = 1},
    {"limit", OPTION_DOUBLE, &args.limit_s, "600", "S",
     "with --train: seconds that one training may take", .min = 1, .max = 1e6},
    {"svg", OPTION_STRING, &args.svg, .takes = "FILE",
     .help = "with --train: draw a map of the bytes between nodes"},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON line per method instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench partition",
    .about = "Partitions DATA by every method, and by METIS where libmetis5 is installed.",
    .notes = "JSON fields: bench, method, parts, repeats, remote_pairs, remote_share, row_balance, "
             "cpu_s\n"
             "(medians), cpu_s_min, cpu_s_max, and pairs_of_metis, share_of_metis, cpu_of_metis "
             "(ratios).\n"
             "With --train: bench, model, placement, policy, bytes and seconds (of an epoch), "
             "bytes_of_none\nand bytes_of_graph_0 (ratios; the latter to graph:0 without "
             "replicas), quality (last epoch), remote_share; then map, bytes.\n"
             "With --sweep: bench, sweep (the method), parts, blocks, initial, nodes, threads, "
             "remote_pairs,\npairs_of_first, remote_share, seconds, speedup (to the method's first "
             "line), cpu_s, peak_mib.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "DATA",
    .given = &args.operands,
};

/* One method, and what it gave with each of n seeds. */
struct way {
    const char *name;
    enum partition_method method;
    bool by_volume;
    size_t n;
    double pairs[PARTITION_MAX_REPEATS], remote[PARTITION_MAX_REPEATS],
        balance[PARTITION_MAX_REPEATS], cpu_s[PARTITION_MAX_REPEATS];
};

static const struct way ways[N_WAYS] = {
    {.name = "metis", .method = METHOD_METIS},
    {.name = "metis-volume", .method = METHOD_METIS, .by_volume = true},
    {.name = "auto", .method = METHOD_AUTO},
    {.name = "parsa", .method = METHOD_PARSA},
    {.name = "hybrid", .method = METHOD_HYBRID},
    {.name = "random", .method = METHOD_RANDOM},
};

bool partition_has_metis(void)
{
    void *library = dlopen("libmetis.so.5", RTLD_NOW | RTLD_LOCAL);
    if (library != NULL)
        dlclose(library);
    return library != NULL;
}

static bool run_way(struct way *way, uint32_t n_parts, int64_t repeat)
{
    const bool is_parallel = way->method == METHOD_AUTO || way->method == METHOD_PARSA;
    const struct train_options job_options = {.n_nodes = 1,
                                              .n_threads = is_parallel ? args.n_threads : 1,
                                              .seed = args.seed + repeat,
                                              .data = args.operands.at[0],
                                              .json = true};
    const struct partition_options how = {.n_parts = n_parts,
                                          .method = way->method,
                                          .by_volume = way->by_volume,
                                          .n_initial = PARTITION_INITIAL,
                                          .delay = -1,
                                          .n_passes = -1,
                                          .memory_mib = PARTITION_MEMORY_MIB};
    struct partition_report report;
    if (!partition_run(&job_options, &how, &report))
        return false;
    way->pairs[way->n] = (double)report.n_pairs;
    way->remote[way->n] = report.remote;
    way->balance[way->n] = report.row_balance;
    way->cpu_s[way->n++] = report.cpu_s;
    return true;
}

/* METIS gives up some graphs with some seeds, mostly by volume: these are left out. */
static bool may_fail(const struct way *way, int64_t repeat)
{
    if (way->method != METHOD_METIS)
        return false;
    fprintf(stderr, "%s, seed %" PRId64 ": %s; left out\n", way->name, args.seed + repeat,
            task_error());
    return true;
}

static void print_failed(const struct way *way, uint32_t n_parts)
{
    if (args.json)
        printf("{\"bench\": \"partition\", \"method\": \"%s\", \"parts\": %u, \"repeats\": 0}\n",
               way->name, n_parts);
    else
        printf("%-13s gave up this graph with every seed\n", way->name);
}

static void print_way(struct way *way, const struct way *metis, uint32_t n_parts)
{
    const size_t n = way->n;
    if (n == 0) {
        print_failed(way, n_parts);
        return;
    }
    double pairs = median(way->pairs, n), remote = median(way->remote, n),
           cpu_s = median(way->cpu_s, n);
    const size_t middle = metis != NULL ? metis->n / 2 : 0;
    const bool compares =
        metis != NULL && metis->n > 0 && metis->pairs[middle] > 0 && metis->remote[middle] > 0;
    const double pairs_ratio = compares ? pairs / metis->pairs[middle] : 0;
    const double share_ratio = compares ? remote / metis->remote[middle] : 0;
    const double cpu_ratio = compares ? cpu_s / metis->cpu_s[middle] : 0;
    double balance = median(way->balance, n);
    if (!args.json) {
        printf("%-13s %9.0f %8.4f %8.3f %8.3f", way->name, pairs, remote, balance, cpu_s);
        if (compares)
            printf("   %6.2f %6.2f %6.2f", pairs_ratio, share_ratio, cpu_ratio);
        putchar('\n');
        return;
    }
    printf("{\"bench\": \"partition\", \"method\": \"%s\", \"parts\": %u, \"repeats\": %zu, "
           "\"remote_pairs\": %.0f, "
           "\"remote_share\": %.6f, \"row_balance\": %.4f, \"cpu_s\": %.4f, \"cpu_s_min\": %.4f, "
           "\"cpu_s_max\": %.4f",
           way->name, n_parts, n, pairs, remote, balance, cpu_s, way->cpu_s[0], way->cpu_s[n - 1]);
    if (compares)
        printf(", \"pairs_of_metis\": %.4f, \"share_of_metis\": %.4f, \"cpu_of_metis\": %.4f",
               pairs_ratio, share_ratio, cpu_ratio);
    printf("}\n");
}

static bool compare(uint32_t n_parts, size_t first)
{
    static struct way runs[N_WAYS];
    memcpy(runs, ways, sizeof runs);
    for (int64_t repeat = 0; repeat < args.n_repeats; repeat++)
        for (size_t i = first; i < N_WAYS; i++)
            if (!run_way(&runs[i], n_parts, repeat) && !may_fail(&runs[i], repeat)) {
                complain("%s: %s", runs[i].name, task_error());
                return false;
            }
    if (!args.json)
        printf("%u parts           pairs   remote  balance    cpu s%s\n", n_parts,
               first == 0 ? "   of METIS: pairs, remote, cpu" : "");
    for (size_t i = first; i < N_WAYS; i++)
        print_way(&runs[i], first == 0 ? &runs[0] : NULL, n_parts);
    return flush_output();
}

int bench_partition_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (args.operands.n != 1) {
        complain("name one file: tern bench partition DATA");
        return EXIT_USAGE;
    }
    if (args.trains && args.sweeps) {
        complain("--train and --sweep are two measurements");
        return EXIT_USAGE;
    }
    if (args.sweeps) {
        const struct partition_sweep sweep = {.data = args.operands.at[0],
                                              .n_parts = (uint32_t)args.parts.at[0],
                                              .n_repeats = args.n_repeats,
                                              .seed = args.seed,
                                              .json = args.json};
        return partition_sweep(&sweep);
    }
    if (args.svg != NULL && !args.trains) {
        complain("--svg draws what --train measures");
        return EXIT_USAGE;
    }
    if (args.trains) {
        const struct partition_training training = {.data = args.operands.at[0],
                                                    .svg = args.svg,
                                                    .n_nodes = args.n_nodes,
                                                    .n_epochs = args.n_epochs,
                                                    .seed = args.seed,
                                                    .replicas = args.replicas,
                                                    .limit_s = args.limit_s,
                                                    .json = args.json};
        return partition_train(&training);
    }
    const size_t first = partition_has_metis() ? 0 : 2;
    if (first > 0)
        fprintf(
            stderr,
            "METIS is not installed, so nothing is compared with it; on Debian it is libmetis5\n");
    for (size_t i = 0; i < args.parts.n; i++)
        if (!compare((uint32_t)args.parts.at[i], first))
            return EXIT_FAILED;
    return EXIT_OK;
}
