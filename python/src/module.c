/* module - the extension `tern._tern`: exceptions, signals, fork, and the module itself. */
#include "binding.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Exceptions ------------------------------------------------------------------------------ */

static PyObject *error_type;      /* tern.Error */
static PyObject *fork_error_type; /* tern.ForkError */
static PyObject *error_types[32]; /* by status; NULL: tern.Error */
static PyObject *status_type;     /* tern.Status, or NULL before the package has given it */

static PyObject *raise_as(PyObject *type, enum tern_status status, const char *sentence)
{
    PyObject *error = PyObject_CallFunction(type, "s", sentence);
    PyObject *number = NULL;
    if (error)
        number = status_type ? PyObject_CallFunction(status_type, "i", (int)status)
                             : PyLong_FromLong((long)status);
    if (number && !PyObject_SetAttrString(error, "status", number))
        PyErr_SetObject(type, error);
    Py_XDECREF(number);
    Py_XDECREF(error);
    return NULL;
}

static PyObject *type_of(enum tern_status status)
{
    PyObject *type =
        (unsigned)status < sizeof error_types / sizeof error_types[0] ? error_types[status] : NULL;
    return type ? type : error_type;
}

PyObject *raise_status(enum tern_status status)
{
    /* A signal handler has raised it, and so ended the wait. */
    if (PyErr_Occurred())
        return NULL;
    return raise_as(type_of(status), status, tern_error());
}

PyObject *raise_sentence(enum tern_status status, const char *format, ...)
{
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return raise_as(type_of(status), status, sentence);
}

PyObject *none_or_raise(enum tern_status status)
{
    if (status)
        return raise_status(status);
    Py_RETURN_NONE;
}

/* ---- Threads, signals, fork ------------------------------------------------------------------ */

static _Thread_local struct {
    bool is_ready; /* its check of signals is set */
    bool in_callback;
} thread;

static unsigned generation = 1; /* of this process: a forked child has another */

static void count_fork(void)
{
    generation++;
    thread.is_ready = false;
}

unsigned process_generation(void)
{
    return generation;
}

bool was_forked(unsigned of)
{
    return of != generation;
}

bool is_own_process(unsigned of)
{
    if (of == generation)
        return true;
    raise_as(fork_error_type, TERN_CLOSED,
             "this process was forked from the one that opened the Tern node, and cannot use it; "
             "start workers of a "
             "DataLoader or a pool with multiprocessing_context='spawn', or use Tern in the "
             "training process alone");
    return false;
}

void in_callback(bool is)
{
    thread.in_callback = is;
}

/* Runs the handlers of signals that have come; they may raise. Python runs handlers in the main thread alone. */
static bool handler_raises(void *context)
{
    (void)context;
    PyGILState_STATE state = PyGILState_Ensure();
    thread.in_callback = true;
    bool raised = PyErr_CheckSignals() < 0;
    thread.in_callback = false;
    PyGILState_Release(state);
    return raised;
}

bool may_call(void)
{
    if (thread.in_callback) {
        raise_sentence(
            TERN_INVALID,
            "a signal handler or callback that runs inside a call of Tern cannot call Tern");
        return false;
    }
    if (!thread.is_ready)
        restore_interrupt();
    return true;
}

void restore_interrupt(void)
{
    thread.is_ready = true;
    if (gettid() == getpid())
        tern_set_interrupt(handler_raises, NULL);
}

/* ---- Functions ------------------------------------------------------------------------------- */

static PyObject *set_classes(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *error, *fork_error, *types, *status, *worker;
    if (!PyArg_ParseTuple(arguments, "OOO!OO", &error, &fork_error, &PyDict_Type, &types, &status,
                          &worker))
        return NULL;
    worker_class = (PyTypeObject *)Py_NewRef(worker);
    error_type = Py_NewRef(error);
    fork_error_type = Py_NewRef(fork_error);
    status_type = Py_NewRef(status);
    PyObject *key, *type;
    Py_ssize_t at = 0;
    while (PyDict_Next(types, &at, &key, &type)) {
        unsigned long i = PyLong_AsUnsignedLong(key);
        if (i >= sizeof error_types / sizeof error_types[0])
            return PyErr_Format(PyExc_ValueError, "no status %lu", i);
        error_types[i] = Py_NewRef(type);
    }
    Py_RETURN_NONE;
}

