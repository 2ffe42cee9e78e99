/*
 * policy - the answers of a table to the questions every parameter manager is asked per key.
 *
 * A preset is a row of answers, not a class: nothing outside policy.c tests for a preset's name, and a
 * new technique is a new answer to one question.
 */
#ifndef CORE_POLICY_H
#define CORE_POLICY_H

#include <stdbool.h>

/* Where is the main copy? */
enum policy_main {
    MAIN_AT_HOME,
    MAIN_ON_LOCALIZE, /* where it was last asked for by tern_localize */
    MAIN_ON_INTENT,   /* where the only node with intent is, or was last */
};

/* When is a replica made? */
enum policy_replica {
    REPLICA_NEVER,
    REPLICA_ON_INTENT, /* at each node with intent while there are others, or the main copy stays */
    REPLICA_OF_LISTED, /* of keys that are listed, or found to be hot (hot.h), everywhere */
    REPLICA_OF_EVERY_KEY,
};

/* When is an intent acted on? */
enum policy_timing { TIMING_LEARNED, TIMING_AT_ONCE };

struct policy {
    const char *name;
    enum policy_main main;
    enum policy_replica replica;
    enum policy_timing timing;
};

/* The preset of that name, the default for NULL; NULL if there is none. */
const struct policy *policy_find(const char *name);

/* The names of all presets, for sentences. */
const char *policy_names(void);

/* Whether keys of such a table come and go (manager.h). */
static inline bool policy_is_managed(const struct policy *policy)
{
    return policy->main != MAIN_AT_HOME || policy->replica == REPLICA_ON_INTENT;
}

#endif
