/*
 * manager_view - the keys of a node that is given up are at another one, which has backups of them: what becomes of what was
 * said to the first, and of what it knew. See manager.h and backup.h.
 *
 * Locations name the node that had a key; view_home leads from it to the one that has its keys now.
 */
#include <stdlib.h>
#include <string.h>

#include "core/backup.h"
#include "core/defect.h"
#include "core/manager_internal.h"

const uint64_t *manager_merged(const struct manager *manager, size_t *n)
{
    *n = manager->merged.n;
    return manager->merged.keys;
}

/* ---- Questions that nobody answers --------------------------------------------------------------- */

bool manager_is_unanswered(const struct manager *manager, uint32_t peer, const struct frame *answer)
{
    if (answer->kind != FRAME_ROUND_REPLY)
        return false;
    return answer->flags & FRAME_TAKEN ||
           (answer->epoch < manager->outboxes[peer].since && !defect(DEFECT_ANSWER_BELIEVED));
}

/* What was asked for in vain is asked for once more. */
static void ask_again(struct manager *manager, const struct section *asks)
{
    for (uint32_t i = 0; i < asks->count; i++) {
        const uint64_t key = section_get(asks->items + 8 * i);
        uint32_t value = wanted_get(manager, key);
        if (!(value & WANTED_SENT))
            continue;
        value &= ~(WANTED_ASKED | WANTED_SENT);
        if (value & (WANTED_COUNT | WANTED_ONCE))
            manager_ask(manager, key, &value);
        if (!(value & WANTED_ASKED))
            manager_give_up_ask(manager, key, &value);
        wanted_set(manager, key, value);
    }
}

static void take_back(struct manager *manager, const struct section *deltas)
{
    for (uint32_t i = 0; i < deltas->count; i++) {
        const uint8_t *item = deltas->items + i * deltas->item_bytes;
        manager_take_back_delta(manager, section_get(item), item + 8);
    }
}

void manager_unanswered(struct manager *manager, uint32_t peer, const struct buffer *sent,
                        bool was_taken)
{
    struct section section;
    size_t at = 0;
    bool wrong;
    while (section_next(buffer_head(sent), buffer_size(sent), &at, &section, &wrong)) {
        if (section.kind == SECTION_DELTAS && !was_taken)
            take_back(manager, &section);
        else if (section.kind == SECTION_ENDS && was_taken)
            manager_settle_ends(manager, manager_outbox(manager, peer), &section);
        else if (section.kind == SECTION_ASKS || section.kind == SECTION_FETCHES)
            ask_again(manager, &section);
    }
}

/* ---- Another view -------------------------------------------------------------------------------- */

/* Whether another node has the keys of a node by now. */
static bool was_followed(const struct manager *manager, const struct view *before, uint32_t node)
{
    return view_home(manager->view, node) != view_home(before, node);
}

/* A key that is here is wanted of nobody. */
static void settle_here(struct manager *manager, uint64_t key, uint32_t value)
{
    value &= ~(WANTED_ASKED | WANTED_SENT | WANTED_ONCE | WANTED_ENDING);
    manager_drop_spare(manager, &value);
    wanted_set(manager, key, value);
}

/* A key was wanted of a node that is given up. What is on a list is moved with that; what was sent is settled when there is an
 * answer. */
static void want_anew(struct manager *manager, uint64_t key, struct outbox *of)
{
    struct entry *entry;
    const uint64_t word = store_look(manager->store, key, &entry);
    uint32_t value = wanted_get(manager, key);
    manager_note_unregistered(manager, of, key, &value);
    if (entry_is_main(word)) {
        settle_here(manager, key, value);
        return;
    }
    if (!(value & (WANTED_ENDING | WANTED_ASKED)) &&
        (value & WANTED_COUNT || entry_state(word) == ENTRY_REPLICA))
        manager_ask(manager, key, &value);
    wanted_set(manager, key, value);
}

/* Appends one list to another, which it leaves. */
static void move_keys(struct manager *manager, struct keys *from, struct keys *to)
{
    while (keys_left(from))
        (void)keys_add(manager, to, keys_take(from));
}

