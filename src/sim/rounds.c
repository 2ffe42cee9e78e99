/* rounds - see rounds.h. */
#include "sim/rounds.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/bounded.h"
#include "core/defect.h"
#include "core/manager.h"
#include "core/replica.h"

#define MS UINT64_C(1000000)

enum { BUSY_MS = 2, INTENT_MS = 3, IDLE_MS = 50 };
enum { MAX_PASSES = 1 }; /* fewer than in node/sync.c: much takes several rounds */

enum tern_status rounds_init(struct rounds *rounds)
{
    for (uint16_t i = 0; i < N_SIM_TABLES; i++) {
        struct exchange *exchange = &rounds->exchanges[i];
        exchange->table = i;
        exchange->questions = calloc(rounds->site->core->n_nodes, sizeof *exchange->questions);
        if (!exchange->questions)
            return fail(TERN_NO_MEMORY, "no memory for rounds");
    }
    return TERN_OK;
}

static void free_questions(struct question *questions, uint32_t n)
{
    for (uint32_t i = 0; questions && i < n; i++) {
        if (questions[i].asked) {
            op_end(&questions[i].op);
            buffer_free(&questions[i].op.answer_body);
        }
        buffer_free(&questions[i].body);
    }
    free(questions);
}

void rounds_fini(struct rounds *rounds)
{
    caller_fini(&rounds->caller);
    for (uint16_t i = 0; i < N_SIM_TABLES; i++)
        free_questions(rounds->exchanges[i].questions, rounds->site->core->n_nodes);
}

static struct core_table *table_at(const struct rounds *rounds, uint16_t number)
{
    return rounds->site->core->tables[number];
}

/* Keeps the first failure of a round. */
static void note_status(struct rounds *rounds, enum tern_status status)
{
    if (!status || rounds->status)
        return;
    rounds->status = status;
    snprintf(rounds->sentence, sizeof rounds->sentence, "%s", tern_error());
}

/* ---- One node ----------------------------------------------------------------------------------- */

static enum tern_status ask_owner(struct rounds *rounds, struct exchange *exchange,
                                  struct replication *replication, uint32_t owner)
{
    struct question *question = &exchange->questions[owner];
    struct frame frame;
    enum tern_status status =
        replication_request(replication, owner, &question->body, &frame, &question->more);
    if (status)
        return status;
    question->op = (struct op){.table = exchange->table,
                               .limit = frame.count,
                               .flags = frame.flags,
                               .keys_bytes = frame.keys_bytes,
                               .payload = buffer_head(&question->body),
                               .payload_bytes = frame.body_bytes};
    status = client_call(&rounds->caller.client, owner, &question->op, FRAME_SYNC);
    question->asked = !status;
    return status;
}

static enum tern_status hear_owner(struct rounds *rounds, struct exchange *exchange,
                                   struct replication *replication, uint32_t owner)
{
    struct question *question = &exchange->questions[owner];
    enum tern_status status = op_end(&question->op);
    if (!status)
        status = replication_answer(replication, owner, &question->op.answer,
                                    buffer_head(&question->op.answer_body));
    rounds->busy |= question->op.answer.count || question->op.limit;
    question->more |= question->op.answer.a != 0;
    return status;
}

/* Sends the body of a question about a managed or bounded table. */
static enum tern_status send_round(struct rounds *rounds, struct exchange *exchange, uint32_t peer)
{
    struct question *question = &exchange->questions[peer];
    question->op = (struct op){.table = exchange->table,
                               .payload = buffer_head(&question->body),
                               .payload_bytes = (uint32_t)buffer_size(&question->body)};
    enum tern_status status = client_call(&rounds->caller.client, peer, &question->op, FRAME_ROUND);
    question->asked = !status;
    return status;
}

