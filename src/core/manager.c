/* manager - keys are wanted and come: see manager.h. What is said to peers is in manager_request.c, the owner's side in
 * share.c. */
#include "core/manager.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "core/defect.h"
#include "core/manager_internal.h"
#include "store/evict.h"

enum {
    AHEAD = 32,           /* keys between a prefetch and its use */
    POOL_SLOTS = 1 << 14, /* free slots kept at hand */
    FIRST_KEYS = 8,       /* of a list: there are ten for each other node, most of them short */
};

/* ---- Making and freeing ------------------------------------------------------------------------ */

struct manager *manager_new(struct core *core, struct store *store, const struct policy *policy,
                            uint32_t shard, const struct manager *first)
{
    struct manager *manager = calloc(1, sizeof *manager);
    if (!manager)
        return NULL;
    *manager = (struct manager){.core = core,
                                .store = store,
                                .policy = policy,
                                .shard = shard,
                                .wanted = first ? first->wanted : NULL,
                                .round_bytes = ROUND_BYTES,
                                .view = core->view,
                                .set_words = (view_capacity(core->view) + 63) / 64};
    manager->outboxes = calloc(view_capacity(core->view), sizeof *manager->outboxes);
    manager->delta = calloc(1, store->value_bytes + store->states.stride + 16);
    bool has_trace = trace_init(&manager->trace);
    if (store->index == TERN_DENSE && !first)
        manager->wanted = pages_new(store->n_keys * sizeof *manager->wanted);
    if (manager->outboxes && manager->delta && has_trace &&
        (manager->wanted || store->index != TERN_DENSE))
        return manager;
    manager_free(manager);
    return NULL;
}

void manager_free(struct manager *manager)
{
    if (!manager)
        return;
    for (uint32_t i = 0; manager->outboxes && i < view_capacity(manager->view); i++) {
        struct outbox *outbox = &manager->outboxes[i];
        struct keys *lists[] = {&outbox->asks,    &outbox->fetches, &outbox->ends,
                                &outbox->changed, &outbox->deltas,  &outbox->located,
                                &outbox->fresh,   &outbox->dirty,   &outbox->moves,
                                &outbox->rounded, &outbox->dropped};
        for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++)
            free(lists[k]->keys);
        free(outbox->locations);
        buffer_free(&outbox->delta_values);
    }
    if (manager->shard == 0)
        pages_free(manager->wanted, manager->store->n_keys * sizeof *manager->wanted);
    keymap_free(&manager->wanted_sparse);
    keymap_free(&manager->registered_at);
    free(manager->spares.keys);
    free(manager->pool.keys);
    free(manager->marked.keys);
    free(manager->merged.keys);
    free(manager->away_asks.keys);
    free(manager->away_deltas.keys);
    free(manager->shares);
    free(manager->outboxes);
    free(manager->delta);
    trace_fini(&manager->trace);
    sifter_fini(&manager->sifter);
    free(manager);
}

bool manager_filter(struct manager *manager, struct core_table *table)
{
    return sifter_init(&manager->sifter, table, manager->core, manager->shard);
}

const struct manager_counts *manager_counts(const struct manager *manager)
{
    return &manager->counts;
}

struct trace *manager_trace(struct manager *manager)
{
    return &manager->trace;
}

bool keys_add(struct manager *manager, struct keys *list, uint64_t key)
{
    if (list->n == list->max && list->first > list->n / 2) {
        list->n -= list->first;
        memmove(list->keys, list->keys + list->first, list->n * sizeof *list->keys);
        list->first = 0;
    }
    if (list->n == list->max) {
        size_t max = list->max ? 2 * list->max : FIRST_KEYS;
        uint64_t *keys = realloc(list->keys, max * sizeof *keys);
        if (!keys) {
            manager->out_of_memory = true;
            return false;
        }
        list->keys = keys;
        list->max = max;
    }
    list->keys[list->n++] = key;
    return true;
}

/* ---- What is known of wanted keys --------------------------------------------------------------- */

void pool_give(struct manager *manager, uint32_t slot)
{
    /* Where memory is short, a slot must also be free for rows that are made here. */
    bool may_keep = manager->store->limit_bytes == UINT64_MAX && manager->pool.n < POOL_SLOTS;
    if (!may_keep || !keys_add(manager, &manager->pool, slot))
        store_give_slot(manager->store, slot);
}

