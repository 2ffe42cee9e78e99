/*
 * backup - copies of a node's rows at the next nodes, from which one of them takes over when it dies.
 *
 * A table with `backups` = k has every row at k + 1 nodes: at the node that has the key's arc (view.h), and at the next k that
 * are present, its *peers*. The copies are no part of the table: nobody reads them, until the first node is given up.
 *
 *  1. Every row that changes is marked (store.h). A shard sends *batches* to its peers: rows that were marked, each whole, with
 *     its updater's state; and a *record* of each lane whose writes were executed since the last batch: the number of the
 *     last one. A batch has all rows that other nodes wrote, so that it has the effect of a write and its record, or
 *     neither: requests are executed and batches made under the shard's lock. Of the rows that only this node's workers
 *     wrote it has some: they are gone through in *sweeps*.
 *  2. A batch is applied as a whole or not at all. There is one under way at a time, and the peers get it one after the other, in
 *     the order of the ring: a peer has what those behind it have, and at most one batch more.
 *  3. A write of another node is answered when all peers have confirmed a batch that has it. What workers of the node itself
 *     write goes with later batches; tern_flush waits for the sweep that has it.
 *  4. When a node is given up, the next one puts the copies into its own store and continues the lanes of the arc where the
 *     records say, before it publishes the view that says so. Clients send unanswered requests again, under their old
 *     numbers, to the node that has the arc now (client.h): each write counts once.
 *  5. Its first batch has the rows of the last one that it took of the arc, and all records: what it has and its peers may not.
 *     So from then on they have what it has.
 *  6. A peer has a *complete* copy of an arc when all rows are there. It answers a batch with the arcs of which it has none: new
 *     peers have none. Then the node copies all rows of these arcs, some with each batch, while work goes on.
 *  7. An arc is *lost* if its node is given up and the next one has no complete copy. Calls on its keys fail. Nothing is lost if
 *     at most k nodes die between two moments at which all copies are complete.
 *     With `recover` its rows are read from a checkpoint instead, and copies that came before the rest did replace them: what was
 *     pushed since the checkpoint is lost, and nothing else fails.
 *     A node that leaves has one backup more before it goes, and stays until all nodes' copies are complete without it
 *     (group.h): any k nodes may die meanwhile.
 *  8. Batches are taken under equal views alone, and only from a node whose backup this one is. So a node that was given up
 *     and goes on gets no write confirmed.
 *
 * Where nodes have replicas (manager.h) main copies stay at their homes all the same (policy_keep_home), so that all of this
 * holds for them. A round that changes main copies is a write of its lane like any other: (2) and (3) hold for its answer. After a
 * death
 *
 *  9. the question of a round is sent again, to the node that has the arc then. If its predecessor had executed it, that is in
 *     the records, and the answer is FRAME_TAKEN: what was told is done, what was asked for is asked anew. So is every key that
 *     the dead node knew to be wanted: no backup has the wants of nodes.
 * 10. A node that takes over has replicas of some of the keys. Each becomes the main copy in one step: the backup's row, and what
 *     was changed in the replica and is not in that. Of the question under way to the dead node the records tell at that moment
 *     whether it was executed.
 *
 * All tables of a job have as many backups (group.c). Everything is per shard, under its lock, unless it says otherwise. Pure.
 */
#ifndef CORE_BACKUP_H
#define CORE_BACKUP_H

#include "base/buffer.h"
#include "core/core.h"
#include "core/group.h"
#include "core/kept.h"

struct rounds;
struct server_lane;
struct service;

enum {
    BATCH_FRAME_BYTES = 4 << 20,             /* of a batch that go into one frame */
    BACKUP_MAX_PEERS = TERN_MAX_BACKUPS + 1, /* while a node is leaving (view.h) */
};

/* The backups of a table: those of other nodes' rows that are here, and what of this node's rows is to be sent first. */
struct table_backup {
    struct core *core;
    enum tern_index index;
    uint64_t n_keys;
    const struct placed *placed; /* the homes that were chosen; NULL: none */
    atomic_bool *is_lost;        /* by arc */
    atomic_bool any_lost;
    /* Puts the rows of an arc that are in a shard into the store, as they were once; false if that cannot be. NULL: nobody can.
     * All shards are locked. */
    bool (*recover)(struct core_table *table, uint32_t arc, uint32_t shard);
    struct {
        struct kept_rows *kept; /* a list, by arc */
        struct buffer urgent;   /* keys that others have written since the last batch */
    } shards[STORE_MAX_SHARDS];
};

/* A place among the slots of all tables. */
struct backup_place {
    size_t table; /* of the core's; TERN_MAX_TABLES: the end */
    uint64_t slot;
};

/* Frames of a batch of another node, until it is whole. */
struct staged {
    uint32_t from;
    struct buffer bytes;
};

