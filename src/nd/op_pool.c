/*
 * op_pool - `pool`: the largest element under a window that moves over images, or the mean of the elements (average=1).
 *
 * What is outside of an image is no element: the mean is over those inside. Equal largest elements: the first one has the
 * gradient. `pool_gradient` takes the gradient of the output, and for the largest also the data and the output.
 */
#include "base/status.h"
#include "nd/clones.h"
#include "nd/engine.h"
#include "nd/graph.h"
#include "nd/window.h"

#include <string.h>

static enum tern_status infer_pool(const struct attributes *attributes, struct spec *in, unsigned n,
                                   struct spec *out)
{
    (void)n;
    struct window w;
    if (in[0].n_dims != 4)
        return fail(TERN_INVALID,
                    "the data has %d dimensions, not images x channels x height x "
                    "width",
                    in[0].n_dims);
    enum tern_status status = window_read(attributes, in[0].dims + 2, &w);
    *out = in[0];
    if (!status)
        memcpy(out->dims + 2, w.out, sizeof w.out);
    return status;
}

static enum tern_status infer_pool_gradient(const struct attributes *attributes, struct spec *in,
                                            unsigned n, struct spec *out)
{
    const bool average = attributes->integers[0] != 0;
    struct spec pooled = {0};
    if (n != (average ? 1u : 3u) || in[0].n_dims != 4)
        return fail(TERN_INVALID, "it takes the gradient of the output, of four dimensions, and "
                                  "without average=1 also the data and the output");
    *out = in[0];
    memcpy(out->dims + 2, attributes->integers + 1, 2 * sizeof out->dims[0]);
    enum tern_status status = spec_check(out);
    if (!status)
        status = infer_pool(attributes, out, 1, &pooled);
    if (!status &&
        (!spec_same_shape(&pooled, &in[0]) ||
         (!average && (!spec_same_shape(out, &in[1]) || !spec_same_shape(&pooled, &in[2])))))
        status =
            fail(TERN_MISMATCH, "the shapes are not those of a pool's output, data and output");
    return status;
}

/* The part of a window at place `at` of an axis that is inside of the image. */
static void under(const struct window *w, int axis, int64_t at, int64_t *first, int64_t *end)
{
    *first = at * w->stride[axis] - w->pad[axis];
    *end = *first + w->kernel[axis] < w->in[axis] ? *first + w->kernel[axis] : w->in[axis];
    *first = *first < 0 ? 0 : *first;
}