static bool pool_take(struct manager *manager, uint32_t *slot)
{
    if (!manager->pool.n)
        return store_take_slot(manager->store, slot);
    *slot = (uint32_t)manager->pool.keys[--manager->pool.n];
    return true;
}

/* The node to ask for a key whose entry has `word`, and which is not here. */
static struct outbox *outbox_for(struct manager *manager, uint64_t key, uint64_t word)
{
    uint32_t owner = manager->core->node;
    if (entry_state(word) == ENTRY_ELSEWHERE)
        owner = location_node(entry_slot(word));
    else if (entry_state(word) == ENTRY_REPLICA)
        owner = location_node(store_facts(manager->store, entry_slot(word))->location);
    if (owner == manager->core->node)
        owner = core_home(manager->core, manager->store, key);
    return manager_outbox(manager, owner);
}

/* The node that knows a key to be wanted here, or else the one to ask. Of a key without a row here other
 * places may be learned, which need not be the latest. */
struct outbox *manager_outbox_of(struct manager *manager, uint64_t key)
{
    struct entry *entry;
    uint32_t at = manager->registered_at.n ? keymap_get(&manager->registered_at, key) : 0;
    if (at)
        return manager_outbox(manager, at - 1);
    return outbox_for(manager, key, store_look(manager->store, key, &entry));
}

/* ---- Intents begin and end ---------------------------------------------------------------------- */

/* Makes the entry of a key that is to be asked for, and sets a slot aside for what will come, so that
 * nothing can fail when it does. */
static bool prepare_ask(struct manager *manager, uint64_t key, uint64_t word, uint32_t *value)
{
    uint32_t slot, home;
    if (entry_state(word) == ENTRY_NONE) {
        home = location_make(core_home(manager->core, manager->store, key), 0);
        if (store_learn(manager->store, key, home) &&
            !(evict_make_room(manager->store, key, true) &&
              !store_learn(manager->store, key, home)))
            return false;
    }
    /* A replica that is here is itself the place for what will come. */
    if (*value & WANTED_SPARE || entry_state(word) == ENTRY_REPLICA)
        return true;
    if (!pool_take(manager, &slot) &&
        !(evict_make_room(manager->store, key, false) && pool_take(manager, &slot)))
        return false;
    if (!keys_add(manager, &manager->spares, slot)) {
        pool_give(manager, slot);
        return false;
    }
    *value |= WANTED_SPARE;
    return true;
}

/* The slot that was set aside for a key; NO_SLOT if there is none. */
static uint32_t take_spare(struct manager *manager, uint32_t *value)
{
    if (!(*value & WANTED_SPARE))
        return NO_SLOT;
    *value &= ~WANTED_SPARE;
    return (uint32_t)manager->spares.keys[--manager->spares.n];
}

/* A slot that was set aside is not needed. */
void manager_drop_spare(struct manager *manager, uint32_t *value)
{
    uint32_t slot = take_spare(manager, value);
    if (slot != NO_SLOT && !defect(DEFECT_SPARE_LOST))
        pool_give(manager, slot);
}

/* A table that is full does not ask: the key is then used where it is. One that is lost has fallen to this node, which has no
 * copy of it (backup.h). */
void manager_ask(struct manager *manager, uint64_t key, uint32_t *value)
{
    struct store *store = manager->store;
    struct entry *entry;
    uint64_t word = store_look(store, key, &entry);
    if (*value & (WANTED_ASKED | WANTED_REGISTERED))
        return;
    if (entry_is_main(word) || (entry_state(word) == ENTRY_NONE && store_is_home(store, key)))
        return;
    struct outbox *outbox = outbox_for(manager, key, word);
    if (outbox == &manager->outboxes[manager->core->node] ||
        !prepare_ask(manager, key, word, value))
        return;
    if (keys_add(manager, *value & WANTED_ONCE ? &outbox->fetches : &outbox->asks, key))
        *value |= WANTED_ASKED;
    else
        manager_drop_spare(manager, value);
}

/* Whether the row of a key is one that leaves unless the key is wanted here. */
static bool leaves_here(const struct manager *manager, uint64_t key)
{
    return manager->store->evicts && store_is_home(manager->store, key);
}

