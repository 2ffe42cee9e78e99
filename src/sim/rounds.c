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
    enum tern_status status = TERN_OK;
    for (uint16_t i = 0; !status && i < N_SIM_TABLES; i++)
        status = exchange_init(&rounds->exchanges[i], &rounds->caller.client, MAX_PASSES);
    return status;
}

void rounds_fini(struct rounds *rounds)
{
    caller_fini(&rounds->caller);
    for (uint16_t i = 0; i < N_SIM_TABLES; i++)
        exchange_fini(&rounds->exchanges[i]);
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

/* ---- All tables --------------------------------------------------------------------------------- */

static bool needs_rounds(const struct core_table *table)
{
    return table && (table->manager || table->replication || table->bounded);
}

/* Begins to ask about all tables; false if there is nothing to ask. */
static bool begin_exchanges(struct rounds *rounds)
{
    struct site *site = rounds->site;
    bool runs = false;
    for (uint16_t i = 0; i < N_SIM_TABLES && !rounds->status; i++) {
        struct exchange *exchange = &rounds->exchanges[i];
        struct core_table *table = table_at(rounds, i);
        if (!needs_rounds(table))
            continue;
        note_status(rounds,
                    exchange_begin(exchange, table, pace_now(&site->pace), sim_now_ns(site->sim)));
        rounds->busy |= exchange->busy;
        runs |= exchange->runs;
    }
    return runs && !rounds->status;
}

/* Takes the answers that have come; false when nothing is under way any more. */
static bool step_exchanges(struct rounds *rounds)
{
    bool runs = false;
    for (uint16_t i = 0; i < N_SIM_TABLES && !rounds->status; i++) {
        struct exchange *exchange = &rounds->exchanges[i];
        if (!exchange->runs)
            continue;
        if (exchange_is_answered(exchange))
            note_status(rounds, exchange_step(exchange, table_at(rounds, i),
                                              sim_now_ns(rounds->site->sim), 0));
        rounds->busy |= exchange->busy;
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
