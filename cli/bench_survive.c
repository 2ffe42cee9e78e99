/*
 * tern bench survive - what a backup costs, and how long the others wait when a node is killed.
 *
 * Every node is a process with a `static` table and a worker. A first cluster has no backups: it is the baseline. In a second one
 * with backups each row is changed once, then all nodes push and pull keys of the whole table. In further ones all nodes push
 * keys of the last node, which is killed. In two more the last node leaves: while nobody works, and while all push and pull. With --disk a last one writes a checkpoint (bench_disk.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tern/tern.h>

#include "bench_cluster.h"
#include "bench_disk.h"
#include "bench_proc.h"
#include "command.h"
#include "options.h"
#include "quantile.h"
#include "steps.h"

enum { MAX_NODES = 64, MAX_KILLS = 1000, CALL_KEYS = 100, GLANCE_MS = 1 };

static struct {
    bool json;
    int64_t n_nodes, n_keys, length, n_kills;
    double seconds;
    const char *link, *disk;
} args;

static const struct option options[] = {
    {"nodes", OPTION_INT, &args.n_nodes, "4", "N", "nodes of the cluster", .min = 2,
     .max = MAX_NODES},
    {"keys", OPTION_INT, &args.n_keys, "100000", "N", "keys of the table", .min = 1000, .max = 1e9},
    {"len", OPTION_INT, &args.length, "16", "N", "floats per key", .min = 1, .max = 4096},
    {"kills", OPTION_INT, &args.n_kills, "5", "N", "how often a node is killed", .min = 1,
     .max = MAX_KILLS},
    {"seconds", OPTION_DOUBLE, &args.seconds, "2", "S", "length of a measurement of throughput",
     .min = 0.01, .max = 3600},
    {"link", OPTION_STRING, &args.link, .takes = "RATE[,DELAY]",
     .help = "make each node a host of its own, on links such as 10gbit,0.1ms; takes root"},
    {"disk", OPTION_STRING, &args.disk, .takes = "FOLDER",
     .help = "also write a checkpoint there, and as many bytes plainly"},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON object instead of a table"},
};

static const struct option_set option_set = {
    .program = "tern bench survive",
    .about = "Measures what backups of a table cost, and how long the other nodes wait when one is "
             "killed or leaves.",
    .notes =
        "The wait is the time from kill -9 until every node that is left has made a push to "
        "keys of the\ndead one. Bytes are those of batches over those of the changed rows. "
        "Memory is what the processes\ngrow by when the table is filled, and throughput the "
        "keys that all nodes pull and push, both with\nbackups over without.\n"
        "\n"
        "Bytes of a leave are those that the others get while nobody works, over those that the "
        "leaving "
        "node\nhad: its keys, and its copies of others'. Work meanwhile is that of the others; the "
        "longest call is\nbeside the longest one before.\n"
        "\n"
        "With --disk, a checkpoint of the table is written while the nodes work on. Its speed is "
        "that of\na plain write of as many bytes past the page cache (dd oflag=direct); the "
        "pause is that of the\nstart, and extra memory what processes have more right after "
        "it.\n"
        "\n"
        "JSON fields: bench, nodes, keys, length, kills, wait_ms (median), wait_ms_max, "
        "bytes_ratio,\nmemory_mb, memory_mb_without, memory_ratio, keys_per_s, "
        "keys_per_s_without, throughput_ratio, leave_ms, leave_bytes_ratio, leave_working_ratio,\n"
        "leave_call_ms, leave_call_ms_before; with --disk also checkpoint_mb, "
        "checkpoint_mb_per_s,\n"
        "plain_mb_per_s, disk_ratio, pause_ms, working_ratio, copied_ratio.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = steps_option,
    .n_common = STEPS_N_OPTIONS,
};

/* What the processes of a cluster tell each other, in memory that they share. */
struct board {
    _Atomic uint32_t n_ready;
    atomic_bool is_over;
    _Atomic uint64_t killed_ns; /* 0: not yet */
    atomic_bool is_paused, leaves;
    _Atomic uint64_t left_ns; /* the last node has left; 0: not yet */
    struct {
        _Atomic uint64_t n_done; /* keys pushed and pulled */
        _Atomic uint64_t
            pushed_ns; /* the first push to the dead node's keys was done; 0: not yet */
        _Atomic uint64_t grown_bytes;  /* by filling the table */
        _Atomic uint64_t backup_bytes; /* of batches until then */
        _Atomic uint64_t taken_bytes;  /* of others' batches, as of the pause */
        _Atomic uint64_t longest_ns;   /* of its calls since this was 0 */
    } nodes[MAX_NODES];
};

