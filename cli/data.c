/*
 * tern data - makes data sets to train on.
 */
#include "command.h"
#include "kge/wordnet.h"
#include "options.h"
#include "train.h"

/* ---- tern data wordnet ----------------------------------------------------------------------- */

static struct {
    const char *from;
    int64_t seed;
    double share;
    struct operand_list operands;
} args;

static const struct option options[] = {
    {"from", OPTION_STRING, &args.from, "/usr/share/wordnet", .takes = "DIR",
     .help = "where WordNet's files data.noun and so on are"},
    {"seed", OPTION_INT, &args.seed, "1", "S", "seed of the split", .min = 0, .max = 1e15},
    {"share", OPTION_DOUBLE, &args.share, "0.02", "X", "share of the triples in valid, and in test",
     .min = 0.0001, .max = 0.2},
};

static const struct option_set wordnet_set = {
    .program = "tern data wordnet",
    .about = "Makes a knowledge graph from WordNet: train.txt, valid.txt and test.txt in DIR.",
    .notes =
        "Entities are the meanings of words, named by a word, its part of speech and the number\n"
        "of the meaning: dog.n.01. Of two relations that say the same in both directions, such as\n"
        "hypernym and hyponym, one is kept. All triples about the same two entities are in the "
        "same\n"
        "file, so that no test triple is the mirror image of a training triple.\n"
        "On Debian, the package wordnet-base has WordNet.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "DIR",
    .given = &args.operands,
};

int data_wordnet_command(int argc, char **argv)
{
    int status;
    if (!options_read(&wordnet_set, argc, argv, &status))
        return status;
    if (args.operands.n != 1) {
        complain("where to? tern data wordnet DIR");
        return EXIT_USAGE;
    }
    return train_end(wordnet_make(args.from, args.operands.at[0], (uint64_t)args.seed, args.share));
}

/* ---- tern data ------------------------------------------------------------------------------- */

static const struct command data_sets[] = {
    {"bow", "bags of words of any text, to find topics in", data_bow_command},
    {"clicks", "examples with skewed features, for linear models", data_clicks_command},
    {"gcide", "text of an English dictionary, for word vectors", data_gcide_command},
    {"text", "text of letters alone, for word vectors", data_text_command},
    {"wordnet", "a knowledge graph of the meanings of English words", data_wordnet_command},
    {"zipf-matrix", "a matrix with skewed rows and columns, to factorize",
     data_zipf_matrix_command},
};

static const struct command_set data_set = {
    .program = "tern data",
    .about = "Makes a data set to train on.",
    .commands = data_sets,
    .n_commands = sizeof data_sets / sizeof *data_sets,
};

int data_command(int argc, char **argv)
{
    return command_dispatch(&data_set, argc, argv);
}
