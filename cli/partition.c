/*
 * tern partition - divides data and the parameters they use, such that parts share few parameters.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "options.h"
#include "partition/partition.h"

static struct train_options shared_args;
static struct partition_options args;
static const char *method, *homes, *balance, *format;
static struct operand_list operands;

/* In the order of the enumerations that they stand for. */
static const char *const methods[] = {"auto", "parsa", "hybrid", "random", "metis", NULL};
static const char *const home_rules[] = {"used", "balanced", NULL};
static const char *const balances[] = {"rows", "entries", NULL};
static const char *const formats[] = {"auto",  "edges",   "lists", "graph", "libsvm",
                                      "words", "triples", "bags",  NULL};

static const struct option options[] = {
    {"parts", OPTION_INT, &args.n_parts, "8", "N", "parts to make", .min = 1, .max = MAX_PARTS},
    {"method", OPTION_STRING, &method, "auto", "NAME",
     "how rows are assigned: auto, parsa, hybrid, random or metis", .choices = methods},
    {"homes", OPTION_STRING, &homes, "used", "RULE",
     "the home of a key: where it is used most (used), or so that all parts send about "
     "the same amount (balanced, Algorithm 11)",
     .choices = home_rules},
    {"replicas", OPTION_DOUBLE, &args.replicas, "0", "SHARE",
     "share of all keys, the most used ones, that each part has replicas of", .min = 0, .max = 1},
    {"balance", OPTION_STRING, &balance, "rows", "WHAT",
     "what the parts have the same number of, within 5 %: rows or entries", .choices = balances},
    {"format", OPTION_STRING, &format, "auto", "NAME",
     "of DATA: edges, lists, graph, libsvm, words, triples or bags; auto goes by the file's name",
     .choices = formats},
    {"undirected", OPTION_FLAG, &args.both_ways, .help = "an edge a b also makes a a key of row b"},
    {"out", OPTION_STRING, &shared_args.out, .takes = "DIR", .help = "where the parts are written"},
    {"split", OPTION_FLAG, &args.split,
     .help = "with --out: also the lines of DATA, in a file for each part"},
    {"resume", OPTION_STRING, &shared_args.resume, .takes = "DIR",
     .help = "begin with the neighbour sets of an earlier partition, for data that came later"},
    {"blocks", OPTION_INT, &args.n_blocks, "0", "N", "blocks that rows are assigned in; 0: by size",
     .min = 0, .max = GRANULES},
    {"initial", OPTION_INT, &args.n_initial, "8", "N",
     "blocks that are assigned first, only for good neighbour sets to begin with", .min = 0,
     .max = GRANULES},
    {"delay", OPTION_INT, &args.delay, "-1", "N",
     "blocks that a worker may begin before its pushes are confirmed; -1: any number", .min = -1,
     .max = 1e6},
    {"passes", OPTION_INT, &args.n_passes, "-1", "N",
     "passes of 'auto' that move rows, or rounds of 'hybrid'; -1: at most 5, and 6 of 'auto' "
     "with more than 8 parts",
     .min = -1, .max = 1000},
    {"hosts", OPTION_STRING, &args.hosts, .takes = "HxP",
     .help = "for 'hybrid': H hosts with P parts each; links between hosts cost ten times as much"},
    {"links", OPTION_STRING, &args.links, .takes = "FILE",
     .help = "for 'hybrid': what links cost, a line for each part with a number for each part"},
    {"by-volume", OPTION_FLAG, &args.by_volume,
     .help = "for 'metis': minimise the volume of communication, not the edge cut"},
    {"memory", OPTION_INT, &args.memory_mib, "256", "MIB",
     "of entries kept in memory; the rest goes to a temporary file", .min = 1, .max = 1e9},
    {"threads", OPTION_INT, &shared_args.n_threads, "1", "N", "threads of this node", .min = 1,
     .max = 1024},
    {"policy", OPTION_STRING, &shared_args.policy, .takes = "NAME",
     .help = "how several nodes manage the neighbour sets; Tern's default unless given"},
    {"seed", OPTION_INT, &shared_args.seed, "1", "S", "where the random numbers begin", .min = 0,
     .max = 1e15},
    {"json", OPTION_FLAG, &shared_args.json, .help = "one JSON object instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern partition",
    .about = "Divides the rows of DATA into parts that share few keys, and gives each key a home.\n"
             "A row is an example, a user or a vertex; its keys are the parameters that it uses.",
    .notes =
        "Methods: parsa (Chapter 9 of Li's thesis); auto (parsa, then single rows are moved where "
        "that\n"
        "saves remote pairs); hybrid (Algorithm 1 of HET-GMP); random; metis (if libmetis5 is "
        "there).\n"
        "\n"
        "Formats: edges (a row and a key per line), lists (a row, then its keys), graph (METIS'),\n"
        "libsvm, words (a row per line; keys are hashes of its words), triples (of a knowledge\n"
        "graph), bags (documents as docword or lda-c). Plain, gzip or zstd.\n"
        "\n"
        "Several nodes: tern run -n 4 -- tern partition ... Each reads the file.\n"
        "\n"
        "Files in DIR: rows.txt, keys.npy, homes.npy, frequencies.npy, sets.npy, "
        "replica_keys.npy,\n"
        "replica_parts.npy, partition.txt; with --split part-0000.txt and so on.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "DATA",
    .given = &operands,
};

static void print_json(const struct partition_report *report)
{
    printf("{\"method\": \"%s\", \"parts\": %u, \"seed\": %" PRId64
           ", \"nodes\": %u, \"threads\": %" PRId64 ", \"version\": \"%s\", \"rows\": %" PRIu64
           ", \"keys\": %" PRIu64 ", \"entries\": %" PRIu64 ", ",
           method, report->n_parts, shared_args.seed, report->n_nodes, shared_args.n_threads,
           tern_version(), report->n_rows, report->n_keys, report->n_entries);
    printf("\"remote_pairs\": %" PRIu64 ", \"remote_share\": %.6f, \"remote_share_once\": %.6f, "
           "\"remote_share_with_replicas\": %.6f, "
           "\"replicas\": %" PRIu64 ", \"m_max\": %" PRIu64 ", \"t_max\": %" PRIu64
           ", \"t_sum\": %" PRIu64 ", ",
           report->n_pairs, report->remote, report->remote_once, report->remote_with_replicas,
           report->n_replicas, report->max_keys, report->max_traffic, report->sum_traffic);
    printf("\"row_balance\": %.4f, \"entry_balance\": %.4f, \"home_balance\": %.4f, \"passes\": "
           "%" PRIu64 ", \"moved\": %" PRIu64
           ", \"read_s\": %.3f, \"partition_s\": %.4f, \"cpu_s\": %.4f, \"peak_mib\": %.1f}\n",
           report->row_balance, report->entry_balance, report->home_balance, report->n_passes,
           report->n_moved, report->read_s, report->assign_s, report->cpu_s, report->peak_mib);
}

static void print_table(const struct partition_report *report)
{
    printf("%" PRIu64 " rows use %" PRIu64 " keys in %" PRIu64 " entries; %s, %u parts\n",
           report->n_rows, report->n_keys, report->n_entries, method, report->n_parts);
    printf("  remote pairs              %10" PRIu64 "\n", report->n_pairs);
    printf("  remote share of accesses  %10.4f\n", report->remote);
    if (report->n_replicas > 0)
        printf("  with %8" PRIu64 " replicas    %10.4f\n", report->n_replicas,
               report->remote_with_replicas);
    printf("  once for each part        %10.4f\n", report->remote_once);
    printf("  keys of a part, at most   %10" PRIu64 "\n", report->max_keys);
    printf("  traffic of a part, most   %10" PRIu64 "   of all parts %" PRIu64 "\n",
           report->max_traffic, report->sum_traffic);
    printf("  largest part over mean    %10.3f rows, %.3f entries, %.3f homes\n",
           report->row_balance, report->entry_balance, report->home_balance);
    printf("  %.2f s to read, %.2f s to partition (%.2f s of processor time), %.0f MiB\n",
           report->read_s, report->assign_s, report->cpu_s, report->peak_mib);
}

/* A row with too many entries makes parts of like entries impossible. */
static void explain_imbalance(const struct partition_report *report)
{
    double mean = (double)report->n_entries / report->n_parts;
    if (args.balance == BALANCE_ENTRIES && report->entry_balance > 1.05 &&
        (double)report->largest_entries > 0.05 * mean)
        fprintf(stderr,
                "tern: the parts differ by more than 5 %%: row %" PRIu64 " alone has %" PRIu64
                " entries, where the mean of a part is %.0f\n",
                report->largest_row, report->largest_entries, mean);
}

static size_t index_of(const char *name, const char *const *names)
{
    size_t i = 0;
    while (strcmp(name, names[i]) != 0)
        i++;
    return i;
}

int partition_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (operands.n != 1) {
        complain("name one file: tern partition --parts 8 DATA --out DIR");
        return EXIT_USAGE;
    }
    shared_args.data = operands.at[0];
    if (args.split && shared_args.out == NULL) {
        complain("--split writes files: where? --out DIR");
        return EXIT_USAGE;
    }
    if ((args.hosts != NULL || args.links != NULL) &&
        (strcmp(method, "hybrid") != 0 || (args.hosts != NULL && args.links != NULL))) {
        complain("one of --hosts and --links is for --method hybrid, the one that knows of links");
        return EXIT_USAGE;
    }
    args.method = (enum partition_method)index_of(method, methods);
    args.homes = (enum partition_homes)index_of(homes, home_rules);
    args.balance = (enum balance)index_of(balance, balances);
    args.format = (enum read_format)index_of(format, formats);
    struct partition_report report = {0};
    if (!partition_run(&shared_args, &args, &report)) {
        if (task_error()[0] != '\0')
            complain("%s", task_error());
        return EXIT_FAILED;
    }
    if (report.n_parts == 0) /* node 0 speaks */
        return EXIT_OK;
    if (shared_args.json)
        print_json(&report);
    else
        print_table(&report);
    explain_imbalance(&report);
    return EXIT_OK;
}
