/*
 * tern sim - runs one simulated cluster for each seed, and reports violations.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tern/sim.h>

#include "command.h"
#include "options.h"
#include "sim_cost.h"
#include "steps.h"

enum { ENOUGH_SEEDS = 100 }; /* for every fault to occur */

/* In the order of enum tern_sim_fault. */
static const char *const fault_names[] = {"delay",   "break",  "pause", "partition", "stale",
                                          "restart", "outage", "crash", "freeze",    "leave",
                                          "all",     "none",   NULL};

static struct {
    bool json, is_cost;
    int64_t n_nodes, per_host, n_shards, n_seeds, seed, n_steps;
    struct string_list faults;
} args;

static const struct option options[] = {
    {"nodes", OPTION_INT, &args.n_nodes, "5", "N", "nodes of each cluster", .min = 2,
     .max = TERN_SIM_MAX_NODES},
    {"per-host", OPTION_INT, &args.per_host, "0", "N",
     "nodes of each host, which share memory; 0: 1 to 3, chosen by the seed", .min = 0,
     .max = TERN_SIM_MAX_NODES},
    {"shards", OPTION_INT, &args.n_shards, "0", "N",
     "shards of each node; 0: 1 to 3, chosen by the seed", .min = 0, .max = TERN_SIM_MAX_SHARDS},
    {"seeds", OPTION_INT, &args.n_seeds, "100", "N", "clusters to run", .min = 1, .max = 1e12},
    {"seed", OPTION_INT, &args.seed, "1", "S", "seed of the first cluster; the next one has S + 1",
     .min = 0, .max = 1e15},
    {"steps", OPTION_INT, &args.n_steps, "30", "N", "operations of each worker", .min = 1,
     .max = 1e6},
    {"faults", OPTION_STRINGS, &args.faults, "all", "LIST", "faults that may occur, see below",
     .choices = fault_names},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object instead of lines"},
    {"cost", OPTION_FLAG, &args.is_cost,
     .help = "predict the speed of clusters instead, with options of its own: 'tern sim --cost "
             "--help'"},
};

