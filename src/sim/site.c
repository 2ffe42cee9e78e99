/* site - see site.h. */
#include "sim/site.h"

void site_ended(const struct site *site, enum tern_status status, const char *what)
{
    site->figures->n_operations++;
    sim_note(site->sim, (uint64_t)status);
    if (!status)
        return;
    site->figures->n_failed++;
    check_that(site->check,
               site->check->lenient && (status == TERN_PEER || status == TERN_LATE) &&
                   tern_error()[0],
               "%s failed with %s: %s", what, tern_status_name(status), tern_error());
}

struct awaited site_next_sweeps(const struct site *site)
{
    struct awaited awaited = {{0}};
    for (uint32_t i = 0; i < core_shards(site->core); i++)
        awaited.sweeps[i] = site->progress[i].n_sweeps_begun + 1;
    return awaited;
}

bool site_is_swept(const struct site *site, const struct awaited *awaited)
{
    bool is_swept = true;
    for (uint32_t i = 0; i < core_shards(site->core); i++)
        is_swept &= site->progress[i].n_sweeps >= awaited->sweeps[i];
    return is_swept;
}

void site_want_sweeps(struct site *site, const struct awaited *awaited)
{
    for (uint32_t i = 0; i < core_shards(site->core); i++)
        if (site->progress[i].n_sweeps < awaited->sweeps[i])
            site->round_wanted |= 1u << i;
}

bool site_has(const struct site *site, enum sim_table table, uint32_t index, bool *is_replica)
{
    const struct store *store = &site->tables[table].store;
    const uint64_t key = table_key(table, index);
    struct entry *entry;
    uint64_t word = store_look(store, key, &entry);
    *is_replica = entry_state(word) == ENTRY_REPLICA;
    return entry_has_row(word) || (entry_state(word) == ENTRY_NONE && store_is_home(store, key));
}
