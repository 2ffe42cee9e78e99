/*
 * share - the owner's side of the manager: which nodes want the keys that are here, which values they miss,
 * and the decision between moving a key and copying it. See manager.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/defect.h"
#include "core/manager_internal.h"
#include "core/reply.h"

/* ---- Shares ------------------------------------------------------------------------------------ */

/* A share is sets of nodes: those that want the key, and of them those that miss its value or have a rounded one; and those that
 * may still have a replica. */
static uint64_t *wants(const struct manager *manager, uint32_t share)
{
    return share_sets(manager, share);
}

static uint64_t *misses(const struct manager *manager, uint32_t share)
{
    return wants(manager, share) + SET_MISSES * manager->set_words;
}

static uint64_t *rounded(const struct manager *manager, uint32_t share)
{
    return wants(manager, share) + SET_ROUNDED * manager->set_words;
}

static uint64_t *ended(const struct manager *manager, uint32_t share)
{
    return wants(manager, share) + SET_ENDED * manager->set_words;
}

static bool has(const uint64_t *set, uint32_t node)
{
    return set[node / 64] >> node % 64 & 1;
}

static void add(uint64_t *set, uint32_t node)
{
    set[node / 64] |= UINT64_C(1) << node % 64;
}

static void drop(uint64_t *set, uint32_t node)
{
    set[node / 64] &= ~(UINT64_C(1) << node % 64);
}

/* The number of nodes in a set, and one of them. */
static uint32_t count(const struct manager *manager, const uint64_t *set, uint32_t *one)
{
    uint32_t n = 0;
    for (size_t i = 0; i < manager->set_words; i++) {
        if (set[i])
            *one = (uint32_t)(64 * i + (size_t)__builtin_ctzll(set[i]));
        n += (uint32_t)__builtin_popcountll(set[i]);
    }
    return n;
}

/* An empty share, 1 + its index; 0 when memory runs out. A free one has the next free in its sets. */
static uint32_t new_share(struct manager *manager)
{
    size_t words = SETS * manager->set_words;
    uint32_t share = manager->free_share;
    if (share) {
        manager->free_share = (uint32_t)wants(manager, share)[0];
    } else {
        if (manager->next_share == manager->max_shares) {
            uint32_t max = manager->max_shares ? 2 * manager->max_shares : 256;
            uint64_t *shares = realloc(manager->shares, max * words * sizeof *shares);
            if (!shares) {
                manager->out_of_memory = true;
                return 0;
            }
            manager->shares = shares;
            manager->max_shares = max;
        }
        share = ++manager->next_share;
    }
    memset(wants(manager, share), 0, words * sizeof(uint64_t));
    manager->n_shares++;
    return share;
}

static void free_share(struct manager *manager, uint32_t share)
{
    wants(manager, share)[0] = manager->free_share;
    manager->free_share = share;
    manager->n_shares--;
}

/* The share of a key whose main copy is here; 0 if nobody else wants it. */
static uint32_t share_of(const struct manager *manager, uint64_t key)
{
    struct entry *entry;
    uint64_t word = store_look(manager->store, key, &entry);
    return entry_state(word) == ENTRY_SHARED ? store_facts(manager->store, entry_slot(word))->note
                                             : 0;
}

/* Nobody else wants the key any more. */
static void end_share(struct manager *manager, uint64_t key, uint32_t share)
{
    uint32_t slot;
    if (store_share(manager->store, key, false, &slot))
        store_facts(manager->store, slot)->note = 0;
    free_share(manager, share);
}

/* Notes that a node is to get the value of a key. */
static void miss(struct manager *manager, uint64_t key, uint32_t share, uint32_t node)
{
    if (has(misses(manager, share), node))
        return;
    if (keys_add(manager, &manager->outboxes[node].dirty, key))
        add(misses(manager, share), node);
}

void share_changed(struct manager *manager, uint64_t key, uint32_t slot, uint32_t by)
{
    uint32_t share = store_facts(manager->store, slot)->note;
    if (!share || manager->policy->replica == REPLICA_NEVER)
        return;
    for (size_t i = 0; i < manager->set_words; i++)
        for (uint64_t set = wants(manager, share)[i]; set; set &= set - 1) {
            uint32_t node = (uint32_t)(64 * i + (size_t)__builtin_ctzll(set));
            if (node != by && !(defect(DEFECT_CHANGES_FORGOTTEN) && node % 4 == 1))
                miss(manager, key, share, node);
        }
}