static const struct option_set option_set = {
    .program = "tern sim",
    .about =
        "Runs clusters of simulated nodes in one thread and on virtual time. Their network fails "
        "as a seed says. Checks what workers see, where keys are, and what is stored at the end.",
    .notes = "Faults:\n"
             "  delay  a link is slow for a while\n"
             "  break  a connection is lost with what is under way\n"
             "  pause  a node stops for a while\n"
             "  partition  some nodes cannot reach others for a while\n"
             "  stale  a process of an earlier epoch still writes\n"
             "  restart  a node starts anew as another process, in one seed of four\n"
             "  outage  two nodes cannot reach each other for longer than the deadline, in one "
             "seed of four\n"
             "  crash  a node ends for good, in a cluster whose tables have backups\n"
             "  freeze  a node stands still until it is given up, and continues then\n"
             "  leave  a node leaves for good while the others continue, in such a cluster\n"
             "  all, none  every fault, or no fault\n"
             "\n"
             "  tern sim --seeds 1000\n"
             "  tern sim --seeds 1 --seed 4711 --nodes 3\n"
             "\n"
             "The same seed, nodes, nodes per host, shards, steps and faults give the same run. "
             "The exit status is "
             "1 if a check failed, or if a fault did not occur in any of at least 100 seeds.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

static bool read_faults(uint32_t *faults)
{
    *faults = 0;
    for (size_t i = 0; i < args.faults.n; i++) {
        if (strcmp(args.faults.at[i], "all") == 0)
            *faults = TERN_SIM_ALL;
        else if (strcmp(args.faults.at[i], "none") != 0)
            *faults |= 1u << args.faults.choice[i];
        else if (args.faults.n > 1) {
            complain("--faults: 'none' excludes all others");
            return false;
        }
    }
    return true;
}

/* A sentence in a JSON string; those of the simulator have no control characters. */
static void print_quoted(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('"');
}

static void print_json(const struct tern_sim_result *result)
{
    printf("{\"sim\":\"cluster\",\"nodes\":%" PRId64 ",\"per_host\":%" PRId64 ",\"shards\":%" PRId64
           ",\"steps\":%" PRId64 ",\"seed\":%" PRId64 ",\"seeds\":%" PRIu64 ",\"events\":%" PRIu64
           ",\"virtual_seconds\":%.6f"
           ",\"operations\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"moves\":%" PRIu64
           ",\"replicas\":%" PRIu64 ",\"redirects\":%" PRIu64 ",\"intended\":%" PRIu64
           ",\"late\":%" PRIu64 ",\"sampled\":%" PRIu64 ",\"brought\":%" PRIu64
           ",\"postponed\":%" PRIu64 ",\"checks\":%" PRIu64 ",\"violations\":%" PRIu64
           ",\"trace\":\"%016" PRIx64 "\",\"faults\":{",
           args.n_nodes, args.per_host, args.n_shards, args.n_steps, args.seed, result->n_seeds,
           result->n_events, (double)result->virtual_ns / 1e9, result->n_operations,
           result->n_failed, result->n_moves, result->n_replicas, result->n_redirected,
           result->n_intended, result->n_late, result->n_sampled, result->n_brought,
           result->n_postponed, result->n_checks, result->n_violations, result->trace);
    for (int i = 0; i < TERN_SIM_FAULTS; i++)
        printf("%s\"%s\":%" PRIu64, i ? "," : "", fault_names[i], result->fired[i]);
    printf("}");
    if (result->n_violations) {
        printf(",\"failing_seed\":%" PRIu64 ",\"violation\":",
               (uint64_t)args.seed + result->n_seeds - 1);
        print_quoted(result->violation);
    }
    printf("}\n");
}

static void print_lines(const struct tern_sim_result *result)
{
    printf("seeds         %" PRIu64 "\n", result->n_seeds);
    printf("events        %" PRIu64 "\n", result->n_events);
    printf("virtual time  %.3f s\n", (double)result->virtual_ns / 1e9);
    printf("operations    %" PRIu64 ", of which %" PRIu64 " failed as expected\n",
           result->n_operations, result->n_failed);
    printf("keys          %" PRIu64 " moved, %" PRIu64 " copied; %" PRIu64 " requests redirected\n",
           result->n_moves, result->n_replicas, result->n_redirected);
    printf("intents       %" PRIu64 " keys signalled early, of which %" PRIu64 " were late\n",
           result->n_intended, result->n_late);
    printf("samples       %" PRIu64 " keys, of which %" PRIu64 " were brought here; %" PRIu64
           " postponed\n",
           result->n_sampled, result->n_brought, result->n_postponed);
    printf("checks        %" PRIu64 "\n", result->n_checks);
    for (int i = 0; i < TERN_SIM_FAULTS; i++)
        printf("%s%" PRIu64 " %s",
               i == 0   ? "faults        "
               : i == 4 ? ",\n              "
                        : ", ",
               result->fired[i], fault_names[i]);
    printf("\ntrace         %016" PRIx64 "\n", result->trace);
    printf("violations    %" PRIu64 "\n", result->n_violations);
}

/* Says how to replay a violation. */
static void complain_violation(const struct tern_sim_result *result)
{
    complain("%s", result->violation);
    fprintf(stderr,
            "tern: to replay it: tern sim --nodes %" PRId64 " --per-host %" PRId64
            " --shards %" PRId64 " --steps %" PRId64 " --faults ",
            args.n_nodes, args.per_host, args.n_shards, args.n_steps);
    for (size_t i = 0; i < args.faults.n; i++)
        fprintf(stderr, "%s%s", i ? "," : "", args.faults.at[i]);
    fprintf(stderr, " --seeds 1 --seed %" PRIu64 "\n", (uint64_t)args.seed + result->n_seeds - 1);
}

/* Whether every requested fault has occurred. */
static bool all_struck(uint32_t faults, const struct tern_sim_result *result)
{
    bool all = true;
    for (int i = 0; i < TERN_SIM_FAULTS && result->n_seeds >= ENOUGH_SEEDS; i++)
        if (faults >> i & 1 && !result->fired[i]) {
            complain("the fault '%s' never occurred", fault_names[i]);
            all = false;
        }
    return all;
}

static void show_progress(void *context, uint64_t n_done)
{
    (void)context;
    steps_at((size_t)n_done, "seed %" PRIu64, (uint64_t)args.seed + n_done - 1);
}

/* Whether a word of the command line asks for predictions, which have options of their own. */
static bool asks_cost(int argc, char **argv)
{
    bool asks = false;
    for (int i = 1; i < argc; i++)
        asks |= strcmp(argv[i], "--cost") == 0;
    return asks;
}

int sim_command(int argc, char **argv)
{
    int status;
    uint32_t faults;
    if (asks_cost(argc, argv))
        return sim_cost_command(argc, argv);
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (!read_faults(&faults))
        return EXIT_USAGE;
    const struct tern_sim_options sim = {.struct_size = sizeof sim,
                                         .n_nodes = (uint32_t)args.n_nodes,
                                         .per_host = (uint32_t)args.per_host,
                                         .n_shards = (uint32_t)args.n_shards,
                                         .n_steps = (uint32_t)args.n_steps,
                                         .faults = faults,
                                         .seed = (uint64_t)args.seed,
                                         .n_seeds = (uint64_t)args.n_seeds,
                                         .progress = steps_are_shown() ? show_progress : NULL};
    struct tern_sim_result result = {.struct_size = sizeof result};
    steps_begin((size_t)args.n_seeds);
    enum tern_status failure = tern_sim_run(&sim, &result);
    steps_end();
    if (failure != TERN_OK)
        return complain_tern("the simulation");
    if (args.json)
        print_json(&result);
    else
        print_lines(&result);
    if (result.n_violations)
        complain_violation(&result);
    return !result.n_violations && all_struck(faults, &result) ? EXIT_OK : EXIT_FAILED;
}
