/* exchange - see exchange.h. */
#include "core/exchange.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/bounded.h"
#include "core/doubling.h"
#include "core/manager.h"
#include "core/replica.h"

#define MS UINT64_C(1000000)
/* The pause before a node is asked again whether it has opened a table: longer and longer. */
#define KNOCK_MIN_NS MS
#define KNOCK_MAX_NS (32 * MS)

enum tern_status exchange_init(struct exchange *exchange, struct client *client,
                               unsigned max_passes)
{
    const uint32_t n = client->core->n_nodes;
    struct question *questions = calloc(n, sizeof *questions);
    *exchange = (struct exchange){
        .client = client, .n_nodes = n, .questions = questions, .max_passes = max_passes};
    return questions ? TERN_OK : fail(TERN_NO_MEMORY, "no memory for rounds");
}

void exchange_fini(struct exchange *exchange)
{
    for (uint32_t i = 0; exchange->questions && i < exchange->n_nodes; i++) {
        struct question *question = &exchange->questions[i];
        buffer_free(&question->body);
        buffer_free(question->asked ? &question->op.answer_body : &question->answer);
    }
    free(exchange->questions);
}

/* Several threads may take steps, and one of them have looked at the clock before another did. */
static void set_time(struct exchange *exchange, uint64_t now_ns)
{
    if (exchange->now_ns < now_ns)
        exchange->now_ns = now_ns;
}

/* ---- One node's answer -------------------------------------------------------------------------- */

/* Whether the request is whether the table is open. */
static bool knocks(const struct question *question)
{
    return question->op.b == FRAME_KNOCK;
}

/* Queues the request in the question's body. */
static enum tern_status put_question(struct exchange *exchange, uint32_t node, enum frame_kind kind,
                                     struct op op)
{
    struct question *question = &exchange->questions[node];
    question->op = op;
    question->op.table = exchange->number;
    question->op.payload = buffer_head(&question->body);
    question->op.payload_bytes = (uint32_t)buffer_size(&question->body);
    question->op.answer_body = question->answer;
    question->op.answer_body.begin = question->op.answer_body.end = 0;
    enum tern_status status = client_call(exchange->client, node, &question->op, kind);
    if (status)
        return status;
    question->asked = true;
    question->waits = knocks(question);
    question->sent_ns = exchange->now_ns;
    return TERN_OK;
}

/* The outcome of a question that is answered. */
static enum tern_status hear(const struct exchange *exchange, struct question *question)
{
    question->asked = false;
    question->answer = question->op.answer_body;
    enum tern_status status = op_end(&question->op);
    char sentence[STATUS_SENTENCE_BYTES];
    if (status != TERN_NO_MEMORY)
        return status;
    snprintf(sentence, sizeof sentence, "%s", tern_error());
    return fail(status, "node %td: %s", question - exchange->questions, sentence);
}

/* ---- Whether a node is there -------------------------------------------------------------------- */

/* Asks whether the table is open, unless it is too early to ask again. */
static enum tern_status knock(struct exchange *exchange, uint32_t node)
{
    struct question *question = &exchange->questions[node];
    question->waits = true;
    if (exchange->now_ns < question->again_ns)
        return TERN_OK;
    question->body.begin = question->body.end = 0;
    return put_question(exchange, node, FRAME_ROUND, (struct op){.b = FRAME_KNOCK});
}

/* A node that has closed the table says so to each question. */
static enum tern_status hear_knock(struct exchange *exchange, struct question *question)
{
    enum tern_status status = hear(exchange, question);
    question->is_there = question->more = !status || status == TERN_CLOSED;
    if (question->is_there)
        return TERN_OK;
    question->pause_ns = 2 * question->pause_ns + KNOCK_MIN_NS;
    if (question->pause_ns > KNOCK_MAX_NS)
        question->pause_ns = KNOCK_MAX_NS;
    question->again_ns = exchange->now_ns + question->pause_ns;
    return status == TERN_BUSY ? TERN_OK : status;
}

