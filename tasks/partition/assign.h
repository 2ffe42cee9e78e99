/*
 * assign - assigns all rows to parts by Parsa (Algorithm 12 of Li's thesis), with all workers of all nodes.
 *
 * The neighbour sets are a table of Tern: for each key the set of parts that use it, in words of 64 bits, with an updater
 * that ors. A worker pulls the sets of a block's keys, assigns the block's rows (parsa.h), and pushes what was added to
 * the sets. First a few blocks are partitioned only to begin with good sets: block 0, and then by each worker those of its own,
 * each with the sets of the blocks before it alone.
 */
#ifndef TASKS_PARTITION_ASSIGN_H
#define TASKS_PARTITION_ASSIGN_H

#include "partition/job.h"

/* Assigns the rows of this node's blocks; all nodes call it at once. The sets begin as those of an earlier partition if
 * node 0 has put them into the table (`has_sets`), which assign_open() opens. */
bool assign_open(struct job *job);
bool assign_rows(struct job *job, bool has_sets);

#endif
