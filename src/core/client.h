/*
 * client - the asking side: operations on keys whose main copy is at other nodes.
 *
 * An operation is cut into parts, one or more requests for each node it concerns, keys sorted within
 * a node where that saves bytes. A *lane* is the ordered stream of requests from one client to one shard of a node. Its
 * rules:
 *
 *  1. Requests are numbered from 1 without gaps and sent in order; the server executes and answers
 *     them in order. So operations of one client on one key take effect in the order of their start;
 *     except that a pull whose answer was lost with its connection is read anew, and may then see
 *     later writes of its own client.
 *  2. A request stays in the lane until it is answered. When a connection breaks, everything
 *     unanswered is sent again on the next one, with the same numbers; the server does not execute a
 *     write twice (server.h). So each is applied exactly once.
 *  3. The bytes of a request are made from the operation when they are sent, so nothing is kept twice:
 *     keys and values belong to the caller until the operation is done.
 *  4. At most LANE_BYTES are under way unanswered; what is beyond waits in the lane until half of them
 *     are answered, so that it is sent in large pieces.
 *  5. A node that does not have all keys of a request answers MOVED, says where they are, and does
 *     nothing of it. The keys are then asked for there, in new requests; those that are said to be here
 *     are done here as soon as they are. Requests sent later may thus be executed before: whoever starts
 *     an operation on keys of managed tables waits until earlier ones on the same keys are done. Of
 *     several sets of a key in one operation only the last is sent.
 *
 *  6. With the filter `keys` a list of keys that was sent before is named by its digest (lists.h). A server that does not
 *     know it answers FORGOTTEN and executes nothing that comes after, until the request comes again with the list: so the
 *     order of rule 1 holds. A request that is sent again on another connection has the bytes that it had.
 *  7. A lane is for the keys of an arc (view.h). When another node takes that over, the lane leads there: what is unanswered
 *     is sent again, as after a break, if its table has backups (backup.h).
 *
 * A client belongs to one thread at a time (a worker's).
 */
#ifndef CORE_CLIENT_H
#define CORE_CLIENT_H

#include "base/buffer.h"
#include "core/core.h"
#include "wire/frame.h"
#include "wire/lists.h"

enum {
    PART_BYTES = 64 << 10, /* aimed at for a request and for its reply, all included */
    LANE_BYTES = 4 << 20,
    SORTED_BYTES = 128, /* of a value, up to which keys are sorted: saves 5% of the bytes or more */
    OP_FEW = 4,         /* keys for which an operation needs no memory of its own */
};

struct op {
    enum frame_kind kind; /* FRAME_PULL, FRAME_PUSH, FRAME_SET or FRAME_COUNT; or a call's */
    uint16_t table;
    const struct core_table *of;
    const uint64_t *keys; /* the caller's */
    char *values;         /* the caller's; read only for a push, set or count */
    bool *
        present; /* the caller's, of a pull: whether each key has a row; NULL: it does not ask. Set after client_start */
    /* The keys that are elsewhere, grouped by node and perhaps sorted within. */
    size_t n;
    uint32_t *order; /* their positions in the caller's arrays */
    uint64_t *sorted;
    uint32_t few_order[OP_FEW];
    uint64_t few_sorted[OP_FEW];
    /* A call: its arguments, and the answer. */
    union frame_fields fields;
    uint32_t limit; /* the frame's count */
    const void *payload;
    uint32_t payload_bytes;
    uint32_t keys_bytes; /* of the payload, in front */
    uint8_t flags;
    bool follows;    /* if the node dies, the call goes to the one that has its arc then */
    uint64_t number; /* of its request, the last one if it has several */
    struct frame answer;
    struct buffer answer_body;
    struct counted *
        counted; /* of a pull with counts (counting.h), by key, and of the call's keys at home here; else NULL */
    size_t n_counted;
    size_t n_parts; /* unanswered */
    bool behind;    /* a write: its owner has sent, or will send, values of its keys to this node */
    enum tern_status status;
    char sentence[160]; /* when status is not TERN_OK */
};

struct part;

/* How many pushes a node had applied to a table when it was last pulled from (age.h). */
struct lane_note {
    uint16_t table;
    uint64_t count;
};

struct lane {
    uint32_t arc;              /* whose keys, or whose node's calls, it is for (view.h) */
    uint32_t node, shard;      /* where it leads: to the node that has the arc */
    uint64_t last_number;      /* given out */
    struct part *first, *last; /* unanswered, in order */
    struct part *unsent;       /* the first that is not sent on this connection */
    size_t bytes_under_way;
    bool full;     /* LANE_BYTES were under way, and half of them still are */
    bool is_known; /* it was welcomed: its numbers are the server's */
    struct lane_note
        *notes; /* one for each table that was pulled from and whose updates have ages */
    size_t n_notes;
    struct key_lists lists; /* that were sent, of tables with the filter `keys` */
    struct list_base base;  /* what the next list may be a part of */
};

