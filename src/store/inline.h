/*
 * inline - pushes and sets of tables with inline values (store->inlined).
 *
 * Of many keys the values are changed stripe by stripe (latch_stripes.h), of few one by one.
 */
#ifndef STORE_INLINE_H
#define STORE_INLINE_H

#include "store/store.h"

struct add_loops inline_add_for(const struct store *store);

/* store_set and store_set_exclusive for such tables. */
size_t inline_set(struct store *store, const uint64_t *keys, size_t n, struct entry *const *entries,
                  const void *values, uint32_t *missed, bool exclusive);

#endif