void manager_want(struct manager *manager, const uint64_t *keys, size_t n)
{
    if (!wanted_reserve(manager, n))
        return;
    if (manager->trace.recording)
        trace_tick(&manager->trace);
    fetch_first_keys(manager, keys, n, AHEAD);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            fetch_key(manager, keys[i + AHEAD]);
        uint32_t value = wanted_get(manager, keys[i]) + 1;
        if ((value & WANTED_COUNT) == 1) {
            if (leaves_here(manager, keys[i]) && !defect(DEFECT_WANTED_LEAVES))
                manager->out_of_memory |= !evict_keep(manager->store, keys[i]);
            manager_ask(manager, keys[i], &value);
            trace_note_intent(&manager->trace, TRACE_INTENT_BEGAN, keys[i]);
        }
        wanted_set(manager, keys[i], value);
    }
}

void manager_fetch(struct manager *manager, const uint64_t *keys, size_t n)
{
    if (!wanted_reserve(manager, n))
        return;
    for (size_t i = 0; i < n; i++) {
        uint32_t value = wanted_get(manager, keys[i]) | WANTED_ONCE;
        manager_ask(manager, keys[i], &value);
        if (!(value & WANTED_ASKED))
            value &= ~WANTED_ONCE;
        wanted_set(manager, keys[i], value);
    }
}

bool manager_is_pinned(const struct manager *manager, uint64_t key)
{
    struct entry *entry;
    uint64_t word = store_look(manager->store, key, &entry);
    return entry_state(word) == ENTRY_REPLICA && store_pins_of(manager->store, entry_slot(word));
}

/* Tells the owner, who knows that this node wanted a key, that it does not any more. While the replica is pinned it
 * must stay; what unpins it marks it, and then its end is told (take_marked). */
void manager_tell_end(struct manager *manager, uint64_t key, uint32_t *value)
{
    if (!(*value & WANTED_ENDING) && !manager_is_pinned(manager, key) &&
        keys_add(manager, &manager_outbox_of(manager, key)->ends, key))
        *value |= WANTED_ENDING;
}

/* Where rows leave, the owner keeps one until it hears that there is no replica of it: that one could still be changed when its end
 * was told. */
static void tell_dropped(struct manager *manager, struct outbox *outbox, uint64_t key)
{
    if (manager->store->evicts && outbox != &manager->outboxes[manager->core->node] &&
        !defect(DEFECT_DROPPED_UNSAID))
        keys_add(manager, &outbox->dropped, key);
}

/* An ask that nobody needs any more is not sent, or not sent on. A replica that was waiting for it goes. */
void manager_give_up_ask(struct manager *manager, uint64_t key, uint32_t *value)
{
    struct entry *entry;
    *value &= ~(WANTED_ASKED | WANTED_SENT);
    manager_drop_spare(manager, value);
    if (entry_state(store_look(manager->store, key, &entry)) == ENTRY_REPLICA)
        manager_tell_end(manager, key, value);
    else
        tell_dropped(manager, manager_outbox_of(manager, key), key);
}

/* The last intent for a key is over. */
static void end_want(struct manager *manager, uint64_t key, uint32_t *value)
{
    if (*value & WANTED_REGISTERED)
        manager_tell_end(manager, key, value);
    else if (!(*value & WANTED_ASKED))
        share_reconsider(manager, key);
}

void manager_unwant(struct manager *manager, const uint64_t *keys, size_t n)
{
    if (manager->trace.recording)
        trace_tick(&manager->trace);
    fetch_first_keys(manager, keys, n, AHEAD);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            fetch_key(manager, keys[i + AHEAD]);
        uint32_t value = wanted_get(manager, keys[i]);
        if (!(value & WANTED_COUNT))
            continue;
        value--;
        /* The owner decides by this count, so it must be right before anybody looks. */
        wanted_set(manager, keys[i], value);
        if (!(value & WANTED_COUNT) && leaves_here(manager, keys[i]))
            evict_unkeep(manager->store, keys[i]);
        if (!(value & WANTED_COUNT) && !defect(DEFECT_EXPIRY_LOST)) {
            end_want(manager, keys[i], &value);
            wanted_set(manager, keys[i], value);
            trace_note_intent(&manager->trace, TRACE_INTENT_ENDED, keys[i]);
        }
    }
}

/* ---- Answers ------------------------------------------------------------------------------------ */

