/*
 * pace - how far the workers of a node have come: the node's clock is the lowest of theirs.
 *
 * A worker counts from when it is opened until it is closed, except while it rests, when it makes no updates
 * and holds nobody back. A node that has not had a worker yet is at clock 0, so that others do not run
 * away from it; one whose workers all rest or are closed holds nobody back.
 *
 * Pure; the caller locks.
 */
#ifndef CORE_PACE_H
#define CORE_PACE_H

#include "core/clocks.h"

#define NO_WORKER UINT32_MAX

struct pace {
    struct clocks clocks; /* by index */
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

void pace_init(struct pace *pace);
void pace_fini(struct pace *pace);

/* A worker is opened at a clock; *index is its name here. False when memory is used up. */
bool pace_open(struct pace *pace, uint32_t number, uint64_t clock, uint32_t *index);
void pace_close(struct pace *pace, uint32_t index);

/* A worker's clock, or CLOCK_RESTS. True if the node's clock has changed. */
bool pace_set(struct pace *pace, uint32_t index, uint64_t clock);

struct node_clock pace_now(struct pace *pace);

#endif
