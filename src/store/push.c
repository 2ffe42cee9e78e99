/*
 * push - changing the rows of many keys: push and set.
 *
 * First all entries are found and missing rows made (store_reserve), which may fail; then values are
 * changed, which may not. A row is latched, changed and released, one at a time. Values that are in the
 * entries themselves are changed by one compare-and-swap. Finding entries, and the most common change,
 * adding floats of a common length, have loops of their own per instruction set and length
 * (push_body.h). Each loop is instantiated per index and kind of change, so that neither choice is made
 * per key. No allocation; a wait for a row another thread is writing gives up the core after a while.
 */
#include <string.h>

#include "store/pipeline.h"
#include "store/repeats.h"

enum { LATER = 64 }; /* keys that are looked for in a second line together */
enum change { ADD, ADD_F32, UPDATE, SET };

/* A latched entry and the word it had; NULL if there was no row to latch. */
struct latched {
    struct entry *entry;
    uint64_t word;
};

/* Latches the row of a key, in slabs or in its word, that is in use or not where it was looked for. */
static __attribute__((noinline)) struct latched latch_again(const struct store *store, uint64_t key,
                                                            struct entry *entry)
{
    for (unsigned tries = 0;; spin_wait(&tries)) {
        uint64_t word = entry ? entry_read(entry) : 0;
        if (!entry_has_row(word) && !(word & ENTRY_LATCHED)) {
            word = store_look(store, key, &entry);
            if (entry_is_absent(word))
                return (struct latched){0};
        }
        if ((entry_readable(word) || entry_is_inline(word)) && entry_try_latch(entry, word))
            return (struct latched){entry, word};
    }
}

/* Latches the row of a key in slabs. Its entry was last seen with `word`, or is NULL. Who is alone needs no
 * latch, but releases it as if there were one. */
INLINE struct latched latch_row(const struct store *store, uint64_t key, struct entry *entry,
                                uint64_t word, bool alone)
{
    if (__builtin_expect(!entry_readable(word), 0) ||
        (!alone && __builtin_expect(!entry_try_latch(entry, word), 0)))
        return latch_again(store, key, entry);
    return (struct latched){entry, word};
}

/* The word of an entry of a sparse index, or 0. */
INLINE uint64_t word_of(const struct entry *entry)
{
    return __builtin_expect(entry != NULL, 1) ? entry_read(entry) : 0;
}

/* Prefetches the row of the i-th key, in its natural place or where its entry says, and with `state`,
 * which is a constant, the updater's. */
INLINE void prefetch_changed(const struct store *store, const struct layout *l, bool natural,
                             bool state, const uint64_t *keys, struct entry *const *entries,
                             size_t i)
{
    uint32_t slot = (uint32_t)(keys[i] - l->begin);
    if (natural) {
        prefetch_natural(l, true, keys[i]);
        if (!state || keys[i] - l->begin >= l->n_natural)
            return;
    } else {
        uint64_t word = word_of(entries[i]);
        if (__builtin_expect(!entry_in_slabs(word), 0))
            return;
        slot = entry_slot(word);
        prefetch_bytes(row_at(l, slot), l->bytes, true);
    }
    if (state && store->states.stride)
        prefetch_bytes(slabs_at(&store->states, slot), store->states.stride, true);
}

/* Changes one latched row in slabs, of an entry that has `word`. What is pushed to a replica of a row
 * with an updater is gathered for the owner, who applies it; the replica's value is as it was. */
INLINE void change_row(struct store *store, enum change change, uint64_t word, void *row,
                       const void *value)
{
    uint32_t slot = entry_slot(word);
    switch (change) {
    case ADD:
    case ADD_F32:
        store->kernel->add[store->type](row, value, store->length);
        break;
    case UPDATE:
        if (__builtin_expect(entry_state(word) == ENTRY_REPLICA, 0))
            store->kernel->add[store->type](slabs_at(&store->bases, slot), value, store->length);
        else
            store->updater.apply(&store->updater, store->type, store->length, row,
                                 store_state(store, slot), value);
        break;
    case SET:
        memcpy(row, value, store->value_bytes);
        store_reset_state(store, slot);
        break;
    }
    if (__builtin_expect((word & ENTRY_TRACKED) != 0, 0))
        store_mark(store, slot);
}

