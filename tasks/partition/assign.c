/* assign - see assign.h. */
#include "partition/assign.h"

#include <stdlib.h>
#include <string.h>

#include "common/team.h"

enum {
    MAX_UNDER_WAY = 64,         /* blocks whose pushes were started and not waited for, */
    BYTES_UNDER_WAY = 64 << 20, /* and the memory that all of these take, if it is several */
};

/* A push that was started: what it pushes stays in place until it is done. */
struct pushed {
    uint64_t ticket;
    uint64_t *keys, *sets;
    size_t bytes;
};

/* What one worker has for itself. */
struct assigner {
    size_t n_words;
    bool is_initial; /* blocks are partitioned to initialise the sets */
    uint64_t *
        loads; /* of each part, by this worker's blocks: so all parts are loaded alike by all workers */
    struct pushed under_way[MAX_UNDER_WAY]; /* oldest first */
    size_t n_under_way, bytes_under_way;
};

/* ---- Pushes under way -------------------------------------------------------------------------- */

static bool finish_oldest(struct job_worker *worker, struct assigner *assigner)
{
    struct pushed oldest = assigner->under_way[0];
    bool ok =
        !tern_wait(worker->worker, oldest.ticket) || task_fail_tern("cannot push neighbour sets");
    free(oldest.keys);
    free(oldest.sets);
    assigner->n_under_way--;
    assigner->bytes_under_way -= oldest.bytes;
    memmove(assigner->under_way, assigner->under_way + 1, assigner->n_under_way * sizeof oldest);
    return ok;
}

/* Waits until at most n pushes are under way, and they do not take too much memory. */
static bool finish_all_but(struct job_worker *worker, struct assigner *assigner, size_t n)
{
    bool ok = true;
    while (assigner->n_under_way > n ||
           (assigner->n_under_way > 1 && assigner->bytes_under_way > BYTES_UNDER_WAY))
        ok &= finish_oldest(worker, assigner);
    return ok;
}

static size_t most_under_way(const struct job *job)
{
    int64_t delay = job->options->delay;
    return delay < 0 || delay >= MAX_UNDER_WAY ? MAX_UNDER_WAY - 1 : (size_t)delay;
}

/* ---- The neighbour sets ------------------------------------------------------------------------ */

static void or_words(const struct tern_updater *updater, enum tern_type type, size_t length,
                     void *value, void *state, const void *update)
{
    uint64_t *words = value;
    const uint64_t *more = update;
    (void)updater, (void)type, (void)state;
    for (size_t i = 0; i < length; i++)
        words[i] |= more[i];
}

bool assign_open(struct job *job)
{
    return job_open_table(job, "sets", TERN_I64, 0, set_words(job->n_parts), or_words, &job->sets);
}

/* Leaves of n sets what was added, and of the keys those with something added; returns their number. */
static size_t keep_added(const struct block *block, size_t n_words, const uint64_t *after,
                         uint64_t *before, uint64_t *keys)
{
    size_t n = 0;
    for (size_t k = 0; k < block->n_keys; k++) {
        uint64_t added = 0;
        for (size_t w = 0; w < n_words; w++) {
            before[n * n_words + w] = after[k * n_words + w] & ~before[k * n_words + w];
            added |= before[n * n_words + w];
        }
        keys[n] = block->keys[k];
        n += added != 0;
    }
    return n;
}

/* Starts the push of what was added to the sets of a block's keys. `before` is taken over. */
static bool push_added(struct job_worker *worker, const struct block *block, uint64_t *before,
                       const uint64_t *after)
{
    struct assigner *assigner = worker->own;
    struct pushed pushed = {.keys = malloc((block->n_keys + 1) * sizeof *pushed.keys),
                            .sets = before};
    bool ok = pushed.keys != NULL || task_fail_memory("the neighbour sets");
    if (ok) {
        size_t n = keep_added(block, assigner->n_words, after, before, pushed.keys);
        ok = !tern_push_start(worker->worker, worker->job->sets, pushed.keys, n, pushed.sets,
                              &pushed.ticket) ||
             task_fail_tern("cannot push neighbour sets");
    }
    if (!ok) {
        free(pushed.keys);
        free(pushed.sets);
        return false;
    }
    pushed.bytes = block->n_keys * (sizeof *pushed.keys + assigner->n_words * sizeof *pushed.sets);
    assigner->under_way[assigner->n_under_way++] = pushed;
    assigner->bytes_under_way += pushed.bytes;
    return finish_all_but(worker, assigner, most_under_way(worker->job));
}

