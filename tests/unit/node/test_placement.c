/*
 * Placements of tables, in a cluster inside one process: keys are at home where a program says, sums are exact under every
 * kind of policy, nodes that give different placements are told so, and a bad placement is refused with a sentence.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tern/tern.h>

#include <cmocka.h>

enum { N_NODES = 3, N_KEYS = 300, LENGTH = 3, STEPS = 20, BATCH = 40, HANGS_S = 300 };

static const char *const policies[] = {"static",   "replicate", "replicate-doubling",
                                       "adaptive", "relocate",  "multi",
                                       "cached",   "ssp:1"};

struct participant {
    pthread_t thread;
    uint32_t index;
    uint64_t n_wrong;
};

static uint64_t placed_keys[N_KEYS];
static uint32_t placed_homes[N_KEYS];

/* Three of four keys have a home of their own. */
static struct tern_placement placement_of_most(void)
{
    size_t n = 0;
    for (uint32_t i = 0; i < N_KEYS; i++) {
        placed_keys[n] = i;
        placed_homes[n] = i * 7 / 2 % N_NODES;
        n += i % 4 != 0;
    }
    return (struct tern_placement){.keys = placed_keys, .homes = placed_homes, .n_keys = n};
}

static struct tern_placement most;

static struct tern_table_options options_of(enum tern_index index, uint32_t length,
                                            const char *policy)
{
    return (struct tern_table_options){.struct_size = sizeof(struct tern_table_options),
                                       .index = index,
                                       .type = TERN_I64,
                                       .n_keys = index == TERN_DENSE ? N_KEYS : 0,
                                       .length = length,
                                       .policy = policy,
                                       .placement = &most};
}

/* Every node pushes 1 to BATCH keys in each step; the sum over the table is then known. */
static uint64_t count_wrong(struct tern_node *node, struct tern_worker *worker, uint32_t index,
                            const struct tern_table_options *options, const char *name)
{
    struct tern_table *table;
    int64_t values[N_KEYS * LENGTH], ones[BATCH * LENGTH], sum = 0;
    uint64_t keys[N_KEYS], n_wrong = 0;
    for (size_t i = 0; i < BATCH * LENGTH; i++)
        ones[i] = 1;
    if (tern_table_open(node, name, options, &table))
        return 1;
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint64_t i = 0; i < BATCH; i++)
            keys[i] = (step * 31 + i * i * 7 + index * 101) % N_KEYS;
        n_wrong += tern_localize(worker, table, keys, 2) != TERN_OK;
        n_wrong += tern_intent(worker, table, keys, BATCH, step, step + 2) != TERN_OK;
        n_wrong += tern_pull(worker, table, keys, BATCH, values) != TERN_OK;
        n_wrong += tern_push(worker, table, keys, BATCH, ones) != TERN_OK;
        n_wrong += tern_worker_advance(worker, NULL) != TERN_OK;
    }
    n_wrong += tern_quiesce(node) != TERN_OK;
    for (uint64_t i = 0; i < N_KEYS; i++)
        keys[i] = i;
    n_wrong += tern_pull(worker, table, keys, N_KEYS, values) != TERN_OK;
    for (size_t i = 0; i < N_KEYS; i++)
        sum += values[i * options->length];
    return n_wrong + (sum != N_NODES * STEPS * BATCH);
}

/* Values of 4 bytes live in the index. */
static uint64_t count_wrong_inline(struct tern_node *node, struct tern_worker *worker)
{
    struct tern_table_options options = options_of(TERN_DENSE, 1, "static");
    struct tern_table *table;
    int32_t values[N_KEYS], ones[N_KEYS];
    uint64_t keys[N_KEYS], n_wrong = 0;
    options.type = TERN_I32;
    for (uint32_t i = 0; i < N_KEYS; i++) {
        keys[i] = i;
        ones[i] = 1;
    }
    if (tern_table_open(node, "inline", &options, &table))
        return 1;
    for (int i = 0; i < 3; i++)
        n_wrong += tern_push(worker, table, keys, N_KEYS, ones) != TERN_OK;
    n_wrong += tern_barrier(node) || tern_pull(worker, table, keys, N_KEYS, values);
    for (uint32_t i = 0; i < N_KEYS; i++)
        n_wrong += values[i] != 3 * N_NODES;
    return n_wrong;
}

