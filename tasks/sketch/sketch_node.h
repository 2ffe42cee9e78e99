/* sketch_node - a node of this process with a table that is a sketch, and what count, query and merge do with it alike. */
#ifndef TASKS_SKETCH_NODE_H
#define TASKS_SKETCH_NODE_H

#include <tern/tern.h>

#include "sketch/sketch_file.h"

enum { SKETCH_CHUNK_CELLS = 1 << 16 }; /* that are copied at a time */

struct sketch_node {
    struct tern_node *node;
    struct tern_worker *worker;
    struct tern_table *table;
};

/* Node `self` of n_nodes. sketch_node_close() is due in any case. */
bool sketch_node_open(struct sketch_node *node, size_t self, size_t n_nodes,
                      const struct sketch_shape *shape, uint32_t n_counters);
bool sketch_node_close(struct sketch_node *node);

/* Adds the cells of a file to the only node. */
bool sketch_node_add(struct sketch_node *node, const struct sketch_view *view);

/* Writes the sums of the cells of all nodes, each of which calls it. `writer` is NULL but at one of them. */
bool sketch_node_write_cells(struct sketch_node *node, const struct sketch_shape *shape,
                             struct sketch_writer *writer);

/* Prints the n heaviest keys. */
void sketch_print_heavy(const struct sketch_heavy *heavy, size_t n);

#endif