void manager_note_unregistered(struct manager *manager, struct outbox *outbox, uint64_t key,
                               uint32_t *value)
{
    if (*value & WANTED_REGISTERED)
        outbox->n_registered--;
    *value &= ~WANTED_REGISTERED;
    if (manager->registered_at.n)
        keymap_set(&manager->registered_at, key, 0);
}

/* It does, and has sent a row or will do so. */
static void note_registered(struct manager *manager, struct outbox *outbox, uint64_t key,
                            bool has_row, uint32_t *value)
{
    if (!(*value & WANTED_REGISTERED))
        outbox->n_registered++;
    *value |= WANTED_REGISTERED;
    if (has_row && !manager->registered_at.n)
        return;
    if (keymap_reserve(&manager->registered_at, 1))
        keymap_set(&manager->registered_at, key,
                   has_row ? 0 : (uint32_t)(outbox - manager->outboxes) + 1);
    else
        manager->out_of_memory = true;
}

void manager_take_back_delta(struct manager *manager, uint64_t key, const void *delta)
{
    struct store *store = manager->store;
    struct entry *entry;
    uint32_t slot;
    if (defect(DEFECT_RETURNED_DROPPED) || store_return_delta(store, key, delta))
        return;
    if (!entry_is_main(store_look(store, key, &entry))) {
        memcpy(manager->delta, delta, store->value_bytes);
        manager_add_delta(manager, manager_outbox_of(manager, key), key);
    } else if (!store_merge_delta(store, key, delta, &slot)) {
        manager_note_merged(manager, slot);
        share_changed(manager, key, slot, manager->core->node);
    }
}

/* False if there is no place for it, because it was not asked for, or if a later move of it is known: the peer lies. */
static bool take_main(struct manager *manager, struct outbox *outbox, const uint8_t *item)
{
    struct store *store = manager->store;
    uint64_t key = section_get(item);
    uint32_t location = (uint32_t)section_get(item + 8);
    const uint8_t *bytes = item + 16, *state = bytes + section_padded(store->value_bytes);
    struct entry *entry;
    uint64_t word = store_look(store, key, &entry);
    uint32_t value = wanted_get(manager, key);
    if (entry_is_main(word) || (entry_state(word) != ENTRY_REPLICA && !(value & WANTED_SPARE)) ||
        store_knows_later_move(store, word, location))
        return false;
    uint32_t slot = take_spare(manager, &value);
    bool used;
    if (store->updater.apply && defect(DEFECT_GATHERED_LOST))
        store_take_delta(store, key, manager->delta);
    store_receive(store, key, location, bytes, state, slot, &used);
    if (!used && slot != NO_SLOT)
        pool_give(manager, slot);
    manager_note_unregistered(manager, outbox, key, &value);
    wanted_set(manager, key, value & ~(WANTED_ASKED | WANTED_SENT | WANTED_ONCE | WANTED_ENDING));
    manager->counts.moved_here++;
    manager->counts.replicas_ended += !used;
    trace_note(&manager->trace, TRACE_MAIN_CAME, key, (uint32_t)(outbox - manager->outboxes));
    return true;
}

/* False if it was not asked for. */
static bool take_copy(struct manager *manager, struct outbox *outbox, const uint8_t *item)
{
    struct store *store = manager->store;
    uint64_t key = section_get(item);
    uint32_t location = (uint32_t)section_get(item + 8);
    uint32_t value = wanted_get(manager, key);
    if (!(value & (WANTED_SENT | WANTED_REGISTERED)))
        return false;
    uint32_t slot = take_spare(manager, &value);
    bool used;
    if (defect(DEFECT_COPY_OVERWRITES))
        store_take_delta(store, key, manager->delta);
    store_receive_copy(store, key, location, item + 16, slot, &used);
    if (!used && slot != NO_SLOT)
        pool_give(manager, slot);
    note_registered(manager, outbox, key, true, &value);
    /* A copy instead of the main copy: every node should have this key, so this one does from now on. */
    if (value & WANTED_ONCE && value & WANTED_SENT && !(value & WANTED_COUNT) &&
        manager->policy->replica == REPLICA_OF_LISTED)
        value++;
    if (value & WANTED_SENT)
        value &= ~(WANTED_ASKED | WANTED_SENT | WANTED_ONCE);
    if (!(value & WANTED_COUNT) && value & WANTED_REGISTERED)
        manager_tell_end(manager, key, &value);
    wanted_set(manager, key, value);
    manager->counts.values_received++;
    manager->counts.replicas_made += used;
    if (used)
        trace_note(&manager->trace, TRACE_REPLICA_MADE, key, location_node(location));
    return true;
}

