/* The cost model finds the costs that measurements were made with, and time and bytes of predicted clusters follow from their
 * workload. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rand.h"
#include "sim/cost.h"
#include "sim/timeline.h"

#include "tern/sim.h"

/* ---- The model -------------------------------------------------------------------------------- */

static const struct tern_sim_costs truth = {{[TERN_COST_ROUND] = 900,
                                             [TERN_COST_PEER] = 12,
                                             [TERN_COST_MESSAGE] = 450,
                                             [TERN_COST_ROW] = 80}};

/* A measurement of random amounts, of which every tenth was interrupted if that is wanted. */
static struct cost_sample sample_of(uint64_t i, bool is_disturbed)
{
    static const enum tern_sim_cost kinds[] = {TERN_COST_ROUND, TERN_COST_PEER, TERN_COST_MESSAGE,
                                               TERN_COST_ROW};
    struct cost_sample sample = {.ns = 0};
    for (size_t k = 0; k < 4; k++) {
        sample.amounts[kinds[k]] = (float)rand_below(rand_at(1, 4 * i + k), 10 * k + 2);
        sample.ns += sample.amounts[kinds[k]] * (float)truth.ns[kinds[k]];
    }
    sample.ns += is_disturbed && i % 10 == 0 ? 4e6F : 0;
    return sample;
}

static void fit_and_compare(bool is_disturbed)
{
    struct cost_samples samples = {0};
    struct tern_sim_costs found = {{[TERN_COST_STEP] = 7}};
    for (uint64_t i = 0; i < 1000; i++) {
        const struct cost_sample sample = sample_of(i, is_disturbed);
        assert_true(cost_samples_add(&samples, &sample));
    }
    cost_fit(&samples, &found);
    for (int i = 0; i < TERN_SIM_COSTS; i++)
        if (truth.ns[i] > 0)
            assert_true(found.ns[i] > 0.98 * truth.ns[i] && found.ns[i] < 1.02 * truth.ns[i]);
    assert_true(found.ns[TERN_COST_STEP] == 7); /* it did not occur */
    cost_samples_free(&samples);
}

static void costs_are_found(void **state)
{
    (void)state;
    fit_and_compare(false);
}

static void interruptions_do_not_count(void **state)
{
    (void)state;
    fit_and_compare(true);
}

/* Rows are said to take less time the more there are of them, which no cost of a row can explain. */
static void no_cost_is_negative(void **state)
{
    (void)state;
    struct cost_samples samples = {0};
    struct tern_sim_costs found = {{0}};
    for (int i = 1; i < 100; i++) {
        struct cost_sample sample = {.ns = (float)(1000 - 5 * i)};
        sample.amounts[TERN_COST_MESSAGE] = 1;
        sample.amounts[TERN_COST_ROW] = (float)i;
        assert_true(cost_samples_add(&samples, &sample));
    }
    cost_fit(&samples, &found);
    assert_true(found.ns[TERN_COST_ROW] >= 0 && found.ns[TERN_COST_MESSAGE] > 0);
    cost_samples_free(&samples);
}

/* ---- Links and cores -------------------------------------------------------------------------- */

static const struct tern_sim_workload shared = {
    .n_nodes = 4, .n_cores = 2, .slice_ns = 1000, .ns_per_byte = 2, .delay_ns = 500};

static void letters_queue_on_links(void **state)
{
    (void)state;
    struct timeline timeline;
    struct timeline_event event;
    static const uint8_t bytes[100];
    assert_true(timeline_init(&timeline, &shared));
    for (uint32_t to = 1; to < 3; to++)
        timeline_send(&timeline, &(struct letter){.from = 0, .to = to, .n = sizeof bytes}, bytes,
                      0);
    uint64_t arrived_ns[2];
    for (int i = 0; i < 2; i++) {
        assert_true(timeline_next(&timeline, &event));
        arrived_ns[i] = event.at_ns;
        free(event.letter);
    }
    assert_int_equal(arrived_ns[0], 2 * 166 + 500); /* with the header of a packet */
    assert_int_equal(arrived_ns[1], 4 * 166 + 500);
    assert_false(timeline_next(&timeline, &event));
    timeline_fini(&timeline);
}

/* Two nodes share each core: each gets half of it, and one of them has it at any time. */
static void nodes_take_turns(void **state)
{
    (void)state;
    struct timeline timeline;
    assert_true(timeline_init(&timeline, &shared));
    for (uint32_t node = 0; node < 4; node++) {
        const uint64_t done_ns = timeline_done_ns(&timeline, node, 0, 100000);
        assert_true(done_ns > 198000 && done_ns <= 202000);
    }
    for (uint64_t at_ns = 0; at_ns < 10000; at_ns += 100) {
        uint64_t since_ns = 0;
        const bool has = timeline_has_core(&timeline, 0, at_ns, &since_ns);
        assert_int_not_equal(has, timeline_has_core(&timeline, 2, at_ns, &since_ns));
        assert_true(since_ns <= at_ns && at_ns - since_ns <= 1000);
    }
    timeline_fini(&timeline);
}

/* ---- Predictions ------------------------------------------------------------------------------ */

enum { N_KEYS = 2000, BATCH = 10 };

