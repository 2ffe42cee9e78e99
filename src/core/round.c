/* round - see round.h. */
#include "core/round.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/defect.h"
#include "core/follower.h"

void round_init(struct round *round, struct core *core, struct client *client, unsigned max_passes)
{
    *round = (struct round){.core = core, .client = client, .max_passes = max_passes};
}

void round_fini(struct round *round)
{
    for (uint32_t i = 0; i < round->n_slots; i++) {
        if (round->exchanges[i])
            exchange_fini(round->exchanges[i]);
        free(round->exchanges[i]);
    }
}

void round_fail(struct round *round, enum tern_status status)
{
    if (!status || round->status)
        return;
    round->status = status;
    snprintf(round->sentence, sizeof round->sentence, "%s", tern_error());
}

static struct core_table *table_at(const struct round *round, uint32_t slot)
{
    return atomic_load_explicit(&round->core->tables[slot], memory_order_acquire);
}

/* The table at a slot if it takes part in the rounds of this shard; else NULL. */
static struct core_table *table_here(const struct round *round, uint32_t slot)
{
    struct core_table *table = table_at(round, slot);
    return table && technique_has_rounds(table, round->client->first_shard) ? table : NULL;
}

bool round_is_needed(const struct round *round)
{
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++)
        if (table_here(round, i))
            return true;
    return false;
}

/* Whether other processes of this host leave the rounds of a table to this one. */
static bool leads(const struct round *round, const struct core_table *table)
{
    return table->store.home.shared && table->member && table->member->node == round->core->node;
}

bool round_is_awaited(const struct round *round)
{
    bool is_awaited = false;
    for (uint32_t i = 0; !is_awaited && i < TERN_MAX_TABLES; i++) {
        const struct core_table *table = table_here(round, i);
        is_awaited =
            table && leads(round, table) && follower_waits(table, round->client->first_shard);
    }
    return is_awaited && !defect(DEFECT_FOLLOWER_UNAWAITED);
}

/* Whether this round leaves a table alone, so that its rows stay where they are. */
static bool is_held(const struct round *round, const struct core_table *table)
{
    return round->holds_rows && table->store.home.rows_move;
}

/* ---- Intents ------------------------------------------------------------------------------------ */

/* The table that an intent is for; NULL if it was closed since. */
static struct core_table *intended(const struct round *round, const struct intent *intent)
{
    struct core_table *table = table_here(round, intent->table);
    return table && table->generation == intent->generation ? table : NULL;
}

static void begin_intent(void *context, const struct intent *intent)
{
    const struct round *round = context;
    const uint32_t shard = round->client->first_shard;
    struct core_table *table = intended(round, intent);
    if (table && intent->kind == INTENT_HERE)
        table->technique->localize(table, shard, intent->keys, intent->n);
    else if (table)
        table->technique->want(table, shard, intent->keys, intent->n);
}

static void end_intent(void *context, const struct intent *intent)
{
    const struct round *round = context;
    struct core_table *table = intended(round, intent);
    if (table)
        table->technique->unwant(table, round->client->first_shard, intent->keys, intent->n);
}

/* Looks at what the workers intend, and acts on what they may reach within horizon_ns. */
static void look(struct round *round, struct intents **list, uint64_t now_ns, uint64_t horizon_ns)
{
    round->ahead_ns = UINT64_MAX;
    for (struct intents **link = list; *link;) {
        struct intents *intents = *link;
        bool is_over = atomic_load_explicit(&intents->is_over, memory_order_acquire);
        bool complete = intents_round(intents, now_ns, horizon_ns, begin_intent, end_intent, round);
        if (!complete)
            round_fail(round, fail(TERN_NO_MEMORY, "no memory for the intents of a worker"));
        round->intends |= intents_are_open(intents);
        if (intents->ahead_ns < round->ahead_ns)
            round->ahead_ns = intents->ahead_ns;
        if (is_over && complete) {
            *link = intents->next;
            intents_free(intents);
        } else {
            link = &intents->next;
        }
    }
}

/* ---- From the beginning to the end --------------------------------------------------------------- */

