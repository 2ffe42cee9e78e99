/*
 * admit - what a worker waits for before it reads or updates keys of a table whose technique bounds what a read may
 * return, before its clock advances, and before it works again after a rest; how long it waits, and whom its failure names.
 *
 *  1. A read waits until all of its keys are recent enough. It asks for those that are not as soon as there are newer values,
 *     and again if the round that was to bring them has ended without them.
 *  2. An update waits until the worker's earlier ones are within the bound together with it, or all seen; the advance of
 *     the clock, until they are within the bound.
 *  3. A worker that rests holds nobody back. Before it works again all homes must know that it does, and it continues at
 *     a clock that nobody has passed. If that takes too long, it rests on.
 *  4. Patience is the deadline once a dead node is known, and two deadlines before. The worker that it waits for may
 *     itself wait for a lane, which is patient for one and a half (lanes.h, rule 3): that worker is to fail first, and to
 *     name the node that is to blame. By then the coordinator has also found a dead node.
 *     When another node has taken over the keys of a dead one (backup.h), the wait begins anew.
 *  5. A node that has still to open the table is waited for, as is one that says HOLD: the wait begins anew.
 *  6. The node that holds the table back may be another than the last one announced. So a worker that waits asks all homes,
 *     every quarter of the deadline.
 *  7. The failure names, in this order: why there are no further rounds; the node that was given up; a node that has not
 *     answered for half a deadline; the worker or the home that holds the table back. Nothing has changed then, and the
 *     operation may be tried again.
 *
 * node/admit.c waits by these rules with a thread, sim/bounds.c with events (admit_look). Where it does not say so, the
 * caller locks as technique.h says.
 */
#ifndef CORE_ADMIT_H
#define CORE_ADMIT_H

#include "core/core.h"
#include "core/worker_clocks.h"

struct io;
struct peers;
struct rounds;

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

/* A worker, as it waits. */
struct waiter {
    const struct core *core;   /* NULL, as the next two: a single node */
    struct rounds *rounds;     /* of the first shard; NULL also if there are none yet */
    const struct peers *peers; /* what is known of the other nodes */
    uint64_t deadline_ns;
    const struct io *io;
    void *driver;
};

enum awaited_turn { TURN_TO_READ, TURN_TO_UPDATE, TURN_TO_RETURN };

/* What a worker waits for. The caller sets the first part and access.clock; the rest is zeroed. */
struct wait {
    enum awaited_turn turn;
    struct core_table *table; /* NULL: to advance, or to return */
    struct access
        access; /* to read: with its keys. `clock` is the worker's; on return, what it continues at */
    const struct unseen
        *unseen;     /* to update: of the table or, to advance, by the places of tables */
    double size;     /* of the update */
    uint32_t worker; /* its number, for sentences */
    bool rests;

    uint64_t begin_ns;  /* 0: it has not had to wait */
    uint64_t since_ns;  /* it is patient from then on */
    uint64_t looked_ns; /* when it last looked around */
    uint32_t epoch;     /* of the view since then */
};

/* Whether the worker may go on. If not, and *status is TERN_OK, it is to look again when something has happened, and
 * before long. Locks by itself. */
bool admit_look(const struct waiter *waiter, struct wait *wait, enum tern_status *status);

/* Tells where a worker is, or CLOCK_RESTS. Locks by itself. */
void admit_tell(const struct waiter *waiter, uint64_t clock);

/* Fails with a sentence about the node that holds a table back: `slowest` is how far it is. */
enum tern_status admit_fail_slow(const struct core_table *table, const struct access *access,
                                 struct node_clock slowest, uint32_t node, double seconds);

/* Whether a worker at `clock` may advance; `unseen` has its updates by the places of tables. */
bool admit_advance(const struct core *core, const struct unseen *unseen, uint64_t clock);

/* All nodes' changes are at their homes: from now on no replica is read that is older. */
void admit_settle(const struct core *core);

#endif
