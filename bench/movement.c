/*
 * movement - a trial: what it costs two processes on one host to send each other rows, if nothing else is to be done.
 *
 *     build/bench/movement
 *
 * The work of `tern bench manage` on plain arrays: two processes copy batches of 100 rows of 128 floats out of a million
 * of their own, compute a dot product and an axpy with each, and add to the rows. In turns with that they also exchange
 * rows, a given number per key of a batch, through shared memory: one copy into a ring, one out of it, both prefetched.
 * No index, latch, intent or decision, nobody waits, and all know at all times which rows are to be sent. The ratio is
 * the most that a manager which moves so many rows can have of a single node that is as fast as plain arrays. `adaptive-apart`
 * moves 0.32 rows per key under Zipf and 0.51 with uniform keys, of which half are at the other node: the bytes per
 * access that the benchmark prints, twice, since a key is pulled and pushed, over the 520 of a row and its key. Medians
 * of five repeats, and their spread.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/pages.h"

enum {
    ROWS = 1000000,
    LENGTH = 128,
    BATCH = 100,
    DRAWN = 40000 * BATCH, /* keys of a process, walked round */
    AHEAD = 16,            /* rows between a prefetch and its use */
    PLACES = 4096,         /* of a ring */
    AT_ONCE = 128,         /* rows sent or received between two batches, at most */
    REPEATS = 5,
    LINE = 64,
};
#define SECONDS 0.7

typedef float row[LENGTH];

/* What one process sends the other. */
struct ring {
    _Alignas(LINE) _Atomic uint64_t n_sent;
    _Alignas(LINE) _Atomic uint64_t n_taken;
    struct {
        uint64_t key;
        row value;
    } places[PLACES];
};

struct shared {
    struct ring rings[2];
    double rates[2]; /* keys per second of each process */
    _Atomic int n_ready;
};

/* One of the two processes. */
struct side {
    struct ring *out, *in;
    row *rows;
    uint32_t *keys;
    uint64_t random;
    row values[BATCH], updates[BATCH], weights;
};

static uint64_t draw(struct side *side)
{
    side->random ^= side->random << 13;
    side->random ^= side->random >> 7;
    return side->random ^= side->random << 17;
}

static void *need(void *memory)
{
    if (memory != NULL && memory != MAP_FAILED)
        return memory;
    perror("movement");
    exit(1);
}

/* Rank r has a probability proportional to 1 / r; ranks are scattered over the rows. */
static void draw_zipf(struct side *side)
{
    double *reach = need(malloc(ROWS * sizeof *reach)), all = 0;
    for (size_t i = 0; i < ROWS; i++)
        reach[i] = all += 1.0 / (double)(i + 1);
    for (size_t i = 0; i < DRAWN; i++) {
        double u = (double)(draw(side) >> 11) * 0x1p-53 * all;
        size_t low = 0, high = ROWS - 1;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (reach[middle] < u)
                low = middle + 1;
            else
                high = middle;
        }
        side->keys[i] = (uint32_t)(low * UINT64_C(618033) % ROWS);
    }
    free(reach);
}

static void draw_uniform(struct side *side)
{
    for (size_t i = 0; i < DRAWN; i++)
        side->keys[i] = (uint32_t)(draw(side) % ROWS);
}

static void fetch(const row *from)
{
    for (size_t i = 0; i < sizeof *from; i += LINE)
        __builtin_prefetch((const char *)from + i, 0, 2);
}

static void work(struct side *side, const uint32_t *keys)
{
    for (size_t i = 0; i < AHEAD; i++)
        fetch(&side->rows[keys[i]]);
    for (size_t i = 0; i < BATCH; i++) {
        if (i + AHEAD < BATCH)
            fetch(&side->rows[keys[i + AHEAD]]);
        memcpy(side->values[i], side->rows[keys[i]], sizeof(row));
    }
    for (size_t i = 0; i < BATCH; i++) {
        float sums[8] = {0}, sum = 0;
        for (size_t j = 0; j < LENGTH; j += 8)
            for (size_t k = 0; k < 8; k++)
                sums[k] += side->values[i][j + k] * side->weights[j + k];
        for (size_t k = 0; k < 8; k++)
            sum += sums[k];
        float step = 1e-6f * (1 - sum);
        for (size_t j = 0; j < LENGTH; j++)
            side->updates[i][j] = step * side->weights[j];
    }
    for (size_t i = 0; i < BATCH; i++)
        for (size_t j = 0; j < LENGTH; j++)
            side->rows[keys[i]][j] += side->updates[i][j];
}

