/* server - see server.h. */
#include "core/server_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/backup.h"
#include "core/defect.h"
#include "core/reply.h"
#include "core/follower.h"
#include "wire/bytes.h"
#include "wire/keys.h"

enum tern_status server_init(struct server *server, struct core *core, struct group *group)
{
    *server = (struct server){.core = core, .group = group};
    server->keys = malloc(FRAME_MAX_KEYS * sizeof *server->keys);
    server->missed = malloc(FRAME_MAX_KEYS * sizeof *server->missed);
    server->entries = malloc(FRAME_MAX_KEYS * sizeof(struct entry *));
    if (server->keys && server->missed && server->entries)
        return TERN_OK;
    server_fini(server);
    return fail(TERN_NO_MEMORY, "no memory to serve other nodes");
}

void server_fini(struct server *server)
{
    free(server->keys);
    free(server->missed);
    free(server->entries);
    buffer_free(&server->values);
    buffer_free(&server->packed);
    buffer_free(&server->answer);
    *server = (struct server){0};
}

enum served server_fail(const struct server *server, const struct frame *request,
                        enum tern_status status, struct buffer *out)
{
    return reply_error(out, request, view_epoch(server->core->view), status, tern_error())
               ? SERVED
               : REFUSED;
}

static struct core_table *find_table(const struct server *server, const struct frame *request)
{
    return core_find_table(server->core, request->table ^ defect(DEFECT_TABLE_MIXED));
}

static void advance(struct server_lane *lane, uint64_t number)
{
    if (number > lane->executed)
        lane->executed = number;
}

static bool had_no_effect(const struct server_lane *lane, uint64_t number)
{
    for (size_t i = lane->n_void; i > 0 && lane->void_numbers[i - 1] >= number; i--)
        if (lane->void_numbers[i - 1] == number)
            return true;
    return false;
}

/* Notes that a request is over and had no effect. False when memory runs out: then it is not over, because
 * sent again it would count as done. */
static bool advance_void(struct server_lane *lane, uint64_t number)
{
    if (had_no_effect(lane, number))
        return true;
    if (lane->n_void == lane->max_void) {
        size_t max = lane->max_void ? 2 * lane->max_void : 16;
        uint64_t *numbers = realloc(lane->void_numbers, max * sizeof *numbers);
        if (!numbers)
            return false;
        lane->void_numbers = numbers;
        lane->max_void = max;
    }
    /* A pull that is sent again may be the first to find its keys gone, and comes before later numbers. */
    size_t at = lane->n_void++;
    for (; at > 0 && lane->void_numbers[at - 1] > number; at--)
        lane->void_numbers[at] = lane->void_numbers[at - 1];
    lane->void_numbers[at] = number;
    advance(lane, number);
    return true;
}

/* Forgets what the client need not send again, and, of a request that has an effect after all, that it
 * had none. */
static void forget_void(struct server_lane *lane, uint64_t before, uint64_t number)
{
    size_t n = 0;
    for (size_t i = 0; i < lane->n_void; i++)
        if (lane->void_numbers[i] >= before && lane->void_numbers[i] != number)
            lane->void_numbers[n++] = lane->void_numbers[i];
    lane->n_void = n;
}

void server_lane_fini(struct server_lane *lane)
{
    free(lane->void_numbers);
    lists_clear(&lane->lists);
    for (size_t i = 0; i < lane->n_kept; i++)
        buffer_free(&lane->kept[i].bytes);
    free(lane->kept);
}

struct kept_answer *server_lane_kept(const struct server_lane *lane, uint16_t table)
{
    for (size_t i = 0; i < lane->n_kept; i++)
        if (lane->kept[i].table == table)
            return &lane->kept[i];
    return NULL;
}

/* Where to keep an answer about a table: where the last one is, or one about a table that is not open any more, or a
 * new place; NULL when memory runs out. */
