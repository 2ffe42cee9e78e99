/*
 * rand - random numbers without shared state.
 *
 * rand_at() is counter-based: the i-th number of a stream is a function of (stream, i), so any element
 * of a parameter's initial value can be computed anywhere, in any order. `stream` should itself be
 * the result of hash_u64 or rand_at.
 */
#ifndef BASE_RAND_H
#define BASE_RAND_H

#include <stdint.h>

#include "base/hash.h"

static inline uint64_t rand_at(uint64_t stream, uint64_t i)
{
    return hash_u64(stream + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* Uniform in [0, 1) with 53 bits. */
static inline double rand_unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

/* Uniform in 0 .. n-1; the bias is below n / 2^64. */
static inline uint64_t rand_below(uint64_t bits, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)bits * n) >> 64);
}

#endif
