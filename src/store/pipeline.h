/*
 * pipeline - how the loops of pull.c and push.c hide cache misses.
 *
 * A random row costs two dependent cache misses, the entry's and the row's. A pull therefore works on
 * three keys at a time: the entry of key i + INDEX_AHEAD is prefetched, the entry of key
 * i + ROWS_AHEAD is read and its row prefetched, and the row of key i is copied. What is known of the
 * keys in between is kept in small rings. A push has found all entries before it begins (store_reserve).
 * Rows in their natural places need one step only. `sparse` and `write` are constants wherever these
 * functions are inlined.
 */
#ifndef STORE_PIPELINE_H
#define STORE_PIPELINE_H

#include "store/store.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    RING = 32,          /* a power of two, more than any distance */
    INDEX_AHEAD = 28,   /* keys between the prefetch of an entry and the use of its row */
    ROWS_AHEAD = 16,    /* keys between the prefetch of a row and its use */
    NATURAL_AHEAD = 16, /* the same for rows in their natural places, entry and row at once */
    WORDS_AHEAD = 24,   /* the same for values that are in the entries themselves */
    LINE_BYTES = 64,
    LINES_AHEAD = 4, /* of a long row; the hardware's own prefetcher follows from there */
};

/* Where the entry of a key is, as far as that can be told without touching it. */
union place {
    struct entry *entry; /* dense */
    struct cell *line;   /* sparse */
};

INLINE union place place_of(const struct store *store, bool sparse, uint64_t key)
{
    return sparse ? (union place){.line = sparse_place(store->sparse, key)}
                  : (union place){.entry = &store->dense[key]};
}

INLINE struct entry *entry_at(const struct store *store, bool sparse, union place place,
                              uint64_t key)
{
    /* Computing a dense place again is cheaper than keeping it. */
    return sparse ? sparse_find_at(store->sparse, place.line, key) : &store->dense[key];
}

INLINE struct entry *find(const struct store *store, bool sparse, uint64_t key)
{
    return entry_at(store, sparse, place_of(store, sparse, key), key);
}

/* Notes the place of a key in a ring of RING places and prefetches it. */
INLINE void prefetch_place(const struct store *store, bool sparse, bool write, uint64_t key,
                           union place *place)
{
    *place = place_of(store, sparse, key);
    if (write)
        __builtin_prefetch(place->entry, 1);
    else
        __builtin_prefetch(place->entry, 0);
}

INLINE void prefetch_bytes(const char *from, size_t bytes, bool write)
{
    const char *end = from + (bytes < LINES_AHEAD * LINE_BYTES ? bytes : LINES_AHEAD * LINE_BYTES);
    for (; from < end; from += LINE_BYTES) {
        if (write)
            __builtin_prefetch(from, 1);
        else
            __builtin_prefetch(from, 0);
    }
}

/* Prefetches a row, and its state for a write. */
INLINE void prefetch_row(const struct store *store, bool write, uint32_t slot)
{
    prefetch_bytes(slabs_at(&store->rows, slot), store->value_bytes, write);
    if (write && store->states.stride)
        prefetch_bytes(slabs_at(&store->states, slot), store->states.stride, true);
}

/* Prefetches entry and row of a dense table's key whose row is in its natural place. */
INLINE void prefetch_natural(const struct store *store, size_t bytes, bool write, uint64_t key)
{
    union place place;
    prefetch_place(store, false, write, key, &place);
    if (__builtin_expect(key - store->home.begin >= store->n_natural, 0))
        return;
    prefetch_bytes(store_natural(store, key), bytes, write);
    if (write && store->states.stride)
        prefetch_bytes(slabs_at(&store->states, store_natural_slot(store, key)),
                       store->states.stride, true);
}

/* Finds the entry of `key`, NULL if there is none, and prefetches its row. */
INLINE struct entry *look_up(const struct store *store, bool sparse, size_t bytes,
                             union place place, uint64_t key)
{
    struct entry *entry = entry_at(store, sparse, place, key);
    uint64_t word = !sparse || entry ? entry_read(entry) : 0;
    if (__builtin_expect(entry_state(word) == ENTRY_OWNED, 1))
        prefetch_bytes(slabs_at(&store->rows, entry_slot(word)), bytes, false);
    return entry;
}

/* The keys between the first and the last step of a pull. */
struct pipeline {
    union place places[RING];
    struct entry *entries[RING];
};

/* Prepares the first keys. */
INLINE void pipeline_start(struct pipeline *p, const struct store *store, bool sparse, size_t bytes,
                           const uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < INDEX_AHEAD && i < n; i++)
        prefetch_place(store, sparse, false, keys[i], &p->places[i]);
    for (size_t i = 0; i < ROWS_AHEAD && i < n; i++)
        p->entries[i] = look_up(store, sparse, bytes, p->places[i], keys[i]);
}

/* Prepares the keys after i and returns the entry of key i. */
INLINE struct entry *pipeline_step(struct pipeline *p, const struct store *store, bool sparse,
                                   size_t bytes, const uint64_t *keys, size_t n, size_t i)
{
    size_t place = i + INDEX_AHEAD, row = i + ROWS_AHEAD;
    if (place < n)
        prefetch_place(store, sparse, false, keys[place], &p->places[place % RING]);
    if (row < n)
        p->entries[row % RING] = look_up(store, sparse, bytes, p->places[row % RING], keys[row]);
    return p->entries[i % RING];
}

#endif
