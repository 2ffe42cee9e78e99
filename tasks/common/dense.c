/*
 * dense - loops over vectors and small matrices. See dense.h.
 *
 * Each loop is written once, as an inline function on vectors of eight floats, and compiled twice: as
 * the compiler's target allows, and on x86-64 also for AVX2 with fused multiply-add, which is chosen
 * when the machine has it. The Makefile lets products and sums be fused in this file.
 */
#include "common/dense.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { WIDTH = 8, HALF = WIDTH / 2 };

typedef float vector __attribute__((vector_size(4 * WIDTH)));
typedef float unaligned __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* Macros, because functions that pass vectors depend on the target. */
#define LOAD(p) ((vector) * (const unaligned *)(p))
#define STORE(p, v) (*(unaligned *)(p) = (unaligned)(v))
#define SPREAD(x) ((x) - (vector){0})
#define ADD_UP(v) \
    ((((v)[0] + (v)[4]) + ((v)[1] + (v)[5])) + (((v)[2] + (v)[6]) + ((v)[3] + (v)[7])))

#if defined(__x86_64__)
#define FOR_AVX2 __attribute__((target("avx2,fma")))
static bool have_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

/* Defines `name` to call body(arguments) compiled for the machine at hand. */
#if defined(__x86_64__)
#define PER_MACHINE(type, name, parameters, body, arguments)               \
    FOR_AVX2 static type name##_avx2 parameters                            \
    {                                                                      \
        return body arguments;                                             \
    }                                                                      \
    static type name##_any parameters                                      \
    {                                                                      \
        return body arguments;                                             \
    }                                                                      \
    type name parameters                                                   \
    {                                                                      \
        return have_avx2() ? name##_avx2 arguments : name##_any arguments; \
    }
#else
#define PER_MACHINE(type, name, parameters, body, arguments) \
    type name parameters                                     \
    {                                                        \
        return body arguments;                               \
    }
#endif

/* ---- Vectors --------------------------------------------------------------------------------- */

INLINE float dot(const float *restrict a, const float *restrict b, size_t n)
{
    vector sums[4] = {{0}, {0}, {0}, {0}};
    size_t i = 0;
    for (; i + 4 * WIDTH <= n; i += 4 * WIDTH)
        for (size_t k = 0; k < 4; k++)
            sums[k] += LOAD(a + i + k * WIDTH) * LOAD(b + i + k * WIDTH);
    for (; i + WIDTH <= n; i += WIDTH)
        sums[0] += LOAD(a + i) * LOAD(b + i);
    vector all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    float sum = ADD_UP(all);
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

INLINE void axpy(float factor, const float *restrict x, float *restrict y, size_t n)
{
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        STORE(y + i, LOAD(y + i) + SPREAD(factor) * LOAD(x + i));
    for (; i < n; i++)
        y[i] += factor * x[i];
}

INLINE float largest_of(const float *x, size_t n)
{
    float many[WIDTH], largest = x[0];
    for (size_t k = 0; k < WIDTH; k++)
        many[k] = x[0];
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        for (size_t k = 0; k < WIDTH; k++)
            many[k] = x[i + k] > many[k] ? x[i + k] : many[k];
    for (; i < n; i++)
        largest = x[i] > largest ? x[i] : largest;
    for (size_t k = 0; k < WIDTH; k++)
        largest = many[k] > largest ? many[k] : largest;
    return largest;
}

PER_MACHINE(float, dense_dot, (const float *a, const float *b, size_t n), dot, (a, b, n))
PER_MACHINE(void, dense_axpy, (float factor, const float *x, float *y, size_t n), axpy,
            (factor, x, y, n))
PER_MACHINE(float, dense_largest, (const float *x, size_t n), largest_of, (x, n))

/* ---- Products -------------------------------------------------------------------------------- */

/*
 * c += a b, for c of m x n and b of depth x n numbers. b is taken panel by panel, DEPTH rows of PANEL
 * columns, which is copied so that it lies close together in the first cache, with zeros beyond b's
 * last column. While the rows of a pass, ROWS at a time, a tile of c stays in registers.
 */
enum { ROWS = 4, PANEL = 3 * WIDTH, DEPTH = 192 };

struct matrix {
    const float *at;
    size_t row, column; /* steps from a row to the next and from a column to the next */
};

INLINE void copy_panel(struct matrix b, size_t n_k, size_t n_j, float *restrict panel)
{
    if (n_j < PANEL)
        memset(panel, 0, n_k * PANEL * sizeof *panel);
    if (b.column == 1) {
        for (size_t k = 0; k < n_k; k++)
            memcpy(panel + k * PANEL, b.at + k * b.row, n_j * sizeof *panel);
        return;
    }
    for (size_t j = 0; j < n_j; j++)
        for (size_t k = 0; k < n_k; k++)
            panel[k * PANEL + j] = b.at[j * b.column + k * b.row];
}

/* rows is ROWS or 1, a constant for the compiler; c has PANEL columns here. */
INLINE void tile(size_t rows, const float *restrict a, size_t stride_a, const float *restrict panel,
                 size_t n_k, float *restrict c, size_t stride_c)
{
    vector sums[ROWS][3];
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < 3; j++)
            sums[i][j] = LOAD(c + i * stride_c + j * WIDTH);
    for (size_t k = 0; k < n_k; k++) {
        vector right[3];
        for (size_t j = 0; j < 3; j++)
            right[j] = LOAD(panel + k * PANEL + j * WIDTH);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < 3; j++)
                sums[i][j] += SPREAD(a[i * stride_a + k]) * right[j];
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < 3; j++)
            STORE(c + i * stride_c + j * WIDTH, sums[i][j]);
}

