/* improve - see improve.h. */
#include "partition/improve.h"

#include <stdlib.h>
#include <string.h>

#include "common/team.h"
#include "partition/refine.h"

static const double few_rows = 0.01; /* of all, for whose sake no further pass is made; */
static const double few_rows_of_several =
    0.015; /* by several workers, which begin with worse sets and so move more rows for the same gain */
static const double allowed_excess = 0.05; /* of a part's load over the mean; */
static const double careful_excess =
    0.045; /* by several workers, of which none knows what the others do now */

enum {
    MIN_PRICED = 6,  /* passes; of fewer none has prices, */
    FREE_PASSES = 2, /* and of more the last ones have none */
};

/* What one worker has for itself. */
struct improver {
    uint64_t total_load;
    bool has_prices;
    uint64_t n_moved;
};

/* ---- Counting ---------------------------------------------------------------------------------- */

/* Counts the uses of a block's keys by the parts of their rows. */
static void count_uses(const struct job *job, const struct block *block, int32_t *counts)
{
    for (uint32_t r = 0; r < block->n_rows; r++)
        for (uint32_t i = block->row_begin[r]; i < block->row_begin[r + 1]; i++)
            counts[(size_t)block->row_keys[i] * job->n_parts + job->parts[block->rows[r]]]++;
}

static bool push_block(struct job_worker *worker, const struct block *block)
{
    const struct job *job = worker->job;
    const size_t value_bytes = job->n_parts * sizeof(int32_t);
    static const uint64_t loads_key = 0;
    int32_t *counts = calloc(block->n_keys + 1, value_bytes);
    int64_t *loads = calloc(job->n_parts, sizeof *loads);
    bool ok = (counts != NULL && loads != NULL) || task_fail_memory("the counts of keys");
    if (ok) {
        count_uses(job, block, counts);
        for (uint32_t r = 0; r < block->n_rows; r++)
            loads[job->parts[block->rows[r]]] += (int64_t)row_load(block, r, job->options->balance);
        ok = job_access(job_push, worker->worker, job->counts, block->keys, block->n_keys, counts,
                        value_bytes) &&
             job_access(job_push, worker->worker, job->loads, &loads_key, 1, loads, 0);
    }
    free(counts);
    free(loads);
    return ok;
}

static bool count_blocks(void *context, size_t thread)
{
    struct job *job = context;
    struct job_worker worker = {
        .job = job, .worker = train_worker(job->train, thread), .thread = thread};
    return job_for_blocks(&worker, job->counts, push_block);
}

/* ---- Moving ------------------------------------------------------------------------------------ */

/* Leaves of the counts how they differ from those before, and of the keys those that do; returns their number. */
static size_t keep_changed(const struct block *block, size_t n_parts, const int32_t *before,
                           int32_t *counts, uint64_t *keys)
{
    size_t n = 0;
    for (size_t k = 0; k < block->n_keys; k++) {
        if (memcmp(counts + k * n_parts, before + k * n_parts, n_parts * sizeof *counts) == 0)
            continue;
        for (size_t p = 0; p < n_parts; p++)
            counts[n * n_parts + p] = counts[k * n_parts + p] - before[k * n_parts + p];
        keys[n++] = block->keys[k];
    }
    return n;
}

/* The loads that this worker may give the parts: others move rows at the same time, so each has its share of the room, and
 * a little is left for what they have not told yet. */
static void choose_max_loads(const struct job *job, uint64_t total, const uint64_t *loads,
                             uint64_t *max_loads)
{
    const double n = (double)job_workers(job);
    const double excess = n > 1 ? careful_excess : allowed_excess;
    const double most = (1 + excess) * (double)total / job->n_parts;
    for (uint32_t p = 0; p < job->n_parts; p++) {
        double load = (double)loads[p];
        max_loads[p] = load < most ? (uint64_t)(load + (most - load) / n) : loads[p];
    }
}

struct refined {
    int32_t *counts, *before;
    uint64_t *keys, *loads, *loads_before, *max_loads;
    uint16_t *parts;
};

static bool refined_init(struct refined *refined, const struct job *job, const struct block *block)
{
    const size_t n = (size_t)block->n_keys * job->n_parts + 1;
    *refined =
        (struct refined){.counts = malloc(n * sizeof *refined->counts),
                         .before = malloc(n * sizeof *refined->before),
                         .keys = malloc((block->n_keys + 1) * sizeof *refined->keys),
                         .loads = malloc(job->n_parts * sizeof *refined->loads),
                         .loads_before = malloc(job->n_parts * sizeof *refined->loads_before),
                         .max_loads = malloc(job->n_parts * sizeof *refined->max_loads),
                         .parts = malloc((block->n_rows + 1) * sizeof *refined->parts)};
    return (refined->counts != NULL && refined->before != NULL && refined->keys != NULL &&
            refined->loads != NULL && refined->loads_before != NULL && refined->max_loads != NULL &&
            refined->parts != NULL) ||
           task_fail_memory("the counts of keys");
}

