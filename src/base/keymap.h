/*
 * keymap - a small number, not 0, for each of some 64-bit keys: open addressing, linear probing. What
 * is removed leaves no trace, so a map that keys come to and leave stays as quick as it was.
 */
#ifndef BASE_KEYMAP_H
#define BASE_KEYMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct keymap_cell {
    uint64_t key;
    uint32_t value; /* 0: free */
};

struct keymap {
    struct keymap_cell *cells;
    size_t n, mask; /* mask: the number of cells - 1, or 0 if there are none */
};

void keymap_free(struct keymap *map);

/* Makes sure that n more keys find room; false when memory runs out. */
bool keymap_reserve(struct keymap *map, size_t n);

/* Brings the cell of a key nearer. */
static inline void keymap_prefetch(const struct keymap *map, uint64_t key)
{
    if (map->cells)
        __builtin_prefetch(&map->cells[hash_u64(key) & map->mask], 1);
}

/* The number of a key; 0 if it has none. */
uint32_t keymap_get(const struct keymap *map, uint64_t key);

/* Sets the number of a key, for which there is room (keymap_reserve); 0 removes it. */
void keymap_set(struct keymap *map, uint64_t key, uint32_t value);

#endif
