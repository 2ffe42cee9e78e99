/* caller - see caller.h. */
#include "sim/caller.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)

enum {
    OUT_BYTES = 512 << 10,
    RETRY_MS = 20,
    LOOK_MS = 100,
    LOCAL_MS = 1,
    HELLO_BYTES = 8,
};

/* Makes the rest of a caller whose client is made, or not. */
static enum tern_status init(struct caller *caller, struct sim *sim, enum tern_status status)
{
    const uint32_t n_lanes = caller->client.n_lanes;
    caller->sim = sim;
    caller->lines = status ? NULL : calloc(n_lanes, sizeof *caller->lines);
    if (caller->lines) {
        for (uint32_t i = 0; i < n_lanes; i++)
            caller->lines[i] = (struct line){.holder = {caller}, .lane = &caller->client.lanes[i]};
        return TERN_OK;
    }
    if (!status)
        client_fini(&caller->client);
    return fail(TERN_NO_MEMORY, "no memory for a caller");
}

enum tern_status caller_init(struct caller *caller, struct sim *sim, struct core *core)
{
    return init(caller, sim, client_init(&caller->client, core));
}

enum tern_status caller_init_shard(struct caller *caller, struct sim *sim, struct core *core,
                                   uint32_t shard)
{
    return init(caller, sim, client_init_shard(&caller->client, core, shard));
}

void caller_fini(struct caller *caller)
{
    if (!caller->lines)
        return;
    for (uint32_t i = 0; i < caller->client.n_lanes; i++) {
        if (caller->lines[i].end)
            sim_close(caller->sim, caller->lines[i].end);
        buffer_free(&caller->lines[i].cutter.in);
        lane_fail(&caller->client, &caller->client.lanes[i], TERN_CLOSED, "the process has ended");
    }
    lane_fail(&caller->client, &caller->client.local, TERN_CLOSED, "the process has ended");
    client_fini(&caller->client);
    free(caller->lines);
    caller->lines = NULL;
}

bool caller_hello(const struct core *core, uint32_t lane, uint32_t shard, struct buffer *out)
{
    uint8_t header[FRAME_HEADER_BYTES], payload[HELLO_BYTES];
    for (int i = 0; i < 4; i++) {
        payload[i] = (uint8_t)(core->node >> 8 * i);
        payload[4 + i] = (uint8_t)(core->n_nodes >> 8 * i);
    }
    frame_encode(&(struct frame){.kind = FRAME_HELLO,
                                 .table = (uint16_t)shard,
                                 .epoch = core->epoch,
                                 .body_bytes = HELLO_BYTES,
                                 .a = core->incarnation,
                                 .b = lane},
                 header);
    return buffer_append(out, header, sizeof header) && buffer_append(out, payload, HELLO_BYTES);
}

bool caller_read_hello(const struct frame *frame, const uint8_t *body, uint32_t n_nodes,
                       uint32_t *node)
{
    if (frame->kind != FRAME_HELLO || frame->body_bytes != HELLO_BYTES)
        return false;
    *node = 0;
    uint32_t n = 0;
    for (int i = 0; i < 4; i++) {
        *node |= (uint32_t)body[i] << 8 * i;
        n |= (uint32_t)body[4 + i] << 8 * i;
    }
    return n == n_nodes && *node < n;
}

/* Gives up the connection; it is made again when it is needed. */
static void disconnect(struct line *line)
{
    struct caller *caller = line->holder.caller;
    if (line->end)
        sim_close(caller->sim, line->end);
    line->end = NULL;
    line->welcomed = false;
    line->cutter.in.begin = line->cutter.in.end = 0;
    line->retry_ns = sim_now_ns(caller->sim) + RETRY_MS * MS;
    line->n_resumed++;
    lane_resume(line->lane);
}

static void send_out(struct line *line, struct buffer *out)
{
    if (buffer_size(out))
        sim_write(line->holder.caller->sim, line->end, buffer_head(out), buffer_size(out));
    buffer_free(out);
}

static void connect_line(struct line *line)
{
    struct caller *caller = line->holder.caller;
    const struct core *core = caller->client.core;
    line->end = sim_connect(caller->sim, core->node, line->lane->node);
    if (!line->end)
        return;
    line->end->owner = line;
    struct buffer out = {0};
    caller_hello(core, caller->id, line->lane->shard, &out);
    send_out(line, &out);
}

static void advance_line(struct line *line)
{
    struct caller *caller = line->holder.caller;
    if (!line->end) {
        if (sim_now_ns(caller->sim) < line->retry_ns)
            return;
        connect_line(line);
    }
    if (!line->welcomed)
        return;
    struct buffer out = {0};
    lane_send(&caller->client, line->lane, OUT_BYTES, &out);
    send_out(line, &out);
}

