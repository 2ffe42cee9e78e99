/* policy - the presets. See policy.h. */
#include "core/policy.h"

#include <stddef.h>
#include <string.h>

static const struct policy presets[] = {
    {"adaptive", MAIN_ON_INTENT, REPLICA_ON_INTENT, TIMING_LEARNED},
    {"static", MAIN_AT_HOME, REPLICA_NEVER, TIMING_LEARNED},
    {"replicate", MAIN_AT_HOME, REPLICA_OF_EVERY_KEY, TIMING_LEARNED},
    {"relocate", MAIN_ON_LOCALIZE, REPLICA_NEVER, TIMING_LEARNED},
    {"multi", MAIN_ON_LOCALIZE, REPLICA_OF_LISTED, TIMING_LEARNED},
    {"adaptive-replicate", MAIN_AT_HOME, REPLICA_ON_INTENT, TIMING_LEARNED},
    {"adaptive-relocate", MAIN_ON_INTENT, REPLICA_NEVER, TIMING_LEARNED},
    {"adaptive-at-once", MAIN_ON_INTENT, REPLICA_ON_INTENT, TIMING_AT_ONCE},
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
    return "adaptive, static, replicate, relocate, multi, adaptive-replicate, adaptive-relocate, "
           "adaptive-at-once";
}
