/* partition - see partition.h. */
#include "partition/partition.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/outputs.h"
#include "common/rng.h"
#include "partition/assign.h"
#include "partition/partition_files.h"
#include "partition/hybrid.h"
#include "partition/improve.h"
#include "partition/links.h"
#include "partition/metis.h"

enum {
    AUTO_PASSES = 5,
    FEW_PARTS = 8, /* with more, more of them are full, and there is more to gain */
    MANY_PARTS_PASSES = 6,
    HYBRID_ROUNDS = 5,
    ROWS_AT_ONCE = 1 << 16,       /* of the parts that nodes tell each other */
    COUNTS_LIMIT_BYTES = 1 << 30, /* of the counts that moving rows takes */
};

struct run {
    struct job job;
    struct train *train;
    const struct partition_options *options;
    struct partition_report *report;
    struct granules granules;
    double read_s, assign_s,
        cpu_s; /* seconds to read, to partition; processor time of the latter, of this node */
};

/* ---- Methods ----------------------------------------------------------------------------------- */

/* "2x4": hosts, and the parts of each. */
static bool read_hosts(const char *text, uint32_t n_parts, uint32_t *n_per_host)
{
    unsigned n_hosts = 0;
    return text == NULL ||
           (sscanf(text, "%ux%u", &n_hosts, n_per_host) == 2 &&
            (uint64_t)n_hosts * *n_per_host == n_parts) ||
           task_fail("--hosts %s is not HOSTSxPARTS with a product of %u", text, n_parts);
}

static bool assign_hybrid(struct run *run, const struct block *block, uint16_t *parts)
{
    const struct partition_options *options = run->options;
    struct hybrid_options how = {.n_parts = run->job.n_parts,
                                 .n_rounds = options->n_passes < 0 ? HYBRID_ROUNDS
                                                                   : (uint64_t)options->n_passes,
                                 .seed = (uint64_t)run->train->options->seed,
                                 .balance = options->balance};
    double *costs = NULL;
    bool ok = read_hosts(options->hosts, how.n_parts, &how.n_per_host) &&
              (options->links == NULL || links_read(options->links, how.n_parts, &costs));
    how.costs = costs;
    double before = job_cpu_seconds();
    ok = ok && hybrid_assign(block, &how, parts);
    run->cpu_s = job_cpu_seconds() - before;
    free(costs);
    return ok;
}

/* METIS and hybrid work on the whole graph, at one node. */
static bool assign_whole(struct run *run)
{
    const struct partition_options *options = run->options;
    struct job *job = &run->job;
    struct block block = {0};
    uint16_t *parts = NULL;
    if (run->train->self != 0)
        return true;
    bool ok = granules_load(&run->granules, 1, 0, &block);
    if (ok) {
        parts = malloc((block.n_rows + 1) * sizeof *parts);
        ok = parts != NULL || task_fail_memory("the parts");
    }
    if (options->method == METHOD_HYBRID)
        ok = ok && assign_hybrid(run, &block, parts);
    else
        ok = ok && metis_assign(&block, job->n_parts, options->balance, options->by_volume,
                                (uint64_t)run->train->options->seed, parts, &run->cpu_s);
    for (uint32_t r = 0; ok && r < block.n_rows; r++)
        job->parts[block.rows[r]] = parts[r];
    free(parts);
    block_fini(&block);
    return ok;
}

static void assign_randomly(struct run *run)
{
    struct rng rng = rng_seed((uint64_t)run->train->options->seed, 1);
    for (uint64_t r = 0; r < run->granules.n_rows; r++)
        run->job.parts[r] = (uint16_t)rng_below(&rng, run->job.n_parts);
}

/* Puts the neighbour sets of an earlier partition into the table. */
static bool restore_sets(struct run *run)
{
    uint64_t n_keys, *keys, *sets;
    if (run->train->self != 0)
        return true;
    if (!partition_files_read_sets(run->train->options->resume, run->job.n_parts, &n_keys, &keys,
                                   &sets))
        return false;
    bool ok = job_access(job_set, train_worker(run->train, 0), run->job.sets, keys, n_keys, sets,
                         set_words(run->job.n_parts) * sizeof *sets);
    free(keys);
    free(sets);
    return ok;
}

