/* reply - see reply.h. */
#include "core/reply.h"

#include <string.h>

struct frame reply_frame(const struct frame *request, uint32_t epoch, enum frame_kind kind)
{
    return (struct frame){
        .kind = kind,
        .flags = request->flags & FRAME_CHECKED,
        .epoch = epoch,
        .number = request->number,
    };
}

uint8_t *reply_reserve(struct buffer *out, size_t bytes)
{
    uint8_t *room = buffer_reserve(out, FRAME_HEADER_BYTES + bytes);
    return room ? room + FRAME_HEADER_BYTES : NULL;
}

void reply_commit(struct buffer *out, const struct frame *frame)
{
    uint8_t *header = out->bytes + out->end;
    struct frame sent = *frame;
    if (sent.flags & FRAME_CHECKED)
        sent.body_check = frame_body_check(header + FRAME_HEADER_BYTES, sent.body_bytes);
    frame_encode(&sent, header);
    out->end += FRAME_HEADER_BYTES + sent.body_bytes;
}

/* Completes a frame with its payload and appends it. */
static bool append(struct buffer *out, struct frame *frame, const void *payload, size_t bytes)
{
    uint8_t *body = reply_reserve(out, bytes);
    if (!body)
        return false;
    if (bytes)
        memcpy(body, payload, bytes);
    frame->body_bytes = (uint32_t)bytes;
    reply_commit(out, frame);
    return true;
}

bool reply_append(struct buffer *out, const struct frame *request, uint32_t epoch,
                  enum frame_kind kind, uint64_t field, const void *payload, size_t bytes)
{
    struct frame frame = reply_frame(request, epoch, kind);
    frame.fields.raw[0] = field;
    return append(out, &frame, payload, bytes);
}

bool reply_error(struct buffer *out, const struct frame *request, uint32_t epoch,
                 enum tern_status status, const char *sentence)
{
    struct frame frame = reply_frame(request, epoch, FRAME_ERROR);
    frame.status = (uint16_t)status;
    return append(out, &frame, sentence, strlen(sentence));
}
