/*
 * movement - a trial: what it costs two processes on one host to send each other rows, if nothing else is to be done.
 *
 *     build/bench/movement [NAME...]
 *
 * The work of three benchmarks on plain arrays: two processes copy batches of rows out of many of their own, compute a dot
 * product and an axpy with each, and add to the rows. In turns with that they also exchange rows, a given number per key of
 * a batch, through shared memory: one copy into a ring, one out of it, both prefetched. No index, latch, intent or
 * decision, nobody waits, and all know at all times which rows are to be sent. The ratio is the most that a manager which
 * moves so many rows can have of a single node that is as fast as plain arrays. How many rows `adaptive-apart` moves per
 * key is what the benchmark prints as bytes, over those of a row and its key:
 *
 *     manage   `tern bench manage`, a million rows of 128 floats, Zipf: 0.32; uniform, where half of the keys are at the
 *              other node: 0.51. Bytes are per access, and a key is pulled and pushed.
 *     loop     `tern bench loop --compute 0`, a million rows of 32 floats, Zipf 1.1: 2,370 bytes per batch of 100 keys, 0.17.
 *     loop-50, loop-200   the same with as many microseconds of computing in each step: 3,140 and 3,920 bytes, 0.23 and 0.29.
 *     kge      `tern bench task kge`, 41,000 rows of 400 floats (a value and AdaGrad's sum for each of 200), a triple of
 *              nine keys per batch, of which six are negatives with uniform keys: 5,270 bytes per triple, 0.36.
 *
 * A NAME is the begin of one of these words: only they are measured. Rates are keys per second of CPU time, which other work on the machine disturbs less. Medians of five repeats, and their
 * spread.
 */
#include <math.h>
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
    MAX_LENGTH = 400,
    MAX_BATCH = 100,
    DRAWN = 4000000,      /* keys of a process, walked round */
    AHEAD = 16,           /* rows between a prefetch and its use */
    PLACES = 4096,        /* of a ring */
    KEYS_PER_LOOK = 1000, /* between two looks at the clock */
    AT_ONCE = 128,        /* rows sent or received between two batches, at most */
    REPEATS = 5,
    LINE = 64,
};
#define SECONDS 0.4

struct work {
    const char *name;
    double exponent; /* of Zipf's law; 0: all rows alike */
    size_t n_rows, length, batch;
    double share;      /* rows sent per key */
    double compute_us; /* of a batch */
};

/* What one process sends the other. */
struct ring {
    _Alignas(LINE) _Atomic uint64_t n_sent;
    _Alignas(LINE) _Atomic uint64_t n_taken;
    struct {
        uint64_t key;
        float value[MAX_LENGTH];
    } places[PLACES];
};

struct shared {
    struct ring rings[2];
    double rates[2]; /* keys per second of each process */
    _Atomic int n_ready;
};

/* One of the two processes. */
struct side {
    const struct work *work;
    struct ring *out, *in;
    float *rows;
    uint32_t *keys;
    uint64_t random;
    float values[MAX_BATCH * MAX_LENGTH], updates[MAX_BATCH * MAX_LENGTH], weights[MAX_LENGTH];
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

/* Rank r has a probability proportional to 1 / r^exponent; ranks are scattered over the rows. */
static void draw_zipf(struct side *side)
{
    const size_t n_rows = side->work->n_rows;
    double *reach = need(malloc(n_rows * sizeof *reach)), all = 0;
    for (size_t i = 0; i < n_rows; i++)
        reach[i] = all += pow((double)(i + 1), -side->work->exponent);
    for (size_t i = 0; i < DRAWN; i++) {
        double u = (double)(draw(side) >> 11) * 0x1p-53 * all;
        size_t low = 0, high = n_rows - 1;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (reach[middle] < u)
                low = middle + 1;
            else
                high = middle;
        }
        side->keys[i] = (uint32_t)(low * UINT64_C(618033) % n_rows);
    }
    free(reach);
}

static void draw_uniform(struct side *side)
{
    for (size_t i = 0; i < DRAWN; i++)
        side->keys[i] = (uint32_t)(draw(side) % side->work->n_rows);
}

static float *row_of(const struct side *side, uint64_t key)
{
    return side->rows + key * side->work->length;
}

static void fetch(const struct side *side, uint64_t key)
{
    for (size_t i = 0; i < side->work->length; i += LINE / sizeof(float))
        __builtin_prefetch(row_of(side, key) + i, 0, 2);
}

static size_t bytes_of(const struct work *work)
{
    return work->length * sizeof(float);
}

/* Computing is a chain of multiplications, as in `tern bench loop`. */
static double spins_per_us;

static uint64_t spin(uint64_t x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        x = x * UINT64_C(6364136223846793005) + 1;
        __asm__ volatile("" : "+r"(x)); /* each must be computed */
    }
    return x;
}