static int64_t passes_of(const struct run *run)
{
    const struct job *job = &run->job;
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    int64_t n = job->n_parts > FEW_PARTS ? MANY_PARTS_PASSES : AUTO_PASSES;
    if (run->options->n_passes >= 0)
        n = run->options->n_passes;
    if (run->options->method != METHOD_AUTO)
        return 0;
    if (tern_table_get_stats(job->sets, &stats))
        return n;
    /* Each node has at least its share of the keys' rows. */
    double bytes = (double)stats.rows * job->n_parts * sizeof(int32_t);
    if (bytes > COUNTS_LIMIT_BYTES && run->train->self == 0)
        fprintf(stderr,
                "no rows are moved afterwards: counting %" PRIu64
                " keys in %u parts would take %.1f GB\n",
                stats.rows, job->n_parts, bytes / 1e9);
    return bytes > COUNTS_LIMIT_BYTES ? 0 : n;
}

static bool assign_on_tern(struct run *run)
{
    struct train *train = run->train;
    struct job *job = &run->job;
    const bool resumes = train->options->resume != NULL;
    bool ok =
        train_agree(train, assign_open(job)) && (!resumes || train_agree(train, restore_sets(run)));
    double before = job_cpu_seconds();
    ok = ok && assign_rows(job, resumes);
    /* All nodes make the same number of passes. */
    double n_passes = ok ? (double)passes_of(run) : 0;
    ok = ok && train_sum(train, 1, &n_passes) && job_close_table(&job->sets) &&
         improve(job, (int64_t)(n_passes / train->n_nodes));
    run->cpu_s = job_cpu_seconds() - before;
    return ok;
}

/* ---- Results of all nodes ---------------------------------------------------------------------- */

/* Brings the parts of all rows to all nodes: each adds what it knows to zeros. */
static bool gather_parts(struct run *run)
{
    struct job *job = &run->job;
    static int32_t parts[ROWS_AT_ONCE];
    const uint64_t n_rows = run->granules.n_rows;
    for (uint64_t first = 0; run->train->n_nodes > 1 && first < n_rows; first += ROWS_AT_ONCE) {
        uint64_t n = n_rows - first < ROWS_AT_ONCE ? n_rows - first : ROWS_AT_ONCE;
        for (uint64_t i = 0; i < n; i++)
            parts[i] = job->parts[first + i] == NO_PART ? 0 : job->parts[first + i] + 1;
        if (tern_all_reduce(run->train->node, TERN_I32, n, parts))
            return task_fail_tern("cannot gather the parts of rows");
        for (uint64_t i = 0; i < n; i++)
            job->parts[first + i] = parts[i] ? (uint16_t)(parts[i] - 1) : NO_PART;
    }
    return true;
}

/* Rows without keys may be anywhere: they even out the numbers of rows. */
static bool place_empty_rows(struct run *run)
{
    struct job *job = &run->job;
    uint64_t *n_rows = calloc(job->n_parts, sizeof *n_rows);
    if (n_rows == NULL)
        return task_fail_memory("the parts");
    for (uint64_t r = 0; r < run->granules.n_rows; r++)
        if (job->parts[r] != NO_PART)
            n_rows[job->parts[r]]++;
    for (uint64_t r = 0; r < run->granules.n_rows; r++) {
        uint32_t least = 0;
        if (job->parts[r] != NO_PART)
            continue;
        for (uint32_t p = 1; p < job->n_parts; p++)
            least = n_rows[p] < n_rows[least] ? p : least;
        job->parts[r] = (uint16_t)least;
        n_rows[least]++;
    }
    free(n_rows);
    return true;
}

static double peak_memory_mib(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_maxrss / 1024 : 0;
}

