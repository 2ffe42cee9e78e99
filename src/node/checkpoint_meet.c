/* checkpoint_meet - which nodes take a checkpoint, or restore one, together. See checkpoint.h. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "node/checkpoint.h"

enum { LOOK_MS = 5 };

/* Waits until this node has a view of at least this epoch. */
static enum tern_status await_view(struct tern_node *node, uint32_t epoch)
{
    while (view_epoch(node_view(node)) < epoch) {
        const enum tern_status status = peers_check_dead(&node->engine->peers);
        if (status)
            return status;
        engine_fetch_view(node->engine);
        poll(NULL, 0, LOOK_MS);
    }
    return TERN_OK;
}

/* Every node that is left has told the epoch of its view, plus 1: whether all have this view, and nobody in it is missing. *epoch is
 * that of the view to wait for, if not. All nodes come to the same conclusion. */
static bool is_agreed(const struct view *view, const int32_t *told, uint32_t *epoch)
{
    int32_t lowest = INT32_MAX, highest = 0;
    bool misses_one = false;
    for (uint32_t i = 0; i < view_capacity(view); i++) {
        lowest = told[i] && told[i] < lowest ? told[i] : lowest;
        highest = told[i] > highest ? told[i] : highest;
    }
    *epoch = (uint32_t)highest - 1;
    if (lowest != highest)
        return false;
    view_each (i, view)
        misses_one |= !told[i];
    *epoch += misses_one; /* a view without it is on its way */
    return !misses_one;
}

/* Tells the epoch of the view, and hears the others. *view: the one that all have; NULL: try once more. */
static enum tern_status compare_views(struct tern_node *node, int32_t *told,
                                      const struct view **view)
{
    const struct view *own = node_view(node);
    const uint32_t n_nodes = view_capacity(own);
    uint32_t epoch;
    memset(told, 0, n_nodes * sizeof *told);
    told[node->engine->core.node] = (int32_t)view_epoch(own) + 1;
    *view = NULL;
    const enum tern_status status = tern_all_reduce(node, TERN_I32, n_nodes, told);
    if (status)
        return status;
    if (!is_agreed(own, told, &epoch))
        return await_view(node, epoch);
    *view = own;
    return TERN_OK;
}

enum tern_status meeting_begin(struct tern_node *node, struct meeting *meeting)
{
    *meeting = (struct meeting){.view = &view_alone, .n = 1};
    if (!node->engine)
        return TERN_OK;
    const uint32_t n_nodes = view_capacity(node_view(node));
    int32_t *told = malloc(n_nodes * sizeof *told);
    if (!told)
        return fail(TERN_NO_MEMORY, "no memory to hear %" PRIu32 " nodes", n_nodes);
    const struct view *view;
    enum tern_status status;
    do
        status = compare_views(node, told, &view);
    while (!status && !view);
    free(told);
    if (status)
        return status;
    *meeting = (struct meeting){.view = view};
    view_each (i, view) {
        meeting->rank += i < node->engine->core.node;
        meeting->n++;
    }
    return TERN_OK;
}

enum tern_status meeting_check(const struct tern_node *node, const struct meeting *meeting)
{
    if (node_view(node) == meeting->view)
        return TERN_OK;
    return fail(TERN_PEER, "a node was given up in the middle of a checkpoint; try it once more");
}
