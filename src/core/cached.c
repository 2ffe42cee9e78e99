/*
 * cached - `static` with a read-through cache: a key stays at its home, and a node that had to ask for it keeps a replica
 * for the next clocks, of at most CACHED_KEYS keys of a shard at a time. A key that comes later takes the place of the
 * oldest. The replicas are made, refreshed and ended by the manager (manager.h), which takes a miss for an intent.
 */
#include <stdlib.h>
#include <string.h>

#include "core/defect.h"
#include "core/manager_internal.h"

enum { CACHED_KEYS = 8 };

/* What is in the cache of each shard, oldest first. */
struct cached {
    struct managed managed; /* first: the functions of the technique `managed` find it here */
    struct keys keys[STORE_MAX_SHARDS];
};

static bool open_table(struct core *core, struct core_table *table,
                       const struct technique_setup *setup)
{
    const bool opened = technique_managed.open(core, table, setup);
    struct cached *made = opened ? realloc(table->state, sizeof *made) : NULL;
    if (!made) {
        if (table->state)
            technique_managed.close(table);
        table->state = NULL;
        return false;
    }
    memset(made->keys, 0, sizeof made->keys);
    table->state = made;
    return true;
}

static void close_table(struct core_table *table)
{
    struct cached *all = table->state;
    for (uint32_t i = 0; i < STORE_MAX_SHARDS; i++)
        free(all->keys[i].keys);
    technique_managed.close(table);
}

static enum intent_kind intent(const struct policy *policy, enum wanted_by by)
{
    (void)policy;
    return by == BY_MISS ? INTENT_AT_ONCE : INTENT_NONE;
}

static void want(struct core_table *table, uint32_t shard, const uint64_t *keys, size_t n)
{
    struct keys *cache = &((struct cached *)table->state)->keys[shard];
    for (size_t i = 0; i < n; i++) {
        if (keys_left(cache) == CACHED_KEYS) {
            const uint64_t oldest = keys_take(cache);
            if (!defect(DEFECT_CACHE_KEPT))
                technique_managed.unwant(table, shard, &oldest, 1);
        }
        if (keys_add(managed_shard(table, shard), cache, keys[i]))
            technique_managed.want(table, shard, &keys[i], 1);
    }
}

/* The time of keys is over that were missed: those that were displaced have gone before. */
static void unwant(struct core_table *table, uint32_t shard, const uint64_t *keys, size_t n)
{
    struct keys *cache = &((struct cached *)table->state)->keys[shard];
    for (size_t i = 0; i < n; i++) {
        size_t at = cache->first;
        while (at < cache->n && cache->keys[at] != keys[i])
            at++;
        if (at == cache->n)
            continue;
        for (; at > cache->first; at--)
            cache->keys[at] = cache->keys[at - 1];
        (void)keys_take(cache);
        technique_managed.unwant(table, shard, &keys[i], 1);
    }
}

static struct technique cached;

/* Before anything else runs: what is not said above is as in `managed`. */
__attribute__((constructor)) static void inherit(void)
{
    cached = technique_managed;
    cached.open = open_table;
    cached.close = close_table;
    cached.intent = intent;
    cached.want = want;
    cached.unwant = unwant;
}

const struct technique *technique_cached(void)
{
    return &cached;
}
