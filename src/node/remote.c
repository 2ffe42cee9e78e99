/* remote - see remote.h. */
#include "node/remote.h"

#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "node/hello.h"

enum {
    OUT_BYTES = 128 << 10,     /* bytes of requests made ahead of the socket */
    TOGETHER_BYTES = 16 << 10, /* requests wait for company up to this many bytes */
    DRIVE_MS = 1,              /* the longest wait of a worker that drives: rounds go on */
};

#define MS UINT64_C(1000000)
#define AWAKE_NS (MS / 5)

static struct connection *connection_of(const struct remote *remote, const struct lane *lane)
{
    return &remote->connections[lane - remote->client.lanes];
}

/* ---- The driver of core/lanes.h ----------------------------------------------------------------- */

static uint64_t io_now_ns(void *driver)
{
    (void)driver;
    return clock_now_ns();
}

static enum tern_status io_connect(void *driver, struct lane *lane)
{
    struct remote *remote = driver;
    struct engine *engine = remote->engine;
    struct connection *connection = connection_of(remote, lane);
    enum tern_status status =
        stream_connect(engine->net, engine->peers.addresses[lane->node], &connection->stream);
    connection->is_proved = false;
    if (!status && stream_is_unserved(connection->stream))
        return fail(TERN_PEER, "node %" PRIu32 " at %s: nobody listens there", lane->node,
                    engine->peers.addresses[lane->node]);
    if (!status && !hello_call(&connection->handshake, &engine->core, lane_name(lane, remote->lane),
                               lane->shard, lane->node, &connection->out))
        status = TERN_NO_MEMORY;
    return status;
}

static void io_disconnect(void *driver, struct lane *lane)
{
    connection_close(connection_of(driver, lane));
}

static void io_arm(void *driver, uint64_t after_ns)
{
    struct remote *remote = driver;
    remote->look_ns = after_ns;
}

static void io_fetch_view(void *driver)
{
    const struct remote *remote = driver;
    engine_fetch_view(remote->engine);
}

/* Has the rest of long values received in the caller's memory, where that is possible. */
static void put_in_place(const struct remote *remote, const struct lane *lane)
{
    struct cutter *cutter = &connection_of(remote, lane)->cutter;
    if (!lanes_link(&remote->lanes, lane)->welcomed || !cutter->has_header || cutter->target)
        return;
    uint8_t *target = lane_target(lane, &cutter->frame);
    if (target)
        cutter_receive_at(cutter, target);
}

/* Takes the first answer to HELLO. A process that cannot prove that it is of this job learns nothing more. */
static bool take_challenge(const struct remote *remote, struct connection *connection,
                           const uint8_t *body)
{
    connection->is_proved = !stream_check_node(connection->stream, connection->handshake.called) &&
                            !hello_prove(&connection->handshake, &connection->cutter.frame, body,
                                         &remote->engine->launch, &connection->out);
    return connection->is_proved;
}

/* Handles all whole frames that have come. False if the connection must be given up. */
static bool take_frames(struct remote *remote, struct lane *lane)
{
    struct connection *connection = connection_of(remote, lane);
    struct cutter *cutter = &connection->cutter;
    for (;;) {
        const uint8_t *body;
        enum cut found = cutter_next(cutter, FRAME_MAX_BODY_BYTES, &body);
        if (found == CUT_NOTHING)
            put_in_place(remote, lane);
        if (found != CUT_FRAME)
            return found == CUT_NOTHING;
        if (connection->rest.n && lane_awaits_last(lane)) {
            fail(TERN_PEER, "node %" PRIu32 " answered a request before it was sent", lane->node);
            return false;
        }
        bool is_challenge = !connection->is_proved && cutter->frame.kind != FRAME_ERROR;
        if (is_challenge ? !take_challenge(remote, connection, body)
                         : !lanes_take(&remote->lanes, lane, &cutter->frame, body))
            return false;
        cutter_drop(cutter);
    }
}

