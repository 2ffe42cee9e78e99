/* worker - the type Worker: its life, clock and intents. Access to keys is in access.c and rows.c. */
#include "binding.h"

#include <stdlib.h>

PyTypeObject *worker_type, *worker_class;

/* Whether it is open, for the calls that any thread may make. */
static bool is_open(const struct worker *worker)
{
    if (!may_call() || (worker->node && !is_own_process(worker->node->generation)))
        return false;
    if (!worker->handle)
        raise_sentence(TERN_CLOSED, "the worker is closed");
    return worker->handle;
}

bool worker_enter(struct worker *worker)
{
    if (!is_open(worker))
        return false;
    if (worker->busy) {
        raise_sentence(
            TERN_BUSY,
            "another thread is inside a call of this worker; open one worker per thread");
        return false;
    }
    worker->busy = true;
    return true;
}

void worker_leave(struct worker *worker)
{
    worker->busy = false;
}

static bool is_table(PyObject *object)
{
    const bool is = PyObject_TypeCheck(object, table_type);
    if (!is)
        PyErr_Format(PyExc_TypeError, "a tern.Table is needed, not %R", Py_TYPE(object));
    return is;
}

bool enter_both(struct worker *worker, PyObject *table)
{
    if (!is_table(table) || !worker_enter(worker))
        return false;
    if (table_enter((struct table *)table))
        return true;
    worker_leave(worker);
    return false;
}

void leave_both(struct worker *worker, PyObject *table)
{
    table_leave((struct table *)table);
    worker_leave(worker);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void link_worker(struct worker *worker)
{
    struct node *node = worker->node;
    worker->next = node->workers;
    if (worker->next)
        worker->next->before = worker;
    node->workers = worker;
}

static void unlink_worker(struct worker *worker)
{
    if (worker->before)
        worker->before->next = worker->next;
    else if (worker->node->workers == worker)
        worker->node->workers = worker->next;
    if (worker->next)
        worker->next->before = worker->before;
    worker->next = worker->before = NULL;
}

enum tern_status worker_end(struct worker *worker)
{
    struct tern_worker *handle = worker->handle;
    enum tern_status status;
    worker->busy = true;
    Py_BEGIN_ALLOW_THREADS
    status = tern_worker_close(handle);
    Py_END_ALLOW_THREADS
    worker->busy = false;
    if (status == TERN_BUSY)
        return status;
    worker->handle = NULL;
    worker->n_tickets = 0;
    unlink_worker(worker);
    access_free_abandoned(worker);
    return status;
}

static int worker_init(PyObject *self, PyObject *arguments, PyObject *unused)
{
    (void)unused;
    struct worker *worker = (struct worker *)self;
    PyObject *node;
    enum tern_status status;
    if (!PyArg_ParseTuple(arguments, "O!", node_type, &node))
        return -1;
    if (worker->node) {
        raise_sentence(TERN_BUSY, "the worker is open");
        return -1;
    }
    if (!node_enter((struct node *)node))
        return -1;
    Py_BEGIN_ALLOW_THREADS
    status = tern_worker_open(((struct node *)node)->handle, &worker->handle);
    Py_END_ALLOW_THREADS
    node_leave((struct node *)node);
    if (status) {
        raise_status(status);
        return -1;
    }
    worker->node = (struct node *)Py_NewRef(node);
    link_worker(worker);
    return 0;
}

struct worker *worker_lend(struct node *node, struct tern_worker *handle)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(worker_class, Py_tp_alloc);
    struct worker *worker = (struct worker *)allocate(worker_class, 0);
    if (!worker)
        return NULL;
    worker->handle = handle;
    worker->node = (struct node *)Py_NewRef((PyObject *)node);
    worker->is_lent = true;
    return worker;
}

void worker_unlend(struct worker *worker)
{
    worker->handle = NULL;
    access_free_abandoned(worker);
    Py_DECREF((PyObject *)worker);
}

/* A worker that nobody refers to any more is closed; what it has started is waited for. */
static void drop(struct worker *worker)
{
    if (!worker->handle || worker->is_lent || was_forked(worker->node->generation))
        return;
    Py_BEGIN_ALLOW_THREADS
    tern_task_wait(worker->handle, 0, 0);
    Py_END_ALLOW_THREADS
    worker_end(worker);
}

static void worker_dealloc(PyObject *self)
{
    struct worker *worker = (struct worker *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    drop(worker);
    PyErr_Restore(kind, value, trace);
    lookup_free_scratch(worker);
    Py_XDECREF((PyObject *)worker->node);
    release(self);
    Py_DECREF(type);
}

static PyObject *worker_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct worker *worker = (struct worker *)self;
    if (!worker->handle)
        Py_RETURN_NONE;
    if (worker->is_lent)
        return raise_sentence(TERN_INVALID, "the worker of a task belongs to Tern");
    if (!worker_enter(worker))
        return NULL;
    worker_leave(worker);
    return none_or_raise(worker_end(worker));
}

