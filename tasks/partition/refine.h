/*
 * refine - moves rows of a block to other parts where that saves remote pairs.
 *
 * A key that n parts use has its home at one of them and is remote for n - 1. So moving a row from part a to part b saves
 * the keys that only this row uses in a, and costs those that nothing in b uses so far.
 *
 * Parts that are full let nobody in, however much would be saved. A pass with prices makes room: a row pays for its place, the
 * more the fuller the part is, so rows that lose little elsewhere leave, and those that save more come.
 */
#ifndef TASKS_PARTITION_REFINE_H
#define TASKS_PARTITION_REFINE_H

#include "partition/parsa.h"

/* One pass over the rows. `counts` has, for each key of the block, how many rows of each part use it in all blocks;
 * counts, loads and parts are updated. No part gets a load above its `max_loads` by it. *n_moved rows were moved. */
bool refine_pass(const struct block *block, uint32_t n_parts, enum balance balance,
                 const uint64_t *max_loads, int32_t *counts, uint64_t *loads, uint16_t *parts,
                 bool has_prices, uint64_t *n_moved);

#endif
