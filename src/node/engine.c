/* engine - see engine.h. */
#include "node/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/reply.h"
#include "node/hello.h"
#include "node/remote.h"
#include "wire/bytes.h"

enum {
    EVENTS = 64,
    /* Of answers not yet taken by a peer: no more of its requests are served then. Small, so that answers
     * are sent while they are in a core's cache. */
    OUT_LIMIT_BYTES = 128 << 10,
    /* Short answers wait for company while more requests are at hand: each that is sent wakes its peer.
     * Up to so many bytes of them, and of requests read meanwhile. */
    TOGETHER_BYTES = 4 << 10,
    TURN_BYTES = 512 << 10,
    DRIVEN_MS = 2,      /* without a worker that drives, until the threads take over */
    TICK_MS = 100,      /* how often the coordinator looks for dead nodes */
    HELLO_MS = 5000,    /* for a connection to say who it is */
    STRANGERS = 256,    /* connections that have not, at the most */
    SILENT_MS = 100,    /* without a first byte, until one makes room for another if they are too many, */
    STALLED_MS = 2000,  /* and without a further one */
    FAREWELL_MS = 1000, /* for the last answers to be taken */
    LINGER_MS = 100,    /* without a connection, before the coordinator ends */
};

#define MS UINT64_C(1000000)

/* A lane as the server remembers it. */
struct known_lane {
    uint64_t id; /* among its node's */
    struct server_lane lane;
    struct incoming *incoming; /* its connection; NULL: none now */
};

struct incoming {
    struct incoming *next, *before;
    struct connection connection;
    struct known_lane *known; /* NULL before HELLO */
    bool held;                /* the frame at the head waits for others, */
    bool awaits_table;        /* namely for a table to be opened here; */
    uint64_t told_ns;         /* when that was said, or it began */
    uint32_t events;          /* asked of epoll */
    uint64_t since_ns;
    uint64_t heard_ns; /* of a stranger: when its last bytes came; 0: none have */
};

/* ---- The service thread's connections --------------------------------------------------------- */

/* Adds a connection to the list, and to the table by descriptor; false when memory is used up. */
static bool add_incoming(struct engine *engine, struct incoming *incoming)
{
    size_t fd = (size_t)stream_fd(incoming->connection.stream);
    if (fd >= engine->n_by_fd) {
        size_t n = 2 * fd + 64;
        struct incoming **grown = realloc(engine->by_fd, n * sizeof(struct incoming *));
        if (!grown)
            return false;
        memset(grown + engine->n_by_fd, 0, (n - engine->n_by_fd) * sizeof *grown);
        engine->by_fd = grown;
        engine->n_by_fd = n;
    }
    engine->by_fd[fd] = incoming;
    incoming->next = engine->incoming;
    if (incoming->next)
        incoming->next->before = incoming;
    engine->incoming = incoming;
    engine->n_strangers++;
    return true;
}

static void close_incoming(struct engine *engine, struct incoming *incoming)
{
    *(incoming->before ? &incoming->before->next : &engine->incoming) = incoming->next;
    if (incoming->next)
        incoming->next->before = incoming->before;
    engine->by_fd[stream_fd(incoming->connection.stream)] = NULL;
    engine->n_strangers -= !incoming->known;
    if (incoming->known && incoming->known->incoming == incoming)
        incoming->known->incoming = NULL;
    connection_fini(&incoming->connection);
    free(incoming);
}

static void refuse_incoming(struct engine *engine, struct incoming *incoming)
{
    atomic_fetch_add_explicit(&engine->n_refused, 1, memory_order_relaxed);
    close_incoming(engine, incoming);
}

static bool wants_reading(const struct incoming *incoming)
{
    const struct connection *connection = &incoming->connection;
    return !incoming->held && !connection->rest.n &&
           buffer_size(&connection->out) < OUT_LIMIT_BYTES;
}

/* Tells epoll what the connection waits for. */
static void ask_events(struct engine *engine, struct incoming *incoming)
{
    struct connection *connection = &incoming->connection;
    short wanted = stream_events(connection->stream, wants_reading(incoming),
                                 connection_unsent(connection) > 0);
    uint32_t events = (wanted & POLLIN ? EPOLLIN : 0) | (wanted & POLLOUT ? EPOLLOUT : 0);
    if (events == incoming->events)
        return;
    incoming->events = events;
    struct epoll_event event = {.events = events, .data.fd = stream_fd(connection->stream)};
    epoll_ctl(engine->epoll_fd, EPOLL_CTL_MOD, event.data.fd, &event);
}

