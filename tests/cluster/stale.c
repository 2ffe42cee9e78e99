/*
 * stale - tables with bounded reads at every node of a cluster: what each read shows is compared with what
 * every worker has done by then. Run by tests/cluster/test_stale.sh.
 *
 * stale POLICY THREADS CLOCKS [STALLS]
 *
 * What a worker pushes at a clock follows from its number and the clock, so all know what any of them has
 * done: each adds 1 to its own element of the rows of some keys. By clocks, a read at clock c with bound s
 * must show what every worker pushed up to clock c - s - 1, and its own pushes exactly. In the end, after
 * tern_quiesce, all of it is everywhere. Worker 0 of node STALLS stops in the middle until SIGUSR1 comes.
 *
 * It prints "ready" when all nodes are there, and "node K: N reads, 0 wrong, sums are right" in the end; or
 * "error", the status and the sentence of a call that failed.
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

#include "cluster/pace.h"

enum { KEYS = 97, BATCH = 12, MAX_WORKERS = 32, HANGS_S = 100 };

static struct tern_node *node;
static struct tern_table *table;
static uint32_t self, n_nodes, n_threads, n_workers, n_clocks, stalls = UINT32_MAX;
static uint64_t bound;
static bool by_clocks;
static uint16_t
    *done; /* [n_workers][KEYS][n_clocks + 1]: pushes of a worker to a key before a clock */
static _Atomic uint64_t n_reads, n_wrong;
static atomic_bool failed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile sig_atomic_t may_go_on;

static void on_signal(int number)
{
    (void)number;
    may_go_on = 1;
}

static void must(enum tern_status status)
{
    if (status != TERN_OK) {
        printf("broken %s %s\n", tern_status_name(status), tern_error());
        if (node)
            (void)tern_node_close(node); /* which tells the others why */
        exit(1);
    }
}

/* The i-th key that a worker uses at a clock, to push to or to read. */
static uint64_t key_of(uint32_t worker, uint64_t clock, uint64_t i, uint64_t what)
{
    uint64_t x = ((clock * MAX_WORKERS + worker) * BATCH + i) * 2 + what;
    x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return (x ^ x >> 32) % KEYS;
}

static uint16_t *done_by(uint32_t worker, uint64_t key)
{
    return done + ((size_t)worker * KEYS + key) * (n_clocks + 1);
}

static void foresee(void)
{
    done = calloc((size_t)n_workers * KEYS * (n_clocks + 1), sizeof *done);
    for (uint32_t w = 0; done && w < n_workers; w++) {
        for (uint32_t clock = 0; clock < n_clocks; clock++)
            for (uint64_t i = 0; i < BATCH; i++)
                done_by(w, key_of(w, clock, i, 0))[clock + 1]++;
        for (uint64_t key = 0; key < KEYS; key++)
            for (uint32_t clock = 0; clock < n_clocks; clock++)
                done_by(w, key)[clock + 1] =
                    (uint16_t)(done_by(w, key)[clock + 1] + done_by(w, key)[clock]);
    }
}

/* What a read of a worker at a clock shows of all, against what it must, and at most can. */
static void compare(uint32_t worker, uint64_t clock, uint64_t key, const int64_t *row)
{
    for (uint32_t w = 0; w < n_workers; w++) {
        const uint16_t *of = done_by(w, key);
        uint64_t before = by_clocks && clock > bound ? clock - bound : 0;
        bool own = w == worker;
        int64_t least = own ? of[clock] : of[before], most = own ? of[clock] : of[n_clocks];
        if (row[w] >= least && row[w] <= most)
            continue;
        if (atomic_fetch_add(&n_wrong, 1) == 0)
            fprintf(stderr,
                    "worker %u at clock %" PRIu64 " read %" PRId64 " of worker %u in key %" PRIu64
                    ", not %" PRId64 " to %" PRId64 "\n",
                    (unsigned)worker, clock, row[w], (unsigned)w, key, least, most);
    }
    atomic_fetch_add(&n_reads, 1);
}

/* The first failure speaks for the node. */
static void say_failed(enum tern_status status)
{
    pthread_mutex_lock(&lock);
    if (!atomic_exchange(&failed, true))
        printf("error %s %s\n", tern_status_name(status), tern_error());
    fflush(stdout);
    pthread_mutex_unlock(&lock);
}

