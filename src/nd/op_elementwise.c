/*
 * op_elementwise - operators whose output element depends on the input elements at the same place alone.
 *
 * Each has a body, a loop over one block, which serves all its types. Integers wrap around. Gradients are given for the
 * broadcast shape; graph_differentiate sums them to the shape of the input.
 */
#include <math.h>
#include <tgmath.h>

#include "base/rand.h"
#include "base/status.h"
#include "nd/clones.h"
#include "nd/graph.h"
#include "nd/op.h"

/* ---- Shapes -------------------------------------------------------------------------------------- */

static enum tern_status infer_same(const struct attributes *attributes, struct spec *in, unsigned n,
                                   struct spec *out)
{
    (void)attributes;
    *out = in[n - 1];
    enum tern_status status = TERN_OK;
    for (unsigned i = 0; i + 1 < n && !status; i++)
        status = spec_broadcast(out, &in[i]);
    return status;
}

static enum tern_status infer_truth(const struct attributes *attributes, struct spec *in,
                                    unsigned n, struct spec *out)
{
    enum tern_status status = infer_same(attributes, in, n, out);
    out->type = TERN_ND_U8;
    return status;
}

static enum tern_status infer_cast(const struct attributes *attributes, struct spec *in, unsigned n,
                                   struct spec *out)
{
    (void)n;
    *out = in[0];
    out->type = (enum tern_nd_type)attributes->integers[0];
    return TERN_OK;
}

/* From the attributes `shape` and `type`. */
static enum tern_status infer_made(const struct attributes *attributes, struct spec *in, unsigned n,
                                   struct spec *out)
{
    (void)in, (void)n;
    *out = (struct spec){.type = (enum tern_nd_type)attributes->integers[0]};
    const struct list *shape = &attributes->lists[0];
    out->n_dims = shape->n < 0 ? 0 : shape->n;
    for (int i = 0; i < out->n_dims; i++)
        out->dims[i] = shape->at[i];
    return TERN_OK;
}

/* ---- Bodies -------------------------------------------------------------------------------------- */

/* The output overlaps an input fully or not at all, and elements are read before they are written. (clang warns where it
 * cannot vectorize, as with calls of functions.) */
#ifdef __clang__
#define INDEPENDENT
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* A loop over one or two inputs of type T with results of type R. */
#define LOOP1(T, R, E)                          \
    {                                           \
        const T *a = block->in[0];              \
        R *out = block->out;                    \
        INDEPENDENT                             \
        for (size_t i = 0; i < block->n; i++) { \
            const T x = a[i];                   \
            out[i] = (R)(E);                    \
        }                                       \
        break;                                  \
    }
#define LOOP2(T, R, E)                                \
    {                                                 \
        const T *a = block->in[0], *b = block->in[1]; \
        R *out = block->out;                          \
        INDEPENDENT                                   \
        for (size_t i = 0; i < block->n; i++) {       \
            const T x = a[i], y = b[i];               \
            out[i] = (R)(E);                          \
        }                                             \
        break;                                        \
    }

/* Real types only: inputs were converted. */
#define BODY1_REAL(name, E)                                   \
    CLONES static void body_##name(const struct block *block) \
    {                                                         \
        switch (block->type) {                                \
        case TERN_ND_F32:                                     \
            LOOP1(float, float, E)                            \
        default:                                              \
            LOOP1(double, double, E)                          \
        }                                                     \
    }
#define BODY2_REAL(name, E)                                   \
    CLONES static void body_##name(const struct block *block) \
    {                                                         \
        switch (block->type) {                                \
        case TERN_ND_F32:                                     \
            LOOP2(float, float, E)                            \
        default:                                              \
            LOOP2(double, double, E)                          \
        }                                                     \
    }

