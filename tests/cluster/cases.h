/*
 * cases - programs of tests/cluster that do one of their cases at every node of a cluster: what the cases share. All have one
 * node, with one worker, and tables of N_KEYS keys.
 *
 * PROGRAM CASE        the last line is "node K: CASE holds"
 */
#ifndef CLUSTER_CASES_H
#define CLUSTER_CASES_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tern/tern.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

enum { N_KEYS = 400, LENGTH = 4, HANGS_S = 100 };

static struct tern_node *node;
static struct tern_worker *worker;
static uint32_t self, n_nodes;
static uint64_t all_keys[N_KEYS];

static inline struct tern_table *open_table(const char *name, enum tern_type type,
                                            const char *policy, const struct tern_updater *updater)
{
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = type,
                                         .n_keys = N_KEYS,
                                         .length = LENGTH,
                                         .policy = policy};
    struct tern_table *table;
    if (updater)
        options.updater = *updater;
    check(tern_table_open(node, name, &options, &table));
    return table;
}

static inline struct tern_table_stats stats_of(struct tern_table *table)
{
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    check(tern_table_get_stats(table, &stats));
    return stats;
}

/* Pushes x to n keys from `first` on. */
static inline void push_all(struct tern_table *table, uint64_t first, size_t n, int64_t x)
{
    static int64_t updates[N_KEYS * LENGTH];
    for (size_t i = 0; i < n * LENGTH; i++)
        updates[i] = x;
    check(tern_push(worker, table, all_keys + first, n, updates));
}

/* Whether all of n keys from `first` on have the value x here. */
static inline bool have_all(struct tern_table *table, uint64_t first, size_t n, int64_t x)
{
    static int64_t values[N_KEYS * LENGTH];
    check(tern_pull(worker, table, all_keys + first, n, values));
    for (size_t i = 0; i < n * LENGTH; i++)
        if (values[i] != x)
            return false;
    return true;
}

/* How many keys of a pull of the first n were at other nodes. */
static inline uint64_t remote_of_pull(struct tern_table *table, size_t n)
{
    static int64_t values[N_KEYS * LENGTH];
    uint64_t before = stats_of(table).remote_keys;
    check(tern_pull(worker, table, all_keys, n, values));
    return stats_of(table).remote_keys - before;
}

static inline void advance_to(uint64_t clock)
{
    uint64_t now = 0;
    check(tern_worker_clock(worker, &now));
    while (now < clock)
        check(tern_worker_advance(worker, &now));
}

struct test_case {
    const char *name;
    void (*run)(void);
};

/* What main of such a program returns. */
static inline int run_case(const char *name, const struct test_case *cases, size_t n_cases)
{
    hang_after(HANGS_S);
    for (uint64_t i = 0; i < N_KEYS; i++)
        all_keys[i] = i;
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, &n_nodes));
    check(tern_worker_open(node, &worker));
    for (size_t i = 0; i < n_cases; i++) {
        if (strcmp(name, cases[i].name))
            continue;
        cases[i].run();
        check(tern_worker_close(worker));
        check(tern_node_close(node));
        printf("node %" PRIu32 ": %s holds\n", self, name);
        return 0;
    }
    return 2;
}

#endif
