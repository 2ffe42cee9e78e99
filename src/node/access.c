/*
 * access - the public calls on keys: pull, push, set, their asynchronous forms, and pin.
 *
 * A call checks everything first, so that what fails changes nothing: handles and arrays, then every
 * key, then, for what writes, that each key has a row. Only then does it touch values. On a node that
 * is alone every operation is finished when its start returns.
 */
#include "node/node.h"

#include <inttypes.h>
#include <string.h>

enum tern_status access_refuse(const struct tern_worker *worker, const struct tern_table *table,
                               const void *keys, const void *values, const char *what)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    if (worker->node != table->node)
        return fail(TERN_MISMATCH, "table '%s' belongs to another node than the worker",
                    table->store.name);
    if (!keys)
        return fail(TERN_INVALID, "table '%s': the pointer `keys` is NULL", table->store.name);
    if (!values)
        return fail(TERN_INVALID, "table '%s': the pointer `%s` is NULL", table->store.name, what);
    return fail(TERN_INVALID, "table '%s': the arguments make no sense", table->store.name);
}

/* Names the first key that is outside a dense table. */
static enum tern_status refuse_key(const struct store *store, const uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (keys[i] >= store->n_keys)
            return fail(TERN_RANGE,
                        "key %" PRIu64 " at position %zu is outside table '%s' of %" PRIu64 " keys",
                        keys[i], i, store->name, store->n_keys);
    return TERN_OK;
}

static inline enum tern_status check_keys(const struct store *store, const uint64_t *keys, size_t n)
{
    if (store->index == TERN_SPARSE)
        return TERN_OK;
    uint64_t n_keys = store->n_keys, bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= keys[i] >= n_keys;
    return bad ? refuse_key(store, keys, n) : TERN_OK;
}

/* Reads keys that have no row yet: zero without making one, anything else by making it. */
static enum tern_status pull_missed(struct store *store, const uint64_t *keys, char *values,
                                    const uint32_t *missed, size_t n_missed)
{
    for (size_t i = 0; i < n_missed; i++) {
        uint64_t key = keys[missed[i]];
        char *value = values + missed[i] * store->value_bytes;
        if (store->init.kind == TERN_INIT_ZERO) {
            memset(value, 0, store->value_bytes);
            continue;
        }
        enum tern_status status = store_create(store, key);
        if (status)
            return status;
        store_pull_one(store, key, value);
    }
    return TERN_OK;
}

static enum tern_status pull_block(struct tern_worker *worker, struct tern_table *table,
                                   const uint64_t *keys, size_t n, void *values)
{
    uint32_t *missed = worker->space->missed;
    size_t n_missed = store_pull(&table->store, keys, n, values, missed);
    if (__builtin_expect(n_missed != 0, 0))
        return pull_missed(&table->store, keys, values, missed, n_missed);
    return TERN_OK;
}

static __attribute__((noinline)) enum tern_status pull_many(struct tern_worker *worker,
                                                            struct tern_table *table,
                                                            const uint64_t *keys, size_t n,
                                                            void *values)
{
    enum tern_status status = check_keys(&table->store, keys, n);
    size_t value_bytes = table->store.value_bytes;
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS) {
        size_t block = n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS;
        status = pull_block(worker, table, keys + done, block, (char *)values + done * value_bytes);
    }
    if (!status)
        count_add(&worker->space->counts[table->id].pulled, n);
    return status;
}

enum tern_status tern_pull(struct tern_worker *worker, struct tern_table *table,
                           const uint64_t *keys, size_t n, void *values)
{
    if (__builtin_expect(!access_allowed(worker, table, keys, n, values), 0))
        return access_refuse(worker, table, keys, values, "values");
    /* A single key goes straight to its row. */
    if (n == 1 && keys[0] <= table->store.last_key &&
        store_pull_one(&table->store, keys[0], values)) {
        count_add(&worker->space->counts[table->id].pulled, 1);
        return TERN_OK;
    }
    return pull_many(worker, table, keys, n, values);
}

/* Either way of writing to rows that exist; nothing can be missed any more. */
typedef size_t write_function(struct store *store, const uint64_t *keys, size_t n,
                              struct entry *const *entries, const void *values, uint32_t *missed);

static __attribute__((noinline)) enum tern_status write_keys(struct tern_worker *worker,
                                                             struct tern_table *table,
                                                             const uint64_t *keys, size_t n,
                                                             const void *values,
                                                             write_function *write)
{
    struct store *store = &table->store;
    struct workspace *space = worker->space;
    enum tern_status status = check_keys(store, keys, n);
    /* All rows before any value: then nothing can fail half way. */
    if (!status && n > BLOCK_KEYS)
        status = store_reserve(store, keys, n, NULL);
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS) {
        size_t block = n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS;
        status = store_reserve(store, keys + done, block, space->entries);
        if (!status)
            write(store, keys + done, block, space->entries,
                  (const char *)values + done * store->value_bytes, space->missed);
    }
    return status;
}

