/*
 * frame - the one message format of Tern (docs/PROTOCOL.md).
 *
 * A frame is a fixed header, `count` keys in keys_bytes bytes (keys.h), and a payload of the
 * remaining bytes. Every message is this; kinds differ only in which fields they use. All numbers are
 * little-endian. Pure functions on bytes: nothing here allocates, and the header is checked whole,
 * limits included, before anybody reserves memory for what it announces.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    FRAME_VERSION = 8,
    FRAME_HEADER_BYTES = 56,
    FRAME_MAX_KEYS = 1 << 16,
    FRAME_DIGEST_BYTES = 16,                        /* of a list of keys */
    FRAME_PART_BYTES = 16 + 3 + FRAME_MAX_KEYS / 8, /* the most that a part of a list takes */
    FRAME_MAX_TABLES = 1 << 16,                     /* that `table` can tell apart */
    FRAME_MAX_BODY_BYTES =
        (1 << 24) + (1 << 20), /* one value of TERN_MAX_VALUE_BYTES, and its keys */
};

/* Two numbers of the header belong to the kind of a frame: see union frame_fields, whose members have the kinds' names. */
enum frame_kind {
    /* Requests, from the side that opened the connection. */
    FRAME_HELLO = 1, /* the first one: who calls */
    FRAME_PULL,      /* keys -> VALUES; flag FRAME_PRESENT */
    FRAME_PUSH,      /* keys, payload of updates -> DONE; of a sketch, counts (number.h) */
    FRAME_SET,       /* keys, payload of values -> DONE */
    FRAME_RANGE,     /* count at most -> VALUES: keys alone */
    FRAME_JOIN,      /* payload: my address -> ROSTER, when all are there */
    FRAME_TABLE,     /* payload: name and shape -> DONE with the table's number in `table` */
    FRAME_BARRIER,   /* -> DONE, when all are there */
    FRAME_REDUCE,    /* payload: elements -> VALUES: sums over all nodes */
    FRAME_BROADCAST, /* payload of the root's -> VALUES */
    FRAME_ROUND, /* one question of a round; what it has is its technique's matter -> ROUND_REPLY */
    FRAME_PING,  /* -> DONE */
    FRAME_BYE,   /* an orderly end -> DONE */
    FRAME_TASK,  /* payload: task.h -> DONE, when it is noted */
    FRAME_FINISHED, /* payload: task.h -> DONE */
    /* Replies; `number` is the request's. */
    FRAME_WELCOME, /* to PROOF */
    FRAME_VALUES,
    FRAME_DONE,
    FRAME_ROSTER, /* payload: all addresses */
    FRAME_MOVED, /* payload: a u32 location for each key of the request, none of which was served */
    FRAME_ROUND_REPLY,
    FRAME_ERROR, /* status; payload: the sentence */
    FRAME_HOLD, /* no answer yet, but a sign of life: the request waits for its table to be opened */
    /* The rest of the handshake after HELLO (node/hello.h). */
    FRAME_CHALLENGE, /* to HELLO; payload: nonce and proof */
    FRAME_PROOF,     /* to CHALLENGE -> WELCOME; payload: proof */
    /* A request again: the numbers above stay what they were. */
    FRAME_COUNT, /* keys, payload: a u32 for each, how often it was used -> DONE */
    FRAME_TOP, /* count at most -> VALUES: key, count and least count of the heaviest keys, 8 bytes each */
    /* A reply: the list that a request names is not known. The sender forgets all lists of its lane, and sends this request
     * and those after it again. */
    FRAME_FORGOTTEN,
    FRAME_BATCH, /* payload: core/backup.c -> DONE, when it is applied */
    FRAME_OUTDATED, /* a reply: the request came under an older view and had no effect; PING tells the present one */
    FRAME_KINDS,
};

enum frame_flags {
    FRAME_KEYS_DELTA = 1, /* keys ascend and are coded as differences; else 8 bytes each */
    FRAME_CHECKED = 2,    /* body_check covers the body */
    /* Of a PULL: its VALUES begin with a bit for each key, whether it has a row; values of keys without one are left out */
    FRAME_PRESENT = 4,
    FRAME_PLAIN = 8, /* of a ROUND_REPLY: its sections are not packed, for want of memory */
    /* The keys are the digest of a list that was sent before or, with more bytes, a part of it (lists.h) */
    FRAME_LIST_KNOWN = 16,
    /* Of a PULL, PUSH or SET: with counts of updates (core/counting.h) */
    FRAME_COUNTED = 32,
    /* Of a ROUND_REPLY: the question was put to a node that was given up since. What it told was taken, and there is no other
     * answer. */
    FRAME_TAKEN = 64,
    FRAME_FLAGS = 127, /* all that are known */
};

