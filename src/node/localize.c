/*
 * localize - keys that a program asks for outright: tern_localize and tern_localize_start. See tern.h.
 *
 * Both add an intent of the kind INTENT_HERE to the worker's queue; the node's rounds fetch the keys. A localization is over
 * when its keys are here, or when rounds have passed in which no further one came: a key that is pinned elsewhere does not
 * come, and a key that another node asked for may have gone again. Only one thread at a time may make these calls for a
 * worker, as all calls but tern_intent.
 */
#include "node/access.h"

#include "core/follower.h"

/* Rounds in which a further key is expected: one to ask its home, one to follow it to where it is, and some for keys that
 * move meanwhile. */
enum { LOCALIZE_ROUNDS = 8 };

static size_t count_away(const struct store *store, const uint64_t *keys, size_t n)
{
    size_t n_away = 0;
    for (size_t i = 0; i < n; i++) {
        struct entry *entry;
        uint64_t word = store_look(store, keys[i], &entry);
        n_away += !entry_has_row(word) &&
                  !(entry_state(word) == ENTRY_NONE && store_is_home(store, keys[i]));
    }
    return n_away;
}

/* This node wants keys for good. */
static void want(struct tern_table *table, const uint64_t *keys, size_t n)
{
    const struct store *store = &table->core.store;
    for (size_t i = 0; i < n; i++) {
        const uint32_t number = store_shard(store, keys[i]);
        struct shard *shard = &table->node->engine->shards[number];
        lock_take(&shard->lock);
        table->core.technique->want(&table->core, number, &keys[i], 1);
        lock_release(&shard->lock);
    }
}

/* Lets the technique learn which keys are used so often that they should be copied and not moved to and fro: one call in
 * SAMPLED counts. */
static void note_use(struct tern_worker *worker, struct tern_table *table, const uint64_t *keys,
                     size_t n)
{
    enum { SAMPLED = 4, MOST = 256 };
    uint64_t hot[MOST];
    struct lock *lock = &worker->node->engine->shards[0].lock;
    if (worker->n_localized++ % SAMPLED || !lock_try(lock))
        return;
    size_t found = table->core.technique->learn(&table->core, keys, n, hot, MOST);
    lock_release(lock);
    want(table, hot, found);
}

/* The rounds that have ended in all shards. */
static uint64_t rounds_of(const struct engine *engine)
{
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < core_shards(&engine->core); i++) {
        const uint64_t n = round_driver_rounds(&engine->shards[i].round_driver);
        lowest = n < lowest ? n : lowest;
    }
    return lowest;
}

/* The sweeps that the leader has completed in all shards, where this process follows one. */
static uint64_t sweeps_of(const struct tern_table *table)
{
    const struct core *core = &table->node->engine->core;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; follower_is_here(core, &table->core) && i < core_shards(core); i++) {
        const uint64_t n = follower_sweeps(&table->core, i);
        lowest = n < lowest ? n : lowest;
    }
    return lowest;
}

/* Asks for the keys that are not here; n_away is 0 if there are none. */
static enum tern_status begin(struct tern_worker *worker, struct tern_table *table,
                              struct localization *localization)
{
    const uint64_t *keys = localization->keys;
    const size_t n = localization->n;
    enum tern_status status = intent_check(worker, table, keys, n);
    const enum intent_kind kind = status ? INTENT_NONE : intent_kind_of(table, BY_LOCALIZE);
    if (!kind && !status && table->core.backup && table->core.technique->learn)
        note_use(worker, table, keys, n); /* keys stay, and those that are hot get replicas */
    if (!kind)
        return status;
    note_use(worker, table, keys, n);
    localization->round = rounds_of(worker->node->engine);
    localization->sweep = sweeps_of(table);
    localization->n_away = count_away(&table->core.store, keys, n);
    return localization->n_away ? intent_add(worker, table, kind, keys, n, 0, 0) : TERN_OK;
}

enum tern_status localize_wait(const struct tern_table *table, struct localization *localization)
{
    const struct store *store = &table->core.store;
    enum tern_status status = TERN_OK;
    size_t n_away = count_away(store, localization->keys, localization->n);
    for (int i = 0; !status && i < LOCALIZE_ROUNDS && n_away; i++) {
        status = engine_wait_changes(table->node->engine);
        n_away = count_away(store, localization->keys, localization->n);
        if (n_away < localization->n_away) {
            localization->n_away = n_away;
            i = -1;
        }
    }
    return status;
}

bool localize_is_done(const struct tern_table *table, struct localization *localization)
{
    const size_t n_away = count_away(&table->core.store, localization->keys, localization->n);
    const uint64_t round = rounds_of(table->node->engine), sweep = sweeps_of(table);
    if (n_away < localization->n_away) {
        localization->n_away = n_away;
        localization->round = round;
    }
    /* A leader may not have been told before the second round. */
    const uint64_t n_rounds = round - localization->round;
    if (n_rounds < 2)
        localization->sweep = sweep;
    const bool is_swept = sweep == UINT64_MAX || sweep - localization->sweep > LOCALIZE_ROUNDS;
    return !n_away || (n_rounds > LOCALIZE_ROUNDS && is_swept);
}

enum tern_status tern_localize(struct tern_worker *worker, struct tern_table *table,
                               const uint64_t *keys, size_t n)
{
    struct localization localization = {.keys = keys, .n = n};
    enum tern_status status = begin(worker, table, &localization);
    return status || !localization.n_away ? status : localize_wait(table, &localization);
}

enum tern_status tern_localize_start(struct tern_worker *worker, struct tern_table *table,
                                     const uint64_t *keys, size_t n, uint64_t *ticket)
{
    struct localization localization = {.keys = keys, .n = n};
    enum tern_status status = begin(worker, table, &localization);
    if (status || !ticket)
        return status;
    if (localization.n_away)
        status = ticket_add_localization(worker, table, &localization);
    if (!status)
        *ticket = ++worker->last_ticket;
    return status;
}
