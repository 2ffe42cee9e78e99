/*
 * lookup - embedding layers in two calls: a forward pass that pulls each distinct key once and spreads or adds up
 * the rows, and a backward pass that adds up the gradients of equal keys and pushes one per key.
 *
 * tern.torch gives addresses of tensors that it has checked: contiguous, on the CPU, keys int64, values float32. A
 * Lookup keeps what the backward pass needs: the distinct keys and, for each given key, which of them it is.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *lookup_type;

#define SKIPPED UINT32_MAX /* a padding key of a bag */

/* One variant of the loops below per instruction set, chosen when the module is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define VARIANTS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VARIANTS
#endif

struct slot {
    uint64_t key;
    uint32_t index, stamp; /* of another stamp: free */
};

/* A worker's memory for lookups: it grows, and is used by one call at a time. */
struct scratch {
    struct slot *slots;
    size_t n_slots; /* a power of 2 */
    uint32_t stamp;
    float *rows;
    size_t max_rows_floats;
};

struct lookup {
    PyObject_HEAD
    struct worker *worker;
    struct table *table;
    size_t n;          /* given keys */
    size_t n_distinct; /* of them */
    uint64_t *keys;    /* distinct, in the order of their first occurrence */
    uint32_t *inverse; /* which of them each given key is; or SKIPPED */
    uint32_t padding;  /* which gets no gradient; SKIPPED: none */
    size_t n_bags;
    size_t *bags; /* n_bags + 1 positions */
    bool is_mean;
    float *rows; /* the distinct rows, if they are kept */
};

/* ---- Distinct keys --------------------------------------------------------------------------- */

static size_t slot_of(const struct scratch *scratch, uint64_t key)
{
    uint64_t mixed = (key ^ (key >> 32)) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(mixed >> 32) & (scratch->n_slots - 1);
}

/* The slot of a key, or the free one where it belongs. */
static struct slot *find(const struct scratch *scratch, uint64_t key)
{
    size_t i = slot_of(scratch, key);
    while (scratch->slots[i].stamp == scratch->stamp && scratch->slots[i].key != key)
        i = (i + 1) & (scratch->n_slots - 1);
    return &scratch->slots[i];
}

/* Doubles the slots and puts the keys found so far back. */
static bool grow(struct scratch *scratch, const uint64_t *keys, size_t n)
{
    size_t n_slots = scratch->n_slots ? 2 * scratch->n_slots : 1024;
    struct slot *slots = calloc(n_slots, sizeof *slots);
    if (!slots)
        return false;
    free(scratch->slots);
    scratch->slots = slots;
    scratch->n_slots = n_slots;
    scratch->stamp = 1;
    for (size_t i = 0; i < n; i++)
        *find(scratch, keys[i]) = (struct slot){.key = keys[i], .index = (uint32_t)i, .stamp = 1};
    return true;
}

/* Fills keys and inverse of a lookup; `skips` leaves the padding key out. */
static bool find_distinct(struct scratch *scratch, struct lookup *lookup, const uint64_t *keys,
                          const uint64_t *padding, bool skips)
{
    size_t n = 0;
    if (++scratch->stamp == 0 || !scratch->n_slots) {
        scratch->stamp = 1;
        if (scratch->slots)
            memset(scratch->slots, 0, scratch->n_slots * sizeof *scratch->slots);
        else if (!grow(scratch, NULL, 0))
            return false;
    }
    for (size_t i = 0; i < lookup->n; i++) {
        bool is_padding = padding && keys[i] == *padding;
        if (is_padding && skips) {
            lookup->inverse[i] = SKIPPED;
            continue;
        }
        struct slot *slot = find(scratch, keys[i]);
        if (slot->stamp != scratch->stamp) {
            *slot = (struct slot){.key = keys[i], .index = (uint32_t)n, .stamp = scratch->stamp};
            lookup->keys[n++] = keys[i];
            if (is_padding)
                lookup->padding = (uint32_t)n - 1;
        }
        lookup->inverse[i] = slot->index;
        if (2 * n > scratch->n_slots && !grow(scratch, lookup->keys, n))
            return false;
    }
    lookup->n_distinct = n;
    return true;
}

static float *rows_of(struct scratch *scratch, size_t n_floats)
{
    if (scratch->max_rows_floats < n_floats) {
        free(scratch->rows);
        scratch->max_rows_floats = n_floats + n_floats / 2;
        scratch->rows = malloc(scratch->max_rows_floats * sizeof *scratch->rows);
        if (!scratch->rows)
            scratch->max_rows_floats = 0;
    }
    return scratch->rows;
}

void lookup_free_scratch(struct worker *worker)
{
    if (!worker->scratch)
        return;
    free(worker->scratch->slots);
    free(worker->scratch->rows);
    free(worker->scratch);
    worker->scratch = NULL;
}

