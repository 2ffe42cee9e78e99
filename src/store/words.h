/*
 * words - pushes and sets of tables whose values are in their entries (store->inlined).
 *
 * Of many keys the values are changed area by area (areas.h), of few one by one.
 */
#ifndef STORE_WORDS_H
#define STORE_WORDS_H

#include "store/store.h"

struct add_loops words_add_for(const struct store *store);

/* store_set and store_set_alone for such tables. */
size_t words_set(struct store *store, const uint64_t *keys, size_t n, struct entry *const *entries,
                 const void *values, uint32_t *missed, bool alone);

#endif
