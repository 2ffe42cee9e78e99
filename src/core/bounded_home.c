/* bounded_home - the side of a bounded table that has main copies. See bounded.h. */
#include <stdlib.h>
#include <string.h>

#include "core/backup.h"
#include "core/bounded_peer.h"
#include "core/defect.h"
#include "core/reply.h"

/* ---- Rows that others are to get ----------------------------------------------------------------- */

static bool has_bit(const struct slot_bits *bits, uint32_t slot)
{
    return slot / 64 < bits->n_words && bits->words[slot / 64] >> slot % 64 & 1;
}

/* False when memory runs out. */
static bool set_bit(struct slot_bits *bits, uint32_t slot)
{
    if (slot / 64 >= bits->n_words) {
        size_t n_words = 2 * (slot / 64) + 16;
        uint64_t *words = realloc(bits->words, n_words * sizeof *words);
        if (!words)
            return false;
        memset(words + bits->n_words, 0, (n_words - bits->n_words) * sizeof *words);
        bits->words = words;
        bits->n_words = n_words;
    }
    bits->words[slot / 64] |= UINT64_C(1) << slot % 64;
    return true;
}

/* False when memory runs out. */
static bool add_row(struct row_set *rows, uint32_t slot)
{
    const bool was = has_bit(&rows->bits, slot);
    if (!was && !set_bit(&rows->bits, slot))
        return false;
    rows->n += !was;
    return true;
}

bool home_changed(struct bounded *bounded, uint32_t slot, uint32_t by)
{
    bool complete = true;
    view_each_while (i, bounded->view, is_eager(bounded)) {
        struct bounded_peer *peer = &bounded->peers[i];
        if (i != by && i != bounded->core->node && has_bit(&peer->registered, slot))
            complete &= add_row(&peer->missing, slot);
    }
    return complete;
}

/* Whether some node may still read replicas as under an earlier view. */
static bool is_one_behind(const struct bounded *bounded)
{
    bool is_behind = false;
    view_each_while (i, bounded->view, !is_behind)
        is_behind = bounded->peers[i].is_behind;
    return is_behind;
}

/* A holder to which no rows are under way, and which misses none, has what there is. */
static void note_seen(struct bounded *bounded)
{
    struct standing *standing = &bounded->standing;
    const bool is_backed = bounded->table->backup;
    view_each_while (i, bounded->view, is_by_value(bounded)) {
        const struct bounded_peer *peer = &bounded->peers[i];
        bool has_all = !peer->missing.n && !peer->pushes;
        if (bounded->seen.values[i] != CLOCK_RESTS && (has_all || defect(DEFECT_SEEN_EARLY)))
            min_clock_set(&bounded->seen, i, standing->merges);
    }
    if (is_backed && is_one_behind(bounded))
        return;
    standing->stable =
        bounded->seen.lowest == CLOCK_RESTS ? standing->merges : bounded->seen.lowest;
    if (is_backed && bounded->safe_merges < standing->stable)
        standing->stable = bounded->safe_merges;
}

void home_merged(struct bounded *bounded)
{
    bounded->standing.merges++;
    note_seen(bounded);
}

void home_pushed(struct bounded *bounded, uint32_t node)
{
    bounded->peers[node].pushes = false;
    note_seen(bounded);
}

/* ---- Clocks -------------------------------------------------------------------------------------- */

/* The lowest clock of all nodes but one; CLOCK_RESTS if they all rest. Only the slowest node makes it
 * necessary to look at all others. */
static uint64_t lowest_without(const struct bounded *bounded, uint32_t node)
{
    const struct min_clock *nodes = &bounded->nodes;
    if (nodes->values[node] != nodes->lowest || nodes->n_lowest > 1)
        return nodes->lowest;
    uint64_t lowest = CLOCK_RESTS;
    for (uint32_t i = 0; i < nodes->n; i++)
        if (i != node && nodes->values[i] < lowest)
            lowest = nodes->values[i];
    return lowest;
}

