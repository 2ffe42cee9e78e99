/*
 * op_convolution - convolutions of images, as products of matrices: `convolution`, and its gradients, which are
 * operators of their own: `convolution_data` (a transposed convolution) and `convolution_weight`.
 *
 * The windows of a part of the images, a tile, become the columns of a matrix in scratch ("unfolded"), so that
 *
 *   output = weight (filters x window) times columns (window x places) plus bias
 *   data gradient = weight transposed times output gradient, added back where the windows were ("folded")
 *   weight gradient = output gradient times columns transposed, summed over the tiles
 *
 * A tile is some images, or some rows of places of one image: so many that the product is efficient, and so few that the
 * scratch stays small, whatever the size of the images.
 *
 * Where the library was built with oneDNN, that convolves f32 (onednn.h), and these loops are what it is tested against.
 */
#include <string.h>

#include "base/status.h"
#include "nd/clones.h"
#include "nd/engine.h"
#include "nd/gemm.h"
#include "nd/graph.h"
#include "nd/onednn.h"
#include "nd/window.h"

enum { TILE_COLUMNS = 1024 };

/* The shapes of one convolution. */
struct convolution {
    struct window window;
    int64_t images, channels, filters;
    int64_t all_channels; /* of an image in memory; `channels` of them are looked at */
    int64_t depth;        /* channels times elements of the kernel */
    int64_t places;       /* of the window in an image */
    int64_t tile_images, tile_rows;
};

/* The images first .. first + n - 1 and the rows of places y .. y + rows - 1 in them. */
struct tile {
    int64_t first, n, y, rows;
    int64_t columns;
};

static enum tern_status convolution_read(const struct attributes *attributes,
                                         const struct spec *data, int64_t filters,
                                         struct convolution *c)
{
    if (!spec_is_known(data) || data->n_dims != 4)
        return fail(TERN_INVALID, "the data must have a known shape: images x channels x height x "
                                  "width");
    *c = (struct convolution){.images = data->dims[0],
                              .channels = data->dims[1],
                              .all_channels = data->dims[1],
                              .filters = filters};
    enum tern_status status = window_read(attributes, data->dims + 2, &c->window);
    if (status)
        return status;
    c->depth = c->channels * c->window.kernel[0] * c->window.kernel[1];
    c->places = c->window.out[0] * c->window.out[1];
    c->tile_rows = c->places <= TILE_COLUMNS         ? c->window.out[0]
                   : c->window.out[1] < TILE_COLUMNS ? TILE_COLUMNS / c->window.out[1]
                                                     : 1;
    c->tile_images = c->places <= TILE_COLUMNS ? TILE_COLUMNS / c->places : 1;
    if (c->tile_images > c->images)
        c->tile_images = c->images;
    return TERN_OK;
}

/* Moves to the next tile, from {0} on; false behind the last. */
static bool tile_next(const struct convolution *c, struct tile *tile)
{
    tile->y += tile->rows;
    if (tile->n && tile->y == c->window.out[0]) {
        tile->first += tile->n;
        tile->y = 0;
    }
    const int64_t images = c->images - tile->first, rows = c->window.out[0] - tile->y;
    tile->n = images < c->tile_images ? images : c->tile_images;
    tile->rows = rows < c->tile_rows ? rows : c->tile_rows;
    tile->columns = tile->n * tile->rows * c->window.out[1];
    return tile->n > 0;
}

/* The matrices in scratch, behind that of the product. */
static size_t own_scratch(const struct convolution *c, enum tern_nd_type type)
{
    return GEMM_SCRATCH_BYTES +
           (size_t)((c->depth + c->filters) * c->tile_images * c->tile_rows * c->window.out[1]) *
               spec_type_bytes(type);
}

static size_t onednn_scratch_of(enum onednn_kind kind, const struct convolution *c,
                                enum tern_nd_type type)
{
    const struct onednn_shape shape = {c->images, c->channels, c->filters, c->window};
    return type == TERN_ND_F32 ? onednn_scratch(kind, &shape) : 0;
}

static size_t scratch_of(enum onednn_kind kind, const struct convolution *c, enum tern_nd_type type)
{
    const size_t bytes = onednn_scratch_of(kind, c, type);
    return bytes ? bytes : own_scratch(c, type);
}

/* ---- Parts: some images each; of the gradient of weights, some channels --------------------------- */

typedef void convolve_run(const struct convolution *c, const struct call *call);

struct division {
    struct convolution c;
    const struct call *call;
    convolve_run *convolve;
    bool by_channels;
    int64_t n_parts;
};

static void *shifted(void *data, int64_t n, enum tern_nd_type type)
{
    return (char *)data + n * (int64_t)spec_type_bytes(type);
}

