/*
 * survive - one node of a cluster whose nodes are killed while they work: pushes to random keys of a table with backups, and
 * checks in the end that every push of every node that is left counts exactly once.
 *
 * survive [dense|sparse] [keys] [workers] [backups]
 *
 * A row has two numbers for each node, of which the node's pushes raise both by one, and behind them the number of pushes that
 * the updater has applied, which it keeps in its state: so a row that is torn, or has another row's state, is seen. The
 * variable POLICY names the policy, static without it; under one that bounds reads, or with INTENTS=1, there is no
 * updater, and workers advance; under graph:S each node has replicas of half of the keys. With INTENTS=1 they signal intent for
 * some of their keys, and localize others. After SIGUSR2 the process kills itself in the middle of an update, after SIGHUP it
 * stops itself there. After SIGTERM it closes its workers without a flush and leaves, and prints "left" and its pushes. It prints
 * "ready" before the first step; after each flush "safe" and how many pushes were made before; and works until SIGUSR1. Then
 * it prints "started" and its pushes, meets the others that are left, compares, and prints "sum", a node and what is in the
 * table of that node's pushes, for each node; at last "exact" and the number of nodes that are left.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tern/tern.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

enum {
    WANTED = 40,
    AHEAD = 4,
    KEPT = 30,
    BATCH = 20,
    MAX_NODES = 8,
    MAX_WORKERS = 8,
    LENGTH = 2 * MAX_NODES + 1,
    HANGS_S = 120
};

static struct tern_node *node;
static struct tern_table *table;
static uint32_t self, n_nodes;
static uint64_t n_keys, n_workers;
static const char *policy = "static";
static bool sparse, is_bounded, intends;
static atomic_bool enough, leaves;
static atomic_int halts_by; /* a signal, in the middle of an update; 0: none */
static _Atomic uint64_t n_started;

static void stop_stepping(int signal)
{
    (void)signal;
    atomic_store(&enough, true);
}

static void halt(int signal)
{
    atomic_store(&halts_by, signal == SIGUSR2 ? SIGKILL : SIGSTOP);
}

static void stop_and_leave(int signal)
{
    atomic_store(&leaves, true);
    stop_stepping(signal);
}

static uint64_t key_of(uint64_t i)
{
    return sparse ? i * UINT64_C(0x9e3779b97f4a7c15) : i;
}

static uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = *state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Adds, and counts in its state how often. */
static void apply(const struct tern_updater *updater, enum tern_type type, size_t length,
                  void *value, void *state, const void *update)
{
    (void)updater;
    (void)type;
    int64_t *row = value, *count = state;
    const int64_t *by = update;
    for (size_t i = 0; i + 1 < length; i++) {
        row[i] += by[i];
        if (by[i] && atomic_load_explicit(&halts_by, memory_order_relaxed))
            raise(atomic_load(&halts_by));
    }
    row[length - 1] = ++*count;
}

struct job {
    pthread_t thread;
    uint64_t seed;
    int64_t *pushed;         /* by number of the key */
    uint64_t wanted[WANTED]; /* numbers of keys that intent was signalled for last */
};

/* Other keys are wanted from soon on, all workers together the same half of them. */
static void intend(struct job *job, struct tern_worker *worker, uint64_t clock)
{
    uint64_t keys[WANTED];
    for (int i = 0; i < WANTED; i++) {
        job->wanted[i] = next_random(&job->seed) % (i % 2 ? n_keys : n_keys / 8 + 1);
        keys[i] = key_of(job->wanted[i]);
    }
    check(tern_intent(worker, table, keys, WANTED, clock + AHEAD, clock + KEPT));
    check(tern_localize(worker, table, keys, WANTED));
}

static void draw(struct job *job, uint64_t *keys, int64_t (*ones)[LENGTH])
{
    memset(ones, 0, BATCH * sizeof *ones);
    for (int i = 0; i < BATCH; i++) {
        const bool is_wanted = intends && i % 4;
        const uint64_t number = is_wanted ? job->wanted[next_random(&job->seed) % WANTED]
                                          : next_random(&job->seed) % n_keys;
        keys[i] = key_of(number);
        job->pushed[number]++;
        ones[i][2 * self] = ones[i][2 * self + 1] = ones[i][LENGTH - 1] = 1;
    }
}

/* A row is whole, and has its own state. */
static void check_row(uint64_t key, const int64_t *row)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < MAX_NODES; i++) {
        if (row[2 * i] != row[2 * i + 1]) {
            printf("torn: key %" PRIu64 " has %" PRId64 " and %" PRId64 " of node %" PRIu32 "\n",
                   key, row[2 * i], row[2 * i + 1], i);
            exit(1);
        }
        n += row[2 * i];
    }
    if (n != row[LENGTH - 1]) {
        printf("state: key %" PRIu64 " has %" PRId64 " pushes, and its updater counted %" PRId64
               "\n",
               key, n, row[LENGTH - 1]);
        exit(1);
    }
}