bool exchange_waits(const struct exchange *exchange)
{
    bool waits = false;
    for (uint32_t i = 0; i < exchange->n_nodes; i++)
        waits |= exchange->questions[i].waits;
    return waits;
}

/* ---- Tables with replicas of every key ---------------------------------------------------------- */

/* Asks one owner: sends deltas, if there are any, and wants the news. */
static enum tern_status ask_owner(struct exchange *exchange, struct replication *replication,
                                  uint32_t owner)
{
    struct question *question = &exchange->questions[owner];
    struct frame frame;
    enum tern_status status =
        replication_request(replication, owner, &question->body, &frame, &question->more);
    if (status)
        return status;
    return put_question(
        exchange, owner, FRAME_SYNC,
        (struct op){.limit = frame.count, .flags = frame.flags, .keys_bytes = frame.keys_bytes});
}

static enum tern_status hear_owner(struct exchange *exchange, struct replication *replication,
                                   uint32_t owner)
{
    struct question *question = &exchange->questions[owner];
    enum tern_status status = hear(exchange, question);
    if (status == TERN_CLOSED) {
        question->more = false;
        return TERN_OK;
    }
    if (!status)
        status = replication_answer(replication, owner, &question->op.answer,
                                    buffer_head(&question->op.answer_body));
    exchange->busy |= question->op.answer.count || question->op.limit;
    question->more |= question->op.answer.a != 0;
    return status;
}

/* ---- Managed tables ----------------------------------------------------------------------------- */

static enum tern_status ask_peer(struct exchange *exchange, struct manager *manager, uint32_t peer)
{
    struct buffer *body = &exchange->questions[peer].body;
    enum tern_status status = manager_request(manager, peer, body);
    exchange->busy |= buffer_size(body) > 0;
    return status ? status : put_question(exchange, peer, FRAME_ROUND, (struct op){0});
}

static enum tern_status hear_peer(struct exchange *exchange, struct manager *manager, uint32_t peer,
                                  uint64_t lag_ns)
{
    struct question *question = &exchange->questions[peer];
    bool more = false;
    enum tern_status status = hear(exchange, question);
    /* The owner may have collected its own changes as long ago as it may, which is taken to be as here. */
    if (!status && question->last_sent_ns)
        manager_note_staleness(manager, peer, question->last_sent_ns - lag_ns, exchange->now_ns);
    question->last_sent_ns = question->sent_ns;
    if (!status)
        status = manager_answer(manager, peer, &question->body, &question->op.answer,
                                buffer_head(&question->op.answer_body), &more);
    question->more |= more;
    if (status == TERN_CLOSED) {
        manager_forget_peer(manager, peer);
        status = TERN_OK;
    }
    /* An ask or a delta that went astray may now be for another peer, which is then asked, too. */
    for (uint32_t i = 0; i < exchange->n_nodes; i++)
        exchange->questions[i].more |= manager_has_todo(manager, i);
    exchange->busy |= question->op.answer.body_bytes > 0;
    return status;
}

/* ---- Tables with bounded reads ------------------------------------------------------------------ */

static enum tern_status ask_bounded(struct exchange *exchange, struct bounded *bounded,
                                    uint32_t peer)
{
    enum tern_status status = bounded_request(bounded, peer, &exchange->questions[peer].body);
    exchange->busy = true;
    return status ? status : put_question(exchange, peer, FRAME_ROUND, (struct op){0});
}

static enum tern_status hear_bounded(struct exchange *exchange, struct bounded *bounded,
                                     uint32_t peer)
{
    struct question *question = &exchange->questions[peer];
    enum tern_status status = hear(exchange, question);
    if (!status)
        status = bounded_answer(bounded, peer, &question->op.answer,
                                buffer_head(&question->op.answer_body));
    if (status == TERN_CLOSED) {
        bounded_forget_peer(bounded, peer);
        status = TERN_OK;
    }
    question->more = bounded_has_request(bounded, peer);
    return status;
}

