/* manager - see manager.h. The owner's side is in share.c. */
#include "core/manager.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "core/defect.h"
#include "core/managed.h"

enum {
    AHEAD = 16,
    POOL_SLOTS = 1 << 14, /* free slots kept at hand */
};

/* ---- Making and freeing ------------------------------------------------------------------------ */

/* The manager of a shard; `wanted` is NULL for the first of a table. */
static struct manager *new_manager(struct core *core, struct store *store,
                                   const struct policy *policy, uint32_t generation, uint32_t shard,
                                   uint32_t *wanted)
{
    struct manager *manager = calloc(1, sizeof *manager);
    if (!manager)
        return NULL;
    *manager = (struct manager){.core = core,
                                .store = store,
                                .policy = policy,
                                .generation = generation,
                                .shard = shard,
                                .wanted = wanted,
                                .round_bytes = ROUND_BYTES,
                                .n_nodes = core->n_nodes,
                                .set_words = (core->n_nodes + 63) / 64};
    manager->boxes = calloc(core->n_nodes, sizeof *manager->boxes);
    manager->delta = calloc(1, store->value_bytes + store->states.stride + 16);
    bool has_trace = trace_init(&manager->trace);
    if (store->index == TERN_DENSE && !wanted)
        manager->wanted = pages_new(store->n_keys * sizeof *manager->wanted);
    if (manager->boxes && manager->delta && has_trace &&
        (manager->wanted || store->index != TERN_DENSE))
        return manager;
    manager_free(manager);
    return NULL;
}

struct manager *manager_new(struct core *core, struct store *store, const struct policy *policy,
                            uint32_t generation)
{
    return new_manager(core, store, policy, generation, 0, NULL);
}

bool manager_new_all(struct core *core, struct core_table *table, uint32_t generation)
{
    for (uint32_t i = 0; i < table->store.n_shards; i++) {
        uint32_t *wanted = i ? table->managers[0]->wanted : NULL;
        table->managers[i] =
            new_manager(core, &table->store, table->policy, generation, i, wanted);
        if (!table->managers[i]) {
            manager_free_all(table);
            return false;
        }
    }
    return true;
}

void manager_free_all(struct core_table *table)
{
    for (uint32_t i = STORE_MAX_SHARDS; i-- > 0;) {
        manager_free(table->managers[i]);
        table->managers[i] = NULL;
    }
}

void manager_free(struct manager *manager)
{
    if (!manager)
        return;
    for (uint32_t i = 0; manager->boxes && i < manager->n_nodes; i++) {
        struct box *box = &manager->boxes[i];
        struct keys *lists[] = {&box->asks,   &box->fetches, &box->ends, &box->changed,
                                &box->deltas, &box->located, &box->news, &box->due};
        for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++)
            free(lists[k]->keys);
        free(box->locations);
        buffer_free(&box->delta_values);
    }
    if (manager->shard == 0)
        pages_free(manager->wanted, manager->store->n_keys * sizeof *manager->wanted);
    keymap_free(&manager->wanted_sparse);
    keymap_free(&manager->told_at);
    free(manager->spares.keys);
    free(manager->pool.keys);
    free(manager->marked.keys);
    free(manager->away_asks.keys);
    free(manager->away_deltas.keys);
    free(manager->shares);
    free(manager->boxes);
    free(manager->delta);
    trace_fini(&manager->trace);
    free(manager);
}