/* Notes when a lane begins to wait: requests may come to it by answers of others, too. */
static void note_waiting(struct line *line)
{
    bool waits = lane_is_waiting(line->lane);
    if (waits && !line->waits)
        line->heard_ns = sim_now_ns(line->holder.caller->sim);
    line->waits = waits;
}

/* Does what waits for keys that come to this node, as far as they are here. */
static void pump_local(struct caller *caller)
{
    if (lane_is_waiting(&caller->client.local))
        client_do_local(&caller->client);
    if (!lane_is_waiting(&caller->client.local))
        caller->local_ns = 0;
    else if (!caller->local_ns)
        caller->local_ns = sim_now_ns(caller->sim);
}

static void set_timer(struct caller *caller, uint64_t after_ns)
{
    const uint64_t at_ns = sim_now_ns(caller->sim) + after_ns;
    if (caller->tick_ns && caller->tick_ns <= at_ns)
        return;
    caller->tick_ns = at_ns;
    sim_timer(caller->sim, caller->client.core->node, after_ns, caller->tag);
}

void caller_pump(struct caller *caller)
{
    bool waits = false, retries = false;
    if (!caller->waits && !caller->client.n_parts)
        return;
    pump_local(caller);
    for (uint32_t i = 0; i < caller->client.n_lanes; i++) {
        struct line *line = &caller->lines[i];
        note_waiting(line);
        if (!line->waits)
            continue;
        advance_line(line);
        waits = true;
        retries |= !line->end;
    }
    caller->waits = waits || caller->local_ns;
    if (caller->local_ns)
        set_timer(caller, LOCAL_MS * MS);
    else if (waits)
        set_timer(caller, (retries ? RETRY_MS : LOOK_MS) * MS);
}

/* Takes the answer to HELLO. */
static bool take_welcome(struct line *line, const struct frame *frame)
{
    if (frame->kind != FRAME_WELCOME)
        return false;
    if (line->incarnation && line->incarnation != frame->a) {
        char sentence[80];
        snprintf(sentence, sizeof sentence, "node %" PRIu32 " was restarted", line->lane->node);
        lane_fail(&line->holder.caller->client, line->lane, TERN_PEER, sentence);
    }
    lane_welcome(line->lane, frame->b);
    line->incarnation = frame->a;
    line->welcomed = true;
    return true;
}

void caller_bytes(struct line *line, const uint8_t *bytes, size_t n)
{
    struct caller *caller = line->holder.caller;
    if (line->welcomed)
        line->heard_ns = sim_now_ns(caller->sim);
    if (!buffer_append(&line->cutter.in, bytes, n)) {
        disconnect(line);
        return;
    }
    const uint8_t *body;
    enum cut cut;
    while ((cut = cutter_next(&line->cutter, &body)) == CUT_FRAME) {
        const struct frame *frame = &line->cutter.frame;
        *caller->n_redirected += frame->kind == FRAME_MOVED;
        bool fits = line->welcomed ? !lane_reply(&caller->client, line->lane, frame, body)
                                   : take_welcome(line, frame);
        if (!fits) {
            disconnect(line);
            return;
        }
        cutter_drop(&line->cutter);
    }
    if (cut == CUT_NONSENSE)
        disconnect(line);
}

void caller_closed(struct line *line)
{
    line->end = NULL;
    disconnect(line);
}

/* Fails a lane whose node is dead or has been silent for the deadline. */
static void look_after(struct line *line)
{
    struct caller *caller = line->holder.caller;
    uint64_t now = sim_now_ns(caller->sim);
    uint64_t silent = now > line->heard_ns ? now - line->heard_ns : 0;
    bool dead = *caller->dead == line->lane->node + 1;
    bool waits_rightly = caller->patient && line->welcomed;
    if (!dead && (waits_rightly || silent < caller->deadline_ns))
        return;
    char sentence[80];
    snprintf(sentence, sizeof sentence, "node %" PRIu32 " has not answered for %.1f s",
             line->lane->node, (double)silent / 1e9);
    lane_fail(&caller->client, line->lane, TERN_PEER, sentence);
    disconnect(line);
}

/* Fails what waits for keys that should have come here long ago. */
static void look_after_local(struct caller *caller)
{
    uint64_t waited = caller->local_ns ? sim_now_ns(caller->sim) - caller->local_ns : 0;
    if (waited >= caller->deadline_ns)
        lane_fail(&caller->client, &caller->client.local, TERN_PEER,
                  "keys on their way to this node have not come");
}

void caller_tick(struct caller *caller)
{
    if (sim_now_ns(caller->sim) >= caller->tick_ns)
        caller->tick_ns = 0;
    look_after_local(caller);
    for (uint32_t i = 0; i < caller->client.n_lanes; i++)
        if (lane_is_waiting(caller->lines[i].lane))
            look_after(&caller->lines[i]);
}
