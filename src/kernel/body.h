/*
 * body - the loops of one set; the file that includes it decides for which instructions.
 *
 * Every loop is elementwise, so foreach() may promise the compiler that its rounds are independent:
 * no run-time overlap test stands before a row of four elements. The caller keeps the promise:
 * value, state and update never overlap. A file that defines BODY_SCALAR gets plain loops.
 *
 * All sets give the same bits. Only which of two NaNs survives an operation is left open.
 */
#ifndef KERNEL_BODY_H
#define KERNEL_BODY_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernel/sets.h"

/* One vector per round (interleave_count) keeps the remainder short: most rows are. Clang says when
 * it could not vectorise, which is no news where a sanitizer has put checks into the loops. */
#if !defined(__clang__) && defined(BODY_SCALAR)
#define HINT
#elif !defined(__clang__)
#define HINT _Pragma("GCC ivdep")
#elif defined(BODY_SCALAR)
#define HINT _Pragma("clang loop vectorize(disable) unroll(disable)")
#else
#define HINT _Pragma("clang loop vectorize(assume_safety) interleave_count(1)")
#if __has_feature(undefined_behavior_sanitizer)
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
#endif
#define foreach(i, n) HINT for (size_t i = 0; i < n; i++)

#define REAL float
#define SQRT __builtin_sqrtf
#define FABS __builtin_fabsf
#define COPYSIGN __builtin_copysignf
#define NAME(loop) loop##_f32
#include "kernel/body_real.h"
#undef REAL
#undef SQRT
#undef FABS
#undef COPYSIGN
#undef NAME

#define REAL double
#define SQRT __builtin_sqrt
#define FABS __builtin_fabs
#define COPYSIGN __builtin_copysign
#define NAME(loop) loop##_f64
#include "kernel/body_real.h"
#undef REAL
#undef SQRT
#undef FABS
#undef COPYSIGN
#undef NAME

static void add_i32(void *restrict to, const void *restrict from, size_t n)
{
    uint32_t *x = to;
    const uint32_t *y = from;
    foreach(i, n) x[i] += y[i];
}

static void add_i64(void *restrict to, const void *restrict from, size_t n)
{
    uint64_t *x = to;
    const uint64_t *y = from;
    foreach(i, n) x[i] += y[i];
}

/* What replicas exchange, for one type: unsigned where integers wrap around. x - x is +0, whose bits are
 * all zero; but not if x is infinite. A value becomes what the owner makes of it by adding the difference to what it
 * has, which may be another one where numbers are rounded: so both agree in every bit. */
#define DELTA_LOOPS(name, type, bits)                                                        \
    static bool take_##name(void *restrict delta, void *restrict base, void *restrict value, \
                            size_t n)                                                        \
    {                                                                                        \
        type *d = delta, *b = base, *v = value;                                              \
        bits any = 0;                                                                        \
        foreach(i, n)                                                                        \
        {                                                                                    \
            type difference = v[i] == b[i] ? (type)0 : (type)(v[i] - b[i]);                  \
            bits word;                                                                       \
            memcpy(&word, &difference, sizeof word);                                         \
            any |= word;                                                                     \
            d[i] = difference;                                                               \
            b[i] = v[i] = (type)(b[i] + difference);                                         \
        }                                                                                    \
        return any != 0;                                                                     \
    }                                                                                        \
                                                                                             \
    static void rebase_##name(void *restrict value, void *restrict base,                     \
                              const void *restrict theirs, size_t n)                         \
    {                                                                                        \
        type *v = value, *b = base;                                                          \
        const type *t = theirs;                                                              \
        foreach(i, n)                                                                        \
        {                                                                                    \
            v[i] = v[i] == b[i] ? t[i] : (type)((type)(v[i] - b[i]) + t[i]);                 \
            b[i] = t[i];                                                                     \
        }                                                                                    \
    }

DELTA_LOOPS(f32, float, uint32_t)
DELTA_LOOPS(f64, double, uint64_t)
DELTA_LOOPS(i32, uint32_t, uint32_t)
DELTA_LOOPS(i64, uint64_t, uint64_t)

/* The members of struct kernel that this file provides. */
/* clang-format off */
#define BODY_LOOPS                                                                                 \
    .add = {[TERN_F32] = add_f32, [TERN_F64] = add_f64,                                            \
            [TERN_I32] = add_i32, [TERN_I64] = add_i64},                                           \
    .take = {[TERN_F32] = take_f32, [TERN_F64] = take_f64,                                         \
             [TERN_I32] = take_i32, [TERN_I64] = take_i64},                                        \
    .rebase = {[TERN_F32] = rebase_f32, [TERN_F64] = rebase_f64,                                   \
               [TERN_I32] = rebase_i32, [TERN_I64] = rebase_i64},                                  \
    .sgd = {sgd_f32, sgd_f64},                                                                     \
    .momentum = {momentum_f32, momentum_f64},                                                      \
    .adagrad = {adagrad_f32, adagrad_f64},                                                         \
    .adam = {adam_f32, adam_f64},                                                                  \
    .ftrl = {ftrl_f32, ftrl_f64}
/* clang-format on */

#endif
