/*
 * Tables that admit keys: what a key without a row reads as, what happens to what is pushed to it, and which calls give it
 * a row.
 */
#include <pthread.h>

#include "support/check.h"

enum { LENGTH = 3, ADMIT = 4, N_KEYS = 3000 };

static struct tern_table_options admitting(enum tern_type type, uint32_t length)
{
    struct tern_table_options options = shape(TERN_SPARSE, type, 0, length);
    options.admit = ADMIT;
    options.expected_keys = 100 * N_KEYS;
    return options;
}

/* Pushes ones to a key, several times in one call. */
static void push_ones(struct place *place, struct tern_table *table, uint64_t key, size_t n)
{
    uint64_t keys[16];
    int64_t ones[16 * LENGTH];
    assert_true(n <= COUNT(keys));
    for (size_t i = 0; i < COUNT(ones); i++)
        ones[i] = 1;
    for (size_t i = 0; i < n; i++)
        keys[i] = key;
    ok(tern_push(place->worker, table, keys, n, ones));
}

static int64_t first_of(struct place *place, struct tern_table *table, uint64_t key)
{
    int64_t row[LENGTH] = {-1, -1, -1};
    ok(tern_pull(place->worker, table, &key, 1, row));
    assert_int_equal(row[1], row[0]);
    assert_int_equal(row[2], row[0]);
    return row[0];
}

static void a_push_beyond_the_threshold_is_the_first_that_counts(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = admitting(TERN_I64, LENGTH);
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 100};
    struct tern_table *table = table_of(place->node, "t", options);
    for (size_t together = 1; together <= 8; together++) {
        size_t n_pushed = 0;
        for (int i = 0; i < 4; i++) {
            const int64_t expected = n_pushed > ADMIT ? 100 + (int64_t)n_pushed - ADMIT : 0;
            assert_int_equal(first_of(place, table, together), expected);
            push_ones(place, table, together, together);
            n_pushed += together;
        }
        const int64_t expected = n_pushed > ADMIT ? 100 + (int64_t)n_pushed - ADMIT : 0;
        assert_int_equal(first_of(place, table, together), expected);
    }
    const struct tern_table_stats stats = stats_of(table);
    assert_int_equal(stats.dropped_keys, 8 * ADMIT);
    assert_int_equal(stats.counted_keys, 8 * ADMIT + 7);
    assert_int_equal(stats.rows, 7);
}

static void values_in_entries_and_updaters_are_admitted_alike(void **state)
{
    struct place *place = *state;
    struct tern_table *words = table_of(place->node, "words", admitting(TERN_F32, 1));
    struct tern_table_options options = admitting(TERN_F32, 2);
    options.updater = tern_updater_sgd(0.5);
    struct tern_table *learned = table_of(place->node, "learned", options);
    const uint64_t key = 9;
    const float ones[2] = {1, 1};
    for (int i = 0; i < ADMIT + 3; i++) {
        ok(tern_push(place->worker, words, &key, 1, ones));
        ok(tern_push(place->worker, learned, &key, 1, ones));
    }
    float values[2];
    ok(tern_pull(place->worker, words, &key, 1, values));
    assert_true(values[0] == 3);
    ok(tern_pull(place->worker, learned, &key, 1, values));
    assert_true(values[0] == -1.5F && values[1] == -1.5F);
}

static void counting_admits_without_a_push(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "t", admitting(TERN_I64, LENGTH));
    const uint64_t keys[] = {1, 2, 3, 2};
    const uint32_t counts[] = {ADMIT, ADMIT - 1, ADMIT + 1, 2};
    int64_t values[COUNT(keys) * LENGTH];
    bool present[COUNT(keys)];
    ok(tern_count(place->worker, table, keys, COUNT(keys), counts));
    ok(tern_pull_present(place->worker, table, keys, COUNT(keys), values, present));
    assert_false(present[0]);
    assert_true(present[1] && present[2] && present[3]);
    ok(tern_count(place->worker, table, keys, 1, NULL));
    ok(tern_pull_present(place->worker, table, keys, 1, values, present));
    assert_true(present[0]);
    ok(tern_count(place->worker, table, NULL, 0, NULL));
    assert_int_equal(stats_of(table).rows, 3);
}

static void sets_and_pins_give_a_row_at_once(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "t", admitting(TERN_I64, LENGTH));
    const uint64_t keys[] = {5, 6};
    const int64_t sevens[] = {7, 7, 7};
    void *row;
    ok(tern_set(place->worker, table, &keys[0], 1, sevens));
    assert_int_equal(first_of(place, table, 5), 7);
    ok(tern_pin(place->worker, table, &keys[1], 1, &row));
    ok(tern_unpin(place->worker, table, &keys[1], 1));
    push_ones(place, table, 6, 1);
    assert_int_equal(first_of(place, table, 6), 1);
    assert_int_equal(stats_of(table).dropped_keys, 0);
}