/* All types: E for real ones, I for integers, where the arithmetic is unsigned and wraps around. */
#define BODY_ALL(LOOP, name, E, I)                            \
    CLONES static void body_##name(const struct block *block) \
    {                                                         \
        switch (block->type) {                                \
        case TERN_ND_F32:                                     \
            LOOP(float, float, E)                             \
        case TERN_ND_F64:                                     \
            LOOP(double, double, E)                           \
        case TERN_ND_I32:                                     \
            LOOP(int32_t, int32_t, I)                         \
        case TERN_ND_I64:                                     \
            LOOP(int64_t, int64_t, I)                         \
        case TERN_ND_U8:                                      \
            LOOP(uint8_t, uint8_t, I)                         \
        }                                                     \
    }
#define BODY1(name, E, I) BODY_ALL(LOOP1, name, E, I)
#define BODY2(name, E, I) BODY_ALL(LOOP2, name, E, I)

/* All types; the result is 0 or 1. */
#define BODY_TRUTH(LOOP, name, E)                             \
    CLONES static void body_##name(const struct block *block) \
    {                                                         \
        switch (block->type) {                                \
        case TERN_ND_F32:                                     \
            LOOP(float, uint8_t, E)                           \
        case TERN_ND_F64:                                     \
            LOOP(double, uint8_t, E)                          \
        case TERN_ND_I32:                                     \
            LOOP(int32_t, uint8_t, E)                         \
        case TERN_ND_I64:                                     \
            LOOP(int64_t, uint8_t, E)                         \
        case TERN_ND_U8:                                      \
            LOOP(uint8_t, uint8_t, E)                         \
        }                                                     \
    }

#define WORD(x) ((uint64_t)(x))

static inline uint64_t magnitude(int64_t x)
{
    return x < 0 ? 0 - WORD(x) : WORD(x);
}

static inline int64_t sign_of(int64_t x)
{
    return (x > 0) - (x < 0);
}

BODY2(add, x + y, WORD(x) + WORD(y))
BODY2(subtract, x - y, WORD(x) - WORD(y))
BODY2(multiply, x *y, WORD(x) * WORD(y))
BODY2_REAL(divide, x / y)
BODY2_REAL(power, pow(x, y))
BODY2(maximum, (x >= y || x != x) ? x : y, x >= y ? x : y)
BODY2(minimum, (x <= y || x != x) ? x : y, x <= y ? x : y)
BODY_TRUTH(LOOP2, equal, x == y)
BODY_TRUTH(LOOP2, not_equal, x != y)
BODY_TRUTH(LOOP2, less, x < y)
BODY_TRUTH(LOOP2, less_equal, x <= y)
BODY_TRUTH(LOOP2, greater, x > y)
BODY_TRUTH(LOOP2, greater_equal, x >= y)
BODY_TRUTH(LOOP2, logical_and, x != 0 && y != 0)
BODY_TRUTH(LOOP2, logical_or, x != 0 || y != 0)
BODY_TRUTH(LOOP1, logical_not, x == 0)
BODY_TRUTH(LOOP1, isnan, x != x)
BODY1(negative, -x, 0 - WORD(x))
BODY1(absolute, fabs(x), magnitude(x))
BODY1(sign, x > 0 ? 1 : x < 0 ? -1 : x, sign_of(x))
BODY1(square, x *x, WORD(x) * WORD(x))
BODY1(copy, x, x)
BODY1(relu, x > 0 ? x : 0, x > 0 ? x : 0)
BODY1_REAL(reciprocal, 1 / x)
BODY1_REAL(exp, exp(x))
BODY1_REAL(expm1, expm1(x))
BODY1_REAL(log, log(x))
BODY1_REAL(log1p, log1p(x))
BODY1_REAL(sqrt, sqrt(x))
BODY1_REAL(sin, sin(x))
BODY1_REAL(cos, cos(x))
BODY1_REAL(tanh, tanh(x))
BODY1_REAL(sigmoid, x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)))
BODY1_REAL(softplus, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)))
BODY1_REAL(floor, floor(x))
BODY1_REAL(ceil, ceil(x))
BODY1_REAL(rint, rint(x))

