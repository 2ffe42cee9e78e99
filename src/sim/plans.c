/* plans - see plans.h. */
#include "core/follower.h"
#include "sim/plans.h"

#include <inttypes.h>

#include "base/rand.h"
#include "core/technique.h"

enum { HOT_KEYS = 8, AHEAD = 24, LENGTH = 10, ROW_BYTES = 1024 };

static uint64_t below(const struct plans *plans, uint64_t n)
{
    return rand_below(sim_random(plans->sim_node->sim), n);
}

enum tern_status plans_open(struct plans *plans, struct sim_node *sim_node)
{
    *plans = (struct plans){.sim_node = sim_node};
    for (uint32_t i = 0; i < core_shards(sim_node->core); i++) {
        plans->intents[i] = intents_new();
        if (!plans->intents[i])
            return fail(TERN_NO_MEMORY, "no memory for the intents of a worker");
        plans->intents[i]->next = sim_node->intents[i];
        sim_node->intents[i] = plans->intents[i];
    }
    return TERN_OK;
}

void plans_close(struct plans *plans)
{
    for (int i = 0; i < SIM_MAX_SHARDS && plans->intents[i]; i++)
        atomic_store_explicit(&plans->intents[i]->is_over, true, memory_order_release);
    plans->sim_node->round_wanted = ALL_SHARDS;
    *plans = (struct plans){.sim_node = plans->sim_node};
}

/* ---- Making plans ------------------------------------------------------------------------------ */

static enum intent_kind kind_of(const struct plans *plans, enum sim_table table, enum wanted_by by)
{
    const struct core_table *of = &plans->sim_node->tables[table];
    return of->technique->intent ? of->technique->intent(of->policy, by) : INTENT_NONE;
}

/* What a program asks for depends on the policy: some tables know nothing but tern_localize. */
static enum intent_kind asked_kind(const struct plans *plans, enum sim_table table)
{
    enum intent_kind kind = kind_of(plans, table, BY_INTENT);
    return kind ? kind : kind_of(plans, table, BY_LOCALIZE);
}

/* A table in which something can be asked for. */
static enum sim_table choose_table(const struct plans *plans)
{
    enum sim_table table;
    do
        table = (enum sim_table)below(plans, N_SIM_TABLES);
    while (!asked_kind(plans, table));
    return table;
}

static void add_intent(struct plans *plans, enum intent_kind kind, enum sim_table table,
                       const uint64_t *keys, size_t n, uint64_t start, uint64_t end)
{
    const struct sim_node *sim_node = plans->sim_node;
    const struct core_table *of = &sim_node->tables[table];
    for (uint32_t shard = 0; shard < of->store.n_shards; shard++) {
        uint64_t in_shard[KEYS];
        size_t found = 0;
        for (size_t i = 0; i < n; i++) {
            in_shard[found] = keys[i];
            found += store_shard(&of->store, keys[i]) == shard;
        }
        bool added = !found || intents_add(plans->intents[shard], kind, of->number, of->generation,
                                           in_shard, found, start, end);
        check_that(sim_node->check, added, "no memory for an intent");
    }
    plans->sim_node->round_wanted = ALL_SHARDS;
}

void plans_make(struct plans *plans)
{
    const struct tables *tables = &plans->sim_node->check->tables;
    struct plan plan = {.table = choose_table(plans), .n = 1 + below(plans, PLAN_KEYS)};
    /* One of four is late. */
    plan.start = plans->clock + (below(plans, 4) ? below(plans, AHEAD) : 0);
    plan.end = plan.start + 1 + below(plans, LENGTH);
    plan.early =
        plan.start > plans->clock + EARLY && tables->round_bytes >= (size_t)PLAN_KEYS * ROW_BYTES;
    for (size_t i = 0; i < plan.n; i++)
        plan.indexes[i] = (uint32_t)below(plans, below(plans, 2) ? HOT_KEYS : KEYS);
    uint64_t keys[PLAN_KEYS];
    for (size_t i = 0; i < plan.n; i++)
        keys[i] = table_key(plan.table, plan.indexes[i]);
    const bool intended = tables_intended(tables, plan.table);
    if (intended && plans->n == MAX_PLANS)
        return;
    add_intent(plans, asked_kind(plans, plan.table), plan.table, keys, plan.n, plan.start,
               plan.end);
    if (intended)
        plans->all[plans->n++] = plan;
}

void plans_want(struct plans *plans, enum wanted_by by, enum sim_table table, const uint64_t *keys,
                const uint32_t *indexes, size_t n, uint64_t until)
{
    enum intent_kind kind = by == BY_INTENT ? asked_kind(plans, table) : kind_of(plans, table, by);
    if (kind)
        add_intent(plans, kind, table, keys, n, plans->clock, until);
    for (size_t i = 0; kind && kind != INTENT_HERE && i < n; i++)
        if (plans->until[table][indexes[i]] < until)
            plans->until[table][indexes[i]] = until;
}

/* ---- What must hold of them -------------------------------------------------------------------- */

static bool is_open(const struct plans *plans, const struct plan *plan)
{
    return plan->end > plans->clock;
}

/* Whether the round that acted on a plan, or one after it, has left nothing over, and all that owners had to
 * tell after that has come. */
