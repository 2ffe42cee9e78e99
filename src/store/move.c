/*
 * move - rows that come from other nodes and go there: see store.h.
 *
 * Everything that happens to a row happens under its latch, in one step: a reader or writer finds the
 * row as it was before or learns that it is elsewhere. Slots are used again; whoever copied a row while
 * its slot changed hands sees that the entry's word has changed (entry.h).
 */
#include <string.h>

#include "base/invariant.h"
#include "store/rows.h"
#include "store/store.h"

/* What is known here of a key that is not owned here; number 0 if nothing is. The caller holds its latch. */
static uint32_t known_location(const struct store *store, uint64_t word)
{
    return entry_state(word) == ENTRY_ELSEWHERE ? entry_slot(word)
           : entry_state(word) == ENTRY_REPLICA ? store_facts(store, entry_slot(word))->location
                                                : 0;
}

bool store_location(const struct store *store, uint64_t key, uint32_t *location)
{
    for (;;) {
        struct entry *entry;
        uint64_t word = store_look(store, key, &entry);
        if (entry_state(word) == ENTRY_ELSEWHERE) {
            *location = entry_slot(word);
            return true;
        }
        if (entry_state(word) != ENTRY_REPLICA)
            return false;
        *location = atomic_load_explicit(&store_facts(store, entry_slot(word))->location,
                                         memory_order_relaxed);
        if (entry_unchanged(entry, word))
            return true;
    }
}

/* Whether something better is known from now on than `known`, and what, after node `from` has told *location. What
 * is far older, told by the node where the key was taken to be, shows that numbers have wrapped around. The home is
 * believed then; with the word of another one, or if that one has heard nothing, the home is where to ask next. */
static bool is_better(uint32_t *location, uint32_t known, uint32_t from, uint32_t home)
{
    if (location_is_newer(*location, known))
        return true;
    bool has_heard = location_number(*location);
    if (home == NOBODY || location_node(known) != from || location_node(*location) == from ||
        (has_heard && !location_is_far_older(*location, known)))
        return false;
    if (from != home)
        *location = location_make(home, location_number(has_heard ? *location : known) - 1);
    return true;
}

enum tern_status store_learn(struct store *store, uint64_t key, uint32_t location)
{
    return store_learn_from(store, key, location, NOBODY, NOBODY);
}

enum tern_status store_learn_from(struct store *store, uint64_t key, uint32_t location,
                                  uint32_t from, uint32_t home)
{
    uint64_t word;
    struct entry *entry = store_latch(store, key, &word);
    if (!entry)
        return fail(TERN_NO_MEMORY, "no memory to note where a key of table '%s' is", store->name);
    enum entry_state state = entry_state(word);
    if (state == ENTRY_NONE ||
        (state == ENTRY_ELSEWHERE && is_better(&location, entry_slot(word), from, home))) {
        entry_release(entry, word, ENTRY_ELSEWHERE, location);
        return TERN_OK;
    }
    if (state == ENTRY_REPLICA) {
        struct slot_facts *facts = store_facts(store, entry_slot(word));
        if (is_better(&location, facts->location, from, home))
            atomic_store_explicit(&facts->location, location, memory_order_relaxed);
    }
    entry_release_same(entry, word);
    return TERN_OK;
}

bool store_send_away(struct store *store, uint64_t key, uint32_t node, void *value, void *state,
                     uint32_t *location, uint32_t *slot)
{
    uint64_t word;
    struct entry *entry = store_latch(store, key, &word);
    if (!entry)
        return false;
    *slot = entry_slot(word);
    if (!entry_in_slabs(word) || !entry_is_main(word) || store_pins_of(store, *slot)) {
        entry_release_same(entry, word);
        return false;
    }
    memcpy(value, slabs_at(&store->rows, *slot), store->value_bytes);
    if (store->states.stride)
        memcpy(state, store_state(store, *slot), store->states.stride);
    const uint32_t number = store_facts(store, *slot)->location;
    *location = location_make(node, location_next(number));
    invariant(location_is_newer(*location, location_make(node, number)));
    entry_release(entry, word, ENTRY_ELSEWHERE, *location);
    atomic_fetch_sub_explicit(&store->counts->n_rows, 1, memory_order_relaxed);
    return true;
}

/* Fills a slot for a key that had no row here. */
static void fill_slot(struct store *store, uint32_t slot, uint64_t key, const void *value)
{
    memcpy(slabs_at(&store->rows, slot), value, store->value_bytes);
    struct slot_facts *facts = store_facts(store, slot);
    atomic_store_explicit(&facts->key, key, memory_order_relaxed);
    facts->note = 0;
    atomic_fetch_add_explicit(&store->counts->n_rows, 1, memory_order_relaxed);
}

bool store_knows_later_move(const struct store *store, uint64_t word, uint32_t location)
{
    const uint32_t known = known_location(store, word);
    return location_is_newer(known, location) && !location_is_far_older(location, known);
}

