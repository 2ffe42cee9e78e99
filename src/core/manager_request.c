/* manager_request - what the side that wants keys says to their owners: changes of replicas, asks and ends. See
 * manager.h. */
#include <string.h>

#include "core/defect.h"
#include "core/manager_internal.h"

enum {
    MOST_SERVED = 8, /* times that rows are collected for others between two rounds of this node */
};

/* Notes the delta in manager->delta, to be sent; false, and it is taken back, when memory runs out. */
bool manager_add_delta(struct manager *manager, struct outbox *outbox, uint64_t key)
{
    size_t bytes = manager->store->value_bytes;
    if (buffer_append(&outbox->delta_values, manager->delta, bytes)) {
        if (keys_add(manager, &outbox->deltas, key))
            return true;
        outbox->delta_values.end -= bytes;
    }
    store_return_delta(manager->store, key, manager->delta);
    return false;
}

/* Notes that a replica was changed, whose main copy is there. With the table its rows have ended there. */
static bool note_changed(struct manager *manager, uint64_t key, uint32_t location)
{
    struct outbox *outbox = manager_outbox(manager, location_node(location));
    return outbox->is_closed || keys_add(manager, &outbox->changed, key);
}

/* A replica that nobody wants and nothing is done about was kept because it was pinned. */
static void end_kept(struct manager *manager, uint64_t key)
{
    uint32_t value = wanted_get(manager, key);
    if (value & (WANTED_COUNT | WANTED_ENDING | WANTED_ASKED) || !wanted_reserve(manager, 1))
        return;
    manager_tell_end(manager, key, &value);
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

/* The same for others' rounds: what was changed in replicas is told in rounds of this node. */
static enum tern_status take_marked_main(struct manager *manager, uint32_t slot)
{
    uint64_t key;
    uint32_t location;
    const enum marked marked = store_marked(manager->store, slot, &key, &location);
    if (marked == MARKED_REPLICA)
        store_mark(manager->store, slot);
    return marked == MARKED_MAIN ? take_marked(manager, slot) : TERN_OK;
}

typedef enum tern_status take_function(struct manager *manager, uint32_t slot);

/* Whether a marked row is one of a rare key that waits for a later exchange. Then it is as if it had been changed after this
 * one. */
static bool is_left(const struct manager *manager, uint32_t slot)
{
    if (!manager->leaves_rare)
        return false;
    const uint64_t key = store_key_of(manager->store, slot);
    if (manager->often[key / 64] >> key % 64 & 1)
        return false;
    store_mark(manager->store, slot);
    return true;
}

/* Takes all marks. */
static enum tern_status take_all(struct manager *manager, take_function *take)
{
    struct store *store = manager->store;
    struct keys *marked = &manager->marked;
    size_t n_words = store_mark_words(store);
    uint64_t bits;
    marked->n = 0;
    struct marks *marks = store_marks_for_rounds(store, manager->shard);
    for (size_t i = 0; (bits = marks_take(marks, &i, n_words)) != 0; i++)
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
        if (!is_left(manager, (uint32_t)marked->keys[i]))
            status = take(manager, (uint32_t)marked->keys[i]);
    }
    if (manager->out_of_memory && !status)
        status = fail(TERN_NO_MEMORY, "no memory to manage the keys of table '%s'", store->name);
    return status;
}

/* Whether changes that were noted have still to be sent. */
static bool has_changed(const struct manager *manager)
{
    bool has = false;
    view_each_while (i, manager->view, !has)
        has = keys_left(&manager->outboxes[i].changed);
    return has;
}

enum tern_status manager_begin_round(struct manager *manager, bool is_due)
{
    manager->is_brief = !is_due && !manager->has_news;
    manager->has_news = false;
    manager->n_due += is_due;
    manager->leaves_rare = manager->often && manager->n_due % manager->rare_every != 0 &&
                           (!manager->sifter.is_exact || defect(DEFECT_RARE_LEFT));
    sifter_begin_round(&manager->sifter, !manager->is_brief, manager->sifter.is_exact);
    return manager->is_brief ? TERN_OK : manager_take(manager);
}

void manager_be_exact(struct manager *manager, bool is_exact)
{
    manager->sifter.is_exact = is_exact;
}

