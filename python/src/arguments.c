/* arguments - takes Python arguments and arrays apart. */
#include "binding.h"

#include <string.h>

bool take_arguments(const struct signature *signature, PyObject *const *arguments, Py_ssize_t n,
                    PyObject *keywords, PyObject **values)
{
    int n_names = 0;
    while (n_names < 6 && signature->names[n_names])
        values[n_names++] = NULL;
    if (n > n_names) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments, not %zd",
                     signature->function, n_names, n);
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        values[i] = arguments[i];
    Py_ssize_t n_keywords = keywords ? PyTuple_Size(keywords) : 0;
    for (Py_ssize_t k = 0; k < n_keywords; k++) {
        PyObject *name = PyTuple_GetItem(keywords, k);
        int i = 0;
        while (i < n_names && PyUnicode_CompareWithASCIIString(name, signature->names[i]))
            i++;
        if (i == n_names || values[i]) {
            PyErr_Format(PyExc_TypeError,
                         i == n_names ? "%s() has no argument '%U'" : "%s() got '%U' twice",
                         signature->function, name);
            return false;
        }
        values[i] = arguments[n + k];
    }
    for (int i = 0; i < signature->n_required; i++) {
        if (values[i])
            continue;
        PyErr_Format(PyExc_TypeError, "%s() misses the argument '%s'", signature->function,
                     signature->names[i]);
        return false;
    }
    return true;
}