static void *work(void *context)
{
    struct job *job = context;
    struct tern_worker *worker;
    check(tern_worker_open(node, &worker));
    uint64_t keys[2][BATCH], tickets[2] = {0};
    int64_t ones[2][BATCH][LENGTH], values[BATCH][LENGTH];
    for (uint64_t step = 0; !atomic_load(&enough); step++) {
        const int turn = step % 2;
        if (intends && step % (KEPT / 2) == 0)
            intend(job, worker, step);
        if (tickets[turn])
            check(tern_wait(worker, tickets[turn]));
        draw(job, keys[turn], ones[turn]);
        atomic_fetch_add(&n_started, BATCH);
        check(tern_push_start(worker, table, keys[turn], BATCH, ones[turn], &tickets[turn]));
        if (step % 3 == 0) {
            check(tern_pull(worker, table, keys[turn], BATCH, values));
            for (int i = 0; i < BATCH; i++)
                check_row(keys[turn][i], values[i]);
        }
        if (is_bounded || intends)
            check(tern_worker_advance(worker, NULL));
        if (step % 16 == 15 && n_workers == 1) {
            check(tern_flush(worker));
            tickets[0] = tickets[1] = 0;
            printf("safe %" PRIu64 "\n", (step + 1) * BATCH);
            fflush(stdout);
        }
    }
    if (!atomic_load(&leaves))
        check(tern_flush(worker));
    check(tern_worker_close(worker));
    return NULL;
}

/* Compares what is in the table with what this node has pushed, and adds up what it has of each node. */
static void compare(const struct job *jobs)
{
    struct tern_worker *worker;
    int64_t row[LENGTH], sums[MAX_NODES] = {0};
    check(tern_worker_open(node, &worker));
    for (uint64_t i = 0; i < n_keys; i++) {
        const uint64_t key = key_of(i);
        int64_t pushed = 0;
        for (uint64_t w = 0; jobs && w < n_workers; w++)
            pushed += jobs[w].pushed[i];
        check(tern_pull(worker, table, &key, 1, row));
        check_row(key, row);
        const bool may_lack = getenv("RECOVER");
        if (jobs &&
            (may_lack ? row[2 * self] < 1 || row[2 * self] > pushed : row[2 * self] != pushed)) {
            printf("inexact: key %" PRIu64 " has %" PRId64 " of %" PRId64 " pushes\n", key,
                   row[2 * self], pushed);
            exit(1);
        }
        for (uint32_t k = 0; k < MAX_NODES; k++)
            sums[k] += row[2 * k];
    }
    for (uint32_t k = 0; k < MAX_NODES; k++)
        printf("sum %" PRIu32 " %" PRId64 "\n", k, sums[k]);
    check(tern_worker_close(worker));
}

static void write_checkpoint(const char *suffix)
{
    char path[4096];
    if (!getenv("CHECKPOINT"))
        return;
    snprintf(path, sizeof path, "%s%s", getenv("CHECKPOINT"), suffix);
    check(tern_checkpoint_start_changes(node, path, NULL, 0));
    check(tern_checkpoint_wait(node));
}

static void read_checkpoint(const char *path)
{
    struct tern_checkpoint *checkpoint;
    check(tern_checkpoint_open(path, &checkpoint));
    check(tern_checkpoint_restore(table, checkpoint));
    check(tern_checkpoint_close(checkpoint));
}

/* Writes a checkpoint, clears the table, and returns to it. */
static void go_back(void)
{
    char path[4096];
    struct tern_worker *worker;
    const int64_t zeros[LENGTH] = {0};
    if (!getenv("CHECKPOINT"))
        return;
    write_checkpoint(".1");
    check(tern_worker_open(node, &worker));
    for (uint64_t i = 0; i < n_keys; i++) {
        const uint64_t key = key_of(i);
        check(tern_set(worker, table, &key, 1, zeros));
    }
    check(tern_worker_close(worker));
    snprintf(path, sizeof path, "%s.1", getenv("CHECKPOINT"));
    read_checkpoint(path);
}

/* A round of ones, in a checkpoint. */
static void save_ones(struct job *job)
{
    char path[4096];
    struct tern_worker *worker;
    int64_t row[LENGTH] = {0};
    row[2 * self] = row[2 * self + 1] = row[LENGTH - 1] = 1;
    check(tern_worker_open(node, &worker));
    for (uint64_t i = 0; i < n_keys; i++) {
        const uint64_t key = key_of(i);
        check(tern_push(worker, table, &key, 1, row));
        job->pushed[i]++;
    }
    check(tern_worker_close(worker));
    snprintf(path, sizeof path, "%s/ones", getenv("RECOVER"));
    check(tern_checkpoint_start(node, path, NULL, 0));
    check(tern_checkpoint_wait(node));
}

