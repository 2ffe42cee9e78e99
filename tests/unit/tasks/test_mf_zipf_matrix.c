/*
 * The synthetic matrix: as many cells as asked for, none twice, frequencies as promised, values of the
 * promised size.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/sentence.h"
#include "mf/zipf_matrix.h"

enum { N_ROWS = 2000, N_COLUMNS = 1000, N_CELLS = 60000 };

struct cells {
    size_t n;
    size_t of_row[N_ROWS + 1], of_column[N_COLUMNS + 1];
    bool known[N_ROWS + 1][N_COLUMNS + 1];
    double sum_of_squares;
};

static struct cells *make(const struct zipf_matrix *matrix)
{
    char folder[] = "/tmp/test_mf_zipf_XXXXXX", path[64], line[128];
    struct cells *cells = calloc(1, sizeof *cells);
    int row, column;
    double value;
    assert_non_null(mkdtemp(folder));
    assert_true(zipf_matrix_make(matrix, folder));
    snprintf(path, sizeof path, "%s/ratings.tsv", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        assert_int_equal(sscanf(line, "%d\t%d\t%lf", &row, &column, &value), 3);
        assert_in_range(row, 1, N_ROWS);
        assert_in_range(column, 1, N_COLUMNS);
        assert_false(cells->known[row][column]);
        cells->known[row][column] = true;
        cells->n++;
        cells->of_row[row]++;
        cells->of_column[column]++;
        cells->sum_of_squares += value * value;
    }
    fclose(file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    return cells;
}

static void cells_are_as_promised(void **state)
{
    const struct zipf_matrix matrix = {N_ROWS, N_COLUMNS, N_CELLS, 1.1, 0.5, 1};
    struct cells *cells = make(&matrix);
    (void)state;
    assert_int_equal(cells->n, N_CELLS);
    /* The first rows are full; the others follow the power. */
    assert_int_equal(cells->of_row[1], N_COLUMNS / 2);
    assert_true(cells->of_row[N_ROWS] >= 1);
    double ratio = (double)cells->of_row[200] / (double)cells->of_row[1600];
    assert_true(ratio > 0.7 * pow(8, 1.1) && ratio < 1.4 * pow(8, 1.1));
    assert_true(cells->of_column[1] > cells->of_column[30]);
    assert_true(cells->of_column[30] > cells->of_column[300]);
    /* 1 for the product, 0.25 for the noise; few columns have most of the cells, hence the room. */
    double variance = cells->sum_of_squares / N_CELLS;
    assert_true(variance > 0.6 && variance < 2.5);
    free(cells);
}

/* The share of columns `first` .. `last` in the sum of i^-0.5 over all. */
static double expected_share(int first, int last)
{
    double own = 0, all = 0;
    for (int i = 1; i <= N_COLUMNS; i++) {
        all += pow(i, -0.5);
        own += i >= first && i <= last ? pow(i, -0.5) : 0;
    }
    return own / all;
}

static void columns_follow_the_power(void **state)
{
    /* So few cells, and so little skew, that it does not matter that none is known twice. */
    const struct zipf_matrix matrix = {N_ROWS, N_COLUMNS, 10000, 0.5, 0, 2};
    struct cells *cells = make(&matrix);
    static const int cuts[] = {1, 50, 200, 500, N_COLUMNS + 1};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        double n = 0;
        for (int k = cuts[i]; k < cuts[i + 1]; k++)
            n += (double)cells->of_column[k];
        assert_true(fabs(n / 10000 - expected_share(cuts[i], cuts[i + 1] - 1)) < 0.02);
    }
    free(cells);
}

/* A law under which a row would draw the same few columns for ever, and weights that differ by more than a
 * double can tell. */
static void steep_laws_have_an_end(void **state)
{
    static const double skews[] = {3, 10};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct zipf_matrix matrix = {N_ROWS, N_COLUMNS, N_CELLS, skews[i], 0.5, 1};
        struct cells *cells = make(&matrix);
        assert_int_equal(cells->n, N_CELLS);
        assert_int_equal(cells->of_row[1], N_COLUMNS / 2);
        assert_true(cells->known[1][1] && cells->known[1][100]);
        assert_true(cells->of_column[1] > cells->of_column[N_COLUMNS]);
        free(cells);
    }
}

static void too_many_cells(void **state)
{
    const struct zipf_matrix matrix = {10, 10, 51, 1.1, 0.5, 1};
    (void)state;
    assert_false(zipf_matrix_make(&matrix, "/nowhere"));
    assert_non_null(strstr(task_error(), "51 cells are more than half of the 10 x 10"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_as_promised),
        cmocka_unit_test(columns_follow_the_power),
        cmocka_unit_test(steep_laws_have_an_end),
        cmocka_unit_test(too_many_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
