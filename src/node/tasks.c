/*
 * tasks - what joins the parts of tasks.h: schedules, inbox, pool and sender.
 *
 * A task for this node itself takes the same way as those of others, but for the message.
 */
#include "node/tasks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/interrupt.h"

#define MS UINT64_C(1000000)

/* ---- Starting and ending tasks ------------------------------------------------------------------- */

static struct caller *find_caller(const struct tasks *tasks, uint64_t worker)
{
    struct caller *caller = tasks->callers;
    while (caller && caller->worker != worker)
        caller = caller->next;
    return caller;
}

const struct function *tasks_find(const struct tasks *tasks, const char *name)
{
    for (size_t i = 0; i < tasks->n_functions; i++)
        if (!strcmp(tasks->functions[i]->name, name))
            return tasks->functions[i];
    return NULL;
}

static struct task_message message_of(const struct caller *caller, const struct task *task,
                                      const struct task_part *part)
{
    return (struct task_message){.worker = caller->worker,
                                 .begin = part->begin,
                                 .end = part->end,
                                 .result_bytes = task->result_bytes,
                                 .name_bytes = (uint16_t)strlen(task->name),
                                 .name = task->name,
                                 .argument_bytes = task->argument_bytes,
                                 .argument = task->argument};
}

/* Sends a part of a task to its node, which may be this one. */
static enum tern_status send_part(struct tasks *tasks, const struct caller *caller,
                                  const struct task *task, const struct task_part *part)
{
    struct task_message content = message_of(caller, task, part);
    if (part->node == tasks->self) {
        enum tern_status status =
            inbox_put(tasks->inbox, tasks->self, tasks->time, task->id, &content);
        pool_call(tasks);
        return status;
    }
    struct message *message = message_new(task_bytes(&content));
    if (!message)
        return fail(TERN_NO_MEMORY, "no memory to send a task");
    message->node = part->node;
    message->kind = FRAME_TASK;
    message->fields.task.time = tasks->time;
    message->fields.task.number = message->id = task->id;
    message->worker = caller->worker;
    message->n_bytes = (uint32_t)task_bytes(&content);
    task_encode(&content, message->body);
    sender_send(tasks, message);
    return TERN_OK;
}

void tasks_start(struct tasks *tasks, struct caller *caller)
{
    const struct task *task;
    while ((task = schedule_next(caller->schedule))) {
        tasks->time++;
        /* A part that cannot be sent fails its task, which stays until that is reported. */
        for (size_t i = 0; i < task->n_parts; i++) {
            enum tern_status status = send_part(tasks, caller, task, &task->parts[i]);
            if (status)
                schedule_finish(caller->schedule, task->id, task->parts[i].node, status,
                                tern_error(), strlen(tern_error()));
        }
    }
}

void tasks_finish(struct tasks *tasks, uint64_t worker, uint64_t id, uint32_t node,
                  enum tern_status status, const void *bytes, size_t n)
{
    struct caller *caller = find_caller(tasks, worker);
    if (!caller || !schedule_finish(caller->schedule, id, node, status, bytes, n))
        return;
    tasks_start(tasks, caller);
    pthread_cond_broadcast(&tasks->finished);
}

void tasks_fail_node(struct tasks *tasks, uint32_t node, const char *sentence)
{
    for (struct caller *caller = tasks->callers; caller; caller = caller->next) {
        schedule_fail_node(caller->schedule, node, sentence);
        tasks_start(tasks, caller);
    }
    pthread_cond_broadcast(&tasks->finished);
}

bool tasks_wait_for(const struct tasks *tasks, uint32_t node)
{
    for (const struct caller *caller = tasks->callers; caller; caller = caller->next)
        if (schedule_waits_for(caller->schedule, node))
            return true;
    return false;
}

