/*
 * What keys are drawn from: cells of weights that add up exactly, draws that follow them, keys that can
 * never be drawn, little memory, and a sentence for whatever makes no target.
 *
 * Draws are tested by chi-square with fixed seeds: a right target fails one seed in 10,000 (ALPHA).
 */
#include "core/target.h" /* before cmocka, whose macro fail() would hide the function */

#include "support/check.h"
#include "support/alloc.h"
#include "support/statistics.h"

static const uint64_t no_limit = UINT64_MAX;

static struct target target_of(struct tern_target description)
{
    struct target target;
    description.struct_size = sizeof description;
    ok(target_init(&target, &description, "words", no_limit));
    return target;
}

static struct stream stream_of(uint64_t seed)
{
    return (struct stream){.name = hash_u64(seed)};
}

/* ---- Cells of weights ------------------------------------------------------------------------ */

enum { N_SHAPES = 9 };

/* Weights of many shapes: equal, linear, one giant, one dwarf, mostly 0, skewed, huge, tiny, random. */
static double weight_of(int shape, uint64_t i, uint64_t n)
{
    switch (shape) {
    case 0:
        return 0.1;
    case 1:
        return n == 1 ? 1 : (double)i;
    case 2:
        return i == n / 2 ? 1e6 : 1;
    case 3:
        return i == n - 1 ? 1e-6 : 1;
    case 4:
        return i % 7 == 3 || n < 5 ? 2.5 : 0;
    case 5:
        return 1 / ((double)i + 1);
    case 6:
        return 1e308 / ((double)i + 1);
    case 7:
        return 1e-300 * ((double)i + 1);
    default:
        return (double)scattered(i) * 0x1p-64;
    }
}

/* What the cells give the i-th key, in units of a cell. */
static double *shares_of(const struct target *target)
{
    double *shares = array_of(target->n, sizeof *shares);
    for (uint64_t i = 0; i < target->n; i++) {
        double own = (double)target->cells[i].threshold * 0x1p-32;
        shares[i] += own;
        shares[target->cells[i].other] += 1 - own;
    }
    return shares;
}

static void check_shares(int shape, const struct target *target, const double *weights)
{
    double largest = 0, sum = 0, *shares = shares_of(target);
    for (uint64_t i = 0; i < target->n; i++)
        largest = weights[i] > largest ? weights[i] : largest;
    for (uint64_t i = 0; i < target->n; i++)
        sum += weights[i] / largest;
    for (uint64_t i = 0; i < target->n; i++) {
        double wanted = weights[i] / largest / sum * (double)target->n;
        double tolerance = 0x1p-32 * (double)target->n + 1e-9 * wanted;
        if (fabs(shares[i] - wanted) > tolerance || (weights[i] == 0 && shares[i] != 0))
            fail_msg("shape %d: key %llu of %llu has %.17g cells, not %.17g", shape,
                     (unsigned long long)i, (unsigned long long)target->n, shares[i], wanted);
    }
    free(shares);
}

/* A cell is cut to 32 bits, so a key loses less than 2^-32 of its own cell and gains less than that from
 * each of n others; the rounding of doubles stays far below. */
static void cells_give_each_key_its_weight(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 10, 1000, 100001};
    for (int shape = 0; shape < N_SHAPES; shape++) {
        for (size_t s = 0; s < COUNT(sizes); s++) {
            uint64_t n = sizes[s];
            double *weights = array_of(n, sizeof *weights);
            for (uint64_t i = 0; i < n; i++)
                weights[i] = weight_of(shape, i, n);
            struct target target = target_of(
                (struct tern_target){.kind = TERN_TARGET_WEIGHTS, .end = n, .weights = weights});
            check_shares(shape, &target, weights);
            target_fini(&target);
            free(weights);
        }
    }
}

static void counts_are_raised_to_three_quarters(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 1, 16, 81, 10000, 1000000000000};
    static const double weights[] = {0, 1, 8, 27, 1000, 1e9};
    struct target target = target_of(
        (struct tern_target){.kind = TERN_TARGET_COUNTS, .end = COUNT(counts), .counts = counts});
    check_shares(-1, &target, weights);
    target_fini(&target);
}

/* n weights, most of them 0, whose memory the system need not provide. What is left over is the target's
 * own. Keys are drawn from all of it. */
