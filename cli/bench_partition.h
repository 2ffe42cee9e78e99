/*
 * bench_partition - what the files of tern bench partition share.
 *
 *   bench_partition.c         methods beside METIS, by pairs, remote share and processor time
 *   bench_partition_train.c   --train: models under each placement and under graph:S
 *   bench_partition_sweep.c   --sweep: blocks, initial blocks, threads and nodes
 *   bench_partition_svg.c     its map of bytes between nodes
 */
#ifndef CLI_BENCH_PARTITION_H
#define CLI_BENCH_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include "partition/partition.h"

enum { PARTITION_MAX_NODES = 16, PARTITION_MAX_MAPS = 8, PARTITION_MAX_REPEATS = 25 };

struct partition_training {
    const char *data, *svg;
    int64_t n_nodes, n_epochs, seed;
    double replicas, limit_s;
    bool json;
};

struct partition_sweep {
    const char *data;
    uint32_t n_parts;
    int64_t n_repeats, seed; /* seeds of each point, and the first one */
    bool json;
};

/* The bytes that node i and node j exchange in an epoch about keys that i uses and that are at home at j. */
struct partition_map {
    const char *name;
    uint32_t n_nodes;
    double bytes[PARTITION_MAX_NODES][PARTITION_MAX_NODES];
};

/* Whether libmetis5 is installed. */
bool partition_has_metis(void);

/* Returns the exit status of the command. */
int partition_train(const struct partition_training *training);

int partition_sweep(const struct partition_sweep *sweep);

/* Draws maps side by side; false after an error message. */
bool partition_draw(const char *path, const struct partition_map *maps, size_t n);

#endif
