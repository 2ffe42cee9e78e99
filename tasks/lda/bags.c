/* bags - reads documents as bags of words. See bags.h. */
#include "lda/bags.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/input.h"
#include "common/list.h"
#include "common/sentence.h"

enum {
    MAX_TOKENS = INT32_MAX, /* a topic may have all of them, and its count has 32 bits */
    MAX_DOCUMENTS = INT32_MAX,
    HEAD_LINES = 3,
    FREE_DOCUMENTS = 100000, /* that may all be empty */
    DOCUMENTS_PER_LINE = 100,
};

/* ---- Building -------------------------------------------------------------------------------- */

static bool grow_documents(struct bags *bags)
{
    uint64_t capacity = bags->document_capacity > 0 ? 2 * bags->document_capacity : 1024;
    uint64_t *pairs = realloc(bags->first_pair, capacity * sizeof *pairs);
    if (pairs != NULL)
        bags->first_pair = pairs;
    uint64_t *tokens = realloc(bags->first_token, capacity * sizeof *tokens);
    if (tokens != NULL)
        bags->first_token = tokens;
    if (pairs == NULL || tokens == NULL)
        return task_fail_memory("the documents");
    bags->document_capacity = capacity;
    return true;
}

/* Notes that the next document, or the end, is here. */
static bool mark(struct bags *bags, uint32_t document)
{
    if (document >= bags->document_capacity && !grow_documents(bags))
        return false;
    bags->first_pair[document] = bags->n_pairs;
    bags->first_token[document] = bags->n_tokens;
    return true;
}

/* The document that was begun last is complete. */
static bool end_document(struct bags *bags)
{
    bags->n_documents++;
    return mark(bags, bags->n_documents);
}

