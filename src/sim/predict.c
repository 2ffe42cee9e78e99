/*
 * predict - the public calls of tern/sim.h about predictions: runs a cluster of cost nodes on virtual time, and sums up.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "sim/cost_node.h"
#include "sim/predict.h"

#define DEADLINE_NS (UINT64_MAX / 8) /* nobody fails */

enum { STEPS_PER_PROGRESS = 1024 };

static enum tern_status check(const struct tern_sim_workload *workload)
{
    if (!workload || !workload->draw || !workload->policy)
        return fail(TERN_INVALID, "a simulated workload: a pointer is NULL");
    if (workload->struct_size != sizeof *workload)
        return fail(TERN_INVALID,
                    "tern_sim_workload.struct_size is %zu; set it to sizeof, which "
                    "is %zu",
                    workload->struct_size, sizeof *workload);
    if (!workload->n_nodes || workload->n_nodes > TERN_SIM_COST_MAX_NODES)
        return fail(TERN_LIMIT, "a prediction for %" PRIu32 " nodes: 1 to %d are possible",
                    workload->n_nodes, TERN_SIM_COST_MAX_NODES);
    if (!workload->batch || workload->batch > TERN_SIM_COST_MAX_BATCH)
        return fail(TERN_LIMIT, "a simulated batch of %" PRIu32 " keys: 1 to %d are possible",
                    workload->batch, TERN_SIM_COST_MAX_BATCH);
    if (!workload->n_keys || !workload->length || !workload->n_steps)
        return fail(TERN_INVALID, "a simulated workload: n_keys, length and n_steps must not be 0");
    if (workload->n_cores && workload->n_nodes > workload->n_cores && !workload->slice_ns)
        return fail(TERN_INVALID, "a simulated workload: nodes share cores, and slice_ns is 0");
    return TERN_OK;
}

static enum tern_status find_policy(struct cost_run *run)
{
    const char *name = run->workload->policy;
    if (!policy_find(name, &run->policy))
        return fail(TERN_INVALID, "there is no policy '%s'", name);
    run->inner = technique_find(&run->policy, false);
    if (run->inner->admit || run->inner->counting || run->inner->rows == ROWS_EVERYWHERE)
        return fail(TERN_INVALID,
                    "policy '%s' cannot be predicted: its keys neither stay at home nor move",
                    name);
    run->counted = cost_technique(run->inner);
    return TERN_OK;
}

static enum tern_status init(struct cost_run *run)
{
    const struct tern_sim_workload *workload = run->workload;
    enum tern_status status = find_policy(run);
    run->view = status ? NULL : view_new(1, workload->n_nodes, NULL);
    if (!run->view)
        return status ? status : TERN_NO_MEMORY;
    status = peers_init(&run->peers, run->view, DEADLINE_NS);
    for (uint32_t i = 0; !status && i < workload->n_nodes; i++)
        run->peers.incarnations[i] = i + 1;
    const size_t n_values = (size_t)workload->batch * workload->length;
    run->updates = malloc(n_values * sizeof *run->updates);
    run->nodes = calloc(workload->n_nodes, sizeof *run->nodes);
    if (!timeline_init(&run->timeline, workload) || !run->updates || !run->nodes)
        return fail(TERN_NO_MEMORY, "no memory for %" PRIu32 " nodes", workload->n_nodes);
    for (size_t i = 0; i < n_values; i++)
        run->updates[i] = 1;
    for (uint32_t i = 0; !status && i < workload->n_nodes; i++)
        status = cost_node_init(run, i);
    return status;
}

static void fini(struct cost_run *run)
{
    for (uint32_t i = 0; run->nodes && i < run->workload->n_nodes; i++)
        cost_node_fini(&run->nodes[i]);
    timeline_fini(&run->timeline);
    free(run->nodes);
    free(run->updates);
    peers_fini(&run->peers);
    view_free(run->view);
}

static enum tern_status run_all(struct cost_run *run)
{
    const struct tern_sim_workload *workload = run->workload;
    struct timeline_event event;
    uint64_t told = 0;
    for (uint32_t i = 0; i < workload->n_nodes; i++)
        cost_node_begin(&run->nodes[i]);
    while (run->n_measured < workload->n_nodes && !run->status &&
           timeline_next(&run->timeline, &event)) {
        cost_node_event(&run->nodes[event.node], &event);
        if (workload->progress && run->n_done >= told + STEPS_PER_PROGRESS)
            workload->progress(workload->context, told = run->n_done);
    }
    if (run->timeline.no_memory)
        return fail(TERN_NO_MEMORY, "no memory for the messages of %" PRIu32 " nodes",
                    workload->n_nodes);
    return run->status;
}

