/*
 * lda_model - what the files that train a topic model share; nobody else includes it.
 *
 *   lda_train.c   preparing, sampling, saving: the whole
 *   lda_begin.c   the topics to begin with: at random, or those of a saved model
 *   lda_judge.c   how likely the model is, and whether its counts add up
 */
#ifndef TASKS_LDA_LDA_MODEL_H
#define TASKS_LDA_LDA_MODEL_H

#include "common/loader.h"
#include "lda/counts.h"
#include "lda/lda.h"
#include "lda/lda_feed.h"
#include "lda/likelihood.h"

struct model;

/* One thread's part in the training. */
struct trainer {
    struct model *model;
    struct tern_worker *worker; /* NULL with --plain */
    struct part part;
    struct lda_feed feed;
    struct loader loader;
    struct gibbs gibbs;
    int32_t *rows, *rows_before; /* of the words of a batch: the counts, and what they were */
    int32_t *totals_before;
    double mean_log_length; /* of log(n_d - 1 + K alpha), over the tokens */
    double *sums;           /* of the rows it has read to judge the model, by topic ... */
    double log_probability; /* ... and its terms of log p(w, z) */
};

struct model {
    const struct lda_options *options;
    struct train *train;
    size_t n_topics;
    double alpha, beta;
    struct bags bags;
    struct counts rows;             /* by word: how many of its occurrences have each topic */
    struct counts totals;           /* one row: how many words have each topic */
    struct log_rising *log_risings; /* for alpha, K alpha and beta */
    struct trainer *trainers;       /* one per thread */
    uint16_t *assignments;          /* of all documents, at node 0: what it saves */
};

enum { LOG_RISING_ALPHA, LOG_RISING_ALPHA_SUM, LOG_RISING_BETA, N_LOG_RISINGS };

static const uint64_t totals_key = 0;

/* Sets alpha and beta: as told, else as in the model that is to go on, else 50 / n_topics and 0.01. */
bool lda_choose_priors(struct model *model);

/* Gives every word its first topic and counts them; called by all nodes. */
bool lda_begin(struct model *model);

/* Finds log p(w, z) per token; called by all nodes when replicas agree. */
bool lda_judge(void *model, struct train *train, struct train_quality *quality);

#endif
