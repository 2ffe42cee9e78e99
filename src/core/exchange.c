/* exchange - see exchange.h. */
#include "core/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/defect.h"
#include "core/technique.h"

#define MS UINT64_C(1000000)
/* The pause before a node is asked again whether it has opened a table: longer and longer. */
#define PROBE_MIN_NS MS
#define PROBE_MAX_NS (32 * MS)

enum tern_status exchange_init(struct exchange *exchange, struct client *client,
                               unsigned max_passes)
{
    const struct view *view = client->core->view;
    struct question *questions = calloc(view_capacity(view), sizeof *questions);
    *exchange = (struct exchange){
        .client = client, .view = view, .questions = questions, .max_passes = max_passes};
    return questions ? TERN_OK : fail(TERN_NO_MEMORY, "no memory for rounds");
}

void exchange_fini(struct exchange *exchange)
{
    for (uint32_t i = 0; exchange->questions && i < view_capacity(exchange->view); i++) {
        struct question *question = &exchange->questions[i];
        buffer_free(&question->body);
        buffer_free(&question->packed);
        buffer_free(question->asked ? &question->op.answer_body : &question->answer);
    }
    free(exchange->questions);
    buffer_free(&exchange->plain);
}

/* Several threads may take steps, and one of them have looked at the clock before another did. */
static void set_time(struct exchange *exchange, uint64_t now_ns)
{
    if (exchange->now_ns < now_ns)
        exchange->now_ns = now_ns;
}

/* ---- One node's answer -------------------------------------------------------------------------- */

/* Whether the request is whether the table is open. */
static bool is_probe(const struct question *question)
{
    return question->op.fields.round.step == FRAME_OPEN_PROBE;
}

