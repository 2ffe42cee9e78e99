/* access - pull, push, set and localize, and the type Ticket for those that are finished later. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

PyTypeObject *ticket_type;

/* Bytes of values of a call that may keep the GIL. */
#define BRIEF_BYTES (64 << 10)

struct ticket {
    PyObject_HEAD
    struct worker *worker;
    struct table *table;
    PyObject *result; /* of a pull: the array */
    uint64_t number;
    bool is_finished;
    Py_buffer keys, values; /* until it is finished */
};

/* The arrays of an operation that may still be under way. */
struct abandoned {
    struct abandoned *next;
    Py_buffer keys, values;
};

typedef enum tern_status access_function(struct tern_worker *, struct tern_table *,
                                         const uint64_t *, size_t, void *);
typedef enum tern_status start_function(struct tern_worker *, struct tern_table *, const uint64_t *,
                                        size_t, void *, uint64_t *);

struct operation {
    struct signature signature;
    bool is_pull;
    access_function *access;
    start_function *start;
};

/* tern_push and its kin take const values; the operations of one table have one type. */
static enum tern_status push(struct tern_worker *w, struct tern_table *t, const uint64_t *k,
                             size_t n, void *v)
{
    return tern_push(w, t, k, n, v);
}

static enum tern_status set(struct tern_worker *w, struct tern_table *t, const uint64_t *k,
                            size_t n, void *v)
{
    return tern_set(w, t, k, n, v);
}

static enum tern_status push_start(struct tern_worker *w, struct tern_table *t, const uint64_t *k,
                                   size_t n, void *v, uint64_t *ticket)
{
    return tern_push_start(w, t, k, n, v, ticket);
}

static enum tern_status set_start(struct tern_worker *w, struct tern_table *t, const uint64_t *k,
                                  size_t n, void *v, uint64_t *ticket)
{
    return tern_set_start(w, t, k, n, v, ticket);
}

static const struct operation pull_operation = {
    {"pull", {"table", "keys", "out", "wait"}, 2}, true, tern_pull, tern_pull_start};
static const struct operation push_operation = {
    {"push", {"table", "keys", "updates", "wait"}, 3}, false, push, push_start};
static const struct operation set_operation = {
    {"set", {"table", "keys", "values", "wait"}, 3}, false, set, set_start};

/* ---- Calls ----------------------------------------------------------------------------------- */

/* A new array for values of keys. */
static PyObject *new_values(const struct table *table, const Py_buffer *keys)
{
    Py_ssize_t shape[64];
    if (keys->ndim > 62)
        return raise_sentence(TERN_INVALID, "pull: the keys have too many dimensions");
    for (int i = 0; i < keys->ndim; i++)
        shape[i] = keys->shape[i];
    shape[keys->ndim] = (Py_ssize_t)table->length;
    return new_array(table->type, keys->ndim + 1, shape);
}

/* The operation has begun: makes its ticket, which takes the arrays. */
static PyObject *new_ticket(struct worker *worker, struct table *table, PyObject *result,
                            uint64_t number, const Py_buffer *keys, const Py_buffer *values)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(ticket_type, Py_tp_alloc);
    struct ticket *ticket = (struct ticket *)allocate(ticket_type, 0);
    if (!ticket)
        return NULL;
    ticket->worker = (struct worker *)Py_NewRef((PyObject *)worker);
    ticket->table = (struct table *)Py_NewRef((PyObject *)table);
    ticket->result = Py_NewRef(result);
    ticket->number = number;
    ticket->keys = *keys;
    ticket->values = *values;
    worker->n_tickets++;
    return (PyObject *)ticket;
}

