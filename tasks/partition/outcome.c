/*
 * outcome - see outcome.h.
 *
 * The uses of keys are collected block by block, as edges between a key and a part with a count. Granules scatter them by key,
 * in memory up to a limit and beyond it in a file, so that the keys can be looked at in slices of which each fits into memory.
 */
#include "partition/outcome.h"

#include <stdlib.h>
#include <string.h>

#include "common/rng.h"

enum { USES_PER_SLICE = 1 << 22 };

/* A use: the key in `row`, and in `key` the part in the upper bits and the count below. */
#define PART_SHIFT 48

/* One key, and how many rows of which parts use it. */
struct uses {
    uint64_t key;
    uint32_t n;
    uint16_t parts[MAX_PARTS];
    uint32_t counts[MAX_PARTS];
};

/* A key that a part would like a replica of. */
struct candidate {
    uint64_t key;
    uint32_t count;
};

/* The candidates of a part with the highest counts: a heap, the lowest first. */
struct heap {
    struct candidate *at;
    size_t n, max;
};

struct finder {
    struct outcome *outcome;
    const struct job *job;
    struct granules uses;
    uint32_t n_parts;
    uint64_t *n_used, *n_homes,
        *served;    /* of parts: |N(U_i)|, |V_i|, keys of V_i used by others, summed */
    int64_t *costs; /* of Algorithm 11 */
    uint64_t n_remote;
    size_t max_keys;
    struct heap *heaps;
};

typedef bool visit_function(struct finder *finder, const struct uses *uses);

/* ---- Collecting the uses ----------------------------------------------------------------------- */

/* Adds the uses of the keys of one block. */
static bool add_block(const struct job *job, const struct block *block, struct granules *uses)
{
    uint32_t counts[MAX_PARTS] = {0};
    bool ok = true;
    for (uint32_t k = 0; ok && k < block->n_keys; k++) {
        for (uint32_t i = block->key_begin[k]; i < block->key_begin[k + 1]; i++)
            counts[job->parts[block->rows[block->key_rows[i]]]]++;
        for (uint32_t i = block->key_begin[k]; ok && i < block->key_begin[k + 1]; i++) {
            const uint32_t part = job->parts[block->rows[block->key_rows[i]]];
            ok = counts[part] == 0 ||
                 granules_add(uses, block->keys[k], (uint64_t)part << PART_SHIFT | counts[part]);
            counts[part] = 0;
        }
    }
    return ok;
}

static bool collect_uses(struct finder *finder)
{
    const struct job *job = finder->job;
    bool ok = true;
    for (size_t b = 0; ok && b < job->n_blocks; b++) {
        struct block block;
        ok = job_lend_block(job, b, &block) && add_block(job, &block, &finder->uses);
        job_return_block(job, &block);
    }
    return ok && granules_finish(&finder->uses);
}

/* The uses of the key at edges[i], which ends before *next. */
static void gather_uses(const struct edge *edges, size_t n, size_t i, struct uses *uses,
                        size_t *next)
{
    uses->key = edges[i].row;
    uses->n = 0;
    for (; i < n && edges[i].row == uses->key; i++) {
        uint16_t part = (uint16_t)(edges[i].key >> PART_SHIFT);
        uint32_t count = (uint32_t)edges[i].key;
        if (uses->n > 0 && uses->parts[uses->n - 1] == part) {
            uses->counts[uses->n - 1] += count;
            continue;
        }
        uses->parts[uses->n] = part;
        uses->counts[uses->n++] = count;
    }
    *next = i;
}

/* Visits every key of a slice, in ascending order of keys. */
static bool visit_slice(struct finder *finder, size_t n_slices, size_t slice, visit_function *visit)
{
    struct edge *edges = NULL;
    size_t n = 0;
    struct uses *uses = malloc(sizeof *uses);
    bool ok = (uses != NULL || task_fail_memory("the uses of keys")) &&
              granules_edges(&finder->uses, n_slices, slice, &edges, &n) &&
              edges_sort_by_key(edges, n) && edges_sort_by_row(edges, n);
    for (size_t i = 0; ok && i < n;) {
        gather_uses(edges, n, i, uses, &i);
        ok = visit(finder, uses);
    }
    free(edges);
    free(uses);
    return ok;
}