uint32_t manager_generation(const struct manager *manager)
{
    return manager->generation;
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
        size_t max = list->max ? 2 * list->max : 256;
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

/* There must be room for a key that is new (wanted_reserve). */
static void wanted_set(struct manager *manager, uint64_t key, uint32_t value)
{
    if (manager->wanted)
        manager->wanted[key] = value;
    else
        keymap_set(&manager->wanted_sparse, key, value);
}

static bool wanted_reserve(struct manager *manager, size_t n)
{
    if (manager->wanted || keymap_reserve(&manager->wanted_sparse, n))
        return true;
    manager->out_of_memory = true;
    return false;
}

void pool_give(struct manager *manager, uint32_t slot)
{
    /* Where memory is short, a slot must be free for rows that are made here, too. */
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
static struct box *box_for(struct manager *manager, uint64_t key, uint64_t word)
{
    uint32_t owner = manager->core->node;
    if (entry_state(word) == ENTRY_ELSEWHERE)
        owner = location_node(entry_slot(word));
    else if (entry_state(word) == ENTRY_REPLICA)
        owner = location_node(store_facts(manager->store, entry_slot(word))->location);
    if (owner == manager->core->node)
        owner = core_home(manager->core, manager->store, key);
    return &manager->boxes[owner];
}

/* The node that knows a key to be wanted here, or else the one to ask. Of a key without a row here other
 * places may be learned, which need not be the latest. */
static struct box *box_of(struct manager *manager, uint64_t key)
{
    struct entry *entry;
    uint32_t told = manager->told_at.n ? keymap_get(&manager->told_at, key) : 0;
    if (told)
        return &manager->boxes[told - 1];
    return box_for(manager, key, store_look(manager->store, key, &entry));
}

/* ---- Intents begin and end ---------------------------------------------------------------------- */

/* Makes the entry of a key that is to be asked for, and sets a slot aside for what will come, so that
 * nothing can fail when it does. */
static bool prepare_ask(struct manager *manager, uint64_t key, uint64_t word, uint32_t *value)
{
    uint32_t slot, home;
    if (entry_state(word) == ENTRY_NONE) {
        home = core_home(manager->core, manager->store, key);
        if (store_learn(manager->store, key, location_make(home, 0)))
            return false;
    }
    /* A replica that is here is itself the place for what will come. */
    if (*value & WANTED_SPARE || entry_state(word) == ENTRY_REPLICA)
        return true;
    if (!pool_take(manager, &slot))
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
static void drop_spare(struct manager *manager, uint32_t *value)
{
    uint32_t slot = take_spare(manager, value);
    if (slot != NO_SLOT && !defect(DEFECT_SPARE_LOST))
        pool_give(manager, slot);
}

/* Asks for a key, unless it is here or its home is. A table that is full does not ask: the key is then
 * used where it is. */
static void ask(struct manager *manager, uint64_t key, uint32_t *value)
{
    struct store *store = manager->store;
    struct entry *entry;
    uint64_t word = store_look(store, key, &entry);
    if (*value & (WANTED_ASKED | WANTED_TOLD))
        return;
    if (entry_is_main(word) || (entry_state(word) == ENTRY_NONE && store_is_home(store, key)))
        return;
    if (!prepare_ask(manager, key, word, value))
        return;
    struct box *box = box_for(manager, key, word);
    if (keys_add(manager, *value & WANTED_ONCE ? &box->fetches : &box->asks, key))
        *value |= WANTED_ASKED;
    else
        drop_spare(manager, value);
}

void manager_want(struct manager *manager, const uint64_t *keys, size_t n)
{
    if (!wanted_reserve(manager, n))
        return;
    if (manager->trace.recording)
        trace_tick(&manager->trace);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            fetch_key(manager, keys[i + AHEAD]);
        uint32_t value = wanted_get(manager, keys[i]) + 1;
        if ((value & WANTED_COUNT) == 1) {
            ask(manager, keys[i], &value);
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
        ask(manager, keys[i], &value);
        if (!(value & WANTED_ASKED))
            value &= ~WANTED_ONCE;
        wanted_set(manager, keys[i], value);
    }
}

/* Whether the program has a pointer to the replica of a key. */
static bool is_pinned(const struct manager *manager, uint64_t key)
{
    struct entry *entry;
    uint64_t word = store_look(manager->store, key, &entry);
    return entry_state(word) == ENTRY_REPLICA && store_pins_of(manager->store, entry_slot(word));
}

/* Tells the owner, who knows that this node wanted a key, that it does not any more. While the replica is pinned it
 * must stay; what unpins it marks it, and then its end is told (take_marked). */
static void tell_end(struct manager *manager, uint64_t key, uint32_t *value)
{
    if (!(*value & WANTED_ENDING) && !is_pinned(manager, key) &&
        keys_add(manager, &box_of(manager, key)->ends, key))
        *value |= WANTED_ENDING;
}

/* An ask that nobody needs any more is not sent, or not sent on. A replica that was waiting for it goes. */
static void give_up_ask(struct manager *manager, uint64_t key, uint32_t *value)
{
    struct entry *entry;
    *value &= ~(WANTED_ASKED | WANTED_SENT);
    drop_spare(manager, value);
    if (entry_state(store_look(manager->store, key, &entry)) == ENTRY_REPLICA)
        tell_end(manager, key, value);
}

/* The last intent for a key is over. */
static void end_want(struct manager *manager, uint64_t key, uint32_t *value)
{
    if (*value & WANTED_TOLD)
        tell_end(manager, key, value);
    else if (!(*value & WANTED_ASKED))
        share_reconsider(manager, key);
}

void manager_unwant(struct manager *manager, const uint64_t *keys, size_t n)
{
    if (manager->trace.recording)
        trace_tick(&manager->trace);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            fetch_key(manager, keys[i + AHEAD]);
        uint32_t value = wanted_get(manager, keys[i]);
        if (!(value & WANTED_COUNT))
            continue;
        value--;
        /* The owner decides by this count, so it must be right before anybody looks. */
        wanted_set(manager, keys[i], value);
        if (!(value & WANTED_COUNT) && !defect(DEFECT_EXPIRY_LOST)) {
            end_want(manager, keys[i], &value);
            wanted_set(manager, keys[i], value);
            trace_note_intent(&manager->trace, TRACE_INTENT_ENDED, keys[i]);
        }
    }
}

/* ---- Requests ----------------------------------------------------------------------------------- */

/* Notes the delta in manager->delta, to be sent; false, and it is taken back, when memory is used up. */
static bool add_delta(struct manager *manager, struct box *box, uint64_t key)
{
    size_t bytes = manager->store->value_bytes;
    if (buffer_append(&box->delta_values, manager->delta, bytes)) {
        if (keys_add(manager, &box->deltas, key))
            return true;
        box->delta_values.end -= bytes;
    }
    store_return_delta(manager->store, key, manager->delta);
    return false;
}

/* Notes that a replica was changed, whose main copy is there. With the table its rows have ended there. */
static bool note_changed(struct manager *manager, uint64_t key, uint32_t location)
{
    struct box *box = &manager->boxes[location_node(location)];
    return box->is_closed || keys_add(manager, &box->changed, key);
}

/* A replica that nobody wants and nothing is done about was kept because it was pinned. */
static void end_kept(struct manager *manager, uint64_t key)
{
    uint32_t value = wanted_get(manager, key);
    if (value & (WANTED_COUNT | WANTED_ENDING | WANTED_ASKED) || !wanted_reserve(manager, 1))
        return;
    tell_end(manager, key, &value);
    wanted_set(manager, key, value);
}

/* Notes what must be told of a marked row. */
static enum tern_status take_marked(struct manager *manager, uint32_t slot)
{
    struct store *store = manager->store;
    uint64_t key;
    uint32_t location;
    enum marked marked = store_marked(store, slot, &key, &location);
    /* If the slot has a row of another shard by now, its changes are marked there. */
    if (marked != MARKED_NOTHING && store_shard(store, key) != manager->shard)
        return TERN_OK;
    if (marked == MARKED_MAIN)
        share_changed(manager, key, slot, manager->core->node);
    if (marked == MARKED_REPLICA)
        end_kept(manager, key);
    if (marked != MARKED_REPLICA || note_changed(manager, key, location))
        return TERN_OK;
    store_mark(store, slot);
    return fail(TERN_NO_MEMORY, "no memory for the changes of table '%s'", store->name);
}

enum tern_status manager_take(struct manager *manager)
{
    struct store *store = manager->store;
    struct keys *marked = &manager->marked;
    size_t n_words = store_mark_words(store);
    uint64_t bits;
    /* First all that was noted: so a row is noted once, and what there was when somebody began to wait for it is
     * sent however fast more is changed. */
    for (uint32_t i = 0; i < manager->n_nodes; i++)
        if (keys_left(&manager->boxes[i].changed))
            return TERN_OK;
    marked->n = 0;
    for (size_t i = 0; (bits = marks_take(&store->changed[manager->shard], &i, n_words)) != 0; i++)
        for (; bits; bits &= bits - 1)
            keys_add(manager, marked, 64 * i + (size_t)__builtin_ctzll(bits));
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < marked->n; i++) {
        if (i + FETCH_KEY < marked->n)
            __builtin_prefetch(store_facts(store, (uint32_t)marked->keys[i + FETCH_KEY]));
        if (i + FETCH_ROW < marked->n) {
            fetch_key(manager, store_key_of(store, (uint32_t)marked->keys[i + FETCH_ROW]));
            fetch_share(manager, (uint32_t)marked->keys[i + FETCH_ROW]);
        }
        status = take_marked(manager, (uint32_t)marked->keys[i]);
    }
    if (manager->out_of_memory && !status)
        status = fail(TERN_NO_MEMORY, "no memory to manage the keys of table '%s'", store->name);
    return status;
}

bool manager_has_todo(const struct manager *manager, uint32_t peer)
{
    const struct box *box = &manager->boxes[peer];
    bool has_changes = box->changed.n && !defect(DEFECT_CLEAN_EARLY);
    return !box->is_closed && (box->asks.n || box->fetches.n || box->ends.n || has_changes ||
                               box->deltas.n || box->located.n);
}

bool manager_has_request(const struct manager *manager, uint32_t peer)
{
    return manager->boxes[peer].n_told || manager_has_todo(manager, peer);
}

static size_t delta_item_bytes(const struct manager *manager)
{
    return 8 + section_padded(manager->store->value_bytes);
}

/* The bytes that the answer for one asked key may take. */
static size_t main_item_bytes(const struct manager *manager)
{
    return share_main_item_bytes(manager->store);
}

static size_t most_items(size_t bytes, size_t item_bytes)
{
    size_t n = bytes / item_bytes;
    return n < 1 ? 1 : n > FRAME_MAX_KEYS ? FRAME_MAX_KEYS : n;
}

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* Whether a key on a list for a node still has a reason to be there. */
typedef bool keep_function(struct manager *manager, const struct box *box, uint64_t key);

/* Writes one section of bare keys taken from the front of a list; `keep` says which still matter. */
static uint8_t *write_keys(struct manager *manager, struct box *box, enum section_kind kind,
                           struct keys *list, size_t most, keep_function *keep, uint8_t *out)
{
    uint8_t *items = out + SECTION_HEADER_BYTES;
    uint32_t count = 0;
    while (list->n && count < most) {
        uint64_t key = keys_take(list);
        if (keep(manager, box, key))
            section_put(items + 8 * count++, key);
    }
    if (!count)
        return out;
    section_write(out, kind, count, 8);
    return items + 8 * count;
}

/* Whether a key on the list of asks is still to be asked for. */
static bool keep_ask(struct manager *manager, const struct box *box, uint64_t key)
{
    (void)box;
    uint32_t value = wanted_get(manager, key);
    if (!(value & WANTED_ASKED))
        return false;
    bool keep = value & (WANTED_COUNT | WANTED_ONCE);
    if (keep)
        value |= WANTED_SENT;
    else
        give_up_ask(manager, key, &value);
    wanted_set(manager, key, value);
    return keep;
}

/* Whether an end is still to be told, and to this node. If the key is known to be elsewhere by now, it is
 * told there. */
static bool keep_end(struct manager *manager, const struct box *box, uint64_t key)
{
    uint32_t value = wanted_get(manager, key);
    if (!(value & WANTED_ENDING))
        return false;
    bool is_over = !(value & WANTED_COUNT);
    if (is_over && box == box_of(manager, key))
        return true;
    value &= ~WANTED_ENDING;
    if (is_over)
        tell_end(manager, key, &value);
    wanted_set(manager, key, value);
    return false;
}

/* A section of deltas that is being written. */
struct deltas {
    uint8_t *section, *out;
    size_t n, most;
};

static void put_delta(struct manager *manager, struct deltas *to, uint64_t key, const void *delta)
{
    const size_t bytes = manager->store->value_bytes, item_bytes = delta_item_bytes(manager);
    section_put(to->out, key);
    memcpy(to->out + 8, delta, bytes);
    memset(to->out + 8 + bytes, 0, item_bytes - 8 - bytes);
    to->out += item_bytes;
    to->n++;
}

/* Takes the first n of the deltas that came back, of which there are some, off their list. */
static void drop_deltas(const struct manager *manager, struct box *box, size_t n)
{
    buffer_consume(&box->delta_values, n * manager->store->value_bytes);
    box->deltas.n -= n;
    memmove(box->deltas.keys, box->deltas.keys + n, box->deltas.n * sizeof *box->deltas.keys);
}

/* What was changed in replicas, as it is now. A main copy that has moved meanwhile is told where it is. */
static void put_changed(struct manager *manager, uint32_t peer, struct deltas *to)
{
    struct keys *changed = &manager->boxes[peer].changed;
    struct store *store = manager->store;
    while (keys_left(changed) && to->n < to->most) {
        fetch_keys(manager, changed->keys + changed->first, keys_left(changed), FETCH_BASE);
        uint64_t key = keys_take(changed);
        uint32_t location = location_make(peer, 0);
        if (store_take_changed(store, key, peer, manager->delta, &location)) {
            put_delta(manager, to, key, manager->delta);
            if (defect(DEFECT_BASE_NOT_RESET))
                store_return_delta(store, key, manager->delta);
        } else if (location_node(location) != peer) {
            note_changed(manager, key, location);
        }
    }
}

/* The ends of replicas go out together with all that was changed in them. Returns how many may. */
static size_t put_ending(struct manager *manager, struct box *box, size_t most, struct deltas *to)
{
    struct store *store = manager->store;
    const size_t n = at_most(keys_left(&box->ends), most);
    for (size_t i = 0; i < n; i++) {
        const uint64_t *ends = &box->ends.keys[box->ends.first + i], key = *ends;
        struct entry *entry;
        fetch_keys(manager, ends, n - i, FETCH_BASE);
        if (to->n == to->most)
            return i;
        if (entry_state(store_look(store, key, &entry)) == ENTRY_REPLICA &&
            store_take_delta(store, key, manager->delta))
            put_delta(manager, to, key, manager->delta);
    }
    return n;
}

/* Writes what was changed, and lists in *n_ends how many ends may follow it. */
static uint8_t *write_deltas(struct manager *manager, uint32_t peer, size_t most, uint8_t *out,
                             size_t *n_ends)
{
    struct box *box = &manager->boxes[peer];
    const size_t bytes = manager->store->value_bytes;
    struct deltas deltas = {.section = out, .out = out + SECTION_HEADER_BYTES, .most = most};
    const size_t n_returned = at_most(box->deltas.n, most);
    for (size_t i = 0; i < n_returned; i++)
        put_delta(manager, &deltas, box->deltas.keys[i],
                  buffer_head(&box->delta_values) + i * bytes);
    if (n_returned)
        drop_deltas(manager, box, n_returned);
    put_changed(manager, peer, &deltas);
    *n_ends = put_ending(manager, box, *n_ends, &deltas);
    if (!deltas.n)
        return out;
    section_write(deltas.section, SECTION_DELTAS, (uint32_t)deltas.n, delta_item_bytes(manager));
    manager->counts.deltas_sent += deltas.n;
    return deltas.out;
}

static uint8_t *write_located(struct box *box, size_t most, uint8_t *out)
{
    size_t n = box->located.n < most ? box->located.n : most;
    if (!n)
        return out;
    section_write(out, SECTION_LOCATED, (uint32_t)n, 16);
    out += SECTION_HEADER_BYTES;
    for (size_t i = 0; i < n; i++, out += 16) {
        box->located.n--;
        section_put(out, box->located.keys[box->located.n]);
        section_put(out + 8, box->locations[box->located.n]);
    }
    return out;
}

enum tern_status manager_request(struct manager *manager, uint32_t peer, struct buffer *body)
{
    struct box *box = &manager->boxes[peer];
    size_t most_deltas = most_items(manager->round_bytes, delta_item_bytes(manager));
    size_t most_asks = most_items(manager->round_bytes, main_item_bytes(manager));
    size_t most_keys = most_items(manager->round_bytes / 4, 16), n_ends = most_deltas;
    size_t others = 5 * SECTION_HEADER_BYTES + 8 * (2 * most_asks + n_ends) + 16 * most_keys;
    most_deltas =
        at_most(most_deltas, most_items(FRAME_MAX_BODY_BYTES - others, delta_item_bytes(manager)));
    body->begin = body->end = 0;
    uint8_t *out = buffer_reserve(body, others + most_deltas * delta_item_bytes(manager));
    if (!out)
        return fail(TERN_NO_MEMORY, "no memory for a round of table '%s'", manager->store->name);
    uint8_t *begin = out;
    /* Deltas first: an end comes after what was changed before it. */
    out = write_deltas(manager, peer, most_deltas, out, &n_ends);
    if (n_ends)
        out = write_keys(manager, box, SECTION_ENDS, &box->ends, n_ends, keep_end, out);
    const uint8_t *asks = out;
    out = write_keys(manager, box, SECTION_ASKS, &box->asks, most_asks, keep_ask, out);
    /* All of these rows may be in the answer. */
    if (out == asks || main_item_bytes(manager) < FRAME_MAX_BODY_BYTES / 4)
        out = write_keys(manager, box, SECTION_FETCHES, &box->fetches, most_asks, keep_ask, out);
    out = write_located(box, most_keys, out);
    body->end += (size_t)(out - begin);
    manager->counts.messages++;
    manager->counts.bytes_sent += FRAME_HEADER_BYTES + (size_t)(out - begin);
    return TERN_OK;
}

/* ---- Answers ------------------------------------------------------------------------------------ */

/* The owner does not know of this node's interest in a key any more. */
static void untell(struct manager *manager, struct box *box, uint64_t key, uint32_t *value)
{
    if (*value & WANTED_TOLD)
        box->n_told--;
    *value &= ~WANTED_TOLD;
    if (manager->told_at.n)
        keymap_set(&manager->told_at, key, 0);
}

/* It does, and has sent a row or will do so. */
static void tell(struct manager *manager, struct box *box, uint64_t key, bool has_row,
                 uint32_t *value)
{
    if (!(*value & WANTED_TOLD))
        box->n_told++;
    *value |= WANTED_TOLD;
    if (has_row && !manager->told_at.n)
        return;
    if (keymap_reserve(&manager->told_at, 1))
        keymap_set(&manager->told_at, key, has_row ? 0 : (uint32_t)(box - manager->boxes) + 1);
    else
        manager->out_of_memory = true;
}

/* A delta that was not delivered goes back into its replica. If that has become the main copy meanwhile,
 * it is done there; if it has ended, the delta is sent to where the key is now. */
static void take_back_delta(struct manager *manager, uint64_t key, const void *delta)
{
    struct store *store = manager->store;
    struct entry *entry;
    uint32_t slot;
    if (defect(DEFECT_RETURNED_DROPPED) || store_return_delta(store, key, delta))
        return;
    if (!entry_is_main(store_look(store, key, &entry))) {
        memcpy(manager->delta, delta, store->value_bytes);
        add_delta(manager, box_of(manager, key), key);
    } else if (!store_merge_delta(store, key, delta, &slot)) {
        share_changed(manager, key, slot, manager->core->node);
    }
}

/* False if there is no place for it, because it was not asked for. */
static bool take_main(struct manager *manager, struct box *box, const uint8_t *item)
{
    struct store *store = manager->store;
    uint64_t key = section_get(item);
    uint32_t location = (uint32_t)section_get(item + 8);
    const uint8_t *bytes = item + 16, *state = bytes + section_padded(store->value_bytes);
    struct entry *entry;
    uint64_t word = store_look(store, key, &entry);
    uint32_t value = wanted_get(manager, key);
    if (entry_is_main(word) || (entry_state(word) != ENTRY_REPLICA && !(value & WANTED_SPARE)))
        return false;
    uint32_t slot = take_spare(manager, &value);
    bool used;
    if (store->updater.apply && defect(DEFECT_GATHERED_LOST))
        store_take_delta(store, key, manager->delta);
    store_receive(store, key, location, bytes, state, slot, &used);
    if (!used && slot != NO_SLOT)
        pool_give(manager, slot);
    untell(manager, box, key, &value);
    wanted_set(manager, key, value & ~(WANTED_ASKED | WANTED_SENT | WANTED_ONCE | WANTED_ENDING));
    manager->counts.moved_here++;
    manager->counts.replicas_ended += !used;
    trace_note(&manager->trace, TRACE_MAIN_CAME, key, (uint32_t)(box - manager->boxes));
    return true;
}

/* False if it was not asked for. */
static bool take_copy(struct manager *manager, struct box *box, const uint8_t *item)
{
    struct store *store = manager->store;
    uint64_t key = section_get(item);
    uint32_t location = (uint32_t)section_get(item + 8);
    uint32_t value = wanted_get(manager, key);
    if (!(value & (WANTED_SENT | WANTED_TOLD)))
        return false;
    uint32_t slot = take_spare(manager, &value);
    bool used;
    if (defect(DEFECT_COPY_OVERWRITES))
        store_take_delta(store, key, manager->delta);
    store_receive_copy(store, key, location, item + 16, slot, &used);
    if (!used && slot != NO_SLOT)
        pool_give(manager, slot);
    tell(manager, box, key, true, &value);
    /* A copy instead of the main copy: every node should have this key, so this one does from now on. */
    if (value & WANTED_ONCE && value & WANTED_SENT && !(value & WANTED_COUNT) &&
        manager->policy->replica == REPLICA_OF_LISTED)
        value++;
    if (value & WANTED_SENT)
        value &= ~(WANTED_ASKED | WANTED_SENT | WANTED_ONCE);
    if (!(value & WANTED_COUNT) && value & WANTED_TOLD)
        tell_end(manager, key, &value);
    wanted_set(manager, key, value);
    manager->counts.values_received++;
    manager->counts.replicas_made += used;
    if (used)
        trace_note(&manager->trace, TRACE_REPLICA_MADE, key, location_node(location));
    return true;
}

/* An ask went to a node that is not the owner: it is sent on to where the key is said to be. A home that
 * names itself has no memory to make the key, so there is nobody to ask. */
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
        ask(manager, key, &value);
    if (!(value & WANTED_ASKED))
        give_up_ask(manager, key, &value);
    wanted_set(manager, key, value);
}

