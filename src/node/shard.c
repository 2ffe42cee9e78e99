/* shard - see shard.h. */
#include "node/shard.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "node/connection.h"
#include "node/engine.h"
#include "node/hello.h"

enum {
    EVENTS = 64,
    /* Of answers not yet taken by a peer: no more of its requests are served then. Small, so that answers
     * are sent while they are in a core's cache. */
    OUT_LIMIT_BYTES = 128 << 10,
    /* Short answers wait for company while more requests are at hand: each that is sent wakes its peer.
     * Up to so many bytes of them, and of requests read meanwhile. */
    TOGETHER_BYTES = 4 << 10,
    TURN_BYTES = 512 << 10,
    DRIVEN_MS = 2,   /* without a worker that drives, until the threads take over */
    TICK_MS = 100,   /* how often the coordinator looks for dead nodes */
    HELLO_MS = 5000, /* for a whole handshake, and after it for a guest to join */
    GUESTS =
        512, /* connections of processes that have the token and have not joined, at the most */
    ACCEPTS = 64,         /* connections taken at a time, so that members are served between them */
    FAREWELL_MS = 1000,   /* for the last answers to be taken */
    NOTE_MS = 10000,      /* between notices of nodes that have not joined, */
    FIRST_NOTE_MS = 5000, /* and in the beginning */
};

#define MS UINT64_C(1000000)

/* A connection. It is a stranger until its handshake is over, then a guest until its process is known to have joined,
 * and then a member's. Strangers and guests are bounded in number and time. */
struct incoming {
    struct session session; /* first */
    struct connection connection;
    struct stranger stranger; /* in shard->strangers, or of a guest in shard->guests */
    bool is_greeted;          /* not a stranger any more */
    bool is_guest;
    uint32_t events; /* asked of epoll */
};

static struct incoming *incoming_of(struct stranger *stranger)
{
    return (struct incoming *)(void *)((char *)stranger - offsetof(struct incoming, stranger));
}

/* ---- Connections ------------------------------------------------------------------------------- */

/* Adds a connection to the list, and to the table by descriptor; false when memory runs out. */
static bool add_incoming(struct shard *shard, struct incoming *incoming)
{
    size_t fd = (size_t)stream_fd(incoming->connection.stream);
    if (fd >= shard->n_by_fd) {
        size_t n = 2 * fd + 64;
        struct incoming **grown = realloc(shard->by_fd, n * sizeof(struct incoming *));
        if (!grown)
            return false;
        memset(grown + shard->n_by_fd, 0, (n - shard->n_by_fd) * sizeof *grown);
        shard->by_fd = grown;
        shard->n_by_fd = n;
    }
    shard->by_fd[fd] = incoming;
    service_add(&shard->service, &incoming->session);
    strangers_add(&shard->strangers, &incoming->stranger);
    return true;
}

static void remove_incoming(struct shard *shard, struct incoming *incoming)
{
    service_remove(&shard->service, &incoming->session);
    shard->by_fd[stream_fd(incoming->connection.stream)] = NULL;
    if (!incoming->is_greeted)
        strangers_remove(&shard->strangers, &incoming->stranger);
    else if (incoming->is_guest)
        strangers_remove(&shard->guests, &incoming->stranger);
}

static void close_incoming(struct shard *shard, struct incoming *incoming)
{
    remove_incoming(shard, incoming);
    connection_fini(&incoming->connection);
    free(incoming);
}

static void refuse_incoming(struct shard *shard, struct incoming *incoming)
{
    atomic_fetch_add_explicit(&shard->engine->n_refused, 1, memory_order_relaxed);
    close_incoming(shard, incoming);
}

static bool wants_reading(const struct incoming *incoming)
{
    const struct connection *connection = &incoming->connection;
    return !incoming->session.held && !connection->rest.n &&
           buffer_size(&connection->out) < OUT_LIMIT_BYTES;
}

