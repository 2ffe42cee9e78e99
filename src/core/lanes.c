/* lanes - see lanes.h. */
#include "core/lanes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "core/defect.h"

enum { RETRY_MS = 20, LOCAL_MS = 1, LOOK_MS = 100 };

#define MS UINT64_C(1000000)

enum tern_status lanes_init(struct lanes *lanes, struct client *client, struct peers *peers,
                            const struct io *io, void *driver)
{
    *lanes = (struct lanes){.client = client,
                            .peers = peers,
                            .io = io,
                            .driver = driver,
                            .epoch = view_epoch(client->core->view)};
    lanes->links = calloc(client->n_lanes, sizeof *lanes->links);
    return lanes->links ? TERN_OK
                        : fail(TERN_NO_MEMORY, "no memory for %" PRIu32 " lanes", client->n_lanes);
}

void lanes_fini(struct lanes *lanes)
{
    free(lanes->links);
}

static uint64_t now_ns(const struct lanes *lanes)
{
    return lanes->io->now_ns(lanes->driver);
}

/* ---- Connections -------------------------------------------------------------------------------- */

/* Everything unanswered is sent again on the lane's next connection. */
static void disconnect(struct lanes *lanes, struct lane *lane)
{
    struct link *link = lanes_link(lanes, lane);
    lanes->io->disconnect(lanes->driver, lane);
    link->connected = link->welcomed = false;
    link->n_resumed++;
    if (!defect(DEFECT_RESUME_SKIPPED))
        lane_resume(lane);
}

void lanes_broke(struct lanes *lanes, struct lane *lane, enum breach breach)
{
    struct link *link = lanes_link(lanes, lane);
    if (!link->refused)
        snprintf(link->trouble, sizeof link->trouble, "%s", tern_error());
    disconnect(lanes, lane);
    link->breach = breach;
    if (breach == BREACH_UNSERVED && lanes->peers->incarnations[lane->node]) {
        atomic_store_explicit(&lanes->peers->unserved, lane->node + 1, memory_order_relaxed);
        if (lanes->io->fetch_view)
            lanes->io->fetch_view(lanes->driver);
    }
    link->retry_ns = now_ns(lanes) + RETRY_MS * MS;
}

static bool connect_lane(struct lanes *lanes, struct lane *lane)
{
    struct link *link = lanes_link(lanes, lane);
    if (now_ns(lanes) < link->retry_ns)
        return false;
    const enum tern_status status = lanes->io->connect(lanes->driver, lane);
    if (status) {
        lanes_broke(lanes, lane, status == TERN_PEER ? BREACH_UNSERVED : BREACH_UNMADE);
        return false;
    }
    link->connected = true;
    return true;
}

static enum tern_status check_welcome(const struct lanes *lanes, const struct lane *lane,
                                      const struct frame *frame, const uint8_t *body)
{
    if (frame->kind == FRAME_ERROR)
        return fail(TERN_PEER, "node %" PRIu32 " refused this one: %.*s", lane->node,
                    (int)frame_payload_bytes(frame), (const char *)body + frame->keys_bytes);
    if (frame->kind != FRAME_WELCOME)
        return fail(TERN_PEER, "node %" PRIu32 " answered HELLO with %s", lane->node,
                    frame_kind_name(frame->kind));
    if (!peers_is_member(lanes->peers, lane->node, frame->fields.welcome.incarnation))
        return fail(TERN_PEER, "node %" PRIu32 " was restarted", lane->node);
    return TERN_OK;
}

/* Takes the answer to HELLO. */
static bool take_welcome(struct lanes *lanes, struct lane *lane, const struct frame *frame,
                         const uint8_t *body)
{
    struct link *link = lanes_link(lanes, lane);
    if (check_welcome(lanes, lane, frame, body)) {
        snprintf(link->trouble, sizeof link->trouble, "%s", tern_error());
        link->refused = frame->kind == FRAME_ERROR;
        if (frame->kind == FRAME_WELCOME)
            lane_fail(lanes->client, lane, TERN_PEER, tern_error());
        return false;
    }
    if (link->met)
        log_line("the link to node %" PRIu32 " resumes after: %s", lane->node, link->trouble);
    lane_welcome(lane, frame->fields.welcome.executed);
    link->welcomed = link->met = true;
    link->refused = false;
    link->breach = BREACH_BROKEN;
    link->trouble[0] = '\0';
    return true;
}

bool lanes_take(struct lanes *lanes, struct lane *lane, const struct frame *frame,
                const uint8_t *body)
{
    if (!lanes_link(lanes, lane)->welcomed)
        return take_welcome(lanes, lane, frame, body);
    if (frame->kind == FRAME_OUTDATED) {
        if (lanes->io->fetch_view && frame->epoch != view_epoch(lanes->client->core->view))
            lanes->io->fetch_view(lanes->driver);
        fail(TERN_PEER, "node %" PRIu32 " has a later view of the cluster", lane->node);
        return false;
    }
    if (lane_reply(lanes->client, lane, frame, body))
        return false;
    if (frame->kind == FRAME_HOLD)
        peers_take_hold(lanes->peers, frame->fields.hold.hops, now_ns(lanes));
    return true;
}

