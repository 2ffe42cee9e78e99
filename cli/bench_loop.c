/*
 * tern bench loop - the loop of one worker per node against one process with as many threads.
 *
 * In each step a worker signals intent for a later batch, pulls a batch, adds up its values, computes for a
 * given time and pushes (bench_workload.h). Nodes share no memory, unless --share is given: the loop measures what
 * Tern makes of a network. Cluster and single process take turns. With --hosts the nodes of each host share memory, and are
 * compared with a cluster of one node per host that has as many threads.
 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "bench_workload.h"
#include "command.h"
#include "options.h"
#include "quantile.h"
#include "steps.h"

enum { MAX_REPEATS = 99 };

static struct {
    bool json, share;
    int64_t n_nodes, n_hosts, n_threads, n_keys, length, batch, ahead, n_repeats, staleness;
    double seconds, warm_up;
    const char *link, *policy;
    struct int_list compute;
} args;

static struct link_speed speed; /* of args.link */

static const struct option options[] = {
    {"nodes", OPTION_INT, &args.n_nodes, "2", "N", "nodes of the cluster", .min = 1,
     .max = WORKLOAD_MAX_WORKERS, .group = "Cluster"},
    {"hosts", OPTION_INT, &args.n_hosts, "0", "H",
     "divide the nodes among H hosts, where they share memory, and compare with H nodes", .min = 0,
     .max = WORKLOAD_MAX_WORKERS},
    {"threads", OPTION_INT, &args.n_threads, "1", "N", "threads of each node", .min = 1,
     .max = WORKLOAD_MAX_WORKERS},
    {"link", OPTION_STRING, &args.link, .takes = "RATE[,DELAY]",
     .help = "make each node a host of its own, as 'tern run --link' does, such as 10gbit,0.1ms"},
    {"policy", OPTION_STRING, &args.policy, "adaptive", "NAME", .help = "policy of the table"},
    {"staleness", OPTION_INT, &args.staleness, "0", "MS",
     "age that replicas may have, in milliseconds; 0: Tern's default", .min = 0, .max = 1e6},
    {"share", OPTION_FLAG, &args.share, .help = "let the nodes share memory where they can"},
    {"compute", OPTION_INTS, &args.compute, "200", "LIST",
     "microseconds of CPU time to compute in each step", .min = 0, .max = 1e6, .group = "Workload"},
    {"len", OPTION_INT, &args.length, "32", "N", "floats of a value", .min = 1, .max = 65536,
     .aliases = "length"},
    {"keys", OPTION_INT, &args.n_keys, "1000000", "N", "keys of the table, drawn by Zipf(1.1)",
     .min = 100, .max = 1e9},
    {"batch", OPTION_INT, &args.batch, "100", "N", "keys of a step", .min = 1, .max = 10000},
    {"ahead", OPTION_INT, &args.ahead, "100", "N", "steps between intent and use; 0: no intent",
     .min = 0, .max = 10000},
    {"warm-up", OPTION_DOUBLE, &args.warm_up, "3", "S", "seconds before each measurement", .min = 0,
     .max = 600, .group = "Measurement"},
    {"seconds", OPTION_DOUBLE, &args.seconds, "2", "S", "seconds of each measurement", .min = 0.01,
     .max = 600},
    {"repeats", OPTION_INT, &args.n_repeats, "5", "N", "repeats, of which the median counts",
     .min = 1, .max = MAX_REPEATS},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object a line instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench loop",
    .about =
        "Runs a training loop without a model on a cluster whose nodes share no memory, and in "
        "one process with as many threads, in turns.",
    .notes =
        "In each step a worker signals intent for a later batch, pulls a batch, adds up its "
        "values, "
        "computes, and pushes whole numbers. At the end all values of the table are added up; if "
        "the sum is not what was pushed, the command fails.\n"
        "\n"
        "With --hosts H the comparison is with a cluster of H nodes that has a thread for each of "
        "the others, on the same links.\n"
        "\n"
        "cpu_us_per_step is the CPU time that all threads of the nodes take for a step, and "
        "cpu_ratio "
        "compares it with a single process. On a machine whose cores also do other work it says "
        "what ratio would without that, as long as no worker waits for another node.\n"
        "\n"
        "With --link a process of this host, the relay, plays the network, and takes CPU time "
        "from the nodes. relay_cores is how many cores it used, and ratio_less_relay is the ratio "
        "to a single process on the other cores.\n"
        "\n"
        "JSON fields: bench, policy, share, nodes, hosts, threads, compute_us, len, keys, batch, "
        "ahead, "
        "link, repeats; steps_s and single_steps_s (steps per second of the cluster and of "
        "what it is compared with), ratio (of these), cpu_us_per_step, cpu_ratio, remote_share (of "
        "accesses), "
        "bytes_per_batch, rounds_s "
        "(per node), staleness_ms_mean, relay_cores, ratio_less_relay, each the median over "
        "repeats; ratio_min, ratio_max, cpu_ratio_min, cpu_ratio_max, remote_share_min, "
        "remote_share_max, bytes_per_batch_min, "
        "bytes_per_batch_max; staleness_ms_p99; values_checked (by their sum, in each repeat).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

static struct workload workload_of(int64_t compute_us, bool is_base)
{
    const bool is_single = is_base && args.n_hosts == 0, is_merged = is_base && !is_single;
    const size_t n_nodes = (size_t)args.n_nodes, n_hosts = (size_t)args.n_hosts;
    const size_t n_threads = (size_t)args.n_threads;
    return (struct workload){.n_nodes = is_merged ? n_hosts : n_nodes,
                             .n_hosts = n_hosts,
                             .n_threads = is_merged ? n_threads * n_nodes / n_hosts : n_threads,
                             .policy = is_single ? NULL : args.policy,
                             .staleness_ms = (uint32_t)args.staleness,
                             .may_share = args.share,
                             .link = args.link != NULL ? &speed : NULL,
                             .keys = WORKLOAD_ZIPF_11,
                             .n_keys = (uint64_t)args.n_keys,
                             .ahead = (uint64_t)args.ahead,
                             .length = (uint32_t)args.length,
                             .batch = (size_t)args.batch,
                             .compute_us = (double)compute_us,
                             .warm_up_s = args.warm_up,
                             .seconds = args.seconds};
}

/* ---- Figures ------------------------------------------------------------------------------------ */

enum figure {
    STEPS_S,
    SINGLE_STEPS_S,
    RATIO,
    CPU_US_PER_STEP,
    CPU_RATIO,
    REMOTE_SHARE,
    BYTES_PER_BATCH,
    ROUNDS_S,
    STALENESS_MEAN,
    STALENESS_P99,
    RELAY_CORES,
    RATIO_LESS_RELAY,
    N_FIGURES,
};

struct spread {
    double median, min, max;
};

static double per(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void read_figures(const struct workload_figures *run, const struct workload_figures *single,
                         double figures[N_FIGURES])
{
    double n_cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    figures[STEPS_S] = run->steps_s;
    figures[SINGLE_STEPS_S] = single->steps_s;
    figures[RATIO] = per(run->steps_s, single->steps_s);
    figures[CPU_US_PER_STEP] = 1e6 * per(run->cpu_s, run->steps);
    figures[CPU_RATIO] = per(per(single->cpu_s, single->steps), per(run->cpu_s, run->steps));
    figures[REMOTE_SHARE] = per(run->remote, run->accesses);
    figures[BYTES_PER_BATCH] = per(run->bytes, run->steps);
    figures[ROUNDS_S] = run->rounds_s;
    figures[STALENESS_MEAN] = run->staleness_ms_mean;
    figures[STALENESS_P99] = run->staleness_ms_p99;
    figures[RELAY_CORES] = run->relay_cores;
    figures[RATIO_LESS_RELAY] = figures[RATIO] * per(n_cores, n_cores - run->relay_cores);
}

static void print_json(int64_t compute_us, const struct spread *of, double n_checked)
{
    printf(
        "{\"bench\":\"loop\",\"policy\":\"%s\",\"share\":%s,\"nodes\":%" PRId64
        ",\"hosts\":%" PRId64 ",\"threads\":%" PRId64 ",\"compute_us\":%" PRId64 ",\"len\":%" PRId64
        ",\"keys\":%" PRId64 ",\"batch\":%" PRId64 ",\"ahead\":%" PRId64 ",\"link\":%s%s%s"
        ",\"repeats\":%" PRId64,
        args.policy, args.share ? "true" : "false", args.n_nodes, args.n_hosts, args.n_threads,
        compute_us, args.length, args.n_keys, args.batch, args.ahead, args.link != NULL ? "\"" : "",
        args.link != NULL ? args.link : "null", args.link != NULL ? "\"" : "", args.n_repeats);
    printf(",\"cpu_us_per_step\":%.2f,\"cpu_ratio\":%.4f,\"cpu_ratio_min\":%.4f"
           ",\"cpu_ratio_max\":%.4f",
           of[CPU_US_PER_STEP].median, of[CPU_RATIO].median, of[CPU_RATIO].min, of[CPU_RATIO].max);
    printf(",\"steps_s\":%.1f,\"single_steps_s\":%.1f,\"ratio\":%.4f,\"ratio_min\":%.4f"
           ",\"ratio_max\":%.4f,\"remote_share\":%.8f,\"remote_share_min\":%.8f"
           ",\"remote_share_max\":%.8f",
           of[STEPS_S].median, of[SINGLE_STEPS_S].median, of[RATIO].median, of[RATIO].min,
           of[RATIO].max, of[REMOTE_SHARE].median, of[REMOTE_SHARE].min, of[REMOTE_SHARE].max);
    printf(",\"bytes_per_batch\":%.1f,\"bytes_per_batch_min\":%.1f,\"bytes_per_batch_max\":%.1f"
           ",\"rounds_s\":%.1f,\"staleness_ms_mean\":%.3f,\"staleness_ms_p99\":%.3f"
           ",\"relay_cores\":%.3f,\"ratio_less_relay\":%.4f,\"values_checked\":%.0f}\n",
           of[BYTES_PER_BATCH].median, of[BYTES_PER_BATCH].min, of[BYTES_PER_BATCH].max,
           of[ROUNDS_S].median, of[STALENESS_MEAN].median, of[STALENESS_P99].median,
           of[RELAY_CORES].median, of[RATIO_LESS_RELAY].median, n_checked);
}

static void print_heading(void)
{
    struct workload base = workload_of(0, true);
    if (base.policy == NULL)
        base = (struct workload){.n_nodes = 1, .n_threads = base.n_nodes * base.n_threads};
    printf("%" PRId64 " x %" PRId64 " threads under %s%s against %zu x %zu"
           ";\nmedians of %" PRId64 "\n\n  %7s %7s %6s %11s %6s %9s %7s %7s %6s\n",
           args.n_nodes, args.n_threads, args.policy,
           args.n_hosts > 0 ? " on hosts with shared memory"
           : args.share     ? ""
                            : ", no shared memory",
           base.n_nodes, base.n_threads, args.n_repeats, "compute", "steps/s", "ratio", "spread",
           "CPU", "remote", "B/batch", "rounds", "stale");
}

static void print_row(int64_t compute_us, const struct spread *of)
{
    printf("  %4" PRId64 " us %7.0f %6.3f %5.3f-%5.3f %6.3f %9.7f %7.0f %7.0f %6.2f\n", compute_us,
           of[STEPS_S].median, of[RATIO].median, of[RATIO].min, of[RATIO].max, of[CPU_RATIO].median,
           of[REMOTE_SHARE].median, of[BYTES_PER_BATCH].median, of[ROUNDS_S].median,
           of[STALENESS_MEAN].median);
    if (args.link != NULL)
        printf("    the relay took %.2f cores; ratio to the other cores: %.3f\n",
               of[RELAY_CORES].median, of[RATIO_LESS_RELAY].median);
}

/* ---- Runs --------------------------------------------------------------------------------------- */

static bool run_one(int64_t compute_us)
{
    static double figures[N_FIGURES][MAX_REPEATS];
    struct spread spreads[N_FIGURES];
    struct workload single = workload_of(compute_us, true),
                    cluster = workload_of(compute_us, false);
    struct workload_figures alone, together;
    size_t n = (size_t)args.n_repeats;
    for (size_t r = 0; r < n; r++) {
        double of[N_FIGURES];
        steps_next("%" PRId64 " us, repeat %zu, %s", compute_us, r + 1,
                   args.n_hosts > 0 ? "one node per host" : "one process");
        if (!workload_run(&single, &alone))
            return false;
        steps_next("%" PRId64 " us, repeat %zu, %" PRId64 " nodes", compute_us, r + 1,
                   args.n_nodes);
        if (!workload_run(&cluster, &together))
            return false;
        read_figures(&together, &alone, of);
        for (size_t i = 0; i < N_FIGURES; i++)
            figures[i][r] = of[i];
    }
    for (size_t i = 0; i < N_FIGURES; i++) {
        spreads[i].median = median(figures[i], n); /* and sorted */
        spreads[i].min = figures[i][0];
        spreads[i].max = figures[i][n - 1];
    }
    steps_end();
    if (args.json)
        print_json(compute_us, spreads, together.n_checked);
    else
        print_row(compute_us, spreads);
    return flush_output();
}

int bench_loop_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (args.link != NULL && !link_parse(args.link, &speed))
        return EXIT_USAGE;
    if (args.n_nodes * args.n_threads > WORKLOAD_MAX_WORKERS) {
        complain("--nodes times --threads is %" PRId64 "; at most %d are possible",
                 args.n_nodes * args.n_threads, WORKLOAD_MAX_WORKERS);
        return EXIT_USAGE;
    }
    if (args.n_hosts > 0 && args.n_nodes % args.n_hosts != 0) {
        complain("--nodes %" PRId64 " cannot be divided among --hosts %" PRId64, args.n_nodes,
                 args.n_hosts);
        return EXIT_USAGE;
    }
    if (!args.json)
        print_heading();
    steps_begin(2 * (size_t)args.n_repeats * args.compute.n);
    for (size_t i = 0; i < args.compute.n; i++)
        if (!run_one(args.compute.at[i]))
            return EXIT_FAILED;
    return EXIT_OK;
}
