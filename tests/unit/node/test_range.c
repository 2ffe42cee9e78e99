/*
 * Ranges of keys: reading the entries that exist in ascending order, page by page, and pushing to
 * all of them or to none.
 */
#include "support/check.h"

enum { LENGTH = 3 };

/* Room for a page of exactly `capacity` entries, so that a sanitizer sees one too many. */
struct page {
    size_t capacity;
    size_t n;
    uint64_t *keys;
    float *values;
};

static struct page page_of(size_t capacity)
{
    return (struct page){.capacity = capacity,
                         .keys = array_of(capacity, sizeof(uint64_t)),
                         .values = array_of(capacity * LENGTH, sizeof(float))};
}

static void page_free(struct page *page)
{
    free(page->values);
    free(page->keys);
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The value tests give a key, so that a value in the wrong place is noticed. */
static float mark(uint64_t key, size_t j)
{
    return (float)(scattered(key) % 4096) + (float)j / 4;
}

static void set_marks(struct place *place, struct tern_table *table, const uint64_t *keys, size_t n)
{
    float *values = array_of(n * LENGTH, sizeof *values);
    for (size_t i = 0; i < n * LENGTH; i++)
        values[i] = mark(keys[i / LENGTH], i % LENGTH);
    ok(tern_set(place->worker, table, keys, n, values));
    free(values);
}

/* Reads [begin, end) page by page; it must hold exactly the keys of `sorted` that lie in it. Returns
 * their number. */
static size_t check_range(struct place *place, struct tern_table *table, const uint64_t *sorted,
                          size_t n_sorted, uint64_t begin, uint64_t end, size_t capacity)
{
    size_t next = 0;
    while (next < n_sorted && sorted[next] < begin)
        next++;
    size_t n_seen = 0;
    struct page page = page_of(capacity);
    for (uint64_t from = begin;;) {
        page.n = SIZE_MAX;
        ok(tern_pull_range(place->worker, table, from, end, capacity, page.keys, page.values,
                           &page.n));
        assert_true(page.n <= capacity);
        for (size_t i = 0; i < page.n; i++, next++) {
            assert_true(next < n_sorted);
            assert_int_equal(page.keys[i], sorted[next]);
            for (size_t j = 0; j < LENGTH; j++)
                assert_true(page.values[i * LENGTH + j] == mark(page.keys[i], j));
        }
        n_seen += page.n;
        if (page.n < capacity)
            break;
        from = page.keys[page.n - 1] + 1;
    }
    assert_true(next == n_sorted || sorted[next] >= end);
    page_free(&page);
    return n_seen;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void a_dense_range_is_every_key_in_it(void **state)
{
    enum { N = 1000 };
    struct place *place = *state;
    struct tern_table *table = table_of(place->node, "row", shape(TERN_DENSE, TERN_F32, N, LENGTH));
    uint64_t keys[N];
    for (uint64_t i = 0; i < N; i++)
        keys[i] = i;
    set_marks(place, table, keys, N);
    static const size_t capacities[] = {1, 7, 100, N - 1, N, N + 1};
    for (size_t c = 0; c < COUNT(capacities); c++) {
        assert_int_equal(check_range(place, table, keys, N, 0, N, capacities[c]), N);
        assert_int_equal(check_range(place, table, keys, N, 17, 59, capacities[c]), 42);
        assert_int_equal(check_range(place, table, keys, N, N - 1, N, capacities[c]), 1);
        assert_int_equal(check_range(place, table, keys, N, N, N, capacities[c]), 0);
    }
    ok(tern_table_close(table));
}

static void a_dense_range_shows_initial_values(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_F32, 100, LENGTH);
    options.init = (struct tern_init){.kind = TERN_INIT_UNIFORM, .seed = 4, .a = 0, .b = 1};
    struct tern_table *table = table_of(place->node, "new", options);
    struct page page = page_of(100);
    ok(tern_pull_range(place->worker, table, 0, 100, 100, page.keys, page.values, &page.n));
    assert_int_equal(page.n, 100);
    float values[100 * LENGTH];
    ok(tern_pull(place->worker, table, page.keys, 100, values));
    assert_memory_equal(values, page.values, sizeof values);
    page_free(&page);
    ok(tern_table_close(table));
}

static void a_sparse_range_is_its_existing_keys_in_order(void **state)
{
    enum { N = 2000 };
    struct place *place = *state;
    struct dice dice = {5};
    struct tern_table *table =
        table_of(place->node, "some", shape(TERN_SPARSE, TERN_F32, 0, LENGTH));
    uint64_t keys[N];
    for (size_t n = 0, step; n < N; n += step) {
        /* Some come in order, some scattered; ranges are read while the table grows. */
        step = N / 5;
        for (size_t i = n; i < n + step; i++)
            keys[i] = i % 3 == 0 ? 1000000 + i : dice_roll(&dice) >> dice_below(&dice, 40);
        set_marks(place, table, keys + n, step);
        qsort(keys, n + step, sizeof keys[0], compare_keys);
        for (int i = 0; i < 60; i++) {
            uint64_t begin = dice_roll(&dice) >> dice_below(&dice, 64);
            uint64_t end = dice_roll(&dice) >> dice_below(&dice, 64);
            if (begin > end) {
                uint64_t swapped = begin;
                begin = end;
                end = swapped;
            }
            size_t capacity = 1 + dice_below(&dice, 300);
            check_range(place, table, keys, n + step, begin, end, capacity);
        }
        assert_int_equal(check_range(place, table, keys, n + step, 0, UINT64_MAX, n + step),
                         n + step);
    }
    ok(tern_table_close(table));
}

static void a_range_is_half_open(void **state)
{
    struct place *place = *state;
    struct tern_table *table =
        table_of(place->node, "ends", shape(TERN_SPARSE, TERN_F32, 0, LENGTH));
    const uint64_t keys[] = {0, 1, 50, 51, 52, UINT64_MAX - 1, UINT64_MAX};
    set_marks(place, table, keys, COUNT(keys));
    static const struct {
        uint64_t begin, end;
        size_t n;
    } ranges[] = {
        {0, 0, 0},
        {0, 1, 1},
        {1, 2, 1},
        {2, 50, 0},
        {50, 51, 1},
        {50, 52, 2},
        {51, 51, 0},
        {53, UINT64_MAX - 1, 0},
        {0, UINT64_MAX - 1, 5},
        {UINT64_MAX - 1, UINT64_MAX, 1},
        {0, UINT64_MAX, 6}, /* not UINT64_MAX itself: no range can contain it */
        {UINT64_MAX, UINT64_MAX, 0},
    };
    for (size_t i = 0; i < COUNT(ranges); i++) {
        for (size_t capacity = 1; capacity <= COUNT(keys) + 1; capacity++)
            assert_int_equal(check_range(place, table, keys, COUNT(keys), ranges[i].begin,
                                         ranges[i].end, capacity),
                             ranges[i].n);
    }
    ok(tern_table_close(table));
}

static void wide_and_narrow_ranges_find_the_same_keys(void **state)
{
    enum { N_NEAR = 5000, N_FAR = 20, N = N_NEAR + N_FAR };
    struct place *place = *state;
    struct tern_table *table =
        table_of(place->node, "both", shape(TERN_SPARSE, TERN_F32, 0, LENGTH));
    uint64_t *keys = array_of(N, sizeof *keys);
    for (uint64_t i = 0; i < N_NEAR; i++)
        keys[i] = 1000000 + i;
    for (uint64_t i = 0; i < N_FAR; i++)
        keys[N_NEAR + i] = UINT64_C(3) << (40 + i);
    set_marks(place, table, keys, N);
    /* Narrow, in the crowd; wide, with few keys; all. */
    assert_int_equal(check_range(place, table, keys, N, 1000100, 1000110, 100), 10);
    assert_int_equal(check_range(place, table, keys, N, 999990, 1000010, 3), 10);
    assert_int_equal(check_range(place, table, keys, N, 2000000, UINT64_MAX, 100), N_FAR);
    assert_int_equal(check_range(place, table, keys, N, 2000000, UINT64_MAX, 3), N_FAR);
    assert_int_equal(check_range(place, table, keys, N, 0, 1000000, 3), 0);
    assert_int_equal(check_range(place, table, keys, N, 0, UINT64_MAX, 64), N);
    free(keys);
    ok(tern_table_close(table));
}

static void keys_alone_may_be_asked_for(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table *table =
            table_of(place->node, "keys", shape((enum tern_index)index, TERN_F32, 20, LENGTH));
        uint64_t keys[20];
        for (uint64_t i = 0; i < 20; i++)
            keys[i] = 19 - i;
        set_marks(place, table, keys, 20);
        size_t n = 0;
        memset(keys, 0xff, sizeof keys);
        ok(tern_pull_range(place->worker, table, 5, 20, 10, keys, NULL, &n));
        assert_int_equal(n, 10);
        for (uint64_t i = 0; i < 10; i++)
            assert_int_equal(keys[i], 5 + i);
        assert_int_equal(keys[10], UINT64_MAX);
        ok(tern_table_close(table));
    }
}

