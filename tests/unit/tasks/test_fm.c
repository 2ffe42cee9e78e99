/* test_fm - factorization machines against their definition: margins, gradients by differences, tiers. */
#include "support/check.h"

#include <math.h>
#include <string.h>

#include "common/sentence.h"
#include "fm/fm_step.h"

enum { N_EXAMPLES = 12, N_FEATURES = 9, PER_EXAMPLE = 5 };

/* A batch whose features have random weights; of feature i, i % 3 tiers. */
struct batch {
    struct fm_options options;
    struct fm_step step;
    struct examples list;
    float labels[N_EXAMPLES], weights[N_EXAMPLES];
    size_t start[N_EXAMPLES + 1];
    uint64_t keys[N_EXAMPLES * PER_EXAMPLE];
    float values[N_EXAMPLES * PER_EXAMPLE];
};

static float draw(struct rng *rng)
{
    return 2 * rng_unit_float(rng) - 1;
}

static void fill_tiers(struct fm_step *step, struct rng *rng)
{
    for (size_t t = 0; t < step->n_tiers; t++) {
        struct fm_vectors *tier = &step->tiers[t];
        tier->n_rows = 0;
        for (size_t i = 0; i < step->features.n_keys; i++) {
            tier->rows[i] = FM_NONE;
            if (step->features.keys[i] % 3 <= t)
                continue;
            for (size_t j = 0; j < tier->n_dims; j++)
                tier->values[tier->n_rows * tier->n_dims + j] = draw(rng);
            tier->features[tier->n_rows] = (uint32_t)i;
            tier->rows[i] = (uint32_t)tier->n_rows++;
        }
    }
}

static void make_batch(struct batch *batch, enum loss_kind loss, struct rng *rng)
{
    *batch = (struct batch){.options = {.loss = loss, .positive_weight = 1}};
    assert_true(fm_read_tiers("3@2,8@5", &batch->options));
    for (size_t i = 0; i < N_EXAMPLES * PER_EXAMPLE; i++) {
        batch->keys[i] = 100 + rng_below(rng, N_FEATURES); /* some occur twice in an example */
        batch->values[i] = draw(rng);
    }
    for (size_t i = 0; i <= N_EXAMPLES; i++)
        batch->start[i] = i * PER_EXAMPLE;
    for (size_t i = 0; i < N_EXAMPLES; i++) {
        batch->labels[i] = rng_below(rng, 2) ? 1 : -1;
        batch->weights[i] = 1 + rng_unit_float(rng);
    }
    batch->list = (struct examples){.n = N_EXAMPLES,
                                    .labels = batch->labels,
                                    .weights = batch->weights,
                                    .start = batch->start,
                                    .keys = batch->keys,
                                    .values = batch->values};
    assert_true(fm_step_init(&batch->step, &batch->options));
    assert_true(fm_step_list(&batch->step, &batch->list, 0, N_EXAMPLES));
    for (size_t i = 0; i < batch->step.features.n_keys; i++)
        batch->step.weights[i] = draw(rng);
    fill_tiers(&batch->step, rng);
}

/* The margin by its definition: each pair of features once. */
static double margin_of(const struct batch *batch, size_t example)
{
    const struct fm_step *step = &batch->step;
    double x[N_EXAMPLES * PER_EXAMPLE] = {0}, margin = 0;
    const size_t n = step->features.n_keys;
    for (size_t i = batch->start[example]; i < batch->start[example + 1]; i++)
        x[step->features.numbers[i]] += (double)batch->values[i];
    for (size_t a = 0; a < n; a++)
        margin += x[a] * (double)step->weights[a];
    for (size_t t = 0; t < step->n_tiers; t++) {
        const struct fm_vectors *tier = &step->tiers[t];
        for (size_t a = 0; a < n; a++)
            for (size_t b = 0; b < a; b++)
                for (size_t j = 0; j < tier->n_dims; j++)
                    if (tier->rows[a] != FM_NONE && tier->rows[b] != FM_NONE)
                        margin += x[a] * x[b] *
                                  (double)tier->values[tier->rows[a] * tier->n_dims + j] *
                                  (double)tier->values[tier->rows[b] * tier->n_dims + j];
    }
    return margin;
}

static double loss_of(const struct batch *batch)
{
    double sum = 0;
    for (size_t i = 0; i < N_EXAMPLES; i++)
        sum += (double)batch->weights[i] *
               loss_value(batch->options.loss, margin_of(batch, i), (double)batch->labels[i]);
    return sum;
}