uint64_t home_clock_for(const struct bounded *bounded, uint32_t node)
{
    uint64_t clock = lowest_without(bounded, node);
    const uint64_t own = bounded->nodes.values[node], told = bounded->peers[node].told.clock;
    /* While all others rest the node itself sets the pace. */
    if (clock == CLOCK_RESTS)
        clock = own != CLOCK_RESTS && own > bounded->highest ? own : bounded->highest;
    return clock > told ? clock : told;
}

bool home_has_push(const struct bounded *bounded, uint32_t node)
{
    const struct bounded_peer *peer = &bounded->peers[node];
    if (peer->missing.n && (peer->flushes || is_by_value(bounded)))
        return true;
    return !is_by_value(bounded) && home_clock_for(bounded, node) > peer->pushed;
}

/* A node that holds others back, but not the one given; that one if there is none. */
static uint32_t slowest_without(struct bounded *bounded, uint32_t node)
{
    struct min_clock *nodes = &bounded->nodes;
    const uint64_t lowest = lowest_without(bounded, node);
    uint32_t slowest = min_clock_slowest(nodes);
    if (lowest == CLOCK_RESTS)
        return node;
    for (uint32_t i = 0; slowest == node && i < nodes->n; i++)
        if (i != node && nodes->values[i] == lowest)
            slowest = i;
    return slowest;
}

void home_tell(struct bounded *bounded, uint32_t node)
{
    struct standing *standing = &bounded->standing;
    const uint64_t clock = home_clock_for(bounded, node);
    if (clock > standing->peak)
        standing->peak = clock;
    struct standing *told = &bounded->peers[node].told;
    *told = *standing;
    told->clock = clock;
    told->node = slowest_without(bounded, node);
    told->worker = bounded->peers[told->node].slowest;
    told->own = bounded->now.slowest;
}

static void advance(struct bounded *bounded)
{
    struct standing *standing = &bounded->standing;
    const uint32_t self = bounded->core->node;
    home_tell(bounded, self);
    *standing = bounded->peers[self].told;
    bounded_raise(bounded, self, standing->clock);
}

/* With backups: what a node has said counts when they have all that it promises. A node that comes back counts at once. */
static void hear_later(struct bounded *bounded, uint32_t node, const struct node_clock *said)
{
    struct heard_clocks *last = &bounded->last, *waiting = &bounded->waiting;
    last->clocks[node] = said->clock;
    if (said->clock == CLOCK_RESTS && said->highest > last->highest)
        last->highest = said->highest;
    if (said->clock < waiting->clocks[node])
        waiting->clocks[node] = said->clock;
    if (said->clock >= bounded->nodes.values[node])
        return;
    min_clock_set(&bounded->nodes, node, said->clock);
    advance(bounded);
}

void home_heard(struct bounded *bounded, uint32_t node, const struct node_clock *said)
{
    bounded->peers[node].slowest = said->slowest;
    if (bounded->table->backup) {
        hear_later(bounded, node, said);
        return;
    }
    if (said->clock == CLOCK_RESTS && said->highest > bounded->highest &&
        !defect(DEFECT_RESTED_FORGOTTEN))
        bounded->highest = said->highest;
    min_clock_set(&bounded->nodes, node, said->clock);
    advance(bounded);
}

/* What waits for a batch counts. */
static void make_count(struct bounded *bounded)
{
    struct heard_clocks *waiting = &bounded->waiting;
    for (uint32_t i = 0; i < bounded->nodes.n; i++)
        if (bounded->nodes.values[i] != waiting->clocks[i])
            min_clock_set(&bounded->nodes, i, waiting->clocks[i]);
    bounded->highest = waiting->highest;
    bounded->safe_merges = waiting->merges;
    waiting->batch = 0;
}

/* Whether something was heard that neither counts nor waits. */
static bool has_heard(const struct bounded *bounded)
{
    const struct heard_clocks *last = &bounded->last;
    return bounded->standing.merges != bounded->safe_merges || last->highest != bounded->highest ||
           memcmp(last->clocks, bounded->nodes.values, bounded->nodes.n * sizeof *last->clocks) !=
               0;
}

