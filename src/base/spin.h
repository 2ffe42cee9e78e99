/*
 * spin - waiting for a latch that its holder keeps for a few dozen instructions.
 *
 * The holder may have lost its core, so after a short while the waiter gives its own away.
 */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

#include <sched.h>

static inline void spin_wait(unsigned *tries)
{
    if (++*tries % 64 == 0) {
        sched_yield();
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
