/*
 * op_norm - batch normalisation (Ioffe and Szegedy, 2015) of data with channels in dimension 1.
 *
 *   statistics     2 x channels: the means, and the variances over all other dimensions
 *   `moments`      the statistics of data
 *   `batch_norm`   (data - mean) / sqrt(variance + eps) * gamma + beta, with statistics that are given
 *
 * So both are pure, and their gradients together are those of normalising by the batch's own statistics. A module puts
 * `moments` in the place of a statistics variable when it trains, and lets the variable follow them: it becomes
 * decay * itself + (1 - decay) * moments (module_graph.c). Sums are added up as doubles.
 */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "nd/clones.h"
#include "nd/engine.h"
#include "nd/graph.h"

/* Data as images x channels x elements. */
struct channels {
    int64_t images, channels, elements;
};

static struct channels channels_of(const struct spec *data)
{
    struct channels c = {data->dims[0], data->dims[1], 1};
    for (int i = 2; i < data->n_dims; i++)
        c.elements *= data->dims[i];
    return c;
}

static enum tern_status check_data(const struct spec *data)
{
    if (!spec_is_known(data) || data->n_dims < 2)
        return fail(TERN_INVALID,
                    "the data must have a known shape, with channels in its second dimension");
    return TERN_OK;
}

static struct spec statistics_of(const struct spec *data)
{
    return (struct spec){.type = data->type, .n_dims = 2, .dims = {2, data->dims[1]}};
}

/* ---- Loops --------------------------------------------------------------------------------------- */

enum { LANES = 8 };

static double sum_lanes(const double *lanes)
{
    double sum = 0;
    for (int j = 0; j < LANES; j++)
        sum += lanes[j];
    return sum;
}

/* Adds TERM of each element of a channel to `lanes`, in an order that depends on the shape alone. */
#define FOR_CHANNEL(TERM)                                           \
    for (int64_t i = 0; i < c.images; i++) {                        \
        const int64_t at = (i * c.channels + channel) * c.elements; \
        int64_t k = 0;                                              \
        for (; k + LANES <= c.elements; k += LANES)                 \
            for (int64_t j = 0; j < LANES; j++)                     \
                TERM(at + k + j, j)                                 \
        for (int64_t j = 0; k + j < c.elements; j++)                \
            TERM(at + k + j, j)                                     \
    }
#define TERM_SUM(place, lane) first[lane] += (double)x[place];
#define TERM_SQUARE(place, lane)                      \
    {                                                 \
        const double apart = (double)x[place] - mean; \
        second[lane] += apart * apart;                \
    }
#define TERM_BOTH(place, lane)                                        \
    {                                                                 \
        first[lane] += (double)g[place];                              \
        second[lane] += (double)g[place] * ((double)x[place] - mean); \
    }

