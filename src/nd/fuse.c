/*
 * fuse - merges chains of elementwise nodes into programs (graph.h, elementwise.h).
 *
 * A node joins the program of its consumers if all of them are in one program of its shape, its value is needed nowhere
 * else, and the program has room. Nothing outside depends on a node that has joined, so no circle can arise. Numbers
 * without dimensions join each of their consumers' programs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "nd/elementwise.h"
#include "nd/graph.h"

/* What a group of nodes is before it becomes a program. */
struct fusion {
    struct graph *graph;
    uint32_t *consumer; /* the group of all consumers; GRAPH_NONE: there are none, MANY: several */
    uint16_t *n_steps;  /* of the group with this root */
    uint16_t *n_inputs; /* at most so many values come from outside */
    uint16_t *
        n_reads; /* how often its consumers read a node: these are no inputs any more once it joins them */
};
#define MANY (GRAPH_NONE - 1)

/* Marks the numbers that may stand in each consumer's program instead of in memory. */
static void inline_numbers(struct graph *graph)
{
    for (uint32_t v = 0; v < graph->n_nodes; v++)
        graph->nodes[v].is_inlined =
            graph->nodes[v].op == &op_constant && !graph->nodes[v].is_output;
    for (uint32_t v = 0; v < graph->n_nodes; v++)
        for (uint32_t i = 0; i < graph->nodes[v].n_inputs && !graph->nodes[v].op->body; i++)
            graph->nodes[graph_inputs(graph, v)[i]].is_inlined = false;
}

/* How many steps and inputs a node brings into a program. */
static void count(const struct graph *graph, uint32_t node, unsigned *n_steps, unsigned *n_inputs)
{
    *n_steps = 1;
    *n_inputs = 0;
    for (uint32_t i = 0; i < graph->nodes[node].n_inputs; i++) {
        const bool inlined = graph->nodes[graph_inputs(graph, node)[i]].is_inlined;
        *n_steps += inlined;
        *n_inputs += !inlined;
    }
}

static bool joins(struct fusion *fusion, uint32_t node)
{
    struct graph *graph = fusion->graph;
    const uint32_t root = fusion->consumer[node];
    if (graph->nodes[node].is_output || !graph->nodes[node].op->body || root >= MANY ||
        !graph->nodes[root].op->body ||
        !spec_same_shape(&graph->nodes[root].spec, &graph->nodes[node].spec))
        return false;
    unsigned n_steps, n_inputs;
    count(graph, node, &n_steps, &n_inputs);
    if (fusion->n_steps[root] + n_steps > PROGRAM_MAX_STEPS ||
        fusion->n_inputs[root] + n_inputs - fusion->n_reads[node] > PROGRAM_MAX_INPUTS)
        return false;
    fusion->n_steps[root] = (uint16_t)(fusion->n_steps[root] + n_steps);
    fusion->n_inputs[root] = (uint16_t)(fusion->n_inputs[root] + n_inputs - fusion->n_reads[node]);
    return true;
}

/* Decides the group of each node, from the last to the first: consumers are decided before. */
static void choose_groups(struct fusion *fusion, bool fusing)
{
    struct graph *graph = fusion->graph;
    for (uint32_t v = graph->n_nodes; v-- > 0;) {
        struct graph_node *node = &graph->nodes[v];
        if ((fusion->consumer[v] == GRAPH_NONE && !node->is_output) || node->is_inlined) {
            node->group = GRAPH_NONE;
            continue;
        }
        node->group = v;
        if (!node->op)
            continue;
        if (fusing && joins(fusion, v)) {
            node->group = fusion->consumer[v];
        } else {
            unsigned n_steps, n_inputs;
            count(graph, v, &n_steps, &n_inputs);
            fusion->n_steps[v] = (uint16_t)n_steps;
            fusion->n_inputs[v] = (uint16_t)n_inputs;
        }
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            const uint32_t input = graph_inputs(graph, v)[i];
            uint32_t *of = &fusion->consumer[input];
            if (fusion->n_reads[input] < UINT16_MAX)
                fusion->n_reads[input]++;
            *of = *of == GRAPH_NONE || *of == node->group ? node->group : MANY;
        }
    }
}