static bool visit_keys(struct finder *finder, visit_function *visit)
{
    const size_t n = finder->uses.n_edges / USES_PER_SLICE + 1;
    const size_t n_slices = n < GRANULES ? n : GRANULES;
    bool ok = true;
    for (size_t slice = 0; ok && slice < n_slices; slice++)
        ok = visit_slice(finder, n_slices, slice, visit);
    return ok;
}

/* ---- Homes ------------------------------------------------------------------------------------- */

static bool count_key(struct finder *finder, const struct uses *uses)
{
    finder->outcome->n_keys++;
    for (uint32_t i = 0; i < uses->n; i++)
        finder->n_used[uses->parts[i]]++;
    return true;
}

/* Where most rows use the key; of several such parts the one with the fewest homes so far. */
static uint16_t most_used(const struct finder *finder, const struct uses *uses)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < uses->n; i++)
        if (uses->counts[i] > uses->counts[best] ||
            (uses->counts[i] == uses->counts[best] &&
             finder->n_homes[uses->parts[i]] < finder->n_homes[uses->parts[best]]))
            best = i;
    return uses->parts[best];
}

/* Lines 8 to 10 of Algorithm 11. */
static uint16_t least_costly(struct finder *finder, const struct uses *uses)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < uses->n; i++)
        if (finder->costs[uses->parts[i]] < finder->costs[uses->parts[best]])
            best = i;
    finder->costs[uses->parts[best]] += (int64_t)uses->n - 2;
    return uses->parts[best];
}

/* ---- Replicas ---------------------------------------------------------------------------------- */

static bool is_lower(const struct candidate *a, const struct candidate *b)
{
    return a->count < b->count || (a->count == b->count && a->key > b->key);
}

static void sift_down(struct heap *heap, size_t i)
{
    struct candidate moved = heap->at[i];
    for (size_t child; (child = 2 * i + 1) < heap->n; i = child) {
        if (child + 1 < heap->n && is_lower(&heap->at[child + 1], &heap->at[child]))
            child++;
        if (!is_lower(&heap->at[child], &moved))
            break;
        heap->at[i] = heap->at[child];
    }
    heap->at[i] = moved;
}

/* Keeps a candidate if it is among the best so far. Within a part, (6) of HET-GMP orders them by their counts. */
static void consider_replica(struct heap *heap, struct candidate candidate)
{
    if (heap->n < heap->max) {
        size_t i = heap->n++;
        for (; i > 0 && is_lower(&candidate, &heap->at[(i - 1) / 2]); i = (i - 1) / 2)
            heap->at[i] = heap->at[(i - 1) / 2];
        heap->at[i] = candidate;
    } else if (heap->max > 0 && is_lower(&heap->at[0], &candidate)) {
        heap->at[0] = candidate;
        sift_down(heap, 0);
    }
}

/* ---- Visiting for good ------------------------------------------------------------------------- */

static bool place_key(struct finder *finder, const struct uses *uses)
{
    struct outcome *outcome = finder->outcome;
    const uint16_t home = finder->job->options->homes == HOMES_USED ? most_used(finder, uses)
                                                                    : least_costly(finder, uses);
    const size_t at = finder->max_keys++;
    outcome->keys[at] = uses->key;
    outcome->homes[at] = home;
    outcome->uses[at] = 0;
    for (uint32_t i = 0; i < uses->n; i++) {
        set_add(outcome->sets + at * outcome->n_words, uses->parts[i]);
        outcome->n_entries += uses->counts[i];
        outcome->uses[at] += uses->counts[i];
        if (uses->parts[i] == home)
            continue;
        finder->n_remote += uses->counts[i];
        finder->served[home]++;
        consider_replica(&finder->heaps[uses->parts[i]],
                         (struct candidate){uses->key, uses->counts[i]});
    }
    finder->n_homes[home]++;
    return true;
}

