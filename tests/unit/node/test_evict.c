/*
 * Rows that leave: by a sweep, by age, and at the limit of memory. A removed key is a new key, its memory is used again, and a
 * reader beside all this never sees the row of another key.
 */
#include <math.h>
#include <pthread.h>

#include "support/check.h"

enum { LENGTH = 4, N_KEYS = 2000 };

#ifdef UNDER_SANITIZER
enum { N_PUSHED = 100000, N_CHURNED = 12800, N_TRACED = 60000 };
#else
enum { N_PUSHED = 1000000, N_CHURNED = 200000, N_TRACED = 300000 };
#endif

/* What is pushed to a key: every value of its row is a multiple of it. */
static int64_t mark_of(uint64_t key)
{
    return (int64_t)(1000003 + key % 100000000);
}

static void push_keys(struct tern_worker *worker, struct tern_table *table, const uint64_t *keys,
                      size_t n)
{
    int64_t values[256 * LENGTH];
    assert_true(n <= 256);
    for (size_t i = 0; i < n * LENGTH; i++)
        values[i] = mark_of(keys[i / LENGTH]);
    ok(tern_push(worker, table, keys, n, values));
}

static void push_range(struct tern_worker *worker, struct tern_table *table, uint64_t begin,
                       uint64_t end)
{
    for (uint64_t key = begin; key < end; key++)
        push_keys(worker, table, &key, 1);
}

static bool is_there(struct tern_worker *worker, struct tern_table *table, uint64_t key)
{
    int64_t row[LENGTH];
    bool present;
    ok(tern_pull_present(worker, table, &key, 1, row, &present));
    return present;
}

static bool is_odd(void *context, uint64_t key, const void *value)
{
    int64_t first;
    memcpy(&first, value, sizeof first);
    assert_int_equal(first % mark_of(key), 0);
    ++*(uint64_t *)context;
    return key % 2;
}

static void a_sweep_removes_what_the_function_says(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, LENGTH);
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 0};
    struct tern_table *table = table_of(place->node, "t", options);
    uint64_t n_asked = 0, n = 77;
    push_range(place->worker, table, 0, N_KEYS);
    ok(tern_sweep(place->worker, table, is_odd, &n_asked, &n));
    assert_int_equal(n, N_KEYS / 2);
    assert_int_equal(n_asked, N_KEYS);
    for (uint64_t key = 0; key < N_KEYS; key++)
        assert_int_equal(is_there(place->worker, table, key), key % 2 == 0);
    assert_int_equal(stats_of(table).rows, N_KEYS / 2);
    assert_int_equal(stats_of(table).removed_rows, N_KEYS / 2);
    /* A removed key is a new key, and takes no new memory. */
    const uint64_t before = stats_of(table).memory_bytes;
    push_range(place->worker, table, 0, N_KEYS);
    assert_int_equal(stats_of(table).memory_bytes, before);
    for (uint64_t key = 0; key < N_KEYS; key++) {
        int64_t row[LENGTH];
        ok(tern_pull(place->worker, table, &key, 1, row));
        assert_int_equal(row[0], (key % 2 ? 1 : 2) * mark_of(key));
        assert_int_equal(row[LENGTH - 1], row[0]);
    }
    ok(tern_table_close(table));
}

static bool is_seven(void *context, uint64_t key, const void *value)
{
    float number;
    (void)context, (void)key;
    memcpy(&number, value, sizeof number);
    return number == 7;
}

static void a_sweep_also_removes_values_that_are_in_the_index(void **state)
{
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "t", shape(TERN_SPARSE, TERN_F32, 0, 1));
    uint64_t n;
    for (uint64_t key = 0; key < 100; key++) {
        const float value = key % 10 == 3 ? 7 : 1;
        ok(tern_set(place->worker, table, &key, 1, &value));
    }
    uint64_t pinned = 13;
    void *row;
    ok(tern_pin(place->worker, table, &pinned, 1, &row));
    ok(tern_sweep(place->worker, table, is_seven, NULL, &n));
    assert_int_equal(n, 9);
    ok(tern_unpin(place->worker, table, &pinned, 1));
    ok(tern_sweep(place->worker, table, is_seven, NULL, &n));
    assert_int_equal(n, 1);
    assert_int_equal(stats_of(table).rows, 90);
    const float one = 1;
    float value;
    ok(tern_push(place->worker, table, &pinned, 1, &one));
    ok(tern_pull(place->worker, table, &pinned, 1, &value));
    assert_true(value == 1);
    ok(tern_table_close(table));
}

