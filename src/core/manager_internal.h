/*
 * manager_internal - what the parts of the manager share: manager.c and manager_request.c, the side that wants keys, share.c, the
 * side that owns them, and managed.c, the technique. Included by these and by tests.
 */
#ifndef CORE_MANAGER_INTERNAL_H
#define CORE_MANAGER_INTERNAL_H

#include "base/keymap.h"
#include "core/hot.h"
#include "core/manager.h"
#include "core/sifter.h"
#include "core/sweep.h"
#include "wire/section.h"

enum {
    ROUND_BYTES = 1 << 20, /* aimed at for a request or an answer, unless a test chooses less */
};

/* What is kept per wanted key: the number of its active intents, and what was done about it. */
#define WANTED_COUNT UINT32_C(0x03ffffff)
#define WANTED_SPARE (UINT32_C(1) << 26)      /* a slot is set aside for it */
#define WANTED_ONCE (UINT32_C(1) << 27)       /* to be moved here, whoever wants it */
#define WANTED_ENDING (UINT32_C(1) << 28)     /* its end is to be told, or being told */
#define WANTED_REGISTERED (UINT32_C(1) << 29) /* the owner knows that this node wants it */
#define WANTED_SENT (UINT32_C(1) << 30)       /* an ask is under way */
#define WANTED_ASKED (UINT32_C(1) << 31)      /* an ask is to be sent or under way */

/* A list, or a queue: what is taken from its front is before `first`, until it is empty. */
struct keys {
    uint64_t *keys;
    size_t first, n, max;
};

/* What there is to say to one node, and to answer it. */
struct outbox {
    /* As the one who wants: the node is believed to be the owner. Queues: what was wanted first is used
     * first. */
    struct keys asks, fetches, ends;
    struct keys
        dropped; /* of tables whose rows leave: replicas that are gone since their end was told */
    struct keys
        changed; /* a queue of replicas that were changed here; what, is taken when it is sent */
    struct keys deltas;         /* those that came back and have no replica here any more, */
    struct buffer delta_values; /* and what they are, in their order */
    size_t n_registered;        /* keys of which the node knows that they are wanted here */
    uint64_t news_ns; /* when the node was asked for news last, with an answer; 0: never */
    bool is_closed;   /* the node has closed the table */
    size_t
        n_again; /* asks at the front, or before others, that are made again because the keys' node was given up */
    uint32_t
        since; /* the epoch from which on another node has the keys that this one had; 0: none has */
    struct sweep sweep; /* through its news */
    /* To the home of keys that have moved away from here. */
    struct keys located;
    uint32_t *locations;
    size_t max_locations;
    /* As the owner. */
    struct keys
        fresh; /* a queue of keys that the node has asked for, and whose first value it has not got */
    struct keys dirty;   /* a queue of keys whose present value the node has not got */
    uint64_t n_passed;   /* of these so far: told, or found to need no telling any more */
    struct keys rounded; /* keys of which the node has rounded values; see SET_ROUNDED */
    struct keys moves;   /* a queue of keys that may move there, since nobody else wants them */
};

struct manager {
    struct core *core;
    const struct view *view; /* of the core, which may be gone when the manager is freed */
    struct store *store;
    const struct policy *policy;
    uint32_t shard;
    size_t round_bytes;      /* ROUND_BYTES */
    struct outbox *outboxes; /* by node */
    uint32_t *wanted; /* dense: by key; common to all shards, of which each uses its own keys' */
    struct keymap wanted_sparse;
    struct keymap
        registered_at; /* 1 + the node that knows a key to be wanted here, until it has a row here */
    struct keys spares; /* slots set aside, one for each key that is WANTED_SPARE */
    struct keys pool;   /* free slots, at hand without the store's lock */
    struct keys marked; /* slots of rows that were changed, while they are taken */
    char *delta;        /* room for one */
    bool out_of_memory;
    bool is_left_over; /* a delta came back in this round */
    bool is_brief;     /* the present round exchanges no changes; see manager_begin_round */
    bool has_news;     /* of owners: there are more than fitted into it */
    const uint64_t
        *often;          /* a bit for each key of a dense table that is used often; NULL: all are */
    uint64_t rare_every; /* of so many exchanges, one is also of what was changed in other keys, */
    uint64_t n_due;      /* which were so many so far, */
    bool leaves_rare;    /* and the present one is not */
    unsigned n_served;   /* times that rows were collected for others since the last round */
    struct manager_counts counts;
    struct trace trace;
    struct sifter sifter;

