/*
 * Filters: lossless ones give back every bit, rounding keeps the mean and the ends of the scale, and whatever else is
 * decoded is refused or has the shape that was asked for.
 */
#include "wire/filter.h" /* before cmocka, whose macro fail() would hide the function */

#include <math.h>

#include "support/check.h"

static uint8_t scratch[1 << 21];

enum { ROUNDINGS = 1000000, ROWS = 1000, LENGTH = 3 };

static void names_are_read(void **state)
{
    (void)state;
    struct filters filters;
    ok(filters_parse("w", NULL, TERN_I32, &filters));
    assert_false(filters_rows(&filters));
    ok(filters_parse("w", "", TERN_F32, &filters));
    assert_false(filters_rows(&filters));
    ok(filters_parse("w", "zeros,fixed:16", TERN_F64, &filters));
    assert_true(filters.zeros && filters.fixed_bits == 16);
    ok(filters_parse("w", "fixed:24", TERN_F32, &filters));
    assert_true(!filters.zeros && filters.fixed_bits == 24);
    const struct {
        const char *text, *words[2];
        enum tern_type type;
    } bad[] = {
        {"zero", {"'zero'", "unknown"}, TERN_F32},
        {"zeros,", {"'zeros'", "comma"}, TERN_F32},
        {",zeros", {"''", "unknown"}, TERN_F32},
        {"zeros,zeros", {"'zeros'", "twice"}, TERN_F32},
        {"fixed:8,fixed:8", {"'fixed:8'", "twice"}, TERN_F32},
        {"fixed:12", {"'fixed:12'", "fixed:16"}, TERN_F32},
        {"fixed:", {"'fixed:'", "fixed:16"}, TERN_F32},
        {"fixed:8", {"'fixed:8'", "whole"}, TERN_I64},
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        refused(filters_parse("w", bad[i].text, bad[i].type, &filters), TERN_INVALID, "table 'w'",
                bad[i].words[0], bad[i].words[1]);
}

/* Codes and decodes; the bytes in between. */
static size_t there_and_back(const struct filters *filters, const struct filter_shape *shape,
                             const void *rows, size_t n, uint64_t seed, void *again)
{
    const size_t row_bytes = shape->length * (shape->type == TERN_F32 ? 4U : 8U);
    uint8_t *coded = array_of(filter_max_bytes(n, row_bytes), 1);
    struct filter_saved saved = {0};
    const size_t bytes = filter_encode(filters, shape, rows, n, seed, coded, scratch, &saved);
    assert_true(bytes <= filter_max_bytes(n, row_bytes));
    assert_true(filter_decode(filters, shape, coded, bytes, n, scratch, again));
    free(coded);
    return bytes;
}

static void rows_of_zeros_cost_a_bit(void **state)
{
    (void)state;
    static float rows[ROWS][LENGTH], again[ROWS][LENGTH];
    const struct filters filters = {.zeros = true};
    const struct filter_shape shape = {TERN_F32, LENGTH};
    memset(rows, 0, sizeof rows);
    for (size_t i = 0; i < ROWS; i += 10)
        rows[i][i % LENGTH] = i % 20 ? (float)i : -0.0f;
    const size_t bytes = there_and_back(&filters, &shape, rows, ROWS, 0, again);
    assert_memory_equal(rows, again, sizeof rows);
    assert_int_equal(bytes, 1 + ROWS / 8 + ROWS / 10 * sizeof rows[0]);
    /* Where there are none, nothing but the form is added. */
    for (size_t i = 0; i < ROWS; i++)
        rows[i][0] = 1;
    assert_int_equal(there_and_back(&filters, &shape, rows, ROWS, 0, again), 1 + sizeof rows);
    assert_memory_equal(rows, again, sizeof rows);
}

/* A million roundings of a value, beside one that sets the scale: their mean is within four standard errors. */
static void mean_is_kept(double value, double largest, enum tern_type type, uint8_t bits)
{
    static float f[1000], f_again[1000];
    static double d[1000], d_again[1000];
    const struct filters filters = {.fixed_bits = bits};
    const struct filter_shape shape = {type, 1};
    const size_t n = COUNT(f);
    double sum = 0, squares = 0;
    const double exact = type == TERN_F32 ? (double)(float)value : value;
    for (size_t i = 0; i < n; i++) {
        f[i] = (float)(i ? value : largest);
        d[i] = i ? value : largest;
    }
    size_t n_values = 0;
    for (uint64_t seed = 0; n_values < ROUNDINGS; seed++) {
        there_and_back(&filters, &shape, type == TERN_F32 ? (void *)f : d, n, seed,
                       type == TERN_F32 ? (void *)f_again : d_again);
        for (size_t i = 1; i < n; i++, n_values++) {
            const double error = (type == TERN_F32 ? (double)f_again[i] : d_again[i]) - exact;
            sum += error;
            squares += error * error;
        }
    }
    const double step = fabs(largest) / (ldexp(1, bits - 1) - 1);
    const double deviation = sqrt(squares / (double)n_values);
    assert_true(deviation <= 2 * step);
    const double mean = sum / (double)n_values;
    if (fabs(mean) > 4 * deviation / sqrt((double)n_values))
        print_error("%g of %g in %d bits: the mean is off by %g\n", value, largest, bits, mean);
    assert_true(fabs(mean) <= 4 * deviation / sqrt((double)n_values));
}

static void roundings_have_no_bias(void **state)
{
    (void)state;
    mean_is_kept(0.3, 1, TERN_F32, 8);
    mean_is_kept(-0.3, 1, TERN_F32, 8);
    mean_is_kept(0.001, 1, TERN_F32, 8);
    mean_is_kept(0.999, 1, TERN_F32, 8);
    mean_is_kept(-1.991, 1.992, TERN_F32, 8);
    mean_is_kept(1.991, -1.992, TERN_F32, 16);
    mean_is_kept(1e-7, 1, TERN_F64, 16);
    mean_is_kept(M_PI, 100, TERN_F64, 24);
}

/* The ends of the scale, numbers of all sizes, and what is not finite. */
static void ends_of_the_scale_hold(void **state)
{
    (void)state;
    for (unsigned bits = 8; bits <= 24; bits += 8)
        for (int e = -140; e <= 127; e++) {
            const struct filters filters = {.fixed_bits = (uint8_t)bits};
            const struct filter_shape shape = {TERN_F32, 1};
            float x[4] = {ldexpf(1, e), -ldexpf(1, e), nextafterf(ldexpf(1, e), 0), 0}, y[4];
            there_and_back(&filters, &shape, x, 4, (uint64_t)e, y);
            for (size_t i = 0; i < 4; i++)
                assert_true(fabsf(x[i] - y[i]) <=
                            2 * ldexpf(1, e) / (float)((1 << (bits - 1)) - 1));
            assert_true(x[0] == y[0] && x[1] == y[1] && y[3] == 0);
        }
    const float odd[][3] = {{NAN, 1, 2}, {INFINITY, 1, 2}, {0, 0, 0}, {-INFINITY, 0.1f, 1}};
    for (size_t i = 0; i < COUNT(odd); i++) {
        const struct filters filters = {.zeros = true, .fixed_bits = 8};
        const struct filter_shape shape = {TERN_F32, 1};
        float again[3];
        there_and_back(&filters, &shape, odd[i], 3, 5, again);
        assert_memory_equal(odd[i], again, sizeof again);
    }
}

/* The same seed gives the same bytes, so that what is sent again is the same. */
static void a_seed_gives_the_same_bytes(void **state)
{
    (void)state;
    float rows[ROWS];
    static uint8_t one[ROWS + 8], two[ROWS + 8], other[ROWS + 8];
    const struct filters filters = {.zeros = true, .fixed_bits = 8};
    const struct filter_shape shape = {TERN_F32, 1};
    struct filter_saved saved = {0};
    for (size_t i = 0; i < ROWS; i++)
        rows[i] = (float)i / 7;
    const size_t bytes = filter_encode(&filters, &shape, rows, ROWS, 9, one, scratch, &saved);
    assert_int_equal(bytes, 3 + ROWS);
    assert_int_equal(saved.fixed, 3 * ROWS);
    assert_int_equal(filter_encode(&filters, &shape, rows, ROWS, 9, two, scratch, &saved), bytes);
    assert_int_equal(filter_encode(&filters, &shape, rows, ROWS, 10, other, scratch, &saved),
                     bytes);
    assert_memory_equal(one, two, bytes);
    assert_true(memcmp(one, other, bytes) != 0);
}

/* What repeats is compressed, what does not is sent as it is, and a message that was changed is refused or has rows. */
static void repeated_rows_are_compressed(void **state)
{
    (void)state;
    enum { N = 200, LEN = 4 };
    static float rows[N * LEN], again[N * LEN];
    static uint8_t coded[4 * N * LEN + 64];
    const struct filter_shape shape = {.type = TERN_F32, .length = LEN};
    const struct filters filters = {.lz4 = true};
    struct filter_saved saved = {0};
    struct dice dice = {1};
    assert_true(filter_scratch_bytes(&filters, N, 4 * LEN) <= sizeof scratch);
    for (size_t i = 0; i < N * LEN; i++)
        rows[i] = (float)(i % 8);
    size_t bytes = filter_encode(&filters, &shape, rows, N, 1, coded, scratch, &saved);
    assert_true(bytes < 200 && saved.lz4 == 1 + sizeof rows - bytes);
    assert_true(filter_decode(&filters, &shape, coded, bytes, N, scratch, again));
    assert_memory_equal(rows, again, sizeof rows);
    size_t n_refused = 0;
    for (size_t i = 0; i < 10000; i++) {
        uint8_t *byte = &coded[dice_below(&dice, bytes)];
        const uint8_t was = *byte;
        *byte = (uint8_t)dice_roll(&dice);
        n_refused += !filter_decode(&filters, &shape, coded, bytes, N, scratch, again);
        *byte = was;
    }
    assert_true(n_refused > 0);
    const struct filters others = {.zeros = true};
    assert_false(filter_decode(&others, &shape, coded, bytes, N, scratch, again));
    for (size_t i = 0; i < N * LEN; i++)
        rows[i] = (float)dice_roll(&dice);
    bytes = filter_encode(&filters, &shape, rows, N, 1, coded, scratch, &saved);
    assert_true(bytes <= 1 + sizeof rows);
    assert_true(filter_decode(&filters, &shape, coded, bytes, N, scratch, again));
    assert_memory_equal(rows, again, sizeof rows);
}

/* So many rows are pushed as `skip` says, and on the average they are what they were. */
static void skipped_rows_have_no_bias(void **state)
{
    (void)state;
    enum { N = 1000000 };
    float *rows = malloc(N * sizeof *rows);
    const struct filter_shape shape = {.type = TERN_F32, .length = 1};
    struct filters filters;
    char text[FILTERS_TEXT_BYTES];
    assert_non_null(rows);
    ok(filters_parse("w", "skip:0.25", TERN_F32, &filters));
    filters_text(&filters, text);
    assert_string_equal(text, "zeros,skip:0.25");
    assert_true(filters_parse("w", "skip:0.25", TERN_I32, &filters) == TERN_INVALID);
    assert_true(filters_parse("w", "skip:1.5", TERN_F32, &filters) == TERN_INVALID);
    assert_true(filters_parse("w", "skip:", TERN_F32, &filters) == TERN_INVALID);
    ok(filters_parse("w", "skip:0.25", TERN_F32, &filters));
    for (size_t i = 0; i < N; i++)
        rows[i] = 3;
    filter_skip(&filters, &shape, rows, N, 77);
    double sum = 0;
    for (size_t i = 0; i < N; i++) {
        assert_true(rows[i] == 0 || rows[i] == 12);
        sum += (double)rows[i];
    }
    /* The standard deviation of one is 12 sqrt(1/4 * 3/4). */
    assert_true(fabs(sum / N - 3) < 4 * 12 * sqrt(3.0 / 16) / sqrt(N));
    free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read),
        cmocka_unit_test(rows_of_zeros_cost_a_bit),
        cmocka_unit_test(roundings_have_no_bias),
        cmocka_unit_test(ends_of_the_scale_hold),
        cmocka_unit_test(a_seed_gives_the_same_bytes),
        cmocka_unit_test(repeated_rows_are_compressed),
        cmocka_unit_test(skipped_rows_have_no_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
