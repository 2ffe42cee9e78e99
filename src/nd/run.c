/* run - see run.h. */
#include "nd/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* Where a value is. */
struct value {
    struct storage *storage; /* NULL: in the arena */
    char *data;
    bool has_strides;
    int64_t strides[SPEC_DIMS];
};

struct run_node {
    struct run *run;
    uint32_t node;
    uint32_t n_links;
    struct operation operation;
    struct link *links; /* sources, output, scratch, and what had their memory before */
};

struct run {
    struct graph graph;
    struct plan plan;
    bool is_single;
    char *arena;
    struct value *values;
    struct variable *units;
    uint32_t *index; /* of a node in `nodes` */
    struct run_node *nodes;
    struct link *links; /* of all nodes */
    uint32_t n_nodes;
    uint64_t step;
    atomic_uint n_left; /* operations that have not ended */
};

static atomic_bool checks_nan;

void run_check_nan(bool on)
{
    atomic_store(&checks_nan, on);
}

const struct graph *run_graph(const struct run *run)
{
    return &run->graph;
}

const struct plan *run_plan(const struct run *run)
{
    return &run->plan;
}

/* ---- Operations ---------------------------------------------------------------------------------- */

static void run_program(struct run *run, uint32_t v)
{
    const struct graph_node *node = &run->graph.nodes[v];
    const struct program *program = node->program;
    struct operand in[PROGRAM_MAX_INPUTS],
        out = {.data = run->values[v].data, .type = node->spec.type};
    for (unsigned i = 0; i < program->n_inputs; i++) {
        const struct graph_node *source = &run->graph.nodes[program->inputs[i]];
        const struct value *value = &run->values[program->inputs[i]];
        in[i].data = value->data;
        in[i].type = source->spec.type;
        elementwise_strides(&source->spec, value->has_strides ? value->strides : NULL, &node->spec,
                            in[i].strides);
    }
    elementwise_strides(&node->spec, run->values[v].has_strides ? run->values[v].strides : NULL,
                        &node->spec, out.strides);
    elementwise_run(program, &node->spec, in, &out, run->step);
}

static enum tern_status run_operator(struct run *run, uint32_t v)
{
    const struct graph_node *node = &run->graph.nodes[v];
    struct tensor in[OP_MAX_INPUTS];
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const uint32_t source = graph_inputs(&run->graph, v)[i];
        in[i] = (struct tensor){run->graph.nodes[source].spec, run->values[source].data};
    }
    const uint32_t scratch = run->plan.scratch_of[v];
    const bool divides = node->op->divides;
    return node->op->forward(&(struct call){
        .n_parts = divides ? run->plan.n_parts : 1,
        .part_bytes = divides && scratch != PLAN_NONE
                          ? run->plan.units[scratch].bytes / run->plan.n_parts
                          : 0,
        .attributes = &node->attributes,
        .n_inputs = node->n_inputs,
        .in = in,
        .out = {node->spec, run->values[v].data},
        .scratch = scratch == PLAN_NONE ? NULL : run->arena + run->plan.units[scratch].offset});
}

/* The first element of a value that is NaN; the number of elements if there is none. */
static size_t find_nan(const struct run *run, uint32_t v)
{
    const struct spec *spec = &run->graph.nodes[v].spec;
    const struct value *value = &run->values[v];
    const size_t n = spec_count(spec);
    int64_t strides[SPEC_DIMS];
    if (!spec_is_real(spec->type) || !value->data)
        return n;
    spec_strides(spec, strides);
    for (size_t i = 0; i < n; i++) {
        size_t rest = i;
        int64_t at = 0;
        for (int d = spec->n_dims - 1; d >= 0; d--) {
            at += (int64_t)(rest % (size_t)spec->dims[d]) *
                  (value->has_strides ? value->strides : strides)[d];
            rest /= (size_t)spec->dims[d];
        }
        if (spec->type == TERN_ND_F32 ? isnan(((const float *)value->data)[at])
                                      : isnan(((const double *)value->data)[at]))
            return i;
    }
    return n;
}

static bool reads_nan(const struct run *run, uint32_t v)
{
    unsigned n;
    const uint32_t *sources = graph_sources(&run->graph, v, &n);
    bool found = false;
    for (unsigned i = 0; i < n && !found; i++)
        found = find_nan(run, sources[i]) < spec_count(&run->graph.nodes[sources[i]].spec);
    return found;
}

