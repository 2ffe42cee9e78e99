/* store - making, finding and counting rows. See store.h; access to their values is in pull.c and push.c. */
#include "store/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "store/evict.h"
#include "store/shared.h"
#include "store/undo.h"

size_t store_state_bytes(const struct tern_table_options *options)
{
    uint64_t elements = (uint64_t)options->updater.state_per_element * options->length +
                        options->updater.state_per_row;
    return elements * type_bytes(options->type);
}

/* What one slot takes in all slabs. */
static size_t slot_bytes(const struct store *store)
{
    return store->rows.stride + store->states.stride + store->bases.stride + store->facts.stride +
           store->written.stride;
}

/* How many keys of a dense table have rows here in the end. */
static uint64_t n_home(const struct store *store)
{
    const struct store_home *home = &store->home;
    return home->placed && !home->rows_everywhere ? home->n_placed : home->end - home->begin;
}

/* A dense table's final size is known, so it is refused now rather than when it has filled memory. */
static enum tern_status check_dense_fits(const struct store *store)
{
    uint64_t n_rows = n_home(store);
    double needed =
        (double)store->n_keys * sizeof(struct entry) + (double)n_rows * (double)slot_bytes(store);
    uint64_t machine = pages_machine_bytes();
    uint64_t limit = store->limit_bytes < machine ? store->limit_bytes : machine;
    if (needed <= (double)limit)
        return TERN_OK;
    const bool few = limit < UINT64_C(1000000000);
    const double unit = few ? 1e6 : 1e9;
    return fail(TERN_NO_MEMORY, "table '%s' of %" PRIu64 " keys needs %.1f %cB, but %s %.1f %cB",
                store->name, store->n_keys, needed / unit, few ? 'M' : 'G',
                store->limit_bytes < machine ? "its limit is" : "this machine has",
                (double)limit / unit, few ? 'M' : 'G');
}

enum tern_status store_check_lost(const struct store *store)
{
    const uint32_t lost = store->watch ? watch_lost(store->watch) : 0;
    if (!lost || fault(FAULT_LOSS_FORGOTTEN))
        return TERN_OK;
    if (lost == WATCH_STUCK)
        return fail(
            TERN_PEER,
            "table '%s' is lost: a process of this host that shares it has kept a row latched for "
            "%.1f s",
            store->name, (double)store->watch->patience_ns / 1e9);
    return fail(TERN_PEER,
                "table '%s' is lost: node %" PRIu32
                ", a process of this host that shared it, has died or "
                "gave no sign of life, and may have left rows half written",
                store->name, lost - 1);
}

/* Reserves the rows of a dense table in the order of its keys. */
static bool reserve_natural(struct store *store)
{
    uint64_t n = store->home.end - store->home.begin;
    if (store->index != TERN_DENSE || store->inlined || store->home.rows_move || n == 0 ||
        n > TERN_MAX_ROWS)
        return true;
    bool has_memory = store->home.shared != NULL;
    if (!has_memory && (!slabs_reserve(&store->rows, n) || !slabs_reserve(&store->states, n) ||
                        !slabs_reserve(&store->bases, n) || !slabs_reserve(&store->facts, n)))
        return false;
    store->n_natural = n;
    store->natural = (uintptr_t)slabs_at(&store->rows, 0) - store->home.begin * store->rows.stride;
    /* Further slots, for keys that come here from elsewhere, follow. */
    atomic_store_explicit(&store->next_slot, n, memory_order_relaxed);
    return true;
}

static struct latch_stripe *latch_stripes_new(void)
{
    struct latch_stripe *stripes =
        aligned_alloc(_Alignof(struct latch_stripe), LATCH_STRIPES * sizeof *stripes);
    if (stripes)
        memset(stripes, 0, LATCH_STRIPES * sizeof *stripes);
    return stripes;
}

/* The index, with latch stripes if values are inline; false when memory runs out. */
static bool make_dense(struct store *store)
{
    store->dense = pages_new(store->n_keys * sizeof(struct entry));
    store->latch_stripes = store->inlined ? latch_stripes_new() : NULL;
    return store->dense && (!store->inlined || store->latch_stripes);
}

static bool make_sparse(struct store *store)
{
    store->sparse = aligned_alloc(_Alignof(struct sparse), sizeof(struct sparse));
    if (!store->sparse)
        return false;
    sparse_init(store->sparse, store->home.hash_seed, store->evicts);
    store->latch_stripes = store->sparse->latch_stripes;
    return true;
}

