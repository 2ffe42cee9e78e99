/* sweep - rows leave a table for which a function of Python says so. */
#include "binding.h"

#include <string.h>

struct sweep {
    PyObject *function;
    const struct table *table;
    bool failed; /* the function has raised: it is not called again */
};

/* A copy of a row as an array. */
static PyObject *copy_row(const struct table *table, const void *value)
{
    const Py_ssize_t length = table->length;
    Py_buffer view;
    PyObject *array = new_array(table->type, 1, &length);
    if (!array || PyObject_GetBuffer(array, &view, PyBUF_WRITABLE)) {
        Py_XDECREF(array);
        return NULL;
    }
    memcpy(view.buf, value, table->length * type_bytes(table->type));
    PyBuffer_Release(&view);
    return array;
}

/* Asks the function about a row; its exception stays set in this thread. */
static bool ask(void *context, uint64_t key, const void *value)
{
    struct sweep *sweep = context;
    if (sweep->failed)
        return false;
    PyGILState_STATE state = PyGILState_Ensure();
    in_callback(true);
    PyObject *row = copy_row(sweep->table, value);
    PyObject *answer =
        row ? PyObject_CallFunction(sweep->function, "KO", (unsigned long long)key, row) : NULL;
    const int leaves = answer ? PyObject_IsTrue(answer) : -1;
    sweep->failed = leaves < 0;
    in_callback(false);
    Py_XDECREF(row);
    Py_XDECREF(answer);
    PyGILState_Release(state);
    return leaves > 0;
}

PyObject *worker_sweep(PyObject *self, PyObject *arguments)
{
    struct worker *worker = (struct worker *)self;
    PyObject *table, *function;
    uint64_t n = 0;
    enum tern_status status;
    if (!PyArg_ParseTuple(arguments, "OO:sweep", &table, &function))
        return NULL;
    if (!PyCallable_Check(function))
        return raise_sentence(TERN_INVALID, "sweep: a function of a key and its row is needed");
    if (!enter_both(worker, table))
        return NULL;
    struct sweep sweep = {.function = function, .table = (struct table *)table};
    Py_BEGIN_ALLOW_THREADS
    status = tern_sweep(worker->handle, sweep.table->handle, ask, &sweep, &n);
    Py_END_ALLOW_THREADS
    leave_both(worker, table);
    if (sweep.failed)
        return NULL;
    return status ? raise_status(status) : PyLong_FromUnsignedLongLong(n);
}
