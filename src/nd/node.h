/*
 * node - an expression: a leaf or an operator applied to other nodes. Arrays and symbols are handles of nodes.
 *
 * A node never changes, except that a pending node of arrays becomes a leaf when its value is given a storage; it drops
 * its inputs then. Nodes share inputs by counting references. References may be counted by any thread; a node becomes a
 * leaf under the lock of array.c.
 */
#ifndef ND_NODE_H
#define ND_NODE_H

#include <stdatomic.h>

#include "nd/graph.h"
#include "nd/storage.h"

struct node {
    atomic_uint refs;
    const struct op *op; /* NULL: a leaf */
    struct attributes attributes;
    struct spec spec; /* of arrays; a symbol's is not known before it is bound */
    char *name;       /* of symbols */
    bool is_label;    /* a symbol's variable that is no parameter */
    /* An array's value. */
    struct storage *storage; /* NULL: pending */
    bool has_strides;
    int64_t offset, strides[SPEC_DIMS];
    uint32_t n_handles; /* pending arrays that are this value */
    uint32_t index;     /* in the graph that is being made; GRAPH_NONE at other times */
    struct node *next;  /* of a list of nodes to be freed */
    uint32_t n_inputs;
    struct node *inputs[];
};

/* A node with one reference. Keeps the inputs. */
enum tern_status node_new(const struct op *op, const struct attributes *attributes,
                          struct node *const *inputs, unsigned n, struct node **node);

struct node *node_keep(struct node *node);
void node_drop(struct node *node);

/* Lets go of the inputs. */
void node_drop_inputs(struct node *node);

/*
 * The nodes below the roots, inputs before their users, each once. `index` of all of them must be GRAPH_NONE, and is left
 * at their places in the list. Free the list; node_list_end makes the indices GRAPH_NONE again and frees it.
 */
struct node_list {
    struct node **nodes;
    uint32_t n, capacity;
};
enum tern_status node_list_make(struct node *const *roots, uint32_t n, struct node_list *list);
void node_list_end(struct node_list *list);

#endif