/* Waits for some task to finish, or until the time is over: false then. 0: for ever. */
static bool wait_until(struct tasks *tasks, uint64_t end_ns)
{
    uint64_t look_ns = clock_now_ns() + INTERRUPT_MS * MS;
    bool looks = interrupt_is_set() && (!end_ns || look_ns < end_ns);
    if (looks)
        end_ns = look_ns;
    if (end_ns)
        return lock_wait_until(&tasks->lock, &tasks->finished, end_ns) || looks;
    lock_wait(&tasks->lock, &tasks->finished);
    return true;
}

static bool has_ended(struct schedule *schedule, uint64_t id, enum tern_status *status)
{
    return id ? schedule_ended(schedule, id, status) : schedule_all_ended(schedule, status);
}

static enum tern_status still_busy(const struct schedule *schedule, uint64_t id,
                                   uint32_t timeout_ms)
{
    char what[128];
    schedule_explain(schedule, id, what, sizeof what);
    return fail(TERN_BUSY, "not finished within %" PRIu32 " ms: %s", timeout_ms, what);
}

enum tern_status tasks_wait(struct tasks *tasks, const struct tern_worker *worker, uint64_t id,
                            uint32_t timeout_ms)
{
    struct schedule *schedule = worker->caller->schedule;
    uint64_t end_ns = timeout_ms ? clock_now_ns() + timeout_ms * MS : 0;
    enum tern_status status = TERN_OK;
    bool in_time = true;
    lock_take(&tasks->lock);
    /* A thread of the pool that waits makes room for another, which may run what it waits for. */
    tasks->n_waiting += worker->is_pool_thread;
    if (worker->is_pool_thread)
        pool_call(tasks);
    while (!status && !has_ended(schedule, id, &status)) {
        if (tasks->stop)
            status = fail(TERN_CLOSED, "the node is being closed");
        else if (!in_time)
            status = still_busy(schedule, id, timeout_ms);
        else
            in_time = wait_until(tasks, end_ns);
        if (status || !interrupt_is_set())
            continue;
        lock_release(&tasks->lock);
        status = interrupt_check();
        lock_take(&tasks->lock);
    }
    tasks->n_waiting -= worker->is_pool_thread;
    lock_release(&tasks->lock);
    return status;
}

/* ---- Requests of other nodes ---------------------------------------------------------------------- */

/* Takes a task at a node where no function is registered: tells the caller so. */
static enum tern_status turn_away(struct tasks *tasks, uint32_t from, const struct frame *request,
                                  const struct task_message *content)
{
    enum tern_status status = sender_start(tasks);
    struct message *message = status ? NULL : message_new(MAX_SENTENCE);
    if (!message)
        return fail(TERN_NO_MEMORY, "no memory to answer a task");
    status = inbox_put(tasks->inbox, from, request->fields.task.time, request->fields.task.number,
                       content);
    struct inbox_task *task = inbox_next(tasks->inbox);
    if (task) {
        message_tell(message, task, TERN_INVALID,
                     "no function is registered there; register it at every node, then pass a "
                     "barrier");
        sender_send(tasks, message);
        message = NULL;
    }
    free(task);
    message_free(message);
    return status;
}

static enum tern_status take_task(struct tasks *tasks, uint32_t from, const struct frame *request,
                                  const uint8_t *body)
{
    struct task_message content;
    enum tern_status status = task_decode(body, request->body_bytes, &content);
    if (status)
        return status;
    if (!tasks->n_pool)
        return turn_away(tasks, from, request, &content);
    status = inbox_put(tasks->inbox, from, request->fields.task.time, request->fields.task.number,
                       &content);
    pool_call(tasks);
    return status;
}

static enum tern_status take_finished(struct tasks *tasks, uint32_t from,
                                      const struct frame *request, const uint8_t *body)
{
    struct finished_message content;
    enum tern_status status = finished_decode(body, request->body_bytes, &content);
    if (!status)
        tasks_finish(tasks, request->fields.finished.worker, request->fields.finished.number, from,
                     content.status, content.bytes, content.n_bytes);
    return status;
}