/* The same where c has only n_j columns. */
INLINE void edge_tile(size_t rows, const float *a, size_t stride_a, const float *panel, size_t n_k,
                      float *c, size_t stride_c, size_t n_j)
{
    float whole[ROWS * PANEL] = {0};
    for (size_t i = 0; i < rows; i++)
        memcpy(whole + i * PANEL, c + i * stride_c, n_j * sizeof *c);
    tile(rows, a, stride_a, panel, n_k, whole, PANEL);
    for (size_t i = 0; i < rows; i++)
        memcpy(c + i * stride_c, whole + i * PANEL, n_j * sizeof *c);
}

INLINE void pass(const float *a, size_t stride_a, size_t m, const float *panel, size_t n_k,
                 float *c, size_t stride_c, size_t n_j)
{
    size_t i = 0;
    for (; i + ROWS <= m && n_j == PANEL; i += ROWS)
        tile(ROWS, a + i * stride_a, stride_a, panel, n_k, c + i * stride_c, stride_c);
    for (; i + ROWS <= m; i += ROWS)
        edge_tile(ROWS, a + i * stride_a, stride_a, panel, n_k, c + i * stride_c, stride_c, n_j);
    for (; i < m; i++)
        edge_tile(1, a + i * stride_a, stride_a, panel, n_k, c + i * stride_c, stride_c, n_j);
}

INLINE void add_product(const float *a, size_t m, size_t depth, struct matrix b, size_t n, float *c)
{
    _Alignas(64) float panel[DEPTH * PANEL];
    for (size_t k = 0; k < depth; k += DEPTH) {
        size_t n_k = depth - k < DEPTH ? depth - k : DEPTH;
        for (size_t j = 0; j < n; j += PANEL) {
            size_t n_j = n - j < PANEL ? n - j : PANEL;
            struct matrix part = {b.at + k * b.row + j * b.column, b.row, b.column};
            copy_panel(part, n_k, n_j, panel);
            pass(a + k, depth, m, panel, n_k, c + j, n, n_j);
        }
    }
}

INLINE void rows_by_rows(const float *a, size_t n_a, const float *b, size_t n_b, size_t n, float *c)
{
    memset(c, 0, n_a * n_b * sizeof *c);
    add_product(a, n_a, n, (struct matrix){b, 1, n}, n_b, c);
}

