/* table_stats - what a table has done so far: tern_table_get_stats. See node.h. */
#include <inttypes.h>

#include "core/technique.h"
#include "node/node.h"

void counts_sum(struct counts *sum, const struct counts *more)
{
    count_add(&sum->pulled, atomic_load_explicit(&more->pulled, memory_order_relaxed));
    count_add(&sum->pushed, atomic_load_explicit(&more->pushed, memory_order_relaxed));
    count_add(&sum->set, atomic_load_explicit(&more->set, memory_order_relaxed));
    count_add(&sum->pinned, atomic_load_explicit(&more->pinned, memory_order_relaxed));
    count_add(&sum->remote, atomic_load_explicit(&more->remote, memory_order_relaxed));
    count_add(&sum->remote_bytes, atomic_load_explicit(&more->remote_bytes, memory_order_relaxed));
    count_add(&sum->waited_ns, atomic_load_explicit(&more->waited_ns, memory_order_relaxed));
    for (int i = 0; i < TERN_CLOCK_STEPS; i++)
        count_add(&sum->ages[i], atomic_load_explicit(&more->ages[i], memory_order_relaxed));
}

/* The age that 99 % of the replicas' values did not exceed: the upper end of a step. */
static double staleness_p99(const uint64_t steps[TERN_STALENESS_STEPS], uint64_t n)
{
    uint64_t sum = 0;
    for (int i = 0; i < TERN_STALENESS_STEPS; i++) {
        sum += steps[i];
        if (n && sum * 100 >= n * 99)
            return 0.1 * (double)(UINT64_C(1) << i);
    }
    return 0;
}

/* Adds what the table's technique has done, at the shards of this node. */
static void add_technique(const struct tern_table *table, struct tern_table_stats *stats)
{
    const struct core_table *core = &table->core;
    for (uint32_t i = 0; core->state && core->technique->stats && i < core->store.n_shards; i++) {
        struct lock *lock = &table->node->engine->shards[i].lock;
        lock_take(lock);
        core->technique->stats(core, i, stats);
        stats->sent_bytes -= core->savings[i].sent;
        stats->received_bytes -= core->savings[i].received;
        lock_release(lock);
    }
    uint64_t n = 0;
    for (int i = 0; i < TERN_STALENESS_STEPS; i++)
        n += stats->staleness_ms[i];
    stats->staleness_ms_mean /= n ? (double)n : 1;
    stats->staleness_ms_p99 = staleness_p99(stats->staleness_ms, n);
}

/* Adds the delays of pushes, where the updater asks for them. */
static void add_ages(const struct age_counts *ages, struct tern_table_stats *stats)
{
    stats->aged_pushes = atomic_load_explicit(&ages->n, memory_order_relaxed);
    if (stats->aged_pushes)
        stats->delay_mean = (double)atomic_load_explicit(&ages->sum, memory_order_relaxed) /
                            (double)stats->aged_pushes;
    for (int i = 0; i < TERN_DELAY_STEPS; i++)
        stats->delays[i] = atomic_load_explicit(&ages->delays[i], memory_order_relaxed);
}

enum tern_status tern_table_get_served(struct tern_table *table, uint32_t node, uint64_t *bytes)
{
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    if (!bytes)
        return fail(TERN_INVALID, "tern_table_get_served: the pointer `bytes` is NULL");
    const struct engine *engine = table->node->engine;
    const uint32_t n_nodes = engine ? view_n_nodes(engine->core.view) : 1;
    if (node >= n_nodes)
        return fail(TERN_RANGE, "there is no node %" PRIu32 "; there are %" PRIu32, node, n_nodes);
    *bytes = engine ? atomic_load_explicit(&table->core.served[node], memory_order_relaxed) : 0;
    return TERN_OK;
}

enum tern_status tern_table_get_stats(struct tern_table *table, struct tern_table_stats *stats)
{
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    if (!stats)
        return fail(TERN_INVALID, "tern_table_get_stats: the pointer `stats` is NULL");
    if (stats->struct_size != sizeof *stats)
        return fail(TERN_INVALID,
                    "tern_table_stats.struct_size is %zu; set it to sizeof, which is %zu",
                    stats->struct_size, sizeof *stats);
    struct tern_node *node = table->node;
    struct counts sum = {0};
    lock_take(&node->lock);
    counts_sum(&sum, &table->ended);
    for (const struct tern_worker *worker = node->workers; worker; worker = worker->next)
        counts_sum(&sum, &worker->space->counts[table->id]);
    lock_release(&node->lock);

    const struct store *store = &table->core.store;
    const struct filter_counts *saved = &table->core.saved;
    uint64_t rows = store_rows(store);
    *stats = (struct tern_table_stats){
        .struct_size = sizeof *stats,
        .pulled_keys = sum.pulled,
        .pushed_keys = sum.pushed,
        .set_keys = sum.set,
        .pinned_keys = sum.pinned,
        .remote_keys = sum.remote,
        .remote_bytes = sum.remote_bytes,
        .request_bytes = atomic_load_explicit(&table->core.request_bytes, memory_order_relaxed),
        .reply_bytes = atomic_load_explicit(&table->core.reply_bytes, memory_order_relaxed),
        .rows = rows,
        .value_bytes = rows * store->value_bytes,
        .memory_bytes = store_memory_bytes(store),
        .keys_saved_bytes = atomic_load_explicit(&saved->keys, memory_order_relaxed),
        .zeros_saved_bytes = atomic_load_explicit(&saved->zeros, memory_order_relaxed),
        .lz4_saved_bytes = atomic_load_explicit(&saved->lz4, memory_order_relaxed),
        .significant_saved_bytes = atomic_load_explicit(&saved->waited, memory_order_relaxed),
        .fixed_saved_bytes = atomic_load_explicit(&saved->fixed, memory_order_relaxed),
        .recovered_keys = atomic_load_explicit(&table->n_recovered, memory_order_relaxed),
        .waited_s = (double)sum.waited_ns / 1e9,
    };
    stats->removed_rows =
        atomic_load_explicit(&store->counts->eviction.n_removed, memory_order_relaxed);
    if (store->admission) {
        stats->counted_keys =
            atomic_load_explicit(&store->admission->n_counted, memory_order_relaxed);
        stats->dropped_keys =
            atomic_load_explicit(&store->admission->n_dropped, memory_order_relaxed);
    }
    add_ages(&table->core.ages, stats);
    for (int i = 0; i < TERN_CLOCK_STEPS; i++)
        stats->clocks_behind[i] = sum.ages[i];
    add_technique(table, stats);
    return TERN_OK;
}
