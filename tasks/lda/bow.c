/* bow - makes bags of words of text. See bow.h. */
#include "lda/bow.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/input.h"
#include "common/list.h"
#include "common/names.h"
#include "common/outputs.h"
#include "common/sentence.h"

enum { MIN_LETTERS = 3, MAX_LETTERS = 40 };

#define LEFT_OUT UINT32_MAX

/* How often a word is met; later, its number in the vocabulary. */
struct word {
    uint32_t n_documents;
    uint32_t last_document; /* it was met in, from 1 */
    uint32_t number;        /* or LEFT_OUT */
};

/* All words of all documents, one behind the other. */
struct text {
    struct names names;
    struct word *words;
    size_t word_capacity;
    uint32_t *tokens;
    size_t n_tokens, token_capacity;
    size_t *ends; /* of the documents, among the tokens */
    size_t n_documents, document_capacity;
    struct names paths; /* of the documents, when they are files */
};

static void text_fini(struct text *text)
{
    names_fini(&text->names);
    names_fini(&text->paths);
    free(text->words);
    free(text->tokens);
    free(text->ends);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool add_word(struct text *text, const char *letters, size_t n)
{
    uint32_t number, n_before = text->names.n, document = (uint32_t)text->n_documents + 1;
    void *tokens = list_grow(text->tokens, sizeof *text->tokens, text->n_tokens,
                             &text->token_capacity, "the text");
    if (tokens == NULL)
        return false;
    text->tokens = tokens;
    void *words =
        list_grow(text->words, sizeof *text->words, n_before, &text->word_capacity, "the text");
    if (words == NULL)
        return false;
    text->words = words;
    if (!names_add(&text->names, letters, n, &number))
        return false;
    struct word *word = &text->words[number];
    if (number == n_before)
        *word = (struct word){0};
    word->n_documents += word->last_document != document;
    word->last_document = document;
    text->tokens[text->n_tokens++] = number;
    return true;
}

/* Adds the words of a line to the present document; the line is used up. */
static bool add_line(struct text *text, char *line, size_t length)
{
    size_t n = 0; /* letters of the word that ends at i */
    bool ok = true;
    for (size_t i = 0; ok && i <= length; i++) {
        char c = i < length ? line[i] : ' ';
        c = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        if (c >= 'a' && c <= 'z') {
            line[i] = c;
            n++;
            continue;
        }
        if (n >= MIN_LETTERS && n <= MAX_LETTERS)
            ok = add_word(text, line + i - n, n);
        n = 0;
    }
    return ok;
}

static bool end_document(struct text *text)
{
    if (text->n_documents == INT32_MAX)
        return task_fail("there are more than %d documents, which is the limit", INT32_MAX);
    void *ends = list_grow(text->ends, sizeof *text->ends, text->n_documents,
                           &text->document_capacity, "the text");
    if (ends == NULL)
        return false;
    text->ends = ends;
    text->ends[text->n_documents++] = text->n_tokens;
    return true;
}

static bool read_file(struct text *text, const char *path, bool line_is_document)
{
    struct input input;
    enum input_result result = INPUT_FAILED;
    char *line;
    size_t length;
    if (!input_open(&input, path))
        return false;
    bool ok = true;
    while (ok && (result = input_line(&input, &line, &length)) == INPUT_LINE)
        ok = add_line(text, line, length) && (!line_is_document || end_document(text));
    input_close(&input);
    return ok && result == INPUT_END && (line_is_document || end_document(text));
}

static int compare_names(const FTSENT **left, const FTSENT **right)
{
    return strcmp((*left)->fts_name, (*right)->fts_name);
}

static bool read_entry(struct text *text, const FTSENT *entry)
{
    uint32_t number;
    if (entry->fts_info == FTS_F)
        return names_add(&text->paths, entry->fts_path, entry->fts_pathlen, &number) &&
               read_file(text, entry->fts_path, false);
    if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR || entry->fts_info == FTS_NS)
        return task_fail("cannot read %s: %s", entry->fts_path, strerror(entry->fts_errno));
    if (entry->fts_info == FTS_SLNONE)
        return task_fail("cannot read %s: it is a link that leads nowhere", entry->fts_path);
    return true;
}

