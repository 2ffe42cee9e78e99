/*
 * columns - the examples of a node by feature, for solvers that change a block of features at a time.
 *
 * The features of a node have numbers 0, 1, 2 ... in the order of their blocks, and within a block of their keys. The block
 * of a key is a hash of it, so nodes agree on blocks without knowing each other's keys. Each thread has examples of its own
 * and keeps, for each feature, those that have it. Repeated features of an example add up.
 */
#ifndef TASKS_LINEAR_COLUMNS_H
#define TASKS_LINEAR_COLUMNS_H

#include "linear/linear.h"

/* The examples of one thread. */
struct slice {
    size_t n_rows;
    float *labels, *weights;
    double *margins; /* sum of weights times values, kept up to date */
    size_t *start;   /* the pairs of feature j: start[j] .. start[j + 1] - 1 */
    uint32_t *rows;
    float *values;
};

struct columns {
    size_t n_features, n_blocks, n_slices;
    uint64_t *keys;      /* by feature */
    float *largest;      /* by feature: the largest |value| */
    size_t *block_start; /* the features of block b: block_start[b] .. block_start[b + 1] - 1 */
    struct slice *slices;
};

/* How many blocks suit examples of which each has so many features on average, when `delay` more blocks may be under way. */
size_t columns_choose_blocks(double n_features_each, uint64_t delay);

/* Takes the examples out of lists[0 .. n_slices), which are empty afterwards. columns_fini() is due in any case. */
bool columns_make(struct columns *columns, struct examples *lists, size_t n_slices,
                  size_t n_blocks);
void columns_fini(struct columns *columns);

/* The feature of a key, or n_features if no example has it. */
size_t columns_find(const struct columns *columns, uint64_t key);

#endif
