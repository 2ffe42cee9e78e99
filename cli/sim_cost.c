/*
 * tern sim --cost - predicts how fast clusters of many nodes are, and what limits them.
 *
 * The simulated nodes run the code of real ones on virtual time, which passes by what their work costs on this machine: that is
 * measured first. Clusters that fit here are run for real as well, by the workload of `tern bench loop`, and are predicted with
 * the cores of this machine shared as they then are. Larger ones are predicted with a core for each node.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_workload.h"
#include "command.h"
#include "keys.h"
#include "options.h"
#include "quantile.h"
#include "sim_cost.h"
#include "steps.h"

/* ---- Options --------------------------------------------------------------------------------- */

enum { MAX_REPEATS = 15, LINKLESS_DELAY_NS = 1000, MANY_NODES = 64 };

static struct {
    bool is_cost, json;
    const char *policy, *link, *svg;
    struct int_list nodes, real;
    int64_t staleness, compute, length, n_keys, batch, ahead, n_steps, n_repeats;
    double warm_up, seconds;
} args;

static struct link_speed speed; /* of args.link */

static const struct option options[] = {
    {"cost", OPTION_FLAG, &args.is_cost, .help = "predict the speed of clusters",
     .group = "Cluster"},
    {"nodes", OPTION_INTS, &args.nodes, "1,2,4,8,16,32,64,128,256", "LIST",
     "numbers of nodes to predict; each has one worker on a core of its own", .min = 1,
     .max = TERN_SIM_COST_MAX_NODES},
    {"real", OPTION_INTS, &args.real, "2,4", "LIST",
     "numbers of nodes that are also run on this machine, to compare; 0: none", .min = 0,
     .max = WORKLOAD_MAX_WORKERS},
    {"link", OPTION_STRING, &args.link, .takes = "RATE[,DELAY]",
     .help = "links between the nodes, such as 10gbit,0.1ms; unless given, as on one host"},
    {"policy", OPTION_STRING, &args.policy, "adaptive", "NAME",
     .help = "policy of the table; its keys stay at home or move"},
    {"staleness", OPTION_INT, &args.staleness, "0", "MS",
     "age that replicas may have, in milliseconds; 0: Tern's default", .min = 0, .max = 1e6},
    {"compute", OPTION_INT, &args.compute, "200", "US",
     "microseconds of CPU time to compute in each step", .min = 0, .max = 1e6, .group = "Workload"},
    {"len", OPTION_INT, &args.length, "32", "N", "floats of a value", .min = 1, .max = 65536,
     .aliases = "length"},
    {"keys", OPTION_INT, &args.n_keys, "1000000", "N", "keys of the table, drawn by Zipf(1.1)",
     .min = 100, .max = 1e9},
    {"batch", OPTION_INT, &args.batch, "100", "N", "keys of a step", .min = 1,
     .max = TERN_SIM_COST_MAX_BATCH},
    {"ahead", OPTION_INT, &args.ahead, "100", "N", "steps between intent and use; 0: no intent",
     .min = 0, .max = 10000},
    {"steps", OPTION_INT, &args.n_steps, "20000", "N",
     "steps of all workers that are measured, 100 to 2000 of each; as many go before", .min = 1,
     .max = 1e9, .group = "Measurement"},
    {"warm-up", OPTION_DOUBLE, &args.warm_up, "2", "S", "seconds before each real measurement",
     .min = 0, .max = 600},
    {"seconds", OPTION_DOUBLE, &args.seconds, "1", "S", "seconds of each real measurement",
     .min = 0.01, .max = 600},
    {"repeats", OPTION_INT, &args.n_repeats, "3", "N", "real runs, of which the median counts",
     .min = 1, .max = MAX_REPEATS},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object a line instead of tables"},
    {"svg", OPTION_STRING, &args.svg, .takes = "FILE", .help = "draw the speed-up to FILE"},
};

