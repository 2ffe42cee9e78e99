/*
 * tern train linear - trains a sparse linear model.
 */
#include <string.h>

#include "command.h"
#include "examples_options.h"
#include "linear/linear.h"
#include "train.h"

static struct linear_options args;
static struct examples_args examples;
static const char *solver, *loss, *intercept, *updater, *hold;

static const struct option options[] = {
    {"data", OPTION_STRING, &train_args.data, .takes = "FILES",
     .help = "files of training examples, separated by commas", .group = "Data"},
    {"test", OPTION_STRING, &args.test, .takes = "FILES",
     .help = "files of test examples; without, dbpg is measured on the training examples"},
    EXAMPLES_OPTIONS(examples),
    {"no-names", OPTION_FLAG, &args.no_names,
     .help =
         "leave out of the model the names of features, which take one more pass over the files"},
    {"loss", OPTION_STRING, &loss, "logistic", "NAME",
     "logistic, squared, hinge (online) or squared-hinge", .choices = loss_names, .group = "Model"},
    {"intercept", OPTION_STRING, &intercept, "free", "WHAT",
     "a weight that every example has: none, free or penalised like the others",
     .choices = linear_intercepts},
    {"l1", OPTION_DOUBLE, &args.l1, "1", "X", "penalty of the sum of |weights|", .min = 0,
     .max = 1e12},
    {"l2", OPTION_DOUBLE, &args.l2, "0", "X", "penalty of half the sum of squared weights",
     .min = 0, .max = 1e12},
    {"positive-weight", OPTION_DOUBLE, &args.positive_weight, "1", "X",
     "weight of examples with a positive label", .min = 1e-9, .max = 1e9},
    {"solver", OPTION_STRING, &solver, "dbpg", "NAME",
     "dbpg: all examples, to the optimum; online: a stream, by FTRL; emso-cd, emso-gd: a stream, "
     "in "
     "large batches",
     .choices = linear_solvers, .group = "Training"},
    {"epochs", OPTION_INT, &train_args.n_epochs, "100", "N", "passes over the examples, at most",
     .min = 0, .max = 1e9},
    {"metric", OPTION_STRING, &args.metric, .takes = "NAME",
     .help = "what decides which model is the best: objective, log_loss, auc, accuracy, rmse"},
    {"tolerance", OPTION_DOUBLE, &args.tolerance, "1e-3", "X",
     "dbpg: ends when the optimality condition is violated by so much less than at first", .min = 0,
     .max = 1},
    {"delay", OPTION_INT, &args.delay, "0", "N",
     "dbpg: blocks that may be worked on before an earlier one is done", .min = 0, .max = 15},
    {"blocks", OPTION_INT, &args.n_blocks, "0", "N",
     "dbpg: blocks of features; 0: by the features of an example", .min = 0, .max = 1000},
    {"kkt", OPTION_DOUBLE, &args.kkt, "0.1", "X",
     "dbpg: leaves out weights of 0 whose slope is below (1 - X) * l1, and settled ones; 1: none",
     .min = 0, .max = 1},
    {"updater", OPTION_STRING, &updater, "ftrl", "NAME",
     "online: ftrl, adagrad, asyncadagrad, adadelay, adaptiverevision, adam, momentum or sgd; all "
     "but ftrl have no penalties",
     .choices = linear_updaters},
    {"rate", OPTION_DOUBLE, &args.rate, "0.1", "X", "online: alpha of FTRL, or the learning rate",
     .min = 1e-9, .max = 1e3, .aliases = "lr,learning-rate"},
    {"beta", OPTION_DOUBLE, &args.beta, "1", "X", "online: beta of FTRL", .min = 0, .max = 1e9},
    {"gamma", OPTION_DOUBLE, &args.gamma, "0.03", "X",
     "emso: holds weights where they were, in proportion to the root of the examples seen",
     .min = 0, .max = 1e9},
    {"batch", OPTION_INT, &args.n_batch, "0", "N",
     "examples of a batch, beyond 64 at least; 0: 16, emso 10000", .min = 0, .max = 1e9},
    {"hold", OPTION_STRING, &hold, .takes = "RULE",
     .help = "online: keeps gradients back by T updates in the mean: uniform:T, scaled:T (fewer at "
             "first) or half-slow:T (half of T + 1 workers are slow)"},
    TRAIN_PATIENCE("0"),
    TRAIN_PLACEMENT,
};

static const struct option_set option_set = {
    .program = "tern train linear",
    .about = "Trains a sparse linear model: a classifier, or a regression.",
    .notes =
        "Files are libsvm, libffm, Vowpal Wabbit, CSV or TSV with a heading, or Criteo's; each\n"
        "may be compressed by gzip or zstd. The objective is the sum of losses plus the\n"
        "penalties; 'online' takes the penalties as FTRL does.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = train_general,
    .n_common = TRAIN_N_GENERAL,
};

static int position(const char *const *names, const char *name)
{
    int i = 0;
    while (strcmp(names[i], name) != 0)
        i++;
    return i;
}

/* Whether the updater is one for updates that come late. */
static bool knows_age(void)
{
    return args.updater == LINEAR_ASYNCADAGRAD || args.updater == LINEAR_ADADELAY ||
           args.updater == LINEAR_ADAPTIVEREVISION;
}

/* Whether the options go together. */
static bool check(void)
{
    if (train_args.data == NULL)
        complain("which examples? --data FILES; see 'tern train linear --help'");
    else if (args.solver != LINEAR_ONLINE && args.loss == LOSS_HINGE)
        complain(
            "the hinge loss is not smooth, which this solver needs: use --solver online, or --loss "
            "squared-hinge");
    else if (args.solver == LINEAR_DBPG && train_args.backups > 0)
        complain("--backups goes with --solver online: a worker of dbpg keeps the margins of its "
                 "examples to itself");
    else if (args.solver == LINEAR_DBPG && train_args.policy != NULL)
        complain("--policy goes with --solver online: dbpg keeps weights at their homes");
    else if (args.solver == LINEAR_ONLINE && knows_age() &&
             (train_args.policy != NULL || train_args.plain))
        complain("--updater %s goes with none of --policy, --backups and --plain: its table is "
                 "static",
                 updater);
    else if (hold != NULL && !hold_parse(hold, &args.hold))
        complain("--hold %s: it must be uniform:T, scaled:T or half-slow:T, with T from 1 to %d",
                 hold, HOLD_MAX_MEAN);
    else if (hold != NULL &&
             (args.solver != LINEAR_ONLINE || train_args.plain || train_args.n_threads > 1))
        complain("--hold goes with --solver online on one node with --threads 1, without --plain");
    else
        return true;
    return false;
}

int train_linear_command(int argc, char **argv)
{
    int status;
    if (!train_begin(&option_set, argc, argv, &status))
        return status;
    args.solver = (enum linear_solver)position(linear_solvers, solver);
    args.updater = (enum linear_updater)position(linear_updaters, updater);
    args.loss = (enum loss_kind)position(loss_names, loss);
    args.intercept = (enum linear_intercept)position(linear_intercepts, intercept);
    args.examples = examples_chosen(&examples);
    if (args.n_batch == 0)
        args.n_batch = args.solver == LINEAR_ONLINE ? 16 : 10000;
    if (!check())
        return EXIT_USAGE;
    return train_end(linear_train(&train_args, &args));
}
