/* caller - see caller.h. */
#include "sim/caller.h"

#include <inttypes.h>
#include <stdlib.h>

#include "wire/bytes.h"

enum { OUT_BYTES = 512 << 10, HELLO_BYTES = 8 };

static struct line *line_of(const struct caller *caller, const struct lane *lane)
{
    return &caller->lines[lane - caller->client.lanes];
}

static void send_out(struct line *line, struct buffer *out)
{
    if (buffer_size(out))
        sim_write(line->holder.caller->sim, line->end, buffer_head(out), buffer_size(out));
    buffer_free(out);
}

/* ---- The driver of core/lanes.h ----------------------------------------------------------------- */

static uint64_t io_now_ns(void *driver)
{
    const struct caller *caller = driver;
    return sim_now_ns(caller->sim);
}

static enum tern_status io_connect(void *driver, struct lane *lane)
{
    struct caller *caller = driver;
    const struct core *core = caller->client.core;
    struct line *line = line_of(caller, lane);
    if (!sim_listens(caller->sim, core->node, lane->node))
        return fail(TERN_PEER, "nobody listens at node %" PRIu32, lane->node);
    line->end = sim_connect(caller->sim, core->node, lane->node);
    if (!line->end)
        return fail(TERN_NO_MEMORY, "no memory for a connection");
    line->end->owner = line;
    struct buffer out = {0};
    caller_hello(core, lane_name(lane, caller->id), lane->shard, &out);
    send_out(line, &out);
    return TERN_OK;
}

static void io_disconnect(void *driver, struct lane *lane)
{
    struct caller *caller = driver;
    struct line *line = line_of(caller, lane);
    if (line->end)
        sim_close(caller->sim, line->end);
    line->end = NULL;
    cutter_reset(&line->cutter);
}

static void io_advance(void *driver, struct lane *lane)
{
    struct caller *caller = driver;
    struct buffer out = {0};
    if (lanes_link(&caller->lanes, lane)->welcomed)
        lane_send(&caller->client, lane, OUT_BYTES, &out);
    send_out(line_of(caller, lane), &out);
}

static void io_arm(void *driver, uint64_t after_ns)
{
    struct caller *caller = driver;
    const uint64_t at_ns = sim_now_ns(caller->sim) + after_ns;
    if (after_ns == UINT64_MAX || (caller->tick_ns && caller->tick_ns <= at_ns))
        return;
    caller->tick_ns = at_ns;
    sim_timer(caller->sim, caller->client.core->node, after_ns, caller->tag);
}

static const struct io sim_io = {.now_ns = io_now_ns,
                                 .connect = io_connect,
                                 .disconnect = io_disconnect,
                                 .advance = io_advance,
                                 .arm = io_arm};

/* ---- Making and ending ------------------------------------------------------------------------ */

/* Makes the rest of a caller whose client is made, or not. */
static enum tern_status init(struct caller *caller, struct sim *sim, struct peers *peers,
                             enum tern_status status)
{
    if (status)
        return status;
    const uint32_t n_lanes = caller->client.n_lanes;
    caller->sim = sim;
    caller->lines = calloc(n_lanes, sizeof *caller->lines);
    if (caller->lines && !lanes_init(&caller->lanes, &caller->client, peers, &sim_io, caller)) {
        for (uint32_t i = 0; i < n_lanes; i++)
            caller->lines[i] = (struct line){.holder = {caller}, .lane = &caller->client.lanes[i]};
        return TERN_OK;
    }
    free(caller->lines);
    caller->lines = NULL;
    client_fini(&caller->client);
    return fail(TERN_NO_MEMORY, "no memory for a caller");
}

enum tern_status caller_init(struct caller *caller, struct sim *sim, struct core *core,
                             struct peers *peers)
{
    return init(caller, sim, peers, client_init(&caller->client, core));
}

enum tern_status caller_init_shard(struct caller *caller, struct sim *sim, struct core *core,
                                   struct peers *peers, uint32_t shard)
{
    return init(caller, sim, peers, client_init_shard(&caller->client, core, shard));
}

void caller_fini(struct caller *caller)
{
    if (!caller->lines)
        return;
    for (uint32_t i = 0; i < caller->client.n_lanes; i++) {
        if (caller->lines[i].end)
            sim_close(caller->sim, caller->lines[i].end);
        cutter_fini(&caller->lines[i].cutter);
        lane_fail(&caller->client, &caller->client.lanes[i], TERN_CLOSED, "the process has ended");
    }
    lane_fail(&caller->client, &caller->client.local, TERN_CLOSED, "the process has ended");
    lanes_fini(&caller->lanes);
    client_fini(&caller->client);
    free(caller->lines);
    caller->lines = NULL;
}

bool caller_hello(const struct core *core, uint64_t lane, uint32_t shard, struct buffer *out)
{
    uint8_t header[FRAME_HEADER_BYTES], payload[HELLO_BYTES];
    put_u32(payload, core->node);
    put_u32(payload + 4, view_n_nodes(core->view));
    frame_encode(&(struct frame){.kind = FRAME_HELLO,
                                 .table = (uint16_t)shard,
                                 .epoch = view_epoch(core->view),
                                 .body_bytes = HELLO_BYTES,
                                 .fields.hello = {core->incarnation, lane}},
                 header);
    return buffer_append(out, header, sizeof header) && buffer_append(out, payload, HELLO_BYTES);
}

bool caller_read_hello(const struct frame *frame, const uint8_t *body, const struct view *view,
                       uint32_t *node)
{
    if (frame->kind != FRAME_HELLO || frame->body_bytes != HELLO_BYTES)
        return false;
    *node = get_u32(body);
    return get_u32(body + 4) == view_n_nodes(view) && view_has(view, *node);
}

/* ---- Events ------------------------------------------------------------------------------------- */

/* Handles all whole frames that have come. False if the connection must be given up. */
static bool take_frames(struct caller *caller, struct line *line)
{
    const uint8_t *body;
    enum cut cut;
    while ((cut = cutter_next(&line->cutter, FRAME_MAX_BODY_BYTES, &body)) == CUT_FRAME) {
        *caller->n_redirected += line->cutter.frame.kind == FRAME_MOVED;
        if (!lanes_take(&caller->lanes, line->lane, &line->cutter.frame, body))
            return false;
        cutter_drop(&line->cutter);
    }
    return cut == CUT_NOTHING;
}

void caller_bytes(struct line *line, const uint8_t *bytes, size_t n)
{
    struct caller *caller = line->holder.caller;
    lanes_heard(&caller->lanes, line->lane);
    if (!buffer_append(&line->cutter.in, bytes, n) || !take_frames(caller, line))
        lanes_broke(&caller->lanes, line->lane, BREACH_BROKEN);
}

void caller_closed(struct line *line)
{
    line->end = NULL;
    fail(TERN_NETWORK, "the connection broke");
    lanes_broke(&line->holder.caller->lanes, line->lane, BREACH_BROKEN);
}

void caller_tick(struct caller *caller)
{
    if (sim_now_ns(caller->sim) >= caller->tick_ns)
        caller->tick_ns = 0;
    lanes_look(&caller->lanes, caller->patient);
}
