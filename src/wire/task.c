/* task - see task.h. */
#include "wire/task.h"

#include <inttypes.h>
#include <string.h>

#include "wire/bytes.h"

enum field {
    AT_WORKER = 0,
    AT_BEGIN = 8,
    AT_END = 16,
    AT_RESULT_BYTES = 24,
    AT_NAME_BYTES = 28,
};

static void put_bytes(uint8_t *at, const void *bytes, size_t n)
{
    if (n)
        memcpy(at, bytes, n);
}

void task_encode(const struct task_message *message, uint8_t *body)
{
    put_u64(body + AT_WORKER, message->worker);
    put_u64(body + AT_BEGIN, message->begin);
    put_u64(body + AT_END, message->end);
    put_u32(body + AT_RESULT_BYTES, message->result_bytes);
    put_u32(body + AT_NAME_BYTES, message->name_bytes);
    put_bytes(body + TASK_HEADER_BYTES, message->name, message->name_bytes);
    put_bytes(body + TASK_HEADER_BYTES + message->name_bytes, message->argument,
              message->argument_bytes);
}

enum tern_status task_decode(const uint8_t *body, size_t n, struct task_message *message)
{
    if (n < TASK_HEADER_BYTES)
        return fail(TERN_INVALID, "a TASK has %zu bytes, fewer than its header", n);
    const uint32_t name_bytes = get_u32(body + AT_NAME_BYTES);
    if (name_bytes == 0 || name_bytes > TERN_MAX_NAME || name_bytes > n - TASK_HEADER_BYTES)
        return fail(TERN_INVALID, "a TASK names its function with %" PRIu32 " bytes", name_bytes);
    const struct task_message read = {
        .worker = get_u64(body + AT_WORKER),
        .begin = get_u64(body + AT_BEGIN),
        .end = get_u64(body + AT_END),
        .result_bytes = get_u32(body + AT_RESULT_BYTES),
        .name_bytes = (uint16_t)name_bytes,
        .name = (const char *)body + TASK_HEADER_BYTES,
        .argument_bytes = (uint32_t)(n - TASK_HEADER_BYTES - name_bytes),
        .argument = body + TASK_HEADER_BYTES + name_bytes,
    };
    if (memchr(read.name, '\0', name_bytes))
        return fail(TERN_INVALID, "a TASK names its function with a zero byte");
    if (read.begin >= read.end)
        return fail(TERN_INVALID, "a TASK has the empty range [%" PRIu64 ", %" PRIu64 ")",
                    read.begin, read.end);
    if (read.argument_bytes > TERN_MAX_TASK_BYTES || read.result_bytes > TERN_MAX_TASK_BYTES)
        return fail(TERN_INVALID,
                    "a TASK has an argument of %" PRIu32 " and a result of %" PRIu32
                    " bytes; at most %d are allowed",
                    read.argument_bytes, read.result_bytes, TERN_MAX_TASK_BYTES);
    *message = read;
    return TERN_OK;
}

void finished_encode(const struct finished_message *message, uint8_t *body)
{
    put_u32(body, (uint32_t)message->status);
    put_bytes(body + FINISHED_HEADER_BYTES, message->bytes, message->n_bytes);
}

enum tern_status finished_decode(const uint8_t *body, size_t n, struct finished_message *message)
{
    if (n < FINISHED_HEADER_BYTES)
        return fail(TERN_INVALID, "a FINISHED has %zu bytes, fewer than its header", n);
    if (n - FINISHED_HEADER_BYTES > TERN_MAX_TASK_BYTES)
        return fail(TERN_INVALID, "a FINISHED has %zu bytes; at most %d are allowed", n,
                    FINISHED_HEADER_BYTES + TERN_MAX_TASK_BYTES);
    const uint32_t status = get_u32(body);
    if (status > UINT16_MAX)
        return fail(TERN_INVALID, "a FINISHED has the status %" PRIu32, status);
    message->status = (enum tern_status)status;
    message->n_bytes = (uint32_t)(n - FINISHED_HEADER_BYTES);
    message->bytes = body + FINISHED_HEADER_BYTES;
    return TERN_OK;
}
