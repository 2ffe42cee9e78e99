/* predict - one run of a predicted cluster. */
#ifndef SIM_PREDICT_H
#define SIM_PREDICT_H

#include "sim/cost.h"

/* Runs a workload that was checked. What it does is measured, if `samples` is not NULL. The prediction is zeroed. */
enum tern_status predict_run(const struct tern_sim_workload *workload, struct cost_samples *samples,
                             struct tern_sim_prediction *prediction);

#endif
