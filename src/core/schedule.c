/*
 * schedule - see schedule.h.
 *
 * Invariants
 *   1. Tasks lie in the order of their numbers.
 *   2. A task that is not there has finished, and nothing of it is left to report.
 *   3. Among the parts of one node, those that are counted come before those that are not.
 *   4. n_uncounted of a node are its parts that are not counted; the clock has room for all of them.
 */
#include "core/schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/range_clock.h"

struct schedule {
    uint64_t last; /* the number of the last task */
    uint64_t delay;
    struct range_clock *progress;
    size_t *n_uncounted; /* by node */
    size_t n;
    struct task *tasks[TERN_MAX_TASKS];
};

struct schedule *schedule_new(const struct view *view)
{
    struct schedule *schedule = calloc(1, sizeof *schedule);
    if (!schedule)
        return NULL;
    schedule->progress = range_clock_new(view);
    schedule->n_uncounted = calloc(view_capacity(view), sizeof *schedule->n_uncounted);
    if (schedule->progress && schedule->n_uncounted)
        return schedule;
    schedule_free(schedule);
    return NULL;
}

void schedule_free(struct schedule *schedule)
{
    if (!schedule)
        return;
    for (size_t i = 0; i < schedule->n; i++)
        free(schedule->tasks[i]);
    range_clock_free(schedule->progress);
    free(schedule->n_uncounted);
    free(schedule);
}

