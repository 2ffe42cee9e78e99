/*
 * emso - efficient minibatch training (M. Li, Algorithms 6 to 8): the weights after a minibatch minimize
 *
 *   sum of weight * loss(example)  +  l1 |w|_1  +  l2 / 2 |w|_2^2  +  gamma / 2 |w - w before|_2^2
 *
 * over the examples of the batch, approximately. So a large batch is used well, where one step of gradient descent
 * would waste most of it. EMSO-CD makes Newton steps of single weights in random order (7.7), EMSO-GD gradient steps (7.6)
 * whose length is halved until they descend. Only features of the batch change.
 *
 * Pure; a problem belongs to one thread.
 */
#ifndef TASKS_LINEAR_EMSO_H
#define TASKS_LINEAR_EMSO_H

#include "common/rng.h"
#include "linear/linear.h"

/* A minibatch and its features, numbered 0 .. n_keys - 1. */
struct emso_batch {
    enum loss_kind loss; /* one that is smooth */
    double l1, l2, gamma;
    double positive_weight; /* of examples with a positive label, beside their own */
    uint32_t
        free_key; /* the number of the feature without penalties; n_keys or above: there is none */
    const struct examples *list;
    size_t first, end;       /* examples of the list */
    const uint32_t *numbers; /* of the features of the pairs, from those of example `first` on */
    size_t n_keys;
    double *weights; /* by feature; become those that minimize */
};

/* Memory that is kept from batch to batch; zero at first. */
struct emso_space {
    size_t n_rows, n_keys, n_pairs; /* there is room for */
    size_t *start;                  /* the pairs of a feature: start[j] .. start[j + 1] - 1 */
    uint32_t *rows, *order;
    float *values;
    double *margins, *before, *slopes, *tried, *tried_margins;
};

enum { EMSO_PASSES = 5, EMSO_STEPS = 10 };

/* `n_passes` Newton steps of each weight, or `n_steps` gradient steps. False after task_fail(). */
bool emso_descend_coordinates(const struct emso_batch *batch, struct emso_space *space,
                              struct rng *rng, int n_passes);
bool emso_descend_gradient(const struct emso_batch *batch, struct emso_space *space, int n_steps);

/* What is minimized, without the part of gamma; infinite after task_fail(). */
double emso_value(const struct emso_batch *batch, struct emso_space *space);

void emso_space_fini(struct emso_space *space);

#endif
