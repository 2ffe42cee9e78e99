/* rows - ranges of keys, and the type Pin for rows that are used in place. */
#include "binding.h"

#include <stdlib.h>

PyTypeObject *pin_type;

/* ---- Ranges ---------------------------------------------------------------------------------- */

/* Reads the range into new arrays; the caller cuts them. */
static PyObject *pull_range(struct worker *worker, struct table *table, uint64_t begin,
                            uint64_t end, Py_ssize_t capacity, bool with_values)
{
    Py_ssize_t shape[2] = {capacity, (Py_ssize_t)table->length};
    PyObject *keys = new_keys(capacity), *values = NULL, *answer = NULL;
    Py_buffer key_view = {0}, value_view = {0};
    size_t n = 0;
    enum tern_status status;
    if (keys)
        values = with_values ? new_array(table->type, 2, shape) : Py_NewRef(Py_None);
    bool taken = values && !PyObject_GetBuffer(keys, &key_view, PyBUF_WRITABLE) &&
                 (!with_values || !PyObject_GetBuffer(values, &value_view, PyBUF_WRITABLE));
    if (taken) {
        Py_BEGIN_ALLOW_THREADS
        status = tern_pull_range(worker->handle, table->handle, begin, end, (size_t)capacity,
                                 key_view.buf, value_view.buf, &n);
        Py_END_ALLOW_THREADS
        if (status)
            raise_status(status);
        taken = !status;
    }
    if (key_view.obj)
        PyBuffer_Release(&key_view);
    if (value_view.obj)
        PyBuffer_Release(&value_view);
    if (taken) {
        PyObject *some_keys = first_rows(keys, (Py_ssize_t)n);
        PyObject *some = with_values ? first_rows(values, (Py_ssize_t)n) : Py_NewRef(Py_None);
        if (some_keys && some)
            answer = PyTuple_Pack(2, some_keys, some);
        Py_XDECREF(some_keys);
        Py_XDECREF(some);
    }
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return answer;
}

PyObject *worker_pull_range(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"table", "begin", "end", "capacity", "values", NULL};
    struct worker *worker = (struct worker *)self;
    PyObject *table, *begin_object, *end_object;
    Py_ssize_t capacity;
    int with_values = 1;
    uint64_t begin, end;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOn|p:pull_range", names, &table,
                                     &begin_object, &end_object, &capacity, &with_values) ||
        !take_u64(begin_object, "begin", &begin) || !take_u64(end_object, "end", &end))
        return NULL;
    if (capacity < 0)
        return raise_sentence(TERN_INVALID, "pull_range: a capacity of %zd makes no sense",
                              capacity);
    if (!enter_both(worker, table))
        return NULL;
    PyObject *answer = pull_range(worker, (struct table *)table, begin, end, capacity, with_values);
    leave_both(worker, table);
    return answer;
}

PyObject *worker_push_range(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"table", "begin", "end", "updates", NULL};
    struct worker *worker = (struct worker *)self;
    PyObject *table, *begin_object, *end_object, *updates;
    Py_buffer view;
    uint64_t begin, end;
    enum tern_status status = TERN_OK;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOOO:push_range", names, &table,
                                     &begin_object, &end_object, &updates) ||
        !take_u64(begin_object, "begin", &begin) || !take_u64(end_object, "end", &end) ||
        !enter_both(worker, table))
        return NULL;
    const struct table *of = (struct table *)table;
    bool taken = take_values(updates, "push_range", of->type, false, &view);
    if (taken && (view.ndim != 2 || view.shape[1] != (Py_ssize_t)of->length)) {
        raise_sentence(TERN_INVALID, "push_range: the shape must be (n, %u)", of->length);
        PyBuffer_Release(&view);
        taken = false;
    }
    if (taken) {
        Py_BEGIN_ALLOW_THREADS
        status = tern_push_range(worker->handle, of->handle, begin, end, (size_t)view.shape[0],
                                 view.buf);
        Py_END_ALLOW_THREADS
        PyBuffer_Release(&view);
    }
    leave_both(worker, table);
    return taken ? none_or_raise(status) : NULL;
}

/* ---- Pins ------------------------------------------------------------------------------------ */

/*
 * A pin lends the memory of rows to arrays, which may outlive it: numpy asks for the buffer of a Row and keeps that.
 * So rows are unpinned when the pin is ended and no array refers to one of them; until then `close` is refused.
 */
struct pin {
    PyObject_HEAD
    struct worker *worker;
    struct table *table;
    uint64_t *keys;
    void **rows;
    size_t n;
    size_t n_exports; /* buffers of rows in use */
    bool is_open;
};

/* Gives the buffer of one row. */
struct row {
    PyObject_HEAD
    struct pin *pin;
    size_t index;
    Py_ssize_t shape, stride;
};

static PyTypeObject *row_type;

static int row_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    static char *formats[] = {"f", "d", "i", "l"};
    struct row *row = (struct row *)self;
    struct pin *pin = row->pin;
    view->obj = NULL;
    if (!pin->is_open || !pin->worker->handle) {
        raise_sentence(TERN_CLOSED, "the rows are not pinned any more");
        return -1;
    }
    size_t bytes = type_bytes(pin->table->type);
    *view = (Py_buffer){
        .buf = pin->rows[row->index],
        .obj = Py_NewRef(self),
        .len = (Py_ssize_t)(pin->table->length * bytes),
        .itemsize = (Py_ssize_t)bytes,
        .ndim = 1,
        .format = flags & PyBUF_FORMAT ? formats[pin->table->type] : NULL,
        .shape = flags & PyBUF_ND ? &row->shape : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? &row->stride : NULL,
    };
    pin->n_exports++;
    return 0;
}

