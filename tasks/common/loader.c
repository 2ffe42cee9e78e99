/* loader - prepares a worker's batches ahead of their use. See loader.h. */
#include "common/loader.h"

#include <math.h>
#include <stdlib.h>

#include "common/progress.h"
#include "common/sentence.h"

enum {
    FIRST_AHEAD = 4, /* batches, while nobody knows how long one takes */
    MIN_AHEAD = 2,
    MAX_AHEAD = 4096,
};

/* Of the mean that is kept of batch times: one that is longer than LONGEST means counts as that long, so that
 * an evaluation between two batches does not shorten the look-ahead. */
static const double WEIGHT = 0.05, LONGEST = 4;

bool loader_init(struct loader *loader, const struct loader_batches *batches, void *context,
                 double ahead_s)
{
    *loader = (struct loader){.batches = *batches,
                              .context = context,
                              .now = seconds_now,
                              .ahead_s = ahead_s,
                              .n_ring = FIRST_AHEAD + 1};
    loader->ring = calloc(loader->n_ring, sizeof *loader->ring);
    return loader->ring != NULL || task_fail_memory("a worker");
}

void loader_fini(struct loader *loader)
{
    for (size_t i = 0; loader->ring != NULL && i < loader->n_ring; i++) {
        if (loader->ring[i] != NULL && loader->batches.fini != NULL)
            loader->batches.fini(loader->ring[i]);
        free(loader->ring[i]);
    }
    free(loader->ring);
    loader->ring = NULL;
}

/* How many batches should be prepared beyond the one that is taken next. */
static size_t batches_ahead(const struct loader *loader)
{
    if (loader->ahead_s <= 0)
        return 0;
    if (loader->batch_s <= 0)
        return FIRST_AHEAD;
    double n = loader->ahead_s / loader->batch_s + 1;
    return n < MIN_AHEAD ? MIN_AHEAD : n < MAX_AHEAD ? (size_t)n : MAX_AHEAD;
}

/* Doubles the ring; batches that are prepared keep their numbers. */
static bool grow(struct loader *loader)
{
    size_t larger = 2 * loader->n_ring;
    void **ring = calloc(larger, sizeof *ring);
    if (ring == NULL)
        return task_fail_memory("a worker");
    /* n_ring numbers from the one in use on are in the ring, or were: each has its batch. */
    uint64_t first = loader->n_taken > 0 ? loader->n_taken - 1 : 0;
    for (uint64_t i = first; i < first + loader->n_ring; i++)
        ring[i % larger] = loader->ring[i % loader->n_ring];
    free(loader->ring);
    loader->ring = ring;
    loader->n_ring = larger;
    return true;
}

/* Where a batch of this number goes; NULL after task_fail(). */
static void *batch_at(struct loader *loader, uint64_t number)
{
    void **batch = &loader->ring[number % loader->n_ring];
    if (*batch != NULL)
        return *batch;
    *batch = calloc(1, loader->batches.bytes);
    if (*batch == NULL) {
        task_fail_memory("a worker");
        return NULL;
    }
    bool ok = loader->batches.init == NULL || loader->batches.init(loader->context, *batch);
    return ok ? *batch : NULL;
}

bool loader_fill(struct loader *loader)
{
    /* The batch in use, if there is one, the next one, and those beyond it. */
    size_t ahead = batches_ahead(loader);
    while (loader->n_ring < ahead + 2)
        if (!grow(loader))
            return false;
    while (loader->n_prepared <= loader->n_taken + ahead) {
        void *batch = batch_at(loader, loader->n_prepared);
        if (batch == NULL || !loader->batches.prepare(loader->context, batch, loader->n_prepared))
            return false;
        loader->n_prepared++;
    }
    return true;
}

bool loader_renew(struct loader *loader, bool (*drop)(void *context, void *batch))
{
    const uint64_t n_prepared = loader->n_prepared;
    for (uint64_t i = loader->n_taken; drop != NULL && i < n_prepared; i++)
        if (!drop(loader->context, loader->ring[i % loader->n_ring]))
            return false;
    loader->n_prepared = loader->n_taken;
    return true;
}

/* Takes the time since the last batch was taken into the mean. */
static void measure(struct loader *loader)
{
    double now = loader->now(), took = now - loader->taken_s, mean = loader->batch_s;
    if (loader->n_taken > 0)
        loader->batch_s = mean > 0 ? mean + WEIGHT * (fmin(took, LONGEST * mean) - mean) : took;
    loader->taken_s = now;
}

void *loader_next(struct loader *loader)
{
    if (loader->ahead_s > 0)
        measure(loader);
    return loader_fill(loader) ? batch_at(loader, loader->n_taken++) : NULL;
}
