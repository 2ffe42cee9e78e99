/*
 * A cluster inside one process: nodes that name the same group find each other, and sums are exact and
 * ranges complete under every kind of policy.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tern/tern.h>

#include "node/engine.h" /* before cmocka, whose macro fail() would hide the function */
#include "node/node.h"

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    SHARDS = 3,
    N_NODES = 3,
    N_KEYS = 500,
    LENGTH = 8,
    WIDE = 256,
    STEPS = 40,
    BATCH = 50,
    HANGS_S = 300
};

static const char *const policies[] = {"static", "replicate", "adaptive", "relocate"};

struct participant {
    pthread_t thread;
    const char *group;
    uint32_t index;
    enum tern_status opened;
    char sentence[400];
    uint64_t n_wrong;
};

static bool open_member(struct participant *member, struct tern_node **node)
{
    struct tern_node_options options = {.struct_size = sizeof options,
                                        .group = member->group,
                                        .node = member->index,
                                        .n_nodes = N_NODES};
    member->opened = tern_node_open(&options, node);
    if (member->opened)
        snprintf(member->sentence, sizeof member->sentence, "%s", tern_error());
    return !member->opened;
}

/* Every node pushes 1 to BATCH keys in each step; the sum over a table is then known, and the value of a
 * key the same at all nodes. */
static uint64_t count_wrong(struct tern_node *node, struct tern_worker *worker, uint32_t index,
                            const char *policy)
{
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_I64,
                                         .n_keys = N_KEYS,
                                         .length = LENGTH,
                                         .policy = policy};
    struct tern_table *table;
    static _Thread_local int64_t values[N_KEYS][LENGTH];
    uint64_t keys[N_KEYS], n_wrong = 0;
    int64_t ones[BATCH][LENGTH], sum = 0;
    for (size_t i = 0; i < BATCH * LENGTH; i++)
        ones[i / LENGTH][i % LENGTH] = 1;
    if (tern_table_open(node, policy, &options, &table))
        return 1;
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint64_t i = 0; i < BATCH; i++)
            keys[i] = (step * 31 + i * i * 7 + index * 101) % N_KEYS;
        n_wrong += tern_intent(worker, table, keys, BATCH, step, step + 2) != TERN_OK;
        n_wrong += tern_pull(worker, table, keys, BATCH, values) != TERN_OK;
        n_wrong += tern_push(worker, table, keys, BATCH, ones) != TERN_OK;
        n_wrong += tern_worker_advance(worker, NULL) != TERN_OK;
    }
    n_wrong += tern_quiesce(node) != TERN_OK;
    for (uint64_t i = 0; i < N_KEYS; i++)
        keys[i] = i;
    n_wrong += tern_pull(worker, table, keys, N_KEYS, values) != TERN_OK;
    for (size_t i = 0; i < N_KEYS; i++) {
        sum += values[i][0];
        n_wrong += values[i][LENGTH - 1] != values[i][0];
    }
    return n_wrong + (sum != N_NODES * STEPS * BATCH);
}

/* Every node makes an entry by a read and one by a push of nothing; all find all of them in a range. */
static uint64_t count_missed(struct tern_node *node, struct tern_worker *worker, uint32_t index,
                             const char *policy)
{
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .index = TERN_SPARSE,
                                         .type = TERN_I64,
                                         .length = 1,
                                         .init = {.kind = TERN_INIT_CONSTANT, .a = 3},
                                         .policy = policy};
    struct tern_table *table;
    char name[40];
    uint64_t read = 10 + index, pushed = 20 + index, keys[100], n_wrong = 0;
    int64_t nothing = 0, value, values[100];
    size_t n = 0;
    snprintf(name, sizeof name, "sparse %s", policy);
    if (tern_table_open(node, name, &options, &table))
        return 1;
    n_wrong += tern_pull(worker, table, &read, 1, &value) || value != 3;
    n_wrong += tern_push(worker, table, &pushed, 1, &nothing) != TERN_OK;
    n_wrong += tern_quiesce(node) != TERN_OK;
    n_wrong += tern_pull_range(worker, table, 0, 100, 100, keys, values, &n) || n != 2 * N_NODES;
    for (size_t i = 0; i < n; i++)
        n_wrong += keys[i] != (i < N_NODES ? 10 + i : 20 + i - N_NODES) || values[i] != 3;
    return n_wrong;
}

