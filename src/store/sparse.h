/*
 * sparse - the index of a table whose keys may be any 64-bit number.
 *
 * The keys are cut by hash into stripes. A stripe is one open-addressing array of lines, a cache line
 * each: four keys, then their entries. The hash points to a line. A key is there if there was room, as
 * for nearly all, and the four keys of a line are compared at once; else in its buddy, the other line
 * of an aligned pair; else in the first line of the following pairs that had room. An array doubles
 * when it is three quarters full; stripes grow one by one, so nobody waits for a whole table to be
 * rehashed. The arrays of one size of all stripes lie side by side, in the order of the hash, so that
 * they can share huge pages, and a line's number is the upper bits of the hash; equal hashing makes the
 * stripes reach that size together.
 *
 * Lookups take no lock:
 *
 *  1. The cells of a line are used in order, each once: first the key, then, released, the entry's
 *     word, which is never zero again. A cell whose word is zero has no row, whatever its key.
 *  2. To grow, a stripe latches its latch stripe (latch_stripes.h), then every entry of the old array and marks it
 *     ENTRY_MOVED, copies the words to the new array and publishes that. Whoever meets ENTRY_MOVED looks
 *     the key up again.
 *  3. Old arrays keep their addresses until the index ends, so a late reader touches valid memory; but
 *     their pages are given back and read as zero. A reader that was copying a row sees the word
 *     change and tries again; a writer's compare-and-swap fails likewise. An entry that is found and
 *     reads as zero is such a one, too: the key is looked up again (store_look).
 *  4. Hence "not found" is true only if the array is still the published one afterwards.
 *  5. Key 0, which free cells seem to hold, has the very first cell from the beginning, so whoever looks
 *     for it from its first line on, and takes the first cell that matches, never takes a free one. A
 *     stripe without an array has lines with keys that nobody looks for there. So a look-up that begins
 *     with the first line needs to test for neither.
 *
 * Insertion and growth hold the stripe's latch. No thread takes it while it holds an entry's latch.
 *
 * An index that *reuses* cells (of a table whose rows are evicted: evict.h) has two arrays of each size. A full stripe of which
 * an eighth has no row any more is not doubled but *rebuilt*: its cells with rows move to the other array of the same size,
 * and the cells without are left behind. So a cell that was found may hold another key by the time it is used:
 *
 *  6. `n_rebuilt` is raised before a rebuild writes to an array that was in use before. A look-up without a latch during which
 *     it has not changed found a cell of its key, or found rightly that there is none.
 *  7. A thread that has latched an entry that it found then checks the cell's key (sparse_key_of), which no longer changes.
 *     Only an entry that names a row, or that no key has, is latched: a word of zero or ENTRY_MOVED is left alone.
 *
 * An index may be in memory that several processes map at different addresses (shared.h). So arrays are given by their
 * distance from the index, and lie where all processes know: the lines of a size behind those of all smaller ones. A
 * process that dies while it inserts or grows leaves latches that nobody frees: what it left undone is never seen, and
 * waits for it are given up (base/spin.h).
 *
 * Not so if the index is *gated*: whoever inserts into a stripe, visits it or latches an entry of it holds the stripe's gate
 * (undo.h), and the index has no latches of its own. A growing stripe says where it grows to, and moves cell by cell: first the
 * new cell is complete, then the old one is marked. So another process can finish what a dead one has left (sparse_mend).
 *
 * The hash is one multiplication, since it is on the way of every access, by a number that is secret and differs
 * between tables. A stream of keys that collide can then not be made up by those who send keys. Keys in a row are
 * spread as evenly as by the golden ratio: of the secret fraction of 2^64, too, all partial quotients are small.
 */
#ifndef STORE_SPARSE_H
#define STORE_SPARSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/latch.h"
#include "store/latch_stripes.h"

enum {
    SPARSE_STRIPE_BITS = 6,
    SPARSE_STRIPES = 1 << SPARSE_STRIPE_BITS,
    SPARSE_SIZES = 48,
    SPARSE_CELLS = 4 /* of a line */
};

struct index_line {
    _Atomic uint64_t keys[SPARSE_CELLS];
    struct entry entries[SPARSE_CELLS];
} __attribute__((aligned(64)));

struct stripe {
    uint64_t n_keys;
    struct latch latch;
    _Atomic uintptr_t
        grows_to; /* of a gated index: what is to be in `arrays`; 0: it does not grow */
} __attribute__((aligned(64)));