/* n elements in the order of the edges, whose rows say where each is now; frees the array. NULL: there is no memory. */
static void *reordered(void *array, size_t element_bytes, const struct edge *edges, size_t n)
{
    char *ordered = malloc((n + 1) * element_bytes);
    for (size_t i = 0; ordered != NULL && i < n; i++)
        memcpy(ordered + i * element_bytes, (const char *)array + edges[i].row * element_bytes,
               element_bytes);
    free(array);
    return ordered;
}

/* With several slices the keys came in several ascending sequences. */
static bool sort_keys(struct outcome *outcome)
{
    const uint64_t n = outcome->n_keys;
    bool is_sorted = true;
    for (uint64_t i = 1; i < n; i++)
        is_sorted &= outcome->keys[i - 1] < outcome->keys[i];
    if (is_sorted)
        return true;
    struct edge *edges = malloc((n + 1) * sizeof *edges);
    bool ok = edges != NULL || task_fail_memory("the keys");
    for (uint64_t i = 0; ok && i < n; i++)
        edges[i] = (struct edge){.row = i, .key = outcome->keys[i]};
    ok = ok && edges_sort_by_key(edges, n);
    if (ok) {
        outcome->keys = reordered(outcome->keys, sizeof *outcome->keys, edges, n);
        outcome->homes = reordered(outcome->homes, sizeof *outcome->homes, edges, n);
        outcome->uses = reordered(outcome->uses, sizeof *outcome->uses, edges, n);
        outcome->sets =
            reordered(outcome->sets, outcome->n_words * sizeof *outcome->sets, edges, n);
        ok = (outcome->keys != NULL && outcome->homes != NULL && outcome->uses != NULL &&
              outcome->sets != NULL) ||
             task_fail_memory("the keys");
    }
    free(edges);
    return ok;
}

static bool take_replicas(struct finder *finder)
{
    struct outcome *outcome = finder->outcome;
    uint64_t n_uses = 0;
    for (uint32_t p = 0; p < finder->n_parts; p++)
        outcome->n_replicas += finder->heaps[p].n;
    outcome->replica_keys = malloc((outcome->n_replicas + 1) * sizeof *outcome->replica_keys);
    outcome->replica_parts = malloc((outcome->n_replicas + 1) * sizeof *outcome->replica_parts);
    if (outcome->replica_keys == NULL || outcome->replica_parts == NULL)
        return task_fail_memory("the replicas");
    for (uint32_t p = 0, at = 0; p < finder->n_parts; p++)
        for (size_t i = 0; i < finder->heaps[p].n; i++, at++) {
            outcome->replica_keys[at] = finder->heaps[p].at[i].key;
            outcome->replica_parts[at] = (uint16_t)p;
            n_uses += finder->heaps[p].at[i].count;
        }
    double n_entries = outcome->n_entries ? (double)outcome->n_entries : 1;
    outcome->remote = (double)finder->n_remote / n_entries;
    outcome->remote_with_replicas = (double)(finder->n_remote - n_uses) / n_entries;
    return true;
}

/* ---- Measures ---------------------------------------------------------------------------------- */

static double largest_over_mean(const uint64_t *numbers, uint32_t n)
{
    uint64_t largest = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        largest = numbers[i] > largest ? numbers[i] : largest;
        sum += numbers[i];
    }
    return sum ? (double)largest * n / (double)sum : 1;
}

static void measure_traffic(struct finder *finder)
{
    struct outcome *outcome = finder->outcome;
    for (uint32_t p = 0; p < finder->n_parts; p++) {
        uint64_t traffic = finder->n_used[p] - finder->n_homes[p] + finder->served[p];
        outcome->n_pairs += finder->n_used[p] - finder->n_homes[p];
        outcome->sum_traffic += traffic;
        outcome->max_traffic = traffic > outcome->max_traffic ? traffic : outcome->max_traffic;
        outcome->max_keys =
            finder->n_used[p] > outcome->max_keys ? finder->n_used[p] : outcome->max_keys;
    }
    outcome->home_balance = largest_over_mean(finder->n_homes, finder->n_parts);
}

