/*
 * reply - appends the answer to a request to what is about to be sent.
 *
 * A reply repeats the request's number and, if the request's body was covered by a check sum, its own
 * body is too. Most bodies are at hand and go out with reply_append(). One that is yet to be made, or
 * a header that says more, is written in place:
 *
 *     uint8_t *body = reply_reserve(out, bytes);
 *     ... fill in the body ...
 *     struct frame frame = reply_frame(request, epoch, kind);
 *     frame.body_bytes = bytes;
 *     reply_commit(out, &frame);
 *
 * Until the commit the buffer holds what it held. Any thread; the buffer has one owner.
 */
#ifndef CORE_REPLY_H
#define CORE_REPLY_H

#include "base/buffer.h"
#include "wire/frame.h"

/* The header of a reply without a body; the caller sets what else the kind carries. */
struct frame reply_frame(const struct frame *request, uint32_t epoch, enum frame_kind kind);

/* Room for a header and, at the address returned, a body of `bytes`; NULL when memory runs out. */
uint8_t *reply_reserve(struct buffer *out, size_t bytes);

/* Appends the frame whose body of frame->body_bytes, at most as many as reserved, was just written. */
void reply_commit(struct buffer *out, const struct frame *frame);

/* Appends a frame with the given `a` and a payload of at most FRAME_MAX_BODY_BYTES and no keys; false,
 * and nothing appended, when memory runs out. */
bool reply_append(struct buffer *out, const struct frame *request, uint32_t epoch,
                  enum frame_kind kind, uint64_t field, const void *payload, size_t bytes);

/* Appends an ERROR. `status` is not TERN_OK; the sentence is usually tern_error(). */
bool reply_error(struct buffer *out, const struct frame *request, uint32_t epoch,
                 enum tern_status status, const char *sentence);

#endif