/* Tells epoll what the connection waits for. */
static void ask_events(struct shard *shard, struct incoming *incoming)
{
    struct connection *connection = &incoming->connection;
    short wanted = stream_events(connection->stream, wants_reading(incoming),
                                 connection_unsent(connection) > 0);
    uint32_t events = (wanted & POLLIN ? EPOLLIN : 0) | (wanted & POLLOUT ? EPOLLOUT : 0);
    if (events == incoming->events)
        return;
    incoming->events = events;
    struct epoll_event event = {.events = events, .data.fd = stream_fd(connection->stream)};
    epoll_ctl(shard->epoll_fd, EPOLL_CTL_MOD, event.data.fd, &event);
}

/* Notes that a guest's process has joined, if it has: the guest is a member from now on. */
static void note_joined(struct shard *shard, struct incoming *incoming)
{
    if (!incoming->is_guest || service_is_guest(&incoming->session))
        return;
    strangers_remove(&shard->guests, &incoming->stranger);
    incoming->is_guest = false;
}

/* Whether there is no shard of this number yet, but may be when this node has joined and started all. */
static bool may_come(const struct engine *engine, uint32_t number)
{
    const uint32_t n_all = engine->core.n_shards;
    return number >= atomic_load_explicit(&engine->n_shards, memory_order_acquire) &&
           (!n_all || number < n_all);
}

/* The shard that a stranger asks for, once it has proved itself and if there is such a one. */
static struct shard *shard_for(struct shard *shard, const struct incoming *incoming)
{
    struct engine *engine = shard->engine;
    const uint32_t number = incoming->connection.handshake.hello.shard;
    bool is_elsewhere = !incoming->is_greeted && incoming->connection.is_proved &&
                        number < atomic_load_explicit(&engine->n_shards, memory_order_acquire);
    return is_elsewhere ? &engine->shards[number] : shard;
}

/* Makes room for another guest. */
static void limit_guests(struct shard *shard, uint64_t now)
{
    struct stranger *guest =
        shard->guests.n < GUESTS ? NULL : strangers_choose(&shard->guests, now);
    if (!guest && shard->guests.n >= GUESTS)
        guest = shard->guests.first;
    if (guest)
        refuse_incoming(shard, incoming_of(guest));
}

/* Has the service welcome a caller whose handshake is over, with this status. One for another shard is held until it is
 * given to that. */
static enum served welcome(struct shard *shard, struct incoming *incoming, enum tern_status status)
{
    struct connection *connection = &incoming->connection;
    const struct hello *hello = &connection->handshake.hello;
    const bool is_elsewhere = shard_for(shard, incoming) != shard;
    enum served served =
        service_greet(&shard->service, &incoming->session, status, hello, &connection->cutter.frame,
                      is_elsewhere || may_come(shard->engine, hello->shard), &connection->out);
    if (served != SERVED)
        return served;
    strangers_remove(&shard->strangers, &incoming->stranger);
    incoming->is_greeted = true;
    if (service_is_guest(&incoming->session)) {
        limit_guests(shard, shard->now_ns);
        incoming->stranger.since_ns = shard->now_ns;
        incoming->is_guest = true;
        strangers_add(&shard->guests, &incoming->stranger);
    }
    return SERVED;
}

/* Handles a frame of a stranger. One that is refused was told so. */
static enum served greet(struct shard *shard, struct incoming *incoming, const uint8_t *body)
{
    struct connection *connection = &incoming->connection;
    const struct engine *engine = shard->engine;
    const struct frame *frame = &connection->cutter.frame;
    enum tern_status status = TERN_OK;
    enum served served = SERVED;
    if (incoming->stranger.stage < STAGE_CHALLENGED) {
        status = hello_challenge(&connection->handshake, frame, body, &engine->launch,
                                 &engine->core, &connection->out);
        incoming->stranger.stage = STAGE_CHALLENGED;
        if (status)
            served = welcome(shard, incoming, status);
    } else {
        if (incoming->stranger.stage == STAGE_CHALLENGED)
            status = hello_check(&connection->handshake, frame, body, &engine->launch);
        if (!status)
            status = stream_check_node(connection->stream, connection->handshake.hello.node);
        incoming->stranger.stage = STAGE_PROVED;
        connection->is_proved = !status;
        served = welcome(shard, incoming, status);
    }
    if (served == REFUSED)
        connection_write(connection, false);
    return served;
}

