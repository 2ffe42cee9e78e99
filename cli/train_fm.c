/*
 * tern train fm - trains a factorization machine.
 */
#include <string.h>

#include "command.h"
#include "examples_options.h"
#include "fm/fm.h"
#include "train.h"

static struct fm_options args;
static struct examples_args examples;
static const char *loss, *dims;
static bool no_intercept;

static const char *const fm_losses[] = {"logistic", "squared", NULL};

static const struct option options[] = {
    {"data", OPTION_STRING, &train_args.data, .takes = "FILES",
     .help = "files of training examples, separated by commas", .group = "Data"},
    {"test", OPTION_STRING, &args.test, .takes = "FILES",
     .help = "files of examples that choose the best epoch"},
    EXAMPLES_OPTIONS(examples),
    {"no-names", OPTION_FLAG, &args.no_names,
     .help =
         "leave out of the model the names of features, which take one more pass over the files"},
    {"negatives", OPTION_DOUBLE, &args.negatives, "1", "P",
     "learn from this share of negative examples, each with the weight 1/P", .min = 1e-6, .max = 1},
    {"positive-weight", OPTION_DOUBLE, &args.positive_weight, "1", "X",
     "weight of examples with a positive label", .min = 1e-9, .max = 1e9},
    {"loss", OPTION_STRING, &loss, "logistic", "NAME", "logistic or squared", .choices = fm_losses,
     .group = "Model"},
    {"dims", OPTION_STRING, &dims, .initial = "16@10", .takes = "K@N,...",
     .help =
         "dimensions of embeddings, and the occurrences after which a feature has them; 0: none"},
    {"no-shrink", OPTION_FLAG, &args.no_shrink,
     .help = "use embeddings also of features whose weight is 0"},
    {"no-intercept", OPTION_FLAG, &no_intercept, .help = "leave out the weight of all examples"},
    {"min-count", OPTION_INT, &args.min_count, "1", "N",
     "occurrences from which on a feature has a weight", .min = 1, .max = 65535},
    {"features", OPTION_INT, &args.n_expected, "4194304", "N",
     "different features expected at a node: counting takes 2 bytes for each", .min = 1,
     .max = 1e12},
    {"epochs", OPTION_INT, &train_args.n_epochs, "30", "N", "passes over the examples, at most",
     .min = 0, .max = 1e9, .group = "Training"},
    {"metric", OPTION_STRING, &args.metric, .takes = "NAME",
     .help = "what decides which model is the best: log_loss, auc, accuracy, rmse"},
    {"batch", OPTION_INT, &args.n_batch, "16", "N", "examples of a batch", .min = 1, .max = 1e6},
    {"rate", OPTION_DOUBLE, &args.rate, "0.1", "X", "alpha of FTRL, which learns weights",
     .min = 1e-9, .max = 1e3, .aliases = "lr,learning-rate"},
    {"beta", OPTION_DOUBLE, &args.beta, "1", "X", "beta of FTRL", .min = 0, .max = 1e9},
    {"l1", OPTION_DOUBLE, &args.l1, "0.5", "X", "l1 of FTRL: makes weights 0", .min = 0,
     .max = 1e12},
    {"l2", OPTION_DOUBLE, &args.l2, "0", "X", "l2 of FTRL", .min = 0, .max = 1e12},
    {"v-rate", OPTION_DOUBLE, &args.v_rate, "0.2", "X", "rate of AdaGrad, which learns embeddings",
     .min = 1e-9, .max = 1e3},
    {"v-beta", OPTION_DOUBLE, &args.v_beta, "0.1", "X", "what AdaGrad adds to the root",
     .min = 1e-12, .max = 1e9},
    {"v-l2", OPTION_DOUBLE, &args.v_l2, "0.05", "X",
     "shrinks the embeddings of the features of a batch", .min = 0, .max = 1e9},
    {"v-scale", OPTION_DOUBLE, &args.v_scale, "0.1", "X", "embeddings start in [-X, X]",
     .min = 1e-12, .max = 1e3},
    {"dropout", OPTION_DOUBLE, &args.dropout, "0", "P",
     "share of the elements of an embedding's gradient that become 0", .min = 0, .max = 0.999},
    {"clip", OPTION_DOUBLE, &args.clip, "0", "X",
     "largest element of an embedding's gradient; 0: any", .min = 0, .max = 1e9},
    {"normalise", OPTION_FLAG, &args.normalise,
     .help = "divide an embedding's gradient by the examples of the batch that have the feature"},
    TRAIN_PATIENCE("3"),
    TRAIN_PLACEMENT,
};

static const struct option_set option_set = {
    .program = "tern train fm",
    .about = "Trains a factorization machine whose embeddings adapt to how frequent features are.",
    .notes =
        "Files are libsvm, libffm, Vowpal Wabbit, CSV or TSV with a heading, or Criteo's; each\n"
        "may be compressed by gzip or zstd. --dims 16@10 gives a feature 16 dimensions after 10\n"
        "occurrences; 8@10,64@1000 gives it 8, and 64 after 1000. An ordinary factorization\n"
        "machine is --dims 16 --no-shrink.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = train_general,
    .n_common = TRAIN_N_GENERAL,
};

int train_fm_command(int argc, char **argv)
{
    int status;
    if (!train_begin(&option_set, argc, argv, &status))
        return status;
    args.loss = strcmp(loss, "squared") == 0 ? LOSS_SQUARED : LOSS_LOGISTIC;
    args.has_intercept = !no_intercept;
    args.examples = examples_chosen(&examples);
    if (train_args.data == NULL) {
        complain("which examples? --data FILES; see 'tern train fm --help'");
        return EXIT_USAGE;
    }
    if (args.loss == LOSS_SQUARED && args.negatives < 1) {
        complain(
            "--negatives goes with --loss logistic: other labels are not negative or positive");
        return EXIT_USAGE;
    }
    if (!fm_read_tiers(dims, &args))
        return train_end(false);
    if (train_args.backups > 0 && fm_counts(&args)) {
        complain(
            "--backups goes with --dims K, as --dims 16, and --min-count 1: how often features "
            "occur, by which they get embeddings and weights, is counted at one node only");
        return EXIT_USAGE;
    }
    return train_end(fm_train(&train_args, &args));
}