static void advance(struct tern_worker *worker, int n)
{
    for (int i = 0; i < n; i++)
        ok(tern_worker_advance(worker, NULL));
}

static void rows_that_are_not_pushed_leave_with_age(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, LENGTH);
    options.evict_age = 3;
    options.evict_floor = 10;
    struct tern_table *table = table_of(place->node, "t", options);
    push_range(place->worker, table, 0, 100);
    uint64_t pinned = 5, pushed = 7, read = 9;
    void *row;
    int64_t value[LENGTH];
    ok(tern_pin(place->worker, table, &pinned, 1, &row));
    for (int i = 0; i < 8; i++) {
        advance(place->worker, 1);
        push_keys(place->worker, table, &pushed, 1);
        push_range(place->worker, table, 200, 220);
        ok(tern_pull(place->worker, table, &read, 1, value));
        assert_int_equal(stats_of(table).rows, i < 3 ? 120 : 22);
    }
    assert_true(is_there(place->worker, table, pinned) && is_there(place->worker, table, pushed));
    assert_true(!is_there(place->worker, table, read));
    ok(tern_unpin(place->worker, table, &pinned, 1));
    advance(place->worker, 20);
    assert_int_equal(stats_of(table).rows, 10); /* the floor */
    ok(tern_table_close(table));
}

static void a_table_at_its_limit_takes_any_number_of_new_keys(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, LENGTH);
    options.memory_limit_bytes = 4 << 20;
    options.evict_at_limit = true;
    struct tern_table *table = table_of(place->node, "t", options);
    uint64_t keys[256], most = 0;
    for (uint64_t i = 0; i < N_PUSHED; i += 256) {
        for (uint64_t k = 0; k < 256; k++)
            keys[k] = scattered(i + k);
        push_keys(place->worker, table, keys, 256);
        const struct tern_table_stats stats = stats_of(table);
        assert_true(stats.memory_bytes <= options.memory_limit_bytes);
        assert_true(is_there(place->worker, table, keys[255]));
        most = stats.rows > most ? stats.rows : most;
    }
    const struct tern_table_stats stats = stats_of(table);
    /* 32 bytes of a row, 8 that say when it was written, and at least 21 of the index. */
    assert_true(most > (4 << 20) / 100);
    assert_true(stats.rows > most / 10 * 8);
    print_message("%d keys pushed; %lu rows at the end, %lu at most, in %lu bytes\n", N_PUSHED,
                  (unsigned long)stats.rows, (unsigned long)most,
                  (unsigned long)stats.memory_bytes);
    ok(tern_table_close(table));
}

static void what_must_stay_stays_at_the_limit(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, LENGTH);
    options.memory_limit_bytes = 1 << 20;
    options.evict_at_limit = true;
    options.evict_floor = 1 << 20;
    struct tern_table *table = table_of(place->node, "t", options);
    uint64_t key = 0;
    int64_t value[LENGTH] = {0};
    enum tern_status status = TERN_OK;
    for (; !status; key++)
        status = tern_push(place->worker, table, &key, 1, value);
    assert_int_equal(status, TERN_NO_MEMORY);
    assert_non_null(strstr(tern_error(), "no memory for another"));
    assert_int_equal(stats_of(table).rows, key - 1);
    assert_int_equal(stats_of(table).removed_rows, 0);
    ok(tern_table_close(table));
}

/* An exact least-recently-used table: a list by key number, from the oldest to the newest. */
struct exact {
    uint32_t next[N_TRACED], last[N_TRACED], oldest, newest;
    bool has[N_TRACED];
    uint64_t n, most, n_found;
};

static void exact_unlink(struct exact *exact, uint32_t key)
{
    const uint32_t next = exact->next[key], last = exact->last[key];
    *(last == UINT32_MAX ? &exact->oldest : &exact->next[last]) = next;
    *(next == UINT32_MAX ? &exact->newest : &exact->last[next]) = last;
}

