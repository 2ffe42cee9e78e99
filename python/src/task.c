/* task - Python functions that run at nodes, and the type Task for those that were submitted. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *task_type;

struct function {
    struct function *next;
    struct node *node; /* which owns it */
    PyObject *callable;
};

struct task {
    PyObject_HEAD
    struct worker *worker;
    uint64_t id;
    uint32_t n_nodes;
    size_t result_bytes;
    char *results;
    size_t *sizes; /* of each node's result */
    bool is_finished;
};

/* ---- Functions ------------------------------------------------------------------------------- */

/* Puts the exception into the task's sentence. */
static enum tern_status report(struct tern_task *task)
{
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    PyObject *name = kind ? PyObject_GetAttrString(kind, "__name__") : NULL;
    const char *text_utf8 = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    const char *name_utf8 = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    snprintf(task->trouble, sizeof task->trouble, "%s: %s", name_utf8 ? name_utf8 : "an exception",
             text_utf8 ? text_utf8 : "?");
    Py_XDECREF(text);
    Py_XDECREF(name);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    PyErr_Clear();
    return TERN_INVALID;
}

static bool take_result(PyObject *answer, struct tern_task *task)
{
    Py_buffer view;
    if (answer == Py_None)
        return true;
    if (PyObject_GetBuffer(answer, &view, PyBUF_SIMPLE))
        return false;
    bool fits = (size_t)view.len <= task->result_room;
    if (fits) {
        memcpy(task->result, view.buf, (size_t)view.len);
        task->result_bytes = (size_t)view.len;
    } else {
        PyErr_Format(PyExc_ValueError,
                     "a result of %zd bytes does not fit into the %zu that the caller has room for",
                     view.len, task->result_room);
    }
    PyBuffer_Release(&view);
    return fits;
}

/* Runs on a thread of Tern's. */
static enum tern_status run(void *context, struct tern_task *task)
{
    const struct function *function = context;
    if (was_forked(function->node->generation))
        return TERN_CLOSED;
    PyGILState_STATE state = PyGILState_Ensure();
    enum tern_status status = TERN_OK;
    struct worker *worker = worker_lend(function->node, task->worker);
    PyObject *argument =
        PyBytes_FromStringAndSize(task->argument, (Py_ssize_t)task->argument_bytes);
    PyObject *answer = NULL;
    if (worker && argument)
        answer =
            PyObject_CallFunction(function->callable, "OIKKKO", worker, (unsigned)task->caller,
                                  (unsigned long long)task->id, (unsigned long long)task->begin,
                                  (unsigned long long)task->end, argument);
    if (!answer || !take_result(answer, task))
        status = report(task);
    Py_XDECREF(answer);
    Py_XDECREF(argument);
    if (worker)
        worker_unlend(worker);
    PyGILState_Release(state);
    return status;
}

static PyObject *node_register(PyObject *self, PyObject *arguments)
{
    (void)self;
    struct node *node;
    const char *name;
    PyObject *callable;
    enum tern_status status;
    if (!PyArg_ParseTuple(arguments, "O!sO", node_type, &node, &name, &callable) ||
        !node_enter(node))
        return NULL;
    struct function *function = malloc(sizeof *function);
    if (!function) {
        node_leave(node);
        return PyErr_NoMemory();
    }
    *function =
        (struct function){.next = node->functions, .node = node, .callable = Py_NewRef(callable)};
    Py_BEGIN_ALLOW_THREADS
    status = tern_function_register(node->handle, name, run, function);
    Py_END_ALLOW_THREADS
    node_leave(node);
    if (status) {
        Py_DECREF(callable);
        free(function);
        return raise_status(status);
    }
    node->functions = function;
    Py_RETURN_NONE;
}

void task_free_functions(struct node *node)
{
    while (node->functions) {
        struct function *function = node->functions;
        node->functions = function->next;
        Py_DECREF(function->callable);
        free(function);
    }
}

/* ---- Submitting ------------------------------------------------------------------------------ */

/* A task object with room for results of all nodes. */
static struct task *new_task(struct worker *worker, size_t result_bytes)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(task_type, Py_tp_alloc);
    struct task *task = (struct task *)allocate(task_type, 0);
    if (!task)
        return NULL;
    task->is_finished = true; /* so far */
    task->worker = (struct worker *)Py_NewRef((PyObject *)worker);
    tern_node_self(worker->node->handle, NULL, &task->n_nodes);
    task->result_bytes = result_bytes;
    task->results = calloc(task->n_nodes, result_bytes + 1);
    task->sizes = calloc(task->n_nodes, sizeof *task->sizes);
    if (task->results && task->sizes)
        return task;
    Py_DECREF((PyObject *)task);
    PyErr_NoMemory();
    return NULL;
}

