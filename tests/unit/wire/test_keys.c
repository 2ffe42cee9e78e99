/*
 * Keys come back as they were, in no more bytes than need be; bytes that are not keys are refused; and
 * sorting agrees with qsort. Buffers are as large as they must be and no larger, so that
 * AddressSanitizer sees a byte too many.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#undef fail /* cmocka's; base/status.h has a function of this name */
#include "wire/frame.h"
#include "wire/keys.h"

enum { MANY = 1 << 16 };

/* ---- Helpers --------------------------------------------------------------------------------- */

/* The coding of docs/PROTOCOL.md once more, plainly: one number. */
static size_t plain_number(uint64_t x, uint8_t *out)
{
    size_t bytes = 0;
    do {
        out[bytes++] = (uint8_t)((x & 0x7f) | (x > 0x7f ? 0x80 : 0));
        x >>= 7;
    } while (x != 0);
    return bytes;
}

/* The differences; 0 if the keys do not ascend. */
static size_t plain_delta(const uint64_t *keys, size_t n, uint8_t *out)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t previous = i > 0 ? keys[i - 1] : 0;
        if (keys[i] < previous)
            return 0;
        bytes += plain_number(keys[i] - previous, out + bytes);
    }
    return bytes;
}

static bool decodes(const uint8_t *in, size_t bytes, uint8_t flags, size_t n, uint64_t *keys)
{
    uint8_t *exact = array_of(bytes, 1);
    if (bytes > 0)
        memcpy(exact, in, bytes);
    const bool decoded = keys_decode(exact, bytes, flags, n, keys);
    free(exact);
    return decoded;
}

/* The keys come back, and are coded in the way and the bytes that the protocol says. */
static void assert_round_trip(const uint64_t *keys, size_t n)
{
    uint8_t *out = array_of(keys_max_bytes(n), 1), *plain = array_of(keys_max_bytes(n), 1);
    uint64_t *back = array_of(n, sizeof *back);
    uint8_t flags = FRAME_CHECKED | (n % 2 ? FRAME_KEYS_DELTA : 0);
    const size_t bytes = keys_encode(keys, n, out, &flags);
    const size_t delta_bytes = plain_delta(keys, n, plain);
    if (delta_bytes > 0 && delta_bytes < 8 * n) {
        assert_int_equal(flags, FRAME_CHECKED | FRAME_KEYS_DELTA);
        assert_int_equal(bytes, delta_bytes);
        assert_memory_equal(out, plain, bytes);
    } else {
        assert_int_equal(flags, FRAME_CHECKED);
        assert_int_equal(bytes, 8 * n);
    }
    assert_true(decodes(out, bytes, flags, n, back));
    if (n > 0)
        assert_memory_equal(back, keys, n * sizeof *keys);
    if (delta_bytes > 0) {
        assert_true(decodes(plain, delta_bytes, FRAME_KEYS_DELTA, n, back));
        assert_memory_equal(back, keys, n * sizeof *keys);
    }
    free(out);
    free(plain);
    free(back);
}

/* Keys of up to `width` bits, of which runs are dense, equal or far apart. */
static void random_keys(struct dice *dice, unsigned width, size_t n, uint64_t *keys)
{
    for (size_t i = 0; i < n; i++) {
        const size_t kind = dice_below(dice, 4);
        if (i > 0 && kind < 2)
            keys[i] = keys[i - 1] + kind;
        else
            keys[i] = dice_roll(dice) >> (64 - width) >> dice_below(dice, width);
    }
}

static int compare(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* ---- Coding ---------------------------------------------------------------------------------- */

static void single_keys_come_back(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int off = -1; off <= 1; off++) {
            const uint64_t key = (UINT64_C(1) << bit) + (uint64_t)off;
            assert_round_trip(&key, 1);
        }
    }
    assert_round_trip(&(uint64_t){UINT64_MAX}, 1);
}

