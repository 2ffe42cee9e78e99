/*
 * latch - a lock for memory that processes share. Unlike a mutex its wait ends when the holder dies or is stopped
 * (spin.h), and a latch of a process that was lost stays taken.
 */
#ifndef BASE_LATCH_H
#define BASE_LATCH_H

#include "base/fault.h"
#include "base/invariant.h"
#include "base/spin.h"

struct latch {
    _Atomic uint32_t taken;
};

/* `rank`: its place in the order of locks (invariant.h). False if the wait was given up. Acquire: partner of the release in
 * latch_release. */
static inline bool latch_take(struct latch *latch, enum lock_rank rank, struct watch *watch)
{
    rank_waits(rank, 0);
    for (struct spin spin = {0};;) {
        if (!atomic_load_explicit(&latch->taken, memory_order_relaxed) &&
            !atomic_exchange_explicit(&latch->taken, 1, memory_order_acquire)) {
            rank_took(rank, 0);
            fault_point();
            return true;
        }
        if (!spin_again(&spin, watch))
            return false;
    }
}

static inline void latch_release(struct latch *latch, enum lock_rank rank)
{
    fault_point();
    rank_released(rank, 0);
    atomic_store_explicit(&latch->taken, 0, memory_order_release);
}

#endif
