/*
 * tern bench idle - the cost of a cluster with nothing to do.
 *
 * Every node is a process with a table and a waiting worker. The figure is the CPU time of all of them over the
 * interval, user and system, in percent of one core.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tern/tern.h>

#include "bench_cluster.h"
#include "command.h"
#include "options.h"
#include "steps.h"

static struct {
    bool json;
    int64_t n_nodes;
    double seconds;
} args;

static const struct option options[] = {
    {"nodes", OPTION_INT, &args.n_nodes, "4", "N", "nodes of the cluster", .min = 1, .max = 64},
    {"seconds", OPTION_DOUBLE, &args.seconds, "5", "S", "length of the measurement", .min = 0.01,
     .max = 3600},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object instead of a sentence"},
};

static const struct option_set option_set = {
    .program = "tern bench idle",
    .about = "Starts a cluster on this host that has nothing to do, and measures its CPU time.",
    .notes = "JSON fields: bench, nodes, seconds, cpu_ms (user and system time of all nodes), "
             "percent (of one core).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

/* The argument of a node process. It writes a byte to `ready` once it waits, and ends when `go` closes. */
struct idler {
    const struct cluster *cluster;
    size_t index;
    int ready[2], go[2];
};

static bool open_and_wait(const struct idler *idler, struct tern_node **node)
{
    struct tern_table_options shape = {.struct_size = sizeof shape, .n_keys = 1000, .length = 8};
    struct tern_table *table;
    struct tern_worker *worker;
    if (tern_node_open(NULL, node) != TERN_OK ||
        tern_table_open(*node, "idle", &shape, &table) != TERN_OK ||
        tern_worker_open(*node, &worker) != TERN_OK || tern_barrier(*node) != TERN_OK)
        return false;
    char byte = 0;
    bool told = write(idler->ready[1], &byte, 1) == 1;
    while (told && read(idler->go[0], &byte, 1) < 0 && errno == EINTR)
        ;
    return tern_worker_close(worker) == TERN_OK && told;
}

static int idle_main(void *context)
{
    const struct idler *idler = context;
    struct tern_node *node;
    close(idler->ready[0]);
    close(idler->go[1]);
    cluster_enter(idler->cluster, idler->index);
    if (!open_and_wait(idler, &node) || tern_node_close(node) != TERN_OK)
        return complain_tern("an idle node failed");
    return EXIT_OK;
}

/* The CPU time of all nodes so far. */
static bool cpu_seconds(const struct cluster *cluster, double *seconds)
{
    *seconds = 0;
    for (size_t i = 0; i < cluster->n_processes; i++) {
        clockid_t clock;
        struct timespec t;
        int error = clock_getcpuclockid(cluster->processes[i], &clock);
        if (error != 0 || clock_gettime(clock, &t) != 0) {
            complain("cannot read the CPU time of node %zu: %s", i,
                     strerror(error != 0 ? error : errno));
            return false;
        }
        *seconds += (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    }
    return true;
}

static void sleep_for(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static bool start_nodes(struct cluster *cluster, struct idler *idler)
{
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        idler->index = i;
        if (!cluster_fork(cluster, idle_main, idler))
            return false;
    }
    return true;
}

static bool wait_until_ready(const struct idler *idler, size_t n_nodes)
{
    char byte;
    for (size_t i = 0; i < n_nodes; i++)
        if (read(idler->ready[0], &byte, 1) != 1) {
            complain("the nodes did not start");
            return false;
        }
    return true;
}

static bool watch(const struct cluster *cluster, double *cpu_s)
{
    double before, after;
    if (!cpu_seconds(cluster, &before))
        return false;
    sleep_for(args.seconds);
    if (!cpu_seconds(cluster, &after))
        return false;
    *cpu_s = after - before;
    return true;
}

static bool run_idle(double *cpu_s)
{
    struct cluster cluster;
    struct idler idler = {.cluster = &cluster};
    if (pipe(idler.ready) != 0 || pipe(idler.go) != 0) {
        complain("cannot open pipes: %s", strerror(errno));
        return false;
    }
    if (!cluster_open(&cluster, TRANSPORT_TCP, (size_t)args.n_nodes))
        return false;
    bool ok = start_nodes(&cluster, &idler);
    close(idler.ready[1]);
    ok = ok && wait_until_ready(&idler, cluster.n_nodes) && watch(&cluster, cpu_s);
    close(idler.go[1]);
    ok = cluster_close(&cluster, ok);
    close(idler.ready[0]);
    close(idler.go[0]);
    return ok;
}

int bench_idle_command(int argc, char **argv)
{
    int status;
    double cpu_s;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    steps_begin(1);
    steps_next("measuring for %.1f s", args.seconds);
    bool ok = run_idle(&cpu_s);
    steps_end();
    if (!ok)
        return EXIT_FAILED;
    double percent = 100 * cpu_s / args.seconds;
    if (args.json)
        printf("{\"bench\":\"idle\",\"nodes\":%lld,\"seconds\":%.3f,\"cpu_ms\":%.3f,"
               "\"percent\":%.4f}\n",
               (long long)args.n_nodes, args.seconds, cpu_s * 1e3, percent);
    else
        printf("%lld idle nodes took %.1f ms of CPU time in %.1f s: %.2f %% of one core\n",
               (long long)args.n_nodes, cpu_s * 1e3, args.seconds, percent);
    return EXIT_OK;
}