/* Takes back deltas that did not find their rows. They are named in the order in which they were sent, as the first
 * section. */
static void take_away_deltas(struct manager *manager, uint32_t peer, const struct section *away,
                             const struct buffer *sent)
{
    struct section deltas;
    size_t at = 0;
    bool wrong;
    if (!section_next(buffer_head(sent), buffer_size(sent), &at, &deltas, &wrong) ||
        deltas.kind != SECTION_DELTAS)
        return;
    uint32_t next = 0;
    for (uint32_t i = 0; i < away->count; i++) {
        const uint8_t *item = away->items + i * away->item_bytes;
        const uint64_t key = section_get(item);
        const uint32_t location = (uint32_t)section_get(item + 8);
        if (location_node(location) != manager->core->node)
            core_learn(manager->core, manager->store, key, location, peer);
        manager->counts.redirected++;
        while (next < deltas.count && section_get(deltas.items + next * deltas.item_bytes) != key)
            next++;
        if (next < deltas.count)
            take_back_delta(manager, key, deltas.items + next++ * deltas.item_bytes + 8);
    }
    manager->is_left_over = true;
}

/* What was told in the request has been heard: ends are over, and asks that were not answered by a row
 * are known to the owner. */
static void settle_ends(struct manager *manager, struct box *box, const struct section *ends)
{
    for (uint32_t i = 0; i < ends->count; i++) {
        uint64_t key = section_get(ends->items + 8 * i);
        uint32_t value = wanted_get(manager, key) & ~WANTED_ENDING;
        struct entry *entry;
        uint32_t slot;
        fetch_items(manager, ends->items, 8, i, ends->count, FETCH_BASE);
        untell(manager, box, key, &value);
        if (value & WANTED_COUNT)
            ask(manager, key, &value);
        /* An ask, new or not, keeps what is here for its answer. */
        if (value & WANTED_ASKED) {
            wanted_set(manager, key, value);
            continue;
        }
        drop_spare(manager, &value);
        if (defect(DEFECT_DROPPED_CHANGED))
            store_take_delta(manager->store, key, manager->delta);
        if (!defect(DEFECT_REPLICA_KEPT) && store_drop_replica(manager->store, key, &slot)) {
            pool_give(manager, slot);
            manager->counts.replicas_ended++;
            trace_note(&manager->trace, TRACE_REPLICA_ENDED, key, (uint32_t)(box - manager->boxes));
        } else if (entry_state(store_look(manager->store, key, &entry)) == ENTRY_REPLICA) {
            /* It was changed meanwhile: once more. */
            tell_end(manager, key, &value);
        }
        wanted_set(manager, key, value);
    }
}

