/*
 * key_set - a set of keys that only grows, up to a number of keys. One thread uses it.
 */
#ifndef TASKS_KEY_SET_H
#define TASKS_KEY_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is empty. */
struct key_set {
    uint64_t *cells; /* by hash; 0: free. At most half are taken */
    size_t n, n_cells;
    bool has_zero; /* the key 0, which has no cell */
};

bool key_set_has(const struct key_set *set, uint64_t key);

/* Adds a key. When the set has `most` keys, or memory runs out, nothing happens: a caller does without. */
void key_set_add(struct key_set *set, uint64_t key, size_t most);

void key_set_fini(struct key_set *set);

#endif