static PyObject *start(const struct operation *operation, struct worker *worker,
                       struct table *table, PyObject *result, Py_buffer *keys, Py_buffer *values)
{
    uint64_t number = 0;
    enum tern_status status;
    Py_BEGIN_ALLOW_THREADS
    status = operation->start(worker->handle, table->handle, keys->buf, view_count(keys),
                              values->buf, &number);
    Py_END_ALLOW_THREADS
    PyObject *ticket =
        status ? raise_status(status) : new_ticket(worker, table, result, number, keys, values);
    if (ticket)
        return ticket;
    if (!status) {
        Py_BEGIN_ALLOW_THREADS
        tern_wait(worker->handle, number);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(keys);
    PyBuffer_Release(values);
    return NULL;
}

/*
 * Whether a call keeps the GIL: it lasts some microseconds and waits for nobody, since all its rows are in this process.
 * Handing the GIL over would take as long as a few keys.
 */
static bool is_brief(const struct table *table, const Py_buffer *values)
{
    return table->is_here && values->len <= BRIEF_BYTES;
}

static enum tern_status run(const struct operation *operation, const struct worker *worker,
                            const struct table *table, const Py_buffer *keys,
                            const Py_buffer *values)
{
    enum tern_status status;
    const size_t n = (size_t)keys->len / sizeof(uint64_t);
    if (is_brief(table, values))
        return operation->access(worker->handle, table->handle, keys->buf, n, values->buf);
    Py_BEGIN_ALLOW_THREADS
    status = operation->access(worker->handle, table->handle, keys->buf, n, values->buf);
    Py_END_ALLOW_THREADS
    return status;
}

static PyObject *finish(const struct operation *operation, struct worker *worker,
                        struct table *table, PyObject *result, Py_buffer *keys, Py_buffer *values)
{
    const enum tern_status status = run(operation, worker, table, keys, values);
    PyBuffer_Release(keys);
    PyBuffer_Release(values);
    return status ? raise_status(status) : Py_NewRef(result);
}

/* With worker and table entered, and the keys taken. */
static PyObject *access_keys(const struct operation *operation, struct worker *worker,
                             PyObject **given, Py_buffer *keys, bool waits)
{
    struct table *table = (struct table *)given[0];
    const char *what = operation->signature.function;
    PyObject *array = given[2] && given[2] != Py_None ? Py_NewRef(given[2]) : NULL;
    Py_buffer values;
    if (!array && operation->is_pull)
        array = new_values(table, keys);
    bool taken = array && take_values(array, what, table->type, operation->is_pull, &values);
    if (taken && !check_shape(keys, &values, table->length, what)) {
        PyBuffer_Release(&values);
        taken = false;
    }
    if (!array && !PyErr_Occurred())
        raise_sentence(TERN_INVALID, "%s: an array of values is needed", what);
    PyObject *answer = NULL;
    if (!taken)
        PyBuffer_Release(keys);
    else
        answer = (waits ? finish : start)(operation, worker, table,
                                          operation->is_pull ? array : Py_None, keys, &values);
    Py_XDECREF(array);
    return answer;
}

static PyObject *run_access(const struct operation *operation, PyObject *self,
                            PyObject *const *arguments, Py_ssize_t n, PyObject *keywords)
{
    struct worker *worker = (struct worker *)self;
    PyObject *given[6], *answer = NULL;
    Py_buffer keys;
    if (!take_arguments(&operation->signature, arguments, n, keywords, given))
        return NULL;
    int waits = given[3] ? PyObject_IsTrue(given[3]) : 1;
    if (waits < 0 || !enter_both(worker, given[0]))
        return NULL;
    if (take_keys(given[1], operation->signature.function, &keys))
        answer = access_keys(operation, worker, given, &keys, waits);
    leave_both(worker, given[0]);
    return answer;
}

/* Begins to bring keys here; without a ticket there is nothing to wait for. With worker and table entered. */
static PyObject *localize_start(struct worker *worker, struct table *table, Py_buffer *keys,
                                bool has_ticket)
{
    uint64_t number = 0;
    enum tern_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tern_localize_start(worker->handle, table->handle, keys->buf, view_count(keys),
                                 has_ticket ? &number : NULL);
    Py_END_ALLOW_THREADS
    const Py_buffer none = {0};
    PyObject *ticket =
        !status && has_ticket ? new_ticket(worker, table, Py_None, number, keys, &none) : NULL;
    if (ticket)
        return ticket;
    if (!status && has_ticket) {
        Py_BEGIN_ALLOW_THREADS
        tern_wait(worker->handle, number);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(keys);
    return PyErr_Occurred() ? NULL : none_or_raise(status);
}

PyObject *worker_localize(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                          PyObject *keywords)
{
    static const struct signature signature = {"localize", {"table", "keys", "wait", "ticket"}, 2};
    struct worker *worker = (struct worker *)self;
    PyObject *given[6], *answer = NULL;
    Py_buffer keys;
    if (!take_arguments(&signature, arguments, n, keywords, given))
        return NULL;
    const int has_ticket = given[3] ? PyObject_IsTrue(given[3]) : 0;
    const int waits = !has_ticket && given[2] ? PyObject_IsTrue(given[2]) : !has_ticket;
    if (waits < 0 || has_ticket < 0 || !enter_both(worker, given[0]))
        return NULL;
    struct table *table = (struct table *)given[0];
    if (take_keys(given[1], "localize", &keys)) {
        if (waits) {
            enum tern_status status;
            Py_BEGIN_ALLOW_THREADS
            status = tern_localize(worker->handle, table->handle, keys.buf, view_count(&keys));
            Py_END_ALLOW_THREADS
            PyBuffer_Release(&keys);
            answer = none_or_raise(status);
        } else {
            answer = localize_start(worker, table, &keys, has_ticket);
        }
    }
    leave_both(worker, given[0]);
    return answer;
}

/* A pull that also says something of each key. */
struct flagged_pull {
    struct signature signature;
    enum tern_status (*pull)(struct tern_worker *, struct tern_table *, const uint64_t *, size_t,
                             void *, bool *);
};

static enum tern_status pull_if_local(struct tern_worker *w, struct tern_table *t,
                                      const uint64_t *k, size_t n, void *v, bool *flags)
{
    return tern_pull_if_local(w, t, k, n, v, flags, NULL);
}

/* With the keys and the array of values taken. */
static PyObject *pull_flagged(const struct flagged_pull *how, struct worker *worker,
                              struct table *table, PyObject *array, const Py_buffer *keys,
                              const Py_buffer *values)
{
    Py_buffer view;
    enum tern_status status;
    PyObject *flags = new_flags(keys->ndim, keys->shape);
    if (!flags || PyObject_GetBuffer(flags, &view, PyBUF_ND | PyBUF_WRITABLE)) {
        Py_XDECREF(flags);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = how->pull(worker->handle, table->handle, keys->buf, view_count(keys), values->buf,
                       view.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    PyObject *answer = status ? raise_status(status) : PyTuple_Pack(2, array, flags);
    Py_DECREF(flags);
    return answer;
}

/* A new array for values, some of which may not come. */
static PyObject *new_zeros(const struct table *table, const Py_buffer *keys)
{
    PyObject *array = new_values(table, keys);
    Py_buffer values;
    if (!array || PyObject_GetBuffer(array, &values, PyBUF_ND | PyBUF_WRITABLE)) {
        Py_XDECREF(array);
        return NULL;
    }
    memset(values.buf, 0, (size_t)values.len);
    PyBuffer_Release(&values);
    return array;
}

static PyObject *run_flagged(const struct flagged_pull *how, PyObject *self,
                             PyObject *const *arguments, Py_ssize_t n, PyObject *keywords)
{
    const char *what = how->signature.function;
    struct worker *worker = (struct worker *)self;
    PyObject *given[6], *answer = NULL;
    Py_buffer keys, values;
    if (!take_arguments(&how->signature, arguments, n, keywords, given) ||
        !enter_both(worker, given[0]))
        return NULL;
    struct table *table = (struct table *)given[0];
    if (take_keys(given[1], what, &keys)) {
        const bool has_out = given[2] && given[2] != Py_None;
        PyObject *array = has_out ? Py_NewRef(given[2]) : new_zeros(table, &keys);
        if (array && take_values(array, what, table->type, true, &values)) {
            if (check_shape(&keys, &values, table->length, what))
                answer = pull_flagged(how, worker, table, array, &keys, &values);
            PyBuffer_Release(&values);
        }
        Py_XDECREF(array);
        PyBuffer_Release(&keys);
    }
    leave_both(worker, given[0]);
    return answer;
}

PyObject *worker_pull_if_local(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                               PyObject *keywords)
{
    static const struct flagged_pull how = {{"pull_if_local", {"table", "keys", "out"}, 2},
                                            pull_if_local};
    return run_flagged(&how, self, arguments, n, keywords);
}

PyObject *worker_pull_present(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                              PyObject *keywords)
{
    static const struct flagged_pull how = {{"pull_present", {"table", "keys", "out"}, 2},
                                            tern_pull_present};
    return run_flagged(&how, self, arguments, n, keywords);
}

PyObject *worker_pull(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords)
{
    return run_access(&pull_operation, self, arguments, n, keywords);
}

PyObject *worker_push(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords)
{
    return run_access(&push_operation, self, arguments, n, keywords);
}

PyObject *worker_set(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords)
{
    return run_access(&set_operation, self, arguments, n, keywords);
}

/* _time(table, keys, values, is_push, n): seconds of this thread that n calls take from C, one for each row of `keys` in
 * turn. */
PyObject *worker_time(PyObject *self, PyObject *arguments)
{
    struct worker *worker = (struct worker *)self;
    PyObject *table, *key_object, *value_object;
    int is_push;
    Py_ssize_t n;
    Py_buffer keys, values;
    if (!PyArg_ParseTuple(arguments, "OOOpn", &table, &key_object, &value_object, &is_push, &n) ||
        !enter_both(worker, table))
        return NULL;
    const struct table *of = (struct table *)table;
    PyObject *answer = NULL;
    bool has_keys = take_keys(key_object, "_time", &keys);
    bool has_values = has_keys && take_values(value_object, "_time", of->type, true, &values);
    if (has_values && keys.ndim == 2 && keys.shape[0] > 0 &&
        view_count(&values) >= (size_t)keys.shape[1] * of->length) {
        struct timespec begin, end;
        enum tern_status status = TERN_OK;
        Py_BEGIN_ALLOW_THREADS
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        for (Py_ssize_t i = 0; !status && i < n; i++) {
            const uint64_t *row = (const uint64_t *)keys.buf + (i % keys.shape[0]) * keys.shape[1];
            size_t n_keys = (size_t)keys.shape[1];
            status = is_push ? tern_push(worker->handle, of->handle, row, n_keys, values.buf)
                             : tern_pull(worker->handle, of->handle, row, n_keys, values.buf);
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        Py_END_ALLOW_THREADS
        double seconds =
            (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
        answer = status ? raise_status(status) : PyFloat_FromDouble(seconds);
    } else if (has_values) {
        raise_sentence(
            TERN_INVALID,
            "_time: keys of two dimensions, and room for the values of a row, are needed");
    }
    if (has_values)
        PyBuffer_Release(&values);
    if (has_keys)
        PyBuffer_Release(&keys);
    leave_both(worker, table);
    return answer;
}

/* _bare(table, keys, values, is_push): what no call with two arrays can do without: their buffers, open handles, and, if
 * it may wait, the interpreter released meanwhile. The types and the shape are not checked, the arguments not sorted. */
PyObject *worker_bare(PyObject *self, PyObject *const *arguments, Py_ssize_t n)
{
    struct worker *worker = (struct worker *)self;
    Py_buffer keys, values;
    if (n != 4)
        return PyErr_Format(PyExc_TypeError, "_bare() takes 4 arguments");
    const struct table *table = (struct table *)arguments[0];
    bool is_push = arguments[3] == Py_True;
    if (!enter_both(worker, arguments[0]))
        return NULL;
    PyObject *answer = NULL;
    bool has_keys = !PyObject_GetBuffer(arguments[1], &keys, PyBUF_ND);
    bool has_values =
        has_keys && !PyObject_GetBuffer(arguments[2], &values, PyBUF_ND | PyBUF_WRITABLE);
    size_t n_keys = has_keys ? (size_t)keys.len / 8 : 0;
    if (has_values && (size_t)values.len >= n_keys * table->length * type_bytes(table->type)) {
        answer = none_or_raise(
            run(is_push ? &push_operation : &pull_operation, worker, table, &keys, &values));
    } else if (has_values) {
        raise_sentence(TERN_INVALID, "_bare: the array of values is too small");
    }
    if (has_values)
        PyBuffer_Release(&values);
    if (has_keys)
        PyBuffer_Release(&keys);
    leave_both(worker, arguments[0]);
    return answer;
}

/* ---- Tickets --------------------------------------------------------------------------------- */

static void settle(struct ticket *ticket)
{
    if (ticket->is_finished)
        return;
    ticket->is_finished = true;
    if (ticket->worker->n_tickets)
        ticket->worker->n_tickets--;
    PyBuffer_Release(&ticket->keys);
    PyBuffer_Release(&ticket->values);
}

/* Closing a worker has finished its operations. */
static bool is_finished(struct ticket *ticket)
{
    if (!ticket->worker->handle)
        settle(ticket);
    return ticket->is_finished;
}

static PyObject *ticket_wait(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct ticket *ticket = (struct ticket *)self;
    enum tern_status status;
    if (!is_finished(ticket)) {
        if (!worker_enter(ticket->worker))
            return NULL;
        Py_BEGIN_ALLOW_THREADS
        status = tern_wait(ticket->worker->handle, ticket->number);
        Py_END_ALLOW_THREADS
        worker_leave(ticket->worker);
        settle(ticket);
        if (status)
            return raise_status(status);
    }
    return Py_NewRef(ticket->result);
}

static PyObject *ticket_done(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct ticket *ticket = (struct ticket *)self;
    bool done = false;
    enum tern_status status;
    if (is_finished(ticket))
        Py_RETURN_TRUE;
    if (!worker_enter(ticket->worker))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tern_test(ticket->worker->handle, ticket->number, &done);
    Py_END_ALLOW_THREADS
    worker_leave(ticket->worker);
    if (status || done)
        settle(ticket);
    return status ? raise_status(status) : PyBool_FromLong(done);
}

/* The arrays must stay until the operation is done. */
static void abandon(struct ticket *ticket)
{
    struct worker *worker = ticket->worker;
    if (was_forked(worker->node->generation))
        return;
    if (!worker->busy) {
        worker->busy = true;
        Py_BEGIN_ALLOW_THREADS
        tern_wait(worker->handle, ticket->number);
        Py_END_ALLOW_THREADS
        worker->busy = false;
        settle(ticket);
        return;
    }
    struct abandoned *abandoned = malloc(sizeof *abandoned);
    if (!abandoned)
        return; /* the arrays stay for good, which does no harm */
    *abandoned = (struct abandoned){
        .next = worker->abandoned, .keys = ticket->keys, .values = ticket->values};
    worker->abandoned = abandoned;
}

void access_free_abandoned(struct worker *worker)
{
    while (worker->abandoned) {
        struct abandoned *abandoned = worker->abandoned;
        worker->abandoned = abandoned->next;
        PyBuffer_Release(&abandoned->keys);
        PyBuffer_Release(&abandoned->values);
        free(abandoned);
    }
}

static void ticket_dealloc(PyObject *self)
{
    struct ticket *ticket = (struct ticket *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    if (!is_finished(ticket))
        abandon(ticket);
    PyErr_Restore(kind, value, trace);
    Py_DECREF((PyObject *)ticket->worker);
    Py_DECREF((PyObject *)ticket->table);
    Py_DECREF(ticket->result);
    release(self);
    Py_DECREF(type);
}

bool access_init_types(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"wait", ticket_wait, METH_NOARGS,
         "wait()\n\nWaits until it is finished. Returns a pull's array, else None."},
        {"done", ticket_done, METH_NOARGS, "done()\n\nWhether it is finished."},
        {0},
    };
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, ticket_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_doc,
         "A pull, push, set or localize that is under way. Its arrays must not be changed until "
         "it is finished."},
        {0},
    };
    static PyType_Spec spec = {
        .name = "tern._tern.Ticket",
        .basicsize = sizeof(struct ticket),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    return (ticket_type = add_type(module, &spec));
}
