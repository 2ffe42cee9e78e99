/*
 * losses - losses of the examples of a thread, and their derivatives by the margins, some rows at a time.
 *
 * The logistic loss is computed in vectors (dense_softplus()): as often as the solver needs it, calls of log1p() and exp() took as
 * long as the steps themselves.
 */
#ifndef TASKS_LINEAR_LOSSES_H
#define TASKS_LINEAR_LOSSES_H

#include "common/loss.h"
#include "linear/columns.h"

enum { LOSSES_AT_ONCE = 256 };

/* Of each row, times the weight of its example. */
struct losses {
    double values[LOSSES_AT_ONCE], slopes[LOSSES_AT_ONCE], curvatures[LOSSES_AT_ONCE];
};

/* Of n rows, at most LOSSES_AT_ONCE, from row `first` on. */
void losses_find(enum loss_kind loss, const struct slice *slice, size_t first, size_t n,
                 struct losses *losses);

/* The sum of the losses of all rows when the margins have moved by length * along; NULL: by nothing. */
double losses_sum(enum loss_kind loss, const struct slice *slice, const double *along,
                  double length);

#endif