static void refined_fini(struct refined *refined)
{
    free(refined->counts);
    free(refined->before);
    free(refined->keys);
    free(refined->loads);
    free(refined->loads_before);
    free(refined->max_loads);
    free(refined->parts);
}

static bool improve_block(struct job_worker *worker, const struct block *block)
{
    struct job *job = worker->job;
    struct improver *improver = worker->own;
    static const uint64_t loads_key = 0;
    const size_t n_parts = job->n_parts, value_bytes = n_parts * sizeof(int32_t);
    struct refined refined;
    uint64_t n_moved = 0;
    bool ok = refined_init(&refined, job, block) &&
              job_access(tern_pull, worker->worker, job->counts, block->keys, block->n_keys,
                         refined.counts, value_bytes) &&
              job_access(tern_pull, worker->worker, job->loads, &loads_key, 1, refined.loads, 0);
    if (ok) {
        memcpy(refined.before, refined.counts, block->n_keys * value_bytes);
        memcpy(refined.loads_before, refined.loads, n_parts * sizeof *refined.loads);
        for (uint32_t r = 0; r < block->n_rows; r++)
            refined.parts[r] = job->parts[block->rows[r]];
        choose_max_loads(job, improver->total_load, refined.loads, refined.max_loads);
        ok = refine_pass(block, job->n_parts, job->options->balance, refined.max_loads,
                         refined.counts, refined.loads, refined.parts, improver->has_prices,
                         &n_moved);
    }
    if (ok) {
        for (uint32_t r = 0; r < block->n_rows; r++)
            job->parts[block->rows[r]] = refined.parts[r];
        for (size_t p = 0; p < n_parts; p++)
            refined.loads[p] -= refined.loads_before[p];
        size_t n = keep_changed(block, n_parts, refined.before, refined.counts, refined.keys);
        ok = job_access(job_push, worker->worker, job->counts, refined.keys, n, refined.counts,
                        value_bytes) &&
             job_access(job_push, worker->worker, job->loads, &loads_key, 1, refined.loads, 0);
    }
    improver->n_moved += n_moved;
    refined_fini(&refined);
    return ok;
}

/* ---- Passes ------------------------------------------------------------------------------------ */

struct pass {
    struct job *job;
    uint64_t total_load;
    bool has_prices;
    _Atomic uint64_t n_moved;
};

static bool improve_blocks(void *context, size_t thread)
{
    struct pass *pass = context;
    struct improver improver = {.total_load = pass->total_load, .has_prices = pass->has_prices};
    struct job_worker worker = {.job = pass->job,
                                .worker = train_worker(pass->job->train, thread),
                                .thread = thread,
                                .own = &improver};
    bool ok = job_for_blocks(&worker, pass->job->counts, improve_block);
    atomic_fetch_add(&pass->n_moved, improver.n_moved);
    return ok;
}

/* Waits until the counts of all nodes are where everybody reads them. */
static bool meet(struct train *train)
{
    return train->n_nodes == 1 || !tern_quiesce(train->node) ||
           task_fail_tern("cannot wait for the nodes");
}

static bool make_pass(struct job *job, bool has_prices, bool *is_last)
{
    struct train *train = job->train;
    struct pass pass = {.job = job,
                        .has_prices = has_prices,
                        .total_load = job->options->balance == BALANCE_ROWS
                                          ? job->granules->n_rows
                                          : job->granules->n_edges};
    bool ok = train_agree(train, team_run(train->n_threads, improve_blocks, NULL, &pass));
    double n_moved = (double)atomic_load(&pass.n_moved);
    if (!ok || !train_sum(train, 1, &n_moved) || !meet(train))
        return false;
    job->n_passes++;
    job->n_moved += (uint64_t)n_moved;
    *is_last = n_moved < (job_workers(job) > 1 ? few_rows_of_several : few_rows) *
                             (double)job->granules->n_rows;
    return true;
}

bool improve(struct job *job, int64_t n_passes)
{
    struct train *train = job->train;
    bool is_last = n_passes <= 0 || job->n_parts == 1;
    bool ok = is_last || (train_agree(train, job_open_table(job, "counts", TERN_I32, 0,
                                                            job->n_parts, NULL, &job->counts) &&
                                                 job_open_table(job, "loads", TERN_I64, 1,
                                                                job->n_parts, NULL, &job->loads)) &&
                          train_agree(train, team_run(train->n_threads, count_blocks, NULL, job)) &&
                          meet(train));
    int64_t n_priced = n_passes < MIN_PRICED ? 0 : n_passes - FREE_PASSES;
    for (int64_t i = 0; ok && !is_last && i < n_passes; i++) {
        const bool has_prices = i < n_priced;
        ok = make_pass(job, has_prices, &is_last);
        if (has_prices && is_last) {
            n_priced = 0;
            is_last = false;
        }
    }
    return ok && job_close_table(&job->counts) && job_close_table(&job->loads);
}