/* Under `static` exactly the keys that were placed elsewhere are remote. */
static uint64_t count_misplaced(struct tern_node *node, struct tern_worker *worker, uint32_t index,
                                enum tern_index kind)
{
    struct tern_table_options options = options_of(kind, LENGTH, "static");
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    struct tern_table *table;
    int64_t values[N_KEYS * LENGTH];
    uint64_t n_remote = 0;
    if (tern_table_open(node, kind == TERN_DENSE ? "dense homes" : "sparse homes", &options,
                        &table))
        return 1;
    for (size_t i = 0; i < most.n_keys; i++)
        n_remote += most.homes[i] != index;
    return tern_pull(worker, table, most.keys, most.n_keys, values) ||
           tern_table_get_stats(table, &stats) || stats.remote_keys != n_remote;
}

/* Scattered homes: ranges, and sums under every policy, are as ever, and two keys of N_NODES in a row are remote. */
static uint64_t count_wrong_scattered(struct tern_node *node, struct tern_worker *worker,
                                      uint32_t index, const char *policy)
{
    struct tern_table_options options = options_of(TERN_DENSE, LENGTH, policy);
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    struct tern_table *table;
    int64_t values[N_KEYS * LENGTH], ones[N_KEYS * LENGTH];
    uint64_t keys[N_KEYS], n_wrong = 0;
    size_t n = 0;
    char name[64];
    options.placement = NULL;
    options.scatter = true;
    snprintf(name, sizeof name, "scattered %s", policy);
    n_wrong += count_wrong(node, worker, index, &options, name);
    snprintf(name, sizeof name, "ranged %s", policy);
    if (strcmp(policy, "static") || tern_table_open(node, name, &options, &table))
        return n_wrong + (strcmp(policy, "static") == 0);
    for (size_t i = 0; i < N_KEYS * LENGTH; i++)
        ones[i] = 1;
    n_wrong += tern_push_range(worker, table, 10, N_KEYS, N_KEYS - 10, ones) || tern_barrier(node);
    n_wrong += tern_pull_range(worker, table, 0, N_KEYS, N_KEYS, keys, values, &n) != TERN_OK;
    n_wrong += n != N_KEYS;
    for (uint64_t i = 0; i < n; i++)
        n_wrong += keys[i] != i || values[i * LENGTH] != (i < 10 ? 0 : N_NODES);
    n_wrong += tern_barrier(node) || tern_table_get_stats(table, &stats);
    const uint64_t before = stats.remote_keys;
    n_wrong += tern_pull(worker, table, keys, N_KEYS, values) != TERN_OK;
    n_wrong += tern_table_get_stats(table, &stats) != TERN_OK;
    return n_wrong + (stats.remote_keys - before != N_KEYS - N_KEYS / N_NODES);
}

/* A node that gives another placement than the first node to open the table is told so, and so is one that opens the table
 * again with another. */
static uint64_t count_unnoticed(struct tern_node *node, uint32_t index)
{
    struct tern_table_options options = options_of(TERN_DENSE, 1, "static");
    struct tern_table *table, *other;
    struct tern_placement changed = most;
    uint32_t homes[N_KEYS];
    memcpy(homes, placed_homes, sizeof homes);
    homes[5] = (homes[5] + 1) % N_NODES;
    changed.homes = homes;
    uint64_t n_wrong = index == 0 && tern_table_open(node, "agreed", &options, &table);
    n_wrong += tern_barrier(node) != TERN_OK;
    options.placement = &changed;
    n_wrong += tern_table_open(node, "agreed", &options, &other) != TERN_MISMATCH ||
               !strstr(tern_error(), "agreed");
    options.placement = NULL;
    n_wrong += tern_table_open(node, "agreed", &options, &other) != TERN_MISMATCH;
    options.placement = &most;
    return n_wrong + (tern_table_open(node, "agreed", &options, &table) != TERN_OK);
}

