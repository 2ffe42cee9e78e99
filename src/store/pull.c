/*
 * pull - reading the rows of many keys: the fast path.
 *
 * No latch, no allocation, no call per key. The loops are instantiated per instruction set, because a
 * function call for each row's copy keeps the processor from overlapping the cache misses of
 * successive keys (figures in docs/RATIONALE.md), and per kind of index and common sizes; which
 * instance a store uses is decided when it is made.
 */
#include "store/pull.h"

#include <string.h>

#include "kernel/racy.h"
#include "store/pipeline.h"

/* Stores the value that is in a word; values of callers need no alignment. */
INLINE void put_word(char *value, uint64_t word)
{
    uint32_t bits = entry_slot(word);
    memcpy(value, &bits, sizeof bits);
}

/* Pulls a key whose row was being written or was not where it was looked for; false if it has none. */
static __attribute__((noinline)) bool pull_again(const struct store *store, uint64_t key,
                                                 char *value)
{
    for (unsigned tries = 0;; spin_wait(&tries)) {
        struct entry *entry;
        uint64_t word = store_look(store, key, &entry);
        if (word & ENTRY_LATCHED)
            continue;
        switch (entry_state(word)) {
        case ENTRY_NONE:
            return false;
        case ENTRY_INLINE:
            put_word(value, word);
            return true;
        case ENTRY_OWNED:
            racy_copy_16(value, slabs_at(&store->rows, entry_slot(word)), store->value_bytes);
            if (entry_unchanged(entry, word))
                return true;
            break;
        case ENTRY_MOVED:
            break;
        }
    }
}

/* Values that are in the entries themselves. */
INLINE size_t words(const struct store *store, bool sparse, const uint64_t *keys, size_t n,
                    char *values, uint32_t *missed)
{
    union place places[RING];
    size_t n_missed = 0;
    for (size_t i = 0; i < WORDS_AHEAD && i < n; i++)
        prefetch_place(store, sparse, false, keys[i], &places[i]);
    for (size_t i = 0; i < n; i++) {
        size_t ahead = i + WORDS_AHEAD;
        if (ahead < n)
            prefetch_place(store, sparse, false, keys[ahead], &places[ahead % RING]);
        const struct entry *entry = entry_at(store, sparse, places[i % RING], keys[i]);
        uint64_t word = !sparse || entry ? entry_read(entry) : 0;
        if (__builtin_expect(entry_is_inline(word), 1))
            put_word(values + i * sizeof(uint32_t), word);
        else if (!pull_again(store, keys[i], values + i * sizeof(uint32_t)))
            missed[n_missed++] = (uint32_t)i;
    }
    return n_missed;
}

static size_t words_dense(const struct store *store, const uint64_t *keys, size_t n, void *values,
                          uint32_t *missed)
{
    return words(store, false, keys, n, values, missed);
}

static size_t words_sparse(const struct store *store, const uint64_t *keys, size_t n, void *values,
                           uint32_t *missed)
{
    return words(store, true, keys, n, values, missed);
}

INLINE bool one_word(const struct store *store, bool sparse, uint64_t key, char *value)
{
    const struct entry *entry = find(store, sparse, key);
    uint64_t word = !sparse || entry ? entry_read(entry) : 0;
    if (__builtin_expect(!entry_is_inline(word), 0))
        return pull_again(store, key, value);
    put_word(value, word);
    return true;
}

static bool one_word_dense(const struct store *store, uint64_t key, char *value)
{
    return one_word(store, false, key, value);
}

static bool one_word_sparse(const struct store *store, uint64_t key, char *value)
{
    return one_word(store, true, key, value);
}

#define TARGET
#define COPY racy_copy_16
#define NAME(function) function##_16
#include "store/pull_body.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define COPY racy_copy_32
#define NAME(function) function##_32
#include "store/pull_body.h"

#define TARGET __attribute__((target("avx512f")))
#define COPY racy_copy_64
#define NAME(function) function##_64
#include "store/pull_body.h"
#endif

struct pull_loops pull_loops_for(const struct store *store)
{
    if (store->inlined)
        return store->index == TERN_SPARSE ? (struct pull_loops){one_word_sparse, words_sparse}
                                           : (struct pull_loops){one_word_dense, words_dense};
#if defined(__x86_64__)
    if (store->kernel->vector_bytes == 64)
        return loops_for_64(store);
    if (store->kernel->vector_bytes == 32)
        return loops_for_32(store);
#endif
    return loops_for_16(store);
}
