/* plan - see plan.h. */
#include "nd/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nd/elementwise.h"

enum { CLASSES = 48 }; /* of sizes: powers of 2 */

/* What planning needs besides its result. */
struct planning {
    const struct graph *graph;
    struct plan *plan;
    bool sharing;
    uint32_t *n_uses;       /* of each node's value, still to come */
    uint32_t *next_free;    /* of each unit: lists */
    uint32_t free[CLASSES]; /* the unit freed last, of each class */
    size_t alive;           /* bytes of values that are still needed */
};

void plan_fini(struct plan *plan)
{
    free(plan->unit_of);
    free(plan->scratch_of);
    free(plan->units);
    memset(plan, 0, sizeof *plan);
}

static unsigned class_of(size_t bytes)
{
    return (unsigned)(63 - __builtin_clzll(bytes | 1));
}

static void free_unit(struct planning *planning, uint32_t unit)
{
    if (!planning->sharing)
        return;
    const unsigned class = class_of(planning->plan->units[unit].bytes);
    planning->next_free[unit] = planning->free[class];
    planning->free[class] = unit;
}

/* A free unit of about the size, the one freed last: it is most likely on the same path. */
static uint32_t take_unit(struct planning *planning, size_t bytes)
{
    struct plan *plan = planning->plan;
    const unsigned class = class_of(bytes);
    const unsigned order[] = {class, class + 1, class ? class - 1 : class};
    for (unsigned i = 0; i < 3; i++) {
        const uint32_t unit = order[i] < CLASSES ? planning->free[order[i]] : PLAN_NONE;
        if (unit == PLAN_NONE)
            continue;
        planning->free[order[i]] = planning->next_free[unit];
        if (plan->units[unit].bytes < bytes)
            plan->units[unit].bytes = bytes;
        return unit;
    }
    plan->units[plan->n_units].bytes = bytes;
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
            plan->unit_of[v] = take_unit(planning, spec_bytes(&node->spec));
            count_alive(planning, spec_bytes(&node->spec));
        }
        plan->separate_bytes += spec_bytes(&node->spec);
    }
    if (!node->program && node->op->scratch_bytes) {
        struct spec specs[OP_MAX_INPUTS];
        for (unsigned i = 0; i < n_sources; i++)
            specs[i] = planning->graph->nodes[sources[i]].spec;
        const size_t bytes = node->op->scratch_bytes(&node->attributes, specs, &node->spec);
        plan->scratch_of[v] = take_unit(planning, bytes);
        count_alive(planning, bytes);
        planning->alive -= bytes;
        plan->separate_bytes += bytes;
        free_unit(planning, plan->scratch_of[v]);
    }
    for (unsigned i = 0; i < n_sources; i++) {
        const uint32_t unit = plan->unit_of[sources[i]];
        if (--planning->n_uses[sources[i]] || unit == PLAN_NONE || unit == plan->unit_of[v])
            continue;
        free_unit(planning, unit);
        planning->alive -= spec_bytes(&planning->graph->nodes[sources[i]].spec);
    }
}

static void lay_out(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->n_units; i++) {
        plan->units[i].offset = plan->arena_bytes;
        plan->arena_bytes += (plan->units[i].bytes + 63) / 64 * 64;
    }
}

enum tern_status plan_make(const struct graph *graph, bool sharing, struct plan *plan)
{
    const size_t n = graph->n_nodes + (size_t)1;
    *plan = (struct plan){.unit_of = malloc(n * sizeof(uint32_t)),
                          .scratch_of = malloc(n * sizeof(uint32_t)),
                          .units = calloc(2 * n, sizeof(struct unit))};
    struct planning planning = {.graph = graph,
                                .plan = plan,
                                .sharing = sharing,
                                .n_uses = calloc(n, sizeof(uint32_t)),
                                .next_free = malloc(2 * n * sizeof(uint32_t))};
    memset(planning.free, 0xff, sizeof planning.free);
    enum tern_status status = TERN_OK;
    if (!plan->unit_of || !plan->scratch_of || !plan->units || !planning.n_uses ||
        !planning.next_free) {
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
    lay_out(plan);
done:
    free(planning.n_uses);
    free(planning.next_free);
    return status;
}
