/* graph - see graph.h. Nodes, and the inference that every new node passes. */
#include "nd/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

void graph_fini(struct graph *graph)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        free(graph->nodes[i].program);
    free(graph->nodes);
    free(graph->edges);
    memset(graph, 0, sizeof *graph);
}

static uint32_t refuse(struct graph *graph, enum tern_status status)
{
    if (!graph->status)
        graph->status = status;
    return GRAPH_NONE;
}

/* Room for one more node and n more edges. */
static enum tern_status reserve(struct graph *graph, unsigned n)
{
    if (graph->n_nodes == GRAPH_MAX_NODES)
        return fail(TERN_LIMIT, "a graph has at most %d nodes", GRAPH_MAX_NODES);
    if (graph->n_nodes == graph->node_capacity) {
        const uint32_t capacity = graph->node_capacity ? 2 * graph->node_capacity : 64;
        struct graph_node *nodes = realloc(graph->nodes, capacity * sizeof *nodes);
        if (!nodes)
            return fail(TERN_NO_MEMORY, "there is no memory for a graph of %u nodes", capacity);
        graph->nodes = nodes;
        graph->node_capacity = capacity;
    }
    if (graph->n_edges + n > graph->edge_capacity) {
        const uint32_t capacity = 2 * (graph->n_edges + n) + 64;
        uint32_t *edges = realloc(graph->edges, capacity * sizeof *edges);
        if (!edges)
            return fail(TERN_NO_MEMORY, "there is no memory for a graph of %u edges", capacity);
        graph->edges = edges;
        graph->edge_capacity = capacity;
    }
    return TERN_OK;
}

static uint32_t append(struct graph *graph, const struct graph_node *node, const uint32_t *inputs)
{
    enum tern_status status = reserve(graph, node->n_inputs);
    if (status)
        return refuse(graph, status);
    struct graph_node *added = &graph->nodes[graph->n_nodes];
    *added = *node;
    added->first_input = graph->n_edges;
    added->group = graph->n_nodes;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        graph->edges[graph->n_edges + i] = inputs[i];
    graph->n_edges += node->n_inputs;
    return graph->n_nodes++;
}

uint32_t graph_leaf(struct graph *graph, const struct spec *spec, struct node *origin,
                    const char *name)
{
    return append(graph, &(struct graph_node){.spec = *spec, .origin = origin, .name = name}, NULL);
}

/* Names the node, and the operators whose values do not fit, in front of the sentence of a failure. */
static enum tern_status explain(const struct graph *graph, enum tern_status status,
                                const char *name, const uint32_t *inputs, unsigned n)
{
    char sentence[STATUS_SENTENCE_BYTES], from[256];
    struct text text = {from, sizeof from, 0};
    from[0] = 0;
    for (unsigned i = 0; i < n && i < 3; i++) {
        const struct graph_node *input = &graph->nodes[inputs[i]];
        text_add(&text, "%s'%s'", i ? ", " : "",
                 input->name ? input->name
                 : input->op ? input->op->name
                             : "?");
    }
    struct text copy = {sentence, sizeof sentence, 0};
    text_add(&copy, "%s", tern_error());
    return fail(status, "'%s' of %s: %.300s", name, from, sentence);
}

/* Converts the inputs to the types that the operator wants; what is not known yet takes its type from there. */
static bool convert(struct graph *graph, const struct op *op, uint32_t *inputs, unsigned n,
                    struct spec *specs)
{
    struct spec known[OP_MAX_INPUTS];
    enum tern_nd_type types[OP_MAX_INPUTS];
    for (unsigned i = 0; i < n; i++) {
        if (inputs[i] == GRAPH_NONE)
            return false;
        specs[i] = known[i] = graph->nodes[inputs[i]].spec;
        if (!spec_is_known(&specs[i]))
            known[i].type = graph->nodes[inputs[0]].spec.type;
    }
    op_input_types(op, known, n, types);
    for (unsigned i = 0; i < n; i++) {
        if (spec_is_known(&specs[i]) && specs[i].type != types[i]) {
            inputs[i] = graph_cast(graph, inputs[i], types[i]);
            if (inputs[i] == GRAPH_NONE)
                return false;
        }
        specs[i].type = types[i];
    }
    return true;
}

