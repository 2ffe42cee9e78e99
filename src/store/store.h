/*
 * store - the rows of one table on this node.
 *
 * An index (dense array or sparse hash) leads from a key to an 8-byte entry (entry.h), the entry to a
 * row in the slabs. Rows are bare values; the updater's state for a row is in slabs of its own under
 * the same slot, so that a pull reads nothing but values.
 *
 *  1. A row exists if its entry says so (entry.h). Of ENTRY_INLINE, a value of 4 bytes without updater
 *     is in the entry itself, which saves the second cache miss, until it is pinned. Rows are made by
 *     store_create or store_reserve; where rows move they also come from other nodes and go there
 *     (move.c), otherwise they stay where they are until the store ends.
 *  2. In a dense table whose rows do not move those of the keys at home here lie in the order of the
 *     keys, so that a row's address can be had without waiting for the entry. But only the entry counts.
 *  3. Row and state are written only while the entry is latched. A row made is complete when its entry
 *     is released.
 *  4. At most one entry's latch is held by a thread, and nothing is waited for while it is held, except
 *     the store's slot lock. Latch stripes (latch_stripes.h) are taken before it.
 *  5. In a table that processes share (shared.h) a wait may be given up (base/spin.h). The store is *lost* then, for
 *     good: accesses miss rows that are there, and store_check_lost fails. The caller of an access that missed a row checks
 *     it.
 *
 * The calls on many keys (pull.c, push.c) deal with rows that exist and report the positions of the
 * others.
 * Any thread may call anything here except store_init and store_fini.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/hash.h"
#include "base/keymap.h"
#include "base/latch.h"
#include "base/lock.h"
#include "base/status.h"
#include "kernel/kernel.h"
#include "store/admission.h"
#include "store/latch_stripes.h"
#include "store/init.h"
#include "store/location.h"
#include "store/marks.h"
#include "store/pull.h"
#include "store/sketch.h"
#include "store/slabs.h"
#include "store/sparse.h"

struct store;

/* Adds values to the rows of n keys with the entries given; reports the positions of those without a row.
 * `exclusive`: see store_push_exclusive. */
typedef size_t add_function(struct store *store, const uint64_t *keys, size_t n,
                            struct entry *const *entries, const void *values, uint32_t *missed,
                            bool exclusive);

/* The same for one key; false if it has no row. */
typedef bool add_one_function(struct store *store, uint64_t key, const void *value, bool exclusive);

struct add_loops {
    add_one_function *one;
    add_function *many;
};

/* The loops for a store, whose other members are set. */
struct add_loops push_add_for(const struct store *store);

struct placed;

/* Which keys of a table are at home on this node, and get a row here when they are first used. */
struct store_home {
    uint64_t begin, end; /* dense: a range */
    /* Sparse: whether a key is. NULL: all are. */
    bool (*has)(const void *context, uint64_t key);
    const void *context;
    /* The homes that a program chose, which the store does not look into; NULL: none. In a dense table `has` then decides, the
     * ranges of `begin` and `main_begin` are empty, and n_placed keys are at home here. */
    const struct placed *placed;
    uint64_t n_placed;
    /* Every key that is used here has a row here, and its changes are marked (delta.c). All keys then count as at
     * home; those outside the following range, or for which `has` says no, are replicas. */
    bool rows_everywhere;
    uint64_t main_begin, main_end;
    /* Rows come and go; their changes are marked while there are other copies (move.c). */
    bool rows_move;
    /* Other nodes have backups of the rows: all changes are marked, and main copies are ENTRY_SHARED. */
    bool backed;
    /* Dense: `has` decides about keys outside the range. */
    bool asks;
    uint32_t n_shards; /* that the keys are cut into (store_shard); 0 is 1 */
    /* Memory in which several processes have the table (shared.h), which was formatted. NULL: the table is in this
     * process's memory. */
    struct shared_table *shared;
    uint64_t hash_seed; /* of a sparse index in this process's memory (sparse.h) */
    uint32_t process;   /* of those that share the memory: the number of this one */
};

enum {
    STORE_MAX_SHARDS = 16,
    SHARD_KEYS =
        16, /* of a dense table that lie together, and so has what is kept of them in lines of memory */
};

