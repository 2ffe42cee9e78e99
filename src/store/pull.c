/*
 * pull - reading the rows of many keys: the fast path.
 *
 * No latch, no allocation, no call per key. The loops are instantiated per instruction set, because a
 * function call for each row's copy keeps the processor from overlapping the cache misses of
 * successive keys (figures in docs/decisions/001), and per kind of index and common sizes; which
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

/* Pulls a key whose row was being written or was not where it was looked for; false if it has none, or the wait was
 * given up. */
static __attribute__((noinline)) bool pull_again(const struct store *store, uint64_t key,
                                                 char *value)
{
    for (struct spin spin = {0};;) {
        struct entry *entry;
        uint64_t word = store_look(store, key, &entry);
        switch (word & ENTRY_LATCHED ? ENTRY_MOVED : entry_state(word)) {
        case ENTRY_NONE:
        case ENTRY_ELSEWHERE:
            return false;
        case ENTRY_INLINE:
            put_word(value, word);
            return true;
        case ENTRY_OWNED:
        case ENTRY_SHARED:
        case ENTRY_REPLICA:
            racy_copy_16(value, slabs_at(&store->rows, entry_slot(word)), store->value_bytes);
            if (entry_unchanged(entry, word))
                return true;
            break;
        case ENTRY_MOVED: /* or latched */
            break;
        }
        if (!spin_again(&spin, store->watch)) {
            if (fault(FAULT_TORN_ROW_READ) && entry_in_slabs(word))
                memcpy(value, slabs_at(&store->rows, entry_slot(word)), store->value_bytes);
            return fault(FAULT_TORN_ROW_READ) && entry_in_slabs(word);
        }
    }
}

/* Pulls those of `keys` again whose positions a loop has noted; leaves and counts those without a row. */
static __attribute__((noinline)) size_t pull_missed(const struct store *store, const uint64_t *keys,
                                                    char *values, uint32_t *missed, size_t n)
{
    size_t n_missed = 0;
    for (size_t i = 0; i < n; i++)
        if (!pull_again(store, keys[missed[i]], values + missed[i] * store->value_bytes))
            missed[n_missed++] = missed[i];
    return n_missed;
}

/* Reads a value that is in its entry; false if the key has none. */
INLINE bool one_word(const struct store *store, const struct entry *entry, uint64_t key,
                     char *value)
{
    uint64_t word = entry ? entry_read(entry) : 0;
    if (__builtin_expect(!entry_is_inline(word), 0))
        return pull_again(store, key, value);
    put_word(value, word);
    return true;
}

static bool one_word_dense(const struct store *store, uint64_t key, char *value)
{
    return one_word(store, &store->dense[key], key, value);
}

static size_t words_dense(const struct store *store, const uint64_t *keys, size_t n, void *values,
                          uint32_t *missed)
{
    size_t n_missed = 0;
    const struct entry *entries = store->dense;
    for (size_t i = 0; i < WORDS_AHEAD && i < n; i++)
        prefetch(&entries[keys[i]], false);
    for (size_t i = 0; i < n; i++) {
        if (i + WORDS_AHEAD < n)
            prefetch(&entries[keys[i + WORDS_AHEAD]], false);
        uint64_t word = entry_read(&entries[keys[i]]);
        if (__builtin_expect(entry_is_inline(word), 1))
            put_word((char *)values + i * sizeof(uint32_t), word);
        else
            missed[n_missed++] = (uint32_t)i;
    }
    return pull_missed(store, keys, values, missed, n_missed);
}

/* The keys of a group between the steps of a pull. */
struct group {
    struct index_line *lines[GROUP_SHORT];
    struct entry *entries[GROUP_SHORT];
    uint64_t words[GROUP_SHORT];   /* of the entries, when the rows were prefetched */
    const char *rows[GROUP_SHORT]; /* NULL: there was nothing to copy */
    uint8_t later[GROUP_SHORT];    /* the keys that are not in their lines */
    size_t n_later;
};

/* Notes and prefetches the row that the entry of the i-th key leads to. */
INLINE void fetch_row(const struct layout *l, struct entry *entry, struct group *group, size_t i)
{
    uint64_t word = entry ? entry_read(entry) : 0;
    const char *row = NULL;
    if (__builtin_expect(entry_readable(word), 1)) {
        row = row_at(l, entry_slot(word));
        prefetch_bytes(row, l->bytes, false);
    }
    group->entries[i] = entry;
    group->words[i] = word;
    group->rows[i] = row;
}

/* Whether a word names the row that it named when it was seen before, and nobody is writing it. */
INLINE bool same_row(uint64_t word, uint64_t seen)
{
    return !((word ^ seen) & ~ENTRY_SEQUENCE_MASK);
}

#define TARGET
#define COPY racy_copy_16
#define MATCH sparse_match
#define NAME(function) function##_16
#include "store/pull_body.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define COPY racy_copy_32
#define MATCH sparse_match_avx2
#define NAME(function) function##_32
#include "store/pull_body.h"

#define TARGET __attribute__((target("avx512f")))
#define COPY racy_copy_64
#define MATCH sparse_match_avx2
#define NAME(function) function##_64
#include "store/pull_body.h"
#endif

struct pull_loops pull_loops_for(const struct store *store)
{
#if defined(__x86_64__)
    if (store->kernel->vector_bytes == 64)
        return loops_for_64(store);
    if (store->kernel->vector_bytes == 32)
        return loops_for_32(store);
#endif
    return loops_for_16(store);
}

static bool one_guarded(const struct store *store, uint64_t key, char *value)
{
    for (;;) {
        const uint64_t n_rebuilt = sparse_n_rebuilt(store->sparse);
        const bool found = store->pull_unguarded.one(store, key, value);
        if (sparse_is_as_before(store->sparse, n_rebuilt))
            return found;
    }
}

/* Keys that were read while a part of the index was rebuilt are read again one by one: that takes less time than it takes
 * until the next part is. */
static size_t many_guarded(const struct store *store, const uint64_t *keys, size_t n, void *values,
                           uint32_t *missed)
{
    const uint64_t n_rebuilt = sparse_n_rebuilt(store->sparse);
    size_t n_missed = store->pull_unguarded.many(store, keys, n, values, missed);
    if (sparse_is_as_before(store->sparse, n_rebuilt))
        return n_missed;
    n_missed = 0;
    for (size_t i = 0; i < n; i++)
        if (!one_guarded(store, keys[i], (char *)values + i * store->value_bytes))
            missed[n_missed++] = (uint32_t)i;
    return n_missed;
}

void pull_guard(struct store *store)
{
    store->pull_unguarded = store->pull;
    store->pull = (struct pull_loops){one_guarded, many_guarded};
}
