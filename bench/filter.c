/*
 * filter - what coding and decoding rows costs beside copying them (docs/filters.md).
 *
 *   build/bench/filter       the speed of each filter as a share of that of memcpy, in processor time; then that of the
 *                            loop that rounds, alone
 *
 * Messages have the size that requests aim at, 64 KiB of values, and lie in the cache, as do those that are about to be sent.
 * Contenders take turns; each figure is the median of five.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rand.h"
#include "kernel/fixed.h"
#include "wire/filter.h"

enum { BYTES = 64 << 10, TIMES = 400, REPEATS = 5, LONGEST = 16 };

static double values_f64[BYTES / 8];
static float values_f32[BYTES / 4];
static uint8_t coded[2 * BYTES + 64], rows[BYTES], scratch[1];

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double measure_copy(const void *from)
{
    const double begin = now_s();
    for (int i = 0; i < TIMES; i++) {
        memcpy(rows, from, BYTES);
        __asm__ volatile("" : : "r"(rows) : "memory");
    }
    return now_s() - begin;
}

static double measure_coding(const struct filters *filters, const struct filter_shape *shape,
                             const void *from, size_t n, bool decodes)
{
    struct filter_saved saved = {0};
    size_t bytes = filter_encode(filters, shape, from, n, 1, coded, scratch, &saved);
    const double begin = now_s();
    for (int i = 0; i < TIMES; i++) {
        if (!decodes)
            bytes = filter_encode(filters, shape, from, n, (uint64_t)i, coded, scratch, &saved);
        else if (!filter_decode(filters, shape, coded, bytes, n, scratch, rows))
            exit(1);
        __asm__ volatile("" : : "r"(rows) : "memory");
    }
    return now_s() - begin;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, const struct filter_shape *shape)
{
    const void *from = shape->type == TERN_F64 ? (void *)values_f64 : (void *)values_f32;
    const size_t n = BYTES / (shape->type == TERN_F64 ? 8U : 4U) / shape->length;
    struct filters filters;
    double ratios[2][REPEATS];
    if (filters_parse("bench", name, shape->type, &filters))
        exit(1);
    for (int i = 0; i < REPEATS; i++)
        for (int decodes = 0; decodes < 2; decodes++) {
            const double copy = measure_copy(from);
            ratios[decodes][i] = copy / measure_coding(&filters, shape, from, n, decodes);
        }
    qsort(ratios[0], REPEATS, sizeof(double), compare);
    qsort(ratios[1], REPEATS, sizeof(double), compare);
    printf("%-10s %s x %-3zu  %8.3f  %8.3f\n", name, shape->type == TERN_F64 ? "f64" : "f32",
           shape->length, ratios[0][REPEATS / 2], ratios[1][REPEATS / 2]);
}

/* The loop that rounds, without the search for the largest number and without the message around it. */
static void report_loop(unsigned bits)
{
    const double scale[2] = {1, (double)(1U << (bits - 1))};
    double ratios[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        const double copy = measure_copy(values_f32), begin = now_s();
        for (int k = 0; k < TIMES; k++) {
            fixed_get()->round[0][bits / 8 - 1](values_f32, BYTES / 4, scale, 1, (uint32_t)k,
                                                coded);
            __asm__ volatile("" : : "r"(coded) : "memory");
        }
        ratios[i] = copy / (now_s() - begin);
    }
    qsort(ratios, REPEATS, sizeof(double), compare);
    printf("rounding f32 to %2u bits  %8.3f\n", bits, ratios[REPEATS / 2]);
}

int main(void)
{
    static const char *const names[] = {"zeros", "fixed:8", "fixed:16", "fixed:24"};
    for (size_t i = 0; i < BYTES / 4; i++) {
        /* One row of ten is zero, whatever the length. */
        const bool zero = i / LONGEST % 10 == 0;
        values_f32[i] = zero ? 0 : (float)(rand_unit(rand_at(1, i)) - 0.5);
        values_f64[i / 2] = (double)values_f32[i];
    }
    printf("%-10s %-9s  %8s  %8s\n", "filter", "rows", "coding", "decoding");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t length = 1; length <= LONGEST; length *= LONGEST)
            for (int wide = 0; wide < 2; wide++)
                report(names[i], &(struct filter_shape){.type = wide ? TERN_F64 : TERN_F32,
                                                        .length = length});
    for (unsigned bits = 8; bits <= 24; bits += 8)
        report_loop(bits);
    return 0;
}