CLONES static void body_where(const struct block *block)
{
    const uint8_t *which = block->in[0];
#define CHOOSE(T)                                            \
    {                                                        \
        const T *a = block->in[1], *b = block->in[2];        \
        T *out = block->out;                                 \
        INDEPENDENT                                          \
        for (size_t i = 0; i < block->n; i++) {              \
            const T mask = (T)(0 - (T) !!which[i]);          \
            out[i] = (T)((a[i] & mask) | (b[i] & (T)~mask)); \
        }                                                    \
        break;                                               \
    }
    /* Only the size of an element counts. */
    switch (spec_type_bytes(block->type)) {
    case 1:
        CHOOSE(uint8_t)
    case 4:
        CHOOSE(uint32_t)
    default:
        CHOOSE(uint64_t)
    }
#undef CHOOSE
}

CLONES static void body_clip(const struct block *block)
{
    const double low = block->attributes->numbers[0], high = block->attributes->numbers[1];
    if (block->type == TERN_ND_F32) {
        const float *a = block->in[0];
        float *out = block->out;
        const float least = (float)low, most = (float)high;
        for (size_t i = 0; i < block->n; i++)
            out[i] = a[i] < least ? least : a[i] > most ? most : a[i];
        return;
    }
    const double *a = block->in[0];
    double *out = block->out;
    for (size_t i = 0; i < block->n; i++)
        out[i] = a[i] < low ? low : a[i] > high ? high : a[i];
}

/* A real number as an integer; what does not fit, and NaN, become the nearest end of the range and 0. */
static int64_t integer_of(double x, double low, double high)
{
    if (x != x)
        return 0;
    if (x >= high)
        return high >= 0x1p63 ? INT64_MAX : (int64_t)high;
    return (int64_t)(x < low ? low : x);
}

#define CONVERT(FROM, TO, E)                    \
    {                                           \
        const FROM *a = block->in[0];           \
        TO *out = block->out;                   \
        for (size_t i = 0; i < block->n; i++) { \
            const FROM x = a[i];                \
            out[i] = (TO)(E);                   \
        }                                       \
        return;                                 \
    }
#define CONVERT_FROM(FROM, I32, I64, U8) \
    switch (block->out_type) {           \
    case TERN_ND_F32:                    \
        CONVERT(FROM, float, x)          \
    case TERN_ND_F64:                    \
        CONVERT(FROM, double, x)         \
    case TERN_ND_I32:                    \
        CONVERT(FROM, int32_t, I32)      \
    case TERN_ND_I64:                    \
        CONVERT(FROM, int64_t, I64)      \
    case TERN_ND_U8:                     \
        CONVERT(FROM, uint8_t, U8)       \
    }                                    \
    return;
#define REAL_TO_INTEGERS                                                                \
    integer_of((double)x, -0x1p31, 0x1p31 - 1), integer_of((double)x, -0x1p63, 0x1p63), \
        integer_of((double)x, 0, 255)
#define CONVERT_REAL(FROM, ...) CONVERT_FROM(FROM, __VA_ARGS__)

CLONES static void body_cast(const struct block *block)
{
    switch (block->type) {
    case TERN_ND_F32:
        CONVERT_REAL(float, REAL_TO_INTEGERS)
    case TERN_ND_F64:
        CONVERT_REAL(double, REAL_TO_INTEGERS)
    case TERN_ND_I32:
        CONVERT_FROM(int32_t, x, x, x)
    case TERN_ND_I64:
        CONVERT_FROM(int64_t, x, x, x)
    case TERN_ND_U8:
        CONVERT_FROM(uint8_t, x, x, x)
    }
}

/* ---- Values without inputs ----------------------------------------------------------------------- */

