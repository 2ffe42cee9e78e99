/*
 * connection - frames over a stream, for both sides: a cutter of what comes, and what is still to be written.
 *
 * A connection belongs to one thread at a time.
 */
#ifndef NODE_CONNECTION_H
#define NODE_CONNECTION_H

#include "net/stream.h"
#include "node/hello.h"
#include "wire/cutter.h"

struct connection {
    struct stream *stream; /* NULL: not connected */
    struct cutter cutter;  /* of what comes */
    struct buffer out;
    struct handshake handshake;
    bool is_proved;    /* the other side has proved that it has the job's token */
    bool was_answered; /* some bytes have come on an earlier stream of this connection */
    struct slice rest; /* to be written after `out` */
    bool has_more;     /* the last read found all it had room for */
};

enum { READ_BYTES = 128 << 10 }; /* much more at a time would not stay in a core's cache */

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

#endif
