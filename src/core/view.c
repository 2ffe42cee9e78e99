/* view - see view.h. */
#include "core/view.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/placement.h"

const struct view view_alone = {.capacity = 1, .n_nodes = 1, .n_members = 1};

static bool copy_members(struct view *view, const uint32_t *members)
{
    uint32_t *copy = malloc(view->n_nodes * sizeof *copy);
    view->members = copy;
    view->n_members = 0;
    for (uint32_t i = 0; copy && i < view->n_nodes; i++) {
        copy[i] = members[i];
        view->n_members += members[i] == i;
    }
    return copy;
}

static struct view *fail_for_memory(struct view *view, uint32_t n_nodes)
{
    view_free(view);
    fail(TERN_NO_MEMORY, "no memory for a cluster of %" PRIu32 " nodes", n_nodes);
    return NULL;
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
        *view = (struct view){
            .epoch = epoch, .capacity = n_nodes, .n_nodes = n_nodes, .n_members = n_nodes};
        view->ring = ring_new(view);
    }
    if (view && view->ring && (!members || copy_members(view, members)))
        return view;
    return fail_for_memory(view, n_nodes);
}

struct view *view_of_leaders(const struct view *view)
{
    const uint32_t capacity = view_capacity(view);
    struct view *made = malloc(sizeof *made);
    uint32_t *nodes = malloc(view->n_members * sizeof *nodes);
    uint32_t *ranks = malloc(capacity * sizeof *ranks);
    if (!made || !nodes || !ranks) {
        free(made);
        free(nodes);
        free(ranks);
        return fail_for_memory(NULL, view->n_nodes);
    }
    *made = (struct view){.epoch = view->epoch,
                          .capacity = capacity,
                          .n_members = view->n_members,
                          .nodes = nodes,
                          .ranks = ranks};
    for (uint32_t i = 0; i < capacity; i++) {
        const bool is_leader = view_has(view, i) && view_leader(view, i) == i;
        ranks[i] = is_leader ? made->n_nodes : VIEW_NO_RANK;
        if (is_leader)
            nodes[made->n_nodes++] = i;
    }
    made->ring = ring_new(made);
    return made->ring ? made : fail_for_memory(made, view->n_nodes);
}

void view_free(struct view *view)
{
    if (!view)
        return;
    ring_free(view->ring);
    free((void *)view->members);
    free((void *)view->nodes);
    free((void *)view->ranks);
    free(view);
}

uint32_t view_n_sharing(const struct view *view, uint32_t leader)
{
    uint32_t n = 0;
    view_each (i, view)
        n += view_leader(view, i) == leader;
    return n;
}
