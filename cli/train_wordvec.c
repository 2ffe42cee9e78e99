/*
 * tern train wordvec - trains word vectors.
 */
#include "command.h"
#include "common/negatives.h"
#include "train.h"
#include "wordvec/wordfiles.h"
#include "wordvec/wordvec.h"

static const char *const format_names[] = {"npy", "text", "binary", NULL};

static struct wordvec_options args;
static struct string_list formats;
static const char *sampling;

static const struct option options[] = {
    {"data", OPTION_STRING, &train_args.data, .takes = "PATH",
     .help = "the text: a file, several separated by commas, or a folder of files",
     .group = "Data"},
    {"dim", OPTION_INT, &args.dim, "100", "N", "dimension of a vector", .min = 1, .max = 65536,
     .aliases = "dimension,size", .group = "Model"},
    {"epochs", OPTION_INT, &train_args.n_epochs, "5", "N", "passes over the text", .min = 0,
     .max = 1e9, .group = "Training"},
    {"window", OPTION_INT, &args.window, "5", "N",
     "words to either side from which a word is predicted, at most", .min = 1, .max = 250},
    {"negatives", OPTION_INT, &args.n_negatives, "5", "N", "negatives for each word", .min = 1,
     .max = 1000, .aliases = "negative"},
    {"sampling", OPTION_STRING, &sampling, "conform", "NAME",
     "how strictly negatives follow their distribution: conform, bounded, long-term, "
     "non-conform",
     .choices = negatives_levels},
    {"min-count", OPTION_INT, &args.min_count, "5", "N",
     "how often a word must occur to get a vector", .min = 1, .max = 1e15},
    {"sample", OPTION_DOUBLE, &args.sample, "0.001", "X",
     "share of the text above which a word is left out now and then; 0: never", .min = 0, .max = 1,
     .aliases = "subsample"},
    {"rate", OPTION_DOUBLE, &args.rate, "0.025", "X", "learning rate of SGD at the beginning",
     .min = 1e-9, .max = 1e3, .aliases = "lr,learning-rate,alpha"},
    {"min-rate", OPTION_DOUBLE, &args.min_rate, "0.0001", "X", "the same at the end", .min = 0,
     .max = 1e3, .aliases = "min-lr"},
    {"questions", OPTION_STRING, &args.questions, .takes = "FILE",
     .help = "analogies to test by, as in questions-words.txt", .aliases = "analogies",
     .group = "Evaluation"},
    {"similarity", OPTION_STRING, &args.similarity, .takes = "LIST",
     .help = "files of rated pairs of words to test by"},
    {"candidates", OPTION_INT, &args.n_candidates, "30000", "N",
     "analogies are answered from the N most frequent words", .min = 4, .max = 1e9},
    TRAIN_PATIENCE("0"),
    {"formats", OPTION_STRINGS, &formats, "npy", "LIST",
     "formats of the vectors: npy; text and binary of word2vec", .choices = format_names,
     .group = "Output"},
    TRAIN_PLACEMENT,
};

static const struct option_set option_set = {
    .program = "tern train wordvec",
    .about = "Learns vectors of words from plain text: skip-gram with negative sampling, as\n"
             "word2vec defines it.",
    .notes = "Words are what blanks separate; a line is a sentence. 'tern data text' makes such\n"
             "text of any other. Files may be compressed by gzip or zstd. Options mean what they\n"
             "mean in word2vec. The rate falls linearly over all epochs, so choose their number\n"
             "first.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = train_general,
    .n_common = TRAIN_N_GENERAL,
};

int train_wordvec_command(int argc, char **argv)
{
    int status;
    if (!train_begin(&option_set, argc, argv, &status))
        return status;
    args.sampling = (enum tern_conformity)options_choice(negatives_levels, sampling);
    for (size_t i = 0; i < formats.n; i++)
        args.formats |= formats.choice[i] == 1   ? WORDFILES_TEXT
                        : formats.choice[i] == 2 ? WORDFILES_BINARY
                                                 : 0;
    if (train_args.data == NULL) {
        complain("which text? --data PATH; see 'tern train wordvec --help'");
        return EXIT_USAGE;
    }
    if (args.min_rate > args.rate) {
        complain("--min-rate %g is above --rate %g, from which the rate falls", args.min_rate,
                 args.rate);
        return EXIT_USAGE;
    }
    return train_end(wordvec_train(&train_args, &args));
}