/* ---- The decision ------------------------------------------------------------------------------- */

static bool wanted_here(const struct manager *manager, uint64_t key)
{
    return wanted_get(manager, key) & WANTED_COUNT;
}

/* Whether a key moves to `node`: the only one that wants it. */
static bool may_move(const struct manager *manager, uint64_t key, uint32_t share, uint32_t node)
{
    uint32_t only = 0;
    return manager->policy->main == MAIN_ON_INTENT &&
           (count(manager, wants(manager, share), &only) == 1 ||
            defect(DEFECT_MOVE_WITH_TWO_INTENTS)) &&
           has(wants(manager, share), node) &&
           (!wanted_here(manager, key) || defect(DEFECT_MOVE_WANTED_HERE));
}

/* One node may be left that alone wants the key: it is told in the answer to its next request. */
static void reconsider(struct manager *manager, uint64_t key, uint32_t share)
{
    uint32_t only = 0;
    if (manager->policy->main == MAIN_ON_INTENT && !wanted_here(manager, key) &&
        count(manager, wants(manager, share), &only) == 1)
        keys_add(manager, &manager->outboxes[only].moves, key);
}

void share_reconsider(struct manager *manager, uint64_t key)
{
    uint32_t share = share_of(manager, key);
    if (share)
        reconsider(manager, key, share);
}

/* ---- Requests of others ------------------------------------------------------------------------- */

/* Makes the main copy of a key that was never used, if it is at home here and need not be counted first. */
static bool is_here(struct manager *manager, uint64_t key)
{
    struct store *store = manager->store;
    struct entry *entry;
    uint64_t word = store_look(store, key, &entry);
    if (entry_state(word) == ENTRY_NONE && store_is_home(store, key) &&
        !store->reserve_new(store, key))
        word = store_look(store, key, &entry);
    return entry_is_main(word);
}

/* Where a key is that is not here, as far as is known. */
static uint32_t whereabouts(const struct manager *manager, uint64_t key)
{
    uint32_t location;
    if (store_location(manager->store, key, &location))
        return location;
    return location_make(core_home(manager->core, manager->store, key), 0);
}

enum whereabouts manager_find(struct manager *manager, uint64_t key, uint32_t *location)
{
    /* A key at home here that was never used needs no row to be read, and if there is no memory for one,
     * whoever writes it must hear so. */
    struct entry *entry;
    uint64_t word = store_look(manager->store, key, &entry);
    if (entry_is_main(word) ||
        (entry_state(word) == ENTRY_NONE && store_is_home(manager->store, key))) {
        uint32_t number =
            entry_in_slabs(word) ? store_facts(manager->store, entry_slot(word))->location : 0;
        *location = location_make(manager->core->node, number);
        return KEY_HERE;
    }
    *location = whereabouts(manager, key);
    return wanted_get(manager, key) & (WANTED_SENT | WANTED_REGISTERED) ? KEY_UNKNOWN : KEY_AWAY;
}

void manager_facts(const struct manager *manager, uint64_t key, struct key_facts *facts)
{
    const struct store *store = manager->store;
    uint32_t wanted = wanted_get(manager, key), share = share_of(manager, key), one;
    *facts = (struct key_facts){
        .home = core_home(manager->core, store, key),
        .n_intents = wanted & WANTED_COUNT,
        .is_asked_for = wanted & WANTED_ASKED,
        .is_ending = wanted & WANTED_ENDING,
        .n_wanting = share ? count(manager, wants(manager, share), &one) : 0,
    };
    struct entry *entry;
    uint64_t word = store_look(store, key, &entry);
    uint32_t location = location_make(facts->home, 0);
    if (entry_is_main(word) || (entry_state(word) == ENTRY_NONE && store_is_home(store, key)))
        facts->copy = COPY_MAIN;
    else
        store_location(store, key, &location);
    if (entry_state(word) == ENTRY_REPLICA)
        facts->copy = COPY_REPLICA;
    if (entry_in_slabs(word) && facts->copy == COPY_MAIN)
        location = store_facts(store, entry_slot(word))->location;
    facts->owner = facts->copy == COPY_MAIN ? manager->core->node : location_node(location);
    facts->n_moves = location & 0xffff;
}

