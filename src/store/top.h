/*
 * top - the heaviest keys of a stream, in a fixed number of counters: space-saving (Metwally, Agrawal, El Abbadi 2005).
 *
 * Each counter has a key, a count that is at least the key's true one, and a count that is at most the true one; their
 * difference is the largest error. A key without a counter takes that of the lowest one and begins with its count.
 *
 *  1. While counters are free, counts are exact. After that a key without a counter has a true count of at most the lowest.
 *  2. The caller's sketch gives an estimate that is never too low. A key whose estimate is at most the lowest count leaves
 *     the counters as they are, and no count is raised above the estimate: rare keys do not displace each other.
 *  3. Counters are a heap, lowest first, with a hash table from keys to positions. There are no pointers, so that all of it
 *     may be in memory that processes share (shared.h).
 *
 * One thread at a time: the caller locks.
 */
#ifndef STORE_TOP_H
#define STORE_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct top_counter {
    uint64_t key;
    uint64_t count; /* the true one is at most this, */
    uint64_t least; /* and at least this */
    uint32_t cell;  /* of the hash table that leads here */
};

struct top {
    uint32_t n, capacity;
    uint32_t mask; /* cells of the hash table - 1 */
    uint64_t seed;
    struct top_counter counters[]; /* and behind them the cells: 1 + the position of a counter */
};

/* The bytes of so many counters, and how to begin with zeroed memory of that size. */
uint64_t top_bytes(uint32_t n_counters);
void top_init(struct top *top, uint32_t n_counters, uint64_t seed);

/* Counts a key n times more; `estimate` is what the sketch says of it, these n included. */
void top_add(struct top *top, uint64_t key, uint64_t n, uint64_t estimate);

/* Takes over a counter from elsewhere, unless all here are heavier, or its key is here; and forgets all. */
void top_put(struct top *top, struct top_counter counter);
void top_clear(struct top *top);

/* Copies the counters of the heaviest keys, at most k, to `to`, heaviest first; gives their number. `to` has room for all
 * counters that are in use. */
size_t top_heaviest(const struct top *top, size_t k, struct top_counter *to);

/* Orders counters: the heaviest first, of equal ones the lower key. For qsort. */
int top_compare(const void *a, const void *b);

#endif
