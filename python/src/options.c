/* options - what a table is: struct tern_table_options, taken from a dict whose names are those of Node.table. */
#include "binding.h"

#include <stddef.h>
#include <string.h>

/* (kind, a, b, seed) */
static bool take_init(PyObject *object, struct tern_init *init)
{
    int kind;
    unsigned long long seed;
    if (!PyTuple_Check(object) ||
        !PyArg_ParseTuple(object, "iddK", &kind, &init->a, &init->b, &seed)) {
        PyErr_Clear();
        raise_sentence(TERN_INVALID,
                       "init: one of tern.zeros(), constant(), uniform() and normal() is needed");
        return false;
    }
    init->kind = (enum tern_init_kind)kind;
    init->seed = seed;
    return true;
}

/* (name, numbers...) */
static bool take_update(PyObject *object, struct tern_updater *updater)
{
    const char *name;
    double p[4] = {0};
    if (!PyTuple_Check(object) ||
        !PyArg_ParseTuple(object, "sdddd", &name, &p[0], &p[1], &p[2], &p[3])) {
        PyErr_Clear();
        raise_sentence(
            TERN_INVALID,
            "update: one of tern.sgd(), momentum(), adagrad(), asyncadagrad(), adadelay(), "
            "adaptiverevision(), adam() and ftrl() is needed");
        return false;
    }
    if (!strcmp(name, "sgd"))
        *updater = tern_updater_sgd(p[0]);
    else if (!strcmp(name, "momentum"))
        *updater = tern_updater_momentum(p[0], p[1]);
    else if (!strcmp(name, "adagrad"))
        *updater = tern_updater_adagrad(p[0], p[1]);
    else if (!strcmp(name, "asyncadagrad"))
        *updater = tern_updater_asyncadagrad(p[0], p[1]);
    else if (!strcmp(name, "adadelay"))
        *updater = tern_updater_adadelay(p[0], p[1]);
    else if (!strcmp(name, "adaptiverevision"))
        *updater = tern_updater_adaptiverevision(p[0], p[1]);
    else if (!strcmp(name, "adam"))
        *updater = tern_updater_adam(p[0], p[1], p[2], p[3]);
    else if (!strcmp(name, "ftrl"))
        *updater = tern_updater_ftrl(p[0], p[1], p[2], p[3]);
    else if (strcmp(name, "add")) {
        raise_sentence(TERN_INVALID, "update: '%s' is unknown", name);
        return false;
    }
    return true;
}

