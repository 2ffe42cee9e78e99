/* sample - the types Distribution and Sample. */
#include "binding.h"

#include <stdlib.h>

PyTypeObject *dist_type, *sample_type;

struct dist {
    PyObject_HEAD
    struct tern_dist *handle; /* NULL: closed */
    struct table *table;
    PyObject *draw; /* a Python function, or NULL */
    unsigned users;
};

struct sample {
    PyObject_HEAD
    struct worker *worker;
    struct dist *dist;
    uint64_t number;
    size_t n_left;
};

/* ---- Distributions --------------------------------------------------------------------------- */

/* Asks the Python function for a key. It cannot report a failure: key 0 stands for it. */
static uint64_t draw(void *context, uint64_t random)
{
    uint64_t key = 0;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    in_callback(true);
    PyObject *answer = PyObject_CallFunction(context, "K", (unsigned long long)random);
    if (!answer || !take_u64(answer, "draw", &key)) {
        PyErr_WriteUnraisable(context);
        key = 0;
    }
    in_callback(false);
    Py_XDECREF(answer);
    PyErr_Restore(kind, value, trace);
    PyGILState_Release(state);
    return key;
}

/* Takes an array of `n` numbers of 8 bytes that are floats or integers. */
static bool take_column(PyObject *object, const char *what, bool is_real, size_t n, Py_buffer *view)
{
    if (is_real ? !take_values(object, what, TERN_F64, false, view)
                : !take_keys(object, what, view))
        return false;
    if (n == SIZE_MAX || view_count(view) == n)
        return true;
    raise_sentence(TERN_INVALID, "%s: %zu numbers are needed, one per key, not %zu", what, n,
                   view_count(view));
    PyBuffer_Release(view);
    return false;
}

static void release_all(Py_buffer *views, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (views[i].obj)
            PyBuffer_Release(&views[i]);
}

/* Distribution(table, kind, begin, end, keys, weights, counts, draw, seed, pool_keys, pool_uses, conformity) */
static int dist_init(PyObject *self, PyObject *arguments, PyObject *unused)
{
    (void)unused;
    struct dist *dist = (struct dist *)self;
    PyObject *table, *keys, *weights, *counts, *function;
    int kind, conformity;
    unsigned long long begin, end, seed;
    struct tern_target target = {.struct_size = sizeof target};
    Py_buffer views[3] = {0};
    enum tern_status status;
    if (!PyArg_ParseTuple(arguments, "O!iKKOOOOKIIi", table_type, &table, &kind, &begin, &end,
                          &keys, &weights, &counts, &function, &seed, &target.pool_keys,
                          &target.pool_uses, &conformity))
        return -1;
    if (dist->table) {
        raise_sentence(TERN_BUSY, "the distribution is open");
        return -1;
    }
    size_t n = (size_t)(end - begin);
    struct node *node = ((struct table *)table)->node;
    if ((keys != Py_None && !take_column(keys, "keys", false, SIZE_MAX, &views[0])) ||
        (weights != Py_None && !take_column(weights, "weights", true, n, &views[1])) ||
        (counts != Py_None && !take_column(counts, "counts", false, n, &views[2])) ||
        !node_enter(node)) {
        release_all(views, 3);
        return -1;
    }
    if (!table_enter((struct table *)table)) {
        node_leave(node);
        release_all(views, 3);
        return -1;
    }
    target.kind = (enum tern_target_kind)kind;
    target.begin = begin;
    target.end = end;
    target.seed = seed;
    target.keys = views[0].buf;
    target.weights = views[1].buf;
    target.counts = views[2].buf;
    if (function != Py_None) {
        target.function = draw;
        target.context = function;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tern_dist_open(((struct table *)table)->handle, &target,
                            (enum tern_conformity)conformity, &dist->handle);
    Py_END_ALLOW_THREADS
    release_all(views, 3);
    table_leave((struct table *)table);
    node_leave(node);
    if (status) {
        raise_status(status);
        return -1;
    }
    dist->draw = function == Py_None ? NULL : Py_NewRef(function);
    dist->table = (struct table *)Py_NewRef(table);
    return 0;
}

static bool is_open(const struct dist *dist)
{
    return dist->handle && dist->table->handle && dist->table->node->handle;
}

static enum tern_status dist_end(struct dist *dist)
{
    struct tern_dist *handle = dist->handle;
    enum tern_status status;
    dist->handle = NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_dist_close(handle);
    Py_END_ALLOW_THREADS
    if (status == TERN_BUSY)
        dist->handle = handle;
    return status;
}

static PyObject *dist_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct dist *dist = (struct dist *)self;
    if (!is_open(dist))
        Py_RETURN_NONE;
    if (!may_call() || !is_own_process(dist->table->node->generation))
        return NULL;
    if (dist->users)
        return raise_sentence(TERN_BUSY, "another thread is inside a call on the distribution");
    return none_or_raise(dist_end(dist));
}

