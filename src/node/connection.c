/* connection - see connection.h. */
#include "node/connection.h"

#include <inttypes.h>
#include <string.h>

/* Read behind the body of a frame that is read by itself: so few that of the next one, too, little has to be
 * moved. */
enum { BEYOND_BYTES = 4 << 10, LONG_BYTES = 16 << 10 };

void connection_close(struct connection *connection)
{
    if (connection->stream)
        stream_close(connection->stream);
    connection->stream = NULL;
    connection->has_header = false;
    connection->place = NULL;
    connection->rest = (struct slice){0};
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
    if (connection->place)
        return connection->frame.body_bytes - connection->n_placed;
    size_t size = buffer_size(&connection->in);
    size_t whole = FRAME_HEADER_BYTES + connection->frame.body_bytes;
    return connection->has_header && whole > size ? whole - size : 0;
}

ssize_t connection_read(struct connection *connection, size_t most)
{
    size_t missing = missing_bytes(connection);
    size_t to_place = connection->place ? missing : 0;
    size_t room = to_place ? BEYOND_BYTES : missing > LONG_BYTES ? missing + BEYOND_BYTES : most;
    uint8_t *to = buffer_reserve(&connection->in, room);
    if (!to) {
        fail(TERN_NO_MEMORY, "no memory for %zu bytes from %s", room,
             stream_peer(connection->stream));
        return -1;
    }
    struct iovec parts[] = {{.iov_base = to, .iov_len = room}, {.iov_base = to, .iov_len = room}};
    if (to_place)
        parts[0] = (struct iovec){connection->place + connection->n_placed, to_place};
    ssize_t n = stream_read(connection->stream, parts, to_place ? 2 : 1);
    if (n < 0)
        return n;
    size_t placed = (size_t)n < to_place ? (size_t)n : to_place;
    connection->n_placed += placed;
    connection->in.end += (size_t)n - placed;
    connection->has_more = (size_t)n == to_place + room;
    return n;
}

bool connection_write(struct connection *connection, bool more)
{
    struct slice *rest = &connection->rest;
    while (connection_unsent(connection)) {
        size_t n_out = buffer_size(&connection->out);
        struct iovec parts[] = {{.iov_base = buffer_head(&connection->out), .iov_len = n_out},
                                {.iov_base = (void *)(uintptr_t)rest->bytes, .iov_len = rest->n}};
        ssize_t n = n_out ? stream_write(connection->stream, parts, rest->n ? 2 : 1)
                          : stream_write(connection->stream, parts + 1, 1);
        if (n < 0)
            return false;
        if (n == 0)
            break;
        size_t of_out = (size_t)n < n_out ? (size_t)n : n_out;
        buffer_consume(&connection->out, of_out);
        rest->bytes += (size_t)n - of_out;
        rest->n -= (size_t)n - of_out;
    }
    if (!more)
        stream_flush(connection->stream);
    return true;
}

void connection_put(struct connection *connection, uint8_t *place)
{
    size_t n = buffer_size(&connection->in) - FRAME_HEADER_BYTES;
    memcpy(place, buffer_head(&connection->in) + FRAME_HEADER_BYTES, n);
    buffer_consume(&connection->in, FRAME_HEADER_BYTES + n);
    connection->place = place;
    connection->n_placed = n;
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
    *body =
        connection->place ? connection->place : buffer_head(&connection->in) + FRAME_HEADER_BYTES;
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
    if (!connection->place)
        buffer_consume(&connection->in, FRAME_HEADER_BYTES + connection->frame.body_bytes);
    connection->place = NULL;
    connection->has_header = false;
}
