/* key_set - see key_set.h. Open addressing with linear probing. */
#include "common/key_set.h"

#include <stdlib.h>

#include "common/rng.h"

enum { FIRST_CELLS = 1024 };

/* Where a key is, or would be. */
static uint64_t *find(const struct key_set *set, uint64_t key)
{
    size_t at = rng_mix(key) & (set->n_cells - 1);
    while (set->cells[at] != 0 && set->cells[at] != key)
        at = (at + 1) & (set->n_cells - 1);
    return &set->cells[at];
}

bool key_set_has(const struct key_set *set, uint64_t key)
{
    if (key == 0)
        return set->has_zero;
    return set->n > 0 && *find(set, key) == key;
}

static bool grow(struct key_set *set)
{
    struct key_set larger = {.n = set->n,
                             .n_cells = set->n_cells > 0 ? 2 * set->n_cells : FIRST_CELLS,
                             .has_zero = set->has_zero};
    larger.cells = calloc(larger.n_cells, sizeof *larger.cells);
    if (larger.cells == NULL)
        return false;
    for (size_t i = 0; i < set->n_cells; i++)
        if (set->cells[i] != 0)
            *find(&larger, set->cells[i]) = set->cells[i];
    free(set->cells);
    *set = larger;
    return true;
}

void key_set_add(struct key_set *set, uint64_t key, size_t most)
{
    if (set->n >= most || key_set_has(set, key))
        return;
    if (key == 0) {
        set->has_zero = true;
        return;
    }
    if (2 * set->n >= set->n_cells && !grow(set))
        return;
    *find(set, key) = key;
    set->n++;
}

void key_set_fini(struct key_set *set)
{
    free(set->cells);
    *set = (struct key_set){0};
}
