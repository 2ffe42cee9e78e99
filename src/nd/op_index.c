/* op_index - operators that take numbers as indices, and those that end a classifier. Indices are i64 and checked. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "nd/graph.h"
#include "nd/op.h"

/* ---- take: rows of data (n x ...) by index; untake adds rows to zeros of `rows` rows ------------- */

static enum tern_status infer_take(const struct attributes *attributes, struct spec *in, unsigned n,
                                   struct spec *out)
{
    (void)attributes, (void)n;
    if (in[0].n_dims < 1 || in[0].n_dims - 1 + in[1].n_dims > SPEC_DIMS)
        return fail(TERN_INVALID, "the data has %d dimensions and the indices %d", in[0].n_dims,
                    in[1].n_dims);
    *out = (struct spec){.type = in[0].type, .n_dims = in[1].n_dims + in[0].n_dims - 1};
    memcpy(out->dims, in[1].dims, (size_t)in[1].n_dims * sizeof out->dims[0]);
    memcpy(out->dims + in[1].n_dims, in[0].dims + 1,
           (size_t)(in[0].n_dims - 1) * sizeof out->dims[0]);
    return TERN_OK;
}

static enum tern_status check_index(int64_t index, int64_t n, size_t place)
{
    if (index < 0 || index >= n)
        return fail(TERN_RANGE, "index %lld at place %zu is not in 0 .. %lld", (long long)index,
                    place, (long long)n - 1);
    return TERN_OK;
}

static enum tern_status forward_take(const struct call *call)
{
    const int64_t n = call->in[0].spec.dims[0], *indices = call->in[1].data;
    const size_t bytes = spec_bytes(&call->in[0].spec) / (size_t)n,
                 n_taken = spec_count(&call->in[1].spec);
    for (size_t i = 0; i < n_taken; i++) {
        enum tern_status status = check_index(indices[i], n, i);
        if (status)
            return status;
        memcpy((char *)call->out.data + i * bytes,
               (const char *)call->in[0].data + (size_t)indices[i] * bytes, bytes);
    }
    return TERN_OK;
}

static enum tern_status gradient_take(struct graph *graph, uint32_t node, uint32_t out,
                                      uint32_t *in)
{
    const uint32_t indices = graph_inputs(graph, node)[1];
    struct attributes rows;
    op_default_attributes(&op_untake, &rows);
    rows.integers[0] = graph->nodes[graph_inputs(graph, node)[0]].spec.dims[0];
    in[0] = graph_add(graph, &op_untake, &rows, (uint32_t[]){out, indices}, 2, NULL, NULL);
    return graph->status;
}

static enum tern_status infer_untake(const struct attributes *attributes, struct spec *in,
                                     unsigned n, struct spec *out)
{
    (void)n;
    const int extra = in[1].n_dims;
    if (!spec_is_real(in[0].type))
        return fail(TERN_INVALID, "rows of %s cannot be added", spec_type_name(in[0].type));
    struct spec leading = {.n_dims = extra};
    memcpy(leading.dims, in[0].dims, sizeof leading.dims);
    if (in[0].n_dims < extra || !spec_same_shape(&leading, &in[1]))
        return fail(TERN_MISMATCH, "the data does not have a row for each index");
    *out = (struct spec){.type = in[0].type, .n_dims = in[0].n_dims - extra + 1};
    out->dims[0] = attributes->integers[0];
    for (int i = 1; i < out->n_dims; i++)
        out->dims[i] = in[0].dims[extra + i - 1];
    return TERN_OK;
}

#define ADD_ROW(T)                                                \
    for (size_t j = 0; j < length; j++)                           \
        ((T *)call->out.data)[(size_t)indices[i] * length + j] += \
            ((const T *)call->in[0].data)[i * length + j];

static enum tern_status forward_untake(const struct call *call)
{
    const int64_t n = call->out.spec.dims[0], *indices = call->in[1].data;
    const size_t n_taken = spec_count(&call->in[1].spec),
                 length = spec_count(&call->out.spec) / (size_t)n;
    memset(call->out.data, 0, spec_bytes(&call->out.spec));
    for (size_t i = 0; i < n_taken; i++) {
        enum tern_status status = check_index(indices[i], n, i);
        if (status)
            return status;
        if (call->out.spec.type == TERN_ND_F32)
            ADD_ROW(float)
        else
            ADD_ROW(double)
    }
    return TERN_OK;
}

static enum tern_status gradient_untake(struct graph *graph, uint32_t node, uint32_t out,
                                        uint32_t *in)
{
    in[0] = graph_call2(graph, &op_take, out, graph_inputs(graph, node)[1]);
    return graph->status;
}

const struct op op_take = {.name = "take",
                           .n_inputs = 2,
                           .types = TYPES_INDEX,
                           .input_names = {"data", "indices"},
                           .infer = infer_take,
                           .forward = forward_take,
                           .gradient = gradient_take};
const struct op op_untake = {
    .name = "untake",
    .n_inputs = 2,
    .types = TYPES_INDEX,
    .input_names = {"data", "indices"},
    .attributes = {{.name = "rows", .kind = ATTRIBUTE_INTEGER, .required = true}},
    .infer = infer_untake,
    .forward = forward_untake,
    .gradient = gradient_untake};

