/* inline - see inline.h. */
#include "store/inline.h"

#include <string.h>

#include "store/pipeline.h"

enum {
    MANY_KEYS = 8 * LATCH_STRIPES, /* from here on latching stripes pays */
    BLOCK = 1024,                  /* keys that are sorted by stripe together */
    END = UINT16_MAX,
};

enum change { ADD_F32, ADD_I32, SET };

/* What a call is about. Passed by value, because compilers read what is behind a pointer again after every atomic
 * load. */
struct call {
    const uint64_t *keys;
    struct entry *const *entries; /* of a sparse table */
    struct entry *dense;
    const char *values; /* not aligned */
};

/* The keys of a block by stripe. */
struct lists {
    unsigned stripes;              /* a bit for each that has any */
    uint16_t first[LATCH_STRIPES]; /* the position of the first key in a stripe */
    uint16_t next[BLOCK];          /* that of the next one in the same, or END */
};

/* What `word` has for a value after a change by the one at `given`. */
INLINE uint32_t changed(enum change change, uint64_t word, const char *given)
{
    uint32_t value = entry_slot(word), more;
    memcpy(&more, given, sizeof more);
    if (change == SET)
        return more;
    if (change == ADD_I32)
        return value + more;
    float sum, addend;
    memcpy(&sum, &value, sizeof sum);
    memcpy(&addend, &more, sizeof addend);
    sum += addend;
    memcpy(&value, &sum, sizeof value);
    return value;
}

INLINE const char *value_of(struct call call, size_t i)
{
    return call.values + i * sizeof(uint32_t);
}

INLINE struct entry *entry_of(bool sparse, struct call call, size_t i)
{
    return sparse ? call.entries[i] : &call.dense[call.keys[i]];
}

INLINE unsigned stripe_of(const struct store *store, bool sparse, uint64_t key)
{
    return sparse ? sparse_latch_stripe(store->sparse, key) : dense_stripe(key);
}

/* Changes one value wherever it is by now; false if the key has none, or the wait was given up. */
static __attribute__((noinline)) bool change_again(struct store *store, enum change change,
                                                   uint64_t key, const char *given)
{
    struct latch_stripe *stripe = store_stripe(store, key);
    for (struct spin spin = {0};;) {
        struct entry *entry;
        uint64_t word = store_look(store, key, &entry);
        if (entry_is_absent(word))
            return false;
        if (entry_is_inline(word) && stripe_latch_entry(stripe, entry, word)) {
            entry_release(entry, word, ENTRY_INLINE, changed(change, word, given));
            return true;
        }
        if (entry_readable(word) && entry_try_latch(entry, word)) {
            uint32_t *row = slabs_at(&store->rows, entry_slot(word));
            *row = changed(change, *row, given);
            entry_release_same(entry, word);
            return true;
        }
        if (!spin_again(&spin, store->watch))
            return false;
    }
}

/* Changes one value, whose entry was found or is NULL; an exclusive worker latches nothing. */
INLINE bool change_one(struct store *store, bool sparse, enum change change, uint64_t key,
                       struct entry *entry, const char *given, bool exclusive)
{
    uint64_t word = !sparse || entry ? entry_read(entry) : 0;
    bool latched =
        entry_is_inline(word) &&
        (exclusive ||
         stripe_latch_entry(&store->latch_stripes[stripe_of(store, sparse, key)], entry, word));
    if (__builtin_expect(!latched, 0))
        return change_again(store, change, key, given);
    entry_release(entry, word, ENTRY_INLINE, changed(change, word, given));
    return true;
}

INLINE size_t change_few(struct store *store, bool sparse, enum change change, struct call call,
                         size_t n, uint32_t *missed, bool exclusive)
{
    size_t n_missed = 0;
    for (size_t i = 0; i < WORDS_AHEAD && i < n; i++)
        prefetch(entry_of(sparse, call, i), true);
    for (size_t i = 0; i < n; i++) {
        if (i + WORDS_AHEAD < n)
            prefetch(entry_of(sparse, call, i + WORDS_AHEAD), true);
        if (!change_one(store, sparse, change, call.keys[i], entry_of(sparse, call, i),
                        value_of(call, i), exclusive))
            missed[n_missed++] = (uint32_t)i;
    }
    return n_missed;
}

