/*
 * admit - what a worker waits for before it reads or updates keys of a table whose technique bounds what a read may
 * return, before its clock advances, and before it works again after a rest. node/admit.c waits with threads, the
 * simulator with events; the rules are here and in the techniques.
 *
 *  1. A read waits until all of its keys are recent enough. It asks for those that are not as soon as newer values can be
 *     had, and again if they have not come when the round has ended that was to bring them.
 *  2. An update, and the advance of the clock, wait until the worker's earlier updates are within the bound.
 *  3. A worker that rests holds nobody back. Before it works again all homes must know that it does, and it continues at
 *     a clock that nobody has passed.
 *
 * Pure; the caller locks as technique.h says.
 */
#ifndef CORE_ADMIT_H
#define CORE_ADMIT_H

#include "core/core.h"
#include "core/worker_clocks.h"

/* The updates of one worker that are not known to be seen by all, by epoch. */
struct unseen {
    uint64_t epochs[2];
    double sums[2];
};

/* A read or an update of a worker. */
struct access {
    uint64_t clock;     /* the worker's */
    uint64_t min_clock; /* the lowest of this node's workers */
    const uint64_t *keys;
    size_t n;
    uint32_t *stale; /* the positions of keys that should be fetched; room for n */
    size_t n_stale;
    uint32_t ages
        [TERN_CLOCK_STEPS]; /* how many of the keys are so many clocks behind; the last has the rest */
    uint64_t fetch_round; /* keys are not asked for again before so many rounds have ended */
};

/* Asks for the keys of a read that was not admitted, after n_rounds rounds have ended. True if it can be made now; a
 * failure is never made up for. */
bool admit_fetch(struct core_table *table, struct access *access, uint64_t n_rounds,
                 enum tern_status *status);

/* Whether a worker at `clock` may advance; `unseen` has its updates by the places of tables. */
bool admit_advance(const struct core *core, const struct unseen *unseen, uint64_t clock);

/* A worker that rests is to work again, at *clock or later, which is raised to one that nobody has passed. True if all
 * homes know; until then it only says that it is there. `core` is NULL on a single node. */
bool admit_return(const struct core *core, const struct worker_clocks *clocks, uint64_t *clock);

/* All nodes' changes are at their homes: from now on no replica is read that is older. */
void admit_settle(const struct core *core);

#endif
