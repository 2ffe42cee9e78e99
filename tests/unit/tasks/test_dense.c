/* test_dense - products, exponentials and AdaGrad agree with the same in double precision. */
#include "support/check.h"

#include <math.h>

#include "common/dense.h"

static float *random_floats(struct dice *dice, size_t n)
{
    float *x = array_of(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(2 * dice_unit(dice) - 1);
    return x;
}

static void close_to(double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        print_error("%.9g is not %.9g\n", got, wanted);
    assert_true(fabs(got - wanted) <= tolerance);
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void vectors(void **state)
{
    struct dice dice = {1};
    (void)state;
    for (size_t n = 0; n < 100; n++) {
        float *a = random_floats(&dice, n), *b = random_floats(&dice, n), *c = array_of(n, 4);
        close_to((double)dense_dot(a, b, n), dot(a, b, n), 1e-5);
        memcpy(c, b, n * sizeof *c);
        dense_axpy(0.5f, a, c, n);
        for (size_t i = 0; i < n; i++)
            close_to((double)c[i], 0.5 * (double)a[i] + (double)b[i], 1e-6);
        for (size_t i = 0; i < n; i++)
            assert_true(dense_largest(a, n) >= a[i]);
        free(a), free(b), free(c);
    }
}

/* Every remainder of the tiles, and more rows and columns than a panel has. */
static void products(void **state)
{
    static const size_t sizes[] = {1, 3, 4, 5, 8, 23, 24, 25, 200};
    struct dice dice = {2};
    (void)state;
    for (size_t x = 0; x < COUNT(sizes); x++) {
        for (size_t y = 0; y < COUNT(sizes); y++) {
            size_t m = sizes[x], n = sizes[y], depth = sizes[(x + y) % COUNT(sizes)] + 1;
            float *a = random_floats(&dice, m * depth), *b = random_floats(&dice, n * depth);
            float *c = random_floats(&dice, m * n), *w = random_floats(&dice, m * n);
            float *sums = array_of(m * depth, 4), *turned = array_of(depth, 4);
            dense_rows_by_rows(a, m, b, n, depth, c);
            for (size_t i = 0; i < m; i++)
                for (size_t j = 0; j < n; j++)
                    close_to((double)c[i * n + j], dot(a + i * depth, b + j * depth, depth), 1e-4);
            memcpy(sums, a, m * depth * sizeof *sums);
            dense_add_weighted(w, b, m, n, depth, sums);
            for (size_t i = 0; i < m; i++) {
                for (size_t k = 0; k < depth; k++) {
                    double wanted = (double)a[i * depth + k];
                    for (size_t j = 0; j < n; j++)
                        wanted += (double)w[i * n + j] * (double)b[j * depth + k];
                    close_to((double)sums[i * depth + k], wanted, 1e-4);
                }
            }
            free(a), free(b), free(c), free(w), free(sums), free(turned);
        }
    }
}

static void exponentials(void **state)
{
    enum { N = 1003 };
    float x[N], y[N];
    double sum = 0, logs = 0;
    (void)state;
    for (size_t i = 0; i < N; i++)
        x[i] = y[i] = (float)i / 6 - 80;
    double total = (double)dense_exp(y, 5, N);
    for (size_t i = 0; i < N; i++) {
        double wanted = exp((double)x[i] - 5);
        close_to((double)y[i] / wanted, 1, 1e-6);
        sum += wanted;
    }
    close_to(total / sum, 1, 1e-5);
    memcpy(y, x, sizeof y);
    total = (double)dense_logistic(y, N);
    for (size_t i = 0; i < N; i++) {
        close_to((double)y[i], 1 / (1 + exp(-(double)x[i])), 1e-6);
        logs += log1p(exp((double)x[i]));
    }
    close_to(total / logs, 1, 1e-5);
    float far[2] = {-1e30f, 1e30f};
    dense_logistic(far, 2);
    close_to((double)far[0], 0, 1e-30);
    close_to((double)far[1], 1, 1e-6);
    memcpy(y, x, sizeof y);
    dense_sigmoid(y, N);
    for (size_t i = 0; i < N; i++)
        close_to((double)y[i], 1 / (1 + exp(-(double)x[i])), 1e-6);
}

static void softplus(void **state)
{
    enum { N = 100003 };
    double *x = array_of(N, sizeof *x), *y = array_of(N, sizeof *y), *p = array_of(N, sizeof *p);
    (void)state;
    for (size_t i = 0; i < N; i++)
        x[i] = y[i] = ((double)i - 50000) / 71;
    x[N - 1] = y[N - 1] = 1e300;
    x[N - 2] = y[N - 2] = 1e-300;
    dense_softplus(y, p, N);
    for (size_t i = 0; i < N; i++) {
        const double value = x[i] > 0 ? x[i] + log1p(exp(-x[i])) : log1p(exp(x[i]));
        const double share = x[i] > 0 ? 1 / (1 + exp(-x[i])) : exp(x[i]) / (1 + exp(x[i]));
        if (x[i] < -700) { /* too little to matter */
            assert_true(y[i] >= 0 && y[i] < 1e-300 && p[i] >= 0 && p[i] < 1e-300);
            continue;
        }
        close_to(y[i] / value, 1, 1e-14);
        close_to(p[i] / share, 1, 1e-14);
    }
    free(x), free(y), free(p);
}

static void adagrad(void **state)
{
    enum { N = 13 };
    struct dice dice = {3};
    float *row = random_floats(&dice, 2 * N), *gradient = random_floats(&dice, N);
    float difference[2 * N];
    (void)state;
    for (size_t i = N; i < 2 * N; i++)
        row[i] = fabsf(row[i]);
    gradient[4] = row[N + 4] = 0;
    dense_adagrad(row, gradient, 0.5f, N, difference);
    for (size_t i = 0; i < N; i++) {
        double g = (double)gradient[i], s = (double)row[N + i] + g * g;
        close_to((double)difference[i], g == 0 ? 0 : -0.5 * g / sqrt(s), 1e-5);
        close_to((double)difference[N + i], g * g, 1e-6);
    }
    free(row), free(gradient);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),  cmocka_unit_test(products), cmocka_unit_test(exponentials),
        cmocka_unit_test(softplus), cmocka_unit_test(adagrad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
