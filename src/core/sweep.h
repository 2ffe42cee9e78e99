/*
 * sweep - whether everything has arrived that an owner had pending when a node began to wait for it.
 *
 * A round carries a limited amount, and an owner whose rows change all the time is never done. But it sends the
 * oldest changes first, and says in every answer how far it has come and how much is left. So a node knows when
 * everything that was pending at some time has arrived, whatever was added since.
 *
 * A sweep begins with a round. It is over, for one owner, when the owner has come to where the end was at
 * its first answer, or when a round had no reason to ask it: then nothing is pending. A round that had a reason and
 * could not ask (exchange.h) completes no sweep.
 *
 * Pure; the caller locks. Zeroed, a sweep is over.
 */
#ifndef CORE_SWEEP_H
#define CORE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

struct sweep {
    uint64_t end;  /* where the owner must come to; 0: it is over; SWEEP_BEGINS: not known yet */
    bool is_heard; /* the owner has answered in the present round */
};

#define SWEEP_BEGINS UINT64_MAX

static inline void sweep_begin(struct sweep *sweep)
{
    sweep->end = SWEEP_BEGINS;
}

/* An answer has come: the owner is at `at`, and has `left` to go. */
static inline void sweep_hear(struct sweep *sweep, uint64_t at, uint64_t left)
{
    sweep->is_heard = true;
    if (sweep->end == SWEEP_BEGINS)
        sweep->end = at + left;
    if (!left || at >= sweep->end)
        sweep->end = 0;
}

static inline void sweep_round_ended(struct sweep *sweep)
{
    if (!sweep->is_heard)
        sweep->end = 0;
    sweep->is_heard = false;
}

static inline bool sweep_is_over(const struct sweep *sweep)
{
    return !sweep->end;
}

#endif
