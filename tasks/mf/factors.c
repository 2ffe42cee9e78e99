/*
 * factors - how the model predicts and learns. See factors.h.
 *
 * The loop over the cells is written once, on vectors of eight floats, and compiled as the compiler's
 * target allows and, on x86-64, for AVX2, which is chosen when the machine has it. Both give the same
 * bits.
 */
#include "mf/factors.h"

#include <math.h>
#include <string.h>

#include "common/dense.h"
#include "common/rng.h"

typedef float vector __attribute__((vector_size(4 * FACTORS_VECTOR)));
typedef float unaligned __attribute__((vector_size(4 * FACTORS_VECTOR), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* Macros, because functions that pass vectors depend on the target. */
#define LOAD(p) ((vector) * (const unaligned *)(p))
#define STORE(p, v) (*(unaligned *)(p) = (unaligned)(v))
#define ADD_UP(v) \
    ((((v)[0] + (v)[4]) + ((v)[1] + (v)[5])) + (((v)[2] + (v)[6]) + ((v)[3] + (v)[7])))

/* ---- Learning -------------------------------------------------------------------------------- */

INLINE void fetch(const float *row, size_t length)
{
    for (const char *at = (const char *)row; at < (const char *)(row + length); at += 64)
        __builtin_prefetch(at, 1);
}

INLINE float product(const float *restrict a, const float *restrict b, size_t width)
{
    vector sum = {0};
    for (size_t k = 0; k < width; k += FACTORS_VECTOR)
        sum += LOAD(a + k) * LOAD(b + k);
    return ADD_UP(sum);
}

INLINE void climb_bias(float *bias, float error, float rate, float penalty)
{
    float gradient = error - penalty * bias[0];
    bias[1] += gradient * gradient;
    bias[0] += rate * gradient / sqrtf(bias[1]);
}

INLINE void learn_cell(float *restrict row, float *restrict column, size_t width, float error,
                       float rate, float penalty)
{
    for (size_t k = 0; k < width; k += FACTORS_VECTOR) {
        vector a = LOAD(row + k), b = LOAD(column + k), a_roots, b_roots;
        vector a_gradient = error * b - penalty * a, b_gradient = error * a - penalty * b;
        vector a_sums = LOAD(row + width + k) + a_gradient * a_gradient;
        vector b_sums = LOAD(column + width + k) + b_gradient * b_gradient;
        for (size_t i = 0; i < FACTORS_VECTOR; i++)
            a_roots[i] = sqrtf(a_sums[i]);
        for (size_t i = 0; i < FACTORS_VECTOR; i++)
            b_roots[i] = sqrtf(b_sums[i]);
        STORE(row + k, a + rate * a_gradient / a_roots);
        STORE(row + width + k, a_sums);
        STORE(column + k, b + rate * b_gradient / b_roots);
        STORE(column + width + k, b_sums);
    }
    climb_bias(row + 2 * width, error, rate, penalty);
    climb_bias(column + 2 * width, error, rate, penalty);
}

INLINE double learn(const struct factors *model, const struct cell *cells, size_t n,
                    float *restrict rows, float *restrict column)
{
    const float mean = model->mean, rate = model->rate, penalty = model->penalty;
    const float unit = 1 / model->scale;
    const size_t width = model->width, length = 2 * width + 2;
    double loss = 0;
    for (size_t i = 0; i < n; i++) {
        float *row = rows + cells[i].row * length;
        fetch(rows + cells[i + FACTORS_AHEAD].row * length, length);
        float error = (cells[i].value - mean) * unit - row[2 * width] - column[2 * width] -
                      product(row, column, width);
        loss += (double)(error * error);
        learn_cell(row, column, width, error, rate, penalty);
    }
    return loss * (double)(model->scale * model->scale);
}

#define PARAMETERS \
    const struct factors *model, const struct cell *cells, size_t n, float *rows, float *column

#if defined(__x86_64__)
__attribute__((target("avx2"))) static double learn_avx2(PARAMETERS)
{
    return learn(model, cells, n, rows, column);
}
#endif

static double learn_any(PARAMETERS)
{
    return learn(model, cells, n, rows, column);
}

double factors_learn(PARAMETERS)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return learn_avx2(model, cells, n, rows, column);
#endif
    return learn_any(model, cells, n, rows, column);
}

/* ---- Predicting ------------------------------------------------------------------------------ */

float factors_predict(const struct factors *model, const float *row, const float *column)
{
    float value = model->mean + model->scale * (row[2 * model->width] + column[2 * model->width] +
                                                dense_dot(row, column, model->width));
    return fminf(fmaxf(value, model->low), model->high);
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Products of factors begin so small that they say nothing. Sums of squares begin so large that first
 * steps are small. */
static const float first_product = 0.01f, first_sum = 1;

void factors_start(void *context, uint64_t key, void *value, size_t length)
{
    const struct factors_start *start = context;
    struct rng rng = rng_seed(start->seed, key);
    size_t width = factors_width(start->rank);
    float *row = value;
    /* Uniform in [-a, a) has the variance a^2 / 3, so a product of two vectors has rank * (a^2 / 3)^2. */
    float largest = sqrtf(3 * first_product / sqrtf((float)start->rank));
    memset(row, 0, length * sizeof *row);
    for (size_t i = 0; i < start->rank; i++)
        row[i] = (2 * rng_unit_float(&rng) - 1) * largest;
    for (size_t i = 0; i < width; i++)
        row[width + i] = first_sum;
    row[2 * width + 1] = first_sum;
}
