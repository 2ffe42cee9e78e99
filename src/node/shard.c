/* shard - see shard.h. */
#include "node/shard.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/reply.h"
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
    DRIVEN_MS = 2,      /* without a worker that drives, until the threads take over */
    TICK_MS = 100,      /* how often the coordinator looks for dead nodes */
    HELLO_MS = 5000,    /* for a connection to say who it is */
    STRANGERS = 256,    /* connections that have not, at the most */
    SILENT_MS = 100,    /* without a first byte, until one makes room for another if they are too many, */
    STALLED_MS = 2000,  /* and without a further one */
    FAREWELL_MS = 1000, /* for the last answers to be taken */
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

/* ---- Connections ------------------------------------------------------------------------------- */

/* Adds a connection to the list, and to the table by descriptor; false when memory is used up. */
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
    incoming->next = shard->incoming;
    if (incoming->next)
        incoming->next->before = incoming;
    shard->incoming = incoming;
    shard->n_strangers++;
    return true;
}

static void remove_incoming(struct shard *shard, struct incoming *incoming)
{
    *(incoming->before ? &incoming->before->next : &shard->incoming) = incoming->next;
    if (incoming->next)
        incoming->next->before = incoming->before;
    incoming->next = incoming->before = NULL;
    shard->by_fd[stream_fd(incoming->connection.stream)] = NULL;
    shard->n_strangers -= !incoming->known;
}

