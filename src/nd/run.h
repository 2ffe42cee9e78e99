/*
 * run - carries out a graph: each node that was not merged becomes an operation of the engine.
 *
 * run_make fuses and plans the graph, which it takes over, and allocates everything. Then every leaf and every output is
 * bound to a storage, and run_submit hands the operations of some nodes to the engine and returns at once. A run is
 * submitted again without allocating; run_submit first waits until the last time has ended.
 */
#ifndef ND_RUN_H
#define ND_RUN_H

#include "nd/elementwise.h"
#include "nd/plan.h"
#include "nd/storage.h"

struct run;

struct run_options {
    bool fusing, sharing;
    bool is_single; /* submitted once; it frees itself at the end */
};

/* Takes over the graph, also when it fails. */
enum tern_status run_make(struct graph *graph, struct run_options options, struct run **run);

/* Waits until nothing of it runs, and frees it. NULL is allowed. */
void run_free(struct run *run);

/* The memory of a leaf or an output: `offset` and `strides` (NULL: no gaps) are in elements. Keeps the storage. */
void run_bind(struct run *run, uint32_t node, struct storage *storage, int64_t offset,
              const int64_t *strides);

/* Submits the operations of the nodes begin .. end-1. `step` makes random numbers differ. */
void run_submit(struct run *run, uint32_t begin, uint32_t end, uint64_t step);

/* Whether an operator fails when it makes NaN of numbers that have none. Runs that are made meanwhile are not fused, so that
 * each operator is looked at. */
void run_check_nan(bool on);

const struct graph *run_graph(const struct run *run);
const struct plan *run_plan(const struct run *run);

#endif
