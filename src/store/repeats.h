/*
 * repeats - the different keys of a call, and where each comes again.
 *
 * A hot key comes several times in a batch. Where other threads may also change it, its row is latched once and gets
 * all its values, in their order: each latch would have to fetch the row from the core that had it last.
 */
#ifndef STORE_REPEATS_H
#define STORE_REPEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPEATS_KEYS = 1024 }; /* the most that are looked at together */

struct repeats {
    size_t n;                     /* different keys, or such as were taken for different ones */
    uint16_t first[REPEATS_KEYS]; /* where each comes first, ascending */
    uint16_t next[REPEATS_KEYS];  /* where the key at a place comes next; 0: not again */
};

/* Finds the repeats among n keys; false if they are not worth it. */
bool repeats_find(struct repeats *repeats, const uint64_t *keys, size_t n);

/* The position at which the k-th key comes first; the one at which the key at a position comes next, or 0. Where
 * `repeats` is NULL all keys count as different. */
static inline size_t repeats_first(const struct repeats *repeats, size_t k)
{
    return repeats ? repeats->first[k] : k;
}

static inline size_t repeats_next(const struct repeats *repeats, size_t position)
{
    return repeats ? repeats->next[position] : 0;
}

#endif