/* What is known of a slot in tables whose rows are everywhere or move. */
struct slot_facts {
    _Atomic uint64_t key; /* who looks at a mark may see a slot change hands */
    union {
        struct {
            /* Of a main copy: the number of its moves so far, in the lower half. Of a replica: where
             * the main copy is (location.h). Read by any thread. */
            _Atomic uint32_t location;
            uint32_t
                note; /* of a main copy with replicas elsewhere: what the caller keeps with it; 0 at first */
        };
        _Atomic uint64_t
            age; /* where rows are everywhere: how recent it is, as the caller counts; 0 at first */
    };
};

/* What is known of rows that leave (evict.h). */
struct eviction {
    _Atomic uint64_t n_removed; /* rows so far */
    _Atomic uint64_t n_copies;  /* replicas here, which do not leave */
    _Atomic uint64_t n_writes;  /* of keys, where the age of rows matters */
    _Atomic uint64_t clock;     /* the highest that a worker has reached */
    _Atomic uint64_t due_clock; /* when to look for rows that are too old */
    struct latch latch;         /* held while room is made at the limit; guards: */
    uint32_t oldest;            /* the tick before which a row was last written that may go */
    uint64_t n_left;            /* rows to remove before that is decided anew */
    uint64_t n_drawn;           /* random numbers so far */
    uint64_t line;              /* where the hand is */
    unsigned stripe;
};

struct store_counts {
    _Atomic uint64_t n_rows;   /* keys that have a row */
    _Atomic uint64_t n_slots;  /* slots in use, or free to be used again */
    _Atomic uint64_t n_pushes; /* applied here, where the updater asks for their age */
    struct latch
        free_latch; /* guards the list of slots that had a row: each begins with the number of the next */
    uint32_t first_free; /* 1 + the first; 0: none */
    _Atomic uint64_t n_free;
    struct eviction eviction;
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
    uint64_t
        n_complete; /* so many rows, and no reservation is needed any more; else never reached */
    struct pull_loops pull;
    /* For pushes that add; NULL: none for this type, length or place. The one case in which pushed
     * values need no alignment. */
    struct add_loops add;
    bool inlined; /* values of 4 bytes that are only added to live in their entries */
    struct latch_stripe *latch_stripes; /* of these values */
    bool pushes_apart;                  /* by loops of their own: the table has gates, or evicts */
    struct watch *
        watch; /* of a table that processes share; NULL: others' latches are waited for without end */
    /* Of a shared-memory table with backups (undo.h). */
    char *gates;
    size_t gate_stride;
    uint32_t n_gates, process;
    uint32_t n_shards;
    const struct kernel *kernel;
    struct tern_updater updater; /* apply is NULL for addition */
    struct tern_init init;
    struct admission *admission; /* NULL: a key gets its row when it is first written */
    struct sketch
        *sketch; /* of a TERN_SKETCH, which has no rows and an empty sparse index; else NULL */
    /* What store_reserve does for a key at home here without a row: store_create; or store_leave, where store_push_new
     * decides about it. */
    enum tern_status (*reserve_new)(struct store *store, uint64_t key);

    /* Slots. */
    struct store_counts *counts; /* own_counts, or those that processes share */
    struct store_counts own_counts;
    _Atomic uint64_t next_slot; /* the next that is not natural; changed under slot_lock */
    uint64_t limit_bytes;       /* UINT64_MAX: none */
    uint64_t counter_bytes;     /* of `admission` or `sketch` */
    struct lock slot_lock;
    struct slabs pins; /* how often each slot is pinned */

    /* Of tables whose rows leave by a rule (evict.h). */
    bool evicts;
    bool evict_at_limit;
    uint32_t evict_age;
    uint64_t evict_floor;
    struct latch kept_latch; /* guards: */
    struct keymap kept;      /* keys at home here that are wanted here, which keep their rows */
    struct slabs written;    /* when each row was last written */
    struct pull_loops pull_unguarded; /* what `pull` does unless the index is rebuilt meanwhile */

