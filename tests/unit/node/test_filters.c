/*
 * Filters between two nodes of one process: what is lossless changes no sum, what is rounded stays near the truth, a set
 * is exact, and nodes that name other filters are told so. In rounds nothing is lost: after tern_quiesce both nodes have
 * the same bits.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "support/check.h"

enum { N_NODES = 2, N_KEYS = 400, LENGTH = 4, STEPS = 20 };

struct participant {
    pthread_t thread;
    uint32_t index;
    uint64_t n_wrong;
    int64_t n_exact; /* keys that this node reads as they were set */
    /* What it has in the end of the tables with replicas. */
    float rows[4][N_KEYS][LENGTH];
};

static bool open_under(struct tern_node *node, const char *name, enum tern_type type,
                       const char *policy, const char *filters, struct tern_table **table)
{
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .type = type,
                                               .n_keys = N_KEYS,
                                               .length = LENGTH,
                                               .policy = policy,
                                               .filters = filters};
    return !tern_table_open(node, name, &options, table);
}

static bool open_table(struct tern_node *node, const char *name, enum tern_type type,
                       const char *filters, struct tern_table **table)
{
    return open_under(node, name, type, "static", filters, table);
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

/* Waits until reads of all keys ask nobody. */
static uint64_t wait_for_copies(struct tern_worker *worker, struct tern_table *table,
                                const uint64_t *keys, float rows[][LENGTH])
{
    struct tern_table_stats before = {.struct_size = sizeof before};
    struct tern_table_stats after = {.struct_size = sizeof after};
    uint64_t n_wrong = 0;
    do {
        n_wrong += tern_table_get_stats(table, &before) || usleep(1000) ||
                   tern_pull(worker, table, keys, N_KEYS, rows) ||
                   tern_table_get_stats(table, &after);
    } while (!n_wrong && after.remote_keys != before.remote_keys);
    return n_wrong;
}

/* Both nodes push to all keys, of which they have copies; key 7 was set to what no filter could say. */
static uint64_t count_shared(struct tern_node *node, struct tern_worker *worker, uint32_t index,
                             const char *policy, const char *filters, atomic_bool *has_acted,
                             float rows[][LENGTH])
{
    static _Thread_local float pushed[N_KEYS][LENGTH];
    const float one = 1.0f / 3 + 10, set[LENGTH] = {one, one, one, one};
    const bool rounds = strstr(filters, "fixed");
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    struct tern_table *table;
    uint64_t keys[N_KEYS], n_wrong = 0, seven = 7;
    char name[80];
    snprintf(name, sizeof name, "%s %s", policy, filters);
    if (!open_under(node, name, TERN_F32, policy, filters, &table))
        return 1;
    for (uint64_t i = 0; i < N_KEYS; i++)
        keys[i] = i;
    for (size_t i = 0; i < N_KEYS * LENGTH; i++)
        pushed[i / LENGTH][i % LENGTH] = (float)(i % 100 + 1) / 700;
    memset(pushed[seven], 0, sizeof pushed[seven]);
    n_wrong += index == 1 && tern_set(worker, table, &seven, 1, set);
    n_wrong += tern_intent(worker, table, keys, N_KEYS, 0, 1000) || tern_barrier(node) ||
               wait_for_copies(worker, table, keys, rows);
    for (int step = 0; step < STEPS; step++)
        n_wrong += tern_push(worker, table, keys, N_KEYS, pushed) != TERN_OK;
    /* One node may have all main copies, and nothing of its own to send. */
    do {
        n_wrong += tern_table_get_stats(table, &stats) || usleep(1000);
        if (rounds ? stats.fixed_saved_bytes : stats.significant_saved_bytes)
            *has_acted = true;
    } while (!n_wrong && !*has_acted);
    n_wrong += tern_quiesce(node) || tern_pull(worker, table, keys, N_KEYS, rows);
    for (size_t i = 0; i < N_KEYS * LENGTH; i++) {
        const float truth =
            i / LENGTH == seven ? set[0] : N_NODES * STEPS * pushed[i / LENGTH][i % LENGTH];
        n_wrong += fabsf(rows[i / LENGTH][i % LENGTH] - truth) > 1e-4f;
    }
    return n_wrong + (tern_barrier(node) != TERN_OK);
}

/* What the program's own filter has seen at a node. */
struct asked {
    _Atomic uint64_t n, n_wrong;
};

/* Lets no change of an odd key go. */
static bool is_even(void *context, uint64_t key, const void *value, const void *sent)
{
    struct asked *asked = context;
    const int64_t *now = value, *then = sent;
    asked->n++;
    asked->n_wrong += now[0] <= then[0] || now[LENGTH - 1] != 0;
    return key % 2 == 0;
}

/* The program decides what waits: odd keys do, until all is quiet. */
static uint64_t count_asked(struct tern_node *node, struct tern_worker *worker)
{
    static _Thread_local int64_t values[N_KEYS][LENGTH], ones[N_KEYS][LENGTH];
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    struct asked asked = {0};
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .type = TERN_I64,
                                               .n_keys = N_KEYS,
                                               .length = LENGTH,
                                               .policy = "replicate",
                                               .is_significant = is_even,
                                               .significant_context = &asked};
    struct tern_table *table;
    uint64_t keys[N_KEYS], n_wrong = tern_table_open(node, "asked", &options, &table) != TERN_OK;
    for (uint64_t i = 0; i < N_KEYS; i++) {
        keys[i] = i;
        ones[i][0] = 1;
    }
    n_wrong += tern_push(worker, table, keys, N_KEYS, ones) != TERN_OK;
    /* Half of the keys have their home at the other node, and half of these are odd. */
    while (!n_wrong && asked.n < N_KEYS / N_NODES)
        n_wrong += usleep(1000) != 0;
    n_wrong += tern_quiesce(node) || tern_pull(worker, table, keys, N_KEYS, values) ||
               tern_table_get_stats(table, &stats);
    for (size_t i = 0; i < N_KEYS; i++)
        n_wrong += values[i][0] != N_NODES;
    const uint64_t row_bytes = sizeof(uint64_t) + LENGTH * sizeof(int64_t);
    n_wrong += asked.n_wrong + (stats.significant_saved_bytes != N_KEYS / N_NODES / 2 * row_bytes);
    return n_wrong + tern_barrier(node) + tern_table_close(table);
}

