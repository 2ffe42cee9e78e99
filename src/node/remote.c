/* remote - see remote.h. */
#include "node/remote.h"

#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/hello.h"

enum {
    OUT_BYTES = 128 << 10,     /* bytes of requests made ahead of the socket */
    TOGETHER_BYTES = 16 << 10, /* requests wait for company up to this many bytes */
    RETRY_MS = 20,
    DRIVE_MS = 1,  /* the longest wait of a worker that drives: rounds go on */
    LOCAL_MS = 1,  /* how often a wait looks for keys that come to this node */
    LOOK_MS = 100, /* how often a patient wait looks for dead nodes */
};

#define MS UINT64_C(1000000)
#define AWAKE_NS (MS / 5)

/* Makes the rest of a remote whose client is made, or not. */
static enum tern_status init(struct remote *remote, enum tern_status status)
{
    uint32_t n_lanes = remote->client.n_lanes;
    remote->peers = status ? NULL : calloc(n_lanes, sizeof *remote->peers);
    remote->polls = status ? NULL : calloc(n_lanes + STORE_MAX_SHARDS, sizeof *remote->polls);
    if (remote->peers && remote->polls && engine_take_lane(remote->engine, &remote->lane))
        return TERN_OK;
    if (!status)
        client_fini(&remote->client);
    free(remote->peers);
    free(remote->polls);
    return fail(TERN_NO_MEMORY, "no memory for connections to %" PRIu32 " nodes",
                remote->engine->core.n_nodes);
}

enum tern_status remote_init(struct remote *remote, struct engine *engine)
{
    *remote = (struct remote){.engine = engine, .wake_fd = -1};
    return init(remote, client_init(&remote->client, &engine->core));
}

enum tern_status remote_init_shard(struct remote *remote, struct engine *engine, uint32_t shard)
{
    *remote = (struct remote){.engine = engine, .wake_fd = -1};
    return init(remote, client_init_shard(&remote->client, &engine->core, shard));
}

void remote_fini(struct remote *remote)
{
    for (uint32_t i = 0; i < remote->client.n_lanes; i++)
        connection_fini(&remote->peers[i].connection);
    client_fini(&remote->client);
    free(remote->peers);
    free(remote->polls);
    engine_give_lane(remote->engine, remote->lane);
}

static struct peer *peer_of(struct remote *remote, const struct lane *lane)
{
    return &remote->peers[lane - remote->client.lanes];
}

/* Gives up the connection; it is made again when it is needed. */
static void disconnect(struct remote *remote, struct lane *lane)
{
    struct peer *peer = peer_of(remote, lane);
    if (!peer->refused)
        snprintf(peer->trouble, sizeof peer->trouble, "%s", tern_error());
    connection_close(&peer->connection);
    peer->welcomed = peer->turned_away = peer->unmade = false;
    peer->retry_ns = clock_now_ns() + RETRY_MS * MS;
    lane_resume(lane);
}

/* Begins a connection: the address is dialled and the HELLO is on its way. */
static void connect_lane(struct remote *remote, struct lane *lane)
{
    struct engine *engine = remote->engine;
    struct peer *peer = peer_of(remote, lane);
    const char *address = engine->addresses[lane->node];
    enum tern_status status = stream_connect(engine->net, address, &peer->connection.stream);
    if (!status &&
        hello_append(&peer->connection.out, &engine->place, &engine->core, remote->lane,
                     lane->shard))
        return;
    disconnect(remote, lane);
    peer->unmade = status;
}

/* Takes the answer to HELLO. */
static bool take_welcome(struct remote *remote, struct lane *lane, const struct frame *frame,
                         const uint8_t *body)
{
    struct peer *peer = peer_of(remote, lane);
    if (frame->kind == FRAME_ERROR) {
        fail(TERN_PEER, "node %" PRIu32 " refused this one: %.*s", lane->node,
             (int)frame_payload_bytes(frame), (const char *)body + frame->keys_bytes);
        snprintf(peer->trouble, sizeof peer->trouble, "%s", tern_error());
        peer->refused = true;
        return false;
    }
    if (frame->kind != FRAME_WELCOME) {
        fail(TERN_PEER, "node %" PRIu32 " answered HELLO with %s", lane->node,
             frame_kind_name(frame->kind));
        return false;
    }
    uint64_t joined = remote->engine->incarnations[lane->node];
    if (joined && joined != frame->a) {
        fail(TERN_PEER, "node %" PRIu32 " was restarted", lane->node);
        lane_fail(&remote->client, lane, TERN_PEER, tern_error());
        return false;
    }
    lane_welcome(lane, frame->b);
    peer->welcomed = peer->met = true;
    peer->trouble[0] = '\0';
    peer->refused = false;
    return true;
}

