/*
 * tern train lda - trains a topic model.
 */
#include "command.h"
#include "lda/gibbs.h"
#include "lda/lda.h"
#include "train.h"

static const double MIN_BETA = 1e-6;

static struct lda_options args;

static const struct option options[] = {
    {"data", OPTION_STRING, &train_args.data, .takes = "PATH",
     .help = "a file of documents, or a folder with docword and vocab", .group = "Data"},
    {"vocab", OPTION_STRING, &args.vocab, .takes = "FILE",
     .help = "the words, one per line; vocab beside the documents unless given"},
    {"topics", OPTION_INT, &args.n_topics, "100", "N", "topics to find", .min = 1,
     .max = GIBBS_MAX_TOPICS, .aliases = "num-topics", .group = "Model"},
    {"epochs", OPTION_INT, &train_args.n_epochs, "100", "N", "passes over the documents", .min = 0,
     .max = 1e9, .group = "Training"},
    {"alpha", OPTION_DOUBLE, &args.alpha, "0", "X",
     "prior weight of each topic in a document; 0: as in --resume, else 50 / topics", .min = 0,
     .max = 1e6, .group = "Model"},
    {"beta", OPTION_DOUBLE, &args.beta, "0", "X",
     "prior weight of each word in a topic; 0: as in --resume, else 0.01", .min = 0, .max = 1e6,
     .aliases = "eta"},
    TRAIN_PATIENCE("0"),
    {"top", OPTION_INT, &args.n_top, "10", "N", "words of each topic to print at the end", .min = 0,
     .max = 1000, .group = "Output"},
    TRAIN_PLACEMENT,
};

static const struct option_set option_set = {
    .program = "tern train lda",
    .about = "Finds topics in documents: latent Dirichlet allocation by collapsed Gibbs sampling.\n"
             "Prints the most frequent words of each topic in the end.",
    .notes =
        "Documents are bags of words, in one of two formats: that of UCI (docword.txt, "
        "vocab.txt),\n"
        "or that of lda-c (a line \"n word:count ...\" per document). Files may be compressed by\n"
        "gzip or zstd. 'tern data bow' makes them of text. log-likelihood is the "
        "logarithm\n"
        "of the probability of all words and their topics, p(w, z), divided by the number of "
        "words.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .common = train_general,
    .n_common = TRAIN_N_GENERAL,
};

int train_lda_command(int argc, char **argv)
{
    int status;
    if (!train_begin(&option_set, argc, argv, &status))
        return status;
    if (train_args.data == NULL) {
        complain("which documents? --data PATH; see 'tern train lda --help'");
        return EXIT_USAGE;
    }
    if (args.beta > 0 && args.beta < MIN_BETA) {
        complain("--beta is %g at least; see 'tern train lda --help'", MIN_BETA);
        return EXIT_USAGE;
    }
    return train_end(lda_train(&train_args, &args));
}
