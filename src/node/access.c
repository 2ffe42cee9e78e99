/*
 * access - the public calls pull, push and set, and the part of an operation that is done at this node. See access.h.
 *
 * A call checks everything first, so that a failed call changes nothing: handles and arrays, then every
 * key, then, if it writes, that each key has a row. Only then does it touch values. Keys at other
 * nodes go to away.c; on a single node there are none.
 */
#include "node/access.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/age.h"
#include "core/counting.h"
#include "core/technique.h"
#include "node/admit.h"
#include "node/exclusive.h"

enum tern_status access_refuse(const struct tern_worker *worker, const struct tern_table *table,
                               const void *keys, const void *values, const char *what)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    if (worker->node != table->node)
        return fail(TERN_MISMATCH, "table '%s' belongs to another node than the worker",
                    table->core.store.name);
    if (!keys)
        return fail(TERN_INVALID, "table '%s': the pointer `keys` is NULL", table->core.store.name);
    if (!values)
        return fail(TERN_INVALID, "table '%s': the pointer `%s` is NULL", table->core.store.name,
                    what);
    return fail(TERN_INVALID, "table '%s': the arguments make no sense", table->core.store.name);
}

enum tern_status access_refuse_key(const struct store *store, const uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (keys[i] >= store->n_keys)
            return fail(TERN_RANGE,
                        "key %" PRIu64 " at position %zu is outside table '%s' of %" PRIu64 " keys",
                        keys[i], i, store->name, store->n_keys);
    return TERN_OK;
}

/* Makes room to note that n more keys of a call are at other nodes. */
static enum tern_status reserve_away(struct workspace *space, size_t n)
{
    if (space->n_away + n <= space->max_away)
        return TERN_OK;
    size_t max = 2 * space->max_away + (n < BLOCK_KEYS ? BLOCK_KEYS : n);
    uint32_t *away = realloc(space->away, max * sizeof *away);
    if (!away)
        return fail(TERN_NO_MEMORY, "no memory for a call on more than %zu keys", space->n_away);
    space->away = away;
    space->max_away = max;
    return TERN_OK;
}

enum tern_status access_add_away(struct workspace *space, size_t position)
{
    enum tern_status status = reserve_away(space, 1);
    if (!status)
        space->away[space->n_away++] = (uint32_t)position;
    return status;
}

/* Whether none of n keys can be here. Not a look-up of each: a large call on keys of another node would
 * otherwise keep that node waiting for its first request. */
static bool none_is_here(const struct tern_worker *worker, const struct store *store,
                         const uint64_t *keys, size_t n)
{
    if (!worker->remote || !store_is_homebound(store))
        return false;
    size_t i = 0;
    while (i < n && !store_is_home(store, keys[i]))
        i++;
    return i == n;
}

/* Notes that n keys, from position `begin` on, are at other nodes. There must be room. */
static void add_all_away(struct workspace *space, size_t begin, size_t n)
{
    uint32_t *away = space->away + space->n_away;
    for (size_t i = 0; i < n; i++)
        away[i] = (uint32_t)(begin + i);
    space->n_away += n;
}

/* Reads keys that have no row here: those at home get one, the others are noted as away. */
static enum tern_status pull_missed(struct workspace *space, struct store *store,
                                    const uint64_t *keys, size_t done, char *values,
                                    size_t n_missed)
{
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < n_missed; i++) {
        size_t position = done + space->missed[i];
        bool here = store_is_home(store, keys[position]);
        if (here)
            status = store_pull_new(store, keys[position], values + position * store->value_bytes,
                                    &here);
        if (!status && !here)
            status = access_add_away(space, position);
    }
    return status;
}

/* Pulls the keys whose rows are here and notes the others. */
enum tern_status access_pull_here(struct tern_worker *worker, struct tern_table *table,
                                  const uint64_t *keys, size_t n, char *values)
{
    struct store *store = &table->core.store;
    struct workspace *space = worker->space;
    space->n_away = 0;
    enum tern_status status = access_check_keys(store, keys, n);
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS) {
        size_t block = n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS;
        if (none_is_here(worker, store, keys + done, block)) {
            status = reserve_away(space, block);
            if (!status)
                add_all_away(space, done, block);
            continue;
        }
        size_t n_missed = store_pull(store, keys + done, block, values + done * store->value_bytes,
                                     space->missed);
        if (__builtin_expect(n_missed != 0, 0))
            status = pull_missed(space, store, keys, done, values, n_missed);
    }
    return status;
}