static void exact_push(struct exact *exact, uint32_t key)
{
    exact->n_found += exact->has[key];
    if (exact->has[key])
        exact_unlink(exact, key);
    else if (exact->n == exact->most) {
        exact->has[exact->oldest] = false;
        exact_unlink(exact, exact->oldest);
    } else
        exact->n++;
    exact->has[key] = true;
    exact->last[key] = exact->newest;
    exact->next[key] = UINT32_MAX;
    *(exact->newest == UINT32_MAX ? &exact->oldest : &exact->next[exact->newest]) = key;
    exact->newest = key;
}

/* Keys by Zipf's law, of which the popular ones change with time. */
static uint32_t traced_key(struct dice *dice, uint64_t i)
{
    const uint64_t rank = (uint64_t)exp(dice_unit(dice) * log(N_TRACED));
    return (uint32_t)((rank * 2654435761u + i / 50000 * 7) % N_TRACED);
}

static void what_leaves_at_the_limit_is_nearly_the_oldest(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, LENGTH);
    options.memory_limit_bytes = 1 << 20;
    options.evict_at_limit = true;
    struct tern_table *table = table_of(place->node, "t", options);
    struct exact *exact = calloc(1, sizeof *exact);
    exact->oldest = exact->newest = UINT32_MAX;
    struct dice dice = {3};
    uint64_t n_found = 0;
    /* What has room. */
    for (uint64_t key = 0; !stats_of(table).removed_rows; key++)
        push_keys(place->worker, table, &(uint64_t){key + N_TRACED}, 1);
    exact->most = stats_of(table).rows;
    for (uint64_t i = 0; i < N_TRACED; i++) {
        const uint64_t key = traced_key(&dice, i);
        n_found += is_there(place->worker, table, key);
        push_keys(place->worker, table, &key, 1);
        exact_push(exact, (uint32_t)key);
    }
    print_message("%.4f of pushes find their row, %.4f with exact order, %lu rows\n",
                  (double)n_found / N_TRACED, (double)exact->n_found / N_TRACED,
                  (unsigned long)exact->most);
    assert_true((double)n_found >= 0.98 * (double)exact->n_found);
    free(exact);
    ok(tern_table_close(table));
}

/* ---- Threads ------------------------------------------------------------------------------------ */

struct churn {
    struct tern_node *node;
    struct tern_table *table;
    uint64_t seed;
    atomic_bool *is_over;
};

static bool is_third(void *context, uint64_t key, const void *value)
{
    int64_t row[LENGTH];
    (void)context;
    memcpy(row, value, sizeof row);
    for (int i = 0; i < LENGTH; i++)
        holds(row[i] == row[0] && row[i] % mark_of(key) == 0);
    return key % 3 == 0;
}

static uint64_t churned_key(struct dice *dice)
{
    return scattered(dice_below(dice, 8) ? dice_below(dice, 3000) : dice_below(dice, 1 << 20));
}

static void *churn(void *context)
{
    const struct churn *churn = context;
    struct tern_worker *worker;
    struct dice dice = {churn->seed};
    uint64_t keys[64];
    int64_t values[64 * LENGTH];
    holds(tern_worker_open(churn->node, &worker) == TERN_OK);
    for (int i = 0; i < N_CHURNED / 64; i++) {
        for (int k = 0; k < 64; k++)
            keys[k] = churned_key(&dice);
        for (int k = 0; k < 64 * LENGTH; k++)
            values[k] = mark_of(keys[k / LENGTH]);
        const size_t n = i % 3 ? 64 : 1;
        holds(tern_push(worker, churn->table, keys, n, values) == TERN_OK);
        for (int k = 0; k < 64; k++)
            keys[k] = churned_key(&dice);
        holds(tern_pull(worker, churn->table, keys, n, values) == TERN_OK);
        for (size_t k = 0; k < n * LENGTH; k++)
            holds(values[k] == values[k / LENGTH * LENGTH] &&
                  values[k] % mark_of(keys[k / LENGTH]) == 0);
        uint64_t n_removed;
        if (i % 200 == 0)
            holds(tern_sweep(worker, churn->table, is_third, NULL, &n_removed) == TERN_OK);
        if (i % 50 == 0)
            holds(tern_worker_advance(worker, NULL) == TERN_OK);
    }
    holds(tern_worker_close(worker) == TERN_OK);
    return NULL;
}