/* The stranger whose place is given to a new one. First the oldest of those who say nothing, so that many of them
 * do not keep out those who have something to say; then whoever has stopped in the middle of it. NULL: all get on,
 * and what they have done so far would be lost. (The list has the youngest first.) */
static struct incoming *idle_stranger(const struct engine *engine)
{
    struct incoming *idle = NULL;
    for (struct incoming *incoming = engine->incoming; incoming; incoming = incoming->next)
        if (!incoming->known && (!idle || incoming->heard_ns <= idle->heard_ns))
            idle = incoming;
    if (!idle)
        return NULL;
    uint64_t since_ns = idle->heard_ns ? idle->heard_ns : idle->since_ns;
    uint64_t patience_ms = idle->heard_ns ? STALLED_MS : SILENT_MS;
    return clock_now_ns() - since_ns >= patience_ms * MS ? idle : NULL;
}

static bool is_lane_of(const struct known_lane *known, const struct hello *hello)
{
    return known->lane.node == hello->node && known->id == hello->lane &&
           known->lane.incarnation == hello->incarnation;
}

/* The key of a caller's lane in `lane_places`: a hash, or if another lane has that the next number, and so on. */
static uint64_t lane_key(const struct engine *engine, const struct hello *hello)
{
    uint64_t key = hash_u64(hello->incarnation ^ hash_u64(hello->lane ^ hash_u64(hello->node)));
    for (uint32_t place; (place = keymap_get(&engine->lane_places, key)) != 0; key++)
        if (is_lane_of(engine->lanes[place - 1], hello))
            break;
    return key;
}

static bool make_room_for_lane(struct engine *engine)
{
    if (!keymap_reserve(&engine->lane_places, 1))
        return false;
    if (engine->n_lanes < engine->max_lanes)
        return true;
    size_t max = 2 * engine->max_lanes + 16;
    struct known_lane **lanes = realloc(engine->lanes, max * sizeof(struct known_lane *));
    if (!lanes)
        return false;
    engine->lanes = lanes;
    engine->max_lanes = max;
    return true;
}

/* The lane of a caller, known from before or new; NULL when memory is used up. */
static struct known_lane *know_lane(struct engine *engine, const struct hello *hello)
{
    uint64_t key = lane_key(engine, hello);
    uint32_t place = keymap_get(&engine->lane_places, key);
    if (place)
        return engine->lanes[place - 1];
    struct known_lane *known = make_room_for_lane(engine) ? calloc(1, sizeof *known) : NULL;
    if (!known)
        return NULL;
    known->id = hello->lane;
    known->lane.node = hello->node;
    known->lane.incarnation = hello->incarnation;
    engine->lanes[engine->n_lanes++] = known;
    keymap_set(&engine->lane_places, key, (uint32_t)engine->n_lanes);
    return known;
}

/* Handles the first frame of a connection. False: it was refused, and told so. */
static bool greet(struct engine *engine, struct incoming *incoming, const uint8_t *body)
{
    struct connection *connection = &incoming->connection;
    const struct frame *frame = &connection->frame;
    struct hello hello;
    enum tern_status status = hello_read(frame, body, &engine->place, &hello);
    struct known_lane *known = status ? NULL : know_lane(engine, &hello);
    if (!known) {
        reply_error(&connection->out, frame, engine->core.epoch, TERN_PEER, tern_error());
        connection_write(connection, false);
        return false;
    }
    /* The client has given up an older connection of this lane; what it sent there must not be
     * executed after what it sends here. */
    if (known->incoming)
        close_incoming(engine, known->incoming);
    known->incoming = incoming;
    incoming->known = known;
    engine->n_strangers--;
    struct frame welcome = {.kind = FRAME_WELCOME,
                            .epoch = engine->core.epoch,
                            .a = engine->core.incarnation,
                            .b = known->lane.executed};
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(&welcome, header);
    return buffer_append(&connection->out, header, sizeof header);
}

