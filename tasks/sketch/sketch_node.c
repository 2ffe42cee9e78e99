/* sketch_node - see sketch_node.h. */
#include "sketch/sketch_node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/sentence.h"

bool sketch_node_open(struct sketch_node *node, size_t self, size_t n_nodes,
                      const struct sketch_shape *shape, uint32_t n_counters)
{
    const struct tern_node_options options = {.struct_size = sizeof options,
                                              .group = "sketch",
                                              .node = (uint32_t)self,
                                              .n_nodes = (uint32_t)n_nodes};
    const struct tern_table_options table = {.struct_size = sizeof table,
                                             .index = TERN_SKETCH,
                                             .type = TERN_I64,
                                             .length = 1,
                                             .policy = "static",
                                             .sketch = {.width = shape->width,
                                                        .depth = shape->depth,
                                                        .counters = n_counters,
                                                        .conservative = shape->is_conservative,
                                                        .seed = shape->seed}};
    *node = (struct sketch_node){0};
    return (tern_node_open(&options, &node->node) == TERN_OK &&
            tern_worker_open(node->node, &node->worker) == TERN_OK &&
            tern_table_open(node->node, "sketch", &table, &node->table) == TERN_OK) ||
           task_fail_tern("cannot open a sketch");
}

bool sketch_node_close(struct sketch_node *node)
{
    bool ok = !node->worker || tern_worker_close(node->worker) == TERN_OK;
    ok = (!node->node || tern_node_close(node->node) == TERN_OK) && ok;
    return ok || task_fail_tern("cannot close a sketch");
}

bool sketch_node_add(struct sketch_node *node, const struct sketch_view *view)
{
    const uint64_t n_cells = sketch_n_cells(&view->shape);
    int64_t *cells = malloc(SKETCH_CHUNK_CELLS * sizeof *cells);
    bool ok = cells || task_fail_memory("cells of a sketch");
    for (uint64_t first = 0; ok && first < n_cells; first += SKETCH_CHUNK_CELLS) {
        const uint64_t left = n_cells - first;
        const size_t n = left < SKETCH_CHUNK_CELLS ? (size_t)left : SKETCH_CHUNK_CELLS;
        sketch_view_cells(view, first, n, cells);
        ok = tern_sketch_add_cells(node->worker, node->table, first, n, cells) == TERN_OK ||
             task_fail_tern("cannot load a sketch");
    }
    free(cells);
    return ok;
}

bool sketch_node_write_cells(struct sketch_node *node, const struct sketch_shape *shape,
                             struct sketch_writer *writer)
{
    const uint64_t n_cells = sketch_n_cells(shape);
    int64_t *cells = malloc(SKETCH_CHUNK_CELLS * sizeof *cells);
    bool ok = cells || task_fail_memory("cells of a sketch");
    for (uint64_t first = 0; ok && first < n_cells; first += SKETCH_CHUNK_CELLS) {
        const uint64_t left = n_cells - first;
        const size_t n = left < SKETCH_CHUNK_CELLS ? (size_t)left : SKETCH_CHUNK_CELLS;
        ok = (tern_sketch_read_cells(node->worker, node->table, first, n, cells) == TERN_OK &&
              tern_all_reduce(node->node, TERN_I64, n, cells) == TERN_OK) ||
             task_fail_tern("cannot save a sketch");
        if (ok && writer)
            sketch_write_cells(writer, cells, n);
    }
    free(cells);
    return ok;
}

void sketch_print_heavy(const struct sketch_heavy *heavy, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (heavy[i].name_bytes)
            printf("%.*s", (int)heavy[i].name_bytes, heavy[i].name);
        else
            printf("%" PRIu64, heavy[i].key);
        printf("\t%" PRId64 "\t%" PRId64 "\n", heavy[i].count, heavy[i].error);
    }
}
