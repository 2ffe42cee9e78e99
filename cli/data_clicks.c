/*
 * tern data clicks - makes examples with Zipf features, for linear models and factorization machines.
 */
#include <math.h>
#include <stdio.h>

#include "command.h"
#include "common/clicks.h"
#include "options.h"
#include "train.h"

static struct clicks args;
static struct operand_list operands;

static const struct option options[] = {
    {"rows", OPTION_INT, &args.n_rows, "0", "N",
     "examples to train on; 0: 100000, with --pairs 1000000", .min = 0, .max = 1e12},
    {"test-rows", OPTION_INT, &args.n_test_rows, "20000", "N", "examples to test with", .min = 0,
     .max = 1e12},
    {"features", OPTION_INT, &args.n_features, "0", "N",
     "different features; 0: 200000, with --pairs 5000000", .min = 0, .max = 1e12},
    {"each", OPTION_INT, &args.n_each, "0", "N",
     "features of an example, with --pairs fields; 0: 42, with --pairs 20", .min = 0,
     .max = CLICKS_MAX_EACH},
    {"skew", OPTION_DOUBLE, &args.skew, "-1", "X",
     "the i-th most frequent feature has a frequency in proportion to i^-X; -1: 1, with --pairs "
     "1.1",
     .min = -1, .max = 10},
    {"pairs", OPTION_FLAG, &args.has_pairs, .help = "also plant products of every two features"},
    {"share", OPTION_DOUBLE, &args.share, "0.2", "X", "share of the features that matter",
     .min = 1e-6, .max = 1},
    {"strength", OPTION_DOUBLE, &args.strength, "2", "X",
     "standard deviation of the planted margins; 0: labels are noise", .min = 0, .max = 100},
    {"positive", OPTION_DOUBLE, &args.positive, "0.25", "X", "share of positive labels",
     .min = 0.0001, .max = 0.9999},
    {"seed", OPTION_INT, &args.seed, "1", "S", "seed of the random numbers", .min = 0, .max = 1e15},
};

static const struct option_set option_set = {
    .program = "tern data clicks",
    .about = "Makes examples for 'tern train linear': train.txt and test.txt in DIR.",
    .notes =
        "Features are frequent or rare by Zipf's law, and a planted model draws the labels. The\n"
        "command prints that model's log loss, below which no other can be expected to get.\n"
        "Lines are of libsvm; with --pairs of libffm: one feature of each field.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "DIR",
    .given = &operands,
};

/* Puts defaults where 0 or -1 was left. */
static void complete(void)
{
    const bool pairs = args.has_pairs;
    args.n_rows = args.n_rows > 0 ? args.n_rows : pairs ? 1000000 : 100000;
    args.n_features = args.n_features > 0 ? args.n_features : pairs ? 5000000 : 200000;
    args.n_each = args.n_each > 0 ? args.n_each : pairs ? 20 : 42;
    args.skew = args.skew >= 0 ? args.skew : pairs ? 1.1 : 1;
}

int data_clicks_command(int argc, char **argv)
{
    int status;
    double log_loss;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (operands.n != 1) {
        complain("where to? tern data clicks DIR");
        return EXIT_USAGE;
    }
    complete();
    bool ok = clicks_make(&args, operands.at[0], &log_loss);
    if (ok && !isnan(log_loss))
        fprintf(stderr, "the planted model's log loss on test.txt: %.4f\n", log_loss);
    return train_end(ok);
}
