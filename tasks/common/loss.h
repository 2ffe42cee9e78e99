/*
 * loss - losses of one example, by its margin m, the sum of weights times values, and its label y.
 *
 *   logistic        log(1 + e^-ym)            y is -1 or 1
 *   squared         (m - y)^2 / 2             y is any number
 *   hinge           max(0, 1 - ym)            y is -1 or 1; not smooth
 *   squared hinge   max(0, 1 - ym)^2
 */
#ifndef TASKS_LOSS_H
#define TASKS_LOSS_H

#include <math.h>
#include <stdbool.h>

enum loss_kind { LOSS_LOGISTIC, LOSS_SQUARED, LOSS_HINGE, LOSS_SQUARED_HINGE };

/* Their names, in their order; NULL past the last. */
extern const char *const loss_names[];

static inline bool loss_is_binary(enum loss_kind loss)
{
    return loss != LOSS_SQUARED;
}

/* log(1 + e^x) without overflow. */
static inline double log1p_exp(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static inline double loss_value(enum loss_kind loss, double margin, double label)
{
    double gap = 1 - label * margin;
    switch (loss) {
    case LOSS_LOGISTIC:
        return log1p_exp(-label * margin);
    case LOSS_SQUARED:
        return (margin - label) * (margin - label) / 2;
    case LOSS_HINGE:
        return gap > 0 ? gap : 0;
    case LOSS_SQUARED_HINGE:
        return gap > 0 ? gap * gap : 0;
    }
    return 0;
}

/* The derivative by the margin. */
static inline double loss_slope(enum loss_kind loss, double margin, double label)
{
    double gap = 1 - label * margin;
    switch (loss) {
    case LOSS_LOGISTIC:
        return -label / (1 + exp(label * margin));
    case LOSS_SQUARED:
        return margin - label;
    case LOSS_HINGE:
        return gap > 0 ? -label : 0;
    case LOSS_SQUARED_HINGE:
        return gap > 0 ? -2 * label * gap : 0;
    }
    return 0;
}

/* The second derivative by the margin, of losses that are smooth. */
static inline double loss_curvature(enum loss_kind loss, double margin, double label)
{
    const double p = 1 / (1 + exp(-margin));
    switch (loss) {
    case LOSS_LOGISTIC:
        return p * (1 - p);
    case LOSS_SQUARED:
        return 1;
    case LOSS_HINGE:
        return 0;
    case LOSS_SQUARED_HINGE:
        return 1 - label * margin > 0 ? 2 : 0;
    }
    return 0;
}

/* What a model says of an example: the probability of a positive label, or the margin itself. */
static inline double loss_probability(double margin)
{
    return 1 / (1 + exp(-margin));
}

#endif
