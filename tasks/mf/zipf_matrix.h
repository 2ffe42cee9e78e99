/*
 * zipf_matrix - makes a matrix as the papers on parameter managers use it, to factorize: some rows and
 * columns have very many known cells, most have few.
 *
 * The i-th most frequent row, and the j-th most frequent column, have known cells in proportion to
 * i^-skew and j^-skew, as far as that is possible: a row has at most half of its cells known, and none
 * is known twice. A row that has drawn 100 times per cell and still lacks some gets the most frequent
 * columns it does not have: of steep laws it would draw others only after a very long time. Rows and
 * columns are called 1, 2, 3 ... by their frequency. A cell is the product of two vectors of ten normal
 * numbers, which has the variance 1, plus normal noise. So no model can be expected to predict better than
 * by an RMSE of the size of the noise.
 */
#ifndef TASKS_MF_ZIPF_MATRIX_H
#define TASKS_MF_ZIPF_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

struct zipf_matrix {
    int64_t n_rows, n_columns, n_cells;
    double skew;
    double noise; /* standard deviation */
    int64_t seed;
};

/* Writes ratings.tsv to `folder`: row, column and value, separated by tabs. False after task_fail(). */
bool zipf_matrix_make(const struct zipf_matrix *matrix, const char *folder);

#endif
