/* sgd - gradient descent: a push is a gradient. */
#include "kernel/kernel.h"
#include "update/update.h"

static void apply(const struct tern_updater *updater, enum tern_type type, size_t length,
                  void *value, void *state, const void *update)
{
    kernel_get()->sgd[type == TERN_F64](updater->parameters, length, value, state, update);
}

static const char *check(const struct tern_updater *updater, enum tern_type type)
{
    if (!update_is_floating(type))
        return UPDATE_NEEDS_FLOATING;
    if (!update_is_positive(updater->parameters[0]))
        return "rate must be above 0";
    return NULL;
}

struct tern_updater tern_updater_sgd(double rate)
{
    return (struct tern_updater){
        .name = "sgd",
        .apply = apply,
        .check = check,
        .parameters = {rate},
    };
}
