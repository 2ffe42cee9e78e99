/* inbox - see inbox.h. */
#include "core/inbox.h"

#include <stdlib.h>
#include <string.h>

#include "core/range_clock.h"

struct inbox {
    struct range_clock *taken;
    struct errand *first, *last;
    size_t n, n_bytes;
};

struct inbox *inbox_new(uint32_t n_nodes)
{
    struct inbox *inbox = calloc(1, sizeof *inbox);
    if (!inbox)
        return NULL;
    inbox->taken = range_clock_new(n_nodes);
    if (inbox->taken)
        return inbox;
    free(inbox);
    return NULL;
}

void inbox_free(struct inbox *inbox)
{
    if (!inbox)
        return;
    for (struct errand *errand; (errand = inbox_next(inbox));)
        free(errand);
    range_clock_free(inbox->taken);
    free(inbox);
}

static size_t bytes_of(const struct errand *errand)
{
    return sizeof *errand + errand->argument_bytes;
}

static struct errand *make_errand(const struct inbox *inbox, uint32_t from, uint64_t id,
                                  const struct task_message *message)
{
    size_t n_bytes = sizeof(struct errand) + message->argument_bytes;
    bool is_one_too_many = inbox->n_bytes + n_bytes > INBOX_MAX_BYTES;
    uint32_t argument_bytes = is_one_too_many ? 0 : message->argument_bytes;
    struct errand *errand = malloc(sizeof *errand + argument_bytes);
    if (!errand)
        return NULL;
    *errand = (struct errand){.from = from,
                              .worker = message->worker,
                              .id = id,
                              .begin = message->begin,
                              .end = message->end,
                              .is_one_too_many = is_one_too_many,
                              .result_bytes = message->result_bytes,
                              .argument_bytes = argument_bytes};
    memcpy(errand->name, message->name, message->name_bytes);
    if (argument_bytes)
        memcpy(errand->argument, message->argument, argument_bytes);
    return errand;
}

/* Sets the clock; false when memory is used up. */
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
    struct errand *errand = make_errand(inbox, from, id, message);
    if (!errand || !note_taken(inbox, from, time, message)) {
        free(errand);
        return fail(TERN_NO_MEMORY, "no memory for a task");
    }
    if (inbox->last)
        inbox->last->next = errand;
    else
        inbox->first = errand;
    inbox->last = errand;
    inbox->n++;
    inbox->n_bytes += bytes_of(errand);
    return TERN_OK;
}

struct errand *inbox_next(struct inbox *inbox)
{
    struct errand *errand = inbox->first;
    if (!errand)
        return NULL;
    inbox->first = errand->next;
    if (!inbox->first)
        inbox->last = NULL;
    inbox->n--;
    inbox->n_bytes -= bytes_of(errand);
    return errand;
}

size_t inbox_count(const struct inbox *inbox)
{
    return inbox->n;
}
