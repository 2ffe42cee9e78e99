/*
 * sparse - the index of a table whose keys may be any 64-bit number.
 *
 * The keys are cut by hash into stripes. A stripe is one open-addressing array of 16-byte cells, four
 * to a cache line. The hash points to a line; a key is in the first line from there on that has room, in
 * nearly all cases that one, whose four cells are compared without a branch. An array doubles when it
 * is three quarters full; stripes grow one by one, so nobody waits for a whole table to be rehashed.
 * The arrays of one size of all stripes lie side by side, so that they can share huge pages; equal
 * hashing makes the stripes reach that size together.
 *
 * Lookups take no lock:
 *
 *  1. A cell is written once: first the key, then, released, the entry's word, which is never zero
 *     again. A cell whose word is zero has no row, whatever its key.
 *  2. To grow, a stripe latches every entry of the old array and marks it ENTRY_MOVED, copies the words
 *     to the new array and publishes that. Whoever meets ENTRY_MOVED looks the key up again.
 *  3. Old arrays keep their addresses until the index ends, so a late reader touches valid memory; but
 *     their pages are given back and read as zero. A reader that was copying a row sees the word
 *     change and tries again; a writer's compare-and-swap fails likewise. An entry that is found and
 *     reads as zero is such a one, too: the key is looked up again (store_look).
 *  4. Hence "not found" is true only if the array is still the published one afterwards.
 *
 * Insertion and growth hold the stripe's lock. No thread takes it while it holds an entry's latch.
 */
#ifndef STORE_SPARSE_H
#define STORE_SPARSE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/entry.h"

enum {
    SPARSE_STRIPE_BITS = 6,
    SPARSE_STRIPES = 1 << SPARSE_STRIPE_BITS,
    SPARSE_GROWTHS = 48,
    SPARSE_LINE = 4
};

struct cell {
    _Atomic uint64_t key;
    struct entry entry;
};

struct stripe {
    _Atomic uintptr_t
        array; /* the cells' address (page-aligned) plus log2 of their number; 0: none */
    uint64_t n_keys;
    pthread_mutex_t lock;
} __attribute__((aligned(64)));

struct sparse {
    struct stripe stripes[SPARSE_STRIPES];
    _Atomic uint64_t bytes;              /* memory of the published arrays */
    pthread_mutex_t lock;                /* taken inside a stripe's; guards: */
    struct cell *arrays[SPARSE_GROWTHS]; /* arrays[i]: room for 2^i cells of each stripe */
};

void sparse_init(struct sparse *sparse);
void sparse_fini(struct sparse *sparse);

/* The entry of `key`, made if it is not there, or NULL when memory, of which the index may take
 * `limit_bytes`, is used up. A new one has no row (ENTRY_NONE). */
struct entry *sparse_insert(struct sparse *sparse, uint64_t key, uint64_t limit_bytes);

/* Calls visit(context, key, word) for every key that was there all the time, in no order. */
void sparse_visit(struct sparse *sparse, void (*visit)(void *, uint64_t key, uint64_t word),
                  void *context);

/* The keys' own hash: its upper bits choose the stripe, those below the line. One multiplication, since
 * it is on the way of every access; folding first lets the upper half of a key count. */
static inline uint64_t sparse_hash(uint64_t key)
{
    return (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline struct cell *sparse_cells(uintptr_t array)
{
    return (struct cell *)(array & ~(uintptr_t)63);
}

static inline uint64_t sparse_n_cells(uintptr_t array)
{
    return (uint64_t)SPARSE_LINE << (64 - (array & 63));
}

static inline const struct stripe *sparse_stripe(const struct sparse *sparse, uint64_t hash)
{
    return &sparse->stripes[hash >> (64 - SPARSE_STRIPE_BITS)];
}

/* The first cell of the line where the search for `hash` begins. */
static inline struct cell *sparse_line(uintptr_t array, uint64_t hash)
{
    uint64_t line = hash << SPARSE_STRIPE_BITS >> (array & 63);
    return sparse_cells(array) + SPARSE_LINE * line;
}

/* The line where the search for `key` begins; NULL while there is no array. */
static inline struct cell *sparse_place(const struct sparse *sparse, uint64_t key)
{
    uint64_t hash = sparse_hash(key);
    uintptr_t array =
        atomic_load_explicit(&sparse_stripe(sparse, hash)->array, memory_order_acquire);
    return array ? sparse_line(array, hash) : NULL;
}

static inline bool sparse_cell_has(const struct cell *cell, uint64_t key)
{
    return atomic_load_explicit(&cell->key, memory_order_relaxed) == key;
}

/* The search for `key` where it is not in the first line, or is 0, which free cells seem to hold. */
struct entry *sparse_search(const struct sparse *sparse, uint64_t key);

/* The entry of `key`, whose place is known, or NULL. It may be ENTRY_MOVED by the time it is used. */
static inline struct entry *sparse_find_at(const struct sparse *sparse, struct cell *line,
                                           uint64_t key)
{
    if (__builtin_expect(!line || !key, 0))
        return sparse_search(sparse, key);
    unsigned i = sparse_cell_has(&line[1], key) + 2u * sparse_cell_has(&line[2], key) +
                 3u * sparse_cell_has(&line[3], key);
    if (__builtin_expect(!sparse_cell_has(&line[i], key), 0))
        return sparse_search(sparse, key);
    return &line[i].entry;
}

static inline struct entry *sparse_find(const struct sparse *sparse, uint64_t key)
{
    return sparse_find_at(sparse, sparse_place(sparse, key), key);
}

#endif
