/*
 * checkpoint - writes checkpoints in a cluster and goes on from them in another one. Run by test_checkpoint.sh.
 *
 * checkpoint write PATH STEPS   pushes to tables of all policies, with intents that make keys move, and writes a
 *                               checkpoint; what is pushed while it is written must not be in it
 * checkpoint changes PATH STEPS the same by checkpoints of changes: PATH.0, PATH.1, PATH.2 and then PATH
 * checkpoint read PATH STEPS    restores all tables, on any number of nodes, and checks every value, the updater's state,
 *                               the notes and the clocks
 * checkpoint verify PATH        compares all files with their hashes; it needs no cluster
 * checkpoint rewrite PATH       writes PATH.0, PATH.1, ... until it is killed, and says which are complete
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

enum { N_KEYS = 600, LENGTH = 3, BATCH = 20, HANGS_S = 120, NOISE = 1000000 };

static const char *const policies[] = {"adaptive", "static",    "relocate",
                                       "multi",    "replicate", "replicate-doubling",
                                       "ssp:2",    "essp:2",    "vap:1e12"};
enum { N_POLICIES = sizeof policies / sizeof *policies, N_TABLES = 2 * N_POLICIES };

static struct tern_node *node;
static struct tern_worker *worker;
static struct tern_table *tables[N_TABLES], *learned;
static uint32_t self, n_nodes;

/* Keys of sparse tables are scattered over all 64 bits. */
static uint64_t key_of(size_t table, uint64_t i)
{
    return table % 2 ? (i + 1) * UINT64_C(0x9e3779b97f4a7c15) : i;
}

static void open_tables(void)
{
    for (size_t i = 0; i < N_TABLES; i++) {
        struct tern_table_options options = {.struct_size = sizeof options,
                                             .index = i % 2 ? TERN_SPARSE : TERN_DENSE,
                                             .type = TERN_I64,
                                             .n_keys = i % 2 ? 0 : N_KEYS,
                                             .length = LENGTH,
                                             .init = {.kind = TERN_INIT_CONSTANT, .a = 5},
                                             .policy = policies[i / 2]};
        char name[40];
        snprintf(name, sizeof name, "%s %s", policies[i / 2], i % 2 ? "sparse" : "dense");
        check(tern_table_open(node, name, &options, &tables[i]));
    }
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .n_keys = N_KEYS,
                                         .length = LENGTH,
                                         .updater = tern_updater_adagrad(0.5, 1e-8)};
    check(tern_table_open(node, "learned", &options, &learned));
}

static void draw(uint32_t by, uint64_t step, uint64_t numbers[BATCH])
{
    for (uint64_t i = 0; i < BATCH; i++)
        numbers[i] = (step * 31 + i * i * 7 + by * 101) % (N_KEYS - 50);
}

static void push(uint64_t step, int64_t what)
{
    uint64_t numbers[BATCH], keys[BATCH];
    int64_t updates[BATCH * LENGTH];
    draw(self, step, numbers);
    for (size_t i = 0; i < BATCH * LENGTH; i++)
        updates[i] = what;
    for (size_t t = 0; t < N_TABLES; t++) {
        for (size_t i = 0; i < BATCH; i++)
            keys[i] = key_of(t, numbers[i]);
        check(tern_intent(worker, tables[t], keys, BATCH, step, step + 2));
        if (step % 3 == 0)
            check(tern_localize(worker, tables[t], keys, 3));
        check(tern_push(worker, tables[t], keys, BATCH, updates));
    }
}

/* AdaGrad in floats: what so many gradients of 1 make of 0. */
static void learn(float *value, float *state)
{
    *state += 1;
    *value -= 0.5F / (sqrtf(*state) + 1e-8F);
}

static void push_learned(uint64_t n)
{
    float ones[LENGTH] = {1, 1, 1};
    for (uint64_t key = self; key < N_KEYS; key += n_nodes)
        for (uint64_t i = 0; i < n + key % 3; i++)
            check(tern_push(worker, learned, &key, 1, ones));
}

static void work(uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step < to; step++) {
        push(step, 1);
        check(tern_worker_advance(worker, NULL));
    }
}

/* Three checkpoints on the way. */
static void write_before(const char *path, uint64_t n_steps)
{
    push_learned(2);
    for (unsigned i = 0; i < 3; i++) {
        char before[4096];
        snprintf(before, sizeof before, "%s.%u", path, i);
        work(n_steps * i / 4, n_steps * (i + 1) / 4);
        check(tern_checkpoint_start_changes(node, before, NULL, 0));
        check(tern_checkpoint_wait(node));
    }
}

static void write_one(const char *path, uint64_t n_steps, bool changes)
{
    uint64_t random[2] = {self, n_steps};
    const struct tern_note notes[] = {{"random", random, sizeof random}, {"empty", NULL, 0}};
    if (changes)
        write_before(path, n_steps);
    work(changes ? n_steps * 3 / 4 : 0, n_steps);
    if (!changes)
        push_learned(2);
    check(changes ? tern_checkpoint_start_changes(node, path, notes, 2)
                  : tern_checkpoint_start(node, path, notes, 2));
    push(n_steps, NOISE);
    push_learned(1);
    check(tern_checkpoint_wait(node));
}

