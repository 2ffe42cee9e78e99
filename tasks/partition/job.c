/* job - see job.h. */
#include "partition/job.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/team.h"

enum {
    KEYS_AT_ONCE = 1 << 16, /* of a pull or push */
    BLOCKS_PER_WORKER = 8,  /* at least: what one learns from the others comes between blocks */
    ENTRIES_PER_BLOCK = 1 << 22,         /* at most, if there are enough granules; */
    ENTRIES_PER_BLOCK_OF_FILE = 1 << 20, /* of data that are too large to be kept in memory */
    CELLS_PER_BLOCK = 1 << 26, /* rows times parts, at most: Parsa keeps a number for each */
};

double job_cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Blocks ------------------------------------------------------------------------------------ */

size_t job_workers(const struct job *job)
{
    return job->train->n_nodes * job->train->n_threads;
}

/* The first block of a thread's worker. */
static size_t first_block(const struct job *job, size_t thread)
{
    return job->train->self * job->train->n_threads + thread;
}

static size_t choose_blocks(const struct job *job)
{
    const struct granules *granules = job->granules;
    const size_t most = granules->file != NULL ? ENTRIES_PER_BLOCK_OF_FILE : ENTRIES_PER_BLOCK;
    size_t n = job->options->n_blocks > 0 ? (size_t)job->options->n_blocks
                                          : BLOCKS_PER_WORKER * job_workers(job);
    if (job->options->n_blocks == 0 && n < granules->n_edges / most + 1)
        n = granules->n_edges / most + 1;
    if (job->options->n_blocks == 0 && n < granules->n_rows * job->n_parts / CELLS_PER_BLOCK + 1)
        n = granules->n_rows * job->n_parts / CELLS_PER_BLOCK + 1;
    return n < GRANULES ? n : GRANULES;
}

static bool keep_blocks(void *context, size_t thread)
{
    struct job *job = context;
    for (size_t b = first_block(job, thread); b < job->n_blocks; b += job_workers(job))
        if (!granules_load(job->granules, job->n_blocks, b, &job->blocks[b]))
            return false;
    return true;
}

bool job_make_blocks(struct job *job)
{
    job->n_blocks = choose_blocks(job);
    if (job->granules->file != NULL)
        return true;
    job->blocks = calloc(job->n_blocks, sizeof *job->blocks);
    return (job->blocks != NULL || task_fail_memory("the blocks of rows")) &&
           team_run(job->train->n_threads, keep_blocks, NULL, job);
}

void job_fini(struct job *job)
{
    for (size_t i = 0; job->blocks != NULL && i < job->n_blocks; i++)
        block_fini(&job->blocks[i]);
    free(job->blocks);
    job->blocks = NULL;
}

bool job_lend_block(const struct job *job, size_t number, struct block *block)
{
    if (job->blocks == NULL || job->blocks[number].row_begin == NULL)
        return granules_load(job->granules, job->n_blocks, number, block);
    *block = job->blocks[number];
    return true;
}

void job_return_block(const struct job *job, struct block *block)
{
    bool is_kept = false;
    for (size_t i = 0; job->blocks != NULL && i < job->n_blocks; i++)
        is_kept |= job->blocks[i].row_begin == block->row_begin;
    if (!is_kept)
        block_fini(block);
}

/* Says that a block's keys will be used at the worker's next clock. */
static bool intend(const struct job_worker *worker, struct tern_table *table,
                   const struct block *block)
{
    uint64_t clock;
    return (!tern_worker_clock(worker->worker, &clock) &&
            !tern_intent(worker->worker, table, block->keys, block->n_keys, clock + 1,
                         clock + 2)) ||
           task_fail_tern("cannot signal intent");
}

bool job_for_blocks(struct job_worker *worker, struct tern_table *table, block_function *work)
{
    struct job *job = worker->job;
    const size_t step = job_workers(job);
    struct block block = {0}, next = {0};
    size_t b = first_block(job, worker->thread);
    bool ok = b >= job->n_blocks || job_lend_block(job, b, &next);
    for (; ok && b < job->n_blocks; b += step) {
        block = next;
        next = (struct block){0};
        if (b + step < job->n_blocks)
            ok = job_lend_block(job, b + step, &next) && intend(worker, table, &next);
        ok = ok && work(worker, &block);
        job_return_block(job, &block);
        train_done(job->train, worker->thread, 1, 0);
    }
    job_return_block(job, &next);
    return ok;
}

/* ---- Tables ------------------------------------------------------------------------------------ */

bool job_open_table(const struct job *job, const char *name, enum tern_type type, uint64_t n_keys,
                    size_t length, tern_update_function *apply, struct tern_table **table)
{
    const struct tern_table_options options = {
        .struct_size = sizeof options,
        .index = n_keys ? TERN_DENSE : TERN_SPARSE,
        .type = type,
        .n_keys = n_keys,
        .length = (uint32_t)length,
        .updater = {.name = apply != NULL ? "or" : NULL, .apply = apply},
        .policy = job->train->options->policy,
    };
    return !tern_table_open(job->train->node, name, &options, table) ||
           task_fail_tern("cannot open a table");
}

bool job_close_table(struct tern_table **table)
{
    struct tern_table *closed = *table;
    *table = NULL;
    return closed == NULL || !tern_table_close(closed) || task_fail_tern("cannot close a table");
}

enum tern_status job_push(struct tern_worker *worker, struct tern_table *table,
                          const uint64_t *keys, size_t n, void *values)
{
    return tern_push(worker, table, keys, n, values);
}

enum tern_status job_set(struct tern_worker *worker, struct tern_table *table, const uint64_t *keys,
                         size_t n, void *values)
{
    return tern_set(worker, table, keys, n, values);
}

bool job_access(access_function *access, struct tern_worker *worker, struct tern_table *table,
                const uint64_t *keys, size_t n, void *values, size_t value_bytes)
{
    for (size_t i = 0; i < n; i += KEYS_AT_ONCE)
        if (access(worker, table, keys + i, n - i < KEYS_AT_ONCE ? n - i : KEYS_AT_ONCE,
                   (char *)values + i * value_bytes))
            return task_fail_tern("cannot use a table");
    return true;
}
