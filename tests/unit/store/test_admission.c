/*
 * Admission: counters in two bytes per expected key never admit a key late, and hardly ever early.
 */
#include <math.h>
#include <pthread.h>

#include "support/alloc.h"
#include "support/check.h"

#undef fail /* cmocka's; status.h has another */
#include "store/store.h"

static struct admission *admission_of(uint32_t admit, uint64_t expected_keys)
{
    const struct tern_table_options options = {.admit = admit, .expected_keys = expected_keys};
    const uint64_t bytes = (admission_bytes(&options) + 63) / 64 * 64;
    struct admission *admission = aligned_alloc(64, bytes);
    assert_non_null(admission);
    memset(admission, 0, bytes);
    admission_init(admission, &options, 7);
    return admission;
}

static void counters_take_two_bytes_per_expected_key(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 1000000; n *= 10) {
        const struct tern_table_options options = {.admit = 10, .expected_keys = n};
        assert_true(admission_bytes(&options) <= sizeof(struct admission) + 2 * n + 64);
    }
    assert_int_equal(admission_bytes(&(struct tern_table_options){.admit = 0}), 0);
}

static void one_key_is_admitted_exactly_when_it_was_counted_often_enough(void **state)
{
    (void)state;
    static const uint32_t most[] = {1, 2, 13, 14, 15, 16, 253, 254, 255, 256, 1000, 65534};
    for (size_t i = 0; i < COUNT(most); i++) {
        struct admission *admission = admission_of(most[i], 100);
        for (uint32_t n = 1; n <= most[i]; n++)
            assert_false(admission_count(admission, 42, 1, NULL));
        assert_true(admission_count(admission, 42, 1, NULL));
        assert_true(admission_count(admission, 42, UINT32_MAX, NULL));
        free(admission);
        admission = admission_of(most[i], 100);
        assert_false(admission_count(admission, 42, most[i], NULL));
        assert_false(admission_count(admission, 42, 0, NULL));
        assert_true(admission_count(admission, 42, 1, NULL));
        free(admission);
        admission = admission_of(most[i], 100);
        assert_true(admission_count(admission, 42, UINT32_MAX, NULL));
        free(admission);
    }
}

enum { N_KEYS = 1 << 20, N_DRAWS = 5 << 20 };

/* A rank from 0, drawn as often as Zipf's law with exponent 1.1 says. */
static uint32_t draw_rank(struct dice *dice)
{
    const double least = pow(N_KEYS, -0.1);
    return (uint32_t)pow(1 - dice_unit(dice) * (1 - least), -10) - 1;
}

/* Draws as many different keys as expected, or nearly; the share of rows that keys got too early. */
static double share_of_early_rows(uint32_t most, const uint32_t *ranks)
{
    struct admission *admission = admission_of(most, N_KEYS);
    uint32_t *counts = array_of(N_KEYS, sizeof *counts);
    bool *admitted = array_of(N_KEYS, sizeof *admitted);
    uint64_t n_rows = 0, n_early = 0, n_late = 0;
    for (uint32_t i = 0; i < N_DRAWS; i++) {
        const uint32_t rank = ranks[i];
        if (rank >= N_KEYS || admitted[rank])
            continue;
        counts[rank]++;
        admitted[rank] = admission_count(admission, scattered(rank), 1, NULL);
        n_rows += admitted[rank];
        n_early += admitted[rank] && counts[rank] <= most;
        n_late += !admitted[rank] && counts[rank] > most;
    }
    assert_int_equal(n_late, 0);
    assert_true(n_rows > 1000);
    free(admitted);
    free(counts);
    free(admission);
    return (double)n_early / (double)n_rows;
}

static void no_key_is_late_and_few_rows_are_early(void **state)
{
    (void)state;
    static const uint32_t most[] = {1, 2, 3, 5, 10, 20, 100, 300};
    uint32_t *ranks = array_of(N_DRAWS, sizeof *ranks);
    struct dice dice = {1};
    for (size_t i = 0; i < N_DRAWS; i++)
        ranks[i] = draw_rank(&dice);
    for (size_t i = 0; i < COUNT(most); i++) {
        double early = share_of_early_rows(most[i], ranks);
        print_message("admit %u: %.4f %% of the rows early\n", most[i], 100 * early);
        assert_true(early < 0.01);
    }
    free(ranks);
}

enum { N_THREADS = 4, N_SHARED_KEYS = 64, N_EACH = 500 };

static void *count_all(void *context)
{
    struct admission *admission = context;
    for (uint64_t i = 0; i < N_EACH; i++)
        for (uint64_t key = 0; key < N_SHARED_KEYS; key++)
            admission_count(admission, scattered(key), 1, NULL);
    return NULL;
}

static void threads_lose_no_count(void **state)
{
    (void)state;
    struct admission *admission = admission_of(N_THREADS * N_EACH - 1, 1 << 16);
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_all, admission), 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (uint64_t key = 0; key < N_SHARED_KEYS; key++)
        assert_true(admission_count(admission, scattered(key), 0, NULL));
    assert_int_equal(admission->n_counted, N_THREADS * N_EACH * N_SHARED_KEYS);
    free(admission);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_take_two_bytes_per_expected_key),
        cmocka_unit_test(one_key_is_admitted_exactly_when_it_was_counted_often_enough),
        cmocka_unit_test(no_key_is_late_and_few_rows_are_early),
        cmocka_unit_test(threads_lose_no_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
