/* remote - see remote.h. */
#include "node/remote.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/hello.h"

enum {
    OUT_BYTES = 128 << 10,     /* bytes of requests made ahead of the socket */
    TOGETHER_BYTES = 16 << 10, /* requests wait for company up to this many bytes */
    RETRY_MS = 20,
    LOOK_MS = 100, /* how often a patient wait looks for dead nodes */
};

#define MS UINT64_C(1000000)

enum tern_status remote_init(struct remote *remote, struct engine *engine)
{
    uint32_t n_nodes = engine->core.n_nodes;
    *remote = (struct remote){.engine = engine};
    remote->lane = atomic_fetch_add_explicit(&engine->next_lane, 1, memory_order_relaxed);
    remote->peers = calloc(n_nodes, sizeof *remote->peers);
    remote->polls = calloc(n_nodes, sizeof *remote->polls);
    enum tern_status status = client_init(&remote->client, &engine->core);
    if (!status && remote->peers && remote->polls)
        return TERN_OK;
    if (!status)
        client_fini(&remote->client);
    free(remote->peers);
    free(remote->polls);
    return fail(TERN_NO_MEMORY, "no memory for connections to %" PRIu32 " nodes", n_nodes);
}

void remote_fini(struct remote *remote)
{
    for (uint32_t i = 0; i < remote->engine->core.n_nodes; i++)
        connection_fini(&remote->peers[i].connection);
    client_fini(&remote->client);
    free(remote->peers);
    free(remote->polls);
}

static struct peer *peer_of(struct remote *remote, const struct lane *lane)
{
    return &remote->peers[lane->node];
}

/* Gives up the connection; it is made again when it is needed. */
static void disconnect(struct remote *remote, struct lane *lane)
{
    struct peer *peer = peer_of(remote, lane);
    if (!peer->refused)
        snprintf(peer->trouble, sizeof peer->trouble, "%s", tern_error());
    connection_close(&peer->connection);
    peer->welcomed = false;
    peer->retry_ns = clock_now_ns() + RETRY_MS * MS;
    lane_resume(lane);
}

/* Begins a connection: the address is dialled and the HELLO is on its way. */
static void connect_lane(struct remote *remote, struct lane *lane)
{
    struct engine *engine = remote->engine;
    struct peer *peer = peer_of(remote, lane);
    const char *address = engine->addresses[lane->node];
    if (stream_connect(engine->net, address, &peer->connection.stream) ||
        !hello_append(&peer->connection.out, &engine->place, &engine->core, remote->lane))
        disconnect(remote, lane);
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
    peer->welcomed = true;
    peer->refused = false;
    return true;
}

/* Handles all whole frames that have come. False if the connection must be given up. */
static bool take_frames(struct remote *remote, struct lane *lane)
{
    struct peer *peer = peer_of(remote, lane);
    for (;;) {
        const uint8_t *body;
        enum found found = connection_next(&peer->connection, FRAME_MAX_BODY_BYTES, &body);
        if (found != FOUND_FRAME)
            return found == FOUND_NOTHING;
        const struct frame *frame = &peer->connection.frame;
        bool fits = peer->welcomed ? !lane_reply(&remote->client, lane, frame, body)
                                   : take_welcome(remote, lane, frame, body);
        if (!fits)
            return false;
        connection_drop(&peer->connection);
    }
}

/* Sends what may be sent now. */
static bool send_requests(struct remote *remote, struct lane *lane)
{
    struct connection *connection = &peer_of(remote, lane)->connection;
    for (;;) {
        if (peer_of(remote, lane)->welcomed &&
            !lane_send(&remote->client, lane, OUT_BYTES, &connection->out)) {
            fail(TERN_NO_MEMORY, "no memory for requests to node %" PRIu32, lane->node);
            return false;
        }
        bool more = lane->unsent != NULL;
        if (!connection_write(connection))
            return false;
        if (buffer_size(&connection->out) || !more || !lane->unsent ||
            lane->bytes_under_way >= LANE_BYTES || !peer_of(remote, lane)->welcomed)
            return true;
    }
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
    while (readable) {
        ssize_t n = connection_read(&peer->connection, READ_BYTES);
        /* A connection that is refused again and again is no sign of life. */
        if (n > 0 && peer->welcomed)
            peer->heard_ns = clock_now_ns();
        if (n < 0 || !take_frames(remote, lane)) {
            disconnect(remote, lane);
            return;
        }
        if (n == 0 || !lane_is_waiting(lane))
            break;
        /* Answers make room for further requests. */
        if (lane->unsent && !send_requests(remote, lane)) {
            disconnect(remote, lane);
            return;
        }
        readable = stream_pending(peer->connection.stream);
    }
}