uint32_t graph_add(struct graph *graph, const struct op *op, const struct attributes *attributes,
                   const uint32_t *inputs, unsigned n, struct node *origin, const char *name)
{
    struct graph_node node = {.op = op, .n_inputs = n, .origin = origin, .name = name};
    uint32_t own[OP_MAX_INPUTS] = {0};
    struct spec specs[OP_MAX_INPUTS];
    if (attributes)
        node.attributes = *attributes;
    else
        op_default_attributes(op, &node.attributes);
    if (n > OP_MAX_INPUTS || (op->n_inputs >= 0 && (unsigned)op->n_inputs != n))
        return refuse(graph, fail(TERN_INVALID, "%s does not take %u inputs", op->name, n));
    for (unsigned i = 0; i < n; i++)
        own[i] = inputs[i];
    if (!convert(graph, op, own, n, specs))
        return GRAPH_NONE;
    enum tern_status status = op_infer(op, &node.attributes, specs, n, &node.spec);
    for (unsigned i = 0; i < n && !status; i++) {
        struct spec *spec = &graph->nodes[own[i]].spec;
        if (!spec_is_known(spec)) {
            status = spec_check(&specs[i]);
            *spec = specs[i];
        }
    }
    if (status)
        return refuse(graph, name ? explain(graph, status, name, inputs, n) : status);
    return append(graph, &node, own);
}

uint32_t graph_call(struct graph *graph, const struct op *op, uint32_t a)
{
    return graph_add(graph, op, NULL, &a, 1, NULL, NULL);
}

uint32_t graph_call2(struct graph *graph, const struct op *op, uint32_t a, uint32_t b)
{
    return graph_add(graph, op, NULL, (uint32_t[]){a, b}, 2, NULL, NULL);
}

uint32_t graph_call3(struct graph *graph, const struct op *op, uint32_t a, uint32_t b, uint32_t c)
{
    return graph_add(graph, op, NULL, (uint32_t[]){a, b, c}, 3, NULL, NULL);
}

uint32_t graph_number(struct graph *graph, enum tern_nd_type type, double number)
{
    struct attributes attributes;
    op_default_attributes(&op_constant, &attributes);
    attributes.numbers[0] = number;
    attributes.integers[0] = type;
    return graph_add(graph, &op_constant, &attributes, NULL, 0, NULL, NULL);
}

/* An operator whose only attribute is a shape. */
static uint32_t shaped(struct graph *graph, const struct op *op, uint32_t value,
                       const struct spec *spec)
{
    if (value == GRAPH_NONE || spec_same_shape(&graph->nodes[value].spec, spec))
        return value;
    struct attributes attributes;
    op_default_attributes(op, &attributes);
    attributes.lists[0].n = spec->n_dims;
    memcpy(attributes.lists[0].at, spec->dims, sizeof spec->dims);
    return graph_add(graph, op, &attributes, &value, 1, NULL, NULL);
}

uint32_t graph_sum_to(struct graph *graph, uint32_t value, const struct spec *spec)
{
    return shaped(graph, &op_sum_to, value, spec);
}

uint32_t graph_reshape(struct graph *graph, uint32_t value, const struct spec *spec)
{
    return shaped(graph, &op_reshape, value, spec);
}

uint32_t graph_cast(struct graph *graph, uint32_t value, enum tern_nd_type type)
{
    if (value == GRAPH_NONE || graph->nodes[value].spec.type == type)
        return value;
    struct attributes attributes;
    op_default_attributes(&op_cast, &attributes);
    attributes.integers[0] = type;
    return graph_add(graph, &op_cast, &attributes, &value, 1, NULL, NULL);
}