static bool read_folder(struct text *text, const char *folder)
{
    char *copy = strdup(folder);
    FTS *tree = copy != NULL
                    ? fts_open((char *[]){copy, NULL}, FTS_LOGICAL | FTS_NOCHDIR, compare_names)
                    : NULL;
    bool ok = tree != NULL || task_fail("cannot read %s: %s", folder, strerror(errno));
    for (FTSENT *entry; ok && (entry = fts_read(tree)) != NULL;)
        ok = read_entry(text, entry);
    if (tree != NULL)
        fts_close(tree);
    free(copy);
    return ok;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Numbers the words that are kept, from 1; the vocabulary is the list of them. */
static bool write_vocab(struct outputs *outputs, struct text *text,
                        const struct bow_options *options, uint32_t *n_words)
{
    struct outfile *out = outputs_add(outputs, "vocab.txt");
    double most = options->max_share * (double)text->n_documents;
    if (out == NULL)
        return false;
    *n_words = 0;
    for (uint32_t i = 0; i < text->names.n; i++) {
        struct word *word = &text->words[i];
        bool keep = word->n_documents >= options->min_documents && word->n_documents <= most;
        word->number = keep ? ++*n_words : LEFT_OUT;
        if (keep)
            outfile_print(out, "%s\n", names_at(&text->names, i));
    }
    return *n_words > 0 ||
           task_fail("no word occurs in at least %" PRId64 " documents and at most %g "
                     "of them; see --min-documents and --max-share",
                     options->min_documents, options->max_share);
}

static int compare_numbers(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Replaces words by their numbers and sorts them within each document; returns how many different words
 * the documents have, added up. */
static uint64_t sort_documents(struct text *text)
{
    uint64_t n_pairs = 0;
    for (size_t i = 0, begin = 0; i < text->n_documents; begin = text->ends[i++]) {
        uint32_t *tokens = text->tokens + begin;
        size_t n = text->ends[i] - begin;
        for (size_t j = 0; j < n; j++)
            tokens[j] = text->words[tokens[j]].number;
        qsort(tokens, n, sizeof *tokens, compare_numbers);
        for (size_t j = 0; j < n && tokens[j] != LEFT_OUT; j++)
            n_pairs += j == 0 || tokens[j] != tokens[j - 1];
    }
    return n_pairs;
}

static bool write_documents(struct outputs *outputs, struct text *text, uint32_t n_words)
{
    struct outfile *out = outputs_add(outputs, "docword.txt");
    if (out == NULL)
        return false;
    outfile_print(out, "%zu\n%u\n%" PRIu64 "\n", text->n_documents, n_words, sort_documents(text));
    for (size_t i = 0, begin = 0; i < text->n_documents; begin = text->ends[i++]) {
        for (size_t j = begin, next; j < text->ends[i] && text->tokens[j] != LEFT_OUT; j = next) {
            next = j + 1;
            while (next < text->ends[i] && text->tokens[next] == text->tokens[j])
                next++;
            outfile_print(out, "%zu %u %zu\n", i + 1, text->tokens[j], next - j);
        }
    }
    return true;
}

static bool write_paths(struct outputs *outputs, const struct names *paths)
{
    if (paths->n == 0)
        return true;
    struct outfile *out = outputs_add(outputs, "documents.txt");
    for (uint32_t i = 0; out != NULL && i < paths->n; i++)
        outfile_print(out, "%s\n", names_at(paths, i));
    return out != NULL;
}

static bool write_all(struct text *text, const struct bow_options *options, const char *folder)
{
    struct outputs outputs;
    uint32_t n_words;
    if (!outputs_open(&outputs, folder))
        return false;
    if (write_vocab(&outputs, text, options, &n_words) &&
        write_documents(&outputs, text, n_words) && write_paths(&outputs, &text->paths))
        return outputs_commit(&outputs);
    outputs_discard(&outputs);
    return false;
}

bool bow_make(const struct bow_options *options, const char *folder)
{
    struct text text = {0};
    struct stat status;
    bool is_folder = stat(options->from, &status) == 0 && S_ISDIR(status.st_mode);
    bool ok =
        (is_folder ? read_folder(&text, options->from) : read_file(&text, options->from, true)) &&
        (text.n_tokens > 0 || task_fail("there are no words in %s", options->from)) &&
        write_all(&text, options, folder);
    text_fini(&text);
    return ok;
}
