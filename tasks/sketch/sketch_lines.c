/* sketch_lines - see sketch_lines.h. */
#include "sketch/sketch_lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/examples.h"
#include "common/sentence.h"

enum { BLOCK_BYTES = 1 << 19 }; /* of text, after which no further line is added */

void sketch_source_init(struct sketch_source *source, const char *const *paths, size_t n)
{
    *source = (struct sketch_source){.paths = paths, .n_paths = n};
    pthread_mutex_init(&source->mutex, NULL);
}

void sketch_source_fini(struct sketch_source *source)
{
    if (source->is_open)
        input_close(&source->input);
    pthread_mutex_destroy(&source->mutex);
}

void sketch_source_stop(struct sketch_source *source)
{
    pthread_mutex_lock(&source->mutex);
    source->is_stopped = true;
    pthread_mutex_unlock(&source->mutex);
}

bool sketch_source_is_stopped(struct sketch_source *source)
{
    pthread_mutex_lock(&source->mutex);
    const bool is_stopped = source->is_stopped;
    pthread_mutex_unlock(&source->mutex);
    return is_stopped;
}

static bool add_line(struct sketch_block *block, const char *line, size_t length)
{
    const size_t end = block->bytes + length + 1;
    if (end > block->capacity) {
        const size_t capacity = 2 * end + BLOCK_BYTES;
        char *text = realloc(block->text, capacity);
        if (!text)
            return task_fail_memory("lines");
        block->text = text;
        block->capacity = capacity;
    }
    memcpy(block->text + block->bytes, line, length);
    block->text[end - 1] = 0;
    block->begins[block->n++] = block->bytes;
    block->begins[block->n] = block->bytes = end;
    return true;
}

/* Adds lines of the open file until the block is full or the file ends. */
static bool fill(struct sketch_source *source, struct sketch_block *block)
{
    block->path = source->paths[source->n_opened - 1];
    block->first = source->input.line + 1;
    while (block->n < SKETCH_BLOCK_LINES && block->bytes < BLOCK_BYTES) {
        char *line;
        size_t length;
        const enum input_result result = input_line(&source->input, &line, &length);
        if (result == INPUT_FAILED)
            return false;
        if (result == INPUT_END) {
            input_close(&source->input);
            source->is_open = false;
            return true;
        }
        if (!add_line(block, line, length))
            return false;
    }
    return true;
}

bool sketch_source_take(struct sketch_source *source, struct sketch_block *block)
{
    bool ok = true;
    block->n = block->bytes = 0;
    pthread_mutex_lock(&source->mutex);
    while (ok && block->n == 0 && !source->is_stopped &&
           (source->is_open || source->n_opened < source->n_paths)) {
        if (!source->is_open) {
            const char *path = source->paths[source->n_opened++];
            ok = source->is_open =
                input_open(&source->input, strcmp(path, "-") == 0 ? "/dev/stdin" : path);
        }
        ok = ok && fill(source, block);
    }
    pthread_mutex_unlock(&source->mutex);
    return ok;
}

/* ---- One line -------------------------------------------------------------------------------- */

/* A number of digits alone that is at most `most`. */
static bool read_digits(const char *text, size_t length, uint64_t most, uint64_t *number)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < length; i++) {
        const uint64_t digit = (uint64_t)(unsigned char)text[i] - '0';
        if (digit > 9 || sum > (most - digit) / 10)
            return false;
        sum = 10 * sum + digit;
    }
    *number = sum;
    return length > 0;
}

bool sketch_key(const char *text, size_t length, uint64_t *key, bool *is_number)
{
    *is_number = (length == 1 || text[0] != '0') && read_digits(text, length, UINT64_MAX, key);
    if (*is_number)
        return true;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 127)
            return false;
    *key = examples_hash(text, length, 0);
    return true;
}

static bool refuse(const struct sketch_block *block, size_t i, const char *what)
{
    return task_fail("%s:%" PRIu64 ": %s", block->path, block->first + i, what);
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

static const char *skip_word(const char *at, const char *end)
{
    while (at < end && *at != ' ' && *at != '\t')
        at++;
    return at;
}

bool sketch_parse(const struct sketch_block *block, size_t i, struct sketch_line *line)
{
    const char *at = block->text + block->begins[i], *end = block->text + block->begins[i + 1] - 1;
    uint64_t count = 1;
    bool is_number;
    at = skip_blanks(at, end);
    const char *key_end = skip_word(at, end);
    *line = (struct sketch_line){.count = -1};
    if (at == end)
        return true;
    if (!sketch_key(at, (size_t)(key_end - at), &line->key, &is_number))
        return refuse(block, i, "the key has a control character");
    if (!is_number) {
        line->text = at;
        line->text_bytes = (size_t)(key_end - at);
    }
    at = skip_blanks(key_end, end);
    const char *count_end = skip_word(at, end);
    if (skip_blanks(count_end, end) != end)
        return refuse(block, i, "a line is a key and perhaps a count, and this one has more");
    if (at < end && *at == '-')
        return refuse(block, i, "the count is negative");
    if (at < end && !read_digits(at, (size_t)(count_end - at), INT64_MAX, &count))
        return refuse(block, i, "the count is not a whole number below 2^63");
    line->count = (int64_t)count;
    return true;
}
