/*
 * everywhere - `replicate` for tables with backups at other nodes (backup.h): a replica of every key at every node, for good. Main
 * copies are at their homes, and the manager (manager.h) makes and refreshes the replicas, as it does for keys that are wanted: so
 * they outlive a death in the same way.
 *
 * The keys of a dense table are wanted from the beginning. Which keys a sparse one has is not known: a node wants each that it
 * has read.
 */
#include "core/manager_internal.h"

static void want(struct core_table *table, uint32_t shard, const uint64_t *keys, size_t n)
{
    struct manager *manager = managed_shard(table, shard);
    for (size_t i = 0; i < n; i++)
        if (!(wanted_get(manager, keys[i]) & WANTED_COUNT))
            technique_managed.want(table, shard, &keys[i], 1);
}

/* What is wanted once stays. */
static void unwant(struct core_table *table, uint32_t shard, const uint64_t *keys, size_t n)
{
    (void)table;
    (void)shard;
    (void)keys;
    (void)n;
}

static bool open_table(struct core *core, struct core_table *table,
                       const struct technique_setup *setup)
{
    const bool opened = technique_managed.open(core, table, setup);
    for (uint64_t key = 0; opened && key < table->store.n_keys; key++)
        want(table, store_shard(&table->store, key), &key, 1);
    return opened;
}

static enum intent_kind intent(const struct policy *policy, enum wanted_by by)
{
    (void)policy;
    return by == BY_MISS ? INTENT_AT_ONCE : INTENT_NONE;
}

static struct technique everywhere;

/* Before anything else runs: what is not said above is as in `managed`. */
__attribute__((constructor)) static void inherit(void)
{
    everywhere = technique_managed;
    everywhere.open = open_table;
    everywhere.intent = intent;
    everywhere.want = want;
    everywhere.unwant = unwant;
}

const struct technique *technique_everywhere(void)
{
    return &everywhere;
}