/* Whether the caller is the process that joined under its number, as far as is known. Another one is
 * only told so, by the answer to JOIN. */
static bool is_member(const struct engine *engine, const struct server_lane *lane)
{
    uint64_t joined = engine->incarnations[lane->node];
    return !joined || joined == lane->incarnation;
}

static void note_awaited(struct incoming *incoming, bool awaits_table, uint64_t now)
{
    if (awaits_table && !incoming->awaits_table)
        incoming->told_ns = now;
    incoming->awaits_table = awaits_table;
}

/* Executes the requests that have come. False: the connection must be closed. */
static bool serve(struct engine *engine, struct incoming *incoming, uint64_t now, bool *changed)
{
    struct connection *connection = &incoming->connection;
    while (wants_reading(incoming)) {
        const uint8_t *body;
        size_t limit = incoming->known ? FRAME_MAX_BODY_BYTES : HELLO_MAX_BYTES;
        enum found found = connection_next(connection, limit, &body);
        if (found != FOUND_FRAME)
            return found == FOUND_NOTHING;
        if (!incoming->known) {
            if (!greet(engine, incoming, body))
                return false;
            connection_drop(connection);
            continue;
        }
        struct server_lane *lane = &incoming->known->lane;
        if (!is_member(engine, lane) && connection->frame.kind != FRAME_JOIN)
            return false;
        engine->server.holds_for_table = false;
        enum served served = server_request(&engine->server, lane, &connection->frame, body, now,
                                            &connection->out, changed);
        note_awaited(incoming, engine->server.holds_for_table, now);
        connection->rest = engine->server.kept;
        engine->server.kept.n = 0;
        if (served == REFUSED)
            return false;
        if (served == HELD)
            incoming->held = true;
        else
            connection_drop(connection);
    }
    return true;
}

/* Executes and answers. `more`: the caller goes on to read if the connection wants it, so a short answer
 * can wait. False: there was something wrong with the connection, and it is closed. */
static bool work_on(struct engine *engine, struct incoming *incoming, uint64_t now, bool more,
                    bool *changed)
{
    bool full;
    do {
        if (!serve(engine, incoming, now, changed)) {
            refuse_incoming(engine, incoming);
            return false;
        }
        size_t n_bytes = buffer_size(&incoming->connection.out);
        bool had_rest = incoming->connection.rest.n;
        if (more && n_bytes < TOGETHER_BYTES && wants_reading(incoming))
            return true;
        full = n_bytes >= OUT_LIMIT_BYTES;
        if (!connection_write(&incoming->connection, true)) {
            close_incoming(engine, incoming);
            return false;
        }
        /* A kept answer that is out makes room for the next request, too. */
        full |= had_rest;
    } while (full && wants_reading(incoming));
    if (!more || !wants_reading(incoming))
        stream_flush(incoming->connection.stream);
    ask_events(engine, incoming);
    return true;
}

static void note_heard(struct engine *engine, struct incoming *incoming, uint64_t now)
{
    /* A round of many handshakes may take long: it is not theirs to be blamed for. */
    if (!incoming->known && stream_heard(incoming->connection.stream))
        incoming->heard_ns = clock_now_ns();
    if (incoming->known && engine->server.group && is_member(engine, &incoming->known->lane))
        group_heard(engine->server.group, incoming->known->lane.node, now);
}

/* Reads and serves in turns, so that requests are executed while they are in a core's cache. */
static void handle_event(struct engine *engine, struct incoming *incoming, uint32_t events,
                         uint64_t now, bool *changed)
{
    struct connection *connection = &incoming->connection;
    bool readable = events & (EPOLLERR | EPOLLHUP) || !incoming->known ||
                    (events & EPOLLIN && wants_reading(incoming));
    if (!readable && !work_on(engine, incoming, now, false, changed))
        return;
    readable |= wants_reading(incoming) && (events || stream_pending(connection->stream));
    for (size_t turn = 0; readable;) {
        /* A stranger gets no more memory than its HELLO needs. */
        size_t most = incoming->known ? READ_BYTES : FRAME_HEADER_BYTES + HELLO_MAX_BYTES;
        ssize_t n = connection_read(connection, most);
        if (n < 0) {
            if (!incoming->known)
                atomic_fetch_add_explicit(&engine->n_refused, 1, memory_order_relaxed);
            close_incoming(engine, incoming);
            return;
        }
        note_heard(engine, incoming, now);
        turn += (size_t)n;
        bool more = connection->has_more && turn < TURN_BYTES;
        if (!work_on(engine, incoming, now, more, changed))
            return;
        readable = wants_reading(incoming) && (more || stream_pending(connection->stream));
    }
}