static void row_release_buffer(PyObject *self, Py_buffer *view)
{
    (void)view;
    ((struct row *)self)->pin->n_exports--;
}

static void row_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Py_XDECREF((PyObject *)((struct row *)self)->pin);
    release(self);
    Py_DECREF(type);
}

static int pin_init(PyObject *self, PyObject *arguments, PyObject *unused)
{
    (void)unused;
    struct pin *pin = (struct pin *)self;
    PyObject *worker, *table, *keys;
    Py_buffer view;
    if (!PyArg_ParseTuple(arguments, "O!O!O", worker_type, &worker, table_type, &table, &keys))
        return -1;
    if (pin->worker) {
        raise_sentence(TERN_BUSY, "the rows are pinned");
        return -1;
    }
    if (!enter_both((struct worker *)worker, table))
        return -1;
    bool done = false;
    if (take_keys(keys, "pin", &view)) {
        size_t n = view_count(&view);
        pin->keys = malloc((n + 1) * sizeof *pin->keys);
        pin->rows = malloc((n + 1) * sizeof *pin->rows);
        enum tern_status status = TERN_NO_MEMORY;
        if (pin->keys && pin->rows) {
            for (size_t i = 0; i < n; i++)
                pin->keys[i] = ((const uint64_t *)view.buf)[i];
            Py_BEGIN_ALLOW_THREADS
            status = tern_pin(((struct worker *)worker)->handle, ((struct table *)table)->handle,
                              pin->keys, n, pin->rows);
            Py_END_ALLOW_THREADS
            if (status)
                raise_status(status);
        } else {
            PyErr_NoMemory();
        }
        done = !status;
        pin->n = n;
        PyBuffer_Release(&view);
    }
    leave_both((struct worker *)worker, table);
    if (!done)
        return -1;
    pin->worker = (struct worker *)Py_NewRef(worker);
    pin->table = (struct table *)Py_NewRef(table);
    pin->is_open = true;
    return 0;
}

static enum tern_status unpin(struct pin *pin)
{
    enum tern_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tern_unpin(pin->worker->handle, pin->table->handle, pin->keys, pin->n);
    Py_END_ALLOW_THREADS
    pin->is_open = false;
    return status;
}

static PyObject *pin_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct pin *pin = (struct pin *)self;
    if (!pin->is_open)
        Py_RETURN_NONE;
    if (pin->n_exports)
        return raise_sentence(TERN_BUSY, "%zu arrays still refer to pinned rows; delete them first",
                              pin->n_exports);
    if (!enter_both(pin->worker, (PyObject *)pin->table))
        return NULL;
    enum tern_status status = unpin(pin);
    leave_both(pin->worker, (PyObject *)pin->table);
    return none_or_raise(status);
}

/* The rows as objects with a buffer each. */
static PyObject *pin_rows(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct pin *pin = (struct pin *)self;
    allocfunc allocate = (allocfunc)PyType_GetSlot(row_type, Py_tp_alloc);
    PyObject *list = PyList_New((Py_ssize_t)pin->n);
    for (size_t i = 0; list && i < pin->n; i++) {
        struct row *row = (struct row *)allocate(row_type, 0);
        if (row) {
            row->pin = (struct pin *)Py_NewRef(self);
            row->index = i;
            row->shape = (Py_ssize_t)pin->table->length;
            row->stride = (Py_ssize_t)type_bytes(pin->table->type);
        }
        if (!row || PyList_SetItem(list, (Py_ssize_t)i, (PyObject *)row) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* No array refers to a row when nobody refers to the pin. */
static void pin_dealloc(PyObject *self)
{
    struct pin *pin = (struct pin *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    if (pin->is_open && pin->worker->handle && !pin->worker->busy &&
        !was_forked(pin->worker->node->generation)) {
        pin->worker->busy = true;
        unpin(pin);
        pin->worker->busy = false;
    }
    Py_XDECREF((PyObject *)pin->worker);
    Py_XDECREF((PyObject *)pin->table);
    free(pin->keys);
    free(pin->rows);
    release(self);
    Py_DECREF(type);
}

bool rows_init_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"close", pin_close, METH_NOARGS, "close()\n\nUnpins the rows."},
        {"_rows", pin_rows, METH_NOARGS, "The rows, each with a buffer."},
        {0},
    };
    static PyType_Slot slots[] = {
        {Py_tp_init, pin_init},
        {Py_tp_dealloc, pin_dealloc},
        {Py_tp_methods, methods},
        {0},
    };
    static PyType_Spec spec = {
        .name = "tern._tern.Pin",
        .basicsize = sizeof(struct pin),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    static PyType_Slot row_slots[] = {
        {Py_tp_dealloc, row_dealloc},
        {Py_bf_getbuffer, row_get_buffer},
        {Py_bf_releasebuffer, row_release_buffer},
        {0},
    };
    static PyType_Spec row_spec = {
        .name = "tern._tern.Row",
        .basicsize = sizeof(struct row),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = row_slots,
    };
    return (pin_type = add_type(module, &spec)) && (row_type = add_type(module, &row_spec));
}
