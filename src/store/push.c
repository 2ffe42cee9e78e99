/*
 * push - changing the rows of many keys: push and set.
 *
 * First all entries are found and missing rows made (store_reserve), which may fail; then values are
 * changed, which may not. A row is latched, changed and released, one at a time; for values that are in
 * the entries themselves see inline.h. Finding entries, and the most common change, adding floats of a
 * common length, have loops of their own per instruction set and length (push_body.h). Each loop is
 * instantiated per index and kind of change, so that neither choice is made per key. No allocation; a wait
 * for a row another thread is writing gives up the core after a while.
 */
#include <string.h>

#include "store/evict.h"
#include "store/pipeline.h"
#include "store/repeats.h"
#include "store/inline.h"
#include "store/undo.h"

enum { LATER = 64 }; /* keys that are looked for in a second line together */
enum change { ADD, UPDATE, SET };

/* Where rows are: in their natural slots, anywhere, or anywhere until they leave by a rule (evict.h). */
enum rows_in { NATURAL_SLOTS, ANY_SLOTS, SLOTS_FOR_NOW };

/* A latched entry and the word it had; NULL if there was no row to latch. */
struct latched {
    struct entry *entry;
    uint64_t word;
};

/* Latches the row of a key that is in use or not where it was looked for. */
static __attribute__((noinline)) struct latched latch_again(const struct store *store, uint64_t key,
                                                            struct entry *entry)
{
    uint64_t word;
    entry = store_latch_row(store, key, entry, &word);
    return (struct latched){entry, word};
}

/* Latches the row of a key in slabs. Its entry was last seen with `word`, or is NULL. An exclusive worker needs no
 * latch, but releases it as if there were one. */
INLINE struct latched latch_row(const struct store *store, uint64_t key, struct entry *entry,
                                uint64_t word, bool exclusive)
{
    if (__builtin_expect(!entry_readable(word), 0) ||
        (!exclusive && __builtin_expect(!entry_try_latch(entry, word), 0)))
        return latch_again(store, key, entry);
    return (struct latched){entry, word};
}

/* The same where cells of the index are used again. */
INLINE struct latched latch_checked(const struct store *store, uint64_t key, struct entry *entry,
                                    uint64_t word, bool exclusive)
{
    struct latched latched = latch_row(store, key, entry, word, exclusive);
    if (__builtin_expect(!latched.entry || store_holds(store, latched.entry, key), 1))
        return latched;
    if (!exclusive)
        entry_release_same(latched.entry, latched.word);
    return latch_again(store, key, NULL);
}

/* The word of an entry of a sparse index, or 0. */
INLINE uint64_t word_of(const struct entry *entry)
{
    return __builtin_expect(entry != NULL, 1) ? entry_read(entry) : 0;
}

/* Prefetches the row of the i-th key, in its natural slot or where its entry says, and with `state`,
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
INLINE size_t different_rows(struct store *store, enum rows_in rows_in, enum change change,
                             const uint64_t *keys, size_t n, const struct repeats *repeats,
                             struct entry *const *entries, const char *values, uint32_t *missed,
                             bool exclusive)
{
    const bool natural = rows_in == NATURAL_SLOTS, leaves = rows_in == SLOTS_FOR_NOW;
    const uint64_t now = leaves ? evict_now(store, n) : 0;
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
        const uint64_t word = natural ? entry_read(entry) : word_of(entry);
        struct latched latched = leaves ? latch_checked(store, keys[i], entry, word, exclusive)
                                        : latch_row(store, keys[i], entry, word, exclusive);
        bool here = latched.entry && can_change(store, change, latched.word);
        if (leaves && here)
            evict_stamp(store, entry_slot(latched.word), now);
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

/* Many keys. Nobody takes a row away from an exclusive worker, so repeats cost nothing. */
INLINE size_t rows(struct store *store, enum rows_in rows_in, enum change change,
                   const uint64_t *keys, size_t n, struct entry *const *entries, const char *values,
                   uint32_t *missed, bool exclusive)
{
    struct repeats repeats;
    if (!exclusive && repeats_find(&repeats, keys, n))
        return different_rows(store, rows_in, change, keys, repeats.n, &repeats, entries, values,
                              missed, false);
    return different_rows(store, rows_in, change, keys, n, NULL, entries, values, missed,
                          exclusive);
}