/* Takes newcomers, or lets them wait in the listener's queue. */
static void take_newcomers(struct engine *engine, bool take)
{
    if (atomic_load_explicit(&engine->takes_newcomers, memory_order_relaxed) == take)
        return;
    atomic_store_explicit(&engine->takes_newcomers, take, memory_order_relaxed);
    struct epoll_event event = {.events = take ? EPOLLIN : 0,
                                .data.fd = listener_fd(engine->listener)};
    epoll_ctl(engine->epoll_fd, EPOLL_CTL_MOD, event.data.fd, &event);
}

/* Takes new connections, as long as there is room for strangers. Each is read at once: with TLS the handshake may
 * be over already, and what came behind it be in memory, where epoll does not see it. */
static void accept_incoming(struct engine *engine, uint64_t now, bool *changed)
{
    for (;;) {
        bool full = engine->n_strangers >= STRANGERS;
        struct incoming *idle = full ? idle_stranger(engine) : NULL;
        if (full && !idle) {
            take_newcomers(engine, false);
            return;
        }
        struct stream *stream = listener_accept(engine->listener);
        if (!stream)
            return;
        if (idle)
            refuse_incoming(engine, idle);
        struct incoming *incoming = calloc(1, sizeof *incoming);
        if (incoming)
            *incoming = (struct incoming){
                .connection.stream = stream, .since_ns = now, .events = EPOLLIN};
        if (!incoming || !add_incoming(engine, incoming)) {
            atomic_fetch_add_explicit(&engine->n_refused, 1, memory_order_relaxed);
            free(incoming);
            stream_close(stream);
            continue;
        }
        struct epoll_event event = {.events = EPOLLIN, .data.fd = stream_fd(stream)};
        if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event))
            refuse_incoming(engine, incoming);
        else
            handle_event(engine, incoming, EPOLLIN, now, changed);
    }
}

/* Tries held requests again until nothing changes any more. What came behind one over TLS may be in
 * memory, where epoll does not see it. */
static void retry_held(struct engine *engine, uint64_t now)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (struct incoming *incoming = engine->incoming, *next; incoming; incoming = next) {
            next = incoming->next;
            if (!incoming->held)
                continue;
            incoming->held = false;
            handle_event(engine, incoming, 0, now, &changed);
        }
    }
}

/* Says that a request waits rightly. False: the connection must be closed. */
static bool tell_held(struct engine *engine, struct incoming *incoming)
{
    struct connection *connection = &incoming->connection;
    struct frame hold = reply_frame(&connection->frame, engine->core.epoch, FRAME_HOLD);
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(&hold, header);
    if (!buffer_append(&connection->out, header, sizeof header) || !connection_write(connection, false))
        return false;
    ask_events(engine, incoming);
    return true;
}

/* Gives those a sign of life who wait for a table to be opened here, before they believe this node dead; those who
 * wait for others to join, since they have no pulse yet; and all who wait while this node's own rounds wait for a table
 * elsewhere. */
static void tell_all_held(struct engine *engine, uint64_t now)
{
    uint64_t held_ns = atomic_load_explicit(&engine->held_ns, memory_order_relaxed);
    bool waits = held_ns && now < held_ns + engine->place.deadline_ns / 2;
    for (struct incoming *incoming = engine->incoming, *next; incoming; incoming = next) {
        next = incoming->next;
        bool joins = incoming->connection.frame.kind == FRAME_JOIN;
        if (!incoming->held || !(incoming->awaits_table || joins || waits) ||
            now - incoming->told_ns < engine->place.deadline_ns / 4)
            continue;
        incoming->told_ns = now;
        if (!tell_held(engine, incoming))
            close_incoming(engine, incoming);
    }
}

