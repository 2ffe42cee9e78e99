/*
 * scores - how well margins predict labels: log loss, AUC and accuracy, or the root of the mean squared error.
 *
 * Every example counts with its weight. The AUC is that of margins rounded to 2^-11 and cut off at -16 and 16, so that the
 * counts of all nodes can be added; of equal margins half counts as right. The error is below 1e-4 in practice.
 */
#ifndef TASKS_SCORES_H
#define TASKS_SCORES_H

#include "common/train.h"

enum { SCORES_BINS = 1 << 16, SCORES_SUMS = 4 };

struct scores {
    double *
        sums; /* weight, log loss, squared error, weight of right ones; then 2 x SCORES_BINS: weights by margin */
};

/* scores_fini() is due in any case. */
bool scores_init(struct scores *scores);
void scores_fini(struct scores *scores);
void scores_add(struct scores *scores, double margin, double label, double weight);

/* Adds `other` to `scores`; adds up over the nodes. */
void scores_merge(struct scores *scores, const struct scores *other);
bool scores_share(struct scores *scores, struct train *train);

double scores_log_loss(const struct scores *scores);
double scores_accuracy(const struct scores *scores);
double scores_rmse(const struct scores *scores);

/* NAN when there is one class only. */
double scores_auc(const struct scores *scores);

#endif
