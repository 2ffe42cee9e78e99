/*
 * When intents are acted on: the quantile of the Poisson distribution against a sum over its whole
 * support, and Algorithm 1 of AdaPM (Section 4.2.2) against a transcription of it; and how long rounds pause.
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

enum { ROUND_NS = 500000 };

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

/* Where all rounds are equally long and the worker advances in each, the horizon is two rounds, and that is Algorithm 1. */
static void it_is_algorithm_1_in_even_rounds(void **state)
{
    (void)state;
    struct dice dice = {11};
    for (int worker = 0; worker < 20; worker++) {
        struct timing timing = {0};
        uint64_t clock = 1 + dice_below(&dice, 40), now_ns = ROUND_NS;
        timing_round(&timing, 0, now_ns, 2 * ROUND_NS);
        timing_round(&timing, clock, now_ns += ROUND_NS, 2 * ROUND_NS);
        struct algorithm algorithm = {.estimate = (double)clock, .clock = clock};
        for (int round = 0; round < 400; round++) {
            /* Steady progress, and leaps. */
            clock += 1 + (dice_below(&dice, 10) ? dice_below(&dice, 40) : dice_below(&dice, 2000));
            uint64_t until = timing_round(&timing, clock, now_ns += ROUND_NS, 2 * ROUND_NS);
            double estimate = 0;
            assert_true(until > clock);
            assert_true(acts(&algorithm, clock, until - 2, &estimate));
            assert_false(acts(&algorithm, clock, until + 1, &estimate));
            algorithm = (struct algorithm){estimate, clock};
            assert_true(fabs(timing.rate * ROUND_NS - estimate) <= 1e-9 * estimate);
        }
    }
}

static void the_first_estimate_is_ten_clocks_a_round(void **state)
{
    (void)state;
    struct timing timing = {0};
    assert_int_equal(timing_round(&timing, 0, 1, ROUND_NS), poisson_quantile(20, 0.9999));
}

/* First rule: a worker that pauses keeps its estimate, also when it goes on. */
static void a_pause_changes_no_estimate(void **state)
{
    (void)state;
    struct timing timing = {0};
    uint64_t now_ns = 1;
    for (uint64_t clock = 0; clock < 5000; clock += 50)
        timing_round(&timing, clock, now_ns += ROUND_NS, 2 * ROUND_NS);
    double rate = timing.rate;
    assert_true(fabs(rate * ROUND_NS - 50) < 0.1);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(timing_round(&timing, 4950, now_ns += ROUND_NS, 2 * ROUND_NS),
                         4950 + poisson_quantile(2 * rate * ROUND_NS, 0.9999));
    timing_round(&timing, 4951, now_ns += ROUND_NS, 2 * ROUND_NS);
    assert_true(timing.rate >= rate && timing.rate <= rate);
}

/* Second rule: a round with more clocks than the estimate counts at once, so that a worker gets out of a
 * slow regime; the estimate itself follows slowly. */
static void a_leap_counts_at_once(void **state)
{
    (void)state;
    struct timing timing = {0};
    uint64_t now_ns = 1;
    for (uint64_t clock = 0; clock <= 100; clock += 10)
        timing_round(&timing, clock, now_ns += ROUND_NS, 2 * ROUND_NS);
    uint64_t until = timing_round(&timing, 400, now_ns += ROUND_NS, 2 * ROUND_NS);
    assert_true(until + 1 >= 400 + poisson_quantile(600, 0.9999));
    assert_true(fabs(timing.rate * ROUND_NS - 39) < 1e-6);
}

/* The rounds of one worker may be of any length: only the time counts. */
static void uneven_rounds_make_no_difference(void **state)
{
    (void)state;
    struct timing timing = {0};
    struct dice dice = {5};
    uint64_t now_ns = 1, clock = 0;
    for (int i = 0; i < 2000; i++) {
        const uint64_t steps = 1 + dice_below(&dice, i % 7 ? 4 : 400);
        now_ns += steps * 100000;
        timing_round(&timing, clock += steps, now_ns, ROUND_NS);
    }
    assert_true(fabs(timing.rate - 1e-5) < 1e-8);
    assert_int_equal(timing_duration_ns(&timing, 100) / 100000, 100);
}

/* ---- Pauses -------------------------------------------------------------------------------------- */

static void a_pause_follows_the_need(void **state)
{
    (void)state;
    const uint64_t ms = 1000000;
    struct pace pace = {0};
    pace_plan(&pace, UINT64_MAX, UINT64_MAX, 0);
    const uint64_t longest = pace.pause_ns;
    for (uint64_t ahead_ns = ms / 10; ahead_ns < 100 * ms; ahead_ns *= 2) {
        pace_plan(&pace, ahead_ns, 10 * ms, 0);
        assert_true(pace.pause_ns <= longest && pace.pause_ns <= 10 * ms / 4);
        assert_true(pace.pause_ns <= ahead_ns / 2);
    }
    pace_plan(&pace, 100 * ms, 2 * ms, 0);
    assert_true(pace.pause_ns <= ms);
    pace_plan(&pace, ms, 2 * ms, 7 * ms);
    assert_int_equal(pace.pause_ns, 7 * ms);
}

/* A peer that answers late makes the horizon long at once, and it is forgotten slowly. */
static void the_horizon_covers_the_slowest_round_of_late(void **state)
{
    (void)state;
    const uint64_t ms = 1000000;
    struct pace pace = {0};
    pace_plan(&pace, 100 * ms, 4 * ms, 0);
    for (uint64_t i = 0; i < 100; i++)
        pace_note(&pace, i * ms, i * ms + ms / 10);
    assert_int_equal(pace_horizon_ns(&pace, 0), 2 * ms);
    pace_note(&pace, 200 * ms, 208 * ms);
    for (uint64_t i = 0; i < 20; i++) {
        assert_true(pace_horizon_ns(&pace, 0) > 10 * ms);
        pace_note(&pace, (300 + i) * ms, (300 + i) * ms + ms / 10);
    }
    for (uint64_t i = 0; i < 1000; i++)
        pace_note(&pace, (400 + i) * ms, (400 + i) * ms + ms / 10);
    assert_int_equal(pace_horizon_ns(&pace, 0), 2 * ms);
    assert_true(pace_horizon_ns(&pace, 50 * ms) >= 50 * ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_quantile_is_that_of_the_distribution),
        cmocka_unit_test(the_quantile_has_known_values),
        cmocka_unit_test(the_quantile_holds_for_great_rates),
        cmocka_unit_test(it_is_algorithm_1_in_even_rounds),
        cmocka_unit_test(the_first_estimate_is_ten_clocks_a_round),
        cmocka_unit_test(a_pause_changes_no_estimate),
        cmocka_unit_test(a_leap_counts_at_once),
        cmocka_unit_test(uneven_rounds_make_no_difference),
        cmocka_unit_test(a_pause_follows_the_need),
        cmocka_unit_test(the_horizon_covers_the_slowest_round_of_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
