/* granules - see granules.h. */
#include "partition/granules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/rng.h"
#include "common/sentence.h"

enum { SLAB_BYTES = 4 << 20 };

void granules_init(struct granules *granules, uint64_t seed, size_t memory_bytes)
{
    *granules = (struct granules){.seed = rng_mix(seed + 1),
                                  .max_in_memory = memory_bytes / sizeof(struct edge)};
}

/* ---- Memory ------------------------------------------------------------------------------------ */

/* Not malloc's, which would keep the memory for itself when the entries have gone to the file. */
static bool add_slab(struct granules *granules)
{
    struct chunk **slabs = realloc(granules->slabs, (granules->n_slabs + 1) * sizeof *slabs);
    if (slabs == NULL)
        return task_fail_memory("the data");
    granules->slabs = slabs;
    void *slab = mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab == MAP_FAILED)
        return task_fail_memory("the data");
    slabs[granules->n_slabs++] = slab;
    return true;
}

static bool add_chunk(struct granules *granules, struct granule *granule)
{
    const size_t per_slab = SLAB_BYTES / sizeof(struct chunk);
    if (granules->n_chunks == granules->n_slabs * per_slab && !add_slab(granules))
        return false;
    struct chunk *chunk =
        &granules->slabs[granules->n_chunks / per_slab][granules->n_chunks % per_slab];
    granules->n_chunks++;
    chunk->before = granule->newest;
    chunk->n = 0;
    granule->newest = chunk;
    return true;
}

static void free_slabs(struct granules *granules)
{
    for (size_t i = 0; i < granules->n_slabs; i++)
        munmap(granules->slabs[i], SLAB_BYTES);
    free(granules->slabs);
    granules->slabs = NULL;
    granules->n_slabs = granules->n_chunks = 0;
}

void granules_fini(struct granules *granules)
{
    free_slabs(granules);
    for (size_t i = 0; i < GRANULES; i++)
        free(granules->at[i].runs);
    if (granules->file != NULL)
        fclose(granules->file);
}

/* ---- Adding ------------------------------------------------------------------------------------ */

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
    for (const struct chunk *chunk = granule->newest; chunk != NULL; chunk = chunk->before)
        if (fwrite(chunk->edges, sizeof *chunk->edges, chunk->n, granules->file) != chunk->n)
            return task_fail("cannot write to a temporary file: %s", strerror(errno));
    granule->runs[granule->n_runs++] = (struct granule_run){granules->file_bytes, granule->n};
    granules->file_bytes += granule->n * sizeof(struct edge);
    granule->newest = NULL;
    granule->n = 0;
    return true;
}

/* Writes what is in memory to the file. */
static bool spill(struct granules *granules)
{
    if (granules->file == NULL && (granules->file = tmpfile()) == NULL)
        return task_fail("cannot make a temporary file: %s", strerror(errno));
    for (size_t i = 0; i < GRANULES; i++)
        if (!write_out(granules, &granules->at[i]))
            return false;
    granules->n_in_memory = granules->n_chunks = 0;
    return fflush(granules->file) == 0 ||
           task_fail("cannot write to a temporary file: %s", strerror(errno));
}

bool granules_add(struct granules *granules, uint64_t row, uint64_t key)
{
    struct granule *granule = &granules->at[rng_mix(row ^ granules->seed) % GRANULES];
    if (granules->n_in_memory >= granules->max_in_memory && !spill(granules))
        return false;
    if ((granule->newest == NULL || granule->newest->n == EDGES_PER_CHUNK) &&
        !add_chunk(granules, granule))
        return false;
    granule->newest->edges[granule->newest->n++] = (struct edge){row, key};
    granule->n++;
    granules->n_in_memory++;
    granules->n_edges++;
    granules_add_row(granules, row);
    return true;
}

bool granules_finish(struct granules *granules)
{
    if (granules->file == NULL)
        return true;
    if (!spill(granules))
        return false;
    free_slabs(granules);
    return true;
}

/* ---- Reading ----------------------------------------------------------------------------------- */

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
    for (const struct chunk *chunk = granule->newest; chunk != NULL; chunk = chunk->before) {
        memcpy(edges + *n, chunk->edges, chunk->n * sizeof *edges);
        *n += chunk->n;
    }
    return true;
}

bool granules_edges(const struct granules *granules, size_t n_blocks, size_t number,
                    struct edge **edges, size_t *n)
{
    size_t at = 0;
    *n = 0;
    for (size_t i = number; i < GRANULES; i += n_blocks)
        *n += granule_size(&granules->at[i]);
    *edges = malloc((*n + 1) * sizeof **edges);
    bool ok = *edges != NULL || task_fail_memory("a block of rows");
    for (size_t i = number, more; ok && i < GRANULES; i += n_blocks, at += more)
        ok = copy_granule(granules, &granules->at[i], *edges + at, &more);
    if (!ok) {
        free(*edges);
        *edges = NULL;
    }
    return ok;
}

bool granules_load(const struct granules *granules, size_t n_blocks, size_t number,
                   struct block *block)
{
    struct edge *edges = NULL;
    size_t n;
    *block = (struct block){0};
    bool ok = granules_edges(granules, n_blocks, number, &edges, &n);
    ok = ok && block_init(block, edges, n);
    free(edges);
    return ok;
}