INLINE void add_weighted(const float *w, const float *b, size_t n_c, size_t n_b, size_t n, float *c)
{
    add_product(w, n_c, n_b, (struct matrix){b, n, 1}, n, c);
}

PER_MACHINE(void, dense_rows_by_rows,
            (const float *a, size_t n_a, const float *b, size_t n_b, size_t n, float *c),
            rows_by_rows, (a, n_a, b, n_b, n, c))
PER_MACHINE(void, dense_add_weighted,
            (const float *w, const float *b, size_t n_c, size_t n_b, size_t n, float *c),
            add_weighted, (w, b, n_c, n_b, n, c))

/* ---- Exponentials ---------------------------------------------------------------------------- */

/* Where a comparison holds, b; elsewhere a. Comparisons of vectors give all ones or all zeros. */
typedef int32_t mask __attribute__((vector_size(4 * WIDTH)));
#define CHOOSE(m, a, b) ((vector)(((mask)(a) & ~(m)) | ((mask)(b) & (m))))

/*
 * y = e^x, with x brought into [-87, 87]: x = k log 2 + r, with |r| at most half of log 2, e^r by its
 * Taylor series to the sixth power, times 2^k put together from its bits. The relative error is below
 * 3e-7.
 */
INLINE void exponential(const float *x, float *y)
{
    const float top = 87, round = 12582912; /* 1.5 * 2^23: adding it leaves a whole number */
    vector v = LOAD(x);
    v = CHOOSE(v > SPREAD(top), v, SPREAD(top));
    v = CHOOSE(v < SPREAD(-top), v, SPREAD(-top));
    vector k = (v * SPREAD(1.44269504f) + SPREAD(round)) - SPREAD(round);
    vector r = v - k * SPREAD(0.693145752f) - k * SPREAD(1.42860677e-6f);
    vector e = r * SPREAD(0.00138888892f) + SPREAD(0.00833333377f);
    e = e * r + SPREAD(0.0416666679f);
    e = e * r + SPREAD(0.166666672f);
    e = e * r + SPREAD(0.5f);
    e = e * r + SPREAD(1.0f);
    e = e * r + SPREAD(1.0f);
    mask bits = (__builtin_convertvector(k, mask) + 127) << 23;
    STORE(y, e * (vector)bits);
}

/* Calls exponential() for all of x - less, the last ones through a buffer. */
INLINE void exponentials(float *x, float less, size_t n)
{
    float last[WIDTH] = {0};
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        STORE(x + i, LOAD(x + i) - SPREAD(less));
        exponential(x + i, x + i);
    }
    for (size_t k = i; k < n; k++)
        last[k - i] = x[k] - less;
    exponential(last, last);
    for (size_t k = i; k < n; k++)
        x[k] = last[k - i];
}

INLINE float exp_all(float *x, float largest, size_t n)
{
    vector sums = {0};
    size_t i = 0;
    exponentials(x, largest, n);
    for (; i + WIDTH <= n; i += WIDTH)
        sums += LOAD(x + i);
    float sum = ADD_UP(sums);
    for (; i < n; i++)
        sum += x[i];
    return sum;
}

INLINE float logistic_all(float *x, size_t n)
{
    float product = 1, sum = 0;
    exponentials(x, 0, n);
    for (size_t i = 0; i < n; i++) {
        /* Several logarithms in one, as long as the product of two factors cannot overflow. */
        if (x[i] > 1e19f || product > 1e19f) {
            sum += logf(product);
            product = 1;
        }
        product *= 1.0f + x[i];
    }
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] / (1.0f + x[i]);
    return sum + logf(product);
}

INLINE void sigmoid_all(float *x, size_t n)
{
    exponentials(x, 0, n);
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] / (1.0f + x[i]);
}

typedef double reals __attribute__((vector_size(8 * HALF)));
typedef int64_t wholes __attribute__((vector_size(8 * HALF)));
typedef uint64_t patterns __attribute__((vector_size(8 * HALF)));

