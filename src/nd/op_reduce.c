/*
 * op_reduce - operators that make one element of several: sums, means, extremes and where extremes are.
 *
 * The dimensions of the input are merged into groups that are reduced or kept. Real numbers are added as doubles, in an
 * order that depends on the shape alone, so that all runs give the same bits.
 */
#include <string.h>

#include "base/status.h"
#include "nd/clones.h"
#include "nd/graph.h"
#include "nd/op.h"

/* ---- Shapes -------------------------------------------------------------------------------------- */

/* Which axes an attribute means: bit i for axis i; all of them if it is not given. */
static enum tern_status axes_of(const struct list *axes, int n_dims, unsigned *mask)
{
    *mask = 0;
    if (axes->n < 0)
        *mask = (1u << n_dims) - 1;
    for (int i = 0; i < axes->n; i++) {
        int64_t axis;
        enum tern_status status = op_axis(axes->at[i], n_dims, &axis);
        if (status)
            return status;
        if (*mask & 1u << axis)
            return fail(TERN_INVALID, "axis %lld is named twice", (long long)axis);
        *mask |= 1u << axis;
    }
    return TERN_OK;
}

static enum tern_status infer_reduce(const struct attributes *attributes, struct spec *in,
                                     unsigned n, struct spec *out)
{
    (void)n;
    unsigned mask;
    enum tern_status status = axes_of(&attributes->lists[0], in[0].n_dims, &mask);
    if (status)
        return status;
    *out = (struct spec){.type = in[0].type};
    for (int i = 0; i < in[0].n_dims; i++) {
        if (!(mask & 1u << i))
            out->dims[out->n_dims++] = in[0].dims[i];
        else if (attributes->integers[0])
            out->dims[out->n_dims++] = 1;
    }
    return TERN_OK;
}

static enum tern_status infer_sum(const struct attributes *attributes, struct spec *in, unsigned n,
                                  struct spec *out)
{
    enum tern_status status = infer_reduce(attributes, in, n, out);
    if (!spec_is_real(in[0].type))
        out->type = TERN_ND_I64;
    return status;
}

/* The axes along which `from` was broadcast from `to`; false if it was not. */
static bool broadcast_axes(const struct spec *from, const struct spec *to, unsigned *mask)
{
    *mask = 0;
    const int extra = from->n_dims - to->n_dims;
    for (int i = 0; i < from->n_dims; i++) {
        if (i < extra || (to->dims[i - extra] == 1 && from->dims[i] != 1))
            *mask |= 1u << i;
        else if (to->dims[i - extra] != from->dims[i])
            return false;
    }
    return extra >= 0;
}

static void shape_from(const struct list *list, enum tern_nd_type type, struct spec *out)
{
    *out = (struct spec){.type = type, .n_dims = list->n};
    for (int i = 0; i < list->n; i++)
        out->dims[i] = list->at[i];
}

static enum tern_status infer_sum_to(const struct attributes *attributes, struct spec *in,
                                     unsigned n, struct spec *out)
{
    (void)n;
    unsigned mask;
    shape_from(&attributes->lists[0], in[0].type, out);
    if (!broadcast_axes(&in[0], out, &mask)) {
        char from[SPEC_TEXT], to[SPEC_TEXT];
        return fail(TERN_MISMATCH, "shape %s cannot be summed to %s", spec_print(&in[0], from),
                    spec_print(out, to));
    }
    return TERN_OK;
}

static enum tern_status infer_arg(const struct attributes *attributes, struct spec *in, unsigned n,
                                  struct spec *out)
{
    if (attributes->lists[0].n > 1)
        return fail(TERN_INVALID, "it takes one axis, or none for the whole array");
    enum tern_status status = infer_reduce(attributes, in, n, out);
    out->type = TERN_ND_I64;
    return status;
}

/* ---- Reducing ------------------------------------------------------------------------------------ */

enum reduction { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN };
enum { COLUMNS = 256 };

/* Dimensions that are iterated together. */
struct range {
    int n;
    int64_t dims[SPEC_DIMS], strides[SPEC_DIMS], at[SPEC_DIMS];
    int64_t offset;
};

