/* service - see service.h. */
#include "sim/service.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/defect.h"

struct known_lane {
    struct known_lane *next;
    uint64_t id; /* among its node's */
    struct server_lane lane;
    struct incoming *incoming; /* its connection; NULL: none now */
};

enum tern_status service_init(struct service *all, uint32_t shard, struct sim *sim,
                              struct core *core, struct group *group, struct check *check)
{
    struct service *service = &all[shard];
    *service = (struct service){.all = all, .sim = sim, .core = core, .check = check};
    service->incarnations = calloc(core->n_nodes, sizeof *service->incarnations);
    if (!service->incarnations)
        return fail(TERN_NO_MEMORY, "no memory for a service");
    enum tern_status status = server_init(&service->server, core, group);
    service->server.shard = shard;
    if (status)
        free(service->incarnations);
    return status;
}

static void remove_incoming(struct service *service, struct incoming *incoming)
{
    struct incoming **place = &service->incoming;
    while (*place != incoming)
        place = &(*place)->next;
    *place = incoming->next;
}

static void add_incoming(struct service *service, struct incoming *incoming)
{
    incoming->service = service;
    incoming->next = service->incoming;
    service->incoming = incoming;
}

static void close_incoming(struct service *service, struct incoming *incoming)
{
    remove_incoming(service, incoming);
    if (incoming->known && incoming->known->incoming == incoming)
        incoming->known->incoming = NULL;
    incoming->end->owner = NULL;
    sim_close(service->sim, incoming->end);
    buffer_free(&incoming->cutter.in);
    free(incoming);
}

void service_fini(struct service *service)
{
    while (service->incoming)
        close_incoming(service, service->incoming);
    for (struct known_lane *known = service->lanes, *next; known; known = next) {
        next = known->next;
        server_lane_fini(&known->lane);
        free(known);
    }
    group_free(service->server.group);
    server_fini(&service->server);
    buffer_free(&service->out);
    free(service->incarnations);
}

void service_accepted(struct service *service, struct sim_end *end)
{
    struct incoming *incoming = calloc(1, sizeof *incoming);
    if (!incoming) {
        sim_close(service->sim, end);
        return;
    }
    incoming->end = end;
    add_incoming(service, incoming);
    end->owner = incoming;
}

/* The lane of a caller, known from before or new; NULL when memory is used up. */
static struct known_lane *know_lane(struct service *service, uint32_t node,
                                    const struct frame *hello)
{
    for (struct known_lane *known = service->lanes; known; known = known->next)
        if (known->lane.node == node && known->id == hello->b &&
            known->lane.incarnation == hello->a)
            return known;
    struct known_lane *known = calloc(1, sizeof *known);
    if (!known)
        return NULL;
    known->id = hello->b;
    known->lane.node = node;
    known->lane.incarnation = hello->a;
    known->next = service->lanes;
    service->lanes = known;
    return known;
}

const struct server_lane *service_lane(const struct service *service, uint32_t node, uint64_t id)
{
    for (const struct known_lane *known = service->lanes; known; known = known->next)
        if (known->lane.node == node && known->id == id &&
            known->lane.incarnation == service->incarnations[node])
            return &known->lane;
    return NULL;
}

/* A node that calls as a new process: nothing of the old one counts any more. Incarnations of the
 * simulation ascend. */
static bool admit(struct service *service, uint32_t node, uint64_t incarnation)
{
    if (incarnation < service->incarnations[node])
        return false;
    service->incarnations[node] = incarnation;
    if (defect(DEFECT_OLD_INCARNATION))
        return true;
    for (struct known_lane *known = service->lanes; known; known = known->next)
        if (known->lane.node == node && known->lane.incarnation != incarnation && known->incoming)
            close_incoming(service, known->incoming);
    return true;
}