    /* Of tables whose rows are everywhere or move (delta.c, move.c). */
    struct slabs bases; /* the value at the last exchange; with an updater: what was pushed since */
    struct slabs facts; /* struct slot_facts */
    /* Slots changed since they were last taken, by shard; without: not tracked. */
    struct marks changed[STORE_MAX_SHARDS];
    /* Of those that were taken, where replicas are told of changes and backups are sent as well: which these have still to
     * learn of. Without: there is nothing but `changed`. */
    struct marks for_rounds[STORE_MAX_SHARDS], for_backups[STORE_MAX_SHARDS];
    _Atomic uint64_t n_pins;

    char name[TERN_MAX_NAME + 1]; /* for sentences */
};

/* Bytes of the updater's state of one row. */
size_t store_state_bytes(const struct tern_table_options *options);

/* Makes an empty store of the given shape, which node/ has checked except for memory; or one with what is in
 * shared memory. `home` is NULL on a single node. */
enum tern_status store_init(struct store *store, const char *name,
                            const struct tern_table_options *options,
                            const struct store_home *home);
void store_fini(struct store *store);

/* The entry of a key, or NULL if the key was never here. Dense: key < n_keys. */
static inline struct entry *store_find(const struct store *store, uint64_t key)
{
    return store->index == TERN_DENSE ? &store->dense[key] : sparse_find(store->sparse, key);
}

/* Whether an entry lies in an array of the sparse index that is being given up, or was (sparse.h): the key is
 * to be looked up again. */
static inline bool store_gives_up(const struct store *store, uint64_t word)
{
    return store->index == TERN_SPARSE &&
           (!(word & ~ENTRY_LATCHED) || entry_state(word) == ENTRY_MOVED);
}

/* The entry of a key with its word as of now; 0 if the key was never here. If a wait is given up, the word of an entry
 * that is latched. */
static inline uint64_t store_look(const struct store *store, uint64_t key, struct entry **entry)
{
    for (struct spin spin = {0};;) {
        *entry = store_find(store, key);
        uint64_t word = *entry ? entry_read(*entry) : 0;
        if (!*entry || !store_gives_up(store, word))
            return word;
        if (!spin_again(&spin, store->watch))
            return ENTRY_LATCHED;
    }
}

/* Whether an entry that was found for a key, and is latched or was not changed since, is still that of the key: cells may be
 * used again (sparse.h). */
static inline bool store_holds(const struct store *store, const struct entry *entry, uint64_t key)
{
    return !store->evicts || sparse_key_of(entry) == key;
}

/* Fails with TERN_PEER if a process that shared the table was lost. */
enum tern_status store_check_lost(const struct store *store);

/* The part of the keys that one belongs to: each part is looked after by its own threads. */
static inline uint32_t store_shard(const struct store *store, uint64_t key)
{
    if (store->n_shards == 1)
        return 0;
    uint64_t block = store->index == TERN_DENSE ? key / SHARD_KEYS : key;
    return (uint32_t)((hash_u64(~block) >> 32) * store->n_shards >> 32);
}

/* The latch stripe of a key. Keys of a dense table whose entries share a cache line also share it. */
static inline unsigned dense_stripe(uint64_t key)
{
    return key * sizeof(struct entry) / LATCH_STRIPE_BYTES % LATCH_STRIPES;
}

static inline struct latch_stripe *store_stripe(const struct store *store, uint64_t key)
{
    return &store->latch_stripes[store->index == TERN_DENSE
                                     ? dense_stripe(key)
                                     : sparse_latch_stripe(store->sparse, key)];
}

/* Whether sets of rows of which a replica is here are done at the owner: the updater's state is there; and the
 * difference to a number that is rounded does not lead to every other. Where every node has every key, a set is the
 * push of a difference all the same. */
static inline bool store_sets_at_owner(const struct store *store)
{
    return store->updater.apply || (store->home.rows_move && store->type <= TERN_F64);
}

/* Whether one of n keys has a replica here. */
bool store_has_replica(const struct store *store, const uint64_t *keys, size_t n);

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
        return key - store->home.begin < store->home.end - store->home.begin ||
               (store->home.asks && store->home.has(store->home.context, key));
    return store->home.rows_everywhere || !store->home.has ||
           store->home.has(store->home.context, key);
}

