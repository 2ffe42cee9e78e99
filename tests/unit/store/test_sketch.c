/*
 * Sketches: estimates are never too low and rarely much too high, counters stop at the largest number, and the heaviest keys are
 * found, each with an error that covers the difference to its true count.
 */
#include <math.h>
#include <pthread.h>

#include "support/alloc.h"
#include "support/check.h"

#undef fail /* cmocka's; status.h has another */
#include "store/store.h"

enum { N_KEYS = 20000, N_DRAWS = 400000, N_THREADS = 4, AT_ONCE = 500 };

static struct sketch *sketch_of(enum tern_type type, struct tern_sketch size)
{
    const struct tern_table_options options = {
        .index = TERN_SKETCH, .type = type, .length = 1, .sketch = size};
    const uint64_t bytes = (sketch_bytes(&options) + 63) / 64 * 64;
    struct sketch *sketch = aligned_alloc(64, bytes);
    assert_non_null(sketch);
    memset(sketch, 0, bytes);
    sketch_init(sketch, &options, 7);
    return sketch;
}

/* The keys of a text whose words occur by Zipf's law: about as many of each as 1 / rank. */
static uint64_t draw(uint64_t i)
{
    const double u = (double)(hash_u64(i + 1) >> 11) * 0x1p-53;
    return (uint64_t)(exp(u * log(N_KEYS)));
}

static uint64_t spread(uint64_t key)
{
    return key * UINT64_C(0x9e3779b97f4a7c15);
}

/* Counts the draws first, first + step, ... */
static void count_draws(struct sketch *sketch, uint64_t first, uint64_t step)
{
    uint64_t keys[AT_ONCE];
    int64_t wide[AT_ONCE];
    int32_t narrow[AT_ONCE];
    for (size_t i = 0; i < AT_ONCE; i++)
        wide[i] = narrow[i] = 1;
    for (uint64_t i = first; i < N_DRAWS;) {
        size_t n = 0;
        for (; n < AT_ONCE && i < N_DRAWS; i += step)
            keys[n++] = spread(draw(i));
        assert_true(sketch_add(sketch, keys, n, sketch->is_wide ? (void *)wide : narrow,
                               step == 1 && first == 0, NULL));
    }
}

static void count_truth(uint64_t *truth)
{
    memset(truth, 0, (N_KEYS + 1) * sizeof *truth);
    for (uint64_t i = 0; i < N_DRAWS; i++)
        truth[draw(i)]++;
}

static uint64_t estimate_of(const struct sketch *sketch, uint64_t key)
{
    uint64_t estimate = 0;
    sketch_estimate(sketch, &key, 1, &estimate);
    return estimate;
}

/* The sum of how much too high the estimates are. None is too low, and at most a share of delta more than epsilon of all. */
static uint64_t check_estimates(const struct sketch *sketch, double epsilon, double delta)
{
    static uint64_t truth[N_KEYS + 1];
    uint64_t excess = 0, n_far = 0, n = 0;
    count_truth(truth);
    for (uint64_t key = 1; key <= N_KEYS; key++) {
        const uint64_t estimate = estimate_of(sketch, spread(key));
        assert_true(estimate >= truth[key]);
        excess += estimate - truth[key];
        n_far += (double)(estimate - truth[key]) > epsilon * N_DRAWS;
        n++;
    }
    assert_true((double)n_far <= delta * (double)n);
    return excess;
}

static void estimates_keep_epsilon_and_delta(void **state)
{
    (void)state;
    static const double epsilons[] = {0.01, 0.001, 0.0002}, deltas[] = {0.2, 0.05, 0.01};
    for (size_t i = 0; i < COUNT(epsilons); i++) {
        struct tern_sketch size = {.epsilon = epsilons[i], .delta = deltas[i]};
        uint64_t excess[2];
        for (int conservative = 0; conservative < 2; conservative++) {
            size.conservative = conservative;
            struct sketch *sketch = sketch_of(conservative ? TERN_I32 : TERN_I64, size);
            count_draws(sketch, 0, 1);
            excess[conservative] = check_estimates(sketch, epsilons[i], deltas[i]);
            free(sketch);
        }
        assert_true(excess[1] <= excess[0]);
    }
}

struct counting {
    struct sketch *sketch;
    uint64_t first;
};

static void *count_part(void *arg)
{
    const struct counting *counting = arg;
    count_draws(counting->sketch, counting->first, N_THREADS);
    return NULL;
}

