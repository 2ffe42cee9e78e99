/* server - see server.h. */
#include "core/server.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/bounded.h"
#include "core/defect.h"
#include "core/doubling.h"
#include "core/manager.h"
#include "core/replica.h"
#include "core/reply.h"
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
    *server = (struct server){0};
}

/* An answer that is not the one hoped for, from the sentence of the failure just met. */
static enum served answer_failure(const struct server *server, const struct frame *request,
                                  enum tern_status status, struct buffer *out)
{
    return reply_error(out, request, server->core->epoch, status, tern_error()) ? SERVED : REFUSED;
}

/* Whether requests for a key are for this node to answer, if only to say where it is. */
static inline bool is_served_here(const struct store *store, uint64_t key)
{
    if (store->home.managed)
        return true;
    return store->home.tracked ? store_tracks_main(store, key) : store_is_home(store, key);
}

/* Decodes and checks the keys of a request: where none moves, all of them must be at home here. */
static enum tern_status read_keys(const struct server *server, const struct store *store,
                                  const struct frame *request, const uint8_t *body)
{
    if (!keys_decode(body, request->keys_bytes, request->flags, request->count, server->keys))
        return fail(TERN_INVALID, "the keys of a %s cannot be decoded",
                    frame_kind_name(request->kind));
    for (uint32_t i = 0; i < request->count; i++) {
        uint64_t key = server->keys[i];
        if (key > store->last_key)
            return fail(TERN_RANGE, "key %" PRIu64 " is outside table '%s' of %" PRIu64 " keys",
                        key, store->name, store->n_keys);
        if (store_shard(store, key) != server->shard && !defect(DEFECT_WRONG_SHARD))
            return fail(TERN_PEER, "key %" PRIu64 " of table '%s' is not in shard %" PRIu32, key,
                        store->name, server->shard);
        if (!is_served_here(store, key) && !defect(DEFECT_WRONG_NODE))
            return fail(TERN_PEER, "key %" PRIu64 " of table '%s' is not at node %" PRIu32, key,
                        store->name, server->core->node);
    }
    return TERN_OK;
}

static enum served serve_pull(struct server *server, struct store *store,
                              const struct frame *request, struct buffer *out)
{
    size_t bytes = request->count * store->value_bytes;
    if (bytes > FRAME_MAX_BODY_BYTES) {
        fail(TERN_LIMIT, "a PULL of %" PRIu32 " keys of table '%s' has too long an answer",
             request->count, store->name);
        return answer_failure(server, request, TERN_LIMIT, out);
    }
    char *values = (char *)reply_reserve(out, bytes);
    if (!values)
        return REFUSED;
    size_t n_missed = store_pull(store, server->keys, request->count, values, server->missed);
    for (size_t i = 0; i < n_missed; i++) {
        uint32_t position = server->missed[i];
        bool here;
        enum tern_status status = store_pull_new(store, server->keys[position],
                                                 values + position * store->value_bytes, &here);
        if (status)
            return answer_failure(server, request, status, out);
    }
    struct frame reply = reply_frame(request, server->core->epoch, FRAME_VALUES);
    reply.table = request->table;
    reply.body_bytes = (uint32_t)bytes;
    reply_commit(out, &reply);
    return SERVED;
}

/* The payload where its elements are aligned; NULL when memory is used up. */
static const void *aligned_payload(struct server *server, const uint8_t *payload, size_t bytes)
{
    if (!bytes || (uintptr_t)payload % sizeof(uint64_t) == 0)
        return payload;
    server->values.begin = server->values.end = 0;
    return buffer_append(&server->values, payload, bytes) ? server->values.bytes : NULL;
}

