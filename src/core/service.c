/* service - see service.h. */
#include "core/service.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "core/defect.h"
#include "core/reply.h"

/* A lane as the server remembers it. */
struct known_lane {
    uint64_t id; /* among its node's */
    struct server_lane lane;
    struct session *session; /* its connection; NULL: none now */
    bool is_remembered;      /* without a connection; a guest's is not */
};

enum tern_status service_init(struct service *service, struct core *core, uint32_t shard,
                              struct peers *peers, struct group *group, const struct io *io,
                              void *driver)
{
    *service = (struct service){.peers = peers, .io = io, .driver = driver};
    enum tern_status status = server_init(&service->server, core, group);
    if (status)
        group_free(group);
    service->server.shard = shard;
    if (!status && !backup_init(&service->backup, service))
        status = fail(TERN_NO_MEMORY, "no memory for backups");
    service->server.backup = &service->backup;
    return status;
}

void service_fini(struct service *service)
{
    invariant(!service->sessions);
    for (size_t i = 0; i < service->n_lanes; i++) {
        server_lane_fini(&service->lanes[i]->lane);
        free(service->lanes[i]);
    }
    free(service->lanes);
    keymap_free(&service->lane_slots);
    backup_fini(&service->backup);
    group_free(service->server.group);
    server_fini(&service->server);
}

static uint64_t now_ns(const struct service *service)
{
    return service->io->now_ns(service->driver);
}

/* ---- Sessions and lanes ------------------------------------------------------------------------- */

void service_add(struct service *service, struct session *session)
{
    session->before = NULL;
    session->next = service->sessions;
    if (session->next)
        session->next->before = session;
    service->sessions = session;
}

void service_remove(struct service *service, struct session *session)
{
    if (service->cursor == session)
        service->cursor = session->next;
    *(session->before ? &session->before->next : &service->sessions) = session->next;
    if (session->next)
        session->next->before = session->before;
    session->next = session->before = NULL;
    struct known_lane *known = session->known;
    if (known && !known->is_remembered) {
        server_lane_fini(&known->lane);
        free(known);
    } else if (known && known->session == session) {
        known->session = NULL;
    }
    session->known = NULL;
}

static bool is_lane_of(const struct known_lane *known, const struct hello *hello)
{
    return known->lane.node == hello->node && known->id == hello->lane &&
           known->lane.incarnation == hello->incarnation;
}

/* The key of a caller's lane in `lane_slots`: a hash, or if another lane has that the next number, and so on. */
static uint64_t lane_key(const struct service *service, const struct hello *hello)
{
    uint64_t key = hash_u64(hello->incarnation ^ hash_u64(hello->lane ^ hash_u64(hello->node)));
    for (uint32_t slot; (slot = keymap_get(&service->lane_slots, key)) != 0; key++)
        if (is_lane_of(service->lanes[slot - 1], hello))
            break;
    return key;
}

static bool make_room_for_lane(struct service *service)
{
    if (!keymap_reserve(&service->lane_slots, 1))
        return false;
    if (service->n_lanes < service->max_lanes)
        return true;
    size_t max = 2 * service->max_lanes + 16;
    struct known_lane **lanes = realloc(service->lanes, max * sizeof(struct known_lane *));
    if (!lanes)
        return false;
    service->lanes = lanes;
    service->max_lanes = max;
    return true;
}

/* The lane of a caller: remembered, or a guest's; NULL when memory runs out. */
static struct known_lane *find_lane(const struct service *service, const struct hello *hello)
{
    const uint32_t slot = keymap_get(&service->lane_slots, lane_key(service, hello));
    if (slot)
        return service->lanes[slot - 1];
    struct known_lane *known = calloc(1, sizeof *known);
    if (!known) {
        fail(TERN_NO_MEMORY, "no memory for a lane");
        return NULL;
    }
    known->id = hello->lane;
    known->lane.node = hello->node;
    known->lane.arc = lane_arc(hello->lane, service->server.core->node);
    known->lane.incarnation = hello->incarnation;
    return known;
}

/* Whether a lane belongs to a process that has joined, as far as this node knows. */
static bool has_joined(const struct service *service, const struct server_lane *lane)
{
    const uint64_t joined = service->peers->incarnations[lane->node];
    const struct group *group = service->server.group;
    return joined ? joined == lane->incarnation
                  : group && group_has_joined(group, lane->node, lane->incarnation);
}

