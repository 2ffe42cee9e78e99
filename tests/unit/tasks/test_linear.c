/* test_linear - the parts of linear models against their definitions: losses, steps, columns and scores. */
#include "support/check.h"

#include <math.h>

#include "common/rng.h"
#include "linear/columns.h"
#include "linear/coordinate.h"
#include "linear/subspace.h"
#include "common/loss.h"
#include "common/scores.h"

static void slopes_are_those_of_the_losses(void **state)
{
    struct rng rng = rng_seed(1, 0);
    (void)state;
    for (int i = 0; i < 4000; i++) {
        enum loss_kind loss = (enum loss_kind)(i % 4);
        double margin = 8 * rng_unit(&rng) - 4, label = rng_below(&rng, 2) ? 1 : -1, h = 1e-6;
        if (fabs(1 - label * margin) < 1e-3)
            continue; /* the corner of the hinge */
        double slope =
            (loss_value(loss, margin + h, label) - loss_value(loss, margin - h, label)) / (2 * h);
        assert_true(fabs(slope - loss_slope(loss, margin, label)) < 1e-6);
        double curvature =
            (loss_slope(loss, margin + h, label) - loss_slope(loss, margin - h, label)) / (2 * h);
        assert_true(fabs(curvature - loss_curvature(loss, margin, label)) < 1e-6);
    }
    assert_true(loss_value(LOSS_LOGISTIC, 1000, -1) == 1000);
    assert_true(loss_value(LOSS_LOGISTIC, 1000, 1) == 0);
}

/* ---- Steps ------------------------------------------------------------------------------------ */

struct row {
    double value[COORDINATE_LENGTH], state[COORDINATE_STATE];
};

static void push(const struct tern_updater *updater, struct row *row, double slope,
                 double curvature)
{
    const double update[COORDINATE_LENGTH] = {slope, curvature};
    updater->apply(updater, TERN_F64, COORDINATE_LENGTH, row->value, row->state, update);
}

static void join(const struct tern_updater *updater, struct row *row, bool is_free)
{
    double update[COORDINATE_LENGTH];
    coordinate_join(is_free, update);
    updater->apply(updater, TERN_F64, COORDINATE_LENGTH, row->value, row->state, update);
}

static double model_of(double slope, double curvature, double l1, double l2, double from, double to)
{
    double d = to - from;
    return slope * d + curvature / 2 * d * d + l1 * fabs(to) + l2 / 2 * to * to;
}

/* No other weight within the radius has a lower value of what the step minimizes. */
static void a_step_minimizes(void **state)
{
    struct rng rng = rng_seed(2, 0);
    (void)state;
    for (int i = 0; i < 500; i++) {
        const double l1 = 3 * rng_unit(&rng), l2 = rng_below(&rng, 2) ? rng_unit(&rng) : 0;
        const double slope = 8 * rng_unit(&rng) - 4, curvature = 4 * rng_unit(&rng);
        const double from = rng_below(&rng, 2) ? 2 * rng_unit(&rng) - 1 : 0;
        const struct tern_updater updater = coordinate_updater(l1, l2, 1);
        struct row row = {.value = {from}};
        join(&updater, &row, false);
        double radius = row.value[COORDINATE_RADIUS];
        push(&updater, &row, slope, curvature);
        const double to = row.value[COORDINATE_WEIGHT];
        const double best = model_of(slope, curvature, l1, l2, from, to);
        assert_true(fabs(to - from) <= radius);
        for (int k = -100; k <= 100; k++)
            assert_true(best <=
                        1e-9 + model_of(slope, curvature, l1, l2, from, from + radius * k / 100));
        assert_true(row.value[COORDINATE_RADIUS] >= 2 * fabs(to - from));
    }
}

static void the_last_of_those_who_joined_makes_the_step(void **state)
{
    const struct tern_updater updater = coordinate_updater(1, 0, 0.1);
    struct row row = {0};
    (void)state;
    for (int i = 0; i < 3; i++)
        join(&updater, &row, false);
    assert_true(row.value[COORDINATE_VIOLATION] == 3);
    push(&updater, &row, -2, 1);
    push(&updater, &row, -1, 2);
    assert_true(row.value[COORDINATE_WEIGHT] == 0);
    push(&updater, &row, -1, 1);
    assert_true(row.value[COORDINATE_WEIGHT] == 0.75); /* (4 - 1) / 4 */
    assert_true(row.value[COORDINATE_VIOLATION] == 1); /* 3, shared by three */
}

