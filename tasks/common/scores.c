/* scores - how well margins predict labels. See scores.h. */
#include "common/scores.h"

#include <stdlib.h>

#include "common/loss.h"

const char *const loss_names[] = {"logistic", "squared", "hinge", "squared-hinge", NULL};

enum { WEIGHT, LOG_LOSS, SQUARED_ERROR, RIGHT, N_ALL = SCORES_SUMS + 2 * SCORES_BINS };

static const double LARGEST = 16;

bool scores_init(struct scores *scores)
{
    scores->sums = calloc(N_ALL, sizeof *scores->sums);
    return scores->sums != NULL || task_fail_memory("the scores");
}

void scores_fini(struct scores *scores)
{
    free(scores->sums);
    scores->sums = NULL;
}

void scores_add(struct scores *scores, double margin, double label, double weight)
{
    const double cut = fmin(fmax(margin, -LARGEST), LARGEST);
    const size_t bin = (size_t)((cut + LARGEST) / (2 * LARGEST) * (SCORES_BINS - 1) + 0.5);
    scores->sums[WEIGHT] += weight;
    scores->sums[LOG_LOSS] += weight * log1p_exp(label > 0 ? -margin : margin);
    scores->sums[SQUARED_ERROR] += weight * (margin - label) * (margin - label);
    scores->sums[RIGHT] += (margin > 0) == (label > 0) ? weight : 0;
    scores->sums[SCORES_SUMS + 2 * bin + (label > 0)] += weight;
}

void scores_merge(struct scores *scores, const struct scores *other)
{
    for (size_t i = 0; i < N_ALL; i++)
        scores->sums[i] += other->sums[i];
}

bool scores_share(struct scores *scores, struct train *train)
{
    return train_sum(train, N_ALL, scores->sums);
}

double scores_log_loss(const struct scores *scores)
{
    return scores->sums[LOG_LOSS] / scores->sums[WEIGHT];
}

double scores_accuracy(const struct scores *scores)
{
    return scores->sums[RIGHT] / scores->sums[WEIGHT];
}

double scores_rmse(const struct scores *scores)
{
    return sqrt(scores->sums[SQUARED_ERROR] / scores->sums[WEIGHT]);
}

double scores_auc(const struct scores *scores)
{
    double n_negative = 0, n_positive = 0, n_right = 0;
    for (size_t bin = 0; bin < SCORES_BINS; bin++) {
        const double *pair = scores->sums + SCORES_SUMS + 2 * bin;
        n_right += pair[1] * (n_negative + pair[0] / 2);
        n_negative += pair[0];
        n_positive += pair[1];
    }
    return n_right / (n_negative * n_positive);
}
