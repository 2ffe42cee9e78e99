/*
 * examples - sources, chunks and lists of examples. See examples.h; example_lines.c and example_columns.c parse lines.
 *
 * Only examples_take() touches the files, under the source's lock: it copies lines into the caller's chunk. A chunk ends
 * where it is large enough or where its file ends, so chunks are the same in every process that reads the files.
 */
#include "common/examples.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/example_lines.h"
#include "common/sentence.h"
#include "common/team.h"

enum { CHUNK_BYTES = 1 << 15 };

const char *const examples_formats[] = {"detect", "libsvm", "libffm", "vw",
                                        "csv",    "tsv",    "criteo", NULL};

/* ---- Sources ---------------------------------------------------------------------------------- */

static bool list_paths(struct examples_source *source, const char *paths)
{
    size_t n_most = 1;
    for (const char *at = paths; *at != '\0'; at++)
        n_most += *at == ',';
    source->paths = calloc(n_most, sizeof *source->paths);
    source->columns = calloc(n_most, sizeof *source->columns);
    if (source->paths == NULL || source->columns == NULL)
        return task_fail_memory("the names of the files");
    while (*paths != '\0') {
        size_t length = strcspn(paths, ",");
        source->paths[source->n_paths] = strndup(paths, length);
        if (source->paths[source->n_paths++] == NULL)
            return task_fail_memory("the names of the files");
        paths += length + (paths[length] == ',');
    }
    return source->n_paths > 0 || task_fail("there is no file to read examples from");
}

bool examples_open(struct examples_source *source, const char *paths,
                   const struct examples_options *options)
{
    *source = (struct examples_source){.options = *options, .format = options->format};
    pthread_mutex_init(&source->lock, NULL);
    bool ok = list_paths(source, paths);
    if (!ok)
        examples_close(source);
    return ok;
}

void examples_close(struct examples_source *source)
{
    for (size_t i = 0; i < source->n_paths; i++) {
        free(source->paths[i]);
        example_columns_free(source->columns[i]);
    }
    free(source->paths);
    free(source->columns);
    if (source->is_open)
        input_close(&source->input);
    pthread_mutex_destroy(&source->lock);
    *source = (struct examples_source){0};
}

/* ---- Chunks ----------------------------------------------------------------------------------- */

static bool append_line(struct examples_chunk *chunk, const char *line, size_t length)
{
    if (chunk->capacity - chunk->n_bytes < length + 1) {
        size_t capacity = 2 * (chunk->n_bytes + length + 1);
        capacity = capacity > 2 * CHUNK_BYTES ? capacity : 2 * CHUNK_BYTES;
        char *text = realloc(chunk->text, capacity);
        if (text == NULL)
            return task_fail_memory("lines of examples");
        chunk->text = text;
        chunk->capacity = capacity;
    }
    memcpy(chunk->text + chunk->n_bytes, line, length);
    chunk->text[chunk->n_bytes + length] = '\n';
    chunk->n_bytes += length + 1;
    return true;
}

static bool is_blank(const char *line, size_t length)
{
    while (length > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        length--;
    }
    return length == 0;
}

static bool check_format(struct examples_source *source, const char *path,
                         enum examples_format found)
{
    if (source->format == EXAMPLES_DETECT)
        source->format = found;
    return source->format == found || source->options.format != EXAMPLES_DETECT ||
           task_fail("%s looks like %s, but the file before it like %s: say which with --format",
                     path, examples_formats[found], examples_formats[source->format]);
}

/* Learns from the first line of a file what its format and its columns are; a heading is no example. */
static bool learn_format(struct examples_source *source, char *text, size_t length,
                         bool *is_heading)
{
    const size_t number = source->n_opened - 1;
    const struct example_line line = {
        .options = &source->options, .path = source->paths[number], .number = source->input.line};
    struct example_columns **columns = &source->columns[number];
    if (!check_format(source, line.path, example_detect(text, text + length)))
        return false;
    *is_heading = source->format == EXAMPLES_CSV || source->format == EXAMPLES_TSV;
    if (*is_heading)
        *columns = example_columns_read(&line, text, text + length,
                                        source->format == EXAMPLES_CSV ? ',' : '\t');
    else if (source->format == EXAMPLES_CRITEO)
        *columns = example_columns_criteo();
    return *columns != NULL || (!*is_heading && source->format != EXAMPLES_CRITEO);
}

