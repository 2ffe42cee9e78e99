/*
 * tables - what becomes of tables that some nodes open late, close early or open again, case by case (cases.h). Run by
 * test_manage.sh.
 */
#include <pthread.h>
#include <unistd.h>

#include "cluster/cases.h"

/* A table that one node closes while its keys travel: it waits for nothing, and the others learn of it
 * as a status when they need its rows. */
static void closed_table(void)
{
    struct tern_table *table = open_table("closed", TERN_I64, "adaptive", NULL);
    struct tern_table *other = open_table("other", TERN_I64, "adaptive", NULL);
    int64_t values[LENGTH * N_KEYS];
    check(tern_barrier(node));
    for (uint64_t step = 0; step < 50 && (self != 1 || step < 10); step++) {
        check(tern_intent(worker, table, all_keys + step, N_KEYS / 2, step, step + 2));
        check(tern_intent(worker, other, all_keys + step, N_KEYS / 2, step, step + 2));
        enum tern_status status = tern_pull(worker, table, all_keys + step, N_KEYS / 2, values);
        hold(status == TERN_OK || status == TERN_CLOSED);
        push_all(other, step, N_KEYS / 2, 1);
        check(tern_worker_advance(worker, NULL));
    }
    check(tern_table_close(table));
    hold(tern_intent(worker, table, all_keys, 1, 0, 100) == TERN_CLOSED);
    check(tern_quiesce(node));
    /* The other table is as it should be. */
    hold(have_all(other, 0, 1, n_nodes));
    hold(have_all(other, 49, 1, 10 + 50 * ((int64_t)n_nodes - 1)));
    hold(have_all(other, 49 + N_KEYS / 2 - 1, 1, (int64_t)n_nodes - 1));
}

/* A node closes a table of which all have copies, kept alike by an all-reduce: nobody waits for it. */
static void closed_copies(void)
{
    struct tern_table *table = open_table("copies", TERN_I64, "replicate-doubling", NULL);
    struct tern_table *other = open_table("other", TERN_I64, "adaptive", NULL);
    push_all(table, 0, N_KEYS, 1);
    check(tern_quiesce(node));
    hold(have_all(table, 0, N_KEYS, n_nodes));
    check(tern_barrier(node)); /* what others push from here on would be seen, too */
    for (uint64_t step = 0; step < 50 && (self != 1 || step < 10); step++) {
        push_all(table, step, N_KEYS / 2, 1);
        push_all(other, step, 1, 1);
        check(tern_worker_advance(worker, NULL));
        if (step % 10 == 0)
            check(tern_flush(worker));
    }
    check(tern_table_close(table));
    check(tern_quiesce(node));
    hold(have_all(other, 0, 10, n_nodes));
}

/* An all-reduce goes on although rounds have something to say about a table that others open later. */
static void late_table(void)
{
    static const char *const policies[] = {"replicate-doubling", "replicate-owners", "adaptive",
                                           "ssp:1"};
    static const int64_t ones[LENGTH] = {
        1}; /* outlive the pushes, which end when the table is open */
    struct tern_table *copies = open_table("copies", TERN_I64, "replicate-doubling", NULL);
    for (uint32_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        struct tern_table *late = NULL;
        char name[16];
        snprintf(name, sizeof name, "late-%" PRIu32, i);
        check(tern_barrier(node));
        if (self == 0) {
            uint64_t ticket;
            late = open_table(name, TERN_I64, policies[i], NULL);
            check(tern_intent(worker, late, all_keys, N_KEYS, 0, UINT64_MAX));
            check(tern_push_start(worker, late, &all_keys[N_KEYS - 1], 1, ones, &ticket));
            usleep(50000);
        }
        check(tern_barrier(node));
        push_all(copies, i, 1, 1);
        if (self != 0) {
            check(tern_flush(worker));
            late = open_table(name, TERN_I64, policies[i], NULL);
        }
        check(tern_flush(worker));
        check(tern_quiesce(node));
        hold(have_all(copies, i, 1, n_nodes));
        check(tern_table_close(late));
    }
}

static void *flush_beside(void *context)
{
    (void)context;
    check(tern_flush(worker));
    return NULL;
}

/* A table can be closed while another thread waits for a node that has not opened another one. */
static void close_beside_flush(void)
{
    struct tern_table *table = open_table("table", TERN_I64, "replicate-owners", NULL);
    check(tern_barrier(node));
    if (self == 0) {
        pthread_t thread;
        struct tern_table *late = open_table("late", TERN_I64, "replicate-owners", NULL);
        push_all(late, 0, N_KEYS, 1);
        hold(pthread_create(&thread, NULL, flush_beside, NULL) == 0);
        usleep(100000);
        check(tern_table_close(table));
        check(tern_barrier(node));
        pthread_join(thread, NULL);
    } else {
        check(tern_table_close(table));
        check(tern_barrier(node));
        open_table("late", TERN_I64, "replicate-owners", NULL);
    }
    check(tern_quiesce(node));
}

