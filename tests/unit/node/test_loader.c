/*
 * Two nodes inside one process: a loader thread signals intents for the clock of another thread's worker, also while the
 * worker signals its own and closes; tern_pull_if_local reads what is here and sends nothing; tern_localize_start brings keys
 * while the worker goes on.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <tern/tern.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { N_NODES = 2, N_KEYS = 64, LENGTH = 4, HANGS_S = 300, MS = 1000000 };

static struct tern_node *nodes[N_NODES];
static struct tern_worker *workers[N_NODES];

static void ok(enum tern_status status)
{
    if (status)
        fail_msg("%s: %s", tern_status_name(status), tern_error());
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
}

static void *open_node(void *context)
{
    const uint32_t index = *(const uint32_t *)context;
    const struct tern_node_options options = {
        .struct_size = sizeof options, .group = "loader", .node = index, .n_nodes = N_NODES};
    return tern_node_open(&options, &nodes[index]) ? context : NULL;
}

/* Nodes open and close together, so each needs a thread. */
static void in_threads(void *(*call)(void *))
{
    pthread_t threads[N_NODES];
    uint32_t indexes[N_NODES];
    for (uint32_t i = 0; i < N_NODES; i++) {
        indexes[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, call, &indexes[i]), 0);
    }
    for (uint32_t i = 0; i < N_NODES; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

static int open_nodes(void **state)
{
    (void)state;
    alarm(HANGS_S);
    in_threads(open_node);
    for (int i = 0; i < N_NODES; i++)
        ok(tern_worker_open(nodes[i], &workers[i]));
    return 0;
}

static void *close_node(void *context)
{
    return tern_node_close(nodes[*(const uint32_t *)context]) ? context : NULL;
}

static int close_nodes(void **state)
{
    (void)state;
    for (int i = 0; i < N_NODES; i++)
        ok(tern_worker_close(workers[i]));
    in_threads(close_node);
    return 0;
}

static void open_table(const char *policy, struct tern_table *tables[N_NODES])
{
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .type = TERN_I64,
                                               .n_keys = N_KEYS,
                                               .length = LENGTH,
                                               .init = {.kind = TERN_INIT_CONSTANT, .a = 7},
                                               .policy = policy};
    for (int i = 0; i < N_NODES; i++)
        ok(tern_table_open(nodes[i], policy, &options, &tables[i]));
}

static void close_table(struct tern_table *tables[N_NODES])
{
    for (int i = 0; i < N_NODES; i++)
        ok(tern_table_close(tables[i]));
}

static void all_keys(uint64_t keys[N_KEYS])
{
    for (uint64_t i = 0; i < N_KEYS; i++)
        keys[i] = i;
}

static void fill(int64_t values[N_KEYS][LENGTH], int64_t value)
{
    for (int i = 0; i < N_KEYS; i++)
        for (int k = 0; k < LENGTH; k++)
            values[i][k] = value;
}

/* ---- tern_pull_if_local ------------------------------------------------------------------------- */

static struct tern_table_stats stats_of(struct tern_table *table)
{
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    ok(tern_table_get_stats(table, &stats));
    return stats;
}

static void keys_of_others_are_left_alone(void **state)
{
    (void)state;
    struct tern_table *tables[N_NODES];
    uint64_t keys[N_KEYS];
    int64_t values[N_NODES][N_KEYS][LENGTH];
    bool is_local[N_NODES][N_KEYS];
    open_table("static", tables);
    all_keys(keys);
    size_t n_all = 0;
    for (int i = 0; i < N_NODES; i++) {
        size_t n_local;
        fill(values[i], -1);
        ok(tern_pull_if_local(workers[i], tables[i], keys, N_KEYS, values[i], is_local[i],
                              &n_local));
        const struct tern_table_stats stats = stats_of(tables[i]);
        assert_int_equal(stats.remote_keys, 0);
        assert_int_equal(stats.pulled_keys, n_local);
        assert_int_equal(stats.sent_bytes, 0);
        n_all += n_local;
    }
    assert_int_equal(n_all, N_KEYS);
    for (int key = 0; key < N_KEYS; key++) {
        assert_int_equal(is_local[0][key] + is_local[1][key], 1);
        for (int i = 0; i < N_NODES; i++)
            for (int k = 0; k < LENGTH; k++)
                assert_int_equal(values[i][key][k], is_local[i][key] ? 7 : -1);
    }
    close_table(tables);
}