/* Executes the requests that have come. False: the connection must be closed. */
static bool serve(struct shard *shard, struct incoming *incoming)
{
    struct connection *connection = &incoming->connection;
    while (wants_reading(incoming)) {
        const uint8_t *body;
        size_t limit = incoming->is_greeted ? FRAME_MAX_BODY_BYTES : HELLO_MAX_BYTES;
        enum cut found = cutter_next(&connection->cutter, limit, &body);
        if (found != CUT_FRAME)
            return found == CUT_NOTHING;
        enum served served;
        if (incoming->is_greeted) {
            served = service_request(&shard->service, &incoming->session, &connection->cutter.frame,
                                     body, &connection->out);
            note_joined(shard, incoming);
            connection->rest = shard->service.server.kept;
            shard->service.server.kept.n = 0;
        } else {
            served = greet(shard, incoming, body);
        }
        if (served == REFUSED)
            return false;
        if (served == SERVED)
            cutter_drop(&connection->cutter);
    }
    return true;
}

static void hand_over(struct shard *shard, struct incoming *incoming, struct shard *to);

/* Executes and answers. `more`: the caller goes on to read if the connection wants it, so a short answer
 * can wait. False: there was something wrong with the connection, and it is closed; or it is another shard's now. */
static bool work_on(struct shard *shard, struct incoming *incoming, bool more)
{
    bool full;
    do {
        if (!serve(shard, incoming)) {
            refuse_incoming(shard, incoming);
            return false;
        }
        struct shard *to = shard_for(shard, incoming);
        if (to != shard) {
            hand_over(shard, incoming, to);
            return false;
        }
        size_t n_bytes = buffer_size(&incoming->connection.out);
        bool had_rest = incoming->connection.rest.n;
        if (more && n_bytes < TOGETHER_BYTES && wants_reading(incoming))
            return true;
        full = n_bytes >= OUT_LIMIT_BYTES;
        if (!connection_write(&incoming->connection, true)) {
            close_incoming(shard, incoming);
            return false;
        }
        /* A kept answer that is out also makes room for the next request. */
        full |= had_rest;
    } while (full && wants_reading(incoming));
    if (!more || !wants_reading(incoming))
        stream_flush(incoming->connection.stream);
    ask_events(shard, incoming);
    return true;
}

static void note_heard(struct shard *shard, struct incoming *incoming)
{
    if (incoming->stranger.stage == STAGE_SILENT && stream_heard(incoming->connection.stream))
        incoming->stranger.stage = STAGE_HEARD;
    service_heard(&shard->service, &incoming->session);
}

/* Reads and serves in turns, so that requests are executed while they are in a core's cache. */
static void handle_event(struct shard *shard, struct incoming *incoming, uint32_t events)
{
    struct connection *connection = &incoming->connection;
    bool readable = events & (EPOLLERR | EPOLLHUP) || !incoming->is_greeted ||
                    (events & EPOLLIN && wants_reading(incoming));
    if (!readable && !work_on(shard, incoming, false))
        return;
    readable |= wants_reading(incoming) && (events || stream_pending(connection->stream));
    for (size_t turn = 0; readable;) {
        /* A stranger gets no more memory than its HELLO needs. */
        size_t most = incoming->is_greeted ? READ_BYTES : FRAME_HEADER_BYTES + HELLO_MAX_BYTES;
        ssize_t n = connection_read(connection, most);
        if (n < 0) {
            if (!incoming->is_greeted)
                atomic_fetch_add_explicit(&shard->engine->n_refused, 1, memory_order_relaxed);
            close_incoming(shard, incoming);
            return;
        }
        note_heard(shard, incoming);
        turn += (size_t)n;
        bool more = connection->has_more && turn < TURN_BYTES;
        if (!work_on(shard, incoming, more))
            return;
        readable = wants_reading(incoming) && (more || stream_pending(connection->stream));
    }
}

