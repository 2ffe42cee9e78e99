/*
 * feed - one worker's stream of batches: bands in random order, in each band the columns block by block (plan.h), and of each
 * column the cells in random order; a new order in every epoch.
 *
 * In each band a worker goes through all blocks: first its own and those that follow, in the next band back again, so that it
 * begins with the block that it has. While all are equally fast, no two workers are in a block at a time, and they come to
 * the pieces of a block in the same order, one after the other. Columns within a piece are in random order.
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
    const struct plan *plan;
    struct part *part; /* whose bands the feed puts in a new order */
    size_t worker;     /* its number among all */
    struct rng rng;
    struct rng common_rng;         /* draws the same at all workers */
    uint32_t pieces[BLOCK_PIECES]; /* the order of the pieces of blocks in this epoch */
    uint64_t n_bands_begun;
    size_t band;          /* the present one, in the order of this epoch, */
    struct visit *visits; /* and its visits in their order: */
    size_t visit;         /* the next one */
};

/* The part must have cells. The epochs of all workers are to have the same number: that of the first is `epoch`. feed_fini() is
 * due in any case. */
bool feed_init(struct feed *feed, const struct plan *plan, size_t part, uint64_t epoch,
               struct rng rng);
void feed_fini(struct feed *feed);
void feed_next(struct feed *feed, struct mf_batch *batch);

#endif
