/*
 * What a table costs beyond its raw values, by the process's resident memory: at most 5 % for a dense
 * table, at most 10 % for a sparse one, of a million rows of 128 f32 that are all written.
 */
#include "support/check.h"

enum { N_KEYS = 1000000, LENGTH = 128, BATCH = 1000 };

static void write_all_rows(struct place *place, struct tern_table *table, enum tern_index index)
{
    static uint64_t keys[BATCH];
    static float values[BATCH * LENGTH];
    element_fill(TERN_F32, values, COUNT(values), 1);
    for (uint64_t done = 0; done < N_KEYS; done += BATCH) {
        for (uint64_t i = 0; i < BATCH; i++)
            keys[i] = index == TERN_DENSE ? done + i : scattered(done + i);
        ok(tern_push(place->worker, table, keys, BATCH, values));
    }
}

static void check_cost(struct place *place, enum tern_index index, double most)
{
#ifdef UNDER_SANITIZER
    (void)place;
    (void)index;
    (void)most;
    (void)write_all_rows;
    skip(); /* a sanitizer's own memory is in the measure */
#else
    const double raw = (double)N_KEYS * LENGTH * sizeof(float);
    size_t before = resident_bytes();
    struct tern_table *table =
        table_of(place->node, "large", shape(index, TERN_F32, N_KEYS, LENGTH));
    write_all_rows(place, table, index);
    size_t after = resident_bytes();
    struct tern_table_stats stats = stats_of(table);
    double taken = (double)(after - before);
    print_message("%.1f %% more than the values; by the statistics %.1f %%\n",
                  100 * (taken / raw - 1), 100 * ((double)stats.memory_bytes / raw - 1));
    assert_int_equal(stats.rows, N_KEYS);
    assert_true(taken >= raw);
    assert_true(taken <= raw * (1 + most));
    /* And the statistics say so: within 2 % of the values. */
    assert_true((double)stats.memory_bytes >= taken - 0.02 * raw);
    assert_true((double)stats.memory_bytes <= taken + 0.02 * raw);
    ok(tern_table_close(table));
    /* Closing gives it back. */
    assert_true((double)resident_bytes() <= (double)before + 0.01 * raw);
#endif
}

static void a_dense_table_takes_5_percent_more_than_its_values(void **state)
{
    check_cost(*state, TERN_DENSE, 0.05);
}

static void a_sparse_table_takes_10_percent_more_than_its_values(void **state)
{
    check_cost(*state, TERN_SPARSE, 0.10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        placed(a_dense_table_takes_5_percent_more_than_its_values),
        placed(a_sparse_table_takes_10_percent_more_than_its_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