static enum tern_status step(struct tern_worker *worker, uint32_t number, uint64_t clock)
{
    static const size_t n_at_once[] = {1, BATCH, 3};
    uint64_t keys[BATCH] = {0};
    int64_t rows[BATCH * MAX_WORKERS] = {0};
    size_t n = n_at_once[clock % 3];
    for (size_t i = 0; i < n; i++)
        keys[i] = key_of(number, clock, i, 1);
    enum tern_status status = tern_pull(worker, table, keys, n, rows);
    for (size_t i = 0; !status && i < n; i++)
        compare(number, clock, keys[i], rows + i * n_workers);
    for (size_t i = 0; i < BATCH; i++)
        keys[i] = key_of(number, clock, i, 0);
    memset(rows, 0, sizeof rows);
    for (size_t i = 0; i < BATCH; i++)
        rows[i * n_workers + number] = 1;
    if (!status)
        status = tern_push(worker, table, keys, BATCH, rows);
    return status ? status : tern_worker_advance(worker, NULL);
}

struct thread {
    pthread_t id;
    struct tern_worker *worker;
    uint32_t number; /* among those of all nodes */
};

static void *work(void *context)
{
    const struct thread *thread = context;
    struct tern_worker *worker = thread->worker;
    uint32_t number = thread->number;
    enum tern_status status = TERN_OK;
    for (uint64_t clock = 0; !status && clock < n_clocks && !atomic_load(&failed); clock++) {
        if (self == stalls && number % n_threads == 0 && clock == n_clocks / 2) {
            while (!may_go_on)
                usleep(1000);
            break;
        }
        status = step(worker, number, clock);
        if (number % 3 == 1)
            usleep(200);
    }
    if (status)
        say_failed(status);
    else
        must(tern_worker_rest(worker));
    return NULL;
}

/* Every key at this node, after all is said. */
static bool sums_are_right(struct tern_worker *worker)
{
    bool right = true;
    int64_t row[MAX_WORKERS];
    for (uint64_t key = 0; key < KEYS; key++) {
        must(tern_pull(worker, table, &key, 1, row));
        for (uint32_t w = 0; w < n_workers; w++)
            right &= row[w] == done_by(w, key)[n_clocks];
    }
    return right;
}

static void read_policy(const char *policy)
{
    const char *colon = strchr(policy, ':');
    by_clocks = strncmp(policy, "vap", 3) != 0;
    bound = by_clocks && colon ? strtoull(colon + 1, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    read_policy(argv[1]);
    n_threads = (uint32_t)atoi(argv[2]);
    n_clocks = (uint32_t)atoi(argv[3]);
    if (argc > 4)
        stalls = (uint32_t)atoi(argv[4]);
    hang_after(HANGS_S);
    signal(SIGUSR1, on_signal);
    must(tern_node_open(NULL, &node));
    must(tern_node_self(node, &self, &n_nodes));
    n_workers = n_nodes * n_threads;
    foresee();
    if (!done || n_workers > MAX_WORKERS)
        return 2;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_I64,
                                         .n_keys = KEYS,
                                         .length = n_workers,
                                         .policy = argv[1]};
    struct thread threads[MAX_WORKERS];
    must(tern_table_open(node, "counts", &options, &table));
    for (uint32_t i = 0; i < n_threads; i++) {
        threads[i].number = self * n_threads + i;
        must(tern_worker_open(node, &threads[i].worker));
    }
    must(tern_barrier(node));
    printf("ready\n");
    fflush(stdout);
    for (uint32_t i = 0; i < n_threads; i++)
        if (pthread_create(&threads[i].id, NULL, work, &threads[i]))
            return 2;
    for (uint32_t i = 0; i < n_threads; i++)
        pthread_join(threads[i].id, NULL);
    enum tern_status status = atomic_load(&failed) ? TERN_LATE : tern_quiesce(node);
    bool right = !status && sums_are_right(threads[0].worker);
    /* Another may be reading still. */
    if (!status)
        must(tern_barrier(node));
    for (uint32_t i = 0; i < n_threads; i++)
        must(tern_worker_close(threads[i].worker));
    enum tern_status closing = tern_node_close(node);
    if (!status)
        must(closing);
    if (!status)
        printf("node %" PRIu32 ": %" PRIu64 " reads, %" PRIu64 " wrong, sums are %s\n", self,
               atomic_load(&n_reads), atomic_load(&n_wrong), right ? "right" : "wrong");
    free(done);
    return atomic_load(&n_wrong) != 0;
}