/* Has the rest of long values read straight to the caller's memory, where that is possible. */
static void put_in_place(struct peer *peer, const struct lane *lane)
{
    struct connection *connection = &peer->connection;
    if (!peer->welcomed || !connection->has_header || connection->place)
        return;
    uint8_t *place = lane_place(lane, &connection->frame);
    if (place)
        connection_put(connection, place);
}

/* Handles all whole frames that have come. False if the connection must be given up. */
static bool take_frames(struct remote *remote, struct lane *lane)
{
    struct peer *peer = peer_of(remote, lane);
    struct connection *connection = &peer->connection;
    for (;;) {
        const uint8_t *body;
        enum found found = connection_next(connection, FRAME_MAX_BODY_BYTES, &body);
        if (found == FOUND_NOTHING)
            put_in_place(peer, lane);
        if (found != FOUND_FRAME)
            return found == FOUND_NOTHING;
        if (connection->rest.n && lane_awaits_last(lane)) {
            fail(TERN_PEER, "node %" PRIu32 " answered a request before it was sent", lane->node);
            return false;
        }
        const struct frame *frame = &connection->frame;
        bool fits = peer->welcomed ? !lane_reply(&remote->client, lane, frame, body)
                                   : take_welcome(remote, lane, frame, body);
        if (!fits)
            return false;
        if (frame->kind == FRAME_HOLD)
            atomic_store_explicit(&remote->engine->held_ns, clock_now_ns(), memory_order_relaxed);
        connection_drop(connection);
    }
}

/* Sends what may be sent now. */
static bool send_requests(struct remote *remote, struct lane *lane)
{
    struct connection *connection = &peer_of(remote, lane)->connection;
    for (;;) {
        if (peer_of(remote, lane)->welcomed &&
            !lane_send_in_place(&remote->client, lane, OUT_BYTES, &connection->out,
                                &connection->rest)) {
            fail(TERN_NO_MEMORY, "no memory for requests to node %" PRIu32, lane->node);
            return false;
        }
        if (!connection_write(connection, true))
            return false;
        if (connection_unsent(connection) || !lane_may_send(lane) ||
            !peer_of(remote, lane)->welcomed)
            break;
    }
    stream_flush(connection->stream);
    return true;
}

/* Sends and receives on one lane without waiting. */
static void advance_lane(struct remote *remote, struct lane *lane, bool readable)
{
    struct peer *peer = peer_of(remote, lane);
    if (!peer->connection.stream) {
        if (clock_now_ns() < peer->retry_ns)
            return;
        connect_lane(remote, lane);
        if (!peer->connection.stream)
            return;
    }
    if (!send_requests(remote, lane)) {
        disconnect(remote, lane);
        return;
    }
    bool is_greeting = !peer->welcomed && stream_established(peer->connection.stream);
    while (readable) {
        ssize_t n = connection_read(&peer->connection, READ_BYTES);
        /* A connection that is refused again and again is no sign of life. */
        if (n > 0 && peer->welcomed)
            peer->heard_ns = clock_now_ns();
        if (n < 0 || !take_frames(remote, lane)) {
            bool turned_away = n < 0 && is_greeting && !stream_heard(peer->connection.stream);
            disconnect(remote, lane);
            peer->turned_away = turned_away;
            return;
        }
        if (n == 0 || !lane_is_waiting(lane))
            break;
        /* Answers make room for further requests. */
        if (lane_may_send(lane) && !send_requests(remote, lane)) {
            disconnect(remote, lane);
            return;
        }
        readable = peer->connection.has_more || stream_pending(peer->connection.stream);
    }
}

/* Notes when a lane begins to wait: requests may come to it by answers of others, too. */
static void note_waiting(struct peer *peer, const struct lane *lane)
{
    bool waits = lane_is_waiting(lane);
    if (waits && !peer->waits)
        peer->heard_ns = clock_now_ns();
    peer->waits = waits;
}

void remote_nudge(struct remote *remote, struct lane *lane)
{
    struct peer *peer = peer_of(remote, lane);
    struct connection *connection = &peer->connection;
    bool alone = lane->unsent == lane->first;
    note_waiting(peer, lane);
    if (alone || !peer->welcomed) {
        advance_lane(remote, lane, false);
        return;
    }
    if (!lane_send_in_place(&remote->client, lane, OUT_BYTES, &connection->out,
                            &connection->rest) ||
        (connection_unsent(connection) >= TOGETHER_BYTES && !connection_write(connection, false)))
        disconnect(remote, lane);
}