/* ---- embedding: rows of weight (rows x length) by index; a module may have the weight in a table -- */

static enum tern_status infer_embedding(const struct attributes *attributes, struct spec *in,
                                        unsigned n, struct spec *out)
{
    const struct spec weight = {.type = in[1].type,
                                .n_dims = 2,
                                .dims = {attributes->integers[0], attributes->integers[1]}};
    if (!spec_is_known(&in[0]))
        return fail(TERN_INVALID, "the shape of the indices is not known");
    if (!spec_is_known(&in[1]))
        in[1] = weight;
    if (!spec_same_shape(&in[1], &weight)) {
        char found[SPEC_TEXT], wanted[SPEC_TEXT];
        return fail(TERN_MISMATCH, "the weights must have the shape %s, not %s",
                    spec_print(&weight, wanted), spec_print(&in[1], found));
    }
    enum tern_status status = spec_check(&weight);
    struct spec swapped[] = {weight, in[0]};
    return status ? status : infer_take(attributes, swapped, n, out);
}

static enum tern_status forward_embedding(const struct call *call)
{
    const struct tensor swapped[] = {call->in[1], call->in[0]};
    return forward_take(&(struct call){.n_inputs = 2, .in = swapped, .out = call->out});
}

static enum tern_status gradient_embedding(struct graph *graph, uint32_t node, uint32_t out,
                                           uint32_t *in)
{
    struct attributes rows;
    op_default_attributes(&op_untake, &rows);
    rows.integers[0] = graph->nodes[node].attributes.integers[0];
    in[1] = graph_add(graph, &op_untake, &rows, (uint32_t[]){out, graph_inputs(graph, node)[0]}, 2,
                      NULL, NULL);
    return graph->status;
}

const struct op op_embedding = {
    .name = "embedding",
    .n_inputs = 2,
    .types = TYPES_LOOKUP,
    .input_names = {"data", "weight"},
    .attributes = {{.name = "rows", .kind = ATTRIBUTE_INTEGER, .required = true},
                   {.name = "length", .kind = ATTRIBUTE_INTEGER, .required = true}},
    .infer = infer_embedding,
    .forward = forward_embedding,
    .gradient = gradient_embedding,
    .completes = true};

/* ---- one_hot ------------------------------------------------------------------------------------- */

static enum tern_status infer_one_hot(const struct attributes *attributes, struct spec *in,
                                      unsigned n, struct spec *out)
{
    (void)n;
    *out = in[0];
    out->type = TERN_ND_F32;
    if (in[0].n_dims == SPEC_DIMS)
        return fail(TERN_INVALID, "the indices have %d dimensions already", SPEC_DIMS);
    out->dims[out->n_dims++] = attributes->integers[0];
    return TERN_OK;
}

static enum tern_status forward_one_hot(const struct call *call)
{
    const int64_t depth = call->attributes->integers[0], *indices = call->in[0].data;
    const size_t n = spec_count(&call->in[0].spec);
    float *out = call->out.data;
    memset(out, 0, spec_bytes(&call->out.spec));
    for (size_t i = 0; i < n; i++) {
        enum tern_status status = check_index(indices[i], depth, i);
        if (status)
            return status;
        out[i * (size_t)depth + (size_t)indices[i]] = 1;
    }
    return TERN_OK;
}

const struct op op_one_hot = {
    .name = "one_hot",
    .n_inputs = 1,
    .types = TYPES_I64,
    .input_names = {"indices"},
    .attributes = {{.name = "depth", .kind = ATTRIBUTE_INTEGER, .required = true}},
    .infer = infer_one_hot,
    .forward = forward_one_hot};

/* ---- softmax and log_softmax, along the last axis ------------------------------------------------ */

static enum tern_status infer_softmax(const struct attributes *attributes, struct spec *in,
                                      unsigned n, struct spec *out)
{
    (void)attributes, (void)n;
    if (in[0].n_dims < 1)
        return fail(TERN_INVALID, "a number without dimensions has no last axis");
    *out = in[0];
    return TERN_OK;
}

#define SOFTMAX_ROW(T, EXP)                                                                      \
    {                                                                                            \
        const T *x = (const T *)call->in[0].data + i * n;                                        \
        T *out = (T *)call->out.data + i * n;                                                    \
        T most = x[0];                                                                           \
        for (size_t j = 1; j < n; j++)                                                           \
            most = x[j] > most ? x[j] : most;                                                    \
        double sum = 0;                                                                          \
        for (size_t j = 0; j < n; j++)                                                           \
            sum += (double)EXP(x[j] - most);                                                     \
        const double scale = is_log ? (double)most + log(sum) : 1 / sum;                         \
        for (size_t j = 0; j < n; j++)                                                           \
            out[j] = is_log ? (T)((double)x[j] - scale) : (T)((double)EXP(x[j] - most) * scale); \
    }

