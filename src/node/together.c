/*
 * together - what all nodes of a cluster do at once: barriers, sums and broadcasts, through the
 * coordinator. Every node makes the same calls in the same order, each from one thread. On a single
 * node they have nothing to wait for.
 */
#include "node/admit.h"

#include <inttypes.h>
#include <string.h>

enum {
    PART_MAX_BYTES = 1 << 20
}; /* of an array that goes in one call; longer ones go in several */

static enum tern_status check(const struct tern_node *node)
{
    if (handle_is((const struct handle *)node, HANDLE_NODE))
        return TERN_OK;
    return handle_refuse((const struct handle *)node, HANDLE_NODE);
}

enum tern_status tern_node_self(struct tern_node *node, uint32_t *index, uint32_t *count)
{
    enum tern_status status = check(node);
    if (status)
        return status;
    if (index)
        *index = node->engine ? node->engine->core.node : 0;
    if (count)
        *count = view_n_nodes(node_view(node));
    return TERN_OK;
}

enum tern_status tern_barrier(struct tern_node *node)
{
    enum tern_status status = check(node);
    if (status || !node->engine)
        return status;
    struct op op = {.fields.collective.number = ++node->n_barriers};
    status = node_call(node, &op, FRAME_BARRIER);
    if (!status)
        buffer_free(&op.answer_body);
    return status;
}

enum tern_status tern_quiesce(struct tern_node *node)
{
    enum tern_status status = tern_barrier(node);
    if (status || !node->engine)
        return status;
    /* First all changes go to their owners, then the owners' values to all. */
    for (int step = 0; !status && step < 2; step++) {
        status = engine_wait(node->engine);
        if (!status && step == 1)
            status = engine_wait_changes(node->engine);
        if (!status)
            status = tern_barrier(node);
        if (!status && step == 0)
            admit_settle_all(node);
    }
    return status;
}

/* Makes a call whose answer is as long as `bytes`, and copies it there. */
static enum tern_status exchange(struct tern_node *node, struct op *op, enum frame_kind kind,
                                 void *bytes, size_t size)
{
    enum tern_status status = node_call(node, op, kind);
    if (status)
        return status;
    if (buffer_size(&op->answer_body) == size && size)
        memcpy(bytes, buffer_head(&op->answer_body), size);
    else if (buffer_size(&op->answer_body) != size)
        status = fail(TERN_MISMATCH, "%zu bytes were expected, but %zu came", size,
                      buffer_size(&op->answer_body));
    buffer_free(&op->answer_body);
    return status;
}

static enum tern_status check_array(const char *call, const void *array, size_t n,
                                    size_t element_bytes)
{
    if (!array)
        return fail(TERN_INVALID, "%s: the array is NULL", call);
    if (n > SIZE_MAX / element_bytes)
        return fail(TERN_INVALID, "%s: %zu times %zu bytes are more than there is memory", call, n,
                    element_bytes);
    return TERN_OK;
}

enum tern_status tern_all_reduce(struct tern_node *node, enum tern_type type, size_t n,
                                 void *values)
{
    enum tern_status status = check(node);
    if (!status && (unsigned)type > TERN_I64)
        status = fail(TERN_INVALID, "tern_all_reduce: type %d is unknown", (int)type);
    if (!status)
        status = check_array("tern_all_reduce", values, n, type_bytes(type));
    if (status || !node->engine)
        return status;
    char *bytes = values;
    size_t left = n * type_bytes(type);
    do {
        size_t part = left < PART_MAX_BYTES ? left : PART_MAX_BYTES;
        struct op op = {.fields.reduce = {++node->n_reductions, (uint64_t)type},
                        .payload = bytes,
                        .payload_bytes = (uint32_t)part};
        status = exchange(node, &op, FRAME_REDUCE, bytes, part);
        bytes += part;
        left -= part;
    } while (!status && left);
    return status;
}

enum tern_status tern_broadcast(struct tern_node *node, uint32_t root, size_t bytes, void *data)
{
    enum tern_status status = check(node);
    if (!status)
        status = check_array("tern_broadcast", data, bytes, 1);
    if (status)
        return status;
    if (!view_has(node_view(node), root))
        return fail(TERN_INVALID,
                    "tern_broadcast: root %" PRIu32 " is not one of %" PRIu32 " nodes", root,
                    view_n_nodes(node_view(node)));
    if (!node->engine)
        return TERN_OK;
    bool mine = node->engine->core.node == root;
    char *at = data;
    do {
        size_t part = bytes < PART_MAX_BYTES ? bytes : PART_MAX_BYTES;
        struct op op = {.fields.broadcast = {++node->n_broadcasts, root},
                        .payload = mine ? at : NULL,
                        .payload_bytes = mine ? (uint32_t)part : 0};
        status = exchange(node, &op, FRAME_BROADCAST, at, part);
        at += part;
        bytes -= part;
    } while (!status && bytes);
    return status;
}