/* What was heard until now waits for the next batch. */
static void begin_waiting(struct bounded *bounded, struct backup *backup)
{
    struct heard_clocks *waiting = &bounded->waiting;
    memcpy(waiting->clocks, bounded->last.clocks, bounded->nodes.n * sizeof *waiting->clocks);
    waiting->highest = bounded->last.highest;
    waiting->merges = bounded->standing.merges;
    waiting->batch = backup_hurry(backup);
}

bool bounded_make_safe(struct bounded *bounded)
{
    const struct heard_clocks *waiting = &bounded->waiting;
    struct backup *backup = bounded->table->backup ? bounded->core->backups[0] : NULL;
    bool counts = false;
    if (!backup)
        return false;
    for (bool goes_on = true; goes_on;) {
        if (!waiting->batch && has_heard(bounded))
            begin_waiting(bounded, backup);
        goes_on = waiting->batch && backup_has_confirmed(backup, waiting->batch);
        if (goes_on)
            make_count(bounded);
        counts |= goes_on;
    }
    if (counts) {
        note_seen(bounded);
        advance(bounded);
    }
    return counts;
}

void home_begin_era(struct bounded *bounded)
{
    struct standing *standing = &bounded->standing;
    bounded->waiting.batch = 0;
    /* What is to be stable from now on is so when all nodes have come. */
    standing->merges++;
    standing->clock = 0;
    view_each (i, bounded->view) {
        struct bounded_peer *peer = &bounded->peers[i];
        peer->told.clock = peer->pushed = 0;
        peer->is_behind = i != bounded->core->node && !peer->is_closed;
        if (peer->is_closed)
            continue;
        bounded->last.clocks[i] = 0;
        min_clock_set(&bounded->nodes, i, 0);
    }
}

void home_forget(struct bounded *bounded, uint32_t node)
{
    if (bounded->last.clocks)
        bounded->last.clocks[node] = bounded->waiting.clocks[node] = CLOCK_RESTS;
    min_clock_set(&bounded->nodes, node, CLOCK_RESTS);
    min_clock_set(&bounded->seen, node, CLOCK_RESTS);
    note_seen(bounded);
    advance(bounded);
}

/* ---- Questions ----------------------------------------------------------------------------------- */

static size_t expected_bytes(const struct bounded *bounded, enum section_kind kind)
{
    switch (kind) {
    case SECTION_DELTAS:
        return row_bytes(bounded);
    case SECTION_VALUES:
        return is_eager(bounded) ? row_bytes(bounded) : 0;
    case SECTION_ASKS:
        return 8;
    case SECTION_CLOCKS:
        return 8 * (QUESTION_WORDS + STANDING_WORDS);
    default:
        return 0;
    }
}

bool are_at_home(const struct bounded *bounded, const struct section *section, uint32_t node)
{
    const struct store *store = bounded->store;
    for (uint32_t i = 0; i < section->count; i++) {
        uint64_t key = section_get(section->items + i * section->item_bytes);
        if (key > store->last_key || home_of(bounded, key) != node)
            return false;
    }
    return true;
}

/* Checks a section of a question of node `from`. */
static bool is_section(const struct bounded *bounded, uint32_t from, const struct section *section)
{
    if (section->item_bytes != expected_bytes(bounded, section->kind))
        return false;
    if (section->kind == SECTION_CLOCKS)
        return section->count == 1;
    return are_at_home(bounded, section,
                       section->kind == SECTION_VALUES ? from : bounded->core->node);
}