enum tern_status tern_push(struct tern_worker *worker, struct tern_table *table,
                           const uint64_t *keys, size_t n, const void *updates)
{
    if (!access_allowed(worker, table, keys, n, updates))
        return access_refuse(worker, table, keys, updates, "updates");
    if (n == 1 && keys[0] <= table->store.last_key &&
        store_push_one(&table->store, keys[0], updates)) {
        count_add(&worker->space->counts[table->id].pushed, 1);
        return TERN_OK;
    }
    enum tern_status status = write_keys(worker, table, keys, n, updates, store_push);
    if (!status)
        count_add(&worker->space->counts[table->id].pushed, n);
    return status;
}

enum tern_status tern_set(struct tern_worker *worker, struct tern_table *table,
                          const uint64_t *keys, size_t n, const void *values)
{
    if (!access_allowed(worker, table, keys, n, values))
        return access_refuse(worker, table, keys, values, "values");
    enum tern_status status = write_keys(worker, table, keys, n, values, store_set);
    if (!status)
        count_add(&worker->space->counts[table->id].set, n);
    return status;
}

/* Gives an operation that has just finished its ticket. */
static enum tern_status finished(struct tern_worker *worker, enum tern_status status,
                                 uint64_t *ticket)
{
    if (!status)
        *ticket = ++worker->last_ticket;
    return status;
}

static enum tern_status refuse_ticket(void)
{
    return fail(TERN_INVALID, "the pointer `ticket` for the result is NULL");
}

enum tern_status tern_pull_start(struct tern_worker *worker, struct tern_table *table,
                                 const uint64_t *keys, size_t n, void *values, uint64_t *ticket)
{
    if (!ticket)
        return refuse_ticket();
    return finished(worker, tern_pull(worker, table, keys, n, values), ticket);
}

enum tern_status tern_push_start(struct tern_worker *worker, struct tern_table *table,
                                 const uint64_t *keys, size_t n, const void *updates,
                                 uint64_t *ticket)
{
    if (!ticket)
        return refuse_ticket();
    return finished(worker, tern_push(worker, table, keys, n, updates), ticket);
}

enum tern_status tern_set_start(struct tern_worker *worker, struct tern_table *table,
                                const uint64_t *keys, size_t n, const void *values,
                                uint64_t *ticket)
{
    if (!ticket)
        return refuse_ticket();
    return finished(worker, tern_set(worker, table, keys, n, values), ticket);
}

enum tern_status tern_wait(struct tern_worker *worker, uint64_t ticket)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    if (!ticket || ticket > worker->last_ticket)
        return fail(TERN_INVALID, "ticket %" PRIu64 " was not given out by this worker", ticket);
    return TERN_OK;
}

enum tern_status tern_test(struct tern_worker *worker, uint64_t ticket, bool *done)
{
    if (!done)
        return fail(TERN_INVALID, "tern_test: the pointer `done` is NULL");
    enum tern_status status = tern_wait(worker, ticket);
    if (!status)
        *done = true;
    return status;
}

enum tern_status tern_pin(struct tern_worker *worker, struct tern_table *table,
                          const uint64_t *keys, size_t n, void **rows)
{
    if (!access_allowed(worker, table, keys, n, rows))
        return access_refuse(worker, table, keys, rows, "rows");
    struct store *store = &table->store;
    enum tern_status status = check_keys(store, keys, n);
    if (!status)
        status = store_reserve(store, keys, n, NULL);
    for (size_t i = 0; !status && i < n; i++) {
        rows[i] = store_pin(store, keys[i]);
        if (!rows[i]) {
            while (i-- > 0)
                store_unpin(store, keys[i]);
            return TERN_NO_MEMORY;
        }
    }
    if (!status) {
        worker->n_pins += n;
        count_add(&worker->space->counts[table->id].pinned, n);
    }
    return status;
}

enum tern_status tern_unpin(struct tern_worker *worker, struct tern_table *table,
                            const uint64_t *keys, size_t n)
{
    if (!access_allowed(worker, table, keys, n, keys))
        return access_refuse(worker, table, keys, keys, "keys");
    struct store *store = &table->store;
    enum tern_status status = check_keys(store, keys, n);
    if (status)
        return status;
    for (size_t i = 0; i < n; i++) {
        if (i < worker->n_pins && store_unpin(store, keys[i]))
            continue;
        uint64_t key = keys[i];
        while (i-- > 0)
            store_pin(store, keys[i]);
        return fail(TERN_INVALID, "key %" PRIu64 " of table '%s' is not pinned by this worker", key,
                    store->name);
    }
    worker->n_pins -= n;
    return TERN_OK;
}
