/*
 * pipeline - how the loops of pull.c and push.c hide cache misses.
 *
 * A random row costs two dependent cache misses, the entry's and the row's. Rows in their natural
 * places need one step to hide both: entry and row of a key ahead are prefetched together. Elsewhere
 * keys go in groups through steps that are plain loops: prefetch the places of the entries; find the
 * entries and prefetch the rows; use the rows. While a group is at one step, the next ones are at the
 * steps before. `sparse`, `write` and the sizes of a layout are constants wherever these functions are
 * inlined and speed matters.
 */
#ifndef STORE_PIPELINE_H
#define STORE_PIPELINE_H

#include "store/store.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    GROUP = 16, /* keys that go through the steps together, */
    GROUP_SHORT =
        40, /* and where rows are short: the fewer groups, the fewer ends of loops, which none foretells */
    SHORT_BYTES = 128,
    INDEX_AHEAD = 128, /* keys between the prefetch of a line of the index and its use, where no row
                          follows; a power of two */
    INDEX_AGAIN = 16,  /* the same for a second one to the first cache, before a push */
    ROWS_AHEAD = 28,   /* keys between the prefetch of a row and its use */
    NATURAL_AHEAD = 32, /* the same for rows in their natural slots, entry and row at once */
    WORDS_AHEAD = 24,   /* the same for values that are in the entries of a dense table */
    LINE_BYTES = 64,
    LINES_AHEAD = 32,  /* of a long row; the hardware's own prefetcher follows from there */
    LINES_AT_ONCE = 4, /* the same where there is no key ahead */
};

/* What the loops need to know of a store. A copy, because compilers read what is behind a pointer again
 * after every atomic load. */
struct layout {
    struct entry *entries; /* dense */
    uintptr_t natural;     /* see store.h */
    uint64_t begin, n_natural;
    _Atomic(char *) *directory; /* of the rows (slabs.h) */
    unsigned shift;
    uint32_t mask;
    size_t bytes, stride; /* of a row, and from one to the next */
};

INLINE struct layout layout_of(const struct store *store, size_t bytes, size_t stride)
{
    unsigned shift = __builtin_constant_p(stride) ? slabs_shift(stride) : store->rows.shift;
    return (struct layout){
        .entries = store->dense,
        .natural = store->natural,
        .begin = store->home.begin,
        .n_natural = store->n_natural,
        .directory = store->rows.directory,
        .shift = shift,
        .mask = (UINT32_C(1) << shift) - 1,
        .bytes = bytes,
        .stride = stride,
    };
}

/* The row in a slot; see slabs_at. */
INLINE char *row_at(const struct layout *l, uint32_t slot)
{
    char *slab = atomic_load_explicit(&l->directory[slot >> l->shift], memory_order_relaxed);
    return slab + (slot & l->mask) * l->stride;
}

/* The natural slot of a key's row. */
INLINE char *natural_row(const struct layout *l, uint64_t key)
{
    return (char *)(l->natural + key * l->stride);
}

/* Whether the key's entry, which has `word`, says that the row is there, and nobody is writing it. */
INLINE bool is_natural(const struct layout *l, uint64_t key, uint64_t word)
{
    return (word & (ENTRY_SLOT_MASK | ENTRY_ROW | ENTRY_LATCHED)) ==
           (ENTRY_ROW | (uint32_t)(key - l->begin));
}

INLINE void prefetch(const void *line, bool write)
{
    if (write)
        __builtin_prefetch(line, 1);
    else
        __builtin_prefetch(line, 0);
}

/* The same as far as the second cache, which can wait for more lines at a time than the first. */
INLINE void prefetch_far(const void *line, bool write)
{
    if (write)
        __builtin_prefetch(line, 1, 2);
    else
        __builtin_prefetch(line, 0, 2);
}

INLINE void prefetch_bytes(const char *from, size_t bytes, bool write)
{
    const char *end = from + (bytes < LINES_AHEAD * LINE_BYTES ? bytes : LINES_AHEAD * LINE_BYTES);
    for (; from < end; from += LINE_BYTES)
        prefetch_far(from, write);
}

/* The same for a row that is written at once. */
INLINE void prefetch_at_once(const char *from, size_t bytes)
{
    size_t most = LINES_AT_ONCE * LINE_BYTES;
    for (size_t i = 0; i < bytes && i < most; i += LINE_BYTES)
        prefetch(from + i, true);
}

/* Prefetches entry and row of a dense table's key whose row is in its natural slot. */
INLINE void prefetch_natural(const struct layout *l, bool write, uint64_t key)
{
    prefetch_far(&l->entries[key], write);
    if (__builtin_expect(key - l->begin < l->n_natural, 1))
        prefetch_bytes(natural_row(l, key), l->bytes, write);
}

/* The keys of the group that begins at `at`, at most `most`; none past the end. */
INLINE size_t group_size(size_t n, size_t at, size_t most)
{
    size_t left = at < n ? n - at : 0;
    return left < most ? left : most;
}

/* Prefetches what the look-up of n keys will read, and notes the lines of a sparse index. */
INLINE void place_group(const struct store *store, bool sparse, const uint64_t *keys, size_t n,
                        struct index_line **lines)
{
    const struct sparse *index = store->sparse;
    const uintptr_t uniform = sparse ? sparse_uniform(index) : 0;
    const struct entry *entries = store->dense;
    for (size_t i = 0; i < n; i++) {
        if (sparse)
            lines[i] = sparse_line_by(index, uniform, keys[i]);
        prefetch_far(sparse ? (const void *)lines[i] : &entries[keys[i]], false);
    }
}

/*
 * Where keys need nothing but their lines of the index, a ring of INDEX_AHEAD holds those on their way. The first of n
 * keys are sent for by first_lines; next_line gives the line of the i-th and sends for a later one in its place. They
 * are fetched into the second cache, which can wait for more of them (figures in docs/decisions/005).
 */
INLINE struct index_line *line_ahead(const struct sparse *index, uintptr_t uniform, uint64_t key)
{
    struct index_line *line = sparse_line_by(index, uniform, key);
    prefetch_far(line, false);
    return line;
}

INLINE void first_lines(const struct sparse *index, uintptr_t uniform, const uint64_t *keys,
                        size_t n, struct index_line **ring)
{
    for (size_t i = 0; i < n && i < INDEX_AHEAD; i++)
        ring[i] = line_ahead(index, uniform, keys[i]);
}

INLINE struct index_line *next_line(const struct sparse *index, uintptr_t uniform,
                                    const uint64_t *keys, size_t n, size_t i,
                                    struct index_line **ring)
{
    struct index_line **slot = &ring[i % INDEX_AHEAD], *line = *slot;
    if (__builtin_expect(i + INDEX_AHEAD < n, 1))
        *slot = line_ahead(index, uniform, keys[i + INDEX_AHEAD]);
    return line;
}

#endif