static struct kept_answer *place_to_keep(const struct server *server, struct server_lane *lane,
                                         uint16_t table)
{
    struct kept_answer *kept = server_lane_kept(lane, table);
    for (size_t i = 0; !kept && i < lane->n_kept; i++)
        if (!core_find_table(server->core, lane->kept[i].table) || defect(DEFECT_KEPT_ONCE))
            kept = &lane->kept[i];
    if (!kept) {
        kept = realloc(lane->kept, (lane->n_kept + 1) * sizeof *kept);
        if (!kept)
            return NULL;
        lane->kept = kept;
        kept += lane->n_kept++;
        *kept = (struct kept_answer){0};
    }
    kept->table = table;
    return kept;
}

/* Whether a request must be answered MOVED; *wait if that is not known before a round later than *round is over. */
static bool has_moved(struct server *server, struct core_table *table, const struct frame *request,
                      bool *wait, uint64_t *round)
{
    bool moved = false;
    *wait = false;
    for (uint32_t i = 0; i < request->count; i++) {
        uint32_t location;
        enum whereabouts where =
            table->technique->find(table, server->shard, server->keys[i], &location, round);
        moved |= where != KEY_HERE;
        *wait |= where == KEY_UNKNOWN;
    }
    return moved;
}

static enum served answer_moved(struct server *server, struct server_lane *lane,
                                struct core_table *table, const struct frame *request,
                                struct buffer *out)
{
    uint8_t *payload = reply_reserve(out, request->count * sizeof(uint32_t));
    if (!payload)
        return REFUSED;
    if (defect(DEFECT_MOVED_EXECUTED))
        advance(lane, request->number);
    else if (!advance_void(lane, request->number))
        return REFUSED;
    for (uint32_t i = 0; i < request->count; i++) {
        uint32_t location;
        uint64_t round;
        table->technique->find(table, server->shard, server->keys[i], &location, &round);
        put_u32(payload + 4 * i, location);
    }
    struct frame reply = reply_frame(request, view_epoch(server->core->view), FRAME_MOVED);
    reply.table = request->table;
    reply.body_bytes = (uint32_t)(request->count * sizeof(uint32_t));
    reply_commit(out, &reply);
    return SERVED;
}

bool server_may_open(const struct server *server, uint16_t table)
{
    return !core_has_closed(server->core, table) && !server->is_leaving;
}

/* A request for a table that is not open here waits until it is, unless it was or will not be: then it stays so, and
 * the same is said as often as it is asked. */
static enum served hold_or_refuse(struct server *server, struct server_lane *lane,
                                  const struct frame *request, struct buffer *out)
{
    bool has_closed = core_has_closed(server->core, request->table);
    server->holds_for_table = server_may_open(server, request->table);
    if (server->holds_for_table)
        return HELD;
    advance(lane, request->number);
    fail(TERN_CLOSED,
         has_closed ? "node %" PRIu32 " has closed the table"
                    : "node %" PRIu32 " leaves and has not opened the table",
         server->core->node);
    return server_fail(server, request, TERN_CLOSED, out);
}

/* Holds a request for keys that are not here, or answers it MOVED: *served is the outcome. False: all its keys are
 * here. */
static bool divert(struct server *server, struct server_lane *lane, struct core_table *table,
                   const struct frame *request, struct buffer *out, enum served *served)
{
    bool wait;
    uint64_t round = 0;
    if (!table->technique->find || !has_moved(server, table, request, &wait, &round))
        return false;
    bool waited = lane->held_number == request->number && lane->held_round != round;
    if (wait && !waited) {
        if (lane->held_number != request->number)
            lane->held_round = round;
        lane->held_number = request->number;
        server->holds_for_round = true;
        *served = HELD;
    } else {
        *served = answer_moved(server, lane, table, request, out);
    }
    return true;
}

/* Whether a write to n keys that was executed now, or before, is not yet at the nodes with the backups. */
static bool is_held_for_batch(struct server *server, struct server_lane *lane,
                              struct core_table *table, size_t n, bool again)
{
    if (!again)
        backup_note_write(server->backup, table, lane, server->keys, n);
    const bool is_held = !backup_is_safe(server->backup, lane);
    server->wants_batch |= is_held;
    return is_held;
}

