/* Range vector clocks against a time per node and key, kept one by one. */
#include "core/range_clock.h"

#include "support/check.h"
#include "support/view.h"

enum { NODES = 5, KEYS = 120, STEP = 7 };

/* The keys 0, STEP, 2 * STEP ... stand for all up to the next; the last for all that follow. */
static uint64_t times[NODES][KEYS];

static uint64_t end_key(size_t i)
{
    return i == KEYS ? UINT64_MAX : i * STEP;
}

static void draw_range(struct dice *dice, size_t *begin, size_t *end)
{
    *begin = dice_below(dice, KEYS);
    *end = *begin + 1 + dice_below(dice, KEYS - *begin);
    if (dice_below(dice, 20) == 0) {
        *begin = 0;
        *end = KEYS;
    }
}

static uint64_t least_by_key(uint32_t node, size_t begin, size_t end)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = begin; i < end; i++)
        least = times[node][i] < least ? times[node][i] : least;
    return least;
}

static size_t changes_by_key(uint32_t node)
{
    size_t n = 1;
    for (size_t i = 1; i < KEYS; i++)
        n += times[node][i] != times[node][i - 1];
    return n;
}

static void set_both(struct range_clock *clock, uint32_t node, size_t begin, size_t end,
                     uint64_t time)
{
    size_t before = range_clock_count(clock, node);
    ok(range_clock_reserve(clock, node, 1));
    range_clock_set(clock, node, end_key(begin), end_key(end), time);
    for (size_t i = begin; i < end; i++)
        times[node][i] = time;
    assert_true(range_clock_count(clock, node) <= before + 2);
}

static void agrees_with_a_clock_per_key(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct dice dice = {seed};
        struct range_clock *clock = range_clock_new(view_of(NODES));
        assert_non_null(clock);
        memset(times, 0, sizeof times);
        /* Few different times make neighbours agree often; many, seldom. */
        size_t n_times = 1 + dice_below(&dice, seed % 2 ? 4 : 1000);
        for (int step = 0; step < 2000; step++) {
            uint32_t node = (uint32_t)dice_below(&dice, NODES);
            size_t begin, end;
            draw_range(&dice, &begin, &end);
            set_both(clock, node, begin, end, dice_below(&dice, n_times));
            assert_int_equal(range_clock_count(clock, node), changes_by_key(node));

            draw_range(&dice, &begin, &end);
            uint64_t least_of_all = UINT64_MAX;
            for (uint32_t i = 0; i < NODES; i++) {
                uint64_t least = least_by_key(i, begin, end);
                assert_int_equal(range_clock_least(clock, i, end_key(begin), end_key(end)), least);
                least_of_all = least < least_of_all ? least : least_of_all;
            }
            assert_int_equal(range_clock_least_of_all(clock, end_key(begin), end_key(end)),
                             least_of_all);
        }
        for (uint32_t node = 0; node < NODES; node++)
            for (size_t i = 0; i < KEYS; i++)
                assert_int_equal(range_clock_least(clock, node, end_key(i), end_key(i) + 1),
                                 times[node][i]);
        range_clock_free(clock);
    }
}

/* Messages of increasing time, some of them sent again, as after a broken connection. */
static void a_message_is_seen_exactly_if_it_came_before(void **state)
{
    (void)state;
    enum { MESSAGES = 3000, AGAIN = 40 };
    struct message {
        size_t begin, end;
    } messages[MESSAGES];
    struct dice dice = {7};
    struct range_clock *clock = range_clock_new(view_of(1));
    size_t n_seen = 0;
    for (uint64_t t = 1; t <= MESSAGES; t++) {
        struct message *message = &messages[t - 1];
        draw_range(&dice, &message->begin, &message->end);
        uint64_t begin = end_key(message->begin), end = end_key(message->end);
        assert_false(range_clock_seen(clock, 0, begin, end, t));
        ok(range_clock_reserve(clock, 0, 1));
        range_clock_set(clock, 0, begin, end, t);
        for (uint64_t again = t > AGAIN ? t - AGAIN : 1; again <= t; again++, n_seen++) {
            message = &messages[again - 1];
            assert_true(
                range_clock_seen(clock, 0, end_key(message->begin), end_key(message->end), again));
        }
    }
    assert_true(n_seen > 100000);
    range_clock_free(clock);
}

