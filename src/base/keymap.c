/* keymap - see keymap.h. */
#include "base/keymap.h"

#include <stdlib.h>

enum { FIRST_CELLS = 64 };

void keymap_free(struct keymap *map)
{
    free(map->cells);
    *map = (struct keymap){0};
}

/* The cell of a key, or the free one where it would be. */
static size_t find(const struct keymap *map, uint64_t key)
{
    size_t at = hash_u64(key) & map->mask;
    while (map->cells[at].value && map->cells[at].key != key)
        at = (at + 1) & map->mask;
    return at;
}

bool keymap_reserve(struct keymap *map, size_t n)
{
    size_t had = map->cells ? map->mask + 1 : 0, cells = had ? had : FIRST_CELLS;
    while ((map->n + n) * 4 > cells * 3)
        cells *= 2;
    if (cells == had)
        return true;
    struct keymap grown = {.cells = calloc(cells, sizeof *grown.cells), .mask = cells - 1};
    if (!grown.cells)
        return false;
    for (size_t i = 0; i < had; i++)
        if (map->cells[i].value)
            grown.cells[find(&grown, map->cells[i].key)] = map->cells[i];
    grown.n = map->n;
    free(map->cells);
    *map = grown;
    return true;
}

uint32_t keymap_get(const struct keymap *map, uint64_t key)
{
    return map->cells ? map->cells[find(map, key)].value : 0;
}

/* Closes the gap at a cell that has become free: later cells of the same run move up. */
static void close_gap(struct keymap *map, size_t gap)
{
    for (size_t at = (gap + 1) & map->mask; map->cells[at].value; at = (at + 1) & map->mask) {
        size_t wanted = hash_u64(map->cells[at].key) & map->mask;
        /* May the cell go to the gap? Only if that is not before the place it is looked for. */
        if (((at - wanted) & map->mask) < ((at - gap) & map->mask))
            continue;
        map->cells[gap] = map->cells[at];
        map->cells[at].value = 0;
        gap = at;
    }
}

void keymap_set(struct keymap *map, uint64_t key, uint32_t value)
{
    if (!map->cells)
        return;
    size_t at = find(map, key);
    bool was = map->cells[at].value;
    map->cells[at] = (struct keymap_cell){key, value};
    map->n += (value != 0) - (size_t)was;
    if (was && !value)
        close_gap(map, at);
}