/* Checks a whole question before anything of it is done; *clocks is where its last section has its item. */
static enum tern_status check_question(const struct bounded *bounded, uint32_t from,
                                       const uint8_t *body, size_t bytes, const uint8_t **clocks)
{
    struct section section;
    size_t at = 0;
    bool wrong;
    *clocks = NULL;
    while (section_next(body, bytes, &at, &section, &wrong)) {
        wrong = *clocks || !is_section(bounded, from, &section);
        if (wrong)
            break;
        if (section.kind == SECTION_CLOCKS)
            *clocks = section.items;
    }
    if (!wrong && *clocks &&
        section_get(*clocks + 8 * QUESTION_SERVED) <= bounded->peers[from].n_asked)
        return TERN_OK;
    return fail(TERN_INVALID, "a round of table '%s' makes no sense", bounded->store->name);
}

/* Adds one change to a row, which goes to the backups. */
static enum tern_status merge_one(struct bounded *bounded, uint32_t from, const uint8_t *item,
                                  struct marks *marks)
{
    const uint64_t key = section_get(item);
    uint32_t slot;
    enum tern_status status = backup_check_lost(bounded->table, &key, 1);
    if (!status && marks && !key_list_add(&bounded->taken, key))
        status = no_memory_for(bounded);
    if (!status)
        status = store_merge_delta(bounded->store, key, item + 8, &slot);
    if (!status && marks)
        marks_add(marks, slot);
    if (!status && !home_changed(bounded, slot, from))
        status = no_memory_for(bounded);
    return status;
}

enum tern_status home_merge(struct bounded *bounded, uint32_t from, const struct section *section)
{
    struct marks *marks =
        bounded->table->backup ? store_marks_for_backups(bounded->store, 0) : NULL;
    for (uint32_t i = 0; i < section->count; i++) {
        enum tern_status status =
            merge_one(bounded, from, section->items + i * section->item_bytes, marks);
        if (status)
            return status;
    }
    home_merged(bounded);
    return TERN_OK;
}

/* A node wants the present values of keys, and may also want all later ones. */
static enum tern_status serve_asks(struct bounded *bounded, uint32_t from,
                                   const struct section *section)
{
    struct bounded_peer *peer = &bounded->peers[from];
    for (uint32_t i = 0; i < section->count; i++) {
        uint64_t key = section_get(section->items + i * section->item_bytes);
        struct entry *entry;
        enum tern_status status = backup_check_lost(bounded->table, &key, 1);
        if (!status)
            status = store_create(bounded->store, key);
        if (status)
            return status;
        uint32_t slot = entry_slot(store_look(bounded->store, key, &entry));
        bool registers = is_eager(bounded) && !defect(DEFECT_NOT_REGISTERED);
        /* One that was asked for before is in an earlier answer. */
        if (is_eager(bounded) && has_bit(&peer->registered, slot))
            continue;
        if (!add_row(&peer->asked, slot) || (registers && !set_bit(&peer->registered, slot)))
            return no_memory_for(bounded);
    }
    /* It cannot read the keys before it has got what there is now. */
    if (is_by_value(bounded) && bounded->seen.values[from] == CLOCK_RESTS)
        min_clock_set(&bounded->seen, from, bounded->standing.merges);
    return TERN_OK;
}

/* Rows of the other node's keys, which travel with its clock. */
static enum tern_status take_pushed(struct bounded *bounded, uint32_t from,
                                    const struct section *section, const uint8_t *clocks)
{
    bounded->peers[from].n_got++;
    return bounded_take_pushed(bounded, from, section, section_get(clocks + 8 * QUESTION_SERVED));
}

static void serve_clocks(struct bounded *bounded, uint32_t from, const uint8_t *item)
{
    struct node_clock said = {.clock = section_get(item + 8 * QUESTION_CLOCK),
                              .highest = section_get(item + 8 * QUESTION_HIGHEST),
                              .slowest = (uint32_t)section_get(item + 8 * QUESTION_SLOWEST)};
    const bool left = section_get(item + 8 * QUESTION_LEFT) && !defect(DEFECT_PUSH_REST_FORGOTTEN);
    bounded->is_inquired |= section_get(item + 8 * QUESTION_INQUIRES) != 0;
    struct standing standing = standing_read(item + 8 * QUESTION_WORDS);
    if (section_get(item + 8 * QUESTION_EPOCH) != view_epoch(bounded->view) &&
        !defect(DEFECT_ERA_IGNORED)) {
        said.clock = NOT_SAID;
        standing.clock = 0;
    } else {
        bounded->peers[from].is_behind = false;
    }
    note_seen(bounded);
    if (said.clock != NOT_SAID)
        home_heard(bounded, from, &said);
    if (is_eager(bounded) && !left)
        bounded_raise(bounded, from, standing.clock);
    bounded_hear(bounded, from, &standing);
}