void remote_nudge(struct remote *remote, struct lane *lane)
{
    struct peer *peer = peer_of(remote, lane);
    bool alone = lane->unsent == lane->first;
    if (alone)
        peer->heard_ns = clock_now_ns();
    if (alone || !peer->welcomed) {
        advance_lane(remote, lane, false);
        return;
    }
    if (!lane_send(&remote->client, lane, OUT_BYTES, &peer->connection.out) ||
        (buffer_size(&peer->connection.out) >= TOGETHER_BYTES &&
         !connection_write(&peer->connection)))
        disconnect(remote, lane);
}

static void advance_lanes(struct remote *remote, bool readable)
{
    for (uint32_t i = 0; i < remote->engine->core.n_nodes; i++)
        if (lane_is_waiting(&remote->client.lanes[i]))
            advance_lane(remote, &remote->client.lanes[i], readable);
}

/* Fails a lane whose node is dead or has been silent for the deadline. */
static void look_after(struct remote *remote, struct lane *lane, bool patient, uint64_t now)
{
    struct engine *engine = remote->engine;
    struct peer *peer = peer_of(remote, lane);
    uint64_t silent = now > peer->heard_ns ? now - peer->heard_ns : 0;
    bool dead = atomic_load_explicit(&engine->dead, memory_order_relaxed) == lane->node + 1 ||
                atomic_load_explicit(&engine->stop, memory_order_relaxed);
    bool waits_rightly = patient && peer->welcomed;
    if (!dead && (waits_rightly || silent < engine->place.deadline_ns))
        return;
    char sentence[400];
    if (peer->refused)
        snprintf(sentence, sizeof sentence, "%s", peer->trouble);
    else if (peer->connection.stream || !peer->trouble[0])
        snprintf(sentence, sizeof sentence, "node %" PRIu32 " at %s has not answered for %.1f s",
                 lane->node, engine->addresses[lane->node], (double)silent / 1e9);
    else
        snprintf(sentence, sizeof sentence, "node %" PRIu32 " is gone: %s", lane->node,
                 peer->trouble);
    lane_fail(&remote->client, lane, TERN_PEER, sentence);
    connection_close(&peer->connection);
    peer->welcomed = false;
    lane_resume(lane);
}

/* Looks after all lanes in use. A node's silence counts while the program asks for answers: when it did
 * something else for long, the wait begins now. */
static void look_around(struct remote *remote, bool patient)
{
    struct engine *engine = remote->engine;
    uint64_t now = clock_now_ns();
    bool anew = now - remote->looked_ns > engine->place.deadline_ns / 2;
    remote->looked_ns = now;
    for (uint32_t i = 0; i < engine->core.n_nodes; i++) {
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

/* Waits for any of the lanes in use. */
static void wait_for_lanes(struct remote *remote, int timeout_ms)
{
    nfds_t n = 0;
    for (uint32_t i = 0; i < remote->engine->core.n_nodes; i++) {
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
                            .events = stream_events(peer->connection.stream,
                                                    buffer_size(&peer->connection.out) > 0)};
    }
    poll(remote->polls, n, timeout_ms);
}

void remote_wait(struct remote *remote, struct op *op, bool patient)
{
    uint64_t quarter_ms = remote->engine->place.deadline_ns / MS / 4;
    int timeout_ms = patient || quarter_ms > LOOK_MS ? LOOK_MS : (int)quarter_ms + 1;
    /* What was just sent has no answer yet: to read before the wait would be in vain. After it, what came
     * is read before anybody is declared dead. */
    if (!op_is_done(op))
        advance_lanes(remote, false);
    while (!op_is_done(op)) {
        wait_for_lanes(remote, timeout_ms);
        advance_lanes(remote, true);
        if (!op_is_done(op))
            look_around(remote, patient);
    }
}