static void check_weight_bytes(uint64_t n)
{
    enum { STEP = 10000, N = 1000 };
    double *weights = array_of(n, sizeof *weights);
    for (uint64_t i = 0; i < n; i += STEP)
        weights[i] = 1;
    size_t before = resident_bytes();
    struct target target =
        target_of((struct tern_target){.kind = TERN_TARGET_WEIGHTS, .end = n, .weights = weights});
    size_t taken = resident_bytes() - before;
    print_message("%.2f bytes per key of %ju\n", (double)taken / (double)n, (uintmax_t)n);
    assert_true(taken <= 12 * n);
    struct stream stream = stream_of(n);
    uint64_t keys[N], n_by_tenth[10] = {0};
    ok(target_draw(&target, &stream, keys, N));
    for (size_t i = 0; i < N; i++) {
        assert_true(keys[i] < n && keys[i] % STEP == 0);
        n_by_tenth[keys[i] / (n / 10)]++;
    }
    for (size_t i = 0; i < 10; i++)
        assert_true(n_by_tenth[i] > N / 20);
    target_fini(&target);
    free(weights);
}

static void a_weight_takes_at_most_12_bytes(void **state)
{
    (void)state;
#ifdef UNDER_SANITIZER
    skip();
#endif
    check_weight_bytes(10000000);
}

/* The size that is promised: 0.8 GB, where there is room for twice that. */
static void a_hundred_million_weights_take_no_more(void **state)
{
    (void)state;
    const uint64_t n = 100000000;
    uint64_t free_bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
#ifdef UNDER_SANITIZER
    free_bytes = 0;
#endif
    if (free_bytes < 2 * 12 * n)
        skip();
    check_weight_bytes(n);
}

/* ---- Draws ----------------------------------------------------------------------------------- */

enum { N_DRAWS = 200000, N_KEYS = 50 };

/* The p-value of N_DRAWS draws against probabilities in proportion to weights. */
static double draws_p(const struct target *target, uint64_t seed, const double *weights,
                      uint64_t (*position_of)(uint64_t key))
{
    struct stream stream = stream_of(seed);
    uint64_t counts[N_KEYS] = {0}, keys[777];
    double probabilities[N_KEYS], sum = 0;
    for (size_t i = 0; i < N_KEYS; i++)
        sum += weights[i];
    for (size_t i = 0; i < N_KEYS; i++)
        probabilities[i] = weights[i] / sum;
    for (size_t done = 0; done < N_DRAWS; done += COUNT(keys)) {
        ok(target_draw(target, &stream, keys, COUNT(keys)));
        for (size_t i = 0; i < COUNT(keys); i++) {
            uint64_t position = position_of(keys[i]);
            assert_true(position < N_KEYS);
            counts[position]++;
        }
    }
    return fit_p(counts, probabilities, N_KEYS);
}

static uint64_t from_1000(uint64_t key)
{
    return key - 1000;
}

/* The keys of a list, scattered over all 64 bits. */
static uint64_t in_list(uint64_t key)
{
    uint64_t i = 0;
    while (i < N_KEYS && scattered(i) != key)
        i++;
    return i;
}

static uint64_t draw_of_squares(void *context, uint64_t random)
{
    (void)context;
    uint64_t a = rand_below(random, N_KEYS), b = rand_below(hash_u64(random + 1), N_KEYS);
    return 1000 + (a < b ? a : b);
}

static void draws_follow_the_target(void **state)
{
    (void)state;
    double equal[N_KEYS], skewed[N_KEYS], powers[N_KEYS], squares[N_KEYS];
    uint64_t counts[N_KEYS], list[N_KEYS];
    for (size_t i = 0; i < N_KEYS; i++) {
        equal[i] = 1;
        skewed[i] = i % 5 ? 1 / (double)i : 0;
        counts[i] = 3 * i + i * i * i;
        powers[i] = pow((double)counts[i], 0.75);
        list[i] = scattered(i);
        squares[i] = 2 * (N_KEYS - (double)i) - 1; /* the lower of two */
    }
    const struct {
        struct tern_target target;
        const double *weights;
        uint64_t (*position_of)(uint64_t key);
    } cases[] = {
        {{.begin = 1000, .end = 1000 + N_KEYS}, equal, from_1000},
        {{.end = N_KEYS, .keys = list}, equal, in_list},
        {{.kind = TERN_TARGET_WEIGHTS, .begin = 1000, .end = 1000 + N_KEYS, .weights = skewed},
         skewed,
         from_1000},
        {{.kind = TERN_TARGET_WEIGHTS, .end = N_KEYS, .weights = skewed, .keys = list},
         skewed,
         in_list},
        {{.kind = TERN_TARGET_COUNTS, .begin = 1000, .end = 1000 + N_KEYS, .counts = counts},
         powers,
         from_1000},
        {{.kind = TERN_TARGET_FUNCTION, .function = draw_of_squares}, squares, from_1000},
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        struct target target = target_of(cases[c].target);
        double p = draws_p(&target, c, cases[c].weights, cases[c].position_of);
        if (p < ALPHA)
            fail_msg("case %zu: p = %g", c, p);
        double other = draws_p(&target, c, c < 2 ? squares : equal, cases[c].position_of);
        if (other > 1e-12)
            fail_msg("case %zu passes for another distribution: p = %g", c, other);
        target_fini(&target);
    }
}