/* Moves to the next place; false after the last, when it is at the first again. */
static bool range_next(struct range *range)
{
    for (int i = range->n; i-- > 0;) {
        range->offset += range->strides[i];
        if (++range->at[i] < range->dims[i])
            return true;
        range->offset -= range->strides[i] * range->dims[i];
        range->at[i] = 0;
    }
    return false;
}

/* The last group of dimensions is apart: it is contiguous. */
struct groups {
    struct range kept, reduced;
    int64_t run;
    bool run_is_reduced;
};

static void groups_of(const struct spec *in, unsigned mask, struct groups *groups)
{
    *groups = (struct groups){.run = 1, .run_is_reduced = true};
    int64_t dims[SPEC_DIMS], strides[SPEC_DIMS], stride = 1;
    bool is_reduced[SPEC_DIMS];
    int n = 0; /* from the last to the first */
    for (int i = in->n_dims; i-- > 0; stride *= in->dims[i]) {
        const bool reduced = mask >> i & 1;
        if (in->dims[i] == 1)
            continue;
        if (n && is_reduced[n - 1] == reduced) {
            dims[n - 1] *= in->dims[i];
            continue;
        }
        dims[n] = in->dims[i];
        strides[n] = stride;
        is_reduced[n++] = reduced;
    }
    if (n) {
        groups->run = dims[0];
        groups->run_is_reduced = is_reduced[0];
    }
    for (int i = n; i-- > 1;) {
        struct range *range = is_reduced[i] ? &groups->reduced : &groups->kept;
        range->dims[range->n] = dims[i];
        range->strides[range->n++] = strides[i];
    }
}

/* acc[j % 4] takes x[j]: four chains of additions, which the processor can overlap. */
#define REDUCE_RUN(T, A)                                                      \
    {                                                                         \
        const T *x = (const T *)data + offset;                                \
        int64_t k = 0;                                                        \
        for (; k + 4 <= n && how == REDUCE_SUM; k += 4)                       \
            for (int64_t j = 0; j < 4; j++)                                   \
                acc[j] = (A)(acc[j] + (A)x[k + j]);                           \
        if (how == REDUCE_SUM)                                                \
            for (int64_t j = 0; k + j < n; j++)                               \
                acc[j] = (A)(acc[j] + (A)x[k + j]);                           \
        else if (how == REDUCE_MAX)                                           \
            for (int64_t j = 0; j < n; j++)                                   \
                acc[0] = (A)x[j] > acc[0] || x[j] != x[j] ? (A)x[j] : acc[0]; \
        else                                                                  \
            for (int64_t j = 0; j < n; j++)                                   \
                acc[0] = (A)x[j] < acc[0] || x[j] != x[j] ? (A)x[j] : acc[0]; \
        return;                                                               \
    }
/* acc[j] takes x[j]. */
#define REDUCE_COLUMNS(T, A)                                                  \
    {                                                                         \
        const T *x = (const T *)data + offset;                                \
        if (how == REDUCE_SUM)                                                \
            for (int64_t j = 0; j < n; j++)                                   \
                acc[j] = (A)(acc[j] + (A)x[j]);                               \
        else if (how == REDUCE_MAX)                                           \
            for (int64_t j = 0; j < n; j++)                                   \
                acc[j] = (A)x[j] > acc[j] || x[j] != x[j] ? (A)x[j] : acc[j]; \
        else                                                                  \
            for (int64_t j = 0; j < n; j++)                                   \
                acc[j] = (A)x[j] < acc[j] || x[j] != x[j] ? (A)x[j] : acc[j]; \
        return;                                                               \
    }
#define REDUCE_REAL(name, LOOP)                                                                  \
    CLONES static void name##_real(enum reduction how, enum tern_nd_type type, const void *data, \
                                   int64_t offset, int64_t n, double *acc)                       \
    {                                                                                            \
        if (type == TERN_ND_F32)                                                                 \
            LOOP(float, double)                                                                  \
        LOOP(double, double)                                                                     \
    }
