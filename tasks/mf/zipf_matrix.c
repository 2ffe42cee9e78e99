/* zipf_matrix - makes a matrix with skewed rows and columns. See zipf_matrix.h. */
#include "mf/zipf_matrix.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/outputs.h"
#include "common/rng.h"
#include "common/sentence.h"
#include "common/zipf.h"

enum {
    TRUE_RANK = 10,
    DRAWS_PER_CELL = 100, /* that a row may take in the mean */
};

/* ---- The matrix ------------------------------------------------------------------------------ */

struct making {
    const struct zipf_matrix *matrix;
    struct zipf columns;
    struct rng rng;
    double most;     /* cells of a row */
    double scale;    /* row i has scale * i^-skew cells, or `most` */
    int64_t *row_of; /* of each column, the last row that has a cell in it */
    int64_t n_draws; /* that are left to the row */
    int64_t passed;  /* columns 1 .. passed are taken in the row */
    float *factors;  /* of each column */
    struct outfile *out;
};

static float draw_normal(struct rng *rng)
{
    double radius = sqrt(-2 * log(1 - rng_unit(rng)));
    return (float)(radius * cos(6.283185307179586 * rng_unit(rng)));
}

/* Factors whose products have the variance 1. */
static void draw_factors(struct rng *rng, float factors[TRUE_RANK])
{
    float size = powf(TRUE_RANK, -0.25f);
    for (size_t i = 0; i < TRUE_RANK; i++)
        factors[i] = size * draw_normal(rng);
}

/* Shares the cells out to the rows, the first of which get as many as a row may have. It looks for the first
 * row that gets less from the last row on: the smallest weights come first, lest they be lost in the sum. */
static void find_scale(struct making *making)
{
    const struct zipf_matrix *matrix = making->matrix;
    double weight = 0;
    for (int64_t row = matrix->n_rows; row > 0; row--) {
        double own = pow((double)row, -matrix->skew);
        double n_left = (double)matrix->n_cells - (double)(row - 1) * making->most;
        weight += own;
        if (row < matrix->n_rows && n_left / weight * own > making->most)
            break;
        making->scale = fmax(n_left, 0) / weight;
    }
}

/*
 * A column that the row does not have yet. With a steep law a row that is half full would draw the columns
 * it has practically for ever. When it has drawn too often it gets the most frequent of those it lacks,
 * which is also the likeliest one.
 */
static int64_t choose_column(struct making *making, int64_t row)
{
    for (making->n_draws += DRAWS_PER_CELL; making->n_draws > 0; making->n_draws--) {
        int64_t column = zipf_draw(&making->columns, &making->rng);
        if (making->row_of[column - 1] != row)
            return column;
    }
    while (making->row_of[making->passed] == row)
        making->passed++;
    return making->passed + 1;
}

static void write_cell(struct making *making, int64_t row, const float *row_factors)
{
    int64_t column = choose_column(making, row);
    making->row_of[column - 1] = row;
    const float *column_factors = making->factors + (column - 1) * TRUE_RANK;
    double value = making->matrix->noise * (double)draw_normal(&making->rng);
    for (size_t i = 0; i < TRUE_RANK; i++)
        value += (double)(row_factors[i] * column_factors[i]);
    outfile_print(making->out, "%" PRId64 "\t%" PRId64 "\t%.4f\n", row, column, value);
}

static void write_rows(struct making *making)
{
    const struct zipf_matrix *matrix = making->matrix;
    float factors[TRUE_RANK];
    double wanted = 0, n_written = 0;
    for (int64_t row = 1; row <= matrix->n_rows; row++) {
        draw_factors(&making->rng, factors);
        making->n_draws = making->passed = 0;
        wanted += fmin(making->scale * pow((double)row, -matrix->skew), making->most);
        for (; n_written < round(wanted); n_written++)
            write_cell(making, row, factors);
    }
}

static bool make(struct making *making, const char *folder)
{
    struct outputs outputs;
    int64_t n_columns = making->matrix->n_columns;
    for (int64_t i = 0; i < n_columns; i++)
        draw_factors(&making->rng, making->factors + i * TRUE_RANK);
    find_scale(making);
    if (!outputs_open(&outputs, folder))
        return false;
    making->out = outputs_add(&outputs, "ratings.tsv");
    if (making->out == NULL) {
        outputs_discard(&outputs);
        return false;
    }
    write_rows(making);
    return outputs_commit(&outputs);
}

bool zipf_matrix_make(const struct zipf_matrix *matrix, const char *folder)
{
    size_t n_columns = (size_t)matrix->n_columns;
    struct making making = {.matrix = matrix,
                            .columns = zipf_make(matrix->skew, matrix->n_columns),
                            .rng = rng_seed((uint64_t)matrix->seed, 0),
                            .most = (double)((matrix->n_columns + 1) / 2)};
    if ((double)matrix->n_cells > making.most * (double)matrix->n_rows)
        return task_fail("%" PRId64 " cells are more than half of the %" PRId64 " x %" PRId64
                         " there are",
                         matrix->n_cells, matrix->n_rows, matrix->n_columns);
    making.row_of = calloc(n_columns, sizeof *making.row_of);
    making.factors = malloc(n_columns * TRUE_RANK * sizeof *making.factors);
    bool ok = (making.row_of != NULL && making.factors != NULL) || task_fail_memory("the matrix");
    ok = ok && make(&making, folder);
    free(making.row_of);
    free(making.factors);
    return ok;
}