/* ---- Figures ---------------------------------------------------------------------------------- */

static void add_node(const struct cost_node *node, struct tern_sim_prediction *sum,
                     double *n_staleness)
{
    const struct cost_marks *begun = &node->begun, *ended = &node->ended;
    const double n_steps = (double)node->run->workload->n_steps;
    const double seconds = (double)(ended->at_ns - begun->at_ns) / 1e9;
    sum->steps_s += n_steps / seconds;
    sum->bytes += (double)(ended->bytes - begun->bytes);
    sum->remote_share += (double)(ended->remote - begun->remote);
    sum->messages += (double)(ended->letters - begun->letters);
    sum->rounds_s += (double)(ended->rounds - begun->rounds) / seconds;
    sum->staleness_ms_mean += (ended->staleness_ns - begun->staleness_ns) / 1e6;
    *n_staleness += ended->n_staleness - begun->n_staleness;
    sum->wait_ns += seconds * 1e9;
    for (int i = 0; i < TERN_SIM_COSTS; i++)
        sum->amounts[i] += ended->amounts[i] - begun->amounts[i];
    for (int i = 0; i < 2; i++) {
        const double share =
            (double)(ended->link_busy_ns[i] - begun->link_busy_ns[i]) / 1e9 / seconds;
        sum->link_mean += share / 2;
        if (sum->link_busiest < share)
            sum->link_busiest = share;
    }
}

/* Makes means of sums. */
static void sum_up(const struct cost_run *run, struct tern_sim_prediction *sum)
{
    const struct tern_sim_workload *workload = run->workload;
    const double *ns = workload->costs.ns;
    const double n_nodes = workload->n_nodes, n_steps = n_nodes * (double)workload->n_steps;
    double n_staleness = 0;
    for (uint32_t i = 0; i < workload->n_nodes; i++)
        add_node(&run->nodes[i], sum, &n_staleness);
    sum->bytes /= n_steps;
    sum->remote_share /= n_steps * 2 * workload->batch;
    sum->messages /= n_steps;
    sum->rounds_s /= n_nodes;
    sum->staleness_ms_mean /= n_staleness > 0 ? n_staleness : 1;
    sum->link_mean /= n_nodes;
    for (int i = 0; i < TERN_SIM_COSTS; i++)
        sum->amounts[i] /= n_steps;
    sum->step_ns = (double)workload->compute_ns + ns[TERN_COST_STEP] +
                   ns[TERN_COST_ACCESS] * sum->amounts[TERN_COST_ACCESS];
    sum->transfer_ns = ns[TERN_COST_LOOK] * sum->amounts[TERN_COST_LOOK] +
                       ns[TERN_COST_TRANSFER] * sum->amounts[TERN_COST_TRANSFER] +
                       ns[TERN_COST_BYTE] * sum->amounts[TERN_COST_BYTE];
    sum->rounds_ns = cost_of(&workload->costs, sum->amounts) - sum->transfer_ns -
                     ns[TERN_COST_STEP] * sum->amounts[TERN_COST_STEP] -
                     ns[TERN_COST_ACCESS] * sum->amounts[TERN_COST_ACCESS];
    sum->wait_ns = sum->wait_ns / n_steps - sum->step_ns - sum->transfer_ns - sum->rounds_ns;
    if (sum->wait_ns < 0)
        sum->wait_ns = 0;
    sum->n_events = run->timeline.n_events;
}

enum tern_status predict_run(const struct tern_sim_workload *workload, struct cost_samples *samples,
                             struct tern_sim_prediction *prediction)
{
    struct cost_run run = {.workload = workload, .samples = samples};
    enum tern_status status = init(&run);
    if (!status)
        status = run_all(&run);
    if (!status)
        sum_up(&run, prediction);
    fini(&run);
    return status;
}

enum tern_status tern_sim_predict(const struct tern_sim_workload *workload,
                                  struct tern_sim_prediction *prediction)
{
    const enum tern_status status = check(workload);
    if (status)
        return status;
    if (!prediction || prediction->struct_size != sizeof *prediction)
        return fail(TERN_INVALID, "tern_sim_predict: `prediction` is NULL, or its struct_size is "
                                  "not sizeof the struct");
    *prediction = (struct tern_sim_prediction){.struct_size = sizeof *prediction};
    return predict_run(workload, NULL, prediction);
}