static void nobody_sees_the_row_of_another_key(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, LENGTH);
    options.memory_limit_bytes = 1 << 20;
    options.evict_at_limit = true;
    options.evict_age = 40;
    struct tern_table *table = table_of(place->node, "t", options);
    pthread_t threads[4];
    struct churn churns[4];
    for (uint64_t i = 0; i < 4; i++) {
        churns[i] = (struct churn){.node = place->node, .table = table, .seed = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &churns[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    all_held();
    const struct tern_table_stats stats = stats_of(table);
    assert_true(stats.memory_bytes <= options.memory_limit_bytes);
    assert_true(stats.removed_rows > 0);
    uint64_t n_asked = 0, n;
    ok(tern_sweep(place->worker, table, is_odd, &n_asked, &n));
    assert_int_equal(n_asked, stats.rows);
    ok(tern_table_close(table));
}

/* ---- Bad input ---------------------------------------------------------------------------------- */

static void rules_that_make_no_sense_are_refused(void **state)
{
    struct place *place = *state;
    struct tern_table *table;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, LENGTH);
    options.evict_at_limit = true;
    refused(tern_table_open(place->node, "t", &options, &table), TERN_INVALID, "'t'",
            "memory_limit_bytes");
    options.memory_limit_bytes = 1000;
    refused(tern_table_open(place->node, "t", &options, &table), TERN_INVALID, "1000", "slab");
    options = shape(TERN_DENSE, TERN_I64, 10, LENGTH);
    options.evict_age = 3;
    refused(tern_table_open(place->node, "t", &options, &table), TERN_INVALID, "sparse");
    options = shape(TERN_SPARSE, TERN_I64, 0, LENGTH);
    options.evict_age = UINT32_MAX;
    refused(tern_table_open(place->node, "t", &options, &table), TERN_LIMIT, "evict_age");
    options.evict_age = 3;
    ok(tern_table_open(place->node, "t", &options, &table));
    options.evict_age = 4;
    struct tern_table *same;
    refused(tern_table_open(place->node, "t", &options, &same), TERN_MISMATCH, "evict_age 3");
    uint64_t n;
    refused(tern_sweep(place->worker, table, NULL, NULL, &n), TERN_INVALID, "function");
    refused(tern_sweep(place->worker, table, is_odd, NULL, NULL), TERN_INVALID, "`n`");
    refused(tern_sweep(place->worker, NULL, is_odd, NULL, &n), TERN_INVALID, "table");
    int64_t values[LENGTH] = {0};
    refused(tern_push_range(place->worker, table, 0, 10, 1, values), TERN_INVALID, "removed");
    ok(tern_table_close(table));
    options = shape(TERN_DENSE, TERN_I64, 10, LENGTH);
    ok(tern_table_open(place->node, "t", &options, &table));
    refused(tern_sweep(place->worker, table, is_odd, NULL, &n), TERN_INVALID, "not sparse");
    ok(tern_table_close(table));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sweep_removes_what_the_function_says, place_open,
                                        place_close),
        cmocka_unit_test_setup_teardown(a_sweep_also_removes_values_that_are_in_the_index,
                                        place_open, place_close),
        cmocka_unit_test_setup_teardown(rows_that_are_not_pushed_leave_with_age, place_open,
                                        place_close),
        cmocka_unit_test_setup_teardown(a_table_at_its_limit_takes_any_number_of_new_keys,
                                        place_open, place_close),
        cmocka_unit_test_setup_teardown(what_must_stay_stays_at_the_limit, place_open, place_close),
        cmocka_unit_test_setup_teardown(what_leaves_at_the_limit_is_nearly_the_oldest, place_open,
                                        place_close),
        cmocka_unit_test_setup_teardown(nobody_sees_the_row_of_another_key, place_open,
                                        place_close),
        cmocka_unit_test_setup_teardown(rules_that_make_no_sense_are_refused, place_open,
                                        place_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
