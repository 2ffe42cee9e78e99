/*
 * tern train mf - trains a matrix factorization.
 */
#include <string.h>

#include "command.h"
#include "mf/mf.h"
#include "mf/mf_files.h"
#include "train.h"

/* In the order of enum ratings_unknown. */
static const char *const unknown_names[] = {"refuse", "add", "skip", NULL};

static const char *const format_names[] = {"npy", "text", "binary", NULL};
static const int format_bits[] = {0, MF_FILES_TEXT, MF_FILES_BINARY};

static struct mf_options args;
static const char *unknown;
static struct string_list formats;

static const struct option options[] = {
    {"data", OPTION_STRING, &train_args.data, .takes = "PATH",
     .help = "a folder with train and test, or with ratings; or TRAIN[,TEST]", .group = "Data"},
    {"test-share", OPTION_DOUBLE, &args.test_share, "0.1", "X",
     "share of the ratings drawn for the test if there is no test file", .min = 0, .max = 0.9},
    {"unknown", OPTION_STRING, &unknown, "add", "WHAT",
     "ratings of the test file by users, or of items, that train lacks: add, skip or refuse",
     .choices = unknown_names},
    {"rank", OPTION_INT, &args.rank, "32", "N", "factors of a user or item", .min = 1, .max = 65536,
     .aliases = "dim,factors", .group = "Model"},
    {"epochs", OPTION_INT, &train_args.n_epochs, "15", "N", "passes over the training ratings",
     .min = 0, .max = 1e9, .group = "Training"},
    {"rate", OPTION_DOUBLE, &args.rate, "0.1", "X", "learning rate of AdaGrad", .min = 1e-9,
     .max = 1e3, .aliases = "lr,learning-rate"},
    {"penalty", OPTION_DOUBLE, &args.penalty, "0", "X",
     "weight of the squares of factors and biases; 0: by the number of ratings", .min = 0,
     .max = 1e3, .aliases = "l2,regularization"},
    TRAIN_PATIENCE("3"),
    TRAIN_PLACEMENT,
    {"formats", OPTION_STRINGS, &formats, "npy", "LIST",
     "formats of the factors: npy; text and binary of word2vec", .choices = format_names,
     .group = "Output"},
};

static const struct option_set option_set = {
    .program = "tern train mf",
    .about =
        "Factorizes a matrix of ratings, and measures how well the factors predict test ratings.",
    .notes =
        "A file of ratings has lines of user, item and a number, separated by '::' as in\n"
        "MovieLens, tabs, commas, semicolons or blanks; a heading and further fields are ignored.\n"
        "It may be compressed by gzip or zstd. The result is the root of the mean squared error\n"
        "(RMSE) of the test ratings.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = train_general,
    .n_common = TRAIN_N_GENERAL,
};

int train_mf_command(int argc, char **argv)
{
    int status;
    if (!train_begin(&option_set, argc, argv, &status))
        return status;
    while (strcmp(unknown_names[args.unknown], unknown) != 0)
        args.unknown++;
    for (size_t i = 0; i < formats.n; i++)
        args.formats |= format_bits[formats.choice[i]];
    if (train_args.data == NULL) {
        complain("which ratings? --data PATH; see 'tern train mf --help'");
        return EXIT_USAGE;
    }
    return train_end(mf_train(&train_args, &args));
}
