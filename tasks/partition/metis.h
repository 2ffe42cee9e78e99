/*
 * metis - assigns the rows by METIS, where its library is installed: for comparison.
 *
 * METIS gets the bipartite graph: rows weigh 1 (or their entries), keys nothing; parts may have a twentieth more than the
 * mean.
 */
#ifndef TASKS_PARTITION_METIS_H
#define TASKS_PARTITION_METIS_H

#include "partition/block.h"
#include "partition/parsa.h"

/* Assigns the rows of a block that is the whole graph. With `by_volume` METIS minimises the volume of communication
 * instead of the edge cut. *seconds is the processor time of METIS alone. */
bool metis_assign(const struct block *block, uint32_t n_parts, enum balance balance, bool by_volume,
                  uint64_t seed, uint16_t *parts, double *seconds);

#endif