/* What Algorithm 12 calls initialising: the sets of the block's keys become those of this block alone. */
static bool replace_sets(struct job_worker *worker, const struct block *block,
                         const uint16_t *parts)
{
    const size_t n_words = ((struct assigner *)worker->own)->n_words;
    uint64_t *sets = calloc(block->n_keys * n_words + 1, sizeof *sets);
    if (sets == NULL)
        return task_fail_memory("the neighbour sets");
    for (uint32_t r = 0; r < block->n_rows; r++)
        for (uint32_t i = block->row_begin[r]; i < block->row_begin[r + 1]; i++)
            set_add(sets + block->row_keys[i] * n_words, parts[r]);
    bool ok = job_access(job_set, worker->worker, worker->job->sets, block->keys, block->n_keys,
                         sets, n_words * sizeof *sets);
    free(sets);
    return ok;
}

static void keep_parts(struct job *job, const struct block *block, const uint16_t *parts)
{
    for (uint32_t r = 0; r < block->n_rows; r++)
        job->parts[block->rows[r]] = parts[r];
}

/* Partitions one block: for good, or only to initialise the sets. */
static bool assign_block(struct job_worker *worker, const struct block *block)
{
    struct job *job = worker->job;
    struct assigner *assigner = worker->own;
    const size_t value_bytes = assigner->n_words * sizeof(uint64_t),
                 bytes = block->n_keys * value_bytes;
    uint64_t *before = malloc(bytes + 1), *after = malloc(bytes + 1);
    uint16_t *parts = malloc((block->n_rows + 1) * sizeof *parts);
    bool ok =
        (before != NULL && after != NULL && parts != NULL) || task_fail_memory("a block of rows");
    ok = ok && job_access(tern_pull, worker->worker, job->sets, block->keys, block->n_keys, before,
                          value_bytes);
    if (ok) {
        memcpy(after, before, bytes);
        ok =
            parsa_assign(block, job->n_parts, job->options->balance, after, assigner->loads, parts);
    }
    if (ok && assigner->is_initial) {
        ok = replace_sets(worker, block, parts);
    } else if (ok) {
        keep_parts(job, block, parts);
        ok = push_added(worker, block, before, after);
        before = NULL;
    }
    free(before);
    free(after);
    free(parts);
    return ok;
}

/* ---- Threads ----------------------------------------------------------------------------------- */

static bool assigner_init(struct assigner *assigner, const struct job *job)
{
    *assigner = (struct assigner){.n_words = set_words(job->n_parts),
                                  .loads = calloc(job->n_parts, sizeof *assigner->loads)};
    return assigner->loads != NULL || task_fail_memory("the parts");
}

/* Partitions the initial blocks first, first + step ... below `end`, each with the sets that it finds, only to leave its own. */
static bool initialise(struct job *job, size_t thread, size_t first, size_t step, size_t end)
{
    struct assigner assigner;
    struct job_worker worker = {
        .job = job, .worker = train_worker(job->train, thread), .thread = thread, .own = &assigner};
    bool ok = assigner_init(&assigner, job);
    assigner.is_initial = true;
    for (size_t b = first; ok && b < end; b += step) {
        struct block block;
        ok = job_lend_block(job, b, &block) && assign_block(&worker, &block);
        memset(assigner.loads, 0, job->n_parts * sizeof *assigner.loads);
        job_return_block(job, &block);
    }
    free(assigner.loads);
    return ok;
}

/* How many blocks are initial. */
static size_t n_initial(const struct job *job)
{
    const size_t n = (size_t)job->options->n_initial;
    return n < job->n_blocks ? n : job->n_blocks;
}

/* Each worker takes the initial blocks that are its own, other than block 0. */
static bool initialise_more(void *context, size_t thread)
{
    struct job *job = context;
    const size_t own = job->train->self * job->train->n_threads + thread, step = job_workers(job);
    return initialise(job, thread, own > 0 ? own : step, step, n_initial(job));
}

/* Waits until the sets of all nodes are where everybody reads them. */
static bool meet(struct train *train)
{
    return train->n_nodes == 1 || !tern_quiesce(train->node) ||
           task_fail_tern("cannot wait for the nodes");
}

/* The sets of block 0 say what each part is, so that what the workers then make of other blocks at once fits together. */
static bool initialise_all(struct job *job)
{
    struct train *train = job->train;
    const size_t n = n_initial(job);
    bool ok = train->self != 0 || initialise(job, 0, 0, 1, n < 1 ? n : 1);
    return train_agree(train, ok) && meet(train) &&
           train_agree(train, team_run(train->n_threads, initialise_more, NULL, job));
}

static bool assign_blocks(void *context, size_t thread)
{
    struct job *job = context;
    struct assigner assigner;
    struct job_worker worker = {
        .job = job, .worker = train_worker(job->train, thread), .thread = thread, .own = &assigner};
    bool ok = assigner_init(&assigner, job) && job_for_blocks(&worker, job->sets, assign_block);
    ok &= finish_all_but(&worker, &assigner, 0);
    free(assigner.loads);
    return ok;
}

bool assign_rows(struct job *job, bool has_sets)
{
    struct train *train = job->train;
    return (has_sets || initialise_all(job)) && meet(train) &&
           train_agree(train, team_run(train->n_threads, assign_blocks, NULL, job));
}