/* ---- Loops ----------------------------------------------------------------------------------- */

VARIANTS static void spread(float *out, const float *rows, const uint32_t *inverse, size_t n,
                            size_t length)
{
    for (size_t i = 0; i < n; i++)
        memcpy(out + i * length, rows + inverse[i] * length, length * sizeof *out);
}

/* Adds up gradients of equal keys. The first of each key comes in the order of the sums, so nothing is zeroed before. */
VARIANTS static void add_up(float *sums, const float *gradients, const uint32_t *inverse, size_t n,
                            size_t length)
{
    uint32_t n_begun = 0;
    for (size_t i = 0; i < n; i++) {
        const float *from = gradients + i * length;
        float *to = sums + inverse[i] * length;
        if (inverse[i] == n_begun) {
            memcpy(to, from, length * sizeof *to);
            n_begun++;
        } else {
            for (size_t j = 0; j < length; j++)
                to[j] += from[j];
        }
    }
}

/* By what the sum of a bag is divided. */
static float divisor_of(const struct lookup *lookup, size_t bag)
{
    size_t n = 0;
    for (size_t i = lookup->bags[bag]; i < lookup->bags[bag + 1]; i++)
        n += lookup->inverse[i] != SKIPPED;
    return lookup->is_mean && n ? (float)n : 1;
}

VARIANTS static void add_bags(const struct lookup *lookup, const float *rows, const float *weights,
                              float *out, size_t length)
{
    for (size_t bag = 0; bag < lookup->n_bags; bag++) {
        float *to = out + bag * length;
        memset(to, 0, length * sizeof *to);
        for (size_t i = lookup->bags[bag]; i < lookup->bags[bag + 1]; i++) {
            if (lookup->inverse[i] == SKIPPED)
                continue;
            const float *from = rows + lookup->inverse[i] * length;
            if (weights)
                for (size_t j = 0; j < length; j++)
                    to[j] += weights[i] * from[j];
            else
                for (size_t j = 0; j < length; j++)
                    to[j] += from[j];
        }
        float divisor = divisor_of(lookup, bag);
        for (size_t j = 0; divisor != 1 && j < length; j++)
            to[j] /= divisor;
    }
}

VARIANTS static void spread_bags(const struct lookup *lookup, const float *gradients,
                                 const float *weights, float *sums, size_t length)
{
    uint32_t n_begun = 0;
    for (size_t bag = 0; bag < lookup->n_bags; bag++) {
        const float *from = gradients + bag * length;
        const float factor = 1 / divisor_of(lookup, bag);
        for (size_t i = lookup->bags[bag]; i < lookup->bags[bag + 1]; i++) {
            uint32_t at = lookup->inverse[i];
            if (at == SKIPPED)
                continue;
            float *to = sums + at * length;
            const float by = weights ? weights[i] : factor;
            const float keep = at == n_begun ? 0 : 1;
            n_begun += at == n_begun;
            if (keep == 0)
                for (size_t j = 0; j < length; j++)
                    to[j] = by * from[j];
            else
                for (size_t j = 0; j < length; j++)
                    to[j] += by * from[j];
        }
    }
}

/* The gradient of each weight: the gradient of its bag times its row. */
VARIANTS static void multiply_bags(const struct lookup *lookup, const float *gradients, float *out,
                                   size_t length)
{
    for (size_t bag = 0; bag < lookup->n_bags; bag++) {
        for (size_t i = lookup->bags[bag]; i < lookup->bags[bag + 1]; i++) {
            float sum = 0;
            if (lookup->inverse[i] != SKIPPED)
                for (size_t j = 0; j < length; j++)
                    sum +=
                        gradients[bag * length + j] * lookup->rows[lookup->inverse[i] * length + j];
            out[i] = sum;
        }
    }
}