/* Sends n rows, or as many as there is room for; gives their number. */
static size_t send_rows(struct side *side, size_t n)
{
    struct ring *ring = side->out;
    uint64_t sent = atomic_load_explicit(&ring->n_sent, memory_order_relaxed);
    uint64_t room = PLACES - (sent - atomic_load_explicit(&ring->n_taken, memory_order_acquire));
    uint32_t keys[AT_ONCE];
    n = n < room ? n : room;
    n = n < AT_ONCE ? n : AT_ONCE;
    for (size_t i = 0; i < n; i++)
        fetch(&side->rows[keys[i] = (uint32_t)(draw(side) % ROWS)]);
    for (size_t i = 0; i < n; i++) {
        ring->places[(sent + i) % PLACES].key = keys[i];
        memcpy(ring->places[(sent + i) % PLACES].value, side->rows[keys[i]], sizeof(row));
    }
    atomic_store_explicit(&ring->n_sent, sent + n, memory_order_release);
    return n;
}

static void take_rows(struct side *side)
{
    struct ring *ring = side->in;
    uint64_t taken = atomic_load_explicit(&ring->n_taken, memory_order_relaxed);
    uint64_t n = atomic_load_explicit(&ring->n_sent, memory_order_acquire) - taken;
    n = n < AT_ONCE ? n : AT_ONCE;
    for (size_t i = 0; i < n; i++)
        fetch(&side->rows[ring->places[(taken + i) % PLACES].key]);
    for (size_t i = 0; i < n; i++)
        memcpy(side->rows[ring->places[(taken + i) % PLACES].key],
               ring->places[(taken + i) % PLACES].value, sizeof(row));
    atomic_store_explicit(&ring->n_taken, taken + n, memory_order_release);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* The keys of this process per second, with `share` rows sent per key. */
static double measure(struct side *side, double share)
{
    const double begin = now();
    double to_send = 0, seconds = 0;
    size_t at = 0, n = 0;
    for (; seconds < SECONDS; seconds = now() - begin, n += BATCH) {
        work(side, side->keys + at);
        at = at + 2 * BATCH <= DRAWN ? at + BATCH : 0;
        if (share == 0)
            continue;
        to_send += share * BATCH;
        to_send -= (double)send_rows(side, (size_t)to_send);
        take_rows(side);
    }
    return (double)n / seconds;
}

/* Both processes wait for each other before each measurement. */
static void meet(struct shared *shared, int n)
{
    atomic_fetch_add(&shared->n_ready, 1);
    while (atomic_load(&shared->n_ready) < 2 * n)
        usleep(100);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(struct shared *shared, int self, const char *name, double share)
{
    struct side *side = need(calloc(1, sizeof *side));
    side->out = &shared->rings[self];
    side->in = &shared->rings[1 - self];
    side->rows = need(pages_new((size_t)ROWS * sizeof(row)));
    side->keys = need(malloc(DRAWN * sizeof *side->keys));
    side->random = UINT64_C(88172645463325252) + (uint64_t)self;
    memset(side->rows, 0, (size_t)ROWS * sizeof(row));
    for (size_t i = 0; i < LENGTH; i++)
        side->weights[i] = 0.01f * (float)i;
    if (strcmp(name, "zipf") == 0)
        draw_zipf(side);
    else
        draw_uniform(side);
    double ratios[REPEATS], ns[2][REPEATS];
    for (int i = 0, n = 0; i < REPEATS; i++) {
        for (int moves = 0; moves < 2; moves++) {
            meet(shared, ++n);
            shared->rates[self] = measure(side, moves ? share : 0);
            meet(shared, ++n);
            ns[moves][i] = 2e9 / (shared->rates[0] + shared->rates[1]);
        }
        ratios[i] = ns[0][i] / ns[1][i];
    }
    qsort(ratios, REPEATS, sizeof *ratios, compare);
    for (int moves = 0; moves < 2; moves++)
        qsort(ns[moves], REPEATS, sizeof *ns[moves], compare);
    if (self == 0)
        printf(
            "%-8s %.0f ns a key without; %.0f with %.2f rows sent per key: %.2f (%.2f to %.2f)\n",
            name, ns[0][REPEATS / 2], ns[1][REPEATS / 2], share, ratios[REPEATS / 2], ratios[0],
            ratios[REPEATS - 1]);
    fflush(stdout);
    _exit(0);
}

int main(void)
{
    static const struct {
        const char *name;
        double share;
    } cases[] = {{"zipf", 0.32}, {"uniform", 0.51}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shared *shared = need(
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        for (int self = 0; self < 2; self++)
            if (fork() == 0)
                run(shared, self, cases[i].name, cases[i].share);
        while (wait(NULL) > 0)
            ;
        munmap(shared, sizeof *shared);
    }
    return 0;
}