static void reading_a_range_creates_no_entries(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, LENGTH);
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 1};
    struct tern_table *table = table_of(place->node, "read", options);
    struct page page = page_of(10);
    ok(tern_pull_range(place->worker, table, 0, 1000, 10, page.keys, page.values, &page.n));
    assert_int_equal(page.n, 0);
    assert_int_equal(stats_of(table).rows, 0);
    /* But reading the keys does, as their initial value is not zero. */
    uint64_t keys[] = {30, 10};
    float values[2 * LENGTH];
    ok(tern_pull(place->worker, table, keys, 2, values));
    ok(tern_pull_range(place->worker, table, 0, 1000, 10, page.keys, page.values, &page.n));
    assert_int_equal(page.n, 2);
    assert_int_equal(page.keys[0], 10);
    assert_int_equal(page.keys[1], 30);
    assert_true(page.values[0] == 1);
    page_free(&page);
    ok(tern_table_close(table));
}

static void a_read_of_no_capacity_gives_nothing(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table *table =
            table_of(place->node, "zero", shape((enum tern_index)index, TERN_F32, 5, LENGTH));
        uint64_t key = 3;
        set_marks(place, table, &key, 1);
        struct page page = page_of(0);
        page.n = 9;
        ok(tern_pull_range(place->worker, table, 0, 5, 0, page.keys, page.values, &page.n));
        assert_int_equal(page.n, 0);
        page_free(&page);
        ok(tern_table_close(table));
    }
}

