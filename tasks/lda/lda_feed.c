/* lda_feed - one worker's stream of batches. See lda_feed.h. */
#include "lda/lda_feed.h"

#include <stdlib.h>

#include "common/sentence.h"

size_t lda_feed_visits(size_t n_topics)
{
    size_t n = BATCH_COUNTS / n_topics;
    return n < 1 ? 1 : n < BATCH_VISITS ? n : BATCH_VISITS;
}

bool lda_feed_init(struct lda_feed *feed, const struct part *part, size_t n_topics, struct rng rng)
{
    *feed = (struct lda_feed){.part = part, .rng = rng, .n_visits = lda_feed_visits(n_topics)};
    feed->order = malloc(((size_t)part->n_visits + 1) * sizeof *feed->order);
    if (feed->order == NULL)
        return task_fail_memory("a worker");
    for (uint32_t i = 0; i < part->n_visits; i++)
        feed->order[i] = i;
    return true;
}

void lda_feed_fini(struct lda_feed *feed)
{
    free(feed->order);
    *feed = (struct lda_feed){0};
}

static void shuffle(struct rng *rng, uint32_t *order, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        uint64_t j = rng_below(rng, i);
        uint32_t other = order[j];
        order[j] = order[i - 1];
        order[i - 1] = other;
    }
}

static void add_visit(struct lda_batch *batch, const struct visit *visit)
{
    batch->words[batch->n_visits] = visit->word;
    batch->visits[batch->n_visits++] = *visit;
    batch->n_tokens += visit->n;
}

void lda_feed_next(struct lda_feed *feed, struct lda_batch *batch)
{
    const struct part *part = feed->part;
    const struct band *band = &part->bands[feed->band];
    batch->n_visits = batch->n_tokens = 0;
    if (feed->visit == 0)
        shuffle(&feed->rng, feed->order + band->first, band->n);
    while (feed->visit < band->n && batch->n_visits < feed->n_visits) {
        const struct visit *visit = &part->visits[feed->order[band->first + feed->visit]];
        if (batch->n_tokens + visit->n > BATCH_TOKENS)
            break;
        add_visit(batch, visit);
        feed->visit++;
    }
    if (feed->visit == band->n) {
        feed->visit = 0;
        feed->band = (feed->band + 1) % part->n_bands;
    }
    batch->ends_pass = feed->band == 0 && feed->visit == 0;
}