static void starts_as_one_range_of_time_0(void **state)
{
    (void)state;
    struct range_clock *clock = range_clock_new(view_of(2));
    assert_int_equal(range_clock_count(clock, 1), 1);
    assert_int_equal(range_clock_least_of_all(clock, 0, UINT64_MAX), 0);
    assert_true(range_clock_seen(clock, 0, 5, 6, 0));
    assert_false(range_clock_seen(clock, 0, 5, 6, 1));
    range_clock_free(clock);
}

static void splits_at_both_ends_and_joins_again(void **state)
{
    (void)state;
    struct range_clock *clock = range_clock_new(view_of(1));
    ok(range_clock_reserve(clock, 0, 4));
    range_clock_set(clock, 0, 100, 200, 1);
    assert_int_equal(range_clock_count(clock, 0), 3);
    range_clock_set(clock, 0, 200, 300, 1);
    assert_int_equal(range_clock_count(clock, 0), 3);
    range_clock_set(clock, 0, 150, 250, 2);
    assert_int_equal(range_clock_count(clock, 0), 5);
    range_clock_set(clock, 0, 0, UINT64_MAX, 3);
    assert_int_equal(range_clock_count(clock, 0), 1);
    range_clock_free(clock);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    struct range_clock *clock = range_clock_new(view_of(2));
    uint64_t n_set = 0;
    while (range_clock_reserve(clock, 0, 1) == TERN_OK) {
        range_clock_set(clock, 0, 10 * n_set + 1, 10 * n_set + 2, n_set + 1);
        n_set++;
    }
    refused(range_clock_reserve(clock, 0, 1), TERN_LIMIT, "4096", "fewer different ranges");
    assert_int_equal(n_set, RANGE_CLOCK_MAX / 2 - 1);
    assert_true(range_clock_count(clock, 0) <= RANGE_CLOCK_MAX);
    /* Nothing was lost, and other nodes are not concerned. */
    for (uint64_t i = 0; i < n_set; i++)
        assert_int_equal(range_clock_least(clock, 0, 10 * i + 1, 10 * i + 2), i + 1);
    ok(range_clock_reserve(clock, 1, 100));
    refused(range_clock_reserve(clock, 1, SIZE_MAX), TERN_LIMIT, "4096");
    range_clock_free(clock);
}

/* Times are only ever told too early, and those that are far from their neighbours' stay. */
static void joining_makes_room(void **state)
{
    (void)state;
    struct range_clock *clock = range_clock_new(view_of(1));
    enum { N = 20000, WIDE = 1000000 };
    for (uint64_t i = 0; i < N; i++) {
        range_clock_join(clock, 0, 1);
        ok(range_clock_reserve(clock, 0, 1));
        range_clock_set(clock, 0, i, i + 1, i % 50 == 0 ? WIDE + i : i + 1);
        assert_true(range_clock_count(clock, 0) <= RANGE_CLOCK_MAX);
    }
    uint64_t n_right = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t time = range_clock_least(clock, 0, i, i + 1);
        assert_true(time <= (i % 50 == 0 ? WIDE + i : i + 1));
        n_right += time + 64 >= (i % 50 == 0 ? WIDE + i : i + 1);
    }
    assert_true(n_right > N / 2);
    assert_int_equal(range_clock_least(clock, 0, N, N + 1), 0);
    /* As much as a schedule ever asks for. */
    range_clock_join(clock, 0, TERN_MAX_TASKS);
    ok(range_clock_reserve(clock, 0, TERN_MAX_TASKS));
    range_clock_free(clock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_clock_per_key),
        cmocka_unit_test(a_message_is_seen_exactly_if_it_came_before),
        cmocka_unit_test(starts_as_one_range_of_time_0),
        cmocka_unit_test(splits_at_both_ends_and_joins_again),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(joining_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
