/*
 * manage - what becomes of keys that are intended, asked for, changed and left, case by case (cases.h). Run by test_manage.sh.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cluster/cases.h"

/* What is refused has no effect, nor has an intent whose time is over or empty. */
static void bounds(void)
{
    struct tern_table *table = open_table("bounds", TERN_I64, "adaptive", NULL);
    uint64_t keys[N_KEYS + 1];
    memcpy(keys, all_keys, sizeof all_keys);
    keys[N_KEYS] = N_KEYS;
    advance_to(10);
    hold(tern_intent(worker, table, keys, N_KEYS + 1, 10, 20) == TERN_RANGE);
    hold(strstr(tern_error(), "400") && strstr(tern_error(), "bounds"));
    hold(tern_intent(worker, table, keys, N_KEYS, 20, 10) == TERN_INVALID);
    hold(tern_localize(worker, table, keys, N_KEYS + 1) == TERN_RANGE);
    check(tern_intent(worker, table, keys, N_KEYS, 3, 10));
    check(tern_intent(worker, table, keys, N_KEYS, 15, 15));
    check(tern_localize(worker, table, keys, N_KEYS));
    for (int i = 0; i < 20; i++)
        check(tern_quiesce(node));
    struct tern_table_stats stats = stats_of(table);
    hold(stats.moved_here == 0 && stats.moved_away == 0 && stats.replicas_made == 0);
    /* A start that has passed means now. */
    check(tern_barrier(node));
    if (self == 1) {
        check(tern_intent(worker, table, keys, N_KEYS, 3, 20));
        while (stats_of(table).moved_here < N_KEYS * (n_nodes - 1) / n_nodes)
            check(tern_flush(worker));
        hold(remote_of_pull(table, N_KEYS) == 0);
    }
}

/* Keys that all nodes intend are copied to all; when the workers close, the copies end. */
static void closing(void)
{
    struct tern_table *table = open_table("closing", TERN_I64, "adaptive", NULL);
    check(tern_intent(worker, table, all_keys, N_KEYS, 0, UINT64_MAX));
    while (remote_of_pull(table, N_KEYS))
        check(tern_flush(worker));
    check(tern_barrier(node));
    push_all(table, 0, N_KEYS, 1);
    check(tern_worker_close(worker));
    for (int64_t left = 1; left;) {
        struct tern_table_stats stats = stats_of(table);
        left = (int64_t)(stats.replicas_made - stats.replicas_ended);
        check(tern_all_reduce(node, TERN_I64, 1, &left));
    }
    check(tern_worker_open(node, &worker));
    hold(have_all(table, 0, N_KEYS, n_nodes));
}

/* What a node alone writes in place is not lost when the copies are made alike. */
static void pinned_copies(void)
{
    enum { STEPS = 1000 };
    struct tern_table *table = open_table("copies", TERN_I64, "replicate-doubling", NULL);
    const uint64_t first = self * (N_KEYS / n_nodes);
    const size_t n = N_KEYS / n_nodes;
    static void *rows[N_KEYS];
    for (int step = 0; step < STEPS; step++) {
        check(tern_pin(worker, table, all_keys + first, n, rows));
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < LENGTH; k++)
                ((volatile int64_t *)rows[i])[k] += 1;
        check(tern_unpin(worker, table, all_keys + first, n));
    }
    check(tern_quiesce(node));
    hold(have_all(table, 0, n * n_nodes, STEPS));
}

/* Copies agree on a number that is not finite. */
static void infinite_copies(void)
{
    struct tern_table *table = open_table("copies", TERN_F32, "replicate-doubling", NULL);
    const uint64_t key = 1;
    for (int step = 0; step < 3; step++) {
        const float update[LENGTH] = {self == 1 ? INFINITY : 1, 1},
                    ones = (float)(n_nodes * (uint32_t)(step + 1));
        float value[LENGTH];
        check(tern_push(worker, table, &key, 1, update));
        check(tern_quiesce(node));
        check(tern_pull(worker, table, &key, 1, value));
        hold(value[0] == INFINITY && value[1] == ones);
        check(tern_barrier(node));
    }
}

