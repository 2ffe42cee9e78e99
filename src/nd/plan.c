/* plan - see plan.h. */
#include "nd/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nd/elementwise.h"

/* A part of the arena, and the unit that had it last. */
struct segment {
    size_t begin, end;
    uint32_t unit;
};

/* What planning needs besides its result. */
struct planning {
    const struct graph *graph;
    struct plan *plan;
    bool sharing;
    uint32_t *n_uses;  /* of each node's value, still to come */
    uint32_t *by_size; /* units, the largest first */
    uint32_t *placed;  /* units that have an offset, in the order of these */
    struct segment *segments;
    size_t n_segments;
    size_t alive; /* bytes of values that are still needed */
};

void plan_fini(struct plan *plan)
{
    free(plan->unit_of);
    free(plan->scratch_of);
    free(plan->units);
    free(plan->before);
    memset(plan, 0, sizeof *plan);
}

/* ---- Units: which there are, and when they are needed -------------------------------------------- */

static uint32_t new_unit(struct plan *plan, size_t bytes, uint32_t node)
{
    plan->units[plan->n_units] = (struct unit){.bytes = bytes, .begin = node, .end = node};
    return plan->n_units++;
}

/* Whether the output of `node` may overwrite its i-th source. */
static bool may_overwrite(const struct planning *planning, uint32_t node, unsigned i,
                          uint32_t source)
{
    const struct graph_node *to = &planning->graph->nodes[node],
                            *from = &planning->graph->nodes[source];
    if (planning->plan->unit_of[source] == PLAN_NONE || planning->n_uses[source] != 1 ||
        spec_bytes(&to->spec) != spec_bytes(&from->spec))
        return false;
    if (to->program)
        return spec_same_shape(&to->spec, &from->spec) &&
               spec_type_bytes(to->spec.type) == spec_type_bytes(from->spec.type);
    return to->op->overwrites & 1u << i;
}

static void count_alive(struct planning *planning, size_t bytes)
{
    planning->alive += bytes;
    if (planning->plan->alive_bytes < planning->alive)
        planning->plan->alive_bytes = planning->alive;
}

size_t plan_scratch(const struct graph *graph, uint32_t v)
{
    const struct graph_node *node = &graph->nodes[v];
    struct spec specs[OP_MAX_INPUTS];
    for (uint32_t i = 0; i < node->n_inputs; i++)
        specs[i] = graph->nodes[graph_inputs(graph, v)[i]].spec;
    return (node->op->scratch_bytes(&node->attributes, specs, &node->spec) + 63) / 64 * 64;
}

/* Gives the node's value and its scratch a unit. */
static void plan_node(struct planning *planning, uint32_t v)
{
    struct plan *plan = planning->plan;
    const struct graph_node *node = &planning->graph->nodes[v];
    unsigned n_sources;
    const uint32_t *sources = graph_sources(planning->graph, v, &n_sources);
    if (!node->is_output) {
        for (unsigned i = 0; i < n_sources && planning->sharing && plan->unit_of[v] == PLAN_NONE;
             i++)
            if (may_overwrite(planning, v, i, sources[i]))
                plan->unit_of[v] = plan->unit_of[sources[i]];
        if (plan->unit_of[v] == PLAN_NONE) {
            plan->unit_of[v] = new_unit(plan, spec_bytes(&node->spec), v);
            count_alive(planning, spec_bytes(&node->spec));
        }
        plan->separate_bytes += spec_bytes(&node->spec);
    }
    if (!node->program && node->op->scratch_bytes) {
        const size_t bytes =
            plan_scratch(planning->graph, v) * (node->op->divides ? plan->n_parts : 1);
        plan->scratch_of[v] = new_unit(plan, bytes, v);
        count_alive(planning, bytes);
        planning->alive -= bytes;
        plan->separate_bytes += bytes;
    }
    for (unsigned i = 0; i < n_sources; i++) {
        const uint32_t unit = plan->unit_of[sources[i]];
        if (unit == PLAN_NONE)
            continue;
        plan->units[unit].end = v;
        if (!--planning->n_uses[sources[i]] && unit != plan->unit_of[v])
            planning->alive -= spec_bytes(&planning->graph->nodes[sources[i]].spec);
    }
}

/* ---- Places ---------------------------------------------------------------------------------------- */

/* Sorts units by size, the largest first; those of one size stay in the order of time. `spare` has room for them too. */
static void sort_units(const struct unit *units, uint32_t *list, uint32_t n, uint32_t *spare)
{
    if (n < 2)
        return;
    const uint32_t half = n / 2;
    sort_units(units, list, half, spare);
    sort_units(units, list + half, n - half, spare);
    for (uint32_t i = 0, left = 0, right = half; i < n; i++) {
        const bool is_left =
            right == n || (left < half && units[list[left]].bytes >= units[list[right]].bytes);
        spare[i] = list[is_left ? left++ : right++];
    }
    memcpy(list, spare, n * sizeof *list);
}

static size_t size_of(const struct unit *unit)
{
    return (unit->bytes + 63) / 64 * 64;
}

/* The offset of the smallest gap for a unit between the n placed ones that are needed at the same time. */
static size_t find_gap(const struct planning *planning, const struct unit *unit, uint32_t n)
{
    const struct unit *units = planning->plan->units;
    size_t end = 0, best = 0, least = SIZE_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const struct unit *other = &units[planning->placed[i]];
        if (planning->sharing && (other->end < unit->begin || other->begin > unit->end))
            continue;
        if (other->offset >= end + size_of(unit) && other->offset - end < least) {
            least = other->offset - end;
            best = end;
        }
        if (end < other->offset + size_of(other))
            end = other->offset + size_of(other);
    }
    return least < SIZE_MAX ? best : end;
}