/* Whether a latched row can be changed here. */
INLINE bool can_change(const struct store *store, enum change change, uint64_t word)
{
    return change != SET || entry_state(word) != ENTRY_REPLICA || !store_sets_at_owner(store);
}

/* The rows of n different keys, which come again as `repeats`, or NULL, says; they are mostly in their natural
 * places, or have the entries given. */
INLINE size_t different_rows(struct store *store, bool natural, enum change change,
                             const uint64_t *keys, size_t n, const struct repeats *repeats,
                             struct entry *const *entries, const char *values, uint32_t *missed,
                             bool alone)
{
    struct layout l = layout_of(store, store->value_bytes, store->rows.stride);
    size_t n_missed = 0;
    for (size_t k = 0; k < ROWS_AHEAD && k < n; k++)
        prefetch_changed(store, &l, natural, true, keys, entries, repeats_first(repeats, k));
    for (size_t k = 0; k < n; k++) {
        if (k + ROWS_AHEAD < n)
            prefetch_changed(store, &l, natural, true, keys, entries,
                             repeats_first(repeats, k + ROWS_AHEAD));
        size_t i = repeats_first(repeats, k);
        struct entry *entry = natural ? &l.entries[keys[i]] : entries[i];
        struct latched latched =
            latch_row(store, keys[i], entry, natural ? entry_read(entry) : word_of(entry), alone);
        bool here = latched.entry && can_change(store, change, latched.word);
        do {
            if (here)
                change_row(store, change, latched.word, row_at(&l, entry_slot(latched.word)),
                           values + i * l.bytes);
            else
                missed[n_missed++] = (uint32_t)i;
            i = repeats_next(repeats, i);
        } while (i);
        if (latched.entry)
            entry_release_same(latched.entry, latched.word);
    }
    return n_missed;
}

/* Many keys. Nobody takes a row away from one who is alone, so that repeats cost nothing. */
INLINE size_t rows(struct store *store, bool natural, enum change change, const uint64_t *keys,
                   size_t n, struct entry *const *entries, const char *values, uint32_t *missed,
                   bool alone)
{
    struct repeats repeats;
    if (!alone && repeats_find(&repeats, keys, n))
        return different_rows(store, natural, change, keys, repeats.n, &repeats, entries, values,
                              missed, false);
    return different_rows(store, natural, change, keys, n, NULL, entries, values, missed, alone);
}

/* If the entry of a key at home here, or NULL, shows no row: makes the row, and gives its entry. */
INLINE enum tern_status reserve_one(struct store *store, uint64_t key, struct entry **entry)
{
    if ((*entry && entry_has_row(entry_read(*entry))) || !store_is_home(store, key))
        return TERN_OK;
    enum tern_status status = store_create(store, key);
    *entry = store_find(store, key);
    return status;
}

static enum tern_status reserve_dense(struct store *store, const uint64_t *keys, size_t n,
                                      struct entry **entries)
{
    struct entry *dense = store->dense;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < n; i++) {
        if (i + WORDS_AHEAD < n)
            prefetch(&dense[keys[i + WORDS_AHEAD]], true);
        struct entry *entry = &dense[keys[i]];
        status = reserve_one(store, keys[i], &entry);
        if (entries)
            entries[i] = entry;
    }
    return status;
}

typedef float floats_16 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float floats_32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float unaligned_16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef float unaligned_32 __attribute__((vector_size(32), aligned(1), may_alias));

