/*
 * sketch - counts of any number of keys in memory of a fixed size: CountMin (li-thesis 3.4.3, Algorithm 4).
 *
 * There are `depth` rows of `width` cells. A key has one cell in each row. Counting adds to all of them, and the estimate is the
 * lowest: other keys may have added to it, so that it is never too low. With width = e / epsilon and depth = ln(1 / delta),
 * it exceeds the true count by more than epsilon times the sum of all counts with a probability of at most delta.
 *
 *  1. A cell never gets less. It stops at the largest number of the table's type.
 *  2. Cells are changed by atomic additions, without a latch, or by plain ones if the caller is alone.
 *  3. With conservative update only cells below the new estimate are raised, to that. Estimates are lower then. Two threads that
 *     count the same key must not both begin with the same estimate: each holds the key's latch. Different keys that share a cell
 *     need no common latch, since both raise it to what they need at least.
 *  4. The heaviest keys are kept in counters of their own (top.h), under one latch. They take the estimate under that latch, so
 *     that it contains all that they were told before.
 *  5. There are no pointers: all may be in memory that processes share (shared.h). A process that dies between two cells of a key
 *     leaves a count that it never reported as done.
 */
#ifndef STORE_SKETCH_H
#define STORE_SKETCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/latch.h"
#include "store/top.h"
#include "tern/tern.h"

enum { SKETCH_LATCHES = 64 };

struct sketch {
    uint64_t seed; /* of the hash */
    uint64_t width;
    uint32_t depth;
    uint32_t n_counters;           /* of the heaviest keys */
    uint64_t top_at;               /* where these begin, in bytes from here */
    bool is_conservative, is_wide; /* is_wide: cells of 8 bytes, not 4 */
    struct {
        struct latch latch;
    } __attribute__((aligned(64))) latches[SKETCH_LATCHES], top_latch;
    uint64_t cells[]; /* row by row */
};

/* The width and the depth that options ask for. */
uint64_t sketch_width(const struct tern_sketch *options);
uint32_t sketch_depth(const struct tern_sketch *options);

/* The bytes of a table's sketch; 0 if it is none. */
uint64_t sketch_bytes(const struct tern_table_options *options);

/* Begins to count, in zeroed memory of that size, aligned to 64 bytes. `seed` is the hash's unless the options have one. */
void sketch_init(struct sketch *sketch, const struct tern_table_options *options, uint64_t seed);

/* Counts n keys; counts[i], of the table's type and at any address, are not negative. `alone`: no other thread reads or changes
 * the sketch meanwhile. False if a wait was given up, after which the table is lost. */
bool sketch_add(struct sketch *sketch, const uint64_t *keys, size_t n, const void *counts,
                bool alone, struct watch *watch);

/* The estimates of n keys, of the table's type. */
void sketch_estimate(const struct sketch *sketch, const uint64_t *keys, size_t n, void *estimates);

/* The counters of the heaviest keys, heaviest first, in `to`, which has room for n_counters; their number, at most k, goes to *n.
 * False if a wait was given up. */
bool sketch_heaviest(struct sketch *sketch, size_t k, struct top_counter *to, size_t *n,
                     struct watch *watch);

/* Forgets all counts; and takes over a counter of a heaviest key that is not there. False if a wait was given up. */
void sketch_clear(struct sketch *sketch);
bool sketch_put_heaviest(struct sketch *sketch, struct top_counter counter, struct watch *watch);

/* Copies n cells from `first` on, row by row; and adds to them, which leaves the heaviest keys alone. */
void sketch_read(const struct sketch *sketch, uint64_t first, size_t n, int64_t *cells);
void sketch_merge(struct sketch *sketch, uint64_t first, size_t n, const int64_t *cells);

#endif