/* Divides each sum by how often its key was given. */
static void divide_by_counts(const struct lookup *lookup, float *sums, size_t length)
{
    uint32_t *counts = calloc(lookup->n_distinct + 1, sizeof *counts);
    for (size_t i = 0; counts && i < lookup->n; i++)
        if (lookup->inverse[i] != SKIPPED)
            counts[lookup->inverse[i]]++;
    for (size_t i = 0; counts && i < lookup->n_distinct; i++)
        for (size_t j = 0; j < length; j++)
            sums[i * length + j] /= (float)counts[i];
    free(counts);
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Arguments that are addresses and counts; None is 0. */
static bool take_sizes(PyObject *const *arguments, int n, uint64_t *values)
{
    for (int i = 0; i < n; i++) {
        values[i] = 0;
        if (arguments[i] != Py_None && !take_u64(arguments[i], "argument", &values[i]))
            return false;
    }
    return true;
}

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static struct lookup *new_lookup(struct worker *worker, struct table *table, size_t n,
                                 size_t n_bags)
{
    if (table->type != TERN_F32 || n >= UINT32_MAX) {
        raise_sentence(TERN_INVALID,
                       "layers need a table of float32, and less than 2^32 keys at a time");
        return NULL;
    }
    if (!worker->scratch && !(worker->scratch = calloc(1, sizeof *worker->scratch))) {
        PyErr_NoMemory();
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(lookup_type, Py_tp_alloc);
    struct lookup *lookup = (struct lookup *)allocate(lookup_type, 0);
    if (!lookup)
        return NULL;
    lookup->worker = (struct worker *)Py_NewRef((PyObject *)worker);
    lookup->table = (struct table *)Py_NewRef((PyObject *)table);
    lookup->n = n;
    lookup->n_bags = n_bags;
    lookup->padding = SKIPPED;
    lookup->keys = malloc((n + 1) * sizeof *lookup->keys);
    lookup->inverse = malloc((n + 1) * sizeof *lookup->inverse);
    lookup->bags = malloc((n_bags + 1) * sizeof *lookup->bags);
    if (lookup->keys && lookup->inverse && lookup->bags)
        return lookup;
    Py_DECREF((PyObject *)lookup);
    PyErr_NoMemory();
    return NULL;
}

/* Pulls the distinct rows into the scratch, or to `out` if they can stay there. */
static enum tern_status pull_distinct(struct lookup *lookup, float *out, float **rows)
{
    struct worker *worker = lookup->worker;
    *rows = out ? out : rows_of(worker->scratch, lookup->n_distinct * lookup->table->length);
    if (!*rows && lookup->n_distinct)
        return TERN_NO_MEMORY;
    return tern_pull(worker->handle, lookup->table->handle, lookup->keys, lookup->n_distinct,
                     *rows);
}

/* _look_up(table, keys, n, out, padding) */

PyObject *worker_look_up(PyObject *self, PyObject *const *arguments, Py_ssize_t n)
{
    struct worker *worker = (struct worker *)self;
    uint64_t given[4];
    if (n != 5 || !take_sizes(arguments + 1, 4, given))
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_TypeError, "_look_up() takes 5 arguments");
    if (!enter_both(worker, arguments[0]))
        return NULL;
    struct table *table = (struct table *)arguments[0];
    const uint64_t *keys = pointer(given[0]), *padding = arguments[4] == Py_None ? NULL : &given[3];
    float *out = pointer(given[2]), *rows = NULL;
    struct lookup *lookup = new_lookup(worker, table, (size_t)given[1], 0);
    enum tern_status status = TERN_OK;
    if (lookup) {
        Py_BEGIN_ALLOW_THREADS
        if (!find_distinct(worker->scratch, lookup, keys, padding, false))
            status = TERN_NO_MEMORY;
        bool all_differ = lookup->n_distinct == lookup->n;
        if (!status)
            status = pull_distinct(lookup, all_differ ? out : NULL, &rows);
        if (!status && !all_differ)
            spread(out, rows, lookup->inverse, lookup->n, table->length);
        Py_END_ALLOW_THREADS
    }
    leave_both(worker, arguments[0]);
    if (lookup && status) {
        Py_DECREF((PyObject *)lookup);
        return raise_status(status);
    }
    return (PyObject *)lookup;
}

/* Positions of bags: from offsets, or of equal size. */
static bool take_bags(struct lookup *lookup, const int64_t *offsets)
{
    size_t n = lookup->n_bags;
    for (size_t i = 0; i < n; i++)
        lookup->bags[i] = offsets ? (size_t)offsets[i] : i * (lookup->n / n);
    lookup->bags[n] = lookup->n;
    bool good = n == 0 || lookup->bags[0] == 0;
    for (size_t i = 0; good && i < n; i++)
        good = lookup->bags[i] <= lookup->bags[i + 1];
    if (!good)
        raise_sentence(TERN_INVALID,
                       "offsets: they must begin with 0, rise, and end within the input");
    return good;
}

/* _look_up_bags(table, keys, n, out, padding, offsets, n_bags, weights, is_mean, keeps) */
PyObject *worker_look_up_bags(PyObject *self, PyObject *const *arguments, Py_ssize_t n)
{
    struct worker *worker = (struct worker *)self;
    uint64_t given[9];
    if (n != 10 || !take_sizes(arguments + 1, 9, given))
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError, "_look_up_bags() takes 10 arguments");
    if (!enter_both(worker, arguments[0]))
        return NULL;
    struct table *table = (struct table *)arguments[0];
    const uint64_t *keys = pointer(given[0]), *padding = arguments[4] == Py_None ? NULL : &given[3];
    const float *weights = pointer(given[6]);
    float *rows = NULL;
    struct lookup *lookup = new_lookup(worker, table, (size_t)given[1], (size_t)given[5]);
    enum tern_status status = TERN_OK;
    bool good = lookup && take_bags(lookup, pointer(given[4]));
    if (good) {
        lookup->is_mean = given[7];
        Py_BEGIN_ALLOW_THREADS
        if (!find_distinct(worker->scratch, lookup, keys, padding, true))
            status = TERN_NO_MEMORY;
        if (!status)
            status = pull_distinct(lookup, NULL, &rows);
        if (!status)
            add_bags(lookup, rows, weights, pointer(given[2]), table->length);
        size_t bytes = lookup->n_distinct * table->length * sizeof *rows;
        if (!status && given[8] && (lookup->rows = malloc(bytes + 1)))
            memcpy(lookup->rows, rows, bytes);
        Py_END_ALLOW_THREADS
        if (!status && given[8] && !lookup->rows)
            status = TERN_NO_MEMORY;
    }
    leave_both(worker, arguments[0]);
    if (good && !status)
        return (PyObject *)lookup;
    Py_XDECREF((PyObject *)lookup);
    return status ? raise_status(status) : NULL;
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* Pushes the sums, without that of the padding key. */
static enum tern_status push_sums(const struct lookup *lookup, const float *sums)
{
    struct tern_worker *worker = lookup->worker->handle;
    struct tern_table *table = lookup->table->handle;
    size_t n = lookup->n_distinct, length = lookup->table->length;
    if (lookup->padding == SKIPPED)
        return tern_push(worker, table, lookup->keys, n, sums);
    size_t at = lookup->padding;
    enum tern_status status = tern_push(worker, table, lookup->keys, at, sums);
    if (!status)
        status =
            tern_push(worker, table, lookup->keys + at + 1, n - at - 1, sums + (at + 1) * length);
    return status;
}

/* push(gradients, weights, by_frequency): one gradient per given key, or per bag. */
static PyObject *lookup_push(PyObject *self, PyObject *const *arguments, Py_ssize_t n)
{
    struct lookup *lookup = (struct lookup *)self;
    uint64_t given[3];
    if (n != 3 || !take_sizes(arguments, 3, given))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "push() takes 3 arguments");
    if (!enter_both(lookup->worker, (PyObject *)lookup->table))
        return NULL;
    size_t length = lookup->table->length;
    const float *gradients = pointer(given[0]);
    enum tern_status status;
    Py_BEGIN_ALLOW_THREADS
    float *sums = rows_of(lookup->worker->scratch, lookup->n_distinct * length + 1);
    status = sums ? TERN_OK : TERN_NO_MEMORY;
    if (!status && lookup->n_bags)
        spread_bags(lookup, gradients, pointer(given[1]), sums, length);
    else if (!status)
        add_up(sums, gradients, lookup->inverse, lookup->n, length);
    if (!status && given[2])
        divide_by_counts(lookup, sums, length);
    if (!status)
        status = push_sums(lookup, sums);
    Py_END_ALLOW_THREADS
    leave_both(lookup->worker, (PyObject *)lookup->table);
    return none_or_raise(status);
}