/* If the entry of a key at home here, or NULL, shows no row: makes the row, and gives its entry. */
INLINE enum tern_status reserve_one(struct store *store, uint64_t key, struct entry **entry)
{
    if ((*entry && entry_has_row(entry_read(*entry))) || !store_is_home(store, key))
        return TERN_OK;
    enum tern_status status = store->reserve_new(store, key);
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
        entries[i] = &dense[keys[i]];
        status = reserve_one(store, keys[i], &entries[i]);
    }
    return status;
}

/* The line of which this is the first entry. */
INLINE struct index_line *line_of_first(struct entry *first)
{
    return (struct index_line *)((char *)first - offsetof(struct index_line, entries));
}

typedef float floats_16 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float floats_32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float floats_64 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float unaligned_16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef float unaligned_32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef float unaligned_64 __attribute__((vector_size(64), aligned(1), may_alias));

#define TARGET
#define MATCH sparse_match
#define VECTOR floats_16
#define UNALIGNED unaligned_16
#define SHORTEST 32
#define NAME(function) function##_with_16
#include "store/push_body.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define MATCH sparse_match_avx2
#define VECTOR floats_32
#define UNALIGNED unaligned_32
#define SHORTEST 32
#define NAME(function) function##_with_32
#include "store/push_body.h"

/* Short rows are slower to add to by vectors as long as a line: values that are not aligned to lines take two each. */
#define TARGET __attribute__((target("avx512f")))
#define MATCH sparse_match_avx2
#define VECTOR floats_64
#define UNALIGNED unaligned_64
#define SHORTEST 512
#define NAME(function) function##_with_64
#include "store/push_body.h"
#endif

struct add_loops push_add_for(const struct store *store)
{
    if (store->inlined)
        return inline_add_for(store);
    if (store->type != TERN_F32 || (store->index == TERN_DENSE && !store->n_natural) ||
        store->updater.apply || store->changed[0].slots || store->pushes_apart)
        return (struct add_loops){0};
#if defined(__x86_64__)
    struct add_loops loops = {0};
    if (store->kernel->vector_bytes >= 64)
        loops = add_for_with_64(store);
    if (store->kernel->vector_bytes >= 32)
        return loops.many ? loops : add_for_with_32(store);
#endif
    return add_for_with_16(store);
}

/* Changes one row so that another process can undo it; false if it is not here. */
static bool undoable_row(struct store *store, enum change change, uint64_t key, struct entry *entry,
                         const char *value)
{
    if (!undo_enter(store, key))
        return false;
    uint64_t word;
    entry = store_latch_row(store, key, entry, &word);
    if (entry) {
        undo_keep(store, key, entry_slot(word));
        change_row(store, change, word, slabs_at(&store->rows, entry_slot(word)), value);
        entry_release_same(entry, word);
    }
    undo_leave(store, key);
    return entry;
}

/* The rows of a shared-memory table with backups. */
static size_t undoable_rows(struct store *store, enum change change, const uint64_t *keys, size_t n,
                            struct entry *const *entries, const char *values, uint32_t *missed)
{
    struct layout l = layout_of(store, store->value_bytes, store->rows.stride);
    size_t n_missed = 0;
    for (size_t i = 0; i < ROWS_AHEAD && i < n; i++)
        prefetch_changed(store, &l, false, true, keys, entries, i);
    for (size_t i = 0; i < n; i++) {
        if (i + ROWS_AHEAD < n)
            prefetch_changed(store, &l, false, true, keys, entries, i + ROWS_AHEAD);
        if (!undoable_row(store, change, keys[i], entries[i], values + i * l.bytes))
            missed[n_missed++] = (uint32_t)i;
    }
    return n_missed;
}