#define TARGET
#define MATCH sparse_match
#define VECTOR floats_16
#define UNALIGNED unaligned_16
#define NAME(function) function##_with_16
#include "store/push_body.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define MATCH sparse_match_avx2
#define VECTOR floats_32
#define UNALIGNED unaligned_32
#define NAME(function) function##_with_32
#include "store/push_body.h"
#endif

struct add_loops push_add_for(const struct store *store)
{
    if (store->type != TERN_F32 || (store->index == TERN_DENSE && !store->n_natural) ||
        store->updater.apply || store->changed[0].slots)
        return (struct add_loops){0};
#if defined(__x86_64__)
    if (store->kernel->vector_bytes >= 32)
        return add_for_with_32(store);
#endif
    return add_for_with_16(store);
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
    struct latched latched = latch_again(store, key, NULL);
    if (!latched.entry)
        return false;
    uint32_t slot = entry_slot(latched.word);
    if (entry_state(latched.word) == ENTRY_INLINE) {
        entry_release(latched.entry, latched.word, ENTRY_INLINE, changed_word(change, slot, value));
        return true;
    }
    uint32_t *row = slabs_at(&store->rows, slot);
    *row = changed_word(change, *row, value);
    entry_release_same(latched.entry, latched.word);
    return true;
}

/* The values of n different keys, of a dense table or with the entries given. */
INLINE size_t different_words(struct store *store, bool sparse, enum change change,
                              const uint64_t *keys, size_t n, const struct repeats *repeats,
                              struct entry *const *entries, const uint32_t *values,
                              uint32_t *missed, bool alone)
{
    struct entry *dense = store->dense;
    size_t n_missed = 0;
    for (size_t k = 0; k < WORDS_AHEAD && k < n; k++) {
        size_t i = repeats_first(repeats, k);
        prefetch(sparse ? entries[i] : &dense[keys[i]], true);
    }
    for (size_t k = 0; k < n; k++) {
        if (k + WORDS_AHEAD < n) {
            size_t ahead = repeats_first(repeats, k + WORDS_AHEAD);
            prefetch(sparse ? entries[ahead] : &dense[keys[ahead]], true);
        }
        size_t i = repeats_first(repeats, k);
        struct entry *entry = sparse ? entries[i] : &dense[keys[i]];
        uint64_t word = sparse ? word_of(entry) : entry_read(entry);
        if (__builtin_expect(entry_is_inline(word), 1)) {
            uint32_t now = changed_word(change, entry_slot(word), &values[i]);
            for (size_t j = i; (j = repeats_next(repeats, j)) != 0;)
                now = changed_word(change, now, &values[j]);
            if (alone)
                entry_put_value(entry, word, now);
            if (alone || __builtin_expect(entry_replace_value(entry, word, now), 1))
                continue;
        }
        do {
            if (!change_word_again(store, change, keys[i], &values[i]))
                missed[n_missed++] = (uint32_t)i;
            i = repeats_next(repeats, i);
        } while (i);
    }
    return n_missed;
}

INLINE size_t words(struct store *store, bool sparse, enum change change, const uint64_t *keys,
                    size_t n, struct entry *const *entries, const uint32_t *values,
                    uint32_t *missed, bool alone)
{
    struct repeats repeats;
    if (!alone && repeats_find(&repeats, keys, n))
        return different_words(store, sparse, change, keys, repeats.n, &repeats, entries, values,
                               missed, false);
    return different_words(store, sparse, change, keys, n, NULL, entries, values, missed, alone);
}

/* One instance of the loop for each index, type and kind of change. */
INLINE size_t change_words(struct store *store, enum change change, const uint64_t *keys, size_t n,
                           struct entry *const *entries, const void *values, uint32_t *missed,
                           bool alone)
{
    bool sparse = store->index == TERN_SPARSE;
    if (change == ADD && store->type == TERN_F32)
        return sparse ? words(store, true, ADD_F32, keys, n, entries, values, missed, alone)
                      : words(store, false, ADD_F32, keys, n, entries, values, missed, alone);
    return sparse ? words(store, true, change, keys, n, entries, values, missed, alone)
                  : words(store, false, change, keys, n, entries, values, missed, alone);
}

