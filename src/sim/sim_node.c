/* sim_node - see sim_node.h. */
#include "sim/sim_node.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Whether a sentence names a node that is to blame, or none at all. */
static bool names_culprit(const struct blame *blame, const char *sentence)
{
    static const char node[] = "node ";
    bool names = false;
    for (const char *at = sentence; (at = strstr(at, node)) != NULL;) {
        at += sizeof node - 1;
        char *end;
        const unsigned long number = strtoul(at, &end, 10);
        if (end != at && number < 64 && blame->nodes >> number & 1)
            return true;
        names |= end != at;
    }
    return !names;
}

void sim_node_ended(const struct sim_node *sim_node, enum tern_status status, const char *what)
{
    sim_node->figures->n_operations++;
    sim_note(sim_node->sim, (uint64_t)status);
    if (!status)
        return;
    sim_node->figures->n_failed++;
    if (sim_node->may_fail)
        return;
    check_that(sim_node->check,
               sim_node->check->lenient &&
                   (status == TERN_PEER || status == TERN_LATE || status == TERN_CLOSED) &&
                   tern_error()[0],
               "%s failed with %s: %s", what, tern_status_name(status), tern_error());
    check_that(sim_node->check, names_culprit(sim_node->blame, tern_error()),
               "%s of node %" PRIu32 " failed and names none of the nodes at fault: %s", what,
               sim_node->core->node, tern_error());
    sim_node->blame->nodes |= UINT64_C(1) << sim_node->core->node;
}

bool sim_node_is_nowhere(const struct sim_node *sim_node, enum sim_table table, uint32_t index)
{
    const uint32_t home = core_home(core_for(sim_node->core, &sim_node->tables[table]),
                                    &sim_node->tables[table].store, table_key(table, index));
    return sim_node->blame->unopened[table] >> home & 1;
}

struct awaited sim_node_next_sweeps(const struct sim_node *sim_node)
{
    struct awaited awaited = {{0}};
    for (uint32_t i = 0; i < core_shards(sim_node->core); i++)
        if (round_is_needed(&sim_node->rounds[i]->round))
            awaited.sweeps[i] = rounds_next_sweep(sim_node->rounds[i]);
    return awaited;
}

bool sim_node_is_swept(const struct sim_node *sim_node, const struct awaited *awaited)
{
    bool is_swept = true;
    for (uint32_t i = 0; i < core_shards(sim_node->core); i++)
        is_swept &= sim_node->rounds[i]->round.n_sweeps >= awaited->sweeps[i];
    return is_swept;
}

void sim_node_want_sweeps(struct sim_node *sim_node, const struct awaited *awaited)
{
    for (uint32_t i = 0; i < core_shards(sim_node->core); i++)
        if (sim_node->rounds[i]->round.n_sweeps < awaited->sweeps[i]) {
            rounds_await_sweep(sim_node->rounds[i], awaited->sweeps[i]);
            sim_node->round_wanted |= 1u << i;
        }
}

bool sim_node_has(const struct sim_node *sim_node, enum sim_table table, uint32_t index,
                  bool *is_replica)
{
    const struct store *store = &sim_node->tables[table].store;
    const uint64_t key = table_key(table, index);
    struct entry *entry;
    uint64_t word = store_look(store, key, &entry);
    *is_replica = entry_state(word) == ENTRY_REPLICA;
    return entry_has_row(word) || (entry_state(word) == ENTRY_NONE && store_is_home(store, key));
}
