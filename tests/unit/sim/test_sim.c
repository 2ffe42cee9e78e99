/* The simulated cluster keeps its promises for hundreds of seeds, and is the same for the same seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tern/sim.h"

/* The sanitizers make each many times as long. A simulation has one thread, so ThreadSanitizer has
 * nothing to find in it that the other builds do not. */
#if defined(__SANITIZE_THREAD__)
enum { SEEDS = 25, SOME_SEEDS = 6, FEW_SEEDS = 5 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 50, SOME_SEEDS = 16, FEW_SEEDS = 20 };
#else
enum { SEEDS = 300, SOME_SEEDS = 100, FEW_SEEDS = 20 };
#endif

enum { STEPS = 30, MOST_SEEDS = 300 };

/* The violation of a seed, and the command that runs it again. */
static void print_violation(const struct tern_sim_options *options,
                            const struct tern_sim_result *result)
{
    static const char *const names[] = {"delay",   "break",  "pause", "partition", "stale",
                                        "restart", "outage", "crash", "freeze",    "leave"};
    char faults[100] = "";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (options->faults >> i & 1)
            snprintf(faults + strlen(faults), sizeof faults - strlen(faults), "%s%s",
                     faults[0] ? "," : "", names[i]);
    print_error("%s\n    to see it again: tern sim --nodes %u --shards %u --steps %u --faults %s "
                "--seeds 1 --seed %ju\n",
                result->violation, (unsigned)options->n_nodes, (unsigned)options->n_shards,
                (unsigned)options->n_steps, faults[0] ? faults : "none",
                (uintmax_t)(options->seed + result->n_seeds - 1));
}

static struct tern_sim_result run(uint32_t n_nodes, uint64_t seed, uint64_t n_seeds,
                                  uint32_t faults)
{
    const struct tern_sim_options options = {.struct_size = sizeof options,
                                             .n_nodes = n_nodes,
                                             .n_steps = STEPS,
                                             .faults = faults,
                                             .seed = seed,
                                             .n_seeds = n_seeds};
    struct tern_sim_result result = {.struct_size = sizeof result};
    assert_int_equal(tern_sim_run(&options, &result), TERN_OK);
    if (result.n_violations)
        print_violation(&options, &result);
    return result;
}

static bool all_fired(const uint64_t *fired)
{
    bool all = true;
    for (int i = 0; i < TERN_SIM_FAULTS; i++)
        all &= fired[i] > 0;
    return all;
}

static void nothing_is_lost_or_done_twice_whatever_goes_wrong(void **state)
{
    (void)state;
    struct tern_sim_result result = run(5, 1, SEEDS, TERN_SIM_ALL);
    assert_int_equal(result.n_violations, 0);
    assert_int_equal(result.n_seeds, SEEDS);
    /* Some faults are rare: few seeds go on until each has occurred. */
    for (uint64_t seed = 1 + SEEDS; !all_fired(result.fired) && seed <= MOST_SEEDS; seed++) {
        const struct tern_sim_result more = run(5, seed, 1, TERN_SIM_ALL);
        assert_int_equal(more.n_violations, 0);
        for (int i = 0; i < TERN_SIM_FAULTS; i++)
            result.fired[i] += more.fired[i];
    }
    assert_true(all_fired(result.fired));
    assert_true(result.n_operations > SEEDS * 5 * 2 * 20);
    assert_true(result.n_checks > result.n_operations);
    assert_true(result.n_failed > 0);
    assert_true(result.n_moves > SEEDS * 50);
    assert_true(result.n_replicas > SEEDS * 50);
    assert_true(result.n_redirected > SEEDS);
    assert_true(result.n_sampled > SEEDS * 50);
    assert_true(result.n_brought > SEEDS * 5);
    assert_true(result.n_postponed > SEEDS * 2);
}

static void keys_are_there_when_they_are_intended(void **state)
{
    (void)state;
    struct tern_sim_result result = run(5, 1, SOME_SEEDS, 0);
    assert_int_equal(result.n_violations, 0);
    assert_int_equal(result.n_failed, 0);
    assert_true(result.n_intended > SOME_SEEDS);
    assert_int_equal(result.n_late, 0);
}

