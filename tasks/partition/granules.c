/* granules - see granules.h. */
#include "partition/granules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/rng.h"
#include "common/sentence.h"

void granules_init(struct granules *granules, uint64_t seed, size_t memory_bytes)
{
    *granules = (struct granules){.seed = rng_mix(seed + 1),
                                  .max_in_memory = memory_bytes / sizeof(struct edge)};
}

void granules_fini(struct granules *granules)
{
    for (size_t i = 0; i < GRANULES; i++) {
        free(granules->at[i].edges);
        free(granules->at[i].runs);
    }
    if (granules->file != NULL)
        fclose(granules->file);
}

static bool write_out(struct granules *granules, struct granule *granule)
{
    if (granule->n == 0)
        return true;
    if (granule->n_runs == granule->max_runs) {
        size_t max = 2 * granule->max_runs + 4;
        struct granule_run *runs = realloc(granule->runs, max * sizeof *runs);
        if (runs == NULL)
            return task_fail_memory("the data");
        granule->runs = runs;
        granule->max_runs = max;
    }
    if (fwrite(granule->edges, sizeof *granule->edges, granule->n, granules->file) != granule->n)
        return task_fail("cannot write to a temporary file: %s", strerror(errno));
    granule->runs[granule->n_runs++] = (struct granule_run){granules->file_bytes, granule->n};
    granules->file_bytes += granule->n * sizeof *granule->edges;
    granules->n_in_memory -= granule->n;
    granule->n = 0;
    return true;
}

/* Writes what is in memory to the file. */
static bool spill(struct granules *granules)
{
    if (granules->file == NULL && (granules->file = tmpfile()) == NULL)
        return task_fail("cannot make a temporary file: %s", strerror(errno));
    bool ok = true;
    for (size_t i = 0; ok && i < GRANULES; i++)
        ok = write_out(granules, &granules->at[i]);
    return ok && (fflush(granules->file) == 0 ||
                  task_fail("cannot write to a temporary file: %s", strerror(errno)));
}

bool granules_add(struct granules *granules, uint64_t row, uint64_t key)
{
    struct granule *granule = &granules->at[rng_mix(row ^ granules->seed) % GRANULES];
    if (granules->n_in_memory >= granules->max_in_memory && !spill(granules))
        return false;
    if (granule->n == granule->max) {
        size_t max = 2 * granule->max + 64;
        struct edge *edges = realloc(granule->edges, max * sizeof *edges);
        if (edges == NULL)
            return task_fail_memory("the data");
        granule->edges = edges;
        granule->max = max;
    }
    granule->edges[granule->n++] = (struct edge){row, key};
    granules->n_in_memory++;
    granules->n_edges++;
    granules_add_row(granules, row);
    return true;
}

static size_t granule_size(const struct granule *granule)
{
    size_t n = granule->n;
    for (size_t i = 0; i < granule->n_runs; i++)
        n += granule->runs[i].n;
    return n;
}

static bool read_run(const struct granules *granules, const struct granule_run *run,
                     struct edge *edges)
{
    char *at = (char *)edges;
    size_t left = run->n * sizeof *edges;
    off_t offset = (off_t)run->offset;
    while (left > 0) {
        ssize_t n = pread(fileno(granules->file), at, left, offset);
        if (n <= 0 && errno != EINTR)
            return task_fail("cannot read a temporary file: %s",
                             n < 0 ? strerror(errno) : "it was cut");
        at += n > 0 ? n : 0;
        offset += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Copies the edges of a granule; *n is how many. */
static bool copy_granule(const struct granules *granules, const struct granule *granule,
                         struct edge *edges, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < granule->n_runs; i++) {
        if (!read_run(granules, &granule->runs[i], edges + *n))
            return false;
        *n += granule->runs[i].n;
    }
    if (granule->n > 0)
        memcpy(edges + *n, granule->edges, granule->n * sizeof *edges);
    *n += granule->n;
    return true;
}

bool granules_load(const struct granules *granules, size_t n_blocks, size_t number,
                   struct block *block)
{
    size_t n = 0;
    for (size_t i = number; i < GRANULES; i += n_blocks)
        n += granule_size(&granules->at[i]);
    struct edge *edges = malloc((n + 1) * sizeof *edges);
    if (edges == NULL)
        return task_fail_memory("a block of rows");
    bool ok = true;
    size_t at = 0;
    for (size_t i = number, more; ok && i < GRANULES; i += n_blocks, at += more)
        ok = copy_granule(granules, &granules->at[i], edges + at, &more);
    *block = (struct block){0};
    ok = ok && block_init(block, edges, n);
    free(edges);
    return ok;
}