/* (width, depth, counters, epsilon, delta, conservative, seed) */
static bool take_sketch(PyObject *object, struct tern_table_options *options)
{
    unsigned long long width, seed;
    unsigned depth, counters;
    int conservative;
    struct tern_sketch *sketch = &options->sketch;
    if (!PyTuple_Check(object) ||
        !PyArg_ParseTuple(object, "KIIddpK", &width, &depth, &counters, &sketch->epsilon,
                          &sketch->delta, &conservative, &seed)) {
        PyErr_Clear();
        raise_sentence(TERN_INVALID, "sketch: a tern.Sketch is needed");
        return false;
    }
    sketch->width = width;
    sketch->depth = depth;
    sketch->counters = counters;
    sketch->conservative = conservative;
    sketch->seed = seed;
    options->index = TERN_SKETCH;
    return true;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* An array of keys or of counts, which stays until options_release. */
static bool take_u64_array(PyObject *object, const char *what, struct table_options *taken,
                           const uint64_t **array, size_t *n)
{
    Py_buffer *view = &taken->arrays[taken->n_arrays];
    if (!take_keys(object, what, view))
        return false;
    taken->n_arrays++;
    *array = view->buf;
    *n = view_count(view);
    return true;
}

/* One node for each of n keys. */
static bool take_node_array(PyObject *object, const char *what, size_t n,
                            struct table_options *taken, const uint32_t **array)
{
    Py_buffer *view = &taken->arrays[taken->n_arrays];
    if (!take_nodes(object, what, view))
        return false;
    taken->n_arrays++;
    *array = view->buf;
    if (view_count(view) == n)
        return true;
    raise_sentence(TERN_INVALID, "%s: one node for each of %zu keys is needed, not %zu", what, n,
                   view_count(view));
    return false;
}

/* (keys, homes, replica_keys, replica_nodes, frequencies); the last three may be None. */
static bool take_placement(PyObject *object, struct table_options *taken)
{
    PyObject *keys, *homes, *replica_keys, *replica_nodes, *frequencies;
    size_t n;
    struct tern_placement *to = &taken->placement;
    if (!PyTuple_Check(object) || !PyArg_ParseTuple(object, "OOOOO", &keys, &homes, &replica_keys,
                                                    &replica_nodes, &frequencies)) {
        PyErr_Clear();
        raise_sentence(TERN_INVALID, "placement: a tern.Placement is needed");
        return false;
    }
    if (!take_u64_array(keys, "placement.keys", taken, &to->keys, &to->n_keys) ||
        !take_node_array(homes, "placement.homes", to->n_keys, taken, &to->homes))
        return false;
    if (replica_keys != Py_None && (!take_u64_array(replica_keys, "placement.replica_keys", taken,
                                                    &to->replica_keys, &to->n_replicas) ||
                                    !take_node_array(replica_nodes, "placement.replica_nodes",
                                                     to->n_replicas, taken, &to->replica_nodes)))
        return false;
    taken->options.placement = to;
    if (frequencies == Py_None)
        return true;
    if (!take_u64_array(frequencies, "placement.frequencies", taken, &to->frequencies, &n))
        return false;
    if (n == to->n_keys)
        return true;
    raise_sentence(TERN_INVALID,
                   "placement.frequencies: one for each of %zu keys is needed, not %zu", to->n_keys,
                   n);
    return false;
}

static bool take_frequencies(PyObject *object, struct table_options *taken)
{
    size_t n;
    if (!take_u64_array(object, "frequencies", taken, &taken->options.frequencies, &n))
        return false;
    if (n == taken->options.n_keys)
        return true;
    raise_sentence(TERN_INVALID, "frequencies: one for each of %llu keys is needed, not %zu",
                   (unsigned long long)taken->options.n_keys, n);
    return false;
}

/* ---- Options that are numbers or text -------------------------------------------------------- */

enum kind { U32, U64, F64, BOOL, TEXT };

static const struct {
    const char *name;
    enum kind kind;
    size_t at; /* in struct tern_table_options */
} plain[] = {
    {"length", U32, offsetof(struct tern_table_options, length)},
    {"type", U32, offsetof(struct tern_table_options, type)},
    {"policy", TEXT, offsetof(struct tern_table_options, policy)},
    {"memory_limit", U64, offsetof(struct tern_table_options, memory_limit_bytes)},
    {"filters", TEXT, offsetof(struct tern_table_options, filters)},
    {"admit", U32, offsetof(struct tern_table_options, admit)},
    {"expected_keys", U64, offsetof(struct tern_table_options, expected_keys)},
    {"evict_age", U32, offsetof(struct tern_table_options, evict_age)},
    {"evict_at_limit", BOOL, offsetof(struct tern_table_options, evict_at_limit)},
    {"evict_floor", U64, offsetof(struct tern_table_options, evict_floor)},
    {"staleness_ms", U32, offsetof(struct tern_table_options, staleness_ms)},
    {"rare_staleness_ms", U32, offsetof(struct tern_table_options, rare_staleness_ms)},
    {"max_rounds_per_s", U32, offsetof(struct tern_table_options, max_rounds_per_s)},
    {"hot_factor", F64, offsetof(struct tern_table_options, hot_factor)},
    {"backups", U32, offsetof(struct tern_table_options, backups)},
    {"recover", TEXT, offsetof(struct tern_table_options, recover)},
    {"scatter", BOOL, offsetof(struct tern_table_options, scatter)},
};

_Static_assert(sizeof(enum tern_type) == sizeof(uint32_t), "`type` is taken as a u32");

static bool take_plain(PyObject *object, size_t i, struct tern_table_options *options)
{
    void *to = (char *)options + plain[i].at;
    uint64_t number = 0;
    switch (plain[i].kind) {
    case TEXT:
        return (*(const char **)to = PyUnicode_AsUTF8AndSize(object, NULL));
    case BOOL:
        *(bool *)to = PyObject_IsTrue(object) > 0;
        return !PyErr_Occurred();
    case F64:
        *(double *)to = PyFloat_AsDouble(object);
        return !PyErr_Occurred();
    case U32:
    case U64:
        if (!take_u64(object, plain[i].name, &number))
            return false;
        break;
    }
    if (plain[i].kind == U64) {
        *(uint64_t *)to = number;
        return true;
    }
    *(uint32_t *)to = (uint32_t)number;
    if (number <= UINT32_MAX)
        return true;
    raise_sentence(TERN_INVALID, "%s: %llu is too large", plain[i].name,
                   (unsigned long long)number);
    return false;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* The value of an option; NULL if it is not given, or None. A borrowed reference. */
static PyObject *given(PyObject *dict, const char *name)
{
    PyObject *object = PyDict_GetItemString(dict, name);
    return object == Py_None ? NULL : object;
}

static bool take_all(PyObject *dict, struct table_options *taken)
{
    struct tern_table_options *options = &taken->options;
    PyObject *object;
    size_t n;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if ((object = given(dict, plain[i].name)) && !take_plain(object, i, options))
            return false;
    }
    object = given(dict, "keys");
    options->index = object ? TERN_DENSE : TERN_SPARSE;
    if (object && !take_u64(object, "keys", &options->n_keys))
        return false;
    if ((object = given(dict, "sketch")) && !take_sketch(object, options))
        return false;
    if ((object = given(dict, "init")) && !take_init(object, &options->init))
        return false;
    if ((object = given(dict, "update")) && !take_update(object, &options->updater))
        return false;
    if ((object = given(dict, "replicated"))) {
        if (!take_u64_array(object, "replicated", taken, &options->replicated, &n))
            return false;
        options->n_replicated = n;
    }
    if ((object = given(dict, "frequencies")) && !take_frequencies(object, taken))
        return false;
    return !(object = given(dict, "placement")) || take_placement(object, taken);
}

bool options_take(PyObject *dict, struct table_options *taken)
{
    *taken = (struct table_options){.options.struct_size = sizeof taken->options};
    if (take_all(dict, taken))
        return true;
    options_release(taken);
    return false;
}

void options_release(struct table_options *taken)
{
    while (taken->n_arrays)
        PyBuffer_Release(&taken->arrays[--taken->n_arrays]);
}
