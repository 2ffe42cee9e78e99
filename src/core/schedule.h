/*
 * schedule - the tasks of one caller, a worker: what each waits for, which may start, what has finished.
 *
 * Tasks are numbered from 1. A task has a part for each node it is sent to, with the keys it is about there.
 * Task t may start when all tasks up to t - delay - 1 have finished, and those in its list `after`
 * (tern.h, section Tasks, has the rule). A part ends once, by schedule_finish, whatever is
 * reported of it later; a task has finished with its last part.
 *
 * The caller holds a task back until it may start, not the node that will run it: only the caller learns
 * that an earlier task has finished at all its nodes.
 *
 * Progress (range_clock.h): the clock of a node is set to a task's number, for the keys of its part, when
 * that part and those of all earlier tasks for the node have finished. So it goes forward only, although
 * tasks may finish in any order. When there are too many ranges, adjacent ones are joined at the earlier
 * time: the clock then reports less than the truth, never more.
 *
 * A task is kept until it has finished, its parts have been counted as progress and, if it failed, its
 * failure has been reported. TERN_MAX_TASKS are kept at the most.
 *
 * Pure; one owner at a time.
 */
#ifndef CORE_SCHEDULE_H
#define CORE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/view.h"

struct schedule;

struct task_part {
    uint32_t node;
    bool has_finished, is_counted, has_failed;
    uint64_t begin, end;
};

struct task {
    uint64_t id;
    bool has_started;
    enum tern_status status; /* of the first part that failed */
    char sentence[256];
    char name[TERN_MAX_NAME + 1]; /* of the function */
    size_t n_unfinished;
    size_t n_parts;
    struct task_part *parts;
    size_t n_after;
    uint64_t *after;
    uint32_t argument_bytes, result_bytes;
    uint8_t *argument;
    /* The caller's. */
    char *results;
    size_t *result_sizes;
};

/* What is submitted. The arrays are copied, but for results and their sizes. */
struct task_order {
    const char *name;
    const struct task_part *parts; /* node, begin and end count; at least one, by ascending node */
    size_t n_parts;
    const uint64_t *after;
    size_t n_after;
    const void *argument;
    uint32_t argument_bytes, result_bytes;
    char *results;
    size_t *result_sizes;
};

/* NULL when memory runs out. */
struct schedule *schedule_new(const struct view *view);
void schedule_free(struct schedule *schedule);

/* Adds a task. TERN_INVALID if it is to come after a task that does not exist. */
enum tern_status schedule_submit(struct schedule *schedule, const struct task_order *order,
                                 uint64_t *id);

/* The next task that may start, which has started then; NULL: none. It stays where it is until one of its
 * parts finishes. */
const struct task *schedule_next(struct schedule *schedule);

/* A part has ended: with a result, or a sentence. What was reported before, or is not under way, is
 * ignored. True if the task has finished by it. */
bool schedule_finish(struct schedule *schedule, uint64_t id, uint32_t node, enum tern_status status,
                     const void *bytes, size_t n);

/* Fails all parts under way at a node. */
void schedule_fail_node(struct schedule *schedule, uint32_t node, const char *sentence);

/* Whether a part is under way at a node; at any node. */
bool schedule_waits_for(const struct schedule *schedule, uint32_t node);
bool schedule_is_idle(const struct schedule *schedule);

void schedule_set_delay(struct schedule *schedule, uint64_t delay);

/* The number of the last task. */
uint64_t schedule_last(const struct schedule *schedule);

/* Whether a task that was submitted has finished. If so, *status is how, with the sentence set, once. */
bool schedule_ended(struct schedule *schedule, uint64_t id, enum tern_status *status);

/* The same for all tasks; of several failures the first is reported, and the others are forgotten. */
bool schedule_all_ended(struct schedule *schedule, enum tern_status *status);

/* A sentence about what a task waits for that has not finished; 0: the first such task. */
void schedule_explain(const struct schedule *schedule, uint64_t id, char *text, size_t size);

/* As tern_task_progress. */
uint64_t schedule_progress(const struct schedule *schedule, uint32_t node, uint64_t begin,
                           uint64_t end);

#endif
