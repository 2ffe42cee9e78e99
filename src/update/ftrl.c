/*
 * ftrl - follow the regularised leader, per coordinate (McMahan et al., 2013).
 *
 * The row is a function of the state, recomputed at every push, so a row that was set or initialised
 * lives on only if its state says so: reset() chooses the z that yields it with n = 0.
 */
#include <math.h>

#include "kernel/kernel.h"
#include "update/update.h"

static void apply(const struct tern_updater *updater, enum tern_type type, size_t length,
                  void *value, void *state, const void *update)
{
    kernel_get()->ftrl[type == TERN_F64](updater->parameters, length, value, state, update);
}

static double z_of(const double *p, double w)
{
    const double alpha = p[0], beta = p[1], l1 = p[2], l2 = p[3];
    return w == 0 ? 0 : -w * (beta / alpha + l2) - copysign(l1, w);
}

static void reset(const struct tern_updater *updater, enum tern_type type, size_t length,
                  const void *value, void *state)
{
    for (size_t i = 0; i < length; i++) {
        if (type == TERN_F64) {
            double *z = state;
            z[i] = z_of(updater->parameters, ((const double *)value)[i]);
            z[length + i] = 0;
        } else {
            float *z = state;
            z[i] = (float)z_of(updater->parameters, (double)((const float *)value)[i]);
            z[length + i] = 0;
        }
    }
}

static const char *check(const struct tern_updater *updater, enum tern_type type)
{
    if (!update_is_floating(type))
        return UPDATE_NEEDS_FLOATING;
    if (!update_is_positive(updater->parameters[0]))
        return "alpha must be above 0";
    for (int i = 1; i <= 3; i++)
        if (!update_is_not_negative(updater->parameters[i]))
            return "beta, l1 and l2 must not be negative";
    if (updater->parameters[1] + updater->parameters[3] <= 0)
        return "beta and l2 must not both be 0";
    return NULL;
}

struct tern_updater tern_updater_ftrl(double alpha, double beta, double l1, double l2)
{
    return (struct tern_updater){
        .name = "ftrl",
        .state_per_element = 2,
        .apply = apply,
        .reset = reset,
        .check = check,
        .parameters = {alpha, beta, l1, l2},
    };
}