#define REDUCE_INTEGER(name, LOOP)                                                               \
    CLONES static void name##_integer(enum reduction how, enum tern_nd_type type,                \
                                      const void *data, int64_t offset, int64_t n, int64_t *acc) \
    {                                                                                            \
        if (type == TERN_ND_I32)                                                                 \
            LOOP(int32_t, int64_t)                                                               \
        if (type == TERN_ND_U8)                                                                  \
            LOOP(uint8_t, int64_t)                                                               \
        LOOP(int64_t, int64_t)                                                                   \
    }
REDUCE_REAL(run, REDUCE_RUN)
REDUCE_REAL(columns, REDUCE_COLUMNS)
REDUCE_INTEGER(run, REDUCE_RUN)
REDUCE_INTEGER(columns, REDUCE_COLUMNS)

static void put(enum tern_nd_type type, void *out, int64_t i, double real, int64_t integer)
{
    switch (type) {
    case TERN_ND_F32:
        ((float *)out)[i] = (float)real;
        return;
    case TERN_ND_F64:
        ((double *)out)[i] = real;
        return;
    case TERN_ND_I32:
        ((int32_t *)out)[i] = (int32_t)integer;
        return;
    case TERN_ND_I64:
        ((int64_t *)out)[i] = integer;
        return;
    case TERN_ND_U8:
        ((uint8_t *)out)[i] = (uint8_t)integer;
        return;
    }
}

/* What the sums begin with: 0; for extremes, what no number is beyond. */
static double first_real(enum reduction how)
{
    return how == REDUCE_SUM ? 0 : how == REDUCE_MAX ? -__builtin_inf() : __builtin_inf();
}

static int64_t first_integer(enum reduction how)
{
    return how == REDUCE_SUM ? 0 : how == REDUCE_MAX ? INT64_MIN : INT64_MAX;
}

/* The last group is reduced: one output at a time. */
static void reduce_runs(enum reduction how, const struct tensor *in, const struct tensor *out,
                        struct groups *groups, double scale)
{
    const enum tern_nd_type type = in->spec.type;
    const bool is_real = spec_is_real(type), is_sum = how == REDUCE_SUM;
    int64_t i = 0;
    do {
        double real[4] = {first_real(how), 0, 0, 0};
        int64_t integer[4] = {first_integer(how), 0, 0, 0};
        do {
            const int64_t offset = groups->kept.offset + groups->reduced.offset;
            if (is_real)
                run_real(how, type, in->data, offset, groups->run, real);
            else
                run_integer(how, type, in->data, offset, groups->run, integer);
        } while (range_next(&groups->reduced));
        put(out->spec.type, out->data, i++,
            is_sum ? ((real[0] + real[1]) + (real[2] + real[3])) * scale : real[0],
            is_sum ? integer[0] + integer[1] + integer[2] + integer[3] : integer[0]);
    } while (range_next(&groups->kept));
}

/* The last group is kept: some columns of it at a time. */
static void reduce_columns(enum reduction how, const struct tensor *in, const struct tensor *out,
                           struct groups *groups, double scale)
{
    const enum tern_nd_type type = in->spec.type;
    const bool is_real = spec_is_real(type);
    int64_t row = 0;
    do {
        for (int64_t begin = 0; begin < groups->run; begin += COLUMNS) {
            const int64_t n = groups->run - begin < COLUMNS ? groups->run - begin : COLUMNS;
            double real[COLUMNS];
            int64_t integer[COLUMNS];
            for (int64_t j = 0; j < n; j++) {
                real[j] = first_real(how);
                integer[j] = first_integer(how);
            }
            do {
                const int64_t offset = groups->kept.offset + groups->reduced.offset + begin;
                if (is_real)
                    columns_real(how, type, in->data, offset, n, real);
                else
                    columns_integer(how, type, in->data, offset, n, integer);
            } while (range_next(&groups->reduced));
            for (int64_t j = 0; j < n; j++)
                put(out->spec.type, out->data, row + begin + j,
                    how == REDUCE_SUM ? real[j] * scale : real[j], integer[j]);
        }
        row += groups->run;
    } while (range_next(&groups->kept));
}