/* One instance of each loop for each kind of change. */
INLINE size_t change_keys(struct store *store, enum change change, const uint64_t *keys, size_t n,
                          struct entry *const *entries, const void *values, uint32_t *missed,
                          bool alone)
{
    if (store->inlined)
        return change_words(store, change, keys, n, entries, values, missed, alone);
    return store->n_natural ? rows(store, true, change, keys, n, entries, values, missed, alone)
                            : rows(store, false, change, keys, n, entries, values, missed, alone);
}

INLINE size_t push_keys(struct store *store, const uint64_t *keys, size_t n,
                        struct entry *const *entries, const void *updates, uint32_t *missed,
                        bool alone)
{
    if (store->updater.apply)
        return change_keys(store, UPDATE, keys, n, entries, updates, missed, alone);
    if (store->add.many)
        return store->add.many(store, keys, n, entries, updates, missed, alone);
    return change_keys(store, ADD, keys, n, entries, updates, missed, alone);
}

size_t store_push(struct store *store, const uint64_t *keys, size_t n, struct entry *const *entries,
                  const void *updates, uint32_t *missed)
{
    return push_keys(store, keys, n, entries, updates, missed, false);
}

size_t store_push_alone(struct store *store, const uint64_t *keys, size_t n,
                        struct entry *const *entries, const void *updates, uint32_t *missed)
{
    return push_keys(store, keys, n, entries, updates, missed, true);
}

size_t store_set(struct store *store, const uint64_t *keys, size_t n, struct entry *const *entries,
                 const void *values, uint32_t *missed)
{
    return change_keys(store, SET, keys, n, entries, values, missed, false);
}

size_t store_set_alone(struct store *store, const uint64_t *keys, size_t n,
                       struct entry *const *entries, const void *values, uint32_t *missed)
{
    return change_keys(store, SET, keys, n, entries, values, missed, true);
}

/* One key of a table that has no loop of its own for it. */
static __attribute__((noinline)) bool push_one(struct store *store, uint64_t key,
                                               const void *update, bool alone)
{
    struct entry *entry = store_find(store, key);
    uint32_t none;
    return !change_keys(store, store->updater.apply ? UPDATE : ADD, &key, 1, &entry, update, &none,
                        alone);
}

bool store_push_one(struct store *store, uint64_t key, const void *update)
{
    return store->add.one ? store->add.one(store, key, update, false)
                          : push_one(store, key, update, false);
}

bool store_push_one_alone(struct store *store, uint64_t key, const void *update)
{
    return store->add.one ? store->add.one(store, key, update, true)
                          : push_one(store, key, update, true);
}

enum tern_status store_reserve(struct store *store, const uint64_t *keys, size_t n,
                               struct entry **entries)
{
    /* A dense home range that is complete needs neither rows nor, in natural places or the entries
     * themselves, entries. */
    uint64_t n_home = store->home.end - store->home.begin;
    if (store->index == TERN_DENSE)
        return (store->n_natural || store->inlined) &&
                       atomic_load_explicit(&store->n_rows, memory_order_acquire) == n_home
                   ? TERN_OK
                   : reserve_dense(store, keys, n, entries);
#if defined(__x86_64__)
    if (store->kernel->vector_bytes >= 32)
        return reserve_sparse_with_32(store, keys, n, entries);
#endif
    return reserve_sparse_with_16(store, keys, n, entries);
}

bool store_set_one(struct store *store, uint64_t key, const void *value)
{
    struct entry *entry;
    store_look(store, key, &entry);
    uint32_t none;
    return !change_keys(store, SET, &key, 1, &entry, value, &none, false);
}
