/* test_rica - the gradient is that of the objective, and a step is the minimum that it says. */
#include "support/check.h"

#include <math.h>

#include "common/rng.h"
#include "rica/rica.h"
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

/* ---- Delays ----------------------------------------------------------------------------------- */

enum { IMAGES = 300, SIDE = 6, PIXELS = SIDE * SIDE, FILTERS = 16, WORKERS = 3, EPOCHS = 5 };

static void add_product(const double *w, double *to)
{
    for (int i = 0; i < PIXELS; i++)
        for (int j = 0; j < PIXELS; j++)
            to[i * PIXELS + j] += w[i] * w[j];
}

/* Images of two bars each, and some noise. */
static struct rica_data make_images(void)
{
    struct rng rng = rng_seed(5, 0);
    struct rica_data data = {
        .n = IMAGES, .p = PIXELS, .x = calloc(IMAGES * PIXELS, sizeof(double))};
    assert_non_null(data.x);
    double squares = 0;
    for (int i = 0; i < IMAGES * PIXELS; i++)
        data.x[i] = 0.1 * (rng_unit(&rng) + rng_unit(&rng) - 1);
    for (int i = 0; i < 2 * IMAGES; i++) {
        const int bar = (int)rng_below(&rng, 2 * SIDE);
        const double height = 2 * rng_unit(&rng) - 1;
        for (int k = 0; k < SIDE; k++)
            data.x[i / 2 * PIXELS + (bar < SIDE ? bar * SIDE + k : k * SIDE + bar - SIDE)] +=
                height;
    }
    for (int i = 0; i < IMAGES * PIXELS; i++)
        squares += data.x[i] * data.x[i];
    for (int i = 0; i < IMAGES * PIXELS; i++)
        data.x[i] /= sqrt(squares / (IMAGES * PIXELS));
    assert_true(rica_prepare(&data));
    return data;
}

/* The filters as each worker sees them in a step: its own as they are, those of others `lag` steps ago. */
static double late[EPOCHS * RICA_STEPS + 1][FILTERS * PIXELS];

static void make_step(const struct rica_data *data, struct rica_space *space, int step, int lag,
                      double *scales)
{
    static double seen[PIXELS * PIXELS];
    memcpy(late[step + 1], late[step], sizeof *late);
    for (int worker = 0; worker < WORKERS; worker++) {
        memset(seen, 0, sizeof seen);
        for (int f = 0; f < FILTERS; f++)
            add_product(late[f % WORKERS == worker ? step : step - lag] + f * PIXELS, seen);
        rica_slopes(data, seen, space);
        for (int f = worker; f < FILTERS; f += WORKERS)
            assert_true(rica_step(data, space, 0.3 / data->largest, 0.03, 10,
                                  late[step + 1] + f * PIXELS, scales + f * PIXELS));
    }
}

/* The objective in the end, if the products of others are always as late as the bound allows. */
static double objective_with(const struct rica_data *data, struct rica_space *space, int delay)
{
    static double scales[FILTERS * PIXELS], products[PIXELS * PIXELS];
    struct rng rng = rng_seed(1, 0);
    for (int i = 0; i < FILTERS * PIXELS; i++) {
        late[0][i] = (2 * rng_unit(&rng) - 1) / sqrt(FILTERS / 3.0);
        scales[i] = 1;
    }
    for (int step = 0; step < EPOCHS * RICA_STEPS; step++) {
        const int done = step % RICA_STEPS, most = done < delay ? done : delay;
        make_step(data, space, step, step < RICA_JOINT_EPOCHS * RICA_STEPS ? 0 : most, scales);
    }
    memset(products, 0, sizeof products);
    double answers = 0;
    for (int f = 0; f < FILTERS; f++) {
        add_product(late[EPOCHS * RICA_STEPS] + f * PIXELS, products);
        answers += rica_answers(data, late[EPOCHS * RICA_STEPS] + f * PIXELS);
    }
    return rica_loss(data, products) + 0.03 * answers;
}

static void what_others_do_late_costs_at_most_one_percent(void **state)
{
    struct rica_data data = make_images();
    struct rica_space space;
    (void)state;
    assert_true(rica_space_init(&space, &data));
    const double at_once = objective_with(&data, &space, 0);
    for (int delay = 1; delay <= 4; delay *= 2) {
        const double objective = objective_with(&data, &space, delay);
        print_message("delay %d: %+.2f %%\n", delay, 100 * (objective / at_once - 1));
        assert_true(fabs(objective / at_once - 1) < 0.01);
    }
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
        cmocka_unit_test(what_others_do_late_costs_at_most_one_percent),
        cmocka_unit_test(widths),
    };
    return cmocka_run_group_tests_name("rica", tests, NULL, NULL);
}
