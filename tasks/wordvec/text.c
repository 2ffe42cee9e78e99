/* text - the words of plain text, shared by several workers. See text.h. */
#include "wordvec/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/list.h"
#include "common/sentence.h"

/* ---- Files ----------------------------------------------------------------------------------- */

/* Takes over `path`, which is NULL when there was no memory for it. */
static bool add_path(struct text *text, char *path)
{
    char **paths =
        list_grow(text->paths, sizeof *paths, text->n, &text->capacity, "the names of files");
    if (paths != NULL)
        text->paths = paths;
    if (path == NULL)
        task_fail_memory("the names of files");
    if (paths == NULL || path == NULL) {
        free(path);
        return false;
    }
    text->paths[text->n++] = path;
    return true;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int compare_paths(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static bool add_entries(struct text *text, DIR *folder, const char *name)
{
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(folder)) != NULL;) {
        char *path;
        if (entry->d_name[0] == '.')
            continue;
        if (asprintf(&path, "%s/%s", name, entry->d_name) < 0)
            path = NULL;
        if (path != NULL && is_folder(path))
            free(path);
        else
            ok = add_path(text, path);
    }
    return ok;
}

static bool add_folder(struct text *text, const char *name)
{
    DIR *folder = opendir(name);
    if (folder == NULL)
        return task_fail("cannot open the folder %s: %s", name, strerror(errno));
    bool ok = add_entries(text, folder, name);
    closedir(folder);
    if (ok && text->n == 0)
        return task_fail("there is no file in the folder %s", name);
    if (ok)
        qsort(text->paths, text->n, sizeof *text->paths, compare_paths);
    return ok;
}

static bool add_list(struct text *text, const char *list)
{
    bool ok = true;
    for (size_t length; ok; list += length + 1) {
        length = strcspn(list, ",");
        ok = add_path(text, strndup(list, length));
        if (list[length] == '\0')
            break;
    }
    return ok;
}

bool text_init(struct text *text, const char *data)
{
    *text = (struct text){0};
    return is_folder(data) ? add_folder(text, data) : add_list(text, data);
}

bool text_can_be_reread(const struct text *text)
{
    struct stat status;
    for (size_t i = 0; i < text->n; i++)
        if (stat(text->paths[i], &status) == 0 && !S_ISREG(status.st_mode))
            return task_fail(
                "%s is not a regular file; every node reads the text, and a long one more than "
                "once, which a pipe or device does not allow: write it to a file first",
                text->paths[i]);
    return true;
}