struct sparse {
    /* Of each stripe: the distance from here to where the lines of its size begin, of all stripes that have reached it,
     * plus the number of bits by which to shift a hash to get the number of its line. */
    _Atomic uintptr_t arrays[SPARSE_STRIPES];
    _Atomic uintptr_t uniform; /* what all of these are; 0 while they differ */
    uint64_t multiplier;       /* of the hash; odd */
    struct stripe stripes[SPARSE_STRIPES];
    struct index_line none[4]
        __attribute__((aligned(128))); /* what a stripe has before its first array: pairs */
    struct latch_stripe latch_stripes[LATCH_STRIPES]; /* of inline values: some stripes each */
    _Atomic uint64_t bytes; /* memory of the published arrays, and what sparse_take was asked for */
    _Atomic uint64_t n_rebuilt;
    bool reuses, is_gated;
    struct latch latch;                        /* taken inside a stripe's; guards `uniform` and: */
    struct index_line *lines[2][SPARSE_SIZES]; /* lines[.][i]: 2^i, for all stripes together */
    /* In shared memory, instead: log2 of the lines of the largest size there can be, and the distance to their room. */
    unsigned room_bits;
    size_t room;
};

/* `seed` makes the hash; 0 is the one that is no secret. */
void sparse_init(struct sparse *sparse, uint64_t seed, bool reuses);
void sparse_fini(struct sparse *sparse);

/* The same for an index in shared memory; it has room for sparse_room_bytes at `room`, zeroed. There is nothing to end:
 * processes leave one by one. */
void sparse_init_shared(struct sparse *sparse, struct index_line *room, unsigned room_bits,
                        uint64_t seed, bool reuses, bool is_gated);
size_t sparse_room_bytes(unsigned room_bits, bool reuses);

/* log2 of the lines, of all stripes together, that surely hold so many keys. */
unsigned sparse_bits_for(uint64_t n_keys);

/* Counts so many bytes more, of the index or of rows, unless there would be more than limit_bytes; false then. */
bool sparse_take(struct sparse *sparse, uint64_t bytes, uint64_t limit_bytes);

/* The entry of `key`, made if it is not there. NULL when memory, of which `limit_bytes` may be counted, runs out, or a
 * wait was given up. A new entry has no row (ENTRY_NONE). */
struct entry *sparse_insert(struct sparse *sparse, uint64_t key, uint64_t limit_bytes,
                            struct watch *watch);

/* Calls visit(context, key, word) for every key that was there all the time, in no order; key 0 may be
 * among them without ever having been inserted, and has no row then. Ends early if a wait is given up. */
void sparse_visit(struct sparse *sparse, void (*visit)(void *, uint64_t key, uint64_t word),
                  void *context, struct watch *watch);

/* The same for n lines of a stripe from line `first` on; false if a wait was given up. */
bool sparse_visit_lines(struct sparse *sparse, unsigned stripe, uint64_t first, uint64_t n,
                        void (*visit)(void *, uint64_t key, uint64_t word), void *context,
                        struct watch *watch);

/* Finishes what a process that is gone has left undone in a stripe of a gated index. The caller holds the gate. */
void sparse_mend(struct sparse *sparse, unsigned stripe);

/* The lines that a stripe has by now. */
uint64_t sparse_lines(const struct sparse *sparse, unsigned stripe);

/* See rule 6. Acquire: partner of the fence in rebuild. */
static inline uint64_t sparse_n_rebuilt(const struct sparse *sparse)
{
    return atomic_load_explicit(&sparse->n_rebuilt, memory_order_acquire);
}

/* Whether nothing was rebuilt since it was `before`. As with entry_unchanged, the fence keeps the look-up before the load. */
static inline bool sparse_is_as_before(const struct sparse *sparse, uint64_t before)
{
#if ENTRY_NO_FENCES
    return atomic_load_explicit(&sparse->n_rebuilt, memory_order_acquire) == before;
#else
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&sparse->n_rebuilt, memory_order_relaxed) == before;
#endif
}

/* The key of the cell that an entry is in. */
static inline uint64_t sparse_key_of(const struct entry *entry)
{
    const struct index_line *line =
        (const struct index_line *)((uintptr_t)entry & ~(uintptr_t)(sizeof *line - 1));
    return atomic_load_explicit(&line->keys[entry - line->entries], memory_order_relaxed);
}

/* The keys' own hash: its upper bits choose the stripe, those below the line. Each bit of a key counts in the bits of
 * the product from there on upwards, so all of them in the bits that are used. */