static enum tern_status init_index(struct store *store)
{
    bool is_dense = store->index == TERN_DENSE;
    enum tern_status status = is_dense ? check_dense_fits(store) : TERN_OK;
    if (status)
        return status;
    bool made = store->home.shared ? shared_lay_out(store)
                : is_dense         ? make_dense(store)
                                   : make_sparse(store);
    if (!made || !reserve_natural(store))
        return fail(TERN_NO_MEMORY, "no memory for the index of table '%s'", store->name);
    return TERN_OK;
}

/* Makes the counters of a table that admits keys, or is a sketch; in shared memory they are there. */
static enum tern_status init_counters(struct store *store, const struct tern_table_options *options)
{
    store->counter_bytes = admission_bytes(options) + sketch_bytes(options);
    store->reserve_new = store->counter_bytes ? store_leave : store_create;
    if (store->counter_bytes > store->limit_bytes)
        return fail(TERN_NO_MEMORY,
                    "table '%s': memory_limit_bytes %" PRIu64 " has no room for %" PRIu64
                    " bytes of counters; %s",
                    store->name, store->limit_bytes, store->counter_bytes,
                    options->admit ? "expect fewer keys" : "make the sketch smaller");
    if (!store->counter_bytes || store->home.shared)
        return TERN_OK;
    void *counters =
        store->counter_bytes <= pages_machine_bytes() ? pages_new(store->counter_bytes) : NULL;
    if (!counters)
        return fail(TERN_NO_MEMORY, "table '%s': no memory for %" PRIu64 " bytes of counters",
                    store->name, store->counter_bytes);
    if (options->admit) {
        store->admission = counters;
        admission_init(store->admission, options, store->home.hash_seed);
    } else {
        store->sketch = counters;
        sketch_init(store->sketch, options, store->home.hash_seed);
    }
    return TERN_OK;
}

static bool init_tracking(struct store *store)
{
    const struct store_home *home = &store->home;
    if (!home->rows_everywhere && !home->rows_move && !home->backed)
        return true;
    uint64_t n_slots =
        store->index == TERN_DENSE && store->n_keys < TERN_MAX_ROWS ? store->n_keys : TERN_MAX_ROWS;
    const bool has_both = home->backed && (home->rows_move || home->rows_everywhere);
    for (uint32_t i = 0; i < store->n_shards; i++)
        if (!store->home.shared && !(marks_init(&store->changed[i], n_slots) &&
                                     (!has_both || (marks_init(&store->for_rounds[i], n_slots) &&
                                                    marks_init(&store->for_backups[i], n_slots)))))
            return false;
    return slabs_init(&store->bases, home->backed && !has_both ? 0 : store->rows.stride) &&
           slabs_init(&store->facts, sizeof(struct slot_facts));
}

/* What a table in shared memory needs to undo what a dead process has left. */
static void init_gates(struct store *store, const struct tern_table_options *options)
{
    if (!store->home.shared)
        return;
    const size_t element = type_bytes(options->type);
    const struct gates_layout gates =
        undo_layout(options, slabs_stride(store->value_bytes, element),
                    slabs_stride(store_state_bytes(options), element));
    store->n_gates = gates.n;
    store->gate_stride = gates.stride;
    store->process = store->home.process;
}

static void init_eviction(struct store *store, const struct tern_table_options *options)
{
    store->evicts = evict_has_rule(options);
    store->evict_at_limit = options->evict_at_limit;
    store->evict_age = options->evict_age;
    store->evict_floor = options->evict_floor;
}