bool service_is_guest(const struct session *session)
{
    return !session->known->is_remembered;
}

/* Remembers a lane from now on; false when memory runs out. */
static bool remember(struct service *service, struct known_lane *known)
{
    if (!make_room_for_lane(service))
        return false;
    const struct hello hello = {
        .node = known->lane.node, .incarnation = known->lane.incarnation, .lane = known->id};
    const uint64_t key = lane_key(service, &hello);
    invariant(!keymap_get(&service->lane_slots, key) || defect(DEFECT_OLD_CONNECTION));
    service->lanes[service->n_lanes++] = known;
    keymap_set(&service->lane_slots, key, (uint32_t)service->n_lanes);
    known->is_remembered = true;
    return true;
}

bool service_admit(struct service *service, struct session *session)
{
    struct known_lane *known = session->known;
    return known->is_remembered || !has_joined(service, &known->lane) ||
           defect(DEFECT_GUEST_FORGOTTEN) || remember(service, known);
}

/* Closes an older connection of the same lane: its client has given it up. */
static void close_older(struct service *service, const struct known_lane *known,
                        const struct hello *hello)
{
    if (defect(DEFECT_OLD_CONNECTION))
        return;
    if (known->is_remembered) {
        if (known->session)
            service->io->close(service->driver, known->session);
        return;
    }
    for (struct session *session = service->sessions, *next; session; session = next) {
        next = session->next;
        if (session->known && is_lane_of(session->known, hello))
            service->io->close(service->driver, session);
    }
}

struct server_lane *service_next_lane(const struct service *service, size_t *at, uint64_t *id)
{
    if (*at == service->n_lanes)
        return NULL;
    struct known_lane *known = service->lanes[(*at)++];
    *id = known->id;
    return &known->lane;
}

struct server_lane *service_adopt_lane(struct service *service, const struct hello *hello)
{
    struct known_lane *known = find_lane(service, hello);
    if (!known || known->is_remembered)
        return known ? &known->lane : NULL;
    if (remember(service, known))
        return &known->lane;
    free(known);
    return NULL;
}

const struct server_lane *service_lane(const struct service *service, uint32_t node, uint64_t id)
{
    const struct hello hello = {
        .node = node, .incarnation = service->peers->incarnations[node], .lane = id};
    const uint32_t slot = keymap_get(&service->lane_slots, lane_key(service, &hello));
    return slot ? &service->lanes[slot - 1]->lane : NULL;
}

bool service_is_current(const struct session *session, const struct server_lane **lane)
{
    *lane = &session->known->lane;
    return session->known->session == session;
}

/* ---- Requests ----------------------------------------------------------------------------------- */

static bool append_header(struct buffer *out, const struct frame *frame)
{
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(frame, header);
    return buffer_append(out, header, sizeof header);
}

/* Whether the lane that a caller names is for keys that this node has. */
static bool has_arc(const struct core *core, const struct hello *hello)
{
    const uint32_t arc = lane_arc(hello->lane, core->node);
    return arc == core->node ||
           (view_has(core->view, arc) && view_home(core->view, arc) == core->node);
}

enum served service_greet(struct service *service, struct session *session, enum tern_status status,
                          const struct hello *hello, const struct frame *frame, bool may_come,
                          struct buffer *out)
{
    const struct core *core = service->server.core;
    const bool is_here = !status && hello->shard == service->server.shard;
    session->held = !status && !is_here && may_come;
    if (session->held)
        return HELD;
    if (!status && !is_here)
        status = fail(TERN_PEER, "the caller asks for shard %" PRIu32 " of a node with %" PRIu32,
                      hello->shard, core->n_shards);
    if (!status && !has_arc(core, hello)) {
        service->server.is_outdated = true;
        status = fail(TERN_PEER, "node %" PRIu32 " has not taken over the keys of node %" PRIu32,
                      core->node, lane_arc(hello->lane, core->node));
    }
    struct known_lane *known = status ? NULL : find_lane(service, hello);
    if (known) {
        close_older(service, known, hello);
        known->session = session;
        session->known = known;
        known->lane.awaits_list = 0;
    }
    if (!known || !service_admit(service, session)) {
        reply_error(out, frame, view_epoch(core->view), TERN_PEER, tern_error());
        return REFUSED;
    }
    const struct frame welcome = {.kind = FRAME_WELCOME,
                                  .epoch = view_epoch(core->view),
                                  .fields.welcome = {core->incarnation, known->lane.executed}};
    return append_header(out, &welcome) ? SERVED : REFUSED;
}