bool manager_wanted_by(const struct manager *manager, uint64_t key, uint32_t node, bool *is_behind)
{
    uint32_t share = share_of(manager, key);
    if (!share || !has(wants(manager, share), node))
        return false;
    *is_behind = has(misses(manager, share), node);
    return true;
}

bool manager_written(struct manager *manager, uint32_t by, const uint64_t *keys, size_t n)
{
    bool behind = false;
    for (size_t i = 0; manager->n_shares && i < n; i++) {
        struct entry *entry;
        uint64_t word = store_look(manager->store, keys[i], &entry);
        if (entry_state(word) != ENTRY_SHARED)
            continue;
        share_changed(manager, keys[i], entry_slot(word), manager->core->node);
        const uint32_t share = store_facts(manager->store, entry_slot(word))->note;
        behind |= share && has(wants(manager, share), by);
    }
    return behind && manager->policy->replica != REPLICA_NEVER;
}

static void serve_delta(struct manager *manager, uint32_t from, const uint8_t *item)
{
    uint64_t key = section_get(item);
    uint32_t slot;
    if (!is_here(manager, key)) {
        keys_add(manager, &manager->away_deltas, key);
        return;
    }
    if (store_merge_delta(manager->store, key, item + 8, &slot))
        return;
    manager->counts.deltas_received++;
    manager_note_merged(manager, slot);
    if (manager->store->home.backed)
        keys_add(manager, &manager->merged, key);
    /* The sender has what it sent in its replica, but not what an updater makes of it. */
    bool knows = !manager->store->updater.apply || defect(DEFECT_UPDATE_UNTOLD);
    if (!defect(DEFECT_DELTA_UNTOLD))
        share_changed(manager, key, slot, knows ? from : manager->core->node);
}

static void serve_end(struct manager *manager, uint32_t from, uint64_t key)
{
    uint32_t share = share_of(manager, key), only;
    if (!share || !has(wants(manager, share), from))
        return;
    drop(wants(manager, share), from);
    drop(misses(manager, share), from);
    drop(rounded(manager, share), from);
    if (manager->store->evicts && !defect(DEFECT_ENDED_FORGOTTEN))
        add(ended(manager, share), from);
    trace_note(&manager->trace, TRACE_OTHER_LEAVES, key, from);
    if (count(manager, wants(manager, share), &only) != 0)
        reconsider(manager, key, share);
    else if (count(manager, ended(manager, share), &only) == 0)
        end_share(manager, key, share);
}

/* A node has no replica of a key any more. */
static void serve_dropped(struct manager *manager, uint32_t from, uint64_t key)
{
    uint32_t share = share_of(manager, key), one;
    if (!share || !has(ended(manager, share), from))
        return;
    drop(ended(manager, share), from);
    if (count(manager, wants(manager, share), &one) == 0 &&
        count(manager, ended(manager, share), &one) == 0)
        end_share(manager, key, share);
}

void share_forget_node(struct manager *manager, uint32_t node)
{
    struct store *store = manager->store;
    const uint64_t end = atomic_load_explicit(&store->next_slot, memory_order_relaxed);
    for (uint32_t slot = 0; manager->n_shares && slot < end; slot++) {
        if (!store_facts(store, slot)->note)
            continue;
        struct entry *entry;
        const uint64_t key = store_key_of(store, slot);
        const uint64_t word = store_look(store, key, &entry);
        if (store_shard(store, key) == manager->shard && entry_state(word) == ENTRY_SHARED &&
            entry_slot(word) == slot)
            serve_end(manager, node, key);
        if (manager->store->evicts)
            serve_dropped(manager, node, key);
    }
    struct outbox *outbox = &manager->outboxes[node];
    keys_clear(&outbox->fresh);
    keys_clear(&outbox->dirty);
    keys_clear(&outbox->moves);
    keys_clear(&outbox->rounded);
}

/* Tells the home of a key where it went, unless it is one of the two who know. */
static void locate(struct manager *manager, uint64_t key, uint32_t location)
{
    if (store_is_home(manager->store, key))
        return;
    uint32_t home = core_home(manager->core, manager->store, key);
    if (home == location_node(location))
        return;
    struct outbox *outbox = &manager->outboxes[home];
    if (!keys_add(manager, &outbox->located, key))
        return;
    if (outbox->located.n > outbox->max_locations) {
        size_t max = outbox->located.max;
        uint32_t *locations = realloc(outbox->locations, max * sizeof *locations);
        if (!locations) {
            outbox->located.n--;
            manager->out_of_memory = true;
            return;
        }
        outbox->locations = locations;
        outbox->max_locations = max;
    }
    outbox->locations[outbox->located.n - 1] = location;
}

