/*
 * memory - streams of two processes of one host through memory they share. The kernel copies nothing; a Unix
 * socket is what the stream begins with and what tells each side that the other is gone.
 *
 * Whoever connects to a Unix socket makes the memory and sends one byte: OFFER_MEMORY, with the descriptor, or
 * OFFER_SOCKET if it has none. The other answers which of the two it is to be. When a descriptor does
 * not arrive, because something between them passes on bytes alone, it is the socket, and the stream becomes
 * an ordinary one.
 *
 * A connection may also be for one segment of memory (base/segment.h) alone: it begins with ASK_SEGMENT and the segment's
 * number, the answer is GIVE_SEGMENT with the descriptor, or OFFER_SOCKET if there is none, and then it ends.
 *
 * There is a ring of bytes for each direction, with the numbers of bytes written and read since the
 * beginning. A side that has found nothing to read, or no room to write, says so in the ring (`reader_waits`,
 * `writer_waits`) and looks once more; a byte on the socket, a *bell*, then tells it that this has changed. So
 * poll on the socket waits for both, and what is there already is told to poll as "can be written", which
 * the socket always can. Bells carry nothing and may come in vain.
 *
 * To be woken costs more than to copy, so a writer is woken when half the ring is free, and a reader when half of
 * it is full or at memory_flush. A ring that is found empty is filled from its beginning again: short messages
 * use a few of its pages, and always the same.
 *
 * The other process may write what it likes to the memory. Its numbers are checked, and what is read is a
 * copy. The memory is sealed against being cut short under us.
 */
#include "net/transport.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/segment.h"

