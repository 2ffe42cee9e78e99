/*
 * latch - what it is worth that readers take no latch (docs/decisions/001).
 *
 *   sequence  the store's reader: read the entry, copy the row, read the entry
 * again latch     the same loop with the entry's latch: compare-and-swap, copy,
 * release call      the store's way with the copy of each row behind a function
 * call raw       a prefetching copy out of a plain array, without protection
 *
 * Values of 4 bytes are in the entries, where the store's reader needs one load
 * and no copy.
 */
#include "measure.h"

#include "kernel/racy.h"

enum protection { NOTHING, LATCH, SEQUENCE_AND_CALL };

struct loops {
    read_loop *latched, *called, *raw;
};

/* Fetches what a loop will touch; a latch is going to be written. */
INLINE void prefetch_protected(const struct subject *subject, enum protection protection,
                               size_t bytes, uint64_t key)
{
    const struct store *store = &subject->store;
    if (protection == LATCH)
        __builtin_prefetch(&store->dense[key], 1);
    else if (protection == SEQUENCE_AND_CALL)
        __builtin_prefetch(&store->dense[key], 0);
    const char *row =
        protection == NOTHING ? subject->array + key * bytes : store_natural(store, key);
    prefetch_bytes(row, bytes, false);
}

/* Releases a latch under which nothing was changed. Release: the copy comes
 * before. */
INLINE void put_back(struct entry *entry, uint64_t word)
{
    atomic_store_explicit(&entry->word, word, memory_order_release);
}

static void words_latched(const struct subject *subject, const uint64_t *keys, size_t n,
                          char *values)
{
    struct entry *entries = subject->store.dense;
    for (size_t i = 0; i < WORDS_AHEAD && i < n; i++)
        __builtin_prefetch(&entries[keys[i]], 1);
    for (size_t i = 0; i < n; i++) {
        if (i + WORDS_AHEAD < n)
            __builtin_prefetch(&entries[keys[i + WORDS_AHEAD]], 1);
        uint64_t word;
        entry_latch(&entries[keys[i]], NULL, &word);
        ((uint32_t *)values)[i] = entry_slot(word);
        put_back(&entries[keys[i]], word);
    }
}

static void words_raw(const struct subject *subject, const uint64_t *keys, size_t n, char *values)
{
    const uint32_t *array = (const uint32_t *)subject->array;
    for (size_t i = 0; i < WORDS_AHEAD && i < n; i++)
        __builtin_prefetch(&array[keys[i]], 0);
    for (size_t i = 0; i < n; i++) {
        if (i + WORDS_AHEAD < n)
            __builtin_prefetch(&array[keys[i + WORDS_AHEAD]], 0);
        ((uint32_t *)values)[i] = array[keys[i]];
    }
}

#define TARGET
#define COPY racy_copy_16
#define NAME(function) function##_16
#include "latch_body.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define COPY racy_copy_32
#define NAME(function) function##_32
#include "latch_body.h"

#define TARGET __attribute__((target("avx512f")))
#define COPY racy_copy_64
#define NAME(function) function##_64
#include "latch_body.h"
#endif

/* The loops of the instruction set that the store uses. */
static const struct loops *loops_for(const struct store *store)
{
#if defined(__x86_64__)
    if (store->kernel->vector_bytes == 64)
        return &loops_64;
    if (store->kernel->vector_bytes == 32)
        return &loops_32;
#endif
    return &loops_16;
}

static void compare(uint32_t length, bool json)
{
    struct subject subject;
    subject_open(&subject, length, (struct tern_updater){0}, NULL);
    subject_add_array(&subject);
    const struct loops *loops = loops_for(&subject.store);
    struct contender rows[] = {{"sequence", read_store, &subject},
                               {"latch", loops->latched, &subject},
                               {"raw", loops->raw, &subject},
                               {"call", loops->called, &subject}};
    struct contender words[] = {{"sequence", read_store, &subject},
                                {"latch", words_latched, &subject},
                                {"raw", words_raw, &subject}};
    if (subject.store.inlined)
        measure_all(words, sizeof words / sizeof words[0], "latch", json);
    else
        measure_all(rows, sizeof rows / sizeof rows[0], "latch", json);
    subject_close(&subject);
}

int main(int argc, char **argv)
{
    bool json = json_wanted(argc, argv);
    compare(1, json);
    compare(32, json);
    compare(128, json);
    return 0;
}
