/*
 * columns - the examples of a node by feature. See columns.h.
 *
 * Made in three steps: all keys of the node are numbered, by an array or a hash table; the numbers are sorted by block and key; each
 * thread turns its own examples from rows into columns by counting.
 */
#include "linear/columns.h"

#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "common/rng.h"
#include "common/sentence.h"
#include "common/team.h"

enum { LEAST_BLOCKS = 8, MOST_BLOCKS = 512, MOST_WITH_DELAY = 384 };

size_t columns_choose_blocks(double n_features_each, uint64_t delay)
{
    /* Features that an example has in one block, or in blocks under way at the same time, slow each other down; more blocks
     * mean more messages. */
    const double n = n_features_each * 3 * (1 + (double)delay);
    const size_t most = delay > 0 ? MOST_WITH_DELAY : MOST_BLOCKS;
    return n < LEAST_BLOCKS ? LEAST_BLOCKS : n > (double)most ? most : (size_t)n;
}

/* ---- Numbering keys --------------------------------------------------------------------------- */

/* A key, and the number that it has got. */
struct cell {
    uint64_t key;
    uint32_t number; /* from 1; 0: the cell is free */
};

struct numbering {
    uint32_t *low; /* the numbers of the keys below n_low, which need no hash */
    size_t n_low;
    struct cell *cells; /* the other keys by hash; at most half are taken */
    size_t n_cells;     /* a power of two */
    size_t n_in_cells;
    size_t n_keys;
    uint32_t *features; /* by number: the place in the order of features */
};

static struct cell *find(const struct numbering *numbering, uint64_t key)
{
    size_t at = rng_mix(key) & (numbering->n_cells - 1);
    while (numbering->cells[at].number != 0 && numbering->cells[at].key != key)
        at = (at + 1) & (numbering->n_cells - 1);
    return &numbering->cells[at];
}

static bool grow(struct numbering *numbering)
{
    struct numbering larger = *numbering;
    larger.n_cells = numbering->n_cells > 0 ? 2 * numbering->n_cells : 1024;
    larger.cells = large_zeros(larger.n_cells, sizeof *larger.cells);
    if (larger.cells == NULL)
        return task_fail_memory("the features");
    for (size_t i = 0; i < numbering->n_cells; i++)
        if (numbering->cells[i].number != 0)
            *find(&larger, numbering->cells[i].key) = numbering->cells[i];
    free(numbering->cells);
    *numbering = larger;
    return true;
}

/* Keys are low up to twice the number of pairs: so the array of the low ones takes at most as much memory as their list. */
static bool numbering_init(struct numbering *numbering, const struct examples *lists,
                           size_t n_lists)
{
    uint64_t limit = 0, largest = 0;
    for (size_t l = 0; l < n_lists; l++)
        limit += 2 * lists[l].n_features;
    for (size_t l = 0; l < n_lists; l++)
        for (size_t i = 0; i < lists[l].n_features; i++) {
            const uint64_t key = lists[l].keys[i];
            largest = key < limit && key > largest ? key : largest;
        }
    *numbering = (struct numbering){.n_low = largest + 1};
    numbering->low = large_zeros(numbering->n_low, sizeof *numbering->low);
    return (numbering->low != NULL || task_fail_memory("the features")) && grow(numbering);
}

static void numbering_fini(struct numbering *numbering)
{
    free(numbering->low);
    free(numbering->cells);
    free(numbering->features);
}

/* Where the number of a key is kept. */
static uint32_t *number_of(struct numbering *numbering, uint64_t key)
{
    if (key < numbering->n_low)
        return &numbering->low[key];
    struct cell *cell = find(numbering, key);
    numbering->n_in_cells += cell->number == 0;
    cell->key = key;
    return &cell->number;
}

