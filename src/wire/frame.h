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
    FRAME_VERSION = 1,
    FRAME_HEADER_BYTES = 56,
    FRAME_MAX_KEYS = 1 << 16,
    FRAME_MAX_TABLES = 1 << 16, /* that `table` can tell apart */
    FRAME_MAX_BODY_BYTES =
        (1 << 24) + (1 << 20), /* one value of TERN_MAX_VALUE_BYTES, and its keys */
};

enum frame_kind {
    /* Requests, from the side that opened the connection. */
    FRAME_HELLO = 1, /* the first one: who calls */
    FRAME_PULL,      /* keys -> VALUES */
    FRAME_PUSH,      /* keys, payload of updates -> DONE */
    FRAME_SET,       /* keys, payload of values -> DONE */
    FRAME_RANGE,     /* a..b, count at most -> VALUES: keys alone */
    FRAME_JOIN,      /* a: incarnation; payload: my address -> ROSTER, when all are there */
    FRAME_TABLE,     /* a, b: see group.c; payload: name and shape -> DONE with the table's number in `table` */
    FRAME_BARRIER,   /* a: its number -> DONE, when all are there */
    FRAME_REDUCE,    /* a: its number, b: type; payload: elements -> VALUES: sums over all nodes */
    FRAME_BROADCAST, /* a: its number, b: root; payload of the root's -> VALUES */
    FRAME_SYNC,      /* keys, payload of changes -> VALUES with keys, a and b as of NEWS */
    FRAME_ROUND,     /* sections (section.h) -> NEWS: a round of a managed table; b: FRAME_KNOCK, or doubling.h */
    FRAME_PING,      /* -> DONE; a: 1 + the number of a dead node, or 0 */
    FRAME_BYE,       /* an orderly end -> DONE */
    FRAME_TASK,      /* a: its time, b: its number; payload: task.h -> DONE, when it is noted */
    FRAME_FINISHED,  /* a: the task's number, b: whose; payload: task.h -> DONE */
    /* Replies; `number` is the request's. */
    FRAME_WELCOME, /* to HELLO; a: my incarnation, b: the last request executed */
    FRAME_VALUES,
    FRAME_DONE,
    FRAME_ROSTER, /* payload: all addresses */
    FRAME_MOVED,  /* payload: a u32 location for each key of the request, none of which was served */
    FRAME_NEWS,   /* to ROUND: sections; a: how much is left to tell, 0 for nothing; b: see sweep.h */
    FRAME_ERROR,  /* status; payload: the sentence */
    FRAME_HOLD,   /* no answer yet, but a sign of life: the request waits for its table to be opened */
    FRAME_KINDS,
};

enum frame_flags {
    FRAME_KEYS_DELTA = 1, /* keys ascend and are coded as differences; else 8 bytes each */
    FRAME_CHECKED = 2,    /* body_check covers the body */
    FRAME_FLAGS = 3,      /* all that are known */
};

#define FRAME_KNOCK (UINT64_MAX - 1) /* b of a ROUND that asks whether the table is open, and no more */

struct frame {
    enum frame_kind kind;
    uint8_t flags;
    uint16_t table;
    uint16_t status; /* of an ERROR: an enum tern_status */
    uint32_t epoch;
    uint64_t number; /* requests of a lane are numbered from 1; HELLO and WELCOME have 0 */
    uint32_t count;
    uint32_t keys_bytes;
    uint32_t body_bytes; /* keys and payload */
    uint32_t body_check;
    uint64_t a, b;
};

/* Writes the header, with a check sum of its own. */
void frame_encode(const struct frame *frame, uint8_t header[FRAME_HEADER_BYTES]);

/* Reads a header. Anything that is not a frame of this version within the limits fails, with a
 * sentence that says which field is wrong; `frame` is then untouched. */
enum tern_status frame_decode(const uint8_t header[FRAME_HEADER_BYTES], struct frame *frame);

/* The check sum for body_check. */
uint32_t frame_body_check(const void *body, size_t bytes);

static inline uint32_t frame_payload_bytes(const struct frame *frame)
{
    return frame->body_bytes - frame->keys_bytes;
}

/* "PULL" and so on, for sentences. */
const char *frame_kind_name(enum frame_kind kind);

#endif
