/* checkpoint - the type Checkpoint, and the methods of Node that write one. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *checkpoint_type;

struct checkpoint {
    PyObject_HEAD
    struct tern_checkpoint *handle; /* NULL: closed */
    unsigned users;
};

/* ---- Writing --------------------------------------------------------------------------------- */

/* Takes the notes of a dict, name to buffer; returns how many, or -1 after an exception. *views and *names are to be
 * freed by release_notes in any case. */
struct notes {
    struct tern_note at[TERN_MAX_NOTES];
    Py_buffer views[TERN_MAX_NOTES];
    PyObject *names[TERN_MAX_NOTES]; /* bytes */
    size_t n;
};

static bool add_note(struct notes *notes, PyObject *name, PyObject *data)
{
    if (notes->n == TERN_MAX_NOTES) {
        raise_sentence(TERN_LIMIT, "a checkpoint has at most %d notes of a node", TERN_MAX_NOTES);
        return false;
    }
    if (!PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "notes: the name of a note is a str");
        return false;
    }
    Py_buffer *view = &notes->views[notes->n];
    PyObject *text = PyUnicode_AsUTF8String(name);
    if (!text)
        return false;
    if (PyObject_GetBuffer(data, view, PyBUF_SIMPLE)) {
        Py_DECREF(text);
        return false;
    }
    notes->names[notes->n] = text;
    notes->at[notes->n++] =
        (struct tern_note){PyBytes_AsString(text), view->buf, (size_t)view->len};
    return true;
}

static bool take_notes(struct notes *notes, PyObject *given)
{
    if (!given || given == Py_None)
        return true;
    if (!PyDict_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "notes: a dict of names and bytes is needed");
        return false;
    }
    PyObject *name, *data;
    for (Py_ssize_t at = 0; PyDict_Next(given, &at, &name, &data);)
        if (!add_note(notes, name, data))
            return false;
    return true;
}

static void release_notes(struct notes *notes)
{
    for (size_t i = 0; i < notes->n; i++) {
        PyBuffer_Release(&notes->views[i]);
        Py_DECREF(notes->names[i]);
    }
    free(notes);
}

PyObject *node_checkpoint_start(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"path", "notes", "changes", NULL};
    struct node *node = (struct node *)self;
    PyObject *path, *given = NULL;
    int changes = 0;
    enum tern_status status;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&|Op:checkpoint_start", names,
                                     PyUnicode_FSConverter, &path, &given, &changes))
        return NULL;
    struct notes *notes = calloc(1, sizeof *notes);
    if (!notes) {
        Py_DECREF(path);
        return PyErr_NoMemory();
    }
    if (!take_notes(notes, given) || !node_enter(node)) {
        release_notes(notes);
        Py_DECREF(path);
        return NULL;
    }
    const char *text = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    status = (changes ? tern_checkpoint_start_changes : tern_checkpoint_start)(node->handle, text,
                                                                               notes->at, notes->n);
    Py_END_ALLOW_THREADS
    node_leave(node);
    release_notes(notes);
    Py_DECREF(path);
    return none_or_raise(status);
}

PyObject *node_checkpoint_wait(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct node *node = (struct node *)self;
    enum tern_status status;
    if (!node_enter(node))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_checkpoint_wait(node->handle);
    Py_END_ALLOW_THREADS
    node_leave(node);
    return none_or_raise(status);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int checkpoint_init(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"path", NULL};
    struct checkpoint *checkpoint = (struct checkpoint *)self;
    struct tern_checkpoint *made = NULL;
    PyObject *path;
    enum tern_status status;
    if (checkpoint->handle) {
        raise_sentence(TERN_INVALID, "the checkpoint is open already");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&:Checkpoint", names,
                                     PyUnicode_FSConverter, &path))
        return -1;
    const char *text = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    status = tern_checkpoint_open(text, &made);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (status) {
        raise_status(status);
        return -1;
    }
    checkpoint->handle = made;
    return 0;
}

/* Begin and end a call: the checkpoint is open and stays so. */
static bool enter(struct checkpoint *checkpoint)
{
    if (!checkpoint->handle) {
        raise_sentence(TERN_CLOSED, "the checkpoint is closed");
        return false;
    }
    checkpoint->users++;
    return true;
}

static void leave(struct checkpoint *checkpoint)
{
    checkpoint->users--;
}

static PyObject *checkpoint_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct checkpoint *checkpoint = (struct checkpoint *)self;
    if (checkpoint->users)
        return raise_sentence(TERN_BUSY, "another thread is using the checkpoint");
    if (checkpoint->handle)
        (void)tern_checkpoint_close(checkpoint->handle);
    checkpoint->handle = NULL;
    Py_RETURN_NONE;
}