enum tern_status store_init(struct store *store, const char *name,
                            const struct tern_table_options *options, const struct store_home *home)
{
    *store = (struct store){
        .index = options->index,
        .type = options->type,
        .length = options->length,
        .value_bytes = options->length * type_bytes(options->type),
        .n_keys = options->n_keys,
        .last_key = options->index == TERN_DENSE ? options->n_keys - 1 : UINT64_MAX,
        .kernel = kernel_get(),
        .updater = options->updater,
        .init = options->init,
        .limit_bytes = options->memory_limit_bytes ? options->memory_limit_bytes : UINT64_MAX,
        .home = home ? *home : (struct store_home){.begin = 0, .end = options->n_keys},
    };
    store->n_shards = store->home.n_shards ? store->home.n_shards : 1;
    store->counts = &store->own_counts;
    strcpy(store->name, name);
    init_eviction(store, options);
    init_gates(store, options);
    store->pushes_apart = store->evicts || store->n_gates;
    store->inlined = store->value_bytes == sizeof(uint32_t) && !store->updater.apply &&
                     store->index != TERN_SKETCH && !store->home.rows_everywhere &&
                     !store->home.rows_move && !store->home.backed && !store->evicts &&
                     !store->n_gates;
    lock_init(&store->slot_lock, RANK_SLOTS, 0);
    size_t element = type_bytes(store->type);
    enum tern_status status = TERN_OK;
    if (!slabs_init(&store->rows, slabs_stride(store->value_bytes, element)) ||
        !slabs_init(&store->states, slabs_stride(store_state_bytes(options), element)) ||
        !slabs_init(&store->pins, sizeof(uint32_t)) ||
        !slabs_init(&store->written, store->evicts ? sizeof(uint64_t) : 0) || !init_tracking(store))
        status = fail(TERN_NO_MEMORY, "no memory for the rows of table '%s'", name);
    if (!status)
        status = init_counters(store, options);
    if (!status)
        status = init_index(store);
    if (status) {
        store_fini(store);
        return status;
    }
    store->n_complete = (store->n_natural || store->inlined) && !store->home.backed && !store->gates
                            ? n_home(store)
                            : UINT64_MAX;
    store->pull = pull_loops_for(store);
    if (store->evicts)
        pull_guard(store);
    store->add = push_add_for(store);
    if (store->sketch)
        store_use_sketch(store);
    return TERN_OK;
}

void store_fini(struct store *store)
{
    if (store->home.shared)
        store->sparse = NULL;
    else if (store->index == TERN_DENSE) {
        pages_free(store->dense, store->n_keys * sizeof(struct entry));
        free(store->latch_stripes);
    }
    if (store->sparse) {
        sparse_fini(store->sparse);
        free(store->sparse);
    }
    if (!store->home.shared)
        pages_free(store->sketch ? (void *)store->sketch : store->admission, store->counter_bytes);
    slabs_fini(&store->rows);
    slabs_fini(&store->states);
    slabs_fini(&store->pins);
    slabs_fini(&store->bases);
    slabs_fini(&store->facts);
    slabs_fini(&store->written);
    keymap_free(&store->kept);
    for (uint32_t i = 0; !store->home.shared && i < store->n_shards; i++) {
        marks_fini(&store->changed[i]);
        marks_fini(&store->for_rounds[i]);
        marks_fini(&store->for_backups[i]);
    }
    lock_fini(&store->slot_lock);
}

uint64_t store_memory_bytes(const struct store *store)
{
    uint64_t others =
        store->index == TERN_DENSE
            ? store->n_keys * sizeof(struct entry) + store_slots(store) * slot_bytes(store)
            : atomic_load_explicit(&store->sparse->bytes, memory_order_relaxed);
    return others + store->counter_bytes;
}

/* What index and rows may take. */
static uint64_t rows_limit(const struct store *store)
{
    return store->limit_bytes - store->counter_bytes;
}

bool store_take_bytes(struct store *store)
{
    const size_t bytes = slot_bytes(store);
    if (store->index != TERN_DENSE)
        return sparse_take(store->sparse, bytes, rows_limit(store));
    return bytes <= store->limit_bytes && store_memory_bytes(store) <= store->limit_bytes - bytes;
}

size_t store_mark_words(const struct store *store)
{
    const bool counts_all = store->home.shared && !store->n_natural;
    const uint64_t slots = atomic_load_explicit(
        counts_all ? &store->counts->n_slots : &store->next_slot, memory_order_relaxed);
    size_t words = (slots + 63) / 64, all = store->changed[0].n_words;
    return words < all ? words : all;
}

static bool has_both_marks(const struct store *store)
{
    return store->for_backups[0].slots;
}

/* Whoever takes marks leaves them to the other as well. */
static void pour(struct store *store, uint32_t shard)
{
    marks_pour(&store->changed[shard], store_mark_words(store), &store->for_rounds[shard],
               &store->for_backups[shard]);
}

struct marks *store_marks_for_rounds(struct store *store, uint32_t shard)
{
    if (!has_both_marks(store))
        return &store->changed[shard];
    pour(store, shard);
    return &store->for_rounds[shard];
}