static void *participate(void *argument)
{
    struct participant *member = argument;
    struct tern_node_options options = {.struct_size = sizeof options,
                                        .group = "placement",
                                        .node = member->index,
                                        .n_nodes = N_NODES};
    struct tern_node *node;
    struct tern_worker *worker;
    member->n_wrong = 1;
    if (tern_node_open(&options, &node) || tern_worker_open(node, &worker) || tern_barrier(node))
        return NULL;
    member->n_wrong = 0;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        for (int kind = TERN_DENSE; kind <= TERN_SPARSE; kind++) {
            char name[64];
            snprintf(name, sizeof name, "%s %d", policies[i], kind);
            const struct tern_table_options table =
                options_of((enum tern_index)kind, LENGTH, policies[i]);
            uint64_t n_wrong = count_wrong(node, worker, member->index, &table, name);
            member->n_wrong += n_wrong;
        }
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        member->n_wrong += count_wrong_scattered(node, worker, member->index, policies[i]);
    member->n_wrong += count_wrong_inline(node, worker);
    member->n_wrong += count_misplaced(node, worker, member->index, TERN_DENSE);
    member->n_wrong += count_misplaced(node, worker, member->index, TERN_SPARSE);
    member->n_wrong += count_unnoticed(node, member->index);
    member->n_wrong += tern_worker_close(worker) || tern_node_close(node);
    return NULL;
}

static void sums_are_exact_where_keys_are_placed(void **state)
{
    (void)state;
    most = placement_of_most();
    struct participant members[N_NODES];
    for (uint32_t i = 0; i < N_NODES; i++) {
        members[i] = (struct participant){.index = i};
        assert_int_equal(pthread_create(&members[i].thread, NULL, participate, &members[i]), 0);
    }
    for (uint32_t i = 0; i < N_NODES; i++) {
        assert_int_equal(pthread_join(members[i].thread, NULL), 0);
        assert_int_equal(members[i].n_wrong, 0);
    }
}

static void refused(struct tern_node *node, const struct tern_placement *placement,
                    enum tern_index index, enum tern_status status, const char *word)
{
    struct tern_table_options options = options_of(index, 1, "static");
    struct tern_table *table;
    options.placement = placement;
    assert_int_equal(tern_table_open(node, "refused", &options, &table), status);
    assert_non_null(strstr(tern_error(), word));
    assert_non_null(strstr(tern_error(), "refused"));
}

static void bad_placements_are_refused(void **state)
{
    (void)state;
    struct tern_node *node;
    struct tern_table *table;
    const struct tern_node_options alone = {.struct_size = sizeof alone};
    assert_int_equal(tern_node_open(&alone, &node), TERN_OK);
    const uint64_t keys[] = {1, 7, 1, N_KEYS};
    const uint32_t homes[] = {0, 0, 0, 0}, beyond[] = {0, 1, 0, 0};
    struct tern_placement bad = {.keys = keys, .n_keys = 2};
    refused(node, &bad, TERN_DENSE, TERN_INVALID, "NULL");
    bad.homes = beyond;
    refused(node, &bad, TERN_DENSE, TERN_RANGE, "key 7 at node 1");
    bad.homes = homes;
    bad.n_keys = 3;
    refused(node, &bad, TERN_DENSE, TERN_INVALID, "key 1 twice");
    bad.n_keys = 4;
    refused(node, &bad, TERN_DENSE, TERN_RANGE, "300");
    bad.n_keys = 2;
    bad.replica_keys = keys;
    bad.n_replicas = 2;
    refused(node, &bad, TERN_SPARSE, TERN_INVALID, "replica");
    bad.replica_nodes = beyond;
    refused(node, &bad, TERN_SPARSE, TERN_RANGE, "replica");
    bad.replica_nodes = homes;
    struct tern_table_options options = options_of(TERN_SPARSE, 1, NULL);
    options.placement = &bad;
    assert_int_equal(tern_table_open(node, "taken", &options, &table), TERN_OK);
    options.scatter = true;
    assert_int_equal(tern_table_open(node, "sparse", &options, &table), TERN_INVALID);
    assert_non_null(strstr(tern_error(), "scatter"));
    assert_int_equal(tern_node_close(node), TERN_OK);
}

int main(void)
{
    alarm(HANGS_S);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact_where_keys_are_placed),
        cmocka_unit_test(bad_placements_are_refused),
    };
    return cmocka_run_group_tests_name("node/placement", tests, NULL, NULL);
}