static inline uint64_t sparse_hash(const struct sparse *sparse, uint64_t key)
{
    return key * sparse->multiplier;
}

/* The stripe of a key. */
static inline unsigned sparse_stripe(const struct sparse *sparse, uint64_t key)
{
    return (unsigned)(sparse_hash(sparse, key) >> (64 - SPARSE_STRIPE_BITS));
}

/* The latch stripe of a key: that of its stripe. */
static inline unsigned sparse_latch_stripe(const struct sparse *sparse, uint64_t key)
{
    return (unsigned)(sparse_hash(sparse, key) >> (64 - LATCH_STRIPE_BITS));
}

static inline struct index_line *sparse_line_of(uintptr_t array, uint64_t hash)
{
    return (struct index_line *)(array & ~(uintptr_t)63) + (hash >> (array & 63));
}

/* The array of a stripe: its address, and the bits to shift by. Acquire: partner of the release in grow. */
static inline uintptr_t sparse_array(const struct sparse *sparse, uint64_t stripe)
{
    return (uintptr_t)sparse + atomic_load_explicit(&sparse->arrays[stripe], memory_order_acquire);
}

/* The line where the search for `key` begins. */
static inline struct index_line *sparse_line(const struct sparse *sparse, uint64_t key)
{
    uint64_t hash = sparse_hash(sparse, key);
    return sparse_line_of(sparse_array(sparse, hash >> (64 - SPARSE_STRIPE_BITS)), hash);
}

/* For loops over many keys: the address of the arrays of all stripes, while they are of one size, or 0; and the line of a
 * key by it. As with a stripe's own, a stripe may have grown since. Acquire: as above. */
static inline uintptr_t sparse_uniform(const struct sparse *sparse)
{
    uintptr_t uniform = atomic_load_explicit(&sparse->uniform, memory_order_acquire);
    return uniform ? uniform + (uintptr_t)sparse : 0;
}

static inline struct index_line *sparse_line_by(const struct sparse *sparse, uintptr_t uniform,
                                                uint64_t key)
{
    return __builtin_expect(uniform != 0, 1) ? sparse_line_of(uniform, sparse_hash(sparse, key))
                                             : sparse_line(sparse, key);
}

/* The line where it goes on. */
static inline struct index_line *sparse_buddy(struct index_line *line)
{
    return (struct index_line *)((uintptr_t)line ^ sizeof *line);
}

/* The line after that of which `line` and its buddy are a pair; but for the last pair of a stripe, where
 * it is one that a search does not go to. */
static inline const struct index_line *sparse_next(const struct index_line *line)
{
    return (const struct index_line *)((uintptr_t)line | sizeof *line) + 1;
}

/* Which cells of a line hold `key`, a bit for each. The lowest is the one; others are free cells. */
static inline unsigned sparse_match(const struct index_line *line, uint64_t key)
{
#define HAS(i) \
    ((unsigned)(atomic_load_explicit(&line->keys[i], memory_order_relaxed) == key) << (i))
    return HAS(0) | HAS(1) | HAS(2) | HAS(3);
#undef HAS
}

/* The same in one comparison. C does not call the load of a vector atomic, but this machine splits none
 * of its aligned 8 bytes (kernel/racy.h says more). ThreadSanitizer gets to see the one above. */
#if defined(__x86_64__) && !ENTRY_NO_FENCES
static inline __attribute__((always_inline, target("avx2"))) unsigned sparse_match_avx2(
    const struct index_line *line, uint64_t key)
{
    typedef long long four_keys __attribute__((vector_size(32), may_alias));
    four_keys keys = *(const volatile four_keys *)line->keys;
    long long k = (long long)key;
    return (unsigned)_mm256_movemask_pd((__m256d)(keys == (four_keys){k, k, k, k}));
}
#elif defined(__x86_64__)
#define sparse_match_avx2 sparse_match
#endif

static inline struct entry *sparse_matched(struct index_line *line, unsigned match)
{
    fault_point();
    return &line->entries[__builtin_ctz(match) & (SPARSE_CELLS - 1)];
}

/* The whole search for `key`; NULL if it is not there. */
struct entry *sparse_search(const struct sparse *sparse, uint64_t key);

/* The entry of `key`, or NULL. It may be ENTRY_MOVED by the time it is used. */
static inline struct entry *sparse_find(const struct sparse *sparse, uint64_t key)
{
    struct index_line *line = sparse_line(sparse, key);
    unsigned match = sparse_match(line, key);
    return match ? sparse_matched(line, match) : sparse_search(sparse, key);
}

#endif
