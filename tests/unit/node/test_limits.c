/*
 * What a table refuses at its memory limit and while rows are pinned, and what it then still does; opening and closing for
 * ever takes no more memory.
 */
#include "support/check.h"

/* ---- Memory limit ---------------------------------------------------------------------------- */

enum { LIMITED_LENGTH = 32, LIMITED_BATCH = 100, LIMIT_BYTES = 1 << 20 };

static void fill_batch(uint64_t *keys, float *values, uint64_t first)
{
    for (uint64_t i = 0; i < LIMITED_BATCH; i++)
        keys[i] = scattered(first + i);
    element_fill(TERN_F32, values, LIMITED_BATCH * LIMITED_LENGTH, 1);
}

/* Asserts that the keys 0 .. n-1 (scattered) have all elements 1, and those after them 0. */
static void assert_first_ones(struct place *place, struct tern_table *table, size_t n)
{
    for (uint64_t i = 0; i < n + LIMITED_BATCH; i++) {
        uint64_t key = scattered(i);
        float value[LIMITED_LENGTH];
        ok(tern_pull(place->worker, table, &key, 1, value));
        for (size_t j = 0; j < LIMITED_LENGTH; j++)
            assert_true(value[j] == (i < n ? 1 : 0));
    }
}

/* Pushes ones to new keys, batch by batch, until there is no memory. Returns how many hold 1. */
static size_t fill_to_the_limit(struct place *place, struct tern_table *table)
{
    uint64_t keys[LIMITED_BATCH];
    float values[LIMITED_BATCH * LIMITED_LENGTH];
    for (size_t n = 0;; n += LIMITED_BATCH) {
        fill_batch(keys, values, n);
        enum tern_status status = tern_push(place->worker, table, keys, LIMITED_BATCH, values);
        if (status == TERN_NO_MEMORY)
            return n;
        ok(status);
        assert_true(n < LIMIT_BYTES);
    }
}

static void a_table_at_its_memory_limit_takes_no_part_of_a_call(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, LIMITED_LENGTH);
    options.memory_limit_bytes = LIMIT_BYTES;
    struct tern_table *table = table_of(place->node, "limited", options);
    size_t n = fill_to_the_limit(place, table);
    assert_true(n * sizeof(float) * LIMITED_LENGTH >= LIMIT_BYTES / 2);
    assert_first_ones(place, table, n);
    assert_true(stats_of(table).memory_bytes <= LIMIT_BYTES);

    /* Existing keys first: they must not be updated, either. */
    uint64_t keys[LIMITED_BATCH];
    float values[LIMITED_BATCH * LIMITED_LENGTH];
    void *rows[LIMITED_BATCH] = {NULL};
    fill_batch(keys, values, n);
    keys[0] = scattered(0);
    keys[1] = scattered(1);
    refused(tern_push(place->worker, table, keys, LIMITED_BATCH, values), TERN_NO_MEMORY, "limited",
            "memory_limit_bytes");
    element_fill(TERN_F32, values, COUNT(values), 5);
    refused(tern_set(place->worker, table, keys, LIMITED_BATCH, values), TERN_NO_MEMORY, "limited");
    refused(tern_pin(place->worker, table, keys, LIMITED_BATCH, rows), TERN_NO_MEMORY, "limited");
    for (size_t i = 0; i < LIMITED_BATCH; i++)
        assert_null(rows[i]);
    assert_first_ones(place, table, n);

    /* What exists can be used as before. */
    element_fill(TERN_F32, values, COUNT(values), -1);
    ok(tern_push(place->worker, table, keys, 2, values));
    ok(tern_pull(place->worker, table, keys, 2, values));
    assert_true(values[0] == 0 && values[2 * LIMITED_LENGTH - 1] == 0);
    ok(tern_table_close(table));
}

static void reading_at_the_memory_limit_fails_only_for_keys_it_must_create(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, LIMITED_LENGTH);
    options.memory_limit_bytes = LIMIT_BYTES;
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 1};
    struct tern_table *table = table_of(place->node, "limited", options);
    float value[LIMITED_LENGTH];
    uint64_t n = 0;
    uint64_t key = scattered(n);
    while (n < LIMIT_BYTES && tern_pull(place->worker, table, &key, 1, value) == TERN_OK)
        key = scattered(++n);
    refused(tern_pull(place->worker, table, &key, 1, value), TERN_NO_MEMORY, "limited");
    assert_int_equal(stats_of(table).rows, n);
    assert_true(stats_of(table).memory_bytes <= LIMIT_BYTES);
    key = scattered(0);
    ok(tern_pull(place->worker, table, &key, 1, value));
    ok(tern_table_close(table));
}

/* ---- Pinned rows ------------------------------------------------------------------------------ */