/* Pins rows that all nodes use as soon as they are there. */
static uint64_t count_unpinned(struct tern_worker *worker, struct tern_table *table,
                               const uint64_t keys[2], void *rows[2])
{
    enum tern_status status;
    do {
        status = tern_pin(worker, table, keys, 2, rows);
        sched_yield();
    } while (status == TERN_INVALID);
    return status != TERN_OK;
}

/* All nodes have rows pinned when their intent for them ends: nobody waits for them to unpin them, and the replicas
 * go when they do. Node 2 writes to the first one in place, then sets it: the set comes behind. */
static uint64_t count_held_up(struct tern_node *node, struct tern_worker *worker, uint32_t index)
{
    struct tern_table_options options = {
        .struct_size = sizeof options, .type = TERN_F64, .n_keys = N_NODES, .length = 1};
    struct tern_table *table;
    uint64_t keys[2] = {0, 1}, clock, n_wrong = 0;
    double one = 1, four = 4, values[2];
    void *rows[2];
    if (tern_table_open(node, "held", &options, &table) || tern_worker_clock(worker, &clock))
        return 1;
    n_wrong += tern_intent(worker, table, keys, 2, clock, clock + 1) != TERN_OK;
    n_wrong += count_unpinned(worker, table, keys, rows);
    n_wrong += tern_push(worker, table, &keys[1], 1, &one) || tern_worker_advance(worker, NULL);
    if (index == 2) {
        *(double *)rows[0] = 2;
        n_wrong += tern_set(worker, table, keys, 1, &four) != TERN_OK;
        n_wrong += tern_pull(worker, table, keys, 1, values) || values[0] != four;
    }
    n_wrong += tern_flush(worker) || tern_quiesce(node) || tern_flush(worker);
    n_wrong += tern_pull(worker, table, keys, 2, values) || values[1] != N_NODES;
    n_wrong += tern_unpin(worker, table, keys, 2) || tern_quiesce(node);
    n_wrong += tern_pull(worker, table, keys, 1, values) || values[0] != four;
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    do
        n_wrong += tern_flush(worker) || tern_table_get_stats(table, &stats);
    while (!n_wrong && stats.replicas_ended < stats.replicas_made);
    return n_wrong;
}

/* With an updater a row is pinned, and written to, where the updater runs: nothing is lost. */
static uint64_t count_lost(struct tern_node *node, struct tern_worker *worker, uint32_t index)
{
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_F64,
                                         .n_keys = N_NODES,
                                         .length = 1,
                                         .updater = tern_updater_sgd(1),
                                         .policy = "replicate"};
    struct tern_table *table;
    uint64_t keys[N_NODES], n_wrong = 0;
    double values[N_NODES];
    if (tern_table_open(node, "updated", &options, &table))
        return 1;
    for (uint64_t i = 0; i < N_NODES; i++) {
        void *row;
        keys[i] = i;
        enum tern_status status = tern_pin(worker, table, &keys[i], 1, &row);
        n_wrong += status != (i == index ? TERN_OK : TERN_INVALID);
        if (status)
            continue;
        *(double *)row = 5 + index;
        n_wrong += tern_unpin(worker, table, &keys[i], 1) != TERN_OK;
    }
    n_wrong += tern_quiesce(node) || tern_pull(worker, table, keys, N_NODES, values);
    for (int i = 0; i < N_NODES; i++)
        n_wrong += values[i] != 5 + i;
    return n_wrong;
}

/* Sums and broadcasts of arrays that do not go in one message. */
static uint64_t count_wrong_sums(struct tern_node *node, uint32_t index)
{
    enum { LONG = 300001 };
    int64_t *numbers = malloc(LONG * sizeof *numbers);
    uint64_t n_wrong = 0;
    for (int64_t i = 0; i < LONG; i++)
        numbers[i] = i + index;
    n_wrong += tern_all_reduce(node, TERN_I64, LONG, numbers) != TERN_OK;
    for (int64_t i = 0; i < LONG; i++)
        n_wrong += numbers[i] != 3 * i + 3;
    for (int64_t i = 0; i < LONG; i++)
        numbers[i] = i * index;
    n_wrong += tern_broadcast(node, 2, LONG * sizeof *numbers, numbers) != TERN_OK;
    for (int64_t i = 0; i < LONG; i++)
        n_wrong += numbers[i] != 2 * i;
    free(numbers);
    return n_wrong;
}

