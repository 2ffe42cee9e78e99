/* momentum - gradient descent along a decaying sum of the gradients. */
#include "kernel/kernel.h"
#include "update/update.h"

static void apply(const struct tern_updater *updater, enum tern_type type, size_t length,
                  void *value, void *state, const void *update)
{
    kernel_get()->momentum[type == TERN_F64](updater->parameters, length, value, state, update);
}

static const char *check(const struct tern_updater *updater, enum tern_type type)
{
    if (!update_is_floating(type))
        return UPDATE_NEEDS_FLOATING;
    if (!update_is_positive(updater->parameters[0]))
        return "rate must be above 0";
    if (!update_is_decay(updater->parameters[1]))
        return "decay must be in [0, 1)";
    return NULL;
}

struct tern_updater tern_updater_momentum(double rate, double decay)
{
    return (struct tern_updater){
        .name = "momentum",
        .state_per_element = 1,
        .apply = apply,
        .check = check,
        .parameters = {rate, decay},
    };
}
