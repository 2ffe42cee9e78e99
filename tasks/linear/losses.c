/* losses - see losses.h. */
#include "linear/losses.h"

#include "common/dense.h"

static void find_logistic(const struct slice *slice, size_t first, size_t n, struct losses *losses)
{
    double shares[LOSSES_AT_ONCE];
    for (size_t i = 0; i < n; i++)
        losses->values[i] = -(double)slice->labels[first + i] * slice->margins[first + i];
    dense_softplus(losses->values, shares, n);
    for (size_t i = 0; i < n; i++) {
        const double weight = (double)slice->weights[first + i];
        losses->values[i] *= weight;
        losses->slopes[i] = -(double)slice->labels[first + i] * shares[i] * weight;
        losses->curvatures[i] = shares[i] * (1 - shares[i]) * weight;
    }
}

void losses_find(enum loss_kind loss, const struct slice *slice, size_t first, size_t n,
                 struct losses *losses)
{
    if (loss == LOSS_LOGISTIC) {
        find_logistic(slice, first, n, losses);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const double label = (double)slice->labels[first + i], margin = slice->margins[first + i];
        const double weight = (double)slice->weights[first + i];
        losses->values[i] = weight * loss_value(loss, margin, label);
        losses->slopes[i] = weight * loss_slope(loss, margin, label);
        losses->curvatures[i] = weight * loss_curvature(loss, margin, label);
    }
}

/* The margins of n rows, moved. */
static void move(const struct slice *slice, const double *along, double length, size_t first,
                 size_t n, double *margins)
{
    for (size_t i = 0; i < n; i++)
        margins[i] = slice->margins[first + i] + (along != NULL ? length * along[first + i] : 0);
}

double losses_sum(enum loss_kind loss, const struct slice *slice, const double *along,
                  double length)
{
    double margins[LOSSES_AT_ONCE], shares[LOSSES_AT_ONCE], sum = 0;
    for (size_t first = 0, n; first < slice->n_rows; first += n) {
        const float *labels = slice->labels + first, *weights = slice->weights + first;
        n = slice->n_rows - first < LOSSES_AT_ONCE ? slice->n_rows - first : LOSSES_AT_ONCE;
        move(slice, along, length, first, n, margins);
        if (loss != LOSS_LOGISTIC) {
            for (size_t i = 0; i < n; i++)
                sum += (double)weights[i] * loss_value(loss, margins[i], (double)labels[i]);
            continue;
        }
        for (size_t i = 0; i < n; i++)
            margins[i] *= -(double)labels[i];
        dense_softplus(margins, shares, n);
        for (size_t i = 0; i < n; i++)
            sum += (double)weights[i] * margins[i];
    }
    return sum;
}
