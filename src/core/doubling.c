/* doubling - see doubling.h. */
#include "core/doubling.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/defect.h"
#include "core/replica.h"
#include "core/reply.h"
#include "wire/section.h"

enum {
    ROUND_BYTES = 1 << 20, /* aimed at for what a node adds to a round */
    MANY_NODES = 32, /* from which on `replicate` is kept alike this way; see docs/decisions/015 */
};

static size_t item_bytes(const struct store *store)
{
    return 8 + section_padded(store->value_bytes);
}

/* How many rows all together may add to a round. */
static size_t most_in_all(const struct store *store)
{
    size_t n = (FRAME_MAX_BODY_BYTES - SECTION_HEADER_BYTES) / item_bytes(store);
    return n < FRAME_MAX_KEYS ? n : FRAME_MAX_KEYS;
}

bool doubling_is_for(const struct core *core, const struct store *store,
                     const struct policy *policy)
{
    if (policy->replica != REPLICA_OF_EVERY_KEY || store->updater.apply ||
        most_in_all(store) < view_n_nodes(core->view))
        return false;
    return policy->reduce == REDUCE_BY_DOUBLING ||
           (policy->reduce == REDUCE_BY_SIZE && view_n_nodes(core->view) >= MANY_NODES);
}

struct doubling *doubling_new(struct core *core, struct store *store)
{
    struct doubling *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->core = core;
    made->store = store;
    made->n_paired = 1;
    for (made->last_step = 1; 2 * made->n_paired <= view_n_nodes(core->view); made->last_step++)
        made->n_paired *= 2;
    made->scratch = malloc(store->value_bytes);
    made->slots = malloc(FRAME_MAX_KEYS * sizeof *made->slots);
    doubling_limit(made, ROUND_BYTES);
    if (made->scratch && made->slots)
        return made;
    doubling_free(made);
    return NULL;
}

void doubling_limit(struct doubling *doubling, size_t body_bytes)
{
    size_t n = body_bytes / item_bytes(doubling->store);
    size_t most = most_in_all(doubling->store) / view_n_nodes(doubling->core->view);
    doubling->most_rows = n < 1 ? 1 : n < most ? n : most;
}

static void changes_free(struct changes *changes)
{
    free(changes->keys);
    free(changes->values);
}

void doubling_free(struct doubling *doubling)
{
    if (!doubling)
        return;
    changes_free(&doubling->own);
    changes_free(&doubling->sum);
    changes_free(&doubling->merged);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < DOUBLING_STEPS; k++)
            changes_free(&doubling->parts[i][k].changes);
    free(doubling->scratch);
    free(doubling->slots);
    free(doubling);
}

/* ---- Changes ------------------------------------------------------------------------------------ */

static char *value_at(const struct doubling *doubling, const struct changes *changes, size_t i)
{
    return changes->values + i * doubling->store->value_bytes;
}

static bool changes_reserve(const struct doubling *doubling, struct changes *changes, size_t n)
{
    if (n <= changes->max)
        return true;
    size_t max = n < 64 ? 64 : n;
    uint64_t *keys = realloc(changes->keys, max * sizeof *keys);
    if (keys)
        changes->keys = keys;
    char *values = keys ? realloc(changes->values, max * doubling->store->value_bytes) : NULL;
    if (!values)
        return false;
    changes->values = values;
    changes->max = max;
    return true;
}

static void put(const struct doubling *doubling, struct changes *to, uint64_t key,
                const void *value)
{
    to->keys[to->n] = key;
    memcpy(value_at(doubling, to, to->n), value, doubling->store->value_bytes);
    to->n++;
}

/* Adds a partner's sum to this node's. */
static bool add(struct doubling *doubling, const struct changes *part)
{
    struct changes *sum = &doubling->sum, *merged = &doubling->merged;
    const struct store *store = doubling->store;
    if (!changes_reserve(doubling, merged, sum->n + part->n))
        return false;
    merged->n = 0;
    for (size_t i = 0, k = 0; i < sum->n || k < part->n;) {
        bool from_sum = i < sum->n && (k == part->n || sum->keys[i] <= part->keys[k]);
        bool from_part = k < part->n && (i == sum->n || part->keys[k] <= sum->keys[i]);
        if (from_sum)
            put(doubling, merged, sum->keys[i], value_at(doubling, sum, i));
        else
            put(doubling, merged, part->keys[k], value_at(doubling, part, k));
        if (from_sum && from_part)
            store->kernel->add[store->type](value_at(doubling, merged, merged->n - 1),
                                            value_at(doubling, part, k), store->length);
        i += from_sum;
        k += from_part;
    }
    struct changes old = *sum;
    *sum = *merged;
    *merged = old;
    return true;
}

