/*
 * placement - the home of a key: the node that has its main copy unless it was moved, and that always
 * knows where it is.
 *
 * Sparse tables use a consistent-hash ring with virtual nodes, so that a node that comes or goes
 * changes the home of few keys. Dense tables are cut into one range per node, so that ranges of keys
 * stay together and a node's rows lie in the order of their keys; or, if the program says that frequent keys
 * lie together, dealt out like cards. All nodes compute the same homes.
 */
#ifndef CORE_PLACEMENT_H
#define CORE_PLACEMENT_H

#include "core/view.h"

/* The points of a view's nodes; NULL when memory runs out. For view.c. */
struct ring *ring_new(const struct view *view);
void ring_free(struct ring *ring);

/* The home of a key of a sparse table. */
uint32_t ring_home(const struct view *view, uint64_t key);

/* The home of a key < n_keys of a dense table: a node has [range_begin, range_end). Ranges are in the order of the nodes; their
 * sizes differ by at most one, and some are empty if there are more nodes than keys. */
uint32_t range_home(const struct view *view, uint64_t key, uint64_t n_keys);
uint64_t range_begin(const struct view *view, uint32_t node, uint64_t n_keys);
uint64_t range_end(const struct view *view, uint32_t node, uint64_t n_keys);

/* The home of a key of a dense table that is dealt out: nodes get one key each in turn, there and back. So of keys in the order
 * of their frequency no node gets the more frequent one each time. */
uint32_t scattered_home(const struct view *view, uint64_t key);
/* How many of n_keys keys a node has so. */
uint64_t scattered_count(const struct view *view, uint32_t node, uint64_t n_keys);

#endif