static void close_incoming(struct shard *shard, struct incoming *incoming)
{
    remove_incoming(shard, incoming);
    if (incoming->known && incoming->known->incoming == incoming)
        incoming->known->incoming = NULL;
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
    return !incoming->held && !connection->rest.n &&
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

/* The stranger whose place is given to a new one. First the oldest of those who say nothing, so that many of them
 * do not keep out those who have something to say; then whoever has stopped in the middle of it. NULL: all get on,
 * and what they have done so far would be lost. (The list has the youngest first.) */
static struct incoming *idle_stranger(const struct shard *shard)
{
    struct incoming *idle = NULL;
    for (struct incoming *incoming = shard->incoming; incoming; incoming = incoming->next)
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
static uint64_t lane_key(const struct shard *shard, const struct hello *hello)
{
    uint64_t key = hash_u64(hello->incarnation ^ hash_u64(hello->lane ^ hash_u64(hello->node)));
    for (uint32_t place; (place = keymap_get(&shard->lane_places, key)) != 0; key++)
        if (is_lane_of(shard->lanes[place - 1], hello))
            break;
    return key;
}

static bool make_room_for_lane(struct shard *shard)
{
    if (!keymap_reserve(&shard->lane_places, 1))
        return false;
    if (shard->n_lanes < shard->max_lanes)
        return true;
    size_t max = 2 * shard->max_lanes + 16;
    struct known_lane **lanes = realloc(shard->lanes, max * sizeof(struct known_lane *));
    if (!lanes)
        return false;
    shard->lanes = lanes;
    shard->max_lanes = max;
    return true;
}

/* The lane of a caller, known from before or new; NULL when memory is used up. */
static struct known_lane *know_lane(struct shard *shard, const struct hello *hello)
{
    uint64_t key = lane_key(shard, hello);
    uint32_t place = keymap_get(&shard->lane_places, key);
    if (place)
        return shard->lanes[place - 1];
    struct known_lane *known = make_room_for_lane(shard) ? calloc(1, sizeof *known) : NULL;
    if (!known)
        return NULL;
    known->id = hello->lane;
    known->lane.node = hello->node;
    known->lane.incarnation = hello->incarnation;
    shard->lanes[shard->n_lanes++] = known;
    keymap_set(&shard->lane_places, key, (uint32_t)shard->n_lanes);
    return known;
}

/* Whether there is no shard of this number yet, but may be when this node has joined and started all. */
static bool may_come(const struct engine *engine, uint32_t number)
{
    const uint32_t n_all = engine->core.n_shards;
    return number >= atomic_load_explicit(&engine->n_shards, memory_order_acquire) &&
           (!n_all || number < n_all);
}

/* Handles the first frame of a connection. One that is refused was told so; one for a shard that may come is held. */
static enum served greet(struct shard *shard, struct incoming *incoming, const uint8_t *body)
{
    struct connection *connection = &incoming->connection;
    const struct frame *frame = &connection->frame;
    struct hello hello;
    enum tern_status status = hello_read(frame, body, &shard->engine->place, &hello);
    if (!status && hello.shard != shard->number && may_come(shard->engine, hello.shard))
        return HELD;
    if (!status && hello.shard != shard->number)
        status = fail(TERN_PEER, "the caller asks for shard %" PRIu32 " of a node with %" PRIu32,
                      hello.shard, shard->engine->core.n_shards);
    struct known_lane *known = status ? NULL : know_lane(shard, &hello);
    if (!known) {
        reply_error(&connection->out, frame, shard->engine->core.epoch, TERN_PEER, tern_error());
        connection_write(connection, false);
        return REFUSED;
    }
    /* The client has given up an older connection of this lane; what it sent there must not be
     * executed after what it sends here. */
    if (known->incoming)
        close_incoming(shard, known->incoming);
    known->incoming = incoming;
    incoming->known = known;
    shard->n_strangers--;
    struct frame welcome = {.kind = FRAME_WELCOME,
                            .epoch = shard->engine->core.epoch,
                            .a = shard->engine->core.incarnation,
                            .b = known->lane.executed};
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(&welcome, header);
    return buffer_append(&connection->out, header, sizeof header) ? SERVED : REFUSED;
}

/* Whether the caller is the process that joined under its number, as far as is known. Another one is
 * only told so, by the answer to JOIN. */
static bool is_member(const struct shard *shard, const struct server_lane *lane)
{
    uint64_t joined = shard->engine->incarnations[lane->node];
    return !joined || joined == lane->incarnation;
}

static void note_awaited(struct incoming *incoming, bool awaits_table, uint64_t now)
{
    if (awaits_table && !incoming->awaits_table)
        incoming->told_ns = now;
    incoming->awaits_table = awaits_table;
}

/* Executes the requests that have come. False: the connection must be closed. */
static bool serve(struct shard *shard, struct incoming *incoming, uint64_t now, bool *changed)
{
    struct connection *connection = &incoming->connection;
    while (wants_reading(incoming)) {
        const uint8_t *body;
        size_t limit = incoming->known ? FRAME_MAX_BODY_BYTES : HELLO_MAX_BYTES;
        enum found found = connection_next(connection, limit, &body);
        if (found != FOUND_FRAME)
            return found == FOUND_NOTHING;
        if (!incoming->known) {
            enum served greeted = greet(shard, incoming, body);
            if (greeted == REFUSED)
                return false;
            incoming->held = greeted == HELD;
            if (greeted == SERVED)
                connection_drop(connection);
            continue;
        }
        struct server_lane *lane = &incoming->known->lane;
        if (!is_member(shard, lane) && connection->frame.kind != FRAME_JOIN)
            return false;
        shard->server.holds_for_table = false;
        enum served served = server_request(&shard->server, lane, &connection->frame, body, now,
                                            &connection->out, changed);
        note_awaited(incoming, shard->server.holds_for_table, now);
        connection->rest = shard->server.kept;
        shard->server.kept.n = 0;
        if (served == REFUSED)
            return false;
        if (served == HELD)
            incoming->held = true;
        else
            connection_drop(connection);
    }
    return true;
}

/* The shard that a stranger asks for, if it has said so by now and there is such a one. */
static struct shard *shard_for(struct shard *shard, struct incoming *incoming)
{
    struct engine *engine = shard->engine;
    const uint8_t *body;
    struct hello hello;
    if (incoming->known ||
        connection_next(&incoming->connection, HELLO_MAX_BYTES, &body) != FOUND_FRAME ||
        hello_read(&incoming->connection.frame, body, &engine->place, &hello) ||
        hello.shard >= atomic_load_explicit(&engine->n_shards, memory_order_acquire))
        return shard;
    return &engine->shards[hello.shard];
}

static void hand_over(struct shard *shard, struct incoming *incoming, struct shard *to,
                      uint64_t now);

/* Executes and answers. `more`: the caller goes on to read if the connection wants it, so a short answer
 * can wait. False: there was something wrong with the connection, and it is closed; or it is another shard's now. */
static bool work_on(struct shard *shard, struct incoming *incoming, uint64_t now, bool more,
                    bool *changed)
{
    bool full;
    struct shard *to = shard_for(shard, incoming);
    if (to != shard) {
        hand_over(shard, incoming, to, now);
        return false;
    }
    do {
        if (!serve(shard, incoming, now, changed)) {
            refuse_incoming(shard, incoming);
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
        /* A kept answer that is out makes room for the next request, too. */
        full |= had_rest;
    } while (full && wants_reading(incoming));
    if (!more || !wants_reading(incoming))
        stream_flush(incoming->connection.stream);
    ask_events(shard, incoming);
    return true;
}

static void note_heard(struct shard *shard, struct incoming *incoming, uint64_t now)
{
    /* A round of many handshakes may take long: it is not theirs to be blamed for. */
    if (!incoming->known && stream_heard(incoming->connection.stream))
        incoming->heard_ns = clock_now_ns();
    if (incoming->known && shard->server.group && is_member(shard, &incoming->known->lane))
        group_heard(shard->server.group, incoming->known->lane.node, now);
}

/* Reads and serves in turns, so that requests are executed while they are in a core's cache. */
static void handle_event(struct shard *shard, struct incoming *incoming, uint32_t events,
                         uint64_t now, bool *changed)
{
    struct connection *connection = &incoming->connection;
    bool readable = events & (EPOLLERR | EPOLLHUP) || !incoming->known ||
                    (events & EPOLLIN && wants_reading(incoming));
    if (!readable && !work_on(shard, incoming, now, false, changed))
        return;
    readable |= wants_reading(incoming) && (events || stream_pending(connection->stream));
    for (size_t turn = 0; readable;) {
        /* A stranger gets no more memory than its HELLO needs. */
        size_t most = incoming->known ? READ_BYTES : FRAME_HEADER_BYTES + HELLO_MAX_BYTES;
        ssize_t n = connection_read(connection, most);
        if (n < 0) {
            if (!incoming->known)
                atomic_fetch_add_explicit(&shard->engine->n_refused, 1, memory_order_relaxed);
            close_incoming(shard, incoming);
            return;
        }
        note_heard(shard, incoming, now);
        turn += (size_t)n;
        bool more = connection->has_more && turn < TURN_BYTES;
        if (!work_on(shard, incoming, now, more, changed))
            return;
        readable = wants_reading(incoming) && (more || stream_pending(connection->stream));
    }
}

/* Gives a stranger, who comes to the first shard, to the one it asks for. */
static void hand_over(struct shard *shard, struct incoming *incoming, struct shard *to,
                      uint64_t now)
{
    struct epoll_event event = {.events = incoming->events,
                                .data.fd = stream_fd(incoming->connection.stream)};
    epoll_ctl(shard->epoll_fd, EPOLL_CTL_DEL, event.data.fd, &event);
    remove_incoming(shard, incoming);
    incoming->held = false;
    pthread_mutex_lock(&to->lock);
    if (!add_incoming(to, incoming)) {
        connection_fini(&incoming->connection);
        free(incoming);
    } else if (epoll_ctl(to->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event)) {
        close_incoming(to, incoming);
    } else {
        bool changed = false;
        handle_event(to, incoming, 0, now, &changed);
    }
    pthread_mutex_unlock(&to->lock);
}

/* Takes newcomers, or lets them wait in the listener's queue. They come to the first shard. */
static void take_newcomers(struct shard *shard, bool take)
{
    if (shard->number != 0 ||
        atomic_load_explicit(&shard->engine->takes_newcomers, memory_order_relaxed) == take)
        return;
    atomic_store_explicit(&shard->engine->takes_newcomers, take, memory_order_relaxed);
    struct epoll_event event = {.events = take ? EPOLLIN : 0,
                                .data.fd = listener_fd(shard->engine->listener)};
    epoll_ctl(shard->epoll_fd, EPOLL_CTL_MOD, event.data.fd, &event);
}

/* Takes new connections, as long as there is room for strangers. Each is read at once: with TLS the handshake may
 * be over already, and what came behind it be in memory, where epoll does not see it. */
static void accept_incoming(struct shard *shard, uint64_t now, bool *changed)
{
    for (;;) {
        bool full = shard->n_strangers >= STRANGERS;
        struct incoming *idle = full ? idle_stranger(shard) : NULL;
        if (full && !idle) {
            take_newcomers(shard, false);
            return;
        }
        struct stream *stream = listener_accept(shard->engine->listener);
        if (!stream)
            return;
        if (idle)
            refuse_incoming(shard, idle);
        struct incoming *incoming = calloc(1, sizeof *incoming);
        if (incoming)
            *incoming = (struct incoming){
                .connection.stream = stream, .since_ns = now, .events = EPOLLIN};
        if (!incoming || !add_incoming(shard, incoming)) {
            atomic_fetch_add_explicit(&shard->engine->n_refused, 1, memory_order_relaxed);
            free(incoming);
            stream_close(stream);
            continue;
        }
        struct epoll_event event = {.events = EPOLLIN, .data.fd = stream_fd(stream)};
        if (epoll_ctl(shard->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event))
            refuse_incoming(shard, incoming);
        else
            handle_event(shard, incoming, EPOLLIN, now, changed);
    }
}

/* Tries held requests again until nothing changes any more. What came behind one over TLS may be in
 * memory, where epoll does not see it. */
static void retry_held(struct shard *shard, uint64_t now)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (struct incoming *incoming = shard->incoming, *next; incoming; incoming = next) {
            next = incoming->next;
            if (!incoming->held)
                continue;
            incoming->held = false;
            handle_event(shard, incoming, 0, now, &changed);
        }
    }
}

/* Says that a request waits rightly. False: the connection must be closed. */
static bool tell_held(struct shard *shard, struct incoming *incoming)
{
    struct connection *connection = &incoming->connection;
    struct frame hold = reply_frame(&connection->frame, shard->engine->core.epoch, FRAME_HOLD);
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(&hold, header);
    if (!buffer_append(&connection->out, header, sizeof header) ||
        !connection_write(connection, false))
        return false;
    ask_events(shard, incoming);
    return true;
}

/* Gives those a sign of life who wait for a table to be opened here, before they believe this node dead; those who
 * wait for others to join, since they have no pulse yet; and all who wait while this node's own rounds wait for a table
 * elsewhere. */
static void tell_all_held(struct shard *shard, uint64_t now)
{
    uint64_t held_ns = atomic_load_explicit(&shard->engine->held_ns, memory_order_relaxed);
    bool waits = held_ns && now < held_ns + shard->engine->place.deadline_ns / 2;
    for (struct incoming *incoming = shard->incoming, *next; incoming; incoming = next) {
        next = incoming->next;
        bool joins = incoming->connection.frame.kind == FRAME_JOIN;
        if (!incoming->held || !(incoming->awaits_table || joins || waits) ||
            now - incoming->told_ns < shard->engine->place.deadline_ns / 4)
            continue;
        incoming->told_ns = now;
        if (!tell_held(shard, incoming))
            close_incoming(shard, incoming);
    }
}

static void close_late_strangers(struct shard *shard, uint64_t now)
{
    for (struct incoming *incoming = shard->incoming, *next; incoming; incoming = next) {
        next = incoming->next;
        if (!incoming->known && now - incoming->since_ns > HELLO_MS * MS)
            refuse_incoming(shard, incoming);
    }
}

/* How long the service thread sleeps at the most: strangers and dead nodes must be noticed, those who wait be
 * told, and newcomers let in. */
static int next_timeout_ms(const struct shard *shard)
{
    uint64_t tell_ms = shard->engine->place.deadline_ns / MS / 4;
    bool looks = shard->server.group ||
                 !atomic_load_explicit(&shard->engine->takes_newcomers, memory_order_relaxed);
    int most_ms = looks ? TICK_MS : HELLO_MS;
    return tell_ms < (uint64_t)most_ms ? (int)tell_ms + 1 : most_ms;
}

/* Looks at all connections, now and then. */
static void look_at_all(struct shard *shard, uint64_t now)
{
    uint64_t tick_ns = TICK_MS * MS, tell_ns = shard->engine->place.deadline_ns / 4;
    if (now - shard->looked_ns < (tell_ns < tick_ns ? tell_ns : tick_ns))
        return;
    shard->looked_ns = now;
    tell_all_held(shard, now);
    if (shard->n_strangers)
        close_late_strangers(shard, now);
    take_newcomers(shard, true); /* for whom there may be room by now; else they wait on */
}

static struct incoming *incoming_at(const struct shard *shard, int fd)
{
    return (size_t)fd < shard->n_by_fd ? shard->by_fd[fd] : NULL;
}

/* Handles what epoll reported. The caller holds the shard's lock. */
static void handle_events(struct shard *shard, const struct epoll_event *events, int n)
{
    uint64_t now = clock_now_ns();
    bool changed = false;
    for (int i = 0; i < n; i++) {
        int fd = events[i].data.fd;
        /* It may have been closed since, and the descriptor be another connection's, of which nothing is known
         * then: to look at that one does no harm. */
        struct incoming *incoming = incoming_at(shard, fd);
        if (fd == listener_fd(shard->engine->listener)) {
            accept_incoming(shard, now, &changed);
        } else if (fd == shard->wake_fd) {
            uint64_t count;
            changed |= read(shard->wake_fd, &count, sizeof count) == sizeof count;
        } else if (incoming) {
            handle_event(shard, incoming, events[i].events, now, &changed);
        }
    }
    if (shard->server.group && group_tick(shard->server.group, now))
        changed = true;
    if (changed)
        retry_held(shard, now);
    if (shard->server.wants_round) {
        shard->server.wants_round = false;
        sync_hurry(&shard->sync);
    }
    if (shard->n_strangers < STRANGERS)
        take_newcomers(shard, true);
    look_at_all(shard, now);
}

/* Gives the last answers a moment to be taken. */
static void say_farewell(struct shard *shard)
{
    uint64_t end = clock_now_ns() + FAREWELL_MS * MS;
    pthread_mutex_lock(&shard->lock); /* the first shard may still give connections to this one */
    for (struct incoming *incoming = shard->incoming; incoming; incoming = incoming->next) {
        struct connection *connection = &incoming->connection;
        while (connection_write(connection, false) && connection_unsent(connection)) {
            uint64_t now = clock_now_ns();
            if (now >= end || !stream_wait(connection->stream, true, (int)((end - now) / MS) + 1))
                break;
        }
    }
    pthread_mutex_unlock(&shard->lock);
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
    if (pthread_mutex_trylock(&shard->lock) == 0) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(shard->epoll_fd, events, EVENTS, 0);
        if (n > 0)
            handle_events(shard, events, n);
        pthread_mutex_unlock(&shard->lock);
    }
    sync_drive(&shard->sync, now_ns);
}