/* The client is to send the request again, with its list of keys. */
static enum served ask_for_list(const struct server *server, struct server_lane *lane,
                                const struct frame *request, struct buffer *out)
{
    lists_clear(&lane->lists);
    lane->awaits_list = request->number;
    if (defect(DEFECT_LIST_EXECUTED))
        advance(lane, request->number);
    return reply_append(out, request, view_epoch(server->core->view), FRAME_FORGOTTEN, 0, NULL, 0)
               ? SERVED
               : REFUSED;
}

/* As whom a node has copies of a table's rows: the leader of its member, if that has the table. */
static uint32_t writer_of(const struct server *server, const struct core_table *table,
                          const struct server_lane *lane)
{
    return table->member ? view_leader(server->core->view, lane->node) : lane->node;
}

/* A write that was executed before is only answered. */
static enum served serve_access(struct server *server, struct server_lane *lane,
                                struct core_table *table, const struct frame *request,
                                const uint8_t *body, struct buffer *out)
{
    bool again = request->number + defect(DEFECT_DUPLICATE_OFF_BY_ONE) <= lane->executed &&
                 !had_no_effect(lane, request->number) && !defect(DEFECT_NO_DUPLICATE_CHECK) &&
                 !(defect(DEFECT_DROPPED_AGAIN) && table->store.admission);
    enum tern_status status = TERN_OK;
    if (!again || request->kind == FRAME_PULL || request->flags & FRAME_COUNTED)
        status = server_read_keys(server, lane, table, request, body);
    if (status == TERN_BUSY)
        return ask_for_list(server, lane, request, out);
    enum served served;
    if (!status && (!again || request->kind == FRAME_PULL) &&
        divert(server, lane, table, request, out, &served))
        return served;
    if (lane->n_void)
        forget_void(lane, request->fields.access.oldest, request->number);
    if (!status && request->kind == FRAME_PULL) {
        advance(lane, request->number);
        return request->flags & FRAME_COUNTED
                   ? server_pull_counted(server, table, request, body, out)
                   : server_pull(server, table, request, out);
    }
    if (!status && !again)
        status = server_write(server, table, request, body);
    bool behind = !status && request->kind != FRAME_COUNT && table->technique->wrote &&
                  table->technique->wrote(table, server->shard, writer_of(server, table, lane),
                                          server->keys, request->count, again);
    if (status && !again && !advance_void(lane, request->number))
        return REFUSED;
    if (status)
        return server_fail(server, request, status, out);
    advance(lane, request->number);
    if (table->backup && is_held_for_batch(server, lane, table, request->count, again))
        return HELD;
    const bool counts = request->flags & FRAME_COUNTED && table->technique->counting;
    bool appended = counts ? server_answer_counts(server, table, request, again, out)
                           : reply_append(out, request, view_epoch(server->core->view), FRAME_DONE,
                                          behind, NULL, 0);
    return appended ? SERVED : REFUSED;
}

/* PULL, PUSH, SET and COUNT. */
static enum served serve_keys(struct server *server, struct server_lane *lane,
                              const struct frame *request, const uint8_t *body, struct buffer *out)
{
    struct core_table *table = find_table(server, request);
    if (!table && defect(DEFECT_HELD_EXECUTED))
        lane->executed = request->number;
    if (!table)
        return hold_or_refuse(server, lane, request, out);
    const size_t before = buffer_size(out);
    const enum served served = serve_access(server, lane, table, request, body, out);
    if (served != SERVED)
        return served;
    const size_t reply_bytes = buffer_size(out) - before;
    atomic_fetch_add_explicit(&table->reply_bytes, reply_bytes, memory_order_relaxed);
    if (table->served)
        atomic_fetch_add_explicit(&table->served[lane->node],
                                  FRAME_HEADER_BYTES + request->body_bytes + reply_bytes,
                                  memory_order_relaxed);
    return served;
}

/* A round that needs all nodes needs those of this node, which have failed. A sentence about another node names it. */
static enum tern_status refuse_part(const struct server *server)
{
    if (server->rounds_status == TERN_PEER)
        return fail(TERN_PEER, "%s", server->why_no_rounds);
    return fail(TERN_PEER, "node %" PRIu32 " takes part in no further round: %s",
                server->core->node, server->why_no_rounds);
}