static void extremes_come_back(void **state)
{
    (void)state;
    assert_round_trip((uint64_t[]){0, UINT64_MAX}, 2);
    assert_round_trip((uint64_t[]){UINT64_MAX, 0}, 2);
    assert_round_trip((uint64_t[]){0, 0, UINT64_MAX, UINT64_MAX}, 4);
    uint64_t keys[20] = {0};
    assert_round_trip(keys, 20);
    for (size_t i = 10; i < 20; i++)
        keys[i] = UINT64_MAX;
    assert_round_trip(keys, 20);
    memset(keys, 0xff, sizeof keys);
    assert_round_trip(keys, 20);
}

static void no_keys_are_no_bytes(void **state)
{
    (void)state;
    uint8_t flags = FRAME_FLAGS;
    assert_int_equal(keys_encode(NULL, 0, NULL, &flags), 0);
    assert_int_equal(flags, FRAME_FLAGS & ~FRAME_KEYS_DELTA);
    uint64_t key;
    const uint8_t byte = 0;
    for (uint8_t f = 0; f < 2; f++) {
        assert_true(keys_decode(NULL, 0, f, 0, &key));
        assert_false(keys_decode(&byte, 1, f, 0, &key));
        assert_false(keys_decode(NULL, 0, f, 1, &key));
    }
}

static void patterns_of_every_count_come_back(void **state)
{
    (void)state;
    struct dice dice = {3};
    uint64_t *keys = array_of(MANY, sizeof *keys);
    for (size_t n = 0; n <= MANY; n = n < 300 ? n + 1 : n < MANY ? MANY : n + 1) {
        for (size_t i = 0; i < n; i++)
            keys[i] = i;
        assert_round_trip(keys, n); /* dense */
        for (size_t i = 0; i < n; i++)
            keys[i] = UINT64_C(1) << 40;
        assert_round_trip(keys, n); /* equal */
        for (size_t i = 0; i < n; i++)
            keys[i] = 1000000 - i;
        assert_round_trip(keys, n); /* descending */
        for (size_t i = 0; i < n; i++)
            keys[i] = i * (UINT64_MAX / MANY);
        assert_round_trip(keys, n); /* as far apart as they can be */
        for (unsigned width = 1; width <= 64; width += n < 300 ? 7 : 21) {
            random_keys(&dice, width, n, keys);
            assert_round_trip(keys, n);
            qsort(keys, n, sizeof *keys, compare);
            assert_round_trip(keys, n);
        }
    }
    free(keys);
}

/* One late key out of order makes all of them raw. */
static void a_single_descent_is_kept(void **state)
{
    (void)state;
    uint64_t keys[100];
    for (size_t at = 1; at < COUNT(keys); at++) {
        for (size_t i = 0; i < COUNT(keys); i++)
            keys[i] = 10 * i + 10;
        keys[at] = keys[at - 1] - 1;
        assert_round_trip(keys, COUNT(keys));
    }
}

/* ---- Bytes that are not keys ----------------------------------------------------------------- */

static void wrong_lengths_are_refused(void **state)
{
    (void)state;
    struct dice dice = {4};
    uint64_t keys[41], back[42];
    unsigned n_tried = 0;
    for (size_t n = 1; n <= 40; n++) {
        for (unsigned width = 1; width <= 64; width += 9) {
            uint8_t out[10 * 41 + 1];
            for (size_t i = 0; i < n; i++)
                keys[i] = dice_roll(&dice) >> (64 - width);
            qsort(keys, n, sizeof *keys, compare);
            for (uint8_t flags = 0; flags < 2; flags++) {
                size_t bytes = 8 * n;
                if (flags)
                    bytes = plain_delta(keys, n, out);
                else
                    memcpy(out, keys, bytes);
                out[bytes] = 0;
                for (size_t prefix = 0; prefix <= bytes + 1; prefix++, n_tried++)
                    assert_int_equal(decodes(out, prefix, flags, n, back), prefix == bytes);
                assert_false(decodes(out, bytes, flags, n - 1, back));
                assert_false(decodes(out, bytes, flags, n + 1, back));
            }
        }
    }
    assert_true(n_tried > 50000);
}

