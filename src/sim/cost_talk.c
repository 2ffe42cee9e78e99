/* cost_talk - what a node of a predicted cluster says to others and serves them: see cost_node.h. Lanes are connected from the
 * start, and never break. */
#include "sim/cost_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"

enum { MAX_PASSES = 8 }; /* as in node/round_driver.c */

uint64_t cost_measure_begin(struct cost_node *node)
{
    if (!node->run->samples)
        return 0;
    for (int i = 0; i < TERN_SIM_COSTS; i++)
        node->sampled[i] = 0;
    return clock_now_ns();
}

void cost_measure_end(struct cost_node *node, uint64_t begin_ns)
{
    struct cost_run *run = node->run;
    if (!run->samples || run->n_begun < run->workload->n_nodes)
        return;
    struct cost_sample sample = {.ns = (float)(clock_now_ns() - begin_ns)};
    bool has_any = false;
    for (int i = 0; i < TERN_SIM_COSTS; i++) {
        sample.amounts[i] = (float)node->sampled[i];
        has_any |= node->sampled[i] > 0;
    }
    if (has_any && !cost_samples_add(run->samples, &sample))
        run->status = fail(TERN_NO_MEMORY, "no memory for measurements");
}

/* Sends bytes on a lane, to the one who serves it or, as a reply, to whose it is. */
static void send(struct cost_node *node, uint32_t to, uint32_t caller, bool is_reply,
                 const struct buffer *out)
{
    const size_t n = buffer_size(out);
    cost_count(node, TERN_COST_TRANSFER, 1);
    cost_count(node, TERN_COST_BYTE, (double)n);
    node->n_letters++;
    const struct letter head = {
        .from = node->core.node, .to = to, .caller = caller, .is_reply = is_reply, .n = n};
    timeline_send(&node->run->timeline, &head, buffer_head(out), cost_now_ns(node));
}

/* ---- The driver of core/lanes.h ----------------------------------------------------------------- */

static uint64_t io_now_ns(void *driver)
{
    const struct cost_caller *caller = driver;
    return cost_now_ns(caller->node);
}

static enum tern_status io_connect(void *driver, struct lane *lane)
{
    struct cost_caller *caller = driver;
    lane_welcome(lane, 0);
    lanes_link(&caller->lanes, lane)->welcomed = true;
    return TERN_OK;
}

static void io_disconnect(void *driver, struct lane *lane)
{
    const struct cost_caller *caller = driver;
    caller->node->run->status =
        fail(TERN_NETWORK, "a lane from node %" PRIu32 " to node %" PRIu32 " broke: %s",
             caller->node->core.node, lane->node, tern_error());
}

static void io_advance(void *driver, struct lane *lane)
{
    struct cost_caller *caller = driver;
    struct buffer out = {0};
    if (!lane_send(&caller->client, lane, SIZE_MAX, &out))
        caller->node->run->status = fail(TERN_NO_MEMORY, "no memory for requests");
    if (buffer_size(&out)) {
        send(caller->node, lane->node, caller->id, false, &out);
        caller->n_awaited++;
    }
    buffer_free(&out);
}

bool cost_caller_look(struct cost_caller *caller)
{
    cost_count(caller->node, TERN_COST_LOOK, caller->n_awaited);
    const bool was_answered = caller->was_answered;
    caller->was_answered = false;
    return was_answered || lane_is_waiting(&caller->client.local);
}

static void io_arm(void *driver, uint64_t after_ns)
{
    (void)driver;
    (void)after_ns;
}

static const struct io lanes_io = {.now_ns = io_now_ns,
                                   .connect = io_connect,
                                   .disconnect = io_disconnect,
                                   .advance = io_advance,
                                   .arm = io_arm};

/* ---- The driver of core/rounds.h ---------------------------------------------------------------- */

static uint64_t rounds_now_ns(void *driver)
{
    return cost_now_ns(driver);
}

static void rounds_enter(void *driver)
{
    (void)driver;
}

static void rounds_wake(void *driver)
{
    struct cost_node *node = driver;
    node->retries = true;
}

static struct node_clock rounds_clock(void *driver)
{
    const struct cost_node *node = driver;
    return (struct node_clock){.clock = node->step, .highest = node->step, .slowest = 0};
}

static const struct io rounds_io = {.now_ns = rounds_now_ns,
                                    .enter = rounds_enter,
                                    .leave = rounds_enter,
                                    .wake = rounds_wake,
                                    .clock = rounds_clock};