enum tern_status access_reserve_rows(struct tern_worker *worker, struct store *store,
                                     const uint64_t *keys, size_t n, reserve_function *reserve)
{
    enum tern_status status = TERN_OK;
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS) {
        size_t block = n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS;
        if (!none_is_here(worker, store, keys + done, block))
            status = reserve(store, keys + done, block, worker->space->entries);
    }
    return status;
}

/* Writes to the rows of a block of keys, whose entries are found; gives the number of those without one. */
static size_t write_block(struct tern_worker *worker, struct store *store, enum frame_kind kind,
                          const uint64_t *keys, size_t n, const char *values)
{
    static size_t (*const writes[2][2])(struct store *, const uint64_t *, size_t,
                                        struct entry *const *, const void *, uint32_t *) = {
        {store_set, store_set_exclusive}, {store_push, store_push_exclusive}};
    struct workspace *space = worker->space;
    bool exclusive = exclusive_begin(worker);
    size_t n_missed = writes[kind == FRAME_PUSH][exclusive](store, keys, n, space->entries, values,
                                                            space->missed);
    exclusive_end(worker);
    return n_missed;
}

/* Writes to keys that had no row: those at home here get one, or a push to them is counted where keys are admitted; the others
 * are noted as away. */
static enum tern_status write_missed(struct workspace *space, struct store *store,
                                     enum frame_kind kind, const uint64_t *keys, size_t done,
                                     const char *values, size_t n_missed)
{
    enum tern_status status = store_check_lost(store);
    for (size_t i = 0; !status && i < n_missed; i++) {
        size_t position = done + space->missed[i];
        const char *value = values + position * store->value_bytes;
        bool here =
            store_may_miss(store, kind == FRAME_PUSH) && store_is_home(store, keys[position]);
        if (here)
            status = kind == FRAME_PUSH ? store_push_new(store, keys[position], value, &here)
                                        : store_set_new(store, keys[position], value);
        if (!status && !here)
            status = access_add_away(space, position);
    }
    return status;
}

/* Writes to the keys whose rows are, or belong, here and notes the others. */
static enum tern_status write_here(struct tern_worker *worker, struct tern_table *table,
                                   enum frame_kind kind, const uint64_t *keys, size_t n,
                                   const char *values)
{
    struct store *store = &table->core.store;
    struct workspace *space = worker->space;
    reserve_function *reserve = kind == FRAME_PUSH ? store_reserve : store_reserve_all;
    space->n_away = 0;
    enum tern_status status = access_check_keys(store, keys, n);
    /* All rows before any value: then nothing can fail half way. */
    if (!status && n > BLOCK_KEYS)
        status = access_reserve_rows(worker, store, keys, n, reserve);
    for (size_t done = 0; !status && done < n; done += BLOCK_KEYS) {
        size_t block = n - done < BLOCK_KEYS ? n - done : BLOCK_KEYS;
        if (none_is_here(worker, store, keys + done, block)) {
            status = reserve_away(space, block);
            if (!status)
                add_all_away(space, done, block);
            continue;
        }
        status = reserve(store, keys + done, block, space->entries);
        if (status)
            break;
        size_t n_missed = write_block(worker, store, kind, keys + done, block,
                                      values + done * store->value_bytes);
        if (__builtin_expect(n_missed != 0, 0))
            status = write_missed(space, store, kind, keys, done, values, n_missed);
    }
    return status;
}

/* The same in a table with bounded reads, which may have to wait, and has a row for every key. */
static enum tern_status do_admitted(struct tern_worker *worker, struct tern_table *table,
                                    enum frame_kind kind, const uint64_t *keys, size_t n,
                                    void *values)
{
    enum tern_status status = access_check_keys(&table->core.store, keys, n);
    if (!status)
        status = admit_before(worker, table, kind, keys, n, values);
    if (!status)
        status = kind == FRAME_PULL ? access_pull_here(worker, table, keys, n, values)
                                    : write_here(worker, table, kind, keys, n, values);
    if (!status)
        admit_after(worker, table, kind);
    return status;
}

/* The same in a table whose updater asks for the age of an update. */
static enum tern_status do_aged(struct tern_worker *worker, struct tern_table *table,
                                enum frame_kind kind, const uint64_t *keys, size_t n, void *values)
{
    uint64_t *noted = &worker->space->noted[table->id];
    const enum tern_status status = access_check_keys(&table->core.store, keys, n);
    size_t i = 0;
    while (!status && i < n && !store_is_home(&table->core.store, keys[i]))
        i++;
    const bool is_here = !status && i < n;
    if (is_here && kind == FRAME_PULL)
        *noted = age_note(&table->core);
    if (is_here && kind == FRAME_PUSH)
        age_begin(&table->core, *noted);
    if (kind == FRAME_PULL)
        return access_pull_here(worker, table, keys, n, values);
    return write_here(worker, table, kind, keys, n, values);
}