static void pinned_rows_keep_table_and_worker_open(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table *table =
            table_of(place->node, "held", shape((enum tern_index)index, TERN_F32, 10, 2));
        struct tern_worker *worker;
        ok(tern_worker_open(place->node, &worker));
        uint64_t keys[] = {3, 3, 4};
        void *rows[3];
        ok(tern_pin(worker, table, keys, 3, rows));
        assert_ptr_equal(rows[0], rows[1]);
        ((float *)rows[2])[1] = 6;
        for (size_t n_left = 3; n_left > 0; n_left--) {
            refused(tern_table_close(table), TERN_BUSY, "held");
            refused(tern_worker_close(worker), TERN_BUSY, "pinned");
            ok(tern_unpin(worker, table, &keys[n_left - 1], 1));
        }
        float value[2];
        ok(tern_pull(place->worker, table, &keys[2], 1, value));
        assert_true(value[0] == 0 && value[1] == 6);
        ok(tern_worker_close(worker));
        ok(tern_table_close(table));
    }
}

static void a_worker_ends_its_own_pins_alone(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "mine", shape(TERN_SPARSE, TERN_F32, 0, 2));
    struct tern_worker *other;
    ok(tern_worker_open(place->node, &other));
    uint64_t keys[] = {5, 6};
    void *rows[2];
    ok(tern_pin(place->worker, table, &keys[0], 1, rows));
    ok(tern_pin(other, table, &keys[1], 1, rows));
    refused(tern_unpin(place->worker, table, &keys[1], 1), TERN_INVALID, "mine", "6");
    ok(tern_pin(place->worker, table, keys, 2, rows));
    ok(tern_unpin(place->worker, table, keys, 2));
    refused(tern_unpin(place->worker, table, keys, 2), TERN_INVALID, "mine", "6");
    ok(tern_unpin(place->worker, table, &keys[0], 1));
    refused(tern_table_close(table), TERN_BUSY, "mine", "1 row");
    ok(tern_unpin(other, table, &keys[1], 1));
    ok(tern_worker_close(other));
    ok(tern_table_close(table));
}

static void unpinning_what_is_not_pinned_is_refused(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table_options options = shape((enum tern_index)index, TERN_F32, 60, 2);
        struct tern_table *table = table_of(place->node, "loose", options);
        uint64_t keys[] = {51, 52, 53};
        void *rows[2];
        refused(tern_unpin(place->worker, table, keys, 1), TERN_INVALID, "loose", "51");
        ok(tern_pin(place->worker, table, keys, 2, rows));
        refused(tern_unpin(place->worker, table, &keys[2], 1), TERN_INVALID, "loose", "53");
        /* One of several that is not: none is unpinned. */
        refused(tern_unpin(place->worker, table, &keys[1], 2), TERN_INVALID, "loose", "53");
        uint64_t twice[] = {51, 51};
        refused(tern_unpin(place->worker, table, twice, 2), TERN_INVALID, "loose", "51");
        refused(tern_table_close(table), TERN_BUSY, "loose");
        ok(tern_unpin(place->worker, table, keys, 2));
        refused(tern_unpin(place->worker, table, keys, 1), TERN_INVALID, "loose", "51");
        ok(tern_table_close(table));
    }
}

/* ---- Opening and closing for ever ------------------------------------------------------------ */

static void open_use_and_close_all(void)
{
    void *state;
    place_open(&state);
    struct place *place = state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table_options options = shape((enum tern_index)index, TERN_F32, 100, 8);
        options.updater = tern_updater_adagrad(0.1, 1e-6);
        struct tern_table *table = table_of(place->node, "brief", options);
        float values[4 * 8] = {1};
        uint64_t keys[] = {0, 50, 99, 3};
        void *row;
        ok(tern_push(place->worker, table, keys, 4, values));
        ok(tern_pin(place->worker, table, keys, 1, &row));
        ok(tern_unpin(place->worker, table, keys, 1));
        ok(tern_table_close(table));
    }
    place_close(&state);
}

static void opening_and_closing_for_ever_takes_no_more_memory(void **state)
{
    (void)state;
#ifdef UNDER_SANITIZER
    enum { N_BEFORE = 20, N_AFTER = 20 }; /* freed memory stays resident: only run it */
#else
    enum { N_BEFORE = 1000, N_AFTER = 2000 };
#endif
    for (int i = 0; i < N_BEFORE; i++)
        open_use_and_close_all();
    size_t before = resident_bytes();
    for (int i = 0; i < N_AFTER; i++)
        open_use_and_close_all();
    size_t after = resident_bytes();
#ifndef UNDER_SANITIZER
    /* Far less than one kilobyte for each of 2000 cycles. */
    assert_true(after <= before + (1 << 20));
#else
    (void)before;
    (void)after;
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(a_table_at_its_memory_limit_takes_no_part_of_a_call),
        placed(reading_at_the_memory_limit_fails_only_for_keys_it_must_create),
        placed(pinned_rows_keep_table_and_worker_open),
        placed(a_worker_ends_its_own_pins_alone),
        placed(unpinning_what_is_not_pinned_is_refused),
        cmocka_unit_test(opening_and_closing_for_ever_takes_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
