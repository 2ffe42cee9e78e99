/* feed - one worker's stream of batches. See feed.h. */
#include "mf/feed.h"

#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"

bool feed_init(struct feed *feed, const struct plan *plan, size_t part, uint64_t epoch,
               struct rng rng)
{
    size_t most = 0;
    *feed = (struct feed){.plan = plan,
                          .part = &plan->parts[part],
                          .worker = plan->first_worker + part,
                          .rng = rng,
                          .common_rng = rng_seed(plan->seed + epoch, UINT64_MAX - 3)};
    for (size_t i = 0; i < feed->part->n_bands; i++)
        most = feed->part->bands[i].n_visits > most ? feed->part->bands[i].n_visits : most;
    feed->visits = malloc((most + 1) * sizeof *feed->visits);
    return feed->visits != NULL || task_fail_memory("a worker");
}

void feed_fini(struct feed *feed)
{
    free(feed->visits);
    feed->visits = NULL;
}

/* ---- The order of an epoch ------------------------------------------------------------------- */

static void shuffle_bands(struct rng *rng, struct band *bands, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = rng_below(rng, i);
        struct band other = bands[j];
        bands[j] = bands[i - 1];
        bands[i - 1] = other;
    }
}

static void draw_pieces(struct feed *feed)
{
    for (uint32_t i = 0; i < BLOCK_PIECES; i++) {
        const size_t j = rng_below(&feed->common_rng, (uint64_t)i + 1);
        feed->pieces[i] = feed->pieces[j];
        feed->pieces[j] = i;
    }
}

/* The first visit of a band to a piece, or a later one. */
static size_t find_piece(const struct feed *feed, const struct band *band, size_t piece)
{
    size_t low = 0, high = band->n_visits;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (feed->plan->piece_of_column[band->visits[middle].column] < piece)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Appends the visits to a piece in random order. */
static size_t add_piece(struct feed *feed, const struct band *band, size_t piece, size_t n)
{
    const size_t end = find_piece(feed, band, piece + 1);
    struct visit *to = feed->visits + n;
    n = 0;
    for (size_t i = find_piece(feed, band, piece); i < end; i++, n++) {
        const size_t j = rng_below(&feed->rng, n + 1);
        to[n] = to[j];
        to[j] = band->visits[i];
    }
    return n;
}

static void order_visits(struct feed *feed, const struct band *band)
{
    const size_t n_blocks = feed->plan->n_workers;
    const bool goes_back = feed->n_bands_begun++ % 2 == 1;
    size_t n = 0;
    for (size_t i = 0; i < n_blocks; i++) {
        const size_t block = (feed->worker + (goes_back ? n_blocks - 1 - i : i)) % n_blocks;
        for (size_t k = 0; k < BLOCK_PIECES; k++)
            n += add_piece(feed, band, block * BLOCK_PIECES + feed->pieces[k], n);
    }
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* How many of the visits make the next batch. */
static size_t take(const struct visit *visits, size_t n)
{
    size_t n_taken = 0, n_cells = 0;
    while (n_taken < n && n_taken < BATCH_VISITS && n_cells + visits[n_taken].n <= BATCH_CELLS)
        n_cells += visits[n_taken++].n;
    return n_taken;
}

static size_t count_batches(const struct visit *visits, size_t n)
{
    size_t n_batches = 0;
    for (size_t i = 0; i < n; i += take(visits + i, n - i))
        n_batches++;
    return n_batches;
}

static void begin_band(struct feed *feed, struct mf_batch *batch)
{
    struct part *part = feed->part;
    if (feed->band == 0) {
        shuffle_bands(&feed->rng, part->bands, part->n_bands);
        draw_pieces(feed);
    }
    const struct band *band = &part->bands[feed->band];
    order_visits(feed, band);
    batch->n_batches = count_batches(feed->visits, band->n_visits);
}

static void end_band(struct feed *feed, struct mf_batch *batch)
{
    batch->ends_band = true;
    feed->visit = 0;
    feed->band++;
    if (feed->band == feed->part->n_bands) {
        batch->ends_epoch = true;
        feed->band = 0;
    }
}

/* Appends the cells of a visit in random order. */
static void add_visit(struct feed *feed, const struct visit *visit, struct mf_batch *batch)
{
    struct cell *to = batch->cells + batch->n_cells;
    const struct cell *from = feed->plan->cells + visit->first;
    for (uint32_t i = 0; i < visit->n; i++) {
        uint64_t j = rng_below(&feed->rng, (uint64_t)i + 1);
        to[i] = to[j];
        to[j] = from[i];
    }
    batch->n_cells += visit->n;
    batch->columns[batch->n_visits] = visit->column;
    batch->n_cells_of[batch->n_visits++] = visit->n;
}

void feed_next(struct feed *feed, struct mf_batch *batch)
{
    batch->n_batches = batch->n_visits = batch->n_cells = 0;
    batch->ends_band = batch->ends_epoch = false;
    if (feed->visit == 0)
        begin_band(feed, batch);
    const struct band *band = &feed->part->bands[feed->band];
    batch->first_row = band->first_row;
    batch->n_rows = band->n_rows;
    size_t n = take(feed->visits + feed->visit, band->n_visits - feed->visit);
    for (size_t i = 0; i < n; i++)
        add_visit(feed, &feed->visits[feed->visit + i], batch);
    /* Row 0 of the band is fetched in vain behind the last cell. */
    memset(batch->cells + batch->n_cells, 0, FACTORS_AHEAD * sizeof *batch->cells);
    feed->visit += n;
    if (feed->visit == band->n_visits)
        end_band(feed, batch);
}