static void place_units(struct planning *planning)
{
    struct plan *plan = planning->plan;
    for (uint32_t i = 0; i < plan->n_units; i++)
        planning->by_size[i] = i;
    sort_units(plan->units, planning->by_size, plan->n_units, planning->placed);
    for (uint32_t i = 0; i < plan->n_units; i++) {
        struct unit *unit = &plan->units[planning->by_size[i]];
        unit->offset = planning->sharing ? find_gap(planning, unit, i) : plan->arena_bytes;
        if (plan->arena_bytes < unit->offset + size_of(unit))
            plan->arena_bytes = unit->offset + size_of(unit);
        uint32_t at = i;
        for (; at > 0 && plan->units[planning->placed[at - 1]].offset > unit->offset; at--)
            planning->placed[at] = planning->placed[at - 1];
        planning->placed[at] = planning->by_size[i];
    }
}

/* ---- What was there before ------------------------------------------------------------------------- */

/* Gives a unit its part of the arena, and lists the units that had it. Segments are sorted, and cover the arena. */
static bool take_segments(struct planning *planning, uint32_t unit)
{
    struct plan *plan = planning->plan;
    const size_t begin = plan->units[unit].offset, end = begin + size_of(&plan->units[unit]);
    size_t first = 0, last;
    while (first < planning->n_segments && planning->segments[first].end <= begin)
        first++;
    for (last = first; last < planning->n_segments && planning->segments[last].begin < end; last++)
        ;
    plan->units[unit].first_before = (uint32_t)plan->n_before;
    uint32_t *before = realloc(plan->before, (plan->n_before + last - first + 1) * sizeof *before);
    if (!before)
        return false;
    plan->before = before;
    for (size_t i = first; i < last; i++)
        if (planning->segments[i].unit != PLAN_NONE)
            before[plan->n_before++] = planning->segments[i].unit;
    plan->units[unit].n_before = (uint32_t)plan->n_before - plan->units[unit].first_before;
    /* What is left of the first and the last one, around the unit. */
    struct segment parts[3];
    size_t n = 0;
    if (planning->segments[first].begin < begin)
        parts[n++] = (struct segment){planning->segments[first].begin, begin,
                                      planning->segments[first].unit};
    parts[n++] = (struct segment){begin, end, unit};
    if (planning->segments[last - 1].end > end)
        parts[n++] = (struct segment){end, planning->segments[last - 1].end,
                                      planning->segments[last - 1].unit};
    memmove(planning->segments + first + n, planning->segments + last,
            (planning->n_segments - last) * sizeof *parts);
    memcpy(planning->segments + first, parts, n * sizeof *parts);
    planning->n_segments += n - (last - first);
    return true;
}

/* Units were made in the order in which they are needed first. */
static bool list_before(struct planning *planning)
{
    struct plan *plan = planning->plan;
    planning->segments[0] = (struct segment){0, plan->arena_bytes, PLAN_NONE};
    planning->n_segments = plan->arena_bytes > 0;
    for (uint32_t i = 0; i < plan->n_units; i++)
        if (!take_segments(planning, i))
            return false;
    return true;
}

enum tern_status plan_make(const struct graph *graph, bool sharing, unsigned n_parts,
                           struct plan *plan)
{
    const size_t n = graph->n_nodes + (size_t)1;
    *plan = (struct plan){.n_parts = n_parts,
                          .unit_of = malloc(n * sizeof(uint32_t)),
                          .scratch_of = malloc(n * sizeof(uint32_t)),
                          .units = calloc(2 * n, sizeof(struct unit))};
    struct planning planning = {.graph = graph,
                                .plan = plan,
                                .sharing = sharing,
                                .n_uses = calloc(n, sizeof(uint32_t)),
                                .by_size = malloc(2 * n * sizeof(uint32_t)),
                                .placed = malloc(2 * n * sizeof(uint32_t)),
                                .segments = malloc((4 * n + 3) * sizeof(struct segment))};
    enum tern_status status = TERN_OK;
    if (!plan->unit_of || !plan->scratch_of || !plan->units || !planning.n_uses ||
        !planning.by_size || !planning.placed || !planning.segments) {
        status =
            fail(TERN_NO_MEMORY, "there is no memory to plan a graph of %u nodes", graph->n_nodes);
        plan_fini(plan);
        goto done;
    }
    memset(plan->unit_of, 0xff, n * sizeof(uint32_t));
    memset(plan->scratch_of, 0xff, n * sizeof(uint32_t));
    for (uint32_t v = 0; v < graph->n_nodes; v++) {
        unsigned n_sources = 0;
        const uint32_t *sources =
            graph_is_run(graph, v) ? graph_sources(graph, v, &n_sources) : NULL;
        for (unsigned i = 0; i < n_sources; i++)
            planning.n_uses[sources[i]]++;
    }
    for (uint32_t v = 0; v < graph->n_nodes; v++)
        if (graph_is_run(graph, v))
            plan_node(&planning, v);
    place_units(&planning);
    if (!list_before(&planning)) {
        status = fail(TERN_NO_MEMORY, "there is no memory for the plan of %u units", plan->n_units);
        plan_fini(plan);
    }
done:
    free(planning.n_uses);
    free(planning.by_size);
    free(planning.placed);
    free(planning.segments);
    return status;
}