static enum tern_status ask_peer(struct rounds *rounds, struct exchange *exchange,
                                 struct manager *manager, uint32_t peer)
{
    struct question *question = &exchange->questions[peer];
    if (!manager_has_request(manager, peer))
        return TERN_OK;
    enum tern_status status = manager_request(manager, peer, &question->body);
    if (status)
        return status;
    rounds->busy |= buffer_size(&question->body) > 0;
    return send_round(rounds, exchange, peer);
}

static enum tern_status hear_peer(struct rounds *rounds, struct exchange *exchange,
                                  struct manager *manager, uint32_t peer)
{
    struct question *question = &exchange->questions[peer];
    bool more = false;
    enum tern_status status = op_end(&question->op);
    if (!status)
        status = manager_answer(manager, peer, &question->body, &question->op.answer,
                                buffer_head(&question->op.answer_body), &more);
    question->more |= more;
    for (uint32_t i = 0; i < rounds->site->core->n_nodes; i++)
        exchange->questions[i].more |= manager_has_todo(manager, i);
    rounds->busy |= question->op.answer.body_bytes > 0;
    return status;
}

static enum tern_status ask_bounded(struct rounds *rounds, struct exchange *exchange,
                                    struct bounded *bounded, uint32_t peer)
{
    struct question *question = &exchange->questions[peer];
    if (!bounded_has_request(bounded, peer))
        return TERN_OK;
    enum tern_status status = bounded_request(bounded, peer, &question->body);
    if (status)
        return status;
    rounds->busy = true;
    return send_round(rounds, exchange, peer);
}

static enum tern_status hear_bounded(struct exchange *exchange, struct bounded *bounded,
                                     uint32_t peer)
{
    struct question *question = &exchange->questions[peer];
    enum tern_status status = op_end(&question->op);
    if (!status)
        status = bounded_answer(bounded, peer, &question->op.answer,
                                buffer_head(&question->op.answer_body));
    question->more = bounded_has_request(bounded, peer);
    return status;
}

/* Asks a node, if there is a reason to. */
static enum tern_status ask(struct rounds *rounds, struct exchange *exchange, uint32_t node)
{
    struct core_table *table = table_at(rounds, exchange->table);
    if (table->bounded)
        return ask_bounded(rounds, exchange, table->bounded, node);
    return table->manager ? ask_peer(rounds, exchange, table->manager, node)
                          : ask_owner(rounds, exchange, table->replication, node);
}

static enum tern_status hear(struct rounds *rounds, struct exchange *exchange, uint32_t node)
{
    struct core_table *table = table_at(rounds, exchange->table);
    if (table->bounded)
        return hear_bounded(exchange, table->bounded, node);
    return table->manager ? hear_peer(rounds, exchange, table->manager, node)
                          : hear_owner(rounds, exchange, table->replication, node);
}

/* ---- All tables --------------------------------------------------------------------------------- */

static bool needs_rounds(const struct core_table *table)
{
    return table && (table->manager || table->replication || table->bounded);
}

/* Asks all nodes there is a reason to ask about a table. */
static void ask_all(struct rounds *rounds, struct exchange *exchange)
{
    exchange->runs = false;
    for (uint32_t i = 0; i < rounds->site->core->n_nodes; i++) {
        if (exchange->questions[i].more && !rounds->status)
            note_status(rounds, ask(rounds, exchange, i));
        exchange->runs |= exchange->questions[i].asked;
    }
}

/* Begins to ask about all tables; false if there is nothing to ask. */
static bool begin_exchanges(struct rounds *rounds)
{
    bool runs = false;
    for (uint16_t table = 0; table < N_SIM_TABLES && !rounds->status; table++) {
        struct exchange *exchange = &rounds->exchanges[table];
        struct core_table *found = table_at(rounds, table);
        if (!needs_rounds(found))
            continue;
        exchange->pass = 0;
        for (uint32_t i = 0; i < rounds->site->core->n_nodes; i++)
            exchange->questions[i].more = i != rounds->site->core->node;
        if (found->replication)
            note_status(rounds, replication_take(found->replication));
        if (found->bounded)
            note_status(rounds, bounded_take(found->bounded, pace_now(&rounds->site->pace)));
        if (!rounds->status)
            ask_all(rounds, exchange);
        runs |= exchange->runs;
    }
    caller_pump(&rounds->caller);
    return runs && !rounds->status;
}

