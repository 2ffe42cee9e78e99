/*
 * distinct - the distinct keys of a batch, and for each feature of the batch the number of its key.
 *
 * A model pulls and pushes each key of a batch once. One thread uses a struct distinct, batch after batch; its arrays
 * grow as batches do.
 */
#ifndef TASKS_DISTINCT_H
#define TASKS_DISTINCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is empty. */
struct distinct {
    uint64_t *keys;    /* each once, in the order of their first occurrence */
    size_t n_keys;     /* of the last batch */
    uint32_t *numbers; /* by feature of the batch: where its key is among the keys */
    size_t capacity;   /* of both arrays */
    uint32_t *cells;   /* a hash table: numbers + 1, or 0 where free; all free between batches */
    size_t n_cells;
    size_t *taken; /* by key: its cell */
};

void distinct_fini(struct distinct *distinct);

/* Lists the keys of a batch with n features. */
bool distinct_list(struct distinct *distinct, const uint64_t *keys, size_t n);

/* Replaces an array by one of n elements, all zero; `array` is the address of a pointer. The content is lost. */
bool array_renew(void *array, size_t n, size_t element_bytes);

#endif