/* While workers drive, the thread stays away from the lock but for a tick now and then: if it were taken
 * off its core with the lock held, the worker that runs there instead could serve nobody. */
static void *service_main(void *context)
{
    struct shard *shard = context;
    struct epoll_event events[EVENTS];
    uint64_t ticked_ns = 0;
    while (!atomic_load_explicit(&shard->engine->stop, memory_order_acquire)) {
        bool is_driven = shard_is_driven(shard, clock_now_ns());
        int n = is_driven ? poll(NULL, 0, DRIVEN_MS)
                          : epoll_wait(shard->epoll_fd, events, EVENTS, next_timeout_ms(shard));
        uint64_t now_ns = clock_now_ns();
        if (shard_is_driven(shard, now_ns) && now_ns < ticked_ns + TICK_MS * MS)
            continue;
        pthread_mutex_lock(&shard->lock);
        handle_events(shard, events, is_driven || n < 0 ? 0 : n);
        pthread_mutex_unlock(&shard->lock);
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

/* ---- Beginning and end -------------------------------------------------------------------------- */

static enum tern_status open_epoll(struct shard *shard)
{
    shard->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    shard->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event listener = {.events = EPOLLIN,
                                   .data.fd = listener_fd(shard->engine->listener)};
    struct epoll_event wake = {.events = EPOLLIN, .data.fd = shard->wake_fd};
    if (shard->epoll_fd < 0 || shard->wake_fd < 0 ||
        (shard->number == 0 &&
         epoll_ctl(shard->epoll_fd, EPOLL_CTL_ADD, listener.data.fd, &listener)) ||
        epoll_ctl(shard->epoll_fd, EPOLL_CTL_ADD, wake.data.fd, &wake))
        return fail(TERN_NETWORK, "no descriptors to wait with: %s", strerror(errno));
    return TERN_OK;
}

void shard_init(struct shard *shard, struct engine *engine, uint32_t number)
{
    *shard = (struct shard){.engine = engine, .number = number, .epoll_fd = -1, .wake_fd = -1};
    pthread_mutex_init(&shard->lock, NULL);
    sync_init(&shard->sync, shard);
}

enum tern_status shard_start(struct shard *shard, struct group *group)
{
    enum tern_status status = server_init(&shard->server, &shard->engine->core, group);
    if (status) {
        group_free(group);
        return status;
    }
    shard->server.shard = shard->number;
    shard->server.sends_kept = true;
    status = open_epoll(shard);
    if (status)
        return status;
    int failure = pthread_create(&shard->service, NULL, service_main, shard);
    if (failure)
        return fail(TERN_NO_MEMORY, "no thread can be started: %s", strerror(failure));
    shard->has_service = true;
    return TERN_OK;
}

void shard_stop(struct shard *shard)
{
    if (!shard->has_service)
        return;
    shard_wake(shard);
    pthread_join(shard->service, NULL);
}

void shard_end(struct shard *shard)
{
    for (struct intents *intents = shard->intents, *next; intents; intents = next) {
        next = intents->next;
        intents_free(intents);
    }
    while (shard->incoming)
        close_incoming(shard, shard->incoming);
    free(shard->by_fd);
    for (size_t i = 0; i < shard->n_lanes; i++) {
        server_lane_fini(&shard->lanes[i]->lane);
        free(shard->lanes[i]);
    }
    free(shard->lanes);
    keymap_free(&shard->lane_places);
    if (shard->epoll_fd >= 0)
        close(shard->epoll_fd);
    if (shard->wake_fd >= 0)
        close(shard->wake_fd);
    group_free(shard->server.group);
    server_fini(&shard->server);
    pthread_mutex_destroy(&shard->lock);
}

bool shard_has_others(struct shard *shard)
{
    bool connected = false;
    pthread_mutex_lock(&shard->lock);
    for (const struct incoming *incoming = shard->incoming; incoming; incoming = incoming->next)
        connected |= incoming->known && incoming->known->lane.node != shard->engine->core.node &&
                     is_member(shard, &incoming->known->lane);
    pthread_mutex_unlock(&shard->lock);
    return connected;
}