struct marks *store_marks_for_backups(struct store *store, uint32_t shard)
{
    if (!has_both_marks(store))
        return &store->changed[shard];
    pour(store, shard);
    return &store->for_backups[shard];
}

/* The failure of a store that could not make a row. */
static enum tern_status out_of_memory(const struct store *store)
{
    enum tern_status status = store_check_lost(store);
    if (status)
        return status;
    return fail(TERN_NO_MEMORY,
                "table '%s' has %" PRIu64 " rows in %.1f MB and no memory for another%s",
                store->name, store_rows(store), (double)store_memory_bytes(store) / 1e6,
                store->limit_bytes == UINT64_MAX ? "" : "; raise its memory_limit_bytes");
}

/* A slot that was never used, with room for a row and all that belongs to it. */
static bool new_slot(struct store *store, uint32_t *slot)
{
    uint64_t next = atomic_load_explicit(&store->next_slot, memory_order_relaxed);
    /* There are marks for as many as there can be rows. */
    uint64_t most = store->changed[0].slots ? 64 * store->changed[0].n_words : TERN_MAX_ROWS;
    bool fits = next < most && slabs_add(&store->rows, next) && slabs_add(&store->states, next) &&
                slabs_add(&store->bases, next) && slabs_add(&store->facts, next) &&
                slabs_add(&store->written, next) && store_take_bytes(store);
    if (!fits)
        return false;
    atomic_store_explicit(&store->next_slot, next + 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->counts->n_slots, 1, memory_order_relaxed);
    *slot = (uint32_t)next;
    return true;
}

bool store_take_free(struct store *store, uint32_t *slot)
{
    struct store_counts *counts = store->counts;
    if (!atomic_load_explicit(&counts->n_free, memory_order_relaxed) ||
        !latch_take(&counts->free_latch, RANK_SLOTS, store->watch))
        return false;
    const bool taken = counts->first_free;
    if (taken) {
        *slot = counts->first_free - 1;
        memcpy(&counts->first_free, slabs_at(&store->rows, *slot), sizeof counts->first_free);
        atomic_fetch_sub_explicit(&counts->n_free, 1, memory_order_relaxed);
    }
    latch_release(&counts->free_latch, RANK_SLOTS);
    return taken;
}

bool store_take_slot(struct store *store, uint32_t *slot)
{
    if (store_take_free(store, slot))
        return true;
    if (store->home.shared)
        return shared_new_slot(store, slot);
    lock_take(&store->slot_lock);
    const bool taken = new_slot(store, slot);
    lock_release(&store->slot_lock);
    return taken;
}

/* Once a process is lost, slots are not used again. */
void store_give_slot(struct store *store, uint32_t slot)
{
    struct store_counts *counts = store->counts;
    if (!latch_take(&counts->free_latch, RANK_SLOTS, store->watch))
        return;
    memcpy(slabs_at(&store->rows, slot), &counts->first_free, sizeof counts->first_free);
    counts->first_free = slot + 1;
    atomic_fetch_add_explicit(&counts->n_free, 1, memory_order_relaxed);
    latch_release(&counts->free_latch, RANK_SLOTS);
}

/* A slot for the row of a key that is at home here. */
static bool take_slot(struct store *store, uint64_t key, uint32_t *slot)
{
    if (key - store->home.begin >= store->n_natural)
        return store_take_slot(store, slot);
    atomic_fetch_add_explicit(&store->counts->n_slots, 1, memory_order_relaxed);
    *slot = store_natural_slot(store, key);
    return true;
}

void store_reset_state(struct store *store, uint32_t slot)
{
    void *state = store_state(store, slot);
    if (state)
        memset(state, 0, store->states.stride);
    if (store->updater.reset)
        store->updater.reset(&store->updater, store->type, store->length,
                             slabs_at(&store->rows, slot), state);
}

static enum entry_state state_of_new(const struct store *store, uint64_t key)
{
    if (!store->home.rows_everywhere)
        return store->home.backed ? ENTRY_SHARED : ENTRY_OWNED;
    return store_tracks_main(store, key) ? ENTRY_SHARED : ENTRY_REPLICA;
}

/* Gives a latched entry without row one with the initial value; false when memory runs out. The caller holds the key's gate, if
 * there are gates. */