/* Samples refer to it, so there are none. */
static void dist_dealloc(PyObject *self)
{
    struct dist *dist = (struct dist *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    if (is_open(dist) && !was_forked(dist->table->node->generation) && dist_end(dist) == TERN_BUSY)
        Py_XINCREF(dist->draw); /* Tern may still call it */
    Py_XDECREF((PyObject *)dist->table);
    Py_XDECREF(dist->draw);
    release(self);
    Py_DECREF(type);
}

/* ---- Samples --------------------------------------------------------------------------------- */

PyObject *worker_prepare(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                         PyObject *keywords)
{
    static const struct signature signature = {"prepare", {"distribution", "n"}, 2};
    struct worker *worker = (struct worker *)self;
    PyObject *given[6];
    uint64_t n_keys, number;
    enum tern_status status;
    if (!take_arguments(&signature, arguments, n, keywords, given) ||
        !take_u64(given[1], "n", &n_keys))
        return NULL;
    if (!PyObject_TypeCheck(given[0], dist_type))
        return PyErr_Format(PyExc_TypeError, "a tern.Distribution is needed, not %R",
                            Py_TYPE(given[0]));
    struct dist *dist = (struct dist *)given[0];
    if (!is_open(dist))
        return raise_sentence(TERN_CLOSED, "the distribution is closed");
    if (!worker_enter(worker))
        return NULL;
    dist->users++;
    Py_BEGIN_ALLOW_THREADS
    status = tern_sample_prepare(worker->handle, dist->handle, (size_t)n_keys, &number);
    Py_END_ALLOW_THREADS
    dist->users--;
    worker_leave(worker);
    if (status)
        return raise_status(status);
    allocfunc allocate = (allocfunc)PyType_GetSlot(sample_type, Py_tp_alloc);
    struct sample *sample = (struct sample *)allocate(sample_type, 0);
    if (!sample)
        return NULL;
    sample->worker = (struct worker *)Py_NewRef(self);
    sample->dist = (struct dist *)Py_NewRef(given[0]);
    sample->number = number;
    sample->n_left = (size_t)n_keys;
    return (PyObject *)sample;
}

static PyObject *pull(struct sample *sample, Py_ssize_t n, bool with_values)
{
    struct worker *worker = sample->worker;
    struct table *table = sample->dist->table;
    Py_ssize_t shape[2] = {n, (Py_ssize_t)table->length};
    Py_buffer key_view = {0}, value_view = {0};
    PyObject *answer = NULL, *keys = new_keys(n);
    PyObject *values = !keys         ? NULL
                       : with_values ? new_array(table->type, 2, shape)
                                     : Py_NewRef(Py_None);
    enum tern_status status;
    if (values && !PyObject_GetBuffer(keys, &key_view, PyBUF_WRITABLE) &&
        (!with_values || !PyObject_GetBuffer(values, &value_view, PyBUF_WRITABLE))) {
        Py_BEGIN_ALLOW_THREADS
        status = tern_sample_pull(worker->handle, sample->number, (size_t)n, key_view.buf,
                                  value_view.buf);
        Py_END_ALLOW_THREADS
        if (status)
            raise_status(status);
        else
            answer = PyTuple_Pack(2, keys, values);
        sample->n_left -= status ? 0 : (size_t)n;
    }
    release_all((Py_buffer[]){key_view, value_view}, 2);
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return answer;
}

static PyObject *sample_pull(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"n", "values", NULL};
    struct sample *sample = (struct sample *)self;
    PyObject *count = Py_None;
    int with_values = 1;
    uint64_t n = sample->n_left;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|Op:pull", names, &count,
                                     &with_values) ||
        (count != Py_None && !take_u64(count, "n", &n)))
        return NULL;
    if (n > sample->n_left)
        return raise_sentence(TERN_INVALID, "%zu keys of the sample are left, not %llu",
                              sample->n_left, (unsigned long long)n);
    if (!worker_enter(sample->worker))
        return NULL;
    sample->dist->users++;
    PyObject *answer = pull(sample, (Py_ssize_t)n, with_values);
    sample->dist->users--;
    worker_leave(sample->worker);
    return answer;
}