enum { COLUMNS = 256 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The output of one image; spread adds the gradient of an output to that of its data. Both loops run along rows. */
#define POOL(T)                                                                                       \
    CLONES static void pool_##T(const struct window *w, bool average, const T *in, T *out)            \
    {                                                                                                 \
        for (int64_t place = 0; place < w->out[0]; place++, out += w->out[1]) {                       \
            int64_t y, end_y, first, end;                                                             \
            under(w, 0, place, &y, &end_y);                                                           \
            const int64_t rows = end_y - y;                                                           \
            for (int64_t x = 0; x < w->out[1]; x++)                                                   \
                out[x] = average ? 0 : -(T)__builtin_inf();                                           \
            for (; y < end_y; y++) {                                                                  \
                for (int64_t k = 0; k < w->kernel[1]; k++) {                                          \
                    const T *from = in + y * w->in[1] + k - w->pad[1];                                \
                    window_inside(w, 1, k, &first, &end);                                             \
                    for (int64_t x = first; x < end && average; x++)                                  \
                        out[x] += from[x * w->stride[1]];                                             \
                    for (int64_t x = first; x < end && !average; x++) {                               \
                        const T value = from[x * w->stride[1]];                                       \
                        out[x] = ((value > out[x]) | (value != value)) ? value : out[x];              \
                    }                                                                                 \
                }                                                                                     \
            }                                                                                         \
            for (int64_t x = 0; x < w->out[1] && average; x++) {                                      \
                under(w, 1, x, &first, &end);                                                         \
                out[x] /= (T)(rows * (end - first));                                                  \
            }                                                                                         \
        }                                                                                             \
    }                                                                                                 \
                                                                                                      \
    CLONES static void spread_mean_##T(const struct window *w, const T *g, T *out)                    \
    {                                                                                                 \
        for (int64_t place = 0; place < w->out[0]; place++)                                           \
            for (int64_t at = 0; at < w->out[1]; at++, g++) {                                         \
                int64_t first_y, end_y, first_x, end_x;                                               \
                under(w, 0, place, &first_y, &end_y);                                                 \
                under(w, 1, at, &first_x, &end_x);                                                    \
                const T share = *g / (T)((end_y - first_y) * (end_x - first_x));                      \
                for (int64_t y = first_y; y < end_y; y++)                                             \
                    for (int64_t x = first_x; x < end_x; x++)                                         \
                        out[y * w->in[1] + x] += share;                                               \
            }                                                                                         \
    }                                                                                                 \
                                                                                                      \
    /* To the first element of each window that is the largest: `left` is what nobody has got yet. */ \
    CLONES static void spread_most_##T(const struct window *w, const T *g, const T *in,               \
                                       const T *pooled, T *out)                                       \
    {                                                                                                 \
        T left[COLUMNS];                                                                              \
        for (int64_t place = 0; place < w->out[0]; place++, g += w->out[1], pooled += w->out[1])      \
            for (int64_t begin = 0; begin < w->out[1]; begin += COLUMNS) {                            \
                const int64_t n = least(COLUMNS, w->out[1] - begin);                                  \
                int64_t y, end_y, first, end;                                                         \
                under(w, 0, place, &y, &end_y);                                                       \
                memcpy(left, g + begin, (size_t)n * sizeof *left);                                    \
                for (; y < end_y; y++)                                                                \
                    for (int64_t k = 0; k < w->kernel[1]; k++) {                                      \
                        const int64_t at = y * w->in[1] + k - w->pad[1];                              \
                        window_inside(w, 1, k, &first, &end);                                         \
                        first = first < begin ? begin : first;                                        \
                        end = least(end, begin + n);                                                  \
                        for (int64_t x = first; x < end; x++) {                                       \
                            const int64_t i = at + x * w->stride[1];                                  \
                            const bool is_it = in[i] == pooled[x];                                    \
                            out[i] += is_it ? left[x - begin] : 0;                                    \
                            left[x - begin] = is_it ? 0 : left[x - begin];                            \
                        }                                                                             \
                    }                                                                                 \
            }                                                                                         \
    }
POOL(float)
POOL(double)

/* Pools, or their gradients, of some of the planes. */
struct division {
    const struct call *call;
    struct window w;
    bool average;
    int64_t n_planes, in, out; /* elements of a plane of the data and of the output */
    unsigned n_parts;
};

#define PLANE(T, i, n) ((T *)call->in[i].data + plane * d->n)
#define POOL_PART(T)                                                                               \
    static void pool_part_##T(void *context, unsigned part)                                        \
    {                                                                                              \
        const struct division *d = context;                                                        \
        const struct call *call = d->call;                                                         \
        const int64_t end = nd_engine_begin(d->n_planes, d->n_parts, part + 1);                    \
        for (int64_t plane = nd_engine_begin(d->n_planes, d->n_parts, part); plane < end; plane++) \
            pool_##T(&d->w, d->average, PLANE(const T, 0, in),                                     \
                     (T *)call->out.data + plane * d->out);                                        \
    }                                                                                              \
                                                                                                   \
    static void spread_part_##T(void *context, unsigned part)                                      \
    {                                                                                              \
        const struct division *d = context;                                                        \
        const struct call *call = d->call;                                                         \
        const int64_t end = nd_engine_begin(d->n_planes, d->n_parts, part + 1);                    \
        for (int64_t plane = nd_engine_begin(d->n_planes, d->n_parts, part); plane < end;          \
             plane++) {                                                                            \
            T *to = (T *)call->out.data + plane * d->in;                                           \
            memset(to, 0, (size_t)d->in * sizeof *to);                                             \
            if (d->average)                                                                        \
                spread_mean_##T(&d->w, PLANE(const T, 0, out), to);                                \
            else                                                                                   \
                spread_most_##T(&d->w, PLANE(const T, 0, out), PLANE(const T, 1, in),              \
                                PLANE(const T, 2, out), to);                                       \
        }                                                                                          \
    }
