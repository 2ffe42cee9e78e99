/* sketch - see sketch.h. The second half is the store's access to it. */
#include "store/sketch.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "store/store.h"

enum { GROUP_KEYS = 32 }; /* whose cells are fetched side by side */

uint64_t sketch_width(const struct tern_sketch *options)
{
    return options->width ? options->width : (uint64_t)ceil(exp(1) / options->epsilon);
}

uint32_t sketch_depth(const struct tern_sketch *options)
{
    return options->depth ? options->depth : (uint32_t)ceil(log(1 / options->delta));
}

static uint64_t cells_bytes(const struct tern_table_options *options)
{
    const uint64_t n = sketch_width(&options->sketch) * sketch_depth(&options->sketch);
    return (n * type_bytes(options->type) + 63) / 64 * 64;
}

uint64_t sketch_bytes(const struct tern_table_options *options)
{
    return options->index == TERN_SKETCH
               ? sizeof(struct sketch) + cells_bytes(options) + top_bytes(options->sketch.counters)
               : 0;
}

static struct top *top_of(struct sketch *sketch)
{
    return (struct top *)((char *)sketch + sketch->top_at);
}

void sketch_init(struct sketch *sketch, const struct tern_table_options *options, uint64_t seed)
{
    sketch->seed = hash_u64(options->sketch.seed ? options->sketch.seed : seed);
    sketch->width = sketch_width(&options->sketch);
    sketch->depth = sketch_depth(&options->sketch);
    sketch->is_conservative = options->sketch.conservative;
    sketch->is_wide = options->type == TERN_I64;
    sketch->n_counters = options->sketch.counters;
    sketch->top_at = sizeof *sketch + cells_bytes(options);
    if (sketch->n_counters)
        top_init(top_of(sketch), sketch->n_counters, sketch->seed);
}

/* The cell of a key in a row. */
static inline uint64_t cell_of(const struct sketch *sketch, uint64_t hash, uint32_t row)
{
    const uint64_t own = hash_u64(hash + (row + 1) * UINT64_C(0x9e3779b97f4a7c15));
    return row * sketch->width + (uint64_t)((unsigned __int128)own * sketch->width >> 64);
}

static inline uint64_t hash_of(const struct sketch *sketch, uint64_t key)
{
    return hash_u64(key ^ sketch->seed);
}

/* Cells of 4 and of 8 bytes: the largest number, a cell's count, and how to raise it. */
#define CELLS(suffix, word, most)                                                                 \
    static inline uint64_t read_##suffix(const struct sketch *sketch, uint64_t cell)              \
    {                                                                                             \
        return atomic_load_explicit((const _Atomic word *)sketch->cells + cell,                   \
                                    memory_order_relaxed);                                        \
    }                                                                                             \
    static inline uint64_t add_up_##suffix(uint64_t count, uint64_t n)                            \
    {                                                                                             \
        return n > (most)-count ? (most) : count + n;                                             \
    }                                                                                             \
    static inline void add_##suffix(struct sketch *sketch, uint64_t cell, uint64_t n, bool alone) \
    {                                                                                             \
        _Atomic word *at = (_Atomic word *)sketch->cells + cell;                                  \
        word count = atomic_load_explicit(at, memory_order_relaxed);                              \
        if (alone)                                                                                \
            atomic_store_explicit(at, (word)add_up_##suffix(count, n), memory_order_relaxed);     \
        else                                                                                      \
            while (!atomic_compare_exchange_weak_explicit(                                        \
                at, &count, (word)add_up_##suffix(count, n), memory_order_relaxed,                \
                memory_order_relaxed))                                                            \
                continue;                                                                         \
    }                                                                                             \
    static inline void raise_##suffix(struct sketch *sketch, uint64_t cell, uint64_t to)          \
    {                                                                                             \
        _Atomic word *at = (_Atomic word *)sketch->cells + cell;                                  \
        word count = atomic_load_explicit(at, memory_order_relaxed);                              \
        while (count < to &&                                                                      \
               !atomic_compare_exchange_weak_explicit(at, &count, (word)to, memory_order_relaxed, \
                                                      memory_order_relaxed))                      \
            continue;                                                                             \
    }
CELLS(narrow, uint32_t, (uint64_t)INT32_MAX)
CELLS(wide, uint64_t, (uint64_t)INT64_MAX)
#undef CELLS

static inline uint64_t read_cell(const struct sketch *sketch, bool wide, uint64_t cell)
{
    return wide ? read_wide(sketch, cell) : read_narrow(sketch, cell);
}

/* The lowest of a key's cells. */
static inline uint64_t lowest(const struct sketch *sketch, bool wide, const uint64_t *cells)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t row = 0; row < sketch->depth; row++) {
        const uint64_t count = read_cell(sketch, wide, cells[row]);
        least = count < least ? count : least;
    }
    return least;
}

