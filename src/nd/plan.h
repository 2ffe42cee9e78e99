/*
 * plan - which memory each value between the leaves and the outputs of a graph uses.
 *
 * A unit is a piece of one arena, for values that follow each other in place, or for the scratch of a node:
 *
 *   in place  the output of a node takes the unit of an input that nobody reads later, if the operator allows it
 *   co-share  units that are needed at different times lie over each other: the largest are placed first, each into the
 *             smallest gap between those that are needed at the same time (thesis, 4.3.2)
 *
 * A unit is a variable of the engine. Its first writer also waits until nobody needs the units any more that had its memory
 * before: it writes them too. Call graph_fuse first.
 */
#ifndef ND_PLAN_H
#define ND_PLAN_H

#include "nd/graph.h"

#define PLAN_NONE UINT32_MAX

struct plan {
    uint32_t
        *unit_of; /* of a node's value; PLAN_NONE: it is a leaf, an output, or nowhere in memory */
    uint32_t *scratch_of; /* of a node's scratch */
    unsigned n_parts;     /* of an operator that divides its work: each has a scratch */
    uint32_t n_units;
    struct unit {
        size_t bytes, offset;
        uint32_t begin, end; /* the first node that writes it, and the last that needs it */
        uint32_t first_before, n_before;
    } * units;
    uint32_t *
        before; /* units first_before .. first_before + n_before - 1 of a unit had parts of its memory last */
    size_t n_before;
    size_t arena_bytes;
    size_t separate_bytes; /* what one piece of memory per value would take */
    size_t
        alive_bytes; /* the most that values and scratch take at a time, in the order of the nodes */
};

/* Without `sharing`, each value has a unit of its own, and no unit lies over another. */
enum tern_status plan_make(const struct graph *graph, bool sharing, unsigned n_parts,
                           struct plan *plan);

/* The scratch of one part of a node's work. */
size_t plan_scratch(const struct graph *graph, uint32_t node);
void plan_fini(struct plan *plan);

#endif
