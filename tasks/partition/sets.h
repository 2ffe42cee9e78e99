/*
 * sets - for each key of a block, which parts use it: a set of parts in words of 64 bits.
 *
 * These are the neighbour sets of Parsa, stored by key: part i uses key k iff bit i of k's set is there.
 */
#ifndef TASKS_PARTITION_SETS_H
#define TASKS_PARTITION_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_PARTS = 4096, MAX_SET_WORDS = MAX_PARTS / 64 };

static inline size_t set_words(uint32_t n_parts)
{
    return (n_parts + 63) / 64;
}

static inline bool set_has(const uint64_t *set, uint32_t part)
{
    return set[part / 64] >> part % 64 & 1;
}

static inline void set_add(uint64_t *set, uint32_t part)
{
    set[part / 64] |= UINT64_C(1) << part % 64;
}

static inline void set_remove(uint64_t *set, uint32_t part)
{
    set[part / 64] &= ~(UINT64_C(1) << part % 64);
}

/* For each part of a set: adds 1 to its count. */
static inline void set_count(const uint64_t *set, size_t n_words, uint32_t *counts)
{
    for (size_t w = 0; w < n_words; w++)
        for (uint64_t bits = set[w]; bits; bits &= bits - 1)
            counts[w * 64 + (size_t)__builtin_ctzll(bits)]++;
}

#endif
