/*
 * tern data zipf-matrix - makes a matrix to factorize, as skewed as those of the papers.
 */
#include "command.h"
#include "mf/zipf_matrix.h"
#include "options.h"
#include "train.h"

static struct zipf_matrix args;
static struct operand_list operands;

static const struct option options[] = {
    {"rows", OPTION_INT, &args.n_rows, "100000", "N", "rows of the matrix", .min = 1, .max = 1e9},
    {"columns", OPTION_INT, &args.n_columns, "10000", "N", "columns of the matrix", .min = 1,
     .max = 1e9},
    {"cells", OPTION_INT, &args.n_cells, "10000000", "N", "cells that are known", .min = 1,
     .max = 1e12},
    {"skew", OPTION_DOUBLE, &args.skew, "1.1", "X",
     "the i-th most frequent row or column has cells in proportion to i^-X", .min = 0, .max = 10},
    {"noise", OPTION_DOUBLE, &args.noise, "0.5", "X",
     "standard deviation of the noise beside values of standard deviation 1", .min = 0, .max = 1e6},
    {"seed", OPTION_INT, &args.seed, "1", "S", "seed of the random numbers", .min = 0, .max = 1e15},
};

static const struct option_set option_set = {
    .program = "tern data zipf-matrix",
    .about = "Makes a matrix for 'tern train mf': ratings.tsv in DIR, with row, column and value.",
    .notes = "The cells are products of ten hidden factors, and noise; a model that has found the\n"
             "factors has an RMSE of the size of the noise. The papers on NuPS and AdaPM use\n"
             "--rows 10000000 --columns 1000000 --cells 1000000000; the default is a hundredth of\n"
             "that.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "DIR",
    .given = &operands,
};

int data_zipf_matrix_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (operands.n != 1) {
        complain("where to? tern data zipf-matrix DIR");
        return EXIT_USAGE;
    }
    return train_end(zipf_matrix_make(&args, operands.at[0]));
}
