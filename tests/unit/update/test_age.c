/*
 * Updaters that know the age of an update: their formulas, and that without delay they are AdaGrad.
 */
#include "update/age.h"

#include <math.h>

#include "support/check.h"

enum { STEPS = 500, MOST_DELAY = 20 };

#define RATE 0.3
#define EPSILON 1e-8

static double gradient_of(struct dice *dice)
{
    return (double)dice_below(dice, 2000) / 1000 - 1;
}

/* adadelay with any ages follows its formula. */
static void adadelay_follows_its_formula(void **state)
{
    (void)state;
    const struct tern_updater updater = tern_updater_adadelay(RATE, EPSILON);
    struct dice dice = {3};
    double w = 1, s = 0, value = 1, sum = 0;
    for (uint64_t t = 1; t <= STEPS; t++) {
        const double g = gradient_of(&dice), d = (double)dice_below(&dice, MOST_DELAY);
        update_set_age((struct tern_age){t, (uint64_t)d});
        updater.apply(&updater, TERN_F64, 1, &value, &sum, &g);
        s += (double)t / ((double)t + d) * g * g;
        w -= RATE * g / (sqrt(s / (double)t) * sqrt((double)t + d) + EPSILON);
        assert_true(fabs(w - value) < 1e-9);
    }
}

/* The steps of adaptiverevision are those of McMahan and Streeter's Algorithm 3: each gradient with the sum of the gradients
 * that its weight did not have. */
static void adaptiverevision_revises_past_steps(void **state)
{
    (void)state;
    const struct tern_updater updater = tern_updater_adaptiverevision(RATE, EPSILON);
    struct dice dice = {5};
    double sums[STEPS + 1] = {0}, row[2] = {1, 0}, z[2] = {0}, w = 1, own_z = 0, largest = 0;
    uint64_t n_revised = 0;
    for (size_t t = 0; t < STEPS; t++) {
        const size_t d = (size_t)dice_below(&dice, MOST_DELAY), from = t < d ? 0 : t - d;
        const double push[2] = {gradient_of(&dice), sums[from]};
        updater.apply(&updater, TERN_F64, 2, row, z, push);
        const double g = push[0], before = RATE / (sqrt(largest) + EPSILON);
        const double backward = sums[t] - sums[from];
        own_z += g * g + 2 * g * backward;
        largest = fmax(largest, own_z);
        const double rate = RATE / (sqrt(largest) + EPSILON);
        w += -rate * g + (before - rate) * backward;
        sums[t + 1] = sums[t] + g;
        n_revised += rate < before && backward != 0;
        assert_true(fabs(w - row[0]) < 1e-9 && fabs(row[1] - sums[t + 1]) < 1e-9);
    }
    assert_true(n_revised > 10);
}

/* Applies the same gradients without delay; the largest difference to AdaGrad's weights. */
static double compare(const struct tern_updater *updater, enum tern_type type)
{
    const struct tern_updater adagrad = tern_updater_adagrad(RATE, EPSILON);
    struct dice dice = {7};
    double worst = 0;
    union {
        double d[2];
        float f[2];
    } values = {{0}}, states = {{0}}, update = {{0}}, wanted = {{0}}, sums = {{0}};
    const size_t length = updater->length_multiple ? 2 : 1;
    for (uint64_t t = 1; t <= STEPS; t++) {
        const double g = gradient_of(&dice);
        if (type == TERN_F64)
            update.d[0] = g, update.d[1] = values.d[1];
        else
            update.f[0] = (float)g, update.f[1] = values.f[1];
        update_set_age((struct tern_age){t, 0});
        updater->apply(updater, type, length, &values, &states, &update);
        adagrad.apply(&adagrad, type, 1, &wanted, &sums, &update);
        worst = fmax(worst, type == TERN_F64 ? fabs(values.d[0] - wanted.d[0])
                                             : fabs((double)(values.f[0] - wanted.f[0])));
    }
    return worst;
}

static void without_delay_all_are_adagrad(void **state)
{
    (void)state;
    const struct tern_updater updaters[] = {tern_updater_asyncadagrad(RATE, EPSILON),
                                            tern_updater_adadelay(RATE, EPSILON),
                                            tern_updater_adaptiverevision(RATE, EPSILON)};
    for (size_t i = 0; i < 3; i++) {
        assert_true(updaters[i].asks_age);
        assert_true(compare(&updaters[i], TERN_F32) < 1e-5);
        assert_true(compare(&updaters[i], TERN_F64) < 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adadelay_follows_its_formula),
        cmocka_unit_test(adaptiverevision_revises_past_steps),
        cmocka_unit_test(without_delay_all_are_adagrad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
