/*
 * nd.h - arrays, graphs and training for dense models, on Tern's tables. Link with -lternnd.
 *
 * Objects
 *
 *   array   numbers of one type in up to 8 dimensions, as in numpy
 *
 * Operators have names and attributes: tern_array_apply("sum", "axis=0 keepdims=1", &x, 1, &y). docs/nd.md lists them.
 *
 * Lazy
 *
 *   A call on arrays returns at once. It adds a node to the graph of pending calls, which is carried out when a value is
 *   read or when it has 256 nodes; then chains of elementwise operators run as one loop, and a result that no array refers
 *   to any more never has memory. The outcome is always that of the program's order.
 *
 * Errors
 *
 *   As in tern.h: a status, and a sentence from tern_error(). A shape that does not fit is reported by the call itself. A
 *   failure during the computation, such as an index out of range, is reported by the first call that waits for a value
 *   which depends on it; the sentence begins with the operator.
 *
 * Threads
 *
 *   Any thread may use any array. Two threads must not write one array, or write and read it, at the same time. The engine
 *   has TERN_THREADS threads, by default one per core; a thread that waits is one of them.
 */
#ifndef TERN_ND_H
#define TERN_ND_H

#include <tern/tern.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_ND_MAX_DIMS 8

enum tern_nd_type {
    TERN_ND_F32 = 0,
    TERN_ND_F64,
    TERN_ND_I32, /* integers wrap around */
    TERN_ND_I64,
    TERN_ND_U8, /* also the type of truth values: 0 or 1 */
};
#define TERN_ND_TYPES 5

struct tern_array;

/* A dimension is at least 1; no dimension: a single number. */
struct tern_nd_shape {
    enum tern_nd_type type;
    int32_t n_dims;
    int64_t dims[TERN_ND_MAX_DIMS];
};

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* An array with a copy of `data`, row by row without gaps; NULL: zeros. */
TERN_API enum tern_status tern_array_new(const struct tern_nd_shape *shape, const void *data,
                                         struct tern_array **array);

/* An array in memory of the program, without a copy. `strides`, in elements, may be NULL: no gaps. The memory must stay,
 * and must not be written while calls are pending, until `release` is called, at a time and in a thread of Tern's choice,
 * or, if it is NULL, until the array, its views and all calls with them have ended. */
TERN_API enum tern_status tern_array_wrap(const struct tern_nd_shape *shape, const int64_t *strides,
                                          void *data, void (*release)(void *context), void *context,
                                          struct tern_array **array);

TERN_API enum tern_status tern_array_close(struct tern_array *array);

TERN_API enum tern_status tern_array_shape(struct tern_array *array, struct tern_nd_shape *shape);

/* Applies an operator. `attributes`, such as "axis=0 keepdims=1", may be NULL. Inputs broadcast and are promoted to a
 * common type as in numpy. *out is set only on success. */
TERN_API enum tern_status tern_array_apply(const char *operator_name, const char *attributes,
                                           struct tern_array *const *inputs, size_t n_inputs,
                                           struct tern_array **out);

/* Writes `source`, broadcast and converted, into `array` and what shares its memory. */
TERN_API enum tern_status tern_array_assign(struct tern_array *array, struct tern_array *source);

/* Views share the memory of `array`. A slice gives, for the first n dimensions, begin, end and step (at least 1; NULL: 1).
 * `axes` NULL: all in reverse. A reshape needs an array without gaps; one dimension may be -1. */
TERN_API enum tern_status tern_array_slice(struct tern_array *array, uint32_t n,
                                           const int64_t *begin, const int64_t *end,
                                           const int64_t *step, struct tern_array **view);
TERN_API enum tern_status tern_array_transpose(struct tern_array *array, const int64_t *axes,
                                               struct tern_array **view);
TERN_API enum tern_status tern_array_reshape(struct tern_array *array, uint32_t n_dims,
                                             const int64_t *dims, struct tern_array **view);

/* Waits for the value; then *data is its first element, and strides[i], in elements, its step along dimension i. Valid
 * until the array is closed. Until the next call that writes the array, the program may read and write there. */
TERN_API enum tern_status tern_array_data(struct tern_array *array, void **data, int64_t *strides);

/* Waits and copies the value, row by row, into `bytes` bytes, which must be its size. */
TERN_API enum tern_status tern_array_read(struct tern_array *array, void *data, size_t bytes);

/* Waits until everything pending has been carried out. */
TERN_API enum tern_status tern_array_wait_all(void);

/* ---- The engine ------------------------------------------------------------------------------ */

/* The threads that compute, the one that waits included: 1 to 256. */
TERN_API enum tern_status tern_nd_set_threads(uint32_t n);

/* For tests and comparisons: whether elementwise chains are fused (true at first). The numbers do not depend on it. */
TERN_API enum tern_status tern_nd_set_fusion(bool on);

/* The names of all operators, in order; NULL if there are no more. */
TERN_API const char *tern_nd_operator(size_t i);

/* What multiplies matrices: "OpenBLAS" or "plain". */
TERN_API const char *tern_nd_gemm(void);

/* Operations that the engine has carried out, for tests. */
TERN_API uint64_t tern_nd_operations(void);

#ifdef __cplusplus
}
#endif

#endif