static void close_late_strangers(struct engine *engine, uint64_t now)
{
    for (struct incoming *incoming = engine->incoming, *next; incoming; incoming = next) {
        next = incoming->next;
        if (!incoming->known && now - incoming->since_ns > HELLO_MS * MS)
            refuse_incoming(engine, incoming);
    }
}

/* How long the service thread sleeps at the most: strangers and dead nodes must be noticed, those who wait be
 * told, and newcomers let in. */
static int next_timeout_ms(const struct engine *engine)
{
    uint64_t tell_ms = engine->place.deadline_ns / MS / 4;
    bool looks = engine->server.group ||
                 !atomic_load_explicit(&engine->takes_newcomers, memory_order_relaxed);
    int most_ms = looks ? TICK_MS : HELLO_MS;
    return tell_ms < (uint64_t)most_ms ? (int)tell_ms + 1 : most_ms;
}

/* Looks at all connections, now and then. */
static void look_at_all(struct engine *engine, uint64_t now)
{
    uint64_t tick_ns = TICK_MS * MS, tell_ns = engine->place.deadline_ns / 4;
    if (now - engine->looked_ns < (tell_ns < tick_ns ? tell_ns : tick_ns))
        return;
    engine->looked_ns = now;
    tell_all_held(engine, now);
    if (engine->n_strangers)
        close_late_strangers(engine, now);
    take_newcomers(engine, true); /* for whom there may be room by now; else they wait on */
}

static struct incoming *incoming_at(const struct engine *engine, int fd)
{
    return (size_t)fd < engine->n_by_fd ? engine->by_fd[fd] : NULL;
}

/* Handles what epoll reported. The caller holds the engine's lock. */
static void handle_events(struct engine *engine, const struct epoll_event *events, int n)
{
    uint64_t now = clock_now_ns();
    bool changed = false;
    for (int i = 0; i < n; i++) {
        int fd = events[i].data.fd;
        /* It may have been closed since, and the descriptor be another connection's, of which nothing is known
         * then: to look at that one does no harm. */
        struct incoming *incoming = incoming_at(engine, fd);
        if (fd == listener_fd(engine->listener)) {
            accept_incoming(engine, now, &changed);
        } else if (fd == engine->wake_fd) {
            uint64_t count;
            changed |= read(engine->wake_fd, &count, sizeof count) == sizeof count;
        } else if (incoming) {
            handle_event(engine, incoming, events[i].events, now, &changed);
        }
    }
    if (engine->server.group && group_tick(engine->server.group, now))
        changed = true;
    if (changed)
        retry_held(engine, now);
    if (engine->server.wants_round) {
        engine->server.wants_round = false;
        sync_hurry(&engine->sync);
    }
    if (engine->n_strangers < STRANGERS)
        take_newcomers(engine, true);
    look_at_all(engine, now);
}

/* Gives the last answers a moment to be taken. */
static void say_farewell(struct engine *engine)
{
    uint64_t end = clock_now_ns() + FAREWELL_MS * MS;
    for (struct incoming *incoming = engine->incoming; incoming; incoming = incoming->next) {
        struct connection *connection = &incoming->connection;
        while (connection_write(connection, false) && connection_unsent(connection)) {
            uint64_t now = clock_now_ns();
            if (now >= end || !stream_wait(connection->stream, true, (int)((end - now) / MS) + 1))
                break;
        }
    }
}

bool engine_is_driven(const struct engine *engine, uint64_t now_ns)
{
    uint64_t driven_ns = atomic_load_explicit(&engine->driven_ns, memory_order_relaxed);
    return now_ns < driven_ns + DRIVEN_MS * MS &&
           !atomic_load_explicit(&engine->is_prompt, memory_order_relaxed);
}

void engine_drive(struct engine *engine, uint64_t now_ns)
{
    atomic_store_explicit(&engine->driven_ns, now_ns, memory_order_relaxed);
    if (pthread_mutex_trylock(&engine->lock) == 0) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(engine->epoll_fd, events, EVENTS, 0);
        if (n > 0)
            handle_events(engine, events, n);
        pthread_mutex_unlock(&engine->lock);
    }
    sync_drive(&engine->sync, now_ns);
}

/* While workers drive, the thread stays away from the lock but for a tick now and then: if it were taken
 * off its core with the lock held, the worker that runs there instead could serve nobody. */
