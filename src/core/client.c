/* client - see client.h. */
#include "core/client_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/age.h"
#include "core/backup.h"
#include "core/defect.h"
#include "wire/bytes.h"
#include "wire/keys.h"

static enum tern_status init(struct client *client, struct core *core, uint32_t first_shard,
                             uint32_t n_shards)
{
    const uint32_t n_lanes = view_capacity(core->view) * n_shards;
    *client = (struct client){
        .core = core, .n_lanes = n_lanes, .first_shard = first_shard, .n_shards = n_shards};
    client->lanes = calloc(n_lanes, sizeof *client->lanes);
    client->ends = calloc(n_lanes, sizeof *client->ends);
    if (!client->lanes || !client->ends) {
        client_fini(client);
        return fail(TERN_NO_MEMORY, "no memory for a worker's lanes to %" PRIu32 " nodes",
                    view_n_nodes(core->view));
    }
    for (uint32_t i = 0; i < n_lanes; i++) {
        client->lanes[i].arc = i / n_shards;
        client->lanes[i].node = view_home(core->view, i / n_shards);
        client->lanes[i].shard = first_shard + i % n_shards;
    }
    client->local.node = core->node;
    return TERN_OK;
}

enum tern_status client_init(struct client *client, struct core *core)
{
    return init(client, core, 0, core_shards(core));
}

enum tern_status client_init_shard(struct client *client, struct core *core, uint32_t shard)
{
    return init(client, core, shard, 1);
}

void client_fini(struct client *client)
{
    for (struct part *part = client->free_parts, *next; part; part = next) {
        next = part->next;
        free(part);
    }
    for (uint32_t i = 0; client->lanes && i < client->n_lanes; i++) {
        lists_clear(&client->lanes[i].lists);
        list_base_free(&client->lanes[i].base);
        free(client->lanes[i].notes);
    }
    free(client->scratch);
    buffer_free(&client->rows);
    free(client->ends);
    free(client->lanes);
}

/* How many keys a request of this operation has at most. */
static size_t keys_per_part(const struct op *op)
{
    size_t key_bytes = op_value_bytes(op) > SORTED_BYTES ? sizeof(uint64_t) : 0;
    size_t n = (PART_BYTES - FRAME_HEADER_BYTES) / (op_value_bytes(op) + key_bytes);
    return n < 1 ? 1 : n > FRAME_MAX_KEYS ? FRAME_MAX_KEYS : n;
}

/* Room for sorting n keys: 3 n words for keys_sort, n lane numbers, n positions. */
static bool reserve_scratch(struct client *client, size_t n)
{
    if (n <= client->scratch_keys)
        return true;
    uint64_t *scratch = malloc(n * (3 * sizeof(uint64_t) + 2 * sizeof(uint32_t)));
    if (!scratch)
        return false;
    free(client->scratch);
    client->scratch = scratch;
    client->scratch_keys = n;
    return true;
}

/*
 * Puts the keys at `positions`, all of one node, into the operation from `begin` on: sorted, so that
 * they are coded in fewer bytes, unless their values are so long that this saves next to nothing; then
 * in the caller's order, so that values are gathered and scattered in one sweep.
 */
static void arrange_group(struct client *client, struct op *op, size_t begin, size_t n,
                          const uint32_t *positions)
{
    if (op_value_bytes(op) > SORTED_BYTES) {
        memcpy(op->order + begin, positions, n * sizeof *positions);
        for (size_t i = 0; i < n; i++)
            op->sorted[begin + i] = op->keys[positions[i]];
        return;
    }
    uint64_t *given = client->scratch;
    for (size_t i = 0; i < n; i++)
        given[i] = op->keys[positions[defect(DEFECT_SORT_UNSTABLE) ? n - 1 - i : i]];
    uint32_t *order = op->order + begin;
    keys_sort(given, n, op->sorted + begin, order, given + n);
    for (size_t i = 0; i < n; i++)
        order[i] = positions[defect(DEFECT_SORT_UNSTABLE) ? n - 1 - order[i] : order[i]];
}

static struct part *take_part(struct client *client)
{
    struct part *part = client->free_parts;
    if (part)
        client->free_parts = part->next;
    else
        part = malloc(sizeof *part);
    client->n_parts += part != NULL;
    return part;
}

