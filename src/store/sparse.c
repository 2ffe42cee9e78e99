/* sparse - see sparse.h. */
#include "store/sparse.h"

#include "base/pages.h"

enum { FIRST_BITS = 8 }; /* one page */

void sparse_init(struct sparse *sparse)
{
    *sparse = (struct sparse){0};
    pthread_mutex_init(&sparse->lock, NULL);
    for (int i = 0; i < SPARSE_STRIPES; i++)
        pthread_mutex_init(&sparse->stripes[i].lock, NULL);
}

static size_t array_bytes(unsigned bits)
{
    return sizeof(struct cell) << bits;
}

void sparse_fini(struct sparse *sparse)
{
    for (unsigned bits = 0; bits < SPARSE_GROWTHS; bits++)
        pages_free(sparse->arrays[bits], SPARSE_STRIPES * array_bytes(bits));
    for (int i = 0; i < SPARSE_STRIPES; i++)
        pthread_mutex_destroy(&sparse->stripes[i].lock);
    pthread_mutex_destroy(&sparse->lock);
}

/* The array of 2^bits cells for a stripe; NULL when memory is used up. */
static struct cell *stripe_array(struct sparse *sparse, const struct stripe *stripe, unsigned bits)
{
    pthread_mutex_lock(&sparse->lock);
    if (!sparse->arrays[bits])
        sparse->arrays[bits] = pages_new(SPARSE_STRIPES * array_bytes(bits));
    struct cell *arrays = sparse->arrays[bits];
    pthread_mutex_unlock(&sparse->lock);
    return arrays ? arrays + ((size_t)(stripe - sparse->stripes) << bits) : NULL;
}

static struct cell *next_cell(uintptr_t array, struct cell *cell)
{
    struct cell *cells = sparse_cells(array);
    return ++cell == cells + sparse_n_cells(array) ? cells : cell;
}

struct entry *sparse_search(const struct sparse *sparse, uint64_t key)
{
    uint64_t hash = sparse_hash(key);
    const struct stripe *stripe = sparse_stripe(sparse, hash);
    uintptr_t array = atomic_load_explicit(&stripe->array, memory_order_acquire);
    while (array) {
        struct cell *cell = sparse_line(array, hash);
        for (; entry_read(&cell->entry); cell = next_cell(array, cell))
            if (sparse_cell_has(cell, key))
                return &cell->entry;
        uintptr_t now = atomic_load_explicit(&stripe->array, memory_order_acquire);
        if (now == array)
            return NULL;
        array = now;
    }
    return NULL;
}

/* The first free cell for `hash` in an array that nobody else writes to. */
static struct cell *free_cell(uintptr_t array, uint64_t hash)
{
    struct cell *cell = sparse_line(array, hash);
    while (atomic_load_explicit(&cell->entry.word, memory_order_relaxed))
        cell = next_cell(array, cell);
    return cell;
}

/* Moves the stripe into an array of twice the size. The caller holds the stripe's lock. */
static bool grow(struct sparse *sparse, struct stripe *stripe, uint64_t limit_bytes)
{
    uintptr_t array = atomic_load_explicit(&stripe->array, memory_order_relaxed);
    unsigned old_bits = array ? (unsigned)__builtin_ctzll(sparse_n_cells(array)) : 0;
    unsigned bits = array ? old_bits + 1 : FIRST_BITS;
    uint64_t more = array_bytes(bits) - (array ? array_bytes(old_bits) : 0);
    if (atomic_load_explicit(&sparse->bytes, memory_order_relaxed) + more > limit_bytes)
        return false;
    struct cell *cells = stripe_array(sparse, stripe, bits);
    if (!cells)
        return false;
    atomic_fetch_add_explicit(&sparse->bytes, more, memory_order_relaxed);

    uintptr_t grown = (uintptr_t)cells | (64 - (bits - 2));
    struct cell *old = sparse_cells(array);
    for (uint64_t i = 0; array && i < sparse_n_cells(array); i++) {
        if (!atomic_load_explicit(&old[i].entry.word, memory_order_relaxed))
            continue;
        uint64_t key = atomic_load_explicit(&old[i].key, memory_order_relaxed);
        uint64_t word = entry_latch(&old[i].entry);
        struct cell *cell = free_cell(grown, sparse_hash(key));
        atomic_store_explicit(&cell->key, key, memory_order_relaxed);
        atomic_store_explicit(&cell->entry.word, word, memory_order_relaxed);
        entry_release(&old[i].entry, word, ENTRY_MOVED, 0);
    }
    /* Release: partner of the acquire in sparse_place and sparse_search; the new cells are complete. */
    atomic_store_explicit(&stripe->array, grown, memory_order_release);
    if (array)
        pages_drop(old, array_bytes(old_bits));
    return true;
}

static bool is_full(const struct stripe *stripe)
{
    uintptr_t array = atomic_load_explicit(&stripe->array, memory_order_relaxed);
    return !array || stripe->n_keys >= sparse_n_cells(array) / 4 * 3;
}

struct entry *sparse_insert(struct sparse *sparse, uint64_t key, uint64_t limit_bytes)
{
    uint64_t hash = sparse_hash(key);
    struct stripe *stripe = &sparse->stripes[hash >> (64 - SPARSE_STRIPE_BITS)];
    pthread_mutex_lock(&stripe->lock);
    struct entry *entry = sparse_search(sparse, key);
    if (!entry && (!is_full(stripe) || grow(sparse, stripe, limit_bytes))) {
        uintptr_t array = atomic_load_explicit(&stripe->array, memory_order_relaxed);
        struct cell *cell = free_cell(array, hash);
        atomic_store_explicit(&cell->key, key, memory_order_relaxed);
        /* Release: whoever sees the word sees the key. */
        atomic_store_explicit(&cell->entry.word, ENTRY_SEQUENCE, memory_order_release);
        stripe->n_keys++;
        entry = &cell->entry;
    }
    pthread_mutex_unlock(&stripe->lock);
    return entry;
}

void sparse_visit(struct sparse *sparse, void (*visit)(void *, uint64_t key, uint64_t word),
                  void *context)
{
    for (int s = 0; s < SPARSE_STRIPES; s++) {
        struct stripe *stripe = &sparse->stripes[s];
        pthread_mutex_lock(&stripe->lock);
        uintptr_t array = atomic_load_explicit(&stripe->array, memory_order_relaxed);
        struct cell *cells = sparse_cells(array);
        for (uint64_t i = 0; array && i < sparse_n_cells(array); i++) {
            uint64_t word = entry_read(&cells[i].entry);
            if (word)
                visit(context, atomic_load_explicit(&cells[i].key, memory_order_relaxed), word);
        }
        pthread_mutex_unlock(&stripe->lock);
    }
}
