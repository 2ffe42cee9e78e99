/*
 * tcp - streams and listeners on TCP and Unix sockets.
 *
 * A TCP connection is made without blocking, except that a name with several addresses is tried one
 * after the other, each but the last for at most TRY_MS. A Unix connection is there at once; only when
 * the listener has a full queue does the call wait, for at most QUEUE_S.
 *
 * A failure to connect is the stream's failure, seen by the first read or write, whether the system
 * reported it at once or later. Failures of stream_connect itself are those of the address and of this
 * process.
 *
 * Unix sockets are plain even when the node has certificates. Both sides check instead that the other process
 * belongs to the same user (SO_PEERCRED), whoever made the socket file.
 */
#include "net/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    BACKLOG = 4096,
    TRY_MS = 2000,
    QUEUE_S = 5,
    /* A host that vanished is noticed after VANISHED_MS, whether bytes to it are under way or, by
     * keep-alive probes, not. So is one that takes nothing for so long although it is there: links
     * resume after a broken connection. */
    VANISHED_MS = 10000,
    PROBE_AFTER_S = 4,
    PROBE_EVERY_S = 2,
    PROBES = 3,
    FETCH_AGAIN_MS = 10,
    /* TCP buffers are left to the system, which sizes them as well as any figure set here, and gives
     * up doing so when one is. Unix sockets have a fixed and smaller one. */
    LOCAL_ROOM_BYTES = 1 << 20,
};

/* ---- Bytes ------------------------------------------------------------------------------------ */

static int at_most_iov_max(int n_parts)
{
    return n_parts < IOV_MAX ? n_parts : IOV_MAX;
}

ssize_t socket_receive(int fd, const struct iovec *parts, int n_parts)
{
    ssize_t n;
    do {
        if (n_parts == 1) {
            n = recv(fd, parts[0].iov_base, parts[0].iov_len, 0);
        } else {
            struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                                     .msg_iovlen = (size_t)at_most_iov_max(n_parts)};
            n = recvmsg(fd, &message, 0);
        }
    } while (n < 0 && errno == EINTR);
    return n;
}

ssize_t socket_send(int fd, const struct iovec *parts, int n_parts)
{
    ssize_t n;
    do {
        if (n_parts == 1) {
            n = send(fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL);
        } else {
            struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                                     .msg_iovlen = (size_t)at_most_iov_max(n_parts)};
            n = sendmsg(fd, &message, MSG_NOSIGNAL);
        }
    } while (n < 0 && errno == EINTR);
    return n;
}

const char *socket_verdict(int error)
{
    switch (error) {
    case ECONNREFUSED:
    case ENOENT: /* of a Unix socket */
    case EACCES:
    case EAGAIN:
        return "refused the connection";
    case ECONNRESET:
    case EPIPE:
        return "broke the connection";
    case ETIMEDOUT:
        return "does not answer any more";
    default:
        return "cannot be reached";
    }
}

/* A failure of one call, not of the stream: what the peer sent before it went can still be read. */
static ssize_t broken(const struct stream *stream)
{
    fail(TERN_PEER, "node at %s %s: %s", stream->peer, socket_verdict(errno), strerror(errno));
    return -1;
}

static bool has_room(const struct iovec *parts, int n_parts)
{
    for (int i = 0; i < n_parts; i++)
        if (parts[i].iov_len > 0)
            return true;
    return false;
}

static ssize_t socket_read(struct stream *stream, const struct iovec *parts, int n_parts)
{
    ssize_t n = socket_receive(stream->fd, parts, n_parts);
    stream->heard |= n > 0;
    if (n > 0)
        return n;
    if (n < 0)
        return errno == EAGAIN ? 0 : broken(stream);
    if (!has_room(parts, n_parts))
        return 0;
    fail(TERN_PEER, "node at %s closed the connection", stream->peer);
    return -1;
}

static ssize_t socket_write(struct stream *stream, const struct iovec *parts, int n_parts)
{
    ssize_t n = socket_send(stream->fd, parts, n_parts);
    if (n >= 0)
        return n;
    return errno == EAGAIN ? 0 : broken(stream);
}

static void socket_advance(struct stream *stream)
{
    stream->established = socket_connected(stream);
}