static bool make_row(struct store *store, uint64_t key, struct entry *entry, uint64_t word)
{
    uint32_t slot;
    if (store->gates)
        undo_make(store, key);
    if (!take_slot(store, key, &slot))
        return false;
    init_value(&store->init, store->type, key, store->length, slabs_at(&store->rows, slot));
    store_reset_state(store, slot);
    if (store->changed[0].slots) {
        struct slot_facts *facts = store_facts(store, slot);
        atomic_store_explicit(&facts->key, key, memory_order_relaxed);
        atomic_store_explicit(&facts->age, 0, memory_order_relaxed);
    }
    if (store->home.rows_everywhere)
        store_begin_base(store, slot);
    if (store->evicts)
        evict_stamp(store, slot, evict_now(store, 1));
    entry_release(entry, word, state_of_new(store, key), slot);
    return true;
}

/* The entry of a key, made if it is not there; NULL when memory runs out. */
static struct entry *find_or_insert(struct store *store, uint64_t key)
{
    return store->index == TERN_DENSE
               ? &store->dense[key]
               : sparse_insert(store->sparse, key, rows_limit(store), store->watch);
}

/* Latches an entry with the word that it has; false if it is in an array that was given up, where nothing is latched, or
 * with *waits if the wait was given up. */
static bool latch_found(const struct store *store, struct entry *entry, uint64_t *word,
                        bool *gave_up)
{
    for (struct spin spin = {0};;) {
        *word = entry_read(entry);
        if (store_gives_up(store, *word))
            return false;
        if (!(*word & ENTRY_LATCHED) && entry_try_latch(entry, *word))
            return true;
        if (!spin_again(&spin, store->watch)) {
            *gave_up = !fault(FAULT_LATCH_STOLEN) || !entry_in_slabs(*word);
            *word &= ~ENTRY_LATCHED;
            return !*gave_up;
        }
    }
}

struct entry *store_latch(struct store *store, uint64_t key, uint64_t *word)
{
    bool gave_up = false;
    for (struct spin spin = {0}; !gave_up; gave_up = gave_up || !spin_again(&spin, store->watch)) {
        struct entry *entry = find_or_insert(store, key);
        if (!entry)
            return NULL;
        if (!latch_found(store, entry, word, &gave_up))
            continue;
        if (store_holds(store, entry, key))
            return entry;
        /* The cell was used again. */
        entry_release_same(entry, *word);
    }
    return NULL;
}

static void count_row(struct store *store, uint64_t key)
{
    if (store->gates) {
        undo_made(store, key);
        return;
    }
    /* Release: partner of the acquire in store_reserve. */
    atomic_fetch_add_explicit(&store->counts->n_rows, fault(FAULT_ROW_COUNTED_TWICE) ? 2 : 1,
                              memory_order_release);
}

/* Puts the initial value into the entry of a key that has no row. The entry is not latched: it may have a value by now,
 * which is latched in other ways (latch_stripes.h). */
static enum tern_status create_inline(struct store *store, uint64_t key)
{
    uint32_t value;
    init_value(&store->init, store->type, key, 1, &value);
    for (struct spin spin = {0};;) {
        struct entry *entry = find_or_insert(store, key);
        if (!entry)
            return out_of_memory(store);
        uint64_t word = entry_read(entry);
        if (entry_has_row(word))
            return TERN_OK;
        bool is_free = !(word & ENTRY_LATCHED) && !store_gives_up(store, word);
        if (is_free && entry_replace(entry, word, ENTRY_INLINE, value)) {
            count_row(store, key);
            return TERN_OK;
        }
        if (!spin_again(&spin, store->watch))
            return store_check_lost(store);
    }
}

/* The same for one in the slabs; see make_row. */
static enum tern_status create_row(struct store *store, uint64_t key)
{
    uint64_t word;
    struct entry *entry;
    do {
        entry = store_latch(store, key, &word);
        if (!entry)
            continue;
        if (entry_state(word) != ENTRY_NONE) {
            entry_release_same(entry, word);
            return TERN_OK;
        }
        if (make_row(store, key, entry, word)) {
            count_row(store, key);
            return TERN_OK;
        }
        entry_release_same(entry, word);
    } while (evict_make_room(store, key, !entry));
    return out_of_memory(store);
}

enum tern_status store_create(struct store *store, uint64_t key)
{
    if (store->inlined)
        return create_inline(store, key);
    if (!store_enter_gate(store, key))
        return out_of_memory(store);
    const enum tern_status status = create_row(store, key);
    store_leave_gate(store, key);
    return status;
}