POOL_PART(float)
POOL_PART(double)

enum { PART_ELEMENTS = 1 << 16 };

static enum tern_status divide(const struct call *call, const struct spec *data,
                               void (*part)(void *context, unsigned i))
{
    struct division d = {.call = call, .average = call->attributes->integers[0] != 0};
    const int64_t *dims = data->dims;
    enum tern_status status = window_read(call->attributes, dims + 2, &d.w);
    if (status)
        return status;
    d.n_planes = dims[0] * dims[1];
    d.in = dims[2] * dims[3];
    d.out = d.w.out[0] * d.w.out[1];
    d.n_parts = nd_engine_split((int64_t)spec_count(data), PART_ELEMENTS);
    nd_engine_parts(d.n_parts, part, &d);
    return TERN_OK;
}

static enum tern_status forward_pool(const struct call *call)
{
    return divide(call, &call->in[0].spec,
                  call->out.spec.type == TERN_ND_F32 ? pool_part_float : pool_part_double);
}

static enum tern_status forward_pool_gradient(const struct call *call)
{
    return divide(call, &call->out.spec,
                  call->out.spec.type == TERN_ND_F32 ? spread_part_float : spread_part_double);
}

static enum tern_status gradient_pool(struct graph *graph, uint32_t node, uint32_t out,
                                      uint32_t *in)
{
    const uint32_t data = graph_inputs(graph, node)[0];
    struct attributes attributes = graph->nodes[node].attributes;
    memcpy(attributes.integers + 1, graph->nodes[data].spec.dims + 2,
           2 * sizeof attributes.integers[0]);
    in[0] = graph_add(graph, &op_pool_gradient, &attributes, (uint32_t[]){out, data, node},
                      attributes.integers[0] ? 1 : 3, NULL, NULL);
    return graph->status;
}

/* Means are linear: their gradient is the mean again. */
static enum tern_status gradient_pool_gradient(struct graph *graph, uint32_t node, uint32_t out,
                                               uint32_t *in)
{
    struct attributes attributes = graph->nodes[node].attributes;
    if (!attributes.integers[0])
        return fail(TERN_INVALID, "pool_gradient of largest elements has no gradient itself");
    attributes.integers[1] = attributes.integers[2] = 0;
    in[0] = graph_add(graph, &op_pool, &attributes, &out, 1, NULL, NULL);
    return graph->status;
}

const struct op op_pool = {
    .name = "pool",
    .n_inputs = 1,
    .types = TYPES_REAL,
    .input_names = {"data"},
    .attributes = {WINDOW_ATTRIBUTES, {.name = "average", .kind = ATTRIBUTE_INTEGER}},
    .infer = infer_pool,
    .forward = forward_pool,
    .gradient = gradient_pool};
const struct op op_pool_gradient = {
    .name = "pool_gradient",
    .n_inputs = -1,
    .types = TYPES_REAL,
    .attributes = {WINDOW_ATTRIBUTES,
                   {.name = "average", .kind = ATTRIBUTE_INTEGER},
                   {.name = "height", .kind = ATTRIBUTE_INTEGER, .required = true},
                   {.name = "width", .kind = ATTRIBUTE_INTEGER, .required = true}},
    .infer = infer_pool_gradient,
    .forward = forward_pool_gradient,
    .gradient = gradient_pool_gradient};