/* Queues a request. */
static enum tern_status put_question(struct exchange *exchange, uint32_t node,
                                     const struct frame *frame, const struct buffer *body)
{
    struct question *question = &exchange->questions[node];
    question->op = (struct op){.table = exchange->number,
                               .fields = frame->fields,
                               .limit = frame->count,
                               .flags = frame->flags,
                               .keys_bytes = frame->keys_bytes};
    question->op.follows = exchange->is_backed;
    question->op.payload = buffer_head(body);
    question->op.payload_bytes = (uint32_t)buffer_size(body);
    question->op.answer_body = question->answer;
    question->op.answer_body.begin = question->op.answer_body.end = 0;
    enum tern_status status = client_call(exchange->client, node, &question->op, FRAME_ROUND);
    if (status)
        return status;
    question->asked = true;
    question->waits = is_probe(question);
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

static bool is_early(const struct exchange *exchange, const struct question *question)
{
    return exchange->now_ns < question->again_ns;
}

/* Whether it is time to ask nodes again that had not opened the table. */
static bool is_probe_due(const struct exchange *exchange)
{
    bool is_due = false;
    view_each (i, exchange->client->core->view) {
        const struct question *question = &exchange->questions[i];
        is_due |= !question->is_there && question->again_ns && !is_early(exchange, question);
    }
    return is_due;
}

/* Asks whether the table is open, unless it is too early to ask again. All that are still to open it are asked in the
 * same rounds, so that some round leaves out none of them. */
static enum tern_status probe(struct exchange *exchange, uint32_t node)
{
    struct question *question = &exchange->questions[node];
    question->waits = true;
    if (question->is_probed)
        return TERN_OK;
    if (is_early(exchange, question) && !exchange->probes) {
        exchange->left_out = true;
        return TERN_OK;
    }
    question->is_probed = true;
    question->body.begin = question->body.end = 0;
    return put_question(exchange, node, &(struct frame){.fields.round.step = FRAME_OPEN_PROBE},
                        &question->body);
}

/* A node that has closed the table says so to each question. */
static enum tern_status hear_probe(struct exchange *exchange, struct question *question)
{
    enum tern_status status = hear(exchange, question);
    question->is_there = question->more = !status || status == TERN_CLOSED;
    if (question->is_there)
        return TERN_OK;
    question->pause_ns = 2 * question->pause_ns + PROBE_MIN_NS;
    if (question->pause_ns > PROBE_MAX_NS)
        question->pause_ns = PROBE_MAX_NS;
    question->again_ns = exchange->now_ns + question->pause_ns;
    return status == TERN_BUSY ? TERN_OK : status;
}

bool exchange_waits(const struct exchange *exchange)
{
    bool waits = false;
    view_each (i, exchange->client->core->view)
        waits |= exchange->questions[i].waits;
    return waits;
}

/* ---- Questions and answers ---------------------------------------------------------------------- */

/* Packs what the technique has to say; *body is what is sent. */
static enum tern_status pack(struct core_table *table, uint32_t shard, struct question *question,
                             const struct buffer **body)
{
    *body = &question->body;
    if (!table->technique->sends_sections)
        return TERN_OK;
    question->packed.begin = question->packed.end = 0;
    *body = &question->packed;
    const struct pack_shape shape = core_pack_shape(table);
    if (!pack_sections(&shape, buffer_head(&question->body), buffer_size(&question->body),
                       &question->packed))
        return fail(TERN_NO_MEMORY, "no memory for a round of table '%s'", table->store.name);
    table->savings[shard].sent += buffer_size(&question->body) - buffer_size(&question->packed);
    return TERN_OK;
}

/* Unpacks an answer for the technique. */
static enum tern_status unpack(struct exchange *exchange, struct core_table *table, uint32_t peer,
                               struct frame *frame, const uint8_t **body)
{
    struct buffer *plain = &exchange->plain;
    if (!table->technique->sends_sections || frame->kind != FRAME_ROUND_REPLY ||
        frame->flags & FRAME_PLAIN)
        return TERN_OK;
    plain->begin = plain->end = 0;
    const struct pack_shape shape = core_pack_shape(table);
    enum tern_status status = unpack_sections(&shape, *body, frame->body_bytes, plain);
    if (status == TERN_INVALID || (!status && frame->keys_bytes))
        return fail(TERN_PEER,
                    "the answer of node %" PRIu32 " to a round of table '%s' makes no sense", peer,
                    table->store.name);
    if (status)
        return status;
    table->savings[exchange->client->first_shard].received +=
        buffer_size(plain) - frame->body_bytes;
    frame->body_bytes = (uint32_t)buffer_size(plain);
    *body = buffer_head(plain);
    return TERN_OK;
}

/* Asks a peer, if there is a reason to. */
static enum tern_status ask(struct exchange *exchange, struct core_table *table, uint32_t peer)
{
    const uint32_t shard = exchange->client->first_shard;
    struct question *question = &exchange->questions[peer];
    struct frame frame = {0};
    if (!table->technique->has_question(table, shard, peer, exchange->now_ns))
        return TERN_OK;
    if (!question->is_there)
        return probe(exchange, peer);
    question->more = false;
    question->body.begin = question->body.end = 0;
    enum tern_status status = table->technique->ask(table, shard, peer, exchange->now_ns,
                                                    &question->body, &frame, &question->more);
    exchange->busy |= buffer_size(&question->body) > 0 || frame.fields.round.number;
    const struct buffer *body = NULL;
    if (!status)
        status = pack(table, shard, question, &body);
    return status ? status : put_question(exchange, peer, &frame, body);
}

/* Takes the answer of a peer. */
static enum tern_status absorb(struct exchange *exchange, struct core_table *table, uint32_t peer)
{
    const uint32_t shard = exchange->client->first_shard;
    const struct technique *technique = table->technique;
    struct question *question = &exchange->questions[peer];
    enum tern_status status = hear(exchange, question);
    const struct op *op = &question->op;
    struct frame frame = op->answer;
    const uint8_t *body = buffer_head(&op->answer_body);
    if (!status)
        status = unpack(exchange, table, peer, &frame, &body);
    const struct round_answer answer = {
        .sent = &question->body,
        .frame = &frame,
        .body = body,
        .sent_ns = question->sent_ns,
        .now_ns = exchange->now_ns,
    };
    if (status == TERN_CLOSED) {
        question->more = false;
        if (technique->peer_closed)
            technique->peer_closed(table, shard, peer);
        return TERN_OK;
    }
    bool more = false;
    if (!status && technique->absorb)
        status = technique->absorb(table, shard, peer, &answer, &more);
    question->more |= more;
    exchange->busy |= op->answer.body_bytes > 0;
    return status;
}

static bool is_asking(const struct exchange *exchange)
{
    bool asked = false;
    view_each (i, exchange->view)
        asked |= exchange->questions[i].asked;
    return asked;
}

/* Asks all there is more to say to, or to hear of, once more if what was asked gave rise to another question. */
static enum tern_status ask_all(struct exchange *exchange, struct core_table *table)
{
    enum tern_status status = TERN_OK;
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        view_each_while (i, exchange->view, !status) {
            struct question *question = &exchange->questions[i];
            if (!question->more || question->asked ||
                !view_is_present(exchange->client->core->view, i))
                continue;
            status = ask(exchange, table, i);
            goes_on |= question->asked && table->technique->go_on;
        }
        goes_on &= !status;
    }
    exchange->runs = is_asking(exchange);
    return status;
}

