/*
 * timing - when to act on an intent (AdaPM, Section 4.2, Algorithm 1).
 *
 * Per worker the number of clocks it advances in one round is estimated; an intent is acted on in a
 * round if the worker might reach its start before the next round ends: before a quantile of a Poisson
 * distribution with twice the estimated rate. Acting too early costs some bytes, acting too late a
 * round trip of the worker's, so the quantile is high.
 */
#ifndef CORE_TIMING_H
#define CORE_TIMING_H

#include <stdint.h>

struct timing {
    double rate;    /* clocks per round, smoothed */
    uint64_t clock; /* at the start of the last round */
};

void timing_init(struct timing *timing);

/* Begins a round in which the worker's clock is `clock`. Intents that start before the clock returned
 * are to be acted on. */
uint64_t timing_round(struct timing *timing, uint64_t clock);

/* The smallest k for which a Poisson variable of this rate is at most k with probability p < 1. */
uint64_t poisson_quantile(double rate, double p);

#endif
