/*
 * hybrid - assigns rows and keys to parts by HET-GMP's Algorithm 1: every round goes over all vertices and gives each to
 * the part with the lowest score, (2) to (5) of the paper. Replicas, (6), are chosen afterwards (outcome.h).
 *
 * The paper's (2) subtracts the balance formula; since (4) grows with the size of a part, it must be added.
 */
#ifndef TASKS_PARTITION_HYBRID_H
#define TASKS_PARTITION_HYBRID_H

#include "partition/block.h"
#include "partition/parsa.h"

struct hybrid_options {
    uint32_t n_parts;
    uint64_t n_rounds, seed;
    enum balance balance;
    uint32_t
        n_per_host; /* parts of one host; between hosts a link is LINK_COST times as dear. 0: all are alike */
    const double *
        costs; /* of n_parts x n_parts links instead, or NULL; those of a part to itself are not looked at */
};

enum { LINK_COST = 10 };

/* Assigns the rows of a block that is the whole graph. */
bool hybrid_assign(const struct block *block, const struct hybrid_options *options,
                   uint16_t *parts);

#endif