static void advance_lanes(struct remote *remote, bool readable)
{
    bool local_waits = lane_is_waiting(&remote->client.local);
    if (local_waits && !remote->local_waits)
        remote->local_since_ns = clock_now_ns();
    remote->local_waits = local_waits;
    if (local_waits)
        client_do_local(&remote->client);
    for (uint32_t i = 0; i < remote->client.n_lanes; i++) {
        struct lane *lane = &remote->client.lanes[i];
        note_waiting(&remote->peers[i], lane);
        if (lane_is_waiting(lane))
            advance_lane(remote, lane, readable);
    }
}

/* How long to wait for somebody who may wait himself for a node that is dead: the coordinator, whom the pulse asks, soon
 * knows for which. */
static uint64_t patience_ns(const struct remote *remote, bool may_be_held_up)
{
    const struct engine *engine = remote->engine;
    const uint64_t deadline_ns = engine->place.deadline_ns;
    bool is_known = atomic_load_explicit(&engine->dead, memory_order_relaxed);
    return may_be_held_up && !is_known && !remote->is_pulse ? deadline_ns + deadline_ns / 2
                                                            : deadline_ns;
}

/* Fails a lane whose node is dead or has been silent for the deadline. */
static void look_after(struct remote *remote, struct lane *lane, bool patient, uint64_t now)
{
    struct engine *engine = remote->engine;
    struct peer *peer = peer_of(remote, lane);
    uint64_t silent = now > peer->heard_ns ? now - peer->heard_ns : 0;
    const uint32_t given_up = atomic_load_explicit(&engine->dead, memory_order_relaxed);
    bool dead = given_up == lane->node + 1 ||
                atomic_load_explicit(&engine->stop, memory_order_relaxed);
    bool waits_rightly = patient && peer->welcomed;
    if (!dead && (waits_rightly || silent < patience_ns(remote, peer->welcomed)))
        return;
    char sentence[800];
    if (given_up && !dead && peer->welcomed)
        snprintf(sentence, sizeof sentence,
                 "node %" PRIu32 " at %s was given up: it gave no sign of life for %.1f s, and node "
                 "%" PRIu32 " does not answer without it",
                 given_up - 1, engine->addresses[given_up - 1],
                 (double)engine->place.deadline_ns / 1e9, lane->node);
    else if (peer->refused)
        snprintf(sentence, sizeof sentence, "%s", peer->trouble);
    else if (peer->turned_away && !dead)
        snprintf(sentence, sizeof sentence,
                 "node %" PRIu32
                 " takes no further connection: its limit of open files (ulimit -Hn) is "
                 "too low for one of each worker of each node, or too many call it at once",
                 lane->node);
    else if (dead && silent < engine->place.deadline_ns && !peer->trouble[0])
        snprintf(sentence, sizeof sentence,
                 "node %" PRIu32 " at %s was given up: it gave no sign of life for %.1f s",
                 lane->node, engine->addresses[lane->node],
                 (double)engine->place.deadline_ns / 1e9);
    else if (peer->connection.stream || !peer->trouble[0])
        snprintf(sentence, sizeof sentence,
                 "node %" PRIu32 " at %s has not answered for %.1f s%s%s", lane->node,
                 engine->addresses[lane->node], (double)silent / 1e9,
                 peer->trouble[0] ? "; earlier, " : "", peer->trouble);
    else
        snprintf(sentence, sizeof sentence, "node %" PRIu32 " %s: %s", lane->node,
                 peer->unmade || !peer->met ? "cannot be reached" : "is gone", peer->trouble);
    lane_fail(&remote->client, lane, TERN_PEER, sentence);
    connection_close(&peer->connection);
    peer->welcomed = false;
    lane_resume(lane);
}

/* Fails what waits for keys that should have come here long ago. */
static void look_after_local(struct remote *remote, uint64_t now)
{
    struct lane *local = &remote->client.local;
    /* They may be at a node that has still to open the table, and says so. */
    uint64_t held_ns = atomic_load_explicit(&remote->engine->held_ns, memory_order_relaxed);
    uint64_t since_ns = held_ns > remote->local_since_ns ? held_ns : remote->local_since_ns;
    uint64_t waited = now > since_ns ? now - since_ns : 0;
    if (!lane_is_waiting(local) || !remote->local_waits)
        return;
    const struct engine *engine = remote->engine;
    if (waited < patience_ns(remote, true) &&
        !atomic_load_explicit(&engine->stop, memory_order_relaxed))
        return;
    const uint32_t given_up = atomic_load_explicit(&engine->dead, memory_order_relaxed);
    char sentence[800];
    if (given_up)
        snprintf(sentence, sizeof sentence,
                 "node %" PRIu32 " at %s was given up: it gave no sign of life for %.1f s, and keys "
                 "do not come to this node without it",
                 given_up - 1, engine->addresses[given_up - 1],
                 (double)engine->place.deadline_ns / 1e9);
    else
        snprintf(sentence, sizeof sentence,
                 "keys on their way to this node have not come for %.1f s", (double)waited / 1e9);
    lane_fail(&remote->client, local, TERN_PEER, sentence);
}