/* Writes `E`, a double, for each element; i is its number. */
#define FILL(T, E)                               \
    {                                            \
        T *out = block->out;                     \
        for (size_t k = 0; k < block->n; k++) {  \
            const uint64_t i = block->first + k; \
            (void)i;                             \
            out[k] = (T)(E);                     \
        }                                        \
        break;                                   \
    }
#define FILL_ALL(E)                                       \
    switch (block->out_type) {                            \
    case TERN_ND_F32:                                     \
        FILL(float, E)                                    \
    case TERN_ND_F64:                                     \
        FILL(double, E)                                   \
    case TERN_ND_I32:                                     \
        FILL(int32_t, integer_of(E, -0x1p31, 0x1p31 - 1)) \
    case TERN_ND_I64:                                     \
        FILL(int64_t, integer_of(E, -0x1p63, 0x1p63))     \
    case TERN_ND_U8:                                      \
        FILL(uint8_t, integer_of(E, 0, 255))              \
    }

static void body_full(const struct block *block)
{
    const double value = block->attributes->numbers[0];
    FILL_ALL(value)
}

static void body_arange(const struct block *block)
{
    const double start = block->attributes->numbers[0], step = block->attributes->numbers[1];
    FILL_ALL(start + (double)i * step)
}

/* The random stream of this node in this run. */
static uint64_t stream_of(const struct block *block, unsigned slot)
{
    return rand_at(hash_u64((uint64_t)block->attributes->integers[slot]), block->step);
}

static void body_random_uniform(const struct block *block)
{
    const uint64_t stream = stream_of(block, 1);
    const double low = block->attributes->numbers[0], width = block->attributes->numbers[1] - low;
    FILL_ALL(low + width * rand_unit(rand_at(stream, i)))
}

/* Two uniform numbers make a normal one (Box and Muller). */
static double normal_at(uint64_t stream, uint64_t i)
{
    const double radius = 1 - rand_unit(rand_at(stream, 2 * i));
    const double angle = rand_unit(rand_at(stream, 2 * i + 1));
    return sqrt(-2 * log(radius)) * cos(6.283185307179586 * angle);
}

static void body_random_normal(const struct block *block)
{
    const uint64_t stream = stream_of(block, 1);
    const double mean = block->attributes->numbers[0], deviation = block->attributes->numbers[1];
    FILL_ALL(mean + deviation * normal_at(stream, i))
}

/* Zeros some elements and scales the others; the gradient is the same with the same numbers. */
CLONES static void body_dropout(const struct block *block)
{
    const uint64_t stream = stream_of(block, 0);
    const double rate = block->attributes->numbers[0];
    if (block->type == TERN_ND_F32) {
        const float *a = block->in[0], scale = (float)(1 / (1 - rate));
        float *out = block->out;
        for (size_t i = 0; i < block->n; i++)
            out[i] = rand_unit(rand_at(stream, block->first + i)) < rate ? 0 : a[i] * scale;
        return;
    }
    const double *a = block->in[0], scale = 1 / (1 - rate);
    double *out = block->out;
    for (size_t i = 0; i < block->n; i++)
        out[i] = rand_unit(rand_at(stream, block->first + i)) < rate ? 0 : a[i] * scale;
}

static enum tern_status infer_dropout(const struct attributes *attributes, struct spec *in,
                                      unsigned n, struct spec *out)
{
    if (!(attributes->numbers[0] >= 0 && attributes->numbers[0] < 1))
        return fail(TERN_INVALID, "the rate is %g, and must be from 0 to below 1",
                    attributes->numbers[0]);
    return infer_same(attributes, in, n, out);
}

/* ---- Gradients ----------------------------------------------------------------------------------- */

#define GRADIENT(name)                                                                      \
    static enum tern_status gradient_##name(struct graph *graph, uint32_t node, uint32_t g, \
                                            uint32_t *in)