void store_visit(struct store *store, void (*visit)(void *, uint64_t key, uint64_t word),
                 void *context)
{
    if (store->gates)
        undo_visit(store, visit, context);
    else
        sparse_visit(store->sparse, visit, context, store->watch);
}

bool store_has_replica(const struct store *store, const uint64_t *keys, size_t n)
{
    bool found = false;
    for (size_t i = 0; !store_is_homebound(store) && !found && i < n; i++) {
        struct entry *entry;
        found = entry_state(store_look(store, keys[i], &entry)) == ENTRY_REPLICA;
    }
    return found;
}

enum tern_status store_pull_new(struct store *store, uint64_t key, void *value, bool *here)
{
    struct entry *entry;
    enum entry_state state = entry_state(store_look(store, key, &entry));
    enum tern_status status = store_check_lost(store);
    *here = true;
    if (status)
        return status;
    if (state == ENTRY_NONE && (store->init.kind == TERN_INIT_ZERO || store->admission)) {
        memset(value, 0, store->value_bytes);
        return TERN_OK;
    }
    if (store->evicts) {
        init_value(&store->init, store->type, key, store->length, value);
        return TERN_OK;
    }
    status = store_create(store, key);
    if (!status)
        *here = store_pull_one(store, key, value);
    return status || *here ? status : store_check_lost(store);
}

/* Moves an inline value to the slabs, where it can be pointed to; false when memory runs out or a wait was given up. A
 * thread that latches the entry without the stripe waits for nothing meanwhile. */
static bool move_to_slabs(struct store *store, uint64_t key)
{
    struct latch_stripe *stripe = store_stripe(store, key);
    if (!stripe_latch(stripe, store->watch))
        return false;
    struct entry *entry;
    bool done = true;
    uint64_t word;
    if (entry_has_row(store_look(store, key, &entry)) &&
        (done = entry_latch(entry, store->watch, &word))) {
        uint32_t slot = entry_slot(word);
        bool is_inline = entry_state(word) == ENTRY_INLINE;
        done = !is_inline || take_slot(store, key, &slot);
        if (is_inline && done) {
            *(uint32_t *)slabs_at(&store->rows, slot) = entry_slot(word);
            entry_release(entry, word, ENTRY_OWNED, slot);
        } else {
            entry_release_same(entry, word);
        }
    }
    stripe_release(stripe);
    return done;
}

/* The pin count of a slot, made if it is not there; NULL when memory runs out. */
static _Atomic uint32_t *pin_count(struct store *store, uint32_t slot)
{
    if (!slabs_has(&store->pins, slot)) {
        lock_take(&store->slot_lock);
        bool added = slabs_add(&store->pins, slot);
        lock_release(&store->slot_lock);
        if (!added)
            return NULL;
    }
    return slabs_at(&store->pins, slot);
}

struct entry *store_latch_row(const struct store *store, uint64_t key, struct entry *entry,
                              uint64_t *word)
{
    for (struct spin spin = {0};;) {
        *word = entry ? entry_read(entry) : 0;
        if (!entry_in_slabs(*word) && !(*word & ENTRY_LATCHED)) {
            const uint64_t n_rebuilt = store->evicts ? sparse_n_rebuilt(store->sparse) : 0;
            *word = store_look(store, key, &entry);
            if (store->evicts && !sparse_is_as_before(store->sparse, n_rebuilt))
                *word = ENTRY_LATCHED; /* what was found may be another key's */
            if (entry_is_absent(*word) || entry_is_inline(*word))
                return NULL;
        }
        if (entry_readable(*word) && entry_try_latch(entry, *word)) {
            if (store_holds(store, entry, key))
                return entry;
            entry_release_same(entry, *word);
            entry = NULL;
        }
        if (!spin_again(&spin, store->watch))
            return NULL;
    }
}

/* Pins a row that is in the slabs. */
static enum tern_status pin_row(struct store *store, uint64_t key, void **row)
{
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    if (!entry)
        return store_check_lost(store);
    if (entry_state(word) == ENTRY_REPLICA && store->updater.apply) {
        entry_release_same(entry, word);
        return TERN_OK;
    }
    _Atomic uint32_t *count = pin_count(store, entry_slot(word));
    if (count) {
        atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&store->n_pins, 1, memory_order_relaxed);
        *row = slabs_at(&store->rows, entry_slot(word));
    }
    entry_release_same(entry, word);
    return count ? TERN_OK : out_of_memory(store);
}

