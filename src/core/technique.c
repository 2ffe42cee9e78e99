/* technique - the factory. See technique.h. */
#include "core/technique.h"

#include <string.h>

#include <inttypes.h>
#include <math.h>

#include "core/backup.h"
#include "core/doubling.h"
#include "core/follower.h"
#include "store/evict.h"

enum { DEFAULT_STALENESS_MS = 10 };

#define MS UINT64_C(1000000)

const struct technique *technique_find(const struct policy *policy, bool is_whole)
{
    if (policy->bound == BOUND_UPDATES)
        return is_whole ? &technique_fixed : &technique_graph;
    if (policy->bound != BOUND_NONE)
        return is_whole ? &technique_clocked : &technique_bounded;
    if (is_whole)
        return &technique_fixed;
    if (policy->replica == REPLICA_OF_EVERY_KEY)
        return policy->keeps_home ? technique_everywhere() : &technique_mirrored;
    if (policy->replica == REPLICA_ON_ACCESS)
        return technique_cached();
    if (policy->main != MAIN_AT_HOME || policy->replica == REPLICA_ON_INTENT ||
        policy->replica == REPLICA_OF_LISTED)
        return &technique_managed;
    return &technique_fixed;
}

static enum tern_status check_backups(const char *name, const struct tern_table_options *options)
{
    if (options->backups > TERN_MAX_BACKUPS)
        return fail(TERN_LIMIT, "table '%s': %" PRIu32 " backups; at most %d are possible", name,
                    options->backups, TERN_MAX_BACKUPS);
    if (options->index == TERN_SKETCH || options->admit || evict_has_rule(options) ||
        options->scatter || options->updater.asks_age)
        return fail(TERN_INVALID,
                    "table '%s': `backups` are not possible with sketches, `admit`, eviction, "
                    "`scatter` or an updater that asks for the age of updates",
                    name);
    return TERN_OK;
}

enum tern_status technique_check(const struct policy *policy, const char *name,
                                 const struct tern_table_options *options)
{
    const struct technique *technique = technique_find(policy, false);
    if (options->n_replicated && !options->replicated)
        return fail(TERN_INVALID, "table '%s': the pointer `replicated` is NULL", name);
    bool is_listed = options->n_replicated || options->frequencies;
    const bool takes_list = policy->replica == REPLICA_OF_LISTED ||
                            (policy->replica == REPLICA_OF_PLACED && !options->n_replicated) ||
                            (options->rare_staleness_ms && !options->n_replicated);
    if (is_listed && !takes_list)
        return fail(TERN_INVALID, "table '%s': keys are listed, but policy '%s' takes no list",
                    name, policy->name);
    if (options->frequencies && (options->n_replicated || options->index != TERN_DENSE))
        return fail(TERN_INVALID,
                    "table '%s': `frequencies` are for dense tables without a list of keys", name);
    for (size_t i = 0; options->index == TERN_DENSE && i < options->n_replicated; i++)
        if (options->replicated[i] >= options->n_keys)
            return fail(TERN_RANGE,
                        "listed key %" PRIu64 " is outside table '%s' of %" PRIu64 " keys",
                        options->replicated[i], name, options->n_keys);
    if (!isfinite(options->hot_factor) || options->hot_factor < 0)
        return fail(TERN_INVALID, "table '%s': hot_factor is %g; it is a positive number", name,
                    options->hot_factor);
    if (options->hot_factor > 0 && !options->rare_staleness_ms &&
        (policy->replica != REPLICA_OF_LISTED || options->n_replicated))
        return fail(TERN_INVALID,
                    "table '%s': hot_factor is for policy 'multi' without a list of keys, and for "
                    "rare_staleness_ms, not for policy '%s'",
                    name, policy->name);
    if (options->rare_staleness_ms &&
        (policy->replica != REPLICA_ON_INTENT || !options->frequencies))
        return fail(TERN_INVALID,
                    "table '%s': rare_staleness_ms is for policy 'adaptive' with `frequencies`, "
                    "not for policy '%s'%s",
                    name, policy->name, options->frequencies ? "" : " without them");
    if (options->updater.asks_age &&
        (policy->main != MAIN_AT_HOME || policy->replica != REPLICA_NEVER ||
         policy->bound != BOUND_NONE))
        return fail(TERN_INVALID,
                    "table '%s': updater '%s' asks for the age of updates, which policy 'static' "
                    "knows and policy '%s' does not",
                    name, options->updater.name, policy->name);
    if ((options->staleness_ms || options->max_rounds_per_s) && !technique->collect)
        return fail(TERN_INVALID,
                    "table '%s': policy '%s' has no replicas that staleness_ms or max_rounds_per_s "
                    "could be about",
                    name, policy->name);
    const enum tern_status status = options->backups ? check_backups(name, options) : TERN_OK;
    if (status)
        return status;
    return technique->check ? technique->check(policy, name, options) : TERN_OK;
}