static void give_part(struct client *client, struct part *part)
{
    part->next = client->free_parts;
    client->free_parts = part;
    client->n_parts--;
}

/* Makes sure that n parts can be taken without failing. */
static bool reserve_parts(struct client *client, size_t n)
{
    struct part *list = NULL;
    for (; n > 0; n--) {
        struct part *part = take_part(client);
        if (!part)
            break;
        part->next = list;
        list = part;
    }
    while (list) {
        struct part *next = list->next;
        give_part(client, list);
        list = next;
    }
    return n == 0;
}

/* Puts a request at the end of a lane. */
static void queue_part(struct lane *lane, struct part *part)
{
    lane->last_number -= defect(DEFECT_NUMBER_REPEATED) && lane->last_number == 5;
    part->number = part->op->number = ++lane->last_number;
    if (lane->last)
        lane->last->next = part;
    else
        lane->first = part;
    lane->last = part;
    if (!lane->unsent)
        lane->unsent = part;
    part->op->n_parts++;
}

/* What was noted of a table; NULL: nothing. */
static struct lane_note *find_note(const struct lane *lane, uint16_t table)
{
    for (size_t i = 0; i < lane->n_notes; i++)
        if (lane->notes[i].table == table)
            return &lane->notes[i];
    return NULL;
}

/* Notes how many pushes a table had when it was pulled from. Without memory there is no note: the delay counts as 0. */
static void take_note(struct lane *lane, uint16_t table, uint64_t count)
{
    struct lane_note *note = find_note(lane, table);
    if (!note) {
        struct lane_note *notes = realloc(lane->notes, (lane->n_notes + 1) * sizeof *notes);
        if (!notes)
            return;
        lane->notes = notes;
        note = &notes[lane->n_notes++];
        note->table = table;
    }
    note->count = count;
}

/* Queues the requests for one node: keys [begin, end) of the operation. */
static void queue_group(struct client *client, struct op *op, struct lane *lane, size_t begin,
                        size_t end)
{
    size_t most = keys_per_part(op);
    const struct lane_note *note =
        op->kind == FRAME_PUSH && age_is_asked(op->of) ? find_note(lane, op->table) : NULL;
    while (begin < end) {
        struct part *part = take_part(client);
        size_t count = end - begin < most ? end - begin : most;
        *part = (struct part){
            .op = op, .begin = begin, .count = (uint32_t)count, .noted = note ? note->count : 0};
        queue_part(lane, part);
        begin += count;
    }
}

/* The place among the lanes of the one to the shard of a key that is at `node`. */
static inline uint32_t lane_number(const struct client *client, const struct store *store,
                                   uint64_t key, uint32_t node)
{
    uint32_t shard = defect(DEFECT_WRONG_SHARD) ? 0 : store_shard(store, key);
    return node * client->n_shards + shard;
}

/* Where requests are queued that are for the lane at a place: what is at this node is not sent. */
static struct lane *lane_to(struct client *client, const struct op *op, uint32_t number)
{
    struct lane *lane = &client->lanes[number];
    return lane->node == core_for(client->core, op->of)->node ? &client->local : lane;
}

static bool reserve_op(struct op *op, size_t n)
{
    if (n <= OP_FEW) {
        op->order = op->few_order;
        op->sorted = op->few_sorted;
        return true;
    }
    op->sorted = malloc(n * (sizeof *op->sorted + sizeof *op->order));
    if (!op->sorted)
        return false;
    op->order = (uint32_t *)(op->sorted + n);
    return true;
}

/* The node of a key; that of the key before, for as long as the next one is in the same range of keys. */
static inline uint32_t owner_near(const struct core *core, const struct core_table *table,
                                  uint64_t key, struct key_range *range, uint32_t node)
{
    if (key - range->begin < range->n_keys)
        return node;
    return table->technique->where(core, table, key, range);
}