/* An ask went to a node that is not the owner: it is sent on to where the key is said to be. A home that
 * names itself has no memory to make the key, or the key was not counted often enough, so there is nobody to ask. */
static void take_away_ask(struct manager *manager, uint32_t peer, const uint8_t *item)
{
    uint64_t key = section_get(item);
    uint32_t location = (uint32_t)section_get(item + 8), value = wanted_get(manager, key);
    if (location_node(location) != manager->core->node)
        core_learn(manager->core, manager->store, key, location, peer);
    manager->counts.redirected++;
    if (!(value & WANTED_ASKED))
        return;
    value &= ~(WANTED_ASKED | WANTED_SENT);
    if (location_node(location) == peer)
        value &= ~WANTED_ONCE;
    else if (value & (WANTED_COUNT | WANTED_ONCE) && !defect(DEFECT_STALE_ASK_FORGOTTEN))
        manager_ask(manager, key, &value);
    if (!(value & WANTED_ASKED))
        manager_give_up_ask(manager, key, &value);
    wanted_set(manager, key, value);
}

/* The deltas of a request, in the order in which they were sent. */
struct sent_deltas {
    const struct buffer *sent;
    struct section section;
    size_t at;
    uint32_t next; /* of the section */
};

/* The next of them; NULL if there is none. */
static const uint8_t *next_sent(struct sent_deltas *deltas)
{
    bool wrong;
    while (deltas->section.kind != SECTION_DELTAS || deltas->next == deltas->section.count) {
        deltas->next = 0;
        if (!section_next(buffer_head(deltas->sent), buffer_size(deltas->sent), &deltas->at,
                          &deltas->section, &wrong))
            return NULL;
    }
    return deltas->section.items + deltas->next++ * deltas->section.item_bytes;
}

/* Takes back deltas that did not find their rows. They are named in the order in which they were sent. */
static void take_away_deltas(struct manager *manager, uint32_t peer, const struct section *away,
                             const struct buffer *sent)
{
    struct sent_deltas deltas = {.sent = sent};
    for (uint32_t i = 0; i < away->count; i++) {
        const uint8_t *item = away->items + i * away->item_bytes;
        const uint64_t key = section_get(item);
        const uint32_t location = (uint32_t)section_get(item + 8);
        if (location_node(location) != manager->core->node)
            core_learn(manager->core, manager->store, key, location, peer);
        manager->counts.redirected++;
        const uint8_t *delta = next_sent(&deltas);
        while (delta && section_get(delta) != key)
            delta = next_sent(&deltas);
        if (delta)
            manager_take_back_delta(manager, key, delta + 8);
    }
    manager->is_left_over = true;
}

void manager_settle_ends(struct manager *manager, struct outbox *outbox, const struct section *ends)
{
    fetch_first_items(manager, ends->items, 8, ends->count, FETCH_BASE);
    for (uint32_t i = 0; i < ends->count; i++) {
        uint64_t key = section_get(ends->items + 8 * i);
        uint32_t value = wanted_get(manager, key) & ~WANTED_ENDING;
        struct entry *entry;
        uint32_t slot;
        fetch_items(manager, ends->items, 8, i, ends->count, FETCH_BASE);
        manager_note_unregistered(manager, outbox, key, &value);
        if (value & WANTED_COUNT)
            manager_ask(manager, key, &value);
        /* An ask, new or not, keeps what is here for its answer. */
        if (value & WANTED_ASKED) {
            wanted_set(manager, key, value);
            continue;
        }
        manager_drop_spare(manager, &value);
        if (defect(DEFECT_DROPPED_CHANGED))
            store_take_delta(manager->store, key, manager->delta);
        if (!defect(DEFECT_REPLICA_KEPT) && store_drop_replica(manager->store, key, &slot)) {
            pool_give(manager, slot);
            manager->counts.replicas_ended++;
            trace_note(&manager->trace, TRACE_REPLICA_ENDED, key,
                       (uint32_t)(outbox - manager->outboxes));
        } else if (entry_state(store_look(manager->store, key, &entry)) == ENTRY_REPLICA) {
            /* It was changed meanwhile: once more. */
            manager_tell_end(manager, key, &value);
        }
        if (entry_state(store_look(manager->store, key, &entry)) != ENTRY_REPLICA)
            tell_dropped(manager, outbox, key);
        wanted_set(manager, key, value);
    }
}

