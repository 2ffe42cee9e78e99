/* round - see round.h. */
#include "core/round.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/bounded.h"
#include "core/doubling.h"
#include "core/manager.h"
#include "core/replica.h"

void round_init(struct round *round, struct core *core, struct client *client, unsigned max_passes)
{
    *round = (struct round){.core = core, .client = client, .max_passes = max_passes};
}

void round_fini(struct round *round)
{
    for (uint32_t i = 0; i < round->n_places; i++) {
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

static struct core_table *table_at(const struct round *round, uint32_t place)
{
    return atomic_load_explicit(&round->core->tables[place], memory_order_acquire);
}

/* The manager of a table's keys in this shard; NULL: none. */
static struct manager *manager_here(const struct round *round, const struct core_table *table)
{
    return table ? table->managers[round->client->first_shard] : NULL;
}

/* What there is of a table in shard 0 alone. */
static struct replication *replication_here(const struct round *round,
                                            const struct core_table *table)
{
    return table && round->client->first_shard == 0 ? table->replication : NULL;
}

static struct bounded *bounded_here(const struct round *round, const struct core_table *table)
{
    return table && round->client->first_shard == 0 ? table->bounded : NULL;
}

static struct doubling *doubling_here(const struct round *round, const struct core_table *table)
{
    return table && round->client->first_shard == 0 ? table->doubling : NULL;
}

static bool needs_rounds(const struct round *round, const struct core_table *table)
{
    return manager_here(round, table) || replication_here(round, table) ||
           doubling_here(round, table) || bounded_here(round, table);
}

bool round_is_needed(const struct round *round)
{
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++)
        if (needs_rounds(round, table_at(round, i)))
            return true;
    return false;
}

/* ---- Intents ------------------------------------------------------------------------------------ */

/* The manager that an intent is for; NULL if the table was closed since. */
static struct manager *manager_of(const struct round *round, const struct intent *intent)
{
    struct manager *manager = manager_here(round, table_at(round, intent->table));
    return manager && manager_generation(manager) == intent->generation ? manager : NULL;
}

static void begin_intent(void *context, const struct intent *intent)
{
    struct manager *manager = manager_of(context, intent);
    if (manager && intent->kind == INTENT_HERE)
        manager_fetch(manager, intent->keys, intent->n);
    else if (manager)
        manager_want(manager, intent->keys, intent->n);
}

static void end_intent(void *context, const struct intent *intent)
{
    struct manager *manager = manager_of(context, intent);
    if (manager)
        manager_unwant(manager, intent->keys, intent->n);
}

/* Looks at what the workers intend. */
static void look(struct round *round, struct intents **list)
{
    for (struct intents **place = list; *place;) {
        struct intents *intents = *place;
        bool is_over = atomic_load_explicit(&intents->is_over, memory_order_acquire);
        bool complete = intents_round(intents, begin_intent, end_intent, round);
        if (!complete)
            round_fail(round, fail(TERN_NO_MEMORY, "no memory for the intents of a worker"));
        round->intends |= intents_are_open(intents);
        if (is_over && complete) {
            *place = intents->next;
            intents_free(intents);
        } else {
            place = &intents->next;
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
        const struct core_table *table = table_at(round, i);
        struct manager *manager = manager_here(round, table);
        struct replication *replication = replication_here(round, table);
        if (manager)
            manager_begin_sweep(manager);
        if (replication)
            replication_begin_sweep(replication);
    }
    round->sweeps = true;
    round->n_sweeps_begun++;
}

void round_begin(struct round *round, struct intents **list)
{
    round->runs = true;
    round->busy = round->left_over = round->awaits = round->intends = false;
    begin_sweep(round);
    look(round, list);
}

void round_collect(struct round *round)
{
    for (uint32_t i = 0; i < TERN_MAX_TABLES && !round->status; i++) {
        struct manager *manager = manager_here(round, table_at(round, i));
        if (manager)
            round_fail(round, manager_take(manager));
    }
}

/* The exchange about the table at a place, made if it is not there; NULL when memory is used up. */
static struct exchange *exchange_at(struct round *round, uint32_t place)
{
    struct exchange *exchange = round->exchanges[place];
    if (exchange)
        return exchange;
    exchange = calloc(1, sizeof *exchange);
    if (!exchange || exchange_init(exchange, round->client, round->max_passes)) {
        free(exchange);
        return NULL;
    }
    round->exchanges[place] = exchange;
    if (round->n_places <= place)
        round->n_places = place + 1;
    return exchange;
}

void round_ask(struct round *round, struct node_clock clock, uint64_t now_ns)
{
    for (uint32_t i = 0; i < TERN_MAX_TABLES && !round->status; i++) {
        struct core_table *table = table_at(round, i);
        if (!needs_rounds(round, table))
            continue;
        struct exchange *exchange = exchange_at(round, i);
        round_fail(round, exchange ? exchange_begin(exchange, table, clock, now_ns)
                                   : fail(TERN_NO_MEMORY, "no memory for rounds"));
        round->busy |= exchange && exchange->busy;
    }
}

/* The table that an exchange is about; NULL if it was closed since. */
static struct core_table *table_of(const struct round *round, uint32_t place)
{
    struct core_table *table = table_at(round, place);
    return table && table->number == round->exchanges[place]->number ? table : NULL;
}

static bool has_answers(const struct round *round, uint32_t place)
{
    const struct exchange *exchange = round->exchanges[place];
    return exchange && exchange->runs && exchange_is_answered(exchange, table_of(round, place));
}

bool round_has_answers(const struct round *round)
{
    for (uint32_t i = 0; i < round->n_places; i++)
        if (has_answers(round, i))
            return true;
    return false;
}

void round_step(struct round *round, uint64_t now_ns, uint64_t lag_ns)
{
    for (uint32_t i = 0; i < round->n_places && !round->status; i++) {
        struct exchange *exchange = round->exchanges[i];
        if (!has_answers(round, i))
            continue;
        round_fail(round, exchange_step(exchange, table_of(round, i), now_ns, lag_ns));
        round->busy |= exchange->busy;
    }
}

bool round_is_over(const struct round *round)
{
    bool runs = false;
    for (uint32_t i = 0; i < round->n_places; i++)
        runs |= round->exchanges[i] && round->exchanges[i]->runs;
    return !runs || round->status;
}

/* Drops those of tables that were closed. */
static void drop_exchanges(struct round *round)
{
    for (uint32_t i = 0; i < round->n_places; i++) {
        struct exchange *exchange = round->exchanges[i];
        if (!exchange || exchange->runs || table_of(round, i))
            continue;
        exchange_fini(exchange);
        free(exchange);
        round->exchanges[i] = NULL;
    }
}

/* Whether something is to be asked of a node that has not opened the table. */
static bool waits_for_table(const struct round *round, uint32_t place)
{
    return place < round->n_places && round->exchanges[place] && table_of(round, place) &&
           exchange_waits(round->exchanges[place]);
}

void round_end(struct round *round)
{
    round->sweeps = false;
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++) {
        const struct core_table *table = table_at(round, i);
        struct manager *manager = manager_here(round, table);
        struct replication *replication = replication_here(round, table);
        struct bounded *bounded = bounded_here(round, table);
        const struct doubling *doubling = doubling_here(round, table);
        bool waits = waits_for_table(round, i), left_over = false;
        if (doubling)
            left_over = doubling_is_busy(doubling);
        if (bounded)
            left_over = bounded_is_busy(bounded);
        if (replication) {
            left_over = replication_round_ended(replication);
            round->sweeps |= !replication_is_swept(replication);
        }
        if (manager) {
            left_over = manager_is_busy(manager);
            round->intends |= manager_is_sharing(manager);
            manager_round_ended(manager);
            round->sweeps |= !manager_is_swept(manager);
        }
        waits |= doubling && doubling_awaits(doubling);
        round->awaits |= waits;
        round->left_over |= left_over && !waits;
    }
    drop_exchanges(round);
    round->runs = false;
    if (!round->sweeps)
        round->n_sweeps = round->n_sweeps_begun;
}

bool round_find_silent(const struct round *round, uint64_t before_ns, uint32_t *node)
{
    for (uint32_t i = 0; i < round->n_places; i++)
        if (round->exchanges[i] && exchange_find_silent(round->exchanges[i], before_ns, node))
            return true;
    return false;
}