static void threads_lose_no_count(void **state)
{
    (void)state;
    for (int conservative = 0; conservative < 2; conservative++) {
        struct sketch *sketch = sketch_of(
            TERN_I32,
            (struct tern_sketch){
                .width = 3000, .depth = 3, .counters = 500, .conservative = conservative});
        pthread_t threads[N_THREADS];
        struct counting countings[N_THREADS];
        for (uint64_t i = 0; i < N_THREADS; i++) {
            countings[i] = (struct counting){sketch, i + 1};
            assert_int_equal(pthread_create(&threads[i], NULL, count_part, &countings[i]), 0);
        }
        for (int i = 0; i < N_THREADS; i++)
            pthread_join(threads[i], NULL);
        const uint64_t first = spread(draw(0));
        const int32_t one = 1;
        assert_true(sketch_add(sketch, &first, 1, &one, false, NULL));
        check_estimates(sketch, 1, 1);
        free(sketch);
    }
}

static void cells_stop_at_the_largest_number(void **state)
{
    (void)state;
    struct sketch *narrow = sketch_of(TERN_I32, (struct tern_sketch){.width = 10, .depth = 2});
    struct sketch *wide = sketch_of(TERN_I64, (struct tern_sketch){.width = 10, .depth = 2});
    const uint64_t key = 5;
    for (int i = 0; i < 6; i++) {
        const int32_t half = INT32_MAX / 2;
        const int64_t long_half = INT64_MAX / 2;
        const bool alone = i % 2;
        assert_true(sketch_add(narrow, &key, 1, &half, alone, NULL));
        assert_true(sketch_add(wide, &key, 1, &long_half, alone, NULL));
    }
    assert_int_equal(estimate_of(narrow, key), INT32_MAX);
    assert_int_equal(estimate_of(wide, key), INT64_MAX);
    free(narrow);
    free(wide);
}

static void the_heaviest_keys_are_found_with_their_errors(void **state)
{
    (void)state;
    enum { COUNTERS = 2000, WANTED = 100 };
    static uint64_t truth[N_KEYS + 1];
    static struct top_counter found[COUNTERS];
    struct sketch *sketch =
        sketch_of(TERN_I64, (struct tern_sketch){.width = 4000, .depth = 3, .counters = COUNTERS});
    count_draws(sketch, 0, 1);
    count_truth(truth);
    size_t n;
    assert_true(sketch_heaviest(sketch, COUNTERS, found, &n, NULL));
    assert_int_equal(n, COUNTERS);
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const uint64_t key = found[i].key * UINT64_C(0xf1de83e19937733d); /* spread back */
        assert_true(key >= 1 && key <= N_KEYS);
        assert_true(found[i].count >= truth[key] && found[i].least <= truth[key]);
        assert_true(!i || found[i].count <= found[i - 1].count);
        least = i < WANTED && truth[key] < least ? truth[key] : least;
    }
    size_t n_heavier = 0;
    for (uint64_t key = 1; key <= N_KEYS; key++)
        n_heavier += truth[key] > least;
    assert_true(n_heavier < WANTED); /* so the first hundred are the true ones */
    assert_true(sketch_heaviest(sketch, 7, found, &n, NULL));
    assert_int_equal(n, 7);
    free(sketch);
}

static void few_keys_are_counted_exactly(void **state)
{
    (void)state;
    struct sketch *sketch =
        sketch_of(TERN_I64, (struct tern_sketch){.width = 1, .depth = 1, .counters = 8});
    const uint64_t keys[] = {0, 1, UINT64_MAX, 3, 0, 3};
    const int64_t counts[] = {5, 1, 9, 2, 1, 0};
    struct top_counter found[8];
    size_t n;
    assert_true(sketch_add(sketch, keys, COUNT(keys), counts, false, NULL));
    assert_true(sketch_heaviest(sketch, 8, found, &n, NULL));
    assert_int_equal(n, 4);
    static const uint64_t wanted[][2] = {{UINT64_MAX, 9}, {0, 6}, {3, 2}, {1, 1}};
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(found[i].key, wanted[i][0]);
        assert_int_equal(found[i].count, wanted[i][1]);
        assert_int_equal(found[i].least, wanted[i][1]);
    }
    free(sketch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_keep_epsilon_and_delta),
        cmocka_unit_test(threads_lose_no_count),
        cmocka_unit_test(cells_stop_at_the_largest_number),
        cmocka_unit_test(the_heaviest_keys_are_found_with_their_errors),
        cmocka_unit_test(few_keys_are_counted_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