/* Groups the positions by lane; the group of a lane ends at client->ends of its place. */
static uint32_t *group_by_lane(struct client *client, const struct op *op,
                               const uint32_t *positions, size_t n)
{
    const struct core *core = core_for(client->core, op->of);
    const struct store *store = &op->of->store;
    uint32_t *lanes = (uint32_t *)(client->scratch + 3 * n), *grouped = lanes + n;
    size_t *ends = client->ends;
    struct key_range range = {0};
    uint32_t near = 0;
    memset(ends, 0, client->n_lanes * sizeof *ends);
    for (size_t i = 0; i < n; i++) {
        uint64_t key = op->keys[positions[i]];
        uint32_t node = near = owner_near(core, op->of, key, &range, near);
        if (defect(DEFECT_WRONG_NODE) && key % 16 == 3)
            node = (node + 1) % view_capacity(core->view);
        lanes[i] = lane_number(client, store, key, node);
        ends[lanes[i]]++;
    }
    size_t begin = 0;
    for (uint32_t i = 0; i < client->n_lanes; i++) {
        size_t count = ends[i];
        ends[i] = begin;
        begin += count;
    }
    for (size_t i = 0; i < n; i++)
        grouped[ends[lanes[i]]++] = positions[i];
    return grouped;
}

/* One key is the most common request: no sorting, no memory. */
static void start_one(struct client *client, struct op *op, uint32_t position)
{
    uint64_t key = op->keys[position];
    op->order[0] = position;
    op->sorted[0] = key;
    uint32_t node = technique_where(core_for(client->core, op->of), op->of, key);
    queue_group(client, op, lane_to(client, op, lane_number(client, &op->of->store, key, node)), 0,
                1);
}

static void start_many(struct client *client, struct op *op, const uint32_t *positions, size_t n)
{
    const uint32_t *grouped = group_by_lane(client, op, positions, n);
    size_t begin = 0;
    op->n = 0;
    for (uint32_t i = 0; i < client->n_lanes; i++) {
        size_t count = client->ends[i] - begin;
        if (!count)
            continue;
        arrange_group(client, op, op->n, count, grouped + begin);
        begin += count;
        queue_group(client, op, lane_to(client, op, i), op->n, op->n + count);
        op->n += count;
    }
}

/* Fails if one of the keys is lost: this node would have to have it. */
static enum tern_status start_check(const struct core_table *table, const uint64_t *keys,
                                    const uint32_t *positions, size_t n)
{
    enum tern_status status = TERN_OK;
    for (size_t i = 0; table->backup && !status && i < n; i++)
        status = backup_check_lost(table, &keys[positions[i]], 1);
    return status;
}

enum tern_status client_start(struct client *client, struct op *op, enum frame_kind kind,
                              const struct core_table *table, const uint64_t *keys, void *values,
                              const uint32_t *positions, size_t n)
{
    op->kind = kind;
    op->table = table->number;
    op->of = table;
    op->keys = keys;
    op->values = values;
    op->present = NULL;
    op->n = n;
    op->n_parts = 0;
    op->counted = NULL;
    op->n_counted = 0;
    op->behind = false;
    op->status = TERN_OK;
    enum tern_status status = start_check(table, keys, positions, n);
    if (status)
        return status;
    bool ready =
        reserve_op(op, n) && reserve_parts(client, n / keys_per_part(op) + client->n_lanes);
    if (ready && n > 1)
        ready = reserve_scratch(client, n);
    if (!ready) {
        op_end(op);
        return fail(TERN_NO_MEMORY, "no memory for a request for %zu keys of table '%s'", n,
                    op->of->store.name);
    }
    if (n == 1)
        start_one(client, op, positions[0]);
    else
        start_many(client, op, positions, n);
    return TERN_OK;
}

void op_count(struct op *op, size_t n_call)
{
    const struct counting *counting = op->of->technique->counting;
    if (counting && op->kind == FRAME_PULL && !op->present)
        counting->begin(op->of, op, n_call);
}

bool op_outran_replicas(const struct op *op)
{
    if (op->kind == FRAME_PULL || op->kind == FRAME_COUNT || defect(DEFECT_CATCH_UP_SKIPPED))
        return false;
    /* Of rows that are everywhere the home always tells. An owner of rows that move may not know of a replica. */
    const bool is_told = op->of->store.home.rows_everywhere && op->of->technique->wrote;
    return op->behind || (!is_told && store_has_replica(&op->of->store, op->sorted, op->n));
}