/* Asks that were not answered by a row are known to the owner. */
static void settle_asks(struct manager *manager, struct outbox *outbox, const struct section *asks)
{
    bool fetches = asks->kind == SECTION_FETCHES;
    for (uint32_t i = 0; i < asks->count; i++) {
        uint64_t key = section_get(asks->items + 8 * i);
        uint32_t value = wanted_get(manager, key);
        if (!(value & WANTED_SENT))
            continue;
        value &= ~(WANTED_ASKED | WANTED_SENT | WANTED_ONCE);
        /* The slot stays set aside: the key may come later. */
        if (fetches)
            manager_drop_spare(manager, &value);
        else
            note_registered(manager, outbox, key, false, &value);
        if (!fetches && !(value & WANTED_COUNT))
            manager_tell_end(manager, key, &value);
        wanted_set(manager, key, value);
    }
}

/* Goes through the request that was answered. */
static void settle(struct manager *manager, struct outbox *outbox, const struct buffer *sent)
{
    struct section section;
    size_t at = 0;
    bool wrong;
    while (section_next(buffer_head(sent), buffer_size(sent), &at, &section, &wrong)) {
        if (section.kind == SECTION_ENDS)
            manager_settle_ends(manager, outbox, &section);
        else if (section.kind == SECTION_ASKS || section.kind == SECTION_FETCHES)
            settle_asks(manager, outbox, &section);
    }
}

/* The bytes that an item of an answer must have; 0 for sections that have no place there. */
static size_t expected_bytes(const struct manager *manager, enum section_kind kind)
{
    switch (kind) {
    case SECTION_MAINS:
        return share_main_item_bytes(manager->store);
    case SECTION_COPIES:
        return 16 + section_padded(manager->store->value_bytes);
    case SECTION_AWAY_ASKS:
    case SECTION_AWAY_DELTAS:
        return 16;
    default:
        return 0;
    }
}

static enum tern_status bad_answer(const struct manager *manager, uint32_t peer)
{
    return fail(TERN_PEER, "the answer of node %" PRIu32 " to a round of table '%s' makes no sense",
                peer, manager->store->name);
}

/* Checks the form of a whole answer before anything of it is taken. */
static bool is_well_formed(const struct manager *manager, const uint8_t *body, size_t bytes)
{
    struct section section;
    size_t at = 0;
    bool wrong;
    while (section_next(body, bytes, &at, &section, &wrong)) {
        if (section.item_bytes != expected_bytes(manager, section.kind))
            return false;
        for (uint32_t i = 0; i < section.count; i++) {
            const uint8_t *item = section.items + i * section.item_bytes;
            if (!manager_has_key(manager, section_get(item)) ||
                !view_has(manager->view, location_node((uint32_t)section_get(item + 8))))
                return false;
        }
    }
    return !wrong;
}

static enum tern_status take_section(struct manager *manager, uint32_t peer,
                                     const struct buffer *sent, const struct section *section)
{
    struct outbox *outbox = manager_outbox(manager, peer);
    bool expected = true;
    if (section->kind == SECTION_AWAY_DELTAS) {
        take_away_deltas(manager, peer, section, sent);
        return TERN_OK;
    }
    if (!wanted_reserve(manager, section->count))
        return fail(TERN_NO_MEMORY, "no memory to manage the keys of table '%s'",
                    manager->store->name);
    fetch_first_items(manager, section->items, section->item_bytes, section->count, FETCH_BASE);
    for (uint32_t i = 0; expected && i < section->count; i++) {
        const uint8_t *item = section->items + i * section->item_bytes;
        /* A row that is here already is a replica; one that is new comes into a slot that was set aside. */
        fetch_items(manager, section->items, section->item_bytes, i, section->count, FETCH_BASE);
        if (manager->spares.n > FETCH_ROW)
            fetch_slot(manager, (uint32_t)manager->spares.keys[manager->spares.n - 1 - FETCH_ROW],
                       section->kind == SECTION_COPIES ? FETCH_BASE : FETCH_VALUE);
        switch (section->kind) {
        case SECTION_MAINS:
            expected = take_main(manager, outbox, item);
            break;
        case SECTION_COPIES:
            expected = take_copy(manager, outbox, item);
            break;
        default:
            take_away_ask(manager, peer, item);
            break;
        }
    }
    return expected ? TERN_OK : bad_answer(manager, peer);
}

