/*
 * task - the public calls on tasks. The parts of tasks.h do the work.
 */
#include "node/tasks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum tern_status check_worker(const struct tern_worker *worker)
{
    if (handle_is((const struct handle *)worker, HANDLE_WORKER))
        return TERN_OK;
    return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
}

/* ---- Functions --------------------------------------------------------------------------------- */

static enum tern_status check_name(const char *call, const char *name)
{
    if (!name)
        return fail(TERN_INVALID, "%s: the function's name is NULL", call);
    size_t n = strnlen(name, TERN_MAX_NAME + 1);
    if (n == 0 || n > TERN_MAX_NAME)
        return fail(TERN_INVALID, "%s: a function's name has 1 to %d characters", call,
                    TERN_MAX_NAME);
    return TERN_OK;
}

/* The lock is held. */
static enum tern_status add(struct tasks *tasks, const char *name, tern_task_function *function,
                            void *context)
{
    if (tasks_find(tasks, name))
        return fail(TERN_MISMATCH, "a function '%s' is registered already", name);
    if (tasks->n_functions == TERN_MAX_FUNCTIONS)
        return fail(TERN_LIMIT, "'%s' would be one more than the %d functions a node can have",
                    name, TERN_MAX_FUNCTIONS);
    struct function *made = malloc(sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "no memory for the function '%s'", name);
    enum tern_status status = sender_start(tasks);
    if (!status)
        status = pool_start(tasks);
    if (status) {
        free(made);
        return status;
    }
    *made = (struct function){.function = function, .context = context};
    strcpy(made->name, name);
    tasks->functions[tasks->n_functions++] = made;
    return TERN_OK;
}

enum tern_status tern_function_register(struct tern_node *node, const char *name,
                                        tern_task_function *function, void *context)
{
    if (!handle_is((const struct handle *)node, HANDLE_NODE))
        return handle_refuse((const struct handle *)node, HANDLE_NODE);
    enum tern_status status = check_name("tern_function_register", name);
    if (status)
        return status;
    if (!function)
        return fail(TERN_INVALID, "tern_function_register: the function '%s' is NULL", name);
    lock_take(&node->tasks->lock);
    status = add(node->tasks, name, function, context);
    lock_release(&node->tasks->lock);
    return status;
}

/* ---- Submitting -------------------------------------------------------------------------------- */

static enum tern_status check_table(const struct tern_worker *worker,
                                    const struct tern_task_options *options)
{
    const struct tern_table *table = options->table;
    if (!table)
        return TERN_OK;
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    if (table->node != worker->node)
        return fail(TERN_MISMATCH, "table '%s' belongs to another node than the worker",
                    table->core.store.name);
    if (table->core.store.index != TERN_DENSE)
        return fail(TERN_INVALID,
                    "the keys of table '%s' are not at home in ranges, because it is sparse",
                    table->core.store.name);
    if (options->end > table->core.store.n_keys)
        return fail(TERN_RANGE,
                    "a task's range ends at %" PRIu64 ", outside table '%s' of %" PRIu64 " keys",
                    options->end, table->core.store.name, table->core.store.n_keys);
    return TERN_OK;
}

static enum tern_status check_sizes(const struct tern_task_options *options)
{
    if (options->argument_bytes > TERN_MAX_TASK_BYTES ||
        options->result_bytes > TERN_MAX_TASK_BYTES)
        return fail(TERN_LIMIT,
                    "a task of '%s' has an argument of %zu and results of %zu bytes; at most %d "
                    "are allowed",
                    options->function, options->argument_bytes, options->result_bytes,
                    TERN_MAX_TASK_BYTES);
    if ((options->argument_bytes && !options->argument) || (options->n_after && !options->after) ||
        (options->result_bytes && !options->results) || (options->n_nodes && !options->nodes))
        return fail(TERN_INVALID, "a task of '%s' has an array that is NULL and not empty",
                    options->function);
    if (options->n_after > TERN_MAX_TASKS)
        return fail(TERN_LIMIT, "a task of '%s' comes after %zu others; at most %d are allowed",
                    options->function, options->n_after, TERN_MAX_TASKS);
    return TERN_OK;
}

static enum tern_status check_range(uint64_t begin, uint64_t end)
{
    if (begin < end || (!begin && !end))
        return TERN_OK;
    return fail(TERN_INVALID, "the range [%" PRIu64 ", %" PRIu64 ") has no key", begin, end);
}