/* Items of one section, written straight into the answer. */
struct writer {
    uint8_t *header;
    size_t item_bytes;
    uint32_t count;
};

static uint8_t *writer_next(const struct writer *writer)
{
    return writer->header + SECTION_HEADER_BYTES + writer->count * writer->item_bytes;
}

/* How many items a section can have that must end before `end`: about a round's bytes more than it has. */
static size_t room_for(const struct manager *manager, const struct writer *writer,
                       const uint8_t *end)
{
    size_t left = (size_t)(end - writer_next(writer)), more = left / writer->item_bytes;
    size_t enough = manager->round_bytes / writer->item_bytes + 1;
    return writer->count + (more < enough ? more : enough);
}

/* Completes the section; the place after it, which is its begin if it is empty. */
static uint8_t *writer_end(const struct writer *writer, enum section_kind kind)
{
    if (!writer->count)
        return writer->header;
    section_write(writer->header, kind, writer->count, writer->item_bytes);
    return writer_next(writer);
}

/* Sends the main copy of a key, which has this share or none (0), away; false if it cannot leave now. */
static bool move_away(struct manager *manager, uint64_t key, uint32_t share, uint32_t to,
                      struct writer *mains)
{
    struct store *store = manager->store;
    uint8_t *item = writer_next(mains), *value = item + 16;
    uint8_t *state = value + section_padded(store->value_bytes);
    uint32_t location, slot;
    if (!store_send_away(store, key, to, value, state, &location, &slot))
        return false;
    pool_give(manager, slot);
    if (defect(DEFECT_STATE_LEFT_BEHIND))
        memset(state, 0, store->states.stride);
    memset(value + store->value_bytes, 0, section_padded(store->value_bytes) - store->value_bytes);
    memset(state + store->states.stride, 0,
           section_padded(store->states.stride) - store->states.stride);
    section_put(item, key);
    section_put(item + 8, defect(DEFECT_NUMBER_NOT_RAISED) ? location - 1 : location);
    mains->count++;
    if (share && !defect(DEFECT_SHARE_LOST))
        free_share(manager, share);
    if (!defect(DEFECT_HOME_NOT_TOLD))
        locate(manager, key, location);
    manager->counts.moved_away++;
    trace_note(&manager->trace, TRACE_MAIN_LEFT, key, to);
    return true;
}

/* Makes the share of a key whose main copy is here; 0 when memory runs out. */
static uint32_t begin_share(struct manager *manager, uint64_t key)
{
    uint32_t share = new_share(manager), slot;
    if (!share)
        return 0;
    const bool is_kept = !manager->store->evicts || !defect(DEFECT_SHARED_LEAVES);
    if (!store_share(manager->store, key, is_kept, &slot)) {
        free_share(manager, share);
        return 0;
    }
    store_facts(manager->store, slot)->note = share;
    return share;
}

/* A node wants a key. */
static void serve_ask(struct manager *manager, uint32_t from, uint64_t key, struct writer *mains)
{
    if (!is_here(manager, key)) {
        keys_add(manager, &manager->away_asks, key);
        return;
    }
    uint32_t share = share_of(manager, key);
    /* The most common case: nobody else wants it. */
    if (!share && manager->policy->main == MAIN_ON_INTENT && !wanted_here(manager, key) &&
        move_away(manager, key, 0, from, mains))
        return;
    if (!share)
        share = begin_share(manager, key);
    if (!share)
        return;
    add(wants(manager, share), from);
    drop(ended(manager, share), from);
    if (may_move(manager, key, share, from) && move_away(manager, key, share, from, mains))
        return;
    trace_note(&manager->trace, TRACE_OTHER_WANTS, key, from);
    /* Its first value goes out with the answer, whatever else there is to tell. */
    if (manager->policy->replica != REPLICA_NEVER && !defect(DEFECT_FRESH_FORGOTTEN) &&
        keys_add(manager, &manager->outboxes[from].fresh, key))
        add(misses(manager, share), from);
}

/* A node wants a key moved there. One that others have replicas of, or that this node wants for good,
 * stays: the node also gets a replica. */
