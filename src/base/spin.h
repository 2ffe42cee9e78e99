/*
 * spin - waiting for a latch that its holder keeps for a few dozen instructions.
 *
 * The holder may have lost its core, so after a short while the waiter gives its own away. A holder in another process
 * may also have died or been stopped: then it never releases the latch. So a wait in memory that processes share looks at
 * its *watch*, and ends when a process was lost, or when nothing has happened for longer than anybody may take.
 *
 * What a lost process has latched stays latched for good. Nobody ever sees what it was writing.
 */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"

/* In shared memory: what is known of the processes that use it. */
struct watch {
    /* 1 + the number of a process that died or was given up, or WATCH_STUCK; 0: none. Set once. */
    _Atomic uint32_t lost;
    uint64_t patience_ns; /* the longest that a latch is waited for */
};

/* A process that is not known to be dead has kept a latch for longer than the patience. */
#define WATCH_STUCK UINT32_MAX

/* A wait so far. It begins with zeros. */
struct spin {
    unsigned tries;
    uint64_t until_ns;
};

/* Notes the first loss. */
static inline void watch_lose(struct watch *watch, uint32_t lost)
{
    uint32_t none = 0;
    atomic_compare_exchange_strong_explicit(&watch->lost, &none, lost, memory_order_relaxed,
                                            memory_order_relaxed);
}

static inline uint32_t watch_lost(const struct watch *watch)
{
    return atomic_load_explicit(&watch->lost, memory_order_relaxed);
}

/* Whether a wait that has taken long already goes on. */
bool watch_waits(struct watch *watch, struct spin *spin);

/* Waits a moment: true to try again, false to give up. Without a watch the holder is a thread of this process, and the
 * wait does not end. */
static inline bool spin_again(struct spin *spin, struct watch *watch)
{
    if (++spin->tries % 64 == 0) {
        if (!fault_is_simulated)
            sched_yield();
        return !watch || watch_waits(watch, spin);
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
    return true;
}

#endif
