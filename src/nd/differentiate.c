/*
 * differentiate - gradients as nodes of the graph (graph.h).
 *
 * Reverse order: when a node is reached, the gradients that its consumers contributed are complete. They are added in the
 * order of the consumers from last to first, which makes the result the same in every run.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nd/graph.h"

/* Marks the nodes that depend on a wanted one: only these need gradients. */
static void mark_dependent(const struct graph *graph, uint32_t n_nodes, const uint32_t *wanted,
                           unsigned n, bool *depends)
{
    for (unsigned i = 0; i < n; i++)
        depends[wanted[i]] = true;
    for (uint32_t v = 0; v < n_nodes; v++)
        for (uint32_t i = 0; i < graph->nodes[v].n_inputs && !depends[v]; i++)
            depends[v] = depends[graph_inputs(graph, v)[i]];
}

/* Adds the gradients that `node` gives to its inputs to what is in `gradients`. */
static enum tern_status propagate(struct graph *graph, uint32_t node, const bool *depends,
                                  uint32_t *gradients)
{
    const struct op *op = graph->nodes[node].op;
    uint32_t in[OP_MAX_INPUTS];
    for (unsigned i = 0; i < OP_MAX_INPUTS; i++)
        in[i] = GRAPH_NONE;
    enum tern_status status = op->gradient(graph, node, gradients[node], in);
    for (uint32_t i = 0; i < graph->nodes[node].n_inputs && !status; i++) {
        const uint32_t input = graph_inputs(graph, node)[i];
        if (in[i] == GRAPH_NONE || !depends[input])
            continue;
        const struct spec spec = graph->nodes[input].spec;
        const uint32_t own = graph_cast(graph, graph_sum_to(graph, in[i], &spec), spec.type);
        gradients[input] = gradients[input] == GRAPH_NONE
                               ? own
                               : graph_call2(graph, &op_add, gradients[input], own);
        status = graph->status;
    }
    return status;
}

/* A value of the same shape with equal elements. */
static uint32_t filled(struct graph *graph, const struct spec *spec, double value)
{
    struct attributes attributes;
    op_default_attributes(&op_full, &attributes);
    attributes.lists[0].n = spec->n_dims;
    memcpy(attributes.lists[0].at, spec->dims, sizeof spec->dims);
    attributes.numbers[0] = value;
    attributes.integers[0] = spec->type;
    return graph_add(graph, &op_full, &attributes, NULL, 0, NULL, NULL);
}

enum tern_status graph_differentiate(struct graph *graph, uint32_t loss, const uint32_t *wanted,
                                     unsigned n, uint32_t *gradients)
{
    const uint32_t n_nodes = graph->n_nodes;
    bool *depends = calloc(n_nodes, sizeof *depends);
    uint32_t *of = malloc(n_nodes * sizeof *of);
    enum tern_status status = TERN_OK;
    if (!depends || !of) {
        status = fail(TERN_NO_MEMORY, "there is no memory to differentiate a graph of %u nodes",
                      n_nodes);
        goto done;
    }
    memset(of, 0xff, n_nodes * sizeof *of);
    mark_dependent(graph, n_nodes, wanted, n, depends);
    const struct spec shape = graph->nodes[loss].spec;
    if (!spec_is_real(shape.type)) {
        status = fail(TERN_INVALID, "the loss is of type %s, which has no gradient",
                      spec_type_name(shape.type));
        goto done;
    }
    of[loss] = filled(graph, &shape, 1);
    status = graph->status;
    for (uint32_t v = loss + 1; v-- > 0 && !status;)
        if (depends[v] && of[v] != GRAPH_NONE && graph->nodes[v].op && graph->nodes[v].op->gradient)
            status = propagate(graph, v, depends, of);
    for (unsigned i = 0; i < n && !status; i++) {
        const struct spec spec = graph->nodes[wanted[i]].spec;
        gradients[i] = of[wanted[i]] != GRAPH_NONE ? of[wanted[i]] : filled(graph, &spec, 0);
        status = graph->status;
    }
done:
    free(depends);
    free(of);
    return status;
}
