/*
 * store - the rows of one table on this node.
 *
 * An index (dense array or sparse hash) leads from a key to an 8-byte entry (entry.h), the entry to a
 * row in the slabs. Rows are bare values; the updater's state for a row is in slabs of its own under
 * the same slot, so that a pull reads nothing but values.
 *
 *  1. A row exists if its entry says ENTRY_OWNED, or ENTRY_INLINE: a value of 4 bytes without updater
 *     is in the entry itself, which saves the second cache miss, until it is pinned. Rows are made by
 *     store_create or store_reserve and then stay where they are until the store ends.
 *  2. In a dense table the rows of the keys at home here lie in the order of the keys, so that a row's
 *     address can be had without waiting for the entry. But only the entry counts.
 *  3. Row and state are written only while the entry is latched. A row made is complete when its entry
 *     is released.
 *  4. At most one latch is held by a thread, and nothing is waited for while it is held, except the
 *     store's slot lock.
 *
 * The calls on many keys (pull.c, push.c) deal with rows that exist and report the positions of the
 * others.
 * Any thread may call anything here except store_init and store_fini.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <pthread.h>

#include "base/status.h"
#include "kernel/kernel.h"
#include "store/init.h"
#include "store/pull.h"
#include "store/slabs.h"
#include "store/sparse.h"

struct store;

/* Adds values to the rows of n keys; reports the positions of those without a row. */
typedef size_t add_function(struct store *store, const uint64_t *keys, size_t n, const void *values,
                            uint32_t *missed);

/* The loop for a store, whose other members are set. */
add_function *push_add_for(const struct store *store);

/* Which keys of a table are at home on this node, and get a row here when they are first used. */
struct store_home {
    uint64_t begin, end; /* dense: a range */
    /* Sparse: whether a key is. NULL: all are. */
    bool (*has)(const void *context, uint64_t key);
    const void *context;
    /* Whether changes are tracked, because rows are, or have, replicas elsewhere (delta.c). */
    bool tracked;
};

struct store {
    /* What the fast path reads. */
    enum tern_index index;
    enum tern_type type;
    uint32_t length;
    size_t value_bytes;
    uint64_t n_keys;   /* dense: the key space */
    uint64_t last_key; /* the largest key there can be */
    struct entry *dense;
    struct sparse *sparse;
    struct slabs rows;
    struct slabs states;
    struct store_home home;
    /* Dense: the rows of the home range lie in the order of their keys, as far as slots reach. */
    uint64_t n_natural; /* keys, from home.begin on, with slots 0, 1, ... */
    uintptr_t natural;  /* where the row of key 0 would be */
    struct pull_loops pull;
    add_function
        *add;     /* for pushes that add; NULL: none for this type, length or place. The one case
                          in which pushed values need no alignment */
    bool inlined; /* values of 4 bytes that are only added to live in their entries */
    const struct kernel *kernel;
    struct tern_updater updater; /* apply is NULL for addition */
    struct tern_init init;

    /* Slots. */
    _Atomic uint64_t n_rows;    /* keys that have a row */
    _Atomic uint64_t n_slots;   /* slots in use */
    _Atomic uint64_t next_slot; /* the next that is not natural; changed under slot_lock */
    uint64_t limit_bytes;       /* UINT64_MAX: none */
    pthread_mutex_t slot_lock;
    struct slabs pins; /* how often each slot is pinned */

    /* Of tracked rows (delta.c). */
    struct slabs bases; /* the value at the last exchange */
    struct slabs keys;  /* the key of a slot */
    _Atomic uint64_t
        *dirty; /* a bit per slot: changed since it was last taken; NULL: not tracked */
    size_t dirty_bytes;
    _Atomic uint64_t n_pins;

    char name[TERN_MAX_NAME + 1]; /* for sentences */
};

/* Makes an empty store of the given shape, which node/ has checked except for memory. */
/* `home` is NULL on a node that is alone. */
enum tern_status store_init(struct store *store, const char *name,
                            const struct tern_table_options *options,
                            const struct store_home *home);
void store_fini(struct store *store);

/* The entry of a key, or NULL if the key was never here. Dense: key < n_keys. */
static inline struct entry *store_find(const struct store *store, uint64_t key)
{
    return store->index == TERN_DENSE ? &store->dense[key] : sparse_find(store->sparse, key);
}

/* The same with its word as of now; 0 if the key was never here. An entry of a sparse index that reads
 * as zero lies in an array that was given up in between (sparse.h), so the key is looked up again. */
