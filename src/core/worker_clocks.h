/*
 * worker_clocks - how far the workers of a node have come: the node's clock is the lowest of theirs.
 *
 * A worker counts from when it is opened until it is closed, except while it rests, when it makes no updates
 * and holds nobody back. A node that has not had a worker yet is at clock 0, so that others do not run
 * away from it; one whose workers all rest or are closed holds nobody back.
 *
 * Pure; the caller locks.
 */
#ifndef CORE_WORKER_CLOCKS_H
#define CORE_WORKER_CLOCKS_H

#include "core/min_clock.h"

#define NO_WORKER UINT32_MAX

struct worker_clocks {
    struct min_clock min; /* by index */
    uint32_t *numbers;    /* of the workers, for sentences */
    bool *used;
    uint64_t highest; /* that any worker has reached */
    bool has_begun;   /* there was a worker */
};

/* The clock of a node. */
struct node_clock {
    uint64_t clock;   /* the updates its workers have yet to make are of this clock or later */
    uint64_t highest; /* that one of its workers has reached; counts while all rest */
    uint32_t slowest; /* the number of a worker that is at this clock, or NO_WORKER */
};

void worker_clocks_init(struct worker_clocks *clocks);
void worker_clocks_fini(struct worker_clocks *clocks);

/* A worker is opened at a clock; *index is its name here. False when memory runs out. */
bool worker_clocks_open(struct worker_clocks *clocks, uint32_t number, uint64_t clock,
                        uint32_t *index);
void worker_clocks_close(struct worker_clocks *clocks, uint32_t index);

/* A worker's clock, or CLOCK_RESTS. True if the node's clock has changed. */
bool worker_clocks_set(struct worker_clocks *clocks, uint32_t index, uint64_t clock);

struct node_clock worker_clocks_now(struct worker_clocks *clocks);

#endif