enum tern_status exchange_begin(struct exchange *exchange, struct core_table *table,
                                struct node_clock clock, uint64_t now_ns)
{
    view_each (i, exchange->view) {
        struct question *question = &exchange->questions[i];
        question->more = i != exchange->client->core->node && core_takes_part(table, i) &&
                         view_is_present(exchange->client->core->view, i);
        question->waits = question->is_probed = false;
        if (exchange->number != table->number) {
            question->again_ns = question->pause_ns = 0;
            question->is_there = false;
        }
    }
    if (exchange->number != table->number)
        exchange->collect_ns = 0;
    exchange->number = table->number;
    exchange->is_backed = table->backup;
    exchange->n_passes = 0;
    set_time(exchange, now_ns);
    exchange->probes = is_probe_due(exchange);
    exchange->left_out = false;
    exchange->busy = false;
    enum tern_status status = TERN_OK;
    if (table->technique->begin)
        status =
            table->technique->begin(table, exchange->client->first_shard, clock, exchange->now_ns);
    return status ? status : ask_all(exchange, table);
}

bool exchange_is_answered(const struct exchange *exchange, const struct core_table *table)
{
    if (table && table->technique->can_go_on && exchange->n_passes + 1 < exchange->max_passes &&
        table->technique->can_go_on(table))
        return true;
    view_each (i, exchange->view)
        if (exchange->questions[i].asked && !op_is_done(&exchange->questions[i].op))
            return false;
    return true;
}

/* Answers about a table that was closed meanwhile concern nobody. */
static void drop_answers(struct exchange *exchange)
{
    view_each (i, exchange->view)
        if (exchange->questions[i].asked)
            (void)hear(exchange, &exchange->questions[i]);
    exchange->runs = false;
}

/* Takes the answers that have come, and notes to whom there is more to say. */
static enum tern_status absorb_all(struct exchange *exchange, struct core_table *table)
{
    const struct technique *technique = table->technique;
    enum tern_status status = TERN_OK;
    view_each_while (i, exchange->view, !status) {
        struct question *question = &exchange->questions[i];
        if (question->asked && op_is_done(&question->op))
            status =
                is_probe(question) ? hear_probe(exchange, question) : absorb(exchange, table, i);
    }
    if (!status && technique->go_on)
        status = technique->go_on(table, exchange->now_ns);
    view_each_while (i, exchange->view, technique->has_todo)
        if (core_takes_part(table, i))
            exchange->questions[i].more |=
                technique->has_todo(table, exchange->client->first_shard, i);
    return status;
}

/* Whether a node that said it has opened the table could not be asked any more. */
static bool has_unasked(const struct exchange *exchange)
{
    bool has = false;
    view_each_while (i, exchange->view, !has)
        has = exchange->questions[i].is_probed && exchange->questions[i].more &&
              view_is_present(exchange->client->core->view, i);
    return has;
}

enum tern_status exchange_step(struct exchange *exchange, struct core_table *table, uint64_t now_ns)
{
    set_time(exchange, now_ns);
    if (!table) {
        drop_answers(exchange);
        return TERN_OK;
    }
    view_each (i, exchange->view)
        exchange->questions[i].more &= exchange->questions[i].asked;
    enum tern_status status = absorb_all(exchange, table);
    exchange->runs = is_asking(exchange);
    if (!status && ++exchange->n_passes < exchange->max_passes)
        return ask_all(exchange, table);
    exchange->left_out |= has_unasked(exchange);
    return status;
}

bool exchange_find_silent(const struct exchange *exchange, uint64_t before_ns, uint32_t *node)
{
    view_each (i, exchange->view) {
        const struct question *question = &exchange->questions[i];
        if (!question->asked || op_is_done(&question->op) || question->sent_ns >= before_ns)
            continue;
        *node = i;
        return true;
    }
    return false;
}

void exchange_settle_question(struct exchange *exchange, struct core_table *table, uint32_t peer,
                              uint64_t executed)
{
    const struct question *question = &exchange->questions[peer];
    if (!question->asked || is_probe(question) || !table->technique->unanswered)
        return;
    const bool was_taken = op_is_done(&question->op) || question->op.number <= executed;
    table->technique->unanswered(table, exchange->client->first_shard, peer, &question->body,
                                 was_taken && !defect(DEFECT_QUESTION_TWICE));
}

void exchange_drop_question(struct exchange *exchange, uint32_t peer)
{
    if (exchange->questions[peer].asked)
        (void)hear(exchange, &exchange->questions[peer]);
}
