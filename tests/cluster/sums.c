/*
 * sums - every node pushes ones at random keys with several workers, pulls between, and checks the
 * exact sums after a barrier. Run by the scripts beside it.
 *
 * sums [dense|sparse] [keys] [workers] [steps] [policy] [ahead]
 *
 * With `ahead`, workers signal intent for their keys so many steps before they use them, ask for some of
 * them outright, and draw half of them from a few that all workers use.
 *
 * It prints "ready" before the first step. A node that then gets SIGUSR1 takes no further one, and adds
 * up what it has pushed: a test that does something to a running cluster asks for more steps than it
 * needs, and ends them when it is done.
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

enum { LENGTH = 4, BATCH = 50, MAX_WORKERS = 64, HANGS_S = 200 };

static struct tern_node *node;
static struct tern_table *table;
static uint32_t self;
static uint64_t n_keys, n_steps, ahead, n_listed;
static bool sparse;
static atomic_bool enough;

static void stop_stepping(int signal)
{
    (void)signal;
    atomic_store(&enough, true);
}

/* The key of a number: scattered over all 64 bits in a sparse table. */
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

/* The numbers of the keys of a step: always the same ones. */
static void draw(uint64_t seed, uint64_t step, uint64_t numbers[BATCH])
{
    uint64_t random = seed << 32 ^ step * 977;
    for (int i = 0; i < BATCH; i++) {
        uint64_t range = ahead && next_random(&random) % 2 ? n_keys / 100 + 1 : n_keys;
        numbers[i] = next_random(&random) % range;
    }
}

/* Says that a step's keys will be used in it. */
static void intend(struct tern_worker *worker, uint64_t seed, uint64_t step)
{
    uint64_t keys[BATCH];
    draw(seed, step, keys);
    for (int i = 0; i < BATCH; i++)
        keys[i] = key_of(keys[i]);
    check(tern_intent(worker, table, keys, BATCH, step, step + 1));
    if (step % 5 == 0)
        check(tern_localize(worker, table, keys, 5));
}

/* What a worker pushed, per key; adds up to what the table must hold. */
struct job {
    uint64_t seed;
    int64_t *pushed;
};

static void *work(void *context)
{
    struct job *job = context;
    struct tern_worker *worker;
    check(tern_worker_open(node, &worker));
    uint64_t numbers[BATCH], keys[2][BATCH], tickets[2] = {0};
    int64_t ones[BATCH][LENGTH], values[BATCH][LENGTH];
    for (int i = 0; i < BATCH; i++)
        for (int j = 0; j < LENGTH; j++)
            ones[i][j] = 1;
    for (uint64_t step = 0; step < n_steps && !atomic_load(&enough); step++) {
        uint64_t *batch = keys[step % 2];
        if (tickets[step % 2])
            check(tern_wait(worker, tickets[step % 2]));
        for (uint64_t s = step ? step + ahead : 0; ahead && s <= step + ahead; s++)
            if (s < n_steps)
                intend(worker, job->seed, s);
        draw(job->seed, step, numbers);
        for (int i = 0; i < BATCH; i++) {
            job->pushed[numbers[i]]++;
            batch[i] = key_of(numbers[i]);
        }
        check(tern_push_start(worker, table, batch, BATCH, ones, &tickets[step % 2]));
        if (step % 3 == 0) {
            check(tern_pull(worker, table, batch, BATCH, values));
            for (int i = 0; i < BATCH; i++)
                for (int j = 0; j < LENGTH; j++)
                    if (values[i][j] < job->pushed[numbers[i]] || values[i][j] != values[i][0]) {
                        fprintf(stderr,
                                "key %" PRIu64 ": after %" PRId64 " pushes of the worker's own, "
                                "a pull saw %" PRId64 " beside %" PRId64 "\n",
                                batch[i], job->pushed[numbers[i]], values[i][j], values[i][0]);
                        exit(1);
                    }
        }
        check(tern_worker_advance(worker, NULL));
    }
    if (tickets[0])
        check(tern_wait(worker, tickets[0]));
    if (tickets[1])
        check(tern_wait(worker, tickets[1]));
    check(tern_worker_close(worker));
    return NULL;
}

/* Sums what all nodes pushed, key by key, in pieces that fit a reduction. */
static void add_up(int64_t *pushed)
{
    size_t piece = 100000;
    for (uint64_t done = 0; done < n_keys; done += piece)
        check(tern_all_reduce(node, TERN_I64, n_keys - done < piece ? n_keys - done : piece,
                              pushed + done));
}