static bool copy(const struct doubling *doubling, struct changes *to, const struct changes *from)
{
    if (!changes_reserve(doubling, to, from->n))
        return false;
    to->n = 0;
    for (size_t i = 0; i < from->n; i++)
        put(doubling, to, from->keys[i], value_at(doubling, from, i));
    return true;
}

/* ---- Who has to do with whom -------------------------------------------------------------------- */

/* The partner beyond the pairs, or the one that a node beyond them has; the node itself if it has none. */
static uint32_t beyond(const struct doubling *doubling)
{
    const struct view *view = doubling->core->view;
    const uint32_t node = doubling->core->node;
    const uint32_t other = view_rank(view, node) ^ doubling->n_paired;
    return other < view_n_nodes(view) ? view_at(view, other) : node;
}

static bool is_paired(const struct doubling *doubling)
{
    return view_rank(doubling->core->view, doubling->core->node) < doubling->n_paired;
}

/* The node with which sums are exchanged in a step; the node itself: nobody. */
static uint32_t partner(const struct doubling *doubling, uint32_t step)
{
    if (step == 0 || step == doubling->last_step)
        return beyond(doubling);
    const struct view *view = doubling->core->view;
    const uint32_t node = doubling->core->node;
    return is_paired(doubling) ? view_at(view, view_rank(view, node) ^ 1u << (step - 1)) : node;
}

/* The node to which something is sent in a step, and that of which something is heard; the node itself: nobody. In the
 * last step those beyond the pairs hear only, and the others send. */
static uint32_t receiver(const struct doubling *doubling, uint32_t step)
{
    bool only_hears = step == doubling->last_step && !is_paired(doubling);
    return only_hears ? doubling->core->node : partner(doubling, step);
}

static uint32_t sender(const struct doubling *doubling, uint32_t step)
{
    bool only_sends = step == doubling->last_step && is_paired(doubling);
    return only_sends ? doubling->core->node : partner(doubling, step);
}

static struct part_sum *part_of(struct doubling *doubling, uint64_t round, uint32_t step)
{
    return &doubling->parts[round % 2][step];
}

static bool has_part(const struct doubling *doubling, uint64_t round, uint32_t step)
{
    return doubling->parts[round % 2][step].round == round;
}

/* Whether a partner has begun a round. */
static bool have_others_begun(const struct doubling *doubling, uint64_t round)
{
    bool begun = false;
    for (uint32_t i = 0; i <= doubling->last_step; i++)
        begun |= has_part(doubling, round, i);
    return begun;
}

/* ---- A round ------------------------------------------------------------------------------------ */

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Takes what was changed here, up to a limit. */
static bool take_own(struct doubling *doubling)
{
    struct store *store = doubling->store;
    struct changes *own = &doubling->own;
    own->n = 0;
    if (!changes_reserve(doubling, own, doubling->most_rows))
        return false;
    size_t n = marks_take_turn(&store->changed[0], &doubling->turn, store_mark_words(store),
                               doubling->most_rows, doubling->slots, &doubling->is_left_over);
    for (size_t i = 0; i < n; i++)
        own->keys[i] = store_key_of(store, doubling->slots[i]);
    if (n)
        qsort(own->keys, n, sizeof *own->keys, compare_keys);
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t key = own->keys[i];
        bool is_again = i && key == last;
        last = key;
        if (!is_again && store_peek_delta(store, key, doubling->scratch))
            put(doubling, own, key, doubling->scratch);
    }
    return true;
}

static enum tern_status no_memory(const struct doubling *doubling)
{
    return fail(TERN_NO_MEMORY, "no memory for the changes of table '%s'", doubling->store->name);
}

/* Begins a round if something was changed here, or others have begun it, or all are to know that the last one is over
 * everywhere. */
