/*
 * count - why admission, sketches and the hot keys of `multi` count with code of their own: each of them, and a sketch table's
 * counters in its place, on the same keys, drawn by Zipf's law.
 *
 *   bench/count [KEYS] [DRAWS] [ADMIT]
 *
 * Prints for admission, in memory of the same size, CPU time per count and the share of the rows that are early; for hot keys, in a
 * sample as `multi` takes it, CPU time per access, the share of the hot keys that are found, and how many others are.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/rand.h"
#include "core/hot.h"
#include "store/admission.h"
#include "store/sketch.h"

enum { DEPTH = 4, REPEATS = 5, BATCH = 1024, COUNTERS = 10000 };

static uint64_t n_keys = 1 << 20, n_draws = 5 << 20;
static uint32_t admit = 10;
static uint64_t *draws;   /* keys */
static uint32_t *numbers; /* their numbers */

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void *zeros(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory)
        exit(1);
    return memset(memory, 0, bytes);
}

static void draw_all(void)
{
    double *sums = zeros(n_keys * sizeof *sums), sum = 0;
    draws = zeros(n_draws * sizeof *draws);
    numbers = zeros(n_draws * sizeof *numbers);
    for (uint64_t i = 0; i < n_keys; i++)
        sums[i] = sum += pow((double)(i + 1), -1.1);
    for (uint64_t i = 0; i < n_draws; i++) {
        const double at = (double)(rand_at(1, i) >> 11) / 9007199254740992.0 * sum;
        uint64_t low = 0, high = n_keys - 1;
        while (low < high) {
            const uint64_t middle = (low + high) / 2;
            if (sums[middle] < at)
                low = middle + 1;
            else
                high = middle;
        }
        numbers[i] = (uint32_t)low;
        draws[i] = hash_u64(low);
    }
    free(sums);
}

/* Rows that come before their key was counted more than `admit` times, and all rows. */
struct rows {
    uint64_t n, n_early;
};

static void note(struct rows *rows, uint32_t *counts, uint32_t number)
{
    rows->n++;
    rows->n_early += counts[number] <= admit;
    counts[number] = UINT32_MAX; /* keys with a row are not counted */
}

static void print_admission(const char *name, double seconds, uint64_t n, struct rows rows)
{
    printf("  %-44s %5.1f ns  %6.3f %% of %" PRIu64 " rows early\n", name,
           seconds / (double)n * 1e9, 100 * (double)rows.n_early / (double)rows.n, rows.n);
}

/* Counts as tables with `admit` do. */
static void admit_as_now(void)
{
    const struct tern_table_options options = {.admit = admit, .expected_keys = n_keys};
    struct admission *admission = zeros(admission_bytes(&options));
    uint32_t *counts = zeros(n_keys * sizeof *counts);
    struct rows rows = {0};
    uint64_t n = 0;
    admission_init(admission, &options, 1);
    const double begin = cpu_s();
    for (uint64_t i = 0; i < n_draws; i++) {
        if (counts[numbers[i]] == UINT32_MAX)
            continue;
        n++;
        counts[numbers[i]]++;
        if (admission_count(admission, draws[i], 1, NULL))
            note(&rows, counts, numbers[i]);
    }
    print_admission("admission's counters", cpu_s() - begin, n, rows);
    free(admission);
    free(counts);
}

/* Counts in a sketch of 4-byte cells with so many bytes for each key. */
static void admit_by_sketch(const char *name, double bytes_per_key)
{
    const uint64_t width = (uint64_t)((double)n_keys * bytes_per_key / (DEPTH * sizeof(uint32_t)));
    const struct tern_table_options options = {
        .index = TERN_SKETCH,
        .type = TERN_I32,
        .sketch = {.width = width, .depth = DEPTH, .conservative = true}};
    struct sketch *sketch = zeros(sketch_bytes(&options));
    uint32_t *counts = zeros(n_keys * sizeof *counts);
    struct rows rows = {0};
    const int32_t one = 1;
    uint64_t n = 0;
    sketch_init(sketch, &options, 1);
    const double begin = cpu_s();
    for (uint64_t i = 0; i < n_draws; i++) {
        if (counts[numbers[i]] == UINT32_MAX)
            continue;
        n++;
        counts[numbers[i]]++;
        int32_t estimate;
        sketch_add(sketch, &draws[i], 1, &one, true, NULL);
        sketch_estimate(sketch, &draws[i], 1, &estimate);
        if ((uint32_t)estimate > admit)
            note(&rows, counts, numbers[i]);
    }
    print_admission(name, cpu_s() - begin, n, rows);
    free(sketch);
    free(counts);
}

