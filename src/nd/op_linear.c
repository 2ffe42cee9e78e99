/* op_linear - products of matrices: `dot`, and `fully_connected`, the layer of a network. */
#include <string.h>

#include "base/status.h"
#include "nd/gemm.h"
#include "nd/graph.h"
#include "nd/op.h"

static size_t scratch_bytes(const struct attributes *attributes, const struct spec *in,
                            const struct spec *out)
{
    (void)attributes, (void)in, (void)out;
    return GEMM_SCRATCH_BYTES;
}

/* ---- dot: attributes transpose_a and transpose_b ------------------------------------------------- */

static enum tern_status infer_dot(const struct attributes *attributes, struct spec *in, unsigned n,
                                  struct spec *out)
{
    (void)n;
    const int ta = attributes->integers[0] != 0, tb = attributes->integers[1] != 0;
    if (in[0].n_dims != 2 || in[1].n_dims != 2 || in[0].dims[!ta] != in[1].dims[tb]) {
        char left[SPEC_TEXT], right[SPEC_TEXT];
        return fail(TERN_MISMATCH, "shapes %s%s and %s%s cannot be multiplied as matrices",
                    spec_print(&in[0], left), ta ? " transposed" : "", spec_print(&in[1], right),
                    tb ? " transposed" : "");
    }
    *out =
        (struct spec){.type = in[0].type, .n_dims = 2, .dims = {in[0].dims[ta], in[1].dims[!tb]}};
    return TERN_OK;
}

static enum tern_status forward_dot(const struct call *call)
{
    const bool ta = call->attributes->integers[0] != 0, tb = call->attributes->integers[1] != 0;
    const int64_t *out = call->out.spec.dims;
    gemm_parts(&(struct gemm){.type = call->out.spec.type,
                              .transpose_a = ta,
                              .transpose_b = tb,
                              .m = out[0],
                              .n = out[1],
                              .k = call->in[0].spec.dims[!ta],
                              .a = call->in[0].data,
                              .b = call->in[1].data,
                              .c = call->out.data,
                              .scratch = call->scratch},
               call->n_parts, call->part_bytes);
    return TERN_OK;
}

static uint32_t dot(struct graph *graph, uint32_t a, bool transpose_a, uint32_t b, bool transpose_b)
{
    struct attributes attributes;
    op_default_attributes(&op_dot, &attributes);
    attributes.integers[0] = transpose_a;
    attributes.integers[1] = transpose_b;
    return graph_add(graph, &op_dot, &attributes, (uint32_t[]){a, b}, 2, NULL, NULL);
}

static enum tern_status gradient_dot(struct graph *graph, uint32_t node, uint32_t out, uint32_t *in)
{
    const uint32_t a = graph_inputs(graph, node)[0], b = graph_inputs(graph, node)[1];
    const bool ta = graph->nodes[node].attributes.integers[0] != 0,
               tb = graph->nodes[node].attributes.integers[1] != 0;
    in[0] = ta ? dot(graph, b, tb, out, true) : dot(graph, out, false, b, !tb);
    in[1] = tb ? dot(graph, out, true, a, ta) : dot(graph, a, !ta, out, false);
    return graph->status;
}

const struct op op_dot = {.name = "dot",
                          .n_inputs = 2,
                          .types = TYPES_REAL,
                          .input_names = {"left", "right"},
                          .attributes = {{.name = "transpose_a", .kind = ATTRIBUTE_INTEGER},
                                         {.name = "transpose_b", .kind = ATTRIBUTE_INTEGER}},
                          .infer = infer_dot,
                          .forward = forward_dot,
                          .scratch_bytes = scratch_bytes,
                          .divides = true,
                          .gradient = gradient_dot};

/* ---- fully_connected: data (n x ...) times weight (hidden x ...) transposed, plus bias (hidden) -- */

static enum tern_status infer_fully_connected(const struct attributes *attributes, struct spec *in,
                                              unsigned n, struct spec *out)
{
    (void)n;
    const int64_t hidden = attributes->integers[0];
    if (!spec_is_known(&in[0]) || in[0].n_dims < 1)
        return fail(TERN_INVALID, "the data must have a known shape of at least one dimension");
    const int64_t columns = (int64_t)spec_count(&in[0]) / in[0].dims[0];
    const struct spec weight = {.type = in[0].type, .n_dims = 2, .dims = {hidden, columns}};
    const struct spec bias = {.type = in[0].type, .n_dims = 1, .dims = {hidden}};
    if (!spec_is_known(&in[1]))
        in[1] = weight;
    if (!spec_is_known(&in[2]))
        in[2] = bias;
    if (!spec_same_shape(&in[1], &weight) || !spec_same_shape(&in[2], &bias)) {
        char data[SPEC_TEXT], left[SPEC_TEXT], right[SPEC_TEXT];
        return fail(
            TERN_MISMATCH,
            "data of shape %s with %lld hidden units needs weights (hidden, inputs) and a bias "
            "(hidden,), not %s and %s",
            spec_print(&in[0], data), (long long)hidden, spec_print(&in[1], left),
            spec_print(&in[2], right));
    }
    *out = (struct spec){.type = in[0].type, .n_dims = 2, .dims = {in[0].dims[0], hidden}};
    return TERN_OK;
}

#define ADD_BIAS(T)                           \
    for (int64_t i = 0; i < rows; i++)        \
        for (int64_t j = 0; j < columns; j++) \
            ((T *)call->out.data)[i * columns + j] += ((const T *)call->in[2].data)[j];

static enum tern_status forward_fully_connected(const struct call *call)
{
    const int64_t rows = call->out.spec.dims[0], columns = call->out.spec.dims[1];
    gemm_parts(&(struct gemm){.type = call->out.spec.type,
                              .transpose_b = true,
                              .m = rows,
                              .n = columns,
                              .k = call->in[1].spec.dims[1],
                              .a = call->in[0].data,
                              .b = call->in[1].data,
                              .c = call->out.data,
                              .scratch = call->scratch},
               call->n_parts, call->part_bytes);
    if (call->out.spec.type == TERN_ND_F32)
        ADD_BIAS(float)
    else
        ADD_BIAS(double)
    return TERN_OK;
}

static enum tern_status gradient_fully_connected(struct graph *graph, uint32_t node, uint32_t out,
                                                 uint32_t *in)
{
    const uint32_t data = graph_inputs(graph, node)[0], weight = graph_inputs(graph, node)[1],
                   bias = graph_inputs(graph, node)[2];
    const struct spec data_spec = graph->nodes[data].spec, bias_spec = graph->nodes[bias].spec;
    struct spec flat = {.type = data_spec.type,
                        .n_dims = 2,
                        .dims = {data_spec.dims[0], graph->nodes[weight].spec.dims[1]}};
    in[0] = graph_reshape(graph, dot(graph, out, false, weight, false), &data_spec);
    in[1] = dot(graph, out, true, graph_reshape(graph, data, &flat), false);
    in[2] = graph_sum_to(graph, out, &bias_spec);
    return graph->status;
}

const struct op op_fully_connected = {
    .name = "fully_connected",
    .n_inputs = 3,
    .types = TYPES_REAL,
    .input_names = {"data", "weight", "bias"},
    .attributes = {{.name = "hidden", .kind = ATTRIBUTE_INTEGER, .required = true}},
    .infer = infer_fully_connected,
    .forward = forward_fully_connected,
    .scratch_bytes = scratch_bytes,
    .divides = true,
    .gradient = gradient_fully_connected,
    .completes = true};