/* The backups of a shard. */
struct backup {
    struct service *service; /* whose lanes the records are about */
    struct rounds *rounds;   /* of the shard; NULL: there are none. The driver sets it */
    size_t
        piece_bytes; /* about so many that only this node's workers wrote, or are copied, go with a batch */
    uint32_t peers[BACKUP_MAX_PEERS], n_peers, n_wanted;
    /* Batches made and confirmed by all peers; and sweeps that they end. */
    uint64_t n_made, n_confirmed;
    uint64_t n_sweeps, n_swept;
    struct backup_place sweep; /* how far the present one is; slots by 64 */
    bool sweeps_all;           /* the next batch is to have all rows that were marked */
    struct buffer batch;       /* under way; it stays until it is confirmed */
    size_t copy_at;            /* where what is copied begins in it; its end: nothing is */
    uint32_t at;               /* the peer that gets it now, */
    size_t n_sent;             /* and so much of it was confirmed */
    bool is_under_way;
    bool is_sending;  /* a frame was given out */
    uint64_t n_bytes; /* of batches, as far as they were confirmed */
    uint64_t n_taken; /* of batches of others, that were applied */
    /* What the peers have: */
    bool announces;     /* the next batch names all tables, which are to be open at new peers; */
    bool is_formed;     /* it was confirmed, and all copies are complete */
    uint8_t *lacks;     /* by arc: bits of peers that have no complete copy, as they said */
    bool is_copying;    /* rows of these arcs go to these peers: */
    bool *copies;       /* by arc */
    uint32_t copies_to; /* bits */
    struct backup_place copied; /* how far that is */
    /* Of the nodes whose backup this one is: parts of batches so far, and what is known of their lanes. */
    struct staged staged[BACKUP_MAX_PEERS];
    struct records records;
};

/* False when memory runs out. */
bool backup_init(struct backup *backup, struct service *service);
void backup_fini(struct backup *backup);

/* The backups of a table that is about to be opened, which `placed` outlives; NULL when memory runs out. */
struct table_backup *backup_new(struct core *core, const struct tern_table_options *options,
                                const struct placed *placed);
void backup_free(struct table_backup *table);

/* The arc of a key. Any thread. */
uint32_t backup_arc(const struct table_backup *table, uint64_t key);

/* Whether this node has the arc of a key, and it is not lost: `has` of a store, whose context is the table's backup. Any
 * thread. */
bool backup_has(const void *context, uint64_t key);

/* Fails if one of n keys is lost, as far as this node knows. Any thread. */
enum tern_status backup_check_lost(const struct core_table *table, const uint64_t *keys, size_t n);

/* ---- The node that has the arc ---- */

/* A write of a lane to n keys was executed. */
void backup_note_write(struct backup *backup, struct core_table *table, struct server_lane *lane,
                       const uint64_t *keys, size_t n);

/* Whether all writes of a lane are at all peers. */
bool backup_is_safe(struct backup *backup, const struct server_lane *lane);

/* A batch is to be sent soon; returns the number of the next, which has all that others have written until now, and what is urgent. */
uint64_t backup_hurry(struct backup *backup);

/* Whether all peers have that batch. */
bool backup_has_confirmed(struct backup *backup, uint64_t batch);

/* The next frame of a batch, for *peer: its payload, which stays in place, where that begins in the batch, and whether it is the
 * last. False: there is nothing to send. */
bool backup_next(struct backup *backup, uint32_t *peer, struct slice *payload, uint64_t *begin,
                 bool *is_last);

/* That frame was answered, with these bytes: true if all have confirmed the batch, so that requests which wait for it may be
 * tried again. */
bool backup_confirm(struct backup *backup, const uint8_t *answer, size_t n);

/* The sweep that will have what was written until now. */
uint64_t backup_last(const struct backup *backup);

/* Whether that is confirmed, and all peers have complete copies. */
bool backup_is_flushed(struct backup *backup, uint64_t sweep);

/* The epoch of the view if all peers of all shards have complete copies under it, else 0: for PING. The caller has the locks of all
 * shards. */
uint32_t backup_formed(struct service *const *services, uint32_t n_services);

/* ---- The nodes that have the backups ---- */

/* A frame of a batch of node `from`. HELD: a table of it is not open yet. REFUSED: there is no memory, or it makes no sense. */
enum served backup_take(struct backup *backup, uint32_t from, const struct frame *request,
                        const uint8_t *body);

/* Appends the arcs of node `from` of which there is no complete copy here; false when memory runs out. */
bool backup_tell_lacks(const struct backup *backup, uint32_t from, struct buffer *out);

/* Replaces the view: takes over the arcs that fall to this node, and finds the peers anew. The caller has the locks of all
 * shards, and before them took those of their rounds. */
void backup_change_view(struct core *core, struct service *const *services, uint32_t n_services,
                        const struct view *next);

#endif
