/*
 * mf - matrix factorization: learns what the known cells of a matrix have in common, so that the
 * unknown ones can be told: what users will think of items.
 */
#ifndef TASKS_MF_MF_H
#define TASKS_MF_MF_H

#include "common/train.h"
#include "mf/ratings.h"

struct mf_options {
    int64_t rank;      /* factors of a row or column */
    double rate;       /* of AdaGrad */
    double penalty;    /* on the squares of factors and biases, at each cell */
    double test_share; /* of the ratings, when there is no test file */
    enum ratings_unknown unknown;
    int64_t ahead; /* batches that are prepared before they are used */
    int formats;   /* of mf_files.h, beside .npy */
};

bool mf_train(const struct train_options *common, const struct mf_options *options);

#endif
