/*
 * bench_raw - the raw loops, one body made into a function per length and instruction set.
 *
 * The constants were measured with distances of 4 to 32 rows and 1 to 32 lines. For the first cache level, 16 rows
 * ahead are best or next to best at all lengths, and after four lines the hardware prefetcher takes over. The
 * second level has room for more: 32 whole rows.
 */
#include "bench_raw.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PREFETCH_ROWS 16
#define PREFETCH_LINES 4
#define FAR_ROWS 32
#define FAR_LINES 32
#define LINE_BYTES 64
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Pushes race on purpose; see bench_raw.h. */
#define RACY __attribute__((no_sanitize("thread")))
#define INLINE static inline RACY __attribute__((always_inline))

/* Eight floats wherever they lie; compilers split it where the machine's registers are narrower. */
typedef float vec8 __attribute__((vector_size(32), aligned(4), may_alias));

INLINE void copy_row(float *to, const float *from, size_t length)
{
    size_t i = 0;
    for (; i + 8 <= length; i += 8)
        *(vec8 *)(to + i) = *(const vec8 *)(from + i);
    for (; i < length; i++)
        to[i] = from[i];
}

INLINE void add_row(float *to, const float *from, size_t length)
{
    size_t i = 0;
    for (; i + 8 <= length; i += 8)
        *(vec8 *)(to + i) += *(const vec8 *)(from + i);
    for (; i < length; i++)
        to[i] += from[i];
}

INLINE void fetch_line(enum raw_op op, enum raw_kind kind, const char *line)
{
    if (op == RAW_PUSH && kind == RAW_FAR)
        __builtin_prefetch(line, 1, 2);
    else if (op == RAW_PUSH)
        __builtin_prefetch(line, 1);
    else if (kind == RAW_FAR)
        __builtin_prefetch(line, 0, 2);
    else
        __builtin_prefetch(line, 0);
}

INLINE void fetch_row(enum raw_op op, enum raw_kind kind, const float *row, size_t length)
{
    size_t lines = (length * sizeof *row + LINE_BYTES - 1) / LINE_BYTES;
    size_t most = kind == RAW_FAR ? FAR_LINES : PREFETCH_LINES;
    for (size_t i = 0; i < lines && i < most; i++)
        fetch_line(op, kind, (const char *)row + i * LINE_BYTES);
}

/* With constants for all but the first, fourth and later arguments, this becomes one tight loop. */
INLINE void loop_body(const struct raw_array *array, enum raw_op op, enum raw_kind kind,
                      size_t length, const uint64_t *rows, size_t n, float *values)
{
    float *base = array->rows;
    const size_t ahead = kind == RAW_FAR ? FAR_ROWS : PREFETCH_ROWS;
    for (size_t i = 0; kind != RAW_SIMPLE && i < n && i < ahead; i++)
        fetch_row(op, kind, base + rows[i] * length, length);
    for (size_t i = 0; i < n; i++) {
        if (kind != RAW_SIMPLE && i + ahead < n)
            fetch_row(op, kind, base + rows[i + ahead] * length, length);
        if (op == RAW_PUSH)
            add_row(base + rows[i] * length, values + i * length, length);
        else
            copy_row(values + i * length, base + rows[i] * length, length);
    }
}

#define LOOP(name, target, op, kind, length)                                                    \
    target RACY static void name(const struct raw_array *array, const uint64_t *rows, size_t n, \
                                 float *values)                                                 \
    {                                                                                           \
        loop_body(array, op, kind, length, rows, n, values);                                    \
    }

/* The loops for one length, in a table by operation and kind. */
#define LOOPS(name, target, length)                                        \
    LOOP(name##_pull, target, RAW_PULL, RAW_SIMPLE, length)                \
    LOOP(name##_pull_prefetch, target, RAW_PULL, RAW_PREFETCH, length)     \
    LOOP(name##_pull_far, target, RAW_PULL, RAW_FAR, length)               \
    LOOP(name##_push, target, RAW_PUSH, RAW_SIMPLE, length)                \
    LOOP(name##_push_prefetch, target, RAW_PUSH, RAW_PREFETCH, length)     \
    LOOP(name##_push_far, target, RAW_PUSH, RAW_FAR, length)               \
    static raw_loop *const name[2][RAW_N_KINDS] = {                        \
        [RAW_PULL] = {name##_pull, name##_pull_prefetch, name##_pull_far}, \
        [RAW_PUSH] = {name##_push, name##_push_prefetch, name##_push_far}, \
    };

/* All lengths for one instruction set, and the function that picks among them. */
#define LOOPS_FOR(set, target)                                                     \
    LOOPS(set##_1, target, 1)                                                      \
    LOOPS(set##_8, target, 8)                                                      \
    LOOPS(set##_32, target, 32)                                                    \
    LOOPS(set##_128, target, 128)                                                  \
    LOOPS(set##_512, target, 512)                                                  \
    LOOPS(set##_any, target, array->length)                                        \
    static raw_loop *set##_loop(enum raw_op op, enum raw_kind kind, size_t length) \
    {                                                                              \
        switch (length) {                                                          \
        case 1:                                                                    \
            return set##_1[op][kind];                                              \
        case 8:                                                                    \
            return set##_8[op][kind];                                              \
        case 32:                                                                   \
            return set##_32[op][kind];                                             \
        case 128:                                                                  \
            return set##_128[op][kind];                                            \
        case 512:                                                                  \
            return set##_512[op][kind];                                            \
        default:                                                                   \
            return set##_any[op][kind];                                            \
        }                                                                          \
    }

LOOPS_FOR(plain, )

#ifdef __x86_64__
LOOPS_FOR(avx2, __attribute__((target("avx2"))))

raw_loop *raw_loop_for(enum raw_op op, enum raw_kind kind, size_t length)
{
    return __builtin_cpu_supports("avx2") ? avx2_loop(op, kind, length)
                                          : plain_loop(op, kind, length);
}
#else
raw_loop *raw_loop_for(enum raw_op op, enum raw_kind kind, size_t length)
{
    return plain_loop(op, kind, length);
}
#endif

bool raw_array_init(struct raw_array *array, size_t n_rows, size_t length)
{
    size_t bytes = n_rows * length * sizeof *array->rows;
    bytes = (bytes + HUGE_PAGE_BYTES - 1) & ~(HUGE_PAGE_BYTES - 1);
    *array = (struct raw_array){.length = length};
    array->rows = aligned_alloc(HUGE_PAGE_BYTES, bytes);
    if (array->rows == NULL)
        return false;
    /* If the advice is not taken, Tern also gets small pages. */
    (void)madvise(array->rows, bytes, MADV_HUGEPAGE);
    memset(array->rows, 0, bytes);
    return true;
}

void raw_array_fini(struct raw_array *array)
{
    free(array->rows);
    *array = (struct raw_array){0};
}
