/*
 * server_rows - the keys of a request and the rows it reads or writes. server.c decides whether a request is executed at all,
 * and what is answered besides. See server.h.
 */
#include "core/server_internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/rand.h"
#include "core/age.h"
#include "core/backup.h"
#include "core/defect.h"
#include "core/follower.h"
#include "core/reply.h"
#include "wire/bytes.h"
#include "wire/keys.h"
#include "wire/number.h"

/* Finds the list whose digest the keys of a request begin with: BUSY: it is not known. */
static enum tern_status find_list(const struct server_lane *lane, const struct core_table *table,
                                  const struct frame *request, const uint8_t *body,
                                  const struct key_list **list)
{
    if (!table->filters.keys)
        return fail(TERN_INVALID, "a %s of table '%s' names no list of keys",
                    frame_kind_name(request->kind), table->store.name);
    *list = lists_find(&lane->lists, list_digest_get(body));
    const bool is_part = request->keys_bytes > FRAME_DIGEST_BYTES;
    return *list && (is_part || (*list)->count == request->count) ? TERN_OK : TERN_BUSY;
}

/* Keeps a list of keys that was sent whole, or as a part of another one, as its sender does. */
static void keep_list(const struct server *server, struct server_lane *lane, const uint8_t *coded,
                      size_t bytes, uint32_t count, uint8_t flags)
{
    if (bytes <= LISTS_SHORT)
        return;
    struct key_list list = {.coded = (uint8_t *)(uintptr_t)coded,
                            .bytes = (uint32_t)bytes,
                            .count = count,
                            .flags = flags & FRAME_KEYS_DELTA};
    list.digest = list_digest(coded, defect(DEFECT_LIST_CONFUSED) ? 8 : list.bytes, list.count,
                              list.flags, lane->incarnation);
    lane->lists.most = server->lists_most;
    if (!lists_find(&lane->lists, list.digest))
        (void)lists_add(&lane->lists, &list);
}

/* Decodes the keys of a request from a list that it names. */
static enum tern_status decode_named(struct server *server, struct server_lane *lane,
                                     const struct core_table *table, const struct frame *request,
                                     const uint8_t *body)
{
    const struct key_list *list = NULL;
    const bool is_part = request->keys_bytes > FRAME_DIGEST_BYTES;
    enum tern_status status = find_list(lane, table, request, body, &list);
    if (status == TERN_BUSY && defect(DEFECT_LIST_GUESSED))
        return TERN_OK;
    if (status)
        return status;
    bool ok = keys_decode(list->coded, list->bytes, list->flags, list->count, server->keys);
    if (ok && is_part)
        ok = list_part_decode(body + FRAME_DIGEST_BYTES, request->keys_bytes - FRAME_DIGEST_BYTES,
                              request->count, list->count, server->keys);
    if (!ok)
        return fail(TERN_INVALID, "the keys of a %s cannot be decoded",
                    frame_kind_name(request->kind));
    server->values.begin = server->values.end = 0;
    uint8_t *coded =
        is_part ? buffer_reserve(&server->values, keys_max_bytes(request->count)) : NULL;
    uint8_t flags = 0;
    if (coded) {
        const size_t bytes = keys_encode(server->keys, request->count, coded, &flags);
        keep_list(server, lane, coded, bytes, request->count, flags);
    }
    return TERN_OK;
}

/* Decodes the keys of a request. BUSY: it names a list that is not known. */
static enum tern_status decode_keys(struct server *server, struct server_lane *lane,
                                    const struct core_table *table, const struct frame *request,
                                    const uint8_t *body)
{
    if (request->flags & FRAME_LIST_KNOWN)
        return decode_named(server, lane, table, request, body);
    if (!keys_decode(body, request->keys_bytes, request->flags, request->count, server->keys))
        return fail(TERN_INVALID, "the keys of a %s cannot be decoded",
                    frame_kind_name(request->kind));
    if (table->filters.keys)
        keep_list(server, lane, body, request->keys_bytes, request->count, request->flags);
    return TERN_OK;
}

enum tern_status server_check_member(const struct core_table *table)
{
    return table->member ? store_check_lost(&table->store) : TERN_OK;
}

enum tern_status server_read_keys(struct server *server, struct server_lane *lane,
                                  const struct core_table *table, const struct frame *request,
                                  const uint8_t *body)
{
    const struct store *store = &table->store;
    /* Others ask the leader. Where keys come and go, `find` says so. */
    const bool is_followed = follower_is_here(server->core, table) && !store->home.rows_move;
    enum tern_status status = decode_keys(server, lane, table, request, body);
    if (!status)
        status = server_check_member(table);
    if (status)
        return status;
    for (uint32_t i = 0; i < request->count; i++) {
        uint64_t key = server->keys[i];
        if (key > store->last_key)
            return fail(TERN_RANGE, "key %" PRIu64 " is outside table '%s' of %" PRIu64 " keys",
                        key, store->name, store->n_keys);
        if (store_shard(store, key) != server->shard)
            return fail(TERN_PEER, "key %" PRIu64 " of table '%s' is not in shard %" PRIu32, key,
                        store->name, server->shard);
        const bool is_lost = table->backup && store->home.rows_move && !store_is_home(store, key);
        if ((!store_may_be_asked(store, key) || is_followed || is_lost) &&
            !defect(DEFECT_WRONG_NODE)) {
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

enum served server_pull(struct server *server, struct core_table *table,
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

const void *server_align(struct server *server, const uint8_t *payload, size_t bytes)
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
    const void *values = server_align(server, payload, bytes);
    if (!values)
        *status = fail(TERN_NO_MEMORY, "no memory for a %s", frame_kind_name(request->kind));
    return values;
}

enum tern_status server_write(struct server *server, struct core_table *table,
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
