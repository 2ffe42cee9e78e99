/*
 * intent - what workers say about the keys they will use, and what they ask for outright. See tern.h.
 *
 * The calls only append to the worker's own queue (core/intents.h); the node's rounds act on it.
 */
#include "node/node.h"

#include <inttypes.h>
#include <stdio.h>

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

static enum tern_status add(struct tern_worker *worker, const struct tern_table *table,
                            enum intent_kind kind, const uint64_t *keys, size_t n, uint64_t start,
                            uint64_t end)
{
    if (!intents_add(worker->intents, kind, (uint16_t)table->id,
                     manager_generation(table->core.manager), keys, n, start, end))
        return fail(TERN_NO_MEMORY, "no memory for an intent for %zu keys of table '%s'", n,
                    table->core.store.name);
    sync_poke(&worker->node->engine->sync);
    return TERN_OK;
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
    bool acts = policy && table->core.manager && n && worker->clock < end && start < end &&
                (policy->main == MAIN_ON_INTENT || policy->replica == REPLICA_ON_INTENT);
    if (!acts)
        return status;
    enum intent_kind kind = policy->timing == TIMING_AT_ONCE ? INTENT_AT_ONCE : INTENT_TIMED;
    return add(worker, table, kind, keys, n, start, end);
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
    struct engine *engine = worker->node->engine;
    if (worker->n_localized++ % SAMPLED || pthread_mutex_trylock(&engine->lock))
        return;
    if (hot_add(&table->hot, keys, n))
        for (size_t found = MOST; found == MOST;) {
            found = hot_look(&table->hot, hot, MOST);
            manager_want(table->core.manager, hot, found);
        }
    atomic_store_explicit(&table->learns_hot, hot_is_open(&table->hot), memory_order_relaxed);
    pthread_mutex_unlock(&engine->lock);
}

enum tern_status tern_localize(struct tern_worker *worker, struct tern_table *table,
                               const uint64_t *keys, size_t n)
{
    enum tern_status status = check(worker, table, keys, n);
    if (status || !table->core.manager || table->core.policy->main != MAIN_ON_LOCALIZE)
        return status;
    const struct store *store = &table->core.store;
    if (atomic_load_explicit(&table->learns_hot, memory_order_relaxed))
        note_use(worker, table, keys, n);
    size_t n_away = count_away(store, keys, n), fewest = n_away;
    if (!n_away)
        return TERN_OK;
    status = add(worker, table, INTENT_HERE, keys, n, 0, 0);
    for (int i = 0; !status && i < LOCALIZE_ROUNDS && n_away; i++) {
        status = sync_wait_news(&worker->node->engine->sync);
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
    return status ? status : sync_wait(&worker->node->engine->sync);
}