static enum tern_status reduce(enum reduction how, const struct call *call, unsigned mask,
                               double scale)
{
    struct groups groups;
    groups_of(&call->in[0].spec, mask, &groups);
    (groups.run_is_reduced ? reduce_runs : reduce_columns)(how, &call->in[0], &call->out, &groups,
                                                           scale);
    return TERN_OK;
}

static unsigned call_axes(const struct call *call)
{
    unsigned mask = 0;
    (void)axes_of(&call->attributes->lists[0], call->in[0].spec.n_dims, &mask);
    return mask;
}

static enum tern_status forward_sum(const struct call *call)
{
    return reduce(REDUCE_SUM, call, call_axes(call), 1);
}

static enum tern_status forward_mean(const struct call *call)
{
    const double count =
        (double)spec_count(&call->in[0].spec) / (double)spec_count(&call->out.spec);
    return reduce(REDUCE_SUM, call, call_axes(call), 1 / count);
}

static enum tern_status forward_max(const struct call *call)
{
    return reduce(REDUCE_MAX, call, call_axes(call), 1);
}

static enum tern_status forward_min(const struct call *call)
{
    return reduce(REDUCE_MIN, call, call_axes(call), 1);
}

static enum tern_status forward_sum_to(const struct call *call)
{
    unsigned mask;
    (void)broadcast_axes(&call->in[0].spec, &call->out.spec, &mask);
    return reduce(REDUCE_SUM, call, mask, 1);
}

/* ---- Where the extremes are: the first of equals, and the first NaN before all, as numpy says ---- */

#define ARG(T)                                                            \
    for (int64_t o = 0; o < outer; o++)                                   \
        for (int64_t j = 0; j < inner; j++) {                             \
            const T *x = (const T *)call->in[0].data + o * n * inner + j; \
            int64_t best = 0;                                             \
            for (int64_t k = 1; k < n; k++) {                             \
                const T a = x[k * inner], b = x[best * inner];            \
                if (b == b && ((is_max ? a > b : a < b) || a != a))       \
                    best = k;                                             \
            }                                                             \
            out[o * inner + j] = best;                                    \
        }                                                                 \
    return TERN_OK;

static enum tern_status arg(const struct call *call, bool is_max)
{
    const struct spec *spec = &call->in[0].spec;
    int64_t outer = 1, n = (int64_t)spec_count(spec), inner = 1, *out = call->out.data;
    if (call->attributes->lists[0].n == 1) {
        int64_t axis = 0;
        (void)op_axis(call->attributes->lists[0].at[0], spec->n_dims, &axis);
        n = spec->dims[axis];
        for (int i = 0; i < spec->n_dims; i++)
            *(i < axis ? &outer : &inner) *= i == axis ? 1 : spec->dims[i];
    }
    switch (spec->type) {
    case TERN_ND_F32:
        ARG(float)
    case TERN_ND_F64:
        ARG(double)
    case TERN_ND_I32:
        ARG(int32_t)
    case TERN_ND_I64:
        ARG(int64_t)
    case TERN_ND_U8:
        ARG(uint8_t)
    }
    return TERN_OK;
}

static enum tern_status forward_argmax(const struct call *call)
{
    return arg(call, true);
}

static enum tern_status forward_argmin(const struct call *call)
{
    return arg(call, false);
}

/* ---- Gradients ----------------------------------------------------------------------------------- */

/* `value`, which has the shape of the node's output, spread over the input's shape. */
static uint32_t spread(struct graph *graph, uint32_t node, uint32_t value)
{
    const uint32_t x = graph_inputs(graph, node)[0];
    struct spec wide = graph->nodes[x].spec;
    unsigned mask;
    if (axes_of(&graph->nodes[node].attributes.lists[0], wide.n_dims, &mask))
        return GRAPH_NONE;
    struct attributes shape;
    op_default_attributes(&op_broadcast_to, &shape);
    shape.lists[0].n = wide.n_dims;
    memcpy(shape.lists[0].at, wide.dims, sizeof wide.dims);
    for (int i = 0; i < wide.n_dims; i++)
        if (mask & 1u << i)
            wide.dims[i] = 1;
    const uint32_t kept = graph_reshape(graph, value, &wide);
    return graph_add(graph, &op_broadcast_to, &shape, &kept, 1, NULL, NULL);
}