static short socket_advance_events(const struct stream *stream)
{
    (void)stream;
    return POLLIN | POLLOUT;
}

static bool socket_pending(const struct stream *stream)
{
    (void)stream;
    return false;
}

static void socket_close(struct stream *stream)
{
    (void)stream;
}

const struct stream_ops socket_ops = {
    .read = socket_read,
    .write = socket_write,
    .advance = socket_advance,
    .advance_events = socket_advance_events,
    .pending = socket_pending,
    .close = socket_close,
};

/* ---- Connecting ------------------------------------------------------------------------------- */

static bool same_place(const struct address *a, const struct address *b)
{
    return a->n_bytes == b->n_bytes && memcmp(&a->any, &b->any, a->n_bytes) == 0;
}

bool socket_connected(struct stream *stream)
{
    int error = 0;
    socklen_t n_error = sizeof error;
    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &n_error) != 0)
        error = errno;
    if (error != 0) {
        stream->unserved = error == ECONNREFUSED;
        stream_fail(stream, "%s: %s", socket_verdict(error), strerror(error));
        return false;
    }
    struct address here = {.n_bytes = sizeof here.local};
    struct address there = {.n_bytes = sizeof there.local};
    if (getpeername(stream->fd, &there.any, &there.n_bytes) != 0)
        return false; /* still under way */
    /* A port nobody listens on may be the one the system chose for our own end: TCP then connects
     * the socket to itself. */
    if (there.any.sa_family != AF_UNIX && getsockname(stream->fd, &here.any, &here.n_bytes) == 0 &&
        same_place(&here, &there)) {
        stream_fail(stream, "refused the connection: nobody listens there");
        return false;
    }
    return true;
}

/* Options are improvements: a system without one of them still works. */
static void set_option(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof value);
}

static void tune(int fd, const struct address *peer)
{
    if (peer->any.sa_family == AF_UNIX) {
        set_option(fd, SOL_SOCKET, SO_SNDBUF, LOCAL_ROOM_BYTES);
        return;
    }
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, VANISHED_MS);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, PROBE_AFTER_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_EVERY_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    /* Between machines the administrator's choice stands; on loopback bbr only slows. */
    if (address_is_local(peer))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", strlen("cubic"));
}

static enum tern_status open_socket(const struct address *address, int *fd)
{
    *fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return fail(TERN_NETWORK, "a socket cannot be opened: %s", strerror(errno));
    return TERN_OK;
}

/* Connects a Unix socket. Without blocking it would fail while the listener's queue is full, and
 * poll cannot tell when that ends. */
static int connect_local(int fd, const struct address *address)
{
    int flags = fcntl(fd, F_GETFL);
    struct timeval limit = {.tv_sec = QUEUE_S};
    fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    int result;
    do
        result = connect(fd, &address->any, address->n_bytes);
    while (result != 0 && errno == EINTR);
    int error = errno;
    fcntl(fd, F_SETFL, flags);
    errno = error;
    return result;
}

/* The other side of a Unix socket: of the process that connected, or that listened. */
static struct ucred peer_of(int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t n_bytes = sizeof peer;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_bytes);
    return peer;
}

/* Begins to use a Unix socket that is connected, if the other side belongs to this user. */
static void begin_local(struct stream *stream)
{
    const struct ucred peer = peer_of(stream->fd);
    if (peer.uid == geteuid())
        memory_begin(stream);
    else
        stream_fail(stream, "belongs to another user (uid %u; this process is uid %u)",
                    (unsigned)peer.uid, (unsigned)geteuid());
}

static enum tern_status connect_to(struct net *net, const struct address *address,
                                   struct stream **stream)
{
    int fd;
    enum tern_status status = open_socket(address, &fd);
    if (status != TERN_OK)
        return status;
    struct stream *made = stream_new(net, &socket_ops, fd);
    if (made == NULL)
        return fail(TERN_NO_MEMORY, "no memory for a stream");
    address_text(address, made->peer);
    bool local = address->any.sa_family == AF_UNIX;
    tune(fd, address);
    int result = local ? connect_local(fd, address) : connect(fd, &address->any, address->n_bytes);
    made->unserved = result != 0 && errno == ECONNREFUSED;
    if (result != 0 && (local || (errno != EINPROGRESS && errno != EINTR)))
        stream_fail(made, "%s: %s", socket_verdict(errno),
                    errno == EAGAIN ? "too many others are waiting there" : strerror(errno));
    else if (local)
        begin_local(made);
    *stream = made;
    return TERN_OK;
}

