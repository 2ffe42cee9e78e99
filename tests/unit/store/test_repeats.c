/* Which keys of a call come again: each position belongs to one key, in its order. */
#include "support/check.h"

#undef fail /* cmocka's; status.h has another */
#include "store/repeats.h"

/* Draws keys of which few are hot, as `hot` says in hundredths. */
static void draw(struct dice *dice, uint64_t *keys, size_t n, uint64_t hot)
{
    for (size_t i = 0; i < n; i++)
        keys[i] = scattered(dice_below(dice, dice_below(dice, 100) < hot ? 5 : 100000));
}

static void check_positions(const struct repeats *repeats, const uint64_t *keys, size_t n)
{
    bool met[REPEATS_KEYS] = {false};
    size_t n_met = 0;
    for (size_t k = 0; k < repeats->n; k++) {
        size_t position = repeats_first(repeats, k), next;
        assert_true(k == 0 || position > repeats_first(repeats, k - 1));
        for (;; position = next) {
            assert_true(position < n && !met[position]);
            met[position] = true;
            n_met++;
            next = repeats_next(repeats, position);
            if (!next)
                break;
            assert_true(next > position);
            assert_true(keys[next] == keys[position]);
        }
    }
    assert_int_equal(n_met, n);
}

static void every_position_is_met_once_and_in_order(void **state)
{
    (void)state;
    static const size_t sizes[] = {25, 26, 100, 1000, REPEATS_KEYS};
    struct repeats *repeats = array_of(1, sizeof *repeats);
    uint64_t keys[REPEATS_KEYS];
    struct dice dice = {7};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (uint64_t hot = 50; hot <= 100; hot += 10) {
            draw(&dice, keys, sizes[i], hot);
            assert_true(repeats_find(repeats, keys, sizes[i]));
            check_positions(repeats, keys, sizes[i]);
            assert_true(repeats->n <= sizes[i] * (100 - hot) / 100 + sizes[i] / 4 + 5);
        }
    free(repeats);
}

static void few_keys_and_different_ones_are_not_looked_at(void **state)
{
    (void)state;
    struct repeats *repeats = array_of(1, sizeof *repeats);
    uint64_t keys[REPEATS_KEYS + 1] = {0};
    assert_false(repeats_find(repeats, keys, 0));
    assert_false(repeats_find(repeats, keys, 24));
    assert_true(repeats_find(repeats, keys, 25));
    assert_int_equal(repeats->n, 1);
    assert_true(repeats_find(repeats, keys, REPEATS_KEYS));
    assert_false(repeats_find(repeats, keys, REPEATS_KEYS + 1));
    for (size_t i = 0; i < COUNT(keys); i++)
        keys[i] = i;
    assert_false(repeats_find(repeats, keys, 1000));
    free(repeats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_is_met_once_and_in_order),
        cmocka_unit_test(few_keys_and_different_ones_are_not_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
