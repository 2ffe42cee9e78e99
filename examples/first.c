/* first - the shortest useful program: it moves three rows of a million step by step towards 1. */
#include <stdio.h>

#include <tern/tern.h>

int main(void)
{
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *worker;
    struct tern_table_options options = {
        .struct_size = sizeof options,
        .n_keys = 1000000,
        .length = 32,
        .init = {.kind = TERN_INIT_NORMAL, .seed = 1, .a = 0, .b = 0.1},
    };
    uint64_t keys[3] = {7, 42, 999999};
    float values[3 * 32], updates[3 * 32];

    if (tern_node_open(NULL, &node) || tern_table_open(node, "embeddings", &options, &table) ||
        tern_worker_open(node, &worker))
        goto failed;
    for (int step = 0; step <= 20; step++) {
        double error = 0;
        if (tern_pull(worker, table, keys, 3, values))
            goto failed;
        for (int i = 0; i < 3 * 32; i++) {
            double missing = 1 - (double)values[i];
            error += missing * missing / (3 * 32);
            updates[i] = (float)(0.2 * missing);
        }
        if (step % 5 == 0)
            printf("step %2d: mean squared distance from the goal %.6f\n", step, error);
        if (tern_push(worker, table, keys, 3, updates) || tern_worker_advance(worker, NULL))
            goto failed;
    }
    if (tern_worker_close(worker) || tern_node_close(node))
        goto failed;
    return 0;

failed:
    fprintf(stderr, "first: %s\n", tern_error());
    return 1;
}