static void nothing_fails_while_nothing_lasts(void **state)
{
    (void)state;
    const uint32_t passing = 1u << TERN_SIM_DELAY | 1u << TERN_SIM_BREAK | 1u << TERN_SIM_PAUSE |
                             1u << TERN_SIM_PARTITION | 1u << TERN_SIM_STALE;
    struct tern_sim_result result = run(4, 1000, SOME_SEEDS, passing);
    assert_int_equal(result.n_violations, 0);
    assert_int_equal(result.n_failed, 0);
}

static void clusters_of_other_sizes_do_the_same(void **state)
{
    (void)state;
    assert_int_equal(run(2, 1, SOME_SEEDS / 2, TERN_SIM_ALL).n_violations, 0);
    assert_int_equal(run(3, 1, SOME_SEEDS / 2, TERN_SIM_ALL).n_violations, 0);
    assert_int_equal(run(16, 1, SOME_SEEDS / 20 + 1, TERN_SIM_ALL).n_violations, 0);
}

static void no_fault_strikes_that_was_not_asked_for(void **state)
{
    (void)state;
    struct tern_sim_result result = run(5, 7, FEW_SEEDS, 1u << TERN_SIM_BREAK);
    assert_int_equal(result.n_violations, 0);
    for (int i = 0; i < TERN_SIM_FAULTS; i++)
        assert_int_equal(result.fired[i] > 0, i == TERN_SIM_BREAK);
}

static void the_same_seed_is_the_same_run(void **state)
{
    (void)state;
    struct tern_sim_result first = run(5, 42, FEW_SEEDS, TERN_SIM_ALL),
                           second = run(5, 42, FEW_SEEDS, TERN_SIM_ALL);
    assert_memory_equal(&first, &second, sizeof first);
}

static void another_seed_is_another_run(void **state)
{
    (void)state;
    uint64_t traces[FEW_SEEDS];
    for (uint64_t i = 0; i < FEW_SEEDS; i++) {
        traces[i] = run(3, i, 1, TERN_SIM_ALL).trace;
        for (uint64_t j = 0; j < i; j++)
            assert_true(traces[i] != traces[j]);
    }
}

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct tern_sim_options options = {
        .struct_size = sizeof options, .n_nodes = 1, .n_steps = 1, .n_seeds = 1};
    struct tern_sim_result result = {.struct_size = sizeof result};
    assert_int_equal(tern_sim_run(&options, &result), TERN_LIMIT);
    assert_non_null(strstr(tern_error(), "1 nodes"));
    options.n_nodes = TERN_SIM_MAX_NODES + 1;
    assert_int_equal(tern_sim_run(&options, &result), TERN_LIMIT);
    options.n_nodes = 2;
    options.faults = TERN_SIM_ALL + 1;
    assert_int_equal(tern_sim_run(&options, &result), TERN_INVALID);
    options.faults = 0;
    options.n_seeds = 0;
    assert_int_equal(tern_sim_run(&options, &result), TERN_INVALID);
    assert_int_equal(tern_sim_run(NULL, &result), TERN_INVALID);
    result.struct_size = 0;
    assert_int_equal(tern_sim_run(&options, &result), TERN_INVALID);
}

int main(void)
{
    /* A thousand small tables: huge pages would only have to be cleared. */
    setenv("TERN_HUGE_PAGES", "off", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_or_done_twice_whatever_goes_wrong),
        cmocka_unit_test(keys_are_there_when_they_are_intended),
        cmocka_unit_test(nothing_fails_while_nothing_lasts),
        cmocka_unit_test(clusters_of_other_sizes_do_the_same),
        cmocka_unit_test(no_fault_strikes_that_was_not_asked_for),
        cmocka_unit_test(the_same_seed_is_the_same_run),
        cmocka_unit_test(another_seed_is_another_run),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