/* The argument of a node process. */
struct part {
    struct cluster cluster;
    struct board *board;
    uint32_t self;
    bool has_backups, is_killed; /* whether the last node is to be killed */
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *worker;
    float *values;
};

/* ---- A node ----------------------------------------------------------------------------------- */

static bool open_node(struct part *part)
{
    const struct tern_table_options shape = {.struct_size = sizeof shape,
                                             .n_keys = (uint64_t)args.n_keys,
                                             .length = (uint32_t)args.length,
                                             .policy = cluster_share_nothing("static"),
                                             .backups = part->has_backups};
    part->values = calloc(CALL_KEYS * (size_t)args.length, sizeof *part->values);
    return part->values != NULL && tern_node_open(NULL, &part->node) == TERN_OK &&
           tern_table_open(part->node, "rows", &shape, &part->table) == TERN_OK &&
           tern_worker_open(part->node, &part->worker) == TERN_OK;
}

/* Changes each row of this node's share of the keys, once. */
static bool fill(struct part *part)
{
    const uint64_t n = (uint64_t)args.n_keys, n_nodes = (uint64_t)args.n_nodes;
    const uint64_t end = n * (part->self + 1) / n_nodes, before = proc_resident_bytes();
    uint64_t keys[CALL_KEYS];
    for (uint64_t key = n * part->self / n_nodes; key < end;) {
        size_t n_call = 0;
        while (n_call < CALL_KEYS && key < end)
            keys[n_call++] = key++;
        if (tern_push(part->worker, part->table, keys, n_call, part->values))
            return false;
    }
    struct tern_node_stats stats = {.struct_size = sizeof stats};
    if (tern_quiesce(part->node) || tern_node_get_stats(part->node, &stats))
        return false;
    const uint64_t after = proc_resident_bytes();
    atomic_store(&part->board->nodes[part->self].grown_bytes, after > before ? after - before : 0);
    atomic_store(&part->board->nodes[part->self].backup_bytes, stats.backup_bytes);
    return true;
}

/* One call on random keys, or a push of a key of the node that is killed. */
static bool step(struct part *part, uint64_t *random)
{
    struct board *board = part->board;
    const uint64_t n = (uint64_t)args.n_keys, n_nodes = (uint64_t)args.n_nodes;
    const uint64_t first = n * (n_nodes - 1) / n_nodes, begun_ns = proc_now_ns();
    uint64_t keys[CALL_KEYS];
    const size_t n_call = part->is_killed ? 1 : CALL_KEYS;
    for (size_t i = 0; i < n_call; i++) {
        *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        keys[i] = part->is_killed ? first + (*random >> 33) % (n - first) : (*random >> 33) % n;
    }
    if (tern_push(part->worker, part->table, keys, n_call, part->values) ||
        (!part->is_killed && tern_pull(part->worker, part->table, keys, n_call, part->values)))
        return false;
    const uint64_t took_ns = proc_now_ns() - begun_ns;
    if (took_ns > atomic_load(&board->nodes[part->self].longest_ns))
        atomic_store(&board->nodes[part->self].longest_ns, took_ns);
    atomic_fetch_add(&board->nodes[part->self].n_done, 2 * n_call);
    const uint64_t killed_ns = atomic_load(&board->killed_ns);
    if (killed_ns && begun_ns > killed_ns && !atomic_load(&board->nodes[part->self].pushed_ns))
        atomic_store(&board->nodes[part->self].pushed_ns, proc_now_ns());
    return true;
}

/* Says how much was taken, and does nothing else. */
static bool pause_work(struct part *part)
{
    struct tern_node_stats stats = {.struct_size = sizeof stats};
    if (tern_node_get_stats(part->node, &stats))
        return false;
    atomic_store(&part->board->nodes[part->self].taken_bytes, stats.taken_bytes);
    proc_sleep_ms(GLANCE_MS);
    return true;
}

static int leave_alone(struct part *part)
{
    if (tern_worker_close(part->worker) || tern_node_leave(part->node))
        return complain_tern("a node cannot leave");
    atomic_store(&part->board->left_ns, proc_now_ns());
    free(part->values);
    return EXIT_OK;
}

