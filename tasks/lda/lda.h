/*
 * lda - topic models: finds the topics that documents are about, and which words belong to each.
 *
 * Latent Dirichlet allocation by collapsed Gibbs sampling: every occurrence of a word has a topic, which is
 * drawn anew in each pass, given the topics of all others (gibbs.h).
 */
#ifndef TASKS_LDA_LDA_H
#define TASKS_LDA_LDA_H

#include "common/train.h"

struct lda_options {
    int64_t n_topics;
    double alpha;  /* how much a document is inclined to each topic; 0: see lda_choose_priors() */
    double beta;   /* how much a topic is inclined to each word; 0: likewise */
    int64_t ahead; /* batches that are prepared before they are used */
    int64_t n_top; /* words of each topic to print in the end */
    const char *vocab; /* the file of words; NULL: the one beside the documents */
};

/* Learns from common->data and writes to common->out what lda_files.h lists. */
bool lda_train(const struct train_options *common, const struct lda_options *options);

#endif
