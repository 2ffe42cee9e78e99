/*
 * shared - tables in memory that processes of one host share: what one node does to a row is there for all at once, and
 * the table lasts as long as any node has it. A case by its name. Run by tests/cluster/test_shared.sh.
 *
 * shared CASE [dense|sparse]        the last line is "node K: CASE holds"
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tern/tern.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

enum { N_KEYS = 1000, LENGTH = 3, HANGS_S = 60 };

static struct tern_node *node;
static struct tern_worker *worker;
static uint32_t self, n_nodes;
static enum tern_index index_kind;
static uint64_t keys[N_KEYS];

static struct tern_table *open_table(const char *name, enum tern_type type, uint32_t length)
{
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .index = index_kind,
                                         .type = type,
                                         .n_keys = index_kind == TERN_DENSE ? N_KEYS : 0,
                                         .length = length,
                                         .init = {.kind = TERN_INIT_CONSTANT, .a = 7}};
    struct tern_table *table;
    check(tern_table_open(node, name, &options, &table));
    return table;
}

static struct tern_table_stats stats_of(struct tern_table *table)
{
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    check(tern_table_get_stats(table, &stats));
    return stats;
}

/* Whether all keys have the value x. */
static bool have_all(struct tern_table *table, int64_t x)
{
    static int64_t values[N_KEYS * LENGTH];
    check(tern_pull(worker, table, keys, N_KEYS, values));
    for (size_t i = 0; i < N_KEYS * LENGTH; i++)
        if (values[i] != x)
            return false;
    return true;
}

static void push_all(struct tern_table *table, int64_t x)
{
    static int64_t updates[N_KEYS * LENGTH];
    for (size_t i = 0; i < N_KEYS * LENGTH; i++)
        updates[i] = x;
    check(tern_push(worker, table, keys, N_KEYS, updates));
}

/* The segments that this process has mapped. */
static int n_segments(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    hold(maps);
    char line[512];
    int n = 0;
    while (fgets(line, sizeof line, maps))
        n += strstr(line, "memfd:tern table") != NULL;
    fclose(maps);
    return n;
}

/* ---- Cases --------------------------------------------------------------------------------------- */

/* A push is seen by all after a barrier, and no message was needed. Rows are there once. */
static void at_once(void)
{
    struct tern_table *table = open_table("at once", TERN_I64, LENGTH);
    for (uint32_t turn = 0; turn < 2 * n_nodes; turn++) {
        if (turn % n_nodes == self)
            push_all(table, 1);
        check(tern_barrier(node));
        hold(have_all(table, 7 + turn + 1));
        check(tern_barrier(node));
    }
    struct tern_table_stats stats = stats_of(table);
    hold(stats.remote_keys == 0 && stats.messages == 0 && stats.rows == N_KEYS);
    uint64_t found[N_KEYS];
    size_t n = 0;
    check(tern_pull_range(worker, table, 0, index_kind == TERN_DENSE ? N_KEYS : UINT64_MAX, N_KEYS,
                          found, NULL, &n));
    hold(n == N_KEYS);
    char why[TERN_WHY_BYTES];
    check(tern_why(table, keys[5], why, sizeof why));
    hold(strstr(why, "all nodes share"));
}

/* Single numbers, which are in their entries: calls on many and on few keys, and pinned rows. */
static void numbers(void)
{
    enum { STEPS = 2000 };
    struct tern_table *table = open_table("numbers", TERN_I32, 1);
    static int32_t ones[N_KEYS], values[N_KEYS];
    for (size_t i = 0; i < N_KEYS; i++)
        ones[i] = 1;
    for (uint64_t step = 0; step < STEPS; step++) {
        check(tern_push(worker, table, keys, N_KEYS, ones));
        check(tern_push(worker, table, &keys[step % N_KEYS], 1, ones));
        void *row;
        if (step % 100 == self)
            check(tern_pin(worker, table, &keys[step % 50], 1, &row));
        if (step % 100 == self)
            check(tern_unpin(worker, table, &keys[step % 50], 1));
    }
    check(tern_barrier(node));
    check(tern_pull(worker, table, keys, N_KEYS, values));
    for (size_t i = 0; i < N_KEYS; i++)
        hold(values[i] == 7 + (int32_t)(n_nodes * (STEPS + STEPS / N_KEYS)));
}

/* What is written in place is there for all. */
static void pinned(void)
{
    struct tern_table *table = open_table("pinned", TERN_I64, LENGTH);
    void *rows[N_KEYS];
    check(tern_pin(worker, table, keys, N_KEYS, rows));
    for (size_t i = self; i < N_KEYS; i += n_nodes)
        *(int64_t *)rows[i] = (int64_t)(100 * i);
    check(tern_barrier(node));
    for (size_t i = 0; i < N_KEYS; i++)
        hold(*(int64_t *)rows[i] == (int64_t)(100 * i));
    hold(tern_table_close(table) == TERN_BUSY);
    check(tern_unpin(worker, table, keys, N_KEYS));
}

/* State and value of an updater are common, too: adagrad's steps become shorter with those of others. */
static void updater(void)
{
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .index = index_kind,
                                         .n_keys = index_kind == TERN_DENSE ? 10 : 0,
                                         .length = 1,
                                         .updater = tern_updater_adagrad(1, 1e-9)};
    struct tern_table *table;
    check(tern_table_open(node, "adagrad", &options, &table));
    const uint64_t key = 3;
    const float one = 1;
    float value = 0, expected = 0;
    for (uint32_t turn = 0; turn < n_nodes; turn++) {
        if (turn == self)
            check(tern_push(worker, table, &key, 1, &one));
        check(tern_barrier(node));
    }
    static const float steps[] = {1, 0.70710678f, 0.57735027f, 0.5f};
    for (uint32_t i = 0; i < n_nodes; i++)
        expected -= steps[i];
    check(tern_pull(worker, table, &key, 1, &value));
    hold(value > expected - 1e-5f && value < expected + 1e-5f);
}

