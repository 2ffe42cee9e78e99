/*
 * core - what the state machines of a node share: who it is, where keys live, and its tables.
 *
 * The keys of a table are cut into *shards* (store_shard). A shard of a node is everything that is done about its keys:
 * it has its own managers, rounds and server, and the lanes of other nodes to it. So shards take no common lock.
 * Tables whose rounds are about all keys together (replica.h, bounded.h) are in shard 0 as a whole, which also does
 * what does not concern keys.
 *
 * Everything in core/ is pure: frames and time come in, frames go out. The same code runs under
 * node/ with sockets and threads, and in the simulator with neither.
 */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include <stdatomic.h>

#include "core/placement.h"
#include "core/policy.h"
#include "store/store.h"
#include "wire/frame.h"

struct core_table {
    struct store store;
    uint16_t number; /* by which all nodes know it; no other table ever has it */
    const struct policy *policy;
    struct replication *replication; /* of a policy with replicas of every key (replica.h); else NULL */
    struct doubling *doubling;       /* the same, kept alike by all-reduce (doubling.h); else NULL */
    /* Of a policy whose keys come and go (manager.h), by shard; else NULL. */
    struct manager *managers[STORE_MAX_SHARDS];
    struct bounded *bounded;         /* of a policy with bounded reads (bounded.h); else NULL */
};

struct core {
    uint32_t node, n_nodes, epoch;
    uint32_t n_shards; /* the same at all nodes; 0 is 1 */
    uint64_t incarnation; /* of this process */
    struct ring *ring;
    /* Those that are open, at the places of their numbers if these were free. Published with release, read
     * with acquire. */
    _Atomic(struct core_table *) tables[TERN_MAX_TABLES];
    uint64_t closed[FRAME_MAX_TABLES / 64]; /* bits: the table was open here and is not any more */
};

static inline uint32_t core_shards(const struct core *core)
{
    return core->n_shards ? core->n_shards : 1;
}

/* Whether keys of a table come and go. */
static inline bool core_is_managed(const struct core_table *table)
{
    return table->managers[0] != NULL;
}

/* The open table with a number; NULL: there is none. */
static inline struct core_table *core_find_table(const struct core *core, uint16_t number)
{
    struct core_table *found = atomic_load_explicit(&core->tables[number % TERN_MAX_TABLES],
                                                    memory_order_acquire);
    for (size_t i = 0; i < TERN_MAX_TABLES && (!found || found->number != number); i++)
        found = atomic_load_explicit(&core->tables[i], memory_order_acquire);
    return found && found->number == number ? found : NULL;
}

static inline void core_note_closed(struct core *core, uint16_t number)
{
    core->closed[number / 64] |= UINT64_C(1) << number % 64;
}

static inline bool core_has_closed(const struct core *core, uint16_t number)
{
    return core->closed[number / 64] >> number % 64 & 1;
}

/* The node that has the main copy of a key unless it was moved, and always knows where it is. */
static inline uint32_t core_home(const struct core *core, const struct store *store, uint64_t key)
{
    return store->index == TERN_DENSE ? range_home(key, store->n_keys, core->n_nodes)
                                      : ring_home(core->ring, key);
}

/* Notes where a key is, as node `from` says. */
static inline void core_learn(const struct core *core, struct store *store, uint64_t key,
                              uint32_t location, uint32_t from)
{
    uint32_t home = core_home(core, store, key);
    (void)store_learn_from(store, key, location, from, home == core->node ? NOBODY : home);
}

/* The node that has the main copy of a key, as far as this one knows. */
static inline uint32_t core_owner(const struct core *core, const struct store *store, uint64_t key)
{
    uint32_t location;
    struct entry *entry;
    if (!store->home.managed)
        return core_home(core, store, key);
    if (store_location(store, key, &location))
        return location_node(location);
    if (entry_has_row(store_look(store, key, &entry)))
        return core->node;
    return core_home(core, store, key);
}

#endif