static void convolve_part(void *context, unsigned i)
{
    const struct division *d = context;
    struct convolution c = d->c;
    struct call call = *d->call;
    struct tensor in[3];
    memcpy(in, call.in, call.n_inputs * sizeof *in);
    call.in = in;
    call.scratch = (char *)call.scratch + i * call.part_bytes;
    const enum tern_nd_type type = call.out.spec.type;
    const int64_t count = d->by_channels ? c.channels : c.images,
                  begin = nd_engine_begin(count, (unsigned)d->n_parts, i),
                  n = nd_engine_begin(count, (unsigned)d->n_parts, i + 1) - begin;
    if (d->by_channels) {
        const int64_t window = c.depth / c.channels;
        in[1].data = shifted(in[1].data, begin * c.window.in[0] * c.window.in[1], type);
        call.out.data = shifted(call.out.data, begin * window, type);
        c.channels = n;
        c.depth = n * window;
    } else {
        in[0].data = shifted(in[0].data,
                             begin * (int64_t)spec_count(&in[0].spec) / in[0].spec.dims[0], type);
        call.out.data =
            shifted(call.out.data,
                    begin * (int64_t)spec_count(&call.out.spec) / call.out.spec.dims[0], type);
        c.images = n;
        c.tile_images = c.tile_images < n ? c.tile_images : n;
    }
    d->convolve(&c, &call);
}

enum { PART_PRODUCTS = 1 << 20 }; /* multiplications, the least of a part */

static void divide(const struct convolution *c, const struct call *call, bool by_channels,
                   convolve_run *convolve)
{
    struct division d = {*c, call, convolve, by_channels, 1};
    const int64_t work = c->images * c->filters * c->depth * c->places,
                  most = by_channels ? c->channels : c->images;
    d.n_parts = nd_engine_split(work, PART_PRODUCTS);
    d.n_parts = d.n_parts < call->n_parts ? d.n_parts : call->n_parts;
    d.n_parts = d.n_parts < most ? d.n_parts : most;
    nd_engine_parts((unsigned)d.n_parts, convolve_part, &d);
}

/* By oneDNN, if the scratch was planned for it, else by one of these loops, for f32 and f64. */
static enum tern_status run(enum onednn_kind kind, const struct convolution *c,
                            const struct call *call, convolve_run *const loops[2])
{
    const enum tern_nd_type type = call->out.spec.type;
    const size_t bytes = onednn_scratch_of(kind, c, type);
    if (bytes && bytes <= call->part_bytes)
        return onednn_convolve(
            kind, &(struct onednn_shape){c->images, c->channels, c->filters, c->window}, call);
    if (own_scratch(c, type) > call->part_bytes)
        return fail(TERN_NO_MEMORY, "there is no memory for oneDNN");
    divide(c, call, kind == ONEDNN_WEIGHT, loops[type == TERN_ND_F64]);
    return TERN_OK;
}

#define REAL float
#define NAME(x) x##_f32
#include "nd/op_convolution_body.h"

#define REAL double
#define NAME(x) x##_f64
#include "nd/op_convolution_body.h"

/* ---- convolution: data, weight (filters x channels x kernel), bias (filters) --------------------- */

static struct spec weight_of(const struct convolution *c, enum tern_nd_type type)
{
    return (struct spec){
        .type = type,
        .n_dims = 4,
        .dims = {c->filters, c->channels, c->window.kernel[0], c->window.kernel[1]}};
}

static struct spec output_of(const struct convolution *c, enum tern_nd_type type)
{
    return (struct spec){.type = type,
                         .n_dims = 4,
                         .dims = {c->images, c->filters, c->window.out[0], c->window.out[1]}};
}

/* The input must have this shape; one that is not known gets it. */
static enum tern_status demand(struct spec *in, const struct spec *wanted, const char *name)
{
    char found[SPEC_TEXT], text[SPEC_TEXT];
    if (!spec_is_known(in))
        *in = *wanted;
    if (!spec_same_shape(in, wanted))
        return fail(TERN_MISMATCH, "the %s must have the shape %s, not %s", name,
                    spec_print(wanted, text), spec_print(in, found));
    return TERN_OK;
}

static enum tern_status infer_convolution(const struct attributes *attributes, struct spec *in,
                                          unsigned n, struct spec *out)
{
    (void)n;
    struct convolution c;
    enum tern_status status = convolution_read(attributes, &in[0], attributes->integers[0], &c);
    if (status)
        return status;
    const struct spec weight = weight_of(&c, in[0].type),
                      bias = {.type = in[0].type, .n_dims = 1, .dims = {c.filters}};
    *out = output_of(&c, in[0].type);
    status = demand(&in[1], &weight, "weights");
    return status ? status : demand(&in[2], &bias, "bias");
}

