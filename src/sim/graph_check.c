/* graph_check - see graph_check.h. */
#include "sim/graph_check.h"

#include <inttypes.h>

#include "sim/machine.h"

enum { MAX_LENGTH = TERN_SIM_MAX_NODES * 2 * WINDOW, MOST_KEYS = 64 };

static uint64_t sum_of(const struct check *check, const int64_t *row)
{
    uint64_t sum = 0;
    for (uint32_t e = 0; e < check->tables.length; e++)
        sum += (uint64_t)row[e];
    return sum;
}

static uint32_t count_gone(const struct check *check)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < check->n_workers; i++)
        n += check->gone[i];
    return n;
}

/* The table at a node that has the latest view. */
static const struct core_table *find_latest(const struct check *check)
{
    const struct core_table *latest = NULL;
    uint32_t epoch = 0;
    for (uint32_t i = 0; i < TERN_SIM_MAX_NODES; i++) {
        const struct core_table *graph = check->graphs[i];
        const uint32_t its = graph ? view_epoch(graph->store.home.placed->core->view) : 0;
        if (!graph || (latest && its <= epoch))
            continue;
        latest = graph;
        epoch = its;
    }
    return latest;
}

/* The updates that the main copy of a key has; 0 between the death of its home and the next node's taking over. */
static uint64_t count_main(const struct check *check, uint32_t index)
{
    const struct core_table *latest = find_latest(check);
    if (!latest)
        return 0;
    const struct core *core = latest->store.home.placed->core;
    const uint32_t home =
        view_home(core->view, core_home(core, &latest->store, table_key(GRAPH_COUNTS, index)));
    const struct core_table *main = check->graphs[home];
    int64_t row[MAX_LENGTH];
    return main && !check->gone[home * WORKERS] &&
                   store_pull_one(&main->store, table_key(GRAPH_COUNTS, index), row)
               ? sum_of(check, row)
               : 0;
}

void graph_check_begin(struct check *check, struct operation *operation)
{
    operation->n_gone = count_gone(check);
    for (size_t i = 0; i < operation->n; i++)
        operation->mains[i] = count_main(check, operation->indexes[i]);
}

/* How many updates a key is behind another one: of two frequencies p >= q, an update of the first key counts q / p. */
static double gap(const struct check *check, uint32_t key, uint64_t count, uint32_t other,
                  uint64_t other_count)
{
    const uint64_t *all = check->tables.frequencies;
    const double p = all[key] ? (double)all[key] : 1, q = all[other] ? (double)all[other] : 1;
    if (!check->tables.has_frequencies || p == q)
        return (double)other_count - (double)count;
    return p > q ? (double)other_count - (double)count * q / p
                 : (double)other_count * p / q - (double)count;
}

void graph_check_end(struct check *check, const struct operation *operation)
{
    const uint64_t bound = check->tables.policies[GRAPH_COUNTS].updates;
    const bool *lost = check->lost[GRAPH_COUNTS];
    uint64_t counts[MOST_KEYS];
    if (operation->n_gone != count_gone(check))
        return;
    for (size_t i = 0; i < operation->n; i++)
        counts[i] = sum_of(check, operation->values + i * check->tables.length);
    for (size_t i = 0; bound != UINT64_MAX && i < operation->n; i++) {
        const uint32_t index = operation->indexes[i];
        const uint64_t lacks =
            counts[i] < operation->mains[i] ? operation->mains[i] - counts[i] : 0;
        const bool is_replica = operation->copies[i] == USED_REPLICA;
        check_that(check, lost[index] || lacks <= (is_replica ? bound : 0),
                   "operation %" PRIu32 " of worker %" PRIu32 " read a value of key %" PRIu32
                   " of table '%s' that lacks %" PRIu64 " updates, more than %" PRIu64,
                   operation->number, operation->worker, index, table_name(GRAPH_COUNTS), lacks,
                   bound);
        for (size_t k = 0; is_replica && lacks && k < operation->n; k++) {
            const uint32_t other = operation->indexes[k];
            const double behind = gap(check, index, counts[i], other, counts[k]);
            check_that(check, lost[index] || lost[other] || behind <= (double)bound,
                       "operation %" PRIu32 " of worker %" PRIu32 " read a value of key %" PRIu32
                       " of table '%s' that is %g updates behind that of key %" PRIu32
                       ", more than %" PRIu64,
                       operation->number, operation->worker, index, table_name(GRAPH_COUNTS),
                       behind, other, bound);
        }
    }
}
