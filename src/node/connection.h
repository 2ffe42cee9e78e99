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
    bool has_header; /* `frame` is the header at the head of `in` */
    struct frame frame;
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

/* Writes what can be written of `out`; false if the stream has failed, with its sentence. */
bool connection_write(struct connection *connection);

/* Looks for a whole frame at the head: connection->frame and *body, which stay until the next call of
 * connection_read or connection_drop. FOUND_NONSENSE: not a frame, with a sentence. Frames longer than
 * `limit` bytes are nonsense, too. */
enum found connection_next(struct connection *connection, size_t limit, const uint8_t **body);

/* Removes the frame that connection_next found. */
void connection_drop(struct connection *connection);

#endif