static enum tern_status take(void *context, uint32_t from, const struct frame *request,
                             const uint8_t *body)
{
    struct tasks *tasks = context;
    lock_take(&tasks->lock);
    enum tern_status status = request->kind == FRAME_TASK
                                  ? take_task(tasks, from, request, body)
                                  : take_finished(tasks, from, request, body);
    lock_release(&tasks->lock);
    return status;
}

/* ---- Of a node and a worker ------------------------------------------------------------------------ */

/* Has the engine hand over requests; those it held are tried then. */
static void open_port(struct tasks *tasks)
{
    struct engine *engine = tasks->node->engine;
    if (!engine)
        return;
    lock_take(&engine->shards[0].lock);
    engine->shards[0].service.server.tasks = (struct task_port){.context = tasks, .take = take};
    lock_release(&engine->shards[0].lock);
    shard_wake(&engine->shards[0]);
}

static void close_port(struct tasks *tasks)
{
    struct engine *engine = tasks->node->engine;
    if (!engine)
        return;
    lock_take(&engine->shards[0].lock);
    engine->shards[0].service.server.tasks.take = NULL;
    lock_release(&engine->shards[0].lock);
}

struct tasks *tasks_new(struct tern_node *node)
{
    struct tasks *tasks = calloc(1, sizeof *tasks);
    const struct view *view = node_view(node);
    if (tasks)
        tasks->inbox = inbox_new(view);
    if (!tasks || !tasks->inbox) {
        free(tasks);
        fail(TERN_NO_MEMORY, "no memory to open a node");
        return NULL;
    }
    tasks->node = node;
    tasks->self = node->engine ? node->engine->core.node : 0;
    tasks->view = view;
    tasks->wake_fd = -1;
    lock_init(&tasks->lock, RANK_TASKS, 0);
    pthread_cond_init(&tasks->work, NULL);
    condition_init(&tasks->finished);
    open_port(tasks);
    return tasks;
}

void tasks_free(struct tasks *tasks)
{
    pool_end(tasks);
    close_port(tasks);
    sender_end(tasks);
    inbox_free(tasks->inbox);
    for (size_t i = 0; i < tasks->n_functions; i++)
        free(tasks->functions[i]);
    pthread_cond_destroy(&tasks->finished);
    pthread_cond_destroy(&tasks->work);
    lock_fini(&tasks->lock);
    free(tasks);
}

struct caller *tasks_caller(struct tern_worker *worker)
{
    struct tasks *tasks = worker->node->tasks;
    if (worker->caller)
        return worker->caller;
    struct caller *caller = calloc(1, sizeof *caller);
    if (caller)
        caller->schedule = schedule_new(tasks->view);
    if (!caller || !caller->schedule) {
        free(caller);
        fail(TERN_NO_MEMORY, "no memory for the tasks of a worker");
        return NULL;
    }
    caller->worker = worker->number;
    lock_take(&tasks->lock);
    caller->next = tasks->callers;
    tasks->callers = caller;
    lock_release(&tasks->lock);
    worker->caller = caller;
    return caller;
}

enum tern_status tasks_end_worker(struct tern_worker *worker)
{
    struct tasks *tasks = worker->node->tasks;
    struct caller *caller = worker->caller;
    if (!caller)
        return TERN_OK;
    lock_take(&tasks->lock);
    bool idle = schedule_is_idle(caller->schedule) || tasks->stop;
    struct caller **link = &tasks->callers;
    while (idle && *link != caller)
        link = &(*link)->next;
    if (idle)
        *link = caller->next;
    lock_release(&tasks->lock);
    if (!idle)
        return fail(TERN_BUSY, "tasks of the worker have not finished; wait for them first");
    worker->caller = NULL;
    schedule_free(caller->schedule);
    free(caller);
    return TERN_OK;
}