/* ---- Making and ending ------------------------------------------------------------------------ */

static enum tern_status init_caller(struct cost_node *node, uint32_t id)
{
    struct cost_caller *caller = &node->callers[id];
    caller->node = node;
    caller->id = id;
    enum tern_status status = client_init(&caller->client, &node->core);
    if (!status)
        status = lanes_init(&caller->lanes, &caller->client, &node->run->peers, &lanes_io, caller);
    return status;
}

enum tern_status cost_callers_init(struct cost_node *node)
{
    const uint32_t n = node->run->workload->n_nodes;
    node->inbox_end = &node->inbox;
    enum tern_status status = server_init(&node->server, &node->core, NULL);
    for (uint32_t i = 0; !status && i < N_CALLERS; i++) {
        node->served[i] = calloc(n, sizeof *node->served[i]);
        status = node->served[i]
                     ? init_caller(node, i)
                     : fail(TERN_NO_MEMORY, "no memory for the lanes of %" PRIu32 " nodes", n);
    }
    if (!status)
        rounds_init(&node->rounds, &node->callers[BY_ROUNDS].lanes, &node->server, &node->intents,
                    MAX_PASSES, &rounds_io, node);
    return status;
}

void cost_callers_fini(struct cost_node *node)
{
    for (uint32_t i = 0; i < N_CALLERS; i++) {
        struct cost_caller *caller = &node->callers[i];
        for (uint32_t k = 0; k < caller->client.n_lanes; k++)
            lane_fail(&caller->client, &caller->client.lanes[k], TERN_CLOSED, "the run is over");
        if (caller->node)
            lane_fail(&caller->client, &caller->client.local, TERN_CLOSED, "the run is over");
    }
    if (node->rounds.lanes)
        rounds_fini(&node->rounds);
    for (uint32_t i = 0; i < N_CALLERS; i++) {
        if (node->callers[i].lanes.client)
            lanes_fini(&node->callers[i].lanes);
        if (node->callers[i].client.core)
            client_fini(&node->callers[i].client);
        for (uint32_t k = 0; node->served[i] && k < node->run->workload->n_nodes; k++) {
            if (!node->served[i][k])
                continue;
            server_lane_fini(&node->served[i][k]->lane);
            buffer_free(&node->served[i][k]->held);
            free(node->served[i][k]);
        }
        free(node->served[i]);
    }
    server_fini(&node->server);
    for (struct letter *next; node->inbox; node->inbox = next) {
        next = node->inbox->next;
        free(node->inbox);
    }
    cutter_fini(&node->cutter);
    buffer_free(&node->out);
}

/* ---- What comes ------------------------------------------------------------------------------- */

static void give_up(struct cost_node *node, const char *what, uint32_t from)
{
    if (!node->run->status)
        node->run->status =
            fail(TERN_PEER, "node %" PRIu32 " cannot take a %s of node %" PRIu32 ": %s",
                 node->core.node, what, from, tern_error());
}

static void take_replies(struct cost_node *node, const struct letter *letter)
{
    struct cost_caller *caller = &node->callers[letter->caller];
    struct lane *lane = client_lane(&caller->client, letter->from);
    const uint8_t *body;
    const uint64_t begin_ns = cost_measure_begin(node);
    caller->was_answered = true;
    caller->n_awaited -= caller->n_awaited > 0;
    if (!buffer_append(&node->cutter.in, letter->bytes, letter->n))
        give_up(node, "reply", letter->from);
    while (cutter_next(&node->cutter, FRAME_MAX_BODY_BYTES, &body) == CUT_FRAME) {
        const struct frame *frame = &node->cutter.frame;
        if (frame->kind != FRAME_ROUND_REPLY) {
            cost_count(node, TERN_COST_MESSAGE, 1);
            cost_count(node, frame->kind == FRAME_VALUES ? TERN_COST_ROW : TERN_COST_KEY,
                       frame->count);
        }
        if (!lanes_take(&caller->lanes, lane, frame, body))
            give_up(node, "reply", letter->from);
        cutter_drop(&node->cutter);
    }
    cutter_reset(&node->cutter);
    cost_measure_end(node, begin_ns);
}

static struct served_lane *lane_of(struct cost_node *node, uint32_t caller, uint32_t from)
{
    struct served_lane **lane = &node->served[caller][from];
    if (!*lane)
        *lane = calloc(1, sizeof **lane);
    if (*lane) {
        (*lane)->lane.node = from;
        (*lane)->lane.incarnation = node->run->peers.incarnations[from];
    }
    return *lane;
}

