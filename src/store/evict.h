/*
 * evict - rows that leave a sparse table again, so that their memory can be used by others.
 *
 * A row is removed under its entry's latch: the entry has no row then (ENTRY_NONE) and another sequence number, by which a
 * reader that was copying the row notices, and the slot goes on the list of free slots. The key is a new key. Its cell of the
 * index is left behind when the stripe is rebuilt (sparse.h), in tables that were opened with a rule of eviction.
 *
 *  1. Only main copies of which there is no other copy, that nobody has pinned and that nobody wants here, are removed. Where nodes
 *     have replicas main copies stay at their homes, so the home decides, and it alone knows of the replicas: their rows are
 *     ENTRY_SHARED until the other node has said that its replica is gone (core/share.c). So no change of a replica comes for a
 *     row that was removed since.
 *  2. Tables with a rule (`evicts`) note when each row was last written: by a count of writes, and by the clock. Reads
 *     note nothing.
 *  3. The rules stop at `evict_floor` rows. One thread at a time of all that share the table makes room at the limit. A process
 *     that dies meanwhile leaves the latch, and the table is lost like with any other (shared.h).
 *  4. A row may be gone as soon as no latch is held: a writer that has made one and finds none makes it again.
 *
 * "Written longest ago" is not exact: a sample of rows tells since when the oldest sixteenth was not written, and a hand that
 * goes round the index removes what it meets of these.
 */
#ifndef STORE_EVICT_H
#define STORE_EVICT_H

#include "store/store.h"

enum { EVICT_TICK = 16 }; /* writes of a table that count as one moment */

/* Whether a table is opened with a rule by which rows leave. */
static inline bool evict_has_rule(const struct tern_table_options *options)
{
    return options->evict_age || options->evict_at_limit || options->evict_floor;
}

/* Counts n writes: the moment of the first, in ticks and, above them, the table's clock. */
static inline uint64_t evict_now(struct store *store, size_t n)
{
    struct eviction *eviction = &store->counts->eviction;
    const uint64_t writes = atomic_fetch_add_explicit(&eviction->n_writes, n, memory_order_relaxed);
    const uint64_t clock = atomic_load_explicit(&eviction->clock, memory_order_relaxed);
    return clock << 32 | (uint32_t)(writes / EVICT_TICK);
}

/* Notes that a latched row was written. */
static inline void evict_stamp(const struct store *store, uint32_t slot, uint64_t now)
{
    _Atomic uint64_t *written = slabs_at(&store->written, slot);
    atomic_store_explicit(written, now, memory_order_relaxed);
}

/* Removes rows that were written longest ago, so that a row of `key` can be made; with `for_index`, so that the index has room
 * for the key. False if there is none that may go. */
bool evict_make_room(struct store *store, uint64_t key, bool for_index);

/* A worker has reached `clock`: removes rows that were not written for evict_age clocks, now and then. */
void evict_advance(struct store *store, uint64_t clock);

/* The row of a key at home here stays while the key is wanted here; false when memory runs out. Each is called once in turn. */
bool evict_keep(struct store *store, uint64_t key);
void evict_unkeep(struct store *store, uint64_t key);

/* Whether the row of a key, whose value this is, is to go. */
typedef bool evict_function(void *context, uint64_t key, const void *value);

/* Asks the function about each main copy that is here all the time and may leave, with no latch held, and removes those for which
 * it says so. *n is their number. A row that is written meanwhile is asked about again, and then stays. */
enum tern_status evict_sweep(struct store *store, evict_function *function, void *context,
                             uint64_t *n);

#endif
