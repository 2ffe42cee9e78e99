/* evict - see evict.h. */
#include "store/evict.h"

#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "kernel/racy.h"

enum {
    SAMPLE = 256,    /* rows that tell since when the oldest were not written */
    OLDEST = 16,     /* one of so many rows may go */
    AT_ONCE = 16,    /* rows that are removed for one that is made */
    STEP_LINES = 16, /* of the index, that the hand looks at together */
    STEP_KEYS = STEP_LINES * SPARSE_CELLS,
    SWEEPS_PER_AGE = 8, /* within evict_age clocks */
    TRIES = 3,          /* to remove a row that is being written */
};

static struct eviction *eviction_of(const struct store *store)
{
    return &store->counts->eviction;
}

/* ---- One row ------------------------------------------------------------------------------------ */

static void count_removed(struct store *store)
{
    if (!fault(FAULT_REMOVED_COUNTED))
        atomic_fetch_sub_explicit(&store->counts->n_rows, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&eviction_of(store)->n_removed, 1, memory_order_relaxed);
}

/* Releases a latched entry, which had `word`, without its row. */
static void release_removed(struct store *store, struct entry *entry, uint64_t word)
{
    fault_point();
    entry_release(entry, word, ENTRY_NONE, 0);
    fault_point();
    count_removed(store);
    if (!fault(FAULT_SLOT_LOST))
        store_give_slot(store, entry_slot(word));
}

static bool latch_kept(struct store *store)
{
    return latch_take(&store->kept_latch, RANK_SLOTS, store->watch);
}

bool evict_keep(struct store *store, uint64_t key)
{
    (void)latch_kept(store);
    const bool has_room = keymap_reserve(&store->kept, 1);
    if (has_room)
        keymap_set(&store->kept, key, 1);
    latch_release(&store->kept_latch, RANK_SLOTS);
    return has_room;
}

void evict_unkeep(struct store *store, uint64_t key)
{
    (void)latch_kept(store);
    keymap_set(&store->kept, key, 0);
    latch_release(&store->kept_latch, RANK_SLOTS);
}

static bool is_kept(struct store *store, uint64_t key)
{
    if (!store->home.rows_move)
        return false;
    (void)latch_kept(store);
    const bool kept = keymap_get(&store->kept, key);
    latch_release(&store->kept_latch, RANK_SLOTS);
    return kept;
}

/* Whether the row of a key, whose entry has `word`, may leave at all: for certain if the entry is latched. */
static bool may_leave(struct store *store, uint64_t key, uint64_t word)
{
    return entry_state(word) == ENTRY_OWNED &&
           (!store_pins_of(store, entry_slot(word)) || fault(FAULT_PINNED_REMOVED)) &&
           !is_kept(store, key);
}

/* The moment of the last write to the row in a slot. */
static uint64_t written(const struct store *store, uint32_t slot)
{
    const _Atomic uint64_t *moment = slabs_at(&store->written, slot);
    return atomic_load_explicit(moment, memory_order_relaxed);
}

/* Removes the row of a key that was last written at `moment`; false if it may not go or was written again. */
static bool remove_written_at(struct store *store, uint64_t key, uint64_t moment)
{
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    if (!entry)
        return false;
    if (!may_leave(store, key, word) || written(store, entry_slot(word)) != moment) {
        entry_release_same(entry, word);
        return false;
    }
    release_removed(store, entry, word);
    return true;
}

/* ---- The rules ---------------------------------------------------------------------------------- */

/* Rows that a rule may remove, found while their stripe is latched. */
struct found {
    const struct store *store;
    bool by_clock;     /* rather than by ticks */
    uint32_t now, age; /* of what may go, at the least; in clocks or ticks */
    size_t n, most;
    struct {
        uint64_t key, moment;
    } rows[STEP_KEYS];
};

static void find_old(void *context, uint64_t key, uint64_t word)
{
    struct found *found = context;
    if (entry_state(word) != ENTRY_OWNED || !entry_readable(word) || found->n == found->most)
        return;
    const uint64_t moment = written(found->store, entry_slot(word));
    const uint32_t then = (uint32_t)(found->by_clock ? moment >> 32 : moment);
    const uint32_t age = found->now - then;
    if (age < found->age || age > UINT32_MAX / 2)
        return;
    found->rows[found->n].key = key;
    found->rows[found->n++].moment = moment;
}

/* How many rows may go before the rules stop. */
static uint64_t n_above_floor(const struct store *store)
{
    const uint64_t copies =
        atomic_load_explicit(&eviction_of(store)->n_copies, memory_order_relaxed);
    const uint64_t rows = store_rows(store) - copies;
    if (fault(FAULT_FLOOR_IGNORED))
        return rows;
    return rows > store->evict_floor ? rows - store->evict_floor : 0;
}