/* Gives a stranger, who comes to the first shard, to the one it asks for. */
static void hand_over(struct shard *shard, struct incoming *incoming, struct shard *to)
{
    struct epoll_event event = {.events = incoming->events,
                                .data.fd = stream_fd(incoming->connection.stream)};
    epoll_ctl(shard->epoll_fd, EPOLL_CTL_DEL, event.data.fd, &event);
    remove_incoming(shard, incoming);
    incoming->session.held = false;
    lock_take(&to->lock);
    to->now_ns = shard->now_ns;
    if (!add_incoming(to, incoming)) {
        connection_fini(&incoming->connection);
        free(incoming);
    } else if (epoll_ctl(to->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event)) {
        close_incoming(to, incoming);
    } else {
        handle_event(to, incoming, 0);
    }
    lock_release(&to->lock);
}

/* Takes newcomers, or lets them wait in the listener's queue. They come to the first shard. */
static void take_newcomers(struct shard *shard, bool take)
{
    if (shard->number != 0 ||
        atomic_load_explicit(&shard->engine->takes_newcomers, memory_order_relaxed) == take)
        return;
    atomic_store_explicit(&shard->engine->takes_newcomers, take, memory_order_relaxed);
    for (int i = 0; i < 2 && shard->engine->listeners[i]; i++) {
        struct epoll_event event = {.events = take ? EPOLLIN : 0,
                                    .data.fd = listener_fd(shard->engine->listeners[i])};
        epoll_ctl(shard->epoll_fd, EPOLL_CTL_MOD, event.data.fd, &event);
    }
}

/* Begins to read a new connection at once: with TLS the handshake may be over already, and what came behind it be in
 * memory, where epoll does not see it. */
static void begin_incoming(struct shard *shard, struct stream *stream)
{
    struct incoming *incoming = calloc(1, sizeof *incoming);
    if (incoming)
        *incoming = (struct incoming){
            .connection.stream = stream,
            .stranger = {.source = stream_source(stream), .since_ns = clock_now_ns()},
            .events = EPOLLIN};
    if (!incoming || !add_incoming(shard, incoming)) {
        atomic_fetch_add_explicit(&shard->engine->n_refused, 1, memory_order_relaxed);
        free(incoming);
        stream_close(stream);
        return;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.fd = stream_fd(stream)};
    if (epoll_ctl(shard->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event))
        refuse_incoming(shard, incoming);
    else
        handle_event(shard, incoming, EPOLLIN);
}

/* Takes new connections. When there are too many strangers each takes the place of another one, or waits. */
static void accept_incoming(struct shard *shard, struct listener *listener)
{
    for (int i = 0; i < ACCEPTS; i++) {
        bool full = shard->strangers.n >= shard->max_strangers;
        struct stranger *out = full ? strangers_choose(&shard->strangers, clock_now_ns()) : NULL;
        if (full && !out) {
            take_newcomers(shard, false);
            return;
        }
        struct stream *stream = listener_accept(listener);
        if (!stream)
            return;
        if (out)
            refuse_incoming(shard, incoming_of(out));
        begin_incoming(shard, stream);
    }
}

/* ---- The driver of core/service.h --------------------------------------------------------------- */

/* The time at which the present events are handled. */
static uint64_t io_now_ns(void *driver)
{
    const struct shard *shard = driver;
    return shard->now_ns;
}

static void io_say(void *driver, struct session *session, const struct frame *frame)
{
    struct incoming *incoming = (struct incoming *)session;
    struct connection *connection = &incoming->connection;
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(frame, header);
    if (buffer_append(&connection->out, header, sizeof header) &&
        connection_write(connection, false))
        ask_events(driver, incoming);
    else
        close_incoming(driver, incoming);
}