/* _submit(function, group, nodes, begin, end, table, argument, after, result_bytes): nodes is an array of uint32 as
 * bytes, after an array of uint64 as bytes. */
PyObject *worker_submit(PyObject *self, PyObject *arguments)
{
    struct worker *worker = (struct worker *)self;
    struct tern_task_options options = {.struct_size = sizeof options};
    int group;
    Py_buffer nodes, argument, after;
    PyObject *table;
    Py_ssize_t result_bytes;
    unsigned long long begin, end;
    enum tern_status status;
    if (!PyArg_ParseTuple(arguments, "siy*KKOy*y*n", &options.function, &group, &nodes, &begin,
                          &end, &table, &argument, &after, &result_bytes))
        return NULL;
    PyObject *answer = NULL;
    if (result_bytes < 0 || result_bytes > TERN_MAX_TASK_BYTES)
        raise_sentence(TERN_LIMIT, "result_bytes: 0 to %d are possible, not %zd",
                       TERN_MAX_TASK_BYTES, result_bytes);
    else if (table == Py_None ? worker_enter(worker) : enter_both(worker, table)) {
        struct task *task = new_task(worker, (size_t)result_bytes);
        if (task) {
            options.group = (enum tern_group)group;
            options.nodes = nodes.buf;
            options.n_nodes = (size_t)nodes.len / sizeof(uint32_t);
            options.begin = begin;
            options.end = end;
            options.table = table == Py_None ? NULL : ((struct table *)table)->handle;
            options.argument = argument.buf;
            options.argument_bytes = (size_t)argument.len;
            options.after = after.buf;
            options.n_after = (size_t)after.len / sizeof(uint64_t);
            options.results = result_bytes ? task->results : NULL;
            options.result_bytes = (size_t)result_bytes;
            options.result_sizes = result_bytes ? task->sizes : NULL;
            Py_BEGIN_ALLOW_THREADS
            status = tern_task_submit(worker->handle, &options, &task->id);
            Py_END_ALLOW_THREADS
            task->is_finished = status;
            if (status) {
                Py_DECREF((PyObject *)task);
                raise_status(status);
            } else {
                answer = (PyObject *)task;
            }
        }
        if (table == Py_None)
            worker_leave(worker);
        else
            leave_both(worker, table);
    }
    PyBuffer_Release(&nodes);
    PyBuffer_Release(&argument);
    PyBuffer_Release(&after);
    return answer;
}

PyObject *worker_task_delay(PyObject *self, PyObject *delay)
{
    struct worker *worker = (struct worker *)self;
    uint64_t number = TERN_EVENTUAL;
    enum tern_status status;
    if ((delay != Py_None && !take_u64(delay, "delay", &number)) || !worker_enter(worker))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_task_delay(worker->handle, number);
    Py_END_ALLOW_THREADS
    worker_leave(worker);
    return none_or_raise(status);
}

PyObject *worker_task_progress(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"node", "begin", "end", NULL};
    struct worker *worker = (struct worker *)self;
    PyObject *node = Py_None;
    unsigned long long begin = 0, end = 0;
    uint64_t number = TERN_ALL_NODES, id;
    enum tern_status status;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OKK:task_progress", names, &node,
                                     &begin, &end) ||
        (node != Py_None && !take_u64(node, "node", &number)) || !worker_enter(worker))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_task_progress(worker->handle, (uint32_t)number, begin, end, &id);
    Py_END_ALLOW_THREADS
    worker_leave(worker);
    return status ? raise_status(status) : PyLong_FromUnsignedLongLong(id);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* A timeout in seconds, None for ever, in milliseconds, at least 1. */
static bool take_timeout(PyObject *object, uint32_t *timeout_ms)
{
    *timeout_ms = 0;
    if (object == Py_None)
        return true;
    double seconds = PyFloat_AsDouble(object);
    if (seconds == -1 && PyErr_Occurred())
        return false;
    if (!(seconds >= 0 && seconds <= 4e6)) {
        raise_sentence(TERN_INVALID, "timeout: 0 to 4000000 seconds are possible");
        return false;
    }
    *timeout_ms = seconds < 0.001 ? 1 : (uint32_t)(seconds * 1000);
    return true;
}