bool op_outran_unregistered(const struct op *op, uint32_t shard)
{
    const struct technique *technique = op->of->technique;
    bool outran = false;
    for (size_t i = 0; technique->has_unregistered && !outran && i < op->n; i++)
        outran = store_shard(&op->of->store, op->sorted[i]) == shard &&
                 technique->has_unregistered(op->of, shard, &op->sorted[i], 1);
    return outran;
}

enum tern_status op_end(struct op *op)
{
    if (op->sorted != op->few_sorted)
        free(op->sorted);
    op->sorted = op->few_sorted;
    free(op->counted);
    op->counted = NULL;
    return op->status ? fail(op->status, "%s", op->sentence) : TERN_OK;
}

enum tern_status client_call(struct client *client, uint32_t node, struct op *op,
                             enum frame_kind kind)
{
    op->kind = kind;
    op->sorted = op->few_sorted;
    if (!view_is_present(client->core->view, node))
        return fail(TERN_PEER, "node %" PRIu32 " was given up", node);
    struct part *part = take_part(client);
    if (!part)
        return fail(TERN_NO_MEMORY, "no memory for a call to node %" PRIu32, node);
    *part = (struct part){.op = op};
    queue_part(client_lane(client, node), part);
    return TERN_OK;
}

/* The bytes that a part has under way: its values, in the request or in the reply. */
static size_t part_bytes(const struct part *part)
{
    if (op_is_call(part->op))
        return FRAME_HEADER_BYTES + part->op->payload_bytes;
    return FRAME_HEADER_BYTES + part->count * op_value_bytes(part->op);
}

bool lane_send_in_place(struct client *client, struct lane *lane, size_t room, struct buffer *out,
                        struct slice *rest)
{
    while (lane_may_send(lane) && buffer_size(out) < room && !(rest && rest->n)) {
        struct part *part = lane->unsent;
        if (!request_encode(client, lane, part, out, rest))
            return false;
        lane->bytes_under_way += part_bytes(part);
        lane->full = lane->bytes_under_way >= LANE_BYTES;
        lane->unsent = part->next;
    }
    return true;
}

bool lane_send(struct client *client, struct lane *lane, size_t room, struct buffer *out)
{
    return lane_send_in_place(client, lane, room, out, NULL);
}

bool lane_awaits_last(const struct lane *lane)
{
    return lane->first && lane->first != lane->unsent && lane->first->next == lane->unsent;
}

void lane_resume(struct lane *lane)
{
    lane->unsent = lane->first;
    lane->bytes_under_way = 0;
    if (defect(DEFECT_RESUME_FORGETS) && lane->first)
        lane->unsent = lane->first->next;
}

/* All that was sent on earlier connections has been executed by now, or never will be. Before the first nothing was
 * sent, and what was executed are requests of somebody who had the lane before. */
void lane_welcome(struct lane *lane, uint64_t executed)
{
    const bool was_known = lane->is_known && !defect(DEFECT_RESUME_RENUMBERS);
    lane->is_known = true;
    lane->last_number = executed;
    for (struct part *part = lane->first; part; part = part->next)
        if (!was_known || part->number > executed)
            part->number = part->op->number = ++lane->last_number;
}

/* The server does not know the list of the oldest request, and waits for it. */
static void lane_send_lists(struct lane *lane)
{
    lists_clear(&lane->lists);
    lane->base.n = 0;
    for (struct part *part = lane->first; part; part = part->next)
        part->list = LIST_UNDECIDED;
    if (defect(DEFECT_LIST_UNSENT))
        return;
    lane->unsent = lane->first;
    lane->bytes_under_way = 0;
}

static void op_fail(struct op *op, enum tern_status status, const char *sentence, size_t length)
{
    if (op->status)
        return;
    op->status = status;
    if (length > sizeof op->sentence - 1)
        length = sizeof op->sentence - 1;
    snprintf(op->sentence, sizeof op->sentence, "%.*s", (int)length, sentence);
}

/* Removes the oldest part, which is answered. */
static void drop_first(struct client *client, struct lane *lane)
{
    struct part *part = lane->first;
    lane->first = part->next;
    if (!lane->first)
        lane->last = NULL;
    if (lane->unsent == part)
        lane->unsent = part->next;
    else
        lane->bytes_under_way -= part_bytes(part);
    part->op->n_parts--;
    give_part(client, part);
}

