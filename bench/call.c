/*
 * call - a trial: a public call on keys that are here, again and again, so that its instructions can be counted.
 *
 *     bench/call.sh [BUILD]
 *
 * counts them for pulls, pushes and sets of one key and of many: they are the same on a busy machine.
 *
 *     build/bench/call pull|push|set KEYS CALLS
 *
 * makes that many calls on a dense table of 32 floats.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tern/tern.h>

enum { MOST_KEYS = 64, LENGTH = 32, TABLE_KEYS = 4096, STEP = 61 };

static void need(enum tern_status status)
{
    if (status == TERN_OK)
        return;
    fprintf(stderr, "call: %s\n", tern_error());
    exit(1);
}

int main(int n_arguments, char **arguments)
{
    if (n_arguments != 4 || atoi(arguments[2]) < 1 || atoi(arguments[2]) > MOST_KEYS) {
        fprintf(stderr, "usage: call pull|push|set KEYS CALLS\n");
        return 2;
    }
    const char *what = arguments[1];
    const size_t n = (size_t)atoi(arguments[2]);
    const int n_calls = atoi(arguments[3]);
    const struct tern_table_options options = {
        .struct_size = sizeof options, .n_keys = TABLE_KEYS, .length = LENGTH};
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *worker;
    static float values[MOST_KEYS * LENGTH];
    uint64_t keys[MOST_KEYS];
    for (size_t i = 0; i < n; i++)
        keys[i] = i * STEP % TABLE_KEYS;
    need(tern_node_open(NULL, &node));
    need(tern_table_open(node, "rows", &options, &table));
    need(tern_worker_open(node, &worker));
    need(tern_push(worker, table, keys, n, values));
    for (int i = 0; i < n_calls; i++)
        need(strcmp(what, "pull") == 0   ? tern_pull(worker, table, keys, n, values)
             : strcmp(what, "push") == 0 ? tern_push(worker, table, keys, n, values)
                                         : tern_set(worker, table, keys, n, values));
    need(tern_worker_close(worker));
    need(tern_table_close(table));
    need(tern_node_close(node));
    return 0;
}
