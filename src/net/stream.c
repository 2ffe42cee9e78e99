/*
 * stream - what all transports have in common; see transport.h.
 */
#include "net/transport.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- The options and credentials of a node ---------------------------------------------------- */

enum tern_status net_open(const struct net_options *options, struct net **net)
{
    int n_given =
        (options->certificate != NULL) + (options->key != NULL) + (options->authority != NULL);
    if (n_given != 0 && n_given != 3)
        return fail(TERN_NETWORK,
                    "TLS needs the certificate, its key and the authority; the %s is "
                    "missing",
                    options->certificate == NULL ? "certificate"
                    : options->key == NULL       ? "key"
                                                 : "authority");
    struct net *made = calloc(1, sizeof *made);
    if (made == NULL)
        return fail(TERN_NO_MEMORY, "no memory for the network of this node");
    made->insecure = options->insecure;
    if (n_given == 3) {
        enum tern_status status = tls_open(options, &made->tls);
        if (status != TERN_OK) {
            free(made);
            return status;
        }
    }
    *net = made;
    return TERN_OK;
}

void net_close(struct net *net)
{
    if (net == NULL)
        return;
    tls_close(net->tls);
    free(net);
}

uint64_t net_refused(const struct net *net)
{
    return atomic_load_explicit(&net->n_refused,
                                memory_order_relaxed); /* a count, orders nothing */
}

/* ---- Streams ---------------------------------------------------------------------------------- */

struct stream *stream_new(struct net *net, const struct stream_ops *ops, int fd)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        close(fd);
        return NULL;
    }
    stream->net = net;
    stream->ops = ops;
    stream->fd = fd;
    return stream;
}

void stream_close(struct stream *stream)
{
    if (stream == NULL)
        return;
    stream->ops->close(stream);
    close(stream->fd);
    free(stream);
}

ssize_t stream_fail(struct stream *stream, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(stream->why, sizeof stream->why, format, arguments);
    va_end(arguments);
    stream->failed = true;
    fail(TERN_PEER, "node at %s %s", stream->peer, stream->why);
    return -1;
}

bool stream_established(struct stream *stream)
{
    if (!stream->established && !stream->failed)
        stream->ops->advance(stream);
    return stream->established && !stream->failed;
}

bool stream_heard(const struct stream *stream)
{
    return stream->heard;
}

bool stream_is_unserved(const struct stream *stream)
{
    return stream->unserved;
}

/* 1 when bytes may flow, 0 when not yet, -1 when the stream has failed. */
static int ready(struct stream *stream)
{
    if (stream->established && !stream->failed)
        return 1;
    if (stream_established(stream))
        return 1;
    if (!stream->failed)
        return 0;
    fail(TERN_PEER, "node at %s %s", stream->peer, stream->why);
    return -1;
}

ssize_t stream_read(struct stream *stream, const struct iovec *parts, int n_parts)
{
    int is_ready = ready(stream);
    return is_ready == 1 ? stream->ops->read(stream, parts, n_parts) : is_ready;
}

ssize_t stream_write(struct stream *stream, const struct iovec *parts, int n_parts)
{
    int is_ready = ready(stream);
    return is_ready == 1 ? stream->ops->write(stream, parts, n_parts) : is_ready;
}

int stream_fd(const struct stream *stream)
{
    return stream->fd;
}

void stream_flush(struct stream *stream)
{
    if (stream->established && !stream->failed && stream->ops->flush)
        stream->ops->flush(stream);
}

short stream_events(const struct stream *stream, bool read, bool write)
{
    if (!stream->established && !stream->failed)
        return stream->ops->advance_events(stream);
    if (stream->ops->events)
        return stream->ops->events(stream, read, write);
    return (short)((read ? POLLIN : 0) | (write ? POLLOUT : 0));
}

bool stream_pending(const struct stream *stream)
{
    return stream->failed || stream->ops->pending(stream);
}

enum tern_status stream_check_node(const struct stream *stream, uint32_t node)
{
    return stream->session != NULL ? tls_check_node(stream, node) : TERN_OK;
}

uint64_t stream_source(const struct stream *stream)
{
    return stream->source;
}

const char *stream_peer(const struct stream *stream)
{
    return stream->peer;
}

/* ---- Waiting ---------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The rest of a time-out that began at `start_ms`. */
static int left_ms(int64_t start_ms, int timeout_ms)
{
    if (timeout_ms <= 0)
        return timeout_ms;
    int64_t left = start_ms + timeout_ms - now_ms();
    return left > 0 ? (int)left : 0;
}

bool stream_wait(struct stream *stream, bool write, int timeout_ms)
{
    int64_t start_ms = timeout_ms > 0 ? now_ms() : 0;
    stream_flush(stream);
    for (int wait_ms = timeout_ms;; wait_ms = left_ms(start_ms, timeout_ms)) {
        if (stream->failed || (!write && stream_pending(stream)))
            return true;
        bool connecting = !stream->established;
        struct pollfd poll_for = {.fd = stream->fd, .events = stream_events(stream, !write, write)};
        int n = poll(&poll_for, 1, wait_ms);
        if (n == 0)
            return false;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || !connecting)
            return true; /* when poll itself fails, reading will say what is wrong */
        stream->ops->advance(stream);
    }
}
