/* server - see server.h. */
#include "core/server_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "core/age.h"
#include "core/backup.h"
#include "core/defect.h"
#include "core/reply.h"
#include "core/follower.h"
#include "wire/bytes.h"
#include "wire/number.h"
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
    *server = (struct server){0};
}

enum served server_fail(const struct server *server, const struct frame *request,
                        enum tern_status status, struct buffer *out)
{
    return reply_error(out, request, view_epoch(server->core->view), status, tern_error())
               ? SERVED
               : REFUSED;
}

/* Finds the list of keys that a request names: *coded, in *bytes, of the form that *flags says. BUSY: it is not known. */
static enum tern_status find_list(const struct server_lane *lane, const struct core_table *table,
                                  const struct frame *request, const uint8_t **coded, size_t *bytes,
                                  uint8_t *flags)
{
    if (!table->filters.keys || request->keys_bytes != FRAME_DIGEST_BYTES)
        return fail(TERN_INVALID, "a %s of table '%s' names no list of keys",
                    frame_kind_name(request->kind), table->store.name);
    const struct key_list *list = lists_find(&lane->lists, list_digest_get(*coded));
    if (!list || list->count != request->count)
        return TERN_BUSY;
    *coded = list->coded;
    *bytes = list->bytes;
    *flags = list->flags;
    return TERN_OK;
}

/* Keeps a list of keys that was sent whole, as its sender does. */
static void keep_list(const struct server *server, struct server_lane *lane,
                      const struct core_table *table, const struct frame *request,
                      const uint8_t *coded)
{
    const uint8_t flags = request->flags & FRAME_KEYS_DELTA;
    if (!table->filters.keys || request->keys_bytes <= LISTS_SHORT)
        return;
    struct key_list list = {.coded = (uint8_t *)(uintptr_t)coded,
                            .bytes = request->keys_bytes,
                            .count = request->count,
                            .flags = flags};
    list.digest = list_digest(coded, defect(DEFECT_LIST_CONFUSED) ? 8 : list.bytes, list.count,
                              flags, lane->incarnation);
    lane->lists.most = server->lists_most;
    if (!lists_find(&lane->lists, list.digest))
        (void)lists_add(&lane->lists, &list);
}

/* Decodes the keys of a request. BUSY: it names a list that is not known. */
static enum tern_status decode_keys(const struct server *server, struct server_lane *lane,
                                    const struct core_table *table, const struct frame *request,
                                    const uint8_t *body)
{
    size_t bytes = request->keys_bytes;
    uint8_t flags = request->flags;
    const bool named = flags & FRAME_LIST_KNOWN;
    enum tern_status status =
        named ? find_list(lane, table, request, &body, &bytes, &flags) : TERN_OK;
    if (status == TERN_BUSY && defect(DEFECT_LIST_GUESSED))
        return TERN_OK;
    if (!status && !keys_decode(body, bytes, flags, request->count, server->keys))
        status = fail(TERN_INVALID, "the keys of a %s cannot be decoded",
                      frame_kind_name(request->kind));
    if (!status && !named)
        keep_list(server, lane, table, request, body);
    return status;
}

/* Whether a process that shared the table's memory was lost. Those of this host notice by themselves. */
static enum tern_status check_member(const struct core_table *table)
{
    return table->member ? store_check_lost(&table->store) : TERN_OK;
}

/* Decodes and checks the keys of a request: where none moves, all of them must be at home here. BUSY: it names a list that
 * is not known. */
static enum tern_status read_keys(const struct server *server, struct server_lane *lane,
                                  const struct core_table *table, const struct frame *request,
                                  const uint8_t *body)
{
    const struct store *store = &table->store;
    /* Others ask the leader. Where keys come and go, `find` says so. */
    const bool is_followed = follower_is_here(server->core, table) && !store->home.rows_move;
    enum tern_status status = decode_keys(server, lane, table, request, body);
    if (!status)
        status = check_member(table);
    if (status)
        return status;
    for (uint32_t i = 0; i < request->count; i++) {
        uint64_t key = server->keys[i];
        if (key > store->last_key)
            return fail(TERN_RANGE, "key %" PRIu64 " is outside table '%s' of %" PRIu64 " keys",
                        key, store->name, store->n_keys);
        if (store_shard(store, key) != server->shard && !defect(DEFECT_WRONG_SHARD))
            return fail(TERN_PEER, "key %" PRIu64 " of table '%s' is not in shard %" PRIu32, key,
                        store->name, server->shard);
        if ((!store_may_be_asked(store, key) || is_followed) && !defect(DEFECT_WRONG_NODE)) {
            const enum tern_status lost = backup_check_lost(table, &key, 1);
            return lost ? lost
                        : fail(TERN_PEER, "key %" PRIu64 " of table '%s' is not at node %" PRIu32,
                               key, store->name, server->core->node);
        }
    }
    return TERN_OK;
}

