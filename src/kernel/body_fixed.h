/* body_fixed - the loops of fixed.h; for the files that include body.h. */
#ifndef KERNEL_BODY_FIXED_H
#define KERNEL_BODY_FIXED_H

#include "kernel/body.h"
#include "kernel/fixed.h"

/* Numbers may lie anywhere. As whole numbers, magnitudes are in the same order. Random numbers in [0, 1) are those of a counter whose bits are mixed. */
#define FIXED_LOOPS(name, real, bits, magnitude)                                               \
    static double largest_##name(const void *from, size_t n)                                   \
    {                                                                                          \
        const uint8_t *at = from;                                                              \
        bits most = 0;                                                                         \
        real largest;                                                                          \
        foreach(i, n)                                                                          \
        {                                                                                      \
            bits size;                                                                         \
            memcpy(&size, at + i * sizeof size, sizeof size);                                  \
            size &= (magnitude);                                                               \
            most = size > most ? size : most;                                                  \
        }                                                                                      \
        memcpy(&largest, &most, sizeof largest);                                               \
        return (double)largest;                                                                \
    }                                                                                          \
                                                                                               \
    static void round_##name(const void *restrict from, size_t n, const double scale[2],       \
                             uint32_t seed, uint32_t at, int32_t *restrict steps)              \
    {                                                                                          \
        const uint8_t *bytes = from;                                                           \
        const real first = (real)scale[0], second = (real)scale[1];                            \
        uint32_t next = seed + at * UINT32_C(0x9e3779b9);                                      \
        foreach(i, n)                                                                          \
        {                                                                                      \
            const uint32_t product = (next ^ next >> 15) * UINT32_C(0x2c1b3c6d);               \
            const real unit = (real)(int32_t)((product ^ product >> 12) >> 8) * (real)0x1p-24; \
            real x;                                                                            \
            memcpy(&x, bytes + i * sizeof x, sizeof x);                                        \
            const real exact = x * first * second;                                             \
            const int32_t whole = (int32_t)exact;                                              \
            const real rest = exact - (real)whole;                                             \
            steps[i] = whole + (rest > unit) - (-rest > unit);                                 \
            next += UINT32_C(0x9e3779b9);                                                      \
        }                                                                                      \
    }                                                                                          \
                                                                                               \
    static void unround_##name(const int32_t *restrict steps, size_t n, const double scale[2], \
                               void *restrict to)                                              \
    {                                                                                          \
        uint8_t *bytes = to;                                                                   \
        const real first = (real)scale[0], second = (real)scale[1];                            \
        foreach(i, n)                                                                          \
        {                                                                                      \
            const real x = (real)steps[i] * first * second;                                    \
            memcpy(bytes + i * sizeof x, &x, sizeof x);                                        \
        }                                                                                      \
    }

FIXED_LOOPS(f32, float, uint32_t, INT32_MAX)
FIXED_LOOPS(f64, double, uint64_t, INT64_MAX)

static void pack_8(const int32_t *restrict steps, size_t n, uint8_t *restrict out)
{
    foreach(i, n) out[i] = (uint8_t)steps[i];
}

static void unpack_8(const uint8_t *restrict in, size_t n, int32_t *restrict steps)
{
    foreach(i, n) steps[i] = (int8_t)in[i];
}

static void pack_16(const int32_t *restrict steps, size_t n, uint8_t *restrict out)
{
    foreach(i, n)
    {
        const uint16_t low = (uint16_t)steps[i];
        memcpy(out + 2 * i, &low, sizeof low);
    }
}

static void unpack_16(const uint8_t *restrict in, size_t n, int32_t *restrict steps)
{
    foreach(i, n)
    {
        int16_t low;
        memcpy(&low, in + 2 * i, sizeof low);
        steps[i] = low;
    }
}

/* The fourth byte of a number is overwritten by the next one. */
static void pack_24(const int32_t *restrict steps, size_t n, uint8_t *restrict out)
{
    for (size_t i = 0; i < n; i++)
        memcpy(out + 3 * i, &steps[i], sizeof steps[i]);
}

static void unpack_24(const uint8_t *restrict in, size_t n, int32_t *restrict steps)
{
    foreach(i, n) steps[i] = in[3 * i] | in[3 * i + 1] << 8 | (int8_t)in[3 * i + 2] * (1 << 16);
}

/* clang-format off */
#define BODY_FIXED                                                                                 \
    {.largest = {largest_f32, largest_f64}, .round = {round_f32, round_f64},                       \
     .unround = {unround_f32, unround_f64}, .pack = {pack_8, pack_16, pack_24},                    \
     .unpack = {unpack_8, unpack_16, unpack_24}}
/* clang-format on */

#endif