static void a_pull_of_what_is_present_makes_no_row(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, LENGTH);
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 5};
    struct tern_table *table = table_of(place->node, "t", options);
    uint64_t *keys = array_of(N_KEYS, sizeof *keys);
    int64_t *values = array_of(N_KEYS * LENGTH, sizeof *values);
    bool *present = array_of(N_KEYS, sizeof *present);
    for (uint64_t i = 0; i < N_KEYS; i++) {
        keys[i] = scattered(i);
        if (i % 3 == 0)
            push_ones(place, table, keys[i], 1);
    }
    memset(values, 0xff, N_KEYS * LENGTH * sizeof *values);
    ok(tern_pull_present(place->worker, table, keys, N_KEYS, values, present));
    for (uint64_t i = 0; i < N_KEYS; i++) {
        assert_int_equal(present[i], i % 3 == 0);
        assert_int_equal(values[i * LENGTH], i % 3 == 0 ? 6 : 0);
    }
    assert_int_equal(stats_of(table).rows, N_KEYS / 3);
    struct tern_table *dense = table_of(place->node, "d", shape(TERN_DENSE, TERN_I64, 9, LENGTH));
    const uint64_t key = 4;
    ok(tern_pull_present(place->worker, dense, &key, 1, values, present));
    assert_true(present[0]);
    free(present);
    free(values);
    free(keys);
}

struct job {
    struct tern_node *node;
    struct tern_table *table;
    uint64_t seed;
};

enum { N_THREADS = 4, N_STEPS = 300, N_BATCH = 40, N_SHARED = 500 };

static void *push_at_random(void *context)
{
    struct job *job = context;
    struct tern_worker *worker;
    struct dice dice = {job->seed};
    uint64_t keys[N_BATCH];
    int64_t ones[N_BATCH * LENGTH];
    for (size_t i = 0; i < COUNT(ones); i++)
        ones[i] = 1;
    holds(!tern_worker_open(job->node, &worker));
    for (int step = 0; step < N_STEPS; step++) {
        for (int i = 0; i < N_BATCH; i++)
            keys[i] = scattered(dice_below(&dice, 1 + dice_below(&dice, N_SHARED)));
        holds(!tern_push(worker, job->table, keys, N_BATCH, ones));
    }
    holds(!tern_worker_close(worker));
    return NULL;
}

static void threads_lose_nothing_but_what_is_dropped(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "t", admitting(TERN_I64, LENGTH));
    pthread_t threads[N_THREADS];
    struct job jobs[N_THREADS];
    for (uint64_t i = 0; i < N_THREADS; i++) {
        jobs[i] = (struct job){place->node, table, i};
        assert_int_equal(pthread_create(&threads[i], NULL, push_at_random, &jobs[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    all_held();
    uint64_t sum = 0;
    for (uint64_t i = 0; i < N_SHARED; i++)
        sum += (uint64_t)first_of(place, table, scattered(i));
    const uint64_t dropped = stats_of(table).dropped_keys;
    assert_int_equal(sum + dropped, N_THREADS * N_STEPS * N_BATCH);
    assert_true(dropped <= N_SHARED * ADMIT && dropped > N_SHARED);
}

static void bad_options_get_a_sentence(void **state)
{
    struct place *place = *state;
    struct tern_table *table = NULL;
    struct tern_table_options options = shape(TERN_DENSE, TERN_F32, 10, 1);
    options.admit = 1;
    refused(tern_table_open(place->node, "a", &options, &table), TERN_INVALID, "'a'", "sparse");
    options = shape(TERN_SPARSE, TERN_F32, 0, 1);
    options.expected_keys = 10;
    refused(tern_table_open(place->node, "a", &options, &table), TERN_INVALID, "expected_keys");
    options.admit = TERN_MAX_ADMIT + 1;
    refused(tern_table_open(place->node, "a", &options, &table), TERN_LIMIT, "65535", "65534");
    options.admit = 1;
    options.expected_keys = TERN_MAX_EXPECTED_KEYS + 1;
    refused(tern_table_open(place->node, "a", &options, &table), TERN_LIMIT, "2^40");
    options.expected_keys = 1000000;
    options.memory_limit_bytes = 1000000;
    refused(tern_table_open(place->node, "a", &options, &table), TERN_NO_MEMORY,
            "memory_limit_bytes 1000000", "counters");
    options.memory_limit_bytes = 0;
    static const char *const policies[] = {"replicate", "ssp:1", "vap:2"};
    for (size_t i = 0; i < COUNT(policies); i++) {
        options.policy = policies[i];
        refused(tern_table_open(place->node, "a", &options, &table), TERN_INVALID, "admit",
                policies[i]);
    }
    options = admitting(TERN_F32, 1);
    table = table_of(place->node, "a", options);
    options.admit++;
    refused(tern_table_open(place->node, "a", &options, &table), TERN_MISMATCH, "admit 4");
    struct tern_table *plain = table_of(place->node, "b", shape(TERN_SPARSE, TERN_F32, 0, 1));
    const uint64_t key = 1;
    float value;
    refused(tern_count(place->worker, plain, &key, 1, NULL), TERN_INVALID, "'b'", "admit");
    refused(tern_count(place->worker, table, NULL, 1, NULL), TERN_INVALID, "keys");
    refused(tern_count(NULL, table, &key, 1, NULL), TERN_INVALID, "worker");
    refused(tern_pull_present(place->worker, table, &key, 1, &value, NULL), TERN_INVALID,
            "present");
    refused(tern_pull_present(place->worker, table, &key, 1, NULL, NULL), TERN_INVALID, "values");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(a_push_beyond_the_threshold_is_the_first_that_counts),
        placed(values_in_entries_and_updaters_are_admitted_alike),
        placed(counting_admits_without_a_push),
        placed(sets_and_pins_give_a_row_at_once),
        placed(a_pull_of_what_is_present_makes_no_row),
        placed(threads_lose_nothing_but_what_is_dropped),
        placed(bad_options_get_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
