/* op_shape - operators that move elements and change none: reshape, transpose, broadcast, slice, concatenate. */
#include <string.h>

#include "base/status.h"
#include "nd/graph.h"
#include "nd/op.h"

/* Copies elements from a place with gaps to one with gaps. Strides and offsets are in elements. */
static void copy_strided(const struct spec *shape, const char *from, const int64_t *from_strides,
                         char *to, const int64_t *to_strides)
{
    const size_t bytes = spec_type_bytes(shape->type);
    const int inner = shape->n_dims - 1;
    int64_t at[SPEC_DIMS] = {0};
    const int64_t n = inner < 0 ? 1 : shape->dims[inner];
    const int64_t step_from = inner < 0 ? 0 : from_strides[inner] * (int64_t)bytes;
    const int64_t step_to = inner < 0 ? 0 : to_strides[inner] * (int64_t)bytes;
    for (;;) {
        if (step_from == (int64_t)bytes && step_to == (int64_t)bytes)
            memcpy(to, from, (size_t)n * bytes);
        else
            for (int64_t i = 0; i < n; i++)
                memcpy(to + i * step_to, from + i * step_from, bytes);
        int d = inner - 1;
        for (; d >= 0; d--) {
            from += from_strides[d] * (int64_t)bytes;
            to += to_strides[d] * (int64_t)bytes;
            if (++at[d] < shape->dims[d])
                break;
            from -= from_strides[d] * shape->dims[d] * (int64_t)bytes;
            to -= to_strides[d] * shape->dims[d] * (int64_t)bytes;
            at[d] = 0;
        }
        if (d < 0)
            return;
    }
}

/* ---- reshape ------------------------------------------------------------------------------------- */

static enum tern_status infer_reshape(const struct attributes *attributes, struct spec *in,
                                      unsigned n, struct spec *out)
{
    (void)n;
    const struct list *shape = &attributes->lists[0];
    const int64_t count = (int64_t)spec_count(&in[0]);
    *out = (struct spec){.type = in[0].type, .n_dims = shape->n};
    int64_t known = 1;
    int open = -1;
    char text[SPEC_TEXT];
    for (int i = 0; i < shape->n; i++) {
        out->dims[i] = shape->at[i];
        if (shape->at[i] == -1 && open < 0)
            open = i;
        else if (shape->at[i] < 1 || __builtin_mul_overflow(known, shape->at[i], &known))
            return fail(TERN_INVALID, "%lld is no dimension", (long long)shape->at[i]);
    }
    if (open >= 0)
        out->dims[open] = count / known;
    if (open >= 0 ? count % known != 0 : known != count)
        return fail(TERN_MISMATCH, "shape %s has %lld elements, which do not fill the new shape",
                    spec_print(&in[0], text), (long long)count);
    return TERN_OK;
}

static enum tern_status forward_reshape(const struct call *call)
{
    if (call->in[0].data != call->out.data)
        memcpy(call->out.data, call->in[0].data, spec_bytes(&call->out.spec));
    return TERN_OK;
}

static enum tern_status gradient_reshape(struct graph *graph, uint32_t node, uint32_t out,
                                         uint32_t *in)
{
    const struct spec spec = graph->nodes[graph_inputs(graph, node)[0]].spec;
    in[0] = graph_reshape(graph, out, &spec);
    return graph->status;
}

const struct op op_reshape = {
    .name = "reshape",
    .n_inputs = 1,
    .types = TYPES_SAME,
    .input_names = {"data"},
    .attributes = {{.name = "shape", .kind = ATTRIBUTE_LIST, .required = true}},
    .infer = infer_reshape,
    .forward = forward_reshape,
    .gradient = gradient_reshape,
    .overwrites = 1};

/* ---- transpose ----------------------------------------------------------------------------------- */

/* axes[i] is the input's axis that becomes the output's i-th; by default all in reverse. */
static enum tern_status axes_of(const struct list *list, int n_dims, int64_t *axes)
{
    unsigned seen = 0;
    if (list->n >= 0 && list->n != n_dims)
        return fail(TERN_INVALID, "%d axes are given for %d dimensions", list->n, n_dims);
    for (int i = 0; i < n_dims; i++) {
        axes[i] = n_dims - 1 - i;
        enum tern_status status = list->n < 0 ? TERN_OK : op_axis(list->at[i], n_dims, &axes[i]);
        if (status)
            return status;
        if (seen & 1u << axes[i])
            return fail(TERN_INVALID, "axis %lld is named twice", (long long)axes[i]);
        seen |= 1u << axes[i];
    }
    return TERN_OK;
}

