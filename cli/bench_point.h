/*
 * bench_point - measures Tern and the raw loops on the same keys, in turns.
 *
 * A point is one combination of the lists of `tern bench local`. Each thread is a lane: the lanes start together,
 * and each goes through its own stream of keys, batch by batch. One measurement is a fixed number of batches per
 * lane; its figure is the CPU time per key, averaged over the lanes.
 */
#ifndef CLI_BENCH_POINT_H
#define CLI_BENCH_POINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tern/tern.h>

#include "bench_raw.h"
#include "keys.h"

struct lane {
    struct tern_worker *worker;
    const struct keys *keys; /* at least one batch */
    float *values;           /* room for one batch */
};

struct point {
    enum raw_op op;
    enum tern_index index; /* says which keys of a lane are for the table */
    struct tern_table *table;
    const struct raw_array *array;
    size_t batch;
    const struct lane *lanes;
    size_t n_lanes;
};

/* Medians of the repeats in nanoseconds per key. The raw loop is the one with the lower median; a
 * ratio is raw over Tern: of the medians, and the least and greatest of any one repeat. */
struct figures {
    double ns;
    double raw_ns;
    enum raw_kind raw;
    double ratio, ratio_min, ratio_max;
};

#define MAX_REPEATS 1001

/* Measures for about `seconds`; false after a complaint. */
bool point_measure(const struct point *point, size_t repeats, double seconds,
                   struct figures *figures);

#endif