bool take_u64(PyObject *object, const char *what, uint64_t *value)
{
    PyObject *index = PyNumber_Index(object);
    if (!index)
        return false;
    unsigned long long number = PyLong_AsUnsignedLongLong(index);
    if (number == (unsigned long long)-1 && PyErr_Occurred()) {
        PyErr_Clear();
        /* A negative key is the 64 bits it has as int64. */
        number = (unsigned long long)PyLong_AsLongLong(index);
        if (PyErr_Occurred()) {
            PyErr_Clear();
            raise_sentence(TERN_INVALID, "%s: the number does not fit into 64 bits", what);
            Py_DECREF(index);
            return false;
        }
    }
    Py_DECREF(index);
    *value = number;
    return true;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

const char *type_name(enum tern_type type)
{
    static const char *const names[] = {"float32", "float64", "int32", "int64"};
    return names[type];
}

/*
 * numpy writes the format of a buffer anew for each call, and compares it with the one that it wrote last; that takes longer
 * than all else that a small pull does in Python. The formats of dtypes that were met are therefore known by the identity of
 * the dtype, and numpy is not asked for them again. `dtype` of an object whose type is exactly the array's is numpy's own
 * attribute. The references keep type and dtypes alive, so that no other object has their address. Guarded by the GIL.
 */
static struct {
    PyObject *name; /* "dtype" */
    PyTypeObject *array;
    struct {
        PyObject *dtype;
        char format[4];
    } dtypes[8];
    int n;
} known;

/* The format of an array's elements; NULL if it has to be asked for. */
static const char *known_format(PyObject *object)
{
    if (Py_TYPE(object) != known.array)
        return NULL;
    PyObject *dtype = PyObject_GetAttr(object, known.name);
    const char *format = NULL;
    for (int i = 0; i < known.n && !format; i++)
        if (known.dtypes[i].dtype == dtype)
            format = known.dtypes[i].format;
    if (!dtype)
        PyErr_Clear();
    Py_XDECREF(dtype);
    return format;
}

/* Whether a type is numpy's array, and not one that is derived from it. */
static bool is_array_type(PyTypeObject *type)
{
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *numpy = PyDict_GetItemString(modules, "numpy");
    PyObject *array = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
    PyErr_Clear();
    Py_XDECREF(array);
    return array && array == (PyObject *)type;
}

/* Notes the format of an array's elements, if it is numpy's and there is room. */
static void note_format(PyObject *object, const Py_buffer *view)
{
    const size_t room = sizeof known.dtypes[0].format;
    if (known.n == sizeof known.dtypes / sizeof known.dtypes[0] || !view->format ||
        strlen(view->format) >= room ||
        (Py_TYPE(object) != known.array && (known.array || !is_array_type(Py_TYPE(object)))))
        return;
    if (!known.name)
        known.name = PyUnicode_InternFromString("dtype");
    PyObject *dtype = known.name ? PyObject_GetAttr(object, known.name) : NULL;
    if (!dtype) {
        PyErr_Clear();
        return;
    }
    if (!known.array)
        known.array = (PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(object));
    known.dtypes[known.n].dtype = dtype;
    memcpy(known.dtypes[known.n++].format, view->format, strlen(view->format) + 1);
}

/* The buffer of an array with its format; false if there is none, with Python's exception. */
static bool ask_buffer(PyObject *object, int flags, Py_buffer *view)
{
    const char *format = known_format(object);
    if (PyObject_GetBuffer(object, view, format ? flags : flags | PyBUF_FORMAT))
        return false;
    if (format)
        view->format = (char *)(uintptr_t)format;
    else
        note_format(object, view);
    return true;
}

/* The buffer of an array; of a tensor that of its `numpy()`, which is the same memory. */
static bool take_buffer(PyObject *object, const char *what, bool is_written, Py_buffer *view)
{
    int flags = PyBUF_ND | (is_written ? PyBUF_WRITABLE : 0);
    if (PyObject_CheckBuffer(object)) {
        if (ask_buffer(object, flags, view))
            return true;
        PyErr_Clear();
        raise_sentence(TERN_INVALID, "%s: the array is %s", what,
                       is_written ? "read-only, or not contiguous in C order"
                                  : "not contiguous in C order");
        return false;
    }
    PyObject *array = PyObject_HasAttrString(object, "data_ptr")
                          ? PyObject_CallMethod(object, "numpy", NULL)
                          : NULL;
    if (!array) {
        if (!PyErr_Occurred())
            raise_sentence(TERN_INVALID, "%s: an array is needed, such as numpy's", what);
        return false;
    }
    bool taken = take_buffer(array, what, is_written, view);
    Py_DECREF(array);
    return taken;
}

/* The letter of a format of one element in the machine's byte order; 0 if it is anything else. */
static char letter_of(const Py_buffer *view)
{
    const char *format = view->format ? view->format : "B";
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    return format[0] && !format[1] ? format[0] : 0;
}

static bool type_of_view(const Py_buffer *view, enum tern_type *type)
{
    char letter = letter_of(view);
    if (letter == 'f' && view->itemsize == 4)
        *type = TERN_F32;
    else if (letter == 'd' && view->itemsize == 8)
        *type = TERN_F64;
    else if ((letter == 'i' || letter == 'l') && view->itemsize == 4)
        *type = TERN_I32;
    else if ((letter == 'l' || letter == 'q') && view->itemsize == 8)
        *type = TERN_I64;
    else
        return false;
    return true;
}

bool take_keys(PyObject *object, const char *what, Py_buffer *view)
{
    if (!take_buffer(object, what, false, view))
        return false;
    char letter = letter_of(view);
    if (view->itemsize == 8 && letter && strchr("lqLQ", letter))
        return true;
    raise_sentence(TERN_INVALID, "%s: keys are int64 or uint64, not elements of format '%s'", what,
                   view->format ? view->format : "B");
    PyBuffer_Release(view);
    return false;
}

/* Elements of 4 bytes. */
static bool take_u32(PyObject *object, const char *what, const char *name, Py_buffer *view)
{
    if (!take_buffer(object, what, false, view))
        return false;
    char letter = letter_of(view);
    if (view->itemsize == 4 && letter && strchr("ilIL", letter))
        return true;
    raise_sentence(TERN_INVALID, "%s: %s are int32 or uint32, not elements of format '%s'", what,
                   name, view->format ? view->format : "B");
    PyBuffer_Release(view);
    return false;
}

bool take_nodes(PyObject *object, const char *what, Py_buffer *view)
{
    return take_u32(object, what, "nodes", view);
}

bool take_counts(PyObject *object, const char *what, Py_buffer *view)
{
    return take_u32(object, what, "counts", view);
}

bool take_numbers(PyObject *object, const char *what, bool is_written, Py_buffer *view,
                  enum tern_type *type)
{
    if (!take_buffer(object, what, is_written, view))
        return false;
    if (type_of_view(view, type))
        return true;
    raise_sentence(TERN_INVALID,
                   "%s: elements are float32, float64, int32 or int64, not of format '%s'", what,
                   view->format ? view->format : "B");
    PyBuffer_Release(view);
    return false;
}

bool take_values(PyObject *object, const char *what, enum tern_type type, bool is_written,
                 Py_buffer *view)
{
    enum tern_type given;
    if (!take_numbers(object, what, is_written, view, &given))
        return false;
    if (given == type)
        return true;
    raise_sentence(TERN_INVALID, "%s: the table's elements are %s, the array's %s", what,
                   type_name(type), type_name(given));
    PyBuffer_Release(view);
    return false;
}

static void print_shape(const Py_buffer *view, uint32_t length, bool has_length, char *text,
                        size_t size)
{
    size_t at = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < view->ndim && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, i ? ", %zd" : "%zd", view->shape[i]);
    if (has_length && at < size)
        at += (size_t)snprintf(text + at, size - at, ", %u", length);
    if (at < size)
        snprintf(text + at, size - at, ")");
}

