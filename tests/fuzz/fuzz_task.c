/*
 * A body of TASK or FINISHED that is read lies within the input and the limits, and is written again as the
 * same bytes; one that is refused leaves the output alone.
 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "wire/task.h"

static void check_task(const uint8_t *data, size_t size)
{
    struct task_message message;
    if (task_decode(data, size, &message))
        return;
    require(message.begin < message.end);
    require(message.name_bytes >= 1 && message.name_bytes <= TERN_MAX_NAME);
    require(!memchr(message.name, 0, message.name_bytes));
    require(message.argument_bytes <= TERN_MAX_TASK_BYTES);
    require(message.result_bytes <= TERN_MAX_TASK_BYTES);
    require(task_bytes(&message) == size);
    uint8_t *again = malloc(size);
    require(again);
    task_encode(&message, again);
    require(memcmp(again, data, size) == 0);
    free(again);
}

static void check_finished(const uint8_t *data, size_t size)
{
    struct finished_message message;
    if (finished_decode(data, size, &message))
        return;
    require(message.n_bytes <= TERN_MAX_TASK_BYTES);
    require(finished_bytes(&message) == size);
    uint8_t *again = malloc(size);
    require(again);
    finished_encode(&message, again);
    require(memcmp(again, data, size) == 0);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_task(data, size);
    check_finished(data, size);
    return 0;
}
