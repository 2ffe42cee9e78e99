/*
 * pull_local - tern_pull_if_local: reads what is at this node, and sends nothing. See tern.h.
 *
 * It leaves out a key that is here but must not be read: the worker has an operation on it under way, or the replica is too
 * old for a bounded read. Most calls have no such key and are one pass over all keys.
 */
#include "node/access.h"
#include "node/admit.h"

/* Whether the key may be read now, if it is here. */
static bool may_read(struct tern_worker *worker, const struct tern_table *table, uint64_t key)
{
    if (worker->pending && order_must_wait(&worker->space->order, &table->core, &key, 1))
        return false;
    return !table->is_admitted || admit_now(worker, table, key);
}

/* Reads the keys one by one. */
static enum tern_status pull_each(struct tern_worker *worker, struct tern_table *table,
                                  const uint64_t *keys, size_t n, char *values, bool *is_local,
                                  size_t *n_local)
{
    enum tern_status status = access_check_keys(&table->core.store, keys, n);
    *n_local = 0;
    for (size_t i = 0; !status && i < n; i++) {
        bool here = may_read(worker, table, keys[i]);
        if (here)
            status = access_pull_here(worker, table, &keys[i], 1,
                                      values + i * table->core.store.value_bytes);
        here = here && !worker->space->n_away;
        if (is_local)
            is_local[i] = here;
        *n_local += here;
    }
    return status;
}

/* Reads all keys, and finds out which of them were not here. */
static enum tern_status pull_all(struct tern_worker *worker, struct tern_table *table,
                                 const uint64_t *keys, size_t n, char *values, bool *is_local,
                                 size_t *n_local)
{
    const struct workspace *space = worker->space;
    enum tern_status status = access_pull_here(worker, table, keys, n, values);
    if (status)
        return status;
    *n_local = n - space->n_away;
    for (size_t i = 0; is_local && i < n; i++)
        is_local[i] = true;
    for (size_t i = 0; is_local && i < space->n_away; i++)
        is_local[space->away[i]] = false;
    return TERN_OK;
}

enum tern_status tern_pull_if_local(struct tern_worker *worker, struct tern_table *table,
                                    const uint64_t *keys, size_t n, void *values, bool *is_local,
                                    size_t *n_local)
{
    if (!access_allowed(worker, table, keys, n, values))
        return access_refuse(worker, table, keys, values, "values");
    if (table->core.store.sketch)
        return fail(TERN_INVALID, "table '%s' is a sketch: it has no rows that could be local",
                    table->core.store.name);
    access_drive(worker, n);
    const bool one_by_one =
        table->is_admitted ||
        (worker->pending && order_must_wait(&worker->space->order, &table->core, keys, n));
    size_t found = 0;
    enum tern_status status = access_check_all(worker, table);
    if (!status)
        status =
            (one_by_one ? pull_each : pull_all)(worker, table, keys, n, values, is_local, &found);
    if (status)
        return status;
    count_add(&worker->space->counts[table->id].pulled, found);
    if (n_local)
        *n_local = found;
    return TERN_OK;
}
