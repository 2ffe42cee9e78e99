/*
 * sketch - what counting in a table costs beside a raw loop over the cells of a CountMin sketch of the same size: i64 cells, fetched
 * ahead, without bounds, saturation, heaviest keys or other threads. Both count the same keys in batches, in turns.
 *
 *   bench/sketch [KEYS] [WIDTH] [DEPTH]
 *
 * Prints the CPU time of both and the median of the ratios.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tern/tern.h>

#include "base/hash.h"

enum { BATCH = 10000, GROUP = 32, REPEATS = 5, MAX_DEPTH = 16 };

static uint64_t width = 271829;
static uint32_t depth = 5;

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void check(enum tern_status status)
{
    if (status == TERN_OK)
        return;
    fprintf(stderr, "sketch: %s\n", tern_error());
    exit(1);
}

static inline uint64_t cell_of(uint64_t hash, uint32_t row)
{
    const uint64_t own = hash_u64(hash + (row + 1) * UINT64_C(0x9e3779b97f4a7c15));
    return row * width + (uint64_t)((unsigned __int128)own * width >> 64);
}

static inline size_t fetch(const int64_t *cells, const uint64_t *keys, size_t n,
                           uint64_t to[GROUP][MAX_DEPTH])
{
    n = n < GROUP ? n : GROUP;
    for (size_t i = 0; i < n; i++) {
        const uint64_t hash = hash_u64(keys[i]);
        for (uint32_t row = 0; row < depth; row++) {
            to[i][row] = cell_of(hash, row);
            __builtin_prefetch(&cells[to[i][row]], 1);
        }
    }
    return n;
}

static void count_raw(int64_t *cells, const uint64_t *keys, size_t n, const int64_t *counts)
{
    uint64_t found[2][GROUP][MAX_DEPTH];
    size_t n_before = fetch(cells, keys, n, found[0]), at = 0;
    for (unsigned turn = 1; n_before; turn ^= 1) {
        const size_t next = at + n_before,
                     n_next = fetch(cells, keys + next, n - next, found[turn]);
        for (size_t i = 0; i < n_before; i++)
            for (uint32_t row = 0; row < depth; row++)
                cells[found[turn ^ 1][i][row]] += counts[at + i];
        at = next;
        n_before = n_next;
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    const size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) / BATCH * BATCH : 5000000;
    width = argc > 2 ? strtoull(argv[2], NULL, 10) : width;
    depth = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : depth;
    const struct tern_table_options options = {
        .struct_size = sizeof options,
        .index = TERN_SKETCH,
        .type = TERN_I64,
        .length = 1,
        .sketch = {.width = width, .depth = depth < MAX_DEPTH ? depth : MAX_DEPTH}};
    struct tern_node *node;
    struct tern_worker *worker;
    struct tern_table *table;
    depth = options.sketch.depth;
    check(tern_node_open(NULL, &node));
    check(tern_worker_open(node, &worker));
    check(tern_table_open(node, "sketch", &options, &table));
    uint64_t *keys = malloc((n + 1) * sizeof *keys);
    int64_t *cells = calloc(width * depth, sizeof *cells), ones[BATCH];
    double ratios[REPEATS];
    if (!keys || !cells)
        return 1;
    for (size_t i = 0; i < n; i++)
        keys[i] = hash_u64(i) % (1 + hash_u64(~i) % 10000000);
    for (size_t i = 0; i < BATCH; i++)
        ones[i] = 1;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        const double began = cpu_s();
        for (size_t i = 0; i < n; i += BATCH)
            count_raw(cells, keys + i, BATCH, ones);
        const double between = cpu_s();
        for (size_t i = 0; i < n; i += BATCH)
            check(tern_push(worker, table, keys + i, BATCH, ones));
        const double raw = between - began, own = cpu_s() - between;
        ratios[repeat] = raw / own;
        printf("raw %.2f M/s, table %.2f M/s\n", (double)n / raw / 1e6, (double)n / own / 1e6);
    }
    qsort(ratios, REPEATS, sizeof *ratios, compare);
    printf("a table counts at %.2f of the raw loop's speed\n", ratios[REPEATS / 2]);
    check(tern_worker_close(worker));
    check(tern_node_close(node));
    free(keys);
    free(cells);
    return 0;
}
