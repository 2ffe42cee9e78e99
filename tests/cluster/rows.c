/*
 * rows - long values in long runs: what travels between the network and the caller's own memory, with no
 * copy between, is right to the last element, also when connections break on the way.
 *
 * Every node pushes 1 + key mod 7 to all elements of runs of keys, and pulls other runs. A row is then
 * always a multiple of that, the same in all elements, and in the end the sum of all that was pushed.
 *
 * rows [steps]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tern/tern.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

enum {
    LENGTH = 100,
    N_KEYS = 6000,
    RUN = 500, /* keys of a call: about 400 kB */
    ODD = 64,  /* one run in so many has a hole */
    HANGS_S = 200,
};

static struct tern_node *node;
static struct tern_table *table;
static struct tern_worker *worker;
static int64_t pushed[N_KEYS], values[RUN][LENGTH];

static int64_t unit_of(uint64_t key)
{
    return 1 + (int64_t)(key % 7);
}

/* A run of keys somewhere; its values lie in one piece unless it is an odd one. */
static void draw_run(uint64_t *state, uint64_t keys[RUN])
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t begin = (*state >> 33) % (N_KEYS - RUN), odd = (*state >> 20) % ODD;
    for (uint64_t i = 0; i < RUN; i++)
        keys[i] = odd == 0 && i % 50 == 0 ? (begin + i + N_KEYS / 2) % N_KEYS : begin + i;
}

static void push_run(const uint64_t keys[RUN])
{
    for (int i = 0; i < RUN; i++) {
        for (int j = 0; j < LENGTH; j++)
            values[i][j] = unit_of(keys[i]);
        pushed[keys[i]]++;
    }
    check(tern_push(worker, table, keys, RUN, values));
}

/* The values that a row cannot have: not whole, or not its own. */
static uint64_t pull_run(const uint64_t keys[RUN])
{
    uint64_t n_wrong = 0;
    check(tern_pull(worker, table, keys, RUN, values));
    for (int i = 0; i < RUN; i++)
        for (int j = 0; j < LENGTH; j++)
            n_wrong += values[i][j] != values[i][0] || values[i][j] % unit_of(keys[i]) != 0;
    return n_wrong;
}

static uint64_t count_wrong_sums(void)
{
    uint64_t n_wrong = 0, keys[RUN];
    for (uint64_t done = 0; done < N_KEYS; done += RUN) {
        for (uint64_t i = 0; i < RUN; i++)
            keys[i] = done + i;
        n_wrong += pull_run(keys);
        for (uint64_t i = 0; i < RUN; i++)
            n_wrong += values[i][0] != pushed[done + i] * unit_of(done + i);
    }
    return n_wrong;
}

int main(int argc, char **argv)
{
    uint64_t n_steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 300;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_I64,
                                         .n_keys = N_KEYS,
                                         .length = LENGTH,
                                         .policy = "adaptive"};
    uint64_t n_wrong = 0, keys[RUN];
    uint32_t self;
    hang_after(HANGS_S);
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, NULL));
    check(tern_table_open(node, "rows", &options, &table));
    check(tern_worker_open(node, &worker));
    uint64_t random = self + 1;
    for (uint64_t step = 0; step < n_steps; step++) {
        draw_run(&random, keys);
        push_run(keys);
        draw_run(&random, keys);
        n_wrong += pull_run(keys);
    }
    check(tern_barrier(node));
    check(tern_all_reduce(node, TERN_I64, N_KEYS, pushed));
    uint64_t n_wrong_sums = count_wrong_sums();
    printf("node %" PRIu32 ": %" PRIu64 " wrong elements, %" PRIu64 " wrong sums\n", self, n_wrong,
           n_wrong_sums);
    check(tern_worker_close(worker));
    check(tern_node_close(node));
    return n_wrong != 0 || n_wrong_sums != 0;
}