/* Begins a sweep, unless one is under way. */
static void begin_sweep(struct round *round)
{
    if (round->sweeps)
        return;
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table = table_here(round, i);
        if (table && table->technique->begin_sweep)
            table->technique->begin_sweep(table, round->client->first_shard);
        if (table && leads(round, table))
            follower_note_sweep(table, round->client->first_shard);
    }
    round->sweeps = true;
    round->n_sweeps_begun++;
}

void round_begin(struct round *round, struct intents **list, uint64_t now_ns, uint64_t horizon_ns,
                 bool holds_rows)
{
    round->runs = true;
    round->holds_rows = holds_rows;
    round->busy = round->left_over = round->awaits = round->intends = false;
    begin_sweep(round);
    look(round, list, now_ns, horizon_ns);
}

/* The exchange about the table at a slot, made if it is not there; NULL when memory runs out. */
static struct exchange *exchange_at(struct round *round, uint32_t slot)
{
    struct exchange *exchange = round->exchanges[slot];
    if (exchange)
        return exchange;
    exchange = calloc(1, sizeof *exchange);
    if (!exchange || exchange_init(exchange, round->client, round->max_passes)) {
        free(exchange);
        return NULL;
    }
    round->exchanges[slot] = exchange;
    if (round->n_slots <= slot)
        round->n_slots = slot + 1;
    return exchange;
}

struct round_need round_need(const struct round *round)
{
    struct round_need need = {.max_age_ns = UINT64_MAX, .least_ns = UINT64_MAX};
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++) {
        const struct core_table *table = table_here(round, i);
        if (!table)
            continue;
        need.follows |= follower_is_here(round->core, table);
        const uint64_t age_ns = table->technique->collect ? table->staleness_ns : 0;
        if (age_ns < need.max_age_ns)
            need.max_age_ns = age_ns;
        if (table->round_ns < need.least_ns)
            need.least_ns = table->round_ns;
    }
    need.least_ns = need.least_ns < UINT64_MAX ? need.least_ns : 0;
    return need;
}

bool round_collect(struct round *round, const struct pace *pace, uint64_t now_ns, bool all)
{
    bool any = false;
    for (uint32_t i = 0; i < TERN_MAX_TABLES && !round->status; i++) {
        struct core_table *table = table_here(round, i);
        if (table && table->technique->be_exact)
            table->technique->be_exact(table, round->client->first_shard, all);
        if (!table || !table->technique->collect)
            continue;
        struct exchange *exchange = exchange_at(round, i);
        if (!exchange) {
            round_fail(round, fail(TERN_NO_MEMORY, "no memory for rounds"));
            break;
        }
        const bool is_due = all || now_ns >= exchange->collect_ns;
        if (is_due)
            exchange->collect_ns = now_ns + pace_refresh_ns(pace, table->staleness_ns);
        any |= is_due;
        round_fail(round,
                   table->technique->collect(table, round->client->first_shard, is_due, all));
    }
    return any;
}

void round_put_off(struct round *round, uint64_t until_ns)
{
    for (uint32_t i = 0; i < round->n_slots; i++)
        if (round->exchanges[i] && round->exchanges[i]->collect_ns < until_ns)
            round->exchanges[i]->collect_ns = until_ns;
}

void round_ask(struct round *round, struct node_clock clock, uint64_t now_ns)
{
    for (uint32_t i = 0; i < TERN_MAX_TABLES && !round->status; i++) {
        struct core_table *table = table_here(round, i);
        if (!table || is_held(round, table))
            continue;
        struct exchange *exchange = exchange_at(round, i);
        round_fail(round, exchange ? exchange_begin(exchange, table, clock, now_ns)
                                   : fail(TERN_NO_MEMORY, "no memory for rounds"));
        round->busy |= exchange && exchange->busy;
    }
}

/* The table that an exchange is about; NULL if it was closed since. */
static struct core_table *table_of(const struct round *round, uint32_t slot)
{
    struct core_table *table = table_at(round, slot);
    return table && table->number == round->exchanges[slot]->number ? table : NULL;
}

static bool has_answers(const struct round *round, uint32_t slot)
{
    const struct exchange *exchange = round->exchanges[slot];
    return exchange && exchange->runs && exchange_is_answered(exchange, table_of(round, slot));
}