/* Where rows are everywhere: whether the main copy of a key is here. */
static inline bool store_tracks_main(const struct store *store, uint64_t key)
{
    if (store->index == TERN_DENSE)
        return key - store->home.main_begin < store->home.main_end - store->home.main_begin ||
               (store->home.asks && store->home.has(store->home.context, key));
    return store->home.has(store->home.context, key);
}

/* Whether other nodes may ask this one for a key, if only to hear where it is. */
static inline bool store_may_be_asked(const struct store *store, uint64_t key)
{
    if (store->home.rows_move)
        return true;
    return store->home.rows_everywhere ? store_tracks_main(store, key) : store_is_home(store, key);
}

/* Whether no key is ever here but those at home. */
static inline bool store_is_homebound(const struct store *store)
{
    return !store->home.rows_everywhere && !store->home.rows_move;
}

/* The latched entry of a key, made if it is not there, and the word it had; NULL when memory runs out or the wait was
 * given up. */
struct entry *store_latch(struct store *store, uint64_t key, uint64_t *word);

/* The latched entry of a key whose row is in the slabs, and the word it had; NULL if there is no such row, or the wait was
 * given up. `entry` is where the key was found before, or NULL. */
struct entry *store_latch_row(const struct store *store, uint64_t key, struct entry *entry,
                              uint64_t *word);

/* Gives the key a row with its initial value, unless it has one or is known to be elsewhere. */
enum tern_status store_create(struct store *store, uint64_t key);

/* The same for those of n keys that are at home here; the entries, as of now, go to `entries`. All rows that
 * were made before a failure stay. Where keys are admitted (admission.h), those that have no row yet get none. */
enum tern_status store_reserve(struct store *store, const uint64_t *keys, size_t n,
                               struct entry **entries);

/* The same, also where keys are admitted: for what does not wait until a key was counted often enough. */
enum tern_status store_reserve_all(struct store *store, const uint64_t *keys, size_t n,
                                   struct entry **entries);

/* Makes no row. */
enum tern_status store_leave(struct store *store, uint64_t key);

/* Lets the loops of a store's access use its sketch (sketch.c). */
void store_use_sketch(struct store *store);

/* Fails if one of the counts that are to be pushed to the n keys of a sketch is negative. */
enum tern_status store_check_counts(const struct store *store, const uint64_t *keys, size_t n,
                                    const void *counts);

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

/* The same by a thread that has the store for itself meanwhile: rows are not latched. */
size_t store_push_exclusive(struct store *store, const uint64_t *keys, size_t n,
                            struct entry *const *entries, const void *updates, uint32_t *missed);
size_t store_set_exclusive(struct store *store, const uint64_t *keys, size_t n,
                           struct entry *const *entries, const void *values, uint32_t *missed);

/* The same for one key; false if it has no row. */
static inline bool store_pull_one(const struct store *store, uint64_t key, void *value)
{
    return store->pull.one(store, key, value);
}

/* Reads a key that has no row: zero without making one, any other initial value by making it, unless keys are admitted; where
 * rows leave by a rule, the initial value without making one. *here is set to false if the key turns out to be elsewhere. */
enum tern_status store_pull_new(struct store *store, uint64_t key, void *value, bool *here);

/* Pushes to a key at home here that had no row. Where keys are admitted: counts it, and makes the row if it was counted often
 * enough; otherwise the update is dropped. *here is set to false if the key turns out to be elsewhere. */
enum tern_status store_push_new(struct store *store, uint64_t key, const void *update, bool *here);

/* Sets a key at home here whose row has left since it was reserved. */
enum tern_status store_set_new(struct store *store, uint64_t key, const void *value);

/* Whether a write to a key at home here may find no row anywhere: a push where keys are admitted, or any where rows leave by a
 * rule. */
static inline bool store_may_miss(const struct store *store, bool pushes)
{
    return store->evicts || (store->admission && pushes);
}

/* Counts a key at home here n times where keys are admitted, unless it has a row. */
enum tern_status store_count(struct store *store, uint64_t key, uint32_t n);

bool store_push_one(struct store *store, uint64_t key, const void *update);
bool store_push_one_exclusive(struct store *store, uint64_t key, const void *update);
bool store_set_one(struct store *store, uint64_t key, const void *value);

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
 * value = theirs + (value - base) and base = theirs. With an updater, base gathers what was pushed
 * here since the last exchange: that is sent, and base becomes zero.
 */