/* Reads the keys of a request that have no row; `bits`, unless it is NULL, then gets a bit for each key that has one, and
 * their values move together. *bytes is set to what the values take. */
static enum tern_status read_missed(struct server *server, struct store *store, uint32_t count,
                                    size_t n_missed, uint8_t *bits, char *values, size_t *bytes)
{
    const size_t size = store->value_bytes;
    *bytes = count * size;
    if (!bits) {
        enum tern_status status = TERN_OK;
        bool here;
        for (size_t i = 0; defect(DEFECT_READ_ADMITS) && i < n_missed; i++)
            (void)store_create(store, server->keys[server->missed[i]]);
        for (size_t i = 0; !status && i < n_missed; i++)
            status = store_pull_new(store, server->keys[server->missed[i]],
                                    values + server->missed[i] * size, &here);
        return status;
    }
    memset(bits, 0, frame_bits_bytes(count));
    size_t kept = 0, next = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (next < n_missed && server->missed[next] == i) {
            next++;
            continue;
        }
        bits[i / 8] |= (uint8_t)(1 << i % 8);
        if (kept < i)
            memcpy(values + kept * size, values + i * size, size);
        kept++;
    }
    *bytes = kept * size;
    return store_check_lost(store);
}

bool server_filter_rows(struct server *server, const struct core_table *table,
                        const struct frame *request, char *values, size_t *bytes)
{
    const size_t n = *bytes / table->store.value_bytes;
    struct buffer *coded = &server->packed;
    coded->begin = coded->end = 0;
    const size_t row_bytes = table->store.value_bytes, most = filter_max_bytes(n, row_bytes);
    uint8_t *to = buffer_reserve(coded, most + filter_scratch_bytes(&table->filters, n, row_bytes));
    if (!to)
        return false;
    const uint64_t stream = (uint64_t)server->core->node << 32 | table->number;
    const uint64_t seed = rand_at(rand_at(stream, request->number), n ? server->keys[0] : 0);
    *bytes = core_encode_rows(table, values, n, false, seed, to, to + most);
    memcpy(values, to, *bytes);
    return true;
}

static enum served serve_pull(struct server *server, struct core_table *table,
                              const struct frame *request, struct buffer *out)
{
    struct store *store = &table->store;
    const size_t head = request->flags & FRAME_PRESENT ? frame_bits_bytes(request->count) : 0;
    const uint64_t noted = age_is_asked(table) ? age_note(table) : 0;
    size_t bytes = request->count * store->value_bytes;
    if (head + bytes > FRAME_MAX_BODY_BYTES) {
        fail(TERN_LIMIT, "a PULL of %" PRIu32 " keys of table '%s' has too long an answer",
             request->count, store->name);
        return server_fail(server, request, TERN_LIMIT, out);
    }
    uint8_t *body = reply_reserve(out, head + filter_max_bytes(request->count, store->value_bytes));
    if (!body)
        return REFUSED;
    char *values = (char *)body + head;
    size_t n_missed = store_pull(store, server->keys, request->count, values, server->missed);
    enum tern_status status =
        read_missed(server, store, request->count, n_missed, head ? body : NULL, values, &bytes);
    if (status)
        return server_fail(server, request, status, out);
    if (filters_rows(&table->filters) &&
        !server_filter_rows(server, table, request, values, &bytes))
        return REFUSED;
    struct frame reply = reply_frame(request, view_epoch(server->core->view), FRAME_VALUES);
    reply.table = request->table;
    reply.fields.values.noted = noted;
    reply.body_bytes = (uint32_t)(head + bytes);
    reply_commit(out, &reply);
    return SERVED;
}

