/* policy - the presets. See policy.h. */
#include "core/policy.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct policy presets[] = {
    {"adaptive", .main = MAIN_ON_INTENT, .replica = REPLICA_ON_INTENT},
    {"adaptive-apart", .main = MAIN_ON_INTENT, .replica = REPLICA_ON_INTENT, .is_apart = true},
    {"static", .main = MAIN_AT_HOME, .replica = REPLICA_NEVER},
    {"replicate", .main = MAIN_AT_HOME, .replica = REPLICA_OF_EVERY_KEY},
    {"replicate-owners", .main = MAIN_AT_HOME, .replica = REPLICA_OF_EVERY_KEY,
     .reduce = REDUCE_BY_OWNERS},
    {"replicate-doubling", .main = MAIN_AT_HOME, .replica = REPLICA_OF_EVERY_KEY,
     .reduce = REDUCE_BY_DOUBLING},
    {"relocate", .main = MAIN_ON_LOCALIZE, .replica = REPLICA_NEVER},
    {"multi", .main = MAIN_ON_LOCALIZE, .replica = REPLICA_OF_LISTED},
    {"adaptive-replicate", .main = MAIN_AT_HOME, .replica = REPLICA_ON_INTENT},
    {"adaptive-relocate", .main = MAIN_ON_INTENT, .replica = REPLICA_NEVER},
    {"adaptive-at-once", .main = MAIN_ON_INTENT, .replica = REPLICA_ON_INTENT,
     .timing = TIMING_AT_ONCE},
    {"cached", .main = MAIN_AT_HOME, .replica = REPLICA_ON_ACCESS}, /* an example: see HACKING.md */
    {"bsp", .main = MAIN_AT_HOME, .replica = REPLICA_ON_ACCESS, .refresh = REFRESH_ON_DEMAND,
     .bound = BOUND_CLOCKS},
};

/* Those that take a number, after a colon. */
static const struct policy families[] = {
    {"ssp", .main = MAIN_AT_HOME, .replica = REPLICA_ON_ACCESS, .refresh = REFRESH_ON_DEMAND,
     .bound = BOUND_CLOCKS},
    {"essp", .main = MAIN_AT_HOME, .replica = REPLICA_ON_ACCESS, .refresh = REFRESH_EACH_CLOCK,
     .bound = BOUND_CLOCKS},
    {"vap", .main = MAIN_AT_HOME, .replica = REPLICA_ON_ACCESS, .refresh = REFRESH_EACH_CLOCK,
     .bound = BOUND_VALUE},
    {"graph", .main = MAIN_AT_HOME, .replica = REPLICA_OF_PLACED, .refresh = REFRESH_ON_DEMAND,
     .bound = BOUND_UPDATES},
};

/* Reads a number of clocks. */
static bool read_clocks(const char *text, struct policy *policy)
{
    char *end;
    policy->clocks = strtoull(text, &end, 10);
    snprintf(policy->name + strlen(policy->name), 16, ":%" PRIu64, policy->clocks);
    return isdigit((unsigned char)text[0]) && !*end && policy->clocks <= POLICY_MAX_CLOCKS;
}

/* Reads a number of updates, or "inf". */
static bool read_updates(const char *text, struct policy *policy)
{
    char *end;
    policy->updates = UINT64_MAX;
    if (!strcmp(text, "inf")) {
        strcat(policy->name, ":inf");
        return true;
    }
    policy->updates = strtoull(text, &end, 10);
    snprintf(policy->name + strlen(policy->name), 32, ":%" PRIu64, policy->updates);
    return isdigit((unsigned char)text[0]) && !*end && policy->updates <= POLICY_MAX_UPDATES;
}

/* Reads a value, which may shrink: "0.5" or "0.5/sqrt". */
static bool read_value(const char *text, struct policy *policy)
{
    char *end;
    policy->value = strtod(text, &end);
    policy->shrinks = !strcmp(end, "/sqrt");
    snprintf(policy->name + strlen(policy->name), 32, ":%.9g%s", policy->value,
             policy->shrinks ? "/sqrt" : "");
    return isdigit((unsigned char)text[0]) && (!*end || policy->shrinks) &&
           isfinite(policy->value) && policy->value > 0;
}

bool policy_find(const char *name, struct policy *policy)
{
    *policy = presets[0];
    if (!name)
        return true;
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        *policy = presets[i];
        if (!strcmp(policy->name, name))
            return true;
    }
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        *policy = families[i];
        size_t length = strlen(policy->name);
        if (!strncmp(policy->name, name, length) && name[length] == ':')
            return policy->bound == BOUND_CLOCKS    ? read_clocks(name + length + 1, policy)
                   : policy->bound == BOUND_UPDATES ? read_updates(name + length + 1, policy)
                                                    : read_value(name + length + 1, policy);
    }
    return false;
}

void policy_keep_home(struct policy *policy)
{
    if (policy->main == MAIN_ON_INTENT)
        policy->replica = REPLICA_ON_INTENT;
    policy->keeps_home = true;
    policy->main = MAIN_AT_HOME;
}

bool policy_takes_number(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const size_t length = strlen(families[i].name);
        if (!strncmp(families[i].name, name, length) && (!name[length] || name[length] == ':'))
            return true;
    }
    return false;
}

bool policy_at(size_t i, struct policy *policy)
{
    if (i >= sizeof presets / sizeof presets[0])
        return false;
    *policy = presets[i];
    return true;
}

const char *policy_names(void)
{
    return "adaptive, static, replicate, relocate, multi, adaptive-apart, adaptive-replicate, "
           "adaptive-relocate, adaptive-at-once, cached, replicate-owners, replicate-doubling, "
           "bsp, ssp:CLOCKS, essp:CLOCKS, "
           "vap:VALUE, vap:VALUE/sqrt, graph:UPDATES, graph:inf";
}