static enum tern_status gradient_sum(struct graph *graph, uint32_t node, uint32_t out, uint32_t *in)
{
    in[0] = spread(graph, node, out);
    return graph->status;
}

static enum tern_status gradient_mean(struct graph *graph, uint32_t node, uint32_t out,
                                      uint32_t *in)
{
    const uint32_t x = graph_inputs(graph, node)[0];
    const double count =
        (double)spec_count(&graph->nodes[x].spec) / (double)spec_count(&graph->nodes[node].spec);
    in[0] = spread(graph, node,
                   graph_call2(graph, &op_multiply, out,
                               graph_number(graph, graph->nodes[node].spec.type, 1 / count)));
    return graph->status;
}

/* Equal extremes share the gradient. */
static enum tern_status gradient_extreme(struct graph *graph, uint32_t node, uint32_t out,
                                         uint32_t *in)
{
    const uint32_t x = graph_inputs(graph, node)[0];
    const enum tern_nd_type type = graph->nodes[x].spec.type;
    const uint32_t is_best =
        graph_cast(graph, graph_call2(graph, &op_equal, x, spread(graph, node, node)), type);
    const struct attributes axes = graph->nodes[node].attributes;
    const uint32_t n_best = graph_add(graph, &op_sum, &axes, &is_best, 1, NULL, NULL);
    in[0] = graph_call2(graph, &op_multiply, is_best,
                        spread(graph, node, graph_call2(graph, &op_divide, out, n_best)));
    return graph->status;
}

static enum tern_status gradient_sum_to(struct graph *graph, uint32_t node, uint32_t out,
                                        uint32_t *in)
{
    const struct spec wide = graph->nodes[graph_inputs(graph, node)[0]].spec;
    struct attributes shape;
    op_default_attributes(&op_broadcast_to, &shape);
    shape.lists[0].n = wide.n_dims;
    memcpy(shape.lists[0].at, wide.dims, sizeof wide.dims);
    in[0] = graph_add(graph, &op_broadcast_to, &shape, &out, 1, NULL, NULL);
    return graph->status;
}

/* ---- The operators ------------------------------------------------------------------------------- */

#define AXES                                          \
    {.name = "axis", .kind = ATTRIBUTE_LIST},         \
    {                                                 \
        .name = "keepdims", .kind = ATTRIBUTE_INTEGER \
    }
#define REDUCTION(id, kinds, shape, slope)              \
    const struct op op_##id = {.name = #id,             \
                               .n_inputs = 1,           \
                               .types = kinds,          \
                               .input_names = {"data"}, \
                               .attributes = {AXES},    \
                               .infer = shape,          \
                               .forward = forward_##id, \
                               .gradient = slope};
REDUCTION(sum, TYPES_SAME, infer_sum, gradient_sum)
REDUCTION(mean, TYPES_REAL, infer_reduce, gradient_mean)
REDUCTION(max, TYPES_SAME, infer_reduce, gradient_extreme)
REDUCTION(min, TYPES_SAME, infer_reduce, gradient_extreme)
REDUCTION(argmax, TYPES_SAME, infer_arg, NULL)
REDUCTION(argmin, TYPES_SAME, infer_arg, NULL)

/* The opposite of broadcasting. */
const struct op op_sum_to = {
    .name = "sum_to",
    .n_inputs = 1,
    .types = TYPES_SAME,
    .input_names = {"data"},
    .attributes = {{.name = "shape", .kind = ATTRIBUTE_LIST, .required = true}},
    .infer = infer_sum_to,
    .forward = forward_sum_to,
    .gradient = gradient_sum_to};