static enum tern_status write_values(struct server *server, struct store *store,
                                     const struct frame *request, const uint8_t *body)
{
    size_t bytes = request->count * store->value_bytes;
    if (frame_payload_bytes(request) != bytes)
        return fail(TERN_INVALID,
                    "a %s of %" PRIu32 " keys of table '%s' has %" PRIu32 " bytes of "
                    "values, not %zu",
                    frame_kind_name(request->kind), request->count, store->name,
                    frame_payload_bytes(request), bytes);
    const void *values = body + request->keys_bytes;
    if (request->kind != FRAME_PUSH || !store->add.many)
        values = aligned_payload(server, values, bytes);
    if (!values)
        return fail(TERN_NO_MEMORY, "no memory for a %s", frame_kind_name(request->kind));
    enum tern_status status = store_reserve(store, server->keys, request->count, server->entries);
    if (status)
        return status;
    if (request->kind == FRAME_PUSH || defect(DEFECT_SET_ADDS))
        store_push(store, server->keys, request->count, server->entries, values, server->missed);
    else
        store_set(store, server->keys, request->count, server->entries, values, server->missed);
    return TERN_OK;
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

/* Notes that a request is over and had no effect. False when memory is used up: then it is not over, because
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
 * new place; NULL when memory is used up. */
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

/* Whether a request must be answered MOVED; *wait if that is not known before the present round is over. */
static bool has_moved(struct server *server, const struct core_table *table,
                      const struct frame *request, bool *wait)
{
    bool moved = false;
    *wait = false;
    for (uint32_t i = 0; i < request->count; i++) {
        uint32_t location;
        enum whereabouts where = manager_find(table->managers[server->shard], server->keys[i], &location);
        moved |= where != KEY_HERE;
        *wait |= where == KEY_UNKNOWN;
    }
    return moved;
}

static enum served answer_moved(struct server *server, struct server_lane *lane,
                                const struct core_table *table, const struct frame *request,
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
        manager_find(table->managers[server->shard], server->keys[i], &location);
        put_u32(payload + 4 * i, location);
    }
    struct frame reply = reply_frame(request, server->core->epoch, FRAME_MOVED);
    reply.table = request->table;
    reply.body_bytes = (uint32_t)(request->count * sizeof(uint32_t));
    reply_commit(out, &reply);
    return SERVED;
}

/* Whether a table that is not open here may be opened yet. */
static bool may_be_opened(const struct server *server, uint16_t table)
{
    return !core_has_closed(server->core, table) && !server->is_leaving;
}

/* A request for a table that is not open here waits until it is, unless it was or will not be: then it stays so, and
 * the same is said as often as it is asked. */
static enum served hold_or_refuse(struct server *server, struct server_lane *lane,
                                  const struct frame *request, struct buffer *out)
{
    bool has_closed = core_has_closed(server->core, request->table);
    server->holds_for_table = may_be_opened(server, request->table);
    if (server->holds_for_table)
        return HELD;
    advance(lane, request->number);
    fail(TERN_CLOSED,
         has_closed ? "node %" PRIu32 " has closed the table"
                    : "node %" PRIu32 " leaves and has not opened the table",
         server->core->node);
    return answer_failure(server, request, TERN_CLOSED, out);
}

/* Holds a request of a managed table, or answers it MOVED: *served is the outcome. False: all its keys are
 * here. */
