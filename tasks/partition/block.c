/* block - see block.h. */
#include "partition/block.h"

#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"

/* ---- Sorting ----------------------------------------------------------------------------------- */

/* Sorts by one of the two numbers, a byte at a time from the lowest; bytes that are the same in all edges are passed
 * over. `offset` is that of the number in struct edge. */
static bool sort_edges(struct edge *edges, size_t n, size_t offset)
{
    struct edge *from = edges, *to = malloc((n + 1) * sizeof *to), *spare = to;
    if (to == NULL)
        return task_fail_memory("sorting the rows");
    for (unsigned shift = 0; shift < 64; shift += 8) {
        size_t counts[256] = {0}, sum = 0;
        for (size_t i = 0; i < n; i++)
            counts[*(const uint64_t *)((const char *)&from[i] + offset) >> shift & 255]++;
        if (n == 0 ||
            counts[*(const uint64_t *)((const char *)&from[0] + offset) >> shift & 255] == n)
            continue;
        for (size_t i = 0; i < 256; i++) {
            size_t count = counts[i];
            counts[i] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            to[counts[*(const uint64_t *)((const char *)&from[i] + offset) >> shift & 255]++] =
                from[i];
        struct edge *other = from;
        from = to;
        to = other;
    }
    if (from != edges)
        memcpy(edges, from, n * sizeof *edges);
    free(spare);
    return true;
}

bool edges_sort_by_row(struct edge *edges, size_t n)
{
    return sort_edges(edges, n, offsetof(struct edge, row));
}

bool edges_sort_by_key(struct edge *edges, size_t n)
{
    return sort_edges(edges, n, offsetof(struct edge, key));
}

/* ---- Making ------------------------------------------------------------------------------------ */

static bool make_arrays(struct block *block, size_t n)
{
    block->rows = malloc((n + 1) * sizeof *block->rows);
    block->keys = malloc((n + 1) * sizeof *block->keys);
    block->row_begin = calloc(n + 2, sizeof *block->row_begin);
    block->key_begin = calloc(n + 2, sizeof *block->key_begin);
    block->row_keys = malloc((n + 1) * sizeof *block->row_keys);
    block->key_rows = malloc((n + 1) * sizeof *block->key_rows);
    return (block->rows != NULL && block->keys != NULL && block->row_begin != NULL &&
            block->key_begin != NULL && block->row_keys != NULL && block->key_rows != NULL) ||
           task_fail_memory("a block of rows");
}

/* Gives the keys their numbers: edges sorted by key get them in place of the names. */
static void number_keys(struct block *block, struct edge *edges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (block->n_keys == 0 || block->keys[block->n_keys - 1] != edges[i].key)
            block->keys[block->n_keys++] = edges[i].key;
        edges[i].key = block->n_keys - 1;
    }
}

/* Fills in the rows from edges sorted by row and, within one, by key. */
static void fill_rows(struct block *block, const struct edge *edges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool is_new = i == 0 || edges[i].row != edges[i - 1].row;
        if (!is_new && edges[i].key == edges[i - 1].key)
            continue;
        if (is_new) {
            block->rows[block->n_rows] = edges[i].row;
            block->row_begin[block->n_rows++] = block->n_entries;
        }
        block->row_keys[block->n_entries++] = (uint32_t)edges[i].key;
    }
    block->row_begin[block->n_rows] = block->n_entries;
}

static void fill_keys(struct block *block)
{
    for (uint32_t i = 0; i < block->n_entries; i++)
        block->key_begin[block->row_keys[i] + 2]++;
    for (uint32_t k = 0; k < block->n_keys; k++)
        block->key_begin[k + 2] += block->key_begin[k + 1];
    for (uint32_t r = 0; r < block->n_rows; r++)
        for (uint32_t i = block->row_begin[r]; i < block->row_begin[r + 1]; i++)
            block->key_rows[block->key_begin[block->row_keys[i] + 1]++] = r;
}

/* Gives back what the first guess of the sizes has taken too much. */
static void trim(struct block *block)
{
    void *trimmed;
    if ((trimmed = realloc(block->rows, (block->n_rows + 1) * sizeof *block->rows)) != NULL)
        block->rows = trimmed;
    if ((trimmed = realloc(block->keys, (block->n_keys + 1) * sizeof *block->keys)) != NULL)
        block->keys = trimmed;
    if ((trimmed = realloc(block->row_begin, (block->n_rows + 1) * sizeof *block->row_begin)) !=
        NULL)
        block->row_begin = trimmed;
    if ((trimmed = realloc(block->key_begin, (block->n_keys + 2) * sizeof *block->key_begin)) !=
        NULL)
        block->key_begin = trimmed;
}

bool block_init(struct block *block, struct edge *edges, size_t n)
{
    *block = (struct block){0};
    if (n >= UINT32_MAX - 2)
        return task_fail("a block of %zu entries is too large; use more blocks", n);
    if (!make_arrays(block, n) || !edges_sort_by_key(edges, n))
        return false;
    number_keys(block, edges, n);
    if (!edges_sort_by_row(edges, n))
        return false;
    fill_rows(block, edges, n);
    fill_keys(block);
    trim(block);
    return true;
}

void block_fini(struct block *block)
{
    free(block->rows);
    free(block->keys);
    free(block->row_begin);
    free(block->row_keys);
    free(block->key_begin);
    free(block->key_rows);
    *block = (struct block){0};
}
