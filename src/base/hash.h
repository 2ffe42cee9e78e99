/*
 * hash - mixing of 64-bit words: a bijection whose every output bit depends on every input bit.
 *
 * It places keys on nodes and makes counter-based random numbers (rand.h). It is not a defence against
 * chosen collisions; where keys come from strangers, mix in a secret first.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdint.h>

static inline uint64_t hash_u64(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    return x;
}

#endif
