/* promise - see promise.h. */
#include "sim/promise.h"

#include <stdlib.h>

#include "core/technique.h"

bool promise_note(struct promise *promise, uint32_t element, uint64_t clock)
{
    if (promise->n == promise->max) {
        size_t max = promise->max ? 2 * promise->max : 16;
        struct noted *all = realloc(promise->all, max * sizeof *all);
        if (!all)
            return false;
        promise->all = all;
        promise->max = max;
    }
    promise->all[promise->n++] = (struct noted){element, clock};
    return true;
}

void promise_count(const struct promise *promise, const struct policy *policy, uint64_t clock,
                   uint32_t length, int64_t *counts)
{
    for (uint32_t e = 0; e < length; e++)
        counts[e] = 0;
    for (size_t i = 0; policy->bound == BOUND_CLOCKS && i < promise->n; i++)
        counts[promise->all[i].element] += promise->all[i].clock + policy->clocks + 1 <= clock;
}

bool promise_shown(const struct core_table *table, uint64_t key, int64_t *row)
{
    const struct store *store = &table->store;
    uint32_t stale;
    struct access access = {.min_clock = CLOCK_RESTS, .keys = &key, .n = 1, .stale = &stale};
    return (store_tracks_main(store, key) || table->technique->admit(table, &access)) &&
           store_pull_one(store, key, row);
}
