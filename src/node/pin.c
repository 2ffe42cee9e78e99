/* pin - direct use of rows: tern_pin and tern_unpin. See access.h. */
#include "node/access.h"

#include <inttypes.h>

/* Ends the pins of the first n keys. */
static void unpin_all(struct store *store, const uint64_t *keys, size_t n)
{
    while (n-- > 0)
        store_unpin(store, keys[n]);
}

/* Adds a pin of the worker's, for which there is room. */
static void note_pin(struct keymap *pins, uint64_t key)
{
    keymap_set(pins, key, keymap_get(pins, key) + 1);
}

/* Takes a pin of the worker's; false if it has none of this key. */
static bool forget_pin(struct keymap *pins, uint64_t key)
{
    uint32_t count = keymap_get(pins, key);
    if (count)
        keymap_set(pins, key, count - 1);
    return count;
}

enum tern_status tern_pin(struct tern_worker *worker, struct tern_table *table,
                          const uint64_t *keys, size_t n, void **rows)
{
    if (!access_allowed(worker, table, keys, n, rows))
        return access_refuse(worker, table, keys, rows, "rows");
    struct store *store = &table->core.store;
    if (store->sketch)
        return fail(TERN_INVALID, "table '%s' is a sketch: it has no rows to pin", store->name);
    if (table->is_admitted || table->is_counted)
        return fail(
            TERN_INVALID,
            "table '%s': rows cannot be pinned under policy '%s', which looks at every read",
            store->name, table->policy.name);
    struct keymap *pins = &worker->space->pins[table->id];
    enum tern_status status = access_check_keys(store, keys, n);
    if (!status)
        status = access_check_all(worker, table);
    if (!status && !keymap_reserve(pins, n))
        status = fail(TERN_NO_MEMORY, "no memory to pin %zu rows of table '%s'", n, store->name);
    if (!status)
        status = access_reserve_rows(worker, store, keys, n, store_reserve_all);
    for (size_t i = 0; !status && i < n; i++) {
        status = store_pin(store, keys[i], &rows[i]);
        if (!status && !rows[i])
            status =
                fail(TERN_INVALID, "key %" PRIu64 " of table '%s' is at another node%s", keys[i],
                     store->name, store->updater.apply ? ", where its updater runs" : "");
        if (status)
            unpin_all(store, keys, i);
    }
    if (status)
        return status;
    for (size_t i = 0; i < n; i++)
        note_pin(pins, keys[i]);
    worker->n_pins += n;
    count_add(&worker->space->counts[table->id].pinned, n);
    return TERN_OK;
}

enum tern_status tern_unpin(struct tern_worker *worker, struct tern_table *table,
                            const uint64_t *keys, size_t n)
{
    if (!access_allowed(worker, table, keys, n, keys))
        return access_refuse(worker, table, keys, keys, "keys");
    struct store *store = &table->core.store;
    struct keymap *pins = &worker->space->pins[table->id];
    enum tern_status status = access_check_keys(store, keys, n);
    if (status)
        return status;
    for (size_t i = 0; i < n; i++) {
        if (forget_pin(pins, keys[i]))
            continue;
        uint64_t key = keys[i];
        while (i-- > 0)
            note_pin(pins, keys[i]);
        return fail(TERN_INVALID, "key %" PRIu64 " of table '%s' is not pinned by this worker", key,
                    store->name);
    }
    unpin_all(store, keys, n);
    worker->n_pins -= n;
    return TERN_OK;
}

/* The table whose rows are pinned stays open meanwhile. */
static struct store *pinned_store(struct tern_node *node, size_t id)
{
    lock_take(&node->lock);
    struct store *store = &node->tables[id]->core.store;
    lock_release(&node->lock);
    return store;
}

void access_unpin_all(struct tern_worker *worker)
{
    for (size_t id = 0; worker->n_pins && id < TERN_MAX_TABLES; id++) {
        struct keymap *pins = &worker->space->pins[id];
        struct store *store = pins->n ? pinned_store(worker->node, id) : NULL;
        for (size_t i = 0; store && i <= pins->mask; i++)
            for (uint32_t left = pins->cells[i].value; left > 0; left--) {
                store_unpin(store, pins->cells[i].key);
                worker->n_pins--;
            }
        keymap_free(pins);
    }
}