static inline struct slot_facts *store_facts(const struct store *store, uint32_t slot)
{
    return slabs_at(&store->facts, slot);
}

static inline uint64_t store_key_of(const struct store *store, uint32_t slot)
{
    return atomic_load_explicit(&store_facts(store, slot)->key, memory_order_relaxed);
}

static inline void store_mark(struct store *store, uint32_t slot)
{
    uint32_t shard = store->n_shards == 1 ? 0 : store_shard(store, store_key_of(store, slot));
    struct marks *marks = &store->changed[shard];
    /* One that is set already is taken by somebody who will wait for this row's latch. */
    if (!marks_has(marks, slot))
        marks_add(marks, slot);
}

/* The words of marks of slots that can have any by now. */
size_t store_mark_words(const struct store *store);

/* The marks of a shard for those who tell replicas of changes; and for those who send backups. One thread at a time takes
 * them. */
struct marks *store_marks_for_rounds(struct store *store, uint32_t shard);
struct marks *store_marks_for_backups(struct store *store, uint32_t shard);

/* Whether something of a latched row must be sent. */
bool store_has_delta(const struct store *store, uint32_t slot);

/* Writes what must be sent of an existing row to `delta`, which is aligned as its elements are, and takes it
 * as sent; false if that is nothing. */
bool store_take_delta(struct store *store, uint64_t key, void *delta);

/* The same without taking it; and taking a part of it, which may be any number. False if that is nothing; *is_left: there
 * is something else to send. */
bool store_look_delta(const struct store *store, uint64_t key, void *delta);
bool store_take_part(struct store *store, uint64_t key, const void *part, bool *is_left);

/* An existing row and its base; with an updater, what is to be sent and zeros. */
bool store_show_change(const struct store *store, uint64_t key, void *value, void *sent);

/* What the row that `slot` was marked for is now. */
enum marked {
    MARKED_NOTHING, /* it is not shared any more */
    MARKED_REPLICA, /* *location is where the main copy is */
    MARKED_MAIN,    /* the main copy has changed */
};
enum marked store_marked(struct store *store, uint32_t slot, uint64_t *key, uint32_t *location);

/* Takes the delta of a replica whose main copy is at `node`; false if there is none. Of a replica whose main copy is
 * elsewhere, *location is where; otherwise it stays as it is. */
bool store_take_changed(struct store *store, uint64_t key, uint32_t node, void *delta,
                        uint32_t *location);

/* The same without taking it. */
bool store_look_changed(struct store *store, uint64_t key, uint32_t node, void *delta,
                        uint32_t *location);

/* Takes back a delta of a replica that could not be delivered: it is to be sent again. False if there is no
 * replica any more. */
bool store_return_delta(struct store *store, uint64_t key, const void *delta);

/* Adds a delta to a row, made if it is not there, without marking it. With an updater it is applied. */
enum tern_status store_merge_delta(struct store *store, uint64_t key, const void *delta,
                                   uint32_t *slot);

/* Begins to keep what must be sent of a latched row: nothing so far. */
void store_begin_base(struct store *store, uint32_t slot);

/* Takes over the owner's value of a latched row: what was changed here since the last exchange stays. */
void store_rebase(struct store *store, uint32_t slot, const void *value);

/* The same for a key, whose row is made if it is not there. */
enum tern_status store_refresh(struct store *store, uint64_t key, const void *value);

/* Of a table in which all nodes agree on the bases (core/doubling.h): what was changed in an existing row since they last
 * did, without taking it as sent; false if that is nothing. */
bool store_peek_delta(const struct store *store, uint64_t key, void *delta);

/* All together have changed a row, made if it is not there, by `sum`; of which `own` was changed here, or nothing if it
 * is NULL. */
enum tern_status store_settle(struct store *store, uint64_t key, const void *sum, const void *own);

/*
 * Rows that move (move.c). Rows that come need a slot that was taken before they were asked for,
 * so that nothing can fail when they are there.
 */
#define NO_SLOT UINT32_MAX

bool store_take_slot(struct store *store, uint32_t *slot);
void store_give_slot(struct store *store, uint32_t slot);

