/*
 * draw - how the keys of a sample are chosen: the four schemes of NuPS, one for each level of
 * conformity.
 *
 *   CONFORM      independent draws from the target, made when the sample is prepared.
 *   BOUNDED      reuse: pools of G keys are drawn, and each pool is gone through U times, each time in
 *                a fresh random order.
 *   LONG_TERM    reuse with postponing: a key that is not here when its turn comes is put off to the
 *                end of its sample, once.
 *   NON_CONFORM  keys that are here at the moment they are handed out.
 *
 * A sampler is what one worker keeps for one distribution. It shares nothing with others but the
 * target, which does not change. Where keys are, and the wish to have them here, are asked of and told
 * to its surroundings; time is an argument.
 *
 *  1. What CONFORM and BOUNDED choose depends on the sampler's stream alone, never on where keys are
 *     or how long anything takes.
 *  2. A sample of LONG_TERM hands out exactly the keys that BOUNDED would, in another order.
 *  3. The work of a call is bounded by a constant per key it chooses, and a constant.
 */
#ifndef CORE_DRAW_H
#define CORE_DRAW_H

#include "core/target.h"

enum {
    DRAW_POOL_KEYS = 250, /* G and U, unless the program says otherwise */
    DRAW_POOL_USES = 16,
    DRAW_ASK = 64, /* keys asked about at once, at most */
};

/* What a sampler knows of the node it is on, as of now. */
struct surroundings {
    /* Says which of n keys, at most DRAW_ASK, can be reached without the network. */
    void (*here)(void *context, const uint64_t *keys, size_t n, bool *here);
    /* Hears that n keys will be used from now on, while the worker's clock is below `until`. */
    void (*want)(void *context, const uint64_t *keys, size_t n, uint64_t until);
    void *context;
    uint64_t clock;  /* of the worker */
    uint64_t now_ns; /* looked at by sample_begin alone */
};

/* How a sampler is made. */
struct sampler_options {
    const struct target *target;
    enum tern_conformity conformity;
    uint64_t stream; /* names its random numbers */
    uint32_t pool_keys, pool_uses;
    /* Keys of which many are here, such as those at home: where local sampling looks while it knows
     * too few. Positions in the target; empty: none. */
    uint64_t near_begin, near_end;
};

struct sampler;

/* NULL when memory runs out. */
struct sampler *sampler_new(const struct sampler_options *options);
void sampler_free(struct sampler *sampler);

/* A sample: memory that is used again for the next. Starts as zero. */
struct sample {
    struct sampler *sampler;
    size_t n_left;
    uint64_t *keys; /* n of them, but for NON_CONFORM. Those before `next` have had their turn; */
    size_t n, next;
    size_t n_put_off; /* so many were put off and have moved to the front, */
    size_t n_late;    /* of which so many have been handed out, */
    size_t last_late; /* so many of them by the last sample_take */
    size_t capacity;
    uint64_t since; /* the clock when it was prepared, */
    uint64_t until; /* and that until which its keys were said to be used */
};

/* Begins a sample of n keys. */
enum tern_status sample_begin(struct sample *sample, struct sampler *sampler, size_t n,
                              const struct surroundings *around);

/* Hands out the next n keys, n <= n_left. */
enum tern_status sample_take(struct sample *sample, uint64_t *keys, size_t n,
                             const struct surroundings *around);

/* Takes back what the last sample_take handed out; it will be handed out later. */
void sample_return(struct sample *sample, const uint64_t *keys, size_t n);

/* Ends a sample, so that it can begin anew. */
void sample_finish(struct sample *sample, uint64_t clock);

/* The samples prepared and not yet used that reuse wants to have, for tests: twice what is used while
 * a pool is being prepared. */
size_t sampler_ahead(const struct sampler *sampler);

#endif