static bool greet(struct service *service, struct incoming *incoming, const uint8_t *body)
{
    const struct frame *hello = &incoming->cutter.frame;
    uint32_t node;
    if (!caller_read_hello(hello, body, service->core->n_nodes, &node) ||
        !admit(service, node, hello->a))
        return false;
    struct known_lane *known = know_lane(service, node, hello);
    if (!known)
        return false;
    if (known->incoming && !defect(DEFECT_OLD_CONNECTION))
        close_incoming(service, known->incoming);
    known->incoming = incoming;
    incoming->known = known;
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(&(struct frame){.kind = FRAME_WELCOME,
                                 .epoch = service->core->epoch,
                                 .a = service->core->incarnation,
                                 .b = known->lane.executed},
                 header);
    sim_write(service->sim, incoming->end, header, sizeof header);
    return true;
}

/* A request may be executed only for the process that calls itself this node now, and only on the
 * newest connection of its lane. */
static void check_caller(struct service *service, const struct incoming *incoming)
{
    const struct server_lane *lane = &incoming->known->lane;
    const char *kind = frame_kind_name(incoming->cutter.frame.kind);
    check_that(service->check, lane->incarnation == service->incarnations[lane->node],
               "node %" PRIu32 " executes a %s of a process of node %" PRIu32 " that was replaced",
               service->core->node, kind, lane->node);
    check_that(service->check, incoming->known->incoming == incoming,
               "node %" PRIu32 " executes a %s of node %" PRIu32
               " from a connection that was replaced",
               service->core->node, kind, lane->node);
}

/* Gives a connection that asks for another shard to that. False: it asks for none that there is. */
static bool hand_over(struct service **service, struct incoming *incoming)
{
    const uint16_t shard = incoming->cutter.frame.table;
    if (shard >= core_shards((*service)->core))
        return false;
    remove_incoming(*service, incoming);
    *service = &(*service)->all[shard];
    add_incoming(*service, incoming);
    return true;
}

/* Executes the requests that have come. False: the connection must be closed. */
static bool serve(struct service *service, struct incoming *incoming, struct buffer *out,
                  bool *changed)
{
    while (!incoming->held) {
        const uint8_t *body;
        enum cut cut = cutter_next(&incoming->cutter, &body);
        if (cut != CUT_FRAME)
            return cut == CUT_NOTHING;
        if (!incoming->known) {
            if (incoming->cutter.frame.table != service->server.shard &&
                !hand_over(&service, incoming))
                return false;
            if (!greet(service, incoming, body))
                return false;
            cutter_drop(&incoming->cutter);
            continue;
        }
        struct server_lane *lane = &incoming->known->lane;
        uint64_t now_ns = sim_now_ns(service->sim);
        check_caller(service, incoming);
        if (service->server.group)
            group_heard(service->server.group, lane->node, now_ns);
        enum served served = server_request(&service->server, lane, &incoming->cutter.frame, body,
                                            now_ns, out, changed);
        if (served == REFUSED)
            return false;
        if (served == HELD && !defect(DEFECT_HELD_DROPPED))
            incoming->held = true;
        else
            cutter_drop(&incoming->cutter);
    }
    return true;
}

static void work_on(struct service *service, struct incoming *incoming, bool *changed)
{
    struct buffer *out = &service->out;
    bool goes_on = serve(service, incoming, out, changed);
    if (buffer_size(out))
        sim_write(service->sim, incoming->end, buffer_head(out), buffer_size(out));
    out->begin = out->end = 0;
    if (!goes_on)
        close_incoming(incoming->service, incoming);
}

void service_bytes(struct incoming *incoming, const uint8_t *bytes, size_t n)
{
    struct service *service = incoming->service;
    if (!buffer_append(&incoming->cutter.in, bytes, n)) {
        close_incoming(service, incoming);
        return;
    }
    bool changed = false;
    work_on(service, incoming, &changed);
    if (changed)
        service_retry(service);
}

void service_closed(struct incoming *incoming)
{
    close_incoming(incoming->service, incoming);
}

void service_tick(struct service *service)
{
    if (service->server.group && group_tick(service->server.group, sim_now_ns(service->sim)))
        service_retry(service);
}

void service_retry(struct service *service)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (struct incoming *incoming = service->incoming, *next; incoming; incoming = next) {
            next = incoming->next;
            if (!incoming->held)
                continue;
            incoming->held = false;
            work_on(service, incoming, &changed);
        }
    }
}
