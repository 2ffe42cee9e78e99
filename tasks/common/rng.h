/*
 * rng - random numbers of a task: one generator per thread, the same numbers for the same seed.
 *
 * The generator is SplitMix64; rng_seed() scatters seed and stream, so that streams of neighbouring
 * threads have nothing in common.
 */
#ifndef TASKS_RNG_H
#define TASKS_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t rng_next(struct rng *rng)
{
    return rng_mix(rng->state += UINT64_C(0x9e3779b97f4a7c15));
}

static inline struct rng rng_seed(uint64_t seed, uint64_t stream)
{
    return (struct rng){rng_mix(rng_mix(seed) + stream * UINT64_C(0xd1342543de82ef95) + 1)};
}

/* Uniform in 0 .. n-1, for n up to 2^32; the bias is below 2^-32. */
static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
    return ((rng_next(rng) >> 32) * n) >> 32;
}

/* Uniform in [0, 1). */
static inline double rng_unit(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

/* Uniform in [0, 1), in single precision. */
static inline float rng_unit_float(struct rng *rng)
{
    return (float)(rng_next(rng) >> 40) * 0x1p-24f;
}

#endif
