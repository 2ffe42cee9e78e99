/*
 * min_clock - the lowest of some clocks, which advance one by one.
 *
 * It counts the clocks at the lowest value; when the last of them leaves it, it looks at all clocks. Before
 * that can happen again each of those must have advanced, so looking costs O(1) per advance on average, however
 * many clocks there are. A clock may rest: it then counts for nothing, until it is set again.
 */
#ifndef CORE_MIN_CLOCK_H
#define CORE_MIN_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_RESTS UINT64_MAX

struct min_clock {
    uint64_t *values;
    uint32_t n, max;
    uint64_t lowest; /* CLOCK_RESTS if all rest, or there is none */
    uint32_t n_lowest;
    uint32_t slowest; /* one that was there when last looked */
};

/* n clocks at `value`; false when memory runs out. */
bool min_clock_init(struct min_clock *min, uint32_t n, uint64_t value);
void min_clock_fini(struct min_clock *min);

/* One more, which rests; its index is n - 1. False when memory runs out. */
bool min_clock_add(struct min_clock *min);

void min_clock_set(struct min_clock *min, uint32_t index, uint64_t value);

/* One that is at the lowest; n if all rest. */
uint32_t min_clock_slowest(struct min_clock *min);

#endif
