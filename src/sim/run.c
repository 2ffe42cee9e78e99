/* run - the public calls of tern/sim.h. */
#include "tern/sim.h"

#include <inttypes.h>

#include "base/status.h"
#include "sim/cluster.h"

static enum tern_status check_options(const struct tern_sim_options *options,
                                      const struct tern_sim_result *result)
{
    if (!options || !result)
        return fail(TERN_INVALID, "tern_sim_run: a pointer is NULL");
    if (options->struct_size != sizeof *options || result->struct_size != sizeof *result)
        return fail(TERN_INVALID, "tern_sim_run: a struct_size is not sizeof the struct");
    if (options->n_nodes < 2 || options->n_nodes > TERN_SIM_MAX_NODES)
        return fail(TERN_LIMIT, "a simulation of %" PRIu32 " nodes: 2 to %d are possible",
                    options->n_nodes, TERN_SIM_MAX_NODES);
    if (options->n_shards > TERN_SIM_MAX_SHARDS)
        return fail(TERN_LIMIT, "a simulation of %" PRIu32 " shards: 1 to %d are possible",
                    options->n_shards, TERN_SIM_MAX_SHARDS);
    if (!options->n_steps || !options->n_seeds)
        return fail(TERN_INVALID, "tern_sim_run: n_steps and n_seeds must not be 0");
    if (options->faults & ~TERN_SIM_ALL)
        return fail(TERN_INVALID, "tern_sim_run: the faults 0x%" PRIx32 " are unknown",
                    options->faults & ~TERN_SIM_ALL);
    return TERN_OK;
}

enum tern_status tern_sim_run(const struct tern_sim_options *options,
                              struct tern_sim_result *result)
{
    enum tern_status status = check_options(options, result);
    if (status)
        return status;
    *result = (struct tern_sim_result){.struct_size = sizeof *result};
    for (uint64_t i = 0; !status && i < options->n_seeds && !result->n_violations; i++) {
        status = cluster_run(options, options->seed + i, result);
        if (options->progress)
            options->progress(options->context, i + 1);
    }
    return status;
}