static bool all_answered(const struct rounds *rounds, const struct exchange *exchange)
{
    for (uint32_t i = 0; i < rounds->site->core->n_nodes; i++)
        if (exchange->questions[i].asked && !op_is_done(&exchange->questions[i].op))
            return false;
    return true;
}

/* Takes all answers about a table, then asks again if there is more. */
static void take_answers(struct rounds *rounds, struct exchange *exchange)
{
    const uint32_t n_nodes = rounds->site->core->n_nodes;
    const struct core_table *table = table_at(rounds, exchange->table);
    struct question *questions = exchange->questions;
    for (uint32_t i = 0; !table->replication && i < n_nodes; i++)
        questions[i].more = false;
    for (uint32_t i = 0; i < n_nodes; i++) {
        if (!questions[i].asked)
            continue;
        questions[i].asked = false;
        note_status(rounds, hear(rounds, exchange, i));
        buffer_free(&questions[i].op.answer_body);
    }
    exchange->runs = false;
    if (!rounds->status && ++exchange->pass < MAX_PASSES)
        ask_all(rounds, exchange);
}

/* Takes the answers that have come; false when nothing is under way any more. */
static bool step_exchanges(struct rounds *rounds)
{
    bool runs = false;
    for (uint16_t i = 0; i < N_SIM_TABLES && !rounds->status; i++) {
        struct exchange *exchange = &rounds->exchanges[i];
        if (exchange->runs && all_answered(rounds, exchange))
            take_answers(rounds, exchange);
        runs |= exchange->runs;
    }
    return runs && !rounds->status;
}

/* ---- Intents ------------------------------------------------------------------------------------ */

static void begin_intent(void *context, const struct intent *intent)
{
    const struct core *core = context;
    struct manager *manager = core->tables[intent->table]->manager;
    if (intent->kind == INTENT_HERE)
        manager_fetch(manager, intent->keys, intent->n);
    else
        manager_want(manager, intent->keys, intent->n);
}

static void end_intent(void *context, const struct intent *intent)
{
    const struct core *core = context;
    manager_unwant(core->tables[intent->table]->manager, intent->keys, intent->n);
}

/* Looks at what the workers intend, and at what was changed. */
static void look(struct rounds *rounds)
{
    struct site *site = rounds->site;
    for (struct intents **place = &site->intents; *place;) {
        struct intents *intents = *place;
        bool is_over = intents->is_over;
        if (!intents_round(intents, begin_intent, end_intent, site->core))
            note_status(rounds, fail(TERN_NO_MEMORY, "no memory for the intents of a worker"));
        rounds->intends |= intents_are_open(intents);
        if (is_over) {
            *place = intents->next;
            intents_free(intents);
        } else {
            place = &intents->next;
        }
    }
    for (uint16_t i = 0; i < N_SIM_TABLES; i++)
        if (table_at(rounds, i) && table_at(rounds, i)->manager)
            note_status(rounds, manager_take(table_at(rounds, i)->manager));
}

/* ---- Rounds ------------------------------------------------------------------------------------- */

static uint64_t next_pause(const struct rounds *rounds)
{
    if (rounds->busy || rounds->left_over)
        return BUSY_MS * MS;
    uint64_t most = (rounds->intends ? INTENT_MS : IDLE_MS) * MS;
    uint64_t next = 2 * rounds->pause_ns + MS;
    return next < most ? next : most;
}

/* Sets the timer for the next round. */
static void rest(struct rounds *rounds)
{
    struct sim *sim = rounds->site->sim;
    rounds->pause_ns = next_pause(rounds);
    rounds->next_ns = sim_now_ns(sim) + rounds->pause_ns;
    sim_timer(sim, rounds->site->core->node, rounds->pause_ns, rounds->tag);
}

