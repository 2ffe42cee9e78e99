/* hello - the shortest program for several nodes: each adds to one shared row, all read the sum. */
#include <inttypes.h>
#include <stdio.h>

#include <tern/tern.h>

int main(void)
{
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *worker;
    struct tern_table_options options = {
        .struct_size = sizeof options, .type = TERN_I64, .n_keys = 1000, .length = 1};
    uint32_t self, count;
    uint64_t key = 999;
    int64_t value = 1, sum = 0;

    if (tern_node_open(NULL, &node) || tern_node_self(node, &self, &count) ||
        tern_table_open(node, "counter", &options, &table) || tern_worker_open(node, &worker))
        goto failed;
    if (tern_push(worker, table, &key, 1, &value) || tern_barrier(node) ||
        tern_pull(worker, table, &key, 1, &sum))
        goto failed;
    printf("node %" PRIu32 " of %" PRIu32 ": %" PRId64 " nodes have been here\n", self, count, sum);
    if (tern_worker_close(worker) || tern_node_close(node))
        goto failed;
    return 0;

failed:
    fprintf(stderr, "hello: %s\n", tern_error());
    return 1;
}
