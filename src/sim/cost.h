/*
 * cost - what the work of a node costs: a number of nanoseconds per unit of each enum tern_sim_cost. And how these are found: work
 * whose amounts are known is measured, and the costs are those with the least squares of what is left unexplained.
 *
 * Whoever measures is sometimes taken off its core, so the few samples far above what the others explain are left out. A
 * cost below zero means nothing; it is made zero, and the others are found without it.
 *
 * Pure.
 */
#ifndef SIM_COST_H
#define SIM_COST_H

#include <stdbool.h>
#include <stddef.h>

#include "tern/sim.h"

/* One measurement: units of each, and the time that they took. */
struct cost_sample {
    float amounts[TERN_SIM_COSTS];
    float ns;
};

struct cost_samples {
    struct cost_sample *at;
    size_t n, max;
};

/* False when memory runs out. */
bool cost_samples_add(struct cost_samples *samples, const struct cost_sample *sample);
void cost_samples_free(struct cost_samples *samples);

/* Finds the costs that occur in the samples; the others are left as they are. */
void cost_fit(const struct cost_samples *samples, struct tern_sim_costs *costs);

/* What amounts cost. */
double cost_of(const struct tern_sim_costs *costs, const double amounts[TERN_SIM_COSTS]);

#endif
