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
    int64_t n_top; /* words of each topic to print in the end */
    const char *vocab; /* the file of words; NULL: the one beside the documents */
};

/* Learns from train_options->data and writes to train_options->out what lda_files.h lists. */
bool lda_train(const struct train_options *train_options, const struct lda_options *options);

struct lda_question {
    const char *folder; /* of the model */
    const char *path;   /* of a text; "-": standard input */
    int64_t n_topics;   /* to print, the most frequent first */
    int64_t n_words;    /* of each, to print */
    int64_t n_passes;   /* of sampling */
    int64_t seed;
    bool json;
};

/* Prints the topics of a document to standard output. */
bool lda_predict(const struct lda_question *question);

#endif
