/*
 * tern data bow - makes bags of words, to find topics in.
 */
#include "command.h"
#include "lda/bow.h"
#include "options.h"
#include "train.h"

static struct bow_options args;
static struct operand_list operands;

static const struct option options[] = {
    {"from", OPTION_STRING, &args.from, .takes = "PATH",
     .help = "a file, whose lines are the documents, or a folder, whose files are"},
    {"min-documents", OPTION_INT, &args.min_documents, "5", "N",
     "leave out words of fewer documents", .min = 1, .max = 1e9},
    {"max-share", OPTION_DOUBLE, &args.max_share, "0.1", "X",
     "leave out words of more than this share of the documents", .min = 0, .max = 1},
};

static const struct option_set option_set = {
    .program = "tern data bow",
    .about = "Makes bags of words for 'tern train lda' of any English text: docword.txt and\n"
             "vocab.txt in DIR, in the format of UCI.",
    .notes =
        "Words are runs of at least three letters a to z, in lower case. Of a folder the files\n"
        "in the folders below it are taken as well, and documents.txt lists them. Files may be\n"
        "compressed by gzip or zstd.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "DIR",
    .given = &operands,
};

int data_bow_command(int argc, char **argv)
{
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (operands.n != 1 || args.from == NULL) {
        complain("from where, and where to? tern data bow --from PATH DIR");
        return EXIT_USAGE;
    }
    return train_end(bow_make(&args, operands.at[0]));
}