/* ---- Reading ------------------------------------------------------------------------------------ */

static uint64_t count_wrong(size_t table, uint32_t n_writers, uint64_t n_steps)
{
    static int64_t expected[N_KEYS], values[N_KEYS][LENGTH];
    static uint64_t keys[N_KEYS];
    uint64_t n_wrong = 0, numbers[BATCH];
    for (uint64_t i = 0; i < N_KEYS; i++) {
        expected[i] = 5;
        keys[i] = key_of(table, i);
    }
    for (uint32_t by = 0; by < n_writers; by++)
        for (uint64_t step = 0; step < n_steps; step++) {
            draw(by, step, numbers);
            for (size_t i = 0; i < BATCH; i++)
                expected[numbers[i]]++;
        }
    check(tern_pull(worker, tables[table], keys, N_KEYS, values));
    for (size_t i = 0; i < N_KEYS; i++)
        for (size_t j = 0; j < LENGTH; j++)
            n_wrong += values[i][j] != expected[i];
    return n_wrong;
}

/* The state shows in what the next push does. */
static uint64_t count_wrongly_learned(void)
{
    uint64_t n_wrong = 0;
    push_learned(0);
    check(tern_quiesce(node));
    for (uint64_t key = 0; key < N_KEYS; key++) {
        float value = 0, state = 0, values[LENGTH];
        for (uint64_t i = 0; i < 2 + 2 * (key % 3); i++)
            learn(&value, &state);
        check(tern_pull(worker, learned, &key, 1, values));
        for (size_t j = 0; j < LENGTH; j++)
            n_wrong += values[j] != value;
    }
    return n_wrong;
}

static void check_notes(struct tern_checkpoint *checkpoint, uint32_t n_writers, uint64_t n_steps)
{
    for (uint32_t by = 0; by < n_writers; by++) {
        uint64_t random[2];
        size_t n;
        check(tern_checkpoint_get_note(checkpoint, by, "random", random, sizeof random, &n));
        hold(n == sizeof random && random[0] == by && random[1] == n_steps);
        check(tern_checkpoint_get_note(checkpoint, by, "empty", NULL, 0, &n));
        hold(n == 0);
    }
}

static void read_one(const char *path, uint64_t n_steps)
{
    struct tern_checkpoint *checkpoint;
    struct tern_checkpoint_info info = {.struct_size = sizeof info};
    uint64_t n_wrong = 0;
    check(tern_checkpoint_open(path, &checkpoint));
    check(tern_checkpoint_get_info(checkpoint, &info));
    hold(info.n_tables == N_TABLES + 1 && info.lowest_clock == n_steps &&
         info.highest_clock == n_steps);
    for (size_t i = 0; i < N_TABLES; i++)
        check(tern_checkpoint_restore(tables[i], checkpoint));
    check(tern_checkpoint_restore(learned, checkpoint));
    check_notes(checkpoint, info.n_nodes, n_steps);
    check(tern_checkpoint_close(checkpoint));
    for (size_t i = 0; i < N_TABLES; i++) {
        const uint64_t n = count_wrong(i, info.n_nodes, n_steps);
        if (n)
            printf("%s %s: %" PRIu64 " wrong\n", policies[i / 2], i % 2 ? "sparse" : "dense", n);
        n_wrong += n;
    }
    check(tern_barrier(node));
    n_wrong += count_wrongly_learned();
    printf("%" PRIu32 " wrote, %" PRIu32 " read: %" PRIu64 " wrong values\n", info.n_nodes, n_nodes,
           n_wrong);
}

static int verify_one(const char *path)
{
    struct tern_checkpoint *checkpoint;
    check(tern_checkpoint_open(path, &checkpoint));
    check(tern_checkpoint_verify(checkpoint));
    check(tern_checkpoint_close(checkpoint));
    return 0;
}

int main(int argc, char **argv)
{
    hold(argc >= 3);
    const uint64_t n_steps = argc > 3 ? strtoull(argv[3], NULL, 10) : 3;
    hang_after(HANGS_S);
    if (!strcmp(argv[1], "verify"))
        return verify_one(argv[2]);
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, &n_nodes));
    check(tern_worker_open(node, &worker));
    open_tables();
    check(tern_barrier(node));
    if (!strcmp(argv[1], "write") || !strcmp(argv[1], "changes"))
        write_one(argv[2], n_steps, argv[1][0] == 'c');
    else if (!strcmp(argv[1], "read"))
        read_one(argv[2], n_steps);
    for (unsigned i = 0; !strcmp(argv[1], "rewrite"); i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s.%u", argv[2], i);
        write_one(path, n_steps, false);
        printf("complete %u\n", i);
        fflush(stdout);
    }
    check(tern_worker_close(worker));
    check(tern_node_close(node));
    return 0;
}