struct client {
    struct core *core;
    /* One for each node and shard that the client has to do with, those of a node together; its own node's are for
     * calls only. */
    struct lane *lanes;
    uint32_t n_lanes, first_shard, n_shards;
    struct lane
        local; /* requests for keys that turned out to be here, or are on their way to here */
    struct part *free_parts;
    size_t n_parts;    /* in all lanes */
    size_t *ends;      /* one per lane */
    uint64_t *scratch; /* for sorting */
    size_t scratch_keys;
    struct buffer rows; /* of one part, of a table with filters */
};

/* A client for all shards, or for a single one. */
enum tern_status client_init(struct client *client, struct core *core);
enum tern_status client_init_shard(struct client *client, struct core *core, uint32_t shard);
void client_fini(struct client *client);

/*
 * Starts an operation on the n keys at `positions` of the caller's arrays, none of which is here. Sets
 * up `op`, queues its parts, sends nothing. On failure nothing was queued. The op must stay in place
 * until op_is_done, then be given to op_end.
 */
enum tern_status client_start(struct client *client, struct op *op, enum frame_kind kind,
                              const struct core_table *table, const uint64_t *keys, void *values,
                              const uint32_t *positions, size_t n);

/* A pull that was just started is part of a call on n_call keys: what the table's technique must know that counts updates. */
void op_count(struct op *op, size_t n_call);

/* The name of a lane at its server, of a client whose lanes have this number. */
static inline uint64_t lane_name(const struct lane *lane, uint32_t number)
{
    return lane->arc == lane->node ? number : (((uint64_t)lane->arc + 1) << 32 | number);
}

/* The lane for what is not about keys: to the first shard that the client has to do with. */
static inline struct lane *client_lane(const struct client *client, uint32_t node)
{
    return &client->lanes[node * client->n_shards];
}

/* Starts a call: a request of another kind, to any node, on that lane. Its answer is in the op when it is done, and
 * answer_body is then the caller's to free. `op` is zeroed but for the call's arguments. */
enum tern_status client_call(struct client *client, uint32_t node, struct op *op,
                             enum frame_kind kind);

static inline bool op_is_done(const struct op *op)
{
    return op->n_parts == 0;
}

/* Whether a write that was done at other nodes may be missing in replicas of its keys that are here, or on
 * their way to here, until all has come that owners have to tell (sweep.h). The writer waits for that before
 * it goes on, and so sees what it wrote. */
bool op_outran_replicas(const struct op *op);

/* Whether such a write to keys of a shard may be missing for longer: in a replica of which the owner does not know, and
 * so sends no news. What is said of managers (manager.h) holds: the caller locks. */
bool op_outran_unregistered(const struct op *op, uint32_t shard);

/* Frees what the operation holds and gives its outcome, the sentence set. */
enum tern_status op_end(struct op *op);

/* Appends the bytes of unsent requests to `out`, as far as LANE_BYTES and `room` allow; false when
 * memory runs out. */
bool lane_send(struct client *client, struct lane *lane, size_t room, struct buffer *out);

/* Whether lane_send has something to send. */
static inline bool lane_may_send(const struct lane *lane)
{
    return lane->unsent && (!lane->full || lane->bytes_under_way <= LANE_BYTES / 2);
}

/* As lane_send, but does not copy the values of a long request that lie together in the caller's memory:
 * they are left in *rest, to be sent after `out`, and nothing is added while there is a rest. */
bool lane_send_in_place(struct client *client, struct lane *lane, size_t room, struct buffer *out,
                        struct slice *rest);

/* Whether the next reply is to the request that was sent last. */
bool lane_awaits_last(const struct lane *lane);

static inline bool lane_is_waiting(const struct lane *lane)
{
    return lane->first != NULL;
}

/* Where the body of a reply belongs, of which so far the header has come: in the caller's memory, if the
 * reply is to the oldest request and its values lie together there; else NULL. */
uint8_t *lane_target(const struct lane *lane, const struct frame *reply);

/* Takes the reply to the oldest request; an answer that does not fit it is an error of the peer. `body`
 * may be what lane_target gave. */
enum tern_status lane_reply(struct client *client, struct lane *lane, const struct frame *reply,
                            const uint8_t *body);

/* Does what is waiting for keys that come to this node, as far as they are here. To be called as long
 * as the lane `local` is waiting. */
void client_do_local(struct client *client);

/* A new connection: all that is unanswered is to be sent again. */
void lane_resume(struct lane *lane);

/* The server has said what it executed last on this lane. Requests after ones that have failed unsent
 * move up, so that there is no gap. */
void lane_welcome(struct lane *lane, uint64_t executed);

/* Another node has the arc now: what that can do in place of the first stays in the lane, and the rest fails, with this
 * status and sentence. */
void lane_follow(struct client *client, struct lane *lane, uint32_t node, enum tern_status status,
                 const char *sentence);

/* Whether what waits can be done by another node if this one dies. */
bool lane_can_follow(const struct lane *lane);

/* The node is gone: everything in the lane fails with this status and sentence. */
void lane_fail(struct client *client, struct lane *lane, enum tern_status status,
               const char *sentence);

#endif
