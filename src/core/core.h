/*
 * core - what the state machines of a node share: who it is, where keys live, and its tables.
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

struct core_table {
    struct store store;
    const struct policy *policy;
    struct replication *replication; /* of a policy with replicas of every key (replica.h); else NULL */
    struct manager *manager;         /* of a policy whose keys come and go (manager.h); else NULL */
    struct bounded *bounded;         /* of a policy with bounded reads (bounded.h); else NULL */
};

struct core {
    uint32_t node, n_nodes, epoch;
    uint64_t incarnation; /* of this process */
    struct ring *ring;
    /* By the number all nodes know a table by. Published with release, read with acquire. */
    _Atomic(struct core_table *) tables[TERN_MAX_TABLES];
    bool closed[TERN_MAX_TABLES]; /* numbers of tables that were open here and are not any more */
};

/* The node that has the main copy of a key unless it was moved, and always knows where it is. */
static inline uint32_t core_home(const struct core *core, const struct store *store, uint64_t key)
{
    return store->index == TERN_DENSE ? range_home(key, store->n_keys, core->n_nodes)
                                      : ring_home(core->ring, key);
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