static int node_main(void *context)
{
    struct part *part = context;
    uint64_t random = part->self;
    cluster_enter(&part->cluster, part->self);
    bool ok = open_node(part) && fill(part);
    atomic_fetch_add(&part->board->n_ready, 1);
    while (ok && !atomic_load(&part->board->is_over)) {
        if (atomic_load(&part->board->leaves) && part->self + 1 == (uint32_t)args.n_nodes)
            return leave_alone(part);
        ok = atomic_load(&part->board->is_paused) ? pause_work(part) : step(part, &random);
    }
    if (!ok || tern_worker_close(part->worker) || tern_node_close(part->node))
        return complain_tern("a node failed");
    free(part->values);
    return EXIT_OK;
}

/* ---- A cluster -------------------------------------------------------------------------------- */

/* Waits until a count is reached, for a minute at most. */
static bool wait_for(const _Atomic uint32_t *count, uint32_t n)
{
    for (int i = 0; i < 60 * 1000 / GLANCE_MS && atomic_load(count) < n; i++)
        proc_sleep_ms(GLANCE_MS);
    if (atomic_load(count) < n)
        complain("the nodes did not start");
    return atomic_load(count) >= n;
}

static bool begin(struct part *part)
{
    struct link_speed speed;
    const size_t n_nodes = (size_t)args.n_nodes;
    memset(part->board, 0, sizeof *part->board);
    if (args.link != NULL ? !link_parse(args.link, &speed) ||
                                !cluster_open_linked(&part->cluster, n_nodes, &speed)
                          : !cluster_open(&part->cluster, TRANSPORT_UNIX, n_nodes))
        return false;
    bool ok = true;
    for (part->self = 0; ok && part->self < n_nodes; part->self++)
        ok = cluster_fork(&part->cluster, node_main, part);
    return (ok && wait_for(&part->board->n_ready, (uint32_t)n_nodes)) ||
           cluster_close(&part->cluster, false);
}

static bool end(struct part *part)
{
    atomic_store(&part->board->is_over, true);
    return cluster_close(&part->cluster, true);
}

static uint64_t count_done(const struct board *board)
{
    uint64_t n = 0;
    for (int i = 0; i < MAX_NODES; i++)
        n += atomic_load(&board->nodes[i].n_done);
    return n;
}

struct cost {
    double keys_per_s, grown_bytes, backup_bytes;
};

static bool measure_cost(struct part *part, bool has_backups, struct cost *cost)
{
    part->has_backups = has_backups;
    part->is_killed = false;
    if (!begin(part))
        return false;
    const uint64_t began_ns = proc_now_ns(), n_before = count_done(part->board);
    proc_sleep_ms(args.seconds * 1e3);
    *cost = (struct cost){.keys_per_s = (double)(count_done(part->board) - n_before) /
                                        ((double)(proc_now_ns() - began_ns) * 1e-9)};
    for (int i = 0; i < MAX_NODES; i++) {
        cost->grown_bytes += (double)atomic_load(&part->board->nodes[i].grown_bytes);
        cost->backup_bytes += (double)atomic_load(&part->board->nodes[i].backup_bytes);
    }
    return end(part);
}

/* Kills the last node, and waits until all others have made a push to its keys. */
static bool measure_wait(struct part *part, double *wait_ms)
{
    part->has_backups = part->is_killed = true;
    if (!begin(part))
        return false;
    const size_t victim = --part->cluster.n_processes;
    proc_sleep_ms(50);
    atomic_store(&part->board->killed_ns, proc_now_ns());
    kill(part->cluster.processes[victim], SIGKILL);
    *wait_ms = 0;
    for (size_t i = 0; i < victim; i++) {
        uint64_t pushed_ns = 0;
        for (int n = 0; n < 60 * 1000 / GLANCE_MS && !pushed_ns; n++) {
            proc_sleep_ms(GLANCE_MS);
            pushed_ns = atomic_load(&part->board->nodes[i].pushed_ns);
        }
        const double ms = (double)(pushed_ns - atomic_load(&part->board->killed_ns)) * 1e-6;
        *wait_ms = pushed_ns && ms > *wait_ms ? ms : *wait_ms;
        if (!pushed_ns)
            complain("node %zu has not made a push within a minute", i);
        if (!pushed_ns)
            return cluster_close(&part->cluster, false);
    }
    waitpid(part->cluster.processes[victim], NULL, 0);
    return end(part);
}

