/*
 * tern predict fm - predicts the labels of examples by a factorization machine.
 */
#include "command.h"
#include "examples_options.h"
#include "fm/fm.h"
#include "options.h"
#include "train.h"

static struct examples_args examples;
static struct operand_list operands;
static bool margins, json;

static const struct option options[] = {
    EXAMPLES_OPTIONS(examples),
    {"margins", OPTION_FLAG, &margins, .help = "print margins instead of probabilities",
     .group = "Output"},
    {"json", OPTION_FLAG, &json,
     .help = "print one JSON line with the quality on labelled examples instead"},
};

static const struct option_set option_set = {
    .program = "tern predict fm",
    .about = "Predicts the labels of examples by a model that 'tern train fm --out MODEL' wrote:\n"
             "prints, line by line, the probability of a positive label, or with the squared loss\n"
             "the label itself.",
    .notes =
        "FILE has examples in the format of the training unless --format says otherwise; '-' is\n"
        "standard input. Give the same --label, --numeric and --ignore as for the training;\n"
        "hash bits and n-grams are the model's.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "MODEL FILE",
    .given = &operands,
};

int predict_fm_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (operands.n != 2) {
        complain("which examples? tern predict fm MODEL FILE");
        return EXIT_USAGE;
    }
    return train_end(fm_predict(&(struct fm_question){.folder = operands.at[0],
                                                      .data = operands.at[1],
                                                      .examples = examples_chosen(&examples),
                                                      .margins = margins,
                                                      .json = json}));
}