#define FRAME_OPEN_PROBE (UINT64_MAX - 1) /* round.step: is the table open? There is nothing else */

/* The two numbers of a frame that depend on its kind. */
union frame_fields {
    uint64_t raw[2];
    struct {
        uint64_t incarnation; /* 0: PROOF tells it */
        uint64_t lane;
    } hello;
    struct {
        uint64_t incarnation;
        uint64_t host; /* processes with the same one can share memory; 0: with no other */
    } join;
    struct {
        uint64_t incarnation;
    } proof;
    struct {
        uint64_t noted;  /* of a PUSH, where ages count: what the sender's last PULL noted; or 0 */
        uint64_t oldest; /* the number of the oldest request that the sender still has */
    } access;            /* PULL, PUSH, SET, COUNT */
    struct {
        uint64_t noted; /* to a PULL, where ages count: 1 + the pushes that were applied before */
    } values;
    struct {
        uint64_t begin, end;
    } range;
    struct {
        uint64_t generation; /* of tables in this slot */
        uint64_t segment;    /* of shared memory that the sender has made for it; 0: none */
    } table;
    struct {
        uint64_t number;
        uint64_t detail; /* that all must agree on */
    } collective;        /* BARRIER, REDUCE and BROADCAST */
    struct {
        uint64_t number, type;
    } reduce;
    struct {
        uint64_t number, root;
    } broadcast;
    struct {
        uint64_t number, step; /* of a sum over all nodes (core/doubling.h); or FRAME_OPEN_PROBE */
    } round;
    struct {
        uint64_t begin;   /* of the payload in the batch */
        uint64_t is_last; /* 1: the batch ends with it */
    } batch;
    struct {
        uint64_t time, number;
    } task;
    struct {
        uint64_t number, worker; /* of the task */
    } finished;
    struct {
        uint64_t incarnation;
        uint64_t executed; /* the last request executed on this lane */
    } welcome;
    struct {
        uint64_t epoch, n_shards;
    } roster;
    struct {
        uint64_t left;   /* how much is left to tell; 0: nothing */
        uint64_t passed; /* see core/sweep.h */
    } round_reply;
    struct {
        uint64_t hops; /* 0: the reason is at this node; else see core/peers.h */
    } hold;
    struct {
        uint64_t
            behind; /* DONE of a PUSH or SET: not 0 if the technique has more to tell the sender */
    } write_done;
    struct {
        uint64_t unserved; /* 1 + the number of a node at whose address nobody listens, or 0 */
        uint64_t
            formed; /* the epoch in which all backups of the sender's rows are complete, or 0 */
    } ping;
    struct {
        uint64_t is_last; /* 1: the sender knows that all have left, and waits for no answer */
        uint64_t alone;   /* 1: it leaves, and the others go on without it */
    } bye;
    struct {
        uint64_t dead; /* DONE of a PING: 1 + the number of a dead node, or 0 */
    } ping_done;
    struct {
        uint64_t segment; /* DONE of a TABLE: that of the first to open it */
    } table_done;
};

#define FRAME_BRIEF \
    UINT64_C(1) /* round.step of a managed table: news of replicas are not asked for */
/* round.step of a table whose filters round: the values in the answer are exact, also of those that were not before. */
#define FRAME_EXACT UINT64_C(2)

struct frame {
    enum frame_kind kind;
    uint8_t flags;
    uint16_t table;
    uint16_t status; /* of an ERROR: an enum tern_status */
    uint32_t epoch;
    uint64_t number; /* requests of a lane are numbered from 1; the frames of a handshake have 0 */
    uint32_t count;
    uint32_t keys_bytes;
    uint32_t body_bytes; /* keys and payload */
    uint32_t body_check;
    union frame_fields fields;
};

/* Writes the header, with a check sum of its own. */
void frame_encode(const struct frame *frame, uint8_t header[FRAME_HEADER_BYTES]);

/* Reads a header. Anything that is not a frame of this version within the limits fails, with a
 * sentence that says which field is wrong; `frame` is then untouched. */
enum tern_status frame_decode(const uint8_t header[FRAME_HEADER_BYTES], struct frame *frame);

/* The check sum for body_check. */
uint32_t frame_body_check(const void *body, size_t bytes);

/* The bytes of one bit for each of n keys. */
static inline size_t frame_bits_bytes(size_t n)
{
    return (n + 7) / 8;
}

static inline uint32_t frame_payload_bytes(const struct frame *frame)
{
    return frame->body_bytes - frame->keys_bytes;
}

/* "PULL" and so on, for sentences. */
const char *frame_kind_name(enum frame_kind kind);

#endif
