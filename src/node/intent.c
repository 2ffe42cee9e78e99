/*
 * intent - tern_intent: the keys that a worker will use. See tern.h. localize.c has the keys that it asks for outright.
 *
 * The calls only append to the worker's queues (core/intents.h), of which there is one per shard; the node's rounds act on
 * them. A queue has one writer at a time: intents may come from any thread, so intent_add takes the worker's
 * intents_lock. It holds the lock until the rounds know, because the worker, and then its node, may close afterwards.
 */
#include "node/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/technique.h"

enum tern_status intent_check(const struct tern_worker *worker, const struct tern_table *table,
                              const uint64_t *keys, size_t n)
{
    if (!access_allowed(worker, table, keys, n, keys))
        return access_refuse(worker, table, keys, keys, "keys");
    const struct store *store = &table->core.store;
    for (size_t i = 0; i < n; i++)
        if (keys[i] > store->last_key)
            return fail(TERN_RANGE,
                        "key %" PRIu64 " at position %zu is outside table '%s' of %" PRIu64 " keys",
                        keys[i], i, store->name, store->n_keys);
    if (n > UINT32_MAX)
        return fail(TERN_LIMIT, "table '%s': an intent for %zu keys is too long", store->name, n);
    return TERN_OK;
}

/* Those of n keys that are in a shard, gathered in the worker's own memory; NULL when memory runs out. */
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

static enum tern_status add(struct tern_worker *worker, const struct tern_table *table,
                            enum intent_kind kind, const uint64_t *keys, size_t n, uint64_t start,
                            uint64_t end)
{
    const struct store *store = &table->core.store;
    if (!worker->takes_intents)
        return fail(TERN_CLOSED, "the worker was closed before this call");
    bool added = true;
    for (uint32_t i = 0; added && i < store->n_shards; i++) {
        const uint64_t *of_shard = keys;
        size_t found = n;
        if (store->n_shards > 1)
            of_shard = keys_in_shard(worker, store, i, keys, n, &found);
        added = of_shard &&
                (!found || intents_add(worker->intents[i], kind, (uint16_t)table->id,
                                       table->core.generation, of_shard, found, start, end));
        if (found && intents_are_late(worker->intents[i], kind, start))
            round_driver_hurry(&worker->node->engine->shards[i].round_driver);
        else if (found)
            round_driver_poke(&worker->node->engine->shards[i].round_driver, false);
    }
    return added ? TERN_OK
                 : fail(TERN_NO_MEMORY, "no memory for an intent for %zu keys of table '%s'", n,
                        store->name);
}

enum tern_status intent_add(struct tern_worker *worker, const struct tern_table *table,
                            enum intent_kind kind, const uint64_t *keys, size_t n, uint64_t start,
                            uint64_t end)
{
    lock_take(&worker->intents_lock);
    enum tern_status status = add(worker, table, kind, keys, n, start, end);
    lock_release(&worker->intents_lock);
    return status;
}

enum intent_kind intent_kind_of(const struct tern_table *table, enum wanted_by by)
{
    const struct technique *technique = table->core.technique;
    return technique->intent ? technique->intent(table->core.policy, by) : INTENT_NONE;
}

enum tern_status tern_intent(struct tern_worker *worker, struct tern_table *table,
                             const uint64_t *keys, size_t n, uint64_t start, uint64_t end)
{
    enum tern_status status = intent_check(worker, table, keys, n);
    if (!status && start > end)
        status =
            fail(TERN_INVALID,
                 "table '%s': an intent starts at clock %" PRIu64 " and ends before, at %" PRIu64,
                 table->core.store.name, start, end);
    if (status || !n || worker->clock >= end || start >= end)
        return status;
    enum intent_kind kind = intent_kind_of(table, BY_INTENT);
    return kind ? intent_add(worker, table, kind, keys, n, start, end) : TERN_OK;
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