static enum tern_status begin(struct doubling *doubling)
{
    bool is_called = have_others_begun(doubling, doubling->round + 1);
    bool confirms = doubling->round && doubling->own_round == doubling->round;
    if (!take_own(doubling) || !copy(doubling, &doubling->sum, &doubling->own))
        return no_memory(doubling);
    if (!doubling->own.n && !is_called && !confirms)
        return TERN_OK;
    doubling->runs = true;
    doubling->round++;
    doubling->step = 0;
    doubling->is_sent = false;
    if (doubling->own.n)
        doubling->own_round = doubling->round;
    return TERN_OK;
}

/* All nodes' changes are known. */
static enum tern_status end(struct doubling *doubling)
{
    const struct changes *own = &doubling->own, *sum = &doubling->sum;
    enum tern_status status = TERN_OK;
    size_t k = 0;
    for (size_t i = 0; !status && i < sum->n; i++) {
        const bool is_own = k < own->n && own->keys[k] == sum->keys[i];
        const char *added = is_own && !defect(DEFECT_OWN_KEPT) ? value_at(doubling, own, k) : NULL;
        status = store_settle(doubling->store, sum->keys[i], value_at(doubling, sum, i), added);
        k += is_own;
    }
    doubling->runs = false;
    doubling->counts.rounds++;
    return status;
}

/* Whether what is to be sent in this step is, and what is to be heard has come. */
static bool is_step_over(const struct doubling *doubling)
{
    const uint32_t node = doubling->core->node, step = doubling->step;
    return (doubling->is_sent || receiver(doubling, step) == node) &&
           (sender(doubling, step) == node || has_part(doubling, doubling->round, step));
}

static enum tern_status end_step(struct doubling *doubling)
{
    const uint32_t step = doubling->step;
    struct part_sum *part = part_of(doubling, doubling->round, step);
    if (sender(doubling, step) != doubling->core->node) {
        bool is_result = step == doubling->last_step;
        bool done = is_result ? copy(doubling, &doubling->sum, &part->changes)
                              : add(doubling, &part->changes);
        if (done && defect(DEFECT_PART_TWICE) && !is_result && doubling->round % 8 == 3)
            done = add(doubling, &part->changes);
        if (!done)
            return no_memory(doubling);
        if (doubling->sum.n > most_in_all(doubling->store))
            return fail(TERN_PEER,
                        "nodes have added more rows of table '%s' to a round than they may",
                        doubling->store->name);
        part->round = 0;
    }
    doubling->step++;
    doubling->is_sent = false;
    return step == doubling->last_step ? end(doubling) : TERN_OK;
}

enum tern_status doubling_go_on(struct doubling *doubling)
{
    enum tern_status status = TERN_OK;
    atomic_store_explicit(&doubling->has_changes, false, memory_order_relaxed);
    if (doubling->is_closed)
        return TERN_OK;
    if (!doubling->runs)
        status = begin(doubling);
    while (!status && doubling->runs && is_step_over(doubling))
        status = end_step(doubling);
    return status;
}

bool doubling_is_busy(const struct doubling *doubling)
{
    return !doubling->is_closed && (doubling->runs || doubling->is_left_over ||
                                    (doubling->round && doubling->own_round == doubling->round));
}

bool doubling_awaits(const struct doubling *doubling)
{
    return doubling->runs && !doubling->is_closed;
}

uint32_t doubling_awaited(const struct doubling *doubling)
{
    bool hears = doubling_awaits(doubling) && !has_part(doubling, doubling->round, doubling->step);
    return hears ? sender(doubling, doubling->step) : doubling->core->node;
}

/* ---- Messages ----------------------------------------------------------------------------------- */

bool doubling_has_request(const struct doubling *doubling, uint32_t *peer)
{
    /* Between rounds the step is none of those that have a receiver. */
    *peer = doubling->runs ? receiver(doubling, doubling->step) : doubling->core->node;
    return doubling->runs && !doubling->is_closed && !doubling->is_sent &&
           *peer != doubling->core->node;
}