enum tern_status manager_take(struct manager *manager)
{
    manager->n_served = 0;
    /* First all that was noted: so a row is noted once, and what there was when somebody began to wait for it is
     * sent however fast more is changed. */
    return has_changed(manager) ? TERN_OK : take_all(manager, take_marked);
}

enum tern_status manager_take_mains(struct manager *manager)
{
    return manager->n_served++ < MOST_SERVED ? take_all(manager, take_marked_main) : TERN_OK;
}
bool manager_has_todo(const struct manager *manager, uint32_t peer)
{
    const struct outbox *outbox = &manager->outboxes[peer];
    bool has_changes = outbox->changed.n && !defect(DEFECT_CLEAN_EARLY);
    return !outbox->is_closed &&
           (outbox->asks.n || outbox->fetches.n || outbox->ends.n || has_changes ||
            outbox->deltas.n || outbox->located.n || outbox->dropped.n);
}

bool manager_has_request(const struct manager *manager, uint32_t peer)
{
    return (!manager->is_brief && manager->outboxes[peer].n_registered) ||
           manager_has_todo(manager, peer);
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
typedef bool keep_function(struct manager *manager, const struct outbox *outbox, uint64_t key);

/* Writes one section of bare keys taken from the front of a list; `keep` says which still matter. */
static uint8_t *write_keys(struct manager *manager, struct outbox *outbox, enum section_kind kind,
                           struct keys *list, size_t most, keep_function *keep, uint8_t *out)
{
    uint8_t *items = out + SECTION_HEADER_BYTES;
    uint32_t count = 0;
    while (list->n && count < most) {
        uint64_t key = keys_take(list);
        outbox->n_again -= list == &outbox->asks && outbox->n_again;
        if (keep(manager, outbox, key))
            section_put(items + 8 * count++, key);
    }
    if (!count)
        return out;
    section_write(out, kind, count, 8);
    return items + 8 * count;
}

/* Whether a key on the list of asks is still to be asked for. */
static bool keep_ask(struct manager *manager, const struct outbox *outbox, uint64_t key)
{
    (void)outbox;
    uint32_t value = wanted_get(manager, key);
    if (!(value & WANTED_ASKED))
        return false;
    const bool keep = value & (WANTED_COUNT | WANTED_ONCE) || manager_is_pinned(manager, key);
    if (keep)
        value |= WANTED_SENT;
    else
        manager_give_up_ask(manager, key, &value);
    wanted_set(manager, key, value);
    return keep;
}

/* Whether an end is still to be told, and to this node. If the key is known to be elsewhere by now, it is
 * told there. */
static bool keep_end(struct manager *manager, const struct outbox *outbox, uint64_t key)
{
    uint32_t value = wanted_get(manager, key);
    if (!(value & WANTED_ENDING))
        return false;
    bool is_over = !(value & WANTED_COUNT);
    if (is_over && outbox == manager_outbox_of(manager, key))
        return true;
    value &= ~WANTED_ENDING;
    if (is_over)
        manager_tell_end(manager, key, &value);
    wanted_set(manager, key, value);
    return false;
}

/* A replica that is gone is not back before that was told: the ask for it follows. */
static bool keep_dropped(struct manager *manager, const struct outbox *outbox, uint64_t key)
{
    (void)manager;
    (void)outbox;
    (void)key;
    return true;
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
static void drop_deltas(const struct manager *manager, struct outbox *outbox, size_t n)
{
    buffer_consume(&outbox->delta_values, n * manager->store->value_bytes);
    outbox->deltas.n -= n;
    memmove(outbox->deltas.keys, outbox->deltas.keys + n,
            outbox->deltas.n * sizeof *outbox->deltas.keys);
}

typedef bool changed_function(struct store *store, uint64_t key, uint32_t node, void *delta,
                              uint32_t *location);

/* Takes what was changed in a replica whose main copy is at a peer, or looks at it; also if the main copy was at a node that is
 * given up, whose keys the peer has. */
static bool of_changed(const struct manager *manager, uint64_t key, uint32_t peer,
                       changed_function *of, void *delta, uint32_t *location)
{
    *location = location_make(peer, 0);
    if (of(manager->store, key, peer, delta, location))
        return true;
    const uint32_t node = location_node(*location);
    if (node == peer || view_home(manager->view, node) != peer)
        return false;
    const bool any = of(manager->store, key, node, delta, location);
    *location = location_make(peer, 0);
    return any;
}

/* What was changed in replicas, as it is now. A main copy that has moved meanwhile is told where it is. */
static void put_changed(struct manager *manager, uint32_t peer, struct deltas *to)
{
    struct keys *changed = &manager->outboxes[peer].changed;
    struct store *store = manager->store;
    fetch_first_rows(manager, changed, FETCH_BASE);
    while (keys_left(changed) && to->n < to->most) {
        fetch_keys(manager, changed->keys + changed->first, keys_left(changed), FETCH_BASE);
        uint64_t key = keys_take(changed);
        uint32_t location;
        if (of_changed(manager, key, peer, store_take_changed, manager->delta, &location)) {
            put_delta(manager, to, key, manager->delta);
            if (defect(DEFECT_BASE_NOT_RESET))
                store_return_delta(store, key, manager->delta);
        } else if (location_node(location) != peer) {
            note_changed(manager, key, location);
        }
    }
}

/* The same, as filters let it out: a section of its own, so that what they do not touch does not keep it from fixed point. */
static void put_sifted(struct manager *manager, uint32_t peer, struct deltas *to)
{
    struct keys *changed = &manager->outboxes[peer].changed;
    struct sifter *sifter = &manager->sifter;
    const size_t most = at_most(keys_left(changed), to->most);
    if (!sifter_clear(sifter, most + 1)) {
        put_changed(manager, peer, to);
        return;
    }
    while (keys_left(changed) && sifter->n < most) {
        fetch_keys(manager, changed->keys + changed->first, keys_left(changed), FETCH_BASE);
        const uint64_t key = keys_take(changed);
        uint32_t location;
        if (of_changed(manager, key, peer, store_look_changed, sifter_room(sifter), &location))
            sifter_add(sifter, key);
        else if (location_node(location) != peer)
            note_changed(manager, key, location);
    }
    const size_t n = sifter_take(sifter);
    for (size_t i = 0; i < n; i++)
        put_delta(manager, to, sifter_key(sifter, i), sifter_row(sifter, i));
}

/* The ends of replicas go out together with all that was changed in them. Returns how many may. */
static size_t put_ending(struct manager *manager, struct outbox *outbox, size_t most,
                         struct deltas *to)
{
    struct store *store = manager->store;
    const size_t n = at_most(keys_left(&outbox->ends), most);
    fetch_first_rows(manager, &outbox->ends, FETCH_BASE);
    for (size_t i = 0; i < n; i++) {
        const uint64_t *ends = &outbox->ends.keys[outbox->ends.first + i], key = *ends;
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

/* Completes the section; the place after it, which is its begin if it is empty. */
static uint8_t *end_deltas(struct manager *manager, const struct deltas *deltas)
{
    if (!deltas->n)
        return deltas->section;
    section_write(deltas->section, SECTION_DELTAS, (uint32_t)deltas->n, delta_item_bytes(manager));
    manager->counts.deltas_sent += deltas->n;
    return deltas->out;
}

/* Writes what was changed, and lists in *n_ends how many ends may follow it. */
static uint8_t *write_deltas(struct manager *manager, uint32_t peer, size_t most, uint8_t *out,
                             size_t *n_ends)
{
    struct outbox *outbox = &manager->outboxes[peer];
    const size_t bytes = manager->store->value_bytes;
    struct deltas sifted = {.section = out, .out = out + SECTION_HEADER_BYTES, .most = most};
    if (sifter_is_on(&manager->sifter))
        put_sifted(manager, peer, &sifted);
    out = end_deltas(manager, &sifted);
    struct deltas deltas = {
        .section = out, .out = out + SECTION_HEADER_BYTES, .most = most - sifted.n};
    most = deltas.most;
    const size_t n_returned = at_most(outbox->deltas.n, most);
    for (size_t i = 0; i < n_returned; i++)
        put_delta(manager, &deltas, outbox->deltas.keys[i],
                  buffer_head(&outbox->delta_values) + i * bytes);
    if (n_returned)
        drop_deltas(manager, outbox, n_returned);
    if (!sifter_is_on(&manager->sifter))
        put_changed(manager, peer, &deltas);
    *n_ends = put_ending(manager, outbox, *n_ends, &deltas);
    return end_deltas(manager, &deltas);
}

static uint8_t *write_located(struct outbox *outbox, size_t most, uint8_t *out)
{
    size_t n = outbox->located.n < most ? outbox->located.n : most;
    if (!n)
        return out;
    section_write(out, SECTION_LOCATED, (uint32_t)n, 16);
    out += SECTION_HEADER_BYTES;
    for (size_t i = 0; i < n; i++, out += 16) {
        outbox->located.n--;
        section_put(out, outbox->located.keys[outbox->located.n]);
        section_put(out + 8, outbox->locations[outbox->located.n]);
    }
    return out;
}

/* How much a request may contain: no more than there is, for its memory is kept for each node. */
struct room {
    size_t n_deltas, n_ends, n_asks, n_located, n_dropped, bytes;
};

static struct room room_for_request(const struct manager *manager, const struct outbox *outbox)
{
    const size_t item_bytes = delta_item_bytes(manager), n_ends = keys_left(&outbox->ends);
    const size_t n_asks = keys_left(&outbox->asks), n_fetches = keys_left(&outbox->fetches);
    const size_t n_deltas = keys_left(&outbox->changed) + outbox->deltas.n + n_ends;
    const size_t most_deltas = most_items(manager->round_bytes, item_bytes);
    const size_t most_asks = most_items(manager->round_bytes, main_item_bytes(manager));
    const size_t most_keys = most_items(manager->round_bytes / 4, 16);
    struct room room = {.n_ends = at_most(n_ends, most_deltas),
                        .n_asks = at_most(n_asks > n_fetches ? n_asks : n_fetches, most_asks),
                        .n_located = at_most(outbox->located.n, most_keys),
                        .n_dropped = at_most(keys_left(&outbox->dropped), most_keys)};
    const size_t others = 7 * SECTION_HEADER_BYTES +
                          8 * (2 * room.n_asks + room.n_ends + room.n_dropped) +
                          16 * room.n_located;
    room.n_deltas = at_most(most_deltas, most_items(FRAME_MAX_BODY_BYTES - others, item_bytes));
    room.n_deltas = at_most(room.n_deltas, n_deltas);
    room.bytes = others + room.n_deltas * item_bytes;
    return room;
}

enum tern_status manager_request(struct manager *manager, uint32_t peer, struct buffer *body)
{
    struct outbox *outbox = &manager->outboxes[peer];
    struct room room = room_for_request(manager, outbox);
    body->begin = body->end = 0;
    uint8_t *out = buffer_reserve(body, room.bytes);
    if (!out)
        return fail(TERN_NO_MEMORY, "no memory for a round of table '%s'", manager->store->name);
    uint8_t *begin = out;
    /* Deltas first: an end comes after what was changed before it. */
    out = write_deltas(manager, peer, room.n_deltas, out, &room.n_ends);
    if (room.n_ends)
        out = write_keys(manager, outbox, SECTION_ENDS, &outbox->ends, room.n_ends, keep_end, out);
    out = write_keys(manager, outbox, SECTION_DROPPED, &outbox->dropped, room.n_dropped,
                     keep_dropped, out);
    if (keys_left(&outbox->dropped))
        room.n_asks = 0;
    const uint8_t *asks = out;
    out = write_keys(manager, outbox, SECTION_ASKS, &outbox->asks, room.n_asks, keep_ask, out);
    /* All of these rows may be in the answer. */
    if (out == asks || main_item_bytes(manager) < FRAME_MAX_BODY_BYTES / 4)
        out = write_keys(manager, outbox, SECTION_FETCHES, &outbox->fetches, room.n_asks, keep_ask,
                         out);
    out = write_located(outbox, room.n_located, out);
    body->end += (size_t)(out - begin);
    manager->counts.messages++;
    manager->counts.bytes_sent += FRAME_HEADER_BYTES + (size_t)(out - begin);
    return TERN_OK;
}
