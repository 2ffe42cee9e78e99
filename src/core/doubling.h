/*
 * doubling - tables of which every node has every key, kept alike by a sparse all-reduce (NuPS, Section 3.2): recursive
 * doubling of what was changed. For many nodes that change little, it takes fewer messages than changes through owners
 * (replica.h). Tables with an updater always use owners.
 *
 * In a round every node takes what it has changed, and the nodes exchange sums with one partner after the other: in step
 * s with the node whose number differs in bit s - 1. After log2 N steps each has the sum of all. If N is no power of two,
 * let P be the largest one below it: node P + i gives what it has to node i in step 0, in which node i tells it that a round
 * has begun, and gets the sum from node i in the last step.
 *
 *  1. `base` of a row is what all nodes have agreed on: it is raised by the sum at the end of a round, and so is the same
 *     everywhere, to the bit, because x + y is y + x. What was changed here since is value - base, and stays.
 *  2. What a node adds to a round is kept until its end, when it is taken from what was changed. So each change is in
 *     one round, and each part of a round is executed exactly once (server.h).
 *  3. Rounds are numbered, and all take part in each: nobody can be at the end of the next one before this node has
 *     begun it. So a part that comes is of this round or the next.
 *  4. When a round has ended here, all have ended the one before. A caller that waits until its changes are everywhere
 *     waits for one more round.
 *
 * A node begins a round when it has changed something, or others have begun. When one closes the table there are no
 * further rounds, for nobody could end them: the others learn it from its answers. Pure; the caller locks.
 */
#ifndef CORE_DOUBLING_H
#define CORE_DOUBLING_H

#include "core/technique.h"

enum { DOUBLING_STEPS = 18 }; /* of 2^16 nodes, with the first and the last */

/* The step of a request that only asks whether the table is still open: a node that waits long must know. */
#define DOUBLING_PROBE UINT64_MAX

/* Changes of rows, by ascending keys. */
struct changes {
    uint64_t *keys;
    char *values;
    size_t n, max;
};

/* What came of a partner in one step. */
struct part_sum {
    uint64_t round; /* 0: none */
    struct changes changes;
};

struct doubling_counts {
    uint64_t rounds, messages;
    uint64_t bytes_sent, bytes_received;
    uint64_t rows_sent, rows_received;
};

struct doubling {
    struct core *core;
    struct store *store;
    size_t most_rows;   /* of its own that a node adds to a round */
    uint32_t n_paired;  /* P */
    uint32_t last_step; /* 1 + log2 P */
    uint64_t round;     /* that runs, or ran last; 0: none */
    bool runs;
    uint64_t own_round; /* the last one to which this node has added something */
    bool is_left_over;  /* some of what was changed found no room in it */
    struct marks_turn turn;
    uint32_t step;
    bool is_sent; /* what is to be sent in this step */
    atomic_bool has_changes;
    bool is_closed; /* a partner has closed the table: there are no further rounds */
    struct changes own, sum, merged;
    struct part_sum parts[2][DOUBLING_STEPS]; /* of this round and the next, by their last bit */
    uint32_t *slots;                          /* room for those of changed rows */
    char *scratch;                            /* room for a value */
    uint64_t progressed_ns; /* when a step last ended, or the partner was probed */
    struct doubling_counts counts;
};

/* Whether all-reduce is possible and better than owners: the same at all nodes. */
bool doubling_is_for(const struct core *core, const struct store *store,
                     const struct policy *policy);

/* NULL when memory runs out. */
struct doubling *doubling_new(struct core *core, struct store *store);
void doubling_free(struct doubling *doubling);

/* For tests: the bytes aimed at for what a node adds to a round. */
void doubling_limit(struct doubling *doubling, size_t body_bytes);

/* Begins a round if there is a reason to, and goes on with the one that runs as far as that can be. */
enum tern_status doubling_go_on(struct doubling *doubling);

/* Whether a part has come since it last went on. May be called without the lock. */
static inline bool doubling_has_changes(const struct doubling *doubling)
{
    return atomic_load_explicit(&doubling->has_changes, memory_order_relaxed);
}

/* Whether something is to be sent now, and to whom; and the request: its body, round and step. */
bool doubling_has_request(const struct doubling *doubling, uint32_t *peer);
enum tern_status doubling_request(struct doubling *doubling, struct buffer *body, uint64_t *round,
                                  uint64_t *step);

/* Takes a part that node `from` has sent, and appends the answer, which is empty. */
enum tern_status doubling_serve(struct doubling *doubling, uint32_t from,
                                const struct frame *request, const uint8_t *body,
                                struct buffer *out);

/* A partner has closed the table. */
void doubling_forget_peer(struct doubling *doubling);

/* Whether this node has something to do in another round, or waits for others to do it: until then what it changed is
 * not everywhere. */
bool doubling_is_busy(const struct doubling *doubling);
bool doubling_awaits(const struct doubling *doubling);

/* The node whose part this one waits for; itself if it waits for none. */
uint32_t doubling_awaited(const struct doubling *doubling);

#endif
