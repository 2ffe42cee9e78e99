/*
 * wordvec - word vectors from plain text: skip-gram with negative sampling, as word2vec defines it.
 */
#ifndef TASKS_WORDVEC_H
#define TASKS_WORDVEC_H

#include "common/train.h"

struct wordvec_options {
    int64_t dim;                   /* numbers of a vector */
    int64_t window;                /* how far around a word others are predicted */
    int64_t n_negatives;           /* wrong words for each right one */
    enum tern_conformity sampling; /* what negatives must conform to */
    int64_t min_count;             /* how often a word must occur to get a vector */
    double sample; /* share of the text above which a word is sometimes left out; 0: never */
    double rate, min_rate;  /* of SGD; it falls linearly from the one to the other */
    int formats;            /* of the vectors, beside .npy: WORDFILES_TEXT, WORDFILES_BINARY */
    const char *questions;  /* analogies, in the format of questions-words.txt; NULL: none */
    const char *similarity; /* files of rated pairs of words, separated by commas; NULL: none */
    int64_t n_candidates;   /* analogies are answered from so many of the most frequent words */
};

/* Learns from train_options->data and writes to train_options->out what wordfiles.h lists. */
bool wordvec_train(const struct train_options *train_options,
                   const struct wordvec_options *options);

#endif