static void weights_that_stay_0_become_inactive(void **state)
{
    const struct tern_updater filtered = coordinate_updater(1, 0, 0.1),
                              open = coordinate_updater(1, 0, 1);
    struct row row = {0}, other = {0}, near = {0}, free = {0};
    (void)state;
    join(&filtered, &row, false);
    push(&filtered, &row, 0.5, 1);
    assert_true(row.value[COORDINATE_RADIUS] < 0);
    push(&filtered, &row, 3, 1);
    assert_true(row.value[COORDINATE_RADIUS] > 0 && row.value[COORDINATE_WEIGHT] < 0);
    join(&filtered, &near, false);
    push(&filtered, &near, 0.95, 1);
    assert_true(near.value[COORDINATE_RADIUS] > 0);
    join(&open, &other, false);
    push(&open, &other, 0.5, 1);
    assert_true(other.value[COORDINATE_RADIUS] > 0);
    join(&filtered, &free, true);
    push(&filtered, &free, 0.5, 1);
    assert_true(free.value[COORDINATE_WEIGHT] == -0.5);
}

/* Of slopes -0.98 and -1.4 with l1 1, the first is nearly optimal for a positive weight. */
static void weights_that_are_nearly_optimal_become_inactive(void **state)
{
    const struct tern_updater filtered = coordinate_updater(1, 0, 0.1),
                              open = coordinate_updater(1, 0, 1);
    struct row row = {.value = {2}}, other = {.value = {2}}, small = {.value = {0.1}};
    (void)state;
    join(&filtered, &row, false);
    push(&filtered, &row, -0.98, 1);
    assert_true(row.value[COORDINATE_RADIUS] < 0 && row.value[COORDINATE_WEIGHT] == 1.98);
    push(&filtered, &row, -1.4, 1);
    assert_true(row.value[COORDINATE_RADIUS] > 0);
    join(&filtered, &small, false);
    push(&filtered, &small, -0.98, 1); /* moves by a fifth of itself */
    assert_true(small.value[COORDINATE_RADIUS] > 0);
    join(&open, &other, false);
    push(&open, &other, -0.98, 1);
    assert_true(other.value[COORDINATE_RADIUS] > 0);
}

static void a_weight_can_be_set_between_steps(void **state)
{
    const struct tern_updater updater = coordinate_updater(1, 0, 0.1);
    struct row row = {0};
    double update[COORDINATE_LENGTH];
    (void)state;
    join(&updater, &row, false);
    join(&updater, &row, false);
    for (int i = 0; i < 2; i++) { /* both nodes set it */
        coordinate_set(0.25, update);
        updater.apply(&updater, TERN_F64, COORDINATE_LENGTH, row.value, row.state, update);
        assert_true(row.value[COORDINATE_WEIGHT] == 0.25);
    }
    push(&updater, &row, -3, 2);
    assert_true(row.value[COORDINATE_WEIGHT] == 0.25);
    push(&updater, &row, -2, 2); /* the step is (5 - 1) / 4, no more than the first radius */
    assert_true(fabs(row.value[COORDINATE_WEIGHT] - 1.25) < 1e-12);
}

static void systems_are_solved(void **state)
{
    struct rng rng = rng_seed(5, 0);
    (void)state;
    for (size_t n = 1; n <= SUBSPACE_MAX; n++) {
        double a[SUBSPACE_MAX][SUBSPACE_MAX] = {0}, b[SUBSPACE_MAX], x[SUBSPACE_MAX];
        for (size_t i = 0; i < n; i++) {
            b[i] = rng_unit(&rng) - 0.5;
            for (size_t k = 0; k <= i; k++)
                a[i][k] = a[k][i] = i == k ? (double)(n + i) : rng_unit(&rng) - 0.5;
        }
        assert_true(subspace_solve(n, a, b, x));
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t k = 0; k < n; k++)
                sum += a[i][k] * x[k];
            assert_true(fabs(sum - b[i]) < 1e-7);
        }
        a[0][0] = -1;
        x[0] = 1;
        assert_true(subspace_solve(n, a, b, x) && x[0] == 0); /* a direction without curvature */
    }
}