static bool try_out(struct stream *stream)
{
    struct pollfd poll_for = {.fd = stream->fd, .events = POLLOUT};
    if (!stream->failed && poll(&poll_for, 1, TRY_MS) > 0)
        stream_established(stream);
    return stream->established;
}

static enum tern_status refuse_plain(const char *doing, const char *text)
{
    return fail(
        TERN_NETWORK,
        "%s %s without certificates would leave this machine unprotected: give the node a "
        "certificate, a key and an authority (see 'tern ca --help'), or set TERN_INSECURE=1",
        doing, text);
}

/* Whether a socket there may be plain. */
static enum tern_status check_plain(const struct net *net, const char *doing,
                                    const struct address *address)
{
    char text[ADDRESS_TEXT_BYTES];
    if (net->tls != NULL || net->insecure || address_is_local(address))
        return TERN_OK;
    address_text(address, text);
    return refuse_plain(doing, text);
}

enum tern_status stream_connect(struct net *net, const char *address, struct stream **stream)
{
    if (door_is_meant(address))
        return door_connect(net, address, stream);
    struct address found[ADDRESS_FOUND_MAX];
    int n_found = 0;
    enum tern_status status = address_find(address, false, found, &n_found);
    for (int i = 0; i < n_found && status == TERN_OK; i++)
        status = check_plain(net, "connecting to", &found[i]);
    if (status != TERN_OK)
        return status;
    struct stream *made = NULL;
    for (int i = 0; i < n_found; i++) {
        stream_close(made);
        made = NULL;
        status = connect_to(net, &found[i], &made);
        if (status == TERN_OK && i + 1 < n_found && try_out(made))
            break;
    }
    if (status != TERN_OK)
        return status;
    if (net->tls != NULL && found[0].any.sa_family != AF_UNIX && !made->failed) {
        status = tls_wrap(made);
        if (status != TERN_OK) {
            stream_close(made);
            return status;
        }
    }
    *stream = made;
    return TERN_OK;
}

/* Tries once to get a segment from a process of this user; false if it cannot be asked. */
static bool ask_segment(const struct address *address, uint64_t number, uint64_t until_ns, int *fd)
{
    int socket_fd;
    if (open_socket(address, &socket_fd))
        return false;
    const bool asked = !connect_local(socket_fd, address) && peer_of(socket_fd).uid == geteuid() &&
                       memory_ask_segment(socket_fd, number, until_ns, fd);
    close(socket_fd);
    return asked;
}

enum tern_status stream_fetch_segment(const char *address, uint64_t number, uint64_t until_ns,
                                      int *fd)
{
    struct address found[ADDRESS_FOUND_MAX];
    int n_found = 0;
    enum tern_status status = address_find(address, false, found, &n_found);
    if (status)
        return status;
    *fd = -1;
    bool asked = false;
    while (!(asked = ask_segment(&found[0], number, until_ns, fd)) && clock_now_ns() < until_ns)
        poll(NULL, 0, FETCH_AGAIN_MS);
    if (*fd >= 0)
        return TERN_OK;
    return asked ? fail(TERN_NO_MEMORY, "the process at %s did not hand it over", address)
                 : fail(TERN_PEER, "the process at %s cannot be asked for it", address);
}

/* ---- Listening -------------------------------------------------------------------------------- */

struct listener {
    struct net *net;
    struct door *door; /* of nodes of this process; then nothing below but the text counts */
    int fd;
    int spare_fd; /* given up for a moment to turn a connection away when descriptors run out */
    struct address bound;
    char text[ADDRESS_TEXT_BYTES];
    dev_t device; /* of the file of a Unix socket, to remove no other */
    ino_t inode;
};

