/* zipf - random numbers 1 .. n whose frequencies fall as a power of the number. Pure; any thread. */
#ifndef TASKS_ZIPF_H
#define TASKS_ZIPF_H

#include <stdint.h>

#include "common/rng.h"

struct zipf {
    double skew;
    double n;
    double low, high; /* areas between which to draw */
    double sure;      /* a number that is rounded up by at most this is never taken back */
};

/* Numbers k = 1 .. n with probabilities in proportion to k^-skew; a skew of 0 is uniform. */
struct zipf zipf_make(double skew, int64_t n);
int64_t zipf_draw(const struct zipf *zipf, struct rng *rng);

#endif