static enum tern_status sample_finish(struct sample *sample)
{
    enum tern_status status;
    sample->n_left = 0;
    Py_BEGIN_ALLOW_THREADS
    status = tern_sample_end(sample->worker->handle, sample->number);
    Py_END_ALLOW_THREADS
    return status;
}

static PyObject *sample_end(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct sample *sample = (struct sample *)self;
    if (!sample->n_left || !sample->worker->handle)
        Py_RETURN_NONE;
    if (!worker_enter(sample->worker))
        return NULL;
    enum tern_status status = sample_finish(sample);
    worker_leave(sample->worker);
    return none_or_raise(status);
}

static PyObject *sample_left(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((struct sample *)self)->n_left);
}

static void sample_dealloc(PyObject *self)
{
    struct sample *sample = (struct sample *)self;
    struct worker *worker = sample->worker;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    if (sample->n_left && worker->handle && !worker->busy &&
        !was_forked(worker->node->generation)) {
        worker->busy = true;
        sample_finish(sample);
        worker->busy = false;
    }
    Py_DECREF((PyObject *)worker);
    Py_DECREF((PyObject *)sample->dist);
    release(self);
    Py_DECREF(type);
}

bool sample_init_types(PyObject *module)
{
    static PyMethodDef dist_methods[] = {
        {"close", dist_close, METH_NOARGS, "close()\n\nCloses the distribution."},
        {0},
    };
    static PyType_Slot dist_slots[] = {
        {Py_tp_init, dist_init},
        {Py_tp_dealloc, dist_dealloc},
        {Py_tp_methods, dist_methods},
        {Py_tp_doc,
         "A distribution over the keys of a table, to sample from. Node.distribution makes it."},
        {0},
    };
    static PyType_Spec dist_spec = {
        .name = "tern._tern.Distribution",
        .basicsize = sizeof(struct dist),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = dist_slots,
    };
    static PyMethodDef sample_methods[] = {
        {"pull", (PyCFunction)(void (*)(void))sample_pull, METH_VARARGS | METH_KEYWORDS,
         "pull(n=None, values=True)\n\nThe next n keys (all that are left) and their values, or "
         "None."},
        {"end", sample_end, METH_NOARGS, "end()\n\nGives up what is left."},
        {0},
    };
    static PyGetSetDef sample_getters[] = {{"left", sample_left, NULL, "Keys that are left.", NULL},
                                           {0}};
    static PyType_Slot sample_slots[] = {
        {Py_tp_dealloc, sample_dealloc},
        {Py_tp_methods, sample_methods},
        {Py_tp_getset, sample_getters},
        {Py_tp_doc, "Keys drawn from a distribution. Worker.prepare makes it."},
        {0},
    };
    static PyType_Spec sample_spec = {
        .name = "tern._tern.Sample",
        .basicsize = sizeof(struct sample),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = sample_slots,
    };
    return (dist_type = add_type(module, &dist_spec)) &&
           (sample_type = add_type(module, &sample_spec));
}