void store_receive(struct store *store, uint64_t key, uint32_t location, const void *value,
                   const void *state, uint32_t slot, bool *used)
{
    uint64_t word;
    struct entry *entry = store_latch(store, key, &word);
    *used = false;
    if (!entry) /* the table is lost */
        return;
    invariant(!store_knows_later_move(store, word, location));
    bool was_replica = entry_state(word) == ENTRY_REPLICA;
    *used = !was_replica;
    if (was_replica) {
        slot = entry_slot(word);
        store_rebase(store, slot, value);
    } else {
        fill_slot(store, slot, key, value);
    }
    if (store->states.stride)
        memcpy(store_state(store, slot), state, store->states.stride);
    /* What was pushed to a replica is applied when it becomes the main copy. */
    if (was_replica && store->updater.apply && store_has_delta(store, slot))
        store->updater.apply(&store->updater, store->type, store->length,
                             slabs_at(&store->rows, slot), store_state(store, slot),
                             slabs_at(&store->bases, slot));
    atomic_store_explicit(&store_facts(store, slot)->location, location, memory_order_relaxed);
    entry_release(entry, word, ENTRY_OWNED, slot);
}

void store_receive_copy(struct store *store, uint64_t key, uint32_t location, const void *value,
                        uint32_t slot, bool *used)
{
    uint64_t word;
    struct entry *entry = store_latch(store, key, &word);
    *used = false;
    if (!entry)
        return;
    /* Another node may have told meanwhile that the key has moved on. */
    location = location_newest(location, known_location(store, word));
    if (entry_state(word) == ENTRY_REPLICA) {
        struct slot_facts *facts = store_facts(store, entry_slot(word));
        store_rebase(store, entry_slot(word), value);
        atomic_store_explicit(&facts->location, location, memory_order_relaxed);
    } else if (!entry_has_row(word) && slot != NO_SLOT) {
        *used = true;
        fill_slot(store, slot, key, value);
        store_begin_base(store, slot);
        atomic_store_explicit(&store_facts(store, slot)->location, location, memory_order_relaxed);
        entry_release(entry, word, ENTRY_REPLICA, slot);
        if (store->evicts)
            atomic_fetch_add_explicit(&store->counts->eviction.n_copies, 1, memory_order_relaxed);
        return;
    }
    entry_release_same(entry, word);
}

bool store_adopt(struct store *store, uint64_t key, const void *value, const void *state)
{
    uint64_t word;
    struct entry *entry = store_latch(store, key, &word);
    if (!entry)
        return false;
    const bool was_replica = entry_state(word) == ENTRY_REPLICA;
    uint32_t slot = entry_slot(word);
    if (entry_is_main(word) || (!was_replica && !store_take_slot(store, &slot))) {
        entry_release_same(entry, word);
        return entry_is_main(word);
    }
    const bool is_changed = was_replica && store_has_delta(store, slot);
    if (was_replica)
        store_rebase(store, slot, value);
    else
        fill_slot(store, slot, key, value);
    if (store->states.stride)
        memcpy(store_state(store, slot), state, rows_state_bytes(store));
    if (is_changed && store->updater.apply)
        store->updater.apply(&store->updater, store->type, store->length,
                             slabs_at(&store->rows, slot), store_state(store, slot),
                             slabs_at(&store->bases, slot));
    struct slot_facts *facts = store_facts(store, slot);
    atomic_store_explicit(&facts->location, 0, memory_order_relaxed);
    facts->note = 0;
    if (is_changed)
        store_mark(store, slot);
    entry_release(entry, word, ENTRY_SHARED, slot);
    return true;
}

bool store_drop_replica(struct store *store, uint64_t key, uint32_t *slot)
{
    uint64_t word;
    struct entry *entry = store_latch(store, key, &word);
    if (!entry)
        return false;
    *slot = entry_slot(word);
    if (entry_state(word) != ENTRY_REPLICA || store_pins_of(store, *slot) ||
        store_has_delta(store, *slot)) {
        entry_release_same(entry, word);
        return false;
    }
    entry_release(entry, word, ENTRY_ELSEWHERE, store_facts(store, *slot)->location);
    if (store->evicts)
        atomic_fetch_sub_explicit(&store->counts->eviction.n_copies, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&store->counts->n_rows, 1, memory_order_relaxed);
    return true;
}

bool store_share(struct store *store, uint64_t key, bool shared, uint32_t *slot)
{
    uint64_t word;
    struct entry *entry = store_latch(store, key, &word);
    if (!entry)
        return false;
    bool here = entry_in_slabs(word) && entry_is_main(word);
    *slot = entry_slot(word);
    if (here)
        entry_release(entry, word, shared || store->home.backed ? ENTRY_SHARED : ENTRY_OWNED,
                      *slot);
    else
        entry_release_same(entry, word);
    return here;
}