/* From the last to the first, so that those of a stripe are in the order of the call. */
INLINE void sort(const struct store *store, bool sparse, struct call call, size_t n,
                 struct lists *lists)
{
    unsigned stripes = 0;
    memset(lists->first, 0xff, sizeof lists->first);
    for (size_t i = n; i-- > 0;) {
        /* The lines of a sparse index are here: the keys have just been found. */
        if (!sparse)
            prefetch_far(entry_of(sparse, call, i), true);
        unsigned stripe = stripe_of(store, sparse, call.keys[i]);
        stripes |= 1u << stripe;
        lists->next[i] = lists->first[stripe];
        lists->first[stripe] = (uint16_t)i;
    }
    lists->stripes = stripes;
}

/* Changes values whose stripes are latched, from position `i` to `end`, in the order of the call or as `next` leads, until
 * one must be waited for or looked up: gives the position of that, or `end`. Keys without a value are added to `missed`. */
INLINE size_t change_latched(const struct store *store, bool sparse, enum change change,
                             struct call call, size_t i, size_t end, const uint16_t *next,
                             uint32_t *missed, size_t *n_missed)
{
    for (; i != end; i = next ? next[i] : i + 1) {
        struct entry *entry = entry_of(sparse, call, i);
        uint64_t word = !sparse || entry ? stripe_read(entry) : 0;
        if (__builtin_expect(entry_is_inline(word), 1))
            entry_release(entry, word, ENTRY_INLINE, changed(change, word, value_of(call, i)));
        else if ((sparse && !entry) || (entry_is_absent(word) && !store_gives_up(store, word)))
            missed[(*n_missed)++] = (uint32_t)i;
        else
            break;
    }
    return i;
}

/* The same where no stripe is latched, for all of them. */
static __attribute__((noinline)) void change_rest(struct store *store, enum change change,
                                                  struct call call, size_t i, size_t end,
                                                  const uint16_t *next, uint32_t *missed,
                                                  size_t *n_missed)
{
    for (; i != end; i = next ? next[i] : i + 1)
        if (!change_again(store, change, call.keys[i], value_of(call, i)))
            missed[(*n_missed)++] = (uint32_t)i;
}

/* Changes n values in the order of the call if all stripes are free; false if not. */
INLINE bool change_at_once(struct store *store, bool sparse, enum change change, struct call call,
                           size_t n, uint32_t *missed, size_t *n_missed)
{
    unsigned n_latched = 0;
    for (unsigned i = 0; i < LATCH_STRIPES; i++)
        prefetch(&store->latch_stripes[i], true);
    while (n_latched < LATCH_STRIPES && stripe_try_latch(&store->latch_stripes[n_latched]))
        n_latched++;
    bool latched = n_latched == LATCH_STRIPES;
    size_t rest = n;
    if (latched)
        rest = change_latched(store, sparse, change, call, 0, n, NULL, missed, n_missed);
    while (n_latched > 0)
        stripe_release(&store->latch_stripes[--n_latched]);
    if (rest < n)
        change_rest(store, change, call, rest, n, NULL, missed, n_missed);
    return latched;
}

/* Notes that the values of a stripe, which was waited for in vain, were not changed. */
static void give_up(const struct lists *lists, unsigned stripe, uint32_t *missed, size_t *n_missed)
{
    for (size_t i = lists->first[stripe]; i != END; i = lists->next[i])
        missed[(*n_missed)++] = (uint32_t)i;
}

/* Changes n values stripe by stripe: one that is latched is left for later. */
INLINE void change_by_stripe(struct store *store, bool sparse, enum change change, struct call call,
                             size_t n, uint32_t *missed, size_t *n_missed)
{
    struct lists lists;
    sort(store, sparse, call, n, &lists);
    bool waits = true;
    for (struct spin spin = {0}; lists.stripes; waits = spin_again(&spin, store->watch)) {
        for (unsigned left = lists.stripes; left; left &= left - 1) {
            unsigned i = (unsigned)__builtin_ctz(left);
            struct latch_stripe *stripe = &store->latch_stripes[i];
            prefetch(stripe + 1, true);
            if (!stripe_try_latch(stripe)) {
                if (!waits) {
                    give_up(&lists, i, missed, n_missed);
                    lists.stripes &= ~(1u << i);
                }
                continue;
            }
            size_t rest = change_latched(store, sparse, change, call, lists.first[i], END,
                                         lists.next, missed, n_missed);
            stripe_release(stripe);
            if (rest != END)
                change_rest(store, change, call, rest, END, lists.next, missed, n_missed);
            lists.stripes &= ~(1u << i);
        }
    }
}