static void *be_member(void *context)
{
    struct participant *member = context;
    struct tern_node *node;
    struct tern_worker *worker;
    uint32_t index, count;
    if (!open_member(member, &node))
        return NULL;
    member->n_wrong += tern_node_self(node, &index, &count) || index != member->index ||
                       count != N_NODES || tern_worker_open(node, &worker);
    for (size_t i = 0; i < COUNT(policies); i++)
        member->n_wrong += count_wrong(node, worker, index, policies[i]) +
                           count_missed(node, worker, index, policies[i]);
    member->n_wrong += count_held_up(node, worker, index) + count_lost(node, worker, index);
    int64_t sum = 1 + index;
    member->n_wrong += tern_all_reduce(node, TERN_I64, 1, &sum) || sum != 6;
    member->n_wrong += count_wrong_sums(node, index);
    member->n_wrong += tern_worker_close(worker) || tern_node_close(node);
    return NULL;
}

/* What the workers of a node need that have a key moved to and fro. */
struct mover {
    struct tern_node *node;
    struct tern_table *table;
    atomic_bool is_over;
    uint64_t n_wrong;
};

static void *move_here(void *context)
{
    struct mover *mover = context;
    struct tern_worker *worker;
    uint64_t key = 0;
    mover->n_wrong += tern_worker_open(mover->node, &worker) != TERN_OK;
    while (!mover->n_wrong && !atomic_load(&mover->is_over)) {
        mover->n_wrong += tern_localize(worker, mover->table, &key, 1) != TERN_OK;
        usleep(50);
    }
    mover->n_wrong += tern_worker_close(worker) != TERN_OK;
    return NULL;
}

/* Sets a key twice in each of some long calls: the last one stays, wherever the key is at the time of each. */
static uint64_t set_twice(struct tern_worker *worker, struct tern_table *table)
{
    enum { CALLS = 80, LAST = N_KEYS - 1 };
    uint64_t n_wrong = 0, keys[N_KEYS];
    int64_t(*values)[WIDE] = calloc(N_KEYS, sizeof *values), seen[WIDE];
    for (uint64_t i = 0; i < N_KEYS; i++)
        keys[i] = i % LAST;
    for (int64_t i = 0; values && i < CALLS; i++) {
        values[0][0] = 2 * i;
        values[LAST][0] = 2 * i + 1;
        n_wrong += tern_set(worker, table, keys, N_KEYS, values) != TERN_OK;
        n_wrong += tern_pull(worker, table, keys, 1, seen) || seen[0] != 2 * i + 1;
    }
    free(values);
    return n_wrong;
}

static void *be_setter(void *context)
{
    struct participant *member = context;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_I64,
                                         .n_keys = N_KEYS,
                                         .length = WIDE,
                                         .policy = "relocate"};
    struct mover mover = {0};
    struct tern_worker *worker;
    pthread_t thread;
    if (!open_member(member, &mover.node))
        return NULL;
    member->n_wrong += tern_table_open(mover.node, "wide", &options, &mover.table) ||
                       tern_worker_open(mover.node, &worker) ||
                       pthread_create(&thread, NULL, move_here, &mover);
    if (member->n_wrong)
        return NULL;
    if (member->index == 0)
        member->n_wrong += set_twice(worker, mover.table);
    member->n_wrong += tern_barrier(mover.node) != TERN_OK;
    atomic_store(&mover.is_over, true);
    pthread_join(thread, NULL);
    member->n_wrong += mover.n_wrong + (tern_worker_close(worker) || tern_node_close(mover.node));
    return NULL;
}

static void start(struct participant *members, const char *group, size_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        members[i] = (struct participant){.group = group, .index = i};
        assert_int_equal(pthread_create(&members[i].thread, NULL, be_member, &members[i]), 0);
    }
}

static void finish(struct participant *members, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_join(members[i].thread, NULL), 0);
}

/* All nodes of a group do something, and find nothing wrong. */
static void all(void *(*act)(void *), uint32_t n)
{
    struct participant members[N_NODES];
    for (uint32_t i = 0; i < n; i++) {
        members[i] = (struct participant){.group = "all", .index = i};
        assert_int_equal(pthread_create(&members[i].thread, NULL, act, &members[i]), 0);
    }
    finish(members, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_string_equal(members[i].sentence, "");
        assert_int_equal(members[i].n_wrong, 0);
    }
}