static bool wait_for(struct worker *worker, uint64_t id, uint32_t timeout_ms,
                     enum tern_status *status)
{
    if (!worker_enter(worker))
        return false;
    Py_BEGIN_ALLOW_THREADS
    *status = tern_task_wait(worker->handle, id, timeout_ms);
    Py_END_ALLOW_THREADS
    worker_leave(worker);
    return true;
}

/* What did not finish in time is a TimeoutError. */
static PyObject *none_or_late(enum tern_status status)
{
    return status == TERN_BUSY ? raise_sentence(TERN_LATE, "%s", tern_error())
                               : none_or_raise(status);
}

PyObject *worker_task_wait(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"timeout", NULL};
    PyObject *timeout = Py_None;
    uint32_t timeout_ms;
    enum tern_status status;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:task_wait", names, &timeout) ||
        !take_timeout(timeout, &timeout_ms) ||
        !wait_for((struct worker *)self, 0, timeout_ms, &status))
        return NULL;
    return none_or_late(status);
}

static PyObject *task_wait(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"timeout", NULL};
    struct task *task = (struct task *)self;
    PyObject *timeout = Py_None;
    uint32_t timeout_ms;
    enum tern_status status = TERN_OK;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:wait", names, &timeout) ||
        !take_timeout(timeout, &timeout_ms))
        return NULL;
    if (!task->is_finished && !wait_for(task->worker, task->id, timeout_ms, &status))
        return NULL;
    if (status != TERN_BUSY && status != TERN_INTERRUPTED)
        task->is_finished = true;
    return none_or_late(status);
}

static PyObject *task_done(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct task *task = (struct task *)self;
    bool done = true;
    enum tern_status status = TERN_OK;
    if (!task->is_finished && task->worker->handle) {
        if (!worker_enter(task->worker))
            return NULL;
        Py_BEGIN_ALLOW_THREADS
        status = tern_task_test(task->worker->handle, task->id, &done);
        Py_END_ALLOW_THREADS
        worker_leave(task->worker);
    }
    return status ? raise_status(status) : PyBool_FromLong(done);
}

static PyObject *task_results(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct task *task = (struct task *)self;
    if (!task->is_finished)
        return raise_sentence(TERN_BUSY, "the task has not been waited for");
    PyObject *list = PyList_New((Py_ssize_t)task->n_nodes);
    for (uint32_t i = 0; list && i < task->n_nodes; i++) {
        PyObject *bytes = PyBytes_FromStringAndSize(task->results + i * task->result_bytes,
                                                    (Py_ssize_t)task->sizes[i]);
        if (!bytes || PyList_SetItem(list, (Py_ssize_t)i, bytes) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *task_id(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((struct task *)self)->id);
}

/* Tern writes results until the task has finished. */
static void task_dealloc(PyObject *self)
{
    struct task *task = (struct task *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    struct worker *worker = task->worker;
    bool may_free = task->is_finished || !worker->handle;
    if (!may_free && !worker->busy && !was_forked(worker->node->generation)) {
        worker->busy = true;
        Py_BEGIN_ALLOW_THREADS
        may_free = tern_task_wait(worker->handle, task->id, 0) != TERN_INTERRUPTED;
        Py_END_ALLOW_THREADS
        worker->busy = false;
    }
    if (may_free) {
        free(task->results);
        free(task->sizes);
    }
    Py_XDECREF((PyObject *)worker);
    release(self);
    Py_DECREF(type);
}

bool task_init_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"wait", (PyCFunction)(void (*)(void))task_wait, METH_VARARGS | METH_KEYWORDS,
         "wait(timeout=None)\n\nWaits until the task has finished; raises what went wrong."},
        {"done", task_done, METH_NOARGS, "done()\n\nWhether the task has finished."},
        {"results", task_results, METH_NOARGS,
         "results()\n\nThe bytes that each node's function returned, by node."},
        {0},
    };
    static PyGetSetDef getters[] = {
        {"id", task_id, NULL, "Its number, for its worker, from 1.", NULL}, {0}};
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, task_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_getset, getters},
        {Py_tp_doc, "A task that was submitted. Worker.submit makes it."},
        {0},
    };
    static PyType_Spec spec = {
        .name = "tern._tern.Task",
        .basicsize = sizeof(struct task),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    static PyMethodDef functions[] = {
        {"_register", node_register, METH_VARARGS, "See Node.register."},
        {0},
    };
    return PyModule_AddFunctions(module, functions) == 0 && (task_type = add_type(module, &spec));
}
