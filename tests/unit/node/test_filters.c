/*
 * Filters between two nodes of one process: what is lossless changes no sum, what is rounded stays near the truth, a set
 * is exact, and nodes that name other filters are told so.
 */
#include <math.h>
#include <pthread.h>

#include "support/check.h"

enum { N_NODES = 2, N_KEYS = 400, LENGTH = 4, STEPS = 20 };

struct participant {
    pthread_t thread;
    uint32_t index;
    uint64_t n_wrong;
    int64_t n_exact; /* keys that this node reads as they were set */
};

static bool open_table(struct tern_node *node, const char *name, enum tern_type type,
                       const char *filters, struct tern_table **table)
{
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .type = type,
                                               .n_keys = N_KEYS,
                                               .length = LENGTH,
                                               .policy = "static",
                                               .filters = filters};
    return !tern_table_open(node, name, &options, table);
}

/* Every node pushes 1 to every second key in each step: half the rows that are pulled are zeros. */
static uint64_t count_lossless(struct tern_node *node, struct tern_worker *worker)
{
    static _Thread_local int64_t values[N_KEYS][LENGTH], pushed[N_KEYS][LENGTH];
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    struct tern_table *table;
    uint64_t keys[N_KEYS], n_wrong = 0;
    if (!open_table(node, "counts", TERN_I64, "zeros", &table))
        return 1;
    for (uint64_t i = 0; i < N_KEYS; i++) {
        keys[i] = i;
        pushed[i][LENGTH - 1] = i % 2;
    }
    for (int step = 0; step < STEPS; step++)
        n_wrong += tern_push(worker, table, keys, N_KEYS, pushed) != TERN_OK;
    n_wrong += tern_quiesce(node) || tern_pull(worker, table, keys, N_KEYS, values);
    for (size_t i = 0; i < N_KEYS; i++)
        n_wrong += values[i][0] != 0 || values[i][LENGTH - 1] != (int64_t)(i % 2) * N_NODES * STEPS;
    n_wrong +=
        tern_table_get_stats(table, &stats) || !stats.zeros_saved_bytes || stats.fixed_saved_bytes;
    return n_wrong;
}

/* What is pushed and pulled is rounded to 1/127 of the largest of a message at most twice. */
static uint64_t count_rounded(struct tern_node *node, struct tern_worker *worker)
{
    static _Thread_local float values[N_KEYS][LENGTH], pushed[N_KEYS][LENGTH];
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    struct tern_table *table;
    uint64_t keys[N_KEYS], n_wrong = 0;
    if (!open_table(node, "weights", TERN_F32, "zeros,fixed:8", &table))
        return 1;
    for (uint64_t i = 0; i < N_KEYS; i++) {
        keys[i] = i;
        for (int k = 0; k < LENGTH; k++)
            pushed[i][k] = (float)i / (float)(N_KEYS + k);
    }
    for (int step = 0; step < STEPS; step++)
        n_wrong += tern_push(worker, table, keys, N_KEYS, pushed) != TERN_OK;
    n_wrong += tern_quiesce(node) || tern_pull(worker, table, keys, N_KEYS, values);
    for (size_t i = 0; i < N_KEYS * LENGTH; i++) {
        const float truth = N_NODES * STEPS * pushed[i / LENGTH][i % LENGTH];
        n_wrong += fabsf(values[i / LENGTH][i % LENGTH] - truth) >
                   N_NODES * STEPS * 2.0f / 127 + 2 * N_NODES * STEPS / 127.0f;
    }
    n_wrong += tern_table_get_stats(table, &stats) || !stats.fixed_saved_bytes;
    return n_wrong;
}

/* Node 1 sets all keys to what 8 bits cannot say: the node that has a key reads it exactly. */
static uint64_t count_set(struct tern_node *node, struct tern_worker *worker, uint32_t index,
                          int64_t *n_exact)
{
    static _Thread_local float values[N_KEYS][LENGTH];
    struct tern_table *table;
    uint64_t keys[N_KEYS], n_wrong = 0;
    if (!open_table(node, "set", TERN_F32, "fixed:8", &table))
        return 1;
    for (uint64_t i = 0; i < N_KEYS; i++) {
        keys[i] = i;
        for (int k = 0; k < LENGTH; k++)
            values[i][k] = 1.0f / 3 + (float)i;
    }
    if (index == 1)
        n_wrong += tern_set(worker, table, keys, N_KEYS, values) != TERN_OK;
    n_wrong += tern_quiesce(node) || tern_pull(worker, table, keys, N_KEYS, values);
    for (uint64_t i = 0; i < N_KEYS; i++)
        *n_exact += values[i][0] == 1.0f / 3 + (float)i;
    return n_wrong;
}

