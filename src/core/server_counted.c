/* server_counted - requests with counts of updates (counting.h). See server_internal.h. */
#include <inttypes.h>

#include "core/reply.h"
#include "core/server_internal.h"
#include "wire/number.h"

enum served server_pull_counted(struct server *server, struct core_table *table,
                                const struct frame *request, const uint8_t *body,
                                struct buffer *out)
{
    const struct slice asked = {body + request->keys_bytes, frame_payload_bytes(request)};
    const size_t most = frame_bits_bytes(request->count) + request->count * NUMBER_MAX_BYTES +
                        filter_max_bytes(request->count, table->store.value_bytes);
    enum tern_status status = TERN_OK;
    if (!table->technique->counting)
        status = fail(TERN_INVALID, "table '%s' counts no updates", table->store.name);
    else if (most > FRAME_MAX_BODY_BYTES)
        status = fail(TERN_LIMIT, "a PULL of %" PRIu32 " keys of table '%s' has too long an answer",
                      request->count, table->store.name);
    if (status)
        return server_fail(server, request, status, out);
    uint8_t *answer = reply_reserve(out, most);
    if (!answer)
        return REFUSED;
    size_t head, n_rows;
    status = table->technique->counting->serve(table, server->keys, request->count, asked, answer,
                                               &head, &n_rows);
    if (status)
        return server_fail(server, request, status, out);
    size_t bytes = n_rows * table->store.value_bytes;
    if (filters_rows(&table->filters) &&
        !server_filter_rows(server, table, request, (char *)answer + head, &bytes))
        return REFUSED;
    struct frame reply = reply_frame(request, view_epoch(server->core->view), FRAME_VALUES);
    reply.table = request->table;
    reply.body_bytes = (uint32_t)(head + bytes);
    reply_commit(out, &reply);
    return SERVED;
}

enum tern_status server_write_counted(struct server *server, struct core_table *table,
                                      const struct frame *request, const void *values)
{
    const struct counting *counting = table->technique->counting;
    struct store *store = &table->store;
    struct buffer *numbers = &server->packed;
    numbers->begin = numbers->end = 0;
    uint8_t *at = buffer_reserve(numbers, request->count * NUMBER_MAX_BYTES + 1);
    if (!at)
        return fail(TERN_NO_MEMORY, "no memory for a %s", frame_kind_name(request->kind));
    enum tern_status status =
        store_reserve_all(store, server->keys, request->count, server->entries);
    if (!status)
        status = counting->reserve(table, server->keys, request->count);
    for (uint32_t i = 0; !status && i < request->count; i++) {
        const char *value = (const char *)values + i * store->value_bytes;
        at = number_put_slowly(counting->write(table, request->kind, server->keys[i], value), at);
    }
    numbers->end = (size_t)(at - numbers->bytes);
    return status;
}

bool server_answer_counts(struct server *server, const struct core_table *table,
                          const struct frame *request, bool again, struct buffer *out)
{
    struct buffer *numbers = &server->packed;
    if (again) {
        numbers->begin = numbers->end = 0;
        uint8_t *at = buffer_reserve(numbers, request->count * NUMBER_MAX_BYTES + 1);
        for (uint32_t i = 0; at && i < request->count; i++)
            at = number_put_slowly(table->technique->counting->written(table, server->keys[i]), at);
        if (!at)
            return false;
        numbers->end = (size_t)(at - numbers->bytes);
    }
    return reply_append(out, request, view_epoch(server->core->view), FRAME_DONE, 0,
                        buffer_head(numbers), buffer_size(numbers));
}
