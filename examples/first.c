/*
 * first - the shortest useful program: parameters are pulled, changed and pushed.
 *
 * Rows 7, 42 and 999,999 of a million start at random places and are pulled step by step towards 1.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tern/tern.h>

static void check(enum tern_status status)
{
    if (status != TERN_OK) {
        fprintf(stderr, "%s\n", tern_error());
        exit(1);
    }
}

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
    check(tern_node_open(NULL, &node));
    check(tern_table_open(node, "embeddings", &options, &table));
    check(tern_worker_open(node, &worker));

    uint64_t keys[3] = {7, 42, 999999};
    float values[3][32], updates[3][32];
    for (int step = 0; step <= 20; step++) {
        check(tern_pull(worker, table, keys, 3, values));
        float error = 0;
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 32; j++) {
                float missing = 1 - values[i][j];
                error += missing * missing / (3 * 32);
                updates[i][j] = 0.2f * missing;
            }
        }
        if (step % 5 == 0)
            printf("step %2d: mean squared distance from the goal %.6f\n", step, (double)error);
        check(tern_push(worker, table, keys, 3, updates));
        check(tern_worker_advance(worker, NULL));
    }

    check(tern_worker_close(worker));
    check(tern_node_close(node));
    return 0;
}