/* Unpacks the sections of a ROUND: the frame and the body as the technique takes them. */
static enum tern_status unpack_round(struct server *server, struct core_table *table,
                                     struct frame *request, const uint8_t **body)
{
    struct buffer *plain = &server->values;
    plain->begin = plain->end = 0;
    const struct pack_shape shape = core_pack_shape(table);
    enum tern_status status = unpack_sections(&shape, *body, request->body_bytes, plain);
    if (status)
        return status;
    table->savings[server->shard].received += buffer_size(plain) - request->body_bytes;
    request->body_bytes = (uint32_t)buffer_size(plain);
    *body = buffer_head(plain);
    return TERN_OK;
}

/* Puts the answer that is in server->answer into `out`, which is empty, with its sections packed: it is kept for each lane, so it
 * has no room to spare there. It may have main copies, so it must be sent: without memory as it is. */
static void pack_reply(struct server *server, struct core_table *table, struct buffer *out)
{
    struct buffer *packed = &server->packed, *plain = &server->answer;
    const struct pack_shape shape = core_pack_shape(table);
    struct frame reply;
    const bool is_reply =
        !frame_decode(buffer_head(plain), &reply) && reply.kind == FRAME_ROUND_REPLY;
    uint8_t *body = NULL;
    packed->begin = packed->end = 0;
    if (is_reply &&
        pack_sections(&shape, buffer_head(plain) + FRAME_HEADER_BYTES, reply.body_bytes, packed))
        body = reply_reserve(out, buffer_size(packed));
    if (body) {
        const size_t bytes = buffer_size(packed);
        table->savings[server->shard].sent += reply.body_bytes - bytes;
        reply.body_bytes = (uint32_t)bytes;
        if (bytes)
            memcpy(body, buffer_head(packed), bytes);
        reply_commit(out, &reply);
        return;
    }
    if (is_reply) {
        reply.flags |= FRAME_PLAIN;
        plain->end = plain->begin;
        reply_commit(plain, &reply);
    }
    const struct buffer empty = *out;
    *out = *plain;
    *plain = empty;
}

static enum tern_status answer_sections(struct server *server, struct core_table *table,
                                        struct round_question *question)
{
    struct frame plain = *question->frame;
    struct buffer *out = question->out;
    enum tern_status status = unpack_round(server, table, &plain, &question->body);
    if (status)
        return status;
    question->frame = &plain;
    question->out = &server->answer;
    server->answer.begin = server->answer.end = 0;
    status = table->technique->answer(table, server->shard, question);
    if (!status)
        pack_reply(server, table, out);
    return status;
}

static enum tern_status answer_follower(struct server *server, struct core_table *table,
                                        struct round_question *question)
{
    struct frame plain = *question->frame;
    enum tern_status status = unpack_round(server, table, &plain, &question->body);
    question->frame = &plain;
    return status ? status
                  : follower_serve(table, server->shard, view_epoch(server->core->view), question);
}

static enum tern_status answer_round(struct server *server, struct server_lane *lane,
                                     struct core_table *table, const struct frame *request,
                                     const uint8_t *body, struct buffer *out)
{
    struct round_question question = {
        .from = lane->node, .frame = request, .body = body, .out = out};
    question.was_for_another = table->backup && lane->arc != server->core->node;
    if (!technique_has_rounds(table, server->shard) ||
        (request->count && !table->technique->sends_keys))
        return fail(TERN_INVALID, "a ROUND does not fit table '%s'", table->store.name);
    if (server->rounds_status)
        return refuse_part(server);
    const bool is_followed = follower_is(server->core, table, lane->node);
    if (!is_followed && !core_takes_part(table, lane->node))
        return fail(TERN_INVALID, "node %" PRIu32 " does not lead its host in table '%s'",
                    lane->node, table->store.name);
    enum tern_status status = server_check_member(table);
    if (status)
        return status;
    if (is_followed) {
        status = answer_follower(server, table, &question);
    } else if (table->technique->sends_sections) {
        status = answer_sections(server, table, &question);
    } else {
        question.body = server_align(server, body, request->body_bytes);
        if (!question.body && request->body_bytes)
            return fail(TERN_NO_MEMORY, "no memory for a ROUND");
        status = table->technique->answer(table, server->shard, &question);
    }
    if (table->backup && question.n_written && !defect(DEFECT_ROUND_NOT_NOTED))
        backup_note_write(server->backup, table, lane, question.written, question.n_written);
    server->wants_round |= question.wants_round;
    return status;
}