/* Decodes `number`, once alone and once between enough others for each way of reading it. */
static bool number_decodes(const uint8_t *number, size_t bytes)
{
    uint64_t keys[32];
    const bool alone = decodes(number, bytes, FRAME_KEYS_DELTA, 1, keys);
    for (size_t before = 0; before < 9; before++) {
        for (size_t after = 0; after < 20; after++) {
            uint8_t in[64] = {0};
            memcpy(in + before, number, bytes);
            const size_t n = before + 1 + after;
            assert_int_equal(decodes(in, before + bytes + after, FRAME_KEYS_DELTA, n, keys), alone);
        }
    }
    return alone;
}

static void numbers_in_a_longer_form_are_refused(void **state)
{
    (void)state;
    for (unsigned width = 0; width <= 64; width++) {
        const uint64_t x = width == 0 ? 0 : UINT64_MAX >> (64 - width);
        uint8_t number[12];
        size_t bytes = plain_number(x, number);
        assert_true(number_decodes(number, bytes));
        while (bytes < sizeof number) {
            number[bytes - 1] |= 0x80;
            number[bytes++] = 0;
            assert_false(number_decodes(number, bytes));
        }
    }
}

static void numbers_of_more_than_64_bits_are_refused(void **state)
{
    (void)state;
    uint8_t number[11];
    memset(number, 0xff, sizeof number);
    for (unsigned last = 0; last < 256; last++) {
        number[9] = (uint8_t)last;
        assert_int_equal(number_decodes(number, 10), last == 1);
    }
    for (unsigned last = 0; last < 256; last++) {
        number[9] = 0x81;
        number[10] = (uint8_t)last;
        assert_false(number_decodes(number, 11));
    }
}

/* Keys that would pass UINT64_MAX, wherever the difference stands that does it. */
static void overflowing_differences_are_refused(void **state)
{
    (void)state;
    for (size_t at = 1; at < 24; at++) {
        for (unsigned width = 1; width <= 64; width++) {
            const uint64_t step = UINT64_MAX >> (64 - width);
            uint8_t in[64] = {0};
            uint64_t keys[25];
            size_t bytes = plain_number(UINT64_MAX - step, in) + at - 1;
            size_t fits = bytes + plain_number(step, in + bytes);
            assert_true(decodes(in, fits, FRAME_KEYS_DELTA, at + 1, keys));
            assert_int_equal(keys[at], UINT64_MAX);
            in[fits] = 1;
            assert_false(decodes(in, fits + 1, FRAME_KEYS_DELTA, at + 2, keys));
            if (width == 64)
                continue;
            bytes += plain_number(step + 1, in + bytes);
            memset(in + bytes, 0, sizeof in - bytes);
            assert_false(decodes(in, bytes, FRAME_KEYS_DELTA, at + 1, keys));
            assert_false(decodes(in, bytes + 9, FRAME_KEYS_DELTA, at + 10, keys));
        }
    }
}

/* Random bytes decode exactly if reading them plainly works, and then to the same keys. */
static void random_bytes_are_read_as_plainly(void **state)
{
    (void)state;
    struct dice dice = {5};
    unsigned n_accepted = 0;
    for (unsigned trial = 0; trial < 200000; trial++) {
        uint8_t in[40], again[400];
        uint64_t keys[40];
        const size_t bytes = dice_below(&dice, sizeof in + 1);
        size_t n = 0;
        for (size_t i = 0; i < bytes; i++) {
            const bool more = dice_below(&dice, 3) == 0;
            in[i] = (uint8_t)((dice_roll(&dice) & 0x7f) | (more ? 0x80 : 0));
            n += !more;
        }
        const bool decoded = decodes(in, bytes, FRAME_KEYS_DELTA, n, keys);
        if (decoded) {
            n_accepted++;
            assert_int_equal(plain_delta(keys, n, again), bytes);
            assert_memory_equal(again, in, bytes);
        } else {
            bool wrong = bytes > 0 && in[bytes - 1] >= 0x80;
            for (size_t i = 1; i < bytes; i++)
                wrong |= in[i] == 0 && in[i - 1] >= 0x80;
            for (size_t i = 0, run = 0; i < bytes; i++)
                wrong |= (run = in[i] >= 0x80 ? run + 1 : 0) >= 8;
            assert_true(wrong);
        }
    }
    assert_true(n_accepted > 50000);
}

