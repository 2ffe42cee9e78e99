/*
 * admission - the calls of tables that admit keys: tern_count, and tern_pull_present, which other tables also have.
 * See access.h.
 */
#include <stdlib.h>
#include <string.h>

#include "node/access.h"

/* Sends what is left of a call to other nodes and waits for it. `present` is NULL but for a pull that asks for it. */
static enum tern_status finish_away(struct tern_worker *worker, const struct tern_table *table,
                                    enum frame_kind kind, const uint64_t *keys, void *values,
                                    bool *present)
{
    struct op op;
    enum tern_status status =
        away_start_present(worker, table, kind, keys, worker->space->n_away, values, present, &op);
    if (status)
        return status;
    remote_wait(worker->remote, &op, false);
    return away_end(worker, &op);
}

static enum tern_status begin(struct tern_worker *worker, const struct tern_table *table,
                              const uint64_t *keys, size_t n)
{
    access_drive(worker, n);
    worker->space->n_away = 0;
    enum tern_status status =
        worker->pending ? ticket_wait_for_turn(worker, table, keys, n) : TERN_OK;
    return status ? status : access_check_all(worker, table);
}

/* Counts the keys at home here and notes those of the others that have no row here. */
static enum tern_status count_here(struct tern_worker *worker, struct store *store,
                                   const uint64_t *keys, size_t n, const uint32_t *counts)
{
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < n; i++) {
        struct entry *entry;
        if (store_is_home(store, keys[i]))
            status = store_count(store, keys[i], counts ? counts[i] : 1);
        else if (!entry_has_row(store_look(store, keys[i], &entry)))
            status = access_add_away(worker->space, i);
    }
    return status;
}

/* The counts of a call that gives none. */
static uint32_t *ones(size_t n)
{
    uint32_t *counts = malloc(n * sizeof *counts);
    for (size_t i = 0; counts && i < n; i++)
        counts[i] = 1;
    return counts;
}

enum tern_status tern_count(struct tern_worker *worker, struct tern_table *table,
                            const uint64_t *keys, size_t n, const uint32_t *counts)
{
    if (!access_allowed(worker, table, keys, n, keys))
        return access_refuse(worker, table, keys, keys, "keys");
    struct store *store = &table->core.store;
    if (!store->counter_bytes || store->sketch)
        return fail(TERN_INVALID, "table '%s' does not count its keys: it has no `admit`",
                    store->name);
    enum tern_status status = begin(worker, table, keys, n);
    if (!status)
        status = count_here(worker, store, keys, n, counts);
    if (status || !worker->space->n_away)
        return status;
    uint32_t *made = counts ? NULL : ones(n);
    if (!counts && !made)
        return fail(TERN_NO_MEMORY, "no memory to count %zu keys", n);
    status = finish_away(worker, table, FRAME_COUNT, keys,
                         made ? made : (uint32_t *)(uintptr_t)counts, NULL);
    free(made);
    return status;
}

/* Reads the keys of a block that have rows here; those at home here that have none are absent, the others away. */
static enum tern_status pull_block(struct tern_worker *worker, struct store *store,
                                   const uint64_t *keys, size_t n, size_t done, char *values,
                                   bool *present)
{
    struct workspace *space = worker->space;
    const size_t bytes = store->value_bytes;
    const size_t n_missed = store_pull(store, keys + done, n, values + done * bytes, space->missed);
    enum tern_status status = n_missed ? store_check_lost(store) : TERN_OK;
    for (size_t i = 0; !status && i < n_missed; i++) {
        const size_t position = done + space->missed[i];
        struct entry *entry;
        if (!store_is_home(store, keys[position]) ||
            entry_state(store_look(store, keys[position], &entry)) == ENTRY_ELSEWHERE) {
            status = access_add_away(space, position);
            continue;
        }
        present[position] = store_pull_one(store, keys[position], values + position * bytes);
        if (!present[position])
            memset(values + position * bytes, 0, bytes);
    }
    return status;
}

enum tern_status tern_pull_present(struct tern_worker *worker, struct tern_table *table,
                                   const uint64_t *keys, size_t n, void *values, bool *present)
{
    if (!access_allowed(worker, table, keys, n, values))
        return access_refuse(worker, table, keys, values, "values");
    struct store *store = &table->core.store;
    if (n && !present)
        return fail(TERN_INVALID, "table '%s': the pointer `present` is NULL", store->name);
    if (store->sketch)
        return fail(TERN_INVALID,
                    "table '%s' is a sketch, which cannot tell whether a key was counted",
                    store->name);
    if (store->home.rows_everywhere || table->is_admitted)
        return fail(TERN_INVALID,
                    "table '%s': tern_pull_present does not work under policy '%s', under which "
                    "every node makes rows of its own",
                    store->name, table->policy.name);
    if (n)
        memset(present, true, n * sizeof *present);
    if (store->index == TERN_DENSE)
        return tern_pull(worker, table, keys, n, values);
    enum tern_status status = begin(worker, table, keys, n);
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS)
        status = pull_block(worker, store, keys, n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS,
                            done, values, present);
    if (!status && worker->space->n_away)
        status = finish_away(worker, table, FRAME_PULL, keys, values, present);
    if (!status)
        access_count(worker, table, FRAME_PULL, n);
    return status;
}
