/*
 * timing - when to act on an intent, and when to run the next round (AdaPM, Section 4.2, Algorithm 1).
 *
 * An intent is acted on in a round if the worker might reach its start before the next round ends. Algorithm 1 counts the
 * clocks that a worker advances in one round, because its rounds take a fairly constant time. Ours do not: pauses follow
 * the need, and a peer that lost its core answers late. So the clocks of a worker are counted per time, and the time until
 * the next round ends, the horizon, is the planned pause and twice the lag: the longest that a round took of late, from
 * when it was due until all had answered. It is at least half of the age that replicas may have, because a key that is here
 * that much earlier needs hardly a refresh more. As in Algorithm 1, the bound is a quantile of a Poisson distribution, a worker
 * that pauses keeps its estimate, and a leap counts at once. Acting too early costs some bytes, acting too late a round
 * trip of the worker's, so the quantile is high.
 *
 * The pause may be long if intents are signalled long before they start, since a round costs much the same whatever is in
 * it. It is a part of the look-ahead, the time from the signal to the start, and of the age that replicas may have.
 *
 * Pure.
 */
#ifndef CORE_TIMING_H
#define CORE_TIMING_H

#include <stdint.h>

/* The speed of one worker. */
struct timing {
    double rate;    /* clocks per nanosecond, smoothed; 0: not known yet */
    uint64_t clock; /* at the start of the last round, */
    uint64_t at_ns; /* or of the last one in which it had advanced: when that was */
};

/* Begins a round in which the worker's clock is `clock`. Intents that start before the clock returned are to be acted on:
 * the worker may reach them in less than horizon_ns. */
uint64_t timing_round(struct timing *timing, uint64_t clock, uint64_t now_ns, uint64_t horizon_ns);

/* How long the worker takes for so many clocks; 0: not known yet. */
uint64_t timing_duration_ns(const struct timing *timing, uint64_t n_clocks);

/* The smallest k for which a Poisson variable of this rate is at most k with probability p < 1. */
uint64_t poisson_quantile(double rate, double p);

/* How rounds of a shard follow each other. Zeroed, nothing is known. */
struct pace {
    uint64_t pause_ns; /* planned between the end of a round and the next */
    uint64_t age_ns;   /* that replicas may have */
    uint64_t lag_ns;   /* the longest time of late from when a round was due to its end */
};

/* Plans the pause for the rounds from now on: intents are signalled ahead_ns before their start, and replicas may be
 * max_age_ns old; UINT64_MAX where there is no limit. A pause is at least least_ns long. */
void pace_plan(struct pace *pace, uint64_t ahead_ns, uint64_t max_age_ns, uint64_t least_ns);

/* A round that was due at due_ns has ended. */
void pace_note(struct pace *pace, uint64_t due_ns, uint64_t ended_ns);

/* How long the end of the next round may be away, after a pause of pause_ns, when a round begins. */
uint64_t pace_horizon_ns(const struct pace *pace, uint64_t pause_ns);

/* The time between two exchanges of what was changed, so that replicas are at most max_age_ns old. */
uint64_t pace_refresh_ns(const struct pace *pace, uint64_t max_age_ns);

#endif
