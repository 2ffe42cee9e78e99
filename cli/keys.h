/*
 * keys - streams of keys for benchmarks.
 *
 * A stream is a long array of row numbers drawn from a distribution; readers start again at its end. Under
 * Zipf a fixed permutation scatters the ranks over the rows, so that hot rows are not adjacent. The same arguments
 * give the same stream on every machine.
 */
#ifndef CLI_KEYS_H
#define CLI_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum keys_distribution {
    KEYS_UNIFORM,
    KEYS_ZIPF, /* the row of rank r with a probability proportional to r^-1.1 */
};

struct keys {
    size_t n;
    uint64_t *rows;   /* 0 .. n_rows-1 */
    uint64_t *sparse; /* keys_sparse() of each */
};

/* Draws n rows out of n_rows. `stream` tells apart streams of one distribution, such as those of
 * different threads. False when there is no memory. */
bool keys_init(struct keys *keys, enum keys_distribution distribution, size_t n_rows, size_t n,
               uint64_t stream);
void keys_fini(struct keys *keys);

/* The rows themselves, one at a time: a law of KEYS_ZIPF, and the row for a number from 0 to below 1. */
struct key_law {
    size_t n_rows;
    double *upto;     /* by rank, the sum of the weights up to it */
    uint64_t *row_of; /* by rank */
};

bool key_law_init(struct key_law *law, size_t n_rows);
void key_law_fini(struct key_law *law);
uint64_t key_law_draw(const struct key_law *law, double unit);

/* The i-th number from 0 to below 1 of a stream. */
double keys_unit(uint64_t stream, uint64_t i);

/* A 64-bit key for a row: random-looking and unique. */
uint64_t keys_sparse(uint64_t row);

#endif