static inline void find_cells(const struct sketch *sketch, uint64_t key, uint64_t *cells)
{
    const uint64_t hash = hash_of(sketch, key);
    for (uint32_t row = 0; row < sketch->depth; row++)
        cells[row] = cell_of(sketch, hash, row);
}

/* Finds the cells of up to GROUP_KEYS keys and fetches them. */
static inline size_t fetch(const struct sketch *sketch, bool wide, bool write, const uint64_t *keys,
                           size_t n, uint64_t cells[GROUP_KEYS][TERN_MAX_SKETCH_DEPTH])
{
    const size_t most = n < GROUP_KEYS ? n : GROUP_KEYS;
    const size_t bytes = wide ? sizeof(uint64_t) : sizeof(uint32_t);
    for (size_t i = 0; i < most; i++) {
        find_cells(sketch, keys[i], cells[i]);
        for (uint32_t row = 0; row < sketch->depth; row++) {
            const char *at = (const char *)sketch->cells + cells[i][row] * bytes;
            if (write)
                __builtin_prefetch(at, 1);
            else
                __builtin_prefetch(at, 0);
        }
    }
    return most;
}

static inline uint64_t count_at(const void *counts, bool wide, size_t i)
{
    uint64_t count = 0;
    memcpy(&count, (const char *)counts + i * (wide ? 8 : 4), wide ? 8 : 4);
    return count;
}

static bool add_conservatively(struct sketch *sketch, bool wide, uint64_t key,
                               const uint64_t *cells, uint64_t n, struct watch *watch)
{
    struct latch *latch = &sketch->latches[hash_of(sketch, key) % SKETCH_LATCHES].latch;
    if (!latch_take(latch, RANK_SLOTS, watch))
        return false;
    const uint64_t least = lowest(sketch, wide, cells);
    const uint64_t to = wide ? add_up_wide(least, n) : add_up_narrow(least, n);
    for (uint32_t row = 0; row < sketch->depth; row++) {
        if (wide)
            raise_wide(sketch, cells[row], to);
        else
            raise_narrow(sketch, cells[row], to);
    }
    latch_release(latch, RANK_SLOTS);
    return true;
}

static inline __attribute__((always_inline)) bool add_group(
    struct sketch *sketch, bool wide, bool alone, const uint64_t *keys, size_t n,
    const void *counts, size_t first, uint64_t cells[GROUP_KEYS][TERN_MAX_SKETCH_DEPTH],
    struct watch *watch)
{
    bool done = true;
    for (size_t i = 0; i < n && done; i++) {
        const uint64_t count = count_at(counts, wide, first + i);
        if (sketch->is_conservative) {
            done = add_conservatively(sketch, wide, keys[first + i], cells[i], count, watch);
            continue;
        }
        for (uint32_t row = 0; row < sketch->depth; row++) {
            if (wide)
                add_wide(sketch, cells[i][row], count, alone);
            else
                add_narrow(sketch, cells[i][row], count, alone);
        }
    }
    return done;
}

/* While a group's cells are on their way, those of the group before are changed. */
static inline __attribute__((always_inline)) bool add_cells(struct sketch *sketch, bool wide,
                                                            bool alone, const uint64_t *keys,
                                                            size_t n, const void *counts,
                                                            struct watch *watch)
{
    uint64_t cells[2][GROUP_KEYS][TERN_MAX_SKETCH_DEPTH];
    size_t n_before = fetch(sketch, wide, true, keys, n, cells[0]), at = 0;
    bool done = true;
    for (unsigned turn = 1; n_before && done; turn ^= 1) {
        const size_t next = at + n_before;
        const size_t n_next = fetch(sketch, wide, true, keys + next, n - next, cells[turn]);
        done = add_group(sketch, wide, alone, keys, n_before, counts, at, cells[turn ^ 1], watch);
        at = next;
        n_before = n_next;
    }
    return done;
}

/* Tells the counters of the heaviest keys. */
static bool tell_top(struct sketch *sketch, const uint64_t *keys, size_t n, const void *counts,
                     struct watch *watch)
{
    uint64_t cells[TERN_MAX_SKETCH_DEPTH];
    if (!latch_take(&sketch->top_latch.latch, RANK_SLOTS, watch))
        return false;
    for (size_t i = 0; i < n; i++) {
        find_cells(sketch, keys[i], cells);
        top_add(top_of(sketch), keys[i], count_at(counts, sketch->is_wide, i),
                lowest(sketch, sketch->is_wide, cells));
    }
    latch_release(&sketch->top_latch.latch, RANK_SLOTS);
    return true;
}

