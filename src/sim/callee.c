/* callee - see callee.h. */
#include "sim/callee.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

static struct incoming *incoming_of(struct holder *holder)
{
    return (struct incoming *)((char *)holder - offsetof(struct incoming, holder));
}

static void close_incoming(struct incoming *incoming)
{
    struct callee *callee = incoming->callee;
    service_remove(&callee->service, &incoming->session);
    incoming->end->owner = NULL;
    sim_close(callee->sim, incoming->end);
    cutter_fini(&incoming->cutter);
    free(incoming);
}

/* A request may be executed only on the newest connection of its lane. */
static void check_caller(const struct incoming *incoming)
{
    const struct server_lane *lane;
    const struct callee *callee = incoming->callee;
    bool is_current = service_is_current(&incoming->session, &lane);
    check_that(callee->check, is_current,
               "node %" PRIu32 " executes a %s of node %" PRIu32
               " from a connection that was replaced",
               callee->core->node, frame_kind_name(incoming->cutter.frame.kind), lane->node);
}

/* Handles the first frame of a connection, and gives it to the shard that it asks for. */
static enum served greet(struct incoming *incoming, const uint8_t *body, struct buffer *out)
{
    const struct frame *frame = &incoming->cutter.frame;
    struct callee *all = incoming->callee->all;
    struct hello hello = {.shard = frame->table,
                          .incarnation = frame->fields.hello.incarnation,
                          .lane = frame->fields.hello.lane};
    enum tern_status status = TERN_OK;
    if (!caller_read_hello(frame, body, incoming->callee->core->view, &hello.node))
        status = fail(TERN_PEER, "the first frame of a connection must be HELLO");
    if (!status && hello.shard < core_shards(incoming->callee->core)) {
        service_remove(&incoming->callee->service, &incoming->session);
        incoming->callee = &all[hello.shard];
        service_add(&incoming->callee->service, &incoming->session);
    }
    return service_greet(&incoming->callee->service, &incoming->session, status, &hello, frame,
                         false, out);
}

/* Executes a request; no write of a node that was given up may count. */
static enum served execute(struct incoming *incoming, const uint8_t *body, struct buffer *out)
{
    struct callee *callee = incoming->callee;
    const struct frame *request = &incoming->cutter.frame;
    const struct server_lane *lane;
    check_caller(incoming);
    (void)service_is_current(&incoming->session, &lane);
    const uint32_t from = lane->node;
    const uint64_t executed = lane->executed;
    const enum served served =
        service_request(&callee->service, &incoming->session, request, body, out);
    const bool is_write = request->kind == FRAME_PUSH || request->kind == FRAME_SET;
    check_that(callee->check,
               !is_write || lane->executed == executed || view_is_present(callee->core->view, from),
               "node %" PRIu32 " executes a %s of node %" PRIu32 ", which was given up",
               callee->core->node, frame_kind_name(request->kind), from);
    return served;
}

/* Executes the requests that have come. False: the connection must be closed. */
static bool serve(struct incoming *incoming, struct buffer *out)
{
    while (!incoming->session.held) {
        const uint8_t *body;
        enum cut cut = cutter_next(&incoming->cutter, FRAME_MAX_BODY_BYTES, &body);
        if (cut != CUT_FRAME)
            return cut == CUT_NOTHING;
        enum served served =
            incoming->session.known ? execute(incoming, body, out) : greet(incoming, body, out);
        if (served == REFUSED)
            return false;
        if (served == SERVED)
            cutter_drop(&incoming->cutter);
    }
    return true;
}

static void work_on(struct incoming *incoming)
{
    struct callee *callee = incoming->callee;
    struct buffer *out = &callee->out;
    bool goes_on = serve(incoming, out);
    if (buffer_size(out))
        sim_write(callee->sim, incoming->end, buffer_head(out), buffer_size(out));
    out->begin = out->end = 0;
    if (!goes_on)
        close_incoming(incoming);
}

/* ---- The driver of core/service.h --------------------------------------------------------------- */

static uint64_t io_now_ns(void *driver)
{
    const struct callee *callee = driver;
    return sim_now_ns(callee->sim);
}

static void io_say(void *driver, struct session *session, const struct frame *frame)
{
    const struct callee *callee = driver;
    const struct incoming *incoming = (const struct incoming *)session;
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(frame, header);
    sim_write(callee->sim, incoming->end, header, sizeof header);
}

static void io_retry(void *driver, struct session *session)
{
    (void)driver;
    work_on((struct incoming *)session);
}

static void io_close(void *driver, struct session *session)
{
    (void)driver;
    close_incoming((struct incoming *)session);
}

static void io_hurry(void *driver)
{
    const struct callee *callee = driver;
    *callee->round_soon |= 1u << callee->service.server.shard;
}

static const struct io sim_io = {
    .now_ns = io_now_ns, .say = io_say, .retry = io_retry, .close = io_close, .hurry = io_hurry};

/* ---- Making, ending and events ------------------------------------------------------------------ */

enum tern_status callee_init(struct callee *all, uint32_t shard, struct sim *sim, struct core *core,
                             struct peers *peers, struct group *group, uint32_t *round_soon,
                             struct check *check)
{
    struct callee *callee = &all[shard];
    *callee = (struct callee){
        .all = all, .sim = sim, .core = core, .round_soon = round_soon, .check = check};
    enum tern_status status =
        service_init(&callee->service, core, shard, peers, group, &sim_io, callee);
    callee->service.server.lists_most = check->tables.lists_most;
    return status;
}

void callee_fini(struct callee *callee)
{
    while (callee->service.sessions)
        close_incoming((struct incoming *)callee->service.sessions);
    service_fini(&callee->service);
    buffer_free(&callee->out);
}

void callee_accepted(struct callee *callee, struct sim_end *end)
{
    struct incoming *incoming = calloc(1, sizeof *incoming);
    if (!incoming) {
        sim_close(callee->sim, end);
        return;
    }
    incoming->callee = callee;
    incoming->end = end;
    end->owner = &incoming->holder;
    service_add(&callee->service, &incoming->session);
}

void callee_bytes(struct holder *holder, const uint8_t *bytes, size_t n)
{
    struct incoming *incoming = incoming_of(holder);
    if (!buffer_append(&incoming->cutter.in, bytes, n)) {
        close_incoming(incoming);
        return;
    }
    service_heard(&incoming->callee->service, &incoming->session);
    struct callee *all = incoming->callee->all;
    work_on(incoming);
    for (uint32_t i = 0; i < core_shards(all->core); i++)
        if (all[i].service.changed || all[i].service.server.wants_round)
            service_settle(&all[i].service);
}

void callee_closed(struct holder *holder)
{
    close_incoming(incoming_of(holder));
}

void callee_tick(struct callee *callee)
{
    service_settle(&callee->service);
    service_tell_held(&callee->service);
}
