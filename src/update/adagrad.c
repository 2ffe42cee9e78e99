/* adagrad - gradient descent with a rate per element that falls with the gradients it has seen
 * (Duchi et al., 2011). */
#include "kernel/kernel.h"
#include "update/update.h"

static void apply(const struct tern_updater *updater, enum tern_type type, size_t length,
                  void *value, void *state, const void *update)
{
    kernel_get()->adagrad[type == TERN_F64](updater->parameters, length, value, state, update);
}

const char *update_check_adagrad(const struct tern_updater *updater, enum tern_type type)
{
    if (!update_is_floating(type))
        return UPDATE_NEEDS_FLOATING;
    if (!update_is_positive(updater->parameters[0]))
        return "rate must be above 0";
    if (!update_is_positive(updater->parameters[1]))
        return "epsilon must be above 0";
    return NULL;
}

struct tern_updater tern_updater_adagrad(double rate, double epsilon)
{
    return (struct tern_updater){
        .name = "adagrad",
        .state_per_element = 1,
        .apply = apply,
        .check = update_check_adagrad,
        .parameters = {rate, epsilon},
    };
}

struct tern_updater tern_updater_asyncadagrad(double rate, double epsilon)
{
    struct tern_updater updater = tern_updater_adagrad(rate, epsilon);
    updater.name = "asyncadagrad";
    updater.asks_age = true;
    return updater;
}
