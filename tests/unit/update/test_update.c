/*
 * Each updater against its formula in tern.h, written here once more, plainly and in double; and
 * the properties people choose an updater for.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tern/tern.h"

enum { MAX_LENGTH = 32, MAX_STATE = 2 * MAX_LENGTH + 1 };

/* Errors of single steps add up over 1000 pushes; these bound the sum, relative to 1 + |w|. */
static const double tolerances[] = {[TERN_F32] = 2e-5, [TERN_F64] = 1e-13};

static uint64_t random_state = 7;

/* Uniform in [-1, 1). */
static double random_real(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(random_state >> 11) * 0x1p-52 - 1;
}

/* A row of a table: its value and exactly the state that its updater asks for, then a guard. */
struct row {
    struct tern_updater updater;
    enum tern_type type;
    size_t length;
    size_t n_state;
    union {
        float f32[MAX_LENGTH];
        double f64[MAX_LENGTH];
    } value;
    union {
        float f32[MAX_STATE + 1];
        double f64[MAX_STATE + 1];
    } state;
};

static const double guard = 12345;

static double value_of(const struct row *row, size_t i)
{
    return row->type == TERN_F64 ? row->value.f64[i] : (double)row->value.f32[i];
}

static double state_of(const struct row *row, size_t i)
{
    return row->type == TERN_F64 ? row->state.f64[i] : (double)row->state.f32[i];
}

/* What a number is once it has been stored in an element of a type. */
static double as_stored(enum tern_type type, double x)
{
    return type == TERN_F64 ? x : (double)(float)x;
}

static struct row row_of(struct tern_updater updater, enum tern_type type, size_t length,
                         const double *w)
{
    struct row row = {.updater = updater, .type = type, .length = length};
    row.n_state = updater.state_per_element * length + updater.state_per_row;
    assert_true(row.n_state <= MAX_STATE);
    for (size_t i = 0; i < length; i++) {
        if (type == TERN_F64)
            row.value.f64[i] = w[i];
        else
            row.value.f32[i] = (float)w[i];
    }
    if (type == TERN_F64)
        row.state.f64[row.n_state] = guard;
    else
        row.state.f32[row.n_state] = (float)guard;
    if (updater.reset)
        updater.reset(&updater, type, length, &row.value, &row.state);
    return row;
}

static void push(struct row *row, const double *g)
{
    float f32[MAX_LENGTH];
    for (size_t i = 0; i < row->length; i++)
        f32[i] = (float)g[i];
    const void *update = row->type == TERN_F64 ? (const void *)g : f32;
    row->updater.apply(&row->updater, row->type, row->length, &row->value, &row->state, update);
    assert_true(state_of(row, row->n_state) == guard);
}

static void assert_near(double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance * (1 + fabs(expected))))
        fail_msg("%.17g is not within %g of %.17g", got, tolerance, expected);
}

/* One element in double; a and b are the state per element, t counts the pushes. */
struct element {
    double w, a, b, t;
};

typedef void formula_function(const double *p, struct element *e, double g);

static void sgd(const double *p, struct element *e, double g)
{
    e->w -= p[0] * g;
}

static void momentum(const double *p, struct element *e, double g)
{
    e->a = p[1] * e->a + g;
    e->w -= p[0] * e->a;
}

static void adagrad(const double *p, struct element *e, double g)
{
    e->a += g * g;
    e->w -= p[0] * g / (sqrt(e->a) + p[1]);
}

static void adam(const double *p, struct element *e, double g)
{
    e->t += 1;
    e->a = p[1] * e->a + (1 - p[1]) * g;
    e->b = p[2] * e->b + (1 - p[2]) * g * g;
    const double mean = e->a / (1 - pow(p[1], e->t));
    const double square = e->b / (1 - pow(p[2], e->t));
    e->w -= p[0] * mean / (sqrt(square) + p[3]);
}

static void ftrl(const double *p, struct element *e, double g)
{
    const double alpha = p[0], beta = p[1], l1 = p[2], l2 = p[3];
    const double sign_w = e->w > 0 ? 1 : e->w < 0 ? -1 : 0;
    if (e->t == 0)
        e->a = -e->w * (beta / alpha + l2) - sign_w * l1;
    e->t += 1;
    const double s = (sqrt(e->b + g * g) - sqrt(e->b)) / alpha;
    e->a += g - s * e->w;
    e->b += g * g;
    const double sign_z = e->a > 0 ? 1 : -1;
    e->w = fabs(e->a) <= l1 ? 0 : -(e->a - sign_z * l1) / ((beta + sqrt(e->b)) / alpha + l2);
}

static void check_formula(struct tern_updater updater, formula_function *formula,
                          enum tern_type type, size_t length)
{
    double w[MAX_LENGTH], g[MAX_LENGTH];
    struct element elements[MAX_LENGTH];
    for (size_t i = 0; i < length; i++) {
        w[i] = i % 4 == 3 ? 0 : as_stored(type, random_real());
        elements[i] = (struct element){.w = w[i]};
    }
    struct row row = row_of(updater, type, length, w);
    for (int step = 0; step < 1000; step++) {
        for (size_t i = 0; i < length; i++) {
            const double x = random_real();
            g[i] = as_stored(type, fabs(x) < 0.2 ? 0 : x + 0.1);
            formula(updater.parameters, &elements[i], g[i]);
        }
        push(&row, g);
        for (size_t i = 0; i < length; i++)
            assert_near(value_of(&row, i), elements[i].w, tolerances[type]);
    }
}