/* When a node has no memory for what others have changed, all learn that it is this node. */
static void full_copies(void)
{
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .index = TERN_SPARSE,
                                               .type = TERN_I64,
                                               .length = 64,
                                               .policy = "replicate-doubling",
                                               .memory_limit_bytes = self == 0 ? 1 << 20 : 0};
    struct tern_table *table;
    check(tern_table_open(node, "copies", &options, &table));
    check(tern_barrier(node));
    for (uint64_t key = 0; self == 1 && key < 3000; key++)
        check(tern_push(worker, table, &key, 1, (int64_t[64]){1}));
    check(tern_barrier(node));
    enum tern_status status;
    do {
        check(tern_push(worker, table, &(uint64_t){0}, 1, (int64_t[64]){1}));
        status = tern_flush(worker);
    } while (!status);
    hold(status == (self == 0 ? TERN_NO_MEMORY : TERN_PEER));
    hold(strstr(tern_error(), "raise its memory_limit_bytes"));
    hold(self == 0 || strstr(tern_error(), "node 0 takes part in no further round"));
    check(tern_barrier(node));
}

/* tern_localize returns when the keys are here; each node in turn has them all. */
static void localize(void)
{
    struct tern_table *table = open_table("localize", TERN_I64, "relocate", NULL);
    /* Keys come from nodes that have opened the table. */
    check(tern_barrier(node));
    for (uint32_t turn = 0; turn < 3 * n_nodes; turn++) {
        if (turn % n_nodes == self) {
            check(tern_localize(worker, table, all_keys, N_KEYS));
            push_all(table, 0, N_KEYS, 1);
            hold(remote_of_pull(table, N_KEYS) == 0);
            hold(have_all(table, 0, N_KEYS, turn + 1));
        }
        check(tern_barrier(node));
    }
    hold(stats_of(table).replicas_made == 0);
    /* All at once: every key is somewhere, and nothing is lost. */
    for (int i = 0; i < 20; i++) {
        check(tern_localize(worker, table, all_keys, N_KEYS));
        push_all(table, 0, N_KEYS, 1);
    }
    check(tern_quiesce(node));
    hold(have_all(table, 0, N_KEYS, (int64_t)(23 * n_nodes)));
}

/* The same without waiting: when tern_test says so, the keys are here. */
static void localize_started(void)
{
    struct tern_table *table = open_table("localize started", TERN_I64, "relocate", NULL);
    check(tern_barrier(node));
    for (uint32_t turn = 0; turn < 3 * n_nodes; turn++) {
        if (turn % n_nodes == self) {
            uint64_t ticket;
            check(tern_localize_start(worker, table, all_keys, N_KEYS, &ticket));
            for (bool is_done = false; !is_done;)
                check(tern_test(worker, ticket, &is_done));
            hold(remote_of_pull(table, N_KEYS) == 0);
            push_all(table, 0, N_KEYS, 1);
        }
        check(tern_barrier(node));
    }
    check(tern_quiesce(node));
    hold(have_all(table, 0, N_KEYS, (int64_t)(3 * n_nodes)));
}

/* Node 1 shares the memory of node 0 and closes the table with open intents. They end with it: a node of another host that
 * then is the only one with intents gets the main copies. */
static void retired(void)
{
    struct tern_table *table = open_table("retired", TERN_I64, "adaptive", NULL);
    check(tern_barrier(node));
    if (self == 1) {
        check(tern_intent(worker, table, all_keys, N_KEYS, 0, UINT64_MAX));
        while (remote_of_pull(table, N_KEYS))
            check(tern_flush(worker));
        push_all(table, 0, N_KEYS, 1);
        check(tern_table_close(table));
    }
    check(tern_barrier(node));
    if (self == 2) {
        check(tern_intent(worker, table, all_keys, N_KEYS, 0, UINT64_MAX));
        while (stats_of(table).moved_here < N_KEYS)
            check(tern_flush(worker));
    }
    check(tern_barrier(node));
    hold(self == 1 || have_all(table, 0, N_KEYS, 1));
    check(tern_barrier(node));
}

/* After tern_flush what was pushed to a replica is at the main copy. Node 0 never moves its keys, because
 * it intends them for ever. */
