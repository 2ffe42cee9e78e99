/* table - the type Table. */
#include "binding.h"

#include <string.h>

PyTypeObject *table_type;

bool table_enter(struct table *table)
{
    if (!table->handle || !table->node->handle) {
        raise_sentence(TERN_CLOSED, "the table is closed");
        return false;
    }
    table->users++;
    return true;
}

void table_leave(struct table *table)
{
    table->users--;
}

/* Begins a call on a table alone. */
static bool enter(struct table *table)
{
    return may_call() && is_own_process(table->node->generation) && table_enter(table);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

/* Whether all rows are in this process, in a table where nobody waits for another worker's clock: dense ones of a single
 * node, under policies without bounded reads. */
static bool is_here(const struct node *node, const struct tern_table_options *options)
{
    static const char *const policies[] = {"adaptive", "static", "relocate", "multi", "replicate"};
    uint32_t n_nodes;
    if (options->index != TERN_DENSE || tern_node_self(node->handle, NULL, &n_nodes) || n_nodes > 1)
        return false;
    for (size_t i = 0; options->policy && i < sizeof policies / sizeof policies[0]; i++)
        if (!strcmp(options->policy, policies[i]))
            return true;
    return !options->policy;
}

/* Table(node, name, options): options is a dict (options.c). */
static int table_init(PyObject *self, PyObject *arguments, PyObject *unused)
{
    (void)unused;
    struct table *table = (struct table *)self;
    PyObject *node, *name, *dict;
    struct table_options taken;
    if (!PyArg_ParseTuple(arguments, "O!UO!", node_type, &node, &name, &PyDict_Type, &dict))
        return -1;
    if (table->node) {
        raise_sentence(TERN_BUSY, "the table is open");
        return -1;
    }
    const char *utf8 = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!utf8 || !node_enter((struct node *)node))
        return -1;
    enum tern_status status = TERN_INVALID;
    if (options_take(dict, &taken)) {
        Py_BEGIN_ALLOW_THREADS
        status =
            tern_table_open(((struct node *)node)->handle, utf8, &taken.options, &table->handle);
        Py_END_ALLOW_THREADS
        options_release(&taken);
        if (status)
            raise_status(status);
    }
    node_leave((struct node *)node);
    if (status)
        return -1;
    table->node = (struct node *)Py_NewRef(node);
    table->name = Py_NewRef(name);
    table->policy = PyUnicode_FromString(taken.options.policy ? taken.options.policy : "adaptive");
    table->n_keys = taken.options.n_keys;
    table->length = taken.options.length;
    table->type = taken.options.type;
    table->is_here = is_here((struct node *)node, &taken.options);
    return 0;
}

/* The parameters stay until the table or the node is closed, whoever still refers to the table. */
static void table_dealloc(PyObject *self)
{
    struct table *table = (struct table *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Py_XDECREF((PyObject *)table->node);
    Py_XDECREF(table->name);
    Py_XDECREF(table->policy);
    release(self);
    Py_DECREF(type);
}

static PyObject *table_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct table *table = (struct table *)self;
    if (!table->handle || !table->node->handle)
        Py_RETURN_NONE;
    if (!may_call() || !is_own_process(table->node->generation))
        return NULL;
    if (table->users)
        return raise_sentence(TERN_BUSY, "another thread is inside a call on the table");
    struct tern_table *handle = table->handle;
    enum tern_status status;
    table->handle = NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_table_close(handle);
    Py_END_ALLOW_THREADS
    if (status == TERN_BUSY)
        table->handle = handle;
    return none_or_raise(status);
}

/* ---- Statistics and explanation -------------------------------------------------------------- */

static bool put(PyObject *dict, const char *name, PyObject *value)
{
    bool done = value && PyDict_SetItemString(dict, name, value) == 0;
    Py_XDECREF(value);
    return done;
}