/* A sparse table's keys take longer to find than their values to change, so that others are seldom at it, too. */
INLINE size_t change_many(struct store *store, bool sparse, enum change change, struct call call,
                          size_t n, uint32_t *missed)
{
    size_t n_missed = 0;
    for (size_t done = 0; done < n; done += BLOCK) {
        struct call block = {call.keys + done, sparse ? call.entries + done : NULL, call.dense,
                             value_of(call, done)};
        size_t size = n - done < BLOCK ? n - done : BLOCK, i = n_missed;
        if (!sparse || !change_at_once(store, sparse, change, block, size, missed, &n_missed))
            change_by_stripe(store, sparse, change, block, size, missed, &n_missed);
        for (; i < n_missed; i++)
            missed[i] += (uint32_t)done;
    }
    return n_missed;
}

/* The loops for one kind of change and one index. That for many keys, which needs room, has a frame of its own. */
#define INSTANCES(name, sparse, change)                                                    \
    static __attribute__((noinline))                                                       \
    size_t name##_many(struct store *store, struct call call, size_t n, uint32_t *missed)  \
    {                                                                                      \
        return change_many(store, sparse, change, call, n, missed);                        \
    }                                                                                      \
    static size_t name(struct store *store, const uint64_t *keys, size_t n,                \
                       struct entry *const *entries, const void *values, uint32_t *missed, \
                       bool exclusive)                                                     \
    {                                                                                      \
        struct call call = {keys, entries, store->dense, values};                          \
        if (exclusive)                                                                     \
            return change_few(store, sparse, change, call, n, missed, true);               \
        return n < MANY_KEYS ? change_few(store, sparse, change, call, n, missed, false)   \
                             : name##_many(store, call, n, missed);                        \
    }

#define INSTANCE_ONE(name, sparse, change)                                                       \
    static bool name##_one(struct store *store, uint64_t key, const void *value, bool exclusive) \
    {                                                                                            \
        struct entry *entry = store_find(store, key);                                            \
        return exclusive ? change_one(store, sparse, change, key, entry, value, true)            \
                         : change_one(store, sparse, change, key, entry, value, false);          \
    }

INSTANCES(add_floats_dense, false, ADD_F32)
INSTANCES(add_floats_sparse, true, ADD_F32)
INSTANCES(add_integers_dense, false, ADD_I32)
INSTANCES(add_integers_sparse, true, ADD_I32)
INSTANCES(set_dense, false, SET)
INSTANCES(set_sparse, true, SET)
INSTANCE_ONE(add_floats_dense, false, ADD_F32)
INSTANCE_ONE(add_floats_sparse, true, ADD_F32)
INSTANCE_ONE(add_integers_dense, false, ADD_I32)
INSTANCE_ONE(add_integers_sparse, true, ADD_I32)

struct add_loops inline_add_for(const struct store *store)
{
    static const struct add_loops loops[2][2] = {
        {{add_integers_dense_one, add_integers_dense},
         {add_integers_sparse_one, add_integers_sparse}},
        {{add_floats_dense_one, add_floats_dense}, {add_floats_sparse_one, add_floats_sparse}},
    };
    return loops[store->type == TERN_F32][store->index == TERN_SPARSE];
}

size_t inline_set(struct store *store, const uint64_t *keys, size_t n, struct entry *const *entries,
                  const void *values, uint32_t *missed, bool exclusive)
{
    return store->index == TERN_SPARSE
               ? set_sparse(store, keys, n, entries, values, missed, exclusive)
               : set_dense(store, keys, n, entries, values, missed, exclusive);
}