struct leave {
    double ms, bytes, working, call_ms, call_ms_before;
};

/* What the nodes that stay have done; what they have taken of others; and their longest call, which is forgotten. */
static uint64_t count_staying(const struct board *board)
{
    uint64_t n = 0;
    for (int64_t i = 0; i + 1 < args.n_nodes; i++)
        n += atomic_load(&board->nodes[i].n_done);
    return n;
}

static uint64_t count_taken(const struct board *board)
{
    uint64_t n = 0;
    for (int64_t i = 0; i + 1 < args.n_nodes; i++)
        n += atomic_load(&board->nodes[i].taken_bytes);
    return n;
}

static double take_longest_ms(struct board *board)
{
    uint64_t longest_ns = 0;
    for (int64_t i = 0; i + 1 < args.n_nodes; i++) {
        const uint64_t ns = atomic_exchange(&board->nodes[i].longest_ns, 0);
        longest_ns = ns > longest_ns ? ns : longest_ns;
    }
    return (double)longest_ns * 1e-6;
}

/* Has the last node leave, and waits until it has; false after an error message. */
static bool see_off(struct part *part)
{
    atomic_store(&part->board->leaves, true);
    for (int i = 0; i < 60 * 1000 / GLANCE_MS && !atomic_load(&part->board->left_ns); i++)
        proc_sleep_ms(GLANCE_MS);
    if (!atomic_load(&part->board->left_ns))
        complain("a node has not left within a minute");
    return atomic_load(&part->board->left_ns);
}

/* While nobody works. */
static bool measure_leave_bytes(struct part *part, struct leave *leave)
{
    enum { SETTLES_MS = 300 };
    const double row_bytes = 8 + (double)args.length * sizeof(float);
    const double share = (double)args.n_keys / (double)args.n_nodes * row_bytes;
    part->has_backups = true;
    part->is_killed = false;
    if (!begin(part))
        return false;
    atomic_store(&part->board->is_paused, true);
    proc_sleep_ms(SETTLES_MS);
    const uint64_t before = count_taken(part->board);
    if (!see_off(part))
        return cluster_close(&part->cluster, false);
    proc_sleep_ms(SETTLES_MS);
    leave->bytes = (double)(count_taken(part->board) - before) / (2 * share);
    return end(part);
}

