/* worker - see worker.h. */
#include "sim/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rand.h"

#define US UINT64_C(1000)

enum { REST_US = 1500, HOT_KEYS = 8 };

static uint64_t below(const struct worker *worker, uint64_t n)
{
    return rand_below(sim_random(worker->site->sim), n);
}

void site_ended(const struct site *site, enum tern_status status, const char *what)
{
    ++*site->n_operations;
    sim_note(site->sim, (uint64_t)status);
    if (!status)
        return;
    ++*site->n_failed;
    check_that(site->check, site->check->lenient && status == TERN_PEER && tern_error()[0],
               "%s failed with %s: %s", what, tern_status_name(status), tern_error());
}

/* ---- What a worker does next ------------------------------------------------------------------ */

static size_t choose_n(const struct worker *worker)
{
    uint64_t draw = below(worker, 10);
    return draw < 5 ? 1 : draw < 8 ? 2 + below(worker, 3) : 1 + below(worker, MAX_KEYS);
}

static enum frame_kind choose_kind(const struct worker *worker, enum sim_table table)
{
    bool writes = below(worker, 10) < 5;
    if (table != LAST_VALUES)
        return writes ? FRAME_PUSH : FRAME_PULL;
    if (!writes || worker->index >= KEYS)
        return FRAME_PULL;
    return below(worker, 3) ? FRAME_SET : FRAME_PUSH;
}

static uint32_t choose_index(const struct worker *worker, enum sim_table table, bool writes)
{
    const uint32_t n_workers = worker->site->check->n_workers;
    if (table == LAST_VALUES && writes) {
        uint32_t n_own = (KEYS - 1 - worker->index) / n_workers + 1;
        return worker->index + n_workers * (uint32_t)below(worker, n_own);
    }
    return (uint32_t)below(worker, below(worker, 2) ? HOT_KEYS : KEYS);
}

/* ---- One operation ---------------------------------------------------------------------------- */

static size_t row_length(const struct check *check, enum sim_table table)
{
    return table == LAST_VALUES ? check->last_length : check->length;
}

/* Does what can be done at this node; gives the positions of the other keys. */
static enum tern_status do_here(struct slot *slot, struct store *store, uint32_t *away,
                                size_t *n_away)
{
    const size_t n = slot->deed.n;
    struct entry *entries[MAX_KEYS];
    uint32_t missed[MAX_KEYS];
    *n_away = 0;
    if (slot->kind != FRAME_PULL) {
        enum tern_status status = store_reserve(store, slot->keys, n, entries);
        if (status)
            return status;
        *n_away = slot->kind == FRAME_PUSH
                      ? store_push(store, slot->keys, n, entries, slot->deed.values, away)
                      : store_set(store, slot->keys, n, entries, slot->deed.values, away);
        return TERN_OK;
    }
    size_t n_missed = store_pull(store, slot->keys, n, slot->deed.values, missed);
    for (size_t i = 0; i < n_missed; i++) {
        uint64_t key = slot->keys[missed[i]];
        if (!store_is_home(store, key)) {
            away[(*n_away)++] = missed[i];
            continue;
        }
        enum tern_status status =
            store_pull_new(store, key, (char *)slot->deed.values + missed[i] * store->value_bytes);
        if (status)
            return status;
    }
    return TERN_OK;
}

static const struct line *line_of(const struct worker *worker, const struct slot *slot, size_t i)
{
    const struct core *core = worker->site->core;
    const struct store *store = &worker->site->tables[slot->deed.table].store;
    return &worker->caller.lines[core_home(core, store, slot->keys[i])];
}

