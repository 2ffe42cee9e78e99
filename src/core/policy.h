/*
 * policy - the answers of a table to the questions every parameter manager is asked per key.
 *
 * A preset is a row of answers, not a class: nothing outside policy.c tests for a preset's name, and a
 * new technique is a new answer to one question. Some presets take a number, as in `ssp:3`.
 */
#ifndef CORE_POLICY_H
#define CORE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    REPLICA_ON_ACCESS, /* of a key that a node has used */
    REPLICA_OF_PLACED, /* of keys that the placement lists, at the nodes that it names */
};

/* When is an intent acted on? */
enum policy_timing { TIMING_LEARNED, TIMING_AT_ONCE };

/* How is a replica refreshed? */
enum policy_refresh {
    REFRESH_IN_ROUNDS,
    REFRESH_ON_DEMAND,  /* when a read finds it too old */
    REFRESH_EACH_CLOCK, /* as the clock of its home advances */
};

/* How are replicas of every key kept alike? */
enum policy_reduce {
    REDUCE_BY_SIZE,     /* as is better for so many nodes */
    REDUCE_BY_OWNERS,   /* replica.h */
    REDUCE_BY_DOUBLING, /* doubling.h; by owners where there is an updater */
};

/* What may a read return? */
enum policy_bound {
    BOUND_NONE,    /* anything recent */
    BOUND_CLOCKS,  /* what lacks at most the updates of the last `clocks` clocks */
    BOUND_UPDATES, /* what lacks at most `updates` updates, alone and beside other keys (graph.h) */
    BOUND_VALUE,   /* what lacks of each worker's updates at most `value` in each element */
};

enum { POLICY_NAME_BYTES = 40, POLICY_MAX_CLOCKS = 1000000, POLICY_MAX_UPDATES = 1000000000 };

struct policy {
    char name[POLICY_NAME_BYTES];
    enum policy_main main;
    enum policy_replica replica;
    enum policy_timing timing;
    enum policy_refresh refresh;
    enum policy_reduce reduce;
    enum policy_bound bound;
    uint64_t clocks;
    uint64_t updates; /* UINT64_MAX: any number */
    double value;
    bool
        is_apart; /* an old name for a table that processes of one host do not share (TERN_SHARE=0) */
    bool shrinks;    /* the value, as 1 / sqrt(1 + the worker's clock) */
    bool keeps_home; /* policy_keep_home */
};

/* The preset of that name, with its number if it takes one, or the default for NULL; false if there is
 * none. */
bool policy_find(const char *name, struct policy *policy);

/* Changes the answers for a table with backups at other nodes: its main copies stay at their homes, where the backups are
 * sent from. A node that wants a key gets a replica, if the policy has any or else moves keys on intent; replicas of every key
 * are refreshed by their homes. */
void policy_keep_home(struct policy *policy);

/* Whether the name is that of presets which take a number: there is none without, or with a bad one. */
bool policy_takes_number(const char *name);

/* The i-th preset of those that take no number; false if there are no more. */
bool policy_at(size_t i, struct policy *policy);

/* The names of all presets, for sentences. */
const char *policy_names(void);

#endif