/* Executes a request and keeps the answer; false when memory runs out, and nothing was done. */
static bool keep_answer(struct server *server, struct server_lane *lane, struct core_table *table,
                        const struct frame *request, const uint8_t *body)
{
    struct kept_answer *kept = place_to_keep(server, lane, request->table);
    if (!kept)
        return false;
    struct buffer *bytes = &kept->bytes;
    bytes->begin = bytes->end = 0;
    /* What went wrong can be told, whatever happens: it could not be done a second time, either. */
    if (!reply_reserve(bytes, STATUS_SENTENCE_BYTES))
        return false;
    enum tern_status status = answer_round(server, lane, table, request, body, bytes);
    lane->executed = request->number;
    kept->number = request->number;
    if (status)
        reply_error(bytes, request, view_epoch(server->core->view), status, tern_error());
    return true;
}

/* Whether the table is open. The answer is made anew if it is asked for twice. */
static enum served serve_open_probe(struct server *server, struct server_lane *lane,
                                    const struct frame *request, struct buffer *out)
{
    bool is_open = find_table(server, request) != NULL;
    if (!is_open && !server_may_open(server, request->table))
        return hold_or_refuse(server, lane, request, out);
    advance(lane, request->number);
    if (is_open)
        return reply_append(out, request, view_epoch(server->core->view), FRAME_ROUND_REPLY, 0,
                            NULL, 0)
                   ? SERVED
                   : REFUSED;
    fail(TERN_BUSY, "node %" PRIu32 " has not opened the table yet", server->core->node);
    return server_fail(server, request, TERN_BUSY, out);
}

/* A round that was executed by the node that had the arc of the lane before: its answer died with that node. */
static enum served answer_taken(const struct server *server, const struct frame *request,
                                struct buffer *out)
{
    struct frame reply = reply_frame(request, view_epoch(server->core->view), FRAME_ROUND_REPLY);
    if (!reply_reserve(out, 0))
        return REFUSED;
    reply.table = request->table;
    reply.flags = FRAME_TAKEN | FRAME_PLAIN;
    reply_commit(out, &reply);
    return SERVED;
}

/*
 * A round of a table. Its answer cannot be made a second time, because what it
 * tells is then no longer news; so the last one of a lane about each table is kept until the next request about that
 * table shows that it has arrived. What it told about rows with backups is to be there first.
 */
static enum served serve_round(struct server *server, struct server_lane *lane,
                               const struct frame *request, const uint8_t *body, struct buffer *out)
{
    if (request->fields.round.step == FRAME_OPEN_PROBE)
        return serve_open_probe(server, lane, request, out);
    struct core_table *table = find_table(server, request);
    if (!table)
        return hold_or_refuse(server, lane, request, out);
    bool again = request->number <= lane->executed && !defect(DEFECT_SYNC_AGAIN) &&
                 (!defect(DEFECT_TAKEN_AGAIN) || server_lane_kept(lane, request->table));
    if (again && defect(DEFECT_ROUND_FORGOTTEN))
        return reply_append(out, request, view_epoch(server->core->view), FRAME_ROUND_REPLY, 0,
                            NULL, 0)
                   ? SERVED
                   : REFUSED;
    if (!again && !keep_answer(server, lane, table, request, body))
        return REFUSED;
    const struct kept_answer *kept = server_lane_kept(lane, request->table);
    const bool is_kept = kept && kept->number == request->number;
    if (table->backup && !backup_is_safe(server->backup, lane) &&
        !defect(DEFECT_ROUND_ANSWERED_UNSAFE)) {
        server->wants_batch = true;
        return HELD;
    }
    if (!is_kept)
        return table->backup ? answer_taken(server, request, out) : REFUSED;
    if (server->sends_kept) {
        server->kept = (struct slice){buffer_head(&kept->bytes), buffer_size(&kept->bytes)};
        return SERVED;
    }
    return buffer_append(out, buffer_head(&kept->bytes), buffer_size(&kept->bytes)) ? SERVED
                                                                                    : REFUSED;
}