static void *service_main(void *context)
{
    struct engine *engine = context;
    struct epoll_event events[EVENTS];
    uint64_t ticked_ns = 0;
    while (!atomic_load_explicit(&engine->stop, memory_order_acquire)) {
        bool is_driven = engine_is_driven(engine, clock_now_ns());
        int n = is_driven ? poll(NULL, 0, DRIVEN_MS)
                          : epoll_wait(engine->epoll_fd, events, EVENTS, next_timeout_ms(engine));
        uint64_t now_ns = clock_now_ns();
        if (engine_is_driven(engine, now_ns) && now_ns < ticked_ns + TICK_MS * MS)
            continue;
        pthread_mutex_lock(&engine->lock);
        handle_events(engine, events, is_driven || n < 0 ? 0 : n);
        pthread_mutex_unlock(&engine->lock);
        ticked_ns = now_ns;
    }
    say_farewell(engine);
    return NULL;
}

void engine_wake(struct engine *engine)
{
    uint64_t one = 1;
    ssize_t n = write(engine->wake_fd, &one, sizeof one);
    (void)n; /* it fails only when the count is full, and then the thread is awake */
}

/* ---- Calls, and the pulse ---------------------------------------------------------------------- */

enum tern_status engine_call(struct remote *remote, uint32_t node, struct op *op,
                             enum frame_kind kind)
{
    enum tern_status status = client_call(&remote->client, node, op, kind);
    if (status)
        return status;
    remote_nudge(remote, &remote->client.lanes[node]);
    remote_wait(remote, op, kind != FRAME_PING && kind != FRAME_RANGE && kind != FRAME_JOIN);
    status = op_end(op);
    if (status)
        buffer_free(&op->answer_body);
    return status;
}

/* Sleeps for a quarter of the deadline; true when the engine is to end. */
static bool pulse_sleeps(struct engine *engine)
{
    uint64_t wake = clock_now_ns() + engine->place.deadline_ns / 4;
    struct timespec until = {.tv_sec = (time_t)(wake / UINT64_C(1000000000)),
                             .tv_nsec = (long)(wake % UINT64_C(1000000000))};
    pthread_mutex_lock(&engine->pulse_lock);
    int outcome = 0;
    while (outcome != ETIMEDOUT && !atomic_load_explicit(&engine->stop, memory_order_relaxed))
        outcome = pthread_cond_timedwait(&engine->pulse_stop, &engine->pulse_lock, &until);
    pthread_mutex_unlock(&engine->pulse_lock);
    return atomic_load_explicit(&engine->stop, memory_order_relaxed);
}

static void *pulse_main(void *context)
{
    struct engine *engine = context;
    struct remote remote;
    if (remote_init(&remote, engine))
        return NULL;
    while (!pulse_sleeps(engine)) {
        struct op op = {0};
        uint32_t dead = 1; /* node 0, if it does not answer */
        if (!engine_call(&remote, 0, &op, FRAME_PING)) {
            dead = (uint32_t)op.answer.a;
            buffer_free(&op.answer_body);
        }
        if (dead)
            atomic_store_explicit(&engine->dead, dead, memory_order_relaxed);
    }
    remote_fini(&remote);
    return NULL;
}

/* ---- Joining and leaving ---------------------------------------------------------------------- */

/* Reads the addresses and incarnations of all nodes. */
static enum tern_status read_roster(struct engine *engine, const uint8_t *bytes, size_t size)
{
    for (uint32_t i = 0; i < engine->core.n_nodes; i++) {
        size_t length = size >= 10 ? get_u16(bytes + 8) : SIZE_MAX;
        if (length >= sizeof engine->addresses[0] || size - 10 < length)
            return fail(TERN_PEER, "the coordinator sent a broken list of nodes");
        engine->incarnations[i] = get_u64(bytes);
        memcpy(engine->addresses[i], bytes + 10, length);
        engine->addresses[i][length] = '\0';
        bytes += 10 + length;
        size -= 10 + length;
    }
    return TERN_OK;
}

