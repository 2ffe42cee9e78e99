/*
 * tern nearest - the words whose vectors are closest to that of a given one, or to a sum of some.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    .about =
        "Prints the words whose vectors are closest to that of a word, or to a sum of words, with\n"
        "the cosine of the angle between them: tern nearest MODEL king - man + woman",
    .notes =
        "MODEL is the folder of a model; of its files the first one of words, entities, items,\n"
        "users and relations is taken that has the words. Or it is a file: .npy, with the\n"
        "words in a file of the same name that ends in .txt, or of word2vec's text or binary\n"
        "format, perhaps compressed by gzip or zstd. Words whose vectors are zero, or have\n"
        "numbers that are not finite, are left out. A word that begins with '-' follows '--'.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .operands = "MODEL WORD [+|- WORD]...",
    .given = &args.operands,
};

/* A sum of words. */
struct sum {
    size_t n;
    struct term terms[LIST_MAX];
    char text[4096]; /* of the words, when they came as one operand */
};

static bool is_sign(const char *text)
{
    return strcmp(text, "+") == 0 || strcmp(text, "-") == 0;
}

/* Appends what follows in the sum: a word, behind a sign unless it is the first. */
static bool add_operand(struct sum *sum, const char *operand, const char **sign)
{
    if (is_sign(operand) && *sign == NULL && sum->n > 0) {
        *sign = operand;
        return true;
    }
    if ((sum->n > 0 && *sign == NULL) || sum->n == LIST_MAX)
        return false;
    sum->terms[sum->n++] =
        (struct term){.name = operand, .is_subtracted = *sign != NULL && (*sign)[0] == '-'};
    *sign = NULL;
    return true;
}

/* king - man + woman, as operands of their own. */
static bool read_sum(struct sum *sum)
{
    const char *sign = NULL;
    for (size_t i = 1; i < args.operands.n; i++)
        if (!add_operand(sum, args.operands.at[i], &sign))
            return false;
    return sum->n > 0 && sign == NULL;
}

/* The same in one operand, "king - man + woman", which may also be a name with blanks. */
static bool split_sum(struct sum *sum)
{
    const char *sign = NULL;
    char *rest = sum->text;
    snprintf(sum->text, sizeof sum->text, "%s", sum->terms[0].name);
    sum->n = 0;
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        if (word[0] != '\0' && !add_operand(sum, word, &sign))
            return false;
    return sum->n > 1 && sign == NULL;
}

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

/* The file to read, to be freed; NULL after task_fail(). */
static char *find_file(const struct sum *sum)
{
    const char *path = args.operands.at[0];
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return lexicon_of_model(path, sum->terms, sum->n);
    char *copy = strdup(path);
    if (copy == NULL)
        task_fail_memory("the name of a file");
    return copy;
}

/* Reads the vectors, and finds the words among them. */
static bool open_lexicon(struct lexicon *lexicon, struct sum *sum)
{
    char *path = find_file(sum);
    bool ok = path != NULL && lexicon_read(lexicon, path) &&
              lexicon_find(lexicon, path, sum->terms, sum->n);
    free(path);
    return ok;
}

static bool print_nearest(const struct lexicon *lexicon, const struct sum *sum)
{
    struct best best;
    bool ok =
        best_init(&best, (size_t)args.n) && lexicon_nearest(lexicon, sum->terms, sum->n, &best);
    for (size_t i = 0; ok && i < best.n; i++)
        print_neighbour(names_at(&lexicon->names, best.at[i].number), (double)best.at[i].score);
    best_fini(&best);
    return ok;
}

int nearest_command(int argc, char **argv)
{
    struct lexicon lexicon = {0};
    struct sum sum = {0}, parts = {0};
    int status;
    if (!options_read(&option_set, argc, argv, &status))
        return status;
    if (args.operands.n < 2 || !read_sum(&sum)) {
        complain("which words? tern nearest MODEL WORD, or MODEL king - man + woman");
        return EXIT_USAGE;
    }
    parts.terms[0] = sum.terms[0];
    bool ok = open_lexicon(&lexicon, &sum);
    if (!ok && sum.n == 1 && split_sum(&parts)) {
        lexicon_fini(&lexicon);
        sum = parts;
        ok = open_lexicon(&lexicon, &sum);
    }
    ok = ok && print_nearest(&lexicon, &sum);
    lexicon_fini(&lexicon);
    return train_end(ok);
}