/* The next round comes as soon as when there is much to do. */
static void hasten(struct rounds *rounds)
{
    struct sim *sim = rounds->site->sim;
    if (rounds->next_ns <= sim_now_ns(sim) + BUSY_MS * MS)
        return;
    rounds->next_ns = sim_now_ns(sim) + BUSY_MS * MS;
    sim_timer(sim, rounds->site->core->node, BUSY_MS * MS, rounds->tag);
}

/* A failure ends the rounds for good, as in node/sync.c. */
static void end_round(struct rounds *rounds)
{
    struct site *site = rounds->site;
    rounds->sweeps = false;
    for (uint16_t i = 0; i < N_SIM_TABLES; i++) {
        struct core_table *table = table_at(rounds, i);
        if (table && table->bounded)
            rounds->left_over |= bounded_is_busy(table->bounded);
        if (table && table->replication) {
            rounds->left_over |= replication_round_ended(table->replication);
            rounds->sweeps |= !replication_is_swept(table->replication);
        }
        if (!table || !table->manager)
            continue;
        rounds->left_over |= manager_is_busy(table->manager);
        rounds->intends |= manager_is_sharing(table->manager);
        manager_round_ended(table->manager);
        rounds->sweeps |= !manager_is_swept(table->manager);
    }
    rounds->running = false;
    site->n_ended++;
    if (!rounds->sweeps)
        site->n_sweeps = site->n_sweeps_begun;
    if (!rounds->left_over && !rounds->status) {
        rounds->n_clean++;
        site->last_clean = site->n_ended;
    }
    site->rounds_over = rounds->status;
    if (rounds->status)
        site_ended(site, fail(rounds->status, "%s", rounds->sentence), "a round");
    else
        rest(rounds);
    bool held = rounds->service->server.holds_for_round;
    rounds->service->server.holds_for_round = false;
    if (held && !defect(DEFECT_ROUND_HELD_DROPPED))
        service_retry(rounds->service);
}

static bool are_needed(const struct rounds *rounds)
{
    bool needed = false;
    for (uint16_t i = 0; i < N_SIM_TABLES; i++)
        needed |= needs_rounds(table_at(rounds, i));
    return needed;
}

/* Begins a sweep through what all owners have to tell, unless one is under way. */
static void begin_sweep(struct rounds *rounds)
{
    if (rounds->sweeps)
        return;
    for (uint16_t i = 0; i < N_SIM_TABLES; i++) {
        struct core_table *table = table_at(rounds, i);
        if (table && table->manager)
            manager_begin_sweep(table->manager);
        if (table && table->replication)
            replication_begin_sweep(table->replication);
    }
    rounds->sweeps = true;
    rounds->site->n_sweeps_begun++;
}

static void begin_round(struct rounds *rounds)
{
    rounds->running = true;
    rounds->busy = rounds->left_over = rounds->intends = false;
    begin_sweep(rounds);
    rounds->site->round_wanted = false;
    rounds->site->n_begun++;
    look(rounds);
    if (!begin_exchanges(rounds))
        end_round(rounds);
}

bool rounds_run(struct rounds *rounds)
{
    struct site *site = rounds->site;
    site->round_soon |= rounds->service->server.wants_round;
    rounds->service->server.wants_round = false;
    if (site->round_soon && !rounds->running) {
        site->round_soon = false;
        hasten(rounds);
    }
    bool begins = !rounds->running && !site->rounds_over && are_needed(rounds) &&
                  (site->round_wanted || sim_now_ns(site->sim) >= rounds->next_ns);
    if (begins)
        begin_round(rounds);
    else if (rounds->running && !step_exchanges(rounds))
        end_round(rounds);
    caller_pump(&rounds->caller);
    return begins;
}
