/* view - see view.h. */
#include "core/view.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/defect.h"
#include "core/placement.h"
#include "wire/bytes.h"

enum { VIEW_BYTES = 12 }; /* as it is told, without the numbers of nodes */

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

/* The ring and the members of the first view serve all that replace it. */
void view_free(struct view *view)
{
    for (struct view *before; view; view = before) {
        before = view->before;
        if (!before) {
            ring_free(view->ring);
            free((void *)view->members);
            free((void *)view->nodes);
            free((void *)view->ranks);
        }
        free((void *)view->homes);
        free(view);
    }
}

/* ---- Views that replace others ------------------------------------------------------------------ */

/* Gives the arcs of nodes that are gone to the next that are present. */
static void pass_on(const bool *is_gone, uint32_t n, uint32_t *homes)
{
    for (uint32_t arc = 0; arc < n; arc++) {
        homes[arc] = arc;
        while (is_gone[homes[arc]])
            homes[arc] = (homes[arc] + 1) % n;
    }
}

/* The next view: without the n nodes of `gone`, and with the one that is leaving (view.h), unless it is among them. */
static struct view *follow(struct view *before, uint32_t epoch, const uint32_t *gone, size_t n,
                           uint32_t leaving)
{
    const uint32_t n_nodes = before->n_nodes;
    uint32_t n_gone = 0;
    struct view *view = malloc(sizeof *view);
    uint32_t *homes = malloc(n_nodes * sizeof *homes);
    bool *is_gone = calloc(n_nodes, sizeof *is_gone);
    if (!view || !homes || !is_gone) {
        fail(TERN_NO_MEMORY, "no memory for a cluster of %" PRIu32 " nodes", n_nodes);
        goto failed;
    }
    for (size_t i = 0; i < n; i++)
        is_gone[gone[i]] = true;
    for (uint32_t i = 0; i < n_nodes; i++) {
        is_gone[i] |= !view_is_present(before, i);
        n_gone += is_gone[i];
    }
    if (n_gone == n_nodes) {
        fail(TERN_INVALID, "a view without any node");
        goto failed;
    }
    pass_on(is_gone, n_nodes, homes);
    free(is_gone);
    *view = *before;
    view->epoch = epoch;
    view->homes = homes;
    view->before = before;
    view->leaving = leaving && view_is_present(view, leaving - 1) ? leaving : 0;
    return view;

failed:
    free(is_gone);
    free(homes);
    free(view);
    return NULL;
}

struct view *view_without(struct view *before, uint32_t epoch, const uint32_t *gone, size_t n)
{
    return follow(before, epoch, gone, n, before->leaving);
}

struct view *view_with_leaving(struct view *before, uint32_t epoch, uint32_t node)
{
    if (before->leaving || !view_is_present(before, node) ||
        view_next(before, view_first(before)) == view_capacity(before)) {
        fail(TERN_INVALID, "node %" PRIu32 " cannot leave epoch %" PRIu32, node, before->epoch);
        return NULL;
    }
    return follow(before, epoch, NULL, 0, node + 1);
}

/* How many backups that are not leaving a node's arcs have. */
static uint32_t n_staying(const struct view *view, uint32_t node, uint32_t most)
{
    return most && view_is_leaving(view, node) && !defect(DEFECT_LEAVES_BACKUPS_SHORT) ? most + 1
                                                                                       : most;
}

static bool counts(const struct view *view, uint32_t node)
{
    return view_is_present(view, node) &&
           (!view_is_leaving(view, node) || defect(DEFECT_LEAVING_COUNTS));
}

uint32_t view_backups(const struct view *view, uint32_t node, uint32_t most, uint32_t *nodes)
{
    uint32_t n = 0, left = n_staying(view, node, most);
    for (uint32_t i = 1; left && i < view->n_nodes; i++) {
        const uint32_t next = (node + i) % view->n_nodes;
        if (view_is_present(view, next))
            nodes[n++] = next;
        left -= counts(view, next);
    }
    return n;
}

bool view_is_backup(const struct view *view, uint32_t of, uint32_t most, uint32_t node)
{
    if (of == node || !view_is_present(view, of) || !view_is_present(view, node))
        return false;
    uint32_t n = 0;
    for (uint32_t i = (of + 1) % view->n_nodes; i != node; i = (i + 1) % view->n_nodes)
        n += counts(view, i);
    return n < n_staying(view, of, most);
}

/* u32 epoch, u32 count, and as many u32 numbers of nodes that are not present, ascending; u32 1 + the number of the node that is
 * leaving, or 0. */
bool view_write(const struct view *view, struct buffer *out)
{
    uint8_t *bytes = buffer_reserve(out, VIEW_BYTES + 4 * (size_t)view->n_nodes);
    if (!bytes)
        return false;
    uint32_t n = 0;
    for (uint32_t i = 0; i < view->n_nodes; i++)
        if (!view_is_present(view, i))
            put_u32(bytes + 8 + 4 * n++, i);
    put_u32(bytes, view->epoch);
    put_u32(bytes + 4, n);
    put_u32(bytes + 8 + 4 * n, view->leaving);
    out->end += VIEW_BYTES + 4 * (size_t)n;
    return true;
}

struct view *view_read(struct view *before, const uint8_t *bytes, size_t size)
{
    const uint32_t n = size >= VIEW_BYTES ? get_u32(bytes + 4) : 0;
    bool makes_sense = size >= VIEW_BYTES && n < before->n_nodes &&
                       size == VIEW_BYTES + 4 * (size_t)n && get_u32(bytes) > before->epoch;
    const uint32_t leaving = makes_sense ? get_u32(bytes + 8 + 4 * n) : 0;
    makes_sense = makes_sense && leaving <= before->n_nodes &&
                  (!leaving || view_is_present(before, leaving - 1));
    uint32_t n_known = 0;
    for (uint32_t i = 0; makes_sense && i < n; i++) {
        const uint32_t node = get_u32(bytes + 8 + 4 * i);
        makes_sense = node < before->n_nodes && (i == 0 || node > get_u32(bytes + 8 + 4 * (i - 1)));
        makes_sense = makes_sense && node + 1 != leaving;
        n_known += makes_sense && !view_is_present(before, node);
    }
    for (uint32_t i = 0; makes_sense && i < before->n_nodes; i++)
        n_known -= !view_is_present(before, i);
    if (!makes_sense || n_known) {
        fail(TERN_PEER, "a view came that cannot follow epoch %" PRIu32, before->epoch);
        return NULL;
    }
    uint32_t *gone = malloc((n + 1) * sizeof *gone);
    if (!gone) {
        fail(TERN_NO_MEMORY, "no memory for a view");
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        gone[i] = get_u32(bytes + 8 + 4 * i);
    struct view *view = follow(before, get_u32(bytes), gone, n, leaving);
    free(gone);
    return view;
}

uint32_t view_n_sharing(const struct view *view, uint32_t leader)
{
    uint32_t n = 0;
    view_each (i, view)
        n += view_leader(view, i) == leader;
    return n;
}