enum tern_status doubling_request(struct doubling *doubling, struct buffer *body, uint64_t *round,
                                  uint64_t *step)
{
    const struct changes *sum = &doubling->sum;
    const size_t bytes = doubling->store->value_bytes, item = item_bytes(doubling->store);
    /* A node beyond the pairs only has to know, in the first step, that a round has begun. */
    const size_t n = doubling->step == 0 && is_paired(doubling) ? 0 : sum->n;
    const size_t all = n ? SECTION_HEADER_BYTES + n * item : 0;
    body->begin = body->end = 0;
    uint8_t *at = buffer_reserve(body, all + SECTION_HEADER_BYTES);
    if (!at)
        return no_memory(doubling);
    if (n)
        section_write(at, SECTION_DELTAS, (uint32_t)n, item);
    at += SECTION_HEADER_BYTES;
    for (size_t i = 0; i < n; i++, at += item) {
        section_put(at, sum->keys[i]);
        memcpy(at + 8, value_at(doubling, sum, i), bytes);
        memset(at + 8 + bytes, 0, item - 8 - bytes);
    }
    body->end += all;
    *round = doubling->round;
    *step = doubling->step;
    doubling->is_sent = true;
    doubling->counts.messages++;
    doubling->counts.bytes_sent += FRAME_HEADER_BYTES + buffer_size(body);
    doubling->counts.rows_sent += n;
    return TERN_OK;
}

/* Whether a part is of a round and a step in which this node has still to hear of the sender, and has keys in order. */
static bool makes_sense(const struct doubling *doubling, uint32_t from, const struct frame *request,
                        const uint8_t *body, struct section *section)
{
    const bool is_now = doubling->runs && request->fields.round.number == doubling->round;
    size_t at = 0;
    bool wrong;
    if ((!is_now && request->fields.round.number != doubling->round + 1) ||
        request->fields.round.step > doubling->last_step ||
        sender(doubling, (uint32_t)request->fields.round.step) != from ||
        from == doubling->core->node || (is_now && request->fields.round.step < doubling->step) ||
        has_part(doubling, request->fields.round.number, (uint32_t)request->fields.round.step))
        return false;
    *section = (struct section){0};
    if (!request->body_bytes)
        return true;
    if (!section_next(body, request->body_bytes, &at, section, &wrong) ||
        at != request->body_bytes || section->kind != SECTION_DELTAS ||
        section->item_bytes != item_bytes(doubling->store))
        return false;
    uint64_t before = 0;
    for (uint32_t i = 0; i < section->count; i++) {
        uint64_t key = section_get(section->items + i * section->item_bytes);
        if (key > doubling->store->last_key || (i && key <= before))
            return false;
        before = key;
    }
    return true;
}

static enum tern_status answer(const struct doubling *doubling, const struct frame *request,
                               struct buffer *out)
{
    if (!reply_reserve(out, 0))
        return no_memory(doubling);
    struct frame reply = reply_frame(request, view_epoch(doubling->core->view), FRAME_ROUND_REPLY);
    reply.table = request->table;
    reply_commit(out, &reply);
    return TERN_OK;
}

enum tern_status doubling_serve(struct doubling *doubling, uint32_t from,
                                const struct frame *request, const uint8_t *body,
                                struct buffer *out)
{
    struct section section;
    if (doubling->is_closed)
        return fail(TERN_CLOSED,
                    "a node has closed table '%s', so that its copies are not kept alike",
                    doubling->store->name);
    if (request->fields.round.step == DOUBLING_PROBE)
        return answer(doubling, request, out);
    if (!makes_sense(doubling, from, request, body, &section))
        return fail(TERN_INVALID,
                    "a part of round %" PRIu64 " of table '%s', step %" PRIu64 ", makes no sense",
                    request->fields.round.number, doubling->store->name,
                    request->fields.round.step);
    struct part_sum *part =
        part_of(doubling, request->fields.round.number, (uint32_t)request->fields.round.step);
    if (!changes_reserve(doubling, &part->changes, section.count))
        return no_memory(doubling);
    part->changes.n = 0;
    for (uint32_t i = 0; i < section.count; i++) {
        const uint8_t *item = section.items + i * section.item_bytes;
        put(doubling, &part->changes, section_get(item), item + 8);
    }
    part->round = request->fields.round.number;
    atomic_store_explicit(&doubling->has_changes, true, memory_order_relaxed);
    doubling->counts.bytes_received += FRAME_HEADER_BYTES + request->body_bytes;
    doubling->counts.rows_received += section.count;
    return answer(doubling, request, out);
}