static enum tern_status bad_reply(const struct lane *lane, const struct frame *reply)
{
    return fail(TERN_PEER, "node %" PRIu32 " sent a reply that fits no request: %s number %" PRIu64,
                lane->node, frame_kind_name(reply->kind), reply->number);
}

uint8_t *lane_target(const struct lane *lane, const struct frame *reply)
{
    const struct part *part = lane->first;
    if (!part || part == lane->unsent || reply->number != part->number ||
        reply->flags & FRAME_CHECKED)
        return NULL;
    if (reply->kind == FRAME_ROUND_REPLY && op_is_call(part->op))
        return buffer_reserve(&part->op->answer_body, reply->body_bytes);
    if (op_is_filtered(part->op) || part->op->counted)
        return NULL;
    return request_has_values(part, reply) && !reply->keys_bytes
               ? (uint8_t *)request_values_together(part)
               : NULL;
}

/* ---- Keys that have moved ------------------------------------------------------------------------ */

/* Puts keys [begin, end) of an operation, which were asked for in vain, into the lanes of the nodes that
 * have them as far as is known now. Their order is kept within each lane. */
static void queue_again(struct client *client, struct op *op, size_t begin, size_t end)
{
    const size_t n = end - begin;
    const struct store *store = &op->of->store;
    if (!reserve_scratch(client, n) ||
        !reserve_parts(client, n / keys_per_part(op) + client->n_lanes)) {
        op_fail(op, TERN_NO_MEMORY, "no memory to follow keys that have moved", SIZE_MAX);
        return;
    }
    uint64_t *keys = client->scratch;
    uint32_t *lanes = (uint32_t *)(client->scratch + 3 * n), *order = lanes + n;
    memcpy(keys, op->sorted + begin, n * sizeof *keys);
    memcpy(order, op->order + begin, n * sizeof *order);
    for (size_t i = 0; i < n; i++)
        lanes[i] = lane_number(client, store, keys[i],
                               technique_where(core_for(client->core, op->of), op->of, keys[i]));
    for (uint32_t k = 0; k < client->n_lanes; k++) {
        size_t first = begin;
        for (size_t i = 0; i < n; i++) {
            if (lanes[i] != k)
                continue;
            op->sorted[begin] = keys[i];
            op->order[begin++] = order[i];
        }
        queue_group(client, op, lane_to(client, op, k), first, begin);
    }
}

/* Whether a key that is said to be here has not come yet: after it had come and gone, something newer
 * would be known. */
static bool is_coming(const struct client *client, const struct op *op, size_t i, uint32_t location)
{
    uint32_t known;
    return location_node(location) == core_for(client->core, op->of)->node &&
           store_location(&op->of->store, op->sorted[i], &known) &&
           location_is_newer(location, known);
}

/* Has key i of an operation, which comes to this node, done here then. There must be room for a part. */
static void queue_coming(struct client *client, struct op *op, size_t i, uint32_t location)
{
    struct part *part = take_part(client);
    *part =
        (struct part){.op = op, .begin = i, .count = 1, .is_coming = true, .location = location};
    queue_part(&client->local, part);
}

static void swap_keys(struct op *op, size_t i, size_t k)
{
    uint64_t key = op->sorted[i];
    uint32_t position = op->order[i];
    op->sorted[i] = op->sorted[k];
    op->order[i] = op->order[k];
    op->sorted[k] = key;
    op->order[k] = position;
}

/* The node does not have all keys of its oldest request and did nothing of it: takes what it says about
 * where they are. */
