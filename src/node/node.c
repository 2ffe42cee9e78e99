/* node - opening and closing nodes. See node.h. */
#include "node/node.h"

#include <stdlib.h>

#define STRING(x) #x
#define VERSION(major, minor, patch) STRING(major) "." STRING(minor) "." STRING(patch)

const char *tern_version(void)
{
    return VERSION(TERN_VERSION_MAJOR, TERN_VERSION_MINOR, TERN_VERSION_PATCH);
}

enum tern_status tern_node_open(const struct tern_node_options *options, struct tern_node **node)
{
    if (!node)
        return fail(TERN_INVALID, "tern_node_open: the pointer `node` for the result is NULL");
    if (options && options->struct_size != sizeof *options)
        return fail(TERN_INVALID,
                    "tern_node_options.struct_size is %zu; set it to sizeof, which is %zu",
                    options->struct_size, sizeof *options);
    struct tern_node *made = calloc(1, sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "no memory to open a node");
    pthread_mutex_init(&made->lock, NULL);
    handle_init(&made->handle, HANDLE_NODE);
    *node = made;
    return TERN_OK;
}

enum tern_status tern_node_close(struct tern_node *node)
{
    if (!handle_is((const struct handle *)node, HANDLE_NODE))
        return handle_refuse((const struct handle *)node, HANDLE_NODE);
    pthread_mutex_lock(&node->lock);
    size_t n_workers = 0;
    for (const struct tern_worker *worker = node->workers; worker; worker = worker->next)
        n_workers++;
    if (!n_workers)
        for (size_t i = 0; i < TERN_MAX_TABLES; i++)
            if (node->tables[i])
                table_end(node->tables[i]);
    pthread_mutex_unlock(&node->lock);
    if (n_workers)
        return fail(TERN_BUSY, "%zu worker%s of the node still open; close %s first", n_workers,
                    n_workers == 1 ? " is" : "s are", n_workers == 1 ? "it" : "them");
    pthread_mutex_destroy(&node->lock);
    handle_close(&node->handle);
    return TERN_OK;
}