static void draw(void *context, uint32_t worker, uint64_t step, uint64_t *keys)
{
    (void)context;
    for (uint64_t i = 0; i < BATCH; i++) /* some keys of all workers, and others */
        keys[i] = rand_below(rand_at(worker, step * BATCH + i), i < 2 ? 20 : N_KEYS);
}

static struct tern_sim_workload workload_of(uint32_t n_nodes, const char *policy)
{
    struct tern_sim_workload workload = {.struct_size = sizeof workload,
                                         .n_nodes = n_nodes,
                                         .policy = policy,
                                         .n_keys = N_KEYS,
                                         .length = 8,
                                         .batch = BATCH,
                                         .ahead = 20,
                                         .compute_ns = 50000,
                                         .delay_ns = 20000,
                                         .ns_per_byte = 1,
                                         .n_warm_up = 200,
                                         .n_steps = 400,
                                         .costs = truth,
                                         .draw = draw};
    workload.costs.ns[TERN_COST_STEP] = 2000;
    workload.costs.ns[TERN_COST_LOOK] = 200;
    return workload;
}

static struct tern_sim_prediction predict(const struct tern_sim_workload *workload)
{
    struct tern_sim_prediction prediction = {.struct_size = sizeof prediction};
    const enum tern_status status = tern_sim_predict(workload, &prediction);
    if (status)
        fail_msg("%s", tern_error());
    return prediction;
}

static void one_node_takes_its_steps(void **state)
{
    (void)state;
    const struct tern_sim_workload workload = workload_of(1, "adaptive");
    const struct tern_sim_prediction one = predict(&workload);
    assert_true(one.steps_s > 0.95 * 1e9 / 52000 && one.steps_s <= 1e9 / 52000);
    assert_true(one.bytes == 0 && one.remote_share == 0);
}

static void same_workload_same_prediction(void **state)
{
    (void)state;
    const struct tern_sim_workload workload = workload_of(5, "adaptive");
    const struct tern_sim_prediction first = predict(&workload), second = predict(&workload);
    assert_memory_equal(&first, &second, sizeof first);
    assert_true(first.bytes > 0 && first.steps_s > 0);
}

/* The time of a step is spent on what the prediction says. */
static void parts_make_a_step(void **state)
{
    (void)state;
    const struct tern_sim_workload workload = workload_of(4, "adaptive");
    const struct tern_sim_prediction of = predict(&workload);
    const double sum_ns = of.step_ns + of.rounds_ns + of.transfer_ns + of.wait_ns;
    assert_true(sum_ns > 0.97 * 4e9 / of.steps_s && sum_ns < 1.03 * 4e9 / of.steps_s);
}

/* Most accesses of `static` wait for another node, which intent saves. */
static void intent_saves_waits(void **state)
{
    (void)state;
    const struct tern_sim_workload adaptive = workload_of(4, "adaptive"),
                                   fixed = workload_of(4, "static");
    const struct tern_sim_prediction a = predict(&adaptive), f = predict(&fixed);
    assert_true(f.remote_share > 0.7 && f.remote_share < 0.8); /* three keys of four */
    assert_true(a.remote_share < 0.01);
    assert_true(a.wait_ns < f.wait_ns && a.steps_s > f.steps_s);
}

static void sparse_tables_and_shared_cores(void **state)
{
    (void)state;
    struct tern_sim_workload workload = workload_of(6, "adaptive");
    workload.is_sparse = true;
    workload.n_cores = 2;
    workload.slice_ns = 1000000;
    const struct tern_sim_prediction of = predict(&workload);
    assert_true(of.steps_s < 2e9 / 52000); /* two cores do no more */
    assert_true(of.bytes > 0);
}

static void wrong_workloads_are_refused(void **state)
{
    (void)state;
    struct tern_sim_prediction prediction = {.struct_size = sizeof prediction};
    struct tern_sim_workload wrong = workload_of(2, "ssp:1");
    assert_int_equal(tern_sim_predict(&wrong, &prediction), TERN_INVALID);
    assert_non_null(strstr(tern_error(), "'ssp:1'"));
    wrong = workload_of(2, "nothing");
    assert_int_equal(tern_sim_predict(&wrong, &prediction), TERN_INVALID);
    wrong = workload_of(TERN_SIM_COST_MAX_NODES + 1, "adaptive");
    assert_int_equal(tern_sim_predict(&wrong, &prediction), TERN_LIMIT);
    wrong = workload_of(3, "adaptive");
    wrong.n_cores = 1;
    assert_int_equal(tern_sim_predict(&wrong, &prediction), TERN_INVALID);
    assert_int_equal(tern_sim_predict(NULL, &prediction), TERN_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_found),
        cmocka_unit_test(interruptions_do_not_count),
        cmocka_unit_test(no_cost_is_negative),
        cmocka_unit_test(letters_queue_on_links),
        cmocka_unit_test(nodes_take_turns),
        cmocka_unit_test(one_node_takes_its_steps),
        cmocka_unit_test(same_workload_same_prediction),
        cmocka_unit_test(parts_make_a_step),
        cmocka_unit_test(intent_saves_waits),
        cmocka_unit_test(sparse_tables_and_shared_cores),
        cmocka_unit_test(wrong_workloads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