/*
 * With t = e^-|x|, log(1 + e^x) is max(x, 0) + log(1 + t). t is made as in exponential(), with twice the digits; and log(1 + t) =
 * 2 (s + s^3 / 3 + s^5 / 5 ...) for s = t / (2 + t), at most 1/3, to the 29th power.
 */
INLINE void softplus(double *x, double *p)
{
    const double round = 0x1.8p52, most = 700;
    reals v, t, k;
    memcpy(&v, x, sizeof v);
    const wholes is_positive = v > 0;
    const reals top = (reals)((wholes)v & is_positive); /* max(x, 0) */
    const reals away = v - 2 * top;                     /* -|x| */
    const wholes is_far = away < -most;
    const reals y = (reals)(((wholes)away & ~is_far) | ((wholes)(0 * v - most) & is_far));
    k = y * 1.4426950408889634 + round;
    const patterns bits = (patterns)k
                          << 52; /* of 2^k: what is above the twelve lowest bits is shifted out */
    k -= round;
    const reals r = y - k * 0x1.62e42fefa0000p-1 - k * 0x1.cf79abc9e3b3ap-40;
    t = r * (1.0 / 6227020800) + 1.0 / 479001600;
    t = t * r + 1.0 / 39916800;
    t = t * r + 1.0 / 3628800;
    t = t * r + 1.0 / 362880;
    t = t * r + 1.0 / 40320;
    t = t * r + 1.0 / 5040;
    t = t * r + 1.0 / 720;
    t = t * r + 1.0 / 120;
    t = t * r + 1.0 / 24;
    t = t * r + 1.0 / 6;
    t = t * r + 0.5;
    t = t * r + 1;
    t = t * r + 1;
    t = (reals)((patterns)t + bits);
    const reals s = t / (2 + t), square = s * s;
    reals sum = square * (1.0 / 29) + 1.0 / 27;
    for (int i = 25; i > 0; i -= 2)
        sum = sum * square + 1.0 / i;
    sum = top + 2 * s * sum;
    const reals ones = 1 + 0 * t;
    const reals upper = (reals)(((wholes)ones & is_positive) | ((wholes)t & ~is_positive));
    const reals share = upper / (1 + t);
    memcpy(x, &sum, sizeof sum);
    memcpy(p, &share, sizeof share);
}

INLINE void softplus_all(double *x, double *p, size_t n)
{
    double last_x[HALF] = {0}, last_p[HALF];
    size_t i = 0;
    for (; i + HALF <= n; i += HALF)
        softplus(x + i, p + i);
    for (size_t k = i; k < n; k++)
        last_x[k - i] = x[k];
    softplus(last_x, last_p);
    for (size_t k = i; k < n; k++) {
        x[k] = last_x[k - i];
        p[k] = last_p[k - i];
    }
}

PER_MACHINE(float, dense_exp, (float *x, float largest, size_t n), exp_all, (x, largest, n))
PER_MACHINE(float, dense_logistic, (float *x, size_t n), logistic_all, (x, n))
PER_MACHINE(void, dense_sigmoid, (float *x, size_t n), sigmoid_all, (x, n))
PER_MACHINE(void, dense_softplus, (double *x, double *p, size_t n), softplus_all, (x, p, n))

/* ---- AdaGrad --------------------------------------------------------------------------------- */

INLINE void adagrad(const float *restrict row, const float *restrict gradient, float rate, size_t n,
                    float *restrict difference)
{
    const float *sums = row + n;
    float *sum_differences = difference + n;
    for (size_t i = 0; i < n; i++) {
        float square = gradient[i] * gradient[i];
        sum_differences[i] = square;
        difference[i] = -rate * gradient[i] / (sqrtf(sums[i] + square) + 1e-10f);
    }
}

PER_MACHINE(void, dense_adagrad,
            (const float *row, const float *gradient, float rate, size_t n, float *difference),
            adagrad, (row, gradient, rate, n, difference))
