/*
 * view - views for tests, of nodes 0 .. n-1, which are made when they are asked for first and stay until the test ends.
 */
#ifndef SUPPORT_VIEW_H
#define SUPPORT_VIEW_H

#include <stdlib.h>

#include "core/view.h"

enum { TEST_EPOCH = 1 };

static inline const struct view *view_of(uint32_t n_nodes)
{
    static struct made {
        struct made *next;
        struct view *view;
    } * list;
    for (const struct made *made = list; made; made = made->next)
        if (view_n_nodes(made->view) == n_nodes)
            return made->view;
    struct made *made = malloc(sizeof *made);
    if (!made)
        abort();
    *made = (struct made){.next = list, .view = view_new(TEST_EPOCH, n_nodes, NULL)};
    if (!made->view)
        abort();
    list = made;
    return made->view;
}

#endif