void lanes_heard(struct lanes *lanes, const struct lane *lane)
{
    struct link *link = lanes_link(lanes, lane);
    if (link->welcomed)
        link->heard_ns = now_ns(lanes);
}

/* ---- Progress ----------------------------------------------------------------------------------- */

/* Requests may also come to a lane by answers on another one. */
void lanes_note_waiting(struct lanes *lanes, const struct lane *lane)
{
    struct link *link = lanes_link(lanes, lane);
    const bool waits = lane_is_waiting(lane);
    if (waits && !link->waits)
        link->heard_ns = now_ns(lanes);
    link->waits = waits;
}

void lanes_advance_one(struct lanes *lanes, struct lane *lane)
{
    lanes->waits = true;
    if (lanes_link(lanes, lane)->connected || connect_lane(lanes, lane))
        lanes->io->advance(lanes->driver, lane);
}

static void advance_local(struct lanes *lanes)
{
    struct lane *local = &lanes->client->local;
    if (lane_is_waiting(local) && !lanes->local_waits)
        lanes->local_since_ns = now_ns(lanes);
    if (lane_is_waiting(local))
        client_do_local(lanes->client);
    lanes->local_waits = lane_is_waiting(local);
}

/* How often a wait looks for dead nodes. */
static uint64_t look_ns(const struct lanes *lanes)
{
    const uint64_t quarter_ns = lanes->peers->deadline_ns / 4;
    return quarter_ns < LOOK_MS * MS ? quarter_ns : LOOK_MS * MS;
}

/* Has the lane of an arc lead to the node that has it now. */
static void follow(struct lanes *lanes, struct lane *lane, uint32_t node)
{
    struct link *link = lanes_link(lanes, lane);
    char sentence[80];
    snprintf(sentence, sizeof sentence, "node %" PRIu32 " was given up", lane->node);
    if (link->connected)
        disconnect(lanes, lane);
    lane_follow(lanes->client, lane, node, TERN_PEER, sentence);
    *link = (struct link){.n_resumed = link->n_resumed + 1, .waits = link->waits};
}

/* Follows the present view. */
static void follow_view(struct lanes *lanes)
{
    struct client *client = lanes->client;
    const struct view *view = client->core->view;
    if (lanes->epoch == view_epoch(view))
        return;
    lanes->epoch = view_epoch(view);
    for (uint32_t i = 0; i < client->n_lanes; i++) {
        struct lane *lane = &client->lanes[i];
        const uint32_t node = view_home(view, lane->arc);
        if (node != lane->node)
            follow(lanes, lane, node);
        lanes->links[i].heard_ns = now_ns(lanes);
    }
}

void lanes_advance(struct lanes *lanes)
{
    struct client *client = lanes->client;
    bool waits = false, retries = false;
    follow_view(lanes);
    if (!lanes->waits && !client->n_parts)
        return;
    advance_local(lanes);
    for (uint32_t i = 0; i < client->n_lanes; i++) {
        struct lane *lane = &client->lanes[i];
        lanes_note_waiting(lanes, lane);
        if (!lane_is_waiting(lane))
            continue;
        lanes_advance_one(lanes, lane);
        waits |= lane_is_waiting(lane);
        retries |= !lanes->links[i].connected;
    }
    lanes->waits = waits || lanes->local_waits || client->n_parts;
    lanes->io->arm(lanes->driver, lanes->local_waits ? LOCAL_MS * MS
                                  : retries          ? RETRY_MS * MS
                                  : lanes->waits     ? look_ns(lanes)
                                                     : UINT64_MAX);
}

/* ---- Patience ----------------------------------------------------------------------------------- */

static uint64_t patience_ns(const struct lanes *lanes, bool may_be_held_up, bool can_follow)
{
    const uint64_t deadline_ns = lanes->peers->deadline_ns;
    if (defect(DEFECT_PATIENCE_SHORT))
        return deadline_ns / 32;
    if (defect(DEFECT_PATIENCE_ENDLESS))
        return UINT64_MAX;
    if (can_follow && !peers_dead(lanes->peers))
        return 2 * deadline_ns;
    if (may_be_held_up && !peers_dead(lanes->peers) && !lanes->is_pulse)
        return deadline_ns + deadline_ns / 2;
    return deadline_ns;
}

bool lanes_is_patient(enum frame_kind kind)
{
    return kind != FRAME_PING && kind != FRAME_RANGE && kind != FRAME_JOIN;
}

static bool is_stopped(const struct lanes *lanes)
{
    return atomic_load_explicit(&lanes->peers->stop, memory_order_relaxed);
}

/* Whether it is this node that the others go on without. */
static bool is_given_up(const struct lanes *lanes)
{
    return peers_dead(lanes->peers) == lanes->client->core->node + 1;
}