/* ---- Columns ---------------------------------------------------------------------------------- */

/* Two lists of examples with random features, some of them twice. */
static void make_lists(struct examples lists[2])
{
    struct rng rng = rng_seed(5, 0);
    for (size_t l = 0; l < 2; l++) {
        struct examples *list = &lists[l];
        *list = (struct examples){.n = 50, .n_features = 300};
        list->labels = array_of(50, sizeof(float));
        list->weights = array_of(50, sizeof(float));
        list->start = array_of(51, sizeof(size_t));
        list->keys = array_of(300, sizeof(uint64_t));
        list->values = array_of(300, sizeof(float));
        list->fields = array_of(300, sizeof(uint32_t));
        for (size_t i = 0; i <= 50; i++)
            list->start[i] = 6 * i;
        for (size_t i = 0; i < 300; i++) {
            list->keys[i] = rng_mix(rng_below(&rng, 40));
            list->values[i] = (float)rng_below(&rng, 9) - 4;
        }
    }
}

static void columns_have_every_pair(void **state)
{
    enum { N_BLOCKS = 7 };
    struct examples lists[2];
    struct columns columns;
    double sums[2] = {0}, found[2] = {0};
    (void)state;
    make_lists(lists);
    for (size_t l = 0; l < 2; l++)
        for (size_t i = 0; i < 300; i++)
            sums[l] += (double)lists[l].values[i] * (double)(lists[l].keys[i] % 1000) *
                       (double)(i / 6 + 1);
    assert_true(columns_make(&columns, lists, 2, N_BLOCKS));
    assert_int_equal(columns.n_features, 40);
    for (size_t j = 0; j < columns.n_features; j++)
        assert_int_equal(columns_find(&columns, columns.keys[j]), j);
    assert_int_equal(columns_find(&columns, 12345), columns.n_features);
    assert_int_equal(columns.block_start[N_BLOCKS], columns.n_features);
    for (size_t l = 0; l < 2; l++) {
        const struct slice *slice = &columns.slices[l];
        assert_int_equal(slice->n_rows, 50);
        for (size_t j = 0; j < columns.n_features; j++)
            for (size_t i = slice->start[j]; i < slice->start[j + 1]; i++) {
                assert_true(i == slice->start[j] || slice->rows[i - 1] < slice->rows[i]);
                assert_true(fabsf(slice->values[i]) <= columns.largest[j]);
                found[l] += (double)slice->values[i] * (double)(columns.keys[j] % 1000) *
                            (double)(slice->rows[i] + 1);
            }
        assert_true(found[l] == sums[l]);
    }
    columns_fini(&columns);
}

/* ---- Scores ----------------------------------------------------------------------------------- */

static void scores_are_those_of_their_definitions(void **state)
{
    enum { N = 400 };
    struct rng rng = rng_seed(6, 0);
    struct scores scores;
    double margins[N], labels[N], n_right = 0, n_pairs = 0;
    (void)state;
    assert_true(scores_init(&scores));
    for (int i = 0; i < N; i++) {
        labels[i] = rng_below(&rng, 3) ? -1 : 1;
        margins[i] = floor(20 * (rng_unit(&rng) - 0.5 + labels[i] / 4)) / 4;
        scores_add(&scores, margins[i], labels[i], 1);
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            if (labels[i] > 0 && labels[k] < 0) {
                n_pairs++;
                n_right += margins[i] > margins[k] ? 1 : margins[i] == margins[k] ? 0.5 : 0;
            }
    assert_true(fabs(scores_auc(&scores) - n_right / n_pairs) < 1e-12);
    scores_fini(&scores);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes_are_those_of_the_losses),
        cmocka_unit_test(a_step_minimizes),
        cmocka_unit_test(the_last_of_those_who_joined_makes_the_step),
        cmocka_unit_test(weights_that_stay_0_become_inactive),
        cmocka_unit_test(weights_that_are_nearly_optimal_become_inactive),
        cmocka_unit_test(a_weight_can_be_set_between_steps),
        cmocka_unit_test(systems_are_solved),
        cmocka_unit_test(columns_have_every_pair),
        cmocka_unit_test(scores_are_those_of_their_definitions),
    };
    return cmocka_run_group_tests_name("linear", tests, NULL, NULL);
}
