/* view - see view.h. */
#include "core/view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/placement.h"

const struct view view_alone = {.n_nodes = 1, .n_members = 1};

static bool copy_members(struct view *view, const uint32_t *members)
{
    const size_t bytes = view->n_nodes * sizeof *members;
    uint32_t *copy = malloc(bytes);
    if (!copy)
        return false;
    memcpy(copy, members, bytes);
    view->members = copy;
    view->n_members = 0;
    for (uint32_t i = 0; i < view->n_nodes; i++)
        if (view->n_members <= members[i])
            view->n_members = members[i] + 1;
    return true;
}

struct view *view_new(uint32_t epoch, uint32_t n_nodes, const uint32_t *members)
{
    if (n_nodes == 0 || n_nodes > VIEW_MAX_NODES) {
        fail(TERN_LIMIT, "a cluster of %" PRIu32 " nodes: 1 to %d are possible", n_nodes,
             VIEW_MAX_NODES);
        return NULL;
    }
    struct view *view = malloc(sizeof *view);
    if (view) {
        *view = (struct view){.epoch = epoch, .n_nodes = n_nodes, .n_members = n_nodes};
        view->ring = ring_new(view);
    }
    if (view && view->ring && (!members || copy_members(view, members)))
        return view;
    view_free(view);
    fail(TERN_NO_MEMORY, "no memory for a cluster of %" PRIu32 " nodes", n_nodes);
    return NULL;
}

void view_free(struct view *view)
{
    if (!view)
        return;
    ring_free(view->ring);
    free((void *)view->members);
    free(view);
}

uint32_t view_n_sharing(const struct view *view, uint32_t member)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < view->n_nodes; i++)
        n += view_member(view, i) == member;
    return n;
}