/* The register of a value in the program of `root`. */
static uint8_t find_register(const struct graph *graph, struct program *program,
                             const uint32_t *step_of, uint32_t root, uint32_t value)
{
    const struct graph_node *node = &graph->nodes[value];
    if (node->is_inlined) {
        struct step *step = &program->steps[program->n_steps];
        *step = (struct step){.op = node->op,
                              .attributes = node->attributes,
                              .type = node->spec.type,
                              .out_type = node->spec.type};
        return (uint8_t)(PROGRAM_MAX_INPUTS + program->n_steps++);
    }
    if (node->group == root && value != root)
        return (uint8_t)(PROGRAM_MAX_INPUTS + step_of[value]);
    for (unsigned i = 0; i < program->n_inputs; i++)
        if (program->inputs[i] == value)
            return (uint8_t)i;
    program->inputs[program->n_inputs] = value;
    return (uint8_t)program->n_inputs++;
}

/* Appends a node to the program of its group. Registers of steps are counted from PROGRAM_MAX_INPUTS until the number of
 * inputs is known. */
static void append_step(const struct graph *graph, struct program *program, uint32_t *step_of,
                        uint32_t root, uint32_t v)
{
    const struct graph_node *node = &graph->nodes[v];
    struct step step = {.op = node->op,
                        .attributes = node->attributes,
                        .out_type = node->spec.type,
                        .type = node->spec.type,
                        .n_inputs = (uint8_t)node->n_inputs};
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const uint32_t input = graph_inputs(graph, v)[i];
        step.in[i] = find_register(graph, program, step_of, root, input);
        step.type = graph->nodes[input].spec.type;
    }
    step_of[v] = program->n_steps;
    program->steps[program->n_steps++] = step;
}

static void number_registers(struct program *program)
{
    for (unsigned s = 0; s < program->n_steps; s++)
        for (unsigned i = 0; i < program->steps[s].n_inputs; i++)
            if (program->steps[s].in[i] >= PROGRAM_MAX_INPUTS)
                program->steps[s].in[i] =
                    (uint8_t)(program->steps[s].in[i] - PROGRAM_MAX_INPUTS + program->n_inputs);
}

static enum tern_status make_programs(struct graph *graph, uint32_t *step_of)
{
    for (uint32_t v = 0; v < graph->n_nodes; v++) {
        struct graph_node *node = &graph->nodes[v];
        if (!node->op || !node->op->body || node->group == GRAPH_NONE)
            continue;
        struct graph_node *root = &graph->nodes[node->group];
        if (!root->program && !(root->program = calloc(1, sizeof *root->program)))
            return fail(TERN_NO_MEMORY, "there is no memory for a fused operator");
        append_step(graph, root->program, step_of, node->group, v);
    }
    for (uint32_t v = 0; v < graph->n_nodes; v++)
        if (graph->nodes[v].program)
            number_registers(graph->nodes[v].program);
    return TERN_OK;
}

enum tern_status graph_fuse(struct graph *graph, bool fusing)
{
    const uint32_t n = graph->n_nodes;
    struct fusion fusion = {graph, malloc((n + 1) * sizeof(uint32_t)),
                            calloc(n + 1, sizeof(uint16_t)), calloc(n + 1, sizeof(uint16_t)),
                            calloc(n + 1, sizeof(uint16_t))};
    enum tern_status status = TERN_OK;
    if (fusion.consumer && fusion.n_steps && fusion.n_inputs && fusion.n_reads) {
        memset(fusion.consumer, 0xff, (n + 1) * sizeof(uint32_t));
        inline_numbers(graph);
        choose_groups(&fusion, fusing);
        /* Nothing reads `consumer` any more. */
        status = make_programs(graph, fusion.consumer);
    } else {
        status = fail(TERN_NO_MEMORY, "there is no memory to fuse a graph of %u nodes", n);
    }
    free(fusion.consumer);
    free(fusion.n_steps);
    free(fusion.n_inputs);
    free(fusion.n_reads);
    return status;
}

const uint32_t *graph_sources(const struct graph *graph, uint32_t node, unsigned *n)
{
    const struct program *program = graph->nodes[node].program;
    *n = program ? program->n_inputs : graph->nodes[node].n_inputs;
    return program ? program->inputs : graph_inputs(graph, node);
}