static bool measure_balance(struct finder *finder)
{
    const struct job *job = finder->job;
    uint64_t *rows = calloc(2 * (size_t)finder->n_parts, sizeof *rows),
             *entries = rows + finder->n_parts;
    if (rows == NULL)
        return task_fail_memory("the parts");
    bool ok = true;
    for (uint64_t r = 0; r < job->granules->n_rows; r++)
        rows[job->parts[r]]++;
    for (size_t b = 0; ok && b < job->n_blocks; b++) {
        struct block block;
        ok = job_lend_block(job, b, &block);
        for (uint32_t r = 0; ok && r < block.n_rows; r++) {
            entries[job->parts[block.rows[r]]] += block_degree(&block, r);
            if (block_degree(&block, r) > finder->outcome->largest_entries) {
                finder->outcome->largest_entries = block_degree(&block, r);
                finder->outcome->largest_row = block.rows[r];
            }
        }
        job_return_block(job, &block);
    }
    finder->outcome->row_balance = largest_over_mean(rows, finder->n_parts);
    finder->outcome->entry_balance = largest_over_mean(entries, finder->n_parts);
    free(rows);
    return ok;
}

/* ---- The whole --------------------------------------------------------------------------------- */

static bool make_room(struct finder *finder)
{
    struct outcome *outcome = finder->outcome;
    const size_t n = outcome->n_keys + 1;
    const size_t n_replicas = (size_t)(finder->job->options->replicas * (double)outcome->n_keys);
    outcome->keys = malloc(n * sizeof *outcome->keys);
    outcome->homes = malloc(n * sizeof *outcome->homes);
    outcome->uses = malloc(n * sizeof *outcome->uses);
    outcome->sets = calloc(n * outcome->n_words, sizeof *outcome->sets);
    bool ok = outcome->keys != NULL && outcome->homes != NULL && outcome->uses != NULL &&
              outcome->sets != NULL;
    for (uint32_t p = 0; ok && p < finder->n_parts; p++) {
        finder->heaps[p].max = n_replicas;
        finder->heaps[p].at = malloc((n_replicas + 1) * sizeof *finder->heaps[p].at);
        finder->costs[p] = (int64_t)finder->n_used[p];
        ok = finder->heaps[p].at != NULL;
    }
    return ok || task_fail_memory("the homes of keys");
}

static bool finder_init(struct finder *finder, struct outcome *outcome, const struct job *job)
{
    const size_t n = job->n_parts;
    *finder = (struct finder){.outcome = outcome,
                              .job = job,
                              .n_parts = job->n_parts,
                              .n_used = calloc(n, sizeof *finder->n_used),
                              .n_homes = calloc(n, sizeof *finder->n_homes),
                              .served = calloc(n, sizeof *finder->served),
                              .costs = calloc(n, sizeof *finder->costs),
                              .heaps = calloc(n, sizeof *finder->heaps)};
    granules_init(&finder->uses, 0, USES_PER_SLICE * sizeof(struct edge));
    return (finder->n_used != NULL && finder->n_homes != NULL && finder->served != NULL &&
            finder->costs != NULL && finder->heaps != NULL) ||
           task_fail_memory("the parts");
}

static void finder_fini(struct finder *finder)
{
    for (uint32_t p = 0; finder->heaps != NULL && p < finder->n_parts; p++)
        free(finder->heaps[p].at);
    free(finder->n_used);
    free(finder->n_homes);
    free(finder->served);
    free(finder->costs);
    free(finder->heaps);
}

bool outcome_find(struct outcome *outcome, const struct job *job)
{
    struct finder finder;
    *outcome =
        (struct outcome){.n_rows = job->granules->n_rows, .n_words = set_words(job->n_parts)};
    bool ok = finder_init(&finder, outcome, job) && collect_uses(&finder) &&
              visit_keys(&finder, count_key) && make_room(&finder) &&
              visit_keys(&finder, place_key);
    granules_fini(&finder.uses);
    ok = ok && sort_keys(outcome) && take_replicas(&finder) && measure_balance(&finder);
    if (ok)
        measure_traffic(&finder);
    finder_fini(&finder);
    return ok;
}

void outcome_fini(struct outcome *outcome)
{
    free(outcome->keys);
    free(outcome->homes);
    free(outcome->uses);
    free(outcome->sets);
    free(outcome->replica_keys);
    free(outcome->replica_parts);
}
