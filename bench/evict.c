/*
 * evict - rows that leave a table, and those that come late (docs/tables.md).
 *
 *   xz -dc TRACE | build/bench/evict trace    pushes that find their row, beside an exact order, with room for a tenth of the keys
 *   build/bench/evict new [MILLIONS]          pushes of new keys into a table of 64 MiB
 *   build/bench/evict sweep                   latency of accesses beside a sweep of a million rows, and without
 *   build/bench/evict admit                   processor time of pulls from a table with admission, beside one without
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tern/tern.h"

enum { LENGTH = 8, BATCH = 256, N_SWEPT = 1000000, N_SAMPLES = 400000 };

static void check(enum tern_status status)
{
    if (!status)
        return;
    fprintf(stderr, "evict: %s\n", tern_error());
    exit(1);
}

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static struct tern_node *node;
static struct tern_worker *worker;

static struct tern_table *open_table(uint64_t limit_bytes)
{
    struct tern_table *table;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .index = TERN_SPARSE,
                                         .type = TERN_F32,
                                         .length = LENGTH,
                                         .memory_limit_bytes = limit_bytes,
                                         .evict_at_limit = limit_bytes != 0,
                                         .evict_floor = limit_bytes == 0};
    check(tern_table_open(node, "rows", &options, &table));
    return table;
}

static struct tern_table_stats stats_of(struct tern_table *table)
{
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    check(tern_table_get_stats(table, &stats));
    return stats;
}

static void push_one(struct tern_table *table, uint64_t key)
{
    static const float ones[LENGTH] = {1, 1, 1, 1, 1, 1, 1, 1};
    check(tern_push(worker, table, &key, 1, ones));
}

/* ---- A trace ------------------------------------------------------------------------------------ */

/* The accesses as numbers of keys, and a list of the keys that an exact order keeps. */
struct trace {
    uint64_t *keys, *distinct;
    uint32_t *numbers;
    size_t n, n_distinct;
};

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static struct trace read_trace(void)
{
    struct trace trace = {0};
    uint8_t bytes[8];
    for (size_t most = 0; fread(bytes, 8, 1, stdin) == 1; trace.n++) {
        if (trace.n == most) {
            most = most ? 2 * most : 1 << 20;
            trace.keys = realloc(trace.keys, most * sizeof *trace.keys);
        }
        uint64_t key = 0;
        for (int i = 0; i < 8; i++)
            key = key << 8 | bytes[i];
        trace.keys[trace.n] = key;
    }
    trace.distinct = malloc((trace.n + 1) * sizeof *trace.distinct);
    memcpy(trace.distinct, trace.keys, trace.n * sizeof *trace.keys);
    qsort(trace.distinct, trace.n, sizeof *trace.distinct, compare);
    for (size_t i = 0; i < trace.n; i++)
        if (!i || trace.distinct[i] != trace.distinct[trace.n_distinct - 1])
            trace.distinct[trace.n_distinct++] = trace.distinct[i];
    trace.numbers = malloc((trace.n + 1) * sizeof *trace.numbers);
    for (size_t i = 0; i < trace.n; i++)
        trace.numbers[i] =
            (uint32_t)((uint64_t *)bsearch(&trace.keys[i], trace.distinct, trace.n_distinct,
                                           sizeof *trace.distinct, compare) -
                       trace.distinct);
    return trace;
}

/* Pushes that find their row if the one that was pushed longest ago leaves. */
static uint64_t exact_order(const struct trace *trace, uint64_t room)
{
    const uint32_t none = UINT32_MAX;
    uint32_t *next = malloc((trace->n_distinct + 1) * sizeof *next);
    uint32_t *last = malloc((trace->n_distinct + 1) * sizeof *last);
    bool *has = calloc(trace->n_distinct + 1, sizeof *has);
    uint32_t oldest = none, newest = none;
    uint64_t n = 0, n_found = 0;
    for (size_t i = 0; i < trace->n; i++) {
        const uint32_t key = trace->numbers[i];
        const uint32_t leaves = has[key] ? key : n == room ? oldest : none;
        n_found += has[key];
        n += !has[key] && leaves == none;
        if (leaves != none) {
            has[leaves] = false;
            *(last[leaves] == none ? &oldest : &next[last[leaves]]) = next[leaves];
            *(next[leaves] == none ? &newest : &last[next[leaves]]) = last[leaves];
        }
        has[key] = true;
        last[key] = newest;
        next[key] = none;
        *(newest == none ? &oldest : &next[newest]) = key;
        newest = key;
    }
    free(next), free(last), free(has);
    return n_found;
}

static int measure_trace(void)
{
    const struct trace trace = read_trace();
    /* A row is 32 bytes, 8 for its age, and 16 / 0.75 to 32 / 0.75 of the index: a limit with room for at most a tenth. */
    uint64_t room = trace.n_distinct / 10, limit = room * 64;
    struct tern_table *table = open_table(limit);
    uint64_t n_found = 0, most = 0;
    for (size_t i = 0; i < trace.n; i++) {
        float row[LENGTH];
        bool present;
        check(tern_pull_present(worker, table, &trace.keys[i], 1, row, &present));
        n_found += present;
        push_one(table, trace.keys[i]);
        const uint64_t rows = i % 64 ? most : stats_of(table).rows;
        most = rows > most ? rows : most;
    }
    const uint64_t exact = exact_order(&trace, most);
    printf("%zu pushes of %zu keys, at most %" PRIu64 " rows (%.3f of the keys)\n", trace.n,
           trace.n_distinct, most, (double)most / (double)trace.n_distinct);
    printf("find their row: %" PRIu64 ", in exact order %" PRIu64 ": %.4f of that\n", n_found,
           exact, (double)n_found / (double)exact);
    return 0;
}