static enum tern_status compute(struct run *run, uint32_t v)
{
    if (!run->graph.nodes[v].program)
        return run_operator(run, v);
    run_program(run, v);
    return TERN_OK;
}

static enum tern_status run_node(void *context)
{
    const struct run_node *node = context;
    const struct graph_node *of = &node->run->graph.nodes[node->node];
    /* Its output may take the place of an input. */
    const bool checks = atomic_load(&checks_nan) && !reads_nan(node->run, node->node);
    enum tern_status status = compute(node->run, node->node);
    const size_t at = checks && !status ? find_nan(node->run, node->node) : SIZE_MAX;
    char shape[SPEC_TEXT];
    if (at >= spec_count(&of->spec))
        return status;
    return fail(
        TERN_RANGE,
        "%s%selement %zu of the result, which has the shape %s, is NaN, and no input has one",
        of->name ? of->name : "", of->name ? ": " : "", at, spec_print(&of->spec, shape));
}

static void destroy(struct run *run);

static void node_ended(void *context)
{
    struct run *run = ((struct run_node *)context)->run;
    const bool is_single = run->is_single;
    /* Unless it is single, the run may be gone after this. */
    if (atomic_fetch_sub(&run->n_left, 1) == 1 && is_single)
        destroy(run);
}

/* ---- Making one ---------------------------------------------------------------------------------- */

static void add_link(struct run_node *node, struct variable *variable, bool writes)
{
    for (uint32_t i = 0; i < node->n_links; i++) {
        if (node->links[i].variable == variable) {
            /* Overwritten, and read before. */
            node->links[i].keeps = node->links[i].keeps || writes != node->links[i].writes;
            node->links[i].writes = node->links[i].writes || writes;
            return;
        }
    }
    node->links[node->n_links++] = (struct link){.variable = variable, .writes = writes};
}

static struct variable *variable_of(struct run *run, uint32_t v)
{
    const uint32_t unit = run->plan.unit_of[v];
    return unit == PLAN_NONE ? &run->values[v].storage->variable : &run->units[unit];
}

/* A unit's first writer writes what had its memory before, so that nobody needs that any more. */
static void add_unit(struct run *run, struct run_node *node, uint32_t unit)
{
    const struct unit *own = unit == PLAN_NONE ? NULL : &run->plan.units[unit];
    for (uint32_t i = 0; own && own->begin == node->node && i < own->n_before; i++)
        add_link(node, &run->units[run->plan.before[own->first_before + i]], true);
}

/* The most links that a node has. */
static size_t count_links(const struct run *run, uint32_t v)
{
    const uint32_t units[] = {run->plan.unit_of[v], run->plan.scratch_of[v]};
    unsigned n_sources;
    (void)graph_sources(&run->graph, v, &n_sources);
    size_t n = n_sources + (size_t)2;
    for (int i = 0; i < 2; i++)
        if (units[i] != PLAN_NONE && run->plan.units[units[i]].begin == v)
            n += run->plan.units[units[i]].n_before;
    return n;
}

/* The links depend on the storages, so they are made when all are bound. */
static void connect(struct run *run, struct run_node *node)
{
    const uint32_t v = node->node;
    unsigned n_sources;
    const uint32_t *sources = graph_sources(&run->graph, v, &n_sources);
    node->n_links = 0;
    for (unsigned i = 0; i < n_sources; i++)
        add_link(node, variable_of(run, sources[i]), false);
    add_link(node, variable_of(run, v), true);
    /* A view is part of its storage. */
    if (run->values[v].has_strides)
        node->links[node->n_links - 1].keeps = true;
    if (run->plan.scratch_of[v] != PLAN_NONE)
        add_link(node, &run->units[run->plan.scratch_of[v]], true);
    add_unit(run, node, run->plan.unit_of[v]);
    add_unit(run, node, run->plan.scratch_of[v]);
    node->operation = (struct operation){.run = run_node,
                                         .ended = node_ended,
                                         .context = node,
                                         .name = run->graph.nodes[v].op->name,
                                         .links = node->links,
                                         .n_links = node->n_links};
}

