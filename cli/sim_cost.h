/* sim_cost - tern sim --cost: predicts the speed of clusters. */
#ifndef CLI_SIM_COST_H
#define CLI_SIM_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tern/sim.h>

int sim_cost_command(int argc, char **argv);

/* The prediction for one number of nodes, each with a core of its own. */
struct cost_row {
    int64_t n_nodes;
    double speedup;
    const char *limit; /* what takes most time beside the steps themselves; or the link */
    struct tern_sim_prediction prediction;
};

/* Draws speed-up over nodes, and where the time of a step goes; false after a complaint. */
bool sim_cost_draw(const char *path, const struct cost_row *rows, size_t n);

/* How long a process runs before another one gets the core that they share, in nanoseconds; 0 after a complaint. */
uint64_t sim_cost_slice_ns(void);

#endif