static enum tern_status join(struct engine *engine)
{
    struct remote remote;
    enum tern_status status = remote_init(&remote, engine);
    if (status)
        return status;
    const char *address = listener_address(engine->listener);
    struct op op = {.a = engine->core.incarnation,
                    .payload = address,
                    .payload_bytes = (uint32_t)strlen(address)};
    status = engine_call(&remote, 0, &op, FRAME_JOIN);
    if (!status) {
        pthread_mutex_lock(&engine->lock);
        status = read_roster(engine, buffer_head(&op.answer_body), buffer_size(&op.answer_body));
        /* The coordinator is where this node has found it, whatever it calls itself. */
        if (remote.peers[0].connection.stream)
            snprintf(engine->addresses[0], sizeof engine->addresses[0], "%s",
                     stream_peer(remote.peers[0].connection.stream));
        pthread_mutex_unlock(&engine->lock);
        buffer_free(&op.answer_body);
    }
    remote_fini(&remote);
    return status;
}

static enum tern_status start_thread(pthread_t *thread, void *(*run)(void *), void *context,
                                     bool *started)
{
    int failure = pthread_create(thread, NULL, run, context);
    if (failure)
        return fail(TERN_NO_MEMORY, "no thread can be started: %s", strerror(failure));
    *started = true;
    return TERN_OK;
}

static enum tern_status open_epoll(struct engine *engine)
{
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    engine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event listener = {.events = EPOLLIN, .data.fd = listener_fd(engine->listener)};
    struct epoll_event wake = {.events = EPOLLIN, .data.fd = engine->wake_fd};
    if (engine->epoll_fd < 0 || engine->wake_fd < 0 ||
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, listener.data.fd, &listener) ||
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, wake.data.fd, &wake))
        return fail(TERN_NETWORK, "no descriptors to wait with: %s", strerror(errno));
    return TERN_OK;
}

static enum tern_status open_net(struct engine *engine)
{
    const struct place *place = &engine->place;
    struct net_options options = {.insecure = place->insecure};
    if (place->certificate[0]) {
        options.certificate = place->certificate;
        options.key = place->key;
        options.authority = place->authority;
    }
    enum tern_status status = net_open(&options, &engine->net);
    if (!status)
        status = listener_open(engine->net, place->listen, &engine->listener);
    if (!status && place->node != 0)
        listener_face(engine->listener, place->coordinator);
    return status;
}

static enum tern_status init_core(struct engine *engine)
{
    struct core *core = &engine->core;
    core->node = engine->place.node;
    core->n_nodes = engine->place.n_nodes;
    core->epoch = 1;
    if (getrandom(&core->incarnation, sizeof core->incarnation, 0) !=
            (ssize_t)sizeof core->incarnation ||
        !core->incarnation)
        core->incarnation = clock_now_ns() | 1;
    core->ring = ring_new(core->n_nodes);
    engine->addresses = calloc(core->n_nodes, sizeof *engine->addresses);
    engine->incarnations = calloc(core->n_nodes, sizeof *engine->incarnations);
    struct group *group = core->node == 0 ? group_new(core->n_nodes, core->epoch,
                                                      engine->place.deadline_ns, clock_now_ns())
                                          : NULL;
    if (!core->ring || !engine->addresses || !engine->incarnations || (core->node == 0 && !group)) {
        group_free(group);
        return fail(TERN_NO_MEMORY, "no memory for a cluster of %" PRIu32 " nodes", core->n_nodes);
    }
    strcpy(engine->addresses[0], engine->place.coordinator);
    enum tern_status status = server_init(&engine->server, core, group);
    engine->server.sends_kept = true;
    if (status)
        group_free(group);
    return status;
}

