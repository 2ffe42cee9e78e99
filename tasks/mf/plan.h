/*
 * plan - which worker learns from which rating, and in which order.
 *
 * Ratings are dealt out by row: every row belongs to one worker, which alone changes it, and every worker gets about the
 * same number of ratings. The rows get keys in a random order, such that the keys of a worker, and those of a node, are
 * consecutive.
 *
 * A worker's rows are cut into bands. It works on one band at a time, and within the band column by column. The rows of a
 * band stay in the cache, while each visit to a column still has many ratings to learn from.
 *
 * Columns are what workers share. They are dealt out to as many blocks as there are workers, at random and with about
 * equally many ratings; the workers go through the blocks in turn, each from its own on, so that hardly a column is used
 * at two nodes at a time (DSGD). A block has pieces, whose order is drawn in each epoch, the same for all.
 *
 *          columns, by block
 *           0   1   2   3
 *         +---+---+---+---+
 *   rows  |:::|   |   |   |  band   \
 *         |   |   |   |   |  band   /  part of worker 0
 *         |   |:::|   |   |  band   \
 *         |   |   |   |   |  band   /  part of worker 1, at the same time
 *         +---+---+---+---+
 */
#ifndef TASKS_MF_PLAN_H
#define TASKS_MF_PLAN_H

#include "mf/ratings.h"

/* A rating within a band and a column. */
struct cell {
    uint32_t row; /* counted from the first of the band */
    float value;
};

/* Ratings of one column that are learned from at a time, cells[first .. first + n). */
struct visit {
    uint32_t column;
    uint32_t n;
    size_t first;
};

enum { MAX_VISIT = 512 }; /* cells of a visit; a column with more in a band has several */

enum { BLOCK_PIECES = 16 };

struct band {
    uint64_t first_row; /* keys: first_row .. first_row + n_rows - 1 */
    uint32_t n_rows;
    struct visit *visits; /* ordered by piece */
    size_t n_visits;
};

/* What belongs to one worker. */
struct part {
    struct band *bands;
    size_t n_bands;
    size_t n_cells;
    struct rating *tests; /* rows are keys here */
    size_t n_tests;
};

/* The parts of the workers of this node. */
struct plan {
    uint64_t seed;
    uint32_t *key_of_row; /* by the number of the row */
    uint32_t n_rows;
    uint32_t *piece_of_column; /* pieces of all blocks, numbered one block after the other */
    size_t first_worker,
        n_workers; /* the number of the first part, and of the parts of all nodes */
    size_t n_parts;
    struct part *parts;
    struct band *bands;
    struct cell *cells;
    struct visit *visits;
    struct rating *tests;
};

struct plan_workers {
    size_t first, n; /* those of this node: first .. first + n - 1 */
    size_t n_all;
    const uint32_t *node_of_row; /* the node that a row is dealt to; NULL: as is even */
};

/* plan_fini() is due in any case. */
bool plan_make(struct plan *plan, const struct ratings *ratings, struct plan_workers workers,
               uint64_t seed);

/* Deals the ratings out to other workers; rows keep their keys. The plan is that of plan_make() without nodes of rows, and its
 * parts end. */
bool plan_share_out(struct plan *plan, const struct ratings *ratings, struct plan_workers workers);

/* Puts bands into the order that plan_make() gave them. */
void plan_sort(struct plan *plan);

void plan_fini(struct plan *plan);

#endif