/* Deltas that came back and have no replica here. */
static void move_deltas(struct manager *manager, struct outbox *from, struct outbox *to)
{
    const size_t bytes = manager->store->value_bytes;
    const size_t n = from->deltas.n;
    struct keys keys = from->deltas;
    struct buffer values = from->delta_values;
    from->deltas = (struct keys){0};
    from->delta_values = (struct buffer){0};
    for (size_t i = 0; i < n; i++) {
        const void *delta = buffer_head(&values) + i * bytes;
        if (to) {
            memcpy(manager->delta, delta, bytes);
            (void)manager_add_delta(manager, to, keys.keys[i]);
        } else {
            manager_take_back_delta(manager, keys.keys[i], delta);
        }
    }
    free(keys.keys);
    buffer_free(&values);
}

/* What was to be said to a node that is given up is said to the one that has its keys, or is done if that is this one. */
static void move_outbox(struct manager *manager, uint32_t node, uint32_t heir)
{
    struct outbox *from = &manager->outboxes[node], *to = &manager->outboxes[heir];
    const bool is_self = heir == manager->core->node;
    struct keys *const lists[][2] = {{&from->asks, &to->asks},
                                     {&from->fetches, &to->fetches},
                                     {&from->ends, &to->ends},
                                     {&from->changed, &to->changed}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (is_self)
            keys_clear(lists[i][0]);
        else
            move_keys(manager, lists[i][0], lists[i][1]);
    }
    move_deltas(manager, from, is_self ? NULL : to);
    keys_clear(&from->located);
    from->n_registered = 0;
    from->news_ns = 0;
    /* A worker that waits for news waits until the answers to the new questions have come. */
    if (!is_self && !(sweep_is_over(&from->sweep) && sweep_is_over(&to->sweep))) {
        sweep_begin(&to->sweep);
        to->sweep.is_heard = true;
    }
    from->sweep = (struct sweep){0};
    from->n_again = 0;
}

/* Lists the keys of the shard that something is kept of in `marked`. */
static void list_wanted(struct manager *manager)
{
    const struct store *store = manager->store;
    struct keys *keys = &manager->marked;
    keys->n = 0;
    for (uint64_t key = 0; manager->wanted && key < store->n_keys; key++)
        if (manager->wanted[key] && store_shard(store, key) == manager->shard)
            (void)keys_add(manager, keys, key);
    const struct keymap *map = &manager->wanted_sparse;
    for (size_t i = 0; map->cells && i <= map->mask; i++)
        if (map->cells[i].value)
            (void)keys_add(manager, keys, map->cells[i].key);
}

void manager_make_room(struct manager *manager, const struct table_backup *backup, uint32_t arc)
{
    struct keys *keys = &manager->marked;
    list_wanted(manager);
    for (size_t i = 0; i < keys->n; i++) {
        uint32_t value = wanted_get(manager, keys->keys[i]);
        if (!(value & WANTED_SPARE) || backup_arc(backup, keys->keys[i]) != arc)
            continue;
        manager_drop_spare(manager, &value);
        wanted_set(manager, keys->keys[i], value);
    }
    while (manager->pool.n)
        store_give_slot(manager->store, (uint32_t)manager->pool.keys[--manager->pool.n]);
}

void manager_change_view(struct manager *manager, const struct view *before)
{
    struct keys *keys = &manager->marked;
    const struct view *next = manager->core->view;
    const uint32_t self = manager->core->node;
    if (!view_is_present(next, self)) {
        manager->view = next;
        return;
    }
    manager->view = before;
    list_wanted(manager);
    size_t n = 0;
    struct outbox **of = malloc((keys->n + 1) * sizeof(struct outbox *));
    for (size_t i = 0; of && i < keys->n; i++) {
        struct outbox *outbox = manager_outbox_of(manager, keys->keys[i]);
        const uint32_t node = (uint32_t)(outbox - manager->outboxes);
        if (view_is_present(next, node))
            continue;
        of[n] = outbox;
        keys->keys[n++] = keys->keys[i];
    }
    manager->out_of_memory |= !of;
    manager->view = next;
    for (size_t i = 0; i < n; i++)
        want_anew(manager, keys->keys[i], of[i]);
    free(of);
    for (uint32_t node = 0; node < view_capacity(next); node++) {
        if (!was_followed(manager, before, node))
            continue;
        manager->outboxes[node].since = view_epoch(next);
        if (!view_is_present(before, node))
            continue;
        share_forget_node(manager, node);
        move_outbox(manager, node, view_home(next, node));
    }
    view_each (node, next)
        manager->outboxes[node].n_again = keys_left(&manager->outboxes[node].asks);
}
