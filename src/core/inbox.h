/*
 * inbox - the tasks a node was sent and has not begun, in the order in which they came.
 *
 * A node sends its tasks with increasing times on one lane, so they come in that order, but after a broken
 * connection perhaps twice. A range clock (range_clock.h) records the tasks taken, by sender and keys, so
 * that none is taken twice. When a sender has too many ranges for the clock, the time of all keys is set,
 * which is also correct, because times increase.
 *
 * Bounded: of a task beyond INBOX_MAX_BYTES the inbox keeps only the fact that it was one too many. Such a
 * task is not held back on the lane, because earlier tasks may wait for messages on the same lane; nor is
 * it answered with an error, because a task that is sent again must get the same answer.
 *
 * Pure; one owner at a time.
 */
#ifndef CORE_INBOX_H
#define CORE_INBOX_H

#include <stdbool.h>

#include "core/view.h"
#include "wire/task.h"

enum { INBOX_MAX_BYTES = 64 << 20 };

struct inbox;

/* A task to be run here. */
struct inbox_task {
    struct inbox_task *next;
    uint32_t from;       /* the caller's node */
    uint64_t worker, id; /* who it is there, and its number of the task */
    uint64_t begin, end;
    bool is_one_too_many; /* it is not to be run */
    uint32_t result_bytes, argument_bytes;
    char name[TERN_MAX_NAME + 1];
    _Alignas(max_align_t) uint8_t argument[];
};

/* NULL when memory runs out. */
struct inbox *inbox_new(const struct view *view);
void inbox_free(struct inbox *inbox);

/* Takes task `id` of a node, sent at `time`, unless it was taken before. TERN_NO_MEMORY: it was not, and is
 * to be sent again. */
enum tern_status inbox_put(struct inbox *inbox, uint32_t from, uint64_t time, uint64_t id,
                           const struct task_message *message);

/* The next task, the caller's to free; NULL: none. */
struct inbox_task *inbox_next(struct inbox *inbox);

/* How many there are. */
size_t inbox_count(const struct inbox *inbox);

#endif