static enum tern_status infer_transpose(const struct attributes *attributes, struct spec *in,
                                        unsigned n, struct spec *out)
{
    (void)n;
    int64_t axes[SPEC_DIMS];
    enum tern_status status = axes_of(&attributes->lists[0], in[0].n_dims, axes);
    *out = in[0];
    for (int i = 0; i < in[0].n_dims && !status; i++)
        out->dims[i] = in[0].dims[axes[i]];
    return status;
}

static enum tern_status forward_transpose(const struct call *call)
{
    int64_t axes[SPEC_DIMS], own[SPEC_DIMS], from[SPEC_DIMS], to[SPEC_DIMS];
    (void)axes_of(&call->attributes->lists[0], call->out.spec.n_dims, axes);
    spec_strides(&call->in[0].spec, own);
    spec_strides(&call->out.spec, to);
    for (int i = 0; i < call->out.spec.n_dims; i++)
        from[i] = own[axes[i]];
    copy_strided(&call->out.spec, call->in[0].data, from, call->out.data, to);
    return TERN_OK;
}

static enum tern_status gradient_transpose(struct graph *graph, uint32_t node, uint32_t out,
                                           uint32_t *in)
{
    const int n = graph->nodes[node].spec.n_dims;
    int64_t axes[SPEC_DIMS];
    (void)axes_of(&graph->nodes[node].attributes.lists[0], n, axes);
    struct attributes back;
    op_default_attributes(&op_transpose, &back);
    back.lists[0].n = n;
    for (int i = 0; i < n; i++)
        back.lists[0].at[axes[i]] = i;
    in[0] = graph_add(graph, &op_transpose, &back, &out, 1, NULL, NULL);
    return graph->status;
}

const struct op op_transpose = {.name = "transpose",
                                .n_inputs = 1,
                                .types = TYPES_SAME,
                                .input_names = {"data"},
                                .attributes = {{.name = "axes", .kind = ATTRIBUTE_LIST}},
                                .infer = infer_transpose,
                                .forward = forward_transpose,
                                .gradient = gradient_transpose};

/* ---- broadcast_to -------------------------------------------------------------------------------- */

static enum tern_status infer_broadcast_to(const struct attributes *attributes, struct spec *in,
                                           unsigned n, struct spec *out)
{
    (void)n;
    const struct list *shape = &attributes->lists[0];
    struct spec wanted = {.type = in[0].type, .n_dims = shape->n};
    memcpy(wanted.dims, shape->at, sizeof wanted.dims);
    enum tern_status status = spec_check(&wanted);
    *out = in[0];
    if (!status)
        status = spec_broadcast(out, &wanted);
    if (!status && !spec_same_shape(out, &wanted)) {
        char from[SPEC_TEXT], to[SPEC_TEXT];
        return fail(TERN_MISMATCH, "shape %s does not broadcast to %s", spec_print(&in[0], from),
                    spec_print(&wanted, to));
    }
    return status;
}

static enum tern_status forward_broadcast_to(const struct call *call)
{
    const struct spec *in = &call->in[0].spec, *out = &call->out.spec;
    int64_t own[SPEC_DIMS], from[SPEC_DIMS] = {0}, to[SPEC_DIMS];
    spec_strides(in, own);
    spec_strides(out, to);
    const int extra = out->n_dims - in->n_dims;
    for (int i = 0; i < in->n_dims; i++)
        from[extra + i] = in->dims[i] == 1 ? 0 : own[i];
    copy_strided(out, call->in[0].data, from, call->out.data, to);
    return TERN_OK;
}

static enum tern_status gradient_broadcast_to(struct graph *graph, uint32_t node, uint32_t out,
                                              uint32_t *in)
{
    const struct spec spec = graph->nodes[graph_inputs(graph, node)[0]].spec;
    in[0] = graph_sum_to(graph, out, &spec);
    return graph->status;
}

const struct op op_broadcast_to = {
    .name = "broadcast_to",
    .n_inputs = 1,
    .types = TYPES_SAME,
    .input_names = {"data"},
    .attributes = {{.name = "shape", .kind = ATTRIBUTE_LIST, .required = true}},
    .infer = infer_broadcast_to,
    .forward = forward_broadcast_to,
    .gradient = gradient_broadcast_to};

/* ---- slice and its opposite ---------------------------------------------------------------------- */