    /* Shares: SETS sets of nodes each, of set_words words. */
    size_t set_words;
    uint64_t *shares;
    uint32_t n_shares, max_shares;
    uint32_t free_share; /* 1 + the first of a list; 0: none */
    uint32_t next_share;
    /* Of the request being answered. */
    struct keys away_asks, away_deltas;
    bool only_takes;    /* it was put to another node (technique.h) */
    struct keys merged; /* with backups: keys whose main copies it has changed */
};

/* What a table has: its managers by shard; and what finds out which keys every node should have, under the lock of the
 * first shard. */
struct managed {
    struct manager *managers[STORE_MAX_SHARDS];
    uint64_t *often; /* of the managers */
    struct hot hot;
};

static inline struct manager *managed_shard(const struct core_table *table, uint32_t shard)
{
    return ((const struct managed *)table->state)->managers[shard];
}

/* Appends to a list; false, and noted, when memory runs out. */
bool keys_add(struct manager *manager, struct keys *list, uint64_t key);

/* Takes the first key of a queue that has some. */
static inline uint64_t keys_take(struct keys *queue)
{
    uint64_t key = queue->keys[queue->first++];
    if (queue->first == queue->n)
        queue->first = queue->n = 0;
    return key;
}

static inline size_t keys_left(const struct keys *queue)
{
    return queue->n - queue->first;
}

static inline void keys_clear(struct keys *list)
{
    list->first = list->n = 0;
}

static inline uint32_t wanted_get(const struct manager *manager, uint64_t key)
{
    return manager->wanted ? manager->wanted[key] : keymap_get(&manager->wanted_sparse, key);
}

/* There must be room for a key that is new (wanted_reserve). */
static inline void wanted_set(struct manager *manager, uint64_t key, uint32_t value)
{
    if (manager->wanted)
        manager->wanted[key] = value;
    else
        keymap_set(&manager->wanted_sparse, key, value);
}

static inline bool wanted_reserve(struct manager *manager, size_t n)
{
    if (manager->wanted || keymap_reserve(&manager->wanted_sparse, n))
        return true;
    manager->out_of_memory = true;
    return false;
}

/* A slot that was set aside for a key is not needed. */
void manager_drop_spare(struct manager *manager, uint32_t *value);

/* What there is to say to a node, or to the one that has its keys by now. */
static inline struct outbox *manager_outbox(const struct manager *manager, uint32_t node)
{
    return &manager->outboxes[view_home(manager->view, node)];
}

/* Asks for a key, unless it is here or its home is. */
void manager_ask(struct manager *manager, uint64_t key, uint32_t *value);

/* Whether the program has a pointer to the replica of a key. */
bool manager_is_pinned(const struct manager *manager, uint64_t key);

/* The owner does not know of this node's interest in a key any more. */
void manager_note_unregistered(struct manager *manager, struct outbox *outbox, uint64_t key,
                               uint32_t *value);

/* A delta that was not delivered goes back into its replica. If that has become the main copy meanwhile,
 * it is done there; if it has ended, the delta is sent to where the key is now. */
void manager_take_back_delta(struct manager *manager, uint64_t key, const void *delta);

/* What was told in a request has been heard: ends are over. */
void manager_settle_ends(struct manager *manager, struct outbox *outbox,
                         const struct section *ends);