/* Counts the memory of one more slot; false if that is above the limit. */
bool store_take_bytes(struct store *store);

/* Takes a slot that had a row; false if there is none. */
bool store_take_free(struct store *store, uint32_t *slot);

/* Where the key is, if the store knows: false if it has no word of it, or has the main copy. */
bool store_location(const struct store *store, uint64_t key, uint32_t *location);

/* Notes where the main copy of a key is, unless it is here or something newer is known. */
enum tern_status store_learn(struct store *store, uint64_t key, uint32_t location);

/* The same as node `from` says, of a key whose home is `home`; NOBODY if that is here, where all is known. */
enum tern_status store_learn_from(struct store *store, uint64_t key, uint32_t location,
                                  uint32_t from, uint32_t home);

/* Takes the main copy away: its value and state, to be sent, and its number of moves. From now on the
 * key is at `node`, and its slot the caller's to give back. False if it is not here, or pinned. */
bool store_send_away(struct store *store, uint64_t key, uint32_t node, void *value, void *state,
                     uint32_t *location, uint32_t *slot);

/* Whether this node knows of a later move than the one to `location` of the key whose entry has this word: then the key
 * cannot come by that one, because nobody but its owner moves it on. Numbers that have wrapped around are not later. */
bool store_knows_later_move(const struct store *store, uint64_t word, uint32_t location);

/* The main copy has come: the row is made in `slot`, or the replica that is here takes it over, and
 * *used is set to whether the slot was. `state` may be NULL if the updater keeps none. */
void store_receive(struct store *store, uint64_t key, uint32_t location, const void *value,
                   const void *state, uint32_t slot, bool *used);

/* The same for the value of a replica, new or not. A main copy is left alone; without a slot no replica
 * is made. */
void store_receive_copy(struct store *store, uint64_t key, uint32_t location, const void *value,
                        uint32_t slot, bool *used);

/* The node that had the main copy is given up, and a backup of it takes its place: a row is made of it, or the replica that is
 * here takes it over, with what was changed in it and not sent. `state` has rows_state_bytes. False when memory runs out. */
bool store_adopt(struct store *store, uint64_t key, const void *value, const void *state);

/* Ends a replica that has nothing to send: the key is where its main copy is, and the slot the caller's
 * to give back. False if there is something, or the row is pinned, or it is no replica. */
bool store_drop_replica(struct store *store, uint64_t key, uint32_t *slot);

/* Says whether the main copy here has replicas elsewhere; its slot, or false if it is not here. */
bool store_share(struct store *store, uint64_t key, bool shared, uint32_t *slot);

/* Pins a row: it stays where it is, at *row, until it is unpinned. *row is NULL if the key has no row
 * here, or a replica that shows what an updater makes of it elsewhere, so that what was written to it would be
 * lost; or memory for the count runs out, which is the failure. */
enum tern_status store_pin(struct store *store, uint64_t key, void **row);

/* How often a slot's row is pinned. */
uint32_t store_pins_of(const struct store *store, uint32_t slot);

/* Ends one pin; false if the key's row is not pinned. */
bool store_unpin(struct store *store, uint64_t key);

/* As sparse_visit, of a sparse table. */
void store_visit(struct store *store, void (*visit)(void *, uint64_t key, uint64_t word),
                 void *context);

/* The lowest keys with rows in [begin, end), ascending, at most `most`; where keys come and go, those at home
 * here that have one anywhere. *keys is malloc'ed, NULL when there are none. */
enum tern_status store_collect(struct store *store, uint64_t begin, uint64_t end, size_t most,
                               uint64_t **keys, size_t *n);

uint64_t store_memory_bytes(const struct store *store);

/* The same where they are counted by gate (undo.h). */
uint64_t undo_rows(const struct store *store);

static inline uint64_t store_rows(const struct store *store)
{
    if (store->gates)
        return undo_rows(store);
    return atomic_load_explicit(&store->counts->n_rows, memory_order_relaxed);
}

/* Slots in use, by rows or set aside for some. */
static inline uint64_t store_slots(const struct store *store)
{
    return atomic_load_explicit(&store->counts->n_slots, memory_order_relaxed);
}

#endif