static void checkpoint_dealloc(PyObject *self)
{
    struct checkpoint *checkpoint = (struct checkpoint *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (checkpoint->handle)
        (void)tern_checkpoint_close(checkpoint->handle);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *checkpoint_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *checkpoint_exit(PyObject *self, PyObject *unused)
{
    (void)unused;
    return checkpoint_close(self, NULL);
}

static PyObject *describe_table(const struct tern_checkpoint_table *table)
{
    return Py_BuildValue("{s:s,s:s,s:s,s:O,s:K,s:I,s:I}", "name", table->name, "update",
                         table->updater, "dtype", type_name(table->type), "keys", Py_None, "rows",
                         (unsigned long long)table->n_rows, "length", table->length, "state_length",
                         table->state_length);
}

static PyObject *list_tables(struct tern_checkpoint *handle, size_t n)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        struct tern_checkpoint_table table = {.struct_size = sizeof table};
        PyObject *one =
            tern_checkpoint_get_table(handle, i, &table) ? NULL : describe_table(&table);
        if (one && table.index == TERN_DENSE) {
            PyObject *keys = PyLong_FromUnsignedLongLong(table.n_keys);
            if (!keys || PyDict_SetItemString(one, "keys", keys))
                Py_CLEAR(one);
            Py_XDECREF(keys);
        }
        if (!one || PyList_Append(list, one))
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *checkpoint_info(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct checkpoint *checkpoint = (struct checkpoint *)self;
    struct tern_checkpoint_info info = {.struct_size = sizeof info};
    if (!enter(checkpoint))
        return NULL;
    enum tern_status status = tern_checkpoint_get_info(checkpoint->handle, &info);
    PyObject *tables = status ? NULL : list_tables(checkpoint->handle, info.n_tables);
    leave(checkpoint);
    if (status)
        return raise_status(status);
    if (!tables)
        return NULL;
    return Py_BuildValue("{s:I,s:K,s:K,s:K,s:K,s:N}", "nodes", info.n_nodes, "files",
                         (unsigned long long)info.n_files, "bytes", (unsigned long long)info.bytes,
                         "lowest_clock", (unsigned long long)info.lowest_clock, "highest_clock",
                         (unsigned long long)info.highest_clock, "tables", tables);
}

static PyObject *checkpoint_verify(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct checkpoint *checkpoint = (struct checkpoint *)self;
    enum tern_status status;
    if (!enter(checkpoint))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_checkpoint_verify(checkpoint->handle);
    Py_END_ALLOW_THREADS
    leave(checkpoint);
    return none_or_raise(status);
}

static PyObject *checkpoint_note(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"name", "node", NULL};
    struct checkpoint *checkpoint = (struct checkpoint *)self;
    const char *name;
    unsigned node = 0;
    size_t bytes = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|I:note", names, &name, &node) ||
        !enter(checkpoint))
        return NULL;
    PyObject *note = NULL;
    enum tern_status status =
        tern_checkpoint_get_note(checkpoint->handle, node, name, NULL, 0, &bytes);
    if (!status && (note = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes)))
        status = tern_checkpoint_get_note(checkpoint->handle, node, name, PyBytes_AsString(note),
                                          bytes, &bytes);
    leave(checkpoint);
    if (status) {
        Py_XDECREF(note);
        return raise_status(status);
    }
    return note;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* The first n rows of new arrays as a tuple. */