static bool is_settled(const struct plans *plans, const struct plan *plan)
{
    return plan->awaits && sim_node_is_swept(plans->sim_node, &plan->awaited);
}

/* Whether another node of the host has the manager of a table: it acts on what this one has told it in its own time. */
static bool follows(const struct sim_node *sim_node, enum sim_table table)
{
    return follower_is_here(sim_node->core, &sim_node->tables[table]);
}

/* The keys of a plan are to be here now that it begins. */
static void begin_plan(struct plans *plans, const struct plan *plan)
{
    const struct sim_node *sim_node = plans->sim_node;
    const struct tables *tables = &sim_node->check->tables;
    /* Intent for a key that had no row when it was asked for has no effect. */
    if (!tables_copied(tables, plan->table) || tables_dropped(tables, plan->table))
        return;
    for (size_t i = 0; i < plan->n; i++) {
        bool is_replica, here = sim_node_has(sim_node, plan->table, plan->indexes[i], &is_replica);
        check_that(sim_node->check,
                   here || !is_settled(plans, plan) || follows(sim_node, plan->table) ||
                       sim_node->may_fail ||
                       sim_node_is_nowhere(sim_node, plan->table, plan->indexes[i]),
                   "key %" PRIu32 " of table '%s' is not at node %" PRIu32 " at clock %" PRIu64
                   ", although a round had acted on the intent for it",
                   plan->indexes[i], table_name(plan->table), sim_node->core->node, plans->clock);
        sim_node->figures->n_intended += plan->early;
        sim_node->figures->n_late += plan->early && !here;
    }
}

void plans_advance(struct plans *plans)
{
    plans->clock++;
    for (int i = 0; i < SIM_MAX_SHARDS && plans->intents[i]; i++)
        atomic_store_explicit(&plans->intents[i]->clock, plans->clock, memory_order_relaxed);
    size_t n = 0;
    for (size_t i = 0; i < plans->n; i++) {
        struct plan *plan = &plans->all[i];
        if (plan->start == plans->clock)
            begin_plan(plans, plan);
        if (plan->end + LINGERS > plans->clock)
            plans->all[n++] = *plan;
    }
    plans->n = n;
}

/* Whether in all shards a round that has acted on a plan, or one after it, has left nothing over. */
static bool was_acted_on(const struct sim_node *sim_node, const struct plan *plan)
{
    bool was = true;
    for (uint32_t i = 0; i < core_shards(sim_node->core); i++)
        was &= plan->rounds[i] && sim_node->rounds[i]->last_clean >= plan->rounds[i];
    return was;
}

void plans_looked(struct plans *plans, uint32_t shard)
{
    const struct sim_node *sim_node = plans->sim_node;
    for (size_t i = 0; i < plans->n; i++) {
        struct plan *plan = &plans->all[i];
        if (!plan->rounds[shard] && plan->start <= plans->clock + SURELY)
            plan->rounds[shard] = sim_node->rounds[shard]->n_begun;
        if (!plan->awaits && was_acted_on(sim_node, plan)) {
            plan->awaits = true;
            plan->awaited = sim_node_next_sweeps(sim_node);
        }
    }
}

void plans_check(struct plans *plans)
{
    const struct sim_node *sim_node = plans->sim_node;
    for (size_t i = 0; i < plans->n; i++) {
        struct plan *plan = &plans->all[i];
        for (size_t k = 0; is_open(plans, plan) && k < plan->n; k++) {
            const uint64_t key = table_key(plan->table, plan->indexes[k]);
            const uint32_t shard = store_shard(&sim_node->tables[plan->table].store, key);
            if (!plan->rounds[shard] || (follows(sim_node, plan->table) &&
                                         sim_node->rounds[shard]->last_clean < plan->rounds[shard]))
                continue;
            bool is_replica,
                here = sim_node_has(sim_node, plan->table, plan->indexes[k], &is_replica);
            check_that(sim_node->check, here || !plan->here[k] || sim_node->may_fail,
                       "key %" PRIu32 " of table '%s' has gone from node %" PRIu32
                       ", where it is intended until clock %" PRIu64 ", at clock %" PRIu64,
                       plan->indexes[k], table_name(plan->table), sim_node->core->node, plan->end,
                       plans->clock);
            plan->here[k] = here;
        }
    }
}

bool plans_choose(const struct plans *plans, enum sim_table table, uint32_t *index)
{
    const struct plan *chosen = NULL;
    uint64_t n = 0;
    for (size_t i = 0; i < plans->n; i++)
        if (plans->all[i].table == table && plans->all[i].start <= plans->clock &&
            below(plans, ++n) == 0)
            chosen = &plans->all[i];
    if (!chosen)
        return false;
    *index = chosen->indexes[below(plans, chosen->n)];
    return true;
}

bool plans_has(const struct plans *plans, enum sim_table table, uint32_t index, bool *begun)
{
    bool open = plans->until[table][index] > plans->clock;
    *begun = open;
    for (size_t i = 0; i < plans->n; i++) {
        const struct plan *plan = &plans->all[i];
        for (size_t k = 0; plan->table == table && is_open(plans, plan) && k < plan->n; k++) {
            open |= plan->indexes[k] == index;
            *begun |= plan->indexes[k] == index && plan->start <= plans->clock;
        }
    }
    return open;
}