static PyObject *list_of(const uint64_t *numbers, size_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(numbers[i]);
        if (!number || PyList_SetItem(list, (Py_ssize_t)i, number) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* A count under its name, in stats_dict. */
#define COUNT(name)        \
    {                      \
#name, stats->name \
    }

static PyObject *stats_dict(const struct tern_table_stats *stats)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {COUNT(pulled_keys),
                  COUNT(pushed_keys),
                  COUNT(set_keys),
                  COUNT(pinned_keys),
                  COUNT(remote_keys),
                  COUNT(remote_bytes),
                  COUNT(request_bytes),
                  COUNT(reply_bytes),
                  COUNT(keys_saved_bytes),
                  COUNT(zeros_saved_bytes),
                  COUNT(fixed_saved_bytes),
                  COUNT(lz4_saved_bytes),
                  COUNT(significant_saved_bytes),
                  COUNT(rows),
                  COUNT(value_bytes),
                  COUNT(memory_bytes),
                  COUNT(rounds),
                  COUNT(messages),
                  COUNT(sent_bytes),
                  COUNT(received_bytes),
                  COUNT(moved_here),
                  COUNT(moved_away),
                  COUNT(replicas_made),
                  COUNT(replicas_ended),
                  COUNT(deltas_sent),
                  COUNT(values_received),
                  COUNT(redirected),
                  COUNT(counted_keys),
                  COUNT(dropped_keys),
                  COUNT(removed_rows),
                  COUNT(recovered_keys),
                  COUNT(checked_keys),
                  COUNT(fetched_within),
                  COUNT(fetched_between)};
#undef COUNT
    PyObject *dict = PyDict_New();
    bool good = dict;
    for (size_t i = 0; good && i < sizeof counts / sizeof counts[0]; i++)
        good = put(dict, counts[i].name, PyLong_FromUnsignedLongLong(counts[i].value));
    good = good && put(dict, "staleness_ms_mean", PyFloat_FromDouble(stats->staleness_ms_mean)) &&
           put(dict, "staleness_ms_p99", PyFloat_FromDouble(stats->staleness_ms_p99)) &&
           put(dict, "staleness_ms", list_of(stats->staleness_ms, TERN_STALENESS_STEPS)) &&
           put(dict, "waited_s", PyFloat_FromDouble(stats->waited_s)) &&
           put(dict, "aged_pushes", PyLong_FromUnsignedLongLong(stats->aged_pushes)) &&
           put(dict, "delay_mean", PyFloat_FromDouble(stats->delay_mean)) &&
           put(dict, "delays", list_of(stats->delays, TERN_DELAY_STEPS)) &&
           put(dict, "clocks_behind", list_of(stats->clocks_behind, TERN_CLOCK_STEPS)) &&
           put(dict, "updates_behind", list_of(stats->updates_behind, TERN_CLOCK_STEPS));
    if (!good)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *table_stats(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct table *table = (struct table *)self;
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    enum tern_status status;
    if (!enter(table))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_table_get_stats(table->handle, &stats);
    Py_END_ALLOW_THREADS
    table_leave(table);
    return status ? raise_status(status) : stats_dict(&stats);
}

static PyObject *table_why(PyObject *self, PyObject *object)
{
    struct table *table = (struct table *)self;
    char text[TERN_WHY_BYTES];
    uint64_t key;
    enum tern_status status;
    if (!take_u64(object, "why", &key) || !enter(table))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_why(table->handle, key, text, sizeof text);
    Py_END_ALLOW_THREADS
    table_leave(table);
    return status ? raise_status(status) : PyUnicode_FromString(text);
}

static PyObject *table_served(PyObject *self, PyObject *object)
{
    struct table *table = (struct table *)self;
    uint64_t node, bytes = 0;
    if (!take_u64(object, "served", &node) || !enter(table))
        return NULL;
    const enum tern_status status = tern_table_get_served(
        table->handle, node > UINT32_MAX ? UINT32_MAX : (uint32_t)node, &bytes);
    table_leave(table);
    return status ? raise_status(status) : PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *table_trace(PyObject *self, PyObject *arguments)
{
    struct table *table = (struct table *)self;
    PyObject *keys, *path;
    Py_buffer view;
    enum tern_status status;
    if (!PyArg_ParseTuple(arguments, "OO&:trace", &keys, PyUnicode_FSConverter, &path))
        return NULL;
    if (!take_keys(keys, "trace", &view)) {
        Py_DECREF(path);
        return NULL;
    }
    if (!enter(table)) {
        PyBuffer_Release(&view);
        Py_DECREF(path);
        return NULL;
    }
    const char *file = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    status = tern_trace_start(table->handle, view.buf, view_count(&view), file);
    Py_END_ALLOW_THREADS
    table_leave(table);
    PyBuffer_Release(&view);
    Py_DECREF(path);
    return none_or_raise(status);
}

static PyObject *table_trace_stop(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct table *table = (struct table *)self;
    enum tern_status status;
    if (!enter(table))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_trace_stop(table->handle);
    Py_END_ALLOW_THREADS
    table_leave(table);
    return none_or_raise(status);
}

/* ---- The type -------------------------------------------------------------------------------- */

static PyObject *get_object(PyObject *self, void *which)
{
    const struct table *table = (const struct table *)self;
    PyObject *object = which ? table->policy : table->name;
    return Py_NewRef(object ? object : Py_None);
}

static PyObject *get_node(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *node = (PyObject *)((const struct table *)self)->node;
    return Py_NewRef(node ? node : Py_None);
}

static PyObject *get_keys(PyObject *self, void *unused)
{
    (void)unused;
    const struct table *table = (const struct table *)self;
    return table->n_keys ? PyLong_FromUnsignedLongLong(table->n_keys) : Py_NewRef(Py_None);
}

static PyObject *get_length(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(((const struct table *)self)->length);
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(type_name(((const struct table *)self)->type));
}

static PyObject *get_closed(PyObject *self, void *unused)
{
    (void)unused;
    const struct table *table = (const struct table *)self;
    return PyBool_FromLong(!table->handle || !table->node->handle);
}

bool table_init_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"close", table_close, METH_NOARGS,
         "close()\n\nCloses this opening of the table; the last ends its parameters."},
        {"stats", table_stats, METH_NOARGS,
         "stats()\n\nA dict of counts of this node: struct tern_table_stats."},
        {"why", table_why, METH_O, "why(key)\n\nTells in plain sentences how a key is managed."},
        {"served", table_served, METH_O,
         "served(node)\n\nBytes of another node's accesses to keys that this one has."},
        {"trace", table_trace, METH_VARARGS,
         "trace(keys, path)\n\nRecords what becomes of the keys at this node in the file "
         "PATH.NODE."},
        {"trace_stop", table_trace_stop, METH_NOARGS,
         "trace_stop()\n\nEnds the record; the file is then complete."},
        {0},
    };
    static PyGetSetDef getters[] = {
        {"name", get_object, NULL, "The table's name.", NULL},
        {"policy", get_object, NULL, "How a cluster manages the keys.", (void *)1},
        {"node", get_node, NULL, "The node.", NULL},
        {"keys", get_keys, NULL, "The number of keys; None if the table is sparse.", NULL},
        {"length", get_length, NULL, "Elements of a value.", NULL},
        {"dtype", get_dtype, NULL, "The type of an element, such as 'float32'.", NULL},
        {"closed", get_closed, NULL, "Whether the table is closed.", NULL},
        {0},
    };
    static PyType_Slot slots[] = {
        {Py_tp_init, table_init},
        {Py_tp_dealloc, table_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_getset, getters},
        {0},
    };
    static PyType_Spec spec = {
        .name = "tern._tern.Table",
        .basicsize = sizeof(struct table),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    return (table_type = add_type(module, &spec));
}