static void work(struct side *side, const uint32_t *keys)
{
    const size_t length = side->work->length, batch = side->work->batch;
    for (size_t i = 0; i < AHEAD && i < batch; i++)
        fetch(side, keys[i]);
    for (size_t i = 0; i < batch; i++) {
        if (i + AHEAD < batch)
            fetch(side, keys[i + AHEAD]);
        memcpy(side->values + i * length, row_of(side, keys[i]), bytes_of(side->work));
    }
    for (size_t i = 0; i < batch; i++) {
        const float *value = side->values + i * length;
        float sums[8] = {0}, sum = 0;
        for (size_t j = 0; j < length; j += 8)
            for (size_t k = 0; k < 8; k++)
                sums[k] += value[j + k] * side->weights[j + k];
        for (size_t k = 0; k < 8; k++)
            sum += sums[k];
        float step = 1e-6f * (1 - sum);
        for (size_t j = 0; j < length; j++)
            side->updates[i * length + j] = step * side->weights[j];
    }
    (void)spin(side->random, (uint64_t)(side->work->compute_us * spins_per_us));
    for (size_t i = 0; i < batch; i++) {
        float *row = row_of(side, keys[i]);
        for (size_t j = 0; j < length; j++)
            row[j] += side->updates[i * length + j];
    }
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
        fetch(side, keys[i] = (uint32_t)(draw(side) % side->work->n_rows));
    for (size_t i = 0; i < n; i++) {
        ring->places[(sent + i) % PLACES].key = keys[i];
        memcpy(ring->places[(sent + i) % PLACES].value, row_of(side, keys[i]),
               bytes_of(side->work));
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
        fetch(side, ring->places[(taken + i) % PLACES].key);
    for (size_t i = 0; i < n; i++)
        memcpy(row_of(side, ring->places[(taken + i) % PLACES].key),
               ring->places[(taken + i) % PLACES].value, bytes_of(side->work));
    atomic_store_explicit(&ring->n_taken, taken + n, memory_order_release);
}

static double cpu_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void measure_spins(void)
{
    enum { TRIALS = 20, SPINS = 1000000 };
    for (int i = 0; i < TRIALS; i++) {
        const double begin = cpu_s();
        (void)spin((uint64_t)i, SPINS);
        const double now = SPINS / (1e6 * (cpu_s() - begin));
        spins_per_us = now > spins_per_us ? now : spins_per_us;
    }
}

/* The keys of this process per second, with `share` rows sent per key. */
static double measure(struct side *side, double share)
{
    const double begin = cpu_s();
    const size_t batch = side->work->batch;
    double to_send = 0, seconds = 0;
    size_t at = 0, n = 0;
    for (; seconds < SECONDS; seconds = cpu_s() - begin)
        for (size_t keys = 0; keys < KEYS_PER_LOOK; keys += batch, n += batch) {
            work(side, side->keys + at);
            at = at + 2 * batch <= DRAWN ? at + batch : 0;
            to_send += share * (double)batch;
            if (to_send < AT_ONCE / 2)
                continue;
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

static void open_side(struct side *side, struct shared *shared, int self)
{
    const size_t n_rows = side->work->n_rows, bytes = n_rows * bytes_of(side->work);
    side->out = &shared->rings[self];
    side->in = &shared->rings[1 - self];
    side->rows = need(pages_new(bytes));
    side->keys = need(malloc(DRAWN * sizeof *side->keys));
    side->random = UINT64_C(88172645463325252) + (uint64_t)self;
    memset(side->rows, 0, bytes);
    for (size_t i = 0; i < MAX_LENGTH; i++)
        side->weights[i] = 0.01f * (float)i;
    if (side->work->exponent > 0)
        draw_zipf(side);
    else
        draw_uniform(side);
}

static void run(struct shared *shared, int self, const struct work *of)
{
    struct side *side = need(calloc(1, sizeof *side));
    side->work = of;
    open_side(side, shared, self);
    double ratios[REPEATS], ns[2][REPEATS];
    for (int i = 0, n = 0; i < REPEATS; i++) {
        for (int moves = 0; moves < 2; moves++) {
            meet(shared, ++n);
            shared->rates[self] = measure(side, moves ? of->share : 0);
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
            "%-14s %.0f ns a key without; %.0f with %.2f rows sent per key: %.2f (%.2f to %.2f)\n",
            of->name, ns[0][REPEATS / 2], ns[1][REPEATS / 2], of->share, ratios[REPEATS / 2],
            ratios[0], ratios[REPEATS - 1]);
    fflush(stdout);
    _exit(0);
}

static bool is_chosen(const char *name, int n, char *const *names)
{
    bool is_chosen = n == 0;
    for (int i = 0; i < n; i++)
        is_chosen |= strncmp(name, names[i], strlen(names[i])) == 0;
    return is_chosen;
}

int main(int argc, char **argv)
{
    static const struct work works[] = {
        {"manage zipf", 1, 1000000, 128, 100, 0.32, 0},
        {"manage uniform", 0, 1000000, 128, 100, 0.51, 0},
        {"loop", 1.1, 1000000, 32, 100, 0.17, 0},
        {"loop-50", 1.1, 1000000, 32, 100, 0.23, 50},
        {"loop-200", 1.1, 1000000, 32, 100, 0.29, 200},
        {"kge", 0, 41000, 400, 9, 0.36, 0},
    };
    measure_spins();
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        if (!is_chosen(works[i].name, argc - 1, argv + 1))
            continue;
        struct shared *shared = need(
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        for (int self = 0; self < 2; self++)
            if (fork() == 0)
                run(shared, self, &works[i]);
        while (wait(NULL) > 0)
            ;
        munmap(shared, sizeof *shared);
    }
    return 0;
}