/* ---- Pushing --------------------------------------------------------------------------------- */

static void a_push_reaches_each_entry_of_the_range_and_no_other(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table *table =
            table_of(place->node, "push", shape((enum tern_index)index, TERN_F32, 100, LENGTH));
        uint64_t keys[100];
        for (uint64_t i = 0; i < 100; i++)
            keys[i] = (i * 37) % 100;
        set_marks(place, table, keys, 100);
        float updates[40 * LENGTH];
        for (size_t i = 0; i < COUNT(updates); i++)
            updates[i] = 10 * (float)(i / LENGTH + 1);
        ok(tern_push_range(place->worker, table, 30, 70, 40, updates));
        ok(tern_push_range(place->worker, table, 50, 50, 0, updates));
        float values[100 * LENGTH];
        ok(tern_pull(place->worker, table, keys, 100, values));
        for (size_t i = 0; i < 100; i++) {
            bool within = keys[i] >= 30 && keys[i] < 70;
            float added = within ? 10 * (float)(keys[i] - 30 + 1) : 0;
            for (size_t j = 0; j < LENGTH; j++)
                assert_true(values[i * LENGTH + j] == mark(keys[i], j) + added);
        }
        ok(tern_table_close(table));
    }
}

static void what_was_pulled_from_a_range_can_be_pushed_to_it(void **state)
{
    enum { N = 700 };
    struct place *place = *state;
    struct tern_table *table =
        table_of(place->node, "back", shape(TERN_SPARSE, TERN_F32, 0, LENGTH));
    uint64_t keys[N];
    for (uint64_t i = 0; i < N; i++)
        keys[i] = scattered(i);
    set_marks(place, table, keys, N);
    struct page page = page_of(N);
    uint64_t middle = UINT64_C(1) << 63;
    size_t total = 0;
    for (int half = 0; half <= 1; half++) {
        uint64_t begin = half ? middle : 0;
        uint64_t end = half ? UINT64_MAX : middle;
        ok(tern_pull_range(place->worker, table, begin, end, N, page.keys, page.values, &page.n));
        ok(tern_push_range(place->worker, table, begin, end, page.n, page.values));
        total += page.n;
    }
    assert_int_equal(total, N);
    float values[N * LENGTH];
    ok(tern_pull(place->worker, table, keys, N, values));
    for (size_t i = 0; i < COUNT(values); i++)
        assert_true(values[i] == 2 * mark(keys[i / LENGTH], i % LENGTH));
    page_free(&page);
    ok(tern_table_close(table));
}