static void settle_asks(struct manager *manager, struct box *box, const struct section *asks)
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
            drop_spare(manager, &value);
        else
            tell(manager, box, key, false, &value);
        if (!fetches && !(value & WANTED_COUNT))
            tell_end(manager, key, &value);
        wanted_set(manager, key, value);
    }
}

/* Goes through the request that was answered. */
static void settle(struct manager *manager, struct box *box, const struct buffer *sent)
{
    struct section section;
    size_t at = 0;
    bool wrong;
    while (section_next(buffer_head(sent), buffer_size(sent), &at, &section, &wrong)) {
        if (section.kind == SECTION_ENDS)
            settle_ends(manager, box, &section);
        else if (section.kind == SECTION_ASKS || section.kind == SECTION_FETCHES)
            settle_asks(manager, box, &section);
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
                location_node((uint32_t)section_get(item + 8)) >= manager->core->n_nodes)
                return false;
        }
    }
    return !wrong;
}

static enum tern_status take_section(struct manager *manager, uint32_t peer,
                                     const struct buffer *sent, const struct section *section)
{
    struct box *box = &manager->boxes[peer];
    bool expected = true;
    if (section->kind == SECTION_AWAY_DELTAS) {
        take_away_deltas(manager, peer, section, sent);
        return TERN_OK;
    }
    if (!wanted_reserve(manager, section->count))
        return fail(TERN_NO_MEMORY, "no memory to manage the keys of table '%s'",
                    manager->store->name);
    for (uint32_t i = 0; expected && i < section->count; i++) {
        const uint8_t *item = section->items + i * section->item_bytes;
        /* A row that is here already is a replica; one that is new comes into a slot that was set aside. */
        fetch_items(manager, section->items, section->item_bytes, i, section->count, FETCH_BASE);
        if (manager->spares.n > FETCH_ROW)
            fetch_slot(manager, (uint32_t)manager->spares.keys[manager->spares.n - 1 - FETCH_ROW],
                       section->kind == SECTION_COPIES ? FETCH_BASE : FETCH_VALUE);
        switch (section->kind) {
        case SECTION_MAINS:
            expected = take_main(manager, box, item);
            break;
        case SECTION_COPIES:
            expected = take_copy(manager, box, item);
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
    if (answer->kind != FRAME_NEWS || answer->keys_bytes ||
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
    settle(manager, &manager->boxes[peer], sent);
    sweep_hear(&manager->boxes[peer].sweep, answer->b, answer->a);
    *more = answer->a != 0;
    return TERN_OK;
}

void manager_note_staleness(struct manager *manager, uint32_t peer, uint64_t then_ns,
                            uint64_t now_ns)
{
    uint64_t n = manager->boxes[peer].n_told, age_ns = now_ns - then_ns;
    size_t step = 0;
    while (step + 1 < TERN_STALENESS_STEPS && age_ns > UINT64_C(100000) << step)
        step++;
    manager->counts.staleness[step] += n;
    manager->counts.staleness_ns_sum += (double)n * (double)age_ns;
}

void manager_forget_peer(struct manager *manager, uint32_t peer)
{
    struct box *box = &manager->boxes[peer];
    box->is_closed = true;
    struct keys *lists[] = {&box->asks,    &box->fetches, &box->ends,
                            &box->changed, &box->deltas,  &box->located};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        keys_clear(lists[i]);
    box->n_told = 0;
    box->delta_values.begin = box->delta_values.end = 0;
}

void manager_begin_sweep(struct manager *manager)
{
    for (uint32_t i = 0; i < manager->n_nodes; i++)
        sweep_begin(&manager->boxes[i].sweep);
}

bool manager_is_swept(const struct manager *manager)
{
    bool is_swept = true;
    for (uint32_t i = 0; is_swept && i < manager->n_nodes; i++)
        is_swept = sweep_is_over(&manager->boxes[i].sweep);
    return is_swept;
}

void manager_round_ended(struct manager *manager)
{
    for (uint32_t i = 0; i < manager->n_nodes; i++)
        sweep_round_ended(&manager->boxes[i].sweep);
    manager->counts.rounds++;
    manager->is_left_over = false;
}

bool manager_is_busy(const struct manager *manager)
{
    bool busy = manager->is_left_over;
    for (uint32_t i = 0; !busy && i < manager->core->n_nodes; i++)
        busy = manager_has_todo(manager, i);
    return busy;
}

bool manager_has_untold(const struct manager *manager, const uint64_t *keys, size_t n)
{
    bool has_untold = false;
    for (size_t i = 0; !has_untold && i < n; i++) {
        struct entry *entry;
        has_untold = entry_state(store_look(manager->store, keys[i], &entry)) == ENTRY_REPLICA &&
                     !(wanted_get(manager, keys[i]) & WANTED_TOLD);
    }
    return has_untold;
}

bool manager_is_sharing(const struct manager *manager)
{
    bool sharing = manager->n_shares > 0;
    for (uint32_t i = 0; !sharing && i < manager->core->n_nodes; i++)
        sharing = manager->boxes[i].n_told > 0;
    return sharing;
}
