/* cutter - see cutter.h. */
#include "wire/cutter.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"

size_t cutter_missing(const struct cutter *cutter)
{
    if (cutter->target)
        return cutter->frame.body_bytes - cutter->n_received;
    const size_t size = buffer_size(&cutter->in);
    const size_t whole = FRAME_HEADER_BYTES + cutter->frame.body_bytes;
    return cutter->has_header && whole > size ? whole - size : 0;
}

void cutter_receive_at(struct cutter *cutter, uint8_t *target)
{
    const size_t n = buffer_size(&cutter->in) - FRAME_HEADER_BYTES;
    memcpy(target, buffer_head(&cutter->in) + FRAME_HEADER_BYTES, n);
    buffer_consume(&cutter->in, FRAME_HEADER_BYTES + n);
    cutter->target = target;
    cutter->n_received = n;
}

enum cut cutter_next(struct cutter *cutter, size_t limit, const uint8_t **body)
{
    if (!cutter->has_header) {
        if (buffer_size(&cutter->in) < FRAME_HEADER_BYTES)
            return CUT_NOTHING;
        if (frame_decode(buffer_head(&cutter->in), &cutter->frame))
            return CUT_NONSENSE;
        if (cutter->frame.body_bytes > limit) {
            fail(TERN_PEER,
                 "a frame of %" PRIu32 " bytes was announced where at most %zu are allowed",
                 cutter->frame.body_bytes, limit);
            return CUT_NONSENSE;
        }
        cutter->has_header = true;
    }
    if (cutter_missing(cutter))
        return CUT_NOTHING;
    const struct frame *frame = &cutter->frame;
    *body = cutter->target ? cutter->target : buffer_head(&cutter->in) + FRAME_HEADER_BYTES;
    if (frame->flags & FRAME_CHECKED &&
        frame_body_check(*body, frame->body_bytes) != frame->body_check) {
        fail(TERN_PEER, "a frame arrived damaged");
        return CUT_NONSENSE;
    }
    return CUT_FRAME;
}

void cutter_drop(struct cutter *cutter)
{
    if (!cutter->target)
        buffer_consume(&cutter->in, FRAME_HEADER_BYTES + cutter->frame.body_bytes);
    cutter->target = NULL;
    cutter->has_header = false;
}

void cutter_reset(struct cutter *cutter)
{
    cutter->has_header = false;
    cutter->target = NULL;
    cutter->in.begin = cutter->in.end = 0;
}

void cutter_fini(struct cutter *cutter)
{
    cutter_reset(cutter);
    buffer_free(&cutter->in);
}
