/* coordinate - the step of one weight. See coordinate.h. */
#include "linear/coordinate.h"

#include <math.h>

/* Elements of the state. */
enum { SLOPE, CURVATURE, N_ARRIVED, N_EXPECTED, IS_FREE };

/* What stands for the curvature, which is never negative, in pushes that are no part of a step. */
enum { JOIN = -1, SET = -2 };

/* The first radius, and one that is never given up, so that a weight can grow again. */
static const double FIRST_RADIUS = 1, LEAST_RADIUS = 1e-3;

/* A weight that moves by a smaller share of itself may be settled. */
static const double LEAST_MOVE = 0.02;

/* How far a weight is from being optimal: the smallest slope of the objective in either direction. */
static double violation(double weight, double slope, double l1)
{
    if (weight != 0)
        return fabs(weight > 0 ? slope + l1 : slope - l1);
    return fmax(fabs(slope) - l1, 0);
}

/* The minimum of slope * d + curvature / 2 * d^2 + l1 |w + d| + l2 / 2 (w + d)^2, as a new weight. */
static double minimum(double weight, double slope, double curvature, double l1, double l2)
{
    const double pull = curvature * weight - slope, whole = curvature + l2;
    if (whole <= 0 && slope == 0 && l1 <= 0)
        return weight;
    if (fabs(pull) <= l1)
        return 0;
    return whole > 0 ? (pull > 0 ? pull - l1 : pull + l1) / whole : pull > 0 ? HUGE_VAL : -HUGE_VAL;
}

/* Whether a weight may be left out until all are visited again: one of 0 that would stay 0 also with a steeper slope, or
 * another one that is nearly optimal and hardly moves. */
static bool is_settled(double weight, double change, double slope, double amiss, double l1,
                       double kkt)
{
    if (kkt >= 1)
        return false;
    if (weight == 0)
        return change == 0 && fabs(slope) < l1 * (1 - kkt);
    return amiss < l1 * kkt / 2 && fabs(change) < LEAST_MOVE * fabs(weight);
}

static void step(const struct tern_updater *updater, double *row, double *state)
{
    const bool is_free = state[IS_FREE] > 0;
    const double l1 = is_free ? 0 : updater->parameters[0],
                 l2 = is_free ? 0 : updater->parameters[1];
    const double kkt = updater->parameters[2];
    const double weight = row[COORDINATE_WEIGHT], slope = state[SLOPE];
    const double radius = fabs(row[COORDINATE_RADIUS]);
    double change = minimum(weight, slope, state[CURVATURE], l1, l2) - weight;
    change = fmin(fmax(change, -radius), radius);
    double wider = fmax(fmax(2 * fabs(change), radius / 2), LEAST_RADIUS);
    const double amiss = violation(weight, slope + l2 * weight, l1);
    const bool is_idle = is_settled(weight, change, slope, amiss, l1, kkt);
    row[COORDINATE_VIOLATION] = amiss / state[N_EXPECTED];
    row[COORDINATE_WEIGHT] = weight + change;
    row[COORDINATE_RADIUS] = is_idle ? -wider : wider;
    state[SLOPE] = state[CURVATURE] = state[N_ARRIVED] = 0;
}

static void apply(const struct tern_updater *updater, enum tern_type type, size_t length,
                  void *value, void *state_of_row, const void *pushed)
{
    double *row = value, *state = state_of_row;
    const double *update = pushed;
    (void)type;
    (void)length;
    if (update[COORDINATE_CURVATURE] == SET) {
        row[COORDINATE_WEIGHT] = update[COORDINATE_SLOPE];
        return;
    }
    if (update[COORDINATE_CURVATURE] == JOIN) {
        state[N_EXPECTED]++;
        state[IS_FREE] = update[COORDINATE_SLOPE];
        row[COORDINATE_RADIUS] = FIRST_RADIUS;
        row[COORDINATE_VIOLATION] = state[N_EXPECTED];
        return;
    }
    state[SLOPE] += update[COORDINATE_SLOPE];
    state[CURVATURE] += update[COORDINATE_CURVATURE];
    if (++state[N_ARRIVED] == state[N_EXPECTED])
        step(updater, row, state);
}

struct tern_updater coordinate_updater(double l1, double l2, double kkt)
{
    return (struct tern_updater){.name = "linear-coordinate",
                                 .state_per_row = COORDINATE_STATE,
                                 .apply = apply,
                                 .parameters = {l1, l2, kkt}};
}

void coordinate_join(bool is_free, double update[COORDINATE_LENGTH])
{
    update[COORDINATE_SLOPE] = is_free;
    update[COORDINATE_CURVATURE] = JOIN;
    update[COORDINATE_VIOLATION] = 0;
}

void coordinate_set(double weight, double update[COORDINATE_LENGTH])
{
    update[COORDINATE_SLOPE] = weight;
    update[COORDINATE_CURVATURE] = SET;
    update[COORDINATE_VIOLATION] = 0;
}