/* Writes to the keys at home here, whose rows count their updates, and notes the others. */
static enum tern_status write_counted(struct tern_worker *worker, struct tern_table *table,
                                      enum frame_kind kind, const uint64_t *keys, size_t n,
                                      const char *values)
{
    struct store *store = &table->core.store;
    const struct counting *counting = table->core.technique->counting;
    worker->space->n_away = 0;
    enum tern_status status = access_check_keys(store, keys, n);
    if (!status)
        status = access_reserve_rows(worker, store, keys, n, store_reserve);
    if (!status)
        status = counting->reserve(&table->core, keys, n);
    if (!status)
        status = reserve_away(worker->space, n);
    for (size_t i = 0; !status && i < n; i++) {
        const char *value = values + i * store->value_bytes;
        if (!store_is_home(store, keys[i]) || !counting->write(&table->core, kind, keys[i], value))
            add_all_away(worker->space, i, 1);
    }
    return status;
}

/* The same where rows count their updates. */
static enum tern_status do_counted(struct tern_worker *worker, struct tern_table *table,
                                   enum frame_kind kind, const uint64_t *keys, size_t n,
                                   void *values)
{
    struct workspace *space = worker->space;
    if (kind != FRAME_PULL)
        return write_counted(worker, table, kind, keys, n, values);
    enum tern_status status = access_pull_here(worker, table, keys, n, values);
    if (!status)
        space->n_away = table->core.technique->counting->read_unchecked(
            &table->core, keys, space->away, space->n_away, values);
    return status;
}

static enum tern_status set_here(struct tern_worker *worker, struct tern_table *table,
                                 const uint64_t *keys, size_t n, const char *values)
{
    struct workspace *space = worker->space;
    enum tern_status status = write_here(worker, table, FRAME_SET, keys, n, values);
    if (!status)
        status =
            order_leave_last(&space->order, &table->core, keys, n, space->away, &space->n_away);
    return status;
}

/* Fails if a node was lost without which calls on the table mean nothing. */
enum tern_status access_check_all(const struct tern_worker *worker, const struct tern_table *table)
{
    return worker->remote && table_needs_all(table) ? peers_check_dead(&worker->node->engine->peers)
                                                    : TERN_OK;
}

/* One of the three operations, as far as it can be done here. */
static enum tern_status do_here(struct tern_worker *worker, struct tern_table *table,
                                enum frame_kind kind, const uint64_t *keys, size_t n, void *values)
{
    enum tern_status status = access_check_all(worker, table);
    if (status)
        return status;
    if (table->is_special)
        return table->is_admitted         ? do_admitted(worker, table, kind, keys, n, values)
               : table->is_counted        ? do_counted(worker, table, kind, keys, n, values)
               : table->core.store.sketch ? access_sketch(worker, table, kind, keys, n, values)
                                          : do_aged(worker, table, kind, keys, n, values);
    switch (kind) {
    case FRAME_PULL:
        return access_pull_here(worker, table, keys, n, values);
    case FRAME_PUSH:
        return write_here(worker, table, FRAME_PUSH, keys, n, values);
    default:
        return set_here(worker, table, keys, n, values);
    }
}

enum tern_status access_begin(struct tern_worker *worker, struct tern_table *table,
                              enum frame_kind kind, const uint64_t *keys, size_t n, void *values)
{
    access_drive(worker, n);
    enum tern_status status =
        worker->pending ? ticket_wait_for_turn(worker, table, keys, n) : TERN_OK;
    if (!status && kind == FRAME_SET && worker->remote)
        status = away_send_ahead(worker, table, keys, n);
    return status ? status : do_here(worker, table, kind, keys, n, values);
}

void access_count(struct tern_worker *worker, const struct tern_table *table, enum frame_kind kind,
                  size_t n)
{
    struct counts *counts = &worker->space->counts[table->id];
    count_add(kind == FRAME_PULL   ? &counts->pulled
              : kind == FRAME_PUSH ? &counts->pushed
                                   : &counts->set,
              n);
    /* Of a pull with counts the technique knows what was fetched. */
    if (!worker->space->n_away || (table->is_counted && kind == FRAME_PULL))
        return;
    count_add(&counts->remote, worker->space->n_away);
    count_add(&counts->remote_bytes,
              worker->space->n_away * (sizeof(uint64_t) + table->core.store.value_bytes));
}