enum {
    OFFER_MEMORY = 'M',
    OFFER_SOCKET = 'S',
    ASK_SEGMENT = 'A',
    GIVE_SEGMENT = 'G',
    RING_BYTES = 1 << 20, /* a power of two */
    LINE_BYTES = 64,
    HEAD_BYTES = 4096, /* the two heads, in front of the bytes of both rings */
    MEMORY_BYTES = HEAD_BYTES + 2 * RING_BYTES,
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

/* What two processes know of a ring. A side that stores a number and then looks at the other's flag, or the other
 * way round, does so in one order that all see (seq_cst): one of the two sides notices the other. */
struct head {
    alignas(LINE_BYTES) _Atomic uint64_t n_written;
    _Atomic uint64_t
        origin; /* the byte at the beginning of the ring; set while the ring is empty */
    alignas(LINE_BYTES) _Atomic uint64_t n_read;
    alignas(LINE_BYTES) _Atomic uint32_t reader_waits;
    _Atomic uint32_t writer_waits;
};

/* A ring as one side has it. `n` and, of the one that is written, `origin` are its own word on what the head tells
 * the other. */
struct ring {
    struct head *head;
    char *bytes;
    uint64_t n, origin;
};

struct memory {
    char *base;
    struct ring in, out;
    bool ended;  /* the other side has closed its socket */
    bool unsaid; /* something was written of which the reader may not know */
};

/* ---- The rings -------------------------------------------------------------------------------- */

static char *place_of(const struct ring *ring, uint64_t origin, size_t *n)
{
    size_t at = (size_t)(ring->n - origin) % RING_BYTES;
    if (*n > RING_BYTES - at)
        *n = RING_BYTES - at;
    return ring->bytes + at;
}

/* The bytes that can be read; more than RING_BYTES: nonsense. */
static uint64_t readable(const struct memory *memory)
{
    return atomic_load(&memory->in.head->n_written) - memory->in.n;
}

/* The bytes in the ring that is written; more than RING_BYTES: nonsense. */
static uint64_t unread(const struct memory *memory)
{
    return memory->out.n - atomic_load(&memory->out.head->n_read);
}

/* Copies up to n bytes from the ring into the parts. */
static size_t take(struct ring *ring, size_t n, const struct iovec *parts, int n_parts)
{
    uint64_t origin =
        atomic_load_explicit(&ring->head->origin, memory_order_relaxed); /* n_written */
    uint64_t begin = ring->n;
    for (int i = 0; i < n_parts && n; i++) {
        char *to = parts[i].iov_base;
        size_t left = parts[i].iov_len < n ? parts[i].iov_len : n;
        n -= left;
        while (left) {
            size_t now = left;
            const char *from = place_of(ring, origin, &now);
            memcpy(to, from, now);
            to += now;
            left -= now;
            ring->n += now;
        }
    }
    return (size_t)(ring->n - begin);
}

/* Copies up to n of the bytes of the parts, after the first `skip`, into the ring. */
static size_t give(struct ring *ring, size_t n, const struct iovec *parts, int n_parts, size_t skip)
{
    uint64_t begin = ring->n;
    for (int i = 0; i < n_parts && n; i++) {
        size_t passed = skip < parts[i].iov_len ? skip : parts[i].iov_len;
        const char *from = (const char *)parts[i].iov_base + passed;
        size_t left = parts[i].iov_len - passed < n ? parts[i].iov_len - passed : n;
        skip -= passed;
        n -= left;
        while (left) {
            size_t now = left;
            char *to = place_of(ring, ring->origin, &now);
            memcpy(to, from, now);
            from += now;
            left -= now;
            ring->n += now;
        }
    }
    return (size_t)(ring->n - begin);
}

/* ---- Bells ------------------------------------------------------------------------------------ */

/* Wakes the other side if it has said that it waits. False if it is gone. */
static bool ring_bell(struct stream *stream, _Atomic uint32_t *waits)
{
    if (!atomic_load(waits) || !atomic_exchange(waits, 0))
        return true;
    char bell = 0;
    struct iovec part = {.iov_base = &bell, .iov_len = 1};
    return socket_send(stream->fd, &part, 1) >= 0 || errno == EAGAIN;
}

/* Takes the bells that have come, and notices when the other side is gone. */
static void hear_bells(struct stream *stream)
{
    char bells[LINE_BYTES];
    struct iovec part = {.iov_base = bells, .iov_len = sizeof bells};
    ssize_t n = socket_receive(stream->fd, &part, 1);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        stream->memory->ended = true;
}

/* Tells the reader of what was written. */
static bool tell_reader(struct stream *stream)
{
    stream->memory->unsaid = false;
    return ring_bell(stream, &stream->memory->out.head->reader_waits);
}

/* ---- Bytes ------------------------------------------------------------------------------------ */

static size_t bytes_of(const struct iovec *parts, int n_parts)
{
    size_t n = 0;
    for (int i = 0; i < n_parts; i++)
        n += parts[i].iov_len;
    return n;
}

static ssize_t nonsense(struct stream *stream)
{
    return stream_fail(stream, "has written nonsense to the memory shared with it");
}

static ssize_t closed(const struct stream *stream)
{
    fail(TERN_PEER, "node at %s closed the connection", stream->peer);
    return -1;
}

static ssize_t memory_read(struct stream *stream, const struct iovec *parts, int n_parts)
{
    struct memory *memory = stream->memory;
    struct ring *in = &memory->in;
    uint64_t there = readable(memory);
    if (there == 0) {
        hear_bells(stream);
        atomic_store(&in->head->reader_waits, 1);
        there = readable(memory);
        if (there == 0)
            return memory->ended && bytes_of(parts, n_parts) ? closed(stream) : 0;
    }
    if (there > RING_BYTES)
        return nonsense(stream);
    size_t n = take(in, (size_t)there, parts, n_parts);
    atomic_store(&in->head->n_read, in->n);
    if (there - n <= RING_BYTES / 2)
        ring_bell(stream, &in->head->writer_waits); /* if it is gone, the next read says so */
    if (n == there && !atomic_load(&in->head->reader_waits)) {
        hear_bells(stream); /* the one that told of these bytes */
        atomic_store(&in->head->reader_waits, 1);
    }
    return (ssize_t)n;
}

static ssize_t memory_write(struct stream *stream, const struct iovec *parts, int n_parts)
{
    struct memory *memory = stream->memory;
    struct ring *out = &memory->out;
    size_t n_bytes = bytes_of(parts, n_parts), n = 0;
    for (bool waits = false; n < n_bytes; waits = true) {
        if (waits)
            atomic_store(&out->head->writer_waits, 1);
        uint64_t full = unread(memory);
        if (full > RING_BYTES)
            return nonsense(stream);
        if (full == 0) {
            out->origin = out->n;
            atomic_store_explicit(&out->head->origin, out->n, memory_order_relaxed); /* n_written */
        }
        n += give(out, RING_BYTES - (size_t)full, parts, n_parts, n);
        atomic_store(&out->head->n_written, out->n);
        if (waits)
            break;
    }
    memory->unsaid |= n > 0;
    if (n == 0 && n_bytes)
        hear_bells(stream);
    bool is_there = unread(memory) < RING_BYTES / 2 || tell_reader(stream);
    return (memory->ended || !is_there) && n < n_bytes ? closed(stream) : (ssize_t)n;
}

static void memory_flush(struct stream *stream)
{
    if (stream->memory->unsaid)
        tell_reader(stream); /* if it is gone, the next read says so */
}

/* What can be done at once, or has not been tried, is told as POLLOUT; the rest is told by bells. */
static short memory_events(const struct stream *stream, bool read, bool write)
{
    const struct memory *memory = stream->memory;
    bool can_read = readable(memory) || !atomic_load(&memory->in.head->reader_waits);
    bool can_write =
        unread(memory) <= RING_BYTES / 2 || !atomic_load(&memory->out.head->writer_waits);
    bool now = (read && can_read) || (write && can_write);
    return (short)((read || write ? POLLIN : 0) | (now ? POLLOUT : 0));
}

static bool memory_pending(const struct stream *stream)
{
    (void)stream;
    return false; /* see memory_events */
}

static void memory_free(struct memory *memory)
{
    if (memory && memory->base)
        munmap(memory->base, MEMORY_BYTES);
    free(memory);
}

static void memory_close(struct stream *stream)
{
    memory_free(stream->memory);
}

/* ---- The beginning ---------------------------------------------------------------------------- */

/* Ring 0 is written by who connected, ring 1 by who accepted. */
static struct ring ring_in(char *base, bool second)
{
    static_assert(2 * sizeof(struct head) <= HEAD_BYTES, "the heads are in front of the rings");
    return (struct ring){.head = (struct head *)(void *)base + second,
                         .bytes = base + HEAD_BYTES + (second ? RING_BYTES : 0)};
}

/* The memory behind a descriptor; NULL if it cannot be had. */
static struct memory *map_memory(int fd, bool accepted)
{
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return NULL;
    char *base = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        free(memory);
        return NULL;
    }
    memory->base = base;
    memory->in = ring_in(base, !accepted);
    memory->out = ring_in(base, accepted);
    return memory;
}

