/*
 * push - changing the rows of many keys: push and set.
 *
 * A row is latched, changed and released, one at a time. Values that are in the entries themselves
 * are changed by one compare-and-swap. The most common case, adding floats of a common length to rows
 * in their natural places, has loops of its own per instruction set and length (add_body.h), with the
 * addition inlined. Each loop is instantiated per index and kind of change, so that
 * neither choice is made per key. No allocation; a wait for a row another thread is writing gives up
 * the core after a while.
 */
#include <string.h>

#include "store/pipeline.h"

enum change { ADD, ADD_F32, UPDATE, SET };

/* Latches the row of a key, in slabs or in its word, and returns its entry; NULL if it has none. */
INLINE struct entry *latch_row(const struct store *store, uint64_t key, struct entry *entry,
                               uint64_t *word)
{
    for (unsigned tries = 0;; spin_wait(&tries)) {
        *word = entry ? entry_read(entry) : 0;
        if (entry_readable(*word) || entry_is_inline(*word)) {
            if (entry_try_latch(entry, *word))
                return entry;
        } else if (!(*word & ENTRY_LATCHED)) {
            *word = store_look(store, key, &entry);
            if (entry_state(*word) == ENTRY_NONE && !(*word & ENTRY_LATCHED))
                return NULL;
        }
    }
}

/* Prefetches the row an entry leads to. */
INLINE void prefetch_row_of(const struct store *store, const struct entry *entry)
{
    uint64_t word = entry ? entry_read(entry) : 0;
    if (entry_state(word) == ENTRY_OWNED)
        prefetch_row(store, true, entry_slot(word));
}

/* Changes one latched row in slabs. */
INLINE void change_row(struct store *store, enum change change, uint32_t slot, void *row,
                       const void *value)
{
    switch (change) {
    case ADD:
    case ADD_F32:
        store->kernel->add[store->type](row, value, store->length);
        break;
    case UPDATE:
        store->updater.apply(&store->updater, store->type, store->length, row,
                             store_state(store, slot), value);
        break;
    case SET:
        memcpy(row, value, store->value_bytes);
        store_reset_state(store, slot);
        break;
    }
    if (__builtin_expect(store->dirty != NULL, 0))
        store_mark(store, slot);
}

/* Many keys whose entries are known: row i + ROWS_AHEAD is prefetched while row i is changed. */
INLINE size_t rows(struct store *store, enum change change, const uint64_t *keys, size_t n,
                   struct entry *const *entries, const char *values, uint32_t *missed)
{
    size_t n_missed = 0;
    for (size_t i = 0; i < ROWS_AHEAD && i < n; i++)
        prefetch_row_of(store, entries[i]);
    for (size_t i = 0; i < n; i++, values += store->value_bytes) {
        if (i + ROWS_AHEAD < n)
            prefetch_row_of(store, entries[i + ROWS_AHEAD]);
        uint64_t word;
        struct entry *entry = latch_row(store, keys[i], entries[i], &word);
        if (!entry) {
            missed[n_missed++] = (uint32_t)i;
            continue;
        }
        uint32_t slot = entry_slot(word);
        change_row(store, change, slot, slabs_at(&store->rows, slot), values);
        entry_release_same(entry, word);
    }
    return n_missed;
}

/* Many keys of a dense table whose rows are mostly in their natural places. */
INLINE size_t natural_rows(struct store *store, enum change change, const uint64_t *keys, size_t n,
                           const char *values, uint32_t *missed)
{
    size_t n_missed = 0;
    for (size_t i = 0; i < NATURAL_AHEAD && i < n; i++)
        prefetch_natural(store, store->value_bytes, true, keys[i]);
    for (size_t i = 0; i < n; i++, values += store->value_bytes) {
        if (i + NATURAL_AHEAD < n)
            prefetch_natural(store, store->value_bytes, true, keys[i + NATURAL_AHEAD]);
        uint64_t word;
        struct entry *entry = latch_row(store, keys[i], &store->dense[keys[i]], &word);
        if (!entry) {
            missed[n_missed++] = (uint32_t)i;
            continue;
        }
        uint32_t slot = entry_slot(word);
        change_row(store, change, slot, slabs_at(&store->rows, slot), values);
        entry_release_same(entry, word);
    }
    return n_missed;
}

