/*
 * onednn - see onednn.h.
 *
 * A context is all that oneDNN needs for the convolution of a chunk of one shape: the primitive, those that bring its
 * operands into its order and back, and their memory objects, which only point to memory. It belongs to one thread while
 * that convolves, and then waits in a table for the next call of this shape; the one that was not used for longest gives its
 * place. So steps make no contexts. Primitives, which are code that oneDNN generates, are made by the first run: a plan
 * needs only their descriptions. OpenMP is kept to one thread, because the engine has the others.
 */
#include "nd/onednn.h"

#ifdef TERN_ONEDNN

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/status.h"
#include "nd/clones.h"
#include "nd/engine.h"

/* OpenMP's; clang has no header for it. */
extern int omp_get_max_threads(void);
extern void omp_set_num_threads(int n);

enum {
    CONTEXTS = 256,
    CHUNK_BYTES = 1 << 20,   /* of data and output */
    CHUNK_WEIGHTS = 4,       /* a chunk has at least so many times the weights' bytes */
    PART_PRODUCTS = 1 << 20, /* multiplications, the least of a part */
    ALIGNED = 64
};

/* Data, weights and output, or their gradients: as the program has them, and as oneDNN wants them. */
enum { DATA, WEIGHT, OUTPUT, N_OPERANDS };

struct operand {
    bool same; /* both are in one order */
    size_t bytes;
    dnnl_memory_t plain, own;
    dnnl_primitive_desc_t reorder_desc;
    dnnl_primitive_t reorder;
};

