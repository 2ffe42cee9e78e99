/*
 * placement - see placement.h.
 *
 * The ring is the circle of 64-bit numbers. Every node puts POINTS_PER_NODE points on it, and a key
 * belongs to the first point at or after its own hash. The circle is also cut into equal cells, a
 * power of two of them and several for each point, and a table has the first point of each cell or
 * after it: most keys are at home with the point of their cell, few look at the next one.
 *
 * Keys are hashed here with another function than in the index of a sparse table. With the same one
 * the keys of a node, which lie on a few arcs of the circle, would crowd a few stretches of its index.
 */
#include "core/placement.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/rand.h"
#include "core/defect.h"

enum { POINTS_PER_NODE = 64, CELLS_PER_POINT = 8 };

static const uint64_t point_stream = UINT64_C(0x7465726e2072696e);
static const uint64_t key_stream = UINT64_C(0x6b65792074657267);

struct point {
    uint64_t at;
    uint32_t node;
};

struct ring {
    struct point
        *points;     /* ascending; then one at the end of the circle, of the first one's node */
    uint32_t *first; /* for each cell: the index of its first point, or the next after it */
    unsigned shift;  /* the cell of a hash is hash >> shift */
};

static int compare_points(const void *left, const void *right)
{
    const struct point *a = left, *b = right;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

/* A node's points depend on its number alone, so that they stay where they are when another node comes or goes. */
static void place_points(struct ring *ring, const struct view *view)
{
    size_t n = 0;
    for (uint32_t node = view_first(view); node < view_capacity(view); node = view_next(view, node))
        for (uint64_t i = 0; i < POINTS_PER_NODE; i++)
            ring->points[n++] =
                (struct point){rand_at(point_stream, (uint64_t)node * POINTS_PER_NODE + i), node};
    qsort(ring->points, n, sizeof ring->points[0], compare_points);
    ring->points[n] = (struct point){UINT64_MAX, ring->points[0].node};
}

static void fill_cells(struct ring *ring, size_t n_cells)
{
    uint32_t i = 0;
    for (size_t cell = 0; cell < n_cells; cell++) {
        while (ring->points[i].at < (uint64_t)cell << ring->shift)
            i++;
        ring->first[cell] = i;
    }
}

struct ring *ring_new(const struct view *view)
{
    const size_t n = (size_t)view_n_nodes(view) * POINTS_PER_NODE;
    unsigned bits = 1;
    while ((size_t)1 << bits < n * CELLS_PER_POINT)
        bits++;
    struct ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return NULL;
    ring->shift = 64 - bits;
    ring->points = malloc((n + 1) * sizeof ring->points[0]);
    ring->first = malloc(sizeof ring->first[0] << bits);
    if (!ring->points || !ring->first) {
        ring_free(ring);
        return NULL;
    }
    place_points(ring, view);
    fill_cells(ring, (size_t)1 << bits);
    return ring;
}

void ring_free(struct ring *ring)
{
    if (!ring)
        return;
    free(ring->first);
    free(ring->points);
    free(ring);
}

uint32_t ring_home(const struct view *view, uint64_t key)
{
    const struct ring *ring = view->ring;
    const uint64_t at = hash_u64(key + key_stream);
    const struct point *point = &ring->points[ring->first[at >> ring->shift]];
    while (point->at < at)
        point++;
    return point->node;
}

/* Rank i begins at i * n_keys / n_nodes, rounded down. So a key belongs to the last rank i with
 * i * n_keys < (key + 1) * n_nodes. */
uint32_t range_home(const struct view *view, uint64_t key, uint64_t n_keys)
{
    const uint32_t n_nodes = view_n_nodes(view);
    const unsigned __int128 scaled = defect(DEFECT_RANGE_BEGIN)
                                         ? (unsigned __int128)key * n_nodes
                                         : ((unsigned __int128)key + 1) * n_nodes - 1;
    if (scaled >> 64 == 0)
        return view_at(view, (uint32_t)((uint64_t)scaled / n_keys));
    return view_at(view, (uint32_t)(scaled / n_keys));
}

static uint64_t rank_begin(const struct view *view, uint32_t rank, uint64_t n_keys)
{
    return (uint64_t)((unsigned __int128)rank * n_keys / view_n_nodes(view));
}

uint64_t range_begin(const struct view *view, uint32_t node, uint64_t n_keys)
{
    return rank_begin(view, view_rank(view, node), n_keys);
}

uint64_t range_end(const struct view *view, uint32_t node, uint64_t n_keys)
{
    return rank_begin(view, view_rank(view, node) + 1, n_keys);
}

/* The rank of the node of a key. */
static uint32_t scattered_rank(uint32_t n_nodes, uint64_t key)
{
    const uint32_t at = (uint32_t)(key % n_nodes);
    return key / n_nodes % 2 ? n_nodes - 1 - at : at;
}

uint32_t scattered_home(const struct view *view, uint64_t key)
{
    return view_at(view, scattered_rank(view_n_nodes(view), key));
}

uint64_t scattered_count(const struct view *view, uint32_t node, uint64_t n_keys)
{
    const uint32_t n_nodes = view_n_nodes(view), rank = view_rank(view, node);
    const uint64_t n_turns = n_keys / n_nodes;
    const uint32_t at = n_turns % 2 ? n_nodes - 1 - rank : rank; /* in the last turn */
    return n_turns + (at < n_keys % n_nodes);
}