/* Opens the next file and passes over blank lines and a heading; the first example goes into the chunk. */
static bool open_next(struct examples_source *source, struct examples_chunk *chunk)
{
    const char *path = source->paths[source->n_opened++];
    bool is_heading = false;
    char *line;
    size_t length;
    enum input_result result;
    if (!input_open(&source->input, path))
        return false;
    source->is_open = true;
    do {
        result = input_line(&source->input, &line, &length);
    } while (result == INPUT_LINE && is_blank(line, length));
    if (result != INPUT_LINE)
        return result == INPUT_END ? task_fail("%s: the file has no example", path) : false;
    chunk->first_line = source->input.line;
    return learn_format(source, line, length, &is_heading) &&
           (is_heading || append_line(chunk, line, length));
}

/* Whether a line holds an example, and not a comment or nothing. */
static bool is_row(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
        at++;
    return at < end && *at != '#';
}

/* Counts the rows of a chunk, which placements are about. */
static void count_rows(struct examples_source *source, struct examples_chunk *chunk)
{
    const char *end = chunk->text + chunk->n_bytes;
    chunk->first_row = source->n_rows;
    for (const char *at = chunk->text; source->options.placement != NULL && at < end;) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        source->n_rows += is_row(at, line_end);
        at = line_end + 1;
    }
}

/* Fills the chunk from the open file. */
static bool fill_chunk(struct examples_source *source, struct examples_chunk *chunk)
{
    while (chunk->n_bytes < CHUNK_BYTES) {
        char *line;
        size_t length;
        enum input_result result = input_line(&source->input, &line, &length);
        if (result == INPUT_FAILED)
            return false;
        if (result == INPUT_END) {
            input_close(&source->input);
            source->is_open = false;
            break;
        }
        if (chunk->n_bytes == 0)
            chunk->first_line = source->input.line;
        if (!append_line(chunk, line, length))
            return false;
    }
    const size_t number = source->n_opened - 1;
    chunk->path = source->paths[number];
    chunk->columns = source->columns[number];
    chunk->format = source->format;
    return true;
}

static bool is_ours(const struct examples_source *source, uint64_t number)
{
    const struct examples_options *options = &source->options;
    return options->n_parts == 0 || options->placement != NULL ||
           number % options->n_parts == options->part;
}

static bool take(struct examples_source *source, struct examples_chunk *chunk)
{
    bool ok = true, found = false;
    while (ok && !found) {
        chunk->n_bytes = 0;
        if (!source->is_open && source->n_opened == source->n_paths)
            return true;
        ok = (source->is_open || open_next(source, chunk)) && fill_chunk(source, chunk);
        if (ok && chunk->n_bytes > 0) {
            chunk->number = source->n_chunks++;
            count_rows(source, chunk);
            found = is_ours(source, chunk->number);
        }
    }
    return ok;
}

bool examples_take(struct examples_source *source, struct examples_chunk *chunk)
{
    pthread_mutex_lock(&source->lock);
    bool ok = true;
    chunk->n_bytes = 0;
    if (!source
             ->has_failed) { /* the thread that met the failure has its sentence; for the others it is the end */
        ok = take(source, chunk);
        source->has_failed = !ok;
    }
    pthread_mutex_unlock(&source->lock);
    return ok;
}

void examples_chunk_fini(struct examples_chunk *chunk)
{
    free(chunk->text);
    *chunk = (struct examples_chunk){0};
}

/* ---- Lists ------------------------------------------------------------------------------------ */

void examples_clear(struct examples *examples)
{
    examples->n = examples->n_features = 0;
}

void examples_fini(struct examples *examples)
{
    free(examples->labels);
    free(examples->weights);
    free(examples->start);
    free(examples->keys);
    free(examples->values);
    free(examples->fields);
    *examples = (struct examples){0};
}

/* Sets *array to one with room for n elements; the old one stays valid when there is no memory. */
static bool resize(void *array, size_t n, size_t element_bytes)
{
    void **at = array, *larger = realloc(*at, n * element_bytes);
    if (larger == NULL)
        return task_fail_memory("the examples");
    *at = larger;
    return true;
}

static bool grow_features(struct examples *examples)
{
    size_t n = examples->feature_capacity > 0 ? 2 * examples->feature_capacity : 4096;
    if (!resize(&examples->keys, n, sizeof *examples->keys) ||
        !resize(&examples->values, n, sizeof *examples->values) ||
        !resize(&examples->fields, n, sizeof *examples->fields))
        return false;
    examples->feature_capacity = n;
    return true;
}

