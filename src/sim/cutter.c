/* cutter - see cutter.h. */
#include "sim/cutter.h"

enum cut cutter_next(struct cutter *cutter, const uint8_t **body)
{
    const size_t size = buffer_size(&cutter->in);
    if (size < FRAME_HEADER_BYTES)
        return CUT_NOTHING;
    if (frame_decode(buffer_head(&cutter->in), &cutter->frame))
        return CUT_NONSENSE;
    if (size < FRAME_HEADER_BYTES + cutter->frame.body_bytes)
        return CUT_NOTHING;
    *body = buffer_head(&cutter->in) + FRAME_HEADER_BYTES;
    return CUT_FRAME;
}

void cutter_drop(struct cutter *cutter)
{
    buffer_consume(&cutter->in, FRAME_HEADER_BYTES + cutter->frame.body_bytes);
}