/* The payload where its elements are aligned; NULL when memory runs out. */
static const void *aligned_payload(struct server *server, const uint8_t *payload, size_t bytes)
{
    if (!bytes || (uintptr_t)payload % sizeof(uint64_t) == 0)
        return payload;
    server->values.begin = server->values.end = 0;
    return buffer_append(&server->values, payload, bytes) ? server->values.bytes : NULL;
}

/* Keys at home here were used as often as `counts` says. Other keys have rows, wherever they are. */
static enum tern_status count_keys(const struct server *server, struct store *store, uint32_t n,
                                   const uint8_t *counts)
{
    enum tern_status status =
        store->admission ? TERN_OK
                         : fail(TERN_INVALID, "table '%s' does not count its keys", store->name);
    for (uint32_t i = 0; !status && i < n; i++)
        if (store_is_home(store, server->keys[i]))
            status = store_count(store, server->keys[i], get_u32(counts + 4 * i));
    return status;
}

/* Pushes to keys that had no row, or sets them, where that can be. */
static enum tern_status write_missed(struct server *server, struct store *store, bool pushes,
                                     const char *values, size_t n_missed)
{
    enum tern_status status = TERN_OK;
    bool here;
    for (size_t i = 0; store_may_miss(store, pushes) && !status && i < n_missed; i++) {
        const uint64_t key = server->keys[server->missed[defect(DEFECT_MISSED_CONFUSED) ? 0 : i]];
        const char *value = values + server->missed[i] * store->value_bytes;
        if (pushes && defect(DEFECT_PUSH_UNCOUNTED))
            continue;
        status =
            pushes ? store_push_new(store, key, value, &here) : store_set_new(store, key, value);
    }
    return status;
}

/* Counts the keys of a PUSH to a sketch. */
static enum tern_status count_in_sketch(struct server *server, struct store *store,
                                        const struct frame *request, const uint8_t *body)
{
    const uint8_t *at = body + request->keys_bytes, *end = body + request->body_bytes;
    const uint64_t most = store->type == TERN_I64 ? INT64_MAX : INT32_MAX;
    server->values.begin = server->values.end = 0;
    uint8_t *counts = buffer_reserve(&server->values, request->count * sizeof(uint64_t) + 1);
    if (!counts)
        return fail(TERN_NO_MEMORY, "no memory for a PUSH");
    for (uint32_t i = 0; at && i < request->count; i++) {
        uint64_t count;
        at = number_get(at, end, &count);
        if (defect(DEFECT_SKETCH_ONCE) && i && server->keys[i] == server->keys[i - 1])
            count = 0;
        if (!at || count > most)
            at = NULL;
        else
            memcpy(counts + i * store->value_bytes, &count, store->value_bytes);
    }
    if (at != end || request->kind != FRAME_PUSH)
        return fail(TERN_INVALID, "a %s to the sketch '%s' has no counts of %" PRIu32 " keys",
                    frame_kind_name(request->kind), store->name, request->count);
    sketch_add(store->sketch, server->keys, request->count, counts, false, store->watch);
    return store_check_lost(store);
}

/* The rows of a write to a table with filters, decoded; NULL with *status set if that is not possible. */
static const void *decode_rows(struct server *server, const struct core_table *table,
                               const struct frame *request, const uint8_t *payload,
                               enum tern_status *status)
{
    const struct filter_shape shape = core_filter_shape(table);
    server->values.begin = server->values.end = 0;
    const size_t row_bytes = table->store.value_bytes, most = request->count * row_bytes + 1;
    uint8_t *rows = buffer_reserve(
        &server->values, most + filter_scratch_bytes(&table->filters, request->count, row_bytes));
    if (!rows)
        *status = fail(TERN_NO_MEMORY, "no memory for a %s", frame_kind_name(request->kind));
    else if (!filter_decode(&table->filters, &shape, payload, frame_payload_bytes(request),
                            request->count, rows + most, rows))
        *status = fail(TERN_INVALID, "the filtered rows of a %s of table '%s' cannot be decoded",
                       frame_kind_name(request->kind), table->store.name);
    if (!*status && defect(DEFECT_FILTERED_ROW_LOST))
        memset(rows + (request->count - 1) * table->store.value_bytes, 0, table->store.value_bytes);
    return *status ? NULL : rows;
}

