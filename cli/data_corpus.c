/*
 * tern data text, tern data gcide - make text to learn word vectors from.
 */
#include "command.h"
#include "options.h"
#include "train.h"
#include "wordvec/corpus.h"

static struct {
    const char *from;
    struct operand_list operands;
} args;

/* ---- tern data text -------------------------------------------------------------------------- */

static const struct option text_options[] = {
    {"from", OPTION_STRING, &args.from, .takes = "PATH",
     .help = "a file, several separated by commas, or a folder of files"},
};

static const struct option_set text_set = {
    .program = "tern data text",
    .about = "Makes text for 'tern train wordvec' of any English text: text.txt in DIR.",
    .notes = "What is left are the letters a to z, in lower case; all else separates words. Lines\n"
             "that begin with '<' are left out. Files may be compressed by gzip or zstd.",
    .options = text_options,
    .n_options = sizeof text_options / sizeof *text_options,
    .operands = "DIR",
    .given = &args.operands,
};

int data_text_command(int argc, char **argv)
{
    int status;
    if (!options_read(&text_set, argc, argv, &status))
        return status;
    if (args.operands.n != 1 || args.from == NULL) {
        complain("from where, and where to? tern data text --from PATH DIR");
        return EXIT_USAGE;
    }
    return train_end(corpus_from_text(args.from, args.operands.at[0]));
}

/* ---- tern data gcide ------------------------------------------------------------------------- */

static const struct option gcide_options[] = {
    {"from", OPTION_STRING, &args.from, "/usr/share/dictd/gcide.dict.dz", .takes = "FILE",
     .help = "the file of the dictionary"},
};

static const struct option_set gcide_set = {
    .program = "tern data gcide",
    .about = "Makes text for 'tern train wordvec' of the Collaborative International Dictionary\n"
             "of English: gcide.txt in DIR, a line per entry.",
    .notes = "What is left are the letters a to z, in lower case; all else separates words.\n"
             "Pronunciations, etymologies and sources are left out.\n"
             "On Debian, the package dict-gcide has the dictionary.",
    .options = gcide_options,
    .n_options = sizeof gcide_options / sizeof *gcide_options,
    .operands = "DIR",
    .given = &args.operands,
};

int data_gcide_command(int argc, char **argv)
{
    int status;
    if (!options_read(&gcide_set, argc, argv, &status))
        return status;
    if (args.operands.n != 1) {
        complain("where to? tern data gcide DIR");
        return EXIT_USAGE;
    }
    return train_end(corpus_from_gcide(args.from, args.operands.at[0]));
}