/* A replica is as local as a main copy, and both arrays of results may be left out. */
static void replicas_are_local(void **state)
{
    (void)state;
    struct tern_table *tables[N_NODES];
    uint64_t keys[N_KEYS];
    int64_t values[N_KEYS][LENGTH];
    size_t n_local;
    open_table("replicate", tables);
    all_keys(keys);
    ok(tern_pull_if_local(workers[0], tables[0], keys, N_KEYS, values, NULL, &n_local));
    assert_int_equal(n_local, N_KEYS);
    ok(tern_pull_if_local(workers[0], tables[0], keys, N_KEYS, values, NULL, NULL));
    ok(tern_pull_if_local(workers[0], tables[0], NULL, 0, NULL, NULL, &n_local));
    assert_int_equal(n_local, 0);
    close_table(tables);
}

/* Under bounded reads a key is local if its worker need not wait for a newer value. */
static void stale_replicas_are_not_local(void **state)
{
    (void)state;
    struct tern_table *tables[N_NODES];
    struct tern_worker *ahead;
    uint64_t keys[N_KEYS];
    int64_t values[N_KEYS][LENGTH];
    size_t n_local;
    all_keys(keys);
    open_table("ssp:2", tables);
    ok(tern_worker_open(nodes[0], &ahead));
    ok(tern_pull_if_local(ahead, tables[0], keys, N_KEYS, values, NULL, &n_local));
    assert_true(n_local <= N_KEYS / N_NODES);
    for (int i = 0; i < 4; i++)
        ok(tern_worker_advance(ahead, NULL));
    ok(tern_pull_if_local(ahead, tables[0], keys, N_KEYS, values, NULL, &n_local));
    assert_int_equal(n_local, 0); /* all the others are at clock 0 */
    ok(tern_worker_close(ahead));
    close_table(tables);
}

/* A worker sees what it has pushed: a key is not read here while a push to it is on its way to another node. */
static void a_read_does_not_overtake_a_push(void **state)
{
    (void)state;
    struct tern_table *tables[N_NODES];
    uint64_t keys[N_KEYS], ticket;
    int64_t values[N_KEYS][LENGTH], ones[N_KEYS][LENGTH];
    bool is_local[N_KEYS];
    open_table("adaptive", tables);
    all_keys(keys);
    fill(ones, 1);
    ok(tern_push_start(workers[0], tables[0], keys, N_KEYS, ones, &ticket));
    ok(tern_intent(workers[0], tables[0], keys, N_KEYS, 0, 1000));
    fill(values, -1);
    ok(tern_pull_if_local(workers[0], tables[0], keys, N_KEYS, values, is_local, NULL));
    for (int i = 0; i < N_KEYS; i++)
        assert_int_equal(values[i][0], is_local[i] ? 8 : -1);
    ok(tern_wait(workers[0], ticket));
    close_table(tables);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    struct tern_table *tables[N_NODES];
    const uint64_t key = 1, outside = N_KEYS;
    int64_t value[LENGTH] = {-1};
    bool is_local = true;
    size_t n_local = 5;
    open_table("static", tables);
    assert_int_equal(tern_pull_if_local(NULL, tables[0], &key, 1, value, &is_local, &n_local),
                     TERN_INVALID);
    assert_int_equal(tern_pull_if_local(workers[0], NULL, &key, 1, value, &is_local, &n_local),
                     TERN_INVALID);
    assert_int_equal(tern_pull_if_local(workers[0], tables[0], NULL, 1, value, NULL, NULL),
                     TERN_INVALID);
    assert_int_equal(tern_pull_if_local(workers[0], tables[0], &key, 1, NULL, NULL, NULL),
                     TERN_INVALID);
    assert_int_equal(tern_pull_if_local(workers[0], tables[1], &key, 1, value, NULL, NULL),
                     TERN_MISMATCH);
    assert_int_equal(
        tern_pull_if_local(workers[0], tables[0], &outside, 1, value, &is_local, &n_local),
        TERN_RANGE);
    assert_int_equal(value[0], -1);
    assert_int_equal(n_local, 5);
    assert_true(is_local);
    close_table(tables);
}

/* ---- tern_localize_start ------------------------------------------------------------------------ */

static size_t count_local(struct tern_table *table)
{
    uint64_t keys[N_KEYS];
    int64_t values[N_KEYS][LENGTH];
    size_t n_local;
    all_keys(keys);
    ok(tern_pull_if_local(workers[0], table, keys, N_KEYS, values, NULL, &n_local));
    return n_local;
}

static void a_ticket_waits_for_keys_to_come(void **state)
{
    (void)state;
    static const char *const policies[] = {"relocate", "multi"};
    for (size_t i = 0; i < COUNT(policies); i++) {
        struct tern_table *tables[N_NODES];
        uint64_t keys[N_KEYS], ticket = 0;
        open_table(policies[i], tables);
        all_keys(keys);
        ok(tern_localize_start(workers[0], tables[0], keys, N_KEYS, &ticket));
        assert_true(ticket > 0);
        assert_int_equal(tern_table_close(tables[0]), TERN_BUSY);
        ok(tern_wait(workers[0], ticket));
        assert_int_equal(count_local(tables[0]), N_KEYS);
        assert_true(stats_of(tables[0]).moved_here > 0);
        ok(tern_wait(workers[0], ticket));
        close_table(tables);
    }
}

