/*
 * task - the bodies of TASK and FINISHED (docs/PROTOCOL.md). Pure functions on bytes.
 *
 * What is read points into the body it was read from.
 */
#ifndef WIRE_TASK_H
#define WIRE_TASK_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    TASK_HEADER_BYTES = 32,   /* of a TASK, in front of name and argument */
    FINISHED_HEADER_BYTES = 4 /* of a FINISHED, in front of the result or the sentence */
};

/* What a node is to do. */
struct task_message {
    uint64_t worker;       /* of the caller, for the answer */
    uint64_t begin, end;   /* keys; begin < end */
    uint32_t result_bytes; /* at most */
    uint16_t name_bytes;
    const char *name; /* of the function; no 0 at its end */
    uint32_t argument_bytes;
    const void *argument;
};

/* What came of it. */
struct finished_message {
    enum tern_status status;
    uint32_t n_bytes;
    const void *bytes; /* TERN_OK: the result; else the sentence */
};

static inline size_t task_bytes(const struct task_message *message)
{
    return TASK_HEADER_BYTES + (size_t)message->name_bytes + message->argument_bytes;
}

/* Writes task_bytes() of them. */
void task_encode(const struct task_message *message, uint8_t *body);

/* Reads a body; TERN_INVALID, with a sentence, for anything task_encode would not write. */
enum tern_status task_decode(const uint8_t *body, size_t n, struct task_message *message);

static inline size_t finished_bytes(const struct finished_message *message)
{
    return FINISHED_HEADER_BYTES + (size_t)message->n_bytes;
}

void finished_encode(const struct finished_message *message, uint8_t *body);
enum tern_status finished_decode(const uint8_t *body, size_t n, struct finished_message *message);

#endif
