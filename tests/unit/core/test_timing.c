/*
 * When intents are acted on: the quantile of the Poisson distribution against a sum over its whole
 * support, and Algorithm 1 of AdaPM (Section 4.2.2) against a transcription of it.
 */
#include "core/timing.h"

#include <math.h>

#include "support/check.h"

/* ---- The quantile -------------------------------------------------------------------------------- */

/* P(X <= k) of a Poisson variable, each term from its logarithm, the smallest terms first. */
static long double poisson_at_most(uint64_t k, long double rate)
{
    long double sum = 0;
    if ((long double)k < rate) {
        for (uint64_t i = 0; i <= k; i++)
            sum += expl((long double)i * logl(rate) - rate - lgammal((long double)i + 1));
        return sum;
    }
    uint64_t last = k + 400 + (uint64_t)(20 * sqrtl(rate));
    for (uint64_t i = last; i > k; i--)
        sum += expl((long double)i * logl(rate) - rate - lgammal((long double)i + 1));
    return 1 - sum;
}

/* k is the smallest with P(X <= k) >= p, up to what double arithmetic can tell apart. */
static void check_quantile(double rate, double p)
{
    const long double slack = 1e-10L;
    uint64_t k = poisson_quantile(rate, p);
    long double at = poisson_at_most(k, (long double)rate);
    long double below = k ? poisson_at_most(k - 1, (long double)rate) : 0;
    if (at < (long double)p - slack || below >= (long double)p + slack)
        print_error("rate %g, p %g: %llu, where P is %Lg, and %Lg before\n", rate, p,
                    (unsigned long long)k, at, below);
    assert_true(at >= (long double)p - slack && below < (long double)p + slack);
}

static void the_quantile_is_that_of_the_distribution(void **state)
{
    (void)state;
    const double quantiles[] = {0.001, 0.5, 0.9, 0.99, 0.9999, 0.999999};
    size_t n = 0;
    for (double rate = 0.01; rate < 3000; rate *= 1.13)
        for (size_t i = 0; i < COUNT(quantiles); i++, n++)
            check_quantile(rate, quantiles[i]);
    assert_true(n > 600);
}

static void the_quantile_has_known_values(void **state)
{
    (void)state;
    assert_int_equal(poisson_quantile(0, 0.9999), 0);
    assert_int_equal(poisson_quantile(-1, 0.9999), 0);
    assert_int_equal(poisson_quantile(1, 0.5), 1);
    assert_int_equal(poisson_quantile(1, 0.9999), 6);
    assert_int_equal(poisson_quantile(2, 0.9999), 9);
    assert_int_equal(poisson_quantile(20, 0.9999), 39);
}

/* A worker that ran a million clocks in a round must not be waited for while terms underflow. */
static void the_quantile_holds_for_great_rates(void **state)
{
    (void)state;
    for (double rate = 1e4; rate <= 1e9; rate *= 10) {
        double k = (double)poisson_quantile(rate, 0.9999), normal = rate + 3.719 * sqrt(rate);
        assert_true(fabs(k - normal) < 5 + 0.1 * sqrt(rate));
    }
}

/* ---- Algorithm 1 --------------------------------------------------------------------------------- */

struct algorithm {
    double estimate;
    uint64_t clock;
};

/* Whether to act on an intent in this round; `estimate` and `clock` are those of the round before. */
static bool acts(const struct algorithm *before, uint64_t clock, uint64_t start, double *estimate)
{
    uint64_t advance = clock - before->clock;
    *estimate = advance > 0 ? 0.9 * before->estimate + 0.1 * (double)advance : before->estimate;
    double rate = *estimate > (double)advance ? *estimate : (double)advance;
    return start < clock + poisson_quantile(2 * rate, 0.9999);
}

static void it_is_algorithm_1(void **state)
{
    (void)state;
    struct dice dice = {11};
    for (int worker = 0; worker < 20; worker++) {
        struct timing timing;
        timing_init(&timing);
        struct algorithm algorithm = {.estimate = 10};
        uint64_t clock = 0;
        for (int round = 0; round < 400; round++) {
            /* Pauses, steady progress, and leaps. */
            size_t kind = dice_below(&dice, 10);
            clock += kind < 3 ? 0 : kind < 9 ? dice_below(&dice, 40) : dice_below(&dice, 2000);
            uint64_t until = timing_round(&timing, clock);
            double estimate = 0;
            assert_true(until > clock);
            assert_true(acts(&algorithm, clock, until - 1, &estimate));
            assert_false(acts(&algorithm, clock, until, &estimate));
            algorithm = (struct algorithm){estimate, clock};
            assert_true(fabs(timing.rate - estimate) <= 1e-9 * estimate);
        }
    }
}

static void the_first_estimate_is_ten_clocks(void **state)
{
    (void)state;
    struct timing timing;
    timing_init(&timing);
    assert_int_equal(timing_round(&timing, 0), poisson_quantile(20, 0.9999));
}

/* First rule: a worker that pauses keeps its estimate. */
static void a_pause_changes_no_estimate(void **state)
{
    (void)state;
    struct timing timing;
    timing_init(&timing);
    for (uint64_t clock = 0; clock < 5000; clock += 50)
        timing_round(&timing, clock);
    double rate = timing.rate;
    assert_true(fabs(rate - 50) < 0.1);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(timing_round(&timing, 4950), 4950 + poisson_quantile(2 * rate, 0.9999));
    assert_true(timing.rate >= rate && timing.rate <= rate);
}

/* Second rule: a round with more clocks than the estimate counts at once, so that a worker gets out of a
 * slow regime; the estimate itself follows slowly. */
static void a_leap_counts_at_once(void **state)
{
    (void)state;
    struct timing timing;
    timing_init(&timing);
    assert_int_equal(timing_round(&timing, 300), 300 + poisson_quantile(600, 0.9999));
    assert_true(fabs(timing.rate - 39) < 1e-9);
    assert_int_equal(timing_round(&timing, 301), 301 + poisson_quantile(2 * 35.2, 0.9999));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_quantile_is_that_of_the_distribution),
        cmocka_unit_test(the_quantile_has_known_values),
        cmocka_unit_test(the_quantile_holds_for_great_rates),
        cmocka_unit_test(it_is_algorithm_1),
        cmocka_unit_test(the_first_estimate_is_ten_clocks),
        cmocka_unit_test(a_pause_changes_no_estimate),
        cmocka_unit_test(a_leap_counts_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
