/*
 * binding - what the files of the extension share. The package uses tern.h alone, and of Python the limited API of
 * 3.11, so that one binary serves every later version.
 *
 * The rules of all files:
 *
 *   - Nobody calls Tern while holding the GIL, but for calls that cannot wait (access.c: is_brief). So a callback or a
 *     check of signals, which take the GIL while Tern holds its own locks, cannot deadlock.
 *   - The GIL guards the counters `users` and `busy`: an object that a thread uses is not closed by another, and a
 *     worker is used by one thread at a time. Breaking either rule is an exception, not a crash.
 *   - After fork() the objects of the parent are dead in the child: calls raise, and nothing is closed there.
 *   - Arrays are Python buffers, used in place. They are never converted.
 */
#ifndef BINDING_H
#define BINDING_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tern/tern.h>

/* ---- Objects --------------------------------------------------------------------------------- */

struct worker;
struct function; /* a Python function that tasks run (task.c) */

struct node {
    PyObject_HEAD
    struct tern_node *handle; /* NULL: closed */
    unsigned generation;      /* of the process that opened it (module.c) */
    unsigned users;           /* threads inside a call */
    struct worker *workers;   /* open, a list */
    struct function *functions;
};

struct table {
    PyObject_HEAD
    struct tern_table *handle; /* NULL: closed */
    struct node *node;
    PyObject *name, *policy;
    uint64_t n_keys; /* 0: sparse */
    uint32_t length;
    enum tern_type type;
    bool is_here; /* a pull, push or set waits for nobody, and calls no function of Python's */
    unsigned users;
};

struct abandoned; /* arrays of operations whose tickets were dropped (access.c) */

struct worker {
    PyObject_HEAD
    struct tern_worker *handle; /* NULL: closed */
    struct node *node;
    struct worker *next, *before; /* of the node's list */
    bool busy;                    /* a thread is inside a call */
    bool is_lent;                 /* by Tern to a task's function: not to be closed */
    unsigned n_tickets;           /* not finished */
    struct abandoned *abandoned;
    struct scratch *scratch; /* lookup.c */
};

/* The package's own subclass of Worker. */
extern PyTypeObject *worker_class;

extern PyTypeObject *node_type, *table_type, *worker_type, *ticket_type, *pin_type, *dist_type,
    *sample_type, *task_type, *lookup_type, *checkpoint_type;

bool node_init_type(PyObject *module);
bool table_init_type(PyObject *module);
bool worker_init_type(PyObject *module);
bool access_init_types(PyObject *module);
bool rows_init_type(PyObject *module);
bool sample_init_types(PyObject *module);
bool task_init_type(PyObject *module);
bool lookup_init_type(PyObject *module);
bool checkpoint_init_type(PyObject *module);

extern PyMethodDef graph_functions[];