enum tern_status manager_answer(struct manager *manager, uint32_t peer, const struct buffer *sent,
                                const struct frame *answer, const uint8_t *body, bool *more)
{
    *more = false;
    if (manager_is_unanswered(manager, peer, answer)) {
        manager_unanswered(manager, peer, sent, true);
        return TERN_OK;
    }
    if (answer->kind != FRAME_ROUND_REPLY || answer->keys_bytes ||
        !is_well_formed(manager, body, answer->body_bytes))
        return bad_answer(manager, peer);
    manager->counts.bytes_received += FRAME_HEADER_BYTES + answer->body_bytes;
    trace_tick(&manager->trace);
    struct section section;
    size_t at = 0;
    bool wrong;
    while (section_next(body, answer->body_bytes, &at, &section, &wrong)) {
        enum tern_status status = take_section(manager, peer, sent, &section);
        if (status)
            return status;
    }
    struct outbox *outbox = manager_outbox(manager, peer);
    settle(manager, outbox, sent);
    const union frame_fields *fields = &answer->fields;
    if (outbox->n_again)
        outbox->sweep.is_heard = true;
    else if (!manager->is_brief)
        sweep_hear(&outbox->sweep, fields->round_reply.passed, fields->round_reply.left);
    manager->has_news |= fields->round_reply.left != 0;
    *more = fields->round_reply.left != 0;
    return TERN_OK;
}

void manager_note_staleness(struct manager *manager, uint32_t peer, uint64_t sent_ns,
                            uint64_t now_ns)
{
    struct outbox *outbox = manager_outbox(manager, peer);
    const uint64_t n = outbox->n_registered, since_ns = outbox->news_ns;
    if (manager->is_brief)
        return;
    outbox->news_ns = n ? sent_ns : 0;
    if (!n || !since_ns)
        return;
    const uint64_t age_ns = now_ns - since_ns;
    size_t step = 0;
    while (step + 1 < TERN_STALENESS_STEPS && age_ns > UINT64_C(100000) << step)
        step++;
    manager->counts.staleness[step] += n;
    manager->counts.staleness_ns_sum += (double)n * (double)age_ns;
}

void manager_forget_peer(struct manager *manager, uint32_t peer)
{
    struct outbox *outbox = &manager->outboxes[peer];
    outbox->is_closed = true;
    struct keys *lists[] = {&outbox->asks,   &outbox->fetches, &outbox->ends,   &outbox->changed,
                            &outbox->deltas, &outbox->located, &outbox->dropped};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        keys_clear(lists[i]);
    outbox->n_registered = 0;
    outbox->delta_values.begin = outbox->delta_values.end = 0;
}

void manager_begin_sweep(struct manager *manager)
{
    view_each (i, manager->view)
        sweep_begin(&manager->outboxes[i].sweep);
}

bool manager_is_swept(const struct manager *manager)
{
    bool is_swept = true;
    view_each_while (i, manager->view, is_swept)
        is_swept = sweep_is_over(&manager->outboxes[i].sweep);
    return is_swept;
}

void manager_round_ended(struct manager *manager)
{
    view_each_while (i, manager->view, !manager->is_brief)
        sweep_round_ended(&manager->outboxes[i].sweep);
    manager->counts.rounds++;
    manager->is_left_over = false;
}

bool manager_is_busy(const struct manager *manager)
{
    bool busy = manager->is_left_over;
    view_each_while (i, manager->view, !busy)
        busy = manager_has_todo(manager, i);
    return busy;
}

bool manager_has_unregistered(const struct manager *manager, const uint64_t *keys, size_t n)
{
    bool has_unregistered = false;
    for (size_t i = 0; !has_unregistered && i < n; i++) {
        struct entry *entry;
        has_unregistered =
            entry_state(store_look(manager->store, keys[i], &entry)) == ENTRY_REPLICA &&
            !(wanted_get(manager, keys[i]) & WANTED_REGISTERED);
    }
    return has_unregistered;
}

bool manager_is_sharing(const struct manager *manager)
{
    bool sharing = manager->n_shares > 0;
    view_each_while (i, manager->view, !sharing)
        sharing = manager->outboxes[i].n_registered > 0;
    return sharing;
}
