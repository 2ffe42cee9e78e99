/*
 * negatives - draws negatives: all entities, each with the same probability.
 *
 * Tern's sampling manager chooses their keys. A worker orders them when it prepares a batch and receives them when it
 * uses the batch, so that Tern has time to bring their rows. With --plain a generator draws them.
 */
#ifndef TASKS_KGE_NEGATIVES_H
#define TASKS_KGE_NEGATIVES_H

#include "common/params.h"
#include "common/rng.h"

struct negatives {
    struct tern_dist *dist; /* NULL: drawn by a generator */
    uint64_t n_entities;
};

/* What it opens ends with the parameters. */
bool negatives_open(struct negatives *negatives, const struct params *entities,
                    enum tern_conformity conformity, uint64_t seed);

/* Ends them, to open them anew; none may be ordered and not received. */
bool negatives_close(struct negatives *negatives);

/* Orders n keys; *order is their number. */
bool negatives_order(const struct negatives *negatives, struct tern_worker *worker, size_t n,
                     uint64_t *order);

/* Receives the keys of an order, or draws them with `rng`. */
bool negatives_receive(const struct negatives *negatives, struct tern_worker *worker,
                       uint64_t order, struct rng *rng, size_t n, uint64_t *keys);

#endif