/* Methods of Node that are not in node.c. */
PyObject *node_checkpoint_start(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *node_checkpoint_wait(PyObject *self, PyObject *unused);

/* Methods of Worker that are not in worker.c. */
PyObject *worker_pull_if_local(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                               PyObject *keywords);
PyObject *worker_pull_present(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                              PyObject *keywords);
PyObject *worker_count(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                       PyObject *keywords);
PyObject *worker_top(PyObject *self, PyObject *arguments);
PyObject *worker_read_cells(PyObject *self, PyObject *arguments);
PyObject *worker_add_cells(PyObject *self, PyObject *arguments);
PyObject *worker_sweep(PyObject *self, PyObject *arguments);
PyObject *worker_pull(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords);
PyObject *worker_push(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords);
PyObject *worker_localize(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                          PyObject *keywords);
PyObject *worker_set(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *keywords);
PyObject *worker_time(PyObject *self, PyObject *arguments);
PyObject *worker_bare(PyObject *self, PyObject *const *arguments, Py_ssize_t n);
PyObject *worker_pull_range(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *worker_push_range(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *worker_prepare(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                         PyObject *keywords);
PyObject *worker_submit(PyObject *self, PyObject *arguments);
PyObject *worker_task_delay(PyObject *self, PyObject *delay);
PyObject *worker_task_progress(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *worker_task_wait(PyObject *self, PyObject *arguments, PyObject *keywords);
PyObject *worker_look_up(PyObject *self, PyObject *const *arguments, Py_ssize_t n);
PyObject *worker_look_up_bags(PyObject *self, PyObject *const *arguments, Py_ssize_t n);

/* Makes a type of a spec and adds it to the module. */
PyTypeObject *add_type(PyObject *module, PyType_Spec *spec);

/* ---- Failures -------------------------------------------------------------------------------- */

/* Raises the exception for a status with the sentence of tern_error(), or the one that a signal handler has raised.
 * Returns NULL. */
PyObject *raise_status(enum tern_status status);

/* The same with a sentence of its own. */
PyObject *raise_sentence(enum tern_status status, const char *format, ...);

/* None, or the exception. */
PyObject *none_or_raise(enum tern_status status);

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Whether this thread may call Tern: not inside a callback of Tern's. Sets the exception if not. */
bool may_call(void);

/* Gives the calling thread its check of signals back. */
void restore_interrupt(void);

/* Marks the calling thread as being inside a callback that must not call Tern, until the call with false. */
void in_callback(bool is);

/* Whether the object's process is this one; raises if it is a forked child. */
bool is_own_process(unsigned generation);
unsigned process_generation(void);
bool was_forked(unsigned generation); /* without raising */

/* Begin and end a call on an object: it is open, usable here, and stays open meanwhile. */
bool node_enter(struct node *node);
void node_leave(struct node *node);
bool table_enter(struct table *table);
void table_leave(struct table *table);
bool worker_enter(struct worker *worker);
void worker_leave(struct worker *worker);

/* A worker's and a table's together; `table` is checked to be one. */
bool enter_both(struct worker *worker, PyObject *table);
void leave_both(struct worker *worker, PyObject *table);

/* Closes a worker; the caller has not entered it. */
enum tern_status worker_end(struct worker *worker);

/* A worker object for a handle that Tern lends. */
struct worker *worker_lend(struct node *node, struct tern_worker *handle);
void worker_unlend(struct worker *worker);

/* Frees the arrays of operations of dropped tickets; they have finished. */
void access_free_abandoned(struct worker *worker);
void lookup_free_scratch(struct worker *worker);

/* Frees the functions of a closed node. */
void task_free_functions(struct node *node);

/* ---- Arguments ------------------------------------------------------------------------------- */

/* Names of a function's arguments, in order. */
struct signature {
    const char *function;
    const char *names[6];
    int n_required;
};

/* Sorts positional and keyword arguments into values[]; what is not given is NULL. */
bool take_arguments(const struct signature *signature, PyObject *const *arguments, Py_ssize_t n,
                    PyObject *keywords, PyObject **values);

/* Arrays. Each gives a view that the caller releases with PyBuffer_Release. */
bool take_keys(PyObject *object, const char *what, Py_buffer *view);
bool take_values(PyObject *object, const char *what, enum tern_type type, bool is_written,
                 Py_buffer *view);
bool take_numbers(PyObject *object, const char *what, bool is_written, Py_buffer *view,
                  enum tern_type *type);
bool take_nodes(PyObject *object, const char *what, Py_buffer *view);  /* int32 or uint32 */
bool take_counts(PyObject *object, const char *what, Py_buffer *view); /* the same */

/* Whether `values` has the shape of `keys` and then `length`. */
bool check_shape(const Py_buffer *keys, const Py_buffer *values, uint32_t length, const char *what);

static inline size_t view_count(const Py_buffer *view)
{
    return (size_t)(view->len / view->itemsize);
}

/* A new array of a type: numpy's, or a memoryview where there is no numpy. Keys are uint64. */
PyObject *new_array(enum tern_type type, int n_dimensions, const Py_ssize_t *shape);
PyObject *new_flags(int n_dimensions, const Py_ssize_t *shape);
PyObject *new_keys(Py_ssize_t n);

/* The first n rows of an array. */
PyObject *first_rows(PyObject *array, Py_ssize_t n);

bool take_u64(PyObject *object, const char *what, uint64_t *value);

static inline size_t type_bytes(enum tern_type type)
{
    return type == TERN_F32 || type == TERN_I32 ? 4 : 8;
}

const char *type_name(enum tern_type type); /* "float32" */

/* The options of a table (options.c). What options_take has taken refers to the dict's strings and arrays until
 * options_release. */
struct table_options {
    struct tern_table_options options;
    struct tern_placement placement;
    Py_buffer arrays[7];
    size_t n_arrays;
};

bool options_take(PyObject *dict, struct table_options *taken);
void options_release(struct table_options *taken);

#endif