static enum tern_status allocate(struct run *run)
{
    const size_t n = run->graph.n_nodes + (size_t)1;
    size_t n_links = 0;
    for (uint32_t v = 0; v < run->graph.n_nodes; v++) {
        run->n_nodes += graph_is_run(&run->graph, v);
        n_links += graph_is_run(&run->graph, v) ? count_links(run, v) : 0;
    }
    run->values = calloc(n, sizeof *run->values);
    run->index = malloc(n * sizeof *run->index);
    run->units = calloc(run->plan.n_units + (size_t)1, sizeof *run->units);
    run->nodes = calloc(run->n_nodes + (size_t)1, sizeof *run->nodes);
    run->links = calloc(n_links + 1, sizeof *run->links);
    if (run->plan.arena_bytes)
        run->arena = storage_memory(run->plan.arena_bytes);
    if (!run->values || !run->index || !run->units || !run->nodes || !run->links ||
        (run->plan.arena_bytes && !run->arena))
        return fail(TERN_NO_MEMORY,
                    "there is no memory to run a graph of %u nodes with %zu bytes of values",
                    run->graph.n_nodes, run->plan.arena_bytes);
    uint32_t next = 0;
    struct link *links = run->links;
    for (uint32_t v = 0; v < run->graph.n_nodes; v++) {
        run->index[v] = next;
        if (run->plan.unit_of[v] != PLAN_NONE)
            run->values[v].data = run->arena + run->plan.units[run->plan.unit_of[v]].offset;
        if (!graph_is_run(&run->graph, v))
            continue;
        run->nodes[next++] = (struct run_node){.run = run, .node = v, .links = links};
        links += count_links(run, v);
    }
    run->index[run->graph.n_nodes] = next;
    return TERN_OK;
}

static void destroy(struct run *run)
{
    for (uint32_t v = 0; run->values && v < run->graph.n_nodes; v++)
        storage_drop(run->values[v].storage);
    for (uint32_t i = 0; run->units && i < run->plan.n_units; i++)
        nd_engine_forget(&run->units[i]);
    free(run->arena);
    free(run->values);
    free(run->units);
    free(run->index);
    free(run->nodes);
    free(run->links);
    plan_fini(&run->plan);
    graph_fini(&run->graph);
    free(run);
}

void run_free(struct run *run)
{
    if (!run)
        return;
    nd_engine_wait_for(&run->n_left);
    destroy(run);
}

enum tern_status run_make(struct graph *graph, struct run_options options, struct run **run)
{
    struct run *made = calloc(1, sizeof *made);
    if (!made) {
        graph_fini(graph);
        return fail(TERN_NO_MEMORY, "there is no memory to run a graph");
    }
    made->graph = *graph;
    memset(graph, 0, sizeof *graph);
    made->is_single = options.is_single;
    enum tern_status status = graph_fuse(&made->graph, options.fusing && !atomic_load(&checks_nan));
    if (!status)
        status =
            plan_make(&made->graph, options.sharing, nd_engine_split(ENGINE_PARTS, 1), &made->plan);
    if (!status)
        status = allocate(made);
    if (status) {
        destroy(made);
        return status;
    }
    *run = made;
    return TERN_OK;
}

void run_bind(struct run *run, uint32_t node, struct storage *storage, int64_t offset,
              const int64_t *strides)
{
    struct value *value = &run->values[node];
    storage_keep(storage);
    storage_drop(value->storage);
    value->storage = storage;
    value->data =
        (char *)storage->data + offset * (int64_t)spec_type_bytes(run->graph.nodes[node].spec.type);
    value->has_strides = strides != NULL;
    if (strides)
        memcpy(value->strides, strides, sizeof value->strides);
}

void run_submit(struct run *run, uint32_t begin, uint32_t end, uint64_t step)
{
    nd_engine_wait_for(&run->n_left);
    const uint32_t first = run->index[begin], last = run->index[end];
    struct run_node *nodes = run->nodes;
    run->step = step;
    /* One more, so that a single run lives until all are submitted. */
    atomic_store(&run->n_left, last - first + 1);
    for (uint32_t i = first; i < last; i++)
        connect(run, &nodes[i]);
    for (uint32_t i = first; i < last; i++)
        nd_engine_submit(&nodes[i].operation);
    const bool is_single = run->is_single;
    if (atomic_fetch_sub(&run->n_left, 1) == 1 && is_single)
        destroy(run);
}