static bool fill_slot(struct worker *worker, struct slot *slot)
{
    struct check *check = worker->site->check;
    const uint64_t draw = below(worker, 10);
    const enum sim_table table = draw < 3   ? DENSE_COUNTS
                                 : draw < 6 ? SPARSE_COUNTS
                                 : draw < 8 ? REPLICA_COUNTS
                                            : LAST_VALUES;
    const size_t n = choose_n(worker), length = row_length(check, table);
    slot->kind = choose_kind(worker, table);
    slot->deed = (struct deed){.worker = worker->index,
                               .number = worker->n_started++,
                               .table = table,
                               .n = n,
                               .indexes = slot->indexes,
                               .values = malloc(n * length * sizeof(int64_t)),
                               .bounds = malloc(n * length * sizeof(int64_t))};
    for (size_t i = 0; i < n; i++) {
        slot->indexes[i] = choose_index(worker, table, slot->kind != FRAME_PULL);
        slot->keys[i] = check_key(table, slot->indexes[i]);
        slot->resumed[i] = line_of(worker, slot, i)->n_resumed;
    }
    return slot->deed.values && slot->deed.bounds;
}

static void free_slot(struct slot *slot)
{
    slot->used = false;
    free(slot->deed.values);
    free(slot->deed.bounds);
}

static void end_slot(struct worker *worker, struct slot *slot, enum tern_status status)
{
    const struct site *site = worker->site;
    char what[80];
    snprintf(what, sizeof what, "operation %" PRIu32 ", a %s of worker %" PRIu32 ",",
             slot->deed.number, frame_kind_name(slot->kind), worker->index);
    site_ended(site, status, what);
    if (slot->kind != FRAME_PULL) {
        check_written(site->check, &slot->deed, !status);
    } else if (!status) {
        bool resumed[MAX_KEYS];
        for (size_t i = 0; i < slot->deed.n; i++)
            resumed[i] = line_of(worker, slot, i)->n_resumed != slot->resumed[i];
        check_seen(site->check, &slot->deed, resumed);
    }
    if (worker->waits_for == slot)
        worker->waits_for = NULL;
    free_slot(slot);
}

static void start_slot(struct worker *worker, struct slot *slot)
{
    const struct site *site = worker->site;
    if (!fill_slot(worker, slot)) {
        free_slot(slot);
        return;
    }
    if (slot->kind == FRAME_PULL)
        check_read(site->check, &slot->deed);
    else
        check_write(site->check, &slot->deed, slot->kind == FRAME_SET);
    uint32_t away[MAX_KEYS];
    size_t n_away;
    slot->used = true;
    slot->op = (struct op){0};
    enum tern_status status = do_here(slot, &site->tables[slot->deed.table].store, away, &n_away);
    if (!status && n_away)
        status = client_start(&worker->caller.client, &slot->op, slot->kind,
                              site->numbers[slot->deed.table], slot->keys, slot->deed.values, away,
                              n_away);
    if (status || !n_away)
        end_slot(worker, slot, status);
    else if (below(worker, 2))
        worker->waits_for = slot;
}

/* ---- A worker --------------------------------------------------------------------------------- */

void worker_begin(struct worker *worker, uint32_t n)
{
    worker->n_left = n;
}

static struct slot *find_free(struct worker *worker)
{
    for (int i = 0; i < SLOTS; i++)
        if (!worker->slots[i].used)
            return &worker->slots[i];
    return NULL;
}

bool worker_run(struct worker *worker)
{
    bool busy = false;
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &worker->slots[i];
        if (slot->used && op_is_done(&slot->op))
            end_slot(worker, slot, op_end(&slot->op));
        busy |= slot->used;
    }
    struct slot *slot = find_free(worker);
    if (worker->n_left && slot && !worker->waits_for && !worker->resting) {
        worker->n_left--;
        start_slot(worker, slot);
        caller_nudge(&worker->caller);
        worker->resting = true;
        sim_timer(worker->site->sim, worker->site->core->node, below(worker, REST_US * US),
                  worker->tag);
        return false;
    }
    caller_pump(&worker->caller);
    return !worker->n_left && !busy;
}

void worker_fini(struct worker *worker)
{
    caller_fini(&worker->caller);
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &worker->slots[i];
        if (!slot->used)
            continue;
        op_end(&slot->op);
        if (slot->kind != FRAME_PULL)
            check_written(worker->site->check, &slot->deed, false);
        free_slot(slot);
    }
}
