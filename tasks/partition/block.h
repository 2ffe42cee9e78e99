/*
 * block - a part of the bipartite graph of rows and the keys they use, small enough to be worked on in memory.
 *
 * A row is a data vertex (an example, a user, a vertex of a natural graph), an entry says that a row uses a key. Inside
 * a block rows and keys are numbered from 0, in both directions: the keys of a row, and the rows of a key.
 */
#ifndef TASKS_PARTITION_BLOCK_H
#define TASKS_PARTITION_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One entry of the graph as readers deliver it. */
struct edge {
    uint64_t row, key;
};

/* Sorts n edges by their rows or their keys, and leaves those that are equal in this in their order. */
bool edges_sort_by_row(struct edge *edges, size_t n);
bool edges_sort_by_key(struct edge *edges, size_t n);

struct block {
    uint32_t n_rows, n_keys, n_entries;
    uint64_t *rows;      /* the number of each row in the data, ascending */
    uint64_t *keys;      /* the name of each key, ascending */
    uint32_t *row_begin; /* row r has the entries row_begin[r] .. row_begin[r + 1] - 1: */
    uint32_t *row_keys;  /* keys of this block, each once */
    uint32_t *key_begin, *key_rows; /* the same the other way round */
};

/* Makes a block of n edges, in any order; an edge that is there twice counts once. The edges are sorted in place. */
bool block_init(struct block *block, struct edge *edges, size_t n);
void block_fini(struct block *block);

static inline uint32_t block_degree(const struct block *block, uint32_t row)
{
    return block->row_begin[row + 1] - block->row_begin[row];
}

#endif