/* While all work. */
static bool measure_leave(struct part *part, struct leave *leave)
{
    if (!measure_leave_bytes(part, leave) || !begin(part))
        return false;
    struct board *board = part->board;
    proc_sleep_ms(args.seconds * 1e3);
    (void)take_longest_ms(board);
    const uint64_t first_ns = proc_now_ns(), first = count_staying(board);
    proc_sleep_ms(args.seconds * 1e3);
    const uint64_t begun_ns = proc_now_ns(), n_before = count_staying(board);
    leave->call_ms_before = take_longest_ms(board);
    if (!see_off(part))
        return cluster_close(&part->cluster, false);
    const uint64_t ended_ns = proc_now_ns(), n_after = count_staying(board);
    /* A call that waits for the node that has left is over soon after. */
    proc_sleep_ms(args.seconds * 1e3);
    leave->call_ms = take_longest_ms(board);
    leave->ms = (double)(atomic_load(&board->left_ns) - begun_ns) * 1e-6;
    leave->working = (double)(n_after - n_before) / (double)(ended_ns - begun_ns) /
                     ((double)(n_before - first) / (double)(begun_ns - first_ns));
    return end(part);
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void print_disk(const struct disk_figures *disk)
{
    const double speed = ratio(disk->n_bytes * 1e-6, disk->write_s);
    const double plain = ratio(disk->n_bytes * 1e-6, disk->plain_s);
    const double keeps = ratio(disk->keys_per_s, disk->keys_per_s_without);
    const double copied = ratio(disk->copied_bytes, disk->n_bytes);
    if (args.json)
        printf(",\"checkpoint_mb\":%.1f,\"checkpoint_mb_per_s\":%.1f,\"plain_mb_per_s\":%.1f,"
               "\"disk_ratio\":%.3f,\"pause_ms\":%.1f,\"working_ratio\":%.3f,"
               "\"copied_ratio\":%.3f",
               disk->n_bytes * 1e-6, speed, plain, ratio(speed, plain), disk->pause_ms, keeps,
               copied);
    else
        printf("checkpoint          %.0f MB at %.0f MB/s, %.2f of a plain write\n"
               "pause of its start  %.1f ms; extra memory %.2f of the checkpoint\n"
               "work meanwhile      %.2f of the keys/s before\n",
               disk->n_bytes * 1e-6, speed, ratio(speed, plain), disk->pause_ms, copied, keeps);
}

static void print_leave(const struct leave *leave)
{
    if (args.json)
        printf(",\"leave_ms\":%.1f,\"leave_bytes_ratio\":%.3f,\"leave_working_ratio\":%.3f,"
               "\"leave_call_ms\":%.1f,\"leave_call_ms_before\":%.1f",
               leave->ms, leave->bytes, leave->working, leave->call_ms, leave->call_ms_before);
    else
        printf(
            "a node leaves       %.0f ms; bytes %.2f of what it had\n"
            "work meanwhile      %.2f of the keys/s before; longest call %.0f ms, before %.0f ms\n",
            leave->ms, leave->bytes, leave->working, leave->call_ms, leave->call_ms_before);
}

static void print(const struct cost *with, const struct cost *without, double *waits)
{
    const size_t n = (size_t)args.n_kills;
    const double row_bytes = (double)args.length * sizeof(float) * (double)args.n_keys;
    const double most = quantile(waits, n, 1), middle = median(waits, n);
    const double bytes = with->backup_bytes / row_bytes;
    const double memory = ratio(with->grown_bytes, without->grown_bytes);
    const double speed = ratio(with->keys_per_s, without->keys_per_s);
    if (args.json)
        printf("{\"bench\":\"survive\",\"nodes\":%" PRId64 ",\"keys\":%" PRId64
               ",\"length\":%" PRId64 ",\"kills\":%" PRId64
               ",\"wait_ms\":%.1f,\"wait_ms_max\":%.1f,\"bytes_ratio\":%.3f,\"memory_mb\":%.1f,"
               "\"memory_mb_without\":%.1f,\"memory_ratio\":%.3f,\"keys_per_s\":%.0f,"
               "\"keys_per_s_without\":%.0f,\"throughput_ratio\":%.3f",
               args.n_nodes, args.n_keys, args.length, args.n_kills, middle, most, bytes,
               with->grown_bytes / 1e6, without->grown_bytes / 1e6, memory, with->keys_per_s,
               without->keys_per_s, speed);
    else
        printf("wait after a kill   median %.0f ms, at most %.0f ms\n"
               "bytes of batches    %.2f of the changed rows\n"
               "memory              %.1f MB, %.2f of %.1f MB without backups\n"
               "throughput          %.0f keys/s, %.2f of %.0f without backups\n",
               middle, most, bytes, with->grown_bytes / 1e6, memory, without->grown_bytes / 1e6,
               with->keys_per_s, speed, without->keys_per_s);
}

int bench_survive_command(int argc, char **argv)
{
    int status;
    struct cost with, without;
    struct leave leave = {0};
    struct disk_figures disk;
    static double waits[MAX_KILLS];
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    struct part part = {.board = mmap(NULL, sizeof *part.board, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    if (part.board == MAP_FAILED) {
        complain("no memory for the figures");
        return EXIT_FAILED;
    }
    const struct disk_setup setup = {.n_nodes = (uint32_t)args.n_nodes,
                                     .length = (uint32_t)args.length,
                                     .n_keys = (uint64_t)args.n_keys,
                                     .seconds = args.seconds,
                                     .folder = args.disk,
                                     .link = args.link};
    steps_begin(3 + (size_t)args.n_kills + (args.disk != NULL));
    steps_next("without backups");
    bool ok = measure_cost(&part, false, &without);
    steps_next("with backups");
    ok = ok && measure_cost(&part, true, &with);
    for (int64_t i = 0; ok && i < args.n_kills; i++) {
        steps_next("kill %" PRId64, i + 1);
        ok = measure_wait(&part, &waits[i]);
    }
    steps_next("a leave");
    ok = ok && measure_leave(&part, &leave);
    if (ok && args.disk != NULL) {
        steps_next("a checkpoint");
        ok = bench_disk(&setup, &disk);
    }
    steps_end();
    if (ok)
        print(&with, &without, waits);
    if (ok)
        print_leave(&leave);
    if (ok && args.disk != NULL)
        print_disk(&disk);
    if (ok && args.json)
        puts("}");
    return ok ? EXIT_OK : EXIT_FAILED;
}
