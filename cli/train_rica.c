/*
 * tern train rica - learns filters by reconstruction ICA.
 */
#include "command.h"
#include "rica/rica.h"
#include "train.h"

static struct rica_options args;

static const struct option options[] = {
    {"data", OPTION_STRING, &train_args.data, .takes = "FILE",
     .help = "examples: an array of NumPy (.npy, f4), a row for each", .group = "Data"},
    {"width", OPTION_INT, &args.n_width, "0", "N",
     "width of an example as an image, for the picture; 0: it is square", .min = 0,
     .max = RICA_MAX_PIXELS},
    {"components", OPTION_INT, &args.n_filters, "64", "N", "filters to learn", .min = 1,
     .max = 65536, .group = "Model"},
    {"lambda", OPTION_DOUBLE, &args.lambda, "0.1", "X", "penalty of the sum of |answers|", .min = 0,
     .max = 1e9},
    {"epochs", OPTION_INT, &train_args.n_epochs, "5", "N", "epochs of ten steps each", .min = 0,
     .max = 1e9, .group = "Training"},
    {"rate", OPTION_DOUBLE, &args.rate, "0.3", "X",
     "length of steps, beside the largest eigenvalue of the examples' products", .min = 1e-9,
     .max = 1e3, .aliases = "lr,learning-rate"},
    {"admm", OPTION_INT, &args.n_admm, "10", "N", "iterations of ADMM in a step", .min = 1,
     .max = 1000},
    {"delay", OPTION_INT, &args.delay, "0", "N",
     "steps that a worker may be ahead of the slowest one", .min = 0, .max = 100},
    TRAIN_PATIENCE("0"),
};

static const struct option_set option_set = {
    .program = "tern train rica",
    .about = "Learns filters whose answers to the examples are sparse and from which the examples "
             "can be\nreconstructed (reconstruction ICA).",
    .notes =
        "The mean of an example is taken off it, and all are divided by the root of their mean\n"
        "square. The model has filters.npy and a picture, filters.png.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = train_general,
    .n_common = TRAIN_N_GENERAL,
};

int train_rica_command(int argc, char **argv)
{
    int status;
    if (!train_begin(&option_set, argc, argv, &status))
        return status;
    if (train_args.data == NULL)
        complain("which examples? --data FILE.npy; see 'tern train rica --help'");
    else if (train_args.backups > 0)
        complain("rica has no --backups: the filters are with the workers, not in the table");
    else if (train_args.policy != NULL)
        complain("rica has no --policy: its table is ssp with the bound --delay");
    else
        return train_end(rica_train(&train_args, &args));
    return EXIT_USAGE;
}