static PyObject *status_name(PyObject *self, PyObject *status)
{
    (void)self;
    long number = PyLong_AsLong(status);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    return PyUnicode_FromString(tern_status_name((enum tern_status)number));
}

static PyMethodDef functions[] = {
    {"_set_classes", set_classes, METH_VARARGS, "Gives the extension the classes of the package."},
    {"_status_name", status_name, METH_O, "The name of a status of tern.h."},
    {0},
};

PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddType(module, (PyTypeObject *)type) < 0)
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

static bool add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        long value;
    } constants[] = {
        {"MAX_TABLES", (long)TERN_MAX_TABLES},
        {"MAX_NAME", (long)TERN_MAX_NAME},
        {"MAX_VALUE_BYTES", (long)TERN_MAX_VALUE_BYTES},
        {"MAX_ROWS", (long)TERN_MAX_ROWS},
        {"MAX_DENSE_KEYS", (long)TERN_MAX_DENSE_KEYS},
        {"MAX_ADMIT", (long)TERN_MAX_ADMIT},
        {"MAX_BACKUPS", (long)TERN_MAX_BACKUPS},
        {"MAX_EXPECTED_KEYS", (long)TERN_MAX_EXPECTED_KEYS},
        {"MIN_EVICT_BYTES", (long)TERN_MIN_EVICT_BYTES},
        {"MAX_SKETCH_DEPTH", (long)TERN_MAX_SKETCH_DEPTH},
        {"MAX_SKETCH_WIDTH", (long)TERN_MAX_SKETCH_WIDTH},
        {"MAX_SKETCH_COUNTERS", (long)TERN_MAX_SKETCH_COUNTERS},
        {"MAX_DISTS", (long)TERN_MAX_DISTS},
        {"MAX_SAMPLES", (long)TERN_MAX_SAMPLES},
        {"MAX_WEIGHTS", (long)TERN_MAX_WEIGHTS},
        {"MAX_POOL_KEYS", (long)TERN_MAX_POOL_KEYS},
        {"MAX_POOL_USES", (long)TERN_MAX_POOL_USES},
        {"MAX_FUNCTIONS", (long)TERN_MAX_FUNCTIONS},
        {"MAX_TASKS", (long)TERN_MAX_TASKS},
        {"MAX_TASK_BYTES", (long)TERN_MAX_TASK_BYTES},
        {"MAX_TASK_THREADS", (long)TERN_MAX_TASK_THREADS},
        {"MAX_TASK_DEPTH", (long)TERN_MAX_TASK_DEPTH},
        {"MAX_NOTES", (long)TERN_MAX_NOTES},
    };
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
            return false;
    return PyModule_AddStringConstant(module, "version", tern_version()) == 0 &&
           PyModule_AddStringConstant(module, "kernel", tern_kernel_name()) == 0;
}

PyMODINIT_FUNC PyInit__tern(void);

PyMODINIT_FUNC PyInit__tern(void)
{
    static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,
        .m_name = "tern._tern",
        .m_doc = "The C part of the package tern. Use the package.",
        .m_size = -1,
        .m_methods = functions,
    };
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    pthread_atfork(NULL, NULL, count_fork);
    error_type = Py_NewRef(PyExc_RuntimeError);
    fork_error_type = Py_NewRef(PyExc_RuntimeError);
    if (add_constants(module) && PyModule_AddFunctions(module, graph_functions) == 0 &&
        node_init_type(module) && table_init_type(module) && worker_init_type(module) &&
        access_init_types(module) && rows_init_type(module) && sample_init_types(module) &&
        task_init_type(module) && lookup_init_type(module) && checkpoint_init_type(module))
        return module;
    Py_DECREF(module);
    return NULL;
}