bool check_shape(const Py_buffer *keys, const Py_buffer *values, uint32_t length, const char *what)
{
    bool fits = values->ndim == keys->ndim + 1 && values->shape[keys->ndim] == (Py_ssize_t)length;
    for (int i = 0; fits && i < keys->ndim; i++)
        fits = values->shape[i] == keys->shape[i];
    if (fits)
        return true;
    char wanted[100], given[100];
    print_shape(keys, length, true, wanted, sizeof wanted);
    print_shape(values, 0, false, given, sizeof given);
    raise_sentence(TERN_INVALID, "%s: the shape must be %s, not %s", what, wanted, given);
    return false;
}

/* ---- New arrays ------------------------------------------------------------------------------ */

/* numpy.empty, or None where there is no numpy. A borrowed reference. */
static PyObject *numpy_empty(void)
{
    static PyObject *empty;
    if (empty)
        return empty;
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (numpy)
        empty = PyObject_GetAttrString(numpy, "empty");
    Py_XDECREF(numpy);
    if (!empty && PyErr_ExceptionMatches(PyExc_ImportError)) {
        PyErr_Clear();
        empty = Py_NewRef(Py_None);
    }
    return empty;
}

static PyObject *shape_tuple(int n_dimensions, const Py_ssize_t *shape)
{
    PyObject *tuple = PyTuple_New(n_dimensions);
    for (int i = 0; tuple && i < n_dimensions; i++) {
        PyObject *n = PyLong_FromSsize_t(shape[i]);
        if (!n || PyTuple_SetItem(tuple, i, n) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* Without numpy: memory of a bytearray, seen as elements of a letter. */
static PyObject *new_view(const char *letter, size_t item_bytes, int n_dimensions,
                          const Py_ssize_t *shape)
{
    size_t n = 1;
    for (int i = 0; i < n_dimensions; i++)
        n *= (size_t)shape[i];
    if (n == 0)
        return PyErr_Format(PyExc_ValueError, "an empty array takes numpy");
    PyObject *sizes = shape_tuple(n_dimensions, shape), *view = NULL, *cast = NULL;
    PyObject *bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(n * item_bytes));
    if (sizes && bytes)
        view = PyMemoryView_FromObject(bytes);
    if (view)
        cast = PyObject_CallMethod(view, "cast", "sO", letter, sizes);
    Py_XDECREF(view);
    Py_XDECREF(bytes);
    Py_XDECREF(sizes);
    return cast;
}

static PyObject *new_of(const char *name, const char *letter, size_t item_bytes, int n_dimensions,
                        const Py_ssize_t *shape)
{
    PyObject *empty = numpy_empty();
    if (!empty)
        return NULL;
    if (empty == Py_None)
        return new_view(letter, item_bytes, n_dimensions, shape);
    PyObject *sizes = shape_tuple(n_dimensions, shape);
    PyObject *array = sizes ? PyObject_CallFunction(empty, "Os", sizes, name) : NULL;
    Py_XDECREF(sizes);
    return array;
}

PyObject *new_array(enum tern_type type, int n_dimensions, const Py_ssize_t *shape)
{
    static const char *const letters[] = {"f", "d", "i", "q"};
    return new_of(type_name(type), letters[type], type_bytes(type), n_dimensions, shape);
}

PyObject *new_flags(int n_dimensions, const Py_ssize_t *shape)
{
    return new_of("bool", "?", 1, n_dimensions, shape);
}

PyObject *new_keys(Py_ssize_t n)
{
    return new_of("uint64", "Q", 8, 1, &n);
}

PyObject *first_rows(PyObject *array, Py_ssize_t n)
{
    return PySequence_GetSlice(array, 0, n);
}