static void print_recovered(void)
{
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    check(tern_table_get_stats(table, &stats));
    printf("recovered %" PRIu64 "\n", stats.recovered_keys);
}

static int leave(void)
{
    check(tern_barrier(node));
    check(tern_table_close(table));
    check(tern_node_close(node));
    return 0;
}

static void free_jobs(struct job *jobs)
{
    for (uint64_t i = 0; i < n_workers; i++)
        free(jobs[i].pushed);
}

/* The others go on. */
static int leave_alone(struct job *jobs)
{
    free_jobs(jobs);
    check(tern_node_leave(node));
    printf("left %" PRIu64 "\n", atomic_load(&n_started));
    return 0;
}

static int print_sums(const char *path)
{
    read_checkpoint(path);
    compare(NULL);
    return leave();
}

static void take_signals(void)
{
    signal(SIGUSR1, stop_stepping);
    signal(SIGUSR2, halt);
    signal(SIGHUP, halt);
    signal(SIGTERM, stop_and_leave);
}

static void read_environment(void)
{
    if (getenv("POLICY"))
        policy = getenv("POLICY");
    is_bounded = !strcmp(policy, "bsp") || strstr(policy, "ssp:") || strstr(policy, "vap:");
    intends = getenv("INTENTS");
}

/* Node k is to have replicas of the keys whose numbers are as odd as k. The placement stays. */
static const struct tern_placement *place(void)
{
    static struct tern_placement placement;
    uint64_t *keys = malloc(n_keys * n_nodes * sizeof *keys);
    uint32_t *nodes = malloc(n_keys * n_nodes * sizeof *nodes);
    placement.replica_keys = keys;
    placement.replica_nodes = nodes;
    for (uint64_t i = 0; keys && nodes && i < n_keys; i++)
        for (uint32_t k = i % 2; k < n_nodes; k += 2) {
            keys[placement.n_replicas] = key_of(i);
            nodes[placement.n_replicas++] = k;
        }
    return &placement;
}

/* What the policy asks for. */
static void adapt(struct tern_table_options *options)
{
    if (is_bounded || intends)
        options->updater = (struct tern_updater){0};
    if (!strncmp(policy, "graph", 5))
        options->placement = place();
}

int main(int argc, char **argv)
{
    hang_after(HANGS_S);
    sparse = argc > 1 && !strcmp(argv[1], "sparse");
    n_keys = argc > 2 ? strtoull(argv[2], NULL, 10) : 500;
    n_workers = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    const uint32_t n_backups = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 1;
    read_environment();
    take_signals();
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, &n_nodes));
    struct tern_table_options options = {
        .struct_size = sizeof options,
        .index = sparse ? TERN_SPARSE : TERN_DENSE,
        .type = TERN_I64,
        .n_keys = sparse ? 0 : n_keys,
        .length = LENGTH,
        .updater = {.name = "counted", .apply = apply, .state_per_row = 1},
        .policy = policy,
        .backups = n_backups,
        .recover = getenv("RECOVER")};
    adapt(&options);
    check(tern_table_open(node, "sums", &options, &table));
    if (getenv("READ"))
        return print_sums(getenv("READ"));
    struct job jobs[MAX_WORKERS];
    for (uint64_t i = 0; i < n_workers; i++)
        jobs[i] = (struct job){.seed = (self * MAX_WORKERS + i) << 32,
                               .pushed = calloc(n_keys, sizeof(int64_t))};
    write_checkpoint(".0");
    if (getenv("RECOVER"))
        save_ones(&jobs[0]);
    check(tern_barrier(node));
    puts("ready");
    fflush(stdout);
    for (uint64_t i = 0; i < n_workers; i++) {
        if (pthread_create(&jobs[i].thread, NULL, work, &jobs[i]))
            return 1;
    }
    for (uint64_t i = 0; i < n_workers; i++)
        pthread_join(jobs[i].thread, NULL);
    printf("started %" PRIu64 "\n", atomic_load(&n_started));
    fflush(stdout);
    if (atomic_load(&leaves))
        return leave_alone(jobs);
    int64_t present = 1;
    check(tern_all_reduce(node, TERN_I64, 1, &present));
    if (intends || is_bounded)
        check(tern_quiesce(node));
    go_back();
    compare(jobs);
    print_recovered();
    free_jobs(jobs);
    (void)leave();
    printf("exact %" PRId64 "\n", present);
    return 0;
}