static enum tern_status infer_slice(const struct attributes *attributes, struct spec *in,
                                    unsigned n, struct spec *out)
{
    (void)n;
    const struct list *begin = &attributes->lists[0], *end = &attributes->lists[1],
                      *step = &attributes->lists[2];
    *out = in[0];
    if (begin->n > in[0].n_dims || end->n != begin->n || (step->n >= 0 && step->n != begin->n))
        return fail(TERN_INVALID,
                    "begin, end and step need one number for each of the first axes, of %d",
                    in[0].n_dims);
    for (int i = 0; i < begin->n; i++) {
        const int64_t by = step->n < 0 ? 1 : step->at[i];
        if (begin->at[i] < 0 || end->at[i] > in[0].dims[i] || begin->at[i] >= end->at[i] || by < 1)
            return fail(TERN_INVALID,
                        "%lld:%lld:%lld is no slice of axis %d, which has %lld elements",
                        (long long)begin->at[i], (long long)end->at[i], (long long)by, i,
                        (long long)in[0].dims[i]);
        out->dims[i] = (end->at[i] - begin->at[i] - 1) / by + 1;
    }
    return TERN_OK;
}

/* The strides of a slice in its array; returns the offset of its first element. */
static int64_t slice_strides(const struct spec *whole, const struct list *begin,
                             const struct list *step, int64_t *strides)
{
    int64_t offset = 0;
    spec_strides(whole, strides);
    for (int i = 0; i < begin->n; i++) {
        offset += begin->at[i] * strides[i];
        strides[i] *= step->n < 0 ? 1 : step->at[i];
    }
    return offset;
}

static enum tern_status forward_slice(const struct call *call)
{
    int64_t from[SPEC_DIMS], to[SPEC_DIMS];
    const int64_t offset = slice_strides(&call->in[0].spec, &call->attributes->lists[0],
                                         &call->attributes->lists[2], from);
    spec_strides(&call->out.spec, to);
    copy_strided(&call->out.spec,
                 (const char *)call->in[0].data +
                     offset * (int64_t)spec_type_bytes(call->out.spec.type),
                 from, call->out.data, to);
    return TERN_OK;
}

static enum tern_status gradient_slice(struct graph *graph, uint32_t node, uint32_t out,
                                       uint32_t *in)
{
    const struct spec whole = graph->nodes[graph_inputs(graph, node)[0]].spec;
    const struct attributes *own = &graph->nodes[node].attributes;
    struct attributes back;
    op_default_attributes(&op_unslice, &back);
    back.lists[0] = own->lists[0];
    back.lists[1].n = whole.n_dims;
    memcpy(back.lists[1].at, whole.dims, sizeof whole.dims);
    back.lists[2] = own->lists[2];
    in[0] = graph_add(graph, &op_unslice, &back, &out, 1, NULL, NULL);
    return graph->status;
}

static enum tern_status infer_unslice(const struct attributes *attributes, struct spec *in,
                                      unsigned n, struct spec *out)
{
    struct attributes slice = *attributes;
    struct spec whole = {.type = in[0].type, .n_dims = attributes->lists[1].n}, part;
    memcpy(whole.dims, attributes->lists[1].at, sizeof whole.dims);
    enum tern_status status = spec_check(&whole);
    if (status)
        return status;
    const struct list *begin = &attributes->lists[0], *step = &attributes->lists[2];
    slice.lists[1].n = begin->n;
    for (int i = 0; i < begin->n && i < in[0].n_dims; i++) {
        int64_t length;
        if (__builtin_mul_overflow(in[0].dims[i] - 1, step->n == begin->n ? step->at[i] : 1,
                                   &length) ||
            __builtin_add_overflow(length, begin->at[i], &length) ||
            __builtin_add_overflow(length, 1, &slice.lists[1].at[i]))
            return fail(TERN_INVALID, "the slice is longer than any array");
    }
    status = infer_slice(&slice, &whole, n, &part);
    if (!status && !spec_same_shape(&part, &in[0]))
        status = fail(TERN_MISMATCH, "the slice has another shape");
    *out = whole;
    return status;
}

static enum tern_status forward_unslice(const struct call *call)
{
    int64_t from[SPEC_DIMS], to[SPEC_DIMS];
    const int64_t offset = slice_strides(&call->out.spec, &call->attributes->lists[0],
                                         &call->attributes->lists[2], to);
    spec_strides(&call->in[0].spec, from);
    memset(call->out.data, 0, spec_bytes(&call->out.spec));
    copy_strided(&call->in[0].spec, call->in[0].data, from,
                 (char *)call->out.data + offset * (int64_t)spec_type_bytes(call->out.spec.type),
                 to);
    return TERN_OK;
}

