/*
 * admission - counts how often keys without a row were used, so that only keys that are used often get one.
 *
 * A table with `admit = r` gives a key its row when the key has been counted more than r times. The counters are a
 * Count-Min sketch with conservative update: a key has four counters, its count is at most the smallest of them, and only
 * counters below the new count are raised. So a count is never too low, and a key is never late. It may be too high, and
 * the key early, if all four counters are also those of other keys.
 *
 *  1. The four counters of a key lie in one cache line: counting costs one miss.
 *  2. A counter stops at r + 1, because nobody asks for more, and has 2, 4, 8 or 16 bits, as r needs. There are 2 bytes of
 *     counters for each expected key.
 *  3. A line is read and changed under one of a few latches. Keys that have a row are not counted, so nobody who finds
 *     its row comes here.
 *  4. The counters contain no pointers: they may be in memory that processes share (shared.h).
 *
 * Counts are not forgotten when a row is removed.
 */
#ifndef STORE_ADMISSION_H
#define STORE_ADMISSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/latch.h"
#include "tern/tern.h"

enum {
    ADMISSION_MOST = TERN_MAX_ADMIT,   /* the largest r */
    ADMISSION_LATCHES = 64,            /* of the lines of counters */
    ADMISSION_EXPECTED_KEYS = 1 << 20, /* unless the table says otherwise */
    ADMISSION_LINE_WORDS = 8,          /* of 8 bytes */
};

struct admission {
    uint64_t seed; /* of the hash */
    uint64_t n_lines;
    uint32_t most;              /* r */
    uint32_t counter_bits;      /* 2, 4, 8 or 16 */
    _Atomic uint64_t n_counted; /* times that keys without a row were counted */
    _Atomic uint64_t n_dropped; /* pushes to such keys */
    struct {
        struct latch latch;
    } __attribute__((aligned(64))) latches[ADMISSION_LATCHES];
    uint64_t lines[][ADMISSION_LINE_WORDS];
};

/* The bytes of a table's counters; 0 if it has none. */
uint64_t admission_bytes(const struct tern_table_options *options);

/* Begins to count, in zeroed memory of that size, aligned to 64 bytes. */
void admission_init(struct admission *admission, const struct tern_table_options *options,
                    uint64_t seed);

/* Counts a key n times; true if it has been counted more than r times by now. Also true if a wait was given up, after which
 * the caller finds that the table is lost. */
bool admission_count(struct admission *admission, uint64_t key, uint32_t n, struct watch *watch);

#endif