static void flush(void)
{
    struct tern_table *table = open_table("flush", TERN_I64, "adaptive", NULL);
    const size_t n = N_KEYS / n_nodes;
    if (self == 0)
        check(tern_intent(worker, table, all_keys, n, 0, UINT64_MAX));
    check(tern_flush(worker));
    check(tern_barrier(node));
    check(tern_intent(worker, table, all_keys, n, 0, UINT64_MAX));
    while (remote_of_pull(table, n))
        check(tern_flush(worker));
    check(tern_barrier(node));
    for (int64_t turn = 1; turn <= 20; turn++) {
        push_all(table, 0, n, 1);
        check(tern_flush(worker));
        check(tern_barrier(node));
        hold(self != 0 || have_all(table, 0, n, turn * n_nodes));
        check(tern_barrier(node));
    }
    hold(self == 0 || stats_of(table).deltas_sent > 0);
    hold(stats_of(table).moved_away == 0);
}

/* Tables with updaters, managed, copied to all and fixed, that get the same gradients in the same order hold the same
 * bits: the state travels with the key, and what a replica gathers is applied once. */
static void updaters(void)
{
    const struct tern_updater kinds[] = {tern_updater_adagrad(0.1, 1e-8),
                                         tern_updater_ftrl(0.1, 1, 0.001, 0.01),
                                         tern_updater_adam(0.01, 0.9, 0.999, 1e-8)};
    const char *const names[][3] = {{"adagrad", "adagrad-static", "adagrad-everywhere"},
                                    {"ftrl", "ftrl-static", "ftrl-everywhere"},
                                    {"adam", "adam-static", "adam-everywhere"}};
    const size_t n = 40;
    float gradients[40 * LENGTH], values[3][40 * LENGTH];
    for (int kind = 0; kind < 3; kind++) {
        struct tern_table *managed = open_table(names[kind][0], TERN_F32, "adaptive", &kinds[kind]);
        struct tern_table *fixed = open_table(names[kind][1], TERN_F32, "static", &kinds[kind]);
        struct tern_table *copied = open_table(names[kind][2], TERN_F32, "replicate", &kinds[kind]);
        uint64_t clock = 0;
        check(tern_worker_clock(worker, &clock));
        for (uint32_t turn = 0; turn < 10 * n_nodes; turn++) {
            /* In some turns the key moves to the one that pushes, in others all have replicas. */
            bool mine = turn % n_nodes == self;
            if (mine || turn % 3 == 0)
                check(tern_intent(worker, managed, all_keys, n, clock, clock + 2));
            check(tern_quiesce(node));
            for (size_t i = 0; i < n * LENGTH; i++)
                gradients[i] = (float)((i * 7 + turn * 13) % 32) / 8 - 2;
            if (mine) {
                check(tern_push(worker, managed, all_keys, n, gradients));
                check(tern_push(worker, fixed, all_keys, n, gradients));
                check(tern_push(worker, copied, all_keys, n, gradients));
            }
            check(tern_quiesce(node));
            check(tern_pull(worker, managed, all_keys, n, values[0]));
            check(tern_pull(worker, fixed, all_keys, n, values[1]));
            check(tern_pull(worker, copied, all_keys, n, values[2]));
            hold(!memcmp(values[0], values[1], sizeof values[0]));
            hold(!memcmp(values[2], values[1], sizeof values[1]));
            check(tern_worker_advance(worker, &clock));
        }
        hold(self == 0 || stats_of(managed).moved_here + stats_of(managed).replicas_made > 0);
    }
}

/* In a table with an updater of which this node has replicas, a set comes after what its worker pushed
 * before and before what it pushes after, is seen by it at once and by all in the end. Updates that several
 * nodes push to one key are each applied. */
static void sets_under(const char *policy)
{
    const struct tern_updater sgd = tern_updater_sgd(1);
    struct tern_table *table = open_table(policy, TERN_F32, policy, &sgd);
    if (strcmp(policy, "replicate"))
        check(tern_intent(worker, table, all_keys, N_KEYS, 0, UINT64_MAX));
    check(tern_quiesce(node));
    float update[LENGTH] = {1, 1, 1, 1}, value[LENGTH];
    for (int turn = 0; turn < 20; turn++) {
        for (uint64_t key = self; key < N_KEYS; key += 37 * n_nodes) {
            check(tern_push(worker, table, &key, 1, update));
            float now = (float)(100 * turn + 50);
            check(tern_set(worker, table, &key, 1, (float[LENGTH]){now, now, now, now}));
            check(tern_pull(worker, table, &key, 1, value));
            hold(value[0] == now && value[LENGTH - 1] == now);
            check(tern_push(worker, table, &key, 1, update));
        }
        check(tern_quiesce(node));
        for (uint64_t key = 0; key < N_KEYS; key++) {
            if (key % (37 * n_nodes) >= n_nodes)
                continue;
            check(tern_pull(worker, table, &key, 1, value));
            hold(value[0] == (float)(100 * turn + 49) && value[LENGTH - 1] == value[0]);
        }
        check(tern_barrier(node));
    }
    uint64_t key = N_KEYS - 1;
    for (int i = 0; i < 100; i++)
        check(tern_push(worker, table, &key, 1, update));
    check(tern_quiesce(node));
    check(tern_pull(worker, table, &key, 1, value));
    hold(value[0] == -100 * (float)n_nodes);
}

