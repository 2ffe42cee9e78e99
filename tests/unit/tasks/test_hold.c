/*
 * Gradients that are kept back: each is pushed once, and the table counts the delays that the rule promises.
 */
#include "support/check.h"

#include <math.h>

#include "linear/hold.h"

enum { N_GRADIENTS = 4000, MEAN = 40, STEP_OF_64 = 7 }; /* delays[7]: from 64 to 127 */

/* Keeps gradients of 1 back, and checks that the table has got all of them; returns its counts. */
static struct tern_table_stats run(const char *rule_text)
{
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .n_keys = 1,
                                               .length = 2,
                                               .updater = tern_updater_adaptiverevision(0.1, 1e-6),
                                               .policy = "static"};
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *worker;
    struct hold_rule rule;
    struct hold hold;
    const uint64_t key = 0;
    float row[2];
    assert_true(hold_parse(rule_text, &rule));
    assert_int_equal(tern_node_open(NULL, &node), TERN_OK);
    assert_int_equal(tern_table_open(node, "weights", &options, &table), TERN_OK);
    assert_true(hold_init(&hold, rule, node, table, 2, 1));
    for (int i = 0; i < N_GRADIENTS; i++) {
        assert_true(hold_begin(&hold, &worker));
        assert_int_equal(tern_pull(worker, table, &key, 1, row), TERN_OK);
        row[0] = 1;
        assert_true(hold_keep(&hold, &key, 1, row));
    }
    assert_true(hold_end(&hold, true));
    hold_fini(&hold);
    assert_int_equal(tern_worker_open(node, &worker), TERN_OK);
    assert_int_equal(tern_pull(worker, table, &key, 1, row), TERN_OK);
    assert_true(row[1] == (float)N_GRADIENTS); /* the sum of all gradients */
    assert_int_equal(tern_worker_close(worker), TERN_OK);
    assert_int_equal(tern_table_get_stats(table, &stats), TERN_OK);
    assert_int_equal(stats.aged_pushes, N_GRADIENTS);
    assert_int_equal(tern_node_close(node), TERN_OK);
    return stats;
}

static void uniform_delays_have_their_mean(void **state)
{
    (void)state;
    struct tern_table_stats stats = run("uniform:40");
    assert_true(fabs(stats.delay_mean - MEAN) < 3);
    for (size_t i = STEP_OF_64 + 1; i < TERN_DELAY_STEPS; i++)
        assert_int_equal(stats.delays[i], 0);
    stats = run("scaled:40");
    assert_true(fabs(stats.delay_mean - MEAN) < 4);
}

static void half_of_the_workers_is_slow(void **state)
{
    (void)state;
    const struct tern_table_stats stats = run("half-slow:40");
    assert_true(fabs(stats.delay_mean - MEAN) < 2);
    /* Quick workers wait for fewer others, slow ones for more than uniform delays allow. */
    uint64_t n_late = 0;
    for (size_t i = STEP_OF_64; i < TERN_DELAY_STEPS; i++)
        n_late += stats.delays[i];
    assert_true(n_late > N_GRADIENTS / 10 && n_late < N_GRADIENTS / 3);
}

static void other_rules_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",          "uniform",     "uniform:",   "uniform:0",
                                        "scaled:-1", "uniform:1.5", "half-slow:", "half-slow:x",
                                        "never:3",   "uniform:1e9", "scaled:nan", "scaled:3 "};
    struct hold_rule rule;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(hold_parse(wrong[i], &rule));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_delays_have_their_mean),
        cmocka_unit_test(half_of_the_workers_is_slow),
        cmocka_unit_test(other_rules_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
