/*
 * sample_check - the samples of a simulated worker (core/draw.h), and whether they are what they promise to be.
 *
 * A worker has a sampler for each level of conformity. It prepares samples, some at a time, and hands
 * their keys out in parts; when a pull of some fails, it gives them back. What must hold:
 *
 *  1. Every key is one of its distribution, with a weight above 0.
 *  2. A sample of n keys hands out exactly n, those that were chosen when it was prepared, wherever keys
 *     are and whatever fails: CONFORM the next n draws of its stream; BOUNDED and LONG_TERM pools of G
 *     draws that are used U times each, gone through before they are used again.
 *  3. LONG_TERM asks of each key of a sample once whether it is here, so none is put off twice.
 *  4. NON_CONFORM hands out keys that are here, as many as there are.
 *
 * What is said to be wanted is wanted as other intents are (plans.h), and checked as they are.
 */
#ifndef SIM_SAMPLE_CHECK_H
#define SIM_SAMPLE_CHECK_H

#include "core/draw.h"
#include "sim/plans.h"

enum { MAX_SAMPLES = 3, SAMPLE_KEYS = 12 };

/* A sample that is open. */
struct open_sample {
    bool used;
    enum tern_conformity level;
    struct sample sample;
    size_t n, n_left;           /* keys that were asked for, and that are still to be handed out */
    uint64_t left[SAMPLE_KEYS]; /* the latter, in no order; not of NON_CONFORM */
    bool away[DIST_KEYS]; /* by place in the distribution: it was not here when it was drawn */
    size_t n_asked;       /* keys it was asked of whether they are here, when handed out */
};

/* What a sampler must choose next, as its stream alone says. */
struct forecast {
    struct stream stream;
    uint64_t pool[MAX_POOL];
    size_t n_left; /* of the pool, in this turn: the first ones */
    uint32_t n_turns;
};

struct sample_check {
    struct sim_node *sim_node;
    struct plans *plans;
    struct sampler *samplers[N_LEVELS];
    struct forecast forecasts[N_LEVELS];
    struct open_sample drawn[MAX_SAMPLES];
};

/* The worker is opened; `stream` names its random numbers. */
enum tern_status sample_check_open(struct sample_check *samples, struct sim_node *sim_node,
                                   struct plans *plans, uint64_t stream);

/* It is closed, with the samples that are open. */
void sample_check_close(struct sample_check *samples);

/* Prepares a sample, unless there are many. */
void sample_check_prepare(struct sample_check *samples);

/* Hands out some keys of an open sample, at most SAMPLE_KEYS, with their indexes in a table. NULL if there
 * is none, or what was handed out is wrong. */
struct open_sample *sample_check_take(struct sample_check *samples, enum sim_table *table,
                                      uint32_t *indexes, uint64_t *keys, size_t *n);

/* What was taken last has been used, or is given back. */
void sample_check_used(struct sample_check *samples, struct open_sample *drawn);
void sample_check_return(struct open_sample *drawn, const uint64_t *keys, size_t n);

#endif
