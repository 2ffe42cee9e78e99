/*
 * plan - which memory each value between the leaves and the outputs of a graph uses.
 *
 * A unit is a piece of one arena. Two heuristics, both linear in the nodes (thesis, 4.3.2):
 *
 *   in place  the output of a node takes the unit of an input that nobody reads later, if the operator allows it
 *   co-share  a unit that nobody needs any more is used again for a value of similar size
 *
 * A unit is a variable of the engine, so that nodes which use it one after the other also run so. Call graph_fuse first.
 */
#ifndef ND_PLAN_H
#define ND_PLAN_H

#include "nd/graph.h"

#define PLAN_NONE UINT32_MAX

struct plan {
    uint32_t
        *unit_of; /* of a node's value; PLAN_NONE: it is a leaf, an output, or nowhere in memory */
    uint32_t *scratch_of; /* of a node's scratch */
    uint32_t n_units;
    struct unit {
        size_t bytes, offset;
    } * units;
    size_t arena_bytes;
    size_t separate_bytes; /* what one piece of memory per value would take */
    size_t
        alive_bytes; /* the most that values and scratch take at a time, in the order of the nodes */
};

/* Without `sharing`, each value has a unit of its own. */
enum tern_status plan_make(const struct graph *graph, bool sharing, struct plan *plan);
void plan_fini(struct plan *plan);

#endif