/* What came behind a held request over TLS may be in memory, where epoll does not see it. */
static void io_retry(void *driver, struct session *session)
{
    handle_event(driver, (struct incoming *)session, 0);
}

static void io_close(void *driver, struct session *session)
{
    close_incoming(driver, (struct incoming *)session);
}

static void io_hurry(void *driver)
{
    struct shard *shard = driver;
    round_driver_hurry(&shard->round_driver);
}

static void io_send_batch(void *driver)
{
    struct shard *shard = driver;
    backup_driver_hurry(&shard->backup_driver);
}

static void io_fetch_view(void *driver)
{
    const struct shard *shard = driver;
    engine_fetch_view(shard->engine);
}

static const struct io shard_io = {.now_ns = io_now_ns,
                                   .say = io_say,
                                   .retry = io_retry,
                                   .close = io_close,
                                   .hurry = io_hurry,
                                   .send_batch = io_send_batch,
                                   .fetch_view = io_fetch_view};

/* ---- Events ------------------------------------------------------------------------------------- */

/* Closes connections whose handshake takes too long, and guests that do not join. A node that has not joined itself
 * cannot tell its guests from members. */
static void close_late(struct shard *shard, uint64_t now)
{
    bool knows_members =
        shard->service.server.group || shard->engine->peers.incarnations[shard->engine->core.node];
    for (struct stranger *at = shard->strangers.first, *next; at; at = next) {
        next = at->next;
        if (now > at->since_ns + HELLO_MS * MS)
            refuse_incoming(shard, incoming_of(at));
    }
    for (struct stranger *at = shard->guests.first, *next; at; at = next) {
        next = at->next;
        struct incoming *incoming = incoming_of(at);
        bool is_refused = !service_admit(&shard->service, &incoming->session);
        note_joined(shard, incoming);
        if (is_refused ||
            (knows_members && incoming->is_guest && now > at->since_ns + HELLO_MS * MS))
            refuse_incoming(shard, incoming);
    }
}

/* How long the service thread sleeps at the most: strangers and dead nodes must be noticed, those who wait be
 * told, and newcomers let in. */
static int next_timeout_ms(const struct shard *shard)
{
    uint64_t tell_ms = shard->engine->launch.deadline_ns / MS / 4;
    bool looks = shard->service.server.group ||
                 !atomic_load_explicit(&shard->engine->takes_newcomers, memory_order_relaxed);
    int most_ms = looks ? TICK_MS : HELLO_MS;
    return tell_ms < (uint64_t)most_ms ? (int)tell_ms + 1 : most_ms;
}

/* Looks at all connections, now and then. */
static void look_at_all(struct shard *shard, uint64_t now)
{
    uint64_t tick_ns = TICK_MS * MS, tell_ns = shard->engine->launch.deadline_ns / 4;
    if (now - shard->looked_ns < (tell_ns < tick_ns ? tell_ns : tick_ns))
        return;
    shard->looked_ns = now;
    service_tell_held(&shard->service);
    close_late(shard, now);
    take_newcomers(shard, true); /* for whom there may be room by now; else they wait on */
}

static struct incoming *incoming_at(const struct shard *shard, int fd)
{
    return (size_t)fd < shard->n_by_fd ? shard->by_fd[fd] : NULL;
}

/* Says now and then which nodes have still to join. */
static void note_absent(struct shard *shard, uint64_t now)
{
    const struct engine *engine = shard->engine;
    char absent[GROUP_LIST_BYTES];
    if (engine->peers.incarnations[engine->core.node] || now < shard->noted_ns)
        return;
    if (shard->noted_ns) {
        group_list_absent(shard->service.server.group, absent);
        if (absent[0])
            log_notice("node 0 waits for %s to join (%.0f of %.0f s)", absent,
                       (double)(now - shard->began_ns) / 1e9,
                       (double)engine->launch.join_deadline_ns / 1e9);
    } else {
        shard->began_ns = now;
    }
    shard->noted_ns = now + (now - shard->began_ns < NOTE_MS * MS ? FIRST_NOTE_MS : NOTE_MS) * MS;
}

