/*
 * fused - what memory permits for chains of elementwise operators (docs/nd.md, decision 034): a*b+c and a chain of eight
 * operators on 4 million floats, each as
 *
 *   passes    one loop per operator over whole arrays, in place where it can be, as numpy
 *   loop      one loop, as a compiler makes it
 *   streamed  one loop whose stores pass by the caches: no loop in one thread moves less memory
 *
 * Needs AVX-512. Prints the median time of the processor of 31 turns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __x86_64__
#include <immintrin.h>

enum { N = 4000000, REPEATS = 31, WAYS = 6 };
#define WIDE __attribute__((target("avx512f"), noinline))
typedef float vector __attribute__((vector_size(64)));

#define PASS(name, E)                                                        \
    WIDE static void name(const float *left, const float *right, float *out) \
    {                                                                        \
        _Pragma("GCC ivdep") for (int i = 0; i < N; i++)                     \
        {                                                                    \
            const float x = left[i], y = right[i];                           \
            out[i] = E;                                                      \
        }                                                                    \
    }
PASS(add, x + y)
PASS(subtract, x - y)
PASS(multiply, x *y)

WIDE static void less_half(const float *in, float *out)
{
    for (int i = 0; i < N; i++)
        out[i] = in[i] - 0.5F;
}

#define FMA(a, b, c) ((a) * (b) + (c))
#define CHAIN(a, b, c) ((((a) * (b) + (c)) * (a) - (b)) * (c) + (a) * ((b)-0.5F))

static void fma_passes(const float *a, const float *b, const float *c, float *out, float *other)
{
    (void)other;
    multiply(a, b, out);
    add(out, c, out);
}

static void chain_passes(const float *a, const float *b, const float *c, float *out, float *other)
{
    multiply(a, b, out);
    add(out, c, out);
    multiply(out, a, out);
    subtract(out, b, out);
    multiply(out, c, out);
    less_half(b, other);
    multiply(a, other, other);
    add(out, other, out);
}

#define LOOPS(name, E)                                                                           \
    WIDE static void name##_loop(const float *a, const float *b, const float *c, float *out,     \
                                 float *other)                                                   \
    {                                                                                            \
        (void)other;                                                                             \
        _Pragma("GCC ivdep") for (int i = 0; i < N; i++) out[i] = E(a[i], b[i], c[i]);           \
    }                                                                                            \
    WIDE static void name##_streamed(const float *a, const float *b, const float *c, float *out, \
                                     float *other)                                               \
    {                                                                                            \
        (void)other;                                                                             \
        const vector *x = (const vector *)a, *y = (const vector *)b, *z = (const vector *)c;     \
        for (int i = 0; i < N / 16; i++)                                                         \
            _mm512_stream_ps(out + 16 * i, (__m512)E(x[i], y[i], z[i]));                         \
        _mm_sfence();                                                                            \
    }
LOOPS(fma, FMA)
LOOPS(chain, CHAIN)

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(const float *a, const float *b, const float *c, float *out, float *other);
    } ways[WAYS] = {{"a*b+c, passes", fma_passes},     {"a*b+c, loop", fma_loop},
                    {"a*b+c, streamed", fma_streamed}, {"eight, passes", chain_passes},
                    {"eight, loop", chain_loop},       {"eight, streamed", chain_streamed}};
    float *arrays[5];
    double times[WAYS][REPEATS];
    if (!__builtin_cpu_supports("avx512f")) {
        fprintf(stderr, "fused: this processor has no AVX-512\n");
        return 1;
    }
    for (int i = 0; i < 5; i++) {
        if (!(arrays[i] = aligned_alloc(64, N * sizeof(float))))
            return 1;
        for (int k = 0; k < N; k++)
            arrays[i][k] = (float)(k % 1000) / 1000;
    }
    for (int r = -1; r < REPEATS; r++) {
        for (int w = 0; w < WAYS; w++) {
            const double begin = now_ms();
            ways[w].run(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4]);
            if (r >= 0)
                times[w][r] = now_ms() - begin;
        }
    }
    for (int w = 0; w < WAYS; w++) {
        qsort(times[w], REPEATS, sizeof(double), compare);
        printf("%-16s %.3f ms\n", ways[w].name, times[w][REPEATS / 2]);
    }
    return 0;
}
#else
int main(void)
{
    fprintf(stderr, "fused: needs AVX-512\n");
    return 1;
}
#endif