/* The row in a slot was changed by others: backups are to have it. */
static inline void manager_note_merged(struct manager *manager, uint32_t slot)
{
    struct marks *marks = &manager->store->for_backups[manager->shard];
    if (marks->slots)
        marks_add(marks, slot);
}

/* Whether an answer does not count: that of a node which was given up, or was before it could be. */
bool manager_is_unanswered(const struct manager *manager, uint32_t peer,
                           const struct frame *answer);

/* A node wants nothing any more. */
void share_forget_node(struct manager *manager, uint32_t node);

/* Tells the owner, which knows that this node wanted a key, that it does not any more. */
void manager_tell_end(struct manager *manager, uint64_t key, uint32_t *value);

/* An ask that nobody needs any more is not sent, or not sent on. */
void manager_give_up_ask(struct manager *manager, uint64_t key, uint32_t *value);

/* The outbox of the node that knows a key to be wanted here, or else of the one to ask. */
struct outbox *manager_outbox_of(struct manager *manager, uint64_t key);

/* Notes the delta in manager->delta, to be sent; false, and it is taken back, when memory runs out. */
bool manager_add_delta(struct manager *manager, struct outbox *outbox, uint64_t key);

/* Whether there is such a key in the manager's part of the table. */
static inline bool manager_has_key(const struct manager *manager, uint64_t key)
{
    return key <= manager->store->last_key && store_shard(manager->store, key) == manager->shard;
}

/* Collects what was changed in main copies, for the answer to another node. */
enum tern_status manager_take_mains(struct manager *manager);

/* A slot that is free now is kept for the next row that comes. */
void pool_give(struct manager *manager, uint32_t slot);

/* The sets of a share: the nodes that want the key, behind them those that miss its value, and those that have a rounded
 * one: the key is in their `rounded`. In tables whose rows leave (store/evict.h) also those that do not want it any more and have not
 * said yet that their replica is gone. */
enum { SET_WANTS, SET_MISSES, SET_ROUNDED, SET_ENDED, SETS };

static inline uint64_t *share_sets(const struct manager *manager, uint32_t share)
{
    return manager->shares + (size_t)(share - 1) * SETS * manager->set_words;
}

/*
 * Most of what a round costs is the wait for memory: a key's entry, its row and what is known of both lie
 * anywhere. So loops over keys fetch ahead, in steps: what the key leads to, then what the entry leads to,
 * then what is known of the row's share.
 */
enum { FETCH_KEY = 32, FETCH_ROW = 16, FETCH_SHARE = 8 }; /* keys ahead */

enum { FETCH_BYTES = 512 }; /* of a row, ahead of its use */

/* How much of a row is fetched: what is known of it, its value as well, or also what that was at the last exchange. */
enum fetch { FETCH_FACTS, FETCH_VALUE, FETCH_BASE };

static inline void fetch_key(const struct manager *manager, uint64_t key)
{
    if (manager->wanted) {
        __builtin_prefetch(&manager->wanted[key], 1);
        __builtin_prefetch(&manager->store->dense[key], 1);
    } else {
        keymap_prefetch(&manager->wanted_sparse, key);
        __builtin_prefetch(sparse_line(manager->store->sparse, key), 1);
    }
}

static inline void fetch_lines(const char *row, size_t bytes)
{
    for (size_t at = 0; at < bytes && at < FETCH_BYTES; at += 64)
        __builtin_prefetch(row + at, 1, 2);
}

static inline void fetch_slot(const struct manager *manager, uint32_t slot, enum fetch what)
{
    const struct store *store = manager->store;
    __builtin_prefetch(store_facts(store, slot), 1);
    if (what >= FETCH_VALUE)
        fetch_lines(slabs_at(&store->rows, slot), store->value_bytes);
    if (what >= FETCH_BASE)
        fetch_lines(slabs_at(&store->bases, slot), store->value_bytes);
}

