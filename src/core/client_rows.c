/*
 * client_rows - the bytes of requests and replies. It gathers the caller's values, which are in the order of the caller's
 * keys, into a payload, and scatters them from one: raw, as counts, filtered, or only for keys that have rows. Keys that were
 * sent before are named by a digest. See
 * client_internal.h.
 */
#include <string.h>

#include "base/rand.h"
#include "core/client_internal.h"
#include "core/defect.h"
#include "wire/bytes.h"
#include "wire/number.h"
#include "wire/keys.h"

enum {
    LINE_BYTES = 64,
    PREFETCH_ROWS = 4,     /* ahead */
    PREFETCH_BYTES = 1024, /* of each, at the most */
    IN_PLACE_BYTES =
        16 << 10, /* of a part's values, from which on they are not copied if avoidable */
};

static bool encode_call(const struct client *client, const struct part *part, struct buffer *out)
{
    const struct op *op = part->op;
    struct frame frame = {.kind = op->kind,
                          .table = op->table,
                          .epoch = view_epoch(client->core->view),
                          .number = part->number,
                          .count = op->limit,
                          .flags = op->flags,
                          .keys_bytes = op->keys_bytes,
                          .body_bytes = op->payload_bytes,
                          .fields = op->fields};
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(&frame, header);
    if (!buffer_reserve(out, sizeof header + op->payload_bytes))
        return false;
    return buffer_append(out, header, sizeof header) &&
           buffer_append(out, op->payload, op->payload_bytes);
}

/* The caller's values lie in the order of its keys, anywhere in memory, those of a part one after the
 * other. Ahead of the copy the lines of a row are fetched: the misses of several rows then overlap. */
static inline void prefetch_row(const char *row, size_t bytes, bool to_write)
{
    if (bytes > PREFETCH_BYTES)
        bytes = PREFETCH_BYTES; /* the hardware goes on from there */
    for (size_t at = 0; at < bytes; at += LINE_BYTES) {
        if (to_write)
            __builtin_prefetch(row + at, 1);
        else
            __builtin_prefetch(row + at, 0);
    }
}

/* Copies between the caller's values and those of a part. `bytes` is that of a value; where it is
 * known to the compiler, a copy is a move or two. */
static inline __attribute__((always_inline)) void move_values(const struct part *part,
                                                              char *payload, size_t bytes,
                                                              bool to_caller)
{
    const uint32_t *order = part->op->order + part->begin;
    char *values = part->op->values;
    for (uint32_t i = 0; i < part->count; i++, payload += bytes) {
        if (i + PREFETCH_ROWS < part->count)
            prefetch_row(values + order[i + PREFETCH_ROWS] * bytes, bytes, to_caller);
        bool astray = defect(to_caller ? DEFECT_SCATTER_SORTED : DEFECT_GATHER_UNSORTED);
        char *value = values + (astray ? part->begin + i : order[i]) * bytes;
        memcpy(to_caller ? value : payload, to_caller ? payload : value, bytes);
    }
}

static void gather(const struct part *part, uint8_t *payload)
{
    size_t bytes = op_value_bytes(part->op);
    if (bytes == sizeof(float))
        move_values(part, (char *)payload, sizeof(float), false);
    else if (bytes == sizeof(double))
        move_values(part, (char *)payload, sizeof(double), false);
    else
        move_values(part, (char *)payload, bytes, false);
}

char *request_values_together(const struct part *part)
{
    const uint32_t *order = part->op->order + part->begin;
    if (part->count * op_value_bytes(part->op) < IN_PLACE_BYTES || part->op->present)
        return NULL;
    for (uint32_t i = 1; i < part->count; i++)
        if (order[i] != order[0] + i)
            return NULL;
    return part->op->values + order[0] * op_value_bytes(part->op);
}

