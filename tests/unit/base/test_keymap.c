/*
 * A keymap holds exactly the numbers that were set and not removed, however keys collide, come and go;
 * and a failed reserve leaves it as it was.
 */
#include "base/keymap.h"

#include "support/check.h"
#include "support/alloc.h"

/* Keys whose cells in a map of 64 cells begin at `cell`, so that they form one run. */
static void colliding_keys(uint64_t cell, uint64_t *keys, size_t n)
{
    size_t found = 0;
    for (uint64_t key = 0; found < n; key++)
        if ((hash_u64(key) & 63) == cell)
            keys[found++] = key;
}

static void an_empty_map_has_no_numbers(void **state)
{
    (void)state;
    struct keymap map = {0};
    assert_int_equal(keymap_get(&map, 0), 0);
    assert_int_equal(keymap_get(&map, UINT64_MAX), 0);
    keymap_prefetch(&map, 1);
    keymap_set(&map, 7, 0);
    assert_int_equal(map.n, 0);
    keymap_free(&map);
}

static void any_key_may_have_a_number(void **state)
{
    (void)state;
    const uint64_t keys[] = {0, 1, UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63};
    struct keymap map = {0};
    assert_true(keymap_reserve(&map, COUNT(keys)));
    for (uint32_t i = 0; i < COUNT(keys); i++)
        keymap_set(&map, keys[i], UINT32_MAX - i);
    for (uint32_t i = 0; i < COUNT(keys); i++)
        assert_int_equal(keymap_get(&map, keys[i]), UINT32_MAX - i);
    assert_int_equal(map.n, COUNT(keys));
    keymap_free(&map);
}

/* Runs of colliding keys, also one that goes on at the first cell: whichever key is removed, the others
 * are found, and those that come back, too. */
static void removal_leaves_no_gap_in_a_run(void **state)
{
    (void)state;
    enum { N = 12 };
    for (uint64_t cell = 56; cell < 64; cell++) {
        uint64_t keys[2 * N];
        colliding_keys(cell, keys, N);
        colliding_keys((cell + 3) & 63, keys + N, N);
        for (size_t removed = 0; removed < 2 * N; removed++) {
            struct keymap map = {0};
            assert_true(keymap_reserve(&map, 2 * N));
            assert_int_equal(map.mask, 63);
            for (uint32_t i = 0; i < 2 * N; i++)
                keymap_set(&map, keys[i], i + 1);
            keymap_set(&map, keys[removed], 0);
            keymap_set(&map, keys[removed], 0);
            assert_int_equal(map.n, 2 * N - 1);
            for (uint32_t i = 0; i < 2 * N; i++)
                assert_int_equal(keymap_get(&map, keys[i]), i == removed ? 0 : i + 1);
            keymap_set(&map, keys[removed], 99);
            assert_int_equal(keymap_get(&map, keys[removed]), 99);
            assert_int_equal(map.n, 2 * N);
            keymap_free(&map);
        }
    }
}

/* Keys come and go at random beside an array that is right by construction. */
static void it_agrees_with_an_array(void **state)
{
    (void)state;
    enum { N = 3000, STEPS = 300000 };
    static uint32_t expected[N];
    struct dice dice = {5};
    struct keymap map = {0};
    size_t n = 0, most_cells = 0;
    for (size_t step = 0; step < STEPS; step++) {
        /* Many keys at first, then few, so that the map is emptied again. */
        size_t i = dice_below(&dice, step < STEPS / 2 ? N : N / 50);
        uint32_t value = dice_below(&dice, 3) ? (uint32_t)dice_roll(&dice) | 1 : 0;
        assert_true(keymap_reserve(&map, 1));
        n += (value != 0) - (size_t)(expected[i] != 0);
        expected[i] = value;
        keymap_set(&map, scattered(i), value);
        assert_int_equal(map.n, n);
        most_cells = map.mask + 1 > most_cells ? map.mask + 1 : most_cells;
        if (step % 1000 == 0)
            for (size_t k = 0; k < N; k++)
                assert_int_equal(keymap_get(&map, scattered(k)), expected[k]);
    }
    for (size_t k = 0; k < N; k++) {
        assert_int_equal(keymap_get(&map, scattered(k)), expected[k]);
        keymap_set(&map, scattered(k), 0);
    }
    assert_int_equal(map.n, 0);
    for (size_t i = 0; i <= map.mask; i++)
        assert_int_equal(map.cells[i].value, 0);
    assert_true(most_cells <= 4096);
    keymap_free(&map);
}

static void a_failed_reserve_changes_nothing(void **state)
{
    (void)state;
    struct keymap map = {0};
    alloc_fail_from(1);
    assert_false(keymap_reserve(&map, 1));
    alloc_fail_from(0);
    assert_null(map.cells);
    assert_true(keymap_reserve(&map, 10));
    for (uint32_t i = 0; i < 10; i++)
        keymap_set(&map, i, i + 1);
    alloc_fail_from(1);
    assert_true(keymap_reserve(&map, 38));
    assert_false(keymap_reserve(&map, 1000));
    alloc_fail_from(0);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(keymap_get(&map, i), i + 1);
    assert_int_equal(map.n, 10);
    keymap_free(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_has_no_numbers),
        cmocka_unit_test(any_key_may_have_a_number),
        cmocka_unit_test(removal_leaves_no_gap_in_a_run),
        cmocka_unit_test(it_agrees_with_an_array),
        cmocka_unit_test(a_failed_reserve_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
