/*
 * follower - a table of several hosts, at a process that is not the leader of its member (view.h).
 *
 * All processes of a member have the table in one memory (store/shared.h) and use its rows in place. The leader alone has the
 * table's manager, or its mirror: it exchanges rows with the leaders of other members, and others know the member by its number.
 * The other processes, the followers, need the leader for two things:
 *
 *  1. *What is wanted.* A follower's rounds look at its workers' intents and clocks, as those of any node, and tell the leader
 *     the keys that its workers begin to want, no longer want, or want here at once. A key is told when the first of its workers
 *     wants it and when the last one does not any more. The leader counts them like intents of its own workers. Ends are told
 *     after all that began before, so none goes ahead of its beginning.
 *  2. *Waiting for rounds.* A worker that waits until everything is told or heard (rounds.h) waits for rounds of the leader. The
 *     leader counts them in the shared memory (struct shared_rounds). A follower says there how far they must be, and asks the
 *     leader for a round; its own round is not clean, or its sweep not over, until they are.
 *
 * A follower that closes the table ends its intents first. What it says is a ROUND of the table with SECTION_ASKS, SECTION_ENDS
 * and SECTION_FETCHES; the answer is empty. It says so earlier than a node asks an owner, because the leader's round is still
 * to come (timing.h).
 */
#ifndef CORE_FOLLOWER_H
#define CORE_FOLLOWER_H

#include "core/technique.h"

/* Whether the processes of a host have tables of this policy in one memory when other hosts take part. Bounded reads depend on
 * workers of other processes, and a cache is each process's own. */
bool follower_is_for(const struct policy *policy);

/* The technique at a follower of a table that has this one at its leader. */
const struct technique *follower_of(const struct technique *technique);

/* Whether a node is a follower of the member that has the table here. */
static inline bool follower_is(const struct core *core, const struct core_table *table,
                               uint32_t node)
{
    return table->member && node != table->member->node && view_has(core->view, node) &&
           view_leader(core->view, node) == table->member->node;
}

/* Whether the table is followed here. */
static inline bool follower_is_here(const struct core *core, const struct core_table *table)
{
    return table->member && table->member->node != core->node;
}

/* At the leader: does what a follower has said, and answers. */
enum tern_status follower_serve(struct core_table *table, uint32_t shard, uint32_t epoch,
                                struct round_question *question);

/* At the leader: a sweep has begun; and a round is over, which left nothing over or not, and completed the sweep or not. */
void follower_note_sweep(const struct core_table *table, uint32_t shard);
void follower_note_round(const struct core_table *table, uint32_t shard, bool is_clean,
                         bool is_swept);

/* The sweeps that the leader has completed. */
uint64_t follower_sweeps(const struct core_table *table, uint32_t shard);

/* At the leader: whether a follower waits for rounds. */
bool follower_waits(const struct core_table *table, uint32_t shard);

#endif
