/*
 * graph - the one graph on which all passes work: nodes in an order in which inputs come first.
 *
 * A node is a leaf (op NULL), whose value comes from outside, or an operator applied to earlier nodes. Each node has one
 * value; its number stands for both. Nodes are only ever added at the end, so that numbers stay valid.
 *
 *   infer          graph_add, which every node passes: it converts the types of inputs and infers the shape
 *   differentiate  graph_differentiate adds the nodes that compute gradients
 *   fuse           graph_fuse merges chains of elementwise nodes into programs
 *   plan           plan.h gives values their memory
 *   run            run.h carries it out
 *
 * Functions that add nodes return GRAPH_NONE after a failure, and for an input that is GRAPH_NONE; `status` keeps the
 * first failure, so that a gradient may be written as one expression and checked once. One thread at a time.
 */
#ifndef ND_GRAPH_H
#define ND_GRAPH_H

#include "nd/op.h"

#define GRAPH_NONE UINT32_MAX
enum { GRAPH_MAX_NODES = 1 << 20 };

struct node;
struct program;

struct graph_node {
    const struct op *op; /* NULL: a leaf */
    struct attributes attributes;
    struct spec spec;
    uint32_t n_inputs, first_input; /* in `edges` */
    uint32_t
        group; /* after graph_fuse: the node into whose program this one is merged, or itself */
    bool is_inlined; /* after graph_fuse: a number that is part of each consumer's program */
    bool is_output;  /* its value is needed after the run */
    struct program *program; /* after graph_fuse: of an elementwise node that is not merged */
    const char *name;        /* for sentences; belongs to the origin */
    struct node *origin;     /* what it was made from; NULL for nodes that a pass added */
};

struct graph {
    struct graph_node *nodes;
    uint32_t n_nodes, node_capacity;
    uint32_t *edges;
    uint32_t n_edges, edge_capacity;
    enum tern_status status; /* the first failure */
};

void graph_fini(struct graph *graph);

static inline const uint32_t *graph_inputs(const struct graph *graph, uint32_t node)
{
    return graph->edges + graph->nodes[node].first_input;
}

/* Adds a leaf. Its shape may be unknown; the first operator that can tell fills it in. */
uint32_t graph_leaf(struct graph *graph, const struct spec *spec, struct node *origin,
                    const char *name);

/* Adds an operator and the casts that its inputs need. `attributes` NULL: the defaults. */
uint32_t graph_add(struct graph *graph, const struct op *op, const struct attributes *attributes,
                   const uint32_t *inputs, unsigned n, struct node *origin, const char *name);

/* Shorthands for gradients. */
uint32_t graph_call(struct graph *graph, const struct op *op, uint32_t a);
uint32_t graph_call2(struct graph *graph, const struct op *op, uint32_t a, uint32_t b);
uint32_t graph_call3(struct graph *graph, const struct op *op, uint32_t a, uint32_t b, uint32_t c);
uint32_t graph_number(struct graph *graph, enum tern_nd_type type, double number);
uint32_t graph_sum_to(struct graph *graph, uint32_t value, const struct spec *spec);
uint32_t graph_cast(struct graph *graph, uint32_t value, enum tern_nd_type type);
uint32_t graph_reshape(struct graph *graph, uint32_t value, const struct spec *spec);

/*
 * Adds the gradients of node `loss`, whose elements are summed if it has several, with respect to n nodes. gradients[i] is
 * the node that computes it; a node that the loss does not depend on gets zeros.
 */
enum tern_status graph_differentiate(struct graph *graph, uint32_t loss, const uint32_t *wanted,
                                     unsigned n, uint32_t *gradients);

/* Gives every elementwise node its program; if `fusing`, chains share one. Then nodes whose values nobody needs have no
 * consumers and `group` GRAPH_NONE. */
enum tern_status graph_fuse(struct graph *graph, bool fusing);

/* After graph_fuse: whether a node is carried out by itself, and the values that it reads. */
static inline bool graph_is_run(const struct graph *graph, uint32_t node)
{
    return graph->nodes[node].op && graph->nodes[node].group == node;
}
const uint32_t *graph_sources(const struct graph *graph, uint32_t node, unsigned *n);

#endif