static enum tern_status check_options(const struct tern_worker *worker,
                                      const struct tern_task_options *options)
{
    enum tern_status status = check_worker(worker);
    if (status)
        return status;
    if (!options)
        return fail(TERN_INVALID, "tern_task_submit: the pointer `options` is NULL");
    if (options->struct_size != sizeof *options)
        return fail(TERN_INVALID,
                    "tern_task_options.struct_size is %zu; set it to sizeof, which is %zu",
                    options->struct_size, sizeof *options);
    status = check_name("tern_task_submit", options->function);
    if (!status)
        status = check_sizes(options);
    if (!status)
        status = check_range(options->begin, options->end);
    if (!status)
        status = check_table(worker, options);
    if (!status && (unsigned)options->group > TERN_GROUP_LISTED)
        status = fail(TERN_INVALID, "a task of '%s' is for the unknown group %d", options->function,
                      (int)options->group);
    return status;
}

/* Marks the nodes of a group in `chosen`. */
static enum tern_status choose_nodes(const struct tasks *tasks,
                                     const struct tern_task_options *options, bool *chosen)
{
    view_each (i, tasks->view)
        chosen[i] = options->group == TERN_GROUP_ALL ||
                    (options->group == TERN_GROUP_OTHERS && i != tasks->self);
    if (options->group != TERN_GROUP_LISTED)
        return TERN_OK;
    for (size_t i = 0; i < options->n_nodes; i++) {
        uint32_t node = options->nodes[i];
        if (!view_has(tasks->view, node))
            return fail(TERN_INVALID, "node %" PRIu32 " is not one of %" PRIu32 " nodes", node,
                        view_n_nodes(tasks->view));
        if (chosen[node])
            return fail(TERN_INVALID, "node %" PRIu32 " is listed twice", node);
        chosen[node] = true;
    }
    return TERN_OK;
}

/* The keys a node gets of a task; false: none. */
static bool cut_range(const struct tasks *tasks, const struct tern_task_options *options,
                      uint32_t node, struct task_part *part)
{
    *part = (struct task_part){.node = node, .begin = options->begin, .end = options->end};
    bool all = !options->begin && !options->end;
    if (all)
        part->end = UINT64_MAX;
    if (!options->table)
        return true;
    uint64_t n_keys = options->table->core.store.n_keys;
    uint64_t begin = range_begin(tasks->view, node, n_keys);
    uint64_t end = range_end(tasks->view, node, n_keys);
    part->begin = part->begin > begin ? part->begin : begin;
    part->end = part->end < end ? part->end : end;
    return part->begin < part->end;
}

/* The parts of a task, in memory that the caller frees; NULL, with a sentence, on failure. */
static struct task_part *make_parts(const struct tasks *tasks,
                                    const struct tern_task_options *options, size_t *n,
                                    enum tern_status *status)
{
    struct task_part *parts = calloc(view_capacity(tasks->view), sizeof *parts);
    bool *chosen = calloc(view_capacity(tasks->view), sizeof *chosen);
    *status = parts && chosen
                  ? choose_nodes(tasks, options, chosen)
                  : fail(TERN_NO_MEMORY, "no memory for a task of '%s'", options->function);
    *n = 0;
    view_each_while (i, tasks->view, !*status)
        *n += chosen[i] && cut_range(tasks, options, i, &parts[*n]);
    free(chosen);
    if (!*status && !*n)
        *status = fail(TERN_INVALID, "a task of '%s' is for no node", options->function);
    if (!*status)
        return parts;
    free(parts);
    return NULL;
}

/* A function that is to be run here must be known here: found out at once. The lock is held. */
static enum tern_status check_own_part(const struct tasks *tasks, const struct task_order *order)
{
    for (size_t i = 0; i < order->n_parts; i++)
        if (order->parts[i].node == tasks->self && !tasks_find(tasks, order->name))
            return fail(TERN_INVALID,
                        "no function '%s' is registered at this node; register it at every node",
                        order->name);
    return TERN_OK;
}

static void clear_results(const struct tasks *tasks, const struct task_order *order)
{
    for (uint32_t i = 0; order->result_sizes && i < view_capacity(tasks->view); i++)
        order->result_sizes[i] = 0;
}

/* A thread waits for what its function has submitted. Some are kept for functions that submit nothing more, or all
 * would wait for each other. */
static enum tern_status check_depth(const struct tasks *tasks)
{
    if (tasks->n_waiting < TERN_MAX_TASK_DEPTH)
        return TERN_OK;
    return fail(
        TERN_LIMIT,
        "%zu functions at this node wait for tasks that they have submitted, and no more can",
        tasks->n_waiting);
}

