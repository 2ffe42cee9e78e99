/*
 * stream - connected byte streams: TCP (IPv4, IPv6), TLS 1.3 over TCP, shared memory between processes that meet
 * at a Unix socket, and pairs inside one process. One interface; nothing above knows which it has.
 *
 * Addresses are written "host:port", "[v6]:port", "unix:/path" or, for nodes of one process, "here:name".
 * Port 0 lets the system choose.
 *
 * Streams never block: read and write do what they can now, and stream_wait waits. A stream belongs
 * to one thread at a time; different streams are independent.
 *
 * Off loopback, plain TCP is refused unless the options say insecure; a TLS stream delivers no byte
 * before both sides have shown a certificate of the common authority. Unix sockets are always plain;
 * a stream over one fails unless both processes belong to the same user.
 *
 * Statuses: TERN_NETWORK for what is wrong here (address, port, certificates, descriptors),
 * TERN_NO_MEMORY. Failures of a stream are those of its peer, and their sentences name it.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/status.h"

struct net; /* options and credentials shared by a node's streams; immutable once open */
struct stream;
struct listener;

struct net_options {
    const char *certificate; /* PEM files; all three for TLS, or all NULL for plain */
    const char *key;
    const char *authority;
    bool insecure; /* plain TCP beyond loopback */
};

enum tern_status net_open(const struct net_options *options, struct net **net);
void net_close(struct net *net);

/* Begins to connect; the handshake goes on in stream_write, stream_read, stream_wait and
 * stream_established. A peer that cannot be reached fails the stream, not this call: the first read or
 * write says so. A name with several addresses is looked up and tried here, which may take seconds. */
enum tern_status stream_connect(struct net *net, const char *address, struct stream **stream);

/* Two connected ends inside this process, each with room for about `capacity` bytes under way (less
 * when they are written in crumbs, and no more than the system grants: a write may always be partial). */
enum tern_status stream_pair(size_t capacity, struct stream *ends[2]);

void stream_close(struct stream *stream);

/* Gets the descriptor of a segment (base/segment.h) from the process that listens at a Unix socket and has made it, waiting
 * until `until_ns` at most. TERN_PEER: that process is not there. */
enum tern_status stream_fetch_segment(const char *address, uint64_t number, uint64_t until_ns,
                                      int *fd);

/* Reads or writes what is possible now: the number of bytes, 0 if none can be now, -1 if the stream
 * has ended or failed (tern_error() says how, naming the peer). Bytes that a write did not take are the
 * first of the next write: TLS may have sealed them already. After a write failed, what the peer sent
 * before may still be read. */
ssize_t stream_read(struct stream *stream, const struct iovec *parts, int n_parts);
ssize_t stream_write(struct stream *stream, const struct iovec *parts, int n_parts);

/* The peer of a stream through shared memory may learn of what was written only now, or when much of it has
 * come together. To be called before waiting with poll (stream_wait does it); other streams tell at once. */
void stream_flush(struct stream *stream);

/* Whether the handshake is over, after carrying it on as far as it goes now. The owner of an accepted
 * stream closes it when that takes more than a few seconds. (The side that connected is done first:
 * with TLS the other may still refuse its certificate, which its first read then reports.) */
bool stream_established(struct stream *stream);

/* Whether any bytes have come, be they of a handshake. */
bool stream_heard(const struct stream *stream);

/* Whether a stream that was to connect has failed because nobody listens at the address, as when the process there has ended. */
bool stream_is_unserved(const struct stream *stream);

/* Waits until the stream may be read (or, if `write`, written) or timeout_ms (-1: for ever) passed;
 * false on time-out. Bytes a TLS stream has already decrypted count as readable. */
bool stream_wait(struct stream *stream, bool write, int timeout_ms);

/* For waiting on many: the descriptor to poll, and the events it needs now to make progress with reading
 * or writing, which need not be POLLIN for the one and POLLOUT for the other. A stream with stream_pending() is
 * readable, or has failed, whatever poll says. */
int stream_fd(const struct stream *stream);
short stream_events(const struct stream *stream, bool read, bool write);
bool stream_pending(const struct stream *stream);

/* The host that an accepted stream comes from, as a number: the address, or of IPv6 the network of 64 bits, within
 * which a host can take any address. 0 for processes of this host that use a Unix socket. */
uint64_t stream_source(const struct stream *stream);

/* Checks that the other side may be this node. A certificate may be bound to the numbers of nodes (tern ca node
 * --nodes), and if this node's own is, the other must also be. Streams without TLS pass. */
enum tern_status stream_check_node(const struct stream *stream, uint32_t node);

/* "127.0.0.1:4711", for sentences. */
const char *stream_peer(const struct stream *stream);

enum tern_status listener_open(struct net *net, const char *address, struct listener **listener);
void listener_close(struct listener *listener);

/* The address others can connect to, with the port the system chose. */
const char *listener_address(const struct listener *listener);

/* Makes that of a listener at all addresses of this machine the one it has towards a peer elsewhere, if it knows a
 * way there; else it is the one towards the world. */
void listener_face(struct listener *listener, const char *peer);
int listener_fd(const struct listener *listener);

/* The next connection, or NULL if there is none now. */
struct stream *listener_accept(struct listener *listener);

/* Connections that were refused for want of a valid certificate (TLS failures of accepted streams). */
uint64_t net_refused(const struct net *net);

#endif
