/*
 * measure - what the programs of this folder share: a filled store, keys,
 * threads and medians.
 *
 * Contenders take turns within each repeat, so that a disturbance of the
 * machine meets all of them. All read the same keys in the same batches.
 * Whatever fails ends the program with a sentence.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/pages.h"
#include "base/rand.h"
#include "store/pipeline.h"

enum {
    N_ROWS = 1000000,
    STREAM_KEYS = 1 << 20, /* drawn per thread and walked round */
    BATCH_KEYS = 100,
    BATCHES = 20000, /* of one measurement, per thread */
    REPEATS = 5,
    MAX_THREADS = 2,
    FILL_KEYS = 1000,
};

#define ZIPF_EXPONENT 1.1
#define SCATTER UINT64_C(618033) /* has no divisor in common with N_ROWS */

/* What is read: a store with all its rows, or the rows of a plain array. */
struct subject {
    struct store store;
    char *array;
    size_t bytes; /* of a row */
};

typedef void read_loop(const struct subject *subject, const uint64_t *keys, size_t n, char *values);

struct contender {
    const char *name;
    read_loop *read;
    const struct subject *subject;
};

struct lane {
    const struct contender *contender;
    const uint64_t *keys;
    char *values;
    pthread_barrier_t *start;
    pthread_t thread;
    double ns;
};

static inline void need(bool held, const char *what)
{
    if (held)
        return;
    fprintf(stderr, "bench: %s failed: %s\n", what, tern_error());
    exit(1);
}

/* Opens a store with all its rows; `change`, unless NULL, sees it before they
 * are made. */
static inline void subject_open(struct subject *subject, uint32_t length,
                                struct tern_updater updater, void (*change)(struct store *))
{
    struct tern_table_options options = {
        .struct_size = sizeof options, .n_keys = N_ROWS, .length = length, .updater = updater};
    *subject = (struct subject){.bytes = length * sizeof(float)};
    need(store_init(&subject->store, "bench", &options, NULL) == TERN_OK, "opening a store");
    if (change)
        change(&subject->store);
    uint64_t keys[FILL_KEYS];
    for (uint64_t done = 0; done < N_ROWS; done += FILL_KEYS) {
        for (uint64_t i = 0; i < FILL_KEYS; i++)
            keys[i] = done + i;
        need(store_reserve(&subject->store, keys, FILL_KEYS, NULL) == TERN_OK, "making rows");
    }
}

/* Gives the subject a plain array as well. */
static inline void subject_add_array(struct subject *subject)
{
    subject->array = pages_new(N_ROWS * subject->bytes);
    need(subject->array, "mapping an array");
    memset(subject->array, 0, N_ROWS * subject->bytes);
}

static inline void subject_close(struct subject *subject)
{
    store_fini(&subject->store);
    pages_free(subject->array, N_ROWS * subject->bytes);
}

/* The first rank whose cumulative weight is above `weight`. */
static inline uint64_t rank_of(const double *upto, double weight)
{
    size_t low = 0, high = N_ROWS - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (upto[middle] > weight)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* A stream of keys: uniform, or Zipf with the ranks scattered over the rows. */
static inline uint64_t *draw_keys(bool zipf, uint64_t stream)
{
    uint64_t *keys = malloc(STREAM_KEYS * sizeof *keys);
    double *upto = malloc(N_ROWS * sizeof *upto), sum = 0;
    need(keys && upto, "drawing keys");
    for (size_t i = 0; i < N_ROWS; i++)
        upto[i] = sum += pow((double)(i + 1), -ZIPF_EXPONENT);
    for (size_t i = 0; i < STREAM_KEYS; i++) {
        uint64_t bits = rand_at(hash_u64(stream + 1), i);
        keys[i] = zipf ? rank_of(upto, rand_unit(bits) * sum) * SCATTER % N_ROWS
                       : rand_below(bits, N_ROWS);
    }
    free(upto);
    return keys;
}

static inline double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline void *run_lane(void *argument)
{
    struct lane *lane = argument;
    const struct contender *c = lane->contender;
    pthread_barrier_wait(lane->start);
    double start_ns = now_ns();
    for (size_t i = 0, at = 0; i < BATCHES; i++) {
        c->read(c->subject, lane->keys + at, BATCH_KEYS, lane->values);
        at += BATCH_KEYS;
        if (at + BATCH_KEYS > STREAM_KEYS)
            at = 0;
    }
    lane->ns = now_ns() - start_ns;
    return NULL;
}

/* One measurement: ns per key, averaged over the threads. */
static inline double measure_once(const struct contender *contender, bool zipf, size_t n_threads)
{
    static uint64_t *streams[2][MAX_THREADS];
    pthread_barrier_t start;
    struct lane lanes[MAX_THREADS];
    double sum_ns = 0;
    pthread_barrier_init(&start, NULL, (unsigned)n_threads);
    for (size_t i = 0; i < n_threads; i++) {
        if (!streams[zipf][i])
            streams[zipf][i] = draw_keys(zipf, i);
        char *values = aligned_alloc(LINE_BYTES, BATCH_KEYS * LINE_BYTES *
                                                     (contender->subject->bytes / LINE_BYTES + 1));
        need(values, "allocating values");
        lanes[i] = (struct lane){contender, streams[zipf][i], values, &start, 0, 0};
    }
    for (size_t i = 0; i < n_threads; i++)
        need(!pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i]), "starting a thread");
    for (size_t i = 0; i < n_threads; i++) {
        pthread_join(lanes[i].thread, NULL);
        free(lanes[i].values);
        sum_ns += lanes[i].ns;
    }
    pthread_barrier_destroy(&start);
    return sum_ns / (double)n_threads / (BATCHES * BATCH_KEYS);
}