#define X graph_inputs(graph, node)[0]
#define Y graph_inputs(graph, node)[1]
#define TYPE graph->nodes[node].spec.type
#define NUMBER(x) graph_number(graph, TYPE, x)
#define MUL(a, b) graph_call2(graph, &op_multiply, a, b)
#define DIV(a, b) graph_call2(graph, &op_divide, a, b)
#define ADD(a, b) graph_call2(graph, &op_add, a, b)
#define SUB(a, b) graph_call2(graph, &op_subtract, a, b)
#define NEG(a) graph_call(graph, &op_negative, a)
#define WHERE(c, a, b) graph_call3(graph, &op_where, c, a, b)

GRADIENT(add)
{
    (void)node;
    in[0] = in[1] = g;
    return graph->status;
}

GRADIENT(subtract)
{
    (void)node;
    in[0] = g;
    in[1] = NEG(g);
    return graph->status;
}

GRADIENT(multiply)
{
    in[0] = MUL(g, Y);
    in[1] = MUL(g, X);
    return graph->status;
}

GRADIENT(divide)
{
    in[0] = DIV(g, Y);
    in[1] = NEG(DIV(MUL(g, node), Y));
    return graph->status;
}

GRADIENT(power)
{
    in[0] = MUL(g, MUL(Y, graph_call2(graph, &op_power, X, SUB(Y, NUMBER(1)))));
    in[1] = MUL(g, MUL(node, graph_call(graph, &op_log, X)));
    return graph->status;
}

GRADIENT(maximum)
{
    const uint32_t left = graph_call2(graph, &op_greater_equal, X, Y);
    in[0] = WHERE(left, g, NUMBER(0));
    in[1] = WHERE(left, NUMBER(0), g);
    return graph->status;
}

GRADIENT(minimum)
{
    const uint32_t left = graph_call2(graph, &op_less_equal, X, Y);
    in[0] = WHERE(left, g, NUMBER(0));
    in[1] = WHERE(left, NUMBER(0), g);
    return graph->status;
}

GRADIENT(where)
{
    in[1] = WHERE(X, g, NUMBER(0));
    in[2] = WHERE(X, NUMBER(0), g);
    return graph->status;
}

#define GRADIENT1(name, E)    \
    GRADIENT(name)            \
    {                         \
        in[0] = E;            \
        return graph->status; \
    }

GRADIENT1(copy, ((void)node, g))
GRADIENT1(negative, ((void)node, NEG(g)))
GRADIENT1(absolute, MUL(g, graph_call(graph, &op_sign, X)))
GRADIENT1(square, MUL(g, MUL(NUMBER(2), X)))
GRADIENT1(relu, WHERE(graph_call2(graph, &op_greater, node, NUMBER(0)), g, NUMBER(0)))
GRADIENT1(reciprocal, NEG(MUL(g, graph_call(graph, &op_square, node))))
GRADIENT1(exp, MUL(g, node))
GRADIENT1(expm1, MUL(g, ADD(node, NUMBER(1))))
GRADIENT1(log, DIV(g, X))
GRADIENT1(log1p, DIV(g, ADD(X, NUMBER(1))))
GRADIENT1(sqrt, DIV(g, MUL(NUMBER(2), node)))
GRADIENT1(sin, MUL(g, graph_call(graph, &op_cos, X)))
GRADIENT1(cos, NEG(MUL(g, graph_call(graph, &op_sin, X))))
GRADIENT1(tanh, MUL(g, SUB(NUMBER(1), graph_call(graph, &op_square, node))))
GRADIENT1(sigmoid, MUL(g, MUL(node, SUB(NUMBER(1), node))))
GRADIENT1(softplus, MUL(g, graph_call(graph, &op_sigmoid, X)))
GRADIENT1(cast, graph_cast(graph, g, graph->nodes[X].spec.type))