static bool grow_examples(struct examples *examples)
{
    size_t n = examples->capacity > 0 ? 2 * examples->capacity : 256;
    if (!resize(&examples->labels, n, sizeof *examples->labels) ||
        !resize(&examples->weights, n, sizeof *examples->weights) ||
        !resize(&examples->start, n + 1, sizeof *examples->start))
        return false;
    examples->capacity = n;
    examples->start[0] = 0;
    return true;
}

bool example_add(const struct example_line *line, uint64_t key, double value, uint32_t field)
{
    struct examples *out = line->out;
    const uint32_t bits = line->options->hash_bits;
    if (out->n_features == out->feature_capacity && !grow_features(out))
        return false;
    out->keys[out->n_features] = bits == 0 || bits > 63 ? key : key & ((UINT64_C(1) << bits) - 1);
    out->values[out->n_features] = (float)value;
    out->fields[out->n_features++] = field;
    return true;
}

/* Whether the label is one that the options allow. */
static bool check_label(const struct example_line *line, double *label)
{
    if (isnan(*label))
        return !line->options->needs_labels || example_fail(line, "the example has no label");
    if (!line->options->is_binary)
        return true;
    if (*label != 0 && fabs(*label) != 1)
        return example_fail(line, "the label %g is none of -1, 0 and 1", *label);
    *label = *label > 0 ? 1 : -1;
    return true;
}

bool example_end(const struct example_line *line, double label, double weight)
{
    struct examples *out = line->out;
    if (!check_label(line, &label))
        return false;
    if (line->options->needs_features && out->n_features == (out->n > 0 ? out->start[out->n] : 0))
        return example_fail(line, "the example has no feature");
    if (line->options->constant != 0) {
        if (!example_add(line, 0, 1, 0))
            return false;
        out->keys[out->n_features - 1] = line->options->constant; /* all its bits */
    }
    if (out->n == out->capacity && !grow_examples(out))
        return false;
    out->labels[out->n] = (float)label;
    out->weights[out->n] = (float)weight;
    out->start[++out->n] = out->n_features;
    return true;
}

static example_parser *parser_of(enum examples_format format)
{
    switch (format) {
    case EXAMPLES_LIBSVM:
        return example_libsvm;
    case EXAMPLES_LIBFFM:
        return example_libffm;
    case EXAMPLES_VW:
        return example_vw;
    case EXAMPLES_DETECT:
    case EXAMPLES_CSV:
    case EXAMPLES_TSV:
    case EXAMPLES_CRITEO:
        break;
    }
    return example_row;
}

/* Whether a row is read at this node; *ok is false, after a sentence, if the placement is of other data. */
static bool is_placed_here(const struct example_line *line, enum examples_format format,
                           uint64_t row, bool *ok)
{
    const struct placement *placement = line->options->placement;
    *ok = format == EXAMPLES_LIBSVM ||
          example_fail(line, "--placement is for data in the format libsvm, not %s",
                       examples_formats[format]);
    *ok = *ok &&
          (row < placement->n_rows ||
           example_fail(line,
                        "--placement %s has %" PRIu64 " rows; it is the partition of other data",
                        placement->folder, placement->n_rows));
    return *ok && placement_row(placement, row) == line->options->part;
}

bool examples_parse(const struct examples_source *source, const struct examples_chunk *chunk,
                    struct examples *examples)
{
    example_parser *parse = parser_of(chunk->format);
    struct example_line line = {.options = &source->options,
                                .path = chunk->path,
                                .number = chunk->first_line,
                                .columns = chunk->columns,
                                .out = examples};
    const char *end = chunk->text + chunk->n_bytes;
    const bool is_placed = source->options.placement != NULL;
    uint64_t row = chunk->first_row;
    bool ok = true;
    for (const char *at = chunk->text; ok && at < end; line.number++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!is_placed ||
            (is_row(at, line_end) && is_placed_here(&line, chunk->format, row++, &ok)))
            ok = parse(&line, at, line_end);
        at = line_end + 1;
    }
    return ok;
}

/* ---- All at once ------------------------------------------------------------------------------ */

struct reading {
    struct examples_source *source;
    struct examples *lists;
};

static bool read_some(void *context, size_t thread)
{
    struct reading *reading = context;
    struct examples_chunk chunk = {0};
    bool ok = true;
    do {
        ok = examples_take(reading->source, &chunk) &&
             examples_parse(reading->source, &chunk, &reading->lists[thread]);
    } while (ok && chunk.n_bytes > 0);
    examples_chunk_fini(&chunk);
    return ok;
}

bool examples_read_all(struct examples_source *source, size_t n_threads, struct examples *lists)
{
    struct reading reading = {source, lists};
    return team_run(n_threads, read_some, NULL, &reading);
}