/* The place of the first task whose number is at least `id`. */
static size_t place_of(const struct schedule *schedule, uint64_t id)
{
    size_t low = 0, high = schedule->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (schedule->tasks[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL: it has finished, and nothing is left to report. */
static struct task *find(const struct schedule *schedule, uint64_t id)
{
    size_t at = place_of(schedule, id);
    return at < schedule->n && schedule->tasks[at]->id == id ? schedule->tasks[at] : NULL;
}

static bool has_finished(const struct schedule *schedule, uint64_t id)
{
    const struct task *task = find(schedule, id);
    return !task || !task->n_unfinished;
}

/* The part of a task for a node; NULL: there is none. */
static struct task_part *part_at(const struct task *task, uint32_t node)
{
    size_t low = 0, high = task->n_parts;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (task->parts[middle].node == node)
            return &task->parts[middle];
        if (task->parts[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- Submitting ------------------------------------------------------------------------------- */

/* A task in one piece of memory: parts, list and argument behind it. */
static struct task *make_task(const struct task_order *order)
{
    size_t parts_bytes = order->n_parts * sizeof *order->parts;
    size_t after_bytes = order->n_after * sizeof *order->after;
    struct task *task = calloc(1, sizeof *task + parts_bytes + after_bytes + order->argument_bytes);
    if (!task)
        return NULL;
    task->parts = (struct task_part *)(task + 1);
    task->after = (uint64_t *)(task->parts + order->n_parts);
    task->argument = (uint8_t *)(task->after + order->n_after);
    for (size_t i = 0; i < order->n_parts; i++)
        task->parts[i] = (struct task_part){.node = order->parts[i].node,
                                            .begin = order->parts[i].begin,
                                            .end = order->parts[i].end};
    if (after_bytes)
        memcpy(task->after, order->after, after_bytes);
    if (order->argument_bytes)
        memcpy(task->argument, order->argument, order->argument_bytes);
    snprintf(task->name, sizeof task->name, "%s", order->name);
    task->n_parts = task->n_unfinished = order->n_parts;
    task->n_after = order->n_after;
    task->argument_bytes = order->argument_bytes;
    task->result_bytes = order->result_bytes;
    task->results = order->results;
    task->result_sizes = order->result_sizes;
    return task;
}

static enum tern_status check_order(struct schedule *schedule, const struct task_order *order)
{
    if (schedule->n == TERN_MAX_TASKS)
        return fail(TERN_LIMIT,
                    "%d tasks of the worker have not finished, or failed and were not waited for; "
                    "wait for some first",
                    TERN_MAX_TASKS);
    for (size_t i = 0; i < order->n_after; i++)
        if (!order->after[i] || order->after[i] > schedule->last)
            return fail(TERN_INVALID,
                        "a task cannot come after task %" PRIu64
                        ": the worker has submitted tasks 1 to %" PRIu64 " so far",
                        order->after[i], schedule->last);
    for (size_t i = 0; i < order->n_parts; i++) {
        uint32_t node = order->parts[i].node;
        size_t n = schedule->n_uncounted[node] + 1;
        range_clock_join(schedule->progress, node, n);
        enum tern_status status = range_clock_reserve(schedule->progress, node, n);
        if (status)
            return status;
    }
    return TERN_OK;
}

enum tern_status schedule_submit(struct schedule *schedule, const struct task_order *order,
                                 uint64_t *id)
{
    enum tern_status status = check_order(schedule, order);
    if (status)
        return status;
    struct task *task = make_task(order);
    if (!task)
        return fail(TERN_NO_MEMORY, "no memory for a task of '%s'", order->name);
    for (size_t i = 0; i < task->n_parts; i++)
        schedule->n_uncounted[task->parts[i].node]++;
    task->id = ++schedule->last;
    schedule->tasks[schedule->n++] = task;
    *id = task->id;
    return TERN_OK;
}

/* ---- Starting --------------------------------------------------------------------------------- */

/* The number of the first task that has not finished. */
static uint64_t first_unfinished(const struct schedule *schedule)
{
    for (size_t i = 0; i < schedule->n; i++)
        if (schedule->tasks[i]->n_unfinished)
            return schedule->tasks[i]->id;
    return schedule->last + 1;
}

/* The first task of its list that a task has to wait for; 0: none. */
static uint64_t missing_before(const struct schedule *schedule, const struct task *task)
{
    for (size_t i = 0; i < task->n_after; i++)
        if (!has_finished(schedule, task->after[i]))
            return task->after[i];
    return 0;
}

const struct task *schedule_next(struct schedule *schedule)
{
    uint64_t first = first_unfinished(schedule);
    for (size_t i = 0; i < schedule->n; i++) {
        struct task *task = schedule->tasks[i];
        if (task->id > first && task->id - first > schedule->delay)
            return NULL;
        if (task->has_started || missing_before(schedule, task))
            continue;
        task->has_started = true;
        return task;
    }
    return NULL;
}

void schedule_set_delay(struct schedule *schedule, uint64_t delay)
{
    schedule->delay = delay;
}

/* ---- Finishing -------------------------------------------------------------------------------- */

/* Forgets a task if nothing more is to be known of it. */
static void forget(struct schedule *schedule, struct task *task)
{
    for (size_t i = 0; i < task->n_parts; i++)
        if (!task->parts[i].is_counted)
            return;
    if (task->status)
        return;
    size_t at = place_of(schedule, task->id);
    schedule->n--;
    memmove(schedule->tasks + at, schedule->tasks + at + 1,
            (schedule->n - at) * sizeof schedule->tasks[0]);
    free(task);
}

/* Counts what a node has finished as its progress, as far as nothing earlier is missing. */
static void count_progress(struct schedule *schedule, uint32_t node)
{
    for (size_t i = 0; i < schedule->n;) {
        struct task *task = schedule->tasks[i];
        struct task_part *part = part_at(task, node);
        if (part && !part->has_finished)
            return;
        size_t n = schedule->n;
        if (part && !part->is_counted) {
            part->is_counted = true;
            schedule->n_uncounted[node]--;
            if (!part->has_failed)
                range_clock_set(schedule->progress, node, part->begin, part->end, task->id);
            forget(schedule, task);
        }
        i += schedule->n == n;
    }
}

static void note_failure(struct task *task, uint32_t node, enum tern_status status,
                         const char *sentence, size_t n)
{
    if (task->status)
        return;
    task->status = status;
    snprintf(task->sentence, sizeof task->sentence,
             "task %" PRIu64 " ('%s') at node %" PRIu32 ": %.*s", task->id, task->name, node,
             n > INT16_MAX ? INT16_MAX : (int)n, sentence);
}

static void take_result(struct task *task, struct task_part *part, const void *bytes, size_t n)
{
    if (n > task->result_bytes) {
        char sentence[128];
        snprintf(sentence, sizeof sentence,
                 "the result has %zu bytes, but the caller has room for %" PRIu32, n,
                 task->result_bytes);
        part->has_failed = true;
        note_failure(task, part->node, TERN_LIMIT, sentence, strlen(sentence));
        return;
    }
    if (n)
        memcpy(task->results + (size_t)part->node * task->result_bytes, bytes, n);
    if (task->result_sizes)
        task->result_sizes[part->node] = n;
}

static bool finish_part(struct schedule *schedule, struct task *task, struct task_part *part,
                        enum tern_status status, const void *bytes, size_t n)
{
    uint32_t node = part->node;
    part->has_finished = true;
    part->has_failed = status != TERN_OK;
    if (status)
        note_failure(task, node, status, bytes, n);
    else
        take_result(task, part, bytes, n);
    bool finished = --task->n_unfinished == 0;
    count_progress(schedule, node);
    return finished;
}

bool schedule_finish(struct schedule *schedule, uint64_t id, uint32_t node, enum tern_status status,
                     const void *bytes, size_t n)
{
    struct task *task = find(schedule, id);
    struct task_part *part = task && task->has_started ? part_at(task, node) : NULL;
    if (!part || part->has_finished)
        return false;
    return finish_part(schedule, task, part, status, bytes, n);
}

/* A part that is under way at a node, and its task; NULL: there is none. */
static struct task_part *under_way_at(const struct schedule *schedule, uint32_t node,
                                      struct task **task)
{
    for (size_t i = 0; i < schedule->n; i++) {
        *task = schedule->tasks[i];
        struct task_part *part = (*task)->has_started ? part_at(*task, node) : NULL;
        if (part && !part->has_finished)
            return part;
    }
    return NULL;
}

void schedule_fail_node(struct schedule *schedule, uint32_t node, const char *sentence)
{
    struct task *task;
    struct task_part *part;
    while ((part = under_way_at(schedule, node, &task)))
        finish_part(schedule, task, part, TERN_PEER, sentence, strlen(sentence));
}

bool schedule_waits_for(const struct schedule *schedule, uint32_t node)
{
    struct task *task;
    return under_way_at(schedule, node, &task) != NULL;
}

bool schedule_is_idle(const struct schedule *schedule)
{
    return first_unfinished(schedule) > schedule->last;
}

/* ---- Asking ----------------------------------------------------------------------------------- */

uint64_t schedule_last(const struct schedule *schedule)
{
    return schedule->last;
}

bool schedule_ended(struct schedule *schedule, uint64_t id, enum tern_status *status)
{
    struct task *task = find(schedule, id);
    if (task && task->n_unfinished)
        return false;
    *status = task && task->status ? fail(task->status, "%s", task->sentence) : TERN_OK;
    if (task) {
        task->status = TERN_OK;
        forget(schedule, task);
    }
    return true;
}

bool schedule_all_ended(struct schedule *schedule, enum tern_status *status)
{
    if (!schedule_is_idle(schedule))
        return false;
    *status = TERN_OK;
    /* All have finished and are counted, so those that are left have failed. The first is reported. */
    while (schedule->n)
        schedule_ended(schedule, schedule->tasks[schedule->n - 1]->id, status);
    return true;
}

void schedule_explain(const struct schedule *schedule, uint64_t id, char *text, size_t size)
{
    uint64_t first = first_unfinished(schedule);
    const struct task *task = find(schedule, id ? id : first);
    if (!task->has_started) {
        uint64_t missing = missing_before(schedule, task);
        snprintf(text, size,
                 "task %" PRIu64 " has not started, because task %" PRIu64 " has not finished",
                 task->id, missing ? missing : first);
        return;
    }
    size_t i = 0;
    while (task->parts[i].has_finished)
        i++;
    snprintf(text, size,
             "task %" PRIu64 " runs at %zu node%s, of which node %" PRIu32 " is the first",
             task->id, task->n_unfinished, task->n_unfinished == 1 ? "" : "s", task->parts[i].node);
}

uint64_t schedule_progress(const struct schedule *schedule, uint32_t node, uint64_t begin,
                           uint64_t end)
{
    return node == TERN_ALL_NODES ? range_clock_least_of_all(schedule->progress, begin, end)
                                  : range_clock_least(schedule->progress, node, begin, end);
}
