/*
 * module_graph - what a module computes when it trains and when it predicts, made from the graph of its symbol.
 *
 *   dropout     is a copy when the module predicts
 *   embedding   whose weights are in a table is a leaf, which an operation pulls (embedding.h)
 *   batch_norm  normalises by the statistics of the batch when the module trains; the statistics variable follows them
 *
 * Everything else is the same in both.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nd/module.h"

void module_roles(const struct tern_module *module, enum module_role *roles)
{
    const struct graph *graph = &module->forward;
    for (uint32_t v = 0; v < graph->n_nodes; v++) {
        const struct op *op = graph->nodes[v].op;
        roles[v] = MODULE_LEARNED;
        for (uint32_t i = 0; i < graph->nodes[v].n_inputs; i++) {
            const uint32_t input = graph_inputs(graph, v)[i];
            if (op->statistics && (uint32_t)op->statistics == i)
                roles[input] = MODULE_STATISTICS;
            else if (op->ones & 1u << i)
                roles[input] = MODULE_ONES;
        }
    }
}

/* The number of the parameter that a leaf of the symbol is; the number of parameters if it is none. */
static uint32_t parameter_of(const struct tern_module *module, uint32_t leaf)
{
    uint32_t i = 0;
    while (i < module->n_parameters &&
           (module->forward.nodes[leaf].op ||
            strcmp(module->parameters[i].name, module->forward.nodes[leaf].name) != 0))
        i++;
    return i;
}

/* decay * old + (1 - decay) * found */
static uint32_t follow(struct graph *graph, uint32_t old, uint32_t found, double decay)
{
    if (old == GRAPH_NONE || found == GRAPH_NONE)
        return GRAPH_NONE;
    const enum tern_nd_type type = graph->nodes[old].spec.type;
    return graph_call2(
        graph, &op_add, graph_call2(graph, &op_multiply, old, graph_number(graph, type, decay)),
        graph_call2(graph, &op_multiply, found, graph_number(graph, type, 1 - decay)));
}

/* Puts the moments of input 0 in the place of statistics that are a parameter. */
static void use_moments(const struct tern_module *module, const struct graph_node *node,
                        struct graph *graph, uint32_t *inputs, uint32_t *states)
{
    const uint32_t leaf = graph_inputs(
        &module->forward, (uint32_t)(node - module->forward.nodes))[node->op->statistics];
    const uint32_t parameter = parameter_of(module, leaf);
    if (parameter == module->n_parameters)
        return;
    uint32_t *state = &states[parameter];
    const uint32_t moments = graph_call(graph, &op_moments, inputs[0]);
    *state = follow(graph, *state == GRAPH_NONE ? inputs[node->op->statistics] : *state, moments,
                    node->attributes.numbers[1]);
    inputs[node->op->statistics] = moments;
}

/* Whether a leaf is neither input nor parameter: it is the weights of lookups. */
static bool is_in_table(const struct tern_module *module, uint32_t leaf)
{
    for (uint32_t i = 0; i < module->n_inputs; i++)
        if (!strcmp(module->inputs[i].name, module->forward.nodes[leaf].name))
            return false;
    return parameter_of(module, leaf) == module->n_parameters;
}

enum tern_status module_graph(const struct tern_module *module, bool training, struct graph *graph,
                              uint32_t *output, uint32_t *states)
{
    const struct graph *from = &module->forward;
    uint32_t *of = malloc((from->n_nodes + (size_t)1) * sizeof *of);
    if (!of)
        return fail(TERN_NO_MEMORY, "there is no memory for a module");
    for (uint32_t i = 0; states && i < module->n_parameters; i++)
        states[i] = GRAPH_NONE;
    for (uint32_t v = 0; v < from->n_nodes && !graph->status; v++) {
        const struct graph_node *node = &from->nodes[v];
        uint32_t inputs[OP_MAX_INPUTS];
        of[v] = GRAPH_NONE;
        if (node->op == &op_embedding && module_lookup(module, node->name)) {
            of[v] = graph_leaf(graph, &node->spec, NULL, node->name);
            continue;
        }
        if (!node->op && is_in_table(module, v))
            continue;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            inputs[i] = of[graph_inputs(from, v)[i]];
        const bool copies = !training && node->op == &op_dropout;
        if (training && node->op && node->op->statistics)
            use_moments(module, node, graph, inputs, states);
        if (node->op)
            of[v] =
                graph_add(graph, copies ? &op_copy : node->op, copies ? NULL : &node->attributes,
                          inputs, node->n_inputs, NULL, node->name);
        else
            of[v] = graph_leaf(graph, &node->spec, NULL, node->name);
    }
    *output = graph->status ? GRAPH_NONE : of[from->n_nodes - 1];
    free(of);
    if (graph->status)
        return graph->status;
    graph->nodes[*output].is_output = true;
    for (uint32_t i = 0; states && i < module->n_parameters; i++)
        if (states[i] != GRAPH_NONE)
            graph->nodes[states[i]].is_output = true;
    return TERN_OK;
}
