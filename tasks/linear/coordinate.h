/*
 * coordinate - the step of one weight, made where the weight is, by an updater.
 *
 * Workers push a slope and a bound of the curvature of the loss in this weight, each from its own examples. Before that,
 * coordinate_join() has registered each of them as having examples with the feature. When the last of them has pushed, the weight takes
 * the proximal step (M. Li, Equation 5.4): it minimizes
 *
 *   slope * d + curvature / 2 * d^2 + l1 |w + d| + l2 / 2 (w + d)^2,    |d| <= radius
 *
 * and the radius becomes max(2 |d|, radius / 2), so that the bound of the curvature needs to hold only nearby. A weight of
 * 0 whose slope is clearly below l1 becomes inactive, and so does another one that is nearly optimal and hardly moves:
 * workers leave them out until all weights are reopened.
 */
#ifndef TASKS_LINEAR_COORDINATE_H
#define TASKS_LINEAR_COORDINATE_H

#include <stdbool.h>

#include <tern/tern.h>

/* A row: what workers pull. */
enum {
    COORDINATE_WEIGHT,
    COORDINATE_RADIUS, /* below 0: inactive */
    COORDINATE_VIOLATION, /* of the optimality condition before the step, shared by those who push; while they
                             join, their number */
    COORDINATE_LENGTH,
};

/* What they push; the third element is not used. */
enum { COORDINATE_SLOPE, COORDINATE_CURVATURE };

enum { COORDINATE_STATE = 5 };

/* Penalties, and the share of l1 by which the slope of a weight of 0 must stay below it to be inactive; 1: none is. */
struct tern_updater coordinate_updater(double l1, double l2, double kkt);

/* The push that joins; a free weight has no penalty. */
void coordinate_join(bool is_free, double update[COORDINATE_LENGTH]);

/* The push that sets a weight, between steps. */
void coordinate_set(double weight, double update[COORDINATE_LENGTH]);

#endif
