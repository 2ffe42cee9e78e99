/*
 * Numbers come back as they were, in their shortest form alone; and what a key and its count take in a batch is at most what
 * docs/tables.md says.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#undef fail /* cmocka's; base/status.h has a function of this name */
#include "base/rand.h"
#include "wire/number.h"
#include "wire/frame.h"
#include "wire/keys.h"

enum { N = 10000 };

static void numbers_come_back(void **state)
{
    (void)state;
    uint8_t bytes[NUMBER_MAX_BYTES];
    for (unsigned bits = 0; bits < 64; bits++)
        for (int near = -1; near <= 1; near++) {
            const uint64_t count = ((uint64_t)1 << bits) + (uint64_t)near;
            uint64_t again;
            const uint8_t *end = number_put(count, bytes);
            assert_ptr_equal(number_get(bytes, end, &again), end);
            assert_int_equal(again, count);
            assert_null(number_get(bytes, end - 1, &again));
        }
}

static void longer_forms_are_refused(void **state)
{
    (void)state;
    const uint8_t zero[] = {0x80, 0x00};
    const uint8_t above[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
    uint64_t count;
    assert_null(number_get(zero, zero + sizeof zero, &count));
    assert_null(number_get(above, above + sizeof above, &count));
    assert_null(number_get(zero, zero, &count));
}

/* The bits of a key below 2^key_bits and a small count, at one of two nodes in a batch of 10,000. */
static double bits_each(unsigned key_bits)
{
    static uint64_t keys[N], sorted[N], scratch[3 * N];
    static uint32_t order[N];
    static uint8_t bytes[N * (NUMBER_MAX_BYTES + sizeof(uint64_t)) + 1024];
    uint8_t flags = 0, counts[NUMBER_MAX_BYTES];
    for (size_t i = 0; i < N; i++)
        keys[i] = rand_at(key_bits, i) >> (64 - key_bits);
    keys_sort(keys, N / 2, sorted, order, scratch);
    size_t total = keys_encode(sorted, N / 2, bytes, &flags);
    for (size_t i = 0; i < N / 2; i++)
        total += (size_t)(number_put(1 + i % 100, counts) - counts);
    return 8.0 * (double)total / (N / 2);
}

static void keys_and_counts_are_small(void **state)
{
    (void)state;
    const double below = bits_each(32), any = bits_each(64);
    print_message("bits of a key and its count: %.1f below 2^32, %.1f of any key\n", below, any);
    assert_true(below <= 50);
    assert_true(any <= 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(longer_forms_are_refused),
        cmocka_unit_test(keys_and_counts_are_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
