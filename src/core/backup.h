/*
 * backup - copies of a node's rows at the next node, from which another node takes over when it dies.
 *
 * A table with `backups` has every row at two nodes: at the node that has the key's arc (view.h), and at the next node that is
 * present. The second copy is no part of the table: nobody reads it, until the first node is given up.
 *
 *  1. Every row that changes is marked (store.h). A shard sends *batches* to the next node: all rows that were marked, each
 *     whole, with its updater's state; and a *record* of each lane whose writes were executed since the last batch: the number
 *     of the last one. Requests are executed and batches made under the shard's lock, so a batch has the effect of a write and
 *     its record, or neither.
 *  2. A batch is applied as a whole or not at all. There is one under way at a time.
 *  3. A write of another node is answered when a batch that has it is confirmed. So every answered write is at two nodes. What
 *     workers of the node itself write goes with later batches; tern_flush waits until one is confirmed.
 *  4. When a node is given up, the next one puts the copies into its own store and continues the lanes of the arc where the
 *     records say, before it publishes the view that says so. Clients send unanswered requests again, under their old
 *     numbers, to the node that has the arc now (client.h): each write counts once.
 *  5. Then two copies are made again. A node whose successor has changed, or that has taken over an arc, sends all its rows,
 *     some with each batch; the first of them says so. A copy is *complete* when all are there. Until then no write of the table
 *     is answered.
 *  6. An arc is *lost* if its node is given up and there is no complete copy. Calls on its keys fail.
 *  7. Batches are taken under equal views alone, and only from the node whose backup this one is. So a node that was given up
 *     and goes on gets no write confirmed.
 *
 * Kept copies are per shard, under its lock, like everything else here unless it says otherwise. Pure.
 */
#ifndef CORE_BACKUP_H
#define CORE_BACKUP_H

#include "base/buffer.h"
#include "core/core.h"
#include "core/group.h"

struct server_lane;
struct service;
struct kept_rows;
struct record;

enum { BATCH_FRAME_BYTES = 4 << 20 }; /* of a batch that go into one frame */

/* The backups of a table: those of other nodes' rows that are here, and how far those of this node's rows have come. */
struct table_backup {
    struct core *core;
    enum tern_index index;
    uint64_t n_keys;
    atomic_bool *is_lost; /* by arc */
    atomic_bool any_lost;
    struct {
        struct kept_rows *kept; /* a list, by arc */
        uint64_t n_copied;      /* slots that the present copy has come to */
        bool is_copied;         /* the batches that were made have all rows; */
        uint64_t copied_by;     /* this one is the last of them */
        bool is_anew;           /* the copy was begun anew, and the next batch is to say so */
    } shards[STORE_MAX_SHARDS];
};

/* The backups of a shard. */
struct backup {
    struct service *service; /* whose lanes the records are about */
    uint32_t peer;           /* that has the copies; this node: there is none */
    /* Batches made and confirmed. */
    uint64_t n_made, n_confirmed;
    struct buffer batch; /* under way; it stays until it is confirmed, */
    size_t n_sent;       /* or so much of it */
    bool is_under_way;
    uint64_t n_bytes; /* of batches, as far as they were confirmed */
    /* Of the node whose backup this one is: the parts of a batch so far, and what is known of its lanes. */
    struct buffer staged;
    struct record *records;
    size_t n_records, max_records;
};

/* Zeroed but for the service before. */
void backup_init(struct backup *backup, struct service *service);
void backup_fini(struct backup *backup);

/* The backups of a table that is about to be opened; NULL when memory runs out. */
struct table_backup *backup_new(struct core *core, const struct tern_table_options *options);
void backup_free(struct table_backup *table);

/* Whether this node has the arc of a key, and it is not lost: `has` of a store, whose context is the table's backup. Any
 * thread. */
bool backup_has(const void *context, uint64_t key);

/* Fails if one of n keys is lost, as far as this node knows. Any thread. */
enum tern_status backup_check_lost(const struct core_table *table, const uint64_t *keys, size_t n);

/* ---- The node that has the arc ---- */

/* A write of a lane was executed. */
void backup_note(struct backup *backup, struct server_lane *lane);

/* Whether all writes of the lane to the table are at the next node. */
bool backup_is_safe(const struct backup *backup, const struct core_table *table,
                    const struct server_lane *lane);

/* The next frame of a batch to backup->peer: its payload, which stays in place, and whether it is the last. False: there is
 * nothing to send. */
bool backup_next(struct backup *backup, struct slice *payload, bool *is_last);

/* That frame was answered: true if the batch is confirmed, so that requests which wait for it may be tried again. */
bool backup_confirm(struct backup *backup);

/* The batch that will have what was written until now. */
uint64_t backup_last(const struct backup *backup);

/* Whether it is confirmed, as is everything that was to be copied. */
bool backup_is_flushed(const struct backup *backup, uint64_t batch);

/* ---- The node that has the backup ---- */

/* A frame of a batch of node `from`. HELD: a table of it is not open yet. REFUSED: there is no memory, or it makes no sense. */
enum served backup_take(struct backup *backup, uint32_t from, const struct frame *request,
                        const uint8_t *body);

/* Replaces the view: takes over the arcs that fall to this node, and begins new copies. The caller has the locks of all
 * shards. */
void backup_change_view(struct core *core, struct service *const *services, uint32_t n_services,
                        const struct view *next);

#endif