typedef float floats_16 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float floats_32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float unaligned_16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef float unaligned_32 __attribute__((vector_size(32), aligned(1), may_alias));

#define TARGET
#define VECTOR floats_16
#define UNALIGNED unaligned_16
#define NAME(function) function##_with_16
#include "store/add_body.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define VECTOR floats_32
#define UNALIGNED unaligned_32
#define NAME(function) function##_with_32
#include "store/add_body.h"
#endif

add_function *push_add_for(const struct store *store)
{
    if (store->type != TERN_F32 || !store->n_natural || store->updater.apply || store->dirty)
        return NULL;
#if defined(__x86_64__)
    if (store->kernel->vector_bytes >= 32)
        return add_for_with_32(store->value_bytes);
#endif
    return add_for_with_16(store->value_bytes);
}

/* One key without the pipeline. Where the row is in its natural place, it is fetched together with
 * the entry: the latch, a locked instruction, lets nothing after it overlap with the wait. */
INLINE bool one_row(struct store *store, bool sparse, enum change change, uint64_t key,
                    const void *value)
{
    if (!sparse && key - store->home.begin < store->n_natural)
        prefetch_row(store, true, store_natural_slot(store, key));
    uint64_t word;
    struct entry *entry = latch_row(store, key, find(store, sparse, key), &word);
    if (!entry)
        return false;
    uint32_t slot = entry_slot(word);
    change_row(store, change, slot, slabs_at(&store->rows, slot), value);
    entry_release_same(entry, word);
    return true;
}

/* What a value in a word becomes. */
INLINE uint32_t changed_word(enum change change, uint32_t old, const void *value)
{
    uint32_t given;
    memcpy(&given, value, sizeof given);
    if (change == SET)
        return given;
    if (change == ADD)
        return old + given; /* i32 */
    float sum, more;
    memcpy(&sum, &old, sizeof sum);
    memcpy(&more, &given, sizeof more);
    sum += more;
    memcpy(&old, &sum, sizeof old);
    return old;
}

/* Changes the value of one key of a table whose values are in the entries; false if it has none. */
static __attribute__((noinline)) bool change_word_again(struct store *store, enum change change,
                                                        uint64_t key, const void *value)
{
    uint64_t word;
    struct entry *entry = latch_row(store, key, NULL, &word);
    if (!entry)
        return false;
    if (entry_state(word) == ENTRY_INLINE) {
        entry_release(entry, word, ENTRY_INLINE, changed_word(change, entry_slot(word), value));
        return true;
    }
    uint32_t *row = slabs_at(&store->rows, entry_slot(word));
    *row = changed_word(change, *row, value);
    entry_release_same(entry, word);
    return true;
}

INLINE size_t words(struct store *store, bool sparse, enum change change, const uint64_t *keys,
                    size_t n, const uint32_t *values, uint32_t *missed)
{
    union place places[RING];
    size_t n_missed = 0;
    for (size_t i = 0; i < WORDS_AHEAD && i < n; i++)
        prefetch_place(store, sparse, true, keys[i], &places[i]);
    for (size_t i = 0; i < n; i++) {
        size_t ahead = i + WORDS_AHEAD;
        if (ahead < n)
            prefetch_place(store, sparse, true, keys[ahead], &places[ahead % RING]);
        struct entry *entry = entry_at(store, sparse, places[i % RING], keys[i]);
        uint64_t word = !sparse || entry ? entry_read(entry) : 0;
        if (__builtin_expect(entry_is_inline(word), 1)) {
            uint32_t now = changed_word(change, entry_slot(word), &values[i]);
            if (entry_replace_value(entry, word, now))
                continue;
        }
        if (!change_word_again(store, change, keys[i], &values[i]))
            missed[n_missed++] = (uint32_t)i;
    }
    return n_missed;
}

