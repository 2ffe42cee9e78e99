/* hot - see hot.h. */
#include "core/hot.h"

#define FIRST_LOOK (UINT64_C(1) << 14)
#define LAST_LOOK (UINT64_C(1) << 22)
#define HOT_FOUND (UINT32_C(1) << 31)

enum { LEAST_COUNT = 4 }; /* fewer are chance */

void hot_init(struct hot *hot, uint64_t n_keys, double factor)
{
    *hot = (struct hot){.next_look = FIRST_LOOK, .n_keys = n_keys, .factor = factor};
}

void hot_fini(struct hot *hot)
{
    keymap_free(&hot->counts);
}

bool hot_add(struct hot *hot, const uint64_t *keys, size_t n)
{
    if (!hot_is_open(hot))
        return false;
    if (!keymap_reserve(&hot->counts, n)) {
        hot->next_look = 0;
        return true;
    }
    for (size_t i = 0; i < n; i++)
        keymap_set(&hot->counts, keys[i], keymap_get(&hot->counts, keys[i]) + 1);
    hot->n_sampled += n;
    if (hot->n_sampled < hot->next_look)
        return false;
    hot->next_look = hot->n_sampled < LAST_LOOK ? 2 * hot->n_sampled : 0;
    return true;
}

size_t hot_look(struct hot *hot, uint64_t *keys, size_t most)
{
    double n_keys = (double)(hot->n_keys ? hot->n_keys : hot->counts.n);
    double least = hot->factor * (double)hot->n_sampled / n_keys;
    size_t n = 0, n_cells = hot->counts.cells ? hot->counts.mask + 1 : 0;
    for (size_t i = 0; i < n_cells && n < most; i++) {
        struct keymap_cell *cell = &hot->counts.cells[i];
        if (cell->value & HOT_FOUND || cell->value < LEAST_COUNT || cell->value <= least)
            continue;
        cell->value |= HOT_FOUND;
        keys[n++] = cell->key;
    }
    return n;
}

size_t hot_among(const uint64_t *counts, uint64_t n, double factor, uint64_t *keys, size_t most)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)counts[i];
    size_t n_hot = 0;
    for (uint64_t i = 0; i < n && n_hot < most; i++)
        if ((double)counts[i] * (double)n > factor * sum)
            keys[n_hot++] = i;
    return n_hot;
}
