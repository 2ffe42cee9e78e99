/*
 * The age of an update: a push is told how many pushes came between the worker's pull and it, at home and at another node,
 * and the statistics count it.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "support/check.h"

enum { N_NODES = 2, N_KEYS = 100, PUSHES = 5 };

/* Notes in the row the age of its last update: t and delay. */
static void note_age(const struct tern_updater *updater, enum tern_type type, size_t length,
                     void *value, void *state, const void *update)
{
    (void)updater, (void)type, (void)length, (void)state, (void)update;
    const struct tern_age age = tern_update_age();
    ((int64_t *)value)[0] = (int64_t)age.t;
    ((int64_t *)value)[1] = (int64_t)age.delay;
}

static struct tern_table_options aged_shape(const char *policy)
{
    return (struct tern_table_options){
        .struct_size = sizeof(struct tern_table_options),
        .type = TERN_I64,
        .n_keys = N_KEYS,
        .length = 2,
        .updater = {.name = "note age", .apply = note_age, .asks_age = true},
        .policy = policy};
}

/* One worker pulls, another pushes, then the first pushes: its delay is what the other did. */
static uint64_t count_wrong(struct tern_table *table, struct tern_worker *slow,
                            struct tern_worker *quick, uint64_t key)
{
    const int64_t nothing[2] = {0};
    int64_t row[2], before[2];
    uint64_t n_wrong = 0;
    n_wrong += tern_push(quick, table, &key, 1, nothing) || tern_pull(slow, table, &key, 1, before);
    for (int i = 0; i < PUSHES; i++)
        n_wrong +=
            tern_pull(quick, table, &key, 1, row) || tern_push(quick, table, &key, 1, nothing);
    n_wrong += tern_pull(quick, table, &key, 1, row) || row[0] != before[0] + PUSHES || row[1] != 0;
    n_wrong += tern_push(slow, table, &key, 1, nothing) || tern_pull(quick, table, &key, 1, row) ||
               row[0] != before[0] + PUSHES + 1 || row[1] != PUSHES;
    return n_wrong;
}

struct participant {
    pthread_t thread;
    uint32_t index;
    uint64_t n_wrong;
};

/* Node 0 works on a key of its own and on one of node 1. */
static void *be_member(void *context)
{
    struct participant *member = context;
    struct tern_node_options options = {
        .struct_size = sizeof options, .group = "age", .node = member->index, .n_nodes = N_NODES};
    const struct tern_table_options table_options = aged_shape("static");
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *slow, *quick;
    if (tern_node_open(&options, &node) || tern_table_open(node, "ages", &table_options, &table) ||
        tern_worker_open(node, &slow) || tern_worker_open(node, &quick)) {
        member->n_wrong++;
        return NULL;
    }
    if (member->index == 0)
        member->n_wrong += count_wrong(table, slow, quick, 0) +
                           count_wrong(table, slow, quick, N_KEYS - 1) +
                           count_wrong(table, slow, quick, 1);
    member->n_wrong += tern_barrier(node) || tern_table_get_stats(table, &stats);
    /* Of 7 pushes to a key one was late, by 5; the first of a worker to a node has pulled nothing. */
    const uint64_t n_keys = member->index == 0 ? 2 : 1;
    member->n_wrong += stats.aged_pushes != n_keys * (PUSHES + 2) || stats.delays[3] != n_keys ||
                       stats.delay_mean <= 0;
    member->n_wrong += tern_worker_close(slow) || tern_worker_close(quick) || tern_node_close(node);
    return NULL;
}

static void nodes_count_what_came_between(void **state)
{
    (void)state;
    struct participant members[N_NODES] = {{0}};
    for (uint32_t i = 0; i < N_NODES; i++) {
        members[i].index = i;
        assert_int_equal(pthread_create(&members[i].thread, NULL, be_member, &members[i]), 0);
    }
    for (uint32_t i = 0; i < N_NODES; i++) {
        pthread_join(members[i].thread, NULL);
        assert_int_equal(members[i].n_wrong, 0);
    }
}

static void what_has_no_age_is_refused(void **state)
{
    (void)state;
    struct tern_node *node;
    struct tern_table *table;
    ok(tern_node_open(NULL, &node));
    for (size_t i = 0; i < 3; i++) {
        struct tern_table_options options =
            aged_shape((const char *[]){"adaptive", "replicate", "relocate"}[i]);
        refused(tern_table_open(node, "w", &options, &table), TERN_INVALID, "age", "static");
    }
    struct tern_table_options options = aged_shape("static");
    options.type = TERN_F32;
    options.updater = tern_updater_adaptiverevision(0.1, 1e-8);
    options.length = 3;
    refused(tern_table_open(node, "w", &options, &table), TERN_INVALID, "adaptiverevision", "2");
    ok(tern_node_close(node));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_count_what_came_between),
        cmocka_unit_test(what_has_no_age_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