/* The listener with a descriptor; NULL: none has it. */
static struct listener *listener_at(const struct engine *engine, int fd)
{
    for (int i = 0; i < 2 && engine->listeners[i]; i++)
        if (fd == listener_fd(engine->listeners[i]))
            return engine->listeners[i];
    return NULL;
}

/* Handles what epoll reported. The caller holds the shard's lock. */
static void handle_events(struct shard *shard, const struct epoll_event *events, int n)
{
    const uint64_t now = shard->now_ns = clock_now_ns();
    for (int i = 0; i < n; i++) {
        int fd = events[i].data.fd;
        /* It may have been closed since, and the descriptor be another connection's, of which nothing is known
         * then: to look at that one does no harm. */
        struct incoming *incoming = incoming_at(shard, fd);
        struct listener *listener = listener_at(shard->engine, fd);
        if (listener) {
            accept_incoming(shard, listener);
        } else if (fd == shard->wake_fd) {
            uint64_t count;
            if (read(shard->wake_fd, &count, sizeof count) == sizeof count)
                shard->service.changed = true;
        } else if (incoming) {
            handle_event(shard, incoming, events[i].events);
        }
    }
    service_settle(&shard->service);
    if (shard->service.server.group)
        note_absent(shard, now);
    if (shard->strangers.n < shard->max_strangers)
        take_newcomers(shard, true);
    look_at_all(shard, now);
}

/* Gives the last answers a moment to be taken. */
static void say_farewell(struct shard *shard)
{
    uint64_t end = clock_now_ns() + FAREWELL_MS * MS;
    lock_take(&shard->lock); /* the first shard may still give connections to this one */
    for (struct session *at = shard->service.sessions; at; at = at->next) {
        struct connection *connection = &((struct incoming *)at)->connection;
        while (connection_write(connection, false) && connection_unsent(connection)) {
            uint64_t now = clock_now_ns();
            if (now >= end || !stream_wait(connection->stream, true, (int)((end - now) / MS) + 1))
                break;
        }
    }
    lock_release(&shard->lock);
}

bool shard_is_driven(const struct shard *shard, uint64_t now_ns)
{
    uint64_t driven_ns = atomic_load_explicit(&shard->driven_ns, memory_order_relaxed);
    return now_ns < driven_ns + DRIVEN_MS * MS &&
           !atomic_load_explicit(&shard->engine->is_prompt, memory_order_relaxed);
}

void shard_drive(struct shard *shard, uint64_t now_ns)
{
    atomic_store_explicit(&shard->driven_ns, now_ns, memory_order_relaxed);
    if (lock_try(&shard->lock)) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(shard->epoll_fd, events, EVENTS, 0);
        if (n > 0)
            handle_events(shard, events, n);
        lock_release(&shard->lock);
    }
    round_driver_drive(&shard->round_driver, now_ns);
}

/* While workers drive, the thread stays away from the lock but for a tick now and then: if it were taken
 * off its core with the lock held, the worker that runs there instead could serve nobody. */
static void *service_main(void *context)
{
    struct shard *shard = context;
    struct epoll_event events[EVENTS];
    uint64_t ticked_ns = 0;
    while (!atomic_load_explicit(&shard->engine->peers.stop, memory_order_acquire)) {
        bool is_driven = shard_is_driven(shard, clock_now_ns());
        int n = is_driven ? poll(NULL, 0, DRIVEN_MS)
                          : epoll_wait(shard->epoll_fd, events, EVENTS, next_timeout_ms(shard));
        uint64_t now_ns = clock_now_ns();
        if (shard_is_driven(shard, now_ns) && now_ns < ticked_ns + TICK_MS * MS)
            continue;
        lock_take(&shard->lock);
        handle_events(shard, events, is_driven || n < 0 ? 0 : n);
        lock_release(&shard->lock);
        ticked_ns = now_ns;
    }
    say_farewell(shard);
    return NULL;
}