bool round_has_answers(const struct round *round)
{
    for (uint32_t i = 0; i < round->n_slots; i++)
        if (has_answers(round, i))
            return true;
    return false;
}

void round_step(struct round *round, uint64_t now_ns)
{
    for (uint32_t i = 0; i < round->n_slots && !round->status; i++) {
        struct exchange *exchange = round->exchanges[i];
        if (!has_answers(round, i))
            continue;
        round_fail(round, exchange_step(exchange, table_of(round, i), now_ns));
        round->busy |= exchange->busy;
    }
}

bool round_is_over(const struct round *round)
{
    bool runs = false;
    for (uint32_t i = 0; i < round->n_slots; i++)
        runs |= round->exchanges[i] && round->exchanges[i]->runs;
    return !runs || round->status;
}

/* Drops those of tables that were closed. */
static void drop_exchanges(struct round *round)
{
    for (uint32_t i = 0; i < round->n_slots; i++) {
        struct exchange *exchange = round->exchanges[i];
        if (!exchange || exchange->runs || table_of(round, i))
            continue;
        exchange_fini(exchange);
        free(exchange);
        round->exchanges[i] = NULL;
    }
}

/* Whether something is to be asked of a node that has not opened the table. */
static bool waits_for_table(const struct round *round, uint32_t slot)
{
    return slot < round->n_slots && round->exchanges[slot] && table_of(round, slot) &&
           exchange_waits(round->exchanges[slot]);
}

/* Whether the round had a question for a node and did not come to ask it. */
static bool leaves_out(const struct round *round)
{
    bool leaves_out = false;
    for (uint32_t i = 0; i < round->n_slots; i++)
        leaves_out |= round->exchanges[i] && table_of(round, i) && round->exchanges[i]->left_out;
    return leaves_out;
}

void round_end(struct round *round)
{
    round->sweeps = false;
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table = table_here(round, i);
        struct round_end end = {0};
        if (!table)
            continue;
        if (is_held(round, table)) {
            /* What it has to say is said later: nothing that waits for rounds may take this one for enough. */
            round->awaits = round->sweeps = true;
            continue;
        }
        table->technique->end(table, round->client->first_shard, &end);
        end.awaits |= waits_for_table(round, i);
        round->awaits |= end.awaits;
        round->left_over |= end.left_over && !end.awaits;
        round->intends |= end.intends;
        round->sweeps |= end.sweeps;
    }
    /* A node that has opened the table since it was asked last may have something to tell. */
    bool is_complete = !round->sweeps && !leaves_out(round);
    drop_exchanges(round);
    round->runs = false;
    if (is_complete)
        round->n_sweeps = round->n_sweeps_begun;
    const bool is_clean = !round->left_over && !round->awaits && !round->status;
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++) {
        const struct core_table *table = table_here(round, i);
        if (table && leads(round, table))
            follower_note_round(table, round->client->first_shard, is_clean, is_complete);
    }
}

bool round_waits_for_table(const struct round *round, const struct core_table *table)
{
    bool waits = false;
    for (uint32_t i = 0; i < round->n_slots; i++)
        waits |= (!table || table_at(round, i) == table) && waits_for_table(round, i);
    return waits;
}

bool round_find_silent(const struct round *round, uint64_t before_ns, uint32_t *node)
{
    for (uint32_t i = 0; i < round->n_slots; i++)
        if (round->exchanges[i] && exchange_find_silent(round->exchanges[i], before_ns, node))
            return true;
    return false;
}

void round_settle_questions(struct round *round, uint32_t peer, uint64_t executed)
{
    for (uint32_t i = 0; i < round->n_slots; i++) {
        struct core_table *table = round->exchanges[i] ? table_of(round, i) : NULL;
        if (table)
            exchange_settle_question(round->exchanges[i], table, peer, executed);
    }
}

void round_drop_questions(struct round *round, uint32_t peer)
{
    for (uint32_t i = 0; i < round->n_slots; i++)
        if (round->exchanges[i])
            exchange_drop_question(round->exchanges[i], peer);
}
