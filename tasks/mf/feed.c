/* feed - one worker's stream of batches. See feed.h. */
#include "mf/feed.h"

#include <string.h>

void feed_init(struct feed *feed, const struct plan *plan, size_t part, struct rng rng)
{
    *feed = (struct feed){.part = &plan->parts[part], .cells = plan->cells, .rng = rng};
}

static void shuffle_bands(struct rng *rng, struct band *bands, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = rng_below(rng, i);
        struct band other = bands[j];
        bands[j] = bands[i - 1];
        bands[i - 1] = other;
    }
}

static void shuffle_visits(struct rng *rng, struct visit *visits, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = rng_below(rng, i);
        struct visit other = visits[j];
        visits[j] = visits[i - 1];
        visits[i - 1] = other;
    }
}

/* How many of the visits make the next batch. */
static size_t take(const struct visit *visits, size_t n)
{
    size_t n_taken = 0, n_cells = 0;
    while (n_taken < n && n_taken < BATCH_VISITS && n_cells + visits[n_taken].n <= BATCH_CELLS)
        n_cells += visits[n_taken++].n;
    return n_taken;
}

static size_t count_batches(const struct band *band)
{
    size_t n_batches = 0;
    for (size_t i = 0; i < band->n_visits; i += take(band->visits + i, band->n_visits - i))
        n_batches++;
    return n_batches;
}

static void begin_band(struct feed *feed, struct mf_batch *batch)
{
    struct part *part = feed->part;
    if (feed->band == 0)
        shuffle_bands(&feed->rng, part->bands, part->n_bands);
    struct band *band = &part->bands[feed->band];
    shuffle_visits(&feed->rng, band->visits, band->n_visits);
    batch->n_batches = count_batches(band);
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
    const struct cell *from = feed->cells + visit->first;
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
    size_t n = take(band->visits + feed->visit, band->n_visits - feed->visit);
    for (size_t i = 0; i < n; i++)
        add_visit(feed, &band->visits[feed->visit + i], batch);
    /* Row 0 of the band is fetched in vain behind the last cell. */
    memset(batch->cells + batch->n_cells, 0, FACTORS_AHEAD * sizeof *batch->cells);
    feed->visit += n;
    if (feed->visit == band->n_visits)
        end_band(feed, batch);
}