static enum tern_status submit(const struct tern_worker *worker, struct caller *caller,
                               const struct task_order *order, uint64_t *id)
{
    struct tasks *tasks = worker->node->tasks;
    lock_take(&tasks->lock);
    enum tern_status status = check_own_part(tasks, order);
    if (!status && worker->is_pool_thread)
        status = check_depth(tasks);
    if (!status)
        status = sender_start(tasks);
    if (!status)
        status = schedule_submit(caller->schedule, order, id);
    if (!status) {
        clear_results(tasks, order);
        tasks_start(tasks, caller);
        pthread_cond_broadcast(&tasks->finished);
    }
    lock_release(&tasks->lock);
    return status;
}

enum tern_status tern_task_submit(struct tern_worker *worker,
                                  const struct tern_task_options *options, uint64_t *id)
{
    enum tern_status status = check_options(worker, options);
    if (status)
        return status;
    if (!id)
        return fail(TERN_INVALID, "tern_task_submit: the pointer `id` for the result is NULL");
    struct caller *caller = tasks_caller(worker);
    if (!caller)
        return TERN_NO_MEMORY;
    struct tasks *tasks = worker->node->tasks;
    size_t n_parts;
    struct task_part *parts = make_parts(tasks, options, &n_parts, &status);
    if (!parts)
        return status;
    const struct task_order order = {.name = options->function,
                                     .parts = parts,
                                     .n_parts = n_parts,
                                     .after = options->after,
                                     .n_after = options->n_after,
                                     .argument = options->argument,
                                     .argument_bytes = (uint32_t)options->argument_bytes,
                                     .result_bytes = (uint32_t)options->result_bytes,
                                     .results = options->results,
                                     .result_sizes = options->result_sizes};
    status = submit(worker, caller, &order, id);
    free(parts);
    return status;
}

/* ---- Waiting and asking ------------------------------------------------------------------------- */

/* Whether a worker has submitted a task of this number. */
static enum tern_status check_task(const struct tern_worker *worker, uint64_t id)
{
    enum tern_status status = check_worker(worker);
    if (status)
        return status;
    if (!id || !worker->caller || id > schedule_last(worker->caller->schedule))
        return fail(TERN_INVALID, "task %" PRIu64 " was not submitted by this worker", id);
    return TERN_OK;
}

enum tern_status tern_task_wait(struct tern_worker *worker, uint64_t id, uint32_t timeout_ms)
{
    enum tern_status status = id ? check_task(worker, id) : check_worker(worker);
    if (status || !worker->caller)
        return status;
    return tasks_wait(worker->node->tasks, worker, id, timeout_ms);
}

enum tern_status tern_task_test(struct tern_worker *worker, uint64_t id, bool *done)
{
    enum tern_status status = check_task(worker, id);
    if (status)
        return status;
    if (!done)
        return fail(TERN_INVALID, "tern_task_test: the pointer `done` is NULL");
    struct tasks *tasks = worker->node->tasks;
    lock_take(&tasks->lock);
    bool ended = schedule_ended(worker->caller->schedule, id, &status);
    lock_release(&tasks->lock);
    if (!status)
        *done = ended;
    return status;
}

enum tern_status tern_task_delay(struct tern_worker *worker, uint64_t delay)
{
    enum tern_status status = check_worker(worker);
    if (status)
        return status;
    struct caller *caller = tasks_caller(worker);
    if (!caller)
        return TERN_NO_MEMORY;
    struct tasks *tasks = worker->node->tasks;
    lock_take(&tasks->lock);
    schedule_set_delay(caller->schedule, delay);
    tasks_start(tasks, caller);
    lock_release(&tasks->lock);
    return TERN_OK;
}

enum tern_status tern_task_progress(struct tern_worker *worker, uint32_t node, uint64_t begin,
                                    uint64_t end, uint64_t *id)
{
    enum tern_status status = check_worker(worker);
    if (status)
        return status;
    if (!id)
        return fail(TERN_INVALID, "tern_task_progress: the pointer `id` is NULL");
    struct tasks *tasks = worker->node->tasks;
    if (node != TERN_ALL_NODES && !view_has(tasks->view, node))
        return fail(TERN_INVALID, "node %" PRIu32 " is not one of %" PRIu32 " nodes", node,
                    view_n_nodes(tasks->view));
    status = check_range(begin, end);
    if (status)
        return status;
    *id = 0;
    if (!worker->caller)
        return TERN_OK;
    lock_take(&tasks->lock);
    *id = schedule_progress(worker->caller->schedule, node, begin, end ? end : UINT64_MAX);
    lock_release(&tasks->lock);
    return TERN_OK;
}
