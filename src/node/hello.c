/* hello - see hello.h. */
#include "node/hello.h"

#include <inttypes.h>
#include <string.h>

#include "wire/bytes.h"

bool hello_append(struct buffer *out, const struct place *place, const struct core *core,
                  uint32_t lane, uint32_t shard)
{
    uint8_t payload[HELLO_MAX_BYTES], header[FRAME_HEADER_BYTES];
    size_t token_bytes = strlen(place->token);
    put_u32(payload, core->node);
    put_u32(payload + 4, core->n_nodes);
    memcpy(payload + 8, place->token, token_bytes);
    struct frame frame = {.kind = FRAME_HELLO,
                          .table = (uint16_t)shard,
                          .epoch = core->epoch,
                          .body_bytes = (uint32_t)(8 + token_bytes),
                          .a = core->incarnation,
                          .b = lane};
    frame_encode(&frame, header);
    return buffer_append(out, header, sizeof header) &&
           buffer_append(out, payload, frame.body_bytes);
}

enum tern_status hello_read(const struct frame *frame, const uint8_t *body,
                            const struct place *place, struct hello *hello)
{
    if (frame->kind != FRAME_HELLO || frame->keys_bytes || frame->body_bytes < 8)
        return fail(TERN_PEER, "the first frame of a connection must be HELLO");
    size_t token_bytes = frame->body_bytes - 8;
    if (token_bytes != strlen(place->token) || memcmp(body + 8, place->token, token_bytes) != 0)
        return fail(TERN_PEER, "the caller belongs to another job (TERN_TOKEN differs)");
    uint32_t node = get_u32(body), n_nodes = get_u32(body + 4);
    if (n_nodes != place->n_nodes || node >= n_nodes)
        return fail(TERN_PEER,
                    "the caller is node %" PRIu32 " of %" PRIu32 ", but this cluster has %" PRIu32
                    " nodes",
                    node, n_nodes, place->n_nodes);
    *hello = (struct hello){.node = node,
                            .shard = frame->table,
                            .incarnation = frame->a,
                            .lane = frame->b};
    return TERN_OK;
}
