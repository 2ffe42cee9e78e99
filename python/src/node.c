/* node - the type Node: opening and closing, and what all nodes do at once. */
#include "binding.h"

#include <stdlib.h>
#include <time.h>

PyTypeObject *node_type;

bool node_enter(struct node *node)
{
    if (!may_call() || !is_own_process(node->generation))
        return false;
    if (!node->handle) {
        raise_sentence(TERN_CLOSED, "the node is closed");
        return false;
    }
    node->users++;
    return true;
}

void node_leave(struct node *node)
{
    node->users--;
}

static int node_init(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"group", "node", "nodes", NULL};
    struct node *node = (struct node *)self;
    const char *group = NULL;
    unsigned index = 0, count = 1;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|zII:Node", names, &group, &index,
                                     &count) ||
        !may_call())
        return -1;
    if (node->handle) {
        raise_sentence(TERN_BUSY, "the node is open");
        return -1;
    }
    struct tern_node_options options = {
        .struct_size = sizeof options, .group = group, .node = index, .n_nodes = count};
    struct tern_node *handle = NULL;
    enum tern_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tern_node_open(&options, &handle);
    Py_END_ALLOW_THREADS
    if (status) {
        raise_status(status);
        return -1;
    }
    node->handle = handle;
    node->generation = process_generation();
    return 0;
}

/* Whether a thread is inside a call of the node or one of its workers. */
static bool is_used(const struct node *node)
{
    bool used = node->users > 0;
    for (const struct worker *worker = node->workers; worker; worker = worker->next)
        used |= worker->busy;
    return used;
}

/* Closes the workers, then the node, by tern_node_close or tern_node_leave. */
static enum tern_status end(struct node *node, enum tern_status (*close)(struct tern_node *))
{
    enum tern_status status = TERN_OK;
    while (!status && node->workers)
        status = worker_end(node->workers);
    if (status)
        return status;
    struct tern_node *handle = node->handle;
    node->handle = NULL;
    Py_BEGIN_ALLOW_THREADS
    status = close(handle);
    Py_END_ALLOW_THREADS
    if (status == TERN_BUSY || (status && close == tern_node_leave))
        node->handle = handle;
    else
        task_free_functions(node);
    return status;
}

static PyObject *close_by(struct node *node, enum tern_status (*close)(struct tern_node *))
{
    if (!node->handle)
        Py_RETURN_NONE;
    if (!may_call() || !is_own_process(node->generation))
        return NULL;
    if (is_used(node))
        return raise_sentence(TERN_BUSY, "another thread is inside a call of the node");
    return none_or_raise(end(node, close));
}

static PyObject *node_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    return close_by((struct node *)self, tern_node_close);
}

static PyObject *node_part(PyObject *self, PyObject *unused)
{
    (void)unused;
    return close_by((struct node *)self, tern_node_leave);
}

/* Ends the wait of a node that closes because of an exception: others may work for long before they close, too. */
static bool is_over(void *context)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec >= *(const time_t *)context;
}

/* Closes without a word, whatever becomes of it. */
static PyObject *node_abandon(PyObject *self, PyObject *unused)
{
    (void)unused;
    enum { WAIT_S = 2 };
    struct node *node = (struct node *)self;
    if (!node->handle || was_forked(node->generation) || is_used(node) || !may_call()) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t end_s = now.tv_sec + WAIT_S;
    tern_set_interrupt(is_over, &end_s);
    end(node, tern_node_close);
    tern_set_interrupt(NULL, NULL);
    restore_interrupt();
    PyErr_Clear();
    Py_RETURN_NONE;
}

/* A node that is dropped without being closed leaves the cluster when the process ends. */
static void node_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *node_number(PyObject *self, void *which)
{
    struct node *node = (struct node *)self;
    uint32_t index, count;
    if (!node_enter(node))
        return NULL;
    enum tern_status status = tern_node_self(node->handle, &index, &count);
    node_leave(node);
    return status ? raise_status(status) : PyLong_FromUnsignedLong(which ? count : index);
}

static PyObject *node_is_closed(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!((struct node *)self)->handle);
}

typedef enum tern_status together_function(struct tern_node *node);

static PyObject *together(PyObject *self, together_function *function)
{
    struct node *node = (struct node *)self;
    enum tern_status status;
    if (!node_enter(node))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = function(node->handle);
    Py_END_ALLOW_THREADS
    node_leave(node);
    return none_or_raise(status);
}

static PyObject *node_barrier(PyObject *self, PyObject *unused)
{
    (void)unused;
    return together(self, tern_barrier);
}

