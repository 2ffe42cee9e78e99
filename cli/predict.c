/*
 * tern predict - asks trained models.
 */
#include <string.h>

#include "command.h"
#include "kge/kge.h"
#include "lda/lda.h"
#include "mf/mf.h"
#include "options.h"
#include "train.h"

static struct {
    int64_t n_answers;
    int64_t n_words, n_passes, seed;
    const char *data;
    bool json;
    struct operand_list operands;
} args;

static const char *name_or_asked(const char *operand)
{
    return strcmp(operand, "?") == 0 ? NULL : operand;
}

/* ---- tern predict kge ------------------------------------------------------------------------ */

static const struct option kge_options[] = {
    {"top", OPTION_INT, &args.n_answers, "10", "N", "answers to print", .min = 1, .max = 1e6},
    {"data", OPTION_STRING, &args.data, .takes = "PATH",
     .help = "the training data: marks answers that the model was trained on"},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON line per answer"},
};

static const struct option_set kge_set = {
    .program = "tern predict kge",
    .about =
        "Asks a model that 'tern train kge --out MODEL' wrote. Where SUBJECT or OBJECT is '?',\n"
        "prints the best answers with their scores; otherwise the score of the triple and how\n"
        "it ranks among all answers.",
    .notes =
        "With --data, ranks leave out other answers that the model was trained on. Names that\n"
        "begin with '-' follow '--':\n"
        "  tern predict kge --top 3 -- MODEL -1 RELATION '?'",
    .options = kge_options,
    .n_options = sizeof kge_options / sizeof *kge_options,
    .operands = "MODEL SUBJECT RELATION OBJECT",
    .given = &args.operands,
};

int predict_kge_command(int argc, char **argv)
{
    int status;
    if (!options_read(&kge_set, argc, argv, &status))
        return status;
    if (args.operands.n != 4) {
        complain("which triple? tern predict kge MODEL SUBJECT RELATION '?'");
        return EXIT_USAGE;
    }
    const struct kge_question question = {
        .folder = args.operands.at[0],
        .subject = name_or_asked(args.operands.at[1]),
        .relation = args.operands.at[2],
        .object = name_or_asked(args.operands.at[3]),
        .n_answers = args.n_answers,
        .data = args.data,
        .json = args.json,
    };
    if (question.subject == NULL && question.object == NULL) {
        complain("ask for one of the two: tern predict kge MODEL SUBJECT RELATION '?'");
        return EXIT_USAGE;
    }
    return train_end(kge_predict(&question));
}

/* ---- tern predict lda ------------------------------------------------------------------------ */

static const struct option lda_options[] = {
    {"top", OPTION_INT, &args.n_answers, "5", "N", "topics to print", .min = 1, .max = 65535},
    {"words", OPTION_INT, &args.n_words, "8", "N", "words of each topic to print", .min = 0,
     .max = 1000},
    {"passes", OPTION_INT, &args.n_passes, "100", "N", "times to sample the topics of all words",
     .min = 2, .max = 1e6},
    {"seed", OPTION_INT, &args.seed, "1", "S", "seed of the random numbers", .min = 0, .max = 1e15},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON line per topic"},
};

static const struct option_set lda_set = {
    .program = "tern predict lda",
    .about = "Finds the topics of a document by a model that 'tern train lda --out MODEL' wrote:\n"
             "prints the share of its words that each topic has, and what the topic is about.",
    .notes =
        "FILE is plain text, perhaps compressed by gzip or zstd; '-' is standard input. Words\n"
        "are looked for as they stand between blanks, then as runs of letters in lower case.\n"
        "Words that the model does not know are left out.",
    .options = lda_options,
    .n_options = sizeof lda_options / sizeof *lda_options,
    .operands = "MODEL FILE",
    .given = &args.operands,
};

int predict_lda_command(int argc, char **argv)
{
    int status;
    if (!options_read(&lda_set, argc, argv, &status))
        return status;
    if (args.operands.n != 2) {
        complain("which document? tern predict lda MODEL FILE");
        return EXIT_USAGE;
    }
    return train_end(lda_predict(&(struct lda_question){.folder = args.operands.at[0],
                                                        .path = args.operands.at[1],
                                                        .n_topics = args.n_answers,
                                                        .n_words = args.n_words,
                                                        .n_passes = args.n_passes,
                                                        .seed = args.seed,
                                                        .json = args.json}));
}

/* ---- tern predict mf ------------------------------------------------------------------------- */

static const struct option mf_options[] = {
    {"top", OPTION_INT, &args.n_answers, "10", "N", "items, or users, to print", .min = 1,
     .max = 1e6},
    {"data", OPTION_STRING, &args.data, .takes = "PATH",
     .help = "the training data: leaves out what is rated in it"},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON line per answer"},
};

static const struct option_set mf_set = {
    .program = "tern predict mf",
    .about =
        "Asks a model that 'tern train mf --out MODEL' wrote: prints the rating that USER would\n"
        "give to ITEM. Where ITEM is '?', prints the best items of the user; where USER is\n"
        "'?', the users who would like the item best.",
    .notes = "Names that begin with '-' follow '--':\n"
             "  tern predict mf --top 3 -- MODEL -1 '?'",
    .options = mf_options,
    .n_options = sizeof mf_options / sizeof *mf_options,
    .operands = "MODEL USER ITEM",
    .given = &args.operands,
};

int predict_mf_command(int argc, char **argv)
{
    int status;
    if (!options_read(&mf_set, argc, argv, &status))
        return status;
    if (args.operands.n != 3) {
        complain("which rating? tern predict mf MODEL USER ITEM, or MODEL USER '?'");
        return EXIT_USAGE;
    }
    const struct mf_question question = {.folder = args.operands.at[0],
                                         .user = name_or_asked(args.operands.at[1]),
                                         .item = name_or_asked(args.operands.at[2]),
                                         .n_answers = args.n_answers,
                                         .data = args.data,
                                         .json = args.json};
    if (question.user == NULL && question.item == NULL) {
        complain("ask for one of the two: tern predict mf MODEL USER '?'");
        return EXIT_USAGE;
    }
    return train_end(mf_predict(&question));
}

/* ---- tern predict ---------------------------------------------------------------------------- */

static const struct command models[] = {
    {"fm", "the labels of examples, by a factorization machine", predict_fm_command},
    {"kge", "the missing part of a triple, or its score", predict_kge_command},
    {"lda", "the topics of a document", predict_lda_command},
    {"linear", "the labels of examples", predict_linear_command},
    {"mf", "a rating, or the best items of a user", predict_mf_command},
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
