/* admit - see admit.h. */
#include "core/admit.h"

#include "core/defect.h"
#include "core/technique.h"

bool admit_fetch(struct core_table *table, struct access *access, uint64_t n_rounds,
                 enum tern_status *status)
{
    if (!access->n_stale || n_rounds < access->fetch_round)
        return false;
    *status = table->technique->fetch(table, access);
    /* The round under way may be past this table. */
    access->fetch_round = n_rounds + 2;
    /* What is at home here can be read as soon as it was asked for. */
    return !*status && table->technique->admit(table, access);
}

static struct core_table *table_at(const struct core *core, size_t slot)
{
    return atomic_load_explicit(&core->tables[slot], memory_order_acquire);
}

bool admit_advance(const struct core *core, const struct unseen *unseen, uint64_t clock)
{
    bool admitted = true;
    for (size_t i = 0; admitted && i < TERN_MAX_TABLES; i++) {
        /* A table may be closed meanwhile, so it is looked up each time. */
        const struct core_table *table =
            unseen[i].epochs[0] || unseen[i].epochs[1] ? table_at(core, i) : NULL;
        if (table && table->technique->admit_update)
            admitted = table->technique->admit_update(table, &unseen[i], clock);
    }
    return admitted;
}

bool admit_return(const struct core *core, const struct worker_clocks *clocks, uint64_t *clock)
{
    const uint64_t lowest = clocks->min.lowest;
    uint64_t highest = lowest != CLOCK_RESTS ? lowest : core ? 0 : clocks->highest;
    bool awaited = true;
    for (size_t i = 0; core && i < TERN_MAX_TABLES; i++) {
        const struct core_table *table = table_at(core, i);
        if (table && table->technique->awaits_workers)
            awaited &= table->technique->awaits_workers(table, &highest);
    }
    if (highest > *clock)
        *clock = highest;
    return awaited || defect(DEFECT_RETURNS_AT_ONCE);
}

void admit_settle(const struct core *core)
{
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table = table_at(core, i);
        if (table && table->technique->settle)
            table->technique->settle(table);
    }
}
