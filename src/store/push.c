/*
 * push - changing the rows of many keys: push and set.
 *
 * A row is latched, changed and released, one at a time. Values that are in the entries themselves
 * are changed by one compare-and-swap. Each loop is instantiated per index and kind of change, so that
 * neither choice is made per key. No allocation; a wait for a row another thread is writing gives up
 * the core after a while.
 */
#include <string.h>

#include "store/pipeline.h"

enum change { ADD, UPDATE, SET };

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
INLINE uint32_t changed_word(const struct store *store, enum change change, uint32_t old,
                             const void *value)
{
    uint32_t given;
    memcpy(&given, value, sizeof given);
    if (change == SET)
        return given;
    if (store->type == TERN_I32)
        return old + given;
    float sum, more;
    memcpy(&sum, &old, sizeof sum);
    memcpy(&more, &given, sizeof more);
    sum += more;
    memcpy(&old, &sum, sizeof old);
    return old;
}

/* Changes the value of one key of a table whose values are in the entries; false if it has none. */
static bool change_word_again(struct store *store, enum change change, uint64_t key,
                              const void *value)
{
    uint64_t word;
    struct entry *entry = latch_row(store, key, NULL, &word);
    if (!entry)
        return false;
    if (entry_state(word) == ENTRY_INLINE) {
        entry_release(entry, word, ENTRY_INLINE,
                      changed_word(store, change, entry_slot(word), value));
        return true;
    }
    uint32_t *row = slabs_at(&store->rows, entry_slot(word));
    *row = changed_word(store, change, *row, value);
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
            uint32_t now = changed_word(store, change, entry_slot(word), &values[i]);
            if (entry_replace_value(entry, word, now))
                continue;
        }
        if (!change_word_again(store, change, keys[i], &values[i]))
            missed[n_missed++] = (uint32_t)i;
    }
    return n_missed;
}

/* One instance of each loop for each kind of change. */
INLINE size_t change_keys(struct store *store, enum change change, const uint64_t *keys, size_t n,
                          struct entry *const *entries, const void *values, uint32_t *missed)
{
    if (store->inlined)
        return store->index == TERN_SPARSE ? words(store, true, change, keys, n, values, missed)
                                           : words(store, false, change, keys, n, values, missed);
    return store->n_natural ? natural_rows(store, change, keys, n, values, missed)
                            : rows(store, change, keys, n, entries, values, missed);
}

size_t store_push(struct store *store, const uint64_t *keys, size_t n, struct entry *const *entries,
                  const void *updates, uint32_t *missed)
{
    if (store->updater.apply)
        return change_keys(store, UPDATE, keys, n, entries, updates, missed);
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
        return sparse ? !words(store, true, ADD, &key, 1, update, &none)
                      : !words(store, false, ADD, &key, 1, update, &none);
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
    /* A home range that is complete needs neither rows nor entries. */
    if (store->n_natural &&
        atomic_load_explicit(&store->n_rows, memory_order_acquire) == store->n_natural)
        return TERN_OK;
    return reserve(store, false, keys, n, entries);
}