/* Removes what is old in some lines of a stripe, at most `most` rows; their number. */
static size_t remove_old(struct store *store, unsigned stripe, uint64_t line, size_t most,
                         struct found *found)
{
    size_t n = 0;
    found->n = 0;
    found->most = most < STEP_KEYS ? most : STEP_KEYS;
    if (!sparse_visit_lines(store->sparse, stripe, line, STEP_LINES, find_old, found, store->watch))
        return 0;
    for (size_t i = 0; i < found->n && n_above_floor(store); i++)
        n += remove_written_at(store, found->rows[i].key, found->rows[i].moment);
    return n;
}

static uint32_t tick_now(const struct store *store)
{
    return (uint32_t)(atomic_load_explicit(&eviction_of(store)->n_writes, memory_order_relaxed) /
                      EVICT_TICK);
}

static int compare_ages(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* The age, in ticks, of which one row of `share` is at the least: of a sample. */
static uint32_t old_age(struct store *store, uint32_t share)
{
    struct eviction *eviction = eviction_of(store);
    uint32_t ages[SAMPLE];
    size_t n = 0;
    struct found found = {.store = store, .now = tick_now(store), .most = SPARSE_CELLS};
    for (int i = 0; i < 4 * SAMPLE && n + SPARSE_CELLS <= SAMPLE; i++) {
        const uint64_t random = rand_at(store->home.hash_seed, eviction->n_drawn++);
        const unsigned stripe = (unsigned)(random % SPARSE_STRIPES);
        const uint64_t n_lines = sparse_lines(store->sparse, stripe);
        found.n = 0;
        if (n_lines && !sparse_visit_lines(store->sparse, stripe, (random >> 8) % n_lines, 1,
                                           find_old, &found, store->watch))
            return 0;
        for (size_t k = 0; k < found.n; k++)
            ages[n++] = found.now - (uint32_t)found.rows[k].moment;
    }
    if (!n)
        return 0;
    qsort(ages, n, sizeof *ages, compare_ages);
    return ages[n / share];
}

/* Decides anew which rows are old. */
static void look_around(struct store *store, uint32_t share)
{
    struct eviction *eviction = eviction_of(store);
    const uint64_t n = store_rows(store) / (2 * OLDEST);
    eviction->oldest = tick_now(store) - old_age(store, share);
    eviction->n_left = n > AT_ONCE ? n : AT_ONCE;
}

static struct found older_than_known(const struct store *store)
{
    const uint32_t now = tick_now(store);
    return (struct found){.store = store, .now = now, .age = now - eviction_of(store)->oldest};
}

/* Moves the hand on until `most` rows are removed or it has been everywhere; their number. */
static size_t move_hand(struct store *store, size_t most)
{
    struct eviction *eviction = eviction_of(store);
    struct found found = older_than_known(store);
    size_t n = 0;
    for (unsigned n_ends = 0; n < most && n_ends <= SPARSE_STRIPES && n_above_floor(store);) {
        if (eviction->line >= sparse_lines(store->sparse, eviction->stripe)) {
            eviction->line = 0;
            eviction->stripe = (eviction->stripe + 1) % SPARSE_STRIPES;
            n_ends++;
            continue;
        }
        n += remove_old(store, eviction->stripe, eviction->line, STEP_KEYS, &found);
        eviction->line += STEP_LINES;
    }
    return n;
}

/* Removes old rows of the stripe that a key belongs to, which is full: so many that it is worth while to rebuild it. */
static size_t clear_stripe(struct store *store, uint64_t key)
{
    const unsigned stripe =
        (unsigned)(sparse_hash(store->sparse, key) >> (64 - SPARSE_STRIPE_BITS));
    struct found found = older_than_known(store);
    size_t n = 0;
    for (uint64_t line = 0; line < sparse_lines(store->sparse, stripe); line += STEP_LINES)
        n += remove_old(store, stripe, line, STEP_KEYS, &found);
    return n;
}

bool evict_make_room(struct store *store, uint64_t key, bool for_index)
{
    struct eviction *eviction = eviction_of(store);
    if (!store->evict_at_limit || !latch_take(&eviction->latch, RANK_EVICTION, store->watch))
        return false;
    size_t n = 0;
    if (!eviction->n_left)
        look_around(store, OLDEST);
    for (uint32_t share = OLDEST; !n && share && n_above_floor(store); share /= 2) {
        n = for_index ? clear_stripe(store, key) : move_hand(store, AT_ONCE);
        /* Rows that are not so old. */
        if (!n)
            look_around(store, share / 2 ? share / 2 : 1);
    }
    eviction->n_left -= n < eviction->n_left ? n : eviction->n_left;
    latch_release(&eviction->latch, RANK_EVICTION);
    return n;
}

void evict_advance(struct store *store, uint64_t clock)
{
    struct eviction *eviction = eviction_of(store);
    uint64_t known = atomic_load_explicit(&eviction->clock, memory_order_relaxed);
    while (known < clock &&
           !atomic_compare_exchange_weak_explicit(&eviction->clock, &known, clock,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    uint64_t due = atomic_load_explicit(&eviction->due_clock, memory_order_relaxed);
    if (!store->evict_age || clock < due || clock <= store->evict_age)
        return;
    const uint64_t next = clock + 1 + store->evict_age / SWEEPS_PER_AGE;
    if (!atomic_compare_exchange_strong_explicit(&eviction->due_clock, &due, next,
                                                 memory_order_relaxed, memory_order_relaxed))
        return;
    struct found found = {
        .store = store, .by_clock = true, .now = (uint32_t)clock, .age = store->evict_age + 1};
    for (unsigned stripe = 0; stripe < SPARSE_STRIPES; stripe++)
        for (uint64_t line = 0; line < sparse_lines(store->sparse, stripe); line += STEP_LINES)
            remove_old(store, stripe, line, STEP_KEYS, &found);
}

/* ---- A sweep ------------------------------------------------------------------------------------ */

/* The keys of a stripe. */
struct keys {
    uint64_t *keys;
    size_t n, most;
    bool failed;
};

static void add_key(void *context, uint64_t key, uint64_t word)
{
    struct keys *to = context;
    if (!entry_is_main(word) || to->failed)
        return;
    if (to->n == to->most) {
        const size_t most = to->most ? 2 * to->most : 1024;
        uint64_t *keys = realloc(to->keys, most * sizeof *keys);
        to->failed = !keys;
        if (!keys)
            return;
        to->keys = keys;
        to->most = most;
    }
    to->keys[to->n++] = key;
}

/* Removes a row as it was seen: its entry had `word`. */
static bool remove_row(struct store *store, uint64_t key, struct entry *entry, uint64_t word)
{
    if (!entry_try_latch(entry, word))
        return false;
    if (!store_holds(store, entry, key) || !may_leave(store, key, word)) {
        entry_release_same(entry, word);
        return false;
    }
    release_removed(store, entry, word);
    return true;
}

/* The same for an inline value. Others change such values while they hold the stripe's latch, or the entry's. */
static bool remove_inline(struct store *store, uint64_t key, struct entry *entry, uint64_t word)
{
    struct latch_stripe *stripe = store_stripe(store, key);
    if (!stripe_latch(stripe, store->watch))
        return false;
    const bool removed = stripe_read(entry) == word && entry_replace(entry, word, ENTRY_NONE, 0);
    stripe_release(stripe);
    if (removed)
        count_removed(store);
    return removed;
}

/* Copies the value of a row as its entry has it; false if that has changed meanwhile. */
static bool copy_seen(const struct store *store, const struct entry *entry, uint64_t word,
                      char *value)
{
    const uint32_t bits = entry_slot(word);
    if (entry_is_inline(word)) {
        memcpy(value, &bits, sizeof bits);
        return true;
    }
    racy_copy_16(value, slabs_at(&store->rows, bits), store->value_bytes);
    return entry_unchanged(entry, word);
}

static bool sweep_key(struct store *store, uint64_t key, evict_function *function, void *context,
                      char *value)
{
    for (int i = 0; i < TRIES; i++) {
        struct entry *entry;
        const uint64_t word = store_look(store, key, &entry);
        if (!entry_is_main(word))
            return false;
        if (!entry_is_inline(word) && !may_leave(store, key, word))
            return false;
        if (word & ENTRY_LATCHED || !store_holds(store, entry, key) ||
            !copy_seen(store, entry, word, value))
            continue;
        if (!function(context, key, value))
            return false;
        if (entry_is_inline(word) ? remove_inline(store, key, entry, word)
                                  : remove_row(store, key, entry, word))
            return true;
    }
    return false;
}

enum tern_status evict_sweep(struct store *store, evict_function *function, void *context,
                             uint64_t *n)
{
    struct keys keys = {0};
    uint64_t n_removed = 0;
    char *value = malloc(store->value_bytes);
    keys.failed = !value;
    for (unsigned stripe = 0; stripe < SPARSE_STRIPES && !keys.failed; stripe++) {
        keys.n = 0;
        if (!sparse_visit_lines(store->sparse, stripe, 0, UINT64_MAX, add_key, &keys, store->watch))
            break;
        for (size_t i = 0; i < keys.n && !keys.failed; i++)
            n_removed += sweep_key(store, keys.keys[i], function, context, value);
    }
    free(keys.keys);
    free(value);
    enum tern_status status = store_check_lost(store);
    if (!status && keys.failed)
        status = fail(TERN_NO_MEMORY, "no memory to sweep table '%s'", store->name);
    if (!status)
        *n = n_removed;
    return status;
}
