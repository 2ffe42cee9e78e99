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
    double rate;       /* learning rate of AdaGrad */
    double penalty;    /* on the squares of factors and biases, at each cell; 0: see mf_penalty() */
    double test_share; /* of the ratings, when there is no test file */
    enum ratings_unknown unknown;
    int formats; /* of mf_files.h, beside .npy */
};

bool mf_train(const struct train_options *train_options, const struct mf_options *options);

/* The penalty that suits ratings of which each user or item has so many on average: the fewer there are, the
 * larger it is. docs/tasks/mf.md has the figures. */
double mf_penalty(size_t n_ratings, size_t n_users, size_t n_items);

/* What to ask a model for. */
struct mf_question {
    const char *folder;      /* of the model */
    const char *user, *item; /* one of them may be NULL: the best ones are asked for */
    const char *data;        /* of the training: pairs that are rated in it are left out; or NULL */
    int64_t n_answers;
    bool json;
};

/* Prints a rating, or the best items of a user, or the best users of an item, to standard output. */
bool mf_predict(const struct mf_question *question);

#endif