bool sketch_add(struct sketch *sketch, const uint64_t *keys, size_t n, const void *counts,
                bool alone, struct watch *watch)
{
    const bool done = sketch->is_wide
                          ? (alone ? add_cells(sketch, true, true, keys, n, counts, watch)
                                   : add_cells(sketch, true, false, keys, n, counts, watch))
                          : (alone ? add_cells(sketch, false, true, keys, n, counts, watch)
                                   : add_cells(sketch, false, false, keys, n, counts, watch));
    return done && (!sketch->n_counters || tell_top(sketch, keys, n, counts, watch));
}

void sketch_estimate(const struct sketch *sketch, const uint64_t *keys, size_t n, void *estimates)
{
    uint64_t cells[GROUP_KEYS][TERN_MAX_SKETCH_DEPTH];
    const bool wide = sketch->is_wide;
    const size_t bytes = wide ? sizeof(uint64_t) : sizeof(uint32_t);
    for (size_t at = 0, most; at < n; at += most) {
        most = fetch(sketch, wide, false, keys + at, n - at, cells);
        for (size_t i = 0; i < most; i++) {
            const uint64_t count = lowest(sketch, wide, cells[i]);
            memcpy((char *)estimates + (at + i) * bytes, &count, bytes);
        }
    }
}

bool sketch_heaviest(struct sketch *sketch, size_t k, struct top_counter *to, size_t *n,
                     struct watch *watch)
{
    if (!latch_take(&sketch->top_latch.latch, RANK_SLOTS, watch))
        return false;
    *n = top_heaviest(top_of(sketch), k, to);
    latch_release(&sketch->top_latch.latch, RANK_SLOTS);
    return true;
}

void sketch_clear(struct sketch *sketch)
{
    for (uint64_t i = 0; i < sketch->width * sketch->depth; i++) {
        if (sketch->is_wide)
            atomic_store_explicit((_Atomic uint64_t *)sketch->cells + i, 0, memory_order_relaxed);
        else
            atomic_store_explicit((_Atomic uint32_t *)sketch->cells + i, 0, memory_order_relaxed);
    }
    if (sketch->n_counters)
        top_clear(top_of(sketch));
}

bool sketch_put_heaviest(struct sketch *sketch, struct top_counter counter, struct watch *watch)
{
    if (!sketch->n_counters)
        return true;
    if (!latch_take(&sketch->top_latch.latch, RANK_SLOTS, watch))
        return false;
    top_put(top_of(sketch), counter);
    latch_release(&sketch->top_latch.latch, RANK_SLOTS);
    return true;
}

void sketch_read(const struct sketch *sketch, uint64_t first, size_t n, int64_t *cells)
{
    for (size_t i = 0; i < n; i++)
        cells[i] = (int64_t)read_cell(sketch, sketch->is_wide, first + i);
}

void sketch_merge(struct sketch *sketch, uint64_t first, size_t n, const int64_t *cells)
{
    for (size_t i = 0; i < n; i++) {
        if (sketch->is_wide)
            add_wide(sketch, first + i, (uint64_t)cells[i], false);
        else
            add_narrow(sketch, first + i, (uint64_t)cells[i], false);
    }
}

/* ---- The store's access --------------------------------------------------------------------------- */

static bool pull_one(const struct store *store, uint64_t key, char *value)
{
    sketch_estimate(store->sketch, &key, 1, value);
    return true;
}

static size_t pull_many(const struct store *store, const uint64_t *keys, size_t n, void *values,
                        uint32_t *missed)
{
    (void)missed;
    sketch_estimate(store->sketch, keys, n, values);
    return 0;
}

static size_t add_many(struct store *store, const uint64_t *keys, size_t n,
                       struct entry *const *entries, const void *values, uint32_t *missed,
                       bool exclusive)
{
    (void)entries;
    (void)missed;
    sketch_add(store->sketch, keys, n, values, exclusive, store->watch);
    return 0;
}

static bool add_one(struct store *store, uint64_t key, const void *value, bool exclusive)
{
    sketch_add(store->sketch, &key, 1, value, exclusive, store->watch);
    return true;
}

void store_use_sketch(struct store *store)
{
    store->pull = (struct pull_loops){pull_one, pull_many};
    store->add = (struct add_loops){add_one, add_many};
}

enum tern_status store_check_counts(const struct store *store, const uint64_t *keys, size_t n,
                                    const void *counts)
{
    const bool wide = store->type == TERN_I64;
    uint64_t negative = 0;
    for (size_t i = 0; i < n; i++)
        negative |= count_at(counts, wide, i);
    if (!(negative >> (wide ? 63 : 31)))
        return TERN_OK;
    size_t i = 0;
    while (!(count_at(counts, wide, i) >> (wide ? 63 : 31)))
        i++;
    return fail(TERN_INVALID,
                "table '%s' is a sketch: the count of key %" PRIu64 " at position %zu is negative",
                store->name, keys[i], i);
}