static enum tern_status gradient_unslice(struct graph *graph, uint32_t node, uint32_t out,
                                         uint32_t *in)
{
    const struct spec *part = &graph->nodes[graph_inputs(graph, node)[0]].spec;
    struct attributes back = graph->nodes[node].attributes;
    back.lists[1].n = back.lists[0].n;
    for (int i = 0; i < back.lists[0].n; i++)
        back.lists[1].at[i] =
            back.lists[0].at[i] +
            (part->dims[i] - 1) * (back.lists[2].n < 0 ? 1 : back.lists[2].at[i]) + 1;
    in[0] = graph_add(graph, &op_slice, &back, &out, 1, NULL, NULL);
    return graph->status;
}

const struct op op_slice = {
    .name = "slice",
    .n_inputs = 1,
    .types = TYPES_SAME,
    .input_names = {"data"},
    .attributes = {{.name = "begin", .kind = ATTRIBUTE_LIST, .required = true},
                   {.name = "end", .kind = ATTRIBUTE_LIST, .required = true},
                   {.name = "step", .kind = ATTRIBUTE_LIST}},
    .infer = infer_slice,
    .forward = forward_slice,
    .gradient = gradient_slice};
/* Zeros of the shape `shape`, with the input as a slice of it. */
const struct op op_unslice = {
    .name = "unslice",
    .n_inputs = 1,
    .types = TYPES_SAME,
    .input_names = {"data"},
    .attributes = {{.name = "begin", .kind = ATTRIBUTE_LIST, .required = true},
                   {.name = "shape", .kind = ATTRIBUTE_LIST, .required = true},
                   {.name = "step", .kind = ATTRIBUTE_LIST}},
    .infer = infer_unslice,
    .forward = forward_unslice,
    .gradient = gradient_unslice};

/* ---- concat -------------------------------------------------------------------------------------- */

static enum tern_status infer_concat(const struct attributes *attributes, struct spec *in,
                                     unsigned n, struct spec *out)
{
    int64_t axis;
    enum tern_status status = op_axis(attributes->integers[0], in[0].n_dims, &axis);
    *out = in[0];
    for (unsigned i = 1; i < n && !status; i++) {
        struct spec same = in[i];
        if (same.n_dims == out->n_dims)
            same.dims[axis] = out->dims[axis];
        if (!spec_same_shape(&same, out)) {
            char left[SPEC_TEXT], right[SPEC_TEXT];
            return fail(TERN_MISMATCH, "shapes %s and %s cannot be joined along axis %lld",
                        spec_print(&in[0], left), spec_print(&in[i], right), (long long)axis);
        }
        out->dims[axis] += in[i].dims[axis];
    }
    return status;
}

static enum tern_status forward_concat(const struct call *call)
{
    int64_t axis = 0, from[SPEC_DIMS], to[SPEC_DIMS], at = 0;
    (void)op_axis(call->attributes->integers[0], call->out.spec.n_dims, &axis);
    spec_strides(&call->out.spec, to);
    for (unsigned i = 0; i < call->n_inputs; i++) {
        spec_strides(&call->in[i].spec, from);
        copy_strided(&call->in[i].spec, call->in[i].data, from,
                     (char *)call->out.data +
                         at * to[axis] * (int64_t)spec_type_bytes(call->out.spec.type),
                     to);
        at += call->in[i].spec.dims[axis];
    }
    return TERN_OK;
}

static enum tern_status gradient_concat(struct graph *graph, uint32_t node, uint32_t out,
                                        uint32_t *in)
{
    int64_t axis = 0, at = 0;
    const struct spec whole = graph->nodes[node].spec;
    (void)op_axis(graph->nodes[node].attributes.integers[0], whole.n_dims, &axis);
    for (unsigned i = 0; i < graph->nodes[node].n_inputs; i++) {
        const int64_t n = graph->nodes[graph_inputs(graph, node)[i]].spec.dims[axis];
        struct attributes part;
        op_default_attributes(&op_slice, &part);
        part.lists[0].n = part.lists[1].n = whole.n_dims;
        memset(part.lists[0].at, 0, sizeof part.lists[0].at);
        memcpy(part.lists[1].at, whole.dims, sizeof whole.dims);
        part.lists[0].at[axis] = at;
        part.lists[1].at[axis] = at += n;
        in[i] = graph_add(graph, &op_slice, &part, &out, 1, NULL, NULL);
    }
    return graph->status;
}

const struct op op_concat = {.name = "concat",
                             .n_inputs = -1,
                             .types = TYPES_SAME,
                             .input_names = {"data"},
                             .attributes = {{.name = "axis", .kind = ATTRIBUTE_INTEGER}},
                             .infer = infer_concat,
                             .forward = forward_concat,
                             .gradient = gradient_concat};