static bool is_member(const struct service *service, const struct server_lane *lane)
{
    return peers_is_member(service->peers, lane->node, lane->incarnation) ||
           defect(DEFECT_OLD_INCARNATION);
}

void service_heard(struct service *service, const struct session *session)
{
    struct group *group = service->server.group;
    if (session->known && group && is_member(service, &session->known->lane))
        group_heard(group, session->known->lane.node, now_ns(service));
}

/* A member says at whose address nobody listens. If that has no connection here either, its process has ended. */
static void note_unserved(struct service *service, const struct frame *ping)
{
    struct group *group = service->server.group;
    const uint64_t node = ping->fields.ping.unserved - 1;
    if (!group || ping->kind != FRAME_PING || !ping->fields.ping.unserved)
        return;
    for (const struct session *session = service->sessions; session; session = session->next)
        if (session->known && session->known->lane.node == node && !defect(DEFECT_RUMOUR_BELIEVED))
            return;
    if (group_ended(group, node))
        service->changed = true;
}

enum served service_request(struct service *service, struct session *session,
                            const struct frame *request, const uint8_t *body, struct buffer *out)
{
    struct server *server = &service->server;
    struct server_lane *lane = &session->known->lane;
    if ((!is_member(service, lane) && request->kind != FRAME_JOIN) ||
        !service_admit(service, session))
        return REFUSED;
    note_unserved(service, request);
    const uint64_t now = now_ns(service), executed = lane->executed;
    server->holds_for_table = false;
    enum served served = server_request(server, lane, request, body, now, out, &service->changed);
    invariant(lane->executed == executed ||
              (lane->executed == executed + 1 && lane->executed == request->number));
    if (server->holds_for_table && !session->awaits_table)
        session->told_ns = now;
    session->awaits_table = server->holds_for_table;
    if (served != REFUSED && !service_admit(service, session))
        return REFUSED;
    if (served == HELD && defect(DEFECT_HELD_DROPPED))
        return SERVED;
    session->held = served == HELD;
    if (session->held)
        session->request = *request;
    return served;
}

/* ---- Held requests ------------------------------------------------------------------------------ */

void service_retry(struct service *service)
{
    do {
        service->changed = false;
        for (struct session *session = service->sessions; session; session = service->cursor) {
            service->cursor = session->next;
            if (!session->held)
                continue;
            session->held = false;
            service->io->retry(service->driver, session);
        }
    } while (service->changed);
}

void service_settle(struct service *service)
{
    struct group *group = service->server.group;
    if (group && group_tick(group, now_ns(service)))
        service->changed = true;
    if (service->changed)
        service_retry(service);
    if (service->server.wants_round)
        service->io->hurry(service->driver);
    service->server.wants_round = false;
    if (service->server.wants_batch && service->io->send_batch)
        service->io->send_batch(service->driver);
    service->server.wants_batch = false;
    if (service->server.is_outdated && service->io->fetch_view)
        service->io->fetch_view(service->driver);
    service->server.is_outdated = false;
}

void service_leave(struct service *service)
{
    service->server.is_leaving = true;
    service->changed = true;
}

void service_tell_held(struct service *service)
{
    const struct peers *peers = service->peers;
    const uint64_t now = now_ns(service);
    const uint64_t hops = peers_hold_hops(peers, now);
    for (struct session *session = service->sessions; session; session = service->cursor) {
        service->cursor = session->next;
        const bool is_reason = session->awaits_table || session->request.kind == FRAME_JOIN;
        if (!session->held || !session->known || defect(DEFECT_HOLD_UNSAID) ||
            (!is_reason && hops == HOLD_HOPS) || now - session->told_ns < peers->deadline_ns / 4)
            continue;
        session->told_ns = now;
        struct frame hold =
            reply_frame(&session->request, view_epoch(service->server.core->view), FRAME_HOLD);
        hold.fields.hold.hops = is_reason ? 0 : hops;
        service->io->say(service->driver, session, &hold);
    }
}

bool service_has_others(const struct service *service)
{
    const uint32_t self = service->server.core->node;
    for (const struct session *session = service->sessions; session; session = session->next)
        if (session->known && session->known->lane.node != self &&
            is_member(service, &session->known->lane))
            return true;
    return false;
}