static void sums_are_exact(void **state)
{
    (void)state;
    struct participant members[2][N_NODES];
    /* Twice at once under two names, and once more under the first, which is free again. */
    start(members[0], "one", N_NODES);
    start(members[1], "two", N_NODES);
    finish(members[0], N_NODES);
    start(members[0], "one", N_NODES);
    finish(members[0], N_NODES);
    finish(members[1], N_NODES);
    for (int i = 0; i < 2 * N_NODES; i++) {
        assert_int_equal(members[i / N_NODES][i % N_NODES].opened, TERN_OK);
        assert_int_equal(members[i / N_NODES][i % N_NODES].n_wrong, 0);
    }
}

/* Node 0 opens table "one" before node 1 does, which opens "two" meanwhile, and closes "both", which node 1 has open:
 * rounds wait for the other's next table, but no call does. Nothing that was pushed is missing afterwards. */
static void *open_in_turn(void *context)
{
    struct participant *member = context;
    struct tern_node_options place = {
        .struct_size = sizeof place, .group = member->group, .node = member->index, .n_nodes = 2};
    const char *names[] = {"one", "two"};
    struct tern_node *node;
    struct tern_worker *worker;
    struct tern_table *both, *tables[2];
    const uint64_t keys[] = {0, 1};
    int64_t ones[] = {1, 1}, values[2];
    member->n_wrong = tern_node_open(&place, &node) || tern_worker_open(node, &worker);
    for (size_t i = 0; !member->n_wrong && i < COUNT(policies); i++) {
        struct tern_table_options options = {.struct_size = sizeof options,
                                             .type = TERN_I64,
                                             .n_keys = 2,
                                             .length = 1,
                                             .policy = policies[i]};
        member->n_wrong += tern_table_open(node, "both", &options, &both) != TERN_OK;
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t which = member->index ^ k;
            member->n_wrong += tern_table_open(node, names[which], &options, &tables[which]) ||
                               tern_intent(worker, tables[which], keys, 2, 0, 1000);
            if (k == 0) /* the rounds have begun to ask about the first */
                member->n_wrong += tern_barrier(node) || usleep(5000);
            if (k == 0 && member->index == 0)
                member->n_wrong += tern_table_close(both) != TERN_OK;
        }
        for (uint32_t k = 0; k < 2; k++)
            member->n_wrong += tern_push(worker, tables[k], keys, 2, ones) != TERN_OK;
        member->n_wrong += tern_quiesce(node) != TERN_OK;
        for (uint32_t k = 0; k < 2; k++) {
            member->n_wrong += tern_pull(worker, tables[k], keys, 2, values) != TERN_OK;
            member->n_wrong += values[0] != 2 || values[1] != 2;
        }
        member->n_wrong += tern_barrier(node) != TERN_OK;
        if (member->index == 1)
            member->n_wrong += tern_table_close(both) != TERN_OK;
        for (uint32_t k = 0; k < 2; k++)
            member->n_wrong += tern_table_close(tables[k]) != TERN_OK;
    }
    member->n_wrong += tern_worker_close(worker) || tern_node_close(node);
    return NULL;
}

static void tables_are_opened_and_closed_in_any_order(void **state)
{
    (void)state;
    all(open_in_turn, 2);
}

/* Starts two pulls that fail unless they find a row here: a flush fails like the first, and has waited for both. */
static uint64_t count_left_over(struct tern_worker *worker, struct tern_table *table, uint64_t key,
                                enum tern_status expected)
{
    int64_t values[2];
    uint64_t tickets[2], n_wrong = 0;
    for (size_t i = 0; i < COUNT(tickets); i++)
        n_wrong += tern_pull_start(worker, table, &key, 1, &values[i], &tickets[i]) != TERN_OK;
    n_wrong += tern_flush(worker) != expected;
    n_wrong += tern_wait(worker, tickets[1]) != TERN_OK;
    return n_wrong;
}

