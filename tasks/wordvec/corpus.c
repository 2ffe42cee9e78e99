/*
 * corpus - makes text to learn word vectors from. See corpus.h.
 *
 * An entry of GCIDE begins with a line that is not indented:
 *
 *   Lariat \Lar"i*at\ (l[a^]r"[i^]*[a^]t), n. [Sp. la reata the
 *      rope; la the + reata rope. Cf. {Reata}.]
 *      A long, slender rope made of hemp or strips of hide, ...
 *      [1913 Webster]
 *
 * Between backslashes stands a pronunciation, as in parentheses that contain brackets or a double
 * quote. Brackets enclose etymologies, remarks and sources; or, up to three characters long, a letter
 * that ASCII does not have.
 */
#include "wordvec/corpus.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/input.h"
#include "common/outputs.h"
#include "common/sentence.h"
#include "wordvec/text.h"

enum {
    SOUND_MAX = 100, /* characters in the parentheses of a pronunciation, at most */
    LETTER_MAX = 3,
};

/* ---- Letters --------------------------------------------------------------------------------- */

/* The letter, in lower case; 0 when it is none. */
static char letter(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return (char)(c >= 'a' && c <= 'z' ? c : 0);
}

/* Writes the words of a line; false if there are none. The line is used up. */
static bool write_words(struct outfile *out, char *line, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        char c = letter(line[i]);
        if (c != 0)
            line[n++] = c;
        else if (n > 0 && line[n - 1] != ' ')
            line[n++] = ' ';
    }
    n -= n > 0 && line[n - 1] == ' ';
    if (n == 0)
        return false;
    outfile_write(out, line, n);
    outfile_write(out, "\n", 1);
    return true;
}

/* ---- Any text -------------------------------------------------------------------------------- */

static bool write_file(struct outfile *out, const char *path, bool *has_words)
{
    struct input input;
    enum input_result result;
    char *line;
    size_t length;
    if (!input_open(&input, path))
        return false;
    while ((result = input_line(&input, &line, &length)) == INPUT_LINE)
        if (line[0] != '<' && write_words(out, line, length))
            *has_words = true;
    input_close(&input);
    return result == INPUT_END;
}

bool corpus_from_text(const char *from, const char *folder)
{
    struct text text;
    struct outputs outputs = {0};
    struct outfile *out = NULL;
    bool has_words = false;
    bool ok = text_init(&text, from) && outputs_open(&outputs, folder);
    ok = ok && (out = outputs_add(&outputs, "text.txt")) != NULL;
    for (size_t i = 0; ok && i < text.n; i++)
        ok = write_file(out, text.paths[i], &has_words);
    if (ok && !has_words)
        ok = task_fail("there is no word in %s", from);
    text_fini(&text);
    if (ok)
        return outputs_commit(&outputs);
    outputs_discard(&outputs);
    return false;
}

/* ---- GCIDE ----------------------------------------------------------------------------------- */

struct entry {
    size_t n, capacity;
    char *text;
};

static bool add_line(struct entry *entry, const char *line, size_t length)
{
    if (entry->capacity - entry->n < length + 1) {
        size_t capacity = 2 * (entry->n + length + 1);
        char *text = realloc(entry->text, capacity);
        if (text == NULL)
            return task_fail_memory("an entry of the dictionary");
        entry->text = text;
        entry->capacity = capacity;
    }
    memcpy(entry->text + entry->n, line, length);
    entry->n += length;
    entry->text[entry->n++] = ' ';
    return true;
}

/* The place behind a pronunciation that begins at `at`; `at` if none does. */
static size_t skip_sound(const struct entry *entry, size_t at)
{
    char first = entry->text[at];
    if (first != '\\' && first != '(')
        return at;
    bool is_sound = first == '\\';
    for (size_t i = at + 1; i < entry->n && i <= at + SOUND_MAX; i++) {
        char c = entry->text[i];
        is_sound |= c == '[' || c == '"';
        if (c == (first == '\\' ? '\\' : ')'))
            return is_sound ? i + 1 : at;
    }
    return at;
}

/* The place behind the brackets that begin at `at`, or the end. */
static size_t skip_brackets(const struct entry *entry, size_t at)
{
    size_t depth = 0;
    for (; at < entry->n; at++) {
        depth += entry->text[at] == '[';
        depth -= entry->text[at] == ']';
        if (depth == 0)
            return at + 1;
    }
    return at;
}

/* Leaves of an entry what is language. */
static void strip(struct entry *entry)
{
    size_t n = 0;
    for (size_t at = 0; at < entry->n;) {
        size_t behind = skip_sound(entry, at);
        if (behind > at) {
            at = behind;
        } else if (entry->text[at] == '[') {
            behind = skip_brackets(entry, at);
            bool is_letter = behind - at <= LETTER_MAX + 2;
            for (size_t i = at; is_letter && i < behind; i++)
                if (letter(entry->text[i]) != 0)
                    entry->text[n++] = entry->text[i];
            at = behind;
        } else {
            entry->text[n++] = entry->text[at++];
        }
    }
    entry->n = n;
}

static void write_entry(struct outfile *out, struct entry *entry)
{
    strip(entry);
    (void)write_words(out, entry->text, entry->n);
    entry->n = 0;
}

/* What comes before the first headword, which has a pronunciation, is about the dictionary. */
static bool write_entries(struct outfile *out, struct input *input, struct entry *entry)
{
    enum input_result result = INPUT_FAILED;
    char *line;
    size_t length, n_entries = 0;
    bool ok = true;
    while (ok && (result = input_line(input, &line, &length)) == INPUT_LINE) {
        bool is_head = length > 0 && line[0] != ' ' && strchr(line, '\\') != NULL;
        if (is_head && n_entries++ > 0)
            write_entry(out, entry);
        ok = n_entries == 0 || add_line(entry, line, length);
    }
    if (!ok || result != INPUT_END)
        return false;
    if (n_entries == 0)
        return task_fail("there are no entries of the dictionary GCIDE in %s", input->path);
    write_entry(out, entry);
    return true;
}

bool corpus_from_gcide(const char *from, const char *folder)
{
    struct input input;
    struct entry entry = {0};
    struct outputs outputs = {0};
    struct outfile *out = NULL;
    if (!input_open(&input, from))
        return task_fail("%s; on Debian the package dict-gcide has it", task_error());
    bool ok = outputs_open(&outputs, folder);
    ok = ok && (out = outputs_add(&outputs, "gcide.txt")) != NULL &&
         write_entries(out, &input, &entry);
    free(entry.text);
    input_close(&input);
    if (ok)
        return outputs_commit(&outputs);
    outputs_discard(&outputs);
    return false;
}
