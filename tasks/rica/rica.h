/*
 * rica - reconstruction independent component analysis (M. Li, 6.3.2): filters W, l x p, whose answers to the examples are
 * sparse and from which the examples can be reconstructed. Minimizes
 *
 *   sum of |W^T W x - x|^2 / 2  +  lambda |W x|_1
 *
 * over the examples x. Workers have rows of W and a copy of the examples; the table has W^T W, p x p, which is all that the
 * gradient of a row needs of the others. A worker reads W^T W, makes a step of each of its rows, and pushes the change of
 * their outer products. Step t of a worker reads what all workers have pushed in steps up to t - delay - 1, and maybe later
 * changes: the bound of the table's reads (essp) is the delay. In the first epochs it reads the steps before t.
 *
 *   rica_step.c    the gradient and the proximal step of a row, by ADMM: no tables, no files
 *   rica_train.c   reads the examples, makes the steps, measures
 *   rica_files.c   examples, filters.npy and the picture of the filters
 */
#ifndef TASKS_RICA_RICA_H
#define TASKS_RICA_RICA_H

#include "common/train.h"

enum {
    RICA_MAX_PIXELS = 1024,
    RICA_STEPS = 10,       /* of an epoch: workers wait for all others at its end */
    RICA_JOINT_EPOCHS = 2, /* the first ones, in which they wait for all others after each step */
};

struct rica_options {
    int64_t n_filters;
    int64_t delay;
    double lambda;
    double rate;     /* gamma, as a share of the inverse of the largest eigenvalue of X^T X */
    int64_t n_admm;  /* iterations of ADMM for each step of a row */
    int64_t n_width; /* of an example as an image; 0: it is square if it can be */
};

bool rica_train(const struct train_options *train_options, const struct rica_options *options);

#endif
