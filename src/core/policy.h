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
enum policy_main { MAIN_AT_HOME };

/* When is a replica made? */
enum policy_replica { REPLICA_NEVER, REPLICA_OF_EVERY_KEY };

/* How is it refreshed? */
enum policy_refresh { REFRESH_NONE, REFRESH_IN_ROUNDS };

struct policy {
    const char *name;
    enum policy_main main;
    enum policy_replica replica;
    enum policy_refresh refresh;
};

/* The preset of that name, the default for NULL; NULL if there is none. */
const struct policy *policy_find(const char *name);

/* The names of all presets, for sentences. */
const char *policy_names(void);

#endif