static inline uint64_t store_look(const struct store *store, uint64_t key, struct entry **entry)
{
    uint64_t word;
    do {
        *entry = store_find(store, key);
        word = *entry ? entry_read(*entry) : 0;
    } while (*entry && !word && store->index == TERN_SPARSE);
    return word;
}

/* The natural slot of a key, and the address of that row. */
static inline uint32_t store_natural_slot(const struct store *store, uint64_t key)
{
    return (uint32_t)(key - store->home.begin);
}

static inline char *store_natural(const struct store *store, uint64_t key)
{
    return (char *)(store->natural + key * store->rows.stride);
}

/* Whether a key is at home here. */
static inline bool store_is_home(const struct store *store, uint64_t key)
{
    if (store->index == TERN_DENSE)
        return key - store->home.begin < store->home.end - store->home.begin;
    return !store->home.has || store->home.has(store->home.context, key);
}

/* Gives the key a row with its initial value, unless it has one. */
enum tern_status store_create(struct store *store, uint64_t key);

/* The same for those of n keys that are at home here; the entries, as of now, go to `entries` unless it
 * is NULL. All rows that were made before a failure stay. */
enum tern_status store_reserve(struct store *store, const uint64_t *keys, size_t n,
                               struct entry **entries);

/*
 * Access to the rows of n keys (pull.c, push.c). The positions of keys that have no row are written to
 * `missed`, which has room for n, and their number is returned. Those keys are otherwise left alone.
 * Changes take the entries that store_reserve found; if they have changed since, they are looked up.
 */
static inline size_t store_pull(const struct store *store, const uint64_t *keys, size_t n,
                                void *values, uint32_t *missed)
{
    return store->pull.many(store, keys, n, values, missed);
}

size_t store_push(struct store *store, const uint64_t *keys, size_t n, struct entry *const *entries,
                  const void *updates, uint32_t *missed);
size_t store_set(struct store *store, const uint64_t *keys, size_t n, struct entry *const *entries,
                 const void *values, uint32_t *missed);

/* The same for one key; false if it has no row. */
static inline bool store_pull_one(const struct store *store, uint64_t key, void *value)
{
    return store->pull.one(store, key, value);
}

/* Reads a key that has no row: zero without making one, any other initial value by making it. */
enum tern_status store_pull_new(struct store *store, uint64_t key, void *value);

bool store_push_one(struct store *store, uint64_t key, const void *update);

/* The updater's state of a row; NULL if it keeps none. */
static inline void *store_state(const struct store *store, uint32_t slot)
{
    return store->states.stride ? slabs_at(&store->states, slot) : NULL;
}

/* Sets the updater's state of a latched row to what it is for the row's present value. */
void store_reset_state(struct store *store, uint32_t slot);

/*
 * Tracked rows (delta.c). A changed row is marked while it is latched. What must be sent of a replica
 * is value - base; sending sets base = value. What comes from the owner sets
 * value = theirs + (value - base) and base = theirs.
 */
static inline void store_mark(struct store *store, uint32_t slot)
{
    _Atomic uint64_t *word = &store->dirty[slot / 64];
    uint64_t bit = UINT64_C(1) << slot % 64;
    /* A bit that is set already is taken by somebody who will wait for this row's latch. */
    if (!(atomic_load_explicit(word, memory_order_relaxed) & bit))
        atomic_fetch_or_explicit(word, bit, memory_order_release);
}

static inline uint64_t store_key_of(const struct store *store, uint32_t slot)
{
    return *(const uint64_t *)slabs_at(&store->keys, slot);
}

/* Writes value - base of an existing row to `delta`, which needs no alignment; false if it is zero. */
bool store_take_delta(struct store *store, uint64_t key, void *delta);

/* Adds a delta to a row, made if it is not there, without marking it. */
enum tern_status store_merge_delta(struct store *store, uint64_t key, const void *delta,
                                   uint32_t *slot);

/* Takes over the owner's value of a row, made if it is not there. */
enum tern_status store_refresh(struct store *store, uint64_t key, const void *value);

/* Pins an existing row and returns it; NULL when memory for the count is used up. */
void *store_pin(struct store *store, uint64_t key);

/* Ends one pin; false if the key's row is not pinned. */
bool store_unpin(struct store *store, uint64_t key);

/* The keys with rows in [begin, end), ascending. *keys is malloc'ed, NULL when there are none. */
enum tern_status store_collect(struct store *store, uint64_t begin, uint64_t end, uint64_t **keys,
                               size_t *n);

uint64_t store_memory_bytes(const struct store *store);

#endif