GRADIENT(clip)
{
    const double *ends = graph->nodes[node].attributes.numbers;
    const uint32_t low = NUMBER(ends[0]), high = NUMBER(ends[1]);
    const uint32_t inside =
        graph_call2(graph, &op_logical_and, graph_call2(graph, &op_greater_equal, X, low),
                    graph_call2(graph, &op_less_equal, X, high));
    in[0] = WHERE(inside, g, NUMBER(0));
    return graph->status;
}

GRADIENT(dropout)
{
    const struct attributes attributes = graph->nodes[node].attributes;
    in[0] = graph_add(graph, &op_dropout, &attributes, &g, 1, NULL, NULL);
    return graph->status;
}

/* ---- The operators ------------------------------------------------------------------------------- */

#define UNARY(id, kinds, slope)                         \
    const struct op op_##id = {.name = #id,             \
                               .n_inputs = 1,           \
                               .types = kinds,          \
                               .input_names = {"data"}, \
                               .infer = infer_same,     \
                               .body = body_##id,       \
                               .gradient = slope};
#define BINARY(id, kinds, slope)                                 \
    const struct op op_##id = {.name = #id,                      \
                               .n_inputs = 2,                    \
                               .types = kinds,                   \
                               .input_names = {"left", "right"}, \
                               .infer = infer_same,              \
                               .body = body_##id,                \
                               .gradient = slope};
#define TRUTH(id, n)                                             \
    const struct op op_##id = {.name = #id,                      \
                               .n_inputs = n,                    \
                               .types = TYPES_SAME,              \
                               .input_names = {"left", "right"}, \
                               .infer = infer_truth,             \
                               .body = body_##id};

UNARY(absolute, TYPES_SAME, gradient_absolute)
UNARY(ceil, TYPES_REAL, NULL)
UNARY(copy, TYPES_SAME, gradient_copy)
UNARY(cos, TYPES_REAL, gradient_cos)
UNARY(exp, TYPES_REAL, gradient_exp)
UNARY(expm1, TYPES_REAL, gradient_expm1)
UNARY(floor, TYPES_REAL, NULL)
UNARY(log, TYPES_REAL, gradient_log)
UNARY(log1p, TYPES_REAL, gradient_log1p)
UNARY(negative, TYPES_SAME, gradient_negative)
UNARY(reciprocal, TYPES_REAL, gradient_reciprocal)
UNARY(relu, TYPES_SAME, gradient_relu)
UNARY(rint, TYPES_REAL, NULL)
UNARY(sigmoid, TYPES_REAL, gradient_sigmoid)
UNARY(sign, TYPES_SAME, NULL)
UNARY(sin, TYPES_REAL, gradient_sin)
UNARY(softplus, TYPES_REAL, gradient_softplus)
UNARY(sqrt, TYPES_REAL, gradient_sqrt)
UNARY(square, TYPES_SAME, gradient_square)
UNARY(tanh, TYPES_REAL, gradient_tanh)
BINARY(add, TYPES_SAME, gradient_add)
BINARY(subtract, TYPES_SAME, gradient_subtract)
BINARY(multiply, TYPES_SAME, gradient_multiply)
BINARY(divide, TYPES_REAL, gradient_divide)
BINARY(power, TYPES_REAL, gradient_power)
BINARY(maximum, TYPES_SAME, gradient_maximum)
BINARY(minimum, TYPES_SAME, gradient_minimum)
TRUTH(equal, 2)
TRUTH(not_equal, 2)
TRUTH(less, 2)
TRUTH(less_equal, 2)
TRUTH(greater, 2)
TRUTH(greater_equal, 2)
TRUTH(logical_and, 2)
TRUTH(logical_or, 2)
TRUTH(logical_not, 1)
TRUTH(isnan, 1)

const struct op op_stop_gradient = {.name = "stop_gradient",
                                    .n_inputs = 1,
                                    .types = TYPES_SAME,
                                    .input_names = {"data"},
                                    .infer = infer_same,
                                    .body = body_copy};
