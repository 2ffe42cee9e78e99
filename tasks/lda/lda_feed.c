/* lda_feed - one worker's stream of batches. See lda_feed.h. */
#include "lda/lda_feed.h"

#include <stdlib.h>

#include "common/sentence.h"

size_t lda_feed_visits(size_t n_topics)
{
    size_t n = BATCH_COUNTS / n_topics;
    return n < 1 ? 1 : n < BATCH_VISITS ? n : BATCH_VISITS;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static void shuffle_visits(struct rng *rng, uint32_t *order, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        uint64_t j = rng_below(rng, i);
        uint32_t other = order[j];
        order[j] = order[i - 1];
        order[i - 1] = other;
    }
}

/* How many of the n visits from order[first] on make a batch. */
static uint32_t take(const struct lda_feed *feed, uint32_t first, uint32_t n, size_t most)
{
    uint32_t n_taken = 0, n_tokens = 0;
    for (; n_taken < n && n_taken < most; n_taken++) {
        n_tokens += feed->part->visits[feed->order[first + n_taken]].n;
        if (n_tokens > BATCH_TOKENS)
            break;
    }
    return n_taken;
}

static void make_bundles(struct lda_feed *feed, const struct band *band, size_t most)
{
    shuffle_visits(&feed->rng, feed->order + band->first, band->n);
    for (uint32_t done = 0; done < band->n;) {
        uint32_t n = take(feed, band->first + done, band->n - done, most);
        feed->bundles[feed->n_bundles++] = (struct lda_bundle){band->first + done, n};
        done += n;
    }
}

bool lda_feed_init(struct lda_feed *feed, const struct part *part, size_t n_topics, struct rng rng)
{
    *feed = (struct lda_feed){.part = part, .rng = rng};
    feed->order = malloc(((size_t)part->n_visits + 1) * sizeof *feed->order);
    feed->bundles = malloc(((size_t)part->n_visits + 1) * sizeof *feed->bundles);
    feed->ends = malloc(((size_t)part->n_bands + 1) * sizeof *feed->ends);
    if (feed->order == NULL || feed->bundles == NULL || feed->ends == NULL)
        return task_fail_memory("a worker");
    for (uint32_t i = 0; i < part->n_visits; i++)
        feed->order[i] = i;
    for (uint32_t i = 0; i < part->n_bands; i++) {
        make_bundles(feed, &part->bands[i], lda_feed_visits(n_topics));
        feed->ends[i] = feed->n_bundles;
    }
    feed->n_batches = feed->n_bundles;
    return true;
}

void lda_feed_fini(struct lda_feed *feed)
{
    free(feed->order);
    free(feed->bundles);
    free(feed->ends);
    *feed = (struct lda_feed){0};
}

void lda_feed_extend(struct lda_feed *feed, uint32_t n_batches)
{
    feed->n_batches = n_batches;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

static void shuffle_bundles(struct rng *rng, struct lda_bundle *bundles, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        uint64_t j = rng_below(rng, i);
        struct lda_bundle other = bundles[j];
        bundles[j] = bundles[i - 1];
        bundles[i - 1] = other;
    }
}

static void begin_pass(struct lda_feed *feed)
{
    for (uint32_t i = 0, begin = 0; i < feed->part->n_bands; begin = feed->ends[i++])
        shuffle_bundles(&feed->rng, feed->bundles + begin, feed->ends[i] - begin);
}

void lda_feed_next(struct lda_feed *feed, struct lda_batch *batch)
{
    batch->n_visits = batch->n_tokens = 0;
    if (feed->next == 0)
        begin_pass(feed);
    if (feed->next < feed->n_bundles) {
        const struct lda_bundle *bundle = &feed->bundles[feed->next];
        for (uint32_t i = 0; i < bundle->n; i++) {
            const struct visit *visit = &feed->part->visits[feed->order[bundle->first + i]];
            batch->words[i] = visit->word;
            batch->visits[i] = *visit;
            batch->n_tokens += visit->n;
        }
        batch->n_visits = bundle->n;
    }
    feed->next = (feed->next + 1) % feed->n_batches;
    batch->ends_pass = feed->next == 0;
}