static const struct option_set option_set = {
    .program = "tern sim --cost",
    .about = "Predicts time, bytes and speed-up of clusters of up to thousands of nodes. Simulated "
             "nodes run the code of real ones on virtual time, with costs that are measured first.",
    .notes =
        "Each worker runs the loop of 'tern bench loop'. First one node runs it for real without "
        "computing, which gives the base of each speed-up, and the costs of rounds, messages and "
        "keys are measured. "
        "Then the clusters of --real run, and are predicted with the cores of this machine; a "
        "relay of --link takes what it took in the real run. CPU is the error of the CPU time of a "
        "step, which waiting for others that use the cores does not change. Then those of --nodes "
        "are predicted.\n"
        "\n"
        "The limit is what takes most time beside the steps themselves: rounds (wanting keys, "
        "making "
        "and serving messages), transfer (sending and receiving them), waits (for answers); or the "
        "link, if that of the busiest node is in use for 90 % of the time.\n"
        "\n"
        "JSON fields: sim, what (costs, real or prediction); costs in ns: step, access, signal, "
        "intent, round, peer, change, message, key, row, look, transfer, byte, and slice_ns; "
        "real: nodes, "
        "cores, steps_s, predicted_steps_s, time_error, bytes_per_step, predicted_bytes_per_step, "
        "bytes_error, remote_share, predicted_remote_share, relay_cores, cpu_us_per_step, "
        "predicted_cpu_us_per_step, cpu_error; prediction: nodes, "
        "steps_s, speedup, bytes_per_step, remote_share, messages_per_step, rounds_s, "
        "staleness_ms, step_us, rounds_us, transfer_us, wait_us, link_mean, link_busiest, limit. "
        "An error is the prediction over the real run, less 1.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

/* ---- The workload ------------------------------------------------------------------------------ */

struct bench {
    struct key_law law;
    struct tern_sim_costs costs;
    size_t n_cores;
    uint64_t slice_ns;
    int64_t predicted; /* the number of nodes, and */
    uint64_t n_total;  /* of steps, for progress */
};

static void draw(void *context, uint32_t worker, uint64_t step, uint64_t *keys)
{
    const struct bench *bench = context;
    const uint64_t batch = (uint64_t)args.batch;
    for (uint64_t i = 0; i < batch; i++)
        keys[i] = key_law_draw(&bench->law, keys_unit(worker, step * batch + i));
}

static uint64_t total_steps(const struct tern_sim_workload *workload)
{
    return workload->n_nodes * (workload->n_warm_up + workload->n_steps);
}

static void show_progress(void *context, uint64_t n_done)
{
    const struct bench *bench = context;
    const uint64_t n_total = bench->n_total; /* nodes go on until all have been measured */
    steps_at((size_t)(n_done < n_total ? n_done : n_total), "steps of %" PRId64 " nodes",
             bench->predicted);
}

static struct tern_sim_workload workload_of(struct bench *bench, int64_t n_nodes, bool is_here)
{
    enum { LEAST_STEPS = 100, MOST_STEPS = 2000 };
    const int64_t wanted = args.n_steps / n_nodes, most = wanted < MOST_STEPS ? wanted : MOST_STEPS;
    const int64_t n_steps = most > LEAST_STEPS ? most : LEAST_STEPS;
    bench->predicted = n_nodes;
    return (struct tern_sim_workload){.struct_size = sizeof(struct tern_sim_workload),
                                      .n_nodes = (uint32_t)n_nodes,
                                      .n_cores = is_here ? (uint32_t)bench->n_cores : 0,
                                      .slice_ns = bench->slice_ns,
                                      .policy = args.policy,
                                      .is_sparse = n_nodes > MANY_NODES,
                                      .n_keys = (uint64_t)args.n_keys,
                                      .length = (uint32_t)args.length,
                                      .batch = (uint32_t)args.batch,
                                      .ahead = (uint64_t)args.ahead,
                                      .staleness_ms = (uint32_t)args.staleness,
                                      .compute_ns = (uint64_t)args.compute * 1000,
                                      .ns_per_byte = args.link != NULL ? speed.ns_per_byte : 0,
                                      .delay_ns =
                                          args.link != NULL ? speed.delay_ns : LINKLESS_DELAY_NS,
                                      .n_warm_up = (uint64_t)n_steps,
                                      .n_steps = (uint64_t)n_steps,
                                      .costs = bench->costs,
                                      .draw = draw,
                                      .progress = steps_are_shown() ? show_progress : NULL,
                                      .context = bench};
}

static bool predict(struct bench *bench, int64_t n_nodes, bool is_here,
                    struct tern_sim_prediction *prediction)
{
    const struct tern_sim_workload workload = workload_of(bench, n_nodes, is_here);
    *prediction = (struct tern_sim_prediction){.struct_size = sizeof *prediction};
    bench->n_total = total_steps(&workload);
    steps_begin((size_t)bench->n_total);
    const enum tern_status status = tern_sim_predict(&workload, prediction);
    steps_end();
    return !status || (complain_tern("a prediction"), false);
}

/* ---- Real runs --------------------------------------------------------------------------------- */

/* The loop for real. Each worker stays on a core. A single node does not compute: what its steps take beside that is measured. */
static bool run_loop(int64_t n_nodes, struct workload_figures *figures)
{
    const struct workload workload = {.n_nodes = (size_t)n_nodes,
                                      .n_threads = 1,
                                      .policy = args.policy,
                                      .staleness_ms = (uint32_t)args.staleness,
                                      .link = args.link != NULL && n_nodes > 1 ? &speed : NULL,
                                      .keys = WORKLOAD_ZIPF_11,
                                      .n_keys = (uint64_t)args.n_keys,
                                      .ahead = (uint64_t)args.ahead,
                                      .length = (uint32_t)args.length,
                                      .batch = (size_t)args.batch,
                                      .compute_us = n_nodes > 1 ? (double)args.compute : 0,
                                      .warm_up_s = args.warm_up,
                                      .seconds = args.seconds};
    return workload_run(&workload, figures);
}

enum { STEPS_S, BYTES, REMOTE, RELAY, CPU_US, N_MEASURED };

struct real_row {
    int64_t n_nodes;
    double measured[N_MEASURED][MAX_REPEATS];
};

static size_t count_real(void)
{
    size_t n = 0;
    for (size_t i = 0; i < args.real.n; i++)
        n += args.real.at[i] > 0;
    return n;
}

/* One node and all real clusters, in turns; *own_ns: what a step takes at one node beside computing, the least of all repeats. */
static bool run_real(struct real_row *rows, double *own_ns)
{
    struct workload_figures figures;
    steps_begin((size_t)args.n_repeats * (1 + count_real()));
    for (size_t r = 0; r < (size_t)args.n_repeats; r++) {
        steps_next("repeat %zu, one node", r + 1);
        if (!run_loop(1, &figures))
            return false;
        *own_ns = r ? fmin(*own_ns, 1e9 / figures.steps_s) : 1e9 / figures.steps_s;
        for (size_t i = 0; i < args.real.n; i++) {
            struct real_row *row = &rows[i];
            row->n_nodes = args.real.at[i];
            if (!row->n_nodes)
                continue;
            steps_next("repeat %zu, %" PRId64 " nodes", r + 1, row->n_nodes);
            if (!run_loop(row->n_nodes, &figures))
                return false;
            row->measured[STEPS_S][r] = figures.steps_s;
            row->measured[BYTES][r] = figures.bytes / figures.steps;
            row->measured[REMOTE][r] = figures.remote / figures.accesses;
            row->measured[RELAY][r] = figures.relay_cores;
            row->measured[CPU_US][r] = 1e6 * figures.cpu_s / figures.steps;
        }
    }
    steps_end();
    return true;
}

/* What is compared for one number of nodes. */
struct comparison {
    double real[N_MEASURED], steps_s, bytes, remote, cpu_us, time_error, bytes_error, cpu_error;
};

static bool compare(struct bench *bench, struct real_row *row, struct comparison *comparison)
{
    struct tern_sim_prediction prediction;
    if (!predict(bench, row->n_nodes, true, &prediction))
        return false;
    double *real = comparison->real;
    for (int i = 0; i < N_MEASURED; i++)
        real[i] = median(row->measured[i], (size_t)args.n_repeats);
    const double n_cores = (double)bench->n_cores;
    comparison->steps_s = prediction.steps_s * (n_cores - real[RELAY]) / n_cores;
    comparison->bytes = prediction.bytes;
    comparison->remote = prediction.remote_share;
    comparison->time_error = real[STEPS_S] / comparison->steps_s - 1;
    comparison->cpu_us = (prediction.step_ns + prediction.rounds_ns + prediction.transfer_ns) / 1e3;
    comparison->cpu_error = comparison->cpu_us / real[CPU_US] - 1;
    comparison->bytes_error = real[BYTES] > 0 ? comparison->bytes / real[BYTES] - 1 : 0;
    return true;
}

static void print_comparison(const struct bench *bench, int64_t n_nodes,
                             const struct comparison *of)
{
    if (args.json)
        printf("{\"sim\":\"cost\",\"what\":\"real\",\"nodes\":%" PRId64 ",\"cores\":%zu"
               ",\"steps_s\":%.1f,\"predicted_steps_s\":%.1f,\"time_error\":%.4f"
               ",\"bytes_per_step\":%.1f,\"predicted_bytes_per_step\":%.1f,\"bytes_error\":%.4f"
               ",\"remote_share\":%.8f,\"predicted_remote_share\":%.8f,\"relay_cores\":%.3f"
               ",\"cpu_us_per_step\":%.2f,\"predicted_cpu_us_per_step\":%.2f"
               ",\"cpu_error\":%.4f}\n",
               n_nodes, bench->n_cores, of->real[STEPS_S], of->steps_s, of->time_error,
               of->real[BYTES], of->bytes, of->bytes_error, of->real[REMOTE], of->remote,
               of->real[RELAY], of->real[CPU_US], of->cpu_us, of->cpu_error);
    else
        printf("  %5" PRId64 " %9.0f %9.0f %+6.1f%% %9.0f %9.0f %+6.1f%% %9.7f %+4.0f%%\n", n_nodes,
               of->real[STEPS_S], of->steps_s, 100 * of->time_error, of->real[BYTES], of->bytes,
               100 * of->bytes_error, of->real[REMOTE], 100 * of->cpu_error);
}

static bool compare_all(struct bench *bench, struct real_row *rows)
{
    if (!args.json && count_real())
        printf("\nreal runs on %zu cores, and their predictions\n"
               "  %5s %9s %9s %7s %9s %9s %7s %9s %5s\n",
               bench->n_cores, "nodes", "steps/s", "predicted", "error", "B/step", "predicted",
               "error", "remote", "CPU");
    for (size_t i = 0; i < args.real.n; i++) {
        struct comparison comparison;
        if (!rows[i].n_nodes)
            continue;
        if (!compare(bench, &rows[i], &comparison))
            return false;
        print_comparison(bench, rows[i].n_nodes, &comparison);
    }
    return flush_output();
}

/* ---- Costs ------------------------------------------------------------------------------------- */

static const char *const cost_names[TERN_SIM_COSTS] = {
    "step",    "access", "signal", "intent", "round",    "peer", "change",
    "message", "key",    "row",    "look",   "transfer", "byte"};

static void print_costs(const struct bench *bench)
{
    if (args.json)
        printf("{\"sim\":\"cost\",\"what\":\"costs\"");
    else
        printf("costs in ns\n ");
    for (int i = 0; i < TERN_SIM_COSTS; i++)
        printf(args.json ? ",\"%s\":%.3f"
               : i == 7  ? "\n  %s %.3g"
                         : " %s %.3g",
               cost_names[i], bench->costs.ns[i]);
    if (args.json)
        printf(",\"slice_ns\":%" PRIu64 "}", bench->slice_ns);
    printf("\n");
}

static bool measure_costs(struct bench *bench, double own_ns)
{
    const struct tern_sim_workload workload = workload_of(bench, 2, false);
    steps_prepare("measuring what rounds and messages cost");
    if (tern_sim_calibrate(&workload, args.link != NULL, &bench->costs)) {
        complain_tern("the calibration");
        return false;
    }
    steps_end();
    bench->costs.ns[TERN_COST_STEP] = own_ns;
    print_costs(bench);
    return true;
}

/* Whether more nodes run here than there are cores. */
static bool shares_cores(const struct bench *bench)
{
    bool shares = false;
    for (size_t i = 0; i < args.real.n; i++)
        shares |= args.real.at[i] > (int64_t)bench->n_cores;
    return shares;
}

/* ---- Predictions ------------------------------------------------------------------------------- */

static const char *limit_of(const struct tern_sim_prediction *of)
{
    const double other_ns = of->rounds_ns + of->transfer_ns + of->wait_ns;
    if (of->link_busiest >= 0.9)
        return "link";
    if (other_ns <= 0.01 * of->step_ns)
        return "none";
    if (of->wait_ns > of->rounds_ns && of->wait_ns > of->transfer_ns)
        return "waits";
    return of->transfer_ns > of->rounds_ns ? "transfer" : "rounds";
}

static void print_row(const struct cost_row *row)
{
    const struct tern_sim_prediction *of = &row->prediction;
    if (args.json)
        printf("{\"sim\":\"cost\",\"what\":\"prediction\",\"nodes\":%" PRId64
               ",\"steps_s\":%.1f,\"speedup\":%.3f,\"bytes_per_step\":%.1f,\"remote_share\":%.8f"
               ",\"messages_per_step\":%.3f,\"rounds_s\":%.1f,\"staleness_ms\":%.3f"
               ",\"step_us\":%.3f,\"rounds_us\":%.3f,\"transfer_us\":%.3f,\"wait_us\":%.3f"
               ",\"link_mean\":%.5f,\"link_busiest\":%.5f,\"limit\":\"%s\"}\n",
               row->n_nodes, of->steps_s, row->speedup, of->bytes, of->remote_share, of->messages,
               of->rounds_s, of->staleness_ms_mean, of->step_ns / 1e3, of->rounds_ns / 1e3,
               of->transfer_ns / 1e3, of->wait_ns / 1e3, of->link_mean, of->link_busiest,
               row->limit);
    else
        printf("  %5" PRId64 " %7.2f %7.0f %9.7f %6.1f %6.1f %6.1f %6.1f %5.3f %s\n", row->n_nodes,
               row->speedup, of->bytes, of->remote_share, of->step_ns / 1e3, of->rounds_ns / 1e3,
               of->transfer_ns / 1e3, of->wait_ns / 1e3, of->link_busiest, row->limit);
}

static bool predict_all(struct bench *bench, double step_ns, struct cost_row *rows)
{
    if (!args.json)
        printf("\npredictions, with a core for each node%s%s\n"
               "                                  us of a step             busiest\n"
               "  %5s %7s %7s %9s %6s %6s %6s %6s %5s %s\n",
               args.link != NULL ? " and links of " : "", args.link != NULL ? args.link : "",
               "nodes", "speedup", "B/step", "remote", "steps", "rounds", "transf", "waits", "link",
               "limit");
    for (size_t i = 0; i < args.nodes.n; i++) {
        struct cost_row *row = &rows[i];
        row->n_nodes = args.nodes.at[i];
        if (!predict(bench, row->n_nodes, false, &row->prediction))
            return false;
        row->speedup = row->prediction.steps_s * step_ns / 1e9;
        row->limit = limit_of(&row->prediction);
        print_row(row);
        if (!flush_output() || (args.svg != NULL && !sim_cost_draw(args.svg, rows, i + 1)))
            return false;
    }
    return true;
}

/* ---- The command ------------------------------------------------------------------------------- */

static bool run(struct bench *bench)
{
    static struct real_row real[LIST_MAX];
    static struct cost_row rows[LIST_MAX];
    double own_ns = 0;
    if (shares_cores(bench)) {
        steps_prepare("measuring how processes share a core");
        bench->slice_ns = sim_cost_slice_ns();
        if (!bench->slice_ns)
            return false;
    }
    return run_real(real, &own_ns) && measure_costs(bench, own_ns) && compare_all(bench, real) &&
           predict_all(bench, (double)args.compute * 1e3 + own_ns, rows);
}

int sim_cost_command(int argc, char **argv)
{
    int status;
    struct bench bench = {0};
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (args.link != NULL && !link_parse(args.link, &speed))
        return EXIT_USAGE;
    const long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    bench.n_cores = n_cores < 1                      ? 1
                    : n_cores > WORKLOAD_MAX_WORKERS ? WORKLOAD_MAX_WORKERS
                                                     : (size_t)n_cores;
    if (!key_law_init(&bench.law, (size_t)args.n_keys)) {
        complain("no memory for the law of %" PRId64 " keys", args.n_keys);
        return EXIT_FAILED;
    }
    const bool ok = run(&bench);
    key_law_fini(&bench.law);
    return ok ? EXIT_OK : EXIT_FAILED;
}
