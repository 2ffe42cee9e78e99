/*
 * cutter - cuts whole frames out of a stream of bytes. The body of a long frame can be received in its final place.
 */
#ifndef WIRE_CUTTER_H
#define WIRE_CUTTER_H

#include "base/buffer.h"
#include "wire/frame.h"

struct cutter {
    struct buffer in; /* bytes that were received */
    bool
        has_header; /* `frame` is the header at the head of `in`, or that of the body at `target` */
    struct frame frame;
    uint8_t *target; /* where the body goes; NULL: to `in` */
    size_t n_received;
};

/* What is at the head of the bytes received. */
enum cut { CUT_NOTHING, CUT_FRAME, CUT_NONSENSE };

/* Looks for a whole frame at the head: cutter->frame and *body, which stay until bytes are added or dropped.
 * CUT_NONSENSE: it is not a frame, or one with a damaged body or a body of more than `limit` bytes, with a sentence. */
enum cut cutter_next(struct cutter *cutter, size_t limit, const uint8_t **body);

/* Removes the frame that was found. */
void cutter_drop(struct cutter *cutter);

/* Forgets all bytes; and frees the buffer. */
void cutter_reset(struct cutter *cutter);
void cutter_fini(struct cutter *cutter);

/* Has the rest of the body received at `target`, which stays until cutter_drop or cutter_reset. For a frame of which only
 * a part has come, and that has no check sum. */
void cutter_receive_at(struct cutter *cutter, uint8_t *target);

/* The bytes still missing of the frame at the head, if its header has come. */
size_t cutter_missing(const struct cutter *cutter);

#endif