/* The last node opens a table later than the deadline, which the others have asked it about meanwhile. */
static void late_under(const char *policy)
{
    if (self == n_nodes - 1)
        sleep(paced(3));
    struct tern_table *table = open_table(policy, TERN_I64, policy, NULL);
    uint64_t clock;
    check(tern_worker_clock(worker, &clock));
    check(tern_intent(worker, table, all_keys, N_KEYS, clock, UINT64_MAX));
    check(tern_worker_advance(worker, NULL));
    push_all(table, 0, N_KEYS, 1);
    check(tern_flush(worker));
    check(tern_quiesce(node));
    hold(have_all(table, 0, N_KEYS, n_nodes));
    check(tern_barrier(node));
    check(tern_table_close(table));
}

static void late(void)
{
    late_under("replicate");
    late_under("adaptive");
}

/* What was started holds its table open, and is not overtaken where every node has every key. */
static void started(void)
{
    const struct tern_updater sgd = tern_updater_sgd(1);
    struct tern_table *table = open_table("started", TERN_F64, "replicate", &sgd);
    static double sevens[N_KEYS * LENGTH], minus[N_KEYS * LENGTH], got[N_KEYS * LENGTH];
    uint64_t ticket;
    for (size_t i = 0; i < N_KEYS * LENGTH; i++) {
        sevens[i] = 7;
        minus[i] = -1;
    }
    if (self == 0) {
        check(tern_set_start(worker, table, all_keys, N_KEYS, sevens, &ticket));
        hold(tern_table_close(table) == TERN_BUSY);
        check(tern_pull(worker, table, all_keys, N_KEYS, got));
        hold(!memcmp(got, sevens, sizeof got));
        check(tern_push(worker, table, all_keys, N_KEYS, minus));
        check(tern_wait(worker, ticket));
    }
    check(tern_quiesce(node));
    check(tern_pull(worker, table, all_keys, N_KEYS, got));
    hold(got[0] == 8 && got[N_KEYS * LENGTH - 1] == 8);
    check(tern_barrier(node));
    check(tern_table_close(table));
}

/* A table that is closed and opened again is a new one, of any shape, however often. */
static void again(void)
{
    enum { TURNS = TERN_MAX_TABLES + 20 };
    int64_t values[8];
    uint64_t key = self;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        static const char *const policies[] = {"adaptive", "static", "replicate", "relocate"};
        struct tern_table_options options = {.struct_size = sizeof options,
                                             .type = TERN_I64,
                                             .n_keys = 40 + turn,
                                             .length = 1 + turn % 8,
                                             .policy = policies[turn % 4]};
        char name[16];
        struct tern_table *table;
        snprintf(name, sizeof name, turn % 2 ? "again" : "again %" PRIu32, turn % 5);
        check(tern_table_open(node, name, &options, &table));
        for (uint32_t i = 0; i < n_nodes; i++) {
            key = (13 * i + turn) % options.n_keys;
            check(tern_push(worker, table, &key, 1, (int64_t[8]){1, 1, 1, 1, 1, 1, 1, 1}));
        }
        check(tern_quiesce(node));
        check(tern_pull(worker, table, &key, 1, values));
        hold(values[0] == n_nodes && values[options.length - 1] == n_nodes);
        check(tern_barrier(node));
        check(tern_table_close(table));
    }
}

/* Opens one of many tables: they are of all policies, in turns. */
static struct tern_table *open_one_of(size_t number)
{
    static const char *const policies[] = {"adaptive", "replicate",         "adaptive-replicate",
                                           "ssp:2",    "adaptive-relocate", "static"};
    char name[16];
    snprintf(name, sizeof name, "table %zu", number);
    return open_table(name, TERN_I64, policies[number % 6], NULL);
}

/* Rounds are about many tables at once, of which some are closed and others opened meanwhile. Each comes again empty,
 * and all that is pushed to a table arrives before it is closed. */
static void tables(void)
{
    enum { TABLES = 18, STEPS = 400, CLOSED_EVERY = 25, USED = 30 };
    struct tern_table *open[TABLES];
    uint64_t begun[TABLES] = {0}, clock = 0;
    for (size_t i = 0; i < TABLES; i++)
        open[i] = open_one_of(i);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < TABLES; i++) {
            uint64_t first = (step * 7 + i * 31) % (N_KEYS - USED);
            check(tern_intent(worker, open[i], all_keys + first, USED, clock, clock + 2));
            push_all(open[i], 0, N_KEYS, step % 10 == i % 10);
        }
        check(tern_worker_advance(worker, &clock));
        if (step % CLOSED_EVERY != CLOSED_EVERY - 1)
            continue;
        size_t i = step / CLOSED_EVERY % TABLES;
        check(tern_barrier(node));
        check(tern_quiesce(node));
        int64_t pushes = 0;
        for (uint64_t k = begun[i]; k <= step; k++)
            pushes += k % 10 == i % 10;
        hold(have_all(open[i], 0, N_KEYS, pushes * n_nodes));
        check(tern_barrier(node));
        check(tern_table_close(open[i]));
        open[i] = open_one_of(i);
        begun[i] = step + 1;
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {{"closed-table", closed_table},
                                             {"closed-copies", closed_copies},
                                             {"late-table", late_table},
                                             {"close-beside-flush", close_beside_flush},
                                             {"again", again},
                                             {"late", late},
                                             {"started", started},
                                             {"tables", tables}};
    return argc == 2 ? run_case(argv[1], cases, sizeof cases / sizeof cases[0]) : 2;
}