/* Values of a printed table. */
static void the_tail_of_chi_square_is_right(void **state)
{
    (void)state;
    static const double table[][3] = {{3.841459, 1, 0.05},     {18.307038, 10, 0.05},
                                      {29.588298, 10, 0.001},  {3.940299, 10, 0.95},
                                      {124.342113, 100, 0.05}, {149.449253, 100, 0.001}};
    for (size_t i = 0; i < COUNT(table); i++)
        assert_true(fabs(chi_square_tail(table[i][0], table[i][1]) - table[i][2]) < 1e-6);
}

/* The p-values of a true hypothesis are uniform: of 400 seeds, 20 are expected below 0.05. A right
 * generator and a right test are outside 3 .. 43 once in 100,000 times. */
static void error_rates_are_as_stated(void **state)
{
    (void)state;
    double equal[N_KEYS], n_below = 0, n_tiny = 0;
    for (size_t i = 0; i < N_KEYS; i++)
        equal[i] = 1;
    struct target target = target_of((struct tern_target){.begin = 1000, .end = 1000 + N_KEYS});
    for (uint64_t seed = 0; seed < 400; seed++) {
        double p = draws_p(&target, seed, equal, from_1000);
        n_below += p < 0.05;
        n_tiny += p < ALPHA;
    }
    assert_true(n_below >= 3 && n_below <= 43);
    assert_true(n_tiny <= 2);
    target_fini(&target);
}

static void keys_of_weight_0_are_never_drawn(void **state)
{
    (void)state;
    double weights[N_KEYS] = {0};
    weights[7] = 1e-3;
    weights[8] = 5;
    struct target target = target_of(
        (struct tern_target){.kind = TERN_TARGET_WEIGHTS, .end = N_KEYS, .weights = weights});
    struct stream stream = stream_of(3);
    uint64_t keys[1000], n_rare = 0;
    for (int i = 0; i < 1000; i++) {
        ok(target_draw(&target, &stream, keys, COUNT(keys)));
        for (size_t j = 0; j < COUNT(keys); j++) {
            assert_true(keys[j] == 7 || keys[j] == 8);
            n_rare += keys[j] == 7;
        }
    }
    assert_true(n_rare > 100 && n_rare < 300); /* 200 expected, 14 the standard error */
    for (uint64_t i = 0; i < N_KEYS; i++)
        assert_int_equal(target_has(&target, i), i == 7 || i == 8);
    target_fini(&target);
}

/* The whole range of 64-bit keys but the last. */
static void ranges_may_be_as_large_as_the_key_space(void **state)
{
    (void)state;
    struct target target = target_of((struct tern_target){.begin = 5, .end = UINT64_MAX});
    struct stream stream = stream_of(1);
    uint64_t keys[1000], n_upper = 0;
    ok(target_draw(&target, &stream, keys, COUNT(keys)));
    for (size_t i = 0; i < COUNT(keys); i++) {
        assert_true(keys[i] >= 5 && keys[i] < UINT64_MAX);
        n_upper += keys[i] >> 63;
    }
    assert_true(n_upper > 420 && n_upper < 580);
    target_fini(&target);
}

