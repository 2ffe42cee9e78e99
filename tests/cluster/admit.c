/*
 * admit - every node pushes ones at random keys of a table that admits keys, counts some without pushing, and checks after a
 * barrier that exactly the keys that were counted often enough have rows, with exact sums. Run by test_admit.sh.
 *
 * admit [policy] [steps] [ahead]
 *
 * With `ahead`, workers signal intent for their keys so many steps before they use them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tern/tern.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

enum { LENGTH = 4, BATCH = 50, N_KEYS = 4000, ADMIT = 5, HANGS_S = 200 };

static struct tern_node *node;
static struct tern_table *table;
static struct tern_worker *worker;
static int64_t pushed[N_KEYS], counted[N_KEYS];

static uint64_t key_of(uint64_t i)
{
    return i * UINT64_C(0x9e3779b97f4a7c15);
}

/* The numbers of the keys of a step: always the same ones, and some more often than others. */
static void draw(uint64_t seed, uint64_t step, uint64_t numbers[BATCH])
{
    uint64_t state = seed << 40 ^ step * 977;
    for (int i = 0; i < BATCH; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        numbers[i] = (state >> 33) % (1 + (state >> 20) % N_KEYS);
    }
}

static void step(uint64_t seed, uint64_t number, uint64_t n_steps, uint64_t ahead)
{
    uint64_t numbers[BATCH], keys[BATCH];
    int64_t ones[BATCH][LENGTH];
    for (uint64_t s = number ? number + ahead : 0; ahead && s <= number + ahead && s < n_steps;
         s++) {
        draw(seed, s, keys);
        for (int i = 0; i < BATCH; i++)
            keys[i] = key_of(keys[i]);
        check(tern_intent(worker, table, keys, BATCH, s, s + 1));
    }
    draw(seed, number, numbers);
    size_t n = 0;
    for (int i = 0; i < BATCH; i++) {
        /* Keys with odd numbers are also counted without a push. */
        const bool counts = numbers[i] % 2 && i % 2;
        if (counts) {
            const uint64_t key = key_of(numbers[i]);
            const uint32_t twice = 2;
            counted[numbers[i]] += i % 4 == 1 ? 2 : 1;
            check(tern_count(worker, table, &key, 1, i % 4 == 1 ? &twice : NULL));
            continue;
        }
        pushed[numbers[i]]++;
        for (int j = 0; j < LENGTH; j++)
            ones[n][j] = 1;
        keys[n++] = key_of(numbers[i]);
    }
    check(tern_push(worker, table, keys, n, ones));
    check(tern_worker_advance(worker, NULL));
}

static int64_t at_least(int64_t x, int64_t least)
{
    return x < least ? least : x;
}

/* Rows that should be there or should not, and sums that are wrong. */
static void look(uint64_t *n_wrong_rows, uint64_t *n_wrong_sums, int64_t *sum)
{
    static uint64_t keys[N_KEYS];
    static int64_t values[N_KEYS][LENGTH];
    static bool present[N_KEYS];
    for (uint64_t i = 0; i < N_KEYS; i++)
        keys[i] = key_of(i);
    check(tern_pull_present(worker, table, keys, N_KEYS, values, present));
    for (uint64_t i = 0; i < N_KEYS; i++) {
        const int64_t least = at_least(pushed[i] - ADMIT, 0);
        const int64_t most = counted[i] ? pushed[i] : least;
        *n_wrong_rows += present[i] != (pushed[i] + counted[i] > ADMIT);
        for (int j = 0; j < LENGTH; j++)
            *n_wrong_sums += values[i][j] < least || values[i][j] > most ||
                             (!present[i] && values[i][j]) || values[i][j] != values[i][0];
        *sum += values[i][0];
    }
}

int main(int argc, char **argv)
{
    const uint64_t n_steps = argc > 2 ? strtoull(argv[2], NULL, 10) : 200;
    const uint64_t ahead = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .index = TERN_SPARSE,
                                         .type = TERN_I64,
                                         .length = LENGTH,
                                         .policy = argc > 1 ? argv[1] : "static",
                                         .admit = ADMIT,
                                         .expected_keys = 100 * N_KEYS};
    uint32_t self;
    hang_after(HANGS_S);
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, NULL));
    check(tern_table_open(node, "admitted", &options, &table));
    check(tern_worker_open(node, &worker));
    for (uint64_t i = 0; i < n_steps; i++)
        step(self + 1, i, n_steps, ahead);
    check(tern_flush(worker));
    check(tern_quiesce(node));
    check(tern_all_reduce(node, TERN_I64, N_KEYS, pushed));
    check(tern_all_reduce(node, TERN_I64, N_KEYS, counted));
    uint64_t n_wrong_rows = 0, n_wrong_sums = 0;
    int64_t sum = 0, n_pushed = 0;
    look(&n_wrong_rows, &n_wrong_sums, &sum);
    for (uint64_t i = 0; i < N_KEYS; i++)
        n_pushed += pushed[i];
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    check(tern_table_get_stats(table, &stats));
    int64_t dropped = (int64_t)stats.dropped_keys;
    if (!getenv("TERN_SHARE") || strcmp(getenv("TERN_SHARE"), "0") == 0)
        check(tern_all_reduce(node, TERN_I64, 1, &dropped));
    printf("%" PRIu64 " wrong rows, %" PRIu64 " wrong sums, %s\n", n_wrong_rows, n_wrong_sums,
           sum + dropped == n_pushed ? "nothing lost" : "pushes lost");
    check(tern_worker_close(worker));
    check(tern_barrier(node));
    check(tern_node_close(node));
    return 0;
}