static PyObject *node_quiesce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return together(self, tern_quiesce);
}

static PyObject *node_all_reduce(PyObject *self, PyObject *array)
{
    struct node *node = (struct node *)self;
    Py_buffer view;
    enum tern_type type;
    enum tern_status status;
    if (!node_enter(node))
        return NULL;
    if (!take_numbers(array, "all_reduce", true, &view, &type)) {
        node_leave(node);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tern_all_reduce(node->handle, type, view_count(&view), view.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    node_leave(node);
    return status ? raise_status(status) : Py_NewRef(array);
}

static PyObject *node_broadcast(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"array", "root", NULL};
    struct node *node = (struct node *)self;
    PyObject *array;
    unsigned root = 0;
    Py_buffer view;
    enum tern_status status;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|I:broadcast", names, &array, &root) ||
        !node_enter(node))
        return NULL;
    if (PyObject_GetBuffer(array, &view, PyBUF_WRITABLE)) {
        node_leave(node);
        PyErr_Clear();
        return raise_sentence(
            TERN_INVALID, "broadcast: a writable array that is contiguous in C order is needed");
    }
    Py_BEGIN_ALLOW_THREADS
    status = tern_broadcast(node->handle, root, (size_t)view.len, view.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    node_leave(node);
    return status ? raise_status(status) : Py_NewRef(array);
}

static PyObject *node_stats(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct node *node = (struct node *)self;
    struct tern_node_stats stats = {.struct_size = sizeof stats};
    enum tern_status status;
    if (!node_enter(node))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_node_get_stats(node->handle, &stats);
    Py_END_ALLOW_THREADS
    node_leave(node);
    if (status)
        return raise_status(status);
    return Py_BuildValue("{s:K,s:K,s:K}", "refused_connections",
                         (unsigned long long)stats.refused_connections, "backup_bytes",
                         (unsigned long long)stats.backup_bytes, "taken_bytes",
                         (unsigned long long)stats.taken_bytes);
}

bool node_init_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"close", node_close, METH_NOARGS,
         "close()\n\nCloses the node, its workers and its tables. In a cluster it returns when all "
         "nodes close."},
        {"leave", node_part, METH_NOARGS,
         "leave()\n\nLeaves a running job whose tables have backups, and closes the node. The "
         "others "
         "go on\nwithout it, and nothing is lost."},
        {"_abandon", node_abandon, METH_NOARGS,
         "Closes after an exception, waiting two seconds for others at most."},
        {"barrier", node_barrier, METH_NOARGS, "barrier()\n\nWaits for all nodes."},
        {"quiesce", node_quiesce, METH_NOARGS,
         "quiesce()\n\nA barrier after which all replicas agree: every push before it is in every "
         "copy."},
        {"all_reduce", node_all_reduce, METH_O,
         "all_reduce(array)\n\nReplaces the numbers by their sums over all nodes, in place. "
         "Returns the array."},
        {"broadcast", (PyCFunction)(void (*)(void))node_broadcast, METH_VARARGS | METH_KEYWORDS,
         "broadcast(array, root=0)\n\nCopies the array of node `root` to all, in place. Returns "
         "the array."},
        {"checkpoint_start", (PyCFunction)(void (*)(void))node_checkpoint_start,
         METH_VARARGS | METH_KEYWORDS,
         "checkpoint_start(path, notes=None, changes=False)\n\nTakes a cut of all tables, begins "
         "to write it to "
         "the folder `path`, and returns. `notes` is a dict of names and bytes of this node. With "
         "`changes` rows that are as in the last checkpoint of changes are not written again. All "
         "nodes call it."},
        {"checkpoint_wait", node_checkpoint_wait, METH_NOARGS,
         "checkpoint_wait()\n\nWaits until the checkpoint is on disk under its name."},
        {"stats", node_stats, METH_NOARGS, "stats()\n\nA dict of counts."},
        {0},
    };
    static PyGetSetDef getters[] = {
        {"index", node_number, NULL, "This node's number, from 0.", NULL},
        {"count", node_number, NULL, "The number of nodes.", (void *)1},
        {"closed", node_is_closed, NULL, "Whether the node is closed.", NULL},
        {0},
    };
    static PyType_Slot slots[] = {
        {Py_tp_init, node_init},
        {Py_tp_dealloc, node_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_getset, getters},
        {0},
    };
    static PyType_Spec spec = {
        .name = "tern._tern.Node",
        .basicsize = sizeof(struct node),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    return (node_type = add_type(module, &spec));
}