static inline void fetch_row(const struct manager *manager, uint64_t key, enum fetch what)
{
    struct entry *entry;
    uint64_t word = store_look(manager->store, key, &entry);
    if (entry_in_slabs(word))
        fetch_slot(manager, entry_slot(word), what);
}

/* The share of the row in a slot, if it has one: of a row whose facts have been fetched. */
static inline void fetch_share(const struct manager *manager, uint32_t slot)
{
    uint32_t share = store_facts(manager->store, slot)->note;
    if (share)
        __builtin_prefetch(share_sets(manager, share), 1);
}

/* That of a key's row. */
static inline void fetch_share_of(const struct manager *manager, uint64_t key)
{
    struct entry *entry;
    uint64_t word = store_look(manager->store, key, &entry);
    if (entry_state(word) == ENTRY_SHARED)
        fetch_share(manager, entry_slot(word));
}

/* Fetches for the first keys of a loop that fetches FETCH_KEY ahead: most rounds have few keys for each node. */
static inline void fetch_first_keys(const struct manager *manager, const uint64_t *keys, size_t n,
                                    size_t n_ahead)
{
    for (size_t i = 0; i < n_ahead && i < n; i++)
        fetch_key(manager, keys[i]);
}

/* The same for a queue, also with their rows. */
static inline void fetch_first_rows(const struct manager *manager, const struct keys *queue,
                                    enum fetch what)
{
    for (size_t i = 0; i < FETCH_KEY && i < keys_left(queue); i++)
        fetch_key(manager, queue->keys[queue->first + i]);
    for (size_t i = 0; i < FETCH_ROW && i < keys_left(queue); i++)
        fetch_row(manager, queue->keys[queue->first + i], what);
}

/* The same for n items, of which each begins with its key, and their rows. */
static inline void fetch_first_items(const struct manager *manager, const uint8_t *items,
                                     size_t item_bytes, size_t n, enum fetch what)
{
    for (size_t i = 0; i < FETCH_KEY && i < n; i++)
        fetch_key(manager, section_get(items + i * item_bytes));
    for (size_t i = 0; i < FETCH_ROW && i < n; i++)
        fetch_row(manager, section_get(items + i * item_bytes), what);
}

/* Fetches ahead for the first of n keys. */
static inline void fetch_keys(const struct manager *manager, const uint64_t *keys, size_t n,
                              enum fetch what)
{
    if (n > FETCH_KEY)
        fetch_key(manager, keys[FETCH_KEY]);
    if (n > FETCH_ROW)
        fetch_row(manager, keys[FETCH_ROW], what);
}

/* The same for main copies, which others may share, in a queue. */
static inline void fetch_mains(const struct manager *manager, const struct keys *queue)
{
    const uint64_t *keys = queue->keys + queue->first;
    fetch_keys(manager, keys, keys_left(queue), FETCH_VALUE);
    if (keys_left(queue) > FETCH_SHARE)
        fetch_share_of(manager, keys[FETCH_SHARE]);
}

/* Fetches ahead for the i-th of n items, of which each begins with its key. */
static inline void fetch_items(const struct manager *manager, const uint8_t *items,
                               size_t item_bytes, size_t i, size_t n, enum fetch what)
{
    if (i + FETCH_KEY < n)
        fetch_key(manager, section_get(items + (i + FETCH_KEY) * item_bytes));
    if (i + FETCH_ROW < n)
        fetch_row(manager, section_get(items + (i + FETCH_ROW) * item_bytes), what);
}

/* Bytes of an item of SECTION_MAINS. */
static inline size_t share_main_item_bytes(const struct store *store)
{
    return 16 + section_padded(store->value_bytes) + section_padded(store->states.stride);
}

/* The main copy of a key in `slot` was changed by node `by`: all others that want it must get it. */
void share_changed(struct manager *manager, uint64_t key, uint32_t slot, uint32_t by);

/* This node does not want a key any more: if it owns it, and just one other wants it, it may move. */
void share_reconsider(struct manager *manager, uint64_t key);

#endif
