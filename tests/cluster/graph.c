/*
 * graph - the policy graph:S with real processes and threads: what a worker pushed it reads, nothing is lost or counted twice,
 * a value is never torn, and in the end all nodes read the same sums.
 *
 * Key k is at home at node k mod n; every node has replicas of the first keys. Two workers of each node push 1 to all elements
 * of some keys and pull others.
 *
 * graph POLICY STEPS [sgd|other]: sgd: with an updater, through which a worker may see its pushes later; other: node 1 has a
 * replica fewer in its placement, which must be refused
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tern/tern.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

enum { LENGTH = 16, N_KEYS = 240, N_REPLICATED = 60, MOST_NODES = 8, RUN = 20, HANGS_S = 200 };

static struct tern_node *node;
static struct tern_table *table;
static uint32_t self, n_nodes;
static uint64_t n_steps;
static bool is_updated;
static int64_t pushed[N_KEYS];

struct hand {
    struct tern_worker *worker;
    uint64_t random, n_wrong;
    int64_t pushed[N_KEYS];
};

/* Half of the keys are replicated ones. A key may come twice. */
static void draw_keys(struct hand *hand, uint64_t keys[RUN])
{
    for (int i = 0; i < RUN; i++) {
        hand->random = hand->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        keys[i] = (hand->random >> 33) % (i % 2 ? N_KEYS : N_REPLICATED);
    }
}

static void push_some(struct hand *hand)
{
    double updates[RUN][LENGTH];
    uint64_t keys[RUN];
    draw_keys(hand, keys);
    for (int i = 0; i < RUN; i++) {
        for (int j = 0; j < LENGTH; j++)
            updates[i][j] = is_updated ? -1 : 1;
        hand->pushed[keys[i]]++;
    }
    check(tern_push(hand->worker, table, keys, RUN, updates));
}

static void pull_some(struct hand *hand)
{
    double values[RUN][LENGTH];
    uint64_t keys[RUN];
    draw_keys(hand, keys);
    check(tern_pull(hand->worker, table, keys, RUN, values));
    for (int i = 0; i < RUN; i++) {
        for (int j = 1; j < LENGTH; j++)
            hand->n_wrong += values[i][j] != values[i][0];
        hand->n_wrong += !is_updated && values[i][0] < (double)hand->pushed[keys[i]];
    }
}

static void *work(void *argument)
{
    struct hand *hand = argument;
    for (uint64_t step = 0; step < n_steps; step++) {
        push_some(hand);
        pull_some(hand);
    }
    return NULL;
}

static uint64_t count_wrong_sums(struct tern_worker *worker)
{
    static double values[N_KEYS][LENGTH];
    uint64_t keys[N_KEYS], n_wrong = 0;
    for (uint64_t i = 0; i < N_KEYS; i++)
        keys[i] = i;
    check(tern_pull(worker, table, keys, N_KEYS, values));
    for (int i = 0; i < N_KEYS; i++)
        n_wrong += values[i][0] != (double)pushed[i];
    return n_wrong;
}

/* Opens the table; `lacking` replicas are left out. */
static enum tern_status open_table(const char *policy, size_t lacking)
{
    static uint64_t keys[N_KEYS], replica_keys[N_REPLICATED * MOST_NODES];
    static uint32_t homes[N_KEYS], replica_nodes[N_REPLICATED * MOST_NODES];
    size_t n = 0;
    for (uint32_t i = 0; i < N_KEYS; i++) {
        keys[i] = i;
        homes[i] = i % n_nodes;
        for (uint32_t k = 0; i < N_REPLICATED && k < n_nodes; k++) {
            replica_keys[n] = i;
            replica_nodes[n++] = k;
        }
    }
    const struct tern_placement placement = {.keys = keys,
                                             .homes = homes,
                                             .n_keys = N_KEYS,
                                             .replica_keys = replica_keys,
                                             .replica_nodes = replica_nodes,
                                             .n_replicas = n - lacking};
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_F64,
                                         .n_keys = N_KEYS,
                                         .length = LENGTH,
                                         .placement = &placement,
                                         .policy = policy};
    if (is_updated)
        options.updater = tern_updater_sgd(1);
    return tern_table_open(node, "graph", &options, &table);
}

int main(int argc, char **argv)
{
    static struct hand hands[2];
    pthread_t threads[2];
    hold(argc > 2);
    n_steps = strtoull(argv[2], NULL, 10);
    is_updated = argc > 3 && !strcmp(argv[3], "sgd");
    const bool is_other = argc > 3 && !strcmp(argv[3], "other");
    hang_after(HANGS_S);
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, &n_nodes));
    hold(n_nodes <= MOST_NODES);
    if (is_other && self == 1) {
        check(tern_barrier(node));
        hold(open_table(argv[1], 1) == TERN_MISMATCH);
    } else {
        check(open_table(argv[1], 0));
    }
    if (is_other) {
        if (self != 1)
            check(tern_barrier(node));
        check(tern_barrier(node));
        check(tern_node_close(node));
        return 0;
    }
    for (uint64_t i = 0; i < 2; i++) {
        hands[i].random = 2 * self + i + 1;
        check(tern_worker_open(node, &hands[i].worker));
        hold(pthread_create(&threads[i], NULL, work, &hands[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        for (int k = 0; k < N_KEYS; k++)
            pushed[k] += hands[i].pushed[k];
    }
    check(tern_quiesce(node));
    check(tern_all_reduce(node, TERN_I64, N_KEYS, pushed));
    const uint64_t n_wrong_sums = count_wrong_sums(hands[0].worker);
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    check(tern_table_get_stats(table, &stats));
    printf("node %" PRIu32 ": %" PRIu64 " wrong values, %" PRIu64 " wrong sums, %" PRIu64
           " checked, %" PRIu64 " within, %" PRIu64 " between\n",
           self, hands[0].n_wrong + hands[1].n_wrong, n_wrong_sums, stats.checked_keys,
           stats.fetched_within, stats.fetched_between);
    for (int i = 0; i < 2; i++)
        check(tern_worker_close(hands[i].worker));
    check(tern_node_close(node));
    return hands[0].n_wrong + hands[1].n_wrong + n_wrong_sums != 0;
}