/* In a frame of its own, so that tables whose rows stay pay nothing for it. */
static __attribute__((noinline)) size_t rows_apart(struct store *store, enum change change,
                                                   const uint64_t *keys, size_t n,
                                                   struct entry *const *entries, const void *values,
                                                   uint32_t *missed, bool exclusive)
{
    if (store->gates)
        return undoable_rows(store, change, keys, n, entries, values, missed);
    return rows(store, SLOTS_FOR_NOW, change, keys, n, entries, values, missed, exclusive);
}

/* One instance of each loop for each kind of change. */
INLINE size_t change_keys(struct store *store, enum change change, const uint64_t *keys, size_t n,
                          struct entry *const *entries, const void *values, uint32_t *missed,
                          bool exclusive)
{
    if (store->pushes_apart)
        return rows_apart(store, change, keys, n, entries, values, missed, exclusive);
    return store->n_natural
               ? rows(store, NATURAL_SLOTS, change, keys, n, entries, values, missed, exclusive)
               : rows(store, ANY_SLOTS, change, keys, n, entries, values, missed, exclusive);
}

INLINE size_t push_keys(struct store *store, const uint64_t *keys, size_t n,
                        struct entry *const *entries, const void *updates, uint32_t *missed,
                        bool exclusive)
{
    if (store->updater.apply)
        return change_keys(store, UPDATE, keys, n, entries, updates, missed, exclusive);
    if (store->add.many)
        return store->add.many(store, keys, n, entries, updates, missed, exclusive);
    return change_keys(store, ADD, keys, n, entries, updates, missed, exclusive);
}

INLINE size_t set_keys(struct store *store, const uint64_t *keys, size_t n,
                       struct entry *const *entries, const void *values, uint32_t *missed,
                       bool exclusive)
{
    return store->inlined ? inline_set(store, keys, n, entries, values, missed, exclusive)
                          : change_keys(store, SET, keys, n, entries, values, missed, exclusive);
}

size_t store_push(struct store *store, const uint64_t *keys, size_t n, struct entry *const *entries,
                  const void *updates, uint32_t *missed)
{
    return push_keys(store, keys, n, entries, updates, missed, false);
}

size_t store_push_exclusive(struct store *store, const uint64_t *keys, size_t n,
                            struct entry *const *entries, const void *updates, uint32_t *missed)
{
    return push_keys(store, keys, n, entries, updates, missed, true);
}

size_t store_set(struct store *store, const uint64_t *keys, size_t n, struct entry *const *entries,
                 const void *values, uint32_t *missed)
{
    return set_keys(store, keys, n, entries, values, missed, false);
}

size_t store_set_exclusive(struct store *store, const uint64_t *keys, size_t n,
                           struct entry *const *entries, const void *values, uint32_t *missed)
{
    return set_keys(store, keys, n, entries, values, missed, true);
}

/* One key of a table that has no loop of its own for it. */
static __attribute__((noinline)) bool push_one(struct store *store, uint64_t key,
                                               const void *update, bool exclusive)
{
    struct entry *entry = store_find(store, key);
    uint32_t none;
    return !change_keys(store, store->updater.apply ? UPDATE : ADD, &key, 1, &entry, update, &none,
                        exclusive);
}

bool store_push_one(struct store *store, uint64_t key, const void *update)
{
    return store->add.one ? store->add.one(store, key, update, false)
                          : push_one(store, key, update, false);
}

bool store_push_one_exclusive(struct store *store, uint64_t key, const void *update)
{
    return store->add.one ? store->add.one(store, key, update, true)
                          : push_one(store, key, update, true);
}

enum tern_status store_reserve(struct store *store, const uint64_t *keys, size_t n,
                               struct entry **entries)
{
    /* A dense home range that is complete needs neither rows nor, in natural slots or the entries
     * themselves, entries. */
    if (store->index == TERN_DENSE)
        return atomic_load_explicit(&store->counts->n_rows, memory_order_acquire) ==
                       store->n_complete
                   ? TERN_OK
                   : reserve_dense(store, keys, n, entries);
#if defined(__x86_64__)
    if (store->kernel->vector_bytes >= 64)
        return reserve_sparse_with_64(store, keys, n, entries);
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
    return !set_keys(store, &key, 1, &entry, value, &none, false);
}