/* Whether the file is a socket nobody listens on. */
static bool is_stale(const struct address *address)
{
    struct stat about;
    if (lstat(address->local.sun_path, &about) != 0 || !S_ISSOCK(about.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool stale = connect(fd, &address->any, address->n_bytes) != 0 && errno == ECONNREFUSED;
    close(fd);
    return stale;
}

static int bind_local(struct listener *listener)
{
    const struct address *address = &listener->bound;
    const char *path = address->local.sun_path;
    int result = bind(listener->fd, &address->any, address->n_bytes);
    if (result != 0 && errno == EADDRINUSE) {
        if (is_stale(address) && unlink(path) == 0)
            result = bind(listener->fd, &address->any, address->n_bytes);
        else
            errno = EADDRINUSE;
    }
    struct stat about;
    if (result == 0 && stat(path, &about) == 0) {
        listener->device = about.st_dev;
        listener->inode = about.st_ino;
        result = chmod(path, 0600); /* nobody can connect before listen() */
    }
    return result;
}

static int bind_internet(struct listener *listener)
{
    struct address *address = &listener->bound;
    set_option(listener->fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->any.sa_family == AF_INET6)
        set_option(listener->fd, IPPROTO_IPV6, IPV6_V6ONLY, !address_is_wildcard(address));
    int result = bind(listener->fd, &address->any, address->n_bytes);
    if (result == 0)
        result = getsockname(listener->fd, &address->any, &address->n_bytes);
    return result;
}

/* Makes an address of all of the machine's the one it has towards `peer`, if it knows a way there. */
static bool face(struct address *address, const struct address *peer)
{
    struct address own;
    bool is_v6 = address->any.sa_family == AF_INET6;
    in_port_t port = is_v6 ? address->v6.sin6_port : address->v4.sin_port;
    if (!address_towards(peer, &own) || (!is_v6 && own.any.sa_family != AF_INET))
        return false;
    if (own.any.sa_family == AF_INET6)
        own.v6.sin6_port = port;
    else
        own.v4.sin_port = port;
    *address = own;
    return true;
}

/* What others can reach a socket on all addresses at: the address the system would send from. The
 * addresses asked for belong to documentation, and nothing is sent. */
static void outward(struct address *address)
{
    static const struct in6_addr anywhere6 = {.s6_addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
    struct address there = *address;
    if (address->any.sa_family == AF_INET)
        there.v4.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1 */
    else
        there.v6.sin6_addr = anywhere6;
    if (face(address, &there))
        return;
    if (address->any.sa_family == AF_INET)
        address->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        address->v6.sin6_addr = in6addr_loopback;
}

static void unlink_own(const struct listener *listener)
{
    struct stat about;
    if (listener->bound.any.sa_family == AF_UNIX && listener->inode != 0 &&
        stat(listener->bound.local.sun_path, &about) == 0 && about.st_dev == listener->device &&
        about.st_ino == listener->inode)
        unlink(listener->bound.local.sun_path);
}

static enum tern_status listen_at(struct listener *listener, const struct address *address)
{
    listener->bound = *address;
    enum tern_status status = open_socket(address, &listener->fd);
    if (status != TERN_OK)
        return status;
    int result = address->any.sa_family == AF_UNIX ? bind_local(listener) : bind_internet(listener);
    if (result == 0)
        result = listen(listener->fd, BACKLOG);
    if (result == 0)
        return TERN_OK;
    int error = errno;
    unlink_own(listener);
    close(listener->fd);
    char text[ADDRESS_TEXT_BYTES];
    address_text(address, text);
    return fail(TERN_NETWORK, "cannot listen at %s: %s", text, strerror(error));
}

static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Listens to nodes of this process. */
static enum tern_status open_door(struct net *net, const char *name, struct listener **listener)
{
    struct listener *made = calloc(1, sizeof *made);
    if (made == NULL)
        return fail(TERN_NO_MEMORY, "no memory to listen at %s", name);
    enum tern_status status = door_open(name, &made->door);
    if (status != TERN_OK) {
        free(made);
        return status;
    }
    made->net = net;
    snprintf(made->text, sizeof made->text, "%s", name);
    *listener = made;
    return TERN_OK;
}

enum tern_status listener_open(struct net *net, const char *address, struct listener **listener)
{
    if (door_is_meant(address))
        return open_door(net, address, listener);
    struct address found[ADDRESS_FOUND_MAX];
    int n_found = 0;
    enum tern_status status = address_find(address, true, found, &n_found);
    for (int i = 0; i < n_found && status == TERN_OK; i++)
        status = check_plain(net, "listening at", &found[i]);
    if (status != TERN_OK)
        return status;
    struct listener *made = calloc(1, sizeof *made);
    if (made == NULL)
        return fail(TERN_NO_MEMORY, "no memory to listen at %s", address);
    made->net = net;
    for (int i = 0; i < n_found; i++) {
        status = listen_at(made, &found[i]);
        if (status == TERN_OK)
            break;
    }
    if (status != TERN_OK) {
        free(made);
        return status;
    }
    struct address reachable = made->bound;
    if (address_is_wildcard(&reachable))
        outward(&reachable);
    address_text(&reachable, made->text);
    made->spare_fd = open_spare();
    *listener = made;
    return TERN_OK;
}

void listener_close(struct listener *listener)
{
    if (listener == NULL)
        return;
    if (listener->door != NULL) {
        door_close(listener->door);
    } else {
        unlink_own(listener);
        close(listener->fd);
        if (listener->spare_fd >= 0)
            close(listener->spare_fd);
    }
    free(listener);
}

const char *listener_address(const struct listener *listener)
{
    return listener->text;
}

void listener_face(struct listener *listener, const char *peer)
{
    struct address found[ADDRESS_FOUND_MAX];
    int n_found = 0;
    if (listener->door != NULL || !address_is_wildcard(&listener->bound) ||
        address_find(peer, false, found, &n_found) != TERN_OK)
        return;
    struct address reachable = listener->bound;
    for (int i = 0; i < n_found; i++) {
        if (!address_is_local(&found[i]) && face(&reachable, &found[i])) {
            address_text(&reachable, listener->text);
            return;
        }
    }
}

int listener_fd(const struct listener *listener)
{
    return listener->door != NULL ? door_fd(listener->door) : listener->fd;
}

/* Descriptors have run out. A connection left in the queue would keep the listener readable and its
 * owner spinning, so it is taken and closed: its peer sees the end and tries again. */
static void turn_away(struct listener *listener)
{
    if (listener->spare_fd >= 0) {
        close(listener->spare_fd);
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            close(fd);
        listener->spare_fd = open_spare();
        if (fd >= 0)
            return;
    } else {
        listener->spare_fd = open_spare();
    }
    poll(NULL, 0, 10); /* somebody else took even that one */
}

static void name_peer(struct stream *stream, const struct listener *listener,
                      const struct address *peer)
{
    if (peer->any.sa_family != AF_UNIX) {
        address_text(peer, stream->peer);
        return;
    }
    snprintf(stream->peer, sizeof stream->peer, "%.120s (process %ld)", listener->text,
             (long)peer_of(stream->fd).pid);
}

static struct stream *welcome(struct listener *listener, int fd, const struct address *peer)
{
    tune(fd, peer);
    struct stream *stream = stream_new(listener->net, &socket_ops, fd);
    if (stream == NULL)
        return NULL;
    name_peer(stream, listener, peer);
    stream->accepted = true;
    stream->source = address_source(peer);
    stream->established = true;
    if (peer->any.sa_family == AF_UNIX)
        begin_local(stream);
    if (listener->net->tls != NULL && peer->any.sa_family != AF_UNIX &&
        tls_wrap(stream) != TERN_OK) {
        stream_close(stream);
        return NULL;
    }
    return stream;
}

struct stream *listener_accept(struct listener *listener)
{
    if (listener->door != NULL)
        return door_answer(listener->door, listener->net);
    /* Connections that broke while they waited are passed over, but not for ever. */
    for (int i = 0; i < BACKLOG; i++) {
        struct address peer = {.n_bytes = sizeof peer.local};
        int fd = accept4(listener->fd, &peer.any, &peer.n_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            return welcome(listener, fd, &peer);
        if (errno == EAGAIN)
            return NULL;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            turn_away(listener);
            return NULL;
        }
    }
    return NULL;
}