/* An operation from start to end. */
static __attribute__((noinline)) enum tern_status operate(struct tern_worker *worker,
                                                          struct tern_table *table,
                                                          enum frame_kind kind,
                                                          const uint64_t *keys, size_t n,
                                                          void *values)
{
    enum tern_status status = access_begin(worker, table, kind, keys, n, values);
    if (!status && worker->space->n_away) {
        struct op op;
        status = away_start(worker, table, kind, keys, n, values, &op);
        if (!status) {
            remote_wait(worker->remote, &op, false);
            status = away_end(worker, &op);
        }
    }
    if (!status)
        access_count(worker, table, kind, n);
    return status;
}

/*
 * A call on a single key goes straight to its row, in as few instructions as possible. While one waits
 * for memory the processor begins those that follow, but it looks only some hundred instructions ahead.
 */
static inline bool goes_straight(const struct tern_worker *worker, const struct tern_table *table,
                                 const uint64_t *keys, size_t n, const void *values)
{
    return n == 1 && access_allowed(worker, table, keys, 1, values) &&
           keys[0] < atomic_load_explicit(&table->n_straight, memory_order_relaxed) &&
           !worker->pending;
}

/* What such a call needs if the key is not here after all. It is put aside in memory: registers that
 * outlive the look-up would have to be saved, set and restored, needed or not. */
struct call {
    struct tern_worker *worker;
    struct tern_table *table;
    const uint64_t *keys;
    void *values;
};

static inline void put_aside(volatile struct call *call, struct tern_worker *worker,
                             struct tern_table *table, const uint64_t *keys, void *values)
{
    call->worker = worker;
    call->table = table;
    call->keys = keys;
    call->values = values;
}

static __attribute__((noinline)) enum tern_status check_and_pull(struct tern_worker *worker,
                                                                 struct tern_table *table,
                                                                 const uint64_t *keys, size_t n,
                                                                 void *values)
{
    if (!access_allowed(worker, table, keys, n, values))
        return access_refuse(worker, table, keys, values, "values");
    return operate(worker, table, FRAME_PULL, keys, n, values);
}

enum tern_status tern_pull(struct tern_worker *worker, struct tern_table *table,
                           const uint64_t *keys, size_t n, void *values)
{
    if (!goes_straight(worker, table, keys, n, values))
        return check_and_pull(worker, table, keys, n, values);
    volatile struct call call;
    put_aside(&call, worker, table, keys, values);
    _Atomic uint64_t *counter = &worker->space->counts[table->id].pulled;
    if (__builtin_expect(!store_pull_one(&table->core.store, keys[0], values), 0))
        return operate(call.worker, call.table, FRAME_PULL, call.keys, 1, call.values);
    count_add(counter, 1);
    return TERN_OK;
}

static __attribute__((noinline)) enum tern_status check_and_push(struct tern_worker *worker,
                                                                 struct tern_table *table,
                                                                 const uint64_t *keys, size_t n,
                                                                 void *updates)
{
    if (!access_allowed(worker, table, keys, n, updates))
        return access_refuse(worker, table, keys, updates, "updates");
    return operate(worker, table, FRAME_PUSH, keys, n, updates);
}

enum tern_status tern_push(struct tern_worker *worker, struct tern_table *table,
                           const uint64_t *keys, size_t n, const void *updates)
{
    void *values = (void *)(uintptr_t)updates;
    if (!goes_straight(worker, table, keys, n, values))
        return check_and_push(worker, table, keys, n, values);
    volatile struct call call;
    put_aside(&call, worker, table, keys, values);
    _Atomic uint64_t *counter = &worker->space->counts[table->id].pushed;
    bool done = exclusive_begin(worker)
                    ? store_push_one_exclusive(&table->core.store, keys[0], values)
                    : store_push_one(&table->core.store, keys[0], values);
    exclusive_end(call.worker);
    if (__builtin_expect(!done, 0))
        return operate(call.worker, call.table, FRAME_PUSH, call.keys, 1, call.values);
    count_add(counter, 1);
    return TERN_OK;
}

enum tern_status tern_set(struct tern_worker *worker, struct tern_table *table,
                          const uint64_t *keys, size_t n, const void *values)
{
    if (!access_allowed(worker, table, keys, n, values))
        return access_refuse(worker, table, keys, values, "values");
    return operate(worker, table, FRAME_SET, keys, n, (void *)(uintptr_t)values);
}