static void sets(void)
{
    sets_under("replicate");
    sets_under("adaptive");
    sets_under("adaptive-replicate");
}

/* A table with more in it than a round takes, all its keys, and room for their values. */
enum { LONG = 128 };

struct much {
    struct tern_table *table;
    size_t n;
    uint64_t *keys;
    int32_t *values;
};

static struct much open_much(const char *policy, size_t n)
{
    struct much much = {.n = n,
                        .keys = malloc(n * sizeof *much.keys),
                        .values = malloc(n * LONG * sizeof *much.values)};
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_I32,
                                         .n_keys = n,
                                         .length = LONG,
                                         .policy = policy};
    char name[64];
    snprintf(name, sizeof name, "much, %s", policy);
    check(tern_table_open(node, name, &options, &much.table));
    hold(much.keys && much.values);
    for (size_t i = 0; i < n; i++)
        much.keys[i] = i;
    return much;
}

static void close_much(struct much *much)
{
    check(tern_table_close(much->table));
    free(much->keys);
    free(much->values);
}

static void push_much(struct much *much)
{
    for (size_t i = 0; i < much->n * LONG; i++)
        much->values[i] = 1;
    check(tern_push(worker, much->table, much->keys, much->n, much->values));
}

static bool have_much(struct much *much, int32_t x)
{
    check(tern_pull(worker, much->table, much->keys, much->n, much->values));
    for (size_t i = 0; i < much->n * LONG; i++)
        if (much->values[i] != x)
            return false;
    return true;
}

/* Much is changed, by node 0 alone: after tern_quiesce all nodes have it all. */
static void much_under(const char *policy)
{
    struct much much = open_much(policy, 30000);
    check(tern_intent(worker, much.table, much.keys, much.n, 0, UINT64_MAX));
    check(tern_quiesce(node));
    for (int32_t turn = 1; turn <= 2; turn++) {
        if (self == 0)
            push_much(&much);
        check(tern_worker_advance(worker, NULL));
        check(tern_quiesce(node));
        hold(have_much(&much, turn));
        check(tern_barrier(node));
    }
    hold(self != 0 || stats_of(much.table).sent_bytes > 0);
    hold(self == 0 || stats_of(much.table).received_bytes > 0);
    close_much(&much);
}

static void much(void)
{
    much_under("replicate");
    much_under("adaptive");
    much_under("adaptive-replicate");
    much_under("essp:1");
}

/* tern_localize returns when all keys are here, also if that takes many rounds. */
static void localize_much(void)
{
    struct much much = open_much("relocate", 250000);
    if (self == 0)
        push_much(&much);
    check(tern_barrier(node));
    for (uint32_t turn = 0; turn < n_nodes; turn++) {
        if (turn == self) {
            check(tern_localize(worker, much.table, much.keys, much.n));
            uint64_t before = stats_of(much.table).remote_keys;
            hold(have_much(&much, 1));
            hold(stats_of(much.table).remote_keys == before);
        }
        check(tern_barrier(node));
    }
    close_much(&much);
}

/* Many operations under way, on keys that move meanwhile: each sees those before it on its keys, and none after
 * it. Every node has keys of its own, which it alone uses, but others want them, too. */
