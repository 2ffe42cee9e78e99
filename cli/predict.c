/*
 * tern predict - asks trained models.
 */
#include <string.h>

#include "command.h"
#include "kge/kge.h"
#include "options.h"
#include "train.h"

/* ---- tern predict kge ------------------------------------------------------------------------ */

static struct {
    int64_t n_answers;
    const char *data;
    bool json;
    struct operand_list operands;
} args;

static const struct option options[] = {
    {"top", OPTION_INT, &args.n_answers, "10", "N", "answers to print", .min = 1, .max = 1e6},
    {"data", OPTION_STRING, &args.data, .takes = "PATH",
     .help = "as for the training: answers among the facts it has learned from are marked"},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON line per answer"},
};

static const struct option_set kge_set = {
    .program = "tern predict kge",
    .about =
        "Asks a model that 'tern train kge --out MODEL' wrote for the missing part of a fact.\n"
        "SUBJECT or OBJECT is '?'; the best answers come first, with their scores. Names that\n"
        "begin with '-' stand behind '--': tern predict kge --top 3 -- MODEL -1 RELATION '?'",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "MODEL SUBJECT RELATION OBJECT",
    .given = &args.operands,
};

static const char *name_or_asked(const char *operand)
{
    return strcmp(operand, "?") == 0 ? NULL : operand;
}

int predict_kge_command(int argc, char **argv)
{
    int status;
    if (!options_read(&kge_set, argc, argv, &status))
        return status;
    const struct kge_question question = {
        .folder = args.operands.at[0],
        .subject = args.operands.n == 4 ? name_or_asked(args.operands.at[1]) : NULL,
        .relation = args.operands.at[2],
        .object = args.operands.n == 4 ? name_or_asked(args.operands.at[3]) : NULL,
        .n_answers = args.n_answers,
        .data = args.data,
        .json = args.json,
    };
    if (args.operands.n != 4 || (question.subject == NULL) == (question.object == NULL)) {
        complain("ask for one of the two: tern predict kge MODEL SUBJECT RELATION '?'");
        return EXIT_USAGE;
    }
    return train_end(kge_predict(&question));
}

/* ---- tern predict ---------------------------------------------------------------------------- */

static const struct command models[] = {
    {"kge", "the missing part of a fact", predict_kge_command},
};

static const struct command_set predict_set = {
    .program = "tern predict",
    .about = "Asks a trained model.",
    .commands = models,
    .n_commands = sizeof models / sizeof *models,
};

int predict_command(int argc, char **argv)
{
    return command_dispatch(&predict_set, argc, argv);
}