/* Sends what may be sent now. */
static bool send_requests(struct remote *remote, struct lane *lane)
{
    struct connection *connection = connection_of(remote, lane);
    const bool welcomed = lanes_link(&remote->lanes, lane)->welcomed;
    for (;;) {
        if (welcomed && !lane_send_in_place(&remote->client, lane, OUT_BYTES, &connection->out,
                                            &connection->rest)) {
            fail(TERN_NO_MEMORY, "no memory for requests to node %" PRIu32, lane->node);
            return false;
        }
        if (!connection_write(connection, true))
            return false;
        if (connection_unsent(connection) || !lane_may_send(lane) || !welcomed)
            break;
    }
    stream_flush(connection->stream);
    return true;
}

static void broke(struct remote *remote, struct lane *lane)
{
    const bool is_unserved = stream_is_unserved(connection_of(remote, lane)->stream);
    lanes_broke(&remote->lanes, lane, is_unserved ? BREACH_UNSERVED : BREACH_BROKEN);
}

static void io_advance(void *driver, struct lane *lane)
{
    struct remote *remote = driver;
    struct connection *connection = connection_of(remote, lane);
    if (!send_requests(remote, lane)) {
        broke(remote, lane);
        return;
    }
    const bool is_greeting =
        !lanes_link(&remote->lanes, lane)->welcomed && stream_established(connection->stream);
    for (bool readable = remote->reads; readable;) {
        ssize_t n = connection_read(connection, READ_BYTES);
        if (n > 0)
            lanes_heard(&remote->lanes, lane);
        if (n < 0 || !take_frames(remote, lane)) {
            if (n < 0 && is_greeting && !stream_heard(connection->stream))
                lanes_broke(&remote->lanes, lane, BREACH_TURNED_AWAY);
            else
                broke(remote, lane);
            return;
        }
        if (n == 0 || !lane_is_waiting(lane))
            break;
        /* Answers make room for further requests; a challenge waits for its proof. */
        if ((lane_may_send(lane) || connection_unsent(connection)) &&
            !send_requests(remote, lane)) {
            broke(remote, lane);
            return;
        }
        readable = connection->has_more || stream_pending(connection->stream);
    }
}

static const struct io socket_io = {.now_ns = io_now_ns,
                                    .connect = io_connect,
                                    .disconnect = io_disconnect,
                                    .advance = io_advance,
                                    .arm = io_arm,
                                    .fetch_view = io_fetch_view};

/* ---- Making and ending ------------------------------------------------------------------------ */

/* Makes the rest of a remote whose client is made, or not. */
static enum tern_status init(struct remote *remote, enum tern_status status)
{
    if (status)
        return status;
    const uint32_t n_lanes = remote->client.n_lanes;
    status =
        lanes_init(&remote->lanes, &remote->client, &remote->engine->peers, &socket_io, remote);
    remote->connections = calloc(n_lanes, sizeof *remote->connections);
    remote->polls = calloc(n_lanes + STORE_MAX_SHARDS, sizeof *remote->polls);
    if (!status && remote->connections && remote->polls &&
        engine_take_lane(remote->engine, &remote->lane))
        return TERN_OK;
    client_fini(&remote->client);
    lanes_fini(&remote->lanes);
    free(remote->connections);
    free(remote->polls);
    return fail(TERN_NO_MEMORY, "no memory for connections to %" PRIu32 " nodes",
                view_n_nodes(remote->engine->core.view));
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
        connection_fini(&remote->connections[i]);
    client_fini(&remote->client);
    lanes_fini(&remote->lanes);
    free(remote->connections);
    free(remote->polls);
    engine_give_lane(remote->engine, remote->lane);
}

bool remote_was_answered(const struct remote *remote, uint32_t node)
{
    const struct connection *connection = connection_of(remote, client_lane(&remote->client, node));
    return connection->was_answered || (connection->stream && stream_heard(connection->stream));
}

const char *remote_address(const struct remote *remote, uint32_t node)
{
    const struct connection *connection = connection_of(remote, client_lane(&remote->client, node));
    return connection->stream ? stream_peer(connection->stream) : NULL;
}

/* ---- Waiting ------------------------------------------------------------------------------------ */