/* ---- Tables that are kept alike by all-reduce ---------------------------------------------------- */

#define PROBE_NS UINT64_C(100000000)

static bool is_asking(const struct exchange *exchange)
{
    bool asked = false;
    for (uint32_t i = 0; i < exchange->n_nodes; i++)
        asked |= exchange->questions[i].asked;
    return asked;
}

/* Asks the partner that is waited for, if that is long, whether it still takes part. */
static enum tern_status probe(struct exchange *exchange, const struct doubling *doubling)
{
    const uint32_t peer = doubling_awaited(doubling);
    if (peer == exchange->client->core->node || exchange->questions[peer].asked ||
        exchange->now_ns < exchange->progressed_ns + PROBE_NS)
        return TERN_OK;
    exchange->progressed_ns = exchange->now_ns;
    if (!exchange->questions[peer].is_there)
        return knock(exchange, peer);
    exchange->questions[peer].body.begin = exchange->questions[peer].body.end = 0;
    return put_question(exchange, peer, FRAME_ROUND,
                        (struct op){.a = doubling->round, .b = DOUBLING_PROBE});
}

/* Goes on with the all-reduce as far as can be, and sends partners what is for them. */
static enum tern_status ask_partners(struct exchange *exchange, struct doubling *doubling)
{
    const uint64_t round = doubling->round;
    const uint32_t step = doubling->step;
    uint32_t peer;
    enum tern_status status = doubling_go_on(doubling);
    while (!status && doubling_has_request(doubling, &peer) && !exchange->questions[peer].asked) {
        if (!exchange->questions[peer].is_there) {
            status = knock(exchange, peer);
            break;
        }
        struct op op = {0};
        status = doubling_request(doubling, &exchange->questions[peer].body, &op.a, &op.b);
        if (!status)
            status = put_question(exchange, peer, FRAME_ROUND, op);
        if (!status)
            status = doubling_go_on(doubling);
        exchange->busy = true;
    }
    if (round != doubling->round || step != doubling->step)
        exchange->progressed_ns = exchange->now_ns;
    if (!status)
        status = probe(exchange, doubling);
    exchange->runs = is_asking(exchange);
    return status;
}

/* Takes the answers that are there, and goes on. */
static enum tern_status step_partners(struct exchange *exchange, struct doubling *doubling)
{
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; !status && i < exchange->n_nodes; i++) {
        struct question *question = &exchange->questions[i];
        if (!question->asked || !op_is_done(&question->op))
            continue;
        status = knocks(question) ? hear_knock(exchange, question) : hear(exchange, question);
        if (status == TERN_CLOSED) {
            doubling_forget_peer(doubling);
            status = TERN_OK;
        }
    }
    exchange->runs = is_asking(exchange);
    return !status && ++exchange->n_passes < exchange->max_passes ? ask_partners(exchange, doubling)
                                                                  : status;
}

/* ---- All nodes ---------------------------------------------------------------------------------- */

static bool has_request(const struct exchange *exchange, const struct core_table *table,
                        uint32_t peer)
{
    if (table->bounded)
        return bounded_has_request(table->bounded, peer);
    struct manager *manager = table->managers[exchange->client->first_shard];
    return !manager || manager_has_request(manager, peer);
}

/* Asks a peer, if there is a reason to. */
static enum tern_status ask(struct exchange *exchange, const struct core_table *table,
                            uint32_t peer)
{
    if (!has_request(exchange, table, peer))
        return TERN_OK;
    if (!exchange->questions[peer].is_there)
        return knock(exchange, peer);
    if (table->bounded)
        return ask_bounded(exchange, table->bounded, peer);
    struct manager *manager = table->managers[exchange->client->first_shard];
    return manager ? ask_peer(exchange, manager, peer)
                   : ask_owner(exchange, table->replication, peer);
}