static void follow_moved(struct client *client, struct lane *lane, const uint8_t *locations)
{
    const struct part part = *lane->first;
    struct op *op = part.op;
    struct store *store = (struct store *)(uintptr_t)&op->of->store;
    const struct core *core = core_for(client->core, op->of);
    size_t begin = part.begin, end = part.begin + part.count;
    bool ready = reserve_parts(client, part.count);
    if (!ready)
        op_fail(op, TERN_NO_MEMORY, "no memory to follow keys that have moved", SIZE_MAX);
    for (size_t i = begin; ready && i < end; i++) {
        uint32_t location = get_u32(locations + 4 * (i - part.begin));
        if (is_coming(client, op, i, location)) {
            swap_keys(op, i, begin);
            queue_coming(client, op, begin++, location);
        } else if (view_has(core->view, location_node(location)) &&
                   location_node(location) != core->node && !defect(DEFECT_MOVED_UNLEARNED)) {
            core_learn(core, store, op->sorted[i], location, lane->node);
        }
    }
    /* Others are queued before this part is gone, so that the operation is not done in between. */
    if (ready && begin < end && !defect(DEFECT_MOVED_DROPPED))
        queue_again(client, op, begin, end);
    drop_first(client, lane);
}

/* Does one key of an operation that is at home here and has no row, where that makes none by itself. */
static enum tern_status do_without_row(const struct op *op, size_t i, struct store *store,
                                       bool *here)
{
    const uint64_t key = op->sorted[i];
    char *value = op->values + op->order[i] * op_value_bytes(op);
    uint32_t n;
    switch (op->kind) {
    case FRAME_PULL:
        if (!op->present)
            return store_pull_new(store, key, value, here);
        op->present[op->order[i]] = false;
        memset(value, 0, store->value_bytes);
        return TERN_OK;
    case FRAME_PUSH:
        return store_push_new(store, key, value, here);
    case FRAME_COUNT:
        memcpy(&n, value, sizeof n);
        return store_count(store, key, n);
    default:
        *here = !store_create(store, key) && store_set_one(store, key, value);
        return TERN_OK;
    }
}

/* Does one key of an operation at this node; false if it is not here. */
static bool do_local(const struct op *op, size_t i)
{
    struct store *store = (struct store *)(uintptr_t)&op->of->store;
    uint64_t key = op->sorted[i];
    char *value = op->values + op->order[i] * op_value_bytes(op);
    struct entry *entry;
    const bool is_new =
        entry_state(store_look(store, key, &entry)) == ENTRY_NONE && store_is_home(store, key);
    bool here = true;
    if (is_new && (store->admission || op->present))
        return !do_without_row(op, i, store, &here) && here;
    if (is_new)
        store_create(store, key);
    switch (op->kind) {
    case FRAME_PULL:
        return store_pull_one(store, key, value);
    case FRAME_PUSH:
        return store_push_one(store, key, value);
    case FRAME_COUNT:
        return true;
    default:
        return store_set_one(store, key, value);
    }
}

void client_do_local(struct client *client)
{
    struct lane *lane = &client->local;
    while (lane->first) {
        struct part *part = lane->first;
        struct op *op = part->op;
        while (part->count && do_local(op, part->begin)) {
            part->begin++;
            part->count--;
        }
        if (part->count) {
            uint64_t key = op->sorted[part->begin];
            /* On its way to here: it is tried again. */
            if ((part->is_coming && is_coming(client, op, part->begin, part->location)) ||
                view_home(core_for(client->core, op->of)->view,
                          technique_where(core_for(client->core, op->of), op->of, key)) ==
                    core_for(client->core, op->of)->node)
                return;
            queue_again(client, op, part->begin, part->begin + part->count);
        }
        drop_first(client, lane);
    }
}

/* Takes the values of an answer with counts. When all answers are there, keys that are too old beside others are asked for
 * once more. */
static bool take_counted(struct client *client, const struct part *part, const struct frame *reply,
                         const uint8_t *body)
{
    struct op *op = part->op;
    const struct counting *counting = op->of->technique->counting;
    const struct slice answer = {body + reply->keys_bytes, frame_payload_bytes(reply)};
    size_t head, n_rows;
    if (reply->kind != FRAME_VALUES ||
        !counting->take(op->of, op, part->begin, part->count, answer, &head, &n_rows, NULL))
        return false;
    const struct slice coded = {answer.bytes + head, answer.n - head};
    const uint8_t *rows = request_plain_rows(client, op, coded, n_rows);
    if (!rows ||
        !counting->take(op->of, op, part->begin, part->count, answer, &head, &n_rows, rows))
        return false;
    const size_t first = op->n_parts == 1 && !op->status ? counting->finish(op->of, op) : op->n;
    if (first < op->n) {
        queue_again(client, op, first, op->n);
        counting->again(op->of, op, first);
    }
    return true;
}