/* ---- What is no target ----------------------------------------------------------------------- */

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const double zeros[3], negative[] = {1, -1, 1}, nan[] = {1, 1, (double)NAN},
                                  infinite[] = {(double)INFINITY, 1, 1};
    static const uint64_t no_counts[3], list[] = {1, 99, 100};
    const struct {
        struct tern_target target;
        enum tern_status status;
        const char *words[3];
    } cases[] = {
        {{.begin = 7, .end = 7}, TERN_INVALID, {"no keys", "7"}},
        {{.begin = 8, .end = 7}, TERN_INVALID, {"no keys", "8"}},
        {{.begin = 7, .end = 101}, TERN_RANGE, {"key 100", "100 keys"}},
        {{.end = 3, .keys = list}, TERN_RANGE, {"key 100", "position 2"}},
        {{.kind = (enum tern_target_kind)4, .end = 3}, TERN_INVALID, {"kind 4"}},
        {{.kind = TERN_TARGET_WEIGHTS, .end = 3}, TERN_INVALID, {"weights", "NULL"}},
        {{.kind = TERN_TARGET_COUNTS, .end = 3}, TERN_INVALID, {"counts", "NULL"}},
        {{.kind = TERN_TARGET_FUNCTION}, TERN_INVALID, {"function", "NULL"}},
        {{.kind = TERN_TARGET_WEIGHTS, .end = 3, .weights = zeros}, TERN_INVALID, {"all 3", "0"}},
        {{.kind = TERN_TARGET_COUNTS, .end = 3, .counts = no_counts}, TERN_INVALID, {"all 3", "0"}},
        {{.kind = TERN_TARGET_WEIGHTS, .begin = 4, .end = 7, .weights = negative},
         TERN_INVALID,
         {"key 5", "-1", "negative"}},
        {{.kind = TERN_TARGET_WEIGHTS, .begin = 4, .end = 7, .weights = nan},
         TERN_INVALID,
         {"key 6", "nan"}},
        {{.kind = TERN_TARGET_WEIGHTS, .begin = 4, .end = 7, .weights = infinite},
         TERN_INVALID,
         {"key 4", "inf"}},
        {{.end = 7, .pool_keys = TERN_MAX_POOL_KEYS + 1}, TERN_LIMIT, {"pool", "65537"}},
        {{.end = 7, .pool_uses = TERN_MAX_POOL_USES + 1}, TERN_LIMIT, {"pool", "65537"}},
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        struct target target;
        struct tern_target description = cases[c].target;
        refused(target_init(&target, &description, "words", 99), TERN_INVALID, "struct_size");
        description.struct_size = sizeof description;
        refused(target_init(&target, &description, "words", 99), cases[c].status, "'words'",
                cases[c].words[0], cases[c].words[1], cases[c].words[2]);
    }
}

static uint64_t draw_100(void *context, uint64_t random)
{
    (void)context;
    return rand_below(random, 1000) < 999 ? 1 : 100;
}

static void a_function_that_leaves_the_table_is_reported(void **state)
{
    (void)state;
    struct target target;
    struct tern_target description = {
        .struct_size = sizeof description, .kind = TERN_TARGET_FUNCTION, .function = draw_100};
    ok(target_init(&target, &description, "words", 99));
    struct stream stream = stream_of(1);
    uint64_t keys[20000];
    refused(target_draw(&target, &stream, keys, COUNT(keys)), TERN_RANGE, "key 100", "'words'",
            "100 keys");
    target_fini(&target);
}

static void without_memory_there_is_no_target(void **state)
{
    (void)state;
    static const double weights[] = {1, 2, 3};
    static const uint64_t list[] = {5, 6, 7};
    struct tern_target description = {.struct_size = sizeof description,
                                      .kind = TERN_TARGET_WEIGHTS,
                                      .end = 3,
                                      .weights = weights,
                                      .keys = list};
    for (uint64_t n = 1; n <= 2; n++) {
        struct target target;
        alloc_fail_at(n);
        refused(target_init(&target, &description, "words", 99), TERN_NO_MEMORY, "memory",
                "'words'");
        alloc_fail_at(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_give_each_key_its_weight),
        cmocka_unit_test(counts_are_raised_to_three_quarters),
        cmocka_unit_test(a_weight_takes_at_most_12_bytes),
        cmocka_unit_test(a_hundred_million_weights_take_no_more),
        cmocka_unit_test(draws_follow_the_target),
        cmocka_unit_test(the_tail_of_chi_square_is_right),
        cmocka_unit_test(error_rates_are_as_stated),
        cmocka_unit_test(keys_of_weight_0_are_never_drawn),
        cmocka_unit_test(ranges_may_be_as_large_as_the_key_space),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_function_that_leaves_the_table_is_reported),
        cmocka_unit_test(without_memory_there_is_no_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
