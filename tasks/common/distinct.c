/* distinct - the distinct keys of a batch. See distinct.h. */
#include "common/distinct.h"

#include <stdlib.h>

#include "common/rng.h"
#include "common/sentence.h"

bool array_renew(void *array, size_t n, size_t element_bytes)
{
    void **at = array;
    free(*at);
    *at = calloc(n, element_bytes);
    return *at != NULL || task_fail_memory("a batch");
}

void distinct_fini(struct distinct *distinct)
{
    free(distinct->keys);
    free(distinct->numbers);
    free(distinct->cells);
    free(distinct->taken);
    *distinct = (struct distinct){0};
}

/* Makes room for a batch with n features. */
static bool reserve(struct distinct *distinct, size_t n)
{
    if (n <= distinct->capacity)
        return true;
    size_t n_cells = 64;
    while (n_cells < 8 * n)
        n_cells *= 2;
    distinct->capacity = 0;
    if (!array_renew(&distinct->keys, 2 * n, sizeof *distinct->keys) ||
        !array_renew(&distinct->numbers, 2 * n, sizeof *distinct->numbers) ||
        !array_renew(&distinct->taken, 2 * n, sizeof *distinct->taken) ||
        !array_renew(&distinct->cells, n_cells, sizeof *distinct->cells))
        return false;
    distinct->capacity = 2 * n;
    distinct->n_cells = n_cells;
    return true;
}

bool distinct_list(struct distinct *distinct, const uint64_t *keys, size_t n)
{
    if (!reserve(distinct, n))
        return false;
    const size_t mask = distinct->n_cells - 1;
    size_t n_keys = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = rng_mix(keys[i]) & mask;
        while (distinct->cells[at] != 0 && distinct->keys[distinct->cells[at] - 1] != keys[i])
            at = (at + 1) & mask;
        if (distinct->cells[at] == 0) {
            distinct->keys[n_keys] = keys[i];
            distinct->taken[n_keys] = at;
            distinct->cells[at] = (uint32_t)++n_keys;
        }
        distinct->numbers[i] = distinct->cells[at] - 1;
    }
    for (size_t i = 0; i < n_keys; i++)
        distinct->cells[distinct->taken[i]] = 0;
    distinct->n_keys = n_keys;
    return true;
}