struct context {
    bool is_used, is_busy;
    uint64_t used_last;
    enum onednn_kind kind;
    struct onednn_shape shape; /* of a chunk */
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    struct operand operands[N_OPERANDS];
    dnnl_memory_t bias, scratchpad;
    size_t scratchpad_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context contexts[CONTEXTS];
static uint64_t n_taken;
static dnnl_engine_t engine;

static const int result_of[] = {
    [ONEDNN_OUTPUT] = OUTPUT, [ONEDNN_DATA] = DATA, [ONEDNN_WEIGHT] = WEIGHT};

/* ---- Making contexts ----------------------------------------------------------------------------- */

static dnnl_status_t describe(const struct onednn_shape *s, enum onednn_kind kind,
                              dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *desc)
{
    const struct window *w = &s->window;
    const dnnl_dims_t dims[N_OPERANDS] = {{s->images, s->channels, w->in[0], w->in[1]},
                                          {s->filters, s->channels, w->kernel[0], w->kernel[1]},
                                          {s->images, s->filters, w->out[0], w->out[1]}};
    const dnnl_dims_t bias_dims = {s->filters}, steps = {w->stride[0], w->stride[1]},
                      pad = {w->pad[0], w->pad[1]};
    dnnl_memory_desc_t any[N_OPERANDS], bias;
    for (int i = 0; i < N_OPERANDS; i++)
        dnnl_memory_desc_init_by_tag(&any[i], 4, dims[i], dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&bias, 1, bias_dims, dnnl_f32, dnnl_a);
    dnnl_convolution_desc_t forward, backward;
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_status_t status = dnnl_convolution_forward_desc_init(
        &forward, dnnl_forward_training, direct, &any[DATA], &any[WEIGHT],
        kind == ONEDNN_OUTPUT ? &bias : NULL, &any[OUTPUT], steps, pad, pad);
    dnnl_primitive_desc_t hint;
    if (!status)
        status = dnnl_primitive_desc_create(&hint, &forward, attributes, engine, NULL);
    if (status)
        return status;
    if (kind == ONEDNN_OUTPUT) {
        *desc = hint;
        return dnnl_success;
    }
    if (kind == ONEDNN_DATA)
        status = dnnl_convolution_backward_data_desc_init(
            &backward, direct, &any[DATA], &any[WEIGHT], &any[OUTPUT], steps, pad, pad);
    else
        status = dnnl_convolution_backward_weights_desc_init(
            &backward, direct, &any[DATA], &any[WEIGHT], NULL, &any[OUTPUT], steps, pad, pad);
    if (!status)
        status = dnnl_primitive_desc_create(desc, &backward, attributes, engine, hint);
    dnnl_primitive_desc_destroy(hint);
    return status;
}

static dnnl_status_t make_operand(struct context *context, int which)
{
    static const dnnl_query_t queries[][N_OPERANDS] = {
        [ONEDNN_OUTPUT] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
        [ONEDNN_DATA] = {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
        [ONEDNN_WEIGHT] = {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
    struct operand *o = &context->operands[which];
    const dnnl_memory_desc_t *own =
        dnnl_primitive_desc_query_md(context->desc, queries[context->kind][which], 0);
    dnnl_memory_desc_t plain;
    dnnl_status_t status =
        dnnl_memory_desc_init_by_tag(&plain, own->ndims, own->dims, dnnl_f32, dnnl_abcd);
    const bool is_result = which == result_of[context->kind], adds = which == WEIGHT && is_result;
    /* The gradient of weights is always added to what earlier chunks gave. */
    o->same = !adds && dnnl_memory_desc_equal(&plain, own);
    o->bytes = o->same ? 0 : (dnnl_memory_desc_get_size(own) + ALIGNED - 1) / ALIGNED * ALIGNED;
    if (!status)
        status = dnnl_memory_create(&o->plain, &plain, engine, DNNL_MEMORY_NONE);
    if (!status)
        status = dnnl_memory_create(&o->own, own, engine, DNNL_MEMORY_NONE);
    if (status || o->same)
        return status;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t sum = NULL;
    if (!(status = dnnl_primitive_attr_create(&attributes)) && adds &&
        !(status = dnnl_post_ops_create(&sum)) && !(status = dnnl_post_ops_append_sum(sum, 1)))
        status = dnnl_primitive_attr_set_post_ops(attributes, sum);
    if (!status)
        status =
            dnnl_reorder_primitive_desc_create(&o->reorder_desc, is_result ? own : &plain, engine,
                                               is_result ? &plain : own, engine, attributes);
    dnnl_post_ops_destroy(sum);
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

static void context_fini(struct context *context)
{
    for (int i = 0; i < N_OPERANDS; i++) {
        struct operand *o = &context->operands[i];
        dnnl_memory_destroy(o->plain);
        dnnl_memory_destroy(o->own);
        dnnl_primitive_desc_destroy(o->reorder_desc);
        dnnl_primitive_destroy(o->reorder);
    }
    dnnl_memory_destroy(context->bias);
    dnnl_memory_destroy(context->scratchpad);
    dnnl_primitive_desc_destroy(context->desc);
    dnnl_primitive_destroy(context->primitive);
    dnnl_stream_destroy(context->stream);
}

static dnnl_status_t context_init(struct context *context)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attributes);
    if (!status)
        status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (!status)
        status = describe(&context->shape, context->kind, attributes, &context->desc);
    dnnl_primitive_attr_destroy(attributes);
    for (int i = 0; i < N_OPERANDS && !status; i++)
        status = make_operand(context, i);
    if (status)
        return status;
    const dnnl_memory_desc_t *scratchpad =
        dnnl_primitive_desc_query_md(context->desc, dnnl_query_scratchpad_md, 0);
    const dnnl_dims_t bias_dims = {context->shape.filters};
    dnnl_memory_desc_t bias;
    context->scratchpad_bytes =
        (dnnl_memory_desc_get_size(scratchpad) + ALIGNED - 1) / ALIGNED * ALIGNED;
    status = dnnl_memory_desc_init_by_tag(&bias, 1, bias_dims, dnnl_f32, dnnl_a);
    if (!status)
        status = dnnl_memory_create(&context->bias, &bias, engine, DNNL_MEMORY_NONE);
    if (!status)
        status = dnnl_memory_create(&context->scratchpad, scratchpad, engine, DNNL_MEMORY_NONE);
    if (!status)
        status = dnnl_stream_create(&context->stream, engine, dnnl_stream_default_flags);
    return status;
}

/* ---- The table of contexts ----------------------------------------------------------------------- */

static bool is_same(const struct context *context, enum onednn_kind kind,
                    const struct onednn_shape *shape)
{
    return context->is_used && context->kind == kind &&
           memcmp(&context->shape, shape, sizeof *shape) == 0;
}

/* One that nobody uses: of this shape, else one without a shape, else the one that was not used for longest. */
static struct context *choose(enum onednn_kind kind, const struct onednn_shape *shape)
{
    struct context *best = NULL;
    for (int i = 0; i < CONTEXTS; i++) {
        struct context *at = &contexts[i];
        if (at->is_busy)
            continue;
        if (is_same(at, kind, shape))
            return at;
        if (!best || (best->is_used && (!at->is_used || at->used_last < best->used_last)))
            best = at;
    }
    return best;
}

static void give(struct context *context)
{
    pthread_mutex_lock(&lock);
    context->is_busy = false;
    pthread_mutex_unlock(&lock);
}

/* A context for the calling thread alone, until it gives it back; NULL if oneDNN cannot. */
static struct context *take(enum onednn_kind kind, const struct onednn_shape *shape)
{
    pthread_mutex_lock(&lock);
    struct context *context = NULL;
    if (engine || dnnl_engine_create(&engine, dnnl_cpu, 0) == dnnl_success)
        context = choose(kind, shape);
    const bool is_made = context && is_same(context, kind, shape);
    if (context) {
        context->is_busy = true;
        context->used_last = ++n_taken;
    }
    pthread_mutex_unlock(&lock);
    if (!context || is_made)
        return context;
    if (context->is_used)
        context_fini(context);
    *context = (struct context){
        .is_busy = true, .used_last = context->used_last, .kind = kind, .shape = *shape};
    context->is_used = context_init(context) == dnnl_success;
    if (context->is_used)
        return context;
    context_fini(context);
    *context = (struct context){.is_busy = true};
    give(context);
    return NULL;
}

/* ---- Chunks -------------------------------------------------------------------------------------- */

struct division {
    enum onednn_kind kind;
    struct onednn_shape shape;
    const struct call *call;
    int64_t chunk, n_chunks;
    unsigned n_parts;
    atomic_bool failed;
};

static size_t weight_bytes(const struct onednn_shape *s)
{
    const size_t bytes =
        (size_t)(s->filters * s->channels * s->window.kernel[0] * s->window.kernel[1]) *
        sizeof(float);
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Images of a chunk: equal chunks, but for the last. */
static int64_t chunk_of(const struct onednn_shape *s)
{
    const struct window *w = &s->window;
    const int64_t image = (s->channels * w->in[0] * w->in[1] + s->filters * w->out[0] * w->out[1]) *
                          (int64_t)sizeof(float),
                  bytes = CHUNK_BYTES + CHUNK_WEIGHTS * (int64_t)weight_bytes(s),
                  most = bytes / image > 0 ? bytes / image : 1,
                  n_chunks = (s->images + most - 1) / most;
    return (s->images + n_chunks - 1) / n_chunks;
}

static struct onednn_shape chunk_shape(const struct onednn_shape *shape, int64_t images)
{
    struct onednn_shape chunk;
    memset(&chunk, 0, sizeof chunk); /* compared as bytes */
    chunk = *shape;
    chunk.images = images;
    return chunk;
}

static size_t context_bytes(const struct context *context)
{
    size_t bytes = context->scratchpad_bytes;
    for (int i = 0; i < N_OPERANDS; i++)
        bytes += context->operands[i].bytes;
    return bytes;
}

static dnnl_status_t execute(const struct context *context, dnnl_primitive_t primitive,
                             const dnnl_exec_arg_t *arguments, int n)
{
    return dnnl_primitive_execute(primitive, context->stream, n, arguments);
}

static dnnl_status_t reorder(const struct context *context, int which)
{
    const struct operand *o = &context->operands[which];
    const bool is_result = which == result_of[context->kind];
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, is_result ? o->own : o->plain},
                                         {DNNL_ARG_TO, is_result ? o->plain : o->own}};
    return o->same ? dnnl_success : execute(context, o->reorder, arguments, 2);
}

static dnnl_status_t compute(const struct context *context)
{
    const struct operand *o = context->operands;
    const int names[][N_OPERANDS] = {
        [ONEDNN_OUTPUT] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
        [ONEDNN_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
        [ONEDNN_WEIGHT] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
    const int *name = names[context->kind];
    const dnnl_exec_arg_t arguments[] = {{name[DATA], o[DATA].own},
                                         {name[WEIGHT], o[WEIGHT].own},
                                         {name[OUTPUT], o[OUTPUT].own},
                                         {DNNL_ARG_SCRATCHPAD, context->scratchpad},
                                         {DNNL_ARG_BIAS, context->bias}};
    return execute(context, context->primitive, arguments, context->kind == ONEDNN_OUTPUT ? 5 : 4);
}

/* The first run generates the code. */
static dnnl_status_t generate(struct context *context)
{
    dnnl_status_t status = dnnl_success;
    if (!context->primitive)
        status = dnnl_primitive_create(&context->primitive, context->desc);
    for (int i = 0; i < N_OPERANDS && !status; i++)
        if (!context->operands[i].same && !context->operands[i].reorder)
            status = dnnl_primitive_create(&context->operands[i].reorder,
                                           context->operands[i].reorder_desc);
    return status;
}

/* Places what lies in oneDNN's order, and its own scratch, one behind the other. */
static dnnl_status_t place(struct context *context, char *scratch)
{
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < N_OPERANDS && !status; i++) {
        struct operand *o = &context->operands[i];
        if (!o->same)
            status = dnnl_memory_set_data_handle_v2(o->own, scratch, context->stream);
        scratch += o->bytes;
    }
    return status ? status
                  : dnnl_memory_set_data_handle_v2(context->scratchpad, scratch, context->stream);
}

static dnnl_status_t point(struct context *context, int which, float *at)
{
    struct operand *o = &context->operands[which];
    dnnl_status_t status = dnnl_memory_set_data_handle_v2(o->plain, at, context->stream);
    return status || !o->same ? status
                              : dnnl_memory_set_data_handle_v2(o->own, at, context->stream);
}

/* Chunks of one context: `at` are its operands in the order of the program, from the first image on. */
static dnnl_status_t run_chunks(struct context *context, int64_t n_chunks,
                                float *const at[N_OPERANDS], float *bias, char *scratch)
{
    const struct onednn_shape *s = &context->shape;
    const struct window *w = &s->window;
    const int64_t steps[N_OPERANDS] = {s->images * s->channels * w->in[0] * w->in[1], 0,
                                       s->images * s->filters * w->out[0] * w->out[1]};
    const int result = result_of[context->kind];
    dnnl_status_t status = generate(context);
    if (!status)
        status = place(context, scratch);
    if (!status && bias)
        status = dnnl_memory_set_data_handle_v2(context->bias, bias, context->stream);
    for (int64_t k = 0; k < n_chunks && !status; k++) {
        for (int i = 0; i < N_OPERANDS && !status; i++) {
            status = point(context, i, at[i] + k * steps[i]);
            /* Weights stay in its order. */
            if (!status && i != result && (k == 0 || i != WEIGHT))
                status = reorder(context, i);
        }
        if (!status)
            status = compute(context);
        if (!status)
            status = reorder(context, result);
    }
    return status;
}

/* Images first .. first + n_chunks * images - 1. */
static bool run_equal(const struct division *d, int64_t first, int64_t images, int64_t n_chunks,
                      float *result, char *scratch)
{
    if (n_chunks == 0)
        return true;
    const struct onednn_shape *s = &d->shape, chunk = chunk_shape(s, images);
    const struct window *w = &s->window;
    const int order[][2] = {[ONEDNN_OUTPUT] = {DATA, WEIGHT},
                            [ONEDNN_DATA] = {OUTPUT, WEIGHT},
                            [ONEDNN_WEIGHT] = {OUTPUT, DATA}};
    float *at[N_OPERANDS];
    at[order[d->kind][0]] = d->call->in[0].data;
    at[order[d->kind][1]] = d->call->in[1].data;
    at[result_of[d->kind]] = result;
    at[DATA] += first * s->channels * w->in[0] * w->in[1];
    at[OUTPUT] += first * s->filters * w->out[0] * w->out[1];
    struct context *context = take(d->kind, &chunk);
    if (!context)
        return false;
    const bool ok =
        run_chunks(context, n_chunks, at, d->kind == ONEDNN_OUTPUT ? d->call->in[2].data : NULL,
                   scratch) == dnnl_success;
    give(context);
    return ok;
}

static float *result_of_part(const struct division *d, unsigned i)
{
    return d->kind == ONEDNN_WEIGHT && i > 0
               ? (float *)((char *)d->call->scratch + i * d->call->part_bytes)
               : d->call->out.data;
}

static void convolve_part(void *context, unsigned i)
{
    struct division *d = context;
    const int64_t begin = nd_engine_begin(d->n_chunks, d->n_parts, i),
                  end = nd_engine_begin(d->n_chunks, d->n_parts, i + 1),
                  rest = end * d->chunk > d->shape.images ? d->shape.images % d->chunk : 0,
                  n_full = end - begin - (rest > 0);
    const size_t weights = d->kind == ONEDNN_WEIGHT ? weight_bytes(&d->shape) : 0;
    char *scratch = (char *)d->call->scratch + i * d->call->part_bytes + weights;
    float *result = result_of_part(d, i);
    if (d->kind == ONEDNN_WEIGHT)
        memset(result, 0, spec_count(&d->call->out.spec) * sizeof *result);
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    if (!run_equal(d, begin * d->chunk, d->chunk, n_full, result, scratch) ||
        !run_equal(d, (end - 1) * d->chunk, rest, rest > 0, result, scratch))
        atomic_store(&d->failed, true);
    omp_set_num_threads(threads);
}

CLONES static void add(size_t n, const float *from, float *to)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

size_t onednn_scratch(enum onednn_kind kind, const struct onednn_shape *shape)
{
    const int64_t chunk = chunk_of(shape), sizes[] = {chunk, shape->images % chunk};
    const int threads = omp_get_max_threads();
    size_t most = 0;
    omp_set_num_threads(1);
    for (int i = 0; i < 2 && sizes[i] > 0; i++) {
        const struct onednn_shape part = chunk_shape(shape, sizes[i]);
        struct context *context = take(kind, &part);
        const size_t bytes = context ? context_bytes(context) : 0;
        if (!context) {
            most = 0;
            break;
        }
        give(context);
        most = bytes > most ? bytes : most;
    }
    omp_set_num_threads(threads);
    /* Never 0 where oneDNN does it. */
    return most == 0 ? 0 : most + (kind == ONEDNN_WEIGHT ? weight_bytes(shape) : 0);
}

enum tern_status onednn_convolve(enum onednn_kind kind, const struct onednn_shape *shape,
                                 const struct call *call)
{
    const struct window *w = &shape->window;
    struct division d = {.kind = kind, .shape = *shape, .call = call, .chunk = chunk_of(shape)};
    d.n_chunks = (shape->images + d.chunk - 1) / d.chunk;
    d.n_parts = nd_engine_split(shape->images * shape->filters * shape->channels * w->kernel[0] *
                                    w->kernel[1] * w->out[0] * w->out[1],
                                PART_PRODUCTS);
    d.n_parts = d.n_parts < call->n_parts ? d.n_parts : call->n_parts;
    d.n_parts = d.n_parts < d.n_chunks ? d.n_parts : (unsigned)d.n_chunks;
    nd_engine_parts(d.n_parts, convolve_part, &d);
    if (atomic_load(&d.failed))
        return fail(TERN_NO_MEMORY, "oneDNN could not compute it; is there no memory left?");
    for (unsigned i = 1; i < d.n_parts && kind == ONEDNN_WEIGHT; i++)
        add(spec_count(&call->out.spec), result_of_part(&d, i), call->out.data);
    return TERN_OK;
}

const char *onednn_name(void)
{
    return "oneDNN";
}

#else

size_t onednn_scratch(enum onednn_kind kind, const struct onednn_shape *shape)
{
    (void)kind;
    (void)shape;
    return 0;
}

enum tern_status onednn_convolve(enum onednn_kind kind, const struct onednn_shape *shape,
                                 const struct call *call)
{
    (void)kind;
    (void)shape;
    (void)call;
    return TERN_INVALID;
}

const char *onednn_name(void)
{
    return "plain";
}

#endif