/* weights(gradients, out): the gradients of the weights of a bag's keys. */
static PyObject *lookup_weights(PyObject *self, PyObject *const *arguments, Py_ssize_t n)
{
    struct lookup *lookup = (struct lookup *)self;
    uint64_t given[2];
    if (n != 2 || !take_sizes(arguments, 2, given) || !lookup->rows)
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError, "weights() takes 2 arguments, and kept rows");
    multiply_bags(lookup, pointer(given[0]), pointer(given[1]), lookup->table->length);
    Py_RETURN_NONE;
}

static void lookup_dealloc(PyObject *self)
{
    struct lookup *lookup = (struct lookup *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free(lookup->keys);
    free(lookup->inverse);
    free(lookup->bags);
    free(lookup->rows);
    Py_XDECREF((PyObject *)lookup->worker);
    Py_XDECREF((PyObject *)lookup->table);
    release(self);
    Py_DECREF(type);
}

static PyObject *get_distinct(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((struct lookup *)self)->n_distinct);
}

bool lookup_init_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"push", (PyCFunction)(void (*)(void))lookup_push, METH_FASTCALL,
         "Adds up gradients and pushes one per key."},
        {"weights", (PyCFunction)(void (*)(void))lookup_weights, METH_FASTCALL,
         "The gradients of weights."},
        {0},
    };
    static PyGetSetDef getters[] = {
        {"distinct", get_distinct, NULL, "The number of distinct keys.", NULL}, {0}};
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, lookup_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_getset, getters},
        {0},
    };
    static PyType_Spec spec = {
        .name = "tern._tern.Lookup",
        .basicsize = sizeof(struct lookup),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    return (lookup_type = add_type(module, &spec));
}