void doubling_forget_peer(struct doubling *doubling)
{
    doubling->is_closed = true;
}

/* ---- The technique ------------------------------------------------------------------------------ */

#define PROBE_NS UINT64_C(100000000)

static bool open_table(struct core *core, struct core_table *table,
                       const struct technique_setup *setup)
{
    struct doubling *made = doubling_new(core, &table->store);
    table->state = made;
    if (made && setup->round_bytes)
        doubling_limit(made, setup->round_bytes);
    return made;
}

static void close_table(struct core_table *table)
{
    doubling_free(table->state);
}

static bool can_go_on(const struct core_table *table)
{
    return doubling_has_changes(table->state);
}

static enum tern_status go_on(struct core_table *table, uint64_t now_ns)
{
    struct doubling *doubling = table->state;
    const uint64_t round = doubling->round;
    const uint32_t step = doubling->step;
    enum tern_status status = doubling_go_on(doubling);
    if (round != doubling->round || step != doubling->step)
        doubling->progressed_ns = now_ns;
    return status;
}

static enum tern_status begin_round(struct core_table *table, uint32_t shard,
                                    struct node_clock clock, uint64_t now_ns)
{
    (void)shard;
    (void)clock;
    return go_on(table, now_ns);
}

static bool has_todo(const struct core_table *table, uint32_t shard, uint32_t peer)
{
    uint32_t to;
    (void)shard;
    return doubling_has_request(table->state, &to) && to == peer;
}

/* A partner that is waited for is asked, if that is long, whether it still takes part. */
static bool has_question(const struct core_table *table, uint32_t shard, uint32_t peer,
                         uint64_t now_ns)
{
    const struct doubling *doubling = table->state;
    return has_todo(table, shard, peer) ||
           (doubling_awaited(doubling) == peer && now_ns >= doubling->progressed_ns + PROBE_NS);
}

static enum tern_status ask(struct core_table *table, uint32_t shard, uint32_t peer,
                            uint64_t now_ns, struct buffer *body, struct frame *frame, bool *more)
{
    struct doubling *doubling = table->state;
    (void)more;
    if (!has_todo(table, shard, peer)) {
        doubling->progressed_ns = now_ns;
        frame->fields.round.step = DOUBLING_PROBE;
        return TERN_OK;
    }
    enum tern_status status =
        doubling_request(doubling, body, &frame->fields.round.number, &frame->fields.round.step);
    return status ? status : go_on(table, now_ns);
}

static enum tern_status answer_part(struct core_table *table, uint32_t shard,
                                    struct round_question *question)
{
    (void)shard;
    question->wants_round = true;
    return doubling_serve(table->state, question->from, question->frame, question->body,
                          question->out);
}

static void end_round(struct core_table *table, uint32_t shard, struct round_end *end)
{
    (void)shard;
    end->left_over = doubling_is_busy(table->state);
    end->awaits = doubling_awaits(table->state);
}

static void peer_closed(struct core_table *table, uint32_t shard, uint32_t peer)
{
    (void)shard;
    (void)peer;
    doubling_forget_peer(table->state);
}

static void stats(const struct core_table *table, uint32_t shard, struct tern_table_stats *stats)
{
    const struct doubling_counts *counts = &((const struct doubling *)table->state)->counts;
    (void)shard;
    stats->rounds = counts->rounds;
    stats->messages = counts->messages;
    stats->sent_bytes = counts->bytes_sent;
    stats->received_bytes = counts->bytes_received;
    stats->deltas_sent = counts->rows_sent;
    stats->values_received = counts->rows_received;
}

const struct technique technique_doubling = {
    .rows = ROWS_EVERYWHERE,
    .sends_sections = true,
    .is_collective = true,
    .open = open_table,
    .close = close_table,
    .where = technique_where_home,
    .begin = begin_round,
    .has_question = has_question,
    .ask = ask,
    .has_todo = has_todo,
    .can_go_on = can_go_on,
    .go_on = go_on,
    .answer = answer_part,
    .end = end_round,
    .peer_closed = peer_closed,
    .stats = stats,
    .explain = replication_explain,
    .copy = replication_copy,
};
