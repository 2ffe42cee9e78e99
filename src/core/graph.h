/*
 * graph - policy graph:S (HET-GMP, section 5): the main copy of a key is at its home, and the nodes that the table's placement
 * lists have replicas of it for good. A replica is refreshed when a read finds it too old, which is a matter of updates and not
 * of time.
 *
 *  1. A main copy counts its updates: pushes and sets, one for each key of a call. Value and count change together, under the
 *     latch of the key's stripe (graph_home.c).
 *  2. A write is done at the main copy, with the call. A replica adds what its own node has pushed when the home has confirmed
 *     it, unless the table has an updater, whose effect only the home knows. It has *main*, the count of the value that last
 *     came from the home, and *own*, the pushes added since, which are not among those. So it contains main + own updates.
 *     The answer to a push says which update of the main copy it was: one that is among `main` is not added again. A push that
 *     was executed on an earlier connection may be among them or not: the replica is then not valid any more.
 *  3. `top` is the last of the node's own updates that were confirmed. A value that lacks it is not taken, though it may be on
 *     its way to another worker: a worker sees what it has written.
 *  4. Within: a read of a replica sends its count along, in one message for each home and shard. The home sends the value if the
 *     replica lacks more than S updates. So what is read lacks at most S of those that the main copy had when the read began.
 *  5. Between: of the keys of one pull, no replica is more than S updates behind another key, counted by frequency: of two keys
 *     with frequencies p >= q, an update of the first counts q / p. A replica that is behind is asked for with the demand that it
 *     lack nothing; at once, if it shows before the first message, else when all answers are there. One that lacks nothing is
 *     behind nobody: its key was used less often than its frequency says, and nothing newer can be had.
 *
 *  6. With backups at other nodes (backup.h) the count of a main copy is kept beside its row there. When a node is given up,
 *     replicas may have updates that died with it, under counts that others get then. So a count has two parts: the *era*,
 *     which is the epoch of the view in which the key's arc was last taken over, and the number of updates. A replica of an
 *     earlier era lacks more than any bound. Only the numbers of updates are compared between keys. Nodes make their replicas
 *     of the arc invalid, as (4) does not ask about them with S = inf.
 *
 * With S = inf a replica that has been fetched once is read without asking, until tern_quiesce, which makes all replicas
 * invalid. Any thread may call anything here, except for opening and closing.
 */
#ifndef CORE_GRAPH_H
#define CORE_GRAPH_H

#include "base/keymap.h"
#include "base/latch.h"
#include "core/counting.h"
#include "core/technique.h"

enum { GRAPH_STRIPES = 256, GRAPH_ERA_SHIFT = 40 };

/* The counts of main copies that were written here; those of a stripe under its latch. */
struct graph_stripe {
    struct latch latch;
    struct keymap numbers; /* from 1 */
    uint64_t *counts;
    size_t n, max;
};

struct graph_replica {
    struct latch latch; /* of what follows, and of the value */
    bool is_valid;
    uint64_t main, own, top;
};

/* What reads have come to, at this node. */
struct graph_counts {
    _Atomic uint64_t checks, within, between, fetched, bytes;
    _Atomic uint64_t behind[TERN_CLOCK_STEPS]; /* as updates_behind of struct tern_table_stats */
};

struct graph {
    struct store *store;
    uint64_t bound; /* UINT64_MAX: none */
    /* How often keys are used: by key or, from a placement, of the keys that it names; neither: all as often. */
    uint64_t *frequencies;
    struct keymap placed_frequencies;
    struct graph_stripe stripes[GRAPH_STRIPES]; /* their counts are without the era */
    _Atomic uint32_t *eras;                     /* with backups: by arc; else NULL */
    struct keymap numbers;                      /* of replicas here, from 1 */
    size_t n_replicas;
    struct graph_replica *replicas;
    char *values;
    struct graph_counts counts;
};

/* ---- Main copies (graph_home.c); see counting.h ------------------------------------------------- */

enum tern_status graph_reserve(struct core_table *table, const uint64_t *keys, size_t n);
uint64_t graph_write(struct core_table *table, enum frame_kind kind, uint64_t key,
                     const void *value);
uint64_t graph_written(const struct core_table *table, uint64_t key);
enum tern_status graph_serve(struct core_table *table, const uint64_t *keys, uint32_t n,
                             struct slice asked, uint8_t *body, size_t *head, size_t *n_rows);

uint64_t graph_copy(struct core_table *table, uint64_t key, char *value, char *state);
bool graph_adopt(struct core_table *table, uint64_t key, uint64_t count);
void graph_take_over(struct core_table *table, uint32_t arc, uint32_t epoch);

/* The present count of a key at home here. */
uint64_t graph_count(const struct core_table *table, uint64_t key);

/* The number of updates in a count. */
static inline uint64_t graph_updates(uint64_t count)
{
    return count & ((UINT64_C(1) << GRAPH_ERA_SHIFT) - 1);
}

void graph_free_stripes(struct graph *graph);

#endif