/* Each node pulls and pushes the same keys in every step: after the first their list is named. */
static uint64_t count_named(struct tern_node *node, struct tern_worker *worker)
{
    static _Thread_local int64_t values[N_KEYS][LENGTH], ones[N_KEYS][LENGTH];
    struct tern_table_stats first = {.struct_size = sizeof first};
    struct tern_table_stats last = {.struct_size = sizeof last};
    struct tern_table *table;
    uint64_t keys[N_KEYS], n_wrong = 0;
    if (!open_table(node, "named", TERN_I64, "keys,zeros,lz4", &table))
        return 1;
    for (uint64_t i = 0; i < N_KEYS; i++) {
        keys[i] = i;
        ones[i][0] = 1;
    }
    for (int step = 0; step <= STEPS; step++) {
        n_wrong += tern_pull(worker, table, keys, N_KEYS, values) ||
                   (step < STEPS && tern_push(worker, table, keys, N_KEYS, ones));
        if (step == 0)
            n_wrong += tern_table_get_stats(table, &first) != TERN_OK;
    }
    n_wrong += tern_table_get_stats(table, &last) || tern_quiesce(node) ||
               tern_pull(worker, table, keys, N_KEYS, values);
    for (size_t i = 0; i < N_KEYS; i++)
        n_wrong += values[i][0] != (int64_t)N_NODES * STEPS;
    /* 200 keys take as many bytes when they are sent whole. */
    const uint64_t saved = last.keys_saved_bytes - first.keys_saved_bytes;
    n_wrong += saved < (2 * STEPS - 1) * (N_KEYS / N_NODES - 32);
    return n_wrong;
}

/* Node 0 is first; the other one names other filters, and then the same. */
static uint64_t count_mismatched(struct tern_node *node, uint32_t index)
{
    struct tern_table *table;
    uint64_t n_wrong = 0;
    if (index == 0)
        n_wrong += !open_table(node, "other", TERN_F32, "zeros", &table);
    n_wrong += tern_barrier(node) != TERN_OK;
    if (index == 1) {
        n_wrong += open_table(node, "other", TERN_F32, "zeros,fixed:8", &table);
        n_wrong += open_table(node, "other", TERN_F32, NULL, &table);
        n_wrong += !open_table(node, "other", TERN_F32, "zeros", &table);
    }
    return n_wrong + (tern_barrier(node) != TERN_OK);
}

static void *be_member(void *context)
{
    struct participant *member = context;
    struct tern_node_options options = {.struct_size = sizeof options,
                                        .group = "filters",
                                        .node = member->index,
                                        .n_nodes = N_NODES};
    struct tern_node *node;
    struct tern_worker *worker;
    if (tern_node_open(&options, &node) || tern_worker_open(node, &worker)) {
        member->n_wrong++;
        return NULL;
    }
    member->n_wrong += count_lossless(node, worker) + count_named(node, worker) +
                       count_rounded(node, worker) +
                       count_set(node, worker, member->index, &member->n_exact) +
                       count_mismatched(node, member->index);
    member->n_wrong += tern_worker_close(worker) || tern_node_close(node);
    return NULL;
}

static void nodes_filter_what_they_send(void **state)
{
    (void)state;
    struct participant members[N_NODES] = {{0}};
    for (uint32_t i = 0; i < N_NODES; i++) {
        members[i].index = i;
        assert_int_equal(pthread_create(&members[i].thread, NULL, be_member, &members[i]), 0);
    }
    int64_t n_exact = 0;
    for (uint32_t i = 0; i < N_NODES; i++) {
        pthread_join(members[i].thread, NULL);
        assert_int_equal(members[i].n_wrong, 0);
        n_exact += members[i].n_exact;
    }
    assert_int_equal(n_exact, N_KEYS);
}

static void bad_filters_are_refused(void **state)
{
    (void)state;
    struct tern_node *node;
    struct tern_table *table;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_I32,
                                         .n_keys = 10,
                                         .length = 1,
                                         .filters = "fixed:8"};
    ok(tern_node_open(NULL, &node));
    refused(tern_table_open(node, "w", &options, &table), TERN_INVALID, "'w'", "fixed:8", "whole");
    options.filters = "keys,zeros,keys";
    refused(tern_table_open(node, "w", &options, &table), TERN_INVALID, "keys", "twice");
    options.filters = "shorter";
    refused(tern_table_open(node, "w", &options, &table), TERN_INVALID, "shorter", "zeros");
    char filters[] = "zeros";
    options.filters = filters;
    ok(tern_table_open(node, "w", &options, &table));
    filters[0] = 'x';
    options.filters = "zeros";
    ok(tern_table_open(node, "w", &options, &table));
    options.filters = NULL;
    refused(tern_table_open(node, "w", &options, &table), TERN_MISMATCH, "'w'", "filters");
    ok(tern_node_close(node));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_filter_what_they_send),
        cmocka_unit_test(bad_filters_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
