/*
 * view - which nodes are in the cluster, which of them share a memory, and where keys are at home.
 *
 * A view is immutable. When the cluster changes it gets another view, whole, with a higher epoch; frames carry the epoch, so that
 * two nodes with different views notice (server.c). Whatever is about "all nodes" asks the view, and nothing else knows how many
 * there are.
 *
 * A *node* is a process and is named by a number. Numbers are below the view's capacity, which arrays by node are sized by, and
 * some may be of no node. A *member* is one memory: one node, or several nodes of one host that map the same tables. It is named
 * by the number of its first node, the *leader*. The leaders by themselves are a view as well (view_of_leaders): in it the tables
 * of members have their homes.
 *
 *     view_each (i, view)
 *         ...
 *
 * goes through the nodes in the order of their numbers.
 *
 * A cluster begins with the nodes 0 to n - 1. A node that is given up never returns; the others go on without it in the next
 * view, if their tables have backups (backup.h). The keys of a node are its *arc*, which is named by the number of the node
 * that had it first. On the ring of node numbers the next node that is present after an arc's own has the arc; the next ones
 * after that have the backups. This file and view.c alone know that. Any thread may call anything here.
 *
 * A node may leave. First there is a view in which it *is leaving*: it has its arcs as before, and nodes have as many backups
 * besides it as they are to have when it is gone. When all of these are complete, the next view is without it (group.h).
 */
#ifndef CORE_VIEW_H
#define CORE_VIEW_H

#include "base/buffer.h"
#include "base/status.h"

enum { VIEW_MAX_NODES = 1 << 16 };

#define VIEW_NO_RANK UINT32_MAX

/* Only view.c, placement.c and the functions below look inside. */
struct view {
    uint32_t epoch;
    uint32_t capacity;
    uint32_t n_nodes;
    uint32_t n_members;
    const uint32_t *members; /* by node, its leader; NULL: each node is a member of its own */
    const uint32_t *nodes;   /* ascending; NULL: 0 .. n_nodes-1 */
    const uint32_t *ranks;   /* by number, its place in `nodes` or VIEW_NO_RANK; NULL as well */
    struct ring *ring;       /* the homes of sparse keys (placement.h) */
    const uint32_t *homes;   /* by arc: the node that has it now; NULL: each node has its own */
    uint32_t leaving;        /* 1 + the number of the node that is leaving; 0: none is */
    struct view *before;     /* the view that this one has replaced, and owns; NULL: none */
};

/* The view of a node that is in no cluster. */
extern const struct view view_alone;

/* A view of the nodes 0 .. n_nodes-1, of which node i is in the member whose first node is members[i]; members == NULL: each is a
 * member of its own. NULL, with a sentence, for less than 1 or more than VIEW_MAX_NODES nodes or when memory runs out. */
struct view *view_new(uint32_t epoch, uint32_t n_nodes, const uint32_t *members);

/* The view that replaces `before`, and owns it from then on: without the n nodes of `gone`, which may have been given up before.
 * NULL, with a sentence, when memory runs out or nobody would be left. */
struct view *view_without(struct view *before, uint32_t epoch, const uint32_t *gone, size_t n);

/* The view that replaces `before` likewise, in which a node that is present is leaving. NULL, with a sentence, when memory runs
 * out, or if it is not present, alone, or another one is leaving. */
struct view *view_with_leaving(struct view *before, uint32_t epoch, uint32_t node);

/* Frees a view and those that it has replaced. */
void view_free(struct view *view);

/* A view of the same epoch and capacity that has the leaders of a view alone, each a member of its own. */
struct view *view_of_leaders(const struct view *view);
/* Appends a view as it is told to others; false when memory runs out. view_read makes the view that follows `before` from it;
 * NULL, with a sentence, if it is none that can follow, or memory runs out. */
bool view_write(const struct view *view, struct buffer *out);
struct view *view_read(struct view *before, const uint8_t *bytes, size_t size);

static inline uint32_t view_epoch(const struct view *view)
{
    return view->epoch;
}

/* How many there were in the beginning, which is also the number of arcs. */
static inline uint32_t view_n_nodes(const struct view *view)
{
    return view->n_nodes;
}

/* All numbers of nodes are below it. */
static inline uint32_t view_capacity(const struct view *view)
{
    return view->capacity;
}

/* Whether a number, which may come from anybody, is that of a node, present or given up. */
static inline bool view_has(const struct view *view, uint64_t node)
{
    return node < view->capacity && (!view->ranks || view->ranks[node] != VIEW_NO_RANK);
}

/* How many nodes have lower numbers, and the node of which so many have. */
static inline uint32_t view_rank(const struct view *view, uint32_t node)
{
    return view->ranks ? view->ranks[node] : node;
}

static inline uint32_t view_at(const struct view *view, uint32_t rank)
{
    return view->nodes ? view->nodes[rank] : rank;
}

/* The node that has an arc. */
static inline uint32_t view_home(const struct view *view, uint32_t arc)
{
    return view->homes ? view->homes[arc] : arc;
}

/* Whether a node has not been given up. */
static inline bool view_is_present(const struct view *view, uint32_t node)
{
    return view_home(view, node) == node;
}

/* Whether a node is leaving, and whether any is. */
static inline bool view_is_leaving(const struct view *view, uint32_t node)
{
    return view->leaving == node + 1;
}

static inline bool view_has_leaving(const struct view *view)
{
    return view->leaving;
}

/* The nodes that have backups of a node's arcs: the next on the ring that are present, at most so many. One that is leaving is not
 * counted; those of its own arcs are one more, as the first of them is to have the arcs. So there may be `most` + 1. Returns
 * how many there are. */
uint32_t view_backups(const struct view *view, uint32_t node, uint32_t most, uint32_t *nodes);

/* Whether a node is one of the first `most` that have backups of the arcs of another, which is present. */
bool view_is_backup(const struct view *view, uint32_t of, uint32_t most, uint32_t node);

/* The first node, and the one after a node, of those that are present; view_capacity if there is none. */
static inline uint32_t view_next(const struct view *view, uint32_t node)
{
    do
        node = view_rank(view, node) + 1 < view->n_nodes ? view_at(view, view_rank(view, node) + 1)
                                                         : view->capacity;
    while (view->homes && node < view->capacity && !view_is_present(view, node));
    return node;
}

static inline uint32_t view_first(const struct view *view)
{
    const uint32_t first = view_at(view, 0);
    return view_is_present(view, first) ? first : view_next(view, first);
}

#define view_each_while(i, view, condition)                                     \
    for (uint32_t i = view_first(view); (condition) && i < view_capacity(view); \
         i = view_next(view, i))
#define view_each(i, view) view_each_while (i, view, true)

static inline uint32_t view_n_members(const struct view *view)
{
    return view->n_members;
}

/* The leader of the member that a node is in, and how many nodes are in it. */
static inline uint32_t view_leader(const struct view *view, uint32_t node)
{
    return view->members ? view->members[node] : node;
}

uint32_t view_n_sharing(const struct view *view, uint32_t leader);

#endif
