/*
 * dists - what the workers of a simulated cluster draw from: for each level of conformity some keys of one
 * table whose keys come and go.
 *
 * Table, kind of target, weights and pools follow from the seed. The keys are few, so that workers meet
 * at them and pools are used up; so are the pools.
 */
#ifndef SIM_DISTS_H
#define SIM_DISTS_H

#include "core/target.h"
#include "sim/tables.h"

enum {
    N_LEVELS = TERN_NON_CONFORM + 1,
    DIST_KEYS = 16,
    MAX_POOL = 6,
};

struct dist {
    enum sim_table table;
    uint32_t first; /* the index of its first key in the table; the others follow */
    size_t n;
    uint64_t keys[DIST_KEYS];
    double weights[DIST_KEYS]; /* 0: never drawn */
    uint32_t pool_keys, pool_uses;
    struct target target;
};

struct dists {
    struct dist of[N_LEVELS]; /* by enum tern_conformity */
};

/* False when memory runs out. */
bool dists_init(struct dists *dists, const struct tables *tables, uint64_t seed);
void dists_fini(struct dists *dists);

/* The place of a key among those of a distribution; `n` if it is none of them. */
size_t dist_find(const struct dist *dist, uint64_t key);

#endif
