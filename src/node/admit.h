/*
 * admit - workers of tables with bounded reads tell how far they have come, and wait where the bound demands it
 * (core/admit.h).
 *
 * A worker that waits drives the rounds itself. On a single node there is nothing to fetch; workers wait for each other all
 * the same.
 *
 * Locks: a node's clocks_lock guards its workers' clocks, and is taken last.
 */
#ifndef NODE_ADMIT_H
#define NODE_ADMIT_H

#include "node/node.h"

/* The driver of the rules about workers (core/admit.h, core/order.h); it is given the worker. */
extern const struct io worker_io;

void admit_init(struct tern_node *node);
void admit_fini(struct tern_node *node);

/* The node has one more table with bounded reads: from now on its workers' clocks count. Under the node's lock. */
void admit_begin(struct tern_node *node);

/* A table was withdrawn: waits until nobody tells it a clock any more. */
void admit_end(struct tern_node *node);

/* A worker is opened; fails for want of memory. And closed. */
enum tern_status admit_open(struct tern_worker *worker);
void admit_close(struct tern_worker *worker);

/* Before a worker that rests, or has pushed to tables bounded by value, advances; and after. */
enum tern_status admit_before_advance(struct tern_worker *worker);
void admit_advanced(struct tern_worker *worker);

/* Before and after an operation on keys of a table with bounded reads. Afterwards no value is read that
 * is older than allowed. */
enum tern_status admit_before(struct tern_worker *worker, struct tern_table *table,
                              enum frame_kind kind, const uint64_t *keys, size_t n,
                              const void *values);
/* Whether a key can be read at once; if so, it is counted. */
bool admit_now(struct tern_worker *worker, const struct tern_table *table, uint64_t key);
void admit_after(struct tern_worker *worker, const struct tern_table *table, enum frame_kind kind);

/* All nodes' changes are at their homes: what is read from now on has them. */
void admit_settle_all(struct tern_node *node);

#endif