static void a_push_of_another_count_changes_nothing(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table *table =
            table_of(place->node, "differs", shape((enum tern_index)index, TERN_F32, 50, LENGTH));
        uint64_t keys[50];
        for (uint64_t i = 0; i < 50; i++)
            keys[i] = i;
        set_marks(place, table, keys, 50);
        float updates[60 * LENGTH];
        element_fill(TERN_F32, updates, COUNT(updates), 1);
        static const size_t wrong[] = {0, 1, 19, 21, 50, 60};
        for (size_t i = 0; i < COUNT(wrong); i++)
            refused(tern_push_range(place->worker, table, 10, 30, wrong[i], updates), TERN_CONFLICT,
                    "differs", "20");
        refused(tern_push_range(place->worker, table, 10, 10, 1, updates), TERN_CONFLICT,
                "differs");
        check_range(place, table, keys, 50, 0, 50, 50);
        assert_int_equal(stats_of(table).pushed_keys, 0);
        ok(tern_table_close(table));
    }
}

static void a_key_that_appeared_is_a_conflict(void **state)
{
    struct place *place = *state;
    struct tern_table *table =
        table_of(place->node, "appeared", shape(TERN_SPARSE, TERN_F32, 0, LENGTH));
    uint64_t keys[] = {100, 200, 300};
    set_marks(place, table, keys, 2);
    struct page page = page_of(10);
    ok(tern_pull_range(place->worker, table, 0, 1000, 10, page.keys, page.values, &page.n));
    assert_int_equal(page.n, 2);
    set_marks(place, table, keys + 2, 1);
    refused(tern_push_range(place->worker, table, 0, 1000, 2, page.values), TERN_CONFLICT,
            "appeared");
    check_range(place, table, keys, 3, 0, 1000, 10);
    page_free(&page);
    ok(tern_table_close(table));
}

static void a_push_to_a_range_goes_through_the_updater(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table_options options = shape((enum tern_index)index, TERN_F32, 10, LENGTH);
        options.updater = tern_updater_sgd(0.5);
        struct tern_table *table = table_of(place->node, "sgd", options);
        uint64_t keys[10];
        float values[10 * LENGTH];
        for (uint64_t i = 0; i < 10; i++)
            keys[i] = i;
        element_fill(TERN_F32, values, COUNT(values), 1);
        ok(tern_set(place->worker, table, keys, 10, values));
        element_fill(TERN_F32, values, COUNT(values), 8);
        ok(tern_push_range(place->worker, table, 2, 5, 3, values));
        ok(tern_pull(place->worker, table, keys, 10, values));
        for (size_t i = 0; i < COUNT(values); i++)
            assert_true(values[i] == (i / LENGTH >= 2 && i / LENGTH < 5 ? -3 : 1));
        ok(tern_table_close(table));
    }
}

