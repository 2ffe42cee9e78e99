/*
 * granules - the entries of a data set, scattered by row over a fixed number of granules: in memory up to a limit, beyond
 * it in a file.
 *
 * The rows of a granule are a random sample of all rows. Blocks (block.h) are made of granules, so their number may be
 * chosen when the size of the data is known, and rows whose entries lie apart in the data still come together.
 */
#ifndef TASKS_PARTITION_GRANULES_H
#define TASKS_PARTITION_GRANULES_H

#include <stdio.h>

#include "partition/block.h"

enum { GRANULES = 1024 };

enum { EDGES_PER_CHUNK = 255 };

/* Some entries of one granule, as large as a page. */
struct chunk {
    struct chunk *before;
    size_t n;
    struct edge edges[EDGES_PER_CHUNK];
};

/* Entries of one granule that were written to the file together. */
struct granule_run {
    uint64_t offset, n;
};

struct granule {
    struct chunk *newest; /* of those in memory */
    size_t n;
    struct granule_run *runs; /* those in the file */
    size_t n_runs, max_runs;
};

struct granules {
    uint64_t seed;
    uint64_t n_rows; /* 1 + the largest number of a row */
    uint64_t n_edges;
    size_t n_in_memory, max_in_memory; /* edges */
    struct chunk **slabs;              /* memory of chunks, of which n_chunks are used */
    size_t n_slabs, n_chunks;
    FILE *file; /* without a name; NULL: everything is in memory */
    uint64_t file_bytes;
    struct granule at[GRANULES];
};

/* At most `memory_bytes` are kept in memory. */
void granules_init(struct granules *granules, uint64_t seed, size_t memory_bytes);
void granules_fini(struct granules *granules);

/* A row exists, with or without entries. */
static inline void granules_add_row(struct granules *granules, uint64_t row)
{
    if (row >= granules->n_rows)
        granules->n_rows = row + 1;
}

bool granules_add(struct granules *granules, uint64_t row, uint64_t key);

/* Nothing is added any more: if some entries are in the file, the others go there too, and their memory is given back. */
bool granules_finish(struct granules *granules);

/* Copies the edges of block `number` of n_blocks, in no order; *edges is the caller's to free. */
bool granules_edges(const struct granules *granules, size_t n_blocks, size_t number,
                    struct edge **edges, size_t *n);

/* Makes the block of number `number` of n_blocks, at most GRANULES. The block's rows are those of every n_blocks-th
 * granule. Several threads may do so at once. */
bool granules_load(const struct granules *granules, size_t n_blocks, size_t number,
                   struct block *block);

#endif