/* Who opens a table when others have closed it finds what they left; when all have had and closed it, it is gone. */
static void late(void)
{
    for (uint32_t first = 0; first < n_nodes; first++) {
        struct tern_table *table = NULL;
        for (uint32_t turn = 0; turn < n_nodes; turn++) {
            if ((first + turn) % n_nodes == self) {
                table = open_table("late", TERN_I64, LENGTH);
                hold(have_all(table, 7 + turn));
                push_all(table, 1);
                check(tern_table_close(table));
            }
            check(tern_barrier(node));
        }
    }
}

/* Memory that nobody has any more is given back. */
static void again(void)
{
    enum { TIMES = 300 };
    const int before = n_segments();
    check(tern_barrier(node));
    for (int i = 0; i < TIMES; i++) {
        struct tern_table *table = open_table("again", TERN_I64, LENGTH);
        hold(have_all(table, 7));
        check(tern_barrier(node));
        push_all(table, 1);
        check(tern_table_close(table));
    }
    check(tern_barrier(node));
    hold(n_segments() < before + TIMES / 3); /* those of others may be about to go */
}

/* The limit of a table that all have in common is what all of them grant. */
static void limited(void)
{
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .n_keys = N_KEYS,
                                         .length = 100,
                                         .memory_limit_bytes = N_KEYS * 450 / n_nodes};
    struct tern_table *table;
    if (index_kind == TERN_SPARSE) {
        static float ones[N_KEYS * 100];
        options.index = TERN_SPARSE;
        options.n_keys = 0;
        check(tern_table_open(node, "full", &options, &table));
        enum tern_status status = TERN_OK;
        for (size_t i = 0; !status && i < 2 * N_KEYS; i++)
            status = tern_push(worker, table, &(uint64_t){i}, 1, ones);
        hold(status == TERN_NO_MEMORY && strstr(tern_error(), "memory_limit_bytes"));
        hold(stats_of(table).rows > N_KEYS / 2);
        return;
    }
    check(tern_table_open(node, "fits", &options, &table));
    options.memory_limit_bytes = N_KEYS * 400 / n_nodes;
    hold(tern_table_open(node, "does not fit", &options, &table) == TERN_NO_MEMORY);
    hold(strstr(tern_error(), "its limit is"));
}

/* Where the memory cannot be had, each node has its own, and keys go to and fro as between hosts. */
static void without(void)
{
    struct tern_table *table = open_table("without", TERN_I64, LENGTH);
    for (uint64_t step = 0; step < 20; step++) {
        check(tern_intent(worker, table, keys, N_KEYS, step, step + 1));
        push_all(table, 1);
        check(tern_worker_advance(worker, NULL));
    }
    check(tern_quiesce(node));
    hold(have_all(table, 7 + 20 * (int64_t)n_nodes));
    hold(stats_of(table).messages > 0);
}

/* The old name of a policy still means a table that is not shared. */
static void apart(void)
{
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .n_keys = N_KEYS,
                                         .length = LENGTH,
                                         .policy = "adaptive-apart"};
    struct tern_table *table;
    char why[TERN_WHY_BYTES];
    check(tern_table_open(node, "apart", &options, &table));
    check(tern_barrier(node));
    check(tern_why(table, keys[5], why, sizeof why));
    hold(!strstr(why, "all nodes share"));
}

/* A process makes the memory of a table and dies; those who open the table later are told which one it was. */
static void orphan(void)
{
    const char *go = getenv("GO");
    struct tern_table_options options = {
        .struct_size = sizeof options, .n_keys = N_KEYS, .length = LENGTH};
    struct tern_table *table;
    if (self == 1) {
        check(tern_table_open(node, "orphan", &options, &table));
        printf("made\n");
        fflush(stdout);
        pause();
    }
    while (access(go, F_OK))
        usleep(1000);
    const enum tern_status status = tern_table_open(node, "orphan", &options, &table);
    printf("node %" PRIu32 ": status %d: %s\n", self, (int)status, tern_error());
    fflush(stdout);
    _exit(status == TERN_PEER && strstr(tern_error(), "node 1 ") ? 0 : 1);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"at-once", at_once}, {"numbers", numbers}, {"pinned", pinned},
                 {"updater", updater}, {"late", late},       {"again", again},
                 {"limited", limited}, {"without", without}, {"apart", apart},
                 {"orphan", orphan}};
    hang_after(HANGS_S);
    index_kind = argc > 2 && !strcmp(argv[2], "sparse") ? TERN_SPARSE : TERN_DENSE;
    for (uint64_t i = 0; i < N_KEYS; i++)
        keys[i] = index_kind == TERN_DENSE ? i : i * UINT64_C(0x9e3779b97f4a7c15) % UINT64_MAX;
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, &n_nodes));
    check(tern_worker_open(node, &worker));
    printf("opened\n");
    fflush(stdout);
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++)
        if (!strcmp(argv[1], cases[i].name)) {
            cases[i].run();
            printf("node %" PRIu32 ": %s holds\n", self, cases[i].name);
        }
    check(tern_worker_close(worker));
    check(tern_node_close(node));
    return 0;
}
