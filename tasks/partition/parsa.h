/*
 * parsa - assigns the rows of a block to parts: Algorithm 13 of Li's thesis.
 *
 * Again and again the part with the least load takes the row that adds the fewest keys to those it uses. The load of a
 * part counts all blocks so far. (The thesis' line 11 says |S_j|, the keys of a part; its text says |U_j|, the rows,
 * and only that keeps the parts balanced.)
 */
#ifndef TASKS_PARTITION_PARSA_H
#define TASKS_PARTITION_PARSA_H

#include "partition/block.h"
#include "partition/sets.h"

/* What a row adds to the load of its part. */
enum balance { BALANCE_ROWS, BALANCE_ENTRIES };

static inline uint64_t row_load(const struct block *block, uint32_t row, enum balance balance)
{
    return balance == BALANCE_ROWS ? 1 : block_degree(block, row);
}

/* Assigns every row: parts[row]. `sets` has the set of each key of the block and is updated, `loads` the load of each
 * part, likewise. */
bool parsa_assign(const struct block *block, uint32_t n_parts, enum balance balance, uint64_t *sets,
                  uint64_t *loads, uint16_t *parts);

#endif