/* Takes its answer. */
static enum tern_status hear_answer(struct exchange *exchange, const struct core_table *table,
                                    uint32_t peer, uint64_t lag_ns)
{
    if (knocks(&exchange->questions[peer]))
        return hear_knock(exchange, &exchange->questions[peer]);
    if (table->bounded)
        return hear_bounded(exchange, table->bounded, peer);
    struct manager *manager = table->managers[exchange->client->first_shard];
    return manager ? hear_peer(exchange, manager, peer, lag_ns)
                   : hear_owner(exchange, table->replication, peer);
}

/* Asks all there is more to say to, or to hear of; it goes on if there was one. */
static enum tern_status ask_all(struct exchange *exchange, const struct core_table *table)
{
    enum tern_status status = TERN_OK;
    exchange->runs = false;
    for (uint32_t i = 0; !status && i < exchange->n_nodes; i++) {
        if (exchange->questions[i].more)
            status = ask(exchange, table, i);
        exchange->runs |= exchange->questions[i].asked;
    }
    return status;
}

enum tern_status exchange_begin(struct exchange *exchange, const struct core_table *table,
                                struct node_clock clock, uint64_t now_ns)
{
    for (uint32_t i = 0; i < exchange->n_nodes; i++) {
        struct question *question = &exchange->questions[i];
        question->more = i != exchange->client->core->node;
        question->waits = false;
        if (exchange->number != table->number) {
            question->last_sent_ns = question->again_ns = question->pause_ns = 0;
            question->is_there = false;
        }
    }
    exchange->number = table->number;
    exchange->n_passes = 0;
    set_time(exchange, now_ns);
    exchange->busy = false;
    enum tern_status status = TERN_OK;
    if (table->doubling)
        return ask_partners(exchange, table->doubling);
    if (table->replication)
        status = replication_take(table->replication);
    if (!status && table->bounded)
        status = bounded_take(table->bounded, clock);
    return status ? status : ask_all(exchange, table);
}

bool exchange_is_answered(const struct exchange *exchange, const struct core_table *table)
{
    const struct doubling *doubling = table ? table->doubling : NULL;
    if (doubling && exchange->n_passes + 1 < exchange->max_passes && doubling_has_news(doubling))
        return true;
    for (uint32_t i = 0; i < exchange->n_nodes; i++)
        if (exchange->questions[i].asked && !op_is_done(&exchange->questions[i].op))
            return false;
    return true;
}

/* Answers about a table that was closed meanwhile concern nobody. */
static void drop_answers(struct exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->n_nodes; i++)
        if (exchange->questions[i].asked)
            (void)hear(exchange, &exchange->questions[i]);
    exchange->runs = false;
}

enum tern_status exchange_step(struct exchange *exchange, const struct core_table *table,
                               uint64_t now_ns, uint64_t lag_ns)
{
    struct question *questions = exchange->questions;
    set_time(exchange, now_ns);
    if (!table) {
        drop_answers(exchange);
        return TERN_OK;
    }
    if (table->doubling)
        return step_partners(exchange, table->doubling);
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; !table->replication && i < exchange->n_nodes; i++)
        questions[i].more = false;
    for (uint32_t i = 0; !status && i < exchange->n_nodes; i++)
        if (questions[i].asked)
            status = hear_answer(exchange, table, i, lag_ns);
    exchange->runs = false;
    return !status && ++exchange->n_passes < exchange->max_passes ? ask_all(exchange, table)
                                                                  : status;
}

bool exchange_find_silent(const struct exchange *exchange, uint64_t before_ns, uint32_t *node)
{
    for (uint32_t i = 0; i < exchange->n_nodes; i++) {
        const struct question *question = &exchange->questions[i];
        if (!question->asked || op_is_done(&question->op) || question->sent_ns >= before_ns)
            continue;
        *node = i;
        return true;
    }
    return false;
}