static void check_updater(struct tern_updater updater, formula_function *formula)
{
    static const size_t lengths[] = {1, 7, 32};
    for (size_t i = 0; i < 3; i++) {
        check_formula(updater, formula, TERN_F32, lengths[i]);
        check_formula(updater, formula, TERN_F64, lengths[i]);
    }
}

static void test_sgd(void **unused)
{
    (void)unused;
    check_updater(tern_updater_sgd(0.01), sgd);
}

static void test_momentum(void **unused)
{
    (void)unused;
    check_updater(tern_updater_momentum(0.003, 0.9), momentum);
    check_updater(tern_updater_momentum(0.01, 0), sgd);
}

static void test_adagrad(void **unused)
{
    (void)unused;
    check_updater(tern_updater_adagrad(0.1, 1e-6), adagrad);
}

static void test_adam(void **unused)
{
    (void)unused;
    check_updater(tern_updater_adam(0.01, 0.9, 0.999, 1e-8), adam);
    check_updater(tern_updater_adam(0.01, 0, 0.5, 1e-3), adam);
}

static void test_ftrl(void **unused)
{
    (void)unused;
    check_updater(tern_updater_ftrl(0.1, 1, 0, 0), ftrl);
    check_updater(tern_updater_ftrl(0.1, 1, 2, 0.5), ftrl);
}

static void assert_described(struct tern_updater updater, const char *name, uint32_t per_element,
                             uint32_t per_row, const double *parameters)
{
    assert_string_equal(updater.name, name);
    assert_int_equal(updater.state_per_element, per_element);
    assert_int_equal(updater.state_per_row, per_row);
    assert_non_null(updater.apply);
    assert_memory_equal(updater.parameters, parameters, sizeof updater.parameters);
}

static void test_descriptions(void **unused)
{
    (void)unused;
    assert_described(tern_updater_sgd(1), "sgd", 0, 0, (double[5]){1});
    assert_described(tern_updater_momentum(1, 2), "momentum", 1, 0, (double[5]){1, 2});
    assert_described(tern_updater_adagrad(1, 2), "adagrad", 1, 0, (double[5]){1, 2});
    assert_described(tern_updater_adam(1, 2, 3, 4), "adam", 2, 1, (double[5]){1, 2, 3, 4});
    assert_described(tern_updater_ftrl(1, 2, 3, 4), "ftrl", 2, 0, (double[5]){1, 2, 3, 4});
}

/* Whatever the size of the gradient. */
static void test_adam_first_step_is_the_rate(void **unused)
{
    (void)unused;
    const double g[] = {1e-3, -1e-2, 0.1, -1, 10, -100, 1000};
    const double w[7] = {0};
    for (enum tern_type type = TERN_F32; type <= TERN_F64; type++) {
        struct row row = row_of(tern_updater_adam(0.01, 0.9, 0.999, 1e-8), type, 7, w);
        push(&row, g);
        for (size_t i = 0; i < 7; i++)
            assert_near(value_of(&row, i) * 100, g[i] > 0 ? -1 : 1, 2e-5);
        assert_true(state_of(&row, 14) == 1);
    }
}

static size_t zeros_after_noise(double l1)
{
    const double w[MAX_LENGTH] = {0};
    struct row row = row_of(tern_updater_ftrl(0.1, 1, l1, 0), TERN_F32, MAX_LENGTH, w);
    random_state = 11;
    for (int step = 0; step < 100; step++) {
        double g[MAX_LENGTH];
        for (size_t i = 0; i < MAX_LENGTH; i++)
            g[i] = random_real() - (i == 0 ? 0.8 : 0);
        push(&row, g);
    }
    assert_true(l1 > 30 || value_of(&row, 0) > 0);
    size_t n = 0;
    for (size_t i = 0; i < MAX_LENGTH; i++)
        n += value_of(&row, i) == 0;
    return n;
}

/* What is noise becomes exactly zero, the more the larger l1; what matters (element 0) stays. */
static void test_ftrl_l1_makes_rows_sparse(void **unused)
{
    (void)unused;
    const size_t none = zeros_after_noise(0);
    const size_t some = zeros_after_noise(4);
    const size_t most = zeros_after_noise(20);
    assert_int_equal(none, 0);
    assert_true(none < some && some < most);
    assert_int_equal(most, MAX_LENGTH - 1);
    assert_int_equal(zeros_after_noise(1000), MAX_LENGTH);
}

/* The first push recomputes the row from its state: a gradient of 0 must give the same row. */
static void test_ftrl_reset_keeps_the_row(void **unused)
{
    (void)unused;
    const double w[] = {0, 1, -1, 0.001, -0.001, 1000, -1000};
    const double g[7] = {0};
    const double l1s[] = {0, 0.1, 3};
    for (enum tern_type type = TERN_F32; type <= TERN_F64; type++) {
        for (size_t l = 0; l < 3; l++) {
            struct row row = row_of(tern_updater_ftrl(0.05, 1, l1s[l], 0.5), type, 7, w);
            for (size_t i = 0; i < row.n_state; i++)
                assert_true(isfinite(state_of(&row, i)));
            push(&row, g);
            assert_true(value_of(&row, 0) == 0);
            for (size_t i = 1; i < 7; i++)
                assert_near(value_of(&row, i) / w[i], 1, type == TERN_F32 ? 1e-5 : 1e-13);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_momentum),
        cmocka_unit_test(test_adagrad),
        cmocka_unit_test(test_adam),
        cmocka_unit_test(test_ftrl),
        cmocka_unit_test(test_descriptions),
        cmocka_unit_test(test_adam_first_step_is_the_rate),
        cmocka_unit_test(test_ftrl_l1_makes_rows_sparse),
        cmocka_unit_test(test_ftrl_reset_keeps_the_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
