/* connection - see connection.h. */
#include "node/connection.h"

#include <inttypes.h>

void connection_close(struct connection *connection)
{
    if (connection->stream)
        stream_close(connection->stream);
    connection->stream = NULL;
    connection->has_header = false;
    connection->in.begin = connection->in.end = 0;
    connection->out.begin = connection->out.end = 0;
}

void connection_fini(struct connection *connection)
{
    connection_close(connection);
    buffer_free(&connection->in);
    buffer_free(&connection->out);
}

/* The bytes still missing of the frame at the head, if its header is known. */
static size_t missing_bytes(const struct connection *connection)
{
    size_t size = buffer_size(&connection->in);
    size_t whole = FRAME_HEADER_BYTES + connection->frame.body_bytes;
    return connection->has_header && whole > size ? whole - size : 0;
}

ssize_t connection_read(struct connection *connection, size_t most)
{
    size_t missing = missing_bytes(connection);
    size_t room = missing > most ? missing : most;
    uint8_t *to = buffer_reserve(&connection->in, room);
    if (!to) {
        fail(TERN_NO_MEMORY, "no memory for %zu bytes from %s", room,
             stream_peer(connection->stream));
        return -1;
    }
    struct iovec part = {.iov_base = to, .iov_len = room};
    ssize_t n = stream_read(connection->stream, &part, 1);
    if (n > 0)
        connection->in.end += (size_t)n;
    return n;
}

bool connection_write(struct connection *connection)
{
    while (buffer_size(&connection->out)) {
        struct iovec part = {.iov_base = buffer_head(&connection->out),
                             .iov_len = buffer_size(&connection->out)};
        ssize_t n = stream_write(connection->stream, &part, 1);
        if (n < 0)
            return false;
        if (n == 0)
            return true;
        buffer_consume(&connection->out, (size_t)n);
    }
    return true;
}

enum found connection_next(struct connection *connection, size_t limit, const uint8_t **body)
{
    size_t size = buffer_size(&connection->in);
    if (!connection->has_header) {
        if (size < FRAME_HEADER_BYTES)
            return FOUND_NOTHING;
        if (frame_decode(buffer_head(&connection->in), &connection->frame))
            return FOUND_NONSENSE;
        if (connection->frame.body_bytes > limit) {
            fail(TERN_PEER, "%s announces %" PRIu32 " bytes where at most %zu are allowed",
                 stream_peer(connection->stream), connection->frame.body_bytes, limit);
            return FOUND_NONSENSE;
        }
        connection->has_header = true;
    }
    if (missing_bytes(connection))
        return FOUND_NOTHING;
    *body = buffer_head(&connection->in) + FRAME_HEADER_BYTES;
    const struct frame *frame = &connection->frame;
    if (frame->flags & FRAME_CHECKED &&
        frame_body_check(*body, frame->body_bytes) != frame->body_check) {
        fail(TERN_PEER, "a frame from %s arrived damaged", stream_peer(connection->stream));
        return FOUND_NONSENSE;
    }
    return FOUND_FRAME;
}

void connection_drop(struct connection *connection)
{
    buffer_consume(&connection->in, FRAME_HEADER_BYTES + connection->frame.body_bytes);
    connection->has_header = false;
}