static void serve_fetch(struct manager *manager, uint32_t from, uint64_t key, struct writer *mains)
{
    if (!is_here(manager, key))
        keys_add(manager, &manager->away_asks, key);
    else if (manager->policy->replica == REPLICA_OF_LISTED &&
             (share_of(manager, key) || wanted_here(manager, key)))
        serve_ask(manager, from, key, mains);
    else if (!share_of(manager, key) && manager->policy->main != MAIN_AT_HOME)
        move_away(manager, key, 0, from, mains);
}

/* Keys that may move to `from` by now, if that still holds. */
static void serve_moves(struct manager *manager, uint32_t from, size_t most, struct writer *mains)
{
    struct keys *moves = &manager->outboxes[from].moves;
    while (moves->n && mains->count < most) {
        fetch_mains(manager, moves);
        uint64_t key = keys_take(moves);
        uint32_t share = share_of(manager, key);
        if (share && may_move(manager, key, share, from))
            move_away(manager, key, share, from, mains);
    }
}

/* Values on a queue that `from` has not got, the oldest first: nothing waits for ever, however much is added. Returns how
 * many keys were taken from the queue. */
static size_t serve_values(struct manager *manager, uint32_t from, struct keys *queue, size_t most,
                           struct writer *copies)
{
    struct store *store = manager->store;
    size_t n_taken = 0;
    while (queue->n && copies->count < most) {
        fetch_mains(manager, queue);
        uint64_t key = keys_take(queue);
        n_taken++;
        uint32_t share = share_of(manager, key);
        if (!share || !has(misses(manager, share), from))
            continue;
        /* The set first, then the value: a change in between is told again. */
        drop(misses(manager, share), from);
        uint8_t *item = writer_next(copies);
        struct entry *entry;
        uint32_t slot = entry_slot(store_look(store, key, &entry));
        uint32_t number = store_facts(store, slot)->location;
        memset(item + 16 + store->value_bytes, 0, copies->item_bytes - 16 - store->value_bytes);
        section_put(item, key);
        section_put(item + 8, location_make(manager->core->node, number));
        store_pull_one(store, key, item + 16);
        copies->count++;
        manager->counts.values_sent++;
    }
    return n_taken;
}

/* Drops keys of which the node has no rounded value any more, and all but one of those that are there twice. */
static void tidy_rounded(struct manager *manager, uint32_t node, struct keys *list)
{
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        const uint32_t share = share_of(manager, list->keys[i]);
        if (!share || !has(rounded(manager, share), node))
            continue;
        drop(rounded(manager, share), node);
        list->keys[n++] = list->keys[i];
    }
    for (size_t i = 0; i < n; i++)
        add(rounded(manager, share_of(manager, list->keys[i])), node);
    list->n = n;
}

/* The values of a section go out rounded, and are sent exactly when all is to be heard. */
static void round_copies(struct manager *manager, uint32_t to, const struct writer *copies)
{
    struct keys *list = &manager->outboxes[to].rounded;
    uint8_t *items = copies->header + SECTION_HEADER_BYTES;
    if (!sifter_round(&manager->sifter, items + 16, copies->count, copies->item_bytes))
        return;
    for (uint32_t i = 0; i < copies->count; i++) {
        const uint64_t key = section_get(items + i * copies->item_bytes);
        const uint32_t share = share_of(manager, key);
        if (has(rounded(manager, share), to))
            continue;
        if (list->n && list->n == list->max)
            tidy_rounded(manager, to, list);
        if (keys_add(manager, list, key))
            add(rounded(manager, share), to);
    }
}

/* A node is to hear everything exactly: it misses the values that it has rounded. */
static void forget_rounded(struct manager *manager, uint32_t node)
{
    struct keys *list = &manager->outboxes[node].rounded;
    for (size_t i = 0; i < list->n && !defect(DEFECT_ROUNDED_KEPT); i++) {
        const uint32_t share = share_of(manager, list->keys[i]);
        if (!share || !has(rounded(manager, share), node))
            continue;
        drop(rounded(manager, share), node);
        miss(manager, list->keys[i], share, node);
    }
    keys_clear(list);
}

/* The first values of new replicas and then, unless `from` asks for no news, those that have changed. So where the
 * latter are told, there are none of the former, and what is left of both bounds a sweep (sweep.h). */
