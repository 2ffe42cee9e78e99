/* body_fixed - the loops of fixed.h; for the files that include body.h. */
#ifndef KERNEL_BODY_FIXED_H
#define KERNEL_BODY_FIXED_H

#include "kernel/body.h"
#include "kernel/fixed.h"

/* A random number of 32 bits for each counter: the next step of a Weyl sequence, whose bits are mixed. */
#define RANDOM(counter) (((counter) ^ (counter) >> 15) * UINT32_C(0x2c1b3c6d))
#define RANDOM_MIXED(product) ((product) ^ (product) >> 12)
#define RANDOM_STEP UINT32_C(0x9e3779b9)

enum { BLOCK_24 = 256 }; /* numbers that are rounded together before they are packed */

/* Numbers may lie anywhere. As whole numbers, magnitudes are in the same order; four quarters are searched at a time, so that
 * a comparison need not wait for the last one. */
#define FIXED_LARGEST(name, real, bits, magnitude)                                         \
    static double largest_##name(const void *from, size_t n)                               \
    {                                                                                      \
        const uint8_t *at = from;                                                          \
        const size_t quarter = n / 4, stride = quarter * sizeof(bits);                     \
        bits most[4] = {0, 0, 0, 0}, size[4];                                              \
        real largest;                                                                      \
        foreach(i, quarter)                                                                \
        {                                                                                  \
            memcpy(&size[0], at + i * sizeof(bits), sizeof(bits));                         \
            memcpy(&size[1], at + stride + i * sizeof(bits), sizeof(bits));                \
            memcpy(&size[2], at + 2 * stride + i * sizeof(bits), sizeof(bits));            \
            memcpy(&size[3], at + 3 * stride + i * sizeof(bits), sizeof(bits));            \
            most[0] = (size[0] & (magnitude)) > most[0] ? size[0] & (magnitude) : most[0]; \
            most[1] = (size[1] & (magnitude)) > most[1] ? size[1] & (magnitude) : most[1]; \
            most[2] = (size[2] & (magnitude)) > most[2] ? size[2] & (magnitude) : most[2]; \
            most[3] = (size[3] & (magnitude)) > most[3] ? size[3] & (magnitude) : most[3]; \
        }                                                                                  \
        for (size_t i = 4 * quarter; i < n; i++) {                                         \
            memcpy(&size[0], at + i * sizeof(bits), sizeof(bits));                         \
            most[0] = (size[0] & (magnitude)) > most[0] ? size[0] & (magnitude) : most[0]; \
        }                                                                                  \
        for (size_t i = 1; i < 4; i++)                                                     \
            most[0] = most[i] > most[0] ? most[i] : most[0];                               \
        memcpy(&largest, &most[0], sizeof largest);                                        \
        return (double)largest;                                                            \
    }

