/*
 * connection - frames over a stream, for both sides: bytes in, whole frames out, and back.
 *
 * A connection belongs to one thread at a time.
 */
#ifndef NODE_CONNECTION_H
#define NODE_CONNECTION_H

#include "base/buffer.h"
#include "net/stream.h"
#include "wire/frame.h"

struct connection {
    struct stream *stream; /* NULL: not connected */
    struct buffer in, out;
    struct slice rest; /* to be written after `out` */
    bool has_header; /* `frame` is the header at the head of `in`, or that of the body at `place` */
    struct frame frame;
    uint8_t *place; /* where the body goes, if not to `in`; NULL: to `in` */
    size_t n_placed;
    bool has_more; /* the last read found all it had room for */
};

enum { READ_BYTES = 128 << 10 }; /* much more at a time would not stay in a core's cache */

/* What was found at the head of the bytes received. */
enum found { FOUND_NOTHING, FOUND_FRAME, FOUND_NONSENSE };

/* Closes the stream and forgets all bytes. */
void connection_close(struct connection *connection);

/* Frees the buffers of a closed connection. */
void connection_fini(struct connection *connection);

/* Reads what there is, at most about `most` bytes at a time unless a frame needs more. -1: the stream
 * has ended or failed, with its sentence; else the bytes read. */
ssize_t connection_read(struct connection *connection, size_t most);

/* Writes what can be written of `out` and `rest`; false if the stream has failed, with its sentence. `more`:
 * the caller comes again before it waits, so the peer need not be woken yet. */
bool connection_write(struct connection *connection, bool more);

static inline size_t connection_unsent(const struct connection *connection)
{
    return buffer_size(&connection->out) + connection->rest.n;
}

/* Has the body of the frame, of which connection_next has found no more than a part yet, read to `place`,
 * which must stay there until connection_drop or connection_close. The frame has no check sum. */
void connection_put(struct connection *connection, uint8_t *place);

/* Looks for a whole frame at the head: connection->frame and *body, which stay until the next call of
 * connection_read or connection_drop. FOUND_NONSENSE: not a frame, with a sentence. Frames longer than
 * `limit` bytes are nonsense, too. */
enum found connection_next(struct connection *connection, size_t limit, const uint8_t **body);

/* Removes the frame that connection_next found. */
void connection_drop(struct connection *connection);

#endif