/* The slope of the loss by one number of the model. */
static double slope_by(const struct batch *batch, float *number)
{
    const float before = *number, h = 1.0f / 256;
    *number = before + h;
    double above = loss_of(batch);
    *number = before - h;
    double below = loss_of(batch);
    *number = before;
    return (above - below) / (2 * (double)h);
}

static void margins_are_sums_over_pairs(void **state)
{
    struct rng rng = rng_seed(1, 0);
    struct batch batch;
    (void)state;
    make_batch(&batch, LOSS_LOGISTIC, &rng);
    fm_step_prepare(&batch.step);
    for (size_t i = 0; i < N_EXAMPLES; i++)
        assert_true(fabs(fm_step_margin(&batch.step, i) - margin_of(&batch, i)) < 1e-5);
    fm_step_fini(&batch.step);
}

static void gradients_are_those_of_differences(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct rng rng = rng_seed(2, (uint64_t)round);
        struct batch batch;
        make_batch(&batch, round % 2 ? LOSS_SQUARED : LOSS_LOGISTIC, &rng);
        double sum = fm_step_learn(&batch.step, &batch.options, &batch.list, 0, &rng);
        assert_true(fabs(sum - loss_of(&batch)) < 1e-4 * fabs(sum));
        for (size_t i = 0; i < batch.step.features.n_keys; i++) {
            const double slope = slope_by(&batch, &batch.step.weights[i]);
            assert_true(fabs(slope - (double)batch.step.slopes[i]) < 2e-3 * (1 + fabs(slope)));
        }
        for (size_t t = 0; t < batch.step.n_tiers; t++) {
            struct fm_vectors *tier = &batch.step.tiers[t];
            for (size_t i = 0; i < tier->n_rows * tier->n_dims; i++) {
                const double slope = slope_by(&batch, &tier->values[i]);
                assert_true(fabs(slope - (double)tier->slopes[i]) < 2e-3 * (1 + fabs(slope)));
            }
        }
        fm_step_fini(&batch.step);
    }
}

/* Shrinkage is added after clipping, so with a bound of almost 0 it is all that is left. */
static void gradients_are_restrained(void **state)
{
    struct rng rng = rng_seed(3, 0);
    struct batch batch;
    (void)state;
    make_batch(&batch, LOSS_LOGISTIC, &rng);
    batch.options.clip = 1e-6;
    batch.options.v_l2 = 0.5;
    (void)fm_step_learn(&batch.step, &batch.options, &batch.list, 0, &rng);
    const struct fm_vectors *tier = &batch.step.tiers[0];
    for (size_t i = 0; i < tier->n_rows * tier->n_dims; i++)
        assert_true(fabsf(tier->slopes[i] - tier->values[i] / 2) < 2e-6f);
    batch.options.clip = 0;
    batch.options.v_l2 = 0;
    batch.options.dropout = 0.5;
    (void)fm_step_learn(&batch.step, &batch.options, &batch.list, 0, &rng);
    size_t n_dropped = 0;
    for (size_t i = 0; i < tier->n_rows * tier->n_dims; i++)
        n_dropped += tier->slopes[i] == 0;
    assert_true(n_dropped > 0 && n_dropped < tier->n_rows * tier->n_dims);
    fm_step_fini(&batch.step);
}

static void tiers_must_rise(void **state)
{
    struct fm_options options;
    (void)state;
    assert_true(fm_read_tiers("8@10,64@1000", &options));
    assert_int_equal(options.n_tiers, 2);
    assert_int_equal(options.tiers[1].n_dims, 56);
    assert_int_equal(options.tiers[1].threshold, 1000);
    assert_true(fm_read_tiers("16", &options) && options.tiers[0].threshold == 0);
    assert_true(fm_read_tiers("0", &options) && options.n_tiers == 0);
    const char *const wrong[] = {"8@10,8@20", "8@10,16@10", "16@10,8@20", "@3", "8@",
                                 "8@x",       "",           "8@1,",       "-1", "2000",
                                 "8@70000",   "1,2,3,4,5",  "8@10;9@11"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(fm_read_tiers(wrong[i], &options));
        assert_non_null(strstr(task_error(), "--dims"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(margins_are_sums_over_pairs),
        cmocka_unit_test(gradients_are_those_of_differences),
        cmocka_unit_test(gradients_are_restrained),
        cmocka_unit_test(tiers_must_rise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
