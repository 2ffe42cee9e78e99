/*
 * rows - whole rows, value and updater state, out of a store and back: for checkpoints.
 *
 * Each row of a table has one main copy, at one node. rows_list names those of this store, in ascending order; that of a
 * dense table that was never used counts as being at its home. rows_copy copies a row as it is at one moment; rows_put
 * replaces it. Any thread may call these; workers may use the rows meanwhile. But while rows move between nodes, a row may
 * be listed at two nodes or at none: the caller sees to it that none moves.
 */
#ifndef STORE_ROWS_H
#define STORE_ROWS_H

#include "store/store.h"

/* Which of the processes that share a table takes which rows: the i-th of n. Otherwise 0 of 1. */
struct rows_share {
    uint32_t i, n;
};

/* Keys in ascending order. */
struct rows_keys {
    uint64_t *keys; /* NULL: they follow each other */
    uint64_t first; /* then */
    size_t n;
};

/* Lists the keys whose main copies are here, or this process's share of them. */
enum tern_status rows_list(struct store *store, struct rows_share share, struct rows_keys *keys);

/* Bytes of the state of one row, without what pads it in the store. */
size_t rows_state_bytes(const struct store *store);

/* Copies the value and state of n keys of the list. */
enum tern_status rows_copy(struct store *store, const uint64_t *keys, size_t n, char *values,
                           char *states);

/* Whether the main copy of a key is here, or would be if it were used. */
bool rows_is_main(const struct store *store, uint64_t key);

/* The row of a key that was never used; `state` is NULL if there is none. */
void rows_initial(const struct store *store, uint64_t key, char *value, char *state);

/* Replaces the row of a key, which is made if it is not there. `everywhere`: all nodes put the same, so that none need tell
 * another. Otherwise replicas get it like anything that was written. */
enum tern_status rows_put(struct store *store, uint64_t key, const void *value, const void *state,
                          bool everywhere);

#endif