/* The keys that this node tells of in [a, b), ascending, at most `count` of them. */
static enum served serve_range(struct server *server, struct server_lane *lane,
                               const struct frame *request, struct buffer *out)
{
    struct core_table *table = find_table(server, request);
    if (!table)
        return hold_or_refuse(server, lane, request, out);
    const struct store *store = &table->store;
    uint64_t *keys = NULL;
    size_t n = 0;
    enum tern_status status;
    if (request->fields.range.begin > request->fields.range.end ||
        (store->index == TERN_DENSE && request->fields.range.end > store->n_keys))
        status = fail(TERN_RANGE, "there is no range [%" PRIu64 ", %" PRIu64 ") in table '%s'",
                      request->fields.range.begin, request->fields.range.end, store->name);
    else
        status = store_collect(&table->store, request->fields.range.begin,
                               request->fields.range.end, request->count, &keys, &n);
    if (status)
        return server_fail(server, request, status, out);
    uint8_t *body = reply_reserve(out, keys_max_bytes(n));
    if (body) {
        struct frame reply = reply_frame(request, view_epoch(server->core->view), FRAME_VALUES);
        reply.count = (uint32_t)n;
        reply.keys_bytes = (uint32_t)keys_encode(keys, n, body, &reply.flags);
        reply.body_bytes = reply.keys_bytes;
        reply_commit(out, &reply);
    }
    free(keys);
    return body ? SERVED : REFUSED;
}

/* The heaviest keys that are at home here. */
static enum served serve_top(struct server *server, struct server_lane *lane,
                             const struct frame *request, struct buffer *out)
{
    enum { BYTES = 3 * sizeof(uint64_t) };
    struct core_table *table = find_table(server, request);
    if (!table)
        return hold_or_refuse(server, lane, request, out);
    struct sketch *sketch = table->store.sketch;
    const size_t n_counters = sketch ? sketch->n_counters : 0;
    struct top_counter *found = malloc((n_counters + 1) * sizeof *found);
    enum tern_status status = TERN_OK;
    size_t n = 0;
    if (!found)
        status = fail(TERN_NO_MEMORY, "no memory for the heaviest keys of table '%s'",
                      table->store.name);
    else if (!n_counters)
        status =
            fail(TERN_INVALID, "table '%s' does not keep its heaviest keys", table->store.name);
    else if (!sketch_heaviest(sketch, request->count, found, &n, table->store.watch))
        status = store_check_lost(&table->store);
    uint8_t *body = status ? NULL : reply_reserve(out, n * BYTES);
    for (size_t i = 0; body && i < n; i++) {
        put_u64(body + i * BYTES, found[i].key);
        put_u64(body + i * BYTES + 8, found[i].count);
        put_u64(body + i * BYTES + 16, found[i].least);
    }
    free(found);
    if (status)
        return server_fail(server, request, status, out);
    if (!body)
        return REFUSED;
    struct frame reply = reply_frame(request, view_epoch(server->core->view), FRAME_VALUES);
    reply.body_bytes = (uint32_t)(n * BYTES);
    reply_commit(out, &reply);
    return SERVED;
}

