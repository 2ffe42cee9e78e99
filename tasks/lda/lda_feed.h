/*
 * lda_feed - one worker's stream of batches, pass after pass without end.
 *
 * A batch is some visits of one band, drawn at random once; it is a step of the worker's clock. Each pass has the batches of
 * a band in a new random order, so that workers seldom sample the same word at the same time. All workers have the same
 * number of batches in a pass; the last ones may be empty. So their clocks stay together: under policies that bound
 * the distance of clocks, one worker would otherwise wait for another for ever.
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
    size_t n_visits; /* 0: there is nothing to do */
    uint32_t n_tokens;
    bool ends_pass;
    uint64_t words[BATCH_VISITS]; /* of the visits */
    struct visit visits[BATCH_VISITS];
};

/* The visits order[first .. first + n) of a feed. */
struct lda_bundle {
    uint32_t first, n;
};

struct lda_feed {
    const struct part *part;
    struct rng rng;
    uint32_t *order;            /* of the part's visits, at random within each band */
    struct lda_bundle *bundles; /* the batches of a pass that are not empty, band by band */
    uint32_t *ends;             /* of the bands, among the bundles */
    uint32_t n_bundles;
    uint32_t n_batches; /* of a pass */
    uint32_t next;
};

/* Visits of a batch, at most. */
size_t lda_feed_visits(size_t n_topics);

/* Makes a feed whose passes have no empty batch; lda_feed_extend() adds some. lda_feed_fini() is due in
 * any case. */
bool lda_feed_init(struct lda_feed *feed, const struct part *part, size_t n_topics, struct rng rng);
void lda_feed_fini(struct lda_feed *feed);

/* A pass has n_batches from now on, at least one; called before the first one is taken. */
void lda_feed_extend(struct lda_feed *feed, uint32_t n_batches);

void lda_feed_next(struct lda_feed *feed, struct lda_batch *batch);

#endif
