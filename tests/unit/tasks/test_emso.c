/*
 * Minibatches of EMSO: both ways of descent minimize what they promise, gamma holds weights back, and the objective hardly
 * depends on how large the batches are.
 */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linear/emso.h"

enum { N_ROWS = 4000, N_KEYS = 30, N_EACH = 5 };

/* Examples with planted weights; the features of an example are its keys. */
struct data {
    float labels[N_ROWS], weights[N_ROWS], values[N_ROWS * N_EACH];
    size_t start[N_ROWS + 1];
    uint32_t numbers[N_ROWS * N_EACH];
    struct examples list;
};

static struct data *make(enum loss_kind loss)
{
    struct rng rng = rng_seed(3, 0);
    struct data *data = calloc(1, sizeof *data);
    assert_non_null(data);
    for (size_t row = 0; row < N_ROWS; row++) {
        double margin = 0;
        for (size_t i = 0; i < N_EACH; i++) {
            uint32_t j = (uint32_t)(i * (N_KEYS / N_EACH) + rng_below(&rng, N_KEYS / N_EACH));
            float value = 0.5f + rng_unit_float(&rng);
            data->numbers[row * N_EACH + i] = j;
            data->values[row * N_EACH + i] = value;
            margin += (double)value * ((double)(j % 7) - 3) / 3;
        }
        data->labels[row] = loss == LOSS_SQUARED                          ? (float)margin
                            : rng_unit(&rng) < 1 / (1 + exp(-2 * margin)) ? 1
                                                                          : -1;
        data->weights[row] = 1;
        data->start[row + 1] = (row + 1) * N_EACH;
    }
    data->list = (struct examples){.n = N_ROWS,
                                   .labels = data->labels,
                                   .weights = data->weights,
                                   .start = data->start,
                                   .values = data->values};
    return data;
}

static struct emso_batch batch_of(const struct data *data, enum loss_kind loss, size_t first,
                                  size_t end, double *weights)
{
    return (struct emso_batch){.loss = loss,
                               .l1 = 1,
                               .l2 = 0.5,
                               .positive_weight = 1,
                               .free_key = 3,
                               .list = &data->list,
                               .first = first,
                               .end = end,
                               .numbers = data->numbers + first * N_EACH,
                               .n_keys = N_KEYS,
                               .weights = weights};
}

static void both_ways_reach_the_minimum(void **state)
{
    static const enum loss_kind losses[] = {LOSS_LOGISTIC, LOSS_SQUARED, LOSS_SQUARED_HINGE};
    (void)state;
    for (size_t k = 0; k < sizeof losses / sizeof *losses; k++) {
        struct data *data = make(losses[k]);
        struct emso_space space = {0};
        struct rng rng = rng_seed(1, 0);
        double weights[N_KEYS] = {0}, others[N_KEYS] = {0};
        const struct emso_batch batch = batch_of(data, losses[k], 100, 600, weights),
                                other = batch_of(data, losses[k], 100, 600, others);
        assert_true(emso_descend_coordinates(&batch, &space, &rng, 300));
        assert_true(emso_descend_gradient(&other, &space, 2000));
        const double least = emso_value(&batch, &space);
        assert_true(fabs(emso_value(&other, &space) - least) < 1e-5 * least);
        for (size_t j = 0; j < N_KEYS; j++)
            for (int sign = -1; sign <= 1; sign += 2) {
                const double kept = weights[j];
                weights[j] += sign * 1e-3;
                assert_true(emso_value(&batch, &space) >= least - 1e-9 * least);
                weights[j] = kept;
            }
        emso_space_fini(&space);
        free(data);
    }
}

static void gamma_holds_weights_back(void **state)
{
    struct data *data = make(LOSS_LOGISTIC);
    struct emso_space space = {0};
    double last = HUGE_VAL;
    (void)state;
    for (double gamma = 0.1; gamma < 1e6; gamma *= 10) {
        struct rng rng = rng_seed(1, 0);
        double weights[N_KEYS] = {0}, moved = 0;
        struct emso_batch batch = batch_of(data, LOSS_LOGISTIC, 0, 1000, weights);
        batch.gamma = gamma;
        assert_true(emso_descend_coordinates(&batch, &space, &rng, 50));
        for (size_t j = 0; j < N_KEYS; j++)
            moved += weights[j] * weights[j];
        assert_true(moved < last);
        last = moved;
    }
    assert_true(last < 1e-3);
    emso_space_fini(&space);
    free(data);
}

/* The objective over all examples after one pass in batches; n_steps of gradient descent, or with 0 coordinate descent. */
static double one_pass(size_t n_batch, int n_steps)
{
    struct data *data = make(LOSS_LOGISTIC);
    struct emso_space space = {0};
    struct rng rng = rng_seed(1, 0);
    double weights[N_KEYS] = {0};
    for (size_t first = 0; first < N_ROWS; first += n_batch) {
        struct emso_batch batch = batch_of(data, LOSS_LOGISTIC, first, first + n_batch, weights);
        batch.l1 *= (double)n_batch / N_ROWS;
        batch.l2 *= (double)n_batch / N_ROWS;
        batch.gamma = 0.1 * sqrt((double)(first + n_batch));
        assert_true(n_steps > 0 ? emso_descend_gradient(&batch, &space, n_steps)
                                : emso_descend_coordinates(&batch, &space, &rng, EMSO_PASSES));
    }
    const struct emso_batch all = batch_of(data, LOSS_LOGISTIC, 0, N_ROWS, weights);
    const double value = emso_value(&all, &space);
    emso_space_fini(&space);
    free(data);
    return value;
}

static void large_batches_are_used_well(void **state)
{
    const double small = one_pass(40, 0), large = one_pass(N_ROWS, 0);
    const double step = one_pass(N_ROWS, 1), steps = one_pass(N_ROWS, EMSO_STEPS);
    (void)state;
    assert_true(large < 1.05 * small);
    assert_true(step > 1.2 * small); /* one step of gradient descent wastes a large batch */
    assert_true(steps < 1.05 * small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways_reach_the_minimum),
        cmocka_unit_test(gamma_holds_weights_back),
        cmocka_unit_test(large_batches_are_used_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