static inline int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Prints one line: the median of each contender. */
static inline void measure(const struct contender *contenders, size_t n, bool zipf,
                           size_t n_threads, const char *bench, bool json)
{
    enum { MAX_CONTENDERS = 8 };
    double ns[MAX_CONTENDERS][REPEATS];
    const char *dist = zipf ? "zipf" : "uniform";
    for (size_t repeat = 0; repeat < REPEATS; repeat++)
        for (size_t c = 0; c < n; c++)
            ns[c][repeat] = measure_once(&contenders[c], zipf, n_threads);
    if (!json)
        printf("  %-7s  %7zu", dist, n_threads);
    for (size_t c = 0; c < n; c++) {
        qsort(ns[c], REPEATS, sizeof ns[c][0], by_size);
        double median_ns = ns[c][REPEATS / 2];
        if (json)
            printf("{\"bench\":\"%s\",\"len\":%zu,\"dist\":\"%s\",\"threads\":%zu,"
                   "\"loop\":\"%s\","
                   "\"ns_per_key\":%.2f,\"min\":%.2f,\"max\":%.2f}\n",
                   bench, contenders[c].subject->bytes / sizeof(float), dist, n_threads,
                   contenders[c].name, median_ns, ns[c][0], ns[c][REPEATS - 1]);
        else
            printf("  %11.2f", median_ns);
    }
    if (!json)
        printf("\n");
    fflush(stdout);
}

/* A table: a heading, then a line for each distribution and number of threads.
 */
static inline void measure_all(const struct contender *contenders, size_t n, const char *bench,
                               bool json)
{
    size_t length = contenders[0].subject->bytes / sizeof(float);
    if (!json) {
        printf("\n%zu float%s per key\n\n  keys     threads", length, length == 1 ? "" : "s");
        for (size_t c = 0; c < n; c++)
            printf("  %11s", contenders[c].name);
        printf("\n");
    }
    for (int zipf = 0; zipf <= 1; zipf++)
        for (size_t n_threads = 1; n_threads <= MAX_THREADS; n_threads++)
            measure(contenders, n, zipf, n_threads, bench, json);
}

/* Whether --json was given; ends the program when anything else was. */
static inline bool json_wanted(int argc, char **argv)
{
    bool json = argc == 2 && !strcmp(argv[1], "--json");
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: %s [--json]\n", argv[0]);
        exit(2);
    }
    if (!json)
        printf("ns per key; medians of %d; %d keys, batches of %d; %s\n", REPEATS, N_ROWS,
               BATCH_KEYS, tern_kernel_name());
    return json;
}

/* The store's own reader. */
static inline void read_store(const struct subject *subject, const uint64_t *keys, size_t n,
                              char *values)
{
    uint32_t missed[BATCH_KEYS];
    need(!store_pull(&subject->store, keys, n, values, missed), "a pull");
}

#endif