/* Serves the requests in the cutter up to one that is held. */
static void serve_all(struct cost_node *node, struct served_lane *lane)
{
    const uint8_t *body;
    bool changed = false;
    while (cutter_next(&node->cutter, FRAME_MAX_BODY_BYTES, &body) == CUT_FRAME) {
        const struct frame *frame = &node->cutter.frame;
        const enum served served = server_request(&node->server, &lane->lane, frame, body,
                                                  cost_now_ns(node), &node->out, &changed);
        if (served == HELD)
            return;
        if (served == REFUSED)
            give_up(node, "request", lane->lane.node);
        if (frame->kind != FRAME_ROUND) {
            cost_count(node, TERN_COST_MESSAGE, 1);
            cost_count(node, TERN_COST_ROW, frame->count);
        }
        cutter_drop(&node->cutter);
    }
}

static void serve(struct cost_node *node, uint32_t caller, uint32_t from, const uint8_t *bytes,
                  size_t n)
{
    struct served_lane *lane = lane_of(node, caller, from);
    if (!lane ||
        !buffer_append(&node->cutter.in, buffer_head(&lane->held), buffer_size(&lane->held)) ||
        !buffer_append(&node->cutter.in, bytes, n)) {
        node->run->status = fail(TERN_NO_MEMORY, "no memory for requests");
        return;
    }
    node->n_held -= buffer_size(&lane->held) > 0;
    lane->held.begin = lane->held.end = 0;
    const uint64_t begin_ns = cost_measure_begin(node);
    serve_all(node, lane);
    cost_measure_end(node, begin_ns);
    const struct buffer *rest = &node->cutter.in;
    if (buffer_size(rest) && !buffer_append(&lane->held, buffer_head(rest), buffer_size(rest)))
        node->run->status = fail(TERN_NO_MEMORY, "no memory for requests");
    node->n_held += buffer_size(&lane->held) > 0;
    cutter_reset(&node->cutter);
    if (buffer_size(&node->out))
        send(node, from, caller, true, &node->out);
    node->out.begin = node->out.end = 0;
    if (node->server.wants_round)
        rounds_hurry(&node->rounds);
    node->server.wants_round = false;
}

static void handle_inbox(struct cost_node *node)
{
    struct letter *letter = node->inbox;
    node->inbox = NULL;
    node->inbox_end = &node->inbox;
    for (struct letter *next; letter; letter = next) {
        next = letter->next;
        cost_count(node, TERN_COST_TRANSFER, 1);
        cost_count(node, TERN_COST_BYTE, (double)letter->n);
        if (letter->is_reply)
            take_replies(node, letter);
        else
            serve(node, letter->caller, letter->from, letter->bytes, letter->n);
        free(letter);
    }
}

static void retry_held(struct cost_node *node)
{
    node->retries = false;
    for (uint32_t i = 0; i < N_CALLERS && node->n_held; i++)
        for (uint32_t k = 0; k < node->run->workload->n_nodes; k++)
            if (node->served[i][k] && buffer_size(&node->served[i][k]->held))
                serve(node, i, k, NULL, 0);
}

/* ---- Rounds ----------------------------------------------------------------------------------- */

static void step_rounds(struct cost_node *node)
{
    struct rounds *rounds = &node->rounds;
    const uint64_t now_ns = cost_now_ns(node), n_begun = rounds->n_begun;
    const bool is_due = rounds->round.runs || now_ns >= rounds_next_ns(rounds, true);
    if (!is_due || !round_is_needed(&rounds->round))
        return;
    const bool was_answered = cost_caller_look(&node->callers[BY_ROUNDS]);
    if (rounds->round.runs && !was_answered) {
        cost_count(node, TERN_COST_PEER, node->run->workload->n_nodes);
        return;
    }
    const uint64_t begin_ns = cost_measure_begin(node);
    cost_count(node, TERN_COST_PEER, node->run->workload->n_nodes);
    rounds_step(rounds, now_ns, true);
    cost_count(node, TERN_COST_ROUND, (double)(rounds->n_begun - n_begun));
    cost_measure_end(node, begin_ns);
    if (rounds->trouble)
        node->run->status = rounds_status(rounds);
}

void cost_drive(struct cost_node *node)
{
    cost_count(node, TERN_COST_LOOK, 1);
    handle_inbox(node);
    step_rounds(node);
    if (node->retries)
        retry_held(node);
}