/* Looks after all lanes in use. A node's silence counts while the program asks for answers: when it did
 * something else for long, the wait begins now. */
static void look_around(struct remote *remote, bool patient)
{
    struct engine *engine = remote->engine;
    uint64_t now = clock_now_ns();
    bool anew = now - remote->looked_ns > engine->place.deadline_ns / 2;
    remote->looked_ns = now;
    look_after_local(remote, now);
    for (uint32_t i = 0; i < remote->client.n_lanes; i++) {
        /* An answer on another lane may have given this one its first work. */
        note_waiting(&remote->peers[i], &remote->client.lanes[i]);
        if (!lane_is_waiting(&remote->client.lanes[i]))
            continue;
        if (anew)
            remote->peers[i].heard_ns = now;
        look_after(remote, &remote->client.lanes[i], patient, now);
    }
}

void remote_progress(struct remote *remote)
{
    advance_lanes(remote, true);
    look_around(remote, false);
}

static bool drives(const struct remote *remote)
{
    return remote->drives && engine_has_rounds(remote->engine);
}

/* Waits for any of the lanes in use, and for others that ask this node. */
static void wait_for_lanes(struct remote *remote, bool requests, int timeout_ms)
{
    nfds_t n = 0;
    if (lane_is_waiting(&remote->client.local))
        timeout_ms = LOCAL_MS;
    for (uint32_t i = 0; i < remote->client.n_lanes; i++) {
        const struct peer *peer = &remote->peers[i];
        if (!lane_is_waiting(&remote->client.lanes[i]))
            continue;
        if (!peer->connection.stream) {
            timeout_ms = timeout_ms < RETRY_MS ? timeout_ms : RETRY_MS;
            continue;
        }
        if (stream_pending(peer->connection.stream))
            return;
        remote->polls[n++] =
            (struct pollfd){.fd = stream_fd(peer->connection.stream),
                            .events = stream_events(peer->connection.stream, true,
                                                    connection_unsent(&peer->connection) > 0)};
    }
    if (requests) {
        const struct engine *engine = remote->engine;
        uint32_t n_shards = atomic_load_explicit(&engine->n_shards, memory_order_acquire);
        for (uint32_t i = 0; i < n_shards; i++)
            remote->polls[n++] =
                (struct pollfd){.fd = engine->shards[i].epoll_fd, .events = POLLIN};
        timeout_ms = timeout_ms < DRIVE_MS ? timeout_ms : DRIVE_MS;
    } else if (remote->wake_fd >= 0) {
        remote->polls[n++] = (struct pollfd){.fd = remote->wake_fd, .events = POLLIN};
    }
    poll(remote->polls, n, timeout_ms);
}

void remote_wait_for_any(struct remote *remote, int timeout_ms)
{
    wait_for_lanes(remote, drives(remote), timeout_ms);
}

void remote_wait_driving(struct remote *remote, int timeout_ms)
{
    wait_for_lanes(remote, true, timeout_ms);
}

/* Waits a short while without sleeping: the node that is asked is likely to be driven by a worker, too,
 * and answers between two of its steps; to fall asleep and be woken takes as long. */
static void wait_awake(struct remote *remote, const struct op *op)
{
    uint64_t now = clock_now_ns(), end = now + AWAKE_NS;
    for (; !op_is_done(op) && now < end; now = clock_now_ns()) {
        engine_drive(remote->engine, now);
        advance_lanes(remote, true);
        sched_yield();
    }
}

void remote_wait(struct remote *remote, struct op *op, bool patient)
{
    uint64_t quarter_ms = remote->engine->place.deadline_ns / MS / 4;
    int timeout_ms = patient || quarter_ms > LOOK_MS ? LOOK_MS : (int)quarter_ms + 1;
    /* What was just sent has no answer yet: to read before the wait would be in vain. After it, what came
     * is read before anybody is declared dead. */
    if (!op_is_done(op))
        advance_lanes(remote, false);
    if (!op_is_done(op) && drives(remote))
        wait_awake(remote, op);
    while (!op_is_done(op)) {
        if (drives(remote))
            engine_drive(remote->engine, clock_now_ns());
        wait_for_lanes(remote, drives(remote), timeout_ms);
        advance_lanes(remote, true);
        if (!op_is_done(op))
            look_around(remote, patient);
    }
}
