/*
 * skipgram - one step of learning: skip-gram with negative sampling, on pointers to rows.
 *
 * The row x of a word around a token predicts the row y of the token's word, and shall not predict those
 * of its negatives. The loss of a pair is log(1 + e^-xy) for the right y, log(1 + e^xy) for a wrong one,
 * and its gradient is followed by plain SGD: with g = rate * (1 or 0 - 1 / (1 + e^-xy)), x gains g y and
 * y gains g x. All pairs of a token are computed from the same rows before any is changed, in groups of
 * SKIPGRAM_GROUP predicted rows.
 */
#ifndef TASKS_WORDVEC_SKIPGRAM_H
#define TASKS_WORDVEC_SKIPGRAM_H

#include "wordvec/excerpt.h"

enum {
    SKIPGRAM_VECTOR = 8,
    SKIPGRAM_GROUP = 6,
    SKIPGRAM_MEASURED = 64, /* the loss is measured at one of so many tokens */
};

/* Floats of a row: whole vectors, filled up with zeros, which stay. */
static inline size_t skipgram_width(size_t dim)
{
    return (dim + SKIPGRAM_VECTOR - 1) / SKIPGRAM_VECTOR * SKIPGRAM_VECTOR;
}

/* Rows are in the order of the excerpt's keys, and changed in place. Returns the mean loss of a
 * prediction, that is, of a right word and its negatives. */
double skipgram_learn(const struct excerpt *excerpt, float *const *rows, size_t width, float rate);

#endif
