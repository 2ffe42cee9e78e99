/*
 * bounded_view - what becomes of a bounded table when a node is given up whose keys another one has from then on. See bounded.h and
 * backup.h.
 */
#include "core/backup.h"
#include "core/bounded_peer.h"
#include "core/defect.h"
#include "core/reply.h"

/* ---- Questions to a node that was given up ------------------------------------------------------- */

bool bounded_is_unanswered(const struct bounded *bounded, uint32_t node, const struct frame *answer)
{
    return answer->kind == FRAME_ROUND_REPLY &&
           (answer->flags & FRAME_TAKEN ||
            (!view_is_present(bounded->view, node) && !defect(DEFECT_ANSWER_BELIEVED)));
}

/* What was asked for is asked of the node that has the keys now. */
static bool ask_again(struct bounded *bounded, const struct section *asks)
{
    bool has_memory = true;
    for (uint32_t i = 0; has_memory && i < asks->count; i++) {
        const uint64_t key = section_get(asks->items + 8 * i);
        struct bounded_peer *peer = &bounded->peers[home_of(bounded, key)];
        peer->holds = true;
        has_memory = peer->is_closed || key_list_add(&peer->wanted, key);
    }
    return has_memory;
}

static void take_back(struct bounded *bounded, const struct section *deltas)
{
    uint8_t *delta = buffer_head(&bounded->values);
    for (uint32_t i = 0; i < deltas->count; i++) {
        const uint8_t *item = deltas->items + i * deltas->item_bytes;
        memcpy(delta, item + 8, bounded->store->value_bytes);
        (void)store_return_delta(bounded->store, section_get(item), delta);
    }
}

enum tern_status bounded_unanswered(struct bounded *bounded, uint32_t node,
                                    const struct buffer *sent, bool was_taken)
{
    struct section section;
    size_t at = 0;
    bool wrong, has_memory = true;
    bounded->peers[node].asks = false;
    count_unsettled(bounded);
    while (section_next(buffer_head(sent), buffer_size(sent), &at, &section, &wrong)) {
        if (section.kind == SECTION_DELTAS && !was_taken)
            take_back(bounded, &section);
        else if (section.kind == SECTION_ASKS)
            has_memory &= ask_again(bounded, &section);
    }
    return has_memory ? TERN_OK : no_memory_for(bounded);
}

/* Checks a question that was put to another node: what it has changed is at home here. */
static bool is_for_this(const struct bounded *bounded, const uint8_t *body, size_t bytes)
{
    struct section section;
    size_t at = 0;
    bool wrong, is_right = true;
    while (is_right && section_next(body, bytes, &at, &section, &wrong))
        is_right =
            section.kind != SECTION_DELTAS || (section.item_bytes == row_bytes(bounded) &&
                                               are_at_home(bounded, &section, bounded->core->node));
    return is_right && !wrong;
}

enum tern_status bounded_serve_other(struct bounded *bounded, uint32_t from,
                                     const struct frame *request, const uint8_t *body,
                                     struct buffer *out)
{
    struct section section;
    size_t at = 0;
    bool wrong;
    enum tern_status status = TERN_OK;
    bounded->taken.n = 0;
    if (!is_for_this(bounded, body, request->body_bytes))
        return fail(TERN_INVALID, "a round of table '%s' makes no sense", bounded->store->name);
    if (!reply_reserve(out, 0))
        return no_memory_for(bounded);
    while (!status && section_next(body, request->body_bytes, &at, &section, &wrong))
        if (section.kind == SECTION_DELTAS)
            status = home_merge(bounded, from, &section);
    (void)bounded_make_safe(bounded);
    if (status)
        return status;
    struct frame reply = reply_frame(request, view_epoch(bounded->view), FRAME_ROUND_REPLY);
    reply.table = request->table;
    reply.flags = FRAME_TAKEN;
    reply_commit(out, &reply);
    return TERN_OK;
}

