/*
 * sketch_names - texts of keys that were hashed, of which only those of the heaviest keys are needed in the end.
 *
 * A thread adds the text of each key that it counts. When there are too many, it drops those that are not among the heaviest now. A
 * key becomes one of them only when it is counted, and the thread that counts it adds its text again: so the texts of all that are
 * heaviest in the end are with one thread or another.
 *
 * One thread at a time.
 */
#ifndef TASKS_SKETCH_NAMES_H
#define TASKS_SKETCH_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sketch_name {
    uint64_t key;
    char *text; /* NULL: free */
    size_t bytes;
};

/* All zero is empty. */
struct sketch_names {
    size_t n, n_slots;
    struct sketch_name *slots;
};

void sketch_names_fini(struct sketch_names *names);

/* Adds a text, unless its key has one. */
bool sketch_names_add(struct sketch_names *names, uint64_t key, const char *text, size_t bytes);

/* The text of a key; NULL if it has none. */
const struct sketch_name *sketch_names_find(const struct sketch_names *names, uint64_t key);

/* Drops the texts of all other keys than these n. */
bool sketch_names_keep(struct sketch_names *names, const uint64_t *keys, size_t n);

#endif
