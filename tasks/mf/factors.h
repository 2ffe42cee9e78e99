/*
 * factors - the model: a cell is the mean of all cells + scale * (the bias of its row + the bias of its
 * column + the product of their factors).
 *
 * The scale is the standard deviation of the training ratings, so that the same learning rate and penalty
 * suit ratings of 1 to 5, of 1 to 10 and of 0 to 100.
 *
 * A row of parameters, of a row as of a column of the matrix, is
 *
 *   factors[width]  sums[width]  bias  sum of the bias
 *
 * where width is the rank rounded up to whole vectors; factors beyond the rank are 0 and stay so. The
 * sums are those of AdaGrad: of the squares of all gradients so far, and a start that is not 0.
 *
 * Learning from a cell with error e = (value - prediction) / scale follows the gradient of
 * (e^2 + penalty * (|row factors|^2 + |column factors|^2 + both biases^2)) / 2:
 *
 *   g = e * other factor - penalty * own factor      (bias: e - penalty * bias)
 *   sum += g^2,  own += rate * g / sqrt(sum)
 */
#ifndef TASKS_MF_FACTORS_H
#define TASKS_MF_FACTORS_H

#include "mf/plan.h"

struct factors {
    size_t rank;
    size_t width;
    float mean, low, high; /* of the training ratings */
    float scale;           /* their standard deviation */
    float rate, penalty;
};

enum { FACTORS_VECTOR = 8 };

static inline size_t factors_width(size_t rank)
{
    return (rank + FACTORS_VECTOR - 1) / FACTORS_VECTOR * FACTORS_VECTOR;
}

/* Floats of a row of parameters. */
static inline size_t factors_length(size_t rank)
{
    return 2 * factors_width(rank) + 2;
}

/* How many cells ahead of its use a row is fetched; so many more cells than n must be readable. */
enum { FACTORS_AHEAD = 4 };

/*
 * Learns from n cells of one column, in their order, and returns the sum of their squared errors, in units of
 * ratings.
 * cells[i].row counts from `rows`, where rows of parameters follow each other. Rows and column are
 * changed in place.
 */
double factors_learn(const struct factors *model, const struct cell *cells, size_t n, float *rows,
                     float *column);

/* What a cell is, not outside what ratings can be. */
float factors_predict(const struct factors *model, const float *row, const float *column);

/* The first value of a row of parameters: small random factors, and no bias. */
struct factors_start {
    uint64_t seed;
    size_t rank;
};
void factors_start(void *context, uint64_t key, void *value, size_t length);

#endif