/* Node 0 leaves at once; node 1 asks it for a table that it will not open any more. */
static void *leave_or_ask(void *context)
{
    struct participant *member = context;
    struct tern_node_options place = {
        .struct_size = sizeof place, .group = member->group, .node = member->index, .n_nodes = 2};
    struct tern_node *node;
    struct tern_worker *worker;
    const uint64_t key = 0;
    int64_t value;
    member->n_wrong = tern_node_open(&place, &node);
    if (member->n_wrong)
        return NULL;
    for (size_t i = 0; member->index == 1 && i < COUNT(policies); i++) {
        struct tern_table_options options = {.struct_size = sizeof options,
                                             .type = TERN_I64,
                                             .n_keys = 2,
                                             .length = 1,
                                             .policy = policies[i]};
        struct tern_table *table;
        bool has_row = !strcmp(policies[i], "replicate");
        member->n_wrong +=
            tern_table_open(node, policies[i], &options, &table) || tern_worker_open(node, &worker);
        enum tern_status expected = has_row ? TERN_OK : TERN_CLOSED;
        member->n_wrong += tern_pull(worker, table, &key, 1, &value) != expected;
        member->n_wrong += count_left_over(worker, table, key, expected);
        member->n_wrong += tern_flush(worker) || tern_worker_close(worker);
    }
    member->n_wrong += tern_node_close(node) != TERN_OK;
    return NULL;
}

static void nobody_waits_for_a_table_of_a_node_that_leaves(void **state)
{
    (void)state;
    all(leave_or_ask, 2);
}

static void the_last_set_of_a_call_stays(void **state)
{
    (void)state;
    all(be_setter, N_NODES);
}

/* Opens and closes again and again, without waiting for others to have closed. */
static void *come_and_go(void *context)
{
    struct participant *member = context;
    for (int turn = 0; turn < 4; turn++) {
        struct tern_node *node;
        if (!open_member(member, &node))
            return NULL;
        member->n_wrong += tern_barrier(node) || tern_node_close(node);
    }
    return NULL;
}

static void a_group_can_be_opened_again_at_once(void **state)
{
    (void)state;
    all(come_and_go, N_NODES);
}

/* Node 0 comes late: the others have tried in vain to reach it, and have joined nevertheless. */
static void *come_late(void *context)
{
    struct participant *member = context;
    struct tern_node *node;
    if (member->index == 0)
        usleep(200000);
    if (!open_member(member, &node))
        return NULL;
    member->n_wrong += tern_error()[0] != '\0';
    member->n_wrong += tern_node_close(node) != TERN_OK;
    return NULL;
}

static void a_call_that_succeeds_leaves_no_sentence(void **state)
{
    (void)state;
    all(come_late, N_NODES);
}

/* One worker after the other asks all nodes; they remember no more of them than there were at a time. */
static void *work_in_turns(void *context)
{
    struct participant *member = context;
    struct tern_node *node;
    struct tern_table *table;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_I64,
                                         .n_keys = N_NODES,
                                         .length = 1,
                                         .policy = "static"};
    const uint64_t keys[N_NODES] = {0, 1, 2};
    const int64_t ones[N_NODES] = {1, 1, 1};
    int64_t values[N_NODES];
    if (!open_member(member, &node))
        return NULL;
    member->n_wrong += tern_table_open(node, "turns", &options, &table) != TERN_OK;
    for (int turn = 0; turn < STEPS; turn++) {
        struct tern_worker *worker;
        member->n_wrong +=
            tern_worker_open(node, &worker) || tern_push(worker, table, keys, N_NODES, ones) ||
            tern_pull(worker, table, keys, N_NODES, values) || tern_worker_close(worker);
    }
    member->n_wrong += tern_barrier(node) != TERN_OK;
    struct tern_worker *last;
    member->n_wrong +=
        tern_worker_open(node, &last) || tern_pull(last, table, keys, N_NODES, values);
    for (int i = 0; i < N_NODES; i++)
        member->n_wrong += values[i] != N_NODES * STEPS;
    lock_take(&node->engine->shards[0].lock);
    member->n_wrong += node->engine->shards[0].service.n_lanes >= STEPS;
    lock_release(&node->engine->shards[0].lock);
    member->n_wrong += tern_worker_close(last) || tern_node_close(node);
    return NULL;
}

static void workers_that_were_closed_are_not_remembered(void **state)
{
    (void)state;
    all(work_in_turns, N_NODES);
}

