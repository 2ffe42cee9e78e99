/* Keys that are used far more often than others are found, by counts and from a sample, and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/hot.h"

enum { KEYS = 10000, ACCESSES = 100000 };

/* Keys 0, 10, .. 90 take half of the accesses; the others share the rest. */
static uint64_t draw(uint64_t *random)
{
    uint64_t x = *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return x >> 63 ? (x >> 16) % 10 * 10 : (x >> 16) % KEYS;
}

static bool is_hot(uint64_t key)
{
    return key < 100 && key % 10 == 0;
}

static void counts_tell_which_keys_are_hot(void **state)
{
    (void)state;
    static uint64_t counts[KEYS];
    uint64_t keys[KEYS], random = 1;
    for (int i = 0; i < ACCESSES; i++)
        counts[draw(&random)]++;
    assert_int_equal(hot_among(counts, KEYS, HOT_FACTOR, keys, KEYS), 10);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(keys[i], 10 * i);
    assert_int_equal(hot_among(counts, KEYS, HOT_FACTOR, keys, 3), 3);
    assert_true(hot_among(counts, KEYS, 0.1, keys, KEYS) > 10);
    assert_int_equal(hot_among(counts, KEYS, KEYS, keys, KEYS), 0);
}

static void keys_used_alike_are_not_hot(void **state)
{
    (void)state;
    uint64_t counts[200], keys[200];
    for (int i = 0; i < 200; i++)
        counts[i] = 7;
    assert_int_equal(hot_among(counts, 200, HOT_FACTOR, keys, 200), 0);
    for (int i = 0; i < 200; i++)
        counts[i] = 0;
    assert_int_equal(hot_among(counts, 200, HOT_FACTOR, keys, 200), 0);
}

static void a_sample_finds_each_hot_key_once(void **state)
{
    (void)state;
    struct hot hot;
    uint64_t random = 2, n_found = 0, n_looks = 0;
    hot_init(&hot, KEYS, HOT_FACTOR);
    for (int i = 0; i < ACCESSES / 50; i++) {
        uint64_t batch[50], keys[4];
        for (int k = 0; k < 50; k++)
            batch[k] = draw(&random);
        if (!hot_add(&hot, batch, 50))
            continue;
        n_looks++;
        for (size_t n = 4; n == 4;) {
            n = hot_look(&hot, keys, 4);
            n_found += n;
            for (size_t k = 0; k < n; k++)
                assert_true(is_hot(keys[k]));
        }
    }
    assert_int_equal(n_found, 10);
    assert_in_range(n_looks, 2, 4);
    hot_fini(&hot);
}

static void a_sample_is_complete_at_some_time(void **state)
{
    (void)state;
    struct hot hot;
    uint64_t batch[1024], n = 0;
    hot_init(&hot, 0, HOT_FACTOR);
    for (uint64_t i = 0; i < 1024; i++)
        batch[i] = i;
    while (hot_is_open(&hot) && n < 100000000) {
        hot_add(&hot, batch, 1024);
        n += 1024;
    }
    assert_true(n < 10000000);
    assert_false(hot_add(&hot, batch, 1024));
    uint64_t keys[1];
    assert_int_equal(hot_look(&hot, keys, 1), 0);
    hot_fini(&hot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_tell_which_keys_are_hot),
        cmocka_unit_test(keys_used_alike_are_not_hot),
        cmocka_unit_test(a_sample_finds_each_hot_key_once),
        cmocka_unit_test(a_sample_is_complete_at_some_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