const struct op op_where = {.name = "where",
                            .n_inputs = 3,
                            .types = TYPES_WHERE,
                            .input_names = {"condition", "left", "right"},
                            .infer = infer_same,
                            .body = body_where,
                            .gradient = gradient_where};
const struct op op_clip = {
    .name = "clip",
    .n_inputs = 1,
    .types = TYPES_REAL,
    .input_names = {"data"},
    .attributes = {{.name = "low", .kind = ATTRIBUTE_NUMBER, .required = true},
                   {.name = "high", .kind = ATTRIBUTE_NUMBER, .required = true}},
    .infer = infer_same,
    .body = body_clip,
    .gradient = gradient_clip};
const struct op op_cast = {
    .name = "cast",
    .n_inputs = 1,
    .types = TYPES_ANY,
    .input_names = {"data"},
    .attributes = {{.name = "type", .kind = ATTRIBUTE_TYPE, .required = true}},
    .infer = infer_cast,
    .body = body_cast,
    .gradient = gradient_cast};
const struct op op_dropout = {
    .name = "dropout",
    .n_inputs = 1,
    .types = TYPES_REAL,
    .input_names = {"data"},
    .attributes = {{.name = "rate", .kind = ATTRIBUTE_NUMBER, .usual = 0.5},
                   {.name = "seed", .kind = ATTRIBUTE_INTEGER}},
    .infer = infer_dropout,
    .body = body_dropout,
    .gradient = gradient_dropout,
    .is_random = true};

/* A number without dimensions, which fusion merges into whatever uses it. */
const struct op op_constant = {
    .name = "constant",
    .types = TYPES_ANY,
    .attributes = {{.name = "value", .kind = ATTRIBUTE_NUMBER, .required = true},
                   {.name = "type", .kind = ATTRIBUTE_TYPE}},
    .infer = infer_made,
    .body = body_full};
const struct op op_full = {
    .name = "full",
    .types = TYPES_ANY,
    .attributes = {{.name = "shape", .kind = ATTRIBUTE_LIST, .required = true},
                   {.name = "value", .kind = ATTRIBUTE_NUMBER},
                   {.name = "type", .kind = ATTRIBUTE_TYPE}},
    .infer = infer_made,
    .body = body_full};
const struct op op_arange = {
    .name = "arange",
    .types = TYPES_ANY,
    .attributes = {{.name = "shape", .kind = ATTRIBUTE_LIST, .required = true},
                   {.name = "start", .kind = ATTRIBUTE_NUMBER},
                   {.name = "step", .kind = ATTRIBUTE_NUMBER, .usual = 1},
                   {.name = "type", .kind = ATTRIBUTE_TYPE}},
    .infer = infer_made,
    .body = body_arange};
const struct op op_random_uniform = {
    .name = "random_uniform",
    .types = TYPES_ANY,
    .attributes = {{.name = "shape", .kind = ATTRIBUTE_LIST, .required = true},
                   {.name = "low", .kind = ATTRIBUTE_NUMBER},
                   {.name = "high", .kind = ATTRIBUTE_NUMBER, .usual = 1},
                   {.name = "type", .kind = ATTRIBUTE_TYPE},
                   {.name = "seed", .kind = ATTRIBUTE_INTEGER}},
    .infer = infer_made,
    .body = body_random_uniform,
    .is_random = true};
const struct op op_random_normal = {
    .name = "random_normal",
    .types = TYPES_ANY,
    .attributes = {{.name = "shape", .kind = ATTRIBUTE_LIST, .required = true},
                   {.name = "mean", .kind = ATTRIBUTE_NUMBER},
                   {.name = "deviation", .kind = ATTRIBUTE_NUMBER, .usual = 1},
                   {.name = "type", .kind = ATTRIBUTE_TYPE},
                   {.name = "seed", .kind = ATTRIBUTE_INTEGER}},
    .infer = infer_made,
    .body = body_random_normal,
    .is_random = true};
