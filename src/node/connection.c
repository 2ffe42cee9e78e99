/* connection - see connection.h. */
#include "node/connection.h"

/* Read behind the body of a frame that is read by itself: so few bytes that little of the next frame has to be moved. */
enum { BEYOND_BYTES = 4 << 10, LONG_BYTES = 16 << 10 };

void connection_close(struct connection *connection)
{
    if (connection->stream) {
        connection->was_answered |= stream_heard(connection->stream);
        stream_close(connection->stream);
    }
    connection->stream = NULL;
    cutter_reset(&connection->cutter);
    connection->rest = (struct slice){0};
    connection->out.begin = connection->out.end = 0;
}

void connection_fini(struct connection *connection)
{
    connection_close(connection);
    cutter_fini(&connection->cutter);
    buffer_free(&connection->out);
}

ssize_t connection_read(struct connection *connection, size_t most)
{
    struct cutter *cutter = &connection->cutter;
    size_t missing = cutter_missing(cutter);
    size_t to_target = cutter->target ? missing : 0;
    size_t room = to_target ? BEYOND_BYTES : missing > LONG_BYTES ? missing + BEYOND_BYTES : most;
    uint8_t *to = buffer_reserve(&cutter->in, room);
    if (!to) {
        fail(TERN_NO_MEMORY, "no memory for %zu bytes from %s", room,
             stream_peer(connection->stream));
        return -1;
    }
    struct iovec parts[] = {{.iov_base = to, .iov_len = room}, {.iov_base = to, .iov_len = room}};
    if (to_target)
        parts[0] = (struct iovec){cutter->target + cutter->n_received, to_target};
    ssize_t n = stream_read(connection->stream, parts, to_target ? 2 : 1);
    if (n < 0)
        return n;
    size_t placed = (size_t)n < to_target ? (size_t)n : to_target;
    cutter->n_received += placed;
    cutter->in.end += (size_t)n - placed;
    connection->has_more = (size_t)n == to_target + room;
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