static enum tern_status softmax(const struct call *call, bool is_log)
{
    const size_t n = (size_t)call->out.spec.dims[call->out.spec.n_dims - 1];
    const size_t rows = spec_count(&call->out.spec) / n;
    for (size_t i = 0; i < rows; i++) {
        if (call->out.spec.type == TERN_ND_F32)
            SOFTMAX_ROW(float, expf)
        else
            SOFTMAX_ROW(double, exp)
    }
    return TERN_OK;
}

static enum tern_status forward_softmax(const struct call *call)
{
    return softmax(call, false);
}

static enum tern_status forward_log_softmax(const struct call *call)
{
    return softmax(call, true);
}

/* The sum of `value` along the last axis, which is kept. */
static uint32_t sum_last(struct graph *graph, uint32_t value)
{
    struct attributes last;
    op_default_attributes(&op_sum, &last);
    last.lists[0] = (struct list){.n = 1, .at = {-1}};
    last.integers[0] = 1;
    return graph_add(graph, &op_sum, &last, &value, 1, NULL, NULL);
}

static enum tern_status gradient_softmax(struct graph *graph, uint32_t node, uint32_t out,
                                         uint32_t *in)
{
    const uint32_t weighted = graph_call2(graph, &op_multiply, out, node);
    in[0] = graph_call2(graph, &op_multiply, node,
                        graph_call2(graph, &op_subtract, out, sum_last(graph, weighted)));
    return graph->status;
}

static enum tern_status gradient_log_softmax(struct graph *graph, uint32_t node, uint32_t out,
                                             uint32_t *in)
{
    in[0] = graph_call2(
        graph, &op_subtract, out,
        graph_call2(graph, &op_multiply, graph_call(graph, &op_exp, node), sum_last(graph, out)));
    return graph->status;
}

const struct op op_softmax = {.name = "softmax",
                              .n_inputs = 1,
                              .types = TYPES_REAL,
                              .input_names = {"data"},
                              .infer = infer_softmax,
                              .forward = forward_softmax,
                              .gradient = gradient_softmax,
                              .overwrites = 1};
const struct op op_log_softmax = {.name = "log_softmax",
                                  .n_inputs = 1,
                                  .types = TYPES_REAL,
                                  .input_names = {"data"},
                                  .infer = infer_softmax,
                                  .forward = forward_log_softmax,
                                  .gradient = gradient_log_softmax,
                                  .overwrites = 1};

/* ---- softmax_output: softmax; its gradient is that of the cross entropy with the labels ---------- */

static enum tern_status infer_softmax_output(const struct attributes *attributes, struct spec *in,
                                             unsigned n, struct spec *out)
{
    (void)attributes, (void)n;
    if (!spec_is_known(&in[0]) || in[0].n_dims < 1)
        return fail(TERN_INVALID, "the data must have a known shape of at least one dimension");
    struct spec label = in[0];
    label.type = TERN_ND_I64;
    label.n_dims--;
    if (!spec_is_known(&in[1]))
        in[1] = label;
    if (!spec_same_shape(&in[1], &label)) {
        char left[SPEC_TEXT], right[SPEC_TEXT];
        return fail(TERN_MISMATCH, "data of shape %s needs labels without its last axis, not %s",
                    spec_print(&in[0], left), spec_print(&in[1], right));
    }
    *out = in[0];
    return TERN_OK;
}

static enum tern_status gradient_softmax_output(struct graph *graph, uint32_t node, uint32_t out,
                                                uint32_t *in)
{
    (void)out;
    in[0] = graph_call2(graph, &op_softmax_output_gradient, node, graph_inputs(graph, node)[1]);
    return graph->status;
}

static enum tern_status forward_softmax_output_gradient(const struct call *call)
{
    const int64_t n = call->out.spec.dims[call->out.spec.n_dims - 1], *labels = call->in[1].data;
    const size_t rows = spec_count(&call->in[1].spec);
    if (call->out.data != call->in[0].data)
        memcpy(call->out.data, call->in[0].data, spec_bytes(&call->out.spec));
    for (size_t i = 0; i < rows; i++) {
        if (labels[i] < 0 || labels[i] >= n)
            return fail(TERN_RANGE, "label %lld at place %zu is not in 0 .. %lld",
                        (long long)labels[i], i, (long long)n - 1);
        const size_t at = i * (size_t)n + (size_t)labels[i];
        if (call->out.spec.type == TERN_ND_F32)
            ((float *)call->out.data)[at] -= 1;
        else
            ((double *)call->out.data)[at] -= 1;
    }
    return TERN_OK;
}

const struct op op_softmax_output = {.name = "softmax_output",
                                     .n_inputs = 2,
                                     .label = 1,
                                     .types = TYPES_LABEL,
                                     .input_names = {"data", "label"},
                                     .infer = infer_softmax_output,
                                     .forward = forward_softmax,
                                     .gradient = gradient_softmax_output,
                                     .overwrites = 1,
                                     .completes = true};
const struct op op_softmax_output_gradient = {.name = "softmax_output_gradient",
                                              .n_inputs = 2,
                                              .types = TYPES_LABEL,
                                              .input_names = {"data", "label"},
                                              .infer = infer_softmax_output,
                                              .forward = forward_softmax_output_gradient,
                                              .overwrites = 1};
