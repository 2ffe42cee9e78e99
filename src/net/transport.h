/*
 * transport - what the transports of src/net share; nothing outside src/net includes it.
 *
 * A stream is a descriptor with the functions of its transport. stream.c does what is common:
 * it carries a connection on until it is established, remembers a final failure and repeats its
 * sentence, and waits. The functions of a transport are called only while the stream has not failed,
 * and read and write only once it is established.
 */
#ifndef NET_TRANSPORT_H
#define NET_TRANSPORT_H

#include <stdatomic.h>

#include "net/address.h"
#include "net/stream.h"

struct net {
    struct tls *tls; /* NULL: plain */
    bool insecure;
    _Atomic uint64_t n_refused;
};

struct stream_ops {
    ssize_t (*read)(struct stream *stream, const struct iovec *parts, int n_parts);
    ssize_t (*write)(struct stream *stream, const struct iovec *parts, int n_parts);
    /* Tells the peer of what was written; NULL: write does. */
    void (*flush)(struct stream *stream);
    /* The events to poll for; NULL: those of a socket. */
    short (*events)(const struct stream *stream, bool read, bool write);
    /* Carries on with connecting: sets `established`, calls stream_fail, or leaves it under way. */
    void (*advance)(struct stream *stream);
    /* The events to poll for while connecting. */
    short (*advance_events)(const struct stream *stream);
    bool (*pending)(const struct stream *stream);
    /* Frees all but the descriptor and the stream itself. */
    void (*close)(struct stream *stream);
};

struct stream {
    const struct stream_ops *ops;
    struct net *net;
    struct tls_session *session; /* of a TLS stream */
    struct memory *memory;       /* of one through shared memory */
    int fd;
    bool established;
    bool accepted;
    uint64_t source; /* see stream_source */
    bool heard;      /* bytes have come */
    bool unserved;   /* see stream_is_unserved */
    bool failed;     /* for good, and `why` says how */
    char why[360];
    char peer[ADDRESS_TEXT_BYTES];
};

/* A stream on a descriptor, which it owns from now on; NULL, with the descriptor closed, for want of
 * memory. */
struct stream *stream_new(struct net *net, const struct stream_ops *ops, int fd);

/* Fails the stream for good. The sentence begins with "node at PEER ". Returns -1. */
ssize_t stream_fail(struct stream *stream, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* ---- tcp.c: TCP and Unix sockets, and what is made of them ------------------------------------ */

extern const struct stream_ops socket_ops;

/* recv and send of parts, without SIGPIPE; as recvmsg and sendmsg. */
ssize_t socket_receive(int fd, const struct iovec *parts, int n_parts);
ssize_t socket_send(int fd, const struct iovec *parts, int n_parts);

/* Whether the socket is connected; a failed attempt fails the stream. */
bool socket_connected(struct stream *stream);

/* What an errno of a socket means for its user. */
const char *socket_verdict(int error);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* Has a stream of socket_ops on a Unix socket, connected and not yet used, go through shared memory if that
 * is possible. */
void memory_begin(struct stream *stream);

/* Asks the other side of a Unix socket that was not used yet for a segment: its descriptor, or -1 if there is none. False
 * if no answer comes. */
bool memory_ask_segment(int socket_fd, uint64_t number, uint64_t until_ns, int *fd);

/* ---- pair.c: connections within this process, to "here:NAME" ---------------------------------- */

struct door;

bool door_is_meant(const char *address);
enum tern_status door_open(const char *name, struct door **door);
void door_close(struct door *door);
int door_fd(const struct door *door);
enum tern_status door_connect(struct net *net, const char *name, struct stream **stream);

/* The next connection, or NULL if there is none now. */
struct stream *door_answer(const struct door *door, struct net *net);

/* ---- tls.c ----------------------------------------------------------------------------------- */

enum tern_status tls_open(const struct net_options *options, struct tls **tls);
void tls_close(struct tls *tls);

/* stream_check_node of a stream with TLS. */
enum tern_status tls_check_node(const struct stream *stream, uint32_t node);

/* Puts TLS on a stream of socket_ops that has not been read or written yet. */
enum tern_status tls_wrap(struct stream *stream);

#endif