static bool add_pair(struct bags *bags, const struct input *input, uint64_t word, uint64_t n)
{
    if (n > MAX_TOKENS - bags->n_tokens)
        return input_fail(input, "up to here there are more than %d words, which is the limit",
                          MAX_TOKENS);
    struct bag_word *pairs =
        list_grow(bags->pairs, sizeof *pairs, bags->n_pairs, &bags->pair_capacity, "the documents");
    if (pairs == NULL)
        return false;
    bags->pairs = pairs;
    if (n > 0)
        bags->pairs[bags->n_pairs++] = (struct bag_word){(uint32_t)word, (uint32_t)n};
    bags->n_tokens += n;
    return true;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Reads a number at *text, and moves *text behind it. */
static bool take_number(const struct input *input, const char **text, uint64_t *number)
{
    char *end;
    *text += strspn(*text, " \t");
    errno = 0;
    *number = strtoull(*text, &end, 10);
    if (end == *text || **text == '-' || **text == '+' || errno != 0)
        return input_fail(input, "'%.40s' is not a number", *text);
    *text = end;
    return true;
}

static bool take_end(const struct input *input, const char *text)
{
    text += strspn(text, " \t");
    return *text == '\0' || input_fail(input, "'%.40s' is too much here", text);
}

/* What the head of docword.txt says, and how far it is read. */
struct head {
    uint64_t numbers[HEAD_LINES]; /* documents, words, lines */
    uint64_t n_lines;             /* so far, behind the head */
    uint32_t n_words;             /* of the vocabulary */
};

static bool check_head(const struct input *input, const struct head *head)
{
    if (head->numbers[0] > MAX_DOCUMENTS)
        return input_fail(input, "more than %d documents are too many", MAX_DOCUMENTS);
    if (head->numbers[1] != head->n_words)
        return input_fail(input, "there should be %" PRIu64 " words, but the vocabulary has %u",
                          head->numbers[1], head->n_words);
    return true;
}

/* Completes documents up to `document`, empty ones unless lines were read for them. These are ordinary, but
 * cost memory, so a few lines cannot have any number of them. */
static bool end_documents(struct bags *bags, const struct input *input, const struct head *head,
                          uint64_t document)
{
    if (document > FREE_DOCUMENTS + DOCUMENTS_PER_LINE * head->n_lines)
        return input_fail(input,
                          "%" PRIu64 " documents are too many for the %" PRIu64
                          " line%s with words up to here; are the numbers of the head right?",
                          document, head->n_lines, head->n_lines == 1 ? "" : "s");
    bool ok = true;
    while (ok && bags->n_documents < document)
        ok = end_document(bags);
    return ok;
}

static bool read_triple(struct bags *bags, const struct input *input, struct head *head,
                        const char *line)
{
    uint64_t document, word, n;
    if (!take_number(input, &line, &document) || !take_number(input, &line, &word) ||
        !take_number(input, &line, &n) || !take_end(input, line))
        return false;
    if (document < 1 || document > head->numbers[0])
        return input_fail(input, "document %" PRIu64 " is not one of the %" PRIu64 " of the head",
                          document, head->numbers[0]);
    if (document <= bags->n_documents)
        return input_fail(input,
                          "document %" PRIu64 " comes after document %" PRIu64
                          "; they must stand in ascending order",
                          document, (uint64_t)bags->n_documents + 1);
    if (word < 1 || word > head->n_words)
        return input_fail(input, "word %" PRIu64 " is not one of the %u of the vocabulary", word,
                          head->n_words);
    head->n_lines++;
    return end_documents(bags, input, head, document - 1) && add_pair(bags, input, word - 1, n);
}

/* A line of docword.txt. */
static bool read_uci(struct bags *bags, const struct input *input, struct head *head,
                     const char *line)
{
    if (input->line > HEAD_LINES)
        return read_triple(bags, input, head, line);
    return take_number(input, &line, &head->numbers[input->line - 1]) && take_end(input, line) &&
           (input->line < HEAD_LINES || check_head(input, head));
}

/* A line of lda-c: a document. */
static bool read_ldac(struct bags *bags, const struct input *input, uint32_t n_words,
                      const char *line)
{
    uint64_t n_pairs, word, n;
    if (!take_number(input, &line, &n_pairs))
        return false;
    if (bags->n_documents == MAX_DOCUMENTS)
        return input_fail(input, "more than %d documents are too many", MAX_DOCUMENTS);
    for (uint64_t i = 0; i < n_pairs; i++) {
        if (line[strspn(line, " \t")] == '\0')
            return input_fail(input, "the line should have %" PRIu64 " words, but has %" PRIu64,
                              n_pairs, i);
        if (!take_number(input, &line, &word))
            return false;
        if (*line++ != ':')
            return input_fail(input, "a word and its count are separated by ':'");
        if (!take_number(input, &line, &n))
            return false;
        if (word >= n_words)
            return input_fail(input, "word %" PRIu64 " is not in the vocabulary, which has 0 to %u",
                              word, n_words - 1);
        if (!add_pair(bags, input, word, n))
            return false;
    }
    return take_end(input, line) && end_document(bags);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static bool end_uci(struct bags *bags, const struct input *input, const struct head *head)
{
    if (input->line < HEAD_LINES)
        return task_fail("%s ends before its head is complete", input->path);
    if (head->n_lines != head->numbers[2])
        return task_fail("%s should have %" PRIu64 " lines after its head, but has %" PRIu64,
                         input->path, head->numbers[2], head->n_lines);
    return end_documents(bags, input, head, head->numbers[0]);
}

/* A document of lda-c with words has more than one field. */
static bool is_head(const char *line)
{
    return strpbrk(line, " \t:") == NULL && strcmp(line, "0") != 0;
}

static bool read_lines(struct bags *bags, struct input *input)
{
    struct head head = {.n_words = bags->words.n};
    enum input_result result = INPUT_FAILED;
    char *line;
    size_t length;
    bool is_uci = false, ok = mark(bags, 0);
    while (ok && (result = input_line(input, &line, &length)) == INPUT_LINE) {
        if (input->line == 1)
            is_uci = is_head(line);
        if (length != strlen(line))
            ok = input_fail(input, "the line has a NUL character");
        else
            ok = is_uci ? read_uci(bags, input, &head, line)
                        : read_ldac(bags, input, head.n_words, line);
    }
    return ok && result == INPUT_END && (!is_uci || end_uci(bags, input, &head)) &&
           (bags->n_tokens > 0 ||
            task_fail("there are no words in the documents of %s", input->path));
}

/* Cuts `ending` off a name. */
static void cut_ending(char *name, const char *ending)
{
    size_t n = strlen(name), n_ending = strlen(ending);
    if (n > n_ending && strcmp(name + n - n_ending, ending) == 0)
        name[n - n_ending] = '\0';
}

/* The vocabulary beside a file of documents; *path is to be freed. */
static bool find_vocab(const char *documents, char **path)
{
    static const char *const endings[] = {".gz", ".zst", ".txt", ".tsv", ".csv", ".dat"};
    const char *slash = strrchr(documents, '/');
    char *folder = slash != NULL ? strndup(documents, (size_t)(slash - documents)) : strdup(".");
    char *name = strdup(slash != NULL ? slash + 1 : documents), *stem = NULL;
    bool ok = folder != NULL && name != NULL;
    for (size_t i = 0; ok && i < sizeof endings / sizeof *endings; i++)
        cut_ending(name, endings[i]);
    bool is_docword = ok && strncmp(name, "docword", strlen("docword")) == 0;
    if (ok && asprintf(&stem, "vocab%s", is_docword ? name + strlen("docword") : "") < 0)
        ok = false;
    ok = ok ? input_find(folder, stem, path) : task_fail_memory("the names of files");
    if (ok && *path == NULL)
        ok = input_find(folder, "vocab", path);
    if (ok && *path == NULL)
        ok = task_fail("there is no vocab (.txt; plain, .gz or .zst) beside %s; name the file of "
                       "words with --vocab FILE",
                       documents);
    free(folder);
    free(name);
    free(stem);
    return ok;
}

static bool read_vocab(struct bags *bags, const char *documents, const char *vocab)
{
    char *found = NULL;
    if (vocab == NULL && !find_vocab(documents, &found))
        return false;
    bool ok = names_read(&bags->words, vocab != NULL ? vocab : found);
    if (ok && bags->words.n == 0)
        ok = task_fail("there are no words in %s", vocab != NULL ? vocab : found);
    free(found);
    return ok;
}

static bool read_file(struct bags *bags, const char *path, const char *vocab)
{
    struct input input;
    if (!input_open(&input, path))
        return false;
    bool ok = read_vocab(bags, path, vocab) && read_lines(bags, &input);
    input_close(&input);
    return ok;
}

bool bags_read(struct bags *bags, const char *data, const char *vocab)
{
    struct stat status;
    char *path = NULL;
    *bags = (struct bags){0};
    if (stat(data, &status) != 0 || !S_ISDIR(status.st_mode))
        return read_file(bags, data, vocab);
    if (!input_find(data, "docword", &path))
        return false;
    if (path == NULL)
        return task_fail("there is no docword (.txt; plain, .gz or .zst) in the folder %s", data);
    bool ok = read_file(bags, path, vocab);
    free(path);
    return ok;
}

/* ---- Arranging --------------------------------------------------------------------------------- */

static bool find_order(struct bags *bags, const uint32_t *parts, uint32_t n_parts,
                       uint32_t n_groups)
{
    uint32_t *next = calloc((size_t)n_parts + 1, sizeof *next);
    bags->numbers = malloc((bags->n_documents + (size_t)1) * sizeof *bags->numbers);
    bags->positions = malloc((bags->n_documents + (size_t)1) * sizeof *bags->positions);
    bags->first_of_group = malloc((n_groups + (size_t)1) * sizeof *bags->first_of_group);
    bool ok = next != NULL && bags->numbers != NULL && bags->positions != NULL &&
              bags->first_of_group != NULL;
    for (uint32_t i = 0; ok && i < bags->n_documents; i++)
        next[parts[i] + 1]++;
    for (uint32_t p = 0; ok && p < n_parts; p++)
        next[p + 1] += next[p];
    for (uint32_t g = 0; ok && g <= n_groups; g++)
        bags->first_of_group[g] = next[g * (n_parts / n_groups)];
    for (uint32_t i = 0; ok && i < bags->n_documents; i++) {
        bags->positions[i] = next[parts[i]]++;
        bags->numbers[bags->positions[i]] = i;
    }
    bags->n_groups = n_groups;
    free(next);
    return ok || task_fail_memory("the order of the documents");
}

bool bags_arrange(struct bags *bags, const uint32_t *parts, uint32_t n_parts, uint32_t n_groups)
{
    if (!find_order(bags, parts, n_parts, n_groups))
        return false;
    struct bags old = *bags;
    bags->first_pair = bags->first_token = NULL;
    bags->pairs = malloc((old.n_pairs + 1) * sizeof *bags->pairs);
    bags->n_pairs = bags->n_tokens = bags->n_documents = 0;
    bags->document_capacity = 0;
    bags->pair_capacity = old.n_pairs + 1;
    bool ok = (bags->pairs != NULL || task_fail_memory("the documents")) && mark(bags, 0);
    for (uint32_t i = 0; ok && i < old.n_documents; i++) {
        const uint32_t number = bags->numbers[i];
        const uint64_t first = old.first_pair[number], n = old.first_pair[number + 1] - first;
        memcpy(bags->pairs + bags->n_pairs, old.pairs + first, n * sizeof *bags->pairs);
        bags->n_pairs += n;
        bags->n_tokens += bags_length(&old, number);
        ok = end_document(bags);
    }
    free(old.pairs);
    free(old.first_pair);
    free(old.first_token);
    return ok;
}

void bags_forget(struct bags *bags)
{
    free(bags->pairs);
    free(bags->first_pair);
    bags->pairs = NULL;
    bags->first_pair = NULL;
}

void bags_fini(struct bags *bags)
{
    bags_forget(bags);
    free(bags->first_token);
    free(bags->numbers);
    free(bags->positions);
    free(bags->first_of_group);
    names_fini(&bags->words);
    *bags = (struct bags){0};
}