static void serve_news(struct manager *manager, uint32_t from, bool is_brief, size_t most,
                       struct writer *copies, struct frame *reply)
{
    struct outbox *outbox = &manager->outboxes[from];
    serve_values(manager, from, &outbox->fresh, most, copies);
    if (!is_brief)
        outbox->n_passed += serve_values(manager, from, &outbox->dirty, most, copies);
    reply->fields.round_reply.left =
        keys_left(&outbox->fresh) + (is_brief ? 0 : keys_left(&outbox->dirty));
    reply->fields.round_reply.passed = outbox->n_passed;
}

static uint8_t *write_away(const struct manager *manager, struct keys *away, enum section_kind kind,
                           uint8_t *out)
{
    struct writer writer = {.header = out, .item_bytes = 16};
    for (size_t i = 0; i < away->n; i++) {
        uint8_t *item = writer_next(&writer);
        section_put(item, away->keys[i]);
        section_put(item + 8, whereabouts(manager, away->keys[i]));
        writer.count++;
    }
    away->n = 0;
    return writer_end(&writer, kind);
}

/* The bytes that an item of a request must have; 0 for sections that have no place there. */
static size_t expected_bytes(const struct manager *manager, enum section_kind kind)
{
    switch (kind) {
    case SECTION_DELTAS:
        return 8 + section_padded(manager->store->value_bytes);
    case SECTION_ASKS:
    case SECTION_FETCHES:
    case SECTION_ENDS:
        return 8;
    case SECTION_DROPPED:
        return manager->store->evicts ? 8 : 0;
    case SECTION_LOCATED:
        return 16;
    default:
        return 0;
    }
}

/* Checks a whole request before anything of it is done, and counts its keys. */
static enum tern_status check_request(const struct manager *manager, const uint8_t *body,
                                      size_t bytes, size_t n_keys[SECTION_KINDS])
{
    struct section section;
    size_t at = 0;
    bool wrong;
    while (section_next(body, bytes, &at, &section, &wrong)) {
        n_keys[section.kind] += section.count;
        wrong = section.item_bytes != expected_bytes(manager, section.kind);
        for (uint32_t i = 0; !wrong && i < section.count; i++) {
            const uint8_t *item = section.items + i * section.item_bytes;
            wrong = !manager_has_key(manager, section_get(item)) ||
                    (section.kind == SECTION_LOCATED &&
                     !view_has(manager->view, location_node((uint32_t)section_get(item + 8))));
        }
        if (wrong)
            break;
    }
    if (wrong || n_keys[SECTION_ASKS] + n_keys[SECTION_FETCHES] > 2 * FRAME_MAX_KEYS)
        return fail(TERN_INVALID, "a round of table '%s' makes no sense", manager->store->name);
    return TERN_OK;
}

static void serve_section(struct manager *manager, uint32_t from, const struct section *section,
                          struct writer *mains)
{
    if (manager->only_takes && section->kind != SECTION_DELTAS)
        return;
    const bool has_rows = section->kind != SECTION_ENDS && section->kind != SECTION_LOCATED &&
                          section->kind != SECTION_DROPPED;
    const enum fetch what = has_rows ? FETCH_VALUE : FETCH_FACTS;
    fetch_first_items(manager, section->items, section->item_bytes, section->count, what);
    for (uint32_t i = 0; i < section->count; i++) {
        const uint8_t *item = section->items + i * section->item_bytes;
        uint64_t key = section_get(item);
        fetch_items(manager, section->items, section->item_bytes, i, section->count, what);
        if (i + FETCH_SHARE < section->count)
            fetch_share_of(manager, section_get(item + FETCH_SHARE * section->item_bytes));
        switch (section->kind) {
        case SECTION_DELTAS:
            serve_delta(manager, from, item);
            break;
        case SECTION_ENDS:
            serve_end(manager, from, key);
            break;
        case SECTION_ASKS:
            serve_ask(manager, from, key, mains);
            break;
        case SECTION_FETCHES:
            serve_fetch(manager, from, key, mains);
            break;
        case SECTION_DROPPED:
            serve_dropped(manager, from, key);
            break;
        default:
            if (location_node((uint32_t)section_get(item + 8)) != manager->core->node)
                store_learn(manager->store, key, (uint32_t)section_get(item + 8));
            break;
        }
    }
}

