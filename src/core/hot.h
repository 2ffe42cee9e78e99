/*
 * hot - which keys are used so much more often than others that every node should have a copy.
 *
 * The heuristic of NuPS, Section 5.1: keys used more than `hot_factor` times as often as the average key; 100 by default.
 * The program gives the frequencies as counts, or the node samples its own accesses: it looks at the sample whenever that has
 * doubled, for the last time after HOT_LAST accesses.
 *
 * Pure. One thread at a time: the caller locks.
 */
#ifndef CORE_HOT_H
#define CORE_HOT_H

#include "base/keymap.h"

enum { HOT_FACTOR = 100 }; /* unless a table has its own */

struct hot {
    struct keymap counts; /* of the keys in the sample; of those found hot with HOT_FOUND */
    uint64_t n_sampled;
    uint64_t next_look; /* when the sample is as large as this; 0: complete */
    uint64_t n_keys;    /* of the table; 0: those in the sample */
    double factor;      /* times the average that make a key hot */
};

void hot_init(struct hot *hot, uint64_t n_keys, double factor);
void hot_fini(struct hot *hot);

/* Whether further accesses are of interest. */
static inline bool hot_is_open(const struct hot *hot)
{
    return hot->next_look != 0;
}

/* Adds accesses to the sample; true if it is time to look. Without memory the sample is complete. */
bool hot_add(struct hot *hot, const uint64_t *keys, size_t n);

/* Up to `most` keys that are hot and were not found before. */
size_t hot_look(struct hot *hot, uint64_t *keys, size_t most);

/* Up to `most` hot keys among 0 .. n - 1, by given counts. */
size_t hot_among(const uint64_t *counts, uint64_t n, double factor, uint64_t *keys, size_t most);

#endif