static void advance(struct remote *remote, bool reads)
{
    remote->reads = reads;
    lanes_advance(&remote->lanes);
}

void remote_nudge(struct remote *remote, struct lane *lane)
{
    struct connection *connection = connection_of(remote, lane);
    const bool is_first = lane->unsent == lane->first;
    lanes_note_waiting(&remote->lanes, lane);
    remote->reads = false;
    status_aside(); /* a connection that breaks is made again */
    if (is_first || !lanes_link(&remote->lanes, lane)->welcomed)
        lanes_advance_one(&remote->lanes, lane);
    else if (!lane_send_in_place(&remote->client, lane, OUT_BYTES, &connection->out,
                                 &connection->rest) ||
             (connection_unsent(connection) >= TOGETHER_BYTES &&
              !connection_write(connection, false)))
        lanes_broke(&remote->lanes, lane, BREACH_BROKEN);
    status_back();
}

void remote_progress(struct remote *remote)
{
    status_aside();
    advance(remote, true);
    lanes_look(&remote->lanes, false);
    status_back();
}

static bool drives(const struct remote *remote)
{
    return remote->drives && engine_has_rounds(remote->engine);
}

/* The time until the lanes are looked at, in ms, or a shorter one; -1 is for ever. */
static int timeout_until_look(const struct remote *remote, int timeout_ms)
{
    const uint64_t look_ms = (remote->look_ns + MS - 1) / MS;
    if (!remote->lanes.waits || (timeout_ms >= 0 && (uint64_t)timeout_ms < look_ms))
        return timeout_ms;
    return (int)look_ms;
}

/* Waits for any of the lanes in use, and for others that ask this node. */
static void wait_for_lanes(struct remote *remote, bool requests, int timeout_ms)
{
    nfds_t n = 0;
    timeout_ms = timeout_until_look(remote, timeout_ms);
    for (uint32_t i = 0; i < remote->client.n_lanes; i++) {
        const struct connection *connection = &remote->connections[i];
        if (!lane_is_waiting(&remote->client.lanes[i]) || !connection->stream)
            continue;
        if (stream_pending(connection->stream))
            return;
        remote->polls[n++] = (struct pollfd){
            .fd = stream_fd(connection->stream),
            .events = stream_events(connection->stream, true, connection_unsent(connection) > 0)};
    }
    if (requests) {
        const struct engine *engine = remote->engine;
        uint32_t n_shards = atomic_load_explicit(&engine->n_shards, memory_order_acquire);
        for (uint32_t i = 0; i < n_shards; i++)
            remote->polls[n++] =
                (struct pollfd){.fd = engine->shards[i].epoll_fd, .events = POLLIN};
        timeout_ms = timeout_ms >= 0 && timeout_ms < DRIVE_MS ? timeout_ms : DRIVE_MS;
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

/* Waits a short while without sleeping: the node that is asked is likely to be driven by a worker as well,
 * and answers between two of its steps; to fall asleep and be woken takes as long. */
static void wait_awake(struct remote *remote, const struct op *op)
{
    uint64_t now = clock_now_ns(), end = now + AWAKE_NS;
    for (; !op_is_done(op) && now < end; now = clock_now_ns()) {
        engine_drive(remote->engine, now);
        advance(remote, true);
        sched_yield();
    }
}

void remote_wait(struct remote *remote, struct op *op, bool patient)
{
    /* What was just sent has no answer yet: to read before the wait would be in vain. After it, what came
     * is read before anybody is declared dead. */
    status_aside();
    if (!op_is_done(op))
        advance(remote, false);
    if (!op_is_done(op) && drives(remote))
        wait_awake(remote, op);
    while (!op_is_done(op)) {
        if (drives(remote))
            engine_drive(remote->engine, clock_now_ns());
        wait_for_lanes(remote, drives(remote), -1);
        advance(remote, true);
        if (!op_is_done(op))
            lanes_look(&remote->lanes, patient);
        if (!op_is_done(op) && interrupt_check())
            lanes_abandon(&remote->lanes, TERN_INTERRUPTED);
    }
    status_back();
}
