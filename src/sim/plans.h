/*
 * plans - what a simulated worker says it will use (core/intents.h), and whether it is here then.
 *
 * A worker signals intents for some keys, early or late, for short or long, overlapping, of which it
 * uses some. What must hold of a key with intent, in tables where every node with intent gets it:
 *
 *  1. When the worker's clock reaches the start, a round that acted on the intent, or a later one, has
 *     ended with nothing left over, and all has come that owners had to tell then, the key is here. Rounds act
 *     on an intent at the latest when its start is SURELY clocks ahead or fewer (core/timing.h), so one that is
 *     signalled EARLY is in time unless rounds are held up: that is counted. A key whose home leaves and has not
 *     opened the table is nowhere, and does not come.
 *  2. Once the key is here, it stays until the clock reaches the end.
 *
 * A node that shares memory with others of its host tells their leader what it wants (core/follower.h). The first then does not
 * hold, since the leader's rounds are still to come, and the second from the end of the round on in which it told.
 *
 * Where keys are moved and never copied, the second also holds.
 */
#ifndef SIM_PLANS_H
#define SIM_PLANS_H

#include "sim/sim_node.h"

enum {
    PLAN_KEYS = 6,
    MAX_PLANS = 8,
    SURELY = 8,  /* the quantile of timing.h for a worker that takes a round for a clock is 9 */
    EARLY = 10,  /* clocks, in which rounds end unless they are held up */
    LINGERS = 3, /* clocks for which its keys are used after it is over */
};

/* One intent. */
struct plan {
    enum sim_table table;
    uint64_t start, end;
    size_t n;
    uint32_t indexes[PLAN_KEYS];
    bool here[PLAN_KEYS]; /* since it was acted on */
    bool early; /* it was signalled more than EARLY clocks ahead, and rounds have room for it */
    uint64_t rounds[SIM_MAX_SHARDS]; /* that have acted on it for sure; 0: none yet */
    bool awaits;                     /* clean rounds have been from then on: */
    struct awaited awaited;          /* these sweeps bring what owners had then */
};

struct plans {
    struct sim_node *sim_node;
    struct intents *intents[SIM_MAX_SHARDS]; /* NULL: the worker is closed */
    uint64_t clock;
    struct plan all[MAX_PLANS]; /* those that are over only for a while */
    size_t n;
    uint64_t until[N_SIM_TABLES]
                  [KEYS]; /* the clock until which samples want a key; 0: they do not */
};

/* The worker is opened: its clock is 0. */
enum tern_status plans_open(struct plans *plans, struct sim_node *sim_node);

/* It is closed, whatever it still intended. */
void plans_close(struct plans *plans);

/* Signals an intent for random keys of a random table, or asks for keys to be moved here. */
void plans_make(struct plans *plans);

/* Keys are wanted from now on, while the clock is below `until`: by a sample, as a program would ask for them, or because
 * they were missed. */
void plans_want(struct plans *plans, enum wanted_by by, enum sim_table table, const uint64_t *keys,
                const uint32_t *indexes, size_t n, uint64_t until);

/* Advances the clock. */
void plans_advance(struct plans *plans);

/* A round of a shard has begun and has looked at what is intended. */
void plans_looked(struct plans *plans, uint32_t shard);

/* Checks that what was here and is intended is still here. */
void plans_check(struct plans *plans);

/* A key of the table that is to be used now, or was until just now; false if there is none. */
bool plans_choose(const struct plans *plans, enum sim_table table, uint32_t *index);

/* Whether an intent for the key is open, and whether one has begun. */
bool plans_has(const struct plans *plans, enum sim_table table, uint32_t index, bool *begun);

#endif