static bool has_bit(const uint8_t *bits, uint32_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

/* What a reply tells of the keys of a part that asked which have rows. */
static void scatter_present(const struct part *part, const uint8_t *bits)
{
    const struct op *op = part->op;
    const uint8_t *next = bits + frame_bits_bytes(part->count);
    const size_t bytes = op_value_bytes(op);
    for (uint32_t i = 0; i < part->count; i++) {
        const uint32_t position = op->order[part->begin + i];
        op->present[position] = has_bit(bits, i);
        if (op->present[position]) {
            memcpy(op->values + position * bytes, next, bytes);
            next += bytes;
        } else {
            memset(op->values + position * bytes, 0, bytes);
        }
    }
}

void request_scatter(const struct part *part, const uint8_t *payload)
{
    if (part->op->present) {
        scatter_present(part, payload);
        return;
    }
    if (payload == (const uint8_t *)request_values_together(part))
        return;
    char *from = (char *)(uintptr_t)payload;
    size_t bytes = op_value_bytes(part->op);
    if (bytes == sizeof(float))
        move_values(part, from, sizeof(float), true);
    else if (bytes == sizeof(double))
        move_values(part, from, sizeof(double), true);
    else
        move_values(part, from, bytes, true);
}

/* Whether the payload of a write is counts in variable length. */
static bool sends_counts(const struct op *op)
{
    return op->kind == FRAME_PUSH && op->of->store.sketch;
}

/* The counts of a part that is pushed to a sketch; gives their bytes. */
static size_t gather_counts(const struct part *part, uint8_t *payload)
{
    const struct op *op = part->op;
    const size_t bytes = op_value_bytes(op);
    uint8_t *at = payload;
    for (uint32_t i = 0; i < part->count; i++) {
        uint64_t count = 0;
        memcpy(&count, op->values + op->order[part->begin + i] * bytes, bytes);
        at = number_put(count, at);
    }
    return (size_t)(at - payload);
}

/* What is rounded up: the same when a part is sent again. */
static uint64_t seed_of(const struct client *client, const struct part *part)
{
    const uint64_t stream = (uint64_t)client->core->node << 32 | part->op->table;
    return rand_at(rand_at(stream, part->number), part->op->sorted[part->begin]);
}

/* Writes the rows of a part; their bytes, or SIZE_MAX when memory runs out. */
static size_t encode_rows(struct client *client, const struct part *part, uint8_t *payload)
{
    const struct op *op = part->op;
    client->rows.begin = client->rows.end = 0;
    const size_t bytes = part->count * op_value_bytes(op);
    const struct filters *filters = &op->of->filters;
    const struct filter_shape shape = core_filter_shape(op->of);
    const uint64_t seed = seed_of(client, part);
    uint8_t *rows = buffer_reserve(
        &client->rows, bytes + filter_scratch_bytes(filters, part->count, op_value_bytes(op)));
    if (!rows)
        return SIZE_MAX;
    gather(part, rows);
    if (op->kind == FRAME_PUSH)
        filter_skip(filters, &shape, rows, part->count, seed);
    return core_encode_rows(op->of, rows, part->count, op->kind == FRAME_SET, seed, payload,
                            rows + bytes);
}

/* The header of an access, without the sizes of what follows it. */
static struct frame make_head(const struct client *client, const struct lane *lane,
                              const struct part *part)
{
    return (struct frame){.kind = part->op->kind,
                          .table = part->op->table,
                          .epoch = view_epoch(client->core->view),
                          .number = part->number,
                          .count = part->count,
                          .fields.access = {part->noted, lane->first->number}};
}

/* Decides how the keys of a request are sent. Both ends keep the lists of a lane by the order of these decisions. */
static enum list_form choose_form(struct lane *lane, const struct key_list *list,
                                  const uint64_t *keys)
{
    const bool known = lists_find(&lane->lists, list->digest);
    if (!lists_find(&lane->lists, lane->base.digest))
        lane->base.n = 0;
    const bool is_part = list_is_part(&lane->base, keys, list->count);
    if (!known)
        (void)lists_add(&lane->lists, list);
    if (!is_part)
        list_base_set(&lane->base, list->digest, keys, list->count);
    if (known)
        return LIST_NAMED;
    return is_part ? LIST_PART : LIST_WHOLE;
}

/* Replaces the keys of a request by the digest of their list, if it was sent before on this lane, or by what makes them a part
 * of another one. */
static void name_list(const struct client *client, struct lane *lane, struct part *part,
                      uint8_t *coded, struct frame *frame)
{
    struct core_table *table = (struct core_table *)(uintptr_t)part->op->of;
    const uint64_t *keys = part->op->sorted + part->begin;
    struct key_list list = {.bytes = frame->keys_bytes, .count = part->count};
    list.digest = list_digest(coded, defect(DEFECT_LIST_CONFUSED) ? 8 : list.bytes, list.count,
                              frame->flags, client->core->incarnation);
    size_t part_bytes = 0;
    if (part->list == LIST_UNDECIDED) {
        part->list = choose_form(lane, &list, keys);
        if (part->list == LIST_PART)
            part_bytes = list_part_encode(&lane->base, keys, part->count, list.bytes, coded);
    }
    if (part->list == LIST_NAMED) {
        list_digest_put(list.digest, coded);
        frame->flags = FRAME_LIST_KNOWN;
        frame->keys_bytes = FRAME_DIGEST_BYTES;
    } else if (part_bytes) {
        frame->flags = FRAME_LIST_KNOWN;
        frame->keys_bytes = (uint32_t)part_bytes;
    }
    filter_count(&table->saved, &(struct filter_saved){.keys = list.bytes - frame->keys_bytes});
}

/* Writes the keys of a part. */
static void put_keys(const struct client *client, struct lane *lane, struct part *part,
                     uint8_t *out, struct frame *frame)
{
    const struct op *op = part->op;
    frame->keys_bytes =
        (uint32_t)keys_encode(op->sorted + part->begin, part->count, out, &frame->flags);
    if (op->of->filters.keys && frame->keys_bytes > LISTS_SHORT)
        name_list(client, lane, part, out, frame);
}

bool request_is_counted(const struct part *part)
{
    const struct op *op = part->op;
    const struct counting *counting = op_is_call(op) ? NULL : op->of->technique->counting;
    bool is_counted = op->counted;
    if (counting && (op->kind == FRAME_PUSH || op->kind == FRAME_SET))
        for (uint32_t i = 0; !is_counted && i < part->count; i++)
            is_counted = counting->has_replica(op->of, op->sorted[part->begin + i]);
    return is_counted;
}

/* Appends a pull with counts. */
static bool encode_counted(struct client *client, struct lane *lane, struct part *part,
                           struct buffer *out)
{
    struct op *op = part->op;
    uint8_t *at = buffer_reserve(out, FRAME_HEADER_BYTES + keys_max_bytes(part->count) +
                                          part->count * NUMBER_MAX_BYTES);
    if (!at)
        return false;
    struct frame frame = make_head(client, lane, part);
    uint8_t *body = at + FRAME_HEADER_BYTES;
    put_keys(client, lane, part, body, &frame);
    const uint8_t *end = op->of->technique->counting->ask(op->of, op, part->begin, part->count,
                                                          body + frame.keys_bytes);
    frame.flags |= FRAME_COUNTED;
    frame.body_bytes = (uint32_t)(end - body);
    frame_encode(&frame, at);
    out->end += FRAME_HEADER_BYTES + frame.body_bytes;
    return true;
}

const uint8_t *request_plain_rows(struct client *client, const struct op *op, struct slice coded,
                                  size_t n)
{
    const size_t bytes = n * op_value_bytes(op);
    if (!op_is_filtered(op))
        return coded.n == bytes ? coded.bytes : NULL;
    const struct filter_shape shape = core_filter_shape(op->of);
    client->rows.begin = client->rows.end = 0;
    uint8_t *rows = buffer_reserve(
        &client->rows, bytes + 1 + filter_scratch_bytes(&op->of->filters, n, op_value_bytes(op)));
    if (!rows ||
        !filter_decode(&op->of->filters, &shape, coded.bytes, coded.n, n, rows + bytes + 1, rows))
        return NULL;
    return rows;
}

/* Appends the write of a part whose rows are filtered. */
static bool encode_filtered(struct client *client, struct lane *lane, struct part *part,
                            struct buffer *out)
{
    const struct op *op = part->op;
    uint8_t *at = buffer_reserve(out, FRAME_HEADER_BYTES + keys_max_bytes(part->count) +
                                          filter_max_bytes(part->count, op_value_bytes(op)));
    if (!at)
        return false;
    struct frame frame = make_head(client, lane, part);
    uint8_t *body = at + FRAME_HEADER_BYTES;
    put_keys(client, lane, part, body, &frame);
    const size_t bytes = encode_rows(client, part, body + frame.keys_bytes);
    if (bytes == SIZE_MAX)
        return false;
    if (request_is_counted(part))
        frame.flags |= FRAME_COUNTED;
    frame.body_bytes = frame.keys_bytes + (uint32_t)bytes;
    frame_encode(&frame, at);
    out->end += FRAME_HEADER_BYTES + frame.body_bytes;
    return true;
}

/* Appends the access of a part whose rows, if it has some, are not filtered. */
static bool encode_plain(const struct client *client, struct lane *lane, struct part *part,
                         struct buffer *out, struct slice *rest)
{
    const struct op *op = part->op;
    const bool counts = sends_counts(op);
    size_t payload =
        op_is_write(op) ? part->count * (counts ? NUMBER_MAX_BYTES : op_value_bytes(op)) : 0;
    const char *in_place = payload && rest && !counts ? request_values_together(part) : NULL;
    size_t copied = in_place ? 0 : payload;
    uint8_t *at = buffer_reserve(out, FRAME_HEADER_BYTES + keys_max_bytes(part->count) + copied);
    if (!at)
        return false;
    struct frame frame = make_head(client, lane, part);
    uint8_t *body = at + FRAME_HEADER_BYTES;
    put_keys(client, lane, part, body, &frame);
    if (counts)
        payload = copied = gather_counts(part, body + frame.keys_bytes);
    frame.body_bytes = frame.keys_bytes + (uint32_t)payload;
    if (op->present)
        frame.flags |= FRAME_PRESENT;
    if (request_is_counted(part))
        frame.flags |= FRAME_COUNTED;
    frame_encode(&frame, at);
    if (copied && !counts)
        gather(part, body + frame.keys_bytes);
    out->end += FRAME_HEADER_BYTES + frame.keys_bytes + copied;
    if (in_place)
        *rest = (struct slice){(const uint8_t *)in_place, payload};
    return true;
}

bool request_encode(struct client *client, struct lane *lane, struct part *part, struct buffer *out,
                    struct slice *rest)
{
    const struct op *op = part->op;
    if (op_is_call(op))
        return encode_call(client, part, out);
    struct core_table *table = (struct core_table *)(uintptr_t)op->of;
    const size_t before = buffer_size(out);
    const bool done = op->counted ? encode_counted(client, lane, part, out)
                      : op_is_write(op) && op_is_filtered(op)
                          ? encode_filtered(client, lane, part, out)
                          : encode_plain(client, lane, part, out, rest);
    if (done)
        atomic_fetch_add_explicit(&table->request_bytes,
                                  buffer_size(out) - before + (rest ? rest->n : 0),
                                  memory_order_relaxed);
    return done;
}

/* ---- Replies ------------------------------------------------------------------------------------ */

bool request_has_values(const struct part *part, const struct frame *reply)
{
    const struct op *op = part->op;
    if (reply->kind != FRAME_VALUES || op_is_call(op) || op_is_write(op))
        return false;
    const size_t most = part->count * op_value_bytes(op), bits = frame_bits_bytes(part->count);
    const size_t bytes = frame_payload_bytes(reply);
    return op->present ? bytes >= bits && bytes - bits <= most : bytes == most;
}

bool request_has_as_many(const struct part *part, const struct frame *reply, const uint8_t *body)
{
    const uint8_t *bits = body + reply->keys_bytes;
    size_t n = 0;
    for (uint32_t i = 0; part->op->present && i < part->count; i++)
        n += has_bit(bits, i);
    return !part->op->present || frame_payload_bytes(reply) ==
                                     frame_bits_bytes(part->count) + n * op_value_bytes(part->op);
}

bool request_decode_rows(struct client *client, const struct part *part, struct frame *reply,
                         const uint8_t **body)
{
    const struct op *op = part->op;
    const uint8_t *payload = *body + reply->keys_bytes;
    const size_t head = op->present ? frame_bits_bytes(part->count) : 0;
    const size_t bytes = frame_payload_bytes(reply);
    struct buffer *plain = &client->rows;
    const struct filter_shape shape = core_filter_shape(op->of);
    size_t n = op->present ? 0 : part->count;
    plain->begin = plain->end = 0;
    const size_t most = head + part->count * op_value_bytes(op) + 1;
    uint8_t *to = buffer_reserve(
        plain, most + filter_scratch_bytes(&op->of->filters, part->count, op_value_bytes(op)));
    if (!to || bytes < head)
        return false;
    for (uint32_t i = 0; op->present && i < part->count; i++)
        n += has_bit(payload, i);
    memcpy(to, payload, head);
    if (!filter_decode(&op->of->filters, &shape, payload + head, bytes - head, n, to + most,
                       to + head))
        return false;
    for (size_t i = 1; defect(DEFECT_ZEROS_REPEAT) && i < n; i++)
        if (!to[head + i * op_value_bytes(op)])
            memcpy(to + head + i * op_value_bytes(op), to + head + (i - 1) * op_value_bytes(op),
                   op_value_bytes(op));
    reply->keys_bytes = 0;
    reply->body_bytes = (uint32_t)(head + n * op_value_bytes(op));
    *body = to;
    return true;
}
