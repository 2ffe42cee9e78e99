/*
 * adaptiverevision - AdaGrad that revises the steps which were made while a gradient was under way (McMahan and Streeter,
 * 2014).
 *
 * A row is the weights and, behind them, the sums of all their gradients. A push is the gradients and the sums that were
 * pulled with the weights, so what was applied meanwhile is known exactly, whatever the delay. The state has for each weight
 * the sum z of squares and products, and behind them the largest z so far, which sets the rate: it never rises.
 */
#include <math.h>

#include "update/update.h"

static void apply(const struct tern_updater *updater, enum tern_type type, size_t length,
                  void *value, void *state, const void *update)
{
    const double *p = updater->parameters;
    const size_t n = length / 2;
    for (size_t i = 0; i < n; i++) {
        const double gradient = update_get(type, update, i), sum = update_get(type, value, n + i);
        const double meanwhile = sum - update_get(type, update, n + i);
        const double largest = update_get(type, state, n + i);
        const double z =
            update_get(type, state, i) + gradient * gradient + 2 * gradient * meanwhile;
        const double next = z > largest ? z : largest;
        const double rate_before = p[0] / (sqrt(largest) + p[1]), rate = p[0] / (sqrt(next) + p[1]);
        const double change = rate * gradient - (rate_before - rate) * meanwhile;
        update_put(type, state, i, z);
        update_put(type, state, n + i, next);
        update_put(type, value, i, update_get(type, value, i) - change);
        update_put(type, value, n + i, sum + gradient);
    }
}

struct tern_updater tern_updater_adaptiverevision(double rate, double epsilon)
{
    return (struct tern_updater){
        .name = "adaptiverevision",
        .state_per_element = 1,
        .apply = apply,
        .check = update_check_adagrad,
        .parameters = {rate, epsilon},
        .asks_age = true,
        .length_multiple = 2,
    };
}
