/* test_rica - the gradient is that of the objective, and a step is the minimum that it says. */
#include "support/check.h"

#include <math.h>

#include "common/rng.h"
#include "rica/rica_files.h"
#include "rica/rica_step.h"

enum { N = 40, P = 6, L = 9 };

static double filters[L * P], gram[P * P];

static struct rica_data make_data(void)
{
    struct rng rng = rng_seed(3, 0);
    struct rica_data data = {.n = N, .p = P, .x = malloc(N * P * sizeof(double))};
    assert_non_null(data.x);
    for (int i = 0; i < N * P; i++)
        data.x[i] = 2 * rng_unit(&rng) - 1;
    for (int i = 0; i < L * P; i++)
        filters[i] = rng_unit(&rng) - 0.5;
    assert_true(rica_prepare(&data));
    return data;
}

static void make_gram(void)
{
    memset(gram, 0, sizeof gram);
    for (int f = 0; f < L; f++)
        for (int i = 0; i < P; i++)
            for (int j = 0; j < P; j++)
                gram[i * P + j] += filters[f * P + i] * filters[f * P + j];
}

/* The sum of |W^T W x - x|^2 / 2, example by example. */
static double reconstruction(const struct rica_data *data)
{
    double sum = 0;
    make_gram();
    for (int i = 0; i < N; i++)
        for (int j = 0; j < P; j++) {
            double made = 0;
            for (int k = 0; k < P; k++)
                made += gram[j * P + k] * data->x[i * P + k];
            const double missing = made - data->x[i * P + j];
            sum += missing * missing / 2;
        }
    return sum;
}

static void the_loss_is_that_of_reconstruction(void **state)
{
    struct rica_data data = make_data();
    (void)state;
    const double expected = reconstruction(&data);
    assert_true(fabs(rica_loss(&data, gram) - expected) < 1e-9 * expected);
    rica_data_fini(&data);
}

static void the_gradient_is_that_of_differences(void **state)
{
    static const double small = 1e-5;
    struct rica_data data = make_data();
    struct rica_space space;
    double gradient[P];
    (void)state;
    assert_true(rica_space_init(&space, &data));
    for (int f = 0; f < L; f++) {
        make_gram();
        rica_slopes(&data, gram, &space);
        rica_gradient(&data, &space, filters + f * P, gradient);
        for (int j = 0; j < P; j++) {
            double *weight = &filters[f * P + j];
            const double before = *weight;
            *weight = before + small;
            const double above = reconstruction(&data);
            *weight = before - small;
            const double below = reconstruction(&data);
            *weight = before;
            assert_true(fabs((above - below) / (2 * small) - gradient[j]) <
                        1e-5 * (1 + fabs(gradient[j])));
        }
    }
    rica_space_fini(&space);
    rica_data_fini(&data);
}

/* What a step minimizes. */
static double value_at(const struct rica_data *data, const double *u, const double *z, double gamma,
                       double lambda)
{
    double sum = 0;
    for (int j = 0; j < P; j++)
        sum += (u[j] - z[j]) * (u[j] - z[j]) / (2 * gamma);
    return sum + lambda * rica_answers(data, u);
}

static void a_step_minimizes(void **state)
{
    struct rica_data data = make_data();
    struct rica_space space;
    struct rng rng = rng_seed(5, 0);
    const double gamma = 0.3 / data.largest, lambda = 0.2;
    double scales[P] = {1, 1, 1, 1, 1, 1}, gradient[P], z[P], w[P];
    (void)state;
    assert_true(rica_space_init(&space, &data));
    make_gram();
    rica_slopes(&data, gram, &space);
    memcpy(w, filters, sizeof w);
    rica_gradient(&data, &space, w, gradient);
    for (int j = 0; j < P; j++)
        z[j] = w[j] - gamma * gradient[j];
    assert_true(rica_step(&data, &space, gamma, lambda, 2000, w, scales));
    const double least = value_at(&data, w, z, gamma, lambda);
    for (int i = 0; i < 2000; i++) {
        double other[P];
        for (int j = 0; j < P; j++)
            other[j] = w[j] + 0.01 * (rng_unit(&rng) - 0.5);
        assert_true(value_at(&data, other, z, gamma, lambda) >= least * (1 - 1e-6));
    }
    for (int j = 0; j < P; j++)
        assert_true(fabs(scales[j] * scales[j] - 1 - (w[j] - filters[j]) * (w[j] - filters[j])) <
                    1e-12);
    rica_space_fini(&space);
    rica_data_fini(&data);
}

static void widths(void **state)
{
    (void)state;
    assert_int_equal(rica_width(64, 0), 8);
    assert_int_equal(rica_width(60, 0), 60);
    assert_int_equal(rica_width(60, 10), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_that_of_reconstruction),
        cmocka_unit_test(the_gradient_is_that_of_differences),
        cmocka_unit_test(a_step_minimizes),
        cmocka_unit_test(widths),
    };
    return cmocka_run_group_tests_name("rica", tests, NULL, NULL);
}
