/* divide - see divide.h. */
#include "kge/divide.h"

#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"

enum { PASSES = 10 };

#define NOWHERE UINT32_MAX

/* A part may have so many entries, that is, entities of triples, over the mean. */
static const double allowed_excess = 1.02;

struct division {
    const struct triples *triples;
    uint32_t n_entities, n_parts;
    uint64_t *begin;      /* entity e has the neighbours begin[e] .. begin[e + 1] - 1: */
    uint32_t *neighbours; /* one for each triple that it is in */
    uint32_t *order;      /* of entities, those near each other in the graph together */
    uint32_t *parts;      /* of entities */
    uint64_t *loads;      /* of parts: entries of their entities, */
    uint64_t *common;     /* and the neighbours there of an entity, zero between two of them */
    uint64_t *n_triples;  /* of parts */
};

static bool init(struct division *division)
{
    const size_t n = division->n_entities, n_parts = division->n_parts;
    division->begin = calloc(n + 2, sizeof *division->begin);
    division->neighbours = malloc((2 * division->triples->n + 1) * sizeof *division->neighbours);
    division->order = malloc((n + 1) * sizeof *division->order);
    division->parts = malloc((n + 1) * sizeof *division->parts);
    division->loads = calloc(n_parts, sizeof *division->loads);
    division->common = calloc(n_parts, sizeof *division->common);
    division->n_triples = calloc(n_parts + 1, sizeof *division->n_triples);
    return (division->begin != NULL && division->neighbours != NULL && division->order != NULL &&
            division->parts != NULL && division->loads != NULL && division->common != NULL &&
            division->n_triples != NULL) ||
           task_fail_memory("the division of triples");
}

static void fini(struct division *division)
{
    free(division->begin);
    free(division->neighbours);
    free(division->order);
    free(division->parts);
    free(division->loads);
    free(division->common);
    free(division->n_triples);
}

static void list_neighbours(struct division *division)
{
    const struct triples *triples = division->triples;
    uint64_t *end = division->begin + 1; /* becomes begin[e + 1], after it was that of e */
    for (size_t i = 0; i < triples->n; i++) {
        end[triples->at[i].subject + 1]++;
        end[triples->at[i].object + 1]++;
    }
    for (size_t e = 0; e < division->n_entities; e++)
        end[e + 1] += end[e];
    for (size_t i = 0; i < triples->n; i++) {
        const struct triple triple = triples->at[i];
        division->neighbours[end[triple.subject]++] = triple.object;
        division->neighbours[end[triple.object]++] = triple.subject;
    }
}

/* Breadth first, from the first entity that was not reached so far. Leaves all parts NOWHERE. */
static void order_entities(struct division *division)
{
    uint32_t n = 0, next = 0;
    for (uint32_t e = 0; e < division->n_entities; e++)
        division->parts[e] = 0;
    for (uint32_t first = 0; first < division->n_entities; first++) {
        if (division->parts[first] == NOWHERE)
            continue;
        division->parts[first] = NOWHERE;
        division->order[n++] = first;
        for (; next < n; next++) {
            const uint32_t e = division->order[next];
            for (uint64_t i = division->begin[e]; i < division->begin[e + 1]; i++) {
                const uint32_t other = division->neighbours[i];
                if (division->parts[other] == NOWHERE)
                    continue;
                division->parts[other] = NOWHERE;
                division->order[n++] = other;
            }
        }
    }
}

/* The part that has most neighbours of an entity, which count less the fuller it is; the emptiest, if none has any. */
static uint32_t best_part(const struct division *division, double capacity)
{
    uint32_t best = 0, emptiest = 0;
    double best_score = 0;
    for (uint32_t p = 0; p < division->n_parts; p++) {
        const double room = 1 - (double)division->loads[p] / capacity;
        const double score = (double)division->common[p] * room;
        emptiest = division->loads[p] < division->loads[emptiest] ? p : emptiest;
        best = score > best_score ? p : best;
        best_score = score > best_score ? score : best_score;
    }
    return best_score > 0 ? best : emptiest;
}

static void assign_entities(struct division *division)
{
    const double capacity = allowed_excess * 2 * (double)division->triples->n / division->n_parts;
    for (uint32_t k = 0; k < division->n_entities; k++) {
        const uint32_t e = division->order[k], before = division->parts[e];
        const uint64_t degree = division->begin[e + 1] - division->begin[e];
        if (before != NOWHERE)
            division->loads[before] -= degree;
        for (uint64_t i = division->begin[e]; i < division->begin[e + 1]; i++)
            if (division->parts[division->neighbours[i]] != NOWHERE)
                division->common[division->parts[division->neighbours[i]]]++;
        division->parts[e] = best_part(division, capacity);
        division->loads[division->parts[e]] += degree;
        memset(division->common, 0, division->n_parts * sizeof *division->common);
    }
}

/* Sorts the triples by their parts. Those whose entities are in two parts go to the one that has fewer. */
static bool sort_triples(struct division *division, struct triples *triples)
{
    struct triple *sorted = malloc((triples->n + 1) * sizeof *sorted);
    uint32_t *to = malloc((triples->n + 1) * sizeof *to);
    bool ok = (sorted != NULL && to != NULL) || task_fail_memory("the division of triples");
    uint64_t *count = division->n_triples;
    for (size_t i = 0; ok && i < triples->n; i++) {
        to[i] = division->parts[triples->at[i].subject];
        count[to[i]] += to[i] == division->parts[triples->at[i].object];
    }
    for (size_t i = 0; ok && i < triples->n; i++) {
        const uint32_t other = division->parts[triples->at[i].object];
        if (to[i] == other)
            continue;
        to[i] = count[other] < count[to[i]] ? other : to[i];
        count[to[i]]++;
    }
    if (ok) {
        uint64_t begin = 0;
        for (uint32_t p = 0; p < division->n_parts; p++) {
            const uint64_t n = count[p];
            count[p] = begin;
            begin += n;
        }
        for (size_t i = 0; i < triples->n; i++)
            sorted[count[to[i]]++] = triples->at[i];
        memcpy(triples->at, sorted, triples->n * sizeof *sorted);
    }
    free(sorted);
    free(to);
    return ok;
}

bool divide_triples(struct triples *triples, uint32_t n_entities, uint32_t n_parts)
{
    struct division division = {.triples = triples, .n_entities = n_entities, .n_parts = n_parts};
    bool ok = init(&division);
    if (ok) {
        list_neighbours(&division);
        order_entities(&division);
        for (int pass = 0; pass < PASSES; pass++)
            assign_entities(&division);
        ok = sort_triples(&division, triples);
    }
    fini(&division);
    return ok;
}