/* New memory and its descriptor, or -1. Both sides wait for something to read from the beginning. */
static int make_memory(struct memory **memory)
{
    int fd = memfd_create("tern", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, MEMORY_BYTES) || fcntl(fd, F_ADD_SEALS, SEALS) ||
        !(*memory = map_memory(fd, false))) {
        close(fd);
        return -1;
    }
    atomic_store(&(*memory)->in.head->reader_waits, 1);
    atomic_store(&(*memory)->out.head->reader_waits, 1);
    return fd;
}

/* Whether a descriptor that came is of memory as it should be. */
static bool is_sound(int fd)
{
    struct stat about;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &about) &&
           about.st_size == MEMORY_BYTES;
}

/* Room for one descriptor beside a message. */
union beside {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* Sends a byte, and a descriptor if it is not -1. */
static bool send_offer(int socket_fd, char offer, int fd)
{
    union beside beside = {0};
    struct iovec part = {.iov_base = &offer, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = beside.bytes;
        message.msg_controllen = sizeof beside.bytes;
        beside.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(&beside.header), &fd, sizeof fd);
    }
    ssize_t n;
    do
        n = sendmsg(socket_fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

/* The descriptors beside a message: the first, if it is the only one, or -1. Others were not agreed on, and are
 * closed here: the kernel has opened them all in this process. */
static int take_descriptor(struct msghdr *message)
{
    int fd = -1, n = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t n_bytes = header->cmsg_len - CMSG_LEN(0);
        for (size_t at = 0; at + sizeof fd <= n_bytes; at += sizeof fd, n++) {
            if (fd >= 0)
                close(fd);
            memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
        }
    }
    if (n > 1) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Receives a byte, and in *fd a descriptor or -1. As recv. */
static ssize_t receive_offer(int socket_fd, char *offer, int *fd)
{
    union beside beside;
    struct iovec part = {.iov_base = offer, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = beside.bytes,
                             .msg_controllen = sizeof beside.bytes};
    ssize_t n;
    do
        n = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    *fd = n >= 0 ? take_descriptor(&message) : -1;
    return n;
}

static void become_socket(struct stream *stream)
{
    memory_free(stream->memory);
    stream->memory = NULL;
    stream->ops = &socket_ops;
}

/* Gives the segment whose number follows, and ends the connection. */
static void give_segment(struct stream *stream)
{
    uint64_t number = 0;
    const ssize_t n = recv(stream->fd, &number, sizeof number, MSG_DONTWAIT);
    const int fd = n == (ssize_t)sizeof number ? segment_descriptor(number) : -1;
    send_offer(stream->fd, fd >= 0 ? GIVE_SEGMENT : OFFER_SOCKET, fd);
    if (fd >= 0)
        close(fd);
    stream->heard = fd < 0; /* else it has got what it came for, and was not refused */
    stream_fail(stream, "asked for a segment of memory");
}

/* Takes the offer of a side that connected, and answers it. */
static void answer(struct stream *stream, char offer, int fd)
{
    if (offer == ASK_SEGMENT) {
        give_segment(stream);
        return;
    }
    if (offer != OFFER_MEMORY && offer != OFFER_SOCKET) {
        stream_fail(stream, "does not speak as a node does");
        return;
    }
    if (offer == OFFER_MEMORY && fd >= 0 && is_sound(fd))
        stream->memory = map_memory(fd, true);
    if (!send_offer(stream->fd, stream->memory ? OFFER_MEMORY : OFFER_SOCKET, -1))
        stream_fail(stream, "%s: %s", socket_verdict(errno), strerror(errno));
    if (!stream->memory)
        become_socket(stream);
}

/* Takes the answer to an offer. */
static void take_answer(struct stream *stream, char offer)
{
    if (offer == OFFER_SOCKET)
        become_socket(stream);
    else if (offer != OFFER_MEMORY || !stream->memory)
        stream_fail(stream, "does not speak as a node does");
}

static void memory_advance(struct stream *stream)
{
    char offer;
    int fd;
    ssize_t n = receive_offer(stream->fd, &offer, &fd);
    if (n < 0 && errno == EAGAIN)
        return;
    stream->heard |= n > 0;
    if (n == 0)
        stream_fail(stream, "closed the connection");
    else if (n < 0)
        stream_fail(stream, "%s: %s", socket_verdict(errno), strerror(errno));
    else if (stream->accepted)
        answer(stream, offer, fd);
    else
        take_answer(stream, offer);
    if (fd >= 0)
        close(fd);
    stream->established = !stream->failed;
}

static short memory_advance_events(const struct stream *stream)
{
    (void)stream;
    return POLLIN;
}

static const struct stream_ops memory_ops = {
    .read = memory_read,
    .write = memory_write,
    .flush = memory_flush,
    .events = memory_events,
    .advance = memory_advance,
    .advance_events = memory_advance_events,
    .pending = memory_pending,
    .close = memory_close,
};

bool memory_ask_segment(int socket_fd, uint64_t number, uint64_t until_ns, int *fd)
{
    char question[1 + sizeof number] = {ASK_SEGMENT}, answer;
    memcpy(question + 1, &number, sizeof number);
    struct iovec part = {.iov_base = question, .iov_len = sizeof question};
    if (socket_send(socket_fd, &part, 1) != (ssize_t)sizeof question)
        return false;
    ssize_t n;
    while ((n = receive_offer(socket_fd, &answer, fd)) < 0 && errno == EAGAIN) {
        const uint64_t now_ns = clock_now_ns();
        if (now_ns >= until_ns)
            return false;
        struct pollfd poll_for = {.fd = socket_fd, .events = POLLIN};
        poll(&poll_for, 1, (int)((until_ns - now_ns) / 1000000) + 1);
    }
    return n > 0;
}

void memory_begin(struct stream *stream)
{
    stream->ops = &memory_ops;
    stream->established = false;
    if (stream->accepted)
        return;
    int fd = make_memory(&stream->memory);
    if (!send_offer(stream->fd, fd >= 0 ? OFFER_MEMORY : OFFER_SOCKET, fd))
        stream_fail(stream, "%s: %s", socket_verdict(errno), strerror(errno));
    if (fd >= 0)
        close(fd);
}