void engine_end(struct engine *engine)
{
    sync_fini(&engine->sync);
    for (struct intents *intents = engine->intents, *next; intents; intents = next) {
        next = intents->next;
        intents_free(intents);
    }
    pthread_mutex_lock(&engine->pulse_lock);
    atomic_store_explicit(&engine->stop, true, memory_order_release);
    pthread_cond_signal(&engine->pulse_stop);
    pthread_mutex_unlock(&engine->pulse_lock);
    if (engine->has_pulse)
        pthread_join(engine->pulse, NULL);
    if (engine->has_service) {
        engine_wake(engine);
        pthread_join(engine->service, NULL);
    }
    while (engine->incoming)
        close_incoming(engine, engine->incoming);
    free(engine->by_fd);
    for (size_t i = 0; i < engine->n_lanes; i++) {
        server_lane_fini(&engine->lanes[i]->lane);
        free(engine->lanes[i]);
    }
    free(engine->lanes);
    keymap_free(&engine->lane_places);
    if (engine->listener)
        listener_close(engine->listener);
    if (engine->net)
        net_close(engine->net);
    if (engine->epoll_fd >= 0)
        close(engine->epoll_fd);
    if (engine->wake_fd >= 0)
        close(engine->wake_fd);
    group_free(engine->server.group);
    server_fini(&engine->server);
    ring_free(engine->core.ring);
    free(engine->addresses);
    free(engine->incarnations);
    free(engine->spare_lanes);
    pthread_cond_destroy(&engine->pulse_stop);
    pthread_mutex_destroy(&engine->pulse_lock);
    pthread_mutex_destroy(&engine->lock);
}

bool engine_take_lane(struct engine *engine, uint32_t *lane)
{
    pthread_mutex_lock(&engine->lock);
    bool taken = engine->n_spare_lanes > 0;
    if (taken) {
        *lane = engine->spare_lanes[--engine->n_spare_lanes];
    } else {
        size_t n = (size_t)engine->n_own_lanes + 1;
        uint32_t *grown = realloc(engine->spare_lanes, n * sizeof *grown);
        taken = grown;
        if (taken) {
            engine->spare_lanes = grown;
            *lane = engine->n_own_lanes++;
        }
    }
    pthread_mutex_unlock(&engine->lock);
    return taken;
}

void engine_give_lane(struct engine *engine, uint32_t lane)
{
    pthread_mutex_lock(&engine->lock);
    engine->spare_lanes[engine->n_spare_lanes++] = lane;
    pthread_mutex_unlock(&engine->lock);
}

/* Each worker has a connection to each other node, so the usual 1024 files are soon too few. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

enum tern_status engine_start(struct engine *engine, const struct place *place)
{
    raise_file_limit();
    *engine =
        (struct engine){.place = *place, .epoll_fd = -1, .wake_fd = -1, .takes_newcomers = true};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->pulse_stop, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&engine->pulse_lock, NULL);
    pthread_mutex_init(&engine->lock, NULL);
    sync_init(&engine->sync, engine);

    enum tern_status status = init_core(engine);
    if (!status)
        status = open_net(engine);
    if (!status)
        status = open_epoll(engine);
    if (!status)
        status = start_thread(&engine->service, service_main, engine, &engine->has_service);
    if (!status)
        status = join(engine);
    if (!status)
        status = start_thread(&engine->pulse, pulse_main, engine, &engine->has_pulse);
    if (status)
        engine_end(engine);
    return status;
}

static bool others_are_connected(struct engine *engine)
{
    bool connected = false;
    pthread_mutex_lock(&engine->lock);
    for (const struct incoming *incoming = engine->incoming; incoming; incoming = incoming->next)
        connected |= incoming->known && incoming->known->lane.node != engine->core.node &&
                     is_member(engine, &incoming->known->lane);
    pthread_mutex_unlock(&engine->lock);
    return connected;
}

/* The coordinator goes last: a node whose connection broke before it heard that all have left comes
 * back at once and asks again. */
static void linger(struct engine *engine)
{
    uint64_t start = clock_now_ns(), quiet = start;
    for (uint64_t now = start; now - start < engine->place.deadline_ns; now = clock_now_ns()) {
        if (others_are_connected(engine))
            quiet = now;
        else if (now - quiet >= LINGER_MS * MS)
            return;
        poll(NULL, 0, LINGER_MS / 10);
    }
}

/* Whoever waits for this node to open a table waits in vain. */
static void open_no_more(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->server.is_leaving = true;
    pthread_mutex_unlock(&engine->lock);
    engine_wake(engine);
}

enum tern_status engine_leave(struct engine *engine)
{
    struct remote remote;
    open_no_more(engine);
    enum tern_status status = remote_init(&remote, engine);
    if (!status) {
        struct op op = {0};
        status = engine_call(&remote, 0, &op, FRAME_BYE);
        if (!status)
            buffer_free(&op.answer_body);
        remote_fini(&remote);
    }
    if (!status && engine->server.group)
        linger(engine);
    return status;
}