/* The sample of the hot keys is at most this large (core/hot.h). */
static uint64_t n_sampled(void)
{
    return n_draws < (UINT64_C(1) << 22) ? n_draws : UINT64_C(1) << 22;
}

static uint64_t *true_counts(void)
{
    uint64_t *counts = zeros(n_keys * sizeof *counts);
    for (uint64_t i = 0; i < n_sampled(); i++)
        counts[numbers[i]]++;
    return counts;
}

static void print_hot(const char *name, double seconds, const uint64_t *keys, size_t n)
{
    uint64_t *counts = true_counts(), n_true = 0, n_found = 0;
    const uint64_t least = HOT_FACTOR * n_sampled() / n_keys;
    for (uint64_t i = 0; i < n_keys; i++) {
        if (counts[i] <= least)
            continue;
        n_true++;
        for (size_t k = 0; k < n; k++)
            n_found += keys[k] == hash_u64(i);
    }
    printf("  %-44s %5.1f ns  %6.2f %% of %" PRIu64 " hot keys found, %" PRIu64 " others\n", name,
           seconds / (double)n_sampled() * 1e9, 100 * (double)n_found / (double)n_true, n_true,
           n - n_found);
    free(counts);
}

static void hot_as_now(void)
{
    struct hot hot;
    uint64_t *keys = zeros(n_keys * sizeof *keys);
    hot_init(&hot, n_keys, HOT_FACTOR);
    const double begin = cpu_s();
    for (uint64_t i = 0; i + BATCH <= n_sampled(); i += BATCH)
        hot_add(&hot, draws + i, BATCH);
    const size_t n = hot_look(&hot, keys, n_keys);
    print_hot("exact counts of the sample", cpu_s() - begin, keys, n);
    hot_fini(&hot);
    free(keys);
}

static void hot_by_sketch(const char *name, double bytes_per_key)
{
    const uint64_t width = (uint64_t)((double)n_keys * bytes_per_key / (DEPTH * sizeof(uint32_t)));
    const struct tern_table_options options = {
        .index = TERN_SKETCH,
        .type = TERN_I32,
        .sketch = {.width = width, .depth = DEPTH, .counters = COUNTERS}};
    struct sketch *sketch = zeros(sketch_bytes(&options));
    struct top_counter *heaviest = zeros(COUNTERS * sizeof *heaviest);
    uint64_t *keys = zeros(COUNTERS * sizeof *keys);
    int32_t ones[BATCH];
    size_t n = 0, n_heaviest;
    for (int i = 0; i < BATCH; i++)
        ones[i] = 1;
    sketch_init(sketch, &options, 1);
    const double begin = cpu_s();
    for (uint64_t i = 0; i + BATCH <= n_sampled(); i += BATCH)
        sketch_add(sketch, draws + i, BATCH, ones, true, NULL);
    sketch_heaviest(sketch, COUNTERS, heaviest, &n_heaviest, NULL);
    for (size_t i = 0; i < n_heaviest; i++)
        if (heaviest[i].count > HOT_FACTOR * n_sampled() / n_keys)
            keys[n++] = heaviest[i].key;
    print_hot(name, cpu_s() - begin, keys, n);
    free(sketch);
    free(heaviest);
    free(keys);
}

int main(int argc, char **argv)
{
    n_keys = argc > 1 ? strtoull(argv[1], NULL, 10) : n_keys;
    n_draws = argc > 2 ? strtoull(argv[2], NULL, 10) : n_draws;
    admit = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : admit;
    draw_all();
    printf("admission: a row after %" PRIu32 " of %" PRIu64 " draws of %" PRIu64 " keys\n", admit,
           n_draws, n_keys);
    admit_as_now();
    admit_by_sketch("a sketch of the same bytes (2 per key)", 2);
    admit_by_sketch("a sketch of 16 bytes per key", 16);
    printf("hot keys: more than %d times the average, of %" PRIu64 " accesses\n", HOT_FACTOR,
           n_sampled());
    hot_as_now();
    hot_by_sketch("a sketch of 2 bytes per key, 10,000 counters", 2);
    hot_by_sketch("a sketch of 16 bytes per key, 10,000 counters", 16);
    free(draws);
    free(numbers);
    return 0;
}