/* ---- Another view -------------------------------------------------------------------------------- */

/* Appends one list to another, which it leaves; false when memory runs out. */
static bool move_keys(struct key_list *from, struct key_list *to)
{
    bool has_memory = true;
    while (from->n && has_memory)
        has_memory = key_list_add(to, from->keys[--from->n]);
    return has_memory;
}

/* What was to be said to a node that is given up is said to the one that has its keys, or is done if that is this one. */
static bool move_lists(struct bounded *bounded, struct bounded_peer *from, uint32_t heir)
{
    struct bounded_peer *to = &bounded->peers[heir];
    if (heir == bounded->core->node || to->is_closed || defect(DEFECT_CHANGES_LEFT)) {
        from->changed.n = from->wanted.n = 0;
        return true;
    }
    to->holds |= from->wanted.n > 0;
    return move_keys(&from->changed, &to->changed) && move_keys(&from->wanted, &to->wanted);
}

/* Replicas that nobody refreshes any more are not read. */
static void end_replicas(struct bounded *bounded, const struct view *before)
{
    const struct store *store = bounded->store;
    const uint64_t n_slots = 64 * store_mark_words(store);
    const uint32_t self = bounded->core->node;
    for (uint64_t slot = 0; slot < n_slots && slabs_has(&store->facts, (uint32_t)slot); slot++) {
        struct slot_facts *facts = store_facts(store, (uint32_t)slot);
        const uint64_t key = atomic_load_explicit(&facts->key, memory_order_relaxed);
        const uint32_t arc = core_home(bounded->core, store, key);
        const uint32_t home = view_home(bounded->view, arc);
        if (home != view_home(before, arc) && home != self)
            atomic_store_explicit(&facts->age, 0, memory_order_relaxed);
    }
}

static bool forget_node(struct bounded *bounded, uint32_t node)
{
    struct bounded_peer *peer = &bounded->peers[node];
    struct standing *standing = &bounded->standing;
    if (peer->heard.peak > standing->peak)
        standing->peak = peer->heard.peak;
    if (!move_lists(bounded, peer, view_home(bounded->view, node)))
        return false;
    const bool asks = peer->asks;
    if (!defect(DEFECT_DEAD_CLOCK_KEPT))
        bounded_forget_peer(bounded, node);
    peer->asks = asks;
    return true;
}

/* Nobody has heard of this node, nor it of anybody. */
static void begin_era(struct bounded *bounded, bool knows_rest)
{
    home_begin_era(bounded);
    view_each (i, bounded->view) {
        struct bounded_peer *peer = &bounded->peers[i];
        const bool is_self = i == bounded->core->node;
        if (peer->is_closed)
            continue;
        peer->heard.clock = 0;
        min_clock_set(&bounded->valid, i, 0);
        peer->said.clock = 0;
        peer->knows_rest = knows_rest && !is_self;
        peer->greets = !is_self;
        if (bounded->epoch)
            peer->target = is_self ? bounded->standing.merges : UINT64_MAX;
    }
    atomic_store_explicit(&bounded->valid_to, bounded->valid.lowest, memory_order_release);
}

enum tern_status bounded_change_view(struct bounded *bounded, const struct view *before)
{
    bool knows_rest = false, has_memory = true;
    bounded->view = bounded->core->view;
    if (!view_is_present(bounded->view, bounded->core->node))
        return TERN_OK;
    view_each (i, before)
        knows_rest |= bounded->peers[i].knows_rest;
    view_each_while (i, before, has_memory)
        if (!view_is_present(bounded->view, i))
            has_memory = forget_node(bounded, i);
    if (is_eager(bounded) && !defect(DEFECT_REPLICA_BELIEVED))
        end_replicas(bounded, before);
    if (!defect(DEFECT_ERA_IGNORED))
        begin_era(bounded, knows_rest);
    count_unsettled(bounded);
    return has_memory ? TERN_OK : no_memory_for(bounded);
}