/* ---- Sorting --------------------------------------------------------------------------------- */

struct place_of {
    uint64_t key;
    uint32_t index;
};

static int compare_places(const void *x, const void *y)
{
    const struct place_of *a = x, *b = y;
    if (a->key != b->key)
        return (a->key > b->key) - (a->key < b->key);
    return (a->index > b->index) - (a->index < b->index);
}

static void assert_sorts(const uint64_t *keys, size_t n)
{
    uint64_t *sorted = array_of(n, sizeof *sorted), *scratch = array_of(2 * n, sizeof *scratch);
    uint32_t *order = array_of(n, sizeof *order);
    struct place_of *places = array_of(n, sizeof *places);
    for (size_t i = 0; i < n; i++)
        places[i] = (struct place_of){keys[i], (uint32_t)i};
    qsort(places, n, sizeof *places, compare_places);
    keys_sort(keys, n, sorted, order, scratch);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(sorted[i], places[i].key);
        assert_int_equal(order[i], places[i].index);
    }
    free(sorted);
    free(scratch);
    free(order);
    free(places);
}

static void sorting_agrees_with_qsort(void **state)
{
    (void)state;
    struct dice dice = {6};
    uint64_t *keys = array_of(MANY + 1, sizeof *keys);
    const size_t large[] = {1000, 10000, MANY - 1, MANY, MANY + 1};
    for (size_t trial = 0; trial <= 300 + COUNT(large); trial++) {
        const size_t n = trial <= 300 ? trial : large[trial - 301];
        for (unsigned width = 1; width <= 64; width += 9) {
            random_keys(&dice, width, n, keys); /* many equal ones */
            assert_sorts(keys, n);
            for (size_t i = 0; i < n; i++)
                keys[i] = dice_roll(&dice) >> (64 - width);
            assert_sorts(keys, n);
            qsort(keys, n, sizeof *keys, compare);
            assert_sorts(keys, n);
        }
        for (size_t i = 0; i < n; i++)
            keys[i] = UINT64_MAX - i;
        assert_sorts(keys, n);
    }
    free(keys);
}

/* Keys that differ in one bit, in both ends, and in every pair of bits. */
static void sorting_looks_at_every_bit(void **state)
{
    (void)state;
    struct dice dice = {7};
    uint64_t keys[200];
    for (unsigned high = 0; high < 64; high++) {
        for (unsigned low = 0; low <= high; low++) {
            const uint64_t common = dice_roll(&dice);
            const uint64_t bits = UINT64_C(1) << high | UINT64_C(1) << low;
            for (size_t i = 0; i < COUNT(keys); i++)
                keys[i] = common ^ (dice_roll(&dice) & bits);
            assert_sorts(keys, COUNT(keys));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_keys_come_back),
        cmocka_unit_test(extremes_come_back),
        cmocka_unit_test(no_keys_are_no_bytes),
        cmocka_unit_test(patterns_of_every_count_come_back),
        cmocka_unit_test(a_single_descent_is_kept),
        cmocka_unit_test(wrong_lengths_are_refused),
        cmocka_unit_test(numbers_in_a_longer_form_are_refused),
        cmocka_unit_test(numbers_of_more_than_64_bits_are_refused),
        cmocka_unit_test(overflowing_differences_are_refused),
        cmocka_unit_test(random_bytes_are_read_as_plainly),
        cmocka_unit_test(sorting_agrees_with_qsort),
        cmocka_unit_test(sorting_looks_at_every_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