static void a_group_of_one_is_a_node_alone(void **state)
{
    (void)state;
    struct tern_node_options options = {.struct_size = sizeof options, .group = "me", .n_nodes = 1};
    struct tern_node *node;
    uint32_t index, count;
    assert_int_equal(tern_node_open(&options, &node), TERN_OK);
    assert_int_equal(tern_node_self(node, &index, &count), TERN_OK);
    assert_int_equal(index, 0);
    assert_int_equal(count, 1);
    assert_int_equal(tern_node_close(node), TERN_OK);
}

static void a_node_that_does_not_come_is_named(void **state)
{
    (void)state;
    struct participant members[2];
    setenv("TERN_DEADLINE", "6", 1);
    setenv("TERN_JOIN_DEADLINE", "6", 1);
    start(members, "few", 2);
    finish(members, 2);
    unsetenv("TERN_DEADLINE");
    unsetenv("TERN_JOIN_DEADLINE");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(members[i].opened, TERN_PEER);
        assert_non_null(strstr(members[i].sentence, "node 2"));
    }
}

/* All nodes have as many shards as the first one says, and each is asked by the others. */
static void *use_shards(void *context)
{
    struct participant *member = context;
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *worker;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_I64,
                                         .n_keys = N_KEYS,
                                         .length = 1,
                                         .policy = "static"};
    static _Thread_local uint64_t keys[N_KEYS];
    static _Thread_local int64_t ones[N_KEYS];
    if (!open_member(member, &node))
        return NULL;
    for (uint32_t i = 0; i < N_KEYS; i++) {
        keys[i] = i;
        ones[i] = 1;
    }
    member->n_wrong += tern_table_open(node, "shards", &options, &table) ||
                       tern_worker_open(node, &worker) ||
                       tern_push(worker, table, keys, N_KEYS, ones) || tern_barrier(node);
    member->n_wrong += node->engine->core.n_shards != SHARDS || node->engine->n_shards != SHARDS;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &node->engine->shards[i];
        lock_take(&shard->lock);
        member->n_wrong += shard->service.n_lanes == 0;
        lock_release(&shard->lock);
    }
    member->n_wrong += tern_worker_close(worker) || tern_node_close(node);
    return NULL;
}

static void other_nodes_use_all_shards(void **state)
{
    (void)state;
    all(use_shards, N_NODES);
}

static void refuse(const char *group, uint32_t index, uint32_t count, const char *part)
{
    struct tern_node_options options = {
        .struct_size = sizeof options, .group = group, .node = index, .n_nodes = count};
    struct tern_node *node;
    assert_int_equal(tern_node_open(&options, &node), TERN_INVALID);
    assert_non_null(strstr(tern_error(), part));
}

static void a_place_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    refuse("", 0, 1, "group");
    refuse("a name of more than fifty characters is a little too long", 0, 1, "group");
    refuse("a\nb", 0, 2, "seen");
    refuse("g", 0, 0, "no node 0");
    refuse("g", 2, 2, "no node 2");
    refuse("g", 0, 1000000, "1000000");
}

int main(void)
{
    alarm(HANGS_S);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(tables_are_opened_and_closed_in_any_order),
        cmocka_unit_test(nobody_waits_for_a_table_of_a_node_that_leaves),
        cmocka_unit_test(the_last_set_of_a_call_stays),
        cmocka_unit_test(a_group_can_be_opened_again_at_once),
        cmocka_unit_test(a_call_that_succeeds_leaves_no_sentence),
        cmocka_unit_test(workers_that_were_closed_are_not_remembered),
        cmocka_unit_test(a_group_of_one_is_a_node_alone),
        cmocka_unit_test(a_node_that_does_not_come_is_named),
        cmocka_unit_test(a_place_that_makes_no_sense_is_refused),
    };
    /* The same with keys that are cut into shards. */
    const struct CMUnitTest with_shards[] = {
        cmocka_unit_test(other_nodes_use_all_shards),
        cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(tables_are_opened_and_closed_in_any_order),
        cmocka_unit_test(nobody_waits_for_a_table_of_a_node_that_leaves),
        cmocka_unit_test(the_last_set_of_a_call_stays),
        cmocka_unit_test(a_group_can_be_opened_again_at_once),
        cmocka_unit_test(a_node_that_does_not_come_is_named),
    };
    unsetenv("TERN_SHARDS");
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    setenv("TERN_SHARDS", "3", 1);
    return n_failed + cmocka_run_group_tests_name("with shards", with_shards, NULL, NULL);
}