/* The bytes of an answer that needs so many for the n_asked keys which its request asks for or changes, and of what may be told
 * beside: no more than there is, for the memory of answers is kept for each node. */
static size_t room_for_answer(const struct manager *manager, const struct outbox *outbox,
                              size_t needed, size_t n_asked, const struct writer *mains,
                              const struct writer *copies)
{
    const size_t n_moves = keys_left(&outbox->moves) + n_asked;
    const size_t n_news = keys_left(&outbox->fresh) + keys_left(&outbox->dirty) +
                          keys_left(&outbox->rounded) + n_asked;
    const size_t there_is = n_moves * mains->item_bytes + n_news * copies->item_bytes;
    const size_t most = 2 * manager->round_bytes;
    const size_t room =
        needed + (there_is < most ? there_is : most) + mains->item_bytes + copies->item_bytes;
    /* The limit of a frame also holds for what we send. */
    return room < FRAME_MAX_BODY_BYTES ? room : FRAME_MAX_BODY_BYTES;
}

enum tern_status manager_serve(struct manager *manager, uint32_t from, const struct frame *request,
                               const uint8_t *body, struct buffer *out)
{
    size_t n_keys[SECTION_KINDS] = {0};
    const bool is_brief = request->fields.round.step == FRAME_BRIEF;
    const bool is_exact = request->fields.round.step == FRAME_EXACT;
    enum tern_status status = check_request(manager, body, request->body_bytes, n_keys);
    if (!status && !is_brief && manager->n_shares)
        status = manager_take_mains(manager);
    if (status)
        return status;
    struct writer mains = {.item_bytes = share_main_item_bytes(manager->store)};
    struct writer copies = {.item_bytes = 16 + section_padded(manager->store->value_bytes)};
    size_t n_asks = n_keys[SECTION_ASKS] + n_keys[SECTION_FETCHES];
    size_t needed = 4 * SECTION_HEADER_BYTES + n_asks * mains.item_bytes +
                    16 * (n_asks + n_keys[SECTION_DELTAS]);
    size_t room = room_for_answer(manager, &manager->outboxes[from], needed,
                                  n_asks + n_keys[SECTION_DELTAS], &mains, &copies);
    uint8_t *answer = needed <= room ? reply_reserve(out, room) : NULL;
    if (!answer)
        return fail(TERN_NO_MEMORY, "no memory to answer a round of table '%s'",
                    manager->store->name);
    mains.header = answer;
    keys_clear(&manager->merged);
    trace_tick(&manager->trace);
    struct section section;
    size_t at = 0;
    bool wrong;
    while (section_next(body, request->body_bytes, &at, &section, &wrong))
        serve_section(manager, from, &section, &mains);
    size_t others = 4 * SECTION_HEADER_BYTES + 16 * (manager->away_asks.n + manager->away_deltas.n);
    if (!manager->only_takes)
        serve_moves(manager, from, room_for(manager, &mains, answer + room - others), &mains);
    copies.header = writer_end(&mains, SECTION_MAINS);
    if (defect(DEFECT_MAIN_ROUNDED) && sifter_rounds(&manager->sifter))
        sifter_round(&manager->sifter, mains.header + SECTION_HEADER_BYTES + 16, mains.count,
                     mains.item_bytes);
    if (is_exact)
        forget_rounded(manager, from);
    struct frame reply = reply_frame(request, view_epoch(manager->core->view), FRAME_ROUND_REPLY);
    if (!manager->only_takes)
        serve_news(manager, from, is_brief, room_for(manager, &copies, answer + room - others),
                   &copies, &reply);
    if (sifter_rounds(&manager->sifter) && !is_exact)
        round_copies(manager, from, &copies);
    uint8_t *end = writer_end(&copies, SECTION_COPIES);
    end = write_away(manager, &manager->away_asks, SECTION_AWAY_ASKS, end);
    end = write_away(manager, &manager->away_deltas, SECTION_AWAY_DELTAS, end);
    if (manager->only_takes)
        reply.flags |= FRAME_TAKEN;
    reply.table = request->table;
    reply.body_bytes = (uint32_t)(end - answer);
    reply_commit(out, &reply);
    manager->counts.bytes_sent += FRAME_HEADER_BYTES + reply.body_bytes;
    manager->counts.bytes_received += FRAME_HEADER_BYTES + request->body_bytes;
    manager->counts.messages++;
    return TERN_OK;
}