/* Takes what a write was answered; false if it makes no sense. */
static bool take_done(const struct part *part, const struct frame *reply, const uint8_t *body)
{
    struct op *op = part->op;
    const struct slice answer = {body + reply->keys_bytes, frame_payload_bytes(reply)};
    op->behind |= reply->fields.write_done.behind != 0;
    return !request_is_counted(part) ||
           op->of->technique->counting->confirm(op->of, op, part->begin, part->count, answer);
}

enum tern_status lane_reply(struct client *client, struct lane *lane, const struct frame *reply,
                            const uint8_t *body)
{
    struct part *part = lane->first;
    if (!part || part == lane->unsent || reply->number != part->number)
        return bad_reply(lane, reply);
    if (reply->kind == FRAME_HOLD)
        return TERN_OK;
    if (reply->kind == FRAME_FORGOTTEN && (part->list == LIST_NAMED || part->list == LIST_PART)) {
        lane_send_lists(lane);
        return TERN_OK;
    }
    struct op *op = part->op;
    struct frame plain = *reply;
    if (reply->kind == FRAME_VALUES && op->kind == FRAME_PULL && op_is_filtered(op) &&
        !op->counted) {
        if (!request_decode_rows(client, part, &plain, &body))
            return bad_reply(lane, reply);
        reply = &plain;
    }
    if (reply->kind == FRAME_ERROR && reply->status) {
        op_fail(op, (enum tern_status)reply->status, (const char *)body + reply->keys_bytes,
                frame_payload_bytes(reply));
    } else if (op_is_call(op)) {
        op->answer = *reply;
        struct buffer *answer = &op->answer_body;
        if (answer->bytes && body == answer->bytes + answer->end)
            answer->end += reply->body_bytes; /* it was read to its place */
        else if (!buffer_append(answer, body, reply->body_bytes))
            op_fail(op, TERN_NO_MEMORY, "no memory for the answer to a call", SIZE_MAX);
    } else if (op->counted) {
        if (!take_counted(client, part, reply, body))
            return bad_reply(lane, reply);
    } else if (request_has_values(part, reply) && request_has_as_many(part, reply, body)) {
        if (defect(DEFECT_REPLY_MISMATCHED) && part->next && part->next->op->kind == op->kind &&
            part->next->op->of == op->of && part->next->count == part->count)
            part = part->next;
        request_scatter(part, body + reply->keys_bytes);
        if (reply->fields.values.noted)
            take_note(lane, op->table, reply->fields.values.noted);
    } else if (reply->kind == FRAME_MOVED && op->of->store.home.rows_move &&
               frame_payload_bytes(reply) == part->count * sizeof(uint32_t)) {
        follow_moved(client, lane, body + reply->keys_bytes);
        return TERN_OK;
    } else if (reply->kind != FRAME_DONE || !op_is_write(op) || !take_done(part, reply, body)) {
        return bad_reply(lane, reply);
    }
    drop_first(client, lane);
    return TERN_OK;
}

void lane_fail(struct client *client, struct lane *lane, enum tern_status status,
               const char *sentence)
{
    while (lane->first) {
        op_fail(lane->first->op, status, sentence, strlen(sentence));
        drop_first(client, lane);
    }
}

static bool can_follow(const struct part *part)
{
    return op_is_call(part->op) ? part->op->follows : part->op->of->backup != NULL;
}

bool lane_can_follow(const struct lane *lane)
{
    return lane->first && can_follow(lane->first);
}

void lane_follow(struct client *client, struct lane *lane, uint32_t node, enum tern_status status,
                 const char *sentence)
{
    struct part *part = lane->first, *kept = NULL, **end = &kept;
    lane->last = NULL;
    for (struct part *next; part; part = next) {
        next = part->next;
        part->next = NULL;
        if (can_follow(part)) {
            *end = lane->last = part;
            end = &part->next;
            continue;
        }
        op_fail(part->op, status, sentence, strlen(sentence));
        part->op->n_parts--;
        give_part(client, part);
    }
    lane->first = kept;
    lane->node = node;
    lane_resume(lane);
}