/* Whether the keys of the whole range are exactly those that were pushed. */
static bool range_is_right(const int64_t *pushed)
{
    struct tern_worker *worker;
    check(tern_worker_open(node, &worker));
    uint64_t *keys = malloc((n_keys + 1) * sizeof *keys);
    size_t n_found = 0, n_expected = 0, n_unused = 0;
    if (!keys)
        exit(1);
    check(tern_pull_range(worker, table, 0, sparse ? UINT64_MAX : n_keys, n_keys + 1, keys, NULL,
                          &n_found));
    for (uint64_t k = 0; k < n_keys; k++)
        n_expected += !sparse || pushed[k] > 0;
    for (uint64_t k = 0; sparse && k < n_listed && k < n_keys; k++)
        n_unused += pushed[k] == 0;
    /* Rows of keys that every node has are there from the beginning, unless nodes share their memory. */
    bool right = n_found >= n_expected && n_found <= n_expected + n_unused;
    for (size_t i = 1; i < n_found; i++)
        right &= keys[i - 1] < keys[i];
    free(keys);
    check(tern_worker_close(worker));
    return right;
}

static uint64_t count_wrong(const int64_t *pushed)
{
    struct tern_worker *worker;
    check(tern_worker_open(node, &worker));
    uint64_t n_wrong = 0, keys[BATCH];
    int64_t values[BATCH][LENGTH];
    for (uint64_t done = 0; done < n_keys; done += BATCH) {
        size_t n = n_keys - done < BATCH ? n_keys - done : BATCH;
        for (size_t i = 0; i < n; i++)
            keys[i] = key_of(done + i);
        check(tern_pull(worker, table, keys, n, values));
        for (size_t i = 0; i < n; i++)
            for (int j = 0; j < LENGTH; j++)
                n_wrong += values[i][j] != pushed[done + i];
    }
    check(tern_worker_close(worker));
    return n_wrong;
}

/* Takes all steps in so many threads; what they pushed is in jobs[0]. */
static void run_workers(struct job *jobs, size_t n_workers)
{
    pthread_t threads[MAX_WORKERS];
    for (size_t i = 0; i < n_workers; i++) {
        jobs[i].seed = self * 1000 + i;
        jobs[i].pushed = calloc(n_keys, sizeof *jobs[i].pushed);
        hold(jobs[i].pushed && !pthread_create(&threads[i], NULL, work, &jobs[i]));
    }
    for (size_t i = 0; i < n_workers; i++) {
        pthread_join(threads[i], NULL);
        for (uint64_t k = 0; i > 0 && k < n_keys; k++)
            jobs[0].pushed[k] += jobs[i].pushed[k];
    }
}

int main(int argc, char **argv)
{
    sparse = argc > 1 && !strcmp(argv[1], "sparse");
    n_keys = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
    size_t n_workers = argc > 3 ? strtoull(argv[3], NULL, 10) : 2;
    n_steps = argc > 4 ? strtoull(argv[4], NULL, 10) : 500;
    ahead = argc > 6 ? strtoull(argv[6], NULL, 10) : 0;
    if (!n_keys || !n_workers || n_workers > MAX_WORKERS || !n_steps)
        return 2;
    signal(SIGUSR1, stop_stepping);
    hang_after(HANGS_S);

    struct tern_table_options options = {.struct_size = sizeof options,
                                         .index = sparse ? TERN_SPARSE : TERN_DENSE,
                                         .type = TERN_I64,
                                         .n_keys = sparse ? 0 : n_keys,
                                         .length = LENGTH,
                                         .policy = argc > 5 ? argv[5] : "adaptive"};
    uint64_t listed[10];
    for (uint64_t i = 0; i < 10; i++)
        listed[i] = key_of(i % n_keys);
    if (!strcmp(options.policy, "multi")) {
        options.replicated = listed;
        options.n_replicated = n_listed = 10;
    }
    uint32_t n_nodes;
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, &n_nodes));
    check(tern_table_open(node, "sums", &options, &table));

    puts("ready");
    fflush(stdout);

    struct job jobs[MAX_WORKERS];
    run_workers(jobs, n_workers);
    check(tern_quiesce(node));
    add_up(jobs[0].pushed);
    bool right = range_is_right(jobs[0].pushed);
    uint64_t n_wrong = count_wrong(jobs[0].pushed);
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    check(tern_table_get_stats(table, &stats));
    printf("node %" PRIu32 " of %" PRIu32 ": %" PRIu64 " keys pushed, %" PRIu64
           " remote accesses, %" PRIu64 " rows here, %" PRIu64 " wrong sums, %s range\n",
           self, n_nodes, stats.pushed_keys, stats.remote_keys, stats.rows, n_wrong,
           right ? "right" : "wrong");
    for (size_t i = 0; i < n_workers; i++)
        free(jobs[i].pushed);
    check(tern_node_close(node));
    return n_wrong != 0 || !right;
}
