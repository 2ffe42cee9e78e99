/* counts - counting keys: those that are to be admitted, and the heaviest and the cells of a sketch. */
#include "binding.h"

/* With the keys taken. */
static PyObject *count_keys(struct worker *worker, struct table *table, const Py_buffer *keys,
                            PyObject *object)
{
    Py_buffer counts = {0};
    enum tern_status status;
    const bool has_counts = object && object != Py_None;
    if (has_counts && !take_counts(object, "count", &counts))
        return NULL;
    PyObject *answer = NULL;
    if (has_counts && view_count(&counts) != view_count(keys)) {
        raise_sentence(TERN_INVALID, "count: one count for each of %zu keys is needed, not %zu",
                       view_count(keys), view_count(&counts));
    } else {
        Py_BEGIN_ALLOW_THREADS
        status = tern_count(worker->handle, table->handle, keys->buf, view_count(keys), counts.buf);
        Py_END_ALLOW_THREADS
        answer = none_or_raise(status);
    }
    if (has_counts)
        PyBuffer_Release(&counts);
    return answer;
}

PyObject *worker_count(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords)
{
    static const struct signature signature = {"count", {"table", "keys", "counts"}, 2};
    struct worker *worker = (struct worker *)self;
    PyObject *given[6], *answer = NULL;
    Py_buffer keys;
    if (!take_arguments(&signature, arguments, n, keywords, given) || !enter_both(worker, given[0]))
        return NULL;
    if (take_keys(given[1], "count", &keys)) {
        answer = count_keys(worker, (struct table *)given[0], &keys, given[2]);
        PyBuffer_Release(&keys);
    }
    leave_both(worker, given[0]);
    return answer;
}

/* The heaviest keys in new arrays of keys, counts and errors. */
static PyObject *top(struct worker *worker, struct table *table, Py_ssize_t k)
{
    PyObject *arrays[3] = {new_keys(k)}, *cut[3] = {0}, *answer = NULL;
    Py_buffer views[3] = {0};
    size_t n = 0;
    bool taken = arrays[0] && (arrays[1] = new_array(TERN_I64, 1, &k)) &&
                 (arrays[2] = new_array(TERN_I64, 1, &k));
    for (int i = 0; taken && i < 3; i++)
        taken = !PyObject_GetBuffer(arrays[i], &views[i], PyBUF_WRITABLE);
    if (taken) {
        enum tern_status status;
        Py_BEGIN_ALLOW_THREADS
        status = tern_top(worker->handle, table->handle, (size_t)k, views[0].buf, views[1].buf,
                          views[2].buf, &n);
        Py_END_ALLOW_THREADS
        if (status)
            raise_status(status);
        taken = !status;
    }
    for (int i = 0; i < 3; i++) {
        if (views[i].obj)
            PyBuffer_Release(&views[i]);
        if (taken)
            taken = (cut[i] = first_rows(arrays[i], (Py_ssize_t)n));
    }
    if (taken)
        answer = PyTuple_Pack(3, cut[0], cut[1], cut[2]);
    for (int i = 0; i < 3; i++) {
        Py_XDECREF(arrays[i]);
        Py_XDECREF(cut[i]);
    }
    return answer;
}

PyObject *worker_read_cells(PyObject *self, PyObject *arguments)
{
    struct worker *worker = (struct worker *)self;
    PyObject *table, *first_number;
    uint64_t first;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(arguments, "OOn:read_cells", &table, &first_number, &n) ||
        !take_u64(first_number, "first", &first))
        return NULL;
    if (n < 1)
        return raise_sentence(TERN_INVALID, "read_cells: %zd cells cannot be given", n);
    if (!enter_both(worker, table))
        return NULL;
    PyObject *cells = new_array(TERN_I64, 1, &n), *answer = NULL;
    Py_buffer view;
    if (cells && !PyObject_GetBuffer(cells, &view, PyBUF_WRITABLE)) {
        enum tern_status status;
        Py_BEGIN_ALLOW_THREADS
        status = tern_sketch_read_cells(worker->handle, ((struct table *)table)->handle, first,
                                        (size_t)n, view.buf);
        Py_END_ALLOW_THREADS
        PyBuffer_Release(&view);
        answer = status ? raise_status(status) : Py_NewRef(cells);
    }
    Py_XDECREF(cells);
    leave_both(worker, table);
    return answer;
}

PyObject *worker_add_cells(PyObject *self, PyObject *arguments)
{
    struct worker *worker = (struct worker *)self;
    PyObject *table, *first_number, *cells, *answer = NULL;
    uint64_t first;
    Py_buffer view;
    if (!PyArg_ParseTuple(arguments, "OOO:add_cells", &table, &first_number, &cells) ||
        !take_u64(first_number, "first", &first) || !enter_both(worker, table))
        return NULL;
    if (take_values(cells, "add_cells", TERN_I64, false, &view)) {
        enum tern_status status;
        Py_BEGIN_ALLOW_THREADS
        status = tern_sketch_add_cells(worker->handle, ((struct table *)table)->handle, first,
                                       view_count(&view), view.buf);
        Py_END_ALLOW_THREADS
        PyBuffer_Release(&view);
        answer = none_or_raise(status);
    }
    leave_both(worker, table);
    return answer;
}

PyObject *worker_top(PyObject *self, PyObject *arguments)
{
    struct worker *worker = (struct worker *)self;
    PyObject *table;
    Py_ssize_t k;
    if (!PyArg_ParseTuple(arguments, "On:top", &table, &k))
        return NULL;
    if (k < 1)
        return raise_sentence(TERN_INVALID, "top: %zd keys cannot be given", k);
    if (!enter_both(worker, table))
        return NULL;
    PyObject *answer = top(worker, (struct table *)table, k);
    leave_both(worker, table);
    return answer;
}