/* Replaces the keys of a list by their numbers. */
static bool number_keys(struct numbering *numbering, struct examples *list)
{
    for (size_t i = 0; i < list->n_features; i++) {
        if (2 * numbering->n_in_cells >= numbering->n_cells && !grow(numbering))
            return false;
        uint32_t *number = number_of(numbering, list->keys[i]);
        if (*number == 0)
            *number = (uint32_t)++numbering->n_keys;
        list->keys[i] = *number;
        if (numbering->n_keys == UINT32_MAX - 1)
            return task_fail("a node cannot have more than 2^32 - 2 features");
    }
    return true;
}

/* ---- Blocks ----------------------------------------------------------------------------------- */

static int compare_cells(const void *left, const void *right)
{
    const struct cell *a = left, *b = right;
    return a->key < b->key ? -1 : a->key > b->key;
}

/* Another mix than the one that the hash table uses. */
static size_t block_of(const struct columns *columns, uint64_t key)
{
    return rng_mix(key + 1) % columns->n_blocks;
}

size_t columns_find(const struct columns *columns, uint64_t key)
{
    const size_t block = block_of(columns, key), end = columns->block_start[block + 1];
    size_t low = columns->block_start[block], high = end;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (columns->keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && columns->keys[low] == key ? low : columns->n_features;
}

/* All keys, in ascending order. */
static void list_keys(const struct numbering *numbering, struct cell *all)
{
    size_t n = 0;
    for (size_t key = 0; key < numbering->n_low; key++)
        if (numbering->low[key] != 0)
            all[n++] = (struct cell){key, numbering->low[key]};
    const size_t n_low = n;
    for (size_t i = 0; i < numbering->n_cells; i++)
        if (numbering->cells[i].number != 0)
            all[n++] = numbering->cells[i];
    qsort(all + n_low, n - n_low, sizeof *all, compare_cells);
}

/* Sorts the keys by block and then by themselves, which gives each its feature. */
static bool sort_keys(struct columns *columns, struct numbering *numbering)
{
    const size_t n = columns->n_features = numbering->n_keys, n_blocks = columns->n_blocks;
    struct cell *all = malloc((n + 1) * sizeof *all);
    columns->keys = malloc((n + 1) * sizeof *columns->keys);
    numbering->features = malloc((n + 1) * sizeof *numbering->features);
    columns->largest = calloc(n + 1, sizeof *columns->largest);
    columns->block_start = calloc(n_blocks + 2, sizeof *columns->block_start);
    bool ok = all != NULL && columns->keys != NULL && columns->largest != NULL &&
              columns->block_start != NULL && numbering->features != NULL;
    if (!ok) {
        free(all);
        return task_fail_memory("the features");
    }
    list_keys(numbering, all);
    size_t *next = columns->block_start + 1; /* by block: where its next key goes */
    for (size_t i = 0; i < n; i++)
        next[block_of(columns, all[i].key) + 1]++;
    for (size_t b = 0; b < n_blocks; b++)
        next[b + 1] += next[b];
    for (size_t i = 0; i < n; i++) {
        const size_t at = next[block_of(columns, all[i].key)]++;
        columns->keys[at] = all[i].key;
        numbering->features[all[i].number] = (uint32_t)at;
    }
    free(all);
    return true;
}

/* ---- Columns ---------------------------------------------------------------------------------- */

/* Counts the pairs of each feature, then puts each where it belongs. Rows come in ascending order. */
static bool fill_slice(struct slice *slice, const struct examples *list,
                       const struct numbering *numbering, size_t n_features)
{
    uint32_t *feature = large_alloc(list->n_features + 1, sizeof *feature);
    if (feature == NULL)
        return task_fail_memory("the examples");
    for (size_t i = 0; i < list->n_features; i++) {
        feature[i] = numbering->features[list->keys[i]];
        slice->start[feature[i] + 1]++;
    }
    for (size_t j = 0; j < n_features; j++)
        slice->start[j + 1] += slice->start[j];
    for (size_t row = 0; row < list->n; row++)
        for (size_t i = list->start[row]; i < list->start[row + 1]; i++) {
            size_t at = slice->start[feature[i]]++;
            slice->rows[at] = (uint32_t)row;
            slice->values[at] = list->values[i];
        }
    memmove(slice->start + 1, slice->start, n_features * sizeof *slice->start);
    slice->start[0] = 0;
    free(feature);
    return true;
}

/* Adds up pairs of one feature that are of one row. */
static void merge_repeats(struct slice *slice, size_t n_features)
{
    size_t used = 0, from = 0;
    for (size_t j = 0; j < n_features; j++) {
        const size_t first = used, end = slice->start[j + 1];
        slice->start[j] = first;
        for (; from < end; from++) {
            if (used > first && slice->rows[used - 1] == slice->rows[from]) {
                slice->values[used - 1] += slice->values[from];
                continue;
            }
            slice->rows[used] = slice->rows[from];
            slice->values[used++] = slice->values[from];
        }
    }
    slice->start[n_features] = used;
}

struct making {
    struct columns *columns;
    const struct numbering *numbering;
    struct examples *lists;
};

static bool make_slice(void *context, size_t thread)
{
    const struct making *making = context;
    struct examples *list = &making->lists[thread];
    struct slice *slice = &making->columns->slices[thread];
    const size_t n_features = making->columns->n_features, n_pairs = list->n_features;
    if (list->n > UINT32_MAX)
        return task_fail("a thread cannot have more than 2^32 examples");
    *slice = (struct slice){.n_rows = list->n,
                            .labels = list->labels,
                            .weights = list->weights,
                            .margins = calloc(list->n + 1, sizeof(double)),
                            .start = large_zeros(n_features + 2, sizeof(size_t)),
                            .rows = large_alloc(n_pairs + 1, sizeof(uint32_t)),
                            .values = large_alloc(n_pairs + 1, sizeof(float))};
    list->labels = list->weights = NULL;
    if (slice->margins == NULL || slice->start == NULL || slice->rows == NULL ||
        slice->values == NULL)
        return task_fail_memory("the examples");
    if (!fill_slice(slice, list, making->numbering, n_features))
        return false;
    merge_repeats(slice, n_features);
    examples_fini(list);
    return true;
}

static void find_largest(struct columns *columns)
{
    for (size_t s = 0; s < columns->n_slices; s++) {
        const struct slice *slice = &columns->slices[s];
        for (size_t j = 0; j < columns->n_features; j++)
            for (size_t i = slice->start[j]; i < slice->start[j + 1]; i++) {
                float size = slice->values[i] < 0 ? -slice->values[i] : slice->values[i];
                columns->largest[j] = size > columns->largest[j] ? size : columns->largest[j];
            }
    }
}

bool columns_make(struct columns *columns, struct examples *lists, size_t n_slices, size_t n_blocks)
{
    struct numbering numbering = {0};
    *columns = (struct columns){.n_blocks = n_blocks,
                                .n_slices = n_slices,
                                .slices = calloc(n_slices, sizeof *columns->slices)};
    struct making making = {columns, &numbering, lists};
    bool ok = (columns->slices != NULL || task_fail_memory("the examples")) &&
              numbering_init(&numbering, lists, n_slices);
    for (size_t i = 0; ok && i < n_slices; i++)
        ok = number_keys(&numbering, &lists[i]);
    ok = ok && sort_keys(columns, &numbering) && team_run(n_slices, make_slice, NULL, &making);
    numbering_fini(&numbering);
    if (ok)
        find_largest(columns);
    return ok;
}

void columns_fini(struct columns *columns)
{
    for (size_t i = 0; columns->slices != NULL && i < columns->n_slices; i++) {
        struct slice *slice = &columns->slices[i];
        free(slice->labels);
        free(slice->weights);
        free(slice->margins);
        free(slice->start);
        free(slice->rows);
        free(slice->values);
    }
    free(columns->slices);
    free(columns->keys);
    free(columns->largest);
    free(columns->block_start);
    *columns = (struct columns){0};
}