static void a_ticket_says_when_keys_have_come(void **state)
{
    (void)state;
    struct tern_table *tables[N_NODES];
    uint64_t keys[N_KEYS], ticket;
    bool done = false;
    open_table("relocate", tables);
    all_keys(keys);
    ok(tern_localize_start(workers[0], tables[0], keys, N_KEYS, &ticket));
    while (!done) {
        ok(tern_test(workers[0], ticket, &done));
        nap();
    }
    close_table(tables);
}

/* Without a ticket the keys are copied: the array may be used again. */
static void keys_come_without_a_ticket(void **state)
{
    (void)state;
    struct tern_table *tables[N_NODES];
    uint64_t keys[N_KEYS];
    open_table("relocate", tables);
    all_keys(keys);
    ok(tern_localize_start(workers[0], tables[0], keys, N_KEYS, NULL));
    for (int i = 0; i < N_KEYS; i++)
        keys[i] = UINT64_MAX;
    while (count_local(tables[0]) < N_KEYS)
        nap();
    close_table(tables);
}

/* Pushes that are started while keys are on their way count once each. */
static void sums_are_exact_while_keys_move(void **state)
{
    (void)state;
    enum { STEPS = 30 };
    struct tern_table *tables[N_NODES];
    uint64_t keys[N_KEYS], tickets[N_NODES][2];
    int64_t values[N_KEYS][LENGTH], ones[N_KEYS][LENGTH];
    open_table("multi", tables);
    all_keys(keys);
    fill(ones, 1);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N_NODES; i++) {
            ok(tern_localize_start(workers[i], tables[i], keys, N_KEYS, &tickets[i][0]));
            ok(tern_push_start(workers[i], tables[i], keys, N_KEYS, ones, &tickets[i][1]));
        }
        for (int i = 0; i < N_NODES; i++) {
            bool done;
            ok(tern_test(workers[i], tickets[i][0], &done));
            ok(tern_wait(workers[i], tickets[i][1]));
        }
    }
    for (int i = 0; i < N_NODES; i++)
        ok(tern_flush(workers[i]));
    ok(tern_pull(workers[0], tables[0], keys, N_KEYS, values));
    for (int i = 0; i < N_KEYS; i++)
        assert_int_equal(values[i][LENGTH - 1], 7 + N_NODES * STEPS);
    close_table(tables);
}

/* Where keys do not move there is nothing to wait for; a worker may close with keys on their way. */
static void nothing_else_waits_for_keys(void **state)
{
    (void)state;
    struct tern_table *tables[N_NODES];
    struct tern_worker *worker;
    uint64_t keys[N_KEYS], ticket;
    bool done = false;
    all_keys(keys);
    open_table("static", tables);
    ok(tern_localize_start(workers[0], tables[0], keys, N_KEYS, &ticket));
    ok(tern_test(workers[0], ticket, &done));
    assert_true(done);
    close_table(tables);
    open_table("relocate", tables);
    ok(tern_worker_open(nodes[0], &worker));
    ok(tern_localize_start(worker, tables[0], keys, N_KEYS, &ticket));
    ok(tern_worker_close(worker));
    close_table(tables);
}

static void wrong_localizations_are_refused(void **state)
{
    (void)state;
    struct tern_table *tables[N_NODES], *refused;
    const uint64_t outside = N_KEYS;
    uint64_t ticket = 17;
    open_table("relocate", tables);
    assert_int_equal(tern_localize_start(NULL, tables[0], &outside, 1, &ticket), TERN_INVALID);
    assert_int_equal(tern_localize_start(workers[0], tables[0], NULL, 1, &ticket), TERN_INVALID);
    assert_int_equal(tern_localize_start(workers[0], tables[0], &outside, 1, &ticket), TERN_RANGE);
    assert_int_equal(ticket, 17);
    close_table(tables);
    struct tern_table_options options = {
        .struct_size = sizeof options, .n_keys = N_KEYS, .policy = "multi", .hot_factor = -1};
    assert_int_equal(tern_table_open(nodes[0], "hot", &options, &refused), TERN_INVALID);
    options.policy = "static";
    options.hot_factor = 10;
    assert_int_equal(tern_table_open(nodes[0], "hot", &options, &refused), TERN_INVALID);
}

