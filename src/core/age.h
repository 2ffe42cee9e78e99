/*
 * age - how old the updates of a table are, for an updater that asks (tern_update_age).
 *
 * A node counts the pushes that it has applied to the table: one for each call of its own workers with keys at home here,
 * one for each PUSH of another node's. A worker that pulls notes the count: of its own node in its workspace, of others, who
 * send it with VALUES, in its lane. A PUSH carries the note of its lane, the same when it is sent again. Only tables whose
 * keys stay at home have ages: a replica gathers updates, and a key that moves meets another count.
 *
 * Any thread.
 */
#ifndef CORE_AGE_H
#define CORE_AGE_H

#include "core/core.h"

static inline bool age_is_asked(const struct core_table *table)
{
    return table->store.updater.asks_age;
}

/* What a pull notes, before it reads: 1 + the pushes applied so far. */
uint64_t age_note(const struct core_table *table);

/* Counts a push whose worker has noted `note`, 0 if nothing, and tells the updater its age. Then this thread applies it. */
void age_begin(struct core_table *table, uint64_t note);

#endif