static void report_on(const struct run *run, const struct outcome *outcome)
{
    *run->report = (struct partition_report){
        .n_parts = run->job.n_parts,
        .n_nodes = run->train->n_nodes,
        .n_rows = outcome->n_rows,
        .n_keys = outcome->n_keys,
        .n_entries = outcome->n_entries,
        .n_pairs = outcome->n_pairs,
        .n_replicas = outcome->n_replicas,
        .max_keys = outcome->max_keys,
        .max_traffic = outcome->max_traffic,
        .sum_traffic = outcome->sum_traffic,
        .remote = outcome->remote,
        .remote_with_replicas = outcome->remote_with_replicas,
        .row_balance = outcome->row_balance,
        .entry_balance = outcome->entry_balance,
        .home_balance = outcome->home_balance,
        .largest_row = outcome->largest_row,
        .largest_entries = outcome->largest_entries,
        .n_passes = run->job.n_passes,
        .n_moved = run->job.n_moved,
        .remote_once = (double)outcome->n_pairs /
                       (double)(outcome->n_pairs + outcome->n_keys + outcome->n_rows),
        .read_s = run->read_s,
        .assign_s = run->assign_s,
        .cpu_s = run->cpu_s,
        .peak_mib = peak_memory_mib(),
    };
}

/* Node 0 chooses homes, measures and writes. */
static bool finish(struct run *run)
{
    const struct train_options *options = run->train->options;
    struct outcome outcome = {0};
    if (run->train->self != 0)
        return true;
    bool ok = place_empty_rows(run) && outcome_find(&outcome, &run->job) &&
              (options->out == NULL || partition_files_write(options->out, &run->job, &outcome));
    if (ok)
        report_on(run, &outcome);
    outcome_fini(&outcome);
    return ok;
}

/* ---- The whole --------------------------------------------------------------------------------- */

static bool read_data(struct run *run)
{
    const struct train_options *train_options = run->train->options;
    double before = seconds_now();
    if (train_options->out != NULL && run->train->self == 0 && !outputs_try(train_options->out))
        return false;
    if (!read_rows(train_options->data, run->options->format, run->options->both_ways,
                   &run->granules) ||
        !granules_finish(&run->granules))
        return false;
    if (run->granules.n_edges == 0)
        return task_fail("%s has no row with a key", train_options->data);
    if (run->granules.n_rows < run->job.n_parts)
        return task_fail("%s has %" PRIu64 " rows, which are fewer than the %u parts",
                         train_options->data, run->granules.n_rows, run->job.n_parts);
    run->job.parts = malloc(run->granules.n_rows * sizeof *run->job.parts);
    if (run->job.parts == NULL)
        return task_fail_memory("the parts of rows");
    memset(run->job.parts, 0xff, run->granules.n_rows * sizeof *run->job.parts);
    bool ok = job_make_blocks(&run->job);
    run->read_s = seconds_now() - before;
    return ok;
}

static bool assign(struct run *run)
{
    const double before = seconds_now();
    bool ok = true;
    switch (run->options->method) {
    case METHOD_RANDOM:
        assign_randomly(run);
        break;
    case METHOD_HYBRID:
    case METHOD_METIS:
        ok = train_agree(run->train, assign_whole(run));
        break;
    default:
        ok = assign_on_tern(run) && gather_parts(run);
    }
    run->assign_s = seconds_now() - before;
    return ok;
}

bool partition_run(const struct train_options *train_options,
                   const struct partition_options *options, struct partition_report *report)
{
    struct train train;
    if (!train_open(&train, train_options))
        return false;
    struct run run = {.train = &train, .options = options, .report = report};
    granules_init(&run.granules, (uint64_t)train_options->seed, (size_t)options->memory_mib << 20);
    run.job = (struct job){.train = &train,
                           .options = options,
                           .granules = &run.granules,
                           .n_parts = (uint32_t)options->n_parts};
    bool ok = read_data(&run);
    ok = train_agree_on(&train, ok, run.granules.n_edges ^ rng_mix(run.granules.n_rows)) &&
         assign(&run) && train_agree(&train, finish(&run));
    job_fini(&run.job);
    free(run.job.parts);
    granules_fini(&run.granules);
    return train_close(&train, ok);
}