#define LOOPS(T)                                                                                \
    CLONES static void moments_##T(struct channels c, int64_t begin, int64_t end, const T *x,   \
                                   T *out)                                                      \
    {                                                                                           \
        const double n = (double)(c.images * c.elements);                                       \
        for (int64_t channel = begin; channel < end; channel++) {                               \
            double first[LANES] = {0}, second[LANES] = {0};                                     \
            FOR_CHANNEL(TERM_SUM)                                                               \
            const double mean = sum_lanes(first) / n;                                           \
            FOR_CHANNEL(TERM_SQUARE)                                                            \
            out[channel] = (T)mean;                                                             \
            out[c.channels + channel] = (T)(sum_lanes(second) / n);                             \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    /* The sums of g, and of g times the normalised data: the gradients of beta and gamma. */   \
    CLONES static void sums_##T(struct channels c, int64_t begin, int64_t end, double eps,      \
                                const T *g, const T *x, const T *statistics, T *out)            \
    {                                                                                           \
        for (int64_t channel = begin; channel < end; channel++) {                               \
            const double mean = (double)statistics[channel];                                    \
            double first[LANES] = {0}, second[LANES] = {0};                                     \
            FOR_CHANNEL(TERM_BOTH)                                                              \
            out[channel] = (T)sum_lanes(first);                                                 \
            out[c.channels + channel] =                                                         \
                (T)(sum_lanes(second) / sqrt((double)statistics[c.channels + channel] + eps));  \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    CLONES static void normalise_##T(struct channels c, int64_t begin, int64_t end, double eps, \
                                     const struct call *call)                                   \
    {                                                                                           \
        const T *gamma = call->in[1].data, *beta = call->in[2].data,                            \
                *statistics = call->in[3].data;                                                 \
        for (int64_t row = begin; row < end; row++) {                                           \
            const int64_t channel = row % c.channels;                                           \
            const T *x = (const T *)call->in[0].data + row * c.elements;                        \
            T *out = (T *)call->out.data + row * c.elements;                                    \
            const T mean = statistics[channel], shift = beta[channel];                          \
            const T scale = (T)((double)gamma[channel] /                                        \
                                sqrt((double)statistics[c.channels + channel] + eps));          \
            for (int64_t k = 0; k < c.elements; k++)                                            \
                out[k] = (x[k] - mean) * scale + shift;                                         \
        }                                                                                       \
    }
LOOPS(float)
LOOPS(double)

/* Some of the channels, or of the rows of elements. */
struct division {
    const struct call *call;
    struct channels c;
    int64_t count;
    unsigned n_parts;
};

enum { PART_ELEMENTS = 1 << 16 };

static enum tern_status divide(const struct call *call, bool by_rows,
                               void (*part)(void *context, unsigned i))
{
    struct division d = {.call = call, .c = channels_of(&call->in[0].spec)};
    d.count = by_rows ? d.c.images * d.c.channels : d.c.channels;
    const unsigned n = nd_engine_split((int64_t)spec_count(&call->in[0].spec), PART_ELEMENTS);
    d.n_parts = d.count < n ? (unsigned)d.count : n;
    nd_engine_parts(d.n_parts, part, &d);
    return TERN_OK;
}

#define PART(name, FLOAT, DOUBLE)                                         \
    static void name(void *context, unsigned i)                           \
    {                                                                     \
        const struct division *d = context;                               \
        const struct call *call = d->call;                                \
        const double eps = call->attributes->numbers[0];                  \
        const int64_t begin = nd_engine_begin(d->count, d->n_parts, i),   \
                      end = nd_engine_begin(d->count, d->n_parts, i + 1); \
        (void)eps;                                                        \
        if (call->out.spec.type == TERN_ND_F32)                           \
            FLOAT;                                                        \
        else                                                              \
            DOUBLE;                                                       \
    }
PART(moments_part, moments_float(d->c, begin, end, call->in[0].data, call->out.data),
     moments_double(d->c, begin, end, call->in[0].data, call->out.data))
PART(sums_part,
     sums_float(d->c, begin, end, eps, call->in[0].data, call->in[1].data, call->in[2].data,
                call->out.data),
     sums_double(d->c, begin, end, eps, call->in[0].data, call->in[1].data, call->in[2].data,
                 call->out.data))
PART(normalise_part, normalise_float(d->c, begin, end, eps, call),
     normalise_double(d->c, begin, end, eps, call))

/* ---- Gradients ----------------------------------------------------------------------------------- */

/* Row i of a value of 2 x channels. */
static uint32_t row(struct graph *graph, uint32_t value, int64_t i)
{
    if (value == GRAPH_NONE)
        return GRAPH_NONE;
    const struct spec spec = graph->nodes[value].spec;
    const struct spec flat = {.type = spec.type, .n_dims = 1, .dims = {spec.dims[1]}};
    struct attributes part;
    op_default_attributes(&op_slice, &part);
    part.lists[0] = (struct list){.n = 2, .at = {i, 0}};
    part.lists[1] = (struct list){.n = 2, .at = {i + 1, spec.dims[1]}};
    return graph_reshape(graph, graph_add(graph, &op_slice, &part, &value, 1, NULL, NULL), &flat);
}

/* A number per channel, to be broadcast over data. */
static uint32_t wide(struct graph *graph, uint32_t value, const struct spec *data)
{
    struct spec spec = {.type = data->type, .n_dims = data->n_dims - 1, .dims = {data->dims[1]}};
    for (int i = 1; i < spec.n_dims; i++)
        spec.dims[i] = 1;
    return graph_reshape(graph, value, &spec);
}

static uint32_t times(struct graph *graph, uint32_t value, double number)
{
    if (value == GRAPH_NONE)
        return GRAPH_NONE;
    return graph_call2(graph, &op_multiply, value,
                       graph_number(graph, graph->nodes[value].spec.type, number));
}

static enum tern_status gradient_moments(struct graph *graph, uint32_t node, uint32_t out,
                                         uint32_t *in)
{
    const uint32_t x = graph_inputs(graph, node)[0];
    const struct spec data = graph->nodes[x].spec;
    const double n = (double)spec_count(&data) / (double)data.dims[1];
    const uint32_t mean = wide(graph, row(graph, node, 0), &data),
                   first = wide(graph, times(graph, row(graph, out, 0), 1 / n), &data),
                   second = wide(graph, times(graph, row(graph, out, 1), 2 / n), &data);
    in[0] = graph_call2(
        graph, &op_add,
        graph_call2(graph, &op_multiply, graph_call2(graph, &op_subtract, x, mean), second), first);
    return graph->status;
}

static enum tern_status gradient_batch_norm(struct graph *graph, uint32_t node, uint32_t out,
                                            uint32_t *in)
{
    const uint32_t *inputs = graph_inputs(graph, node);
    const uint32_t x = inputs[0], gamma = inputs[1], statistics = inputs[3];
    const struct attributes attributes = graph->nodes[node].attributes;
    const struct spec data = graph->nodes[x].spec,
                      line = {.type = data.type, .n_dims = 2, .dims = {1, data.dims[1]}};
    const uint32_t sums = graph_add(graph, &op_batch_norm_sums, &attributes,
                                    (uint32_t[]){out, x, statistics}, 3, NULL, NULL);
    const uint32_t variance = graph_call2(graph, &op_add, row(graph, statistics, 1),
                                          graph_number(graph, data.type, attributes.numbers[0]));
    const uint32_t one = graph_number(graph, data.type, 1);
    const uint32_t inverse =
        graph_call2(graph, &op_divide, one, graph_call(graph, &op_sqrt, variance));
    const uint32_t scale = graph_call2(graph, &op_multiply, gamma, inverse);
    in[0] = graph_call2(graph, &op_multiply, out, wide(graph, scale, &data));
    in[1] = row(graph, sums, 1);
    in[2] = row(graph, sums, 0);
    const uint32_t of_mean = times(graph, graph_call2(graph, &op_multiply, scale, in[2]), -1);
    const uint32_t of_variance = times(
        graph,
        graph_call2(graph, &op_multiply, graph_call2(graph, &op_multiply, scale, inverse), in[1]),
        -0.5);
    struct attributes rows;
    op_default_attributes(&op_concat, &rows);
    in[3] = graph_add(graph, &op_concat, &rows,
                      (uint32_t[]){graph_reshape(graph, of_mean, &line),
                                   graph_reshape(graph, of_variance, &line)},
                      2, NULL, NULL);
    return graph->status;
}

static enum tern_status refuse_gradient(struct graph *graph, uint32_t node, uint32_t out,
                                        uint32_t *in)
{
    (void)graph, (void)node, (void)out, (void)in;
    return fail(TERN_INVALID, "batch_norm_sums, which is part of a gradient, has none itself");
}

/* ---- The operators ------------------------------------------------------------------------------- */

static enum tern_status infer_moments(const struct attributes *attributes, struct spec *in,
                                      unsigned n, struct spec *out)
{
    (void)attributes, (void)n;
    enum tern_status status = check_data(&in[0]);
    if (!status)
        *out = statistics_of(&in[0]);
    return status;
}

static enum tern_status forward_moments(const struct call *call)
{
    return divide(call, false, moments_part);
}

static enum tern_status infer_batch_norm(const struct attributes *attributes, struct spec *in,
                                         unsigned n, struct spec *out)
{
    enum tern_status status = check_data(&in[0]);
    if (!status && !(attributes->numbers[0] >= 0))
        status = fail(TERN_INVALID, "eps is %g, which is negative", attributes->numbers[0]);
    if (status)
        return status;
    const struct spec per_channel = {.type = in[0].type, .n_dims = 1, .dims = {in[0].dims[1]}};
    const struct spec wanted[] = {in[0], per_channel, per_channel, statistics_of(&in[0])};
    for (unsigned i = 1; i < n; i++) {
        char found[SPEC_TEXT], text[SPEC_TEXT];
        if (!spec_is_known(&in[i]))
            in[i] = wanted[i];
        if (!spec_same_shape(&in[i], &wanted[i]))
            return fail(TERN_MISMATCH, "input %u must have the shape %s, not %s", i,
                        spec_print(&wanted[i], text), spec_print(&in[i], found));
    }
    *out = in[0];
    return TERN_OK;
}

static enum tern_status forward_batch_norm(const struct call *call)
{
    return divide(call, true, normalise_part);
}

static enum tern_status infer_sums(const struct attributes *attributes, struct spec *in, unsigned n,
                                   struct spec *out)
{
    enum tern_status status = infer_moments(attributes, in, n, out);
    if (!status && (!spec_same_shape(&in[0], &in[1]) || !spec_same_shape(&in[2], out)))
        status = fail(TERN_MISMATCH, "the shapes are not those of a gradient, data and statistics");
    return status;
}

static enum tern_status forward_sums(const struct call *call)
{
    return divide(call, false, sums_part);
}

#define NORM_ATTRIBUTES                                         \
    {.name = "eps", .kind = ATTRIBUTE_NUMBER, .usual = 1e-5},   \
    {                                                           \
        .name = "decay", .kind = ATTRIBUTE_NUMBER, .usual = 0.9 \
    }

const struct op op_moments = {.name = "moments",
                              .n_inputs = 1,
                              .types = TYPES_REAL,
                              .input_names = {"data"},
                              .infer = infer_moments,
                              .forward = forward_moments,
                              .gradient = gradient_moments};
const struct op op_batch_norm = {.name = "batch_norm",
                                 .n_inputs = 4,
                                 .types = TYPES_REAL,
                                 .input_names = {"data", "gamma", "beta", "statistics"},
                                 .attributes = {NORM_ATTRIBUTES},
                                 .infer = infer_batch_norm,
                                 .forward = forward_batch_norm,
                                 .gradient = gradient_batch_norm,
                                 .overwrites = 1,
                                 .ones = 1u << 1,
                                 .statistics = 3,
                                 .completes = true};
const struct op op_batch_norm_sums = {.name = "batch_norm_sums",
                                      .n_inputs = 3,
                                      .types = TYPES_REAL,
                                      .input_names = {"output", "data", "statistics"},
                                      .attributes = {NORM_ATTRIBUTES},
                                      .infer = infer_sums,
                                      .forward = forward_sums,
                                      .gradient = refuse_gradient};