void shard_wake(struct shard *shard)
{
    uint64_t one = 1;
    ssize_t n = write(shard->wake_fd, &one, sizeof one);
    (void)n; /* it fails only when the count is full, and then the thread is awake */
}

void shard_retry(struct shard *shard)
{
    lock_take(&shard->lock);
    shard->now_ns = clock_now_ns();
    service_retry(&shard->service);
    service_settle(&shard->service);
    lock_release(&shard->lock);
}

/* ---- Beginning and end -------------------------------------------------------------------------- */

/* New connections come to the first shard. */
static bool await_newcomers(const struct shard *shard)
{
    bool waits = true;
    for (int i = 0; waits && shard->number == 0 && i < 2 && shard->engine->listeners[i]; i++) {
        struct epoll_event event = {.events = EPOLLIN,
                                    .data.fd = listener_fd(shard->engine->listeners[i])};
        waits = !epoll_ctl(shard->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event);
    }
    return waits;
}

static enum tern_status open_epoll(struct shard *shard)
{
    shard->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    shard->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event wake = {.events = EPOLLIN, .data.fd = shard->wake_fd};
    if (shard->epoll_fd < 0 || shard->wake_fd < 0 || !await_newcomers(shard) ||
        epoll_ctl(shard->epoll_fd, EPOLL_CTL_ADD, wake.data.fd, &wake))
        return fail(TERN_NETWORK, "no descriptors to wait with: %s", strerror(errno));
    return TERN_OK;
}

/* Strangers leave most descriptors to members. */
static size_t max_strangers(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur / 4 > STRANGERS_MAX)
        return STRANGERS_MAX;
    return files.rlim_cur / 4 + 1;
}

void shard_init(struct shard *shard, struct engine *engine, uint32_t number)
{
    *shard = (struct shard){.engine = engine,
                            .number = number,
                            .epoll_fd = -1,
                            .wake_fd = -1,
                            .max_strangers = max_strangers()};
    lock_init(&shard->lock, RANK_SHARD, number);
    round_driver_init(&shard->round_driver, shard);
    backup_driver_init(&shard->backup_driver, shard);
}

enum tern_status shard_start(struct shard *shard, struct group *group)
{
    struct engine *engine = shard->engine;
    enum tern_status status = service_init(&shard->service, &engine->core, shard->number,
                                           &engine->peers, group, &shard_io, shard);
    if (status)
        return status;
    shard->service.server.sends_kept = true;
    status = open_epoll(shard);
    if (status)
        return status;
    status = thread_start(&shard->thread, service_main, shard);
    shard->has_thread = !status;
    return status;
}

void shard_stop(struct shard *shard)
{
    if (!shard->has_thread)
        return;
    shard_wake(shard);
    pthread_join(shard->thread, NULL);
}

void shard_end(struct shard *shard)
{
    for (struct intents *intents = shard->intents, *next; intents; intents = next) {
        next = intents->next;
        intents_free(intents);
    }
    while (shard->service.sessions)
        close_incoming(shard, (struct incoming *)shard->service.sessions);
    free(shard->by_fd);
    if (shard->epoll_fd >= 0)
        close(shard->epoll_fd);
    if (shard->wake_fd >= 0)
        close(shard->wake_fd);
    service_fini(&shard->service);
    lock_fini(&shard->lock);
}

bool shard_has_others(struct shard *shard)
{
    bool connected;
    lock_take(&shard->lock);
    connected = service_has_others(&shard->service);
    lock_release(&shard->lock);
    return connected;
}

bool shard_end_is_known(struct shard *shard)
{
    lock_take(&shard->lock);
    const bool is_known = group_end_is_known(shard->service.server.group);
    lock_release(&shard->lock);
    return is_known;
}
