/*
 * evict - every node pushes to many keys of a table with little memory, pulls others, and sweeps now and then; intent says which
 * keys a node will push to. No row that is read is that of another key, no call fails, and the table keeps to its limit. Run by
 * test_evict.sh.
 *
 * evict [policy] [steps] [processes that share the table]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tern/tern.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

enum { LENGTH = 4, BATCH = 200, N_KEYS = 100000, LIMIT_BYTES = 1 << 20, HANGS_S = 200 };
enum { AHEAD = 5 }; /* steps between an intent and its use */

static struct tern_node *node;
static struct tern_table *table;
static struct tern_worker *worker;
static uint64_t n_wrong;

static uint64_t key_of(uint64_t i)
{
    return i * UINT64_C(0x9e3779b97f4a7c15);
}

/* What is pushed to a key: every value of its row is a multiple of it. */
static int64_t mark_of(uint64_t key)
{
    return (int64_t)(1000003 + key % 100000000);
}

static void draw(uint64_t *state, uint64_t keys[BATCH])
{
    for (int i = 0; i < BATCH; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        keys[i] = key_of((*state >> 33) % (1 + (*state >> 20) % N_KEYS));
    }
}

static bool is_small(void *context, uint64_t key, const void *value)
{
    int64_t row[LENGTH];
    (void)context;
    memcpy(row, value, sizeof row);
    n_wrong += row[0] % mark_of(key) != 0 || row[LENGTH - 1] != row[0];
    return row[0] <= mark_of(key);
}

static void step(uint64_t *state, uint64_t number)
{
    static uint64_t wanted[AHEAD][BATCH]; /* keys of this step and the next ones */
    uint64_t keys[BATCH], n;
    int64_t values[BATCH][LENGTH];
    memcpy(keys, wanted[number % AHEAD], sizeof keys);
    draw(state, wanted[number % AHEAD]);
    check(tern_intent(worker, table, wanted[number % AHEAD], BATCH, number + AHEAD,
                      number + AHEAD + 1));
    if (number < AHEAD)
        draw(state, keys);
    for (int i = 0; i < BATCH; i++)
        for (int j = 0; j < LENGTH; j++)
            values[i][j] = mark_of(keys[i]);
    check(tern_push(worker, table, keys, BATCH, values));
    draw(state, keys);
    check(tern_pull(worker, table, keys, BATCH, values));
    for (int i = 0; i < BATCH; i++)
        n_wrong += values[i][0] % mark_of(keys[i]) != 0 || values[i][LENGTH - 1] != values[i][0];
    if (number % 20 == 19)
        check(tern_sweep(worker, table, is_small, NULL, &n));
    check(tern_worker_advance(worker, NULL));
}

int main(int argc, char **argv)
{
    const uint64_t n_steps = argc > 2 ? strtoull(argv[2], NULL, 10) : 200;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .index = TERN_SPARSE,
                                         .type = TERN_I64,
                                         .length = LENGTH,
                                         .policy = argc > 1 ? argv[1] : "static",
                                         .memory_limit_bytes = LIMIT_BYTES,
                                         .evict_at_limit = true,
                                         .evict_age = 50};
    uint32_t self, n_nodes;
    hang_after(HANGS_S);
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, &n_nodes));
    check(tern_table_open(node, "leaving", &options, &table));
    check(tern_worker_open(node, &worker));
    uint64_t state = self + 1;
    for (uint64_t i = 0; i < n_steps; i++)
        step(&state, i);
    check(tern_flush(worker));
    check(tern_barrier(node));
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    check(tern_table_get_stats(table, &stats));
    /* In shared memory the limit is what all processes grant. */
    const uint64_t n_granted = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    printf("node %" PRIu32 ": %" PRIu64 " rows are wrong, %s; %s replicas\n", self, n_wrong,
           stats.removed_rows && stats.memory_bytes <= LIMIT_BYTES * n_granted
               ? "the limit holds"
               : "the limit does not hold",
           stats.replicas_made ? "some" : "no");
    check(tern_barrier(node));
    check(tern_worker_close(worker));
    check(tern_table_close(table));
    check(tern_node_close(node));
    return 0;
}
