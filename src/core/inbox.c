/* inbox - see inbox.h. */
#include "core/inbox.h"

#include <stdlib.h>
#include <string.h>

#include "core/range_clock.h"

struct inbox {
    struct range_clock *taken;
    struct inbox_task *first, *last;
    size_t n, n_bytes;
};

struct inbox *inbox_new(const struct view *view)
{
    struct inbox *inbox = calloc(1, sizeof *inbox);
    if (!inbox)
        return NULL;
    inbox->taken = range_clock_new(view);
    if (inbox->taken)
        return inbox;
    free(inbox);
    return NULL;
}

void inbox_free(struct inbox *inbox)
{
    if (!inbox)
        return;
    for (struct inbox_task *task; (task = inbox_next(inbox));)
        free(task);
    range_clock_free(inbox->taken);
    free(inbox);
}

static size_t bytes_of(const struct inbox_task *task)
{
    return sizeof *task + task->argument_bytes;
}

static struct inbox_task *make_task(const struct inbox *inbox, uint32_t from, uint64_t id,
                                    const struct task_message *message)
{
    size_t n_bytes = sizeof(struct inbox_task) + message->argument_bytes;
    bool is_one_too_many = inbox->n_bytes + n_bytes > INBOX_MAX_BYTES;
    uint32_t argument_bytes = is_one_too_many ? 0 : message->argument_bytes;
    struct inbox_task *task = malloc(sizeof *task + argument_bytes);
    if (!task)
        return NULL;
    *task = (struct inbox_task){.from = from,
                                .worker = message->worker,
                                .id = id,
                                .begin = message->begin,
                                .end = message->end,
                                .is_one_too_many = is_one_too_many,
                                .result_bytes = message->result_bytes,
                                .argument_bytes = argument_bytes};
    memcpy(task->name, message->name, message->name_bytes);
    if (argument_bytes)
        memcpy(task->argument, message->argument, argument_bytes);
    return task;
}

/* Sets the clock; false when memory runs out. */
static bool note_taken(struct inbox *inbox, uint32_t from, uint64_t time,
                       const struct task_message *message)
{
    switch (range_clock_reserve(inbox->taken, from, 1)) {
    case TERN_OK:
        range_clock_set(inbox->taken, from, message->begin, message->end, time);
        return true;
    case TERN_LIMIT:
        range_clock_set(inbox->taken, from, 0, UINT64_MAX, time);
        return true;
    default:
        return false;
    }
}

enum tern_status inbox_put(struct inbox *inbox, uint32_t from, uint64_t time, uint64_t id,
                           const struct task_message *message)
{
    if (range_clock_seen(inbox->taken, from, message->begin, message->end, time))
        return TERN_OK;
    struct inbox_task *task = make_task(inbox, from, id, message);
    if (!task || !note_taken(inbox, from, time, message)) {
        free(task);
        return fail(TERN_NO_MEMORY, "no memory for a task");
    }
    if (inbox->last)
        inbox->last->next = task;
    else
        inbox->first = task;
    inbox->last = task;
    inbox->n++;
    inbox->n_bytes += bytes_of(task);
    return TERN_OK;
}

struct inbox_task *inbox_next(struct inbox *inbox)
{
    struct inbox_task *task = inbox->first;
    if (!task)
        return NULL;
    inbox->first = task->next;
    if (!inbox->first)
        inbox->last = NULL;
    inbox->n--;
    inbox->n_bytes -= bytes_of(task);
    return task;
}

size_t inbox_count(const struct inbox *inbox)
{
    return inbox->n;
}
