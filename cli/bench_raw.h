/*
 * bench_raw - loops over a plain array, as an expert would write them without Tern.
 *
 * The array is on huge pages like Tern's memory, and every page of it has been touched. A loop handles one batch
 * per call, as tern_pull and tern_push do. There are three loops: a simple one, and two that prefetch the rows
 * they will need, to the first cache level or, further ahead, to the second. They use AVX2 if the machine has it,
 * and know the usual lengths at compile time. Pushes of several threads race without locks, and may get lost.
 */
#ifndef CLI_BENCH_RAW_H
#define CLI_BENCH_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum raw_op {
    RAW_PULL,
    RAW_PUSH,
};

enum raw_kind { RAW_SIMPLE, RAW_PREFETCH, RAW_FAR, RAW_N_KINDS };

struct raw_array {
    float *rows;
    size_t length;
};

/* Copies n rows to `values`, or adds `values` to them. */
typedef void raw_loop(const struct raw_array *array, const uint64_t *rows, size_t n, float *values);

bool raw_array_init(struct raw_array *array, size_t n_rows, size_t length);
void raw_array_fini(struct raw_array *array);

/* The best variant of a loop for rows of this length on this machine. */
raw_loop *raw_loop_for(enum raw_op op, enum raw_kind kind, size_t length);

#endif