void text_fini(struct text *text)
{
    for (size_t i = 0; i < text->n; i++)
        free(text->paths[i]);
    free(text->paths);
    *text = (struct text){0};
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

void text_open(struct text_reader *reader, const struct text *text, uint64_t worker,
               uint64_t n_workers)
{
    memset(reader, 0, offsetof(struct text_reader, word));
    reader->text = text;
    reader->worker = worker;
    reader->n_workers = n_workers;
}

void text_close(struct text_reader *reader)
{
    if (reader->is_open)
        input_close(&reader->input);
    reader->is_open = false;
}

/* Whether the piece that was read last has words for this worker. */
static bool is_own(const struct text_reader *reader)
{
    return reader->text->placement != NULL ||
           (reader->n_pieces - 1) % reader->n_workers == reader->worker;
}

/* The worker of a line; lines that the placement does not have are the first worker's. */
static uint64_t line_worker(const struct text *text, uint64_t line)
{
    const uint64_t node = line < text->placement->n_rows ? placement_row(text->placement, line) : 0;
    return node * text->n_threads + line % text->n_threads;
}

uint64_t text_worker(const struct text_reader *reader, uint64_t n_workers)
{
    return reader->text->placement != NULL ? line_worker(reader->text, reader->line)
                                           : reader->piece % n_workers;
}

/* Whether the line at hand is another worker's. */
static bool is_foreign(const struct text_reader *reader)
{
    return reader->text->placement != NULL && reader->n_workers > 1 &&
           line_worker(reader->text, reader->line) != reader->worker;
}

static bool separates(char byte)
{
    return (unsigned char)byte <= ' ';
}

/* The first separator at or behind `at`, or the end of the buffer. */
static size_t word_end(const struct text_reader *reader, size_t at)
{
    while (at < reader->end && !separates(reader->buffer[at]))
        at++;
    return at;
}

/* Reads the next piece of the file; at its end there are 0 bytes. */
static bool read_piece(struct text_reader *reader)
{
    size_t n = 0, got = 1;
    for (; n < TEXT_PIECE && got > 0; n += got)
        if (!input_bytes(&reader->input, reader->buffer + n, TEXT_PIECE - n, &got))
            return false;
    reader->at = 0;
    reader->end = n;
    reader->n_pieces += n > 0;
    return true;
}

/* What is unread of the piece is not this worker's. */
static void pass_over(struct text_reader *reader)
{
    reader->gap = true;
    reader->inside = reader->end > 0 && !separates(reader->buffer[reader->end - 1]);
    reader->at = reader->end;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static void keep_part(struct text_reader *reader, size_t end)
{
    size_t n = end - reader->at, room = TEXT_WORD_MAX - reader->n_word;
    n = n < room ? n : room;
    memcpy(reader->word + reader->n_word, reader->buffer + reader->at, n);
    reader->n_word += n;
    reader->at = end;
}

/* Puts together a word that goes beyond the piece it begins in. */
static bool join_word(struct text_reader *reader)
{
    reader->n_word = 0;
    keep_part(reader, reader->end);
    do {
        if (!read_piece(reader))
            return false;
        keep_part(reader, word_end(reader, 0));
    } while (reader->end > 0 && reader->at == reader->end);
    reader->inside = false;
    if (reader->end > 0 && !is_own(reader))
        pass_over(reader);
    return true;
}

static enum text_part take_word(struct text_reader *reader, const char **word, size_t *length)
{
    size_t begin = reader->at, end = word_end(reader, begin);
    reader->piece = reader->n_pieces - 1;
    reader->in_sentence = true;
    if (end == reader->end) {
        if (!join_word(reader))
            return TEXT_FAILED;
        *word = reader->word;
        *length = reader->n_word;
        return TEXT_WORD;
    }
    reader->at = end;
    *word = reader->buffer + begin;
    *length = end - begin < TEXT_WORD_MAX ? end - begin : TEXT_WORD_MAX;
    return TEXT_WORD;
}

static bool end_sentence(struct text_reader *reader)
{
    bool was_in_sentence = reader->in_sentence;
    reader->in_sentence = false;
    return was_in_sentence;
}

/* The next word or end of a sentence in the buffer; TEXT_END when there is nothing. */
static enum text_part next_in_buffer(struct text_reader *reader, const char **word, size_t *length)
{
    while (reader->at < reader->end) {
        char byte = reader->buffer[reader->at];
        if (!separates(byte) && !is_foreign(reader)) {
            reader->in_line = true;
            return take_word(reader, word, length);
        }
        reader->at++;
        reader->in_line = byte != '\n';
        reader->line += byte == '\n';
        if (byte == '\n' && end_sentence(reader))
            return TEXT_SENTENCE_END;
    }
    return TEXT_END;
}

/* ---- The stream ------------------------------------------------------------------------------ */

/* Opens the next file; false at the end of the text and after task_fail(). */
static bool next_file(struct text_reader *reader, enum text_part *why_not)
{
    if (reader->next_file == reader->text->n) {
        text_open(reader, reader->text, reader->worker, reader->n_workers);
        *why_not = TEXT_END;
        return false;
    }
    reader->inside = false;
    reader->is_open = input_open(&reader->input, reader->text->paths[reader->next_file++]);
    *why_not = TEXT_FAILED;
    return reader->is_open;
}

/* Reads the next piece, and closes the file at its end. */
static bool advance(struct text_reader *reader)
{
    if (!read_piece(reader))
        return false;
    if (reader->end == 0) {
        text_close(reader);
        reader->gap = true;
        reader->line += reader->in_line; /* the last line of a file may lack its end */
        reader->in_line = false;
    } else if (!is_own(reader)) {
        pass_over(reader);
    } else if (reader->inside) {
        reader->at = word_end(reader, 0);
        reader->inside = reader->at == reader->end;
    }
    return true;
}

enum text_part text_next(struct text_reader *reader, const char **word, size_t *length)
{
    for (;;) {
        bool gap = reader->gap;
        reader->gap = false;
        if (gap && end_sentence(reader))
            return TEXT_SENTENCE_END;
        enum text_part part = next_in_buffer(reader, word, length);
        if (part != TEXT_END)
            return part;
        if (!reader->is_open && !next_file(reader, &part))
            return part;
        if (!advance(reader))
            return TEXT_FAILED;
    }
}