/* The rows of a write, or the numbers of a COUNT, where they can be used; NULL with *status set if they are not there. */
static const void *find_values(struct server *server, const struct core_table *table,
                               const struct frame *request, const uint8_t *payload,
                               enum tern_status *status)
{
    const struct store *store = &table->store;
    const bool counts = request->kind == FRAME_COUNT;
    if (!counts && filters_rows(&table->filters))
        return decode_rows(server, table, request, payload, status);
    const size_t bytes = request->count * (counts ? sizeof(uint32_t) : store->value_bytes);
    if (frame_payload_bytes(request) != bytes) {
        *status = fail(TERN_INVALID,
                       "a %s of %" PRIu32 " keys of table '%s' has %" PRIu32 " bytes of "
                       "values, not %zu",
                       frame_kind_name(request->kind), request->count, store->name,
                       frame_payload_bytes(request), bytes);
        return NULL;
    }
    if (counts || (request->kind == FRAME_PUSH && store->add.many && !table->technique->counting))
        return payload;
    const void *values = aligned_payload(server, payload, bytes);
    if (!values)
        *status = fail(TERN_NO_MEMORY, "no memory for a %s", frame_kind_name(request->kind));
    return values;
}

static enum tern_status write_values(struct server *server, struct core_table *table,
                                     const struct frame *request, const uint8_t *body)
{
    struct store *store = &table->store;
    enum tern_status status = TERN_OK;
    if (store->sketch)
        return count_in_sketch(server, store, request, body);
    const void *values = find_values(server, table, request, body + request->keys_bytes, &status);
    if (status)
        return status;
    if (request->kind == FRAME_COUNT)
        return count_keys(server, store, request->count, values);
    if (table->technique->counting)
        return server_write_counted(server, table, request, values);
    const bool pushes = request->kind == FRAME_PUSH || defect(DEFECT_SET_ADDS);
    status = pushes ? store_reserve(store, server->keys, request->count, server->entries)
                    : store_reserve_all(store, server->keys, request->count, server->entries);
    if (status)
        return status;
    if (pushes && age_is_asked(table))
        age_begin(table, request->fields.access.noted);
    const size_t n_missed = (pushes ? store_push : store_set)(
        store, server->keys, request->count, server->entries, values, server->missed);
    return write_missed(server, store, pushes, values, n_missed);
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

/* Whether a write that was executed now, or before, is not yet at the node with the backup. */
static bool is_held_for_batch(struct server *server, struct server_lane *lane,
                              const struct core_table *table, bool again)
{
    if (!again)
        backup_note(server->backup, lane);
    const bool is_held = !backup_is_safe(server->backup, table, lane);
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
        status = read_keys(server, lane, table, request, body);
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
                   : serve_pull(server, table, request, out);
    }
    if (!status && !again)
        status = write_values(server, table, request, body);
    bool behind = !status && request->kind != FRAME_COUNT && table->technique->wrote &&
                  table->technique->wrote(table, server->shard, writer_of(server, table, lane),
                                          server->keys, request->count, again);
    if (status && !again && !advance_void(lane, request->number))
        return REFUSED;
    if (status)
        return server_fail(server, request, status, out);
    advance(lane, request->number);
    if (table->backup && is_held_for_batch(server, lane, table, again))
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
    if (served == SERVED)
        atomic_fetch_add_explicit(&table->reply_bytes, buffer_size(out) - before,
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

/* Packs the sections of the answer that is at the end of `out`, from `begin` on. It may have main copies, so it must be
 * sent: without memory as it is. */
static void pack_reply(struct server *server, struct core_table *table, struct buffer *out,
                       size_t begin)
{
    struct buffer *packed = &server->packed;
    const uint8_t *plain = out->bytes + begin;
    const struct pack_shape shape = core_pack_shape(table);
    struct frame reply;
    if (frame_decode(plain, &reply) || reply.kind != FRAME_ROUND_REPLY)
        return;
    packed->begin = packed->end = 0;
    out->end = begin;
    if (pack_sections(&shape, plain + FRAME_HEADER_BYTES, reply.body_bytes, packed)) {
        const size_t bytes = buffer_size(packed);
        table->savings[server->shard].sent += reply.body_bytes - bytes;
        reply.body_bytes = (uint32_t)bytes;
        memcpy(out->bytes + begin + FRAME_HEADER_BYTES, buffer_head(packed), bytes);
    } else {
        reply.flags |= FRAME_PLAIN;
    }
    reply_commit(out, &reply);
}

static enum tern_status answer_sections(struct server *server, struct core_table *table,
                                        struct round_question *question)
{
    struct frame plain = *question->frame;
    enum tern_status status = unpack_round(server, table, &plain, &question->body);
    if (status)
        return status;
    question->frame = &plain;
    const size_t begin = buffer_size(question->out);
    status = table->technique->answer(table, server->shard, question);
    if (!status)
        pack_reply(server, table, question->out, question->out->begin + begin);
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

static enum tern_status answer_round(struct server *server, const struct server_lane *lane,
                                     struct core_table *table, const struct frame *request,
                                     const uint8_t *body, struct buffer *out)
{
    struct round_question question = {
        .from = lane->node, .frame = request, .body = body, .out = out};
    if (!technique_has_rounds(table, server->shard) ||
        (request->count && !table->technique->sends_keys))
        return fail(TERN_INVALID, "a ROUND does not fit table '%s'", table->store.name);
    if (server->rounds_status)
        return refuse_part(server);
    const bool is_followed = follower_is(server->core, table, lane->node);
    if (!is_followed && !core_takes_part(table, lane->node))
        return fail(TERN_INVALID, "node %" PRIu32 " does not lead its host in table '%s'",
                    lane->node, table->store.name);
    enum tern_status status = check_member(table);
    if (status)
        return status;
    if (is_followed) {
        status = answer_follower(server, table, &question);
    } else if (table->technique->sends_sections) {
        status = answer_sections(server, table, &question);
    } else {
        question.body = aligned_payload(server, body, request->body_bytes);
        if (!question.body && request->body_bytes)
            return fail(TERN_NO_MEMORY, "no memory for a ROUND");
        status = table->technique->answer(table, server->shard, &question);
    }
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

/*
 * A round of a table. Its answer cannot be made a second time, because what it
 * tells is then no longer news; so the last one of a lane about each table is kept until the next request about that
 * table shows that it has arrived.
 */
static enum served serve_round(struct server *server, struct server_lane *lane,
                               const struct frame *request, const uint8_t *body, struct buffer *out)
{
    if (request->fields.round.step == FRAME_OPEN_PROBE)
        return serve_open_probe(server, lane, request, out);
    struct core_table *table = find_table(server, request);
    if (!table)
        return hold_or_refuse(server, lane, request, out);
    bool again = request->number <= lane->executed && !defect(DEFECT_SYNC_AGAIN);
    if (again && defect(DEFECT_ROUND_FORGOTTEN))
        return reply_append(out, request, view_epoch(server->core->view), FRAME_ROUND_REPLY, 0,
                            NULL, 0)
                   ? SERVED
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

/* Rows and records of a node whose backup is here. */
static enum served serve_batch(struct server *server, struct server_lane *lane,
                               const struct frame *request, const uint8_t *body, struct buffer *out)
{
    if (request->number > lane->executed) {
        const enum served served = backup_take(server->backup, lane->node, request, body);
        server->holds_for_table = served == HELD;
        if (served != SERVED)
            return served;
    }
    advance(lane, request->number);
    return reply_append(out, request, view_epoch(server->core->view), FRAME_DONE, 0, NULL, 0)
               ? SERVED
               : REFUSED;
}

/* Whether a request came under another view; *served is the outcome then. The coordinator's view may be later than that of its
 * own node, and those who ask it whether they live need not have the latest. */
static bool is_of_another_view(struct server *server, const struct server_lane *lane,
                               const struct frame *request, struct buffer *out, enum served *served)
{
    const struct view *view = server->core->view;
    const uint32_t epoch = view_epoch(view);
    if (request->kind == FRAME_PING || request->kind == FRAME_JOIN || defect(DEFECT_ANY_EPOCH) ||
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
