/*
 * alike - a trial: how old the copies of a table that every node has whole are, kept alike through owners
 * (core/replica.c) or by all-reduce (core/doubling.c).
 *
 *     tern run -n NODES [--link RATE,DELAY] -- build/bench/alike POLICY ROWS SECONDS
 *
 * Every node writes the time to a row of its own, changes ROWS others of a thousand, chosen at random, and looks at the
 * times that the other nodes wrote: the differences are ages. 250 times a second, so that nodes do not fight for cores.
 * Node 0 prints the means over all nodes: the age, rounds a second and kilobytes a second that a node sent.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tern/tern.h>

enum { KEYS = 1000, LENGTH = 16, MAX_ROWS = 1000, PAUSE_NS = 4000000 };

static void need(enum tern_status status)
{
    if (status == TERN_OK)
        return;
    fprintf(stderr, "alike: %s\n", tern_error());
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* nodes are on one host, if in several networks */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t updates[1 + MAX_ROWS][LENGTH];
static uint64_t keys[1 + MAX_ROWS];

/* The changes of a step: `passed` to the row of this node, and 1 to others beyond those of all nodes. */
static void draw_changes(uint32_t self, uint32_t n_nodes, int n_rows, int64_t passed,
                         uint64_t *random)
{
    keys[0] = self;
    updates[0][0] = passed;
    for (int i = 1; i <= n_rows && i <= MAX_ROWS; i++) {
        *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        keys[i] = n_nodes + (*random >> 33) % (KEYS - n_nodes);
        updates[i][0] = 1;
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: alike POLICY ROWS SECONDS\n");
        return 2;
    }
    const int n_rows = atoi(argv[2]);
    const double seconds = atof(argv[3]);
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *worker;
    uint32_t self, n_nodes;
    need(tern_node_open(NULL, &node));
    need(tern_node_self(node, &self, &n_nodes));
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .type = TERN_I64,
                                               .n_keys = KEYS,
                                               .length = LENGTH,
                                               .policy = argv[1]};
    need(tern_table_open(node, "alike", &options, &table));
    need(tern_worker_open(node, &worker));
    need(tern_barrier(node));

    static int64_t seen[KEYS][LENGTH];
    static uint64_t all[KEYS];
    for (uint64_t i = 0; i < KEYS; i++)
        all[i] = i;
    uint64_t random = self + 1;
    int64_t last = 0, begin = now_ns(), now = begin;
    double ages = 0, n_ages = 0;
    struct tern_table_stats before = {.struct_size = sizeof before}, after = before;
    need(tern_table_get_stats(table, &before));
    while ((double)(now - begin) < seconds * 1e9) {
        draw_changes(self, n_nodes, n_rows, now - last, &random);
        last = now;
        need(tern_push(worker, table, keys, 1 + (size_t)n_rows, updates));
        need(tern_worker_advance(worker, NULL));
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        need(tern_pull(worker, table, all, n_nodes, seen));
        now = now_ns();
        for (uint32_t i = 0; i < n_nodes; i++) {
            bool counts = i != self && seen[i][0] && (double)(now - begin) > 0.2 * seconds * 1e9;
            ages += counts ? (double)(now - seen[i][0]) : 0;
            n_ages += counts;
        }
    }
    need(tern_table_get_stats(table, &after));
    double sums[4] = {ages, n_ages, (double)(after.rounds - before.rounds),
                      (double)(after.sent_bytes - before.sent_bytes)};
    need(tern_all_reduce(node, TERN_F64, 4, sums));
    if (self == 0)
        printf("%-18s %2u nodes, %4d rows: age %7.2f ms, %6.0f rounds/s, %8.1f kB/s\n", argv[1],
               n_nodes, n_rows, sums[0] / sums[1] / 1e6, sums[2] / n_nodes / seconds,
               sums[3] / n_nodes / seconds / 1e3);
    need(tern_quiesce(node));
    need(tern_worker_close(worker));
    need(tern_node_close(node));
    return 0;
}
