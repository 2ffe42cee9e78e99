/* cost_internal - what the parts of a node of a predicted cluster know of each other. */
#ifndef SIM_COST_INTERNAL_H
#define SIM_COST_INTERNAL_H

#include "sim/cost_node.h"

/* The node does so many units of something, and time passes. */
static inline void cost_count(struct cost_node *node, enum tern_sim_cost what, double n)
{
    node->amounts[what] += n;
    node->sampled[what] += n;
    node->spent_ns += node->run->workload->costs.ns[what] * n;
}

/* Virtual time at the node. */
static inline uint64_t cost_now_ns(const struct cost_node *node)
{
    return node->run->timeline.now_ns + (uint64_t)node->spent_ns;
}

/* Begins and ends to measure, if that is wanted, what was counted meanwhile. Measurements are not nested. */
uint64_t cost_measure_begin(struct cost_node *node);
void cost_measure_end(struct cost_node *node, uint64_t begin_ns);

/* What a node says to others, and what they say to it. */
enum tern_status cost_callers_init(struct cost_node *node);
void cost_callers_fini(struct cost_node *node);

/* Looks for answers, with what that costs. False: none has come, so there is nothing to do. (The lanes of all nodes would be
 * looked at in vain, which takes a simulator of many nodes most of its time.) */
bool cost_caller_look(struct cost_caller *caller);

/* Handles what has come, and drives the rounds. */
void cost_drive(struct cost_node *node);

#endif