enum tern_status store_pin(struct store *store, uint64_t key, void **row)
{
    *row = NULL;
    if (store->inlined && !move_to_slabs(store, key))
        return out_of_memory(store);
    if (!store_enter_gate(store, key))
        return store_check_lost(store);
    const enum tern_status status = pin_row(store, key, row);
    store_leave_gate(store, key);
    return status;
}

uint32_t store_pins_of(const struct store *store, uint32_t slot)
{
    if (!slabs_has(&store->pins, slot))
        return 0;
    _Atomic uint32_t *count = slabs_at(&store->pins, slot);
    return atomic_load_explicit(count, memory_order_relaxed);
}

static bool unpin_row(struct store *store, uint64_t key)
{
    uint64_t word;
    struct entry *entry = store_latch_row(store, key, NULL, &word);
    if (!entry)
        return false;
    uint32_t slot = entry_slot(word);
    bool pinned = store_pins_of(store, slot) > 0;
    if (pinned) {
        _Atomic uint32_t *count = slabs_at(&store->pins, slot);
        atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&store->n_pins, 1, memory_order_relaxed);
        /* What was written in place must be told like what was pushed. */
        if (word & ENTRY_TRACKED)
            store_mark(store, slot);
        if (store->evicts)
            evict_stamp(store, slot, evict_now(store, 1));
    }
    entry_release_same(entry, word);
    return pinned;
}

bool store_unpin(struct store *store, uint64_t key)
{
    if (!store_enter_gate(store, key))
        return false;
    const bool pinned = unpin_row(store, key);
    store_leave_gate(store, key);
    return pinned;
}

/* Keys gathered for a range. */
struct collection {
    const struct store *store;
    uint64_t begin, end;
    size_t most; /* the lowest ones that are wanted */
    uint64_t *keys;
    size_t n, capacity;
    bool failed;
};

/* Whether it is for this node to say that a key exists. Where keys come and go it is for the key's home, which
 * knows of every one that was ever made: so each counts once, wherever it is at the moment. */
static bool is_told_here(const struct store *store, uint64_t key, uint64_t word)
{
    if (store->home.rows_move)
        return store_is_home(store, key) && entry_state(word) > ENTRY_MOVED;
    return store->home.rows_everywhere ? entry_has_row(word) : entry_is_main(word);
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts, and leaves out what is not wanted; nothing that is higher will be taken any more. */
static void sort_lowest(struct collection *to)
{
    if (to->n)
        qsort(to->keys, to->n, sizeof *to->keys, compare_keys);
    if (to->n > to->most)
        to->n = to->most;
    if (to->n && to->n == to->most)
        to->end = to->keys[to->n - 1];
}

static void collect(void *context, uint64_t key, uint64_t word)
{
    struct collection *to = context;
    if (key < to->begin || key >= to->end || to->failed || !is_told_here(to->store, key, word))
        return;
    if (to->n == to->capacity && to->n / 2 >= to->most)
        sort_lowest(to);
    if (key >= to->end)
        return;
    if (to->n == to->capacity) {
        size_t capacity = to->capacity ? 2 * to->capacity : 64;
        uint64_t *keys = realloc(to->keys, capacity * sizeof *keys);
        if (!keys) {
            to->failed = true;
            return;
        }
        to->keys = keys;
        to->capacity = capacity;
    }
    to->keys[to->n++] = key;
}

enum tern_status store_collect(struct store *store, uint64_t begin, uint64_t end, size_t most,
                               uint64_t **keys, size_t *n)
{
    struct collection found = {.store = store, .begin = begin, .end = end, .most = most};
    if (store->index == TERN_DENSE || end - begin < store_rows(store)) {
        for (uint64_t key = begin; key < end && found.n < most; key++) {
            struct entry *entry;
            uint64_t word = store_look(store, key, &entry);
            if (entry)
                collect(&found, key, word);
        }
    } else {
        store_visit(store, collect, &found);
        sort_lowest(&found);
    }
    enum tern_status status = store_check_lost(store);
    if (!status && found.failed)
        status =
            fail(TERN_NO_MEMORY, "no memory for the keys of a range of table '%s'", store->name);
    if (status) {
        free(found.keys);
        return status;
    }
    *keys = found.keys;
    *n = found.n;
    return TERN_OK;
}
