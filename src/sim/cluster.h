/*
 * cluster - one simulated run: machines, faults and what must hold when all is over.
 */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include "tern/sim.h"

/* Runs one seed and adds its figures to the result. */
enum tern_status cluster_run(const struct tern_sim_options *options, uint64_t seed,
                             struct tern_sim_result *result);

#endif