static bool divert(struct server *server, struct server_lane *lane, const struct core_table *table,
                   const struct frame *request, struct buffer *out, enum served *served)
{
    bool wait;
    if (!has_moved(server, table, request, &wait))
        return false;
    uint64_t round = manager_counts(table->managers[server->shard])->rounds;
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

/* PULL, PUSH and SET. A write that was executed before is only answered. */
static enum served serve_keys(struct server *server, struct server_lane *lane,
                              const struct frame *request, const uint8_t *body, struct buffer *out)
{
    struct core_table *table = find_table(server, request);
    if (!table && defect(DEFECT_HELD_EXECUTED))
        lane->executed = request->number;
    if (!table)
        return hold_or_refuse(server, lane, request, out);
    bool again = request->number + defect(DEFECT_DUPLICATE_OFF_BY_ONE) <= lane->executed &&
                 !had_no_effect(lane, request->number) && !defect(DEFECT_NO_DUPLICATE_CHECK);
    enum tern_status status = TERN_OK;
    if (!again || request->kind == FRAME_PULL)
        status = read_keys(server, &table->store, request, body);
    if (!status && core_is_managed(table) && (!again || request->kind == FRAME_PULL)) {
        enum served served;
        if (divert(server, lane, table, request, out, &served))
            return served;
    }
    if (lane->n_void)
        forget_void(lane, request->b, request->number);
    if (!status && request->kind == FRAME_PULL) {
        advance(lane, request->number);
        return serve_pull(server, &table->store, request, out);
    }
    if (!status && !again)
        status = write_values(server, &table->store, request, body);
    /* Of one that was executed before it is not known any more whether its node was behind. */
    bool behind = again && core_is_managed(table);
    if (!status && !again && core_is_managed(table))
        behind = manager_written(table->managers[server->shard], lane->node, server->keys,
                                 request->count);
    if (!status && !again && table->replication)
        replication_written(table->replication, server->keys, request->count);
    if (status && !again && !advance_void(lane, request->number))
        return REFUSED;
    if (status)
        return answer_failure(server, request, status, out);
    advance(lane, request->number);
    bool appended = reply_append(out, request, server->core->epoch, FRAME_DONE, behind, NULL, 0);
    return appended ? SERVED : REFUSED;
}

/* Whether there is what a table has in shard 0 alone, and this is that shard. */
static bool is_whole_here(const struct server *server, const void *part)
{
    return part && server->shard == 0;
}

/* An all-reduce needs the rounds of this node, which have failed. A sentence about another node names it. */
static enum tern_status refuse_part(const struct server *server)
{
    if (server->rounds_status == TERN_PEER)
        return fail(TERN_PEER, "%s", server->why_no_rounds);
    return fail(TERN_PEER, "node %" PRIu32 " takes part in no further round: %s",
                server->core->node, server->why_no_rounds);
}

/* A round of a managed or bounded table, or of one kept alike by all-reduce. As with replicas, its answer is kept (below). */
static enum tern_status answer_round(struct server *server, const struct server_lane *lane,
                                     const struct core_table *table, const struct frame *request,
                                     const uint8_t *body, struct buffer *out)
{
    const uint8_t *aligned = aligned_payload(server, body, request->body_bytes);
    if (!aligned)
        return fail(TERN_NO_MEMORY, "no memory for a ROUND");
    struct manager *manager = table->managers[server->shard];
    if ((!manager && !is_whole_here(server, table->bounded) &&
         !is_whole_here(server, table->doubling)) ||
        request->count)
        return fail(TERN_INVALID, "a ROUND does not fit table '%s'", table->store.name);
    if (table->doubling && server->rounds_status)
        return refuse_part(server);
    if (table->doubling) {
        server->wants_round = true;
        return doubling_serve(table->doubling, lane->node, request, aligned, out);
    }
    if (manager)
        return manager_serve(manager, lane->node, request, aligned, out);
    enum tern_status status = bounded_serve(table->bounded, lane->node, request, aligned, out);
    server->wants_round |= bounded_is_busy(table->bounded) || table->bounded->is_inquired;
    table->bounded->is_inquired = false;
    return status;
}

static enum tern_status answer_sync(struct server *server, const struct server_lane *lane,
                                    const struct core_table *table, const struct frame *request,
                                    const uint8_t *body, struct buffer *out)
{
    size_t bytes = request->count * table->store.value_bytes;
    if (!is_whole_here(server, table->replication) || frame_payload_bytes(request) != bytes)
        return fail(TERN_INVALID, "a SYNC does not fit table '%s'", table->store.name);
    enum tern_status status = read_keys(server, &table->store, request, body);
    if (status)
        return status;
    const void *deltas = aligned_payload(server, body + request->keys_bytes, bytes);
    if (!deltas)
        return fail(TERN_NO_MEMORY, "no memory for a SYNC");
    status =
        replication_merge(table->replication, lane->node, server->keys, request->count, deltas);
    if (!status && !replication_news(table->replication, lane->node, request, out))
        status = fail(TERN_NO_MEMORY, "no memory for the answer to a SYNC");
    return status;
}

/* Executes a request and keeps the answer; false when memory is used up, and nothing was done. */
static bool keep_answer(struct server *server, struct server_lane *lane,
                        const struct core_table *table, const struct frame *request,
                        const uint8_t *body)
{
    struct kept_answer *kept = place_to_keep(server, lane, request->table);
    if (!kept)
        return false;
    struct buffer *bytes = &kept->bytes;
    bytes->begin = bytes->end = 0;
    /* What went wrong can be told, whatever happens: it could not be done a second time, either. */
    if (!reply_reserve(bytes, STATUS_SENTENCE_BYTES))
        return false;
    enum tern_status status = request->kind == FRAME_SYNC
                                  ? answer_sync(server, lane, table, request, body, bytes)
                                  : answer_round(server, lane, table, request, body, bytes);
    lane->executed = request->number;
    kept->number = request->number;
    if (status)
        reply_error(bytes, request, server->core->epoch, status, tern_error());
    return true;
}

/* Whether the table is open. The answer is made anew if it is asked for twice. */
static enum served serve_knock(struct server *server, struct server_lane *lane,
                               const struct frame *request, struct buffer *out)
{
    bool is_open = find_table(server, request) != NULL;
    if (!is_open && !may_be_opened(server, request->table))
        return hold_or_refuse(server, lane, request, out);
    advance(lane, request->number);
    if (is_open)
        return reply_append(out, request, server->core->epoch, FRAME_NEWS, 0, NULL, 0) ? SERVED
                                                                                       : REFUSED;
    fail(TERN_BUSY, "node %" PRIu32 " has not opened the table yet", server->core->node);
    return answer_failure(server, request, TERN_BUSY, out);
}

/*
 * A round of replicas or of a managed table. Its answer cannot be made a second time, because what it
 * tells is then no longer news; so the last one of a lane about each table is kept until the next request about that
 * table shows that it has arrived.
 */
static enum served serve_round(struct server *server, struct server_lane *lane,
                               const struct frame *request, const uint8_t *body, struct buffer *out)
{
    if (request->kind == FRAME_ROUND && request->b == FRAME_KNOCK)
        return serve_knock(server, lane, request, out);
    struct core_table *table = find_table(server, request);
    if (!table)
        return hold_or_refuse(server, lane, request, out);
    bool again = request->number <= lane->executed && !defect(DEFECT_SYNC_AGAIN);
    if (again && request->kind == FRAME_ROUND && defect(DEFECT_ROUND_FORGOTTEN))
        return reply_append(out, request, server->core->epoch, FRAME_NEWS, 0, NULL, 0) ? SERVED
                                                                                       : REFUSED;
    if (!again && !keep_answer(server, lane, table, request, body))
        return REFUSED;
    const struct kept_answer *kept = server_lane_kept(lane, request->table);
    if (!kept || kept->number != request->number)
        return REFUSED;
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
    if (request->a > request->b || (store->index == TERN_DENSE && request->b > store->n_keys))
        status = fail(TERN_RANGE, "there is no range [%" PRIu64 ", %" PRIu64 ") in table '%s'",
                      request->a, request->b, store->name);
    else
        status = store_collect(&table->store, request->a, request->b, request->count, &keys, &n);
    if (status)
        return answer_failure(server, request, status, out);
    uint8_t *body = reply_reserve(out, keys_max_bytes(n));
    if (body) {
        struct frame reply = reply_frame(request, server->core->epoch, FRAME_VALUES);
        reply.count = (uint32_t)n;
        reply.keys_bytes = (uint32_t)keys_encode(keys, n, body, &reply.flags);
        reply.body_bytes = reply.keys_bytes;
        reply_commit(out, &reply);
    }
    free(keys);
    return body ? SERVED : REFUSED;
}

/* A task, or the end of one: the node's threads do the rest. */
static enum served serve_task(struct server *server, struct server_lane *lane,
                              const struct frame *request, const uint8_t *body, struct buffer *out)
{
    const struct task_port *tasks = &server->tasks;
    if (!tasks->take)
        return HELD;
    enum tern_status status = request->count
                                  ? fail(TERN_INVALID, "a %s has keys", frame_kind_name(request->kind))
                                  : tasks->take(tasks->context, lane->node, request, body);
    if (status == TERN_NO_MEMORY)
        return REFUSED;
    advance(lane, request->number);
    if (status)
        return answer_failure(server, request, status, out);
    return reply_append(out, request, server->core->epoch, FRAME_DONE, 0, NULL, 0) ? SERVED
                                                                                  : REFUSED;
}

enum served server_request(struct server *server, struct server_lane *lane,
                           const struct frame *request, const uint8_t *body, uint64_t now_ns,
                           struct buffer *out, bool *changed)
{
    if (request->epoch != server->core->epoch && !defect(DEFECT_ANY_EPOCH)) {
        fail(TERN_PEER, "node %" PRIu32 " is in epoch %" PRIu32 ", this one in %" PRIu32,
             lane->node, request->epoch, server->core->epoch);
        return REFUSED;
    }
    if (request->number > lane->executed + 1) {
        fail(TERN_PEER, "node %" PRIu32 " skipped from request %" PRIu64 " to %" PRIu64, lane->node,
             lane->executed, request->number);
        return REFUSED;
    }
    switch (request->kind) {
    case FRAME_PULL:
    case FRAME_PUSH:
    case FRAME_SET:
        return serve_keys(server, lane, request, body, out);
    case FRAME_SYNC:
    case FRAME_ROUND:
        return serve_round(server, lane, request, body, out);
    case FRAME_RANGE:
        advance(lane, request->number);
        return serve_range(server, lane, request, out);
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