/* One instance of the loop for each index, type and kind of change. */
INLINE size_t change_words(struct store *store, enum change change, const uint64_t *keys, size_t n,
                           const void *values, uint32_t *missed)
{
    bool sparse = store->index == TERN_SPARSE;
    if (change == ADD && store->type == TERN_F32)
        return sparse ? words(store, true, ADD_F32, keys, n, values, missed)
                      : words(store, false, ADD_F32, keys, n, values, missed);
    return sparse ? words(store, true, change, keys, n, values, missed)
                  : words(store, false, change, keys, n, values, missed);
}

/* One instance of each loop for each kind of change. */
INLINE size_t change_keys(struct store *store, enum change change, const uint64_t *keys, size_t n,
                          struct entry *const *entries, const void *values, uint32_t *missed)
{
    if (store->inlined)
        return change_words(store, change, keys, n, values, missed);
    return store->n_natural ? natural_rows(store, change, keys, n, values, missed)
                            : rows(store, change, keys, n, entries, values, missed);
}

size_t store_push(struct store *store, const uint64_t *keys, size_t n, struct entry *const *entries,
                  const void *updates, uint32_t *missed)
{
    if (store->updater.apply)
        return change_keys(store, UPDATE, keys, n, entries, updates, missed);
    if (store->add)
        return store->add(store, keys, n, updates, missed);
    return change_keys(store, ADD, keys, n, entries, updates, missed);
}

size_t store_set(struct store *store, const uint64_t *keys, size_t n, struct entry *const *entries,
                 const void *values, uint32_t *missed)
{
    return change_keys(store, SET, keys, n, entries, values, missed);
}

bool store_push_one(struct store *store, uint64_t key, const void *update)
{
    bool sparse = store->index == TERN_SPARSE;
    if (store->inlined) {
        uint32_t none;
        return !change_words(store, ADD, &key, 1, update, &none);
    }
    if (store->updater.apply)
        return sparse ? one_row(store, true, UPDATE, key, update)
                      : one_row(store, false, UPDATE, key, update);
    return sparse ? one_row(store, true, ADD, key, update)
                  : one_row(store, false, ADD, key, update);
}

INLINE enum tern_status reserve(struct store *store, bool sparse, const uint64_t *keys, size_t n,
                                struct entry **entries)
{
    union place places[RING];
    for (size_t i = 0; i < INDEX_AHEAD && i < n; i++)
        prefetch_place(store, sparse, true, keys[i], &places[i]);
    for (size_t i = 0; i < n; i++) {
        size_t ahead = i + INDEX_AHEAD;
        if (ahead < n)
            prefetch_place(store, sparse, true, keys[ahead], &places[ahead % RING]);
        struct entry *entry = entry_at(store, sparse, places[i % RING], keys[i]);
        if ((!entry || !entry_has_row(entry_read(entry))) && store_is_home(store, keys[i])) {
            enum tern_status status = store_create(store, keys[i]);
            if (status)
                return status;
            entry = find(store, sparse, keys[i]);
        }
        if (entries)
            entries[i] = entry;
    }
    return TERN_OK;
}

enum tern_status store_reserve(struct store *store, const uint64_t *keys, size_t n,
                               struct entry **entries)
{
    if (store->index == TERN_SPARSE)
        return reserve(store, true, keys, n, entries);
    /* A home range that is complete needs neither rows nor, in natural places or the entries
     * themselves, entries. */
    uint64_t n_home = store->home.end - store->home.begin;
    if ((store->n_natural || store->inlined) &&
        atomic_load_explicit(&store->n_rows, memory_order_acquire) == n_home)
        return TERN_OK;
    return reserve(store, false, keys, n, entries);
}