/* ---- New keys ----------------------------------------------------------------------------------- */

static int measure_new(double millions)
{
    struct tern_table *table = open_table(UINT64_C(64) << 20);
    const uint64_t n = (uint64_t)(millions * 1e6);
    static float ones[BATCH * LENGTH];
    uint64_t keys[BATCH], most = 0;
    const double begun = now_s();
    for (uint64_t i = 0; i < n; i += BATCH) {
        for (uint64_t k = 0; k < BATCH; k++)
            keys[k] = (i + k) * UINT64_C(0x9e3779b97f4a7c15) ^ (i + k) << 20;
        check(tern_push(worker, table, keys, BATCH, ones));
        const uint64_t bytes = stats_of(table).memory_bytes;
        most = bytes > most ? bytes : most;
    }
    const struct tern_table_stats stats = stats_of(table);
    printf("%" PRIu64 " pushes of new keys in %.1f s: %" PRIu64 " rows are left, %" PRIu64
           " were removed; at most %" PRIu64 " bytes of %" PRIu64 "\n",
           n, now_s() - begun, stats.rows, stats.removed_rows, most, UINT64_C(64) << 20);
    return most > UINT64_C(64) << 20;
}

/* ---- A sweep ------------------------------------------------------------------------------------ */

static atomic_bool is_over;

static bool is_third(void *context, uint64_t key, const void *value)
{
    (void)context, (void)value;
    return key % 3 == 0;
}

static void *sweep(void *table)
{
    struct tern_worker *own;
    check(tern_worker_open(node, &own));
    for (uint64_t n; !is_over;)
        check(tern_sweep(own, table, is_third, NULL, &n));
    check(tern_worker_close(own));
    return NULL;
}

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The 99.9th percentile of the time of a pull and a push, in microseconds. */
static double percentile(struct tern_table *table)
{
    static double times[N_SAMPLES];
    for (uint64_t i = 0; i < N_SAMPLES; i++) {
        float row[LENGTH];
        const uint64_t key = i * 7919 % N_SWEPT;
        const double begun = now_s();
        check(tern_pull(worker, table, &key, 1, row));
        push_one(table, key);
        times[i] = now_s() - begun;
    }
    qsort(times, N_SAMPLES, sizeof *times, compare_times);
    return times[N_SAMPLES - N_SAMPLES / 1000] * 1e6;
}

static int measure_sweep(void)
{
    struct tern_table *table = open_table(0);
    for (uint64_t key = 0; key < N_SWEPT; key++)
        push_one(table, key);
    pthread_t thread;
    const double without = percentile(table);
    pthread_create(&thread, NULL, sweep, table);
    const double beside = percentile(table);
    is_over = true;
    pthread_join(thread, NULL);
    printf("99.9th percentile of a pull and a push: %.1f us, beside a sweep of %d rows %.1f us\n",
           without, N_SWEPT, beside);
    return 0;
}

/* ---- Admission ---------------------------------------------------------------------------------- */

enum { N_ADMITTED = 200000, N_PULLED = 2000000, N_TURNS = 9 };

static struct tern_table *open_admitting(const char *name, uint32_t admit)
{
    struct tern_table *table;
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .index = TERN_SPARSE,
                                               .type = TERN_F32,
                                               .length = LENGTH,
                                               .admit = admit,
                                               .expected_keys = admit ? N_ADMITTED : 0};
    check(tern_table_open(node, name, &options, &table));
    for (uint64_t key = 0; key < N_ADMITTED; key++)
        for (uint32_t i = 0; i <= admit; i++)
            push_one(table, key);
    return table;
}

/* Processor time of pulls of keys that have rows. */
static double pull_s(struct tern_table *table, size_t batch)
{
    static float rows[BATCH * LENGTH];
    uint64_t keys[BATCH], state = 1;
    struct timespec begun, ended;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
    for (size_t i = 0; i < N_PULLED; i += batch) {
        for (size_t k = 0; k < batch; k++) {
            state = state * UINT64_C(6364136223846793005) + 1;
            keys[k] = (state >> 33) % N_ADMITTED;
        }
        check(tern_pull(worker, table, keys, batch, rows));
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
    return (double)(ended.tv_sec - begun.tv_sec) + (double)(ended.tv_nsec - begun.tv_nsec) / 1e9;
}

static int measure_admission(void)
{
    struct tern_table *const tables[2] = {open_admitting("plain", 0), open_admitting("admits", 1)};
    for (size_t batch = 1; batch <= BATCH; batch *= BATCH) {
        double ratios[N_TURNS];
        for (int i = 0; i < N_TURNS; i++) {
            const double plain = pull_s(tables[0], batch);
            ratios[i] = pull_s(tables[1], batch) / plain;
        }
        qsort(ratios, N_TURNS, sizeof *ratios, compare_times);
        printf("pulls of %zu keys: %.2f of the time without admission (%.2f to %.2f)\n", batch,
               ratios[N_TURNS / 2], ratios[0], ratios[N_TURNS - 1]);
    }
    return 0;
}

int main(int argc, char **argv)
{
    check(tern_node_open(NULL, &node));
    check(tern_worker_open(node, &worker));
    if (argc > 1 && !strcmp(argv[1], "trace"))
        return measure_trace();
    if (argc > 1 && !strcmp(argv[1], "new"))
        return measure_new(argc > 2 ? atof(argv[2]) : 100);
    if (argc > 1 && !strcmp(argv[1], "sweep"))
        return measure_sweep();
    if (argc > 1 && !strcmp(argv[1], "admit"))
        return measure_admission();
    fprintf(stderr, "usage: evict trace < TRACE | new [MILLIONS] | sweep | admit\n");
    return 2;
}