static void under_way(void)
{
    enum { N_OPS = 3000, N_OWN = 60, N_EACH = 3 };
    static int64_t given[N_OPS][N_EACH * LENGTH], got[N_OPS][N_EACH * LENGTH];
    static uint64_t keys[N_OPS][N_EACH], tickets[N_OPS];
    int64_t now[N_OWN] = {0};
    struct tern_table *table = open_table("under way", TERN_I64, "adaptive", NULL);
    uint64_t clock, own[N_OWN];
    for (uint64_t i = 0; i < N_OWN; i++)
        own[i] = n_nodes * i + self;
    check(tern_worker_clock(worker, &clock));
    for (uint64_t op = 0; op < N_OPS; op++) {
        /* Waits are rare at first, and then there is one for nearly every operation. */
        uint64_t first = op < N_OPS / 2 ? 7 * op % (N_OWN - N_EACH) : op % 5;
        if ((op / 8 + self) % n_nodes == 0)
            check(tern_intent(worker, table, all_keys, n_nodes * N_OWN, clock + 1, clock + 2));
        if (op % 8 == 0)
            check(tern_worker_advance(worker, &clock));
        for (uint64_t i = 0; i < N_EACH; i++) {
            keys[op][i] = own[first + i];
            for (int j = 0; j < LENGTH; j++)
                given[op][i * LENGTH + (uint64_t)j] = (int64_t)op;
        }
        if (op % 3 == 0)
            check(tern_set_start(worker, table, keys[op], N_EACH, given[op], &tickets[op]));
        else if (op % 3 == 1)
            check(tern_push_start(worker, table, keys[op], N_EACH, given[op], &tickets[op]));
        else
            check(tern_pull_start(worker, table, keys[op], N_EACH, got[op], &tickets[op]));
        for (uint64_t i = 0; i < N_EACH; i++) {
            int64_t *value = &now[first + i];
            *value = op % 3 == 0 ? (int64_t)op : op % 3 == 1 ? *value + (int64_t)op : *value;
            for (int j = 0; op % 3 == 2 && j < LENGTH; j++)
                given[op][i * LENGTH + (uint64_t)j] = *value;
        }
    }
    for (size_t op = 0; op < N_OPS; op++)
        check(tern_wait(worker, tickets[op]));
    for (size_t op = 2; op < N_OPS; op += 3)
        hold(!memcmp(got[op], given[op], sizeof got[op]));
    check(tern_barrier(node));
    check(tern_table_close(table));
}

/* Moves keys about, one batch of them after the other, and makes further ones that are no part of it. */
static void stir(struct tern_table *table, uint64_t turn, uint64_t *n_made)
{
    enum { N_MADE = 200 };
    uint64_t clock, made[N_MADE];
    static const int64_t zeros[N_MADE * LENGTH];
    check(tern_worker_advance(worker, &clock));
    for (uint64_t i = 0; i < N_MADE; i++)
        made[i] = 1000000 + n_nodes * (*n_made)++ + self;
    check(tern_push(worker, table, made, N_MADE, zeros));
    check(tern_intent(worker, table, all_keys + (turn * 37 + self * 91) % (N_KEYS - 50), 50,
                      clock + 1, clock + 3));
}

/* Ranges of a sparse table have every key once, whatever moves and grows meanwhile. */
static void ranges(void)
{
    enum { TURNS = 150 };
    struct tern_table_options options = {
        .struct_size = sizeof options, .index = TERN_SPARSE, .type = TERN_I64, .length = LENGTH};
    struct tern_table *table;
    static uint64_t keys[N_KEYS + 1];
    static int64_t ones[N_KEYS * LENGTH];
    uint64_t n_made = 0;
    check(tern_table_open(node, "ranges", &options, &table));
    if (self == 0)
        push_all(table, 0, N_KEYS, 1);
    for (size_t i = 0; i < N_KEYS * LENGTH; i++)
        ones[i] = 1;
    check(tern_barrier(node));
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        size_t n;
        stir(table, turn, &n_made);
        check(tern_pull_range(worker, table, 0, N_KEYS, N_KEYS + 1, keys, NULL, &n));
        hold(n == N_KEYS && !memcmp(keys, all_keys, sizeof all_keys));
        check(tern_push_range(worker, table, 0, N_KEYS, N_KEYS, ones));
    }
    check(tern_quiesce(node));
    hold(have_all(table, 0, N_KEYS, 1 + TURNS * (int64_t)n_nodes));
    check(tern_barrier(node));
    check(tern_table_close(table));
}

/* Numbers that are rounded: after tern_quiesce all copies have the same bits, and what was set, whatever was there
 * before, is what was set. */
