/*
 * core - what the state machines of a node share: who it is, where keys live, and its tables.
 *
 * The keys of a table are cut into *shards* (store_shard). A shard of a node is everything that is done about its keys:
 * it has its own technique's state, rounds and server, and the lanes of other nodes to it. So shards take no common lock.
 * Tables whose rounds are about all keys together have one shard, the first, which also does what does not concern keys.
 *
 * Everything in core/ is pure: frames and time come in, frames go out. The same code runs under
 * node/ with sockets and threads, and in the simulator with neither.
 */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include <stdatomic.h>

#include "core/placed.h"
#include "core/placement.h"
#include "core/policy.h"
#include "store/store.h"
#include "wire/filter.h"
#include "wire/frame.h"
#include "wire/pack.h"

struct technique;
struct table_backup;
struct backup;

/* The bytes that packing has saved in the messages of a table's rounds, in a shard; under its lock. */
struct savings {
    uint64_t sent, received;
};

/* The delays of pushes that were applied here, where the updater asks (age.h). */
struct age_counts {
    _Atomic uint64_t n, sum, delays[TERN_DELAY_STEPS];
};

struct core_table {
    struct store store;
    uint16_t number; /* by which all nodes know it; no other table ever has it */
    const struct policy *policy;
    const struct technique *technique; /* how its keys are managed (technique.h), */
    void *state;                       /* and what the technique keeps of them; NULL: nothing */
    struct table_backup *backup;       /* with `backups` (backup.h); else NULL */
    /* Several processes of this host have the table in one memory, and others elsewhere: as whom its keys are here. Its node
     * is the leader (view.h), its view that of the leaders. NULL: as this node. */
    const struct core *member;
    uint32_t generation;   /* tells tables apart that have the same place in turn */
    uint64_t staleness_ns; /* replicas are to be no older, where rounds refresh them */
    uint64_t round_ns;     /* at least that long from one round to the next */
    struct savings savings[STORE_MAX_SHARDS];
    struct filters filters;     /* of the rows of requests and their replies, */
    struct filter_counts saved; /* and the bytes that they have saved here */
    /* The program's own filter of changes (sifter.h); NULL: it has none. */
    bool (*is_significant)(void *context, uint64_t key, const void *value, const void *sent);
    void *significant_context;
    _Atomic uint64_t request_bytes, reply_bytes; /* sent for PULL, PUSH, SET and COUNT */
    _Atomic uint64_t *
        served; /* bytes of those that were served here and of the replies, by node; NULL: nobody counts */
    struct age_counts ages;
};

struct core {
    uint32_t node;
    /* Of the cluster. It is replaced under the locks of all shards; earlier ones stay until the node ends. */
    _Atomic(const struct view *) view;
    uint32_t n_shards;                        /* the same at all nodes; 0 is 1 */
    _Atomic uint32_t n_backups;               /* of each table (backup.h); 0: none has any so far */
    uint64_t incarnation;                     /* of this process */
    struct backup *backups[STORE_MAX_SHARDS]; /* by shard, once there are services; else NULL */
    /* Those that are open, at the places of their numbers if these were free. Published with release, read
     * with acquire. */
    _Atomic(struct core_table *) tables[TERN_MAX_TABLES];
    uint64_t closed[FRAME_MAX_TABLES / 64]; /* bits: the table was open here and is not any more */
};

static inline uint32_t core_shards(const struct core *core)
{
    return core->n_shards ? core->n_shards : 1;
}

/* The open table with a number; NULL: there is none. */
static inline struct core_table *core_find_table(const struct core *core, uint16_t number)
{
    struct core_table *found =
        atomic_load_explicit(&core->tables[number % TERN_MAX_TABLES], memory_order_acquire);
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

static inline struct filter_shape core_filter_shape(const struct core_table *table)
{
    return (struct filter_shape){.type = table->store.type, .length = table->store.length};
}

/* What items of the table's rounds have. */
static inline struct pack_shape core_pack_shape(const struct core_table *table)
{
    struct core_table *counts = (struct core_table *)(uintptr_t)table;
    return (struct pack_shape){.value_bytes = table->store.value_bytes,
                               .state_bytes = table->store.states.stride,
                               .filters = &table->filters,
                               .rows = core_filter_shape(table),
                               .counts = &counts->saved};
}

/* Codes n rows for a request or its reply; returns their bytes. `exact`: they are not to be rounded. `scratch` has
 * filter_scratch_bytes. */
size_t core_encode_rows(const struct core_table *table, const void *rows, size_t n, bool exact,
                        uint64_t seed, uint8_t *out, uint8_t *scratch);

/* Room for n rows of a round, coded or not, with the scratch for coding or decoding them. */
static inline size_t core_rows_room(const struct core_table *table, size_t n)
{
    const size_t bytes = table->store.value_bytes;
    return filters_rows(&table->filters)
               ? filter_max_bytes(n, bytes) + filter_scratch_bytes(&table->filters, n, bytes)
               : n * bytes;
}

/* Writes n rows of a round to such room; returns their bytes. Filters change no bit of them. And reads them from `bytes`;
 * false if they are not n rows. */
size_t core_put_rows(const struct core_table *table, const void *rows, size_t n, uint8_t *out);
bool core_get_rows(const struct core_table *table, const uint8_t *in, size_t bytes, size_t n,
                   uint8_t *scratch, void *rows);

/* As whom the keys of a table are here. */
static inline const struct core *core_for(const struct core *core, const struct core_table *table)
{
    return table->member ? table->member : core;
}

/* Whether a node takes part in the rounds of a table. */
static inline bool core_takes_part(const struct core_table *table, uint32_t node)
{
    return !table->member || view_has(table->member->view, node);
}

/* The node that has the main copy of a key unless it was moved, and always knows where it is. */
static inline uint32_t core_home(const struct core *core, const struct store *store, uint64_t key)
{
    if (store->home.placed)
        return placed_home(store->home.placed, key);
    return store->index == TERN_DENSE ? range_home(core->view, key, store->n_keys)
                                      : ring_home(core->view, key);
}

/* Notes where a key is, as node `from` says. */
static inline void core_learn(const struct core *core, struct store *store, uint64_t key,
                              uint32_t location, uint32_t from)
{
    uint32_t home = core_home(core, store, key);
    (void)store_learn_from(store, key, location, from, home == core->node ? NOBODY : home);
}

#endif