static enum tern_status forward_convolution(const struct call *call)
{
    struct convolution c;
    enum tern_status status =
        convolution_read(call->attributes, &call->in[0].spec, call->out.spec.dims[1], &c);
    return status
               ? status
               : run(ONEDNN_OUTPUT, &c, call, (convolve_run *const[]){convolve_f32, convolve_f64});
}

static size_t scratch_convolution(const struct attributes *attributes, const struct spec *in,
                                  const struct spec *out)
{
    struct convolution c;
    return convolution_read(attributes, &in[0], out->dims[1], &c)
               ? 0
               : scratch_of(ONEDNN_OUTPUT, &c, out->type);
}

/* The window of a convolution, for one of the three operators; `filters`, or the size of the data. */
static struct attributes attributes_of(const struct graph *graph, const struct op *op,
                                       uint32_t node, int64_t first, int64_t second)
{
    struct attributes attributes;
    op_default_attributes(op, &attributes);
    memcpy(attributes.lists, graph->nodes[node].attributes.lists, sizeof attributes.lists);
    attributes.integers[0] = first;
    attributes.integers[1] = second;
    return attributes;
}

/* A convolution without bias. */
static uint32_t convolve(struct graph *graph, uint32_t like, uint32_t data, uint32_t weight)
{
    if (data == GRAPH_NONE || weight == GRAPH_NONE)
        return GRAPH_NONE;
    const struct spec spec = graph->nodes[weight].spec;
    struct attributes zeros;
    op_default_attributes(&op_full, &zeros);
    zeros.lists[0] = (struct list){.n = 1, .at = {spec.dims[0]}};
    zeros.integers[0] = spec.type;
    const uint32_t bias = graph_add(graph, &op_full, &zeros, NULL, 0, NULL, NULL);
    const struct attributes own = attributes_of(graph, &op_convolution, like, spec.dims[0], 0);
    return graph_add(graph, &op_convolution, &own, (uint32_t[]){data, weight, bias}, 3, NULL, NULL);
}

static uint32_t to_data(struct graph *graph, uint32_t like, uint32_t out, uint32_t weight,
                        const struct spec *data)
{
    const struct attributes own =
        attributes_of(graph, &op_convolution_data, like, data->dims[2], data->dims[3]);
    return graph_add(graph, &op_convolution_data, &own, (uint32_t[]){out, weight}, 2, NULL, NULL);
}

static uint32_t to_weight(struct graph *graph, uint32_t like, uint32_t out, uint32_t data)
{
    const struct attributes own = attributes_of(graph, &op_convolution_weight, like, 0, 0);
    return graph_add(graph, &op_convolution_weight, &own, (uint32_t[]){out, data}, 2, NULL, NULL);
}

static enum tern_status gradient_convolution(struct graph *graph, uint32_t node, uint32_t out,
                                             uint32_t *in)
{
    const uint32_t data = graph_inputs(graph, node)[0], weight = graph_inputs(graph, node)[1];
    const struct spec data_spec = graph->nodes[data].spec;
    struct attributes all_but_filters;
    op_default_attributes(&op_sum, &all_but_filters);
    all_but_filters.lists[0] = (struct list){.n = 3, .at = {0, 2, 3}};
    in[0] = to_data(graph, node, out, weight, &data_spec);
    in[1] = to_weight(graph, node, out, data);
    in[2] = graph_add(graph, &op_sum, &all_but_filters, &out, 1, NULL, NULL);
    return graph->status;
}

const struct op op_convolution = {
    .name = "convolution",
    .n_inputs = 3,
    .types = TYPES_REAL,
    .input_names = {"data", "weight", "bias"},
    .attributes = {WINDOW_ATTRIBUTES,
                   {.name = "filters", .kind = ATTRIBUTE_INTEGER, .required = true}},
    .infer = infer_convolution,
    .forward = forward_convolution,
    .scratch_bytes = scratch_convolution,
    .divides = true,
    .gradient = gradient_convolution,
    .completes = true};

/* ---- convolution_data: the gradient of the output, and weight; the data's height and width ------- */

static enum tern_status read_data(const struct attributes *attributes, const struct spec *in,
                                  struct spec *data, struct convolution *c)
{
    if (in[0].n_dims != 4 || in[1].n_dims != 4)
        return fail(TERN_INVALID, "outputs and weights have four dimensions");
    *data = (struct spec){
        .type = in[0].type,
        .n_dims = 4,
        .dims = {in[0].dims[0], in[1].dims[1], attributes->integers[0], attributes->integers[1]}};
    enum tern_status status = spec_check(data);
    return status ? status : convolution_read(attributes, data, in[1].dims[0], c);
}