/* ---- Clock and intent ------------------------------------------------------------------------ */

static PyObject *worker_advance(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct worker *worker = (struct worker *)self;
    uint64_t clock;
    enum tern_status status;
    if (!worker_enter(worker))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_worker_advance(worker->handle, &clock);
    Py_END_ALLOW_THREADS
    worker_leave(worker);
    return status ? raise_status(status) : PyLong_FromUnsignedLongLong(clock);
}

static PyObject *worker_clock(PyObject *self, void *unused)
{
    (void)unused;
    struct worker *worker = (struct worker *)self;
    uint64_t clock;
    if (!is_open(worker))
        return NULL;
    enum tern_status status = tern_worker_clock(worker->handle, &clock);
    return status ? raise_status(status) : PyLong_FromUnsignedLongLong(clock);
}

static PyObject *call_alone(PyObject *self, enum tern_status (*call)(struct tern_worker *))
{
    struct worker *worker = (struct worker *)self;
    enum tern_status status;
    if (!worker_enter(worker))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = call(worker->handle);
    Py_END_ALLOW_THREADS
    worker_leave(worker);
    return none_or_raise(status);
}

static PyObject *worker_rest(PyObject *self, PyObject *unused)
{
    (void)unused;
    return call_alone(self, tern_worker_rest);
}

static PyObject *worker_flush(PyObject *self, PyObject *unused)
{
    (void)unused;
    return call_alone(self, tern_flush);
}

/* Any thread may call it, also while another one is inside a call of the worker or closes it. */
static PyObject *worker_intent(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                               PyObject *keywords)
{
    static const struct signature signature = {"intent", {"table", "keys", "start", "end"}, 4};
    struct worker *worker = (struct worker *)self;
    PyObject *values[4];
    Py_buffer keys;
    uint64_t start, end;
    enum tern_status status;
    if (!take_arguments(&signature, arguments, n, keywords, values) ||
        !take_u64(values[2], "start", &start) || !take_u64(values[3], "end", &end) ||
        !is_table(values[0]) || !is_open(worker) || !table_enter((struct table *)values[0]))
        return NULL;
    struct table *table = (struct table *)values[0];
    struct tern_worker *handle = worker->handle;
    if (!take_keys(values[1], "intent", &keys)) {
        table_leave(table);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tern_intent(handle, table->handle, keys.buf, view_count(&keys), start, end);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&keys);
    table_leave(table);
    return none_or_raise(status);
}

static PyObject *worker_stats(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct worker *worker = (struct worker *)self;
    struct tern_worker_stats stats = {.struct_size = sizeof stats};
    enum tern_status status;
    if (!worker_enter(worker))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_worker_get_stats(worker->handle, &stats);
    Py_END_ALLOW_THREADS
    worker_leave(worker);
    if (status)
        return raise_status(status);
    return Py_BuildValue("{s:d,s:d}", "open_s", stats.open_s, "waited_s", stats.waited_s);
}

/* ---- The type -------------------------------------------------------------------------------- */

static PyObject *get_node(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *node = (PyObject *)((const struct worker *)self)->node;
    return Py_NewRef(node ? node : Py_None);
}

static PyObject *get_closed(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!((const struct worker *)self)->handle);
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