/* A task, or the end of one: the node's threads do the rest. */
static enum served serve_task(struct server *server, struct server_lane *lane,
                              const struct frame *request, const uint8_t *body, struct buffer *out)
{
    const struct task_port *tasks = &server->tasks;
    if (!tasks->take)
        return HELD;
    enum tern_status status =
        request->count ? fail(TERN_INVALID, "a %s has keys", frame_kind_name(request->kind))
                       : tasks->take(tasks->context, lane->node, request, body);
    if (status == TERN_NO_MEMORY)
        return REFUSED;
    advance(lane, request->number);
    if (status)
        return server_fail(server, request, status, out);
    return reply_append(out, request, view_epoch(server->core->view), FRAME_DONE, 0, NULL, 0)
               ? SERVED
               : REFUSED;
}

/* Rows and records of a node whose backup is here. The answer says what is not. */
static enum served serve_batch(struct server *server, struct server_lane *lane,
                               const struct frame *request, const uint8_t *body, struct buffer *out)
{
    if (request->number > lane->executed) {
        const enum served served = backup_take(server->backup, lane->node, request, body);
        server->holds_for_table = served == HELD;
        if (served != SERVED)
            return served;
    }
    struct buffer *lacks = &server->values;
    lacks->begin = lacks->end = 0;
    if (request->fields.batch.is_last && !backup_tell_lacks(server->backup, lane->node, lacks))
        return REFUSED;
    advance(lane, request->number);
    return reply_append(out, request, view_epoch(server->core->view), FRAME_DONE, 0,
                        buffer_head(lacks), buffer_size(lacks))
               ? SERVED
               : REFUSED;
}

/* Whether a request came under another view; *served is the outcome then. The coordinator's view may be later than that of its
 * own node. Those who ask it whether they live, or have left, need not have the latest, nor be in it. */
static bool is_of_another_view(struct server *server, const struct server_lane *lane,
                               const struct frame *request, struct buffer *out, enum served *served)
{
    const struct view *view = server->core->view;
    const uint32_t epoch = view_epoch(view);
    if (request->kind == FRAME_PING || request->kind == FRAME_JOIN || request->kind == FRAME_BYE ||
        defect(DEFECT_ANY_EPOCH) ||
        (request->epoch == epoch &&
         (view_is_present(view, lane->node) || defect(DEFECT_DEAD_NOT_FENCED))))
        return false;
    if (request->epoch > epoch) {
        server->is_outdated = true;
        *served = HELD;
    } else {
        *served = reply_append(out, request, epoch, FRAME_OUTDATED, 0, NULL, 0) ? SERVED : REFUSED;
    }
    return true;
}

enum served server_request(struct server *server, struct server_lane *lane,
                           const struct frame *request, const uint8_t *body, uint64_t now_ns,
                           struct buffer *out, bool *changed)
{
    enum served outcome;
    if (is_of_another_view(server, lane, request, out, &outcome))
        return outcome;
    if (lane->awaits_list && request->number > lane->awaits_list)
        return SERVED;
    if (request->number == lane->awaits_list)
        lane->awaits_list = 0;
    if (request->number > lane->executed + 1) {
        fail(TERN_PEER, "node %" PRIu32 " skipped from request %" PRIu64 " to %" PRIu64, lane->node,
             lane->executed, request->number);
        return REFUSED;
    }
    switch (request->kind) {
    case FRAME_PULL:
    case FRAME_PUSH:
    case FRAME_SET:
    case FRAME_COUNT:
        return serve_keys(server, lane, request, body, out);
    case FRAME_BATCH:
        return serve_batch(server, lane, request, body, out);
    case FRAME_ROUND:
        return serve_round(server, lane, request, body, out);
    case FRAME_RANGE:
        advance(lane, request->number);
        return serve_range(server, lane, request, out);
    case FRAME_TOP:
        advance(lane, request->number);
        return serve_top(server, lane, request, out);
    case FRAME_TASK:
    case FRAME_FINISHED:
        return serve_task(server, lane, request, body, out);
    default:
        break;
    }
    if (!server->group) {
        fail(TERN_PEER, "node %" PRIu32 " sent a %s to node %" PRIu32 ", which does not coordinate",
             lane->node, frame_kind_name(request->kind), server->core->node);
        return REFUSED;
    }
    enum served served =
        group_request(server->group, lane->node, request, body, now_ns, out, changed);
    if (served == SERVED)
        advance(lane, request->number);
    return served;
}