static uint64_t count_rounds(struct tern_node *node, struct tern_worker *worker,
                             struct participant *member)
{
    static const struct {
        const char *policy, *filters;
    } cases[] = {{"replicate", "zeros,fixed:8"},
                 {"adaptive", "fixed:16,lz4"},
                 {"replicate", "significant:1e6/t"},
                 {"adaptive", "significant:10"}};
    static atomic_bool has_acted[COUNT(cases)]; /* at one of the nodes */
    uint64_t n_wrong = 0;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const uint64_t n = count_shared(node, worker, member->index, cases[i].policy,
                                        cases[i].filters, &has_acted[i], member->rows[i]);
        if (n)
            print_error("%s, %s: %ju are wrong\n", cases[i].policy, cases[i].filters, (uintmax_t)n);
        n_wrong += n;
    }
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

/* One f32 with its key, among 10,000 sorted keys of 1,000,000, takes at most 6 bytes in a push, and in a pull and its reply
 * together, with all that surrounds it; in both directions. */
static uint64_t count_bytes(struct tern_node *node, struct tern_worker *worker, const char *filters)
{
    enum { KEYS = 1000000, N = 10000 };
    static _Thread_local uint64_t keys[N];
    static _Thread_local float values[N];
    struct tern_table_stats none = {.struct_size = sizeof none}, pushed = none, pulled = none;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_F32,
                                         .n_keys = KEYS,
                                         .length = 1,
                                         .policy = "static",
                                         .filters = filters};
    struct dice dice = {.state = 3};
    struct tern_table *table;
    uint64_t n_wrong = tern_table_open(node, filters ? filters : "bare", &options, &table) != 0;
    for (uint64_t i = 0; i < N; i++) {
        keys[i] = i * (KEYS / N) + dice_below(&dice, KEYS / N);
        values[i] = (float)dice_below(&dice, 1000) / 7;
    }
    n_wrong += tern_table_get_stats(table, &none) || tern_push(worker, table, keys, N, values) ||
               tern_barrier(node) || tern_table_get_stats(table, &pushed);
    n_wrong += tern_barrier(node) || tern_pull(worker, table, keys, N, values) ||
               tern_barrier(node) || tern_table_get_stats(table, &pulled);
    /* Half of the keys are at the other node, which asks for as many. */
    const uint64_t n = N / N_NODES, push = pushed.request_bytes - none.request_bytes;
    const uint64_t pull =
        pulled.request_bytes - pushed.request_bytes + pulled.reply_bytes - pushed.reply_bytes;
    print_message("%s: a key and an f32 take %.2f bytes in a push, %.2f in a pull\n",
                  filters ? filters : "no filters", (double)push / (double)n,
                  (double)pull / (double)n);
    return n_wrong + (push > 6 * n) + (pull > 6 * n);
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
                       count_mismatched(node, member->index) + count_rounds(node, worker, member) +
                       count_asked(node, worker) + count_bytes(node, worker, NULL) +
                       count_bytes(node, worker, "keys,zeros,fixed:16,lz4");
    member->n_wrong += tern_worker_close(worker) || tern_node_close(node);
    return NULL;
}

static void nodes_filter_what_they_send(void **state)
{
    (void)state;
    static struct participant members[N_NODES];
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
    assert_memory_equal(members[0].rows, members[1].rows, sizeof members[0].rows);
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