FIXED_LARGEST(f32, float, int32_t, INT32_MAX)
FIXED_LARGEST(f64, double, int64_t, INT64_MAX)
static void unpack_8(const uint8_t *restrict in, size_t n, int32_t *restrict steps)
{
    foreach(i, n) steps[i] = (int8_t)in[i];
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

/* Three bytes of each of eight numbers are brought together by instructions that move bytes, if the set has them. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector) && defined(__AVX2__) && !defined(BODY_SCALAR)
#define SHUFFLES_24
#endif
#endif

#ifdef SHUFFLES_24
typedef uint8_t vector_bytes __attribute__((vector_size(32)));
typedef int32_t vector_words __attribute__((vector_size(32)));

/* Packs or unpacks as many of n numbers as it may, since it writes or reads 32 bytes at a time; how many. */
static size_t pack_24_vectors(const int32_t *restrict steps, size_t n, uint8_t *restrict out)
{
    size_t i = 0;
    for (; i + 11 <= n; i += 8) {
        vector_bytes bytes;
        memcpy(&bytes, steps + i, sizeof bytes);
        bytes = __builtin_shufflevector(bytes, bytes, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7,
                                        11, 15, 16, 17, 18, 20, 21, 22, 24, 25, 26, 28, 29, 30, 19,
                                        23, 27, 31);
        vector_words words = (vector_words)bytes;
        words = __builtin_shufflevector(words, words, 0, 1, 2, 4, 5, 6, 3, 7);
        memcpy(out + 3 * i, &words, sizeof words);
    }
    return i;
}

static size_t unpack_24_vectors(const uint8_t *restrict in, size_t n, int32_t *restrict steps)
{
    size_t i = 0;
    for (; i + 11 <= n; i += 8) {
        vector_words words;
        memcpy(&words, in + 3 * i, sizeof words);
        words = __builtin_shufflevector(words, words, 0, 1, 2, 6, 3, 4, 5, 7);
        vector_bytes bytes = (vector_bytes)words;
        bytes = __builtin_shufflevector(bytes, bytes, 12, 0, 1, 2, 13, 3, 4, 5, 14, 6, 7, 8, 15, 9,
                                        10, 11, 28, 16, 17, 18, 29, 19, 20, 21, 30, 22, 23, 24, 31,
                                        25, 26, 27);
        words = (vector_words)bytes >> 8;
        memcpy(steps + i, &words, sizeof words);
    }
    return i;
}
#else
static size_t pack_24_vectors(const int32_t *restrict steps, size_t n, uint8_t *restrict out)
{
    (void)steps, (void)n, (void)out;
    return 0;
}

static size_t unpack_24_vectors(const uint8_t *restrict in, size_t n, int32_t *restrict steps)
{
    (void)in, (void)n, (void)steps;
    return 0;
}
#endif

/* The fourth byte of a number is overwritten by the next one. */
static void pack_24(const int32_t *restrict steps, size_t n, uint8_t *restrict out)
{
    for (size_t i = pack_24_vectors(steps, n, out); i < n; i++)
        memcpy(out + 3 * i, &steps[i], sizeof steps[i]);
}

static void unpack_24(const uint8_t *restrict in, size_t n, int32_t *restrict steps)
{
    const size_t begin = unpack_24_vectors(in, n, steps);
    in += 3 * begin;
    steps += begin;
    foreach(i, n - begin) steps[i] =
        in[3 * i] | in[3 * i + 1] << 8 | (int8_t)in[3 * i + 2] * (1 << 16);
}

/* To B = 8 or 16 bits: as whole numbers of 2^-(32 - B) steps, to which a random number of these is added before they are
 * cut off. What a number has below 2^-(32 - B) steps is lost. */
#define FIXED_SHORT(name, real, bits)                                                             \
    static void round_##bits##_##name(const void *restrict from, size_t n, const double scale[2], \
                                      uint32_t seed, uint32_t at, uint8_t *restrict out)          \
    {                                                                                             \
        const uint8_t *bytes = from;                                                              \
        const real first = (real)scale[0], second = (real)scale[1] * (real)(1U << (32 - bits));   \
        uint32_t next = seed + at * RANDOM_STEP;                                                  \
        foreach(i, n)                                                                             \
        {                                                                                         \
            const uint32_t product = RANDOM(next), mixed = RANDOM_MIXED(product);                 \
            real x;                                                                               \
            memcpy(&x, bytes + i * sizeof x, sizeof x);                                           \
            const int32_t exact = (int32_t)(x * first * second);                                  \
            const int32_t sum = exact + (int32_t)(mixed >> bits);                                 \
            const int##bits##_t steps = (int##bits##_t)(sum >> (32 - bits));                      \
            memcpy(out + i * sizeof steps, &steps, sizeof steps);                                 \
            next += RANDOM_STEP;                                                                  \
        }                                                                                         \
    }

#define FIXED_LOOPS(name, real)                                                                \
    /* To 24 bits: whole steps and what is left of them apart. */                              \
    static void round_24_##name(const void *restrict from, size_t n, const double scale[2],    \
                                uint32_t seed, uint32_t at, uint8_t *restrict out)             \
    {                                                                                          \
        const uint8_t *bytes = from;                                                           \
        const real first = (real)scale[0], second = (real)scale[1];                            \
        int32_t steps[BLOCK_24];                                                               \
        uint32_t next = seed + at * RANDOM_STEP;                                               \
        for (size_t most; n > 0; n -= most, bytes += most * sizeof(real), out += 3 * most) {   \
            most = n < BLOCK_24 ? n : BLOCK_24;                                                \
            foreach(i, most)                                                                   \
            {                                                                                  \
                const uint32_t product = RANDOM(next), mixed = RANDOM_MIXED(product);          \
                real x;                                                                        \
                memcpy(&x, bytes + i * sizeof x, sizeof x);                                    \
                const real exact = x * first * second;                                         \
                const int32_t whole = (int32_t)exact;                                          \
                const int32_t rest = (int32_t)((exact - (real)whole) * (real)0x1p24);          \
                steps[i] = whole + ((rest + (int32_t)(mixed >> 8)) >> 24);                     \
                next += RANDOM_STEP;                                                           \
            }                                                                                  \
            pack_24(steps, most, out);                                                         \
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

FIXED_SHORT(f32, float, 8)
FIXED_SHORT(f32, float, 16)
FIXED_SHORT(f64, double, 8)
FIXED_SHORT(f64, double, 16)
FIXED_LOOPS(f32, float)
FIXED_LOOPS(f64, double)

/* clang-format off */
#define BODY_FIXED                                                                                 \
    {.largest = {largest_f32, largest_f64},                                                        \
     .round = {{round_8_f32, round_16_f32, round_24_f32},                                          \
               {round_8_f64, round_16_f64, round_24_f64}},                                         \
     .unpack = {unpack_8, unpack_16, unpack_24}, .unround = {unround_f32, unround_f64}}
/* clang-format on */

#endif