/* ---- Ranges that make no sense --------------------------------------------------------------- */

static void a_range_that_ends_before_it_begins_is_refused(void **state)
{
    struct place *place = *state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct tern_table *table =
            table_of(place->node, "turned", shape((enum tern_index)index, TERN_F32, 10, LENGTH));
        struct page page = page_of(10);
        page.n = 77;
        refused(tern_pull_range(place->worker, table, 7, 6, 10, page.keys, page.values, &page.n),
                TERN_INVALID, "7", "6");
        refused(tern_push_range(place->worker, table, 7, 6, 0, page.values), TERN_INVALID, "7",
                "6");
        assert_int_equal(page.n, 77);
        page_free(&page);
        ok(tern_table_close(table));
    }
}

static void a_dense_range_beyond_the_keys_is_refused(void **state)
{
    struct place *place = *state;
    struct tern_table *table =
        table_of(place->node, "beyond", shape(TERN_DENSE, TERN_F32, 10, LENGTH));
    struct page page = page_of(10);
    page.n = 77;
    static const struct {
        uint64_t end;
        const char *word;
    } ends[] = {{11, "11"}, {UINT64_MAX, "18446744073709551615"}};
    for (size_t i = 0; i < COUNT(ends); i++) {
        refused(tern_pull_range(place->worker, table, 0, ends[i].end, 10, page.keys, page.values,
                                &page.n),
                TERN_RANGE, "beyond", ends[i].word);
        refused(tern_push_range(place->worker, table, 5, ends[i].end, 5, page.values), TERN_RANGE,
                "beyond", ends[i].word);
    }
    assert_int_equal(page.n, 77);
    page_free(&page);
    ok(tern_table_close(table));
}

static void a_sparse_table_with_bounded_reads_has_the_keys_that_were_used(void **state)
{
    struct place *place = *state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_F32, 0, LENGTH);
    options.policy = "ssp:1";
    struct tern_table *table = table_of(place->node, "bounded", options);
    const uint64_t keys[] = {3, 5, 8, 1000};
    float values[COUNT(keys) * LENGTH] = {0};
    ok(tern_push(place->worker, table, keys, COUNT(keys), values));
    struct page page = page_of(10);
    ok(tern_pull_range(place->worker, table, 4, 1001, 10, page.keys, page.values, &page.n));
    assert_int_equal(page.n, 3);
    assert_memory_equal(page.keys, keys + 1, 3 * sizeof keys[0]);
    page_free(&page);
    ok(tern_table_close(table));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(a_dense_range_is_every_key_in_it),
        placed(a_dense_range_shows_initial_values),
        placed(a_sparse_range_is_its_existing_keys_in_order),
        placed(a_range_is_half_open),
        placed(wide_and_narrow_ranges_find_the_same_keys),
        placed(keys_alone_may_be_asked_for),
        placed(reading_a_range_creates_no_entries),
        placed(a_read_of_no_capacity_gives_nothing),
        placed(a_push_reaches_each_entry_of_the_range_and_no_other),
        placed(what_was_pulled_from_a_range_can_be_pushed_to_it),
        placed(a_push_of_another_count_changes_nothing),
        placed(a_key_that_appeared_is_a_conflict),
        placed(a_push_to_a_range_goes_through_the_updater),
        placed(a_range_that_ends_before_it_begins_is_refused),
        placed(a_dense_range_beyond_the_keys_is_refused),
        placed(a_sparse_table_with_bounded_reads_has_the_keys_that_were_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