/* rare_staleness_ms is for policies that make replicas on intent, and needs to be told which keys are rare. */
static void rare_keys_must_be_known(void **state)
{
    static const uint64_t frequencies[N_KEYS] = {1};
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .n_keys = N_KEYS,
                                         .length = 1,
                                         .policy = "adaptive",
                                         .hot_factor = 2,
                                         .rare_staleness_ms = 100};
    struct tern_table *table;
    (void)state;
    assert_int_equal(tern_table_open(nodes[0], "rare", &options, &table), TERN_INVALID);
    options.frequencies = frequencies;
    options.policy = "static";
    assert_int_equal(tern_table_open(nodes[0], "rare", &options, &table), TERN_INVALID);
    options.policy = "adaptive";
    assert_int_equal(tern_table_open(nodes[0], "rare", &options, &table), TERN_OK);
    assert_int_equal(tern_table_close(table), TERN_OK);
}

/* ---- Loaders ------------------------------------------------------------------------------------ */

struct loader {
    struct tern_worker *worker;
    struct tern_table *table;
    atomic_uint n_accepted;
    atomic_bool was_refused;
};

/* Signals intents until the worker is closed. */
static void *load(void *context)
{
    struct loader *loader = context;
    uint64_t keys[N_KEYS], clock = 0;
    enum tern_status status = TERN_OK;
    all_keys(keys);
    for (uint64_t step = 0; !status; step++) {
        status = tern_worker_clock(loader->worker, &clock);
        if (!status)
            status = tern_intent(loader->worker, loader->table, keys + step % 8, N_KEYS / 2, clock,
                                 clock + 2);
        if (!status)
            atomic_fetch_add(&loader->n_accepted, 1);
        if (step % 64 == 63)
            nap();
    }
    atomic_store(&loader->was_refused, status == TERN_CLOSED);
    return NULL;
}

/* What a loader signals for a worker's clock makes the keys local for the worker. */
static void intents_of_a_loader_count_for_the_worker(void **state)
{
    (void)state;
    struct tern_table *tables[N_NODES];
    pthread_t thread;
    uint64_t keys[N_KEYS];
    int64_t values[N_KEYS][LENGTH];
    struct tern_worker *worker;
    size_t n_local = 0;
    open_table("adaptive", tables);
    ok(tern_worker_open(nodes[0], &worker));
    struct loader loader = {.worker = worker, .table = tables[0]};
    all_keys(keys);
    assert_int_equal(pthread_create(&thread, NULL, load, &loader), 0);
    while (n_local < N_KEYS / 2 + 7) {
        ok(tern_pull_if_local(worker, tables[0], keys, N_KEYS / 2 + 7, values, NULL, &n_local));
        nap();
    }
    ok(tern_worker_close(worker));
    pthread_join(thread, NULL);
    assert_true(atomic_load(&loader.was_refused));
    assert_true(atomic_load(&loader.n_accepted) > 0);
    close_table(tables);
}

/* Several loaders and the worker itself signal at once; the worker closes in the middle of it, again and again. */
static void a_worker_may_close_while_loaders_signal(void **state)
{
    (void)state;
    enum { N_LOADERS = 2, N_WORKERS = 10 };
    struct tern_table *tables[N_NODES];
    uint64_t keys[N_KEYS];
    all_keys(keys);
    open_table("adaptive", tables);
    for (int i = 0; i < N_WORKERS; i++) {
        struct tern_worker *worker;
        struct loader loaders[N_LOADERS];
        pthread_t threads[N_LOADERS];
        ok(tern_worker_open(nodes[1], &worker));
        for (int k = 0; k < N_LOADERS; k++) {
            loaders[k] = (struct loader){.worker = worker, .table = tables[1]};
            assert_int_equal(pthread_create(&threads[k], NULL, load, &loaders[k]), 0);
        }
        while (!atomic_load(&loaders[0].n_accepted) || !atomic_load(&loaders[1].n_accepted)) {
            ok(tern_intent(worker, tables[1], keys, N_KEYS, 0, 100));
            ok(tern_worker_advance(worker, NULL));
            nap();
        }
        ok(tern_worker_close(worker));
        for (int k = 0; k < N_LOADERS; k++) {
            pthread_join(threads[k], NULL);
            assert_true(atomic_load(&loaders[k].was_refused));
        }
    }
    close_table(tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_others_are_left_alone),
        cmocka_unit_test(replicas_are_local),
        cmocka_unit_test(stale_replicas_are_not_local),
        cmocka_unit_test(a_read_does_not_overtake_a_push),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_ticket_waits_for_keys_to_come),
        cmocka_unit_test(a_ticket_says_when_keys_have_come),
        cmocka_unit_test(keys_come_without_a_ticket),
        cmocka_unit_test(sums_are_exact_while_keys_move),
        cmocka_unit_test(nothing_else_waits_for_keys),
        cmocka_unit_test(wrong_localizations_are_refused),
        cmocka_unit_test(rare_keys_must_be_known),
        cmocka_unit_test(intents_of_a_loader_count_for_the_worker),
        cmocka_unit_test(a_worker_may_close_while_loaders_signal),
    };
    return cmocka_run_group_tests(tests, open_nodes, close_nodes);
}
