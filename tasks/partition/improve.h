/*
 * improve - moves rows between parts, pass by pass, with all workers of all nodes (refine.h says what is moved).
 *
 * A table of Tern has, for each key, how many rows of each part use it; another one, of one key, the load of each part.
 * A worker pulls the counts of a block's keys, refines the block, and pushes what has changed.
 */
#ifndef TASKS_PARTITION_IMPROVE_H
#define TASKS_PARTITION_IMPROVE_H

#include "partition/job.h"

/* Makes at most n_passes over rows of which all have a part; all nodes call it at once. A pass that moves few rows is the
 * last, or the last with prices. */
bool improve(struct job *job, int64_t n_passes);

#endif