static PyMethodDef methods[] = {
    {"close", worker_close, METH_NOARGS,
     "close()\n\nCloses the worker and ends its samples and intents."},
    {"advance", worker_advance, METH_NOARGS,
     "advance()\n\nSays that one step is done. Returns the clock."},
    {"rest", worker_rest, METH_NOARGS,
     "rest()\n\nSays that nobody is to wait for this worker for now."},
    {"flush", worker_flush, METH_NOARGS,
     "flush()\n\nReturns when everything it has pushed is at the main copies."},
    {"intent", KEYWORDS(worker_intent),
     "intent(table, keys, start, end)\n\nSays that it will use the keys while start <= clock < "
     "end. Any thread may call it."},
    {"localize", KEYWORDS(worker_localize),
     "localize(table, keys, wait=True, ticket=False)\n\nMoves the keys to this node, under policy "
     "`relocate` or `multi`. Without `wait` it returns at once, and they come while the worker "
     "goes "
     "on; "
     "with `ticket` it returns a Ticket, whose wait() returns when they are here."},
    {"pull", KEYWORDS(worker_pull),
     "pull(table, keys, out=None, wait=True)\n\nReads values: an array of the shape of `keys` "
     "and then the table's "
     "length.\nWithout `wait` it returns a Ticket, whose wait() returns the array."},
    {"pull_if_local", KEYWORDS(worker_pull_if_local),
     "pull_if_local(table, keys, out=None)\n\nReads the keys that are local, and sends nothing. "
     "Returns the array of values, and an array of bool of the shape of `keys` that says which "
     "were "
     "read; the others stay as they are in `out`, or are zeros."},
    {"pull_present", KEYWORDS(worker_pull_present),
     "pull_present(table, keys, out=None)\n\nA pull that also says which keys have rows: returns "
     "the array of values and an array of bool of the shape of `keys`. Keys without a row are "
     "zeros."},
    {"count", KEYWORDS(worker_count),
     "count(table, keys, counts=None)\n\nCounts keys, once or as often as `counts` (int32 or "
     "uint32) says, in a table with `admit`, without pushing to them."},
    {"top", worker_top, METH_VARARGS,
     "top(table, k)\n\nThe k heaviest keys of a sketch, heaviest first: arrays of keys, of counts, "
     "and of how much each count may be too high."},
    {"read_cells", worker_read_cells, METH_VARARGS,
     "read_cells(table, first, n)\n\nAn array of n cells of a sketch from `first` on, as they are "
     "at "
     "this node. Their sums over all nodes are the sketch of all that was counted."},
    {"add_cells", worker_add_cells, METH_VARARGS,
     "add_cells(table, first, cells)\n\nAdds int64 counts to the cells of a sketch from `first` "
     "on, "
     "at this node: merges a sketch of equal width, depth and seed."},
    {"sweep", worker_sweep, METH_VARARGS,
     "sweep(table, function)\n\nRemoves the rows of this node for which function(key, row) is "
     "true; `row` is a copy. Returns their number. The function cannot call Tern; if it raises, "
     "rows that it was asked about before are gone."},
    {"push", KEYWORDS(worker_push),
     "push(table, keys, updates, wait=True)\n\nHands updates to the table's updater. Without "
     "`wait` it returns a "
     "Ticket."},
    {"set", KEYWORDS(worker_set),
     "set(table, keys, values, wait=True)\n\nReplaces values and resets the updater's state. "
     "Without `wait` it "
     "returns a Ticket."},
    {"pull_range", (PyCFunction)(void (*)(void))worker_pull_range, METH_VARARGS | METH_KEYWORDS,
     "pull_range(table, begin, end, capacity, values=True)\n\nThe entries with begin <= key < "
     "end, at most "
     "`capacity`: keys, and their values or None."},
    {"push_range", (PyCFunction)(void (*)(void))worker_push_range, METH_VARARGS | METH_KEYWORDS,
     "push_range(table, begin, end, updates)\n\nPushes one update to each entry of a range, in "
     "the order of keys."},
    {"prepare", KEYWORDS(worker_prepare),
     "prepare(distribution, n)\n\nBegins a Sample of n keys and returns at once; they are "
     "brought here meanwhile."},
    {"_submit", worker_submit, METH_VARARGS, "See Worker.submit."},
    {"task_delay", worker_task_delay, METH_O,
     "task_delay(delay)\n\nHow many tasks may run ahead of one that has not finished; None: "
     "any number."},
    {"task_progress", (PyCFunction)(void (*)(void))worker_task_progress,
     METH_VARARGS | METH_KEYWORDS,
     "task_progress(node=None, begin=0, end=0)\n\nUp to which task a node, or the slowest of "
     "all, has worked on the "
     "keys."},
    {"task_wait", (PyCFunction)(void (*)(void))worker_task_wait, METH_VARARGS | METH_KEYWORDS,
     "task_wait(timeout=None)\n\nWaits for all tasks of the worker."},
    {"stats", worker_stats, METH_NOARGS, "stats()\n\nA dict: struct tern_worker_stats."},
    {"_time", worker_time, METH_VARARGS, "For tern.bench: the time of calls from C."},
    {"_bare", (PyCFunction)(void (*)(void))worker_bare, METH_FASTCALL,
     "For tern.bench: a pull or push without checks."},
    {"_look_up", (PyCFunction)(void (*)(void))worker_look_up, METH_FASTCALL, "For tern.torch."},
    {"_look_up_bags", (PyCFunction)(void (*)(void))worker_look_up_bags, METH_FASTCALL,
     "For tern.torch."},
    {0},
};

static PyGetSetDef getters[] = {
    {"clock", worker_clock, NULL, "The worker's clock, from 0.", NULL},
    {"node", get_node, NULL, "The node.", NULL},
    {"closed", get_closed, NULL, "Whether the worker is closed.", NULL},
    {0},
};

bool worker_init_type(PyObject *module)
{
    static PyType_Slot slots[] = {
        {Py_tp_init, worker_init},
        {Py_tp_dealloc, worker_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_getset, getters},
        {0},
    };
    static PyType_Spec spec = {
        .name = "tern._tern.Worker",
        .basicsize = sizeof(struct worker),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    return (worker_type = add_type(module, &spec));
}
