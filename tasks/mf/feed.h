/*
 * feed - one worker's stream of batches: bands in random order, in each band the columns in random order, and of each
 * column the cells in random order; a new order in every epoch.
 *
 * A batch is some consecutive visits to columns. It has copies of its cells, in the order of their use; so batches of the
 * next epoch can be made while those of this one wait.
 */
#ifndef TASKS_MF_FEED_H
#define TASKS_MF_FEED_H

#include "common/rng.h"
#include "mf/factors.h"

/* About 400 microseconds of work at rank 32. Fewer, and a worker's clock would be so fast beside the
 * rounds in which nodes exchange keys that columns come late; more, and others see them late. */
enum { BATCH_VISITS = 512, BATCH_CELLS = 16 * MAX_VISIT };

struct mf_batch {
    uint64_t first_row; /* of the band */
    size_t n_rows;
    size_t n_batches; /* of the band, in its first batch; else 0 */
    bool ends_band, ends_epoch;
    size_t n_visits, n_cells;
    uint64_t columns[BATCH_VISITS];
    uint32_t n_cells_of[BATCH_VISITS];
    struct cell cells[BATCH_CELLS + FACTORS_AHEAD];
};

struct feed {
    struct part *part; /* which the feed puts in a new order */
    const struct cell *cells;
    struct rng rng;
    size_t band; /* the next visit, in the order of this epoch */
    size_t visit;
};

/* The part must have cells. */
void feed_init(struct feed *feed, const struct plan *plan, size_t part, struct rng rng);
void feed_next(struct feed *feed, struct mf_batch *batch);

#endif
