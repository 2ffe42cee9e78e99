/* evict - rows that leave a table: tern_sweep, and the clock of the rule evict_age. See store/evict.h. */
#include "store/evict.h"

#include "node/access.h"

void evict_advanced(struct tern_worker *worker, uint64_t clock)
{
    struct tern_node *node = worker->node;
    lock_take(&node->lock);
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++)
        if (node->tables[i] && node->tables[i]->options.evict_age)
            evict_advance(&node->tables[i]->core.store, clock);
    lock_release(&node->lock);
}

enum tern_status tern_sweep(struct tern_worker *worker, struct tern_table *table,
                            tern_sweep_function *function, void *context, uint64_t *n)
{
    if (!access_allowed(worker, table, n, 1, n))
        return access_refuse(worker, table, table, n, "n");
    struct store *store = &table->core.store;
    if (!function)
        return fail(TERN_INVALID, "table '%s': the pointer `function` is NULL", store->name);
    if (store->index != TERN_SPARSE)
        return fail(TERN_INVALID, "table '%s' is not sparse: its rows do not leave", store->name);
    if ((!store_is_homebound(store) && !store->evicts) || table->is_admitted)
        return fail(TERN_INVALID,
                    "table '%s': under policy '%s' rows are copied or move; those of a table that "
                    "is opened with a rule of eviction, such as evict_floor = 1, can be removed",
                    store->name, table->policy.name);
    if (store->gates)
        return fail(TERN_INVALID,
                    "table '%s' has backups and is in shared memory: its rows cannot be removed",
                    store->name);
    enum tern_status status = access_check_all(worker, table);
    return status ? status : evict_sweep(store, function, context, n);
}