static PyObject *tuple_of_rows(PyObject **arrays, int n_arrays, size_t n)
{
    PyObject *tuple = PyTuple_New(n_arrays);
    for (int i = 0; tuple && i < n_arrays; i++) {
        PyObject *rows = first_rows(arrays[i], (Py_ssize_t)n);
        if (!rows || PyTuple_SetItem(tuple, i, rows) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* Keys and values, and with `states` the updater's state. */
static PyObject *read_rows(struct checkpoint *checkpoint, size_t number,
                           const struct tern_checkpoint_table *table, uint64_t first,
                           size_t capacity, bool states)
{
    const int n_arrays = states ? 3 : 2;
    const Py_ssize_t shapes[2][2] = {{(Py_ssize_t)capacity, (Py_ssize_t)table->length},
                                     {(Py_ssize_t)capacity, (Py_ssize_t)table->state_length}};
    PyObject *arrays[3] = {new_keys(shapes[0][0])}, *answer = NULL;
    Py_buffer views[3] = {0};
    bool taken = arrays[0];
    for (int i = 1; taken && i < n_arrays; i++)
        taken = (arrays[i] = new_array(table->type, 2, shapes[i - 1]));
    for (int i = 0; taken && i < n_arrays; i++)
        taken = !PyObject_GetBuffer(arrays[i], &views[i], PyBUF_WRITABLE);
    if (taken) {
        size_t n = 0;
        enum tern_status status;
        Py_BEGIN_ALLOW_THREADS
        status = tern_checkpoint_read(checkpoint->handle, number, first, capacity, views[0].buf,
                                      views[1].buf, views[2].buf, &n);
        Py_END_ALLOW_THREADS
        answer = status ? raise_status(status) : tuple_of_rows(arrays, n_arrays, n);
    }
    for (int i = 0; i < n_arrays; i++) {
        if (views[i].obj)
            PyBuffer_Release(&views[i]);
        Py_XDECREF(arrays[i]);
    }
    return answer;
}

static PyObject *checkpoint_read(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"table", "first", "capacity", "states", NULL};
    struct checkpoint *checkpoint = (struct checkpoint *)self;
    const char *name;
    unsigned long long first = 0;
    Py_ssize_t capacity = 65536;
    int states = 0;
    struct tern_checkpoint_table table = {.struct_size = sizeof table};
    size_t number = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|Knp:read", names, &name, &first,
                                     &capacity, &states))
        return NULL;
    if (capacity < 1)
        return raise_sentence(TERN_INVALID, "read: the capacity must be 1 at least");
    if (!enter(checkpoint))
        return NULL;
    while (!tern_checkpoint_get_table(checkpoint->handle, number, &table) &&
           strcmp(table.name, name) != 0) {
        number++;
        table = (struct tern_checkpoint_table){.struct_size = sizeof table};
    }
    PyObject *rows = NULL;
    if (!table.name)
        raise_sentence(TERN_INVALID, "the checkpoint has no table '%s'", name);
    else
        rows = read_rows(checkpoint, number, &table, first, (size_t)capacity, states);
    leave(checkpoint);
    return rows;
}

static PyObject *checkpoint_restore(PyObject *self, PyObject *object)
{
    struct checkpoint *checkpoint = (struct checkpoint *)self;
    enum tern_status status;
    if (!PyObject_TypeCheck(object, table_type)) {
        PyErr_SetString(PyExc_TypeError, "restore: a Table is needed");
        return NULL;
    }
    struct table *table = (struct table *)object;
    if (!table_enter(table))
        return NULL;
    if (!enter(checkpoint)) {
        table_leave(table);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tern_checkpoint_restore(table->handle, checkpoint->handle);
    Py_END_ALLOW_THREADS
    leave(checkpoint);
    table_leave(table);
    return none_or_raise(status);
}

static PyObject *checkpoint_restore_clock(PyObject *self, PyObject *object)
{
    struct checkpoint *checkpoint = (struct checkpoint *)self;
    enum tern_status status;
    if (!PyObject_TypeCheck(object, worker_type)) {
        PyErr_SetString(PyExc_TypeError, "restore_clock: a Worker is needed");
        return NULL;
    }
    struct worker *worker = (struct worker *)object;
    if (!worker_enter(worker))
        return NULL;
    if (!enter(checkpoint)) {
        worker_leave(worker);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tern_checkpoint_restore_clock(worker->handle, checkpoint->handle);
    Py_END_ALLOW_THREADS
    leave(checkpoint);
    worker_leave(worker);
    return none_or_raise(status);
}

#define WITH_KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS

bool checkpoint_init_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"close", checkpoint_close, METH_NOARGS, "close()\n\nCloses the checkpoint."},
        {"info", checkpoint_info, METH_NOARGS, "info()\n\nA dict: its tables, nodes, clocks."},
        {"verify", checkpoint_verify, METH_NOARGS,
         "verify()\n\nReads all files and compares them with their hashes."},
        {"note", WITH_KEYWORDS(checkpoint_note),
         "note(name, node=0)\n\nThe note of a node that wrote the checkpoint, as bytes."},
        {"read", WITH_KEYWORDS(checkpoint_read),
         "read(table, first=0, capacity=65536, states=False)\n\nKeys and values of rows of a "
         "table, by "
         "its name, in the order of the files; none at the end. With `states` also the updater's "
         "states."},
        {"restore", checkpoint_restore, METH_O,
         "restore(table)\n\nGives a table, which was just opened, the rows of the checkpoint. All "
         "nodes call it."},
        {"restore_clock", checkpoint_restore_clock, METH_O,
         "restore_clock(worker)\n\nGives a worker, which has not advanced, the clock of the "
         "checkpoint."},
        {"__enter__", checkpoint_enter, METH_NOARGS, NULL},
        {"__exit__", checkpoint_exit, METH_VARARGS, NULL},
        {0},
    };
    static PyType_Slot slots[] = {
        {Py_tp_init, checkpoint_init},
        {Py_tp_dealloc, checkpoint_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_doc, "Checkpoint(path)\n\nA checkpoint that is open for reading."},
        {0},
    };
    static PyType_Spec spec = {
        .name = "tern._tern.Checkpoint",
        .basicsize = sizeof(struct checkpoint),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = slots,
    };
    return (checkpoint_type = add_type(module, &spec));
}
