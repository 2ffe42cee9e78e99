/*
 * lda_feed - one worker's stream of batches, pass after pass without end.
 *
 * A batch is some visits of one band; it is a step of the worker's clock. The visits of a band come in
 * an order that is drawn anew in each pass, so that workers seldom sample the same word at the same
 * time.
 */
#ifndef TASKS_LDA_LDA_FEED_H
#define TASKS_LDA_LDA_FEED_H

#include "lda/part.h"

enum {
    BATCH_VISITS = 128,
    BATCH_TOKENS = 4096,
    BATCH_COUNTS = 1 << 16, /* of all rows of a batch, unless one row has more */
};

struct lda_batch {
    size_t n_visits;
    uint32_t n_tokens;
    bool ends_pass;
    uint64_t words[BATCH_VISITS]; /* of the visits */
    struct visit visits[BATCH_VISITS];
};

struct lda_feed {
    const struct part *part;
    struct rng rng;
    uint32_t *order; /* of the part's visits, within each band */
    size_t n_visits; /* of a batch, at most */
    uint32_t band, visit;
};

/* Visits of a batch, at most. */
size_t lda_feed_visits(size_t n_topics);

/* A part without tokens has no batches. lda_feed_fini() is due in any case. */
bool lda_feed_init(struct lda_feed *feed, const struct part *part, size_t n_topics, struct rng rng);
void lda_feed_fini(struct lda_feed *feed);

void lda_feed_next(struct lda_feed *feed, struct lda_batch *batch);

#endif
