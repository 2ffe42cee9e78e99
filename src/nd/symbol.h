/* symbol - the handle of a symbol, for the other files of nd/. */
#ifndef ND_SYMBOL_H
#define ND_SYMBOL_H

#include "base/buffer.h"
#include "base/handle.h"
#include "nd/node.h"

enum { SYMBOL_NAME = 64, SYMBOL_MAX_NODES = 1 << 16 };

struct tern_symbol {
    struct handle handle;
    struct node *node;
    struct node_list list; /* of the nodes below, in order; their indices are not set */
};

/* A handle of a node, which it takes over, also when it fails. */
enum tern_status symbol_of(struct node *node, struct tern_symbol **symbol);

/* A named node; copies the name, which must be valid. */
enum tern_status symbol_node(const struct op *op, const struct attributes *attributes,
                             const char *name, struct node *const *inputs, unsigned n,
                             struct node **node);

/*
 * Makes a graph of a symbol. `names` and `shapes` give the shapes of n variables; every name must be one of them. The i-th
 * node of symbol->list becomes the node of_node[i] of the graph. Two nodes of one name are refused.
 */
enum tern_status symbol_graph(const struct tern_symbol *symbol, size_t n, const char *const *names,
                              const struct tern_nd_shape *shapes, struct graph *graph,
                              uint32_t *of_node);

/* The JSON of a symbol, and back: any bytes are accepted or refused with a sentence. */
bool symbol_write(const struct tern_symbol *symbol, struct buffer *out);
enum tern_status symbol_read(const char *text, size_t n, struct node **node);

#endif