/* Which keys of a sparse table are at home here. */
static bool is_at_home(const void *context, uint64_t key)
{
    const struct core *core = context;
    return ring_home(core->view, key) == core->node;
}

struct store_home technique_home(const struct core *core, const struct policy *policy,
                                 const struct tern_table_options *options,
                                 const struct placed *placed, const struct table_backup *backup)
{
    const enum rows rows = technique_find(policy, false)->rows;
    const uint64_t begin = placed ? 0 : range_begin(core->view, core->node, options->n_keys);
    const uint64_t end = placed ? 0 : range_end(core->view, core->node, options->n_keys);
    struct store_home home = {.has = placed ? placed_has : is_at_home,
                              .context = placed ? (const void *)placed : core,
                              .placed = placed,
                              .asks = placed || backup,
                              .backed = backup,
                              .n_placed = placed ? placed->n_here : 0};
    if (backup) {
        home.has = backup_has;
        home.context = backup;
    }
    if (rows == ROWS_EVERYWHERE) {
        home.rows_everywhere = true;
        home.end = options->n_keys;
        home.main_begin = begin;
        home.main_end = end;
        return home;
    }
    home.rows_move = rows == ROWS_MOVE;
    home.begin = begin;
    home.end = end;
    home.n_shards = core->n_shards;
    return home;
}

static bool has_replicas(const struct tern_placement *placement)
{
    return placement && placement->n_replicas;
}

bool technique_open(struct core *core, struct core_table *table,
                    const struct technique_setup *setup)
{
    const struct tern_table_options *options = setup->options;
    table->technique = technique_find(table->policy, setup->is_whole);
    table->member = setup->is_member ? core : NULL;
    table->staleness_ns =
        (options->staleness_ms ? options->staleness_ms : DEFAULT_STALENESS_MS) * MS;
    table->round_ns = options->max_rounds_per_s ? 1000 * MS / options->max_rounds_per_s : 0;
    table->generation = setup->generation;
    (void)filters_parse(setup->name, options->filters, options->type, &table->filters);
    table->is_significant = options->is_significant;
    table->significant_context = options->significant_context;
    if (table->technique == &technique_graph && !has_replicas(options->placement))
        table->technique = &technique_fixed;
    if (table->technique == &technique_mirrored &&
        doubling_is_for(core, &table->store, table->policy))
        table->technique = &technique_doubling;
    if (setup->is_follower)
        table->technique = follower_of(table->technique);
    return !table->technique->open || table->technique->open(core, table, setup);
}

size_t core_encode_rows(const struct core_table *table, const void *rows, size_t n, bool exact,
                        uint64_t seed, uint8_t *out, uint8_t *scratch)
{
    struct core_table *counts = (struct core_table *)(uintptr_t)table;
    const struct filter_shape shape = core_filter_shape(table);
    struct filters filters = table->filters;
    struct filter_saved saved = {0};
    if (exact)
        filters.fixed_bits = 0;
    const size_t bytes = filter_encode(&filters, &shape, rows, n, seed, out, scratch, &saved);
    filter_count(&counts->saved, &saved);
    return bytes;
}

size_t core_put_rows(const struct core_table *table, const void *rows, size_t n, uint8_t *out)
{
    struct core_table *counts = (struct core_table *)(uintptr_t)table;
    const struct filter_shape shape = core_filter_shape(table);
    const size_t row_bytes = table->store.value_bytes;
    struct filter_saved saved = {0};
    if (!filters_rows(&table->filters)) {
        if (n)
            memcpy(out, rows, n * row_bytes);
        return n * row_bytes;
    }
    const size_t bytes = filter_encode_exact(&table->filters, &shape, rows, n, out,
                                             out + filter_max_bytes(n, row_bytes), &saved);
    filter_count(&counts->saved, &saved);
    return bytes;
}

bool core_get_rows(const struct core_table *table, const uint8_t *in, size_t bytes, size_t n,
                   uint8_t *scratch, void *rows)
{
    const struct filter_shape shape = core_filter_shape(table);
    if (filters_rows(&table->filters))
        return filter_decode(&table->filters, &shape, in, bytes, n, scratch, rows);
    if (bytes != n * table->store.value_bytes)
        return false;
    if (bytes)
        memcpy(rows, in, bytes);
    return true;
}

void technique_close(struct core_table *table)
{
    if (table->state)
        table->technique->close(table);
    table->state = NULL;
}

uint32_t technique_where_home(const struct core *core, const struct core_table *table, uint64_t key,
                              struct key_range *range)
{
    const struct store *store = &table->store;
    const uint32_t node = core_home(core, store, key);
    *range = (struct key_range){0};
    if (store->index == TERN_DENSE && !store->home.placed) {
        range->begin = range_begin(core->view, node, store->n_keys);
        range->n_keys = range_end(core->view, node, store->n_keys) - range->begin;
    }
    return node;
}
