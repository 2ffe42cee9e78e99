/* policy - the presets. See policy.h. */
#include "core/policy.h"

#include <stddef.h>
#include <string.h>

static const struct policy presets[] = {
    {"static", MAIN_AT_HOME, REPLICA_NEVER, REFRESH_NONE},
    {"replicate", MAIN_AT_HOME, REPLICA_OF_EVERY_KEY, REFRESH_IN_ROUNDS},
};

const struct policy *policy_find(const char *name)
{
    if (!name)
        return &presets[0];
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        if (!strcmp(presets[i].name, name))
            return &presets[i];
    return NULL;
}

const char *policy_names(void)
{
    return "static, replicate";
}
