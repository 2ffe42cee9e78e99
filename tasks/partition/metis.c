/* metis - see metis.h. The library is loaded when it is needed, so that Tern does not depend on it. */
#include "partition/metis.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"
#include "partition/job.h"

/* As metis.h of METIS 5.1 has them, in Debian's build with 32 bits. */
enum { N_OPTIONS = 40, OPTION_OBJECTIVE = 1, OPTION_SEED = 8, OPTION_EXCESS = 16 };
enum { OBJECTIVE_CUT, OBJECTIVE_VOLUME, METIS_SUCCEEDED = 1, EXCESS_PER_MILLE = 50 };

typedef int partition_function(int32_t *n_vertices, int32_t *n_constraints, int32_t *begin,
                               int32_t *neighbours, int32_t *vertex_weights, int32_t *sizes,
                               int32_t *edge_weights, int32_t *n_parts, float *target_weights,
                               float *excess, int32_t *options, int32_t *cut, int32_t *parts);
typedef int defaults_function(int32_t *options);

struct metis {
    void *library;
    partition_function *partition;
    defaults_function *set_defaults;
};

static bool metis_open(struct metis *metis)
{
    metis->library = dlopen("libmetis.so.5", RTLD_NOW | RTLD_LOCAL);
    if (metis->library == NULL)
        return task_fail("METIS is not installed (%s); on Debian it is in the package libmetis5",
                         dlerror());
    void *partition = dlsym(metis->library, "METIS_PartGraphKway");
    void *set_defaults = dlsym(metis->library, "METIS_SetDefaultOptions");
    memcpy(&metis->partition, &partition, sizeof partition);
    memcpy(&metis->set_defaults, &set_defaults, sizeof set_defaults);
    return (metis->partition != NULL && metis->set_defaults != NULL) ||
           task_fail("the library libmetis.so.5 has not the functions of METIS 5");
}

/* The bipartite graph as METIS takes it: the rows first, then the keys. */
struct metis_graph {
    int32_t *begin, *neighbours, *weights, *parts;
};

static bool graph_init(struct metis_graph *graph, const struct block *block, enum balance balance)
{
    const uint32_t n_rows = block->n_rows, n = n_rows + block->n_keys;
    *graph = (struct metis_graph){
        .begin = malloc((n + 1) * sizeof *graph->begin),
        .neighbours = malloc((2 * (size_t)block->n_entries + 1) * sizeof *graph->neighbours),
        .weights = calloc(n, sizeof *graph->weights),
        .parts = malloc(n * sizeof *graph->parts)};
    if (graph->begin == NULL || graph->neighbours == NULL || graph->weights == NULL ||
        graph->parts == NULL)
        return task_fail_memory("METIS' graph");
    for (uint32_t r = 0; r <= n_rows; r++)
        graph->begin[r] = (int32_t)block->row_begin[r];
    for (uint32_t r = 0; r < n_rows; r++)
        graph->weights[r] = (int32_t)row_load(block, r, balance);
    for (uint32_t k = 0; k <= block->n_keys; k++)
        graph->begin[n_rows + k] = (int32_t)(block->n_entries + block->key_begin[k]);
    for (uint32_t i = 0; i < block->n_entries; i++) {
        graph->neighbours[i] = (int32_t)(n_rows + block->row_keys[i]);
        graph->neighbours[block->n_entries + i] = (int32_t)block->key_rows[i];
    }
    return true;
}

static void graph_fini(struct metis_graph *graph)
{
    free(graph->begin);
    free(graph->neighbours);
    free(graph->weights);
    free(graph->parts);
}

bool metis_assign(const struct block *block, uint32_t n_parts, enum balance balance, bool by_volume,
                  uint64_t seed, uint16_t *parts, double *seconds)
{
    int32_t options[N_OPTIONS], n = (int32_t)(block->n_rows + block->n_keys), one = 1, cut;
    int32_t wanted = (int32_t)n_parts;
    struct metis metis = {0};
    struct metis_graph graph = {0};
    if (2 * (uint64_t)block->n_entries > INT32_MAX)
        return task_fail("the graph is too large for METIS' 32-bit numbers");
    if (!metis_open(&metis))
        return false;
    bool ok = graph_init(&graph, block, balance);
    if (ok) {
        metis.set_defaults(options);
        options[OPTION_OBJECTIVE] = by_volume ? OBJECTIVE_VOLUME : OBJECTIVE_CUT;
        options[OPTION_SEED] = (int32_t)(seed & INT32_MAX);
        options[OPTION_EXCESS] = EXCESS_PER_MILLE;
        double before = job_cpu_seconds();
        ok = n_parts == 1 ||
             metis.partition(&n, &one, graph.begin, graph.neighbours, graph.weights, NULL, NULL,
                             &wanted, NULL, NULL, options, &cut, graph.parts) == METIS_SUCCEEDED ||
             task_fail("METIS could not partition the graph");
        *seconds = job_cpu_seconds() - before;
    }
    for (uint32_t r = 0; ok && r < block->n_rows; r++)
        parts[r] = n_parts == 1 ? 0 : (uint16_t)graph.parts[r];
    graph_fini(&graph);
    dlclose(metis.library);
    return ok;
}
