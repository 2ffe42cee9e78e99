/*
 * intent - what workers say about the keys they will use, and what they ask for outright. See tern.h.
 *
 * The calls only append to the worker's own queue (core/intents.h); the node's rounds act on it.
 */
#include "node/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/manager.h"

/* Rounds in which tern_localize expects a further key to come: one to ask its home, one to follow it to where
 * it is, and some for keys that move meanwhile. */
enum { LOCALIZE_ROUNDS = 8 };

static enum tern_status check(const struct tern_worker *worker, const struct tern_table *table,
                              const uint64_t *keys, size_t n)
{
    if (!access_allowed(worker, table, keys, n, keys))
        return access_refuse(worker, table, keys, keys, "keys");
    const struct store *store = &table->core.store;
    for (size_t i = 0; i < n; i++)
        if (keys[i] > store->last_key)
            return fail(TERN_RANGE, "key %" PRIu64 " at position %zu is outside table '%s' of %" PRIu64
                        " keys", keys[i], i, store->name, store->n_keys);
    if (n > UINT32_MAX)
        return fail(TERN_LIMIT, "table '%s': an intent for %zu keys is too long", store->name, n);
    return TERN_OK;
}

/* Those of n keys that are in a shard, gathered in the worker's own memory; NULL when that is used up. */
static const uint64_t *keys_in_shard(struct tern_worker *worker, const struct store *store,
                                     uint32_t shard, const uint64_t *keys, size_t n, size_t *found)
{
    struct workspace *space = worker->space;
    if (space->max_gathered < n) {
        uint64_t *grown = realloc(space->gathered, n * sizeof *grown);
        if (!grown)
            return NULL;
        space->gathered = grown;
        space->max_gathered = n;
    }
    *found = 0;
    for (size_t i = 0; i < n; i++) {
        space->gathered[*found] = keys[i];
        *found += store_shard(store, keys[i]) == shard;
    }
    return space->gathered;
}

enum tern_status intent_add(struct tern_worker *worker, const struct tern_table *table,
                            enum intent_kind kind, const uint64_t *keys, size_t n, uint64_t start,
                            uint64_t end)
{
    const struct store *store = &table->core.store;
    uint32_t generation = manager_generation(table->core.managers[0]);
    const bool is_urgent = kind != INTENT_TIMED || start <= worker->clock + 1;
    bool added = true;
    for (uint32_t i = 0; added && i < store->n_shards; i++) {
        const uint64_t *of_shard = keys;
        size_t found = n;
        if (store->n_shards > 1)
            of_shard = keys_in_shard(worker, store, i, keys, n, &found);
        added = of_shard && (!found || intents_add(worker->intents[i], kind, (uint16_t)table->id,
                                                   generation, of_shard, found, start, end));
        if (found)
            sync_poke(&worker->node->engine->shards[i].sync, is_urgent);
    }
    return added ? TERN_OK
                 : fail(TERN_NO_MEMORY, "no memory for an intent for %zu keys of table '%s'", n,
                        store->name);
}

enum tern_status tern_intent(struct tern_worker *worker, struct tern_table *table,
                             const uint64_t *keys, size_t n, uint64_t start, uint64_t end)
{
    enum tern_status status = check(worker, table, keys, n);
    if (!status && start > end)
        status = fail(TERN_INVALID,
                      "table '%s': an intent starts at clock %" PRIu64 " and ends before, at %" PRIu64,
                      table->core.store.name, start, end);
    const struct policy *policy = status ? NULL : table->core.policy;
    bool acts = policy && core_is_managed(&table->core) && n && worker->clock < end && start < end &&
                (policy->main == MAIN_ON_INTENT || policy->replica == REPLICA_ON_INTENT);
    if (!acts)
        return status;
    enum intent_kind kind = policy->timing == TIMING_AT_ONCE ? INTENT_AT_ONCE : INTENT_TIMED;
    return intent_add(worker, table, kind, keys, n, start, end);
}

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

/* Learns which keys are used so often that they should be copied and not moved to and fro: one call in
 * SAMPLED counts. */
static void note_use(struct tern_worker *worker, struct tern_table *table, const uint64_t *keys,
                     size_t n)
{
    enum { SAMPLED = 4, MOST = 256 };
    uint64_t hot[MOST];
    pthread_mutex_t *lock = &worker->node->engine->shards[0].lock;
    if (worker->n_localized++ % SAMPLED || pthread_mutex_trylock(lock))
        return;
    bool is_time = hot_add(&table->hot, keys, n);
    for (size_t found = MOST; is_time && found == MOST;) {
        found = hot_look(&table->hot, hot, MOST);
        pthread_mutex_unlock(lock);
        table_want(table, hot, found);
        pthread_mutex_lock(lock);
    }
    atomic_store_explicit(&table->learns_hot, hot_is_open(&table->hot), memory_order_relaxed);
    pthread_mutex_unlock(lock);
}

enum tern_status tern_localize(struct tern_worker *worker, struct tern_table *table,
                               const uint64_t *keys, size_t n)
{
    enum tern_status status = check(worker, table, keys, n);
    if (status || !core_is_managed(&table->core) || table->core.policy->main != MAIN_ON_LOCALIZE)
        return status;
    const struct store *store = &table->core.store;
    if (atomic_load_explicit(&table->learns_hot, memory_order_relaxed))
        note_use(worker, table, keys, n);
    size_t n_away = count_away(store, keys, n), fewest = n_away;
    if (!n_away)
        return TERN_OK;
    status = intent_add(worker, table, INTENT_HERE, keys, n, 0, 0);
    for (int i = 0; !status && i < LOCALIZE_ROUNDS && n_away; i++) {
        status = engine_wait_news(worker->node->engine);
        n_away = count_away(store, keys, n);
        if (n_away < fewest) {
            fewest = n_away;
            i = -1;
        }
    }
    return status;
}

/* Waits for all operations under way. The first failure counts, with its sentence. */
static enum tern_status wait_for_all(struct tern_worker *worker)
{
    enum tern_status status = TERN_OK;
    char sentence[STATUS_SENTENCE_BYTES];
    while (worker->pending) {
        enum tern_status ended = tern_wait(worker, worker->pending->ticket);
        if (!ended || status)
            continue;
        status = ended;
        snprintf(sentence, sizeof sentence, "%s", tern_error());
    }
    return status ? fail(status, "%s", sentence) : TERN_OK;
}

enum tern_status tern_flush(struct tern_worker *worker)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    if (!worker->remote)
        return TERN_OK;
    enum tern_status status = wait_for_all(worker);
    return status ? status : engine_wait(worker->node->engine);
}
