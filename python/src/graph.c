/* graph - draws neighbours of nodes of a graph, for tern.gcn. It uses nothing of Tern. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static uint64_t random_below(uint64_t *state, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)next_random(state) * n) >> 64);
}

/* Draws `fanout` of n different positions (R. Floyd's way). */
static void draw_positions(uint64_t *state, uint64_t n, uint64_t fanout, uint64_t *positions)
{
    for (uint64_t i = 0; i < fanout; i++) {
        uint64_t top = n - fanout + i, drawn = random_below(state, top + 1);
        bool is_taken = false;
        for (uint64_t j = 0; j < i; j++)
            is_taken |= positions[j] == drawn;
        positions[i] = is_taken ? top : drawn;
    }
}

/* Writes the neighbours of each seed one after the other, and where each seed's begin; returns false for a seed that is
 * no node. */
static bool draw_all(const int64_t *indptr, int64_t n_nodes, const int64_t *indices,
                     const int64_t *seeds, size_t n, uint64_t fanout, uint64_t random,
                     int64_t *neighbours, int64_t *offsets, uint64_t *positions)
{
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        offsets[i] = at;
        if (seeds[i] < 0 || seeds[i] >= n_nodes)
            return false;
        int64_t begin = indptr[seeds[i]];
        uint64_t degree = (uint64_t)(indptr[seeds[i] + 1] - begin);
        if (degree <= fanout) {
            memcpy(neighbours + at, indices + begin, degree * sizeof *indices);
            at += (int64_t)degree;
            continue;
        }
        draw_positions(&random, degree, fanout, positions);
        for (uint64_t j = 0; j < fanout; j++)
            neighbours[at++] = indices[begin + (int64_t)positions[j]];
    }
    offsets[n] = at;
    return true;
}

/* sample_neighbours(indptr, indices, seeds, fanout, seed, neighbours, offsets) -> number of neighbours. `neighbours` has
 * room for len(seeds) * fanout, `offsets` for one more than seeds. */
static PyObject *sample_neighbours(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *objects[5];
    unsigned long long fanout, seed;
    if (!PyArg_ParseTuple(arguments, "OOOKKOO", &objects[0], &objects[1], &objects[2], &fanout,
                          &seed, &objects[3], &objects[4]))
        return NULL;
    Py_buffer views[5];
    int n_taken = 0;
    static const char *const names[] = {"indptr", "indices", "seeds", "neighbours", "offsets"};
    while (n_taken < 5 &&
           take_values(objects[n_taken], names[n_taken], TERN_I64, n_taken >= 3, &views[n_taken]))
        n_taken++;
    PyObject *answer = NULL;
    uint64_t *positions = malloc((fanout + 1) * sizeof *positions);
    if (n_taken == 5) {
        size_t n = view_count(&views[2]), n_nodes = view_count(&views[0]);
        const int64_t *indptr = views[0].buf;
        bool fits = n_nodes > 0 && positions && view_count(&views[3]) >= n * fanout &&
                    view_count(&views[4]) > n;
        /* The lists of neighbours must be inside `indices`. */
        fits = fits && indptr[0] == 0 && (size_t)indptr[n_nodes - 1] <= view_count(&views[1]);
        for (size_t i = 1; fits && i < n_nodes; i++)
            fits = indptr[i - 1] <= indptr[i];
        if (fits) {
            Py_BEGIN_ALLOW_THREADS
            fits = draw_all(indptr, (int64_t)n_nodes - 1, views[1].buf, views[2].buf, n, fanout,
                            seed, views[3].buf, views[4].buf, positions);
            Py_END_ALLOW_THREADS
        }
        answer = fits ? PyLong_FromLongLong(((const int64_t *)views[4].buf)[n])
                      : raise_sentence(
                            TERN_INVALID,
                            "sample_neighbours: the arrays do not describe a graph, or are too "
                            "short");
    }
    free(positions);
    while (n_taken > 0)
        PyBuffer_Release(&views[--n_taken]);
    return answer;
}

PyMethodDef graph_functions[] = {
    {"sample_neighbours", sample_neighbours, METH_VARARGS,
     "Draws up to `fanout` neighbours of each seed."},
    {0},
};
