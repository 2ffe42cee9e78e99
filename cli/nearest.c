/*
 * tern nearest - the words whose vectors are closest to that of a given one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "common/quoted.h"
#include "common/sentence.h"
#include "options.h"
#include "train.h"
#include "wordvec/lexicon.h"

static struct {
    int64_t n;
    bool json;
    struct operand_list operands;
} args;

static const struct option options[] = {
    {"top", OPTION_INT, &args.n, "10", "N", "words to print", .min = 1, .max = 1e6},
    {"json", OPTION_FLAG, &args.json, .help = "one JSON line per word"},
};

static const struct option_set option_set = {
    .program = "tern nearest",
    .about = "Prints the words whose vectors are closest to that of WORD, with the cosine of the\n"
             "angle between them.",
    .notes = "FILE is .npy, with the words in a file of the same name that ends in .txt, as\n"
             "'tern train' writes them; or of word2vec's text or binary format, perhaps\n"
             "compressed by gzip or zstd. Words whose vectors are zero, or have numbers that are\n"
             "not finite, are left out. A WORD that begins with '-' stands behind '--'.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "FILE WORD",
    .given = &args.operands,
};

static void print_neighbour(const char *word, double similarity)
{
    if (args.json) {
        printf("{\"word\":");
        print_quoted(word);
        printf(",\"similarity\":%.6f}\n", similarity);
    } else {
        printf("%8.4f  %s\n", similarity, word);
    }
}

static bool print_nearest(const struct lexicon *lexicon, const char *path, const char *word)
{
    uint32_t number = names_find(&lexicon->names, word, strlen(word));
    if (number == NAMES_NONE)
        return task_fail("there is no vector of '%s' among the %u in %s", word, lexicon->names.n,
                         path);
    if (!lexicon_has_direction(lexicon, number))
        return task_fail("the vector of '%s' in %s is zero or has numbers that are not finite, so "
                         "nothing is close to it",
                         word, path);
    struct neighbour *neighbours = malloc((size_t)args.n * sizeof *neighbours);
    if (neighbours == NULL)
        return task_fail_memory("the words");
    size_t n = lexicon_nearest(lexicon, number, (size_t)args.n, neighbours);
    for (size_t i = 0; i < n; i++)
        print_neighbour(names_at(&lexicon->names, neighbours[i].word),
                        (double)neighbours[i].similarity);
    free(neighbours);
    return true;
}

int nearest_command(int argc, char **argv)
{
    struct lexicon lexicon;
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (args.operands.n != 2) {
        complain("which file and which word? tern nearest FILE WORD");
        return EXIT_USAGE;
    }
    bool ok = lexicon_read(&lexicon, args.operands.at[0]) &&
              print_nearest(&lexicon, args.operands.at[0], args.operands.at[1]);
    lexicon_fini(&lexicon);
    return train_end(ok);
}