static void agree_under(const char *policy)
{
    struct tern_table *table = open_table(policy, TERN_F32, policy, NULL);
    static float updates[N_KEYS * LENGTH], mine[N_KEYS * LENGTH], first[N_KEYS * LENGTH];
    uint64_t clock, random = 12345 + self;
    check(tern_worker_clock(worker, &clock));
    check(tern_intent(worker, table, all_keys, N_KEYS, clock, UINT64_MAX));
    for (int turn = 0; turn < 60; turn++) {
        for (size_t i = 0; i < N_KEYS * LENGTH; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            updates[i] = (float)(random >> 40) / 3e6f - 2.7f;
        }
        check(tern_push(worker, table, all_keys, N_KEYS, updates));
        check(tern_worker_advance(worker, NULL));
        if (turn % 20 != 19)
            continue;
        check(tern_quiesce(node));
        check(tern_pull(worker, table, all_keys, N_KEYS, mine));
        memcpy(first, mine, sizeof first);
        check(tern_broadcast(node, 0, sizeof first, first));
        hold(!memcmp(first, mine, sizeof first));
        check(tern_barrier(node));
    }
    const float large[LENGTH] = {1e10f, 1e10f, 1e10f, 1e10f}, one[LENGTH] = {1, 1, 1, 1};
    for (uint32_t i = 0; i < n_nodes && strcmp(policy, "replicate"); i++) {
        const uint64_t key = 100 * i; /* at home, or not */
        if (self == 0) {
            check(tern_set(worker, table, &key, 1, large));
            check(tern_set(worker, table, &key, 1, one));
        }
        check(tern_quiesce(node));
        check(tern_pull(worker, table, &key, 1, mine));
        hold(!memcmp(mine, one, sizeof one));
        check(tern_barrier(node));
    }
    check(tern_table_close(table));
}

static void agree(void)
{
    agree_under("adaptive");
    agree_under("adaptive-replicate");
    agree_under("replicate");
}

/* Calls keys here from all nodes at once, in a thread of its own, until told to stop. */
struct caller {
    pthread_t thread;
    struct tern_table *table;
    struct tern_worker *worker;
    atomic_bool stop;
};

static void *call_keys(void *context)
{
    struct caller *caller = context;
    uint64_t random = self + 1, keys[150];
    while (!atomic_load(&caller->stop)) {
        for (size_t i = 0; i < 150; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            keys[i] = (random >> 33) % N_KEYS;
        }
        check(tern_localize(caller->worker, caller->table, keys, 150));
    }
    return NULL;
}

/* Keys that all nodes call all the time are found by those who use them, and none is lost. */
static void called(void)
{
    enum { TURNS = 400 };
    static int64_t ones[N_KEYS * LENGTH], values[N_KEYS * LENGTH];
    struct caller caller = {.table = open_table("called", TERN_I64, "relocate", NULL)};
    check(tern_worker_open(node, &caller.worker));
    for (size_t i = 0; i < N_KEYS * LENGTH; i++)
        ones[i] = 1;
    check(tern_barrier(node));
    hold(!pthread_create(&caller.thread, NULL, call_keys, &caller));
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        const uint64_t *keys = all_keys + turn * 61 % (N_KEYS - 20);
        check(tern_push(worker, caller.table, keys, 20, ones));
        check(tern_pull(worker, caller.table, keys, 20, values));
    }
    atomic_store(&caller.stop, true);
    pthread_join(caller.thread, NULL);
    check(tern_quiesce(node));
    check(tern_pull(worker, caller.table, all_keys, N_KEYS, values));
    int64_t sum = 0;
    for (size_t i = 0; i < N_KEYS * LENGTH; i++)
        sum += values[i];
    hold(sum == (int64_t)n_nodes * TURNS * 20 * LENGTH);
    check(tern_barrier(node));
    check(tern_worker_close(caller.worker));
    check(tern_table_close(caller.table));
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {{"bounds", bounds},
                                             {"closing", closing},
                                             {"pinned-copies", pinned_copies},
                                             {"infinite-copies", infinite_copies},
                                             {"full-copies", full_copies},
                                             {"localize", localize},
                                             {"localize-started", localize_started},
                                             {"retired", retired},
                                             {"flush", flush},
                                             {"updaters", updaters},
                                             {"sets", sets},
                                             {"much", much},
                                             {"localize-much", localize_much},
                                             {"under-way", under_way},
                                             {"ranges", ranges},
                                             {"agree", agree},
                                             {"called", called}};
    return argc == 2 ? run_case(argv[1], cases, sizeof cases / sizeof cases[0]) : 2;
}
