/*
 * tern bench manage - one workload (bench_workload.h) under every policy, against a single node.
 *
 * The baseline is one process with as many threads as the cluster has workers, on the same keys, in the same
 * run.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "bench_workload.h"
#include "command.h"
#include "options.h"
#include "quantile.h"
#include "steps.h"

enum { BATCH = 100, MAX_REPEATS = 99 };

/* In the order of enum workload_keys. */
static const char *const dist_names[] = {"zipf", "uniform", "local", "ranked", NULL};

static struct {
    bool json, scatter;
    int64_t n_nodes, n_hosts, n_keys, length, n_repeats, localize, staleness;
    double seconds, warm_up, hot;
    const char *link;
    struct string_list policies, dists;
    struct int_list ahead;
} args;

static struct link_speed speed; /* of args.link */

static const struct option options[] = {
    {"nodes", OPTION_INT, &args.n_nodes, "2", "N", "nodes, with one worker each", .min = 1,
     .max = WORKLOAD_MAX_WORKERS},
    {"link", OPTION_STRING, &args.link, .takes = "RATE[,DELAY]",
     .help = "make each node a host of its own, as 'tern run --link' does, such as 1gbit,0.1ms"},
    {"hosts", OPTION_INT, &args.n_hosts, "0", "H",
     "divide the nodes among H hosts: under all policies but adaptive-apart those of a host share "
     "memory",
     .min = 0, .max = WORKLOAD_MAX_WORKERS},
    {"policies", OPTION_STRINGS, &args.policies,
     "adaptive,adaptive-apart,adaptive-replicate,adaptive-relocate,static", "LIST",
     .help = "policies to compare; only 'adaptive' shares memory among the nodes of one host; "
             "'adaptive-apart' is the same policy without sharing"},
    {"dists", OPTION_STRINGS, &args.dists, "zipf", "LIST",
     "how keys are drawn: zipf (exponent 1), uniform, local (90 % from a tenth of the node's own), "
     "ranked (exponent 1.1, key 0 most often)",
     .choices = dist_names},
    {"scatter", OPTION_FLAG, &args.scatter,
     .help = "deal out the homes of keys to the nodes one by one, instead of a range for each"},
    {"ahead", OPTION_INTS, &args.ahead, "100", "LIST", "batches between intent and use", .min = 0,
     .max = 10000},
    {"localize", OPTION_INT, &args.localize, "30", "N",
     "batches between tern_localize_start and use, for policies relocate and multi", .min = 0,
     .max = 10000},
    {"hot", OPTION_DOUBLE, &args.hot, "100", "FACTOR",
     "policy multi replicates keys that are used more than so many times as often as the average",
     .min = 0.001, .max = 1e9},
    {"staleness", OPTION_INT, &args.staleness, "0", "MS",
     "milliseconds that replicas may be old, for policies that have some; 0: Tern's default",
     .min = 0, .max = 1e6},
    {"keys", OPTION_INT, &args.n_keys, "1000000", "N", "keys of the table", .min = 100, .max = 1e9},
    {"length", OPTION_INT, &args.length, "128", "N", "floats of a value", .min = 1, .max = 65536,
     .aliases = "len"},
    {"warm-up", OPTION_DOUBLE, &args.warm_up, "5", "S", "seconds before the measurement", .min = 0,
     .max = 600},
    {"seconds", OPTION_DOUBLE, &args.seconds, "2", "S", "seconds of each measurement", .min = 0.01,
     .max = 600},
    {"repeats", OPTION_INT, &args.n_repeats, "5", "N", "repeats, of which the median counts",
     .min = 1, .max = MAX_REPEATS},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object a line instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench manage",
    .about = "Runs one workload under each policy, and in one process with as many threads.",
    .notes = "JSON fields: bench, policy, dist, nodes, hosts, ahead, accesses_s, "
             "single_node_accesses_s, "
             "ratio (of these; the median over repeats, with ratio_min and ratio_max), "
             "remote_share (of accesses), bytes_per_access, staleness_ms_mean, staleness_ms_p99, "
             "scatter, "
             "busiest (what the node sent on its link that sent most, over the mean; 0: no links).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

/* A row of the table: a policy with one look-ahead. */
struct row {
    const char *policy;
    struct workload workload;
    struct workload_figures runs[MAX_REPEATS];
};

static bool has_replicas(const char *policy)
{
    static const char *const without[] = {"static", "relocate", "adaptive-relocate"};
    bool has = true;
    for (size_t i = 0; policy != NULL && i < sizeof without / sizeof *without; i++)
        has &= strcmp(policy, without[i]) != 0;
    return has;
}

static struct workload workload_of(enum workload_keys keys, const char *policy, int64_t ahead)
{
    bool shares_nothing = policy != NULL && strcmp(policy, "adaptive-apart") == 0;
    return (struct workload){.n_nodes = (size_t)args.n_nodes,
                             .n_threads = 1,
                             .n_hosts = shares_nothing ? 0 : (size_t)args.n_hosts,
                             .policy = shares_nothing ? "adaptive" : policy,
                             .may_share = policy != NULL && strcmp(policy, "adaptive") == 0,
                             .link = args.link != NULL ? &speed : NULL,
                             .scatter = args.scatter && policy != NULL,
                             .keys = keys,
                             .n_keys = (uint64_t)args.n_keys,
                             .ahead = (uint64_t)ahead,
                             .localize_ahead = (uint64_t)args.localize,
                             .hot_factor = args.hot,
                             .staleness_ms = has_replicas(policy) ? (uint32_t)args.staleness : 0,
                             .length = (uint32_t)args.length,
                             .batch = BATCH,
                             .gradient = true,
                             .warm_up_s = args.warm_up,
                             .seconds = args.seconds};
}

static double per(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void print_row(const struct row *row, const struct workload_figures *singles)
{
    size_t n = (size_t)args.n_repeats;
    double rate[MAX_REPEATS], single[MAX_REPEATS], ratio[MAX_REPEATS], remote[MAX_REPEATS],
        bytes[MAX_REPEATS], mean[MAX_REPEATS], p99[MAX_REPEATS], busiest[MAX_REPEATS];
    for (size_t i = 0; i < n; i++) {
        const struct workload_figures *run = &row->runs[i];
        rate[i] = 2 * BATCH * run->steps_s;
        single[i] = 2 * BATCH * singles[i].steps_s;
        ratio[i] = per(rate[i], single[i]);
        remote[i] = per(run->remote, run->accesses);
        bytes[i] = per(run->bytes, run->accesses);
        mean[i] = run->staleness_ms_mean;
        p99[i] = run->staleness_ms_p99;
        busiest[i] = run->busiest;
    }
    double middle = median(ratio, n); /* and sorted */
    if (args.json)
        printf("{\"bench\":\"manage\",\"policy\":\"%s\",\"dist\":\"%s\",\"nodes\":%lld,"
               "\"hosts\":%lld,\"ahead\":%llu,\"accesses_s\":%.0f,\"single_node_accesses_s\":%.0f,"
               "\"ratio\":%.4f,\"ratio_min\":%.4f,\"ratio_max\":%.4f,\"remote_share\":%.7f,"
               "\"bytes_per_access\":%.2f,\"staleness_ms_mean\":%.3f,\"staleness_ms_p99\":%.3f,"
               "\"scatter\":%s,\"busiest\":%.3f}\n",
               row->policy, dist_names[row->workload.keys], (long long)args.n_nodes,
               (long long)row->workload.n_hosts, (unsigned long long)row->workload.ahead,
               median(rate, n), median(single, n), middle, ratio[0], ratio[n - 1],
               median(remote, n), median(bytes, n), median(mean, n), median(p99, n),
               row->workload.scatter ? "true" : "false", median(busiest, n));
    else
        printf("  %-18s %5llu %6.2f %5.3f %.3f-%.3f %8.6f %6.1f %5.2f %6.2f\n", row->policy,
               (unsigned long long)row->workload.ahead, median(rate, n) / 1e6, middle, ratio[0],
               ratio[n - 1], median(remote, n), median(bytes, n), median(mean, n), median(p99, n));
}

static void print_heading(enum workload_keys keys)
{
    if (args.json)
        return;
    printf("%s keys; accesses in millions per second, and as a ratio to one process\n\n"
           "  %-18s %5s %6s %5s %11s %8s %6s %5s %6s\n",
           dist_names[keys], "policy", "ahead", "M/s", "ratio", "spread", "remote", "bytes",
           "stale", "p99 ms");
}

/* All policies with keys of one distribution. Repeats go round all of them, so that slow changes of the
 * machine meet all alike. */
static bool run_all(enum workload_keys keys)
{
    enum { MAX_ROWS = 256 };
    static struct row rows[MAX_ROWS];
    static struct workload_figures singles[MAX_REPEATS];
    struct workload single = workload_of(keys, NULL, 0);
    size_t n_repeats = (size_t)args.n_repeats, n_rows = args.policies.n * args.ahead.n;
    if (n_rows > MAX_ROWS) {
        complain("that would be %zu rows; at most %d", n_rows, MAX_ROWS);
        return false;
    }
    for (size_t i = 0; i < n_rows; i++) {
        rows[i].policy = args.policies.at[i / args.ahead.n];
        rows[i].workload = workload_of(keys, rows[i].policy, args.ahead.at[i % args.ahead.n]);
    }
    bool ok = true;
    for (size_t r = 0; ok && r < n_repeats; r++) {
        steps_next("repeat %zu, one process", r + 1);
        ok = workload_run(&single, &singles[r]);
        for (size_t i = 0; ok && i < n_rows; i++) {
            steps_next("repeat %zu, %s", r + 1, rows[i].policy);
            ok = workload_run(&rows[i].workload, &rows[i].runs[r]);
        }
    }
    steps_end();
    if (ok)
        print_heading(keys);
    for (size_t i = 0; ok && i < n_rows; i++)
        print_row(&rows[i], singles);
    return ok && flush_output();
}

int bench_manage_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (args.link != NULL && !link_parse(args.link, &speed))
        return EXIT_USAGE;
    if (args.n_hosts > args.n_nodes) {
        complain("--hosts %lld is more than --nodes %lld", (long long)args.n_hosts,
                 (long long)args.n_nodes);
        return EXIT_USAGE;
    }
    steps_begin((size_t)args.n_repeats * args.dists.n * (1 + args.policies.n * args.ahead.n));
    for (size_t i = 0; i < args.dists.n; i++)
        if (!run_all((enum workload_keys)args.dists.choice[i]))
            return EXIT_FAILED;
    return EXIT_OK;
}