static enum tern_status infer_convolution_data(const struct attributes *attributes, struct spec *in,
                                               unsigned n, struct spec *out)
{
    (void)n;
    struct convolution c;
    enum tern_status status = read_data(attributes, in, out, &c);
    if (status)
        return status;
    const struct spec output = output_of(&c, in[0].type), weight = weight_of(&c, in[0].type);
    status = demand(&in[0], &output, "outputs");
    return status ? status : demand(&in[1], &weight, "weights");
}

static enum tern_status forward_convolution_data(const struct call *call)
{
    struct convolution c;
    const struct spec in[] = {call->in[0].spec, call->in[1].spec};
    struct spec data;
    enum tern_status status = read_data(call->attributes, in, &data, &c);
    return status ? status
                  : run(ONEDNN_DATA, &c, call,
                        (convolve_run *const[]){convolve_data_f32, convolve_data_f64});
}

static size_t scratch_convolution_data(const struct attributes *attributes, const struct spec *in,
                                       const struct spec *out)
{
    struct convolution c;
    struct spec data;
    return read_data(attributes, in, &data, &c) ? 0 : scratch_of(ONEDNN_DATA, &c, out->type);
}

static enum tern_status gradient_convolution_data(struct graph *graph, uint32_t node, uint32_t out,
                                                  uint32_t *in)
{
    const uint32_t output = graph_inputs(graph, node)[0], weight = graph_inputs(graph, node)[1];
    in[0] = convolve(graph, node, out, weight);
    in[1] = to_weight(graph, node, output, out);
    return graph->status;
}

const struct op op_convolution_data = {
    .name = "convolution_data",
    .n_inputs = 2,
    .types = TYPES_REAL,
    .input_names = {"data", "weight"},
    .attributes = {WINDOW_ATTRIBUTES,
                   {.name = "height", .kind = ATTRIBUTE_INTEGER, .required = true},
                   {.name = "width", .kind = ATTRIBUTE_INTEGER, .required = true}},
    .infer = infer_convolution_data,
    .forward = forward_convolution_data,
    .scratch_bytes = scratch_convolution_data,
    .divides = true,
    .gradient = gradient_convolution_data};

/* ---- convolution_weight: the gradient of the output, and data ------------------------------------ */

static enum tern_status infer_convolution_weight(const struct attributes *attributes,
                                                 struct spec *in, unsigned n, struct spec *out)
{
    (void)n;
    struct convolution c;
    enum tern_status status = in[0].n_dims == 4
                                  ? convolution_read(attributes, &in[1], in[0].dims[1], &c)
                                  : fail(TERN_INVALID, "outputs have four dimensions");
    if (status)
        return status;
    const struct spec output = output_of(&c, in[0].type);
    *out = weight_of(&c, in[0].type);
    return demand(&in[0], &output, "outputs");
}

static enum tern_status forward_convolution_weight(const struct call *call)
{
    struct convolution c;
    enum tern_status status =
        convolution_read(call->attributes, &call->in[1].spec, call->out.spec.dims[0], &c);
    return status ? status
                  : run(ONEDNN_WEIGHT, &c, call,
                        (convolve_run *const[]){convolve_weight_f32, convolve_weight_f64});
}

static size_t scratch_convolution_weight(const struct attributes *attributes, const struct spec *in,
                                         const struct spec *out)
{
    struct convolution c;
    return convolution_read(attributes, &in[1], out->dims[0], &c)
               ? 0
               : scratch_of(ONEDNN_WEIGHT, &c, out->type);
}

static enum tern_status gradient_convolution_weight(struct graph *graph, uint32_t node,
                                                    uint32_t out, uint32_t *in)
{
    const uint32_t output = graph_inputs(graph, node)[0], data = graph_inputs(graph, node)[1];
    const struct spec data_spec = graph->nodes[data].spec;
    in[0] = convolve(graph, node, data, out);
    in[1] = to_data(graph, node, output, out, &data_spec);
    return graph->status;
}

const struct op op_convolution_weight = {.name = "convolution_weight",
                                         .n_inputs = 2,
                                         .types = TYPES_REAL,
                                         .input_names = {"output", "data"},
                                         .attributes = {WINDOW_ATTRIBUTES},
                                         .infer = infer_convolution_weight,
                                         .forward = forward_convolution_weight,
                                         .scratch_bytes = scratch_convolution_weight,
                                         .divides = true,
                                         .gradient = gradient_convolution_weight};
