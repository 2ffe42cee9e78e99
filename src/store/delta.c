/*
 * delta - what replicas exchange with the owner of a row: see store.h.
 *
 * The arithmetic is elementwise in the table's type; integer sums are exact, so that nothing is lost
 * or counted twice however often a row is exchanged.
 */
#include <string.h>

#include "store/store.h"

/* Latches an existing row and returns its entry; NULL if there is none. */
static struct entry *latch_existing(const struct store *store, uint64_t key, uint64_t *word)
{
    for (unsigned tries = 0;; spin_wait(&tries)) {
        struct entry *entry;
        *word = store_look(store, key, &entry);
        if (entry_readable(*word) && entry_try_latch(entry, *word))
            return entry;
        if (entry_state(*word) == ENTRY_NONE && !(*word & ENTRY_LATCHED))
            return NULL;
    }
}

/* x - y into `to`, which needs no alignment; false if all are zero. */
#define SUBTRACT(name, type)                                                    \
    static bool name(const void *x, const void *y, char *to, size_t n)          \
    {                                                                           \
        const type *a = x, *b = y;                                              \
        bool any = false;                                                       \
        for (size_t i = 0; i < n; i++) {                                        \
            type difference = (type)(a[i] - b[i]);                              \
            any |= difference != 0;                                             \
            memcpy(to + i * sizeof difference, &difference, sizeof difference); \
        }                                                                       \
        return any;                                                             \
    }

SUBTRACT(subtract_f32, float)
SUBTRACT(subtract_f64, double)
SUBTRACT(subtract_i32, uint32_t)
SUBTRACT(subtract_i64, uint64_t)

static bool (*const subtract[])(const void *, const void *, char *, size_t) = {
    [TERN_F32] = subtract_f32,
    [TERN_F64] = subtract_f64,
    [TERN_I32] = subtract_i32,
    [TERN_I64] = subtract_i64,
};

bool store_take_delta(struct store *store, uint64_t key, void *delta)
{
    uint64_t word;
    struct entry *entry = latch_existing(store, key, &word);
    if (!entry)
        return false;
    void *row = slabs_at(&store->rows, entry_slot(word));
    void *base = slabs_at(&store->bases, entry_slot(word));
    bool any = subtract[store->type](row, base, delta, store->length);
    memcpy(base, row, store->value_bytes);
    entry_release_same(entry, word);
    return any;
}

enum tern_status store_merge_delta(struct store *store, uint64_t key, const void *delta,
                                   uint32_t *slot)
{
    enum tern_status status = store_create(store, key);
    if (status)
        return status;
    uint64_t word;
    struct entry *entry = latch_existing(store, key, &word);
    *slot = entry_slot(word);
    store->kernel->add[store->type](slabs_at(&store->rows, *slot), delta, store->length);
    entry_release_same(entry, word);
    return TERN_OK;
}

enum tern_status store_refresh(struct store *store, uint64_t key, const void *value)
{
    enum tern_status status = store_create(store, key);
    if (status)
        return status;
    uint64_t word;
    struct entry *entry = latch_existing(store, key, &word);
    char *row = slabs_at(&store->rows, entry_slot(word));
    char *base = slabs_at(&store->bases, entry_slot(word));
    /* row = theirs + (row - base), written so that it ends in row and needs no third place. */
    subtract[store->type](row, base, row, store->length);
    store->kernel->add[store->type](row, value, store->length);
    memcpy(base, value, store->value_bytes);
    entry_release_same(entry, word);
    return TERN_OK;
}