/* States a failure because another node was given up; `consequence` ends the sentence. */
static enum tern_status fail_given_up(const struct lanes *lanes, const char *consequence)
{
    char sentence[600];
    enum tern_status status = peers_check_dead(lanes->peers);
    snprintf(sentence, sizeof sentence, "%s", tern_error());
    return fail(status, "%s%s", sentence, consequence);
}

static enum tern_status fail_lane(const struct lanes *lanes, const struct lane *lane, bool dead,
                                  uint64_t silent_ns)
{
    const struct link *link = lanes_link(lanes, lane);
    const struct peers *peers = lanes->peers;
    const char *address = peers->addresses[lane->node];
    const double deadline_s = (double)peers->deadline_ns / 1e9;
    char consequence[80];
    snprintf(consequence, sizeof consequence, ", and node %" PRIu32 " does not answer without it",
             lane->node);
    if (is_given_up(lanes))
        return fail_given_up(lanes, ", and the others go on without it");
    if (peers_dead(peers) && !dead && link->welcomed)
        return fail_given_up(lanes, consequence);
    if (link->refused)
        return fail(TERN_PEER, "%s", link->trouble);
    if (link->breach == BREACH_TURNED_AWAY && !dead)
        return fail(TERN_PEER,
                    "node %" PRIu32 " takes no further connection: its limit of open files (ulimit "
                    "-Hn) is too low for one of each worker of each node, or too many call it at "
                    "once",
                    lane->node);
    if (dead && silent_ns < peers->deadline_ns && !link->trouble[0])
        return fail(TERN_PEER,
                    "node %" PRIu32 " at %s was given up: it gave no sign of life for %.1f s",
                    lane->node, address, deadline_s);
    if (link->connected || !link->trouble[0])
        return fail(TERN_PEER, "node %" PRIu32 " at %s has not answered for %.1f s%s%s", lane->node,
                    address, (double)silent_ns / 1e9, link->trouble[0] ? "; earlier, " : "",
                    link->trouble);
    return fail(TERN_PEER, "node %" PRIu32 " %s: %s", lane->node,
                link->breach == BREACH_UNMADE || !link->met ? "cannot be reached" : "is gone",
                link->trouble);
}

/* Fails a lane whose node is dead or has been silent for too long. */
static void look_after(struct lanes *lanes, struct lane *lane, bool patient, uint64_t now)
{
    struct link *link = lanes_link(lanes, lane);
    const bool dead =
        peers_dead(lanes->peers) == lane->node + 1 || is_given_up(lanes) || is_stopped(lanes);
    /* Its silence begins when the connection breaks: until then it waits for a good reason. */
    if (patient && link->welcomed && !dead)
        link->heard_ns = now;
    const uint64_t silent_ns = now > link->heard_ns ? now - link->heard_ns : 0;
    const bool has_reason = patient && link->welcomed;
    if (!dead &&
        (has_reason || silent_ns < patience_ns(lanes, link->welcomed, lane_can_follow(lane))))
        return;
    fail_lane(lanes, lane, dead, silent_ns);
    lane_fail(lanes->client, lane, TERN_PEER, tern_error());
    disconnect(lanes, lane);
}

/* Fails what waits for keys that should have come here long ago. They may be at a node that has still to open the table,
 * and says so. */
static void look_after_local(struct lanes *lanes, uint64_t now)
{
    const uint64_t held_ns = peers_held_ns(lanes->peers);
    const uint64_t since_ns = held_ns > lanes->local_since_ns ? held_ns : lanes->local_since_ns;
    const uint64_t waited_ns = now > since_ns ? now - since_ns : 0;
    if (!lanes->local_waits || !lane_is_waiting(&lanes->client->local) ||
        (waited_ns < patience_ns(lanes, true, false) && !is_stopped(lanes)))
        return;
    if (peers_dead(lanes->peers))
        fail_given_up(lanes, ", and keys do not come to this node without it");
    else
        fail(TERN_PEER, "keys on their way to this node have not come for %.1f s",
             (double)waited_ns / 1e9);
    lane_fail(lanes->client, &lanes->client->local, TERN_PEER, tern_error());
}

void lanes_look(struct lanes *lanes, bool patient)
{
    follow_view(lanes);
    const uint64_t now = now_ns(lanes);
    const bool anew = now - lanes->looked_ns > lanes->peers->deadline_ns / 2;
    lanes->looked_ns = now;
    look_after_local(lanes, now);
    for (uint32_t i = 0; i < lanes->client->n_lanes; i++) {
        struct lane *lane = &lanes->client->lanes[i];
        lanes_note_waiting(lanes, lane);
        if (!lane_is_waiting(lane))
            continue;
        if (anew)
            lanes->links[i].heard_ns = now;
        look_after(lanes, lane, patient, now);
    }
}

void lanes_abandon(struct lanes *lanes, enum tern_status status)
{
    lane_fail(lanes->client, &lanes->client->local, status, tern_error());
    for (uint32_t i = 0; i < lanes->client->n_lanes; i++) {
        struct lane *lane = &lanes->client->lanes[i];
        if (!lane_is_waiting(lane))
            continue;
        lane_fail(lanes->client, lane, status, tern_error());
        disconnect(lanes, lane);
    }
}
