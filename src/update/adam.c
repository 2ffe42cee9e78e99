/* adam - gradient descent by running moments of the gradient (Kingma and Ba, 2015). Steps are
 * counted per row: a rare row is corrected for the steps it had, not for those of the others. */
#include "kernel/kernel.h"
#include "update/update.h"

static void apply(const struct tern_updater *updater, enum tern_type type, size_t length,
                  void *value, void *state, const void *update)
{
    kernel_get()->adam[type == TERN_F64](updater->parameters, length, value, state, update);
}

static const char *check(const struct tern_updater *updater, enum tern_type type)
{
    if (!update_is_floating(type))
        return UPDATE_NEEDS_FLOATING;
    if (!update_is_positive(updater->parameters[0]))
        return "rate must be above 0";
    for (int i = 1; i <= 2; i++)
        if (!update_is_decay(updater->parameters[i]))
            return "beta1 and beta2 must be in [0, 1)";
    if (!update_is_positive(updater->parameters[3]))
        return "epsilon must be above 0";
    return NULL;
}

struct tern_updater tern_updater_adam(double rate, double beta1, double beta2, double epsilon)
{
    return (struct tern_updater){
        .name = "adam",
        .state_per_element = 2,
        .state_per_row = 1,
        .apply = apply,
        .check = check,
        .parameters = {rate, beta1, beta2, epsilon},
    };
}
