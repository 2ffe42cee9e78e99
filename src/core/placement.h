/*
 * placement - the home of a key: the node that has its main copy unless it was moved, and that always
 * knows where it is.
 *
 * Sparse tables use a consistent-hash ring with virtual nodes, so that a node that comes or goes
 * changes the home of few keys. Dense tables are cut into one range per node, so that ranges of keys
 * stay together and a node's rows lie in the order of their keys. All nodes compute the same.
 */
#ifndef CORE_PLACEMENT_H
#define CORE_PLACEMENT_H

#include "base/status.h"

struct ring; /* points of the virtual nodes, sorted, and a table that shortens the search */

/* A ring for the nodes 0 .. n_nodes-1, at least one; NULL when memory is used up. */
struct ring *ring_new(uint32_t n_nodes);
void ring_free(struct ring *ring);

/* The home of a key of a sparse table. */
uint32_t ring_home(const struct ring *ring, uint64_t key);

/* The home of a key < n_keys of a dense table: node i has [range_begin(i), range_begin(i + 1)), which
 * differ by at most one in size, and are empty for some if there are more nodes than keys. */
uint32_t range_home(uint64_t key, uint64_t n_keys, uint32_t n_nodes);
uint64_t range_begin(uint32_t node, uint64_t n_keys, uint32_t n_nodes);

#endif
