/*
 * client_internal - what client.c, which queues requests and takes replies, and client_rows.c, which writes and reads their
 * bytes, know of each other. Others include client.h.
 */
#ifndef CORE_CLIENT_INTERNAL_H
#define CORE_CLIENT_INTERNAL_H

#include "core/client.h"
#include "core/counting.h"
#include "core/technique.h"

/* Undecided before a request is sent, and after its list was forgotten. A part is sent whole when it is sent again. */
enum list_form { LIST_UNDECIDED, LIST_WHOLE, LIST_NAMED, LIST_PART };

/* One request: `count` of the operation's sorted keys from `begin` on. */
struct part {
    struct part *next;
    struct op *op;
    uint64_t number;
    size_t begin;
    uint32_t count;
    uint64_t noted;      /* the lane's note when it was queued; 0: none */
    enum list_form list; /* how its keys are sent */
    bool is_coming;      /* its key is on its way to this node, under the number in `location` */
    uint32_t location;
};

static inline bool op_is_call(const struct op *op)
{
    return !op->of;
}

/* What each key of an operation has in the caller's memory. */
static inline size_t op_value_bytes(const struct op *op)
{
    return op->kind == FRAME_COUNT ? sizeof(uint32_t) : op->of->store.value_bytes;
}

static inline bool op_is_write(const struct op *op)
{
    return op->kind != FRAME_PULL;
}

/* Whether the rows of an operation are filtered. */
static inline bool op_is_filtered(const struct op *op)
{
    return !op_is_call(op) && op->kind != FRAME_COUNT && filters_rows(&op->of->filters);
}

/* Appends the request of a part. Its values may be left in *rest, unless that is NULL. */
bool request_encode(struct client *client, struct lane *lane, struct part *part, struct buffer *out,
                    struct slice *rest);

/* The values of a part in the caller's memory, if they are many and lie there in the order of its keys; else NULL. */
char *request_values_together(const struct part *part);

/* Whether a reply has the values that a part asked for, as far as its header says. */
bool request_has_values(const struct part *part, const struct frame *reply);

/* Whether it has as many values as it says that keys have rows. */
bool request_has_as_many(const struct part *part, const struct frame *reply, const uint8_t *body);

/* Decodes the filtered rows of a reply, behind its bits if it has them; false if it makes no sense. */
bool request_decode_rows(struct client *client, const struct part *part, struct frame *reply,
                         const uint8_t **body);

/* Whether the request of a part carries counts, or asks for them. */
bool request_is_counted(const struct part *part);

/* The n rows of a reply with counts, decoded if they are filtered; NULL if that is not possible. */
const uint8_t *request_plain_rows(struct client *client, const struct op *op, struct slice coded,
                                  size_t n);

/* Copies the values of a reply to where the caller wants them. */
void request_scatter(const struct part *part, const uint8_t *payload);

#endif