/* ---- Answers ------------------------------------------------------------------------------------- */

uint8_t *home_write_rows(struct bounded *bounded, struct row_set *rows, uint8_t *out)
{
    struct store *store = bounded->store;
    const size_t item_bytes = row_bytes(bounded), most = rows_per_body(bounded);
    uint8_t *header = out;
    uint32_t n = 0;
    out += SECTION_HEADER_BYTES;
    for (size_t i = 0; rows->n && n < most; i++) {
        uint64_t *word = &rows->bits.words[i];
        for (; *word && n < most; n++, out += item_bytes) {
            uint32_t slot = (uint32_t)(64 * i + (size_t)__builtin_ctzll(*word));
            *word &= *word - 1;
            rows->n--;
            uint64_t key = store_key_of(store, slot);
            memset(out + item_bytes - 8, 0, 8);
            section_put(out, key);
            store_pull_one(store, key, out + 8);
        }
    }
    if (n > 1 && defect(DEFECT_ROW_DROPPED)) {
        n--;
        out -= item_bytes;
    }
    section_write(header, SECTION_VALUES, n, item_bytes);
    return n ? out : header;
}

static void answer(struct bounded *bounded, uint32_t to, const struct frame *request,
                   uint8_t *begin, struct buffer *out)
{
    struct bounded_peer *peer = &bounded->peers[to];
    uint8_t *end = home_write_rows(bounded, &peer->asked, begin);
    section_write(end, SECTION_CLOCKS, 1, 8 * ANSWER_WORDS);
    home_tell(bounded, to);
    end = standing_write(end + SECTION_HEADER_BYTES, &peer->told);
    section_put(end, peer->n_pushed);
    end += 8;
    struct frame reply = reply_frame(request, view_epoch(bounded->view), FRAME_ROUND_REPLY);
    reply.table = request->table;
    reply.fields.round_reply.left = peer->asked.n > 0;
    reply.body_bytes = (uint32_t)(end - begin);
    reply_commit(out, &reply);
    bounded->counts.answers++;
    bounded->counts.bytes_sent += FRAME_HEADER_BYTES + reply.body_bytes;
    bounded->counts.bytes_received += FRAME_HEADER_BYTES + request->body_bytes;
}

enum tern_status bounded_serve(struct bounded *bounded, uint32_t from, const struct frame *request,
                               const uint8_t *body, struct buffer *out)
{
    struct bounded_peer *peer = &bounded->peers[from];
    const uint8_t *clocks;
    enum tern_status status = check_question(bounded, from, body, request->body_bytes, &clocks);
    if (status)
        return status;
    uint8_t *begin =
        reply_reserve(out, 2 * SECTION_HEADER_BYTES + rows_per_body(bounded) * row_bytes(bounded) +
                               8 * ANSWER_WORDS);
    if (!begin)
        return no_memory_for(bounded);
    struct section section;
    size_t at = 0;
    bool wrong;
    peer->n_served++;
    bounded->taken.n = 0;
    while (!status && section_next(body, request->body_bytes, &at, &section, &wrong)) {
        if (section.kind == SECTION_DELTAS)
            status = home_merge(bounded, from, &section);
        else if (section.kind == SECTION_VALUES)
            status = take_pushed(bounded, from, &section, clocks);
        else if (section.kind == SECTION_ASKS)
            status = serve_asks(bounded, from, &section);
        else
            serve_clocks(bounded, from, section.items);
    }
    (void)bounded_make_safe(bounded);
    if (!status)
        answer(bounded, from, request, begin, out);
    return status;
}
