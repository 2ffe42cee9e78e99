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
    rounds->questions = calloc(rounds->site->core->n_nodes, sizeof *rounds->questions);
    return rounds->questions ? TERN_OK : fail(TERN_NO_MEMORY, "no memory for rounds");
}

void rounds_fini(struct rounds *rounds)
{
    caller_fini(&rounds->caller);
    for (uint32_t i = 0; rounds->questions && i < rounds->site->core->n_nodes; i++) {
        struct question *question = &rounds->questions[i];
        if (question->asked) {
            op_end(&question->op);
            buffer_free(&question->op.answer_body);
        }
        buffer_free(&question->body);
    }
    free(rounds->questions);
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

static enum tern_status ask_owner(struct rounds *rounds, struct replication *replication,
                                  uint32_t owner)
{
    struct question *question = &rounds->questions[owner];
    struct frame frame;
    enum tern_status status =
        replication_request(replication, owner, &question->body, &frame, &question->more);
    if (status)
        return status;
    question->op = (struct op){.table = rounds->table,
                               .limit = frame.count,
                               .flags = frame.flags,
                               .keys_bytes = frame.keys_bytes,
                               .payload = buffer_head(&question->body),
                               .payload_bytes = frame.body_bytes};
    status = client_call(&rounds->caller.client, owner, &question->op, FRAME_SYNC);
    question->asked = !status;
    return status;
}

static enum tern_status hear_owner(struct rounds *rounds, struct replication *replication,
                                   uint32_t owner)
{
    struct question *question = &rounds->questions[owner];
    enum tern_status status = op_end(&question->op);
    if (!status)
        status = replication_answer(replication, owner, &question->op.answer,
                                    buffer_head(&question->op.answer_body));
    rounds->busy |= question->op.answer.count || question->op.limit;
    question->more |= question->op.answer.a != 0;
    return status;
}

/* Sends the body of a question about a managed or bounded table. */
static enum tern_status send_round(struct rounds *rounds, uint32_t peer)
{
    struct question *question = &rounds->questions[peer];
    question->op = (struct op){.table = rounds->table,
                               .payload = buffer_head(&question->body),
                               .payload_bytes = (uint32_t)buffer_size(&question->body)};
    enum tern_status status = client_call(&rounds->caller.client, peer, &question->op, FRAME_ROUND);
    question->asked = !status;
    return status;
}

static enum tern_status ask_peer(struct rounds *rounds, struct manager *manager, uint32_t peer)
{
    struct question *question = &rounds->questions[peer];
    if (!manager_has_request(manager, peer))
        return TERN_OK;
    enum tern_status status = manager_request(manager, peer, &question->body);
    if (status)
        return status;
    rounds->busy |= buffer_size(&question->body) > 0;
    return send_round(rounds, peer);
}

static enum tern_status hear_peer(struct rounds *rounds, struct manager *manager, uint32_t peer)
{
    struct question *question = &rounds->questions[peer];
    bool more = false;
    enum tern_status status = op_end(&question->op);
    if (!status)
        status = manager_answer(manager, peer, &question->body, &question->op.answer,
                                buffer_head(&question->op.answer_body), &more);
    question->more |= more;
    for (uint32_t i = 0; i < rounds->site->core->n_nodes; i++)
        rounds->questions[i].more |= manager_has_todo(manager, i);
    rounds->busy |= question->op.answer.body_bytes > 0;
    return status;
}

static enum tern_status ask_bounded(struct rounds *rounds, struct bounded *bounded, uint32_t peer)
{
    struct question *question = &rounds->questions[peer];
    if (!bounded_has_request(bounded, peer))
        return TERN_OK;
    enum tern_status status = bounded_request(bounded, peer, &question->body);
    if (status)
        return status;
    rounds->busy = true;
    return send_round(rounds, peer);
}

static enum tern_status hear_bounded(struct rounds *rounds, struct bounded *bounded, uint32_t peer)
{
    struct question *question = &rounds->questions[peer];
    enum tern_status status = op_end(&question->op);
    if (!status)
        status = bounded_answer(bounded, peer, &question->op.answer,
                                buffer_head(&question->op.answer_body));
    question->more = bounded_has_request(bounded, peer);
    return status;
}

/* Asks a node about the present table, if there is a reason to. */
static enum tern_status ask(struct rounds *rounds, uint32_t node)
{
    struct core_table *table = table_at(rounds, rounds->table);
    if (table->bounded)
        return ask_bounded(rounds, table->bounded, node);
    return table->manager ? ask_peer(rounds, table->manager, node)
                          : ask_owner(rounds, table->replication, node);
}

static enum tern_status hear(struct rounds *rounds, uint32_t node)
{
    struct core_table *table = table_at(rounds, rounds->table);
    if (table->bounded)
        return hear_bounded(rounds, table->bounded, node);
    return table->manager ? hear_peer(rounds, table->manager, node)
                          : hear_owner(rounds, table->replication, node);
}

/* ---- One table ---------------------------------------------------------------------------------- */

/* Asks all nodes there is a reason to ask about the present table; false if there is none. */
static bool ask_all(struct rounds *rounds)
{
    bool asked = false;
    for (uint32_t i = 0; !rounds->status && i < rounds->site->core->n_nodes; i++)
        if (rounds->questions[i].more)
            note_status(rounds, ask(rounds, i));
    for (uint32_t i = 0; i < rounds->site->core->n_nodes; i++)
        asked |= rounds->questions[i].asked;
    caller_pump(&rounds->caller);
    return asked;
}

/* Goes on to the next table with something to ask, from number `table` on; false if there is none. */
static bool begin_table(struct rounds *rounds, uint16_t table)
{
    for (; table < N_SIM_TABLES && !rounds->status; table++) {
        struct core_table *found = table_at(rounds, table);
        if (!found || (!found->manager && !found->replication && !found->bounded))
            continue;
        rounds->table = table;
        rounds->pass = 0;
        for (uint32_t i = 0; i < rounds->site->core->n_nodes; i++)
            rounds->questions[i].more = i != rounds->site->core->node;
        if (found->replication)
            note_status(rounds, replication_take(found->replication));
        if (found->bounded)
            note_status(rounds, bounded_take(found->bounded, pace_now(&rounds->site->pace)));
        if (!rounds->status && ask_all(rounds))
            return true;
    }
    return false;
}

static bool all_answered(const struct rounds *rounds)
{
    for (uint32_t i = 0; i < rounds->site->core->n_nodes; i++)
        if (rounds->questions[i].asked && !op_is_done(&rounds->questions[i].op))
            return false;
    return true;
}

/* Takes all answers about the present table, then asks again or goes on to the next. */
static bool take_answers(struct rounds *rounds)
{
    const uint32_t n_nodes = rounds->site->core->n_nodes;
    const struct core_table *table = table_at(rounds, rounds->table);
    struct question *questions = rounds->questions;
    bool again = false;
    for (uint32_t i = 0; !table->replication && i < n_nodes; i++)
        questions[i].more = false;
    for (uint32_t i = 0; i < n_nodes; i++) {
        if (!questions[i].asked)
            continue;
        questions[i].asked = false;
        note_status(rounds, hear(rounds, i));
        buffer_free(&questions[i].op.answer_body);
    }
    for (uint32_t i = 0; i < n_nodes; i++)
        again |= questions[i].more;
    if (again && !rounds->status && ++rounds->pass < MAX_PASSES && ask_all(rounds))
        return true;
    return begin_table(rounds, (uint16_t)(rounds->table + 1));
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
    for (uint16_t i = 0; i < N_SIM_TABLES; i++) {
        const struct core_table *table = table_at(rounds, i);
        needed |= table && (table->manager || table->replication || table->bounded);
    }
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
    if (!begin_table(rounds, 0))
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
    else if (rounds->running && all_answered(rounds) && !take_answers(rounds))
        end_round(rounds);
    caller_pump(&rounds->caller);
    return begins;
}
