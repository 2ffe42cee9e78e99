/* lexicon - named vectors read from a file. See lexicon.h. */
#include "wordvec/lexicon.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/dense.h"
#include "common/input.h"
#include "common/list.h"
#include "common/modelfile.h"
#include "common/outputs.h"
#include "common/sentence.h"
#include "common/similar.h"
#include "common/vectors.h"

enum {
    BUFFER_BYTES = 1 << 16,
    NAME_MAX_BYTES = 4096,
    NUMBER_MAX_BYTES = 64,
    DIM_MAX = 1 << 20,
};

/* ---- Vectors --------------------------------------------------------------------------------- */

void lexicon_fini(struct lexicon *lexicon)
{
    names_fini(&lexicon->names);
    free(lexicon->vectors);
    *lexicon = (struct lexicon){0};
}

/* Room for one vector more. */
static bool make_room(struct lexicon *lexicon)
{
    float *vectors = list_grow(lexicon->vectors, lexicon->dim * sizeof *vectors, lexicon->names.n,
                               &lexicon->capacity, "the vectors");
    if (vectors == NULL)
        return false;
    lexicon->vectors = vectors;
    return true;
}

/* In double precision, where no square is too large or too small. What has no direction becomes NaN, and so
 * does every product with it. */
static void make_unit(float *vector, size_t n)
{
    double square = 0;
    for (size_t i = 0; i < n; i++)
        square += (double)vector[i] * (double)vector[i];
    bool has_direction = square > 0 && isfinite(square);
    double factor = has_direction ? 1 / sqrt(square) : (double)NAN;
    for (size_t i = 0; i < n; i++)
        vector[i] = (float)((double)vector[i] * factor);
}

/* Where the next vector goes, and what makes it count. */
static float *next_vector(const struct lexicon *lexicon)
{
    return lexicon->vectors + lexicon->names.n * lexicon->dim;
}

static bool keep_vector(struct lexicon *lexicon, const char *name, size_t length)
{
    uint32_t number;
    make_unit(next_vector(lexicon), lexicon->dim);
    return names_add(&lexicon->names, name, length, &number);
}

/* ---- word2vec's formats ---------------------------------------------------------------------- */

struct stream {
    struct input input;
    size_t at, end;
    char buffer[BUFFER_BYTES];
};

/* Gets more bytes behind those that are unread. *got is whether there were any. */
static bool more(struct stream *stream, bool *got)
{
    size_t n = 0;
    memmove(stream->buffer, stream->buffer + stream->at, stream->end - stream->at);
    stream->end -= stream->at;
    stream->at = 0;
    if (!input_bytes(&stream->input, stream->buffer + stream->end, BUFFER_BYTES - stream->end, &n))
        return false;
    stream->end += n;
    *got = n > 0;
    return true;
}

static bool ends_early(const struct stream *stream)
{
    return task_fail("%s ends in the middle of a vector", stream->input.path);
}

static bool not_vectors(const struct stream *stream, const char *why)
{
    return task_fail("%s is neither .npy nor of word2vec's formats: %s", stream->input.path, why);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The next word, of at most max - 1 bytes, and the one blank behind it; blanks before it are passed
 * over. At the end of the file it is empty. */
static bool read_word(struct stream *stream, char *word, size_t max, size_t *length)
{
    bool got = true;
    for (*length = 0;;) {
        if (stream->at == stream->end) {
            if (!more(stream, &got))
                return false;
            if (!got)
                break;
        }
        char c = stream->buffer[stream->at++];
        if (is_blank(c) && *length > 0)
            break;
        if (is_blank(c))
            continue;
        if (*length == max - 1)
            return not_vectors(stream, "it has a word or number of excessive length");
        word[(*length)++] = c;
    }
    word[*length] = '\0';
    return true;
}

static bool read_binary(struct stream *stream, float *vector, size_t dim)
{
    char *to = (char *)vector;
    for (size_t left = dim * sizeof *vector, n; left > 0; left -= n) {
        bool got = true;
        if (stream->at == stream->end && !more(stream, &got))
            return false;
        if (!got)
            return ends_early(stream);
        n = stream->end - stream->at < left ? stream->end - stream->at : left;
        memcpy(to, stream->buffer + stream->at, n);
        stream->at += n;
        to += n;
    }
    return true;
}

static bool read_text(struct stream *stream, float *vector, size_t dim)
{
    char number[NUMBER_MAX_BYTES], *end = NULL;
    size_t length;
    for (size_t i = 0; i < dim; i++) {
        if (!read_word(stream, number, sizeof number, &length))
            return false;
        if (length == 0)
            return ends_early(stream);
        vector[i] = strtof(number, &end);
        if (*end != '\0')
            return task_fail("%s: '%s' is not a number", stream->input.path, number);
    }
    return true;
}

/* Whether the numbers behind the first name are written in characters: all bytes up to the end of the
 * line, or of the buffer, are such as numbers are written with. */
static bool looks_like_text(const struct stream *stream)
{
    static const char numeric[] = "0123456789+-.eEinfa \t\r";
    size_t at = stream->at;
    while (at < stream->end && is_blank(stream->buffer[at]))
        at++;
    while (at < stream->end && !is_blank(stream->buffer[at]))
        at++;
    while (at < stream->end && memchr(numeric, stream->buffer[at], sizeof numeric - 1) != NULL)
        at++;
    return at == stream->end || stream->buffer[at] == '\n';
}

static bool read_extent(struct stream *stream, uint64_t max, uint64_t *extent)
{
    char number[NUMBER_MAX_BYTES], *end = NULL;
    size_t length;
    if (!read_word(stream, number, sizeof number, &length))
        return false;
    *extent = strtoull(number, &end, 10);
    return (length > 0 && *end == '\0' && number[0] != '-' && *extent > 0 && *extent <= max) ||
           not_vectors(stream, "it does not begin with the numbers of rows and columns");
}

static bool read_entries(struct lexicon *lexicon, struct stream *stream, uint64_t n_rows)
{
    char name[NAME_MAX_BYTES];
    size_t length;
    bool got = true, ok = true;
    while (ok && got && stream->end - stream->at < BUFFER_BYTES / 2)
        ok = more(stream, &got);
    bool is_text = looks_like_text(stream);
    for (uint64_t i = 0; ok && i < n_rows; i++) {
        ok = read_word(stream, name, sizeof name, &length) && make_room(lexicon);
        if (ok && length == 0)
            ok = task_fail("%s ends after %" PRIu64 " of %" PRIu64 " vectors", stream->input.path,
                           i, n_rows);
        ok = ok &&
             (is_text ? read_text(stream, next_vector(lexicon), lexicon->dim)
                      : read_binary(stream, next_vector(lexicon), lexicon->dim)) &&
             keep_vector(lexicon, name, length);
    }
    return ok;
}

static bool read_stream(struct lexicon *lexicon, struct stream *stream)
{
    uint64_t n_rows, dim;
    if (!read_extent(stream, NAMES_NONE, &n_rows) || !read_extent(stream, DIM_MAX, &dim))
        return false;
    lexicon->dim = dim;
    return read_entries(lexicon, stream, n_rows);
}

static bool read_word2vec(struct lexicon *lexicon, const char *path)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        return task_fail_memory("the vectors");
    bool ok = input_open(&stream->input, path);
    if (ok) {
        ok = read_stream(lexicon, stream);
        input_close(&stream->input);
    }
    free(stream);
    return ok;
}

/* ---- .npy ------------------------------------------------------------------------------------ */

/* What is no regular file is not looked into: a pipe does not give its first bytes twice, and could have
 * no names beside it. */
static bool is_npy(const char *path)
{
    char start[6] = "";
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    FILE *file = fopen(path, "rbe");
    bool is = file != NULL && fread(start, 1, sizeof start, file) == sizeof start &&
              memcmp(start, "\x93NUMPY", sizeof start) == 0;
    if (file != NULL)
        fclose(file);
    return is;
}

/* The names beside vectors in `path`, whose ending is exchanged. */
static bool read_names(struct lexicon *lexicon, const char *path)
{
    size_t length = strlen(path);
    bool has_ending = length > 4 && strcmp(path + length - 4, ".npy") == 0;
    char *names_path;
    if (asprintf(&names_path, "%.*s.txt", (int)(has_ending ? length - 4 : length), path) < 0)
        return task_fail_memory("the name of a file");
    bool ok = names_read(&lexicon->names, names_path);
    free(names_path);
    return ok;
}

static bool read_rows(struct lexicon *lexicon, struct npy *npy)
{
    if (npy->n_rows != lexicon->names.n || npy->n_columns == 0)
        return task_fail("%s has %" PRIu64 " vectors, but there are %u names for them", npy->path,
                         npy->n_rows, lexicon->names.n);
    if (npy->n_columns > DIM_MAX)
        return task_fail("the vectors of %s are too long", npy->path);
    lexicon->dim = npy->n_columns;
    lexicon->vectors = malloc((npy->n_rows * lexicon->dim + 1) * sizeof *lexicon->vectors);
    if (lexicon->vectors == NULL)
        return task_fail_memory("the vectors");
    if (!npy_read(npy, npy->n_rows, lexicon->vectors))
        return false;
    for (size_t i = 0; i < npy->n_rows; i++)
        make_unit(lexicon->vectors + i * lexicon->dim, lexicon->dim);
    return true;
}

static bool read_npy(struct lexicon *lexicon, const char *path)
{
    struct npy npy;
    if (!read_names(lexicon, path) || !npy_open(&npy, path))
        return false;
    bool ok = read_rows(lexicon, &npy);
    npy_close(&npy);
    return ok;
}

bool lexicon_read(struct lexicon *lexicon, const char *path)
{
    *lexicon = (struct lexicon){0};
    return is_npy(path) ? read_npy(lexicon, path) : read_word2vec(lexicon, path);
}

/* ---- Neighbours ------------------------------------------------------------------------------ */

bool lexicon_has_direction(const struct lexicon *lexicon, uint32_t word)
{
    return !isnan(lexicon->vectors[word * lexicon->dim]);
}

bool lexicon_find(const struct lexicon *lexicon, const char *path, struct term *terms, size_t n)
{
    char hint[256];
    for (size_t i = 0; i < n; i++) {
        terms[i].word = names_find(&lexicon->names, terms[i].name, strlen(terms[i].name));
        if (terms[i].word != NAMES_NONE)
            continue;
        similar_hint(&lexicon->names, terms[i].name, hint, sizeof hint);
        return task_fail("there is no vector of '%s' among the %u in %s%s%s", terms[i].name,
                         lexicon->names.n, path, hint, hint[0] != '\0' ? "?" : "");
    }
    return true;
}

/* The sum of the vectors, brought to length 1. */
static bool add_terms(const struct lexicon *lexicon, const struct term *terms, size_t n, float *sum)
{
    for (size_t i = 0; i < n; i++) {
        const float *vector = lexicon->vectors + terms[i].word * lexicon->dim;
        if (!lexicon_has_direction(lexicon, terms[i].word))
            return task_fail("the vector of '%s' is zero or has numbers that are not finite, so "
                             "nothing is close to it",
                             terms[i].name);
        for (size_t k = 0; k < lexicon->dim; k++)
            sum[k] += terms[i].is_subtracted ? -vector[k] : vector[k];
    }
    make_unit(sum, lexicon->dim);
    return !isnan(sum[0]) || task_fail("the sum of the vectors is zero, so nothing is close to it");
}

static bool is_term(const struct term *terms, size_t n, uint32_t word)
{
    for (size_t i = 0; i < n; i++)
        if (terms[i].word == word)
            return true;
    return false;
}

bool lexicon_nearest(const struct lexicon *lexicon, const struct term *terms, size_t n,
                     struct best *best)
{
    float *sum = calloc(lexicon->dim, sizeof *sum);
    bool ok = sum != NULL ? add_terms(lexicon, terms, n, sum) : task_fail_memory("a vector");
    for (uint32_t i = 0; ok && i < lexicon->names.n; i++) {
        float cosine = dense_dot(sum, lexicon->vectors + i * lexicon->dim, lexicon->dim);
        if (!isnan(cosine) && !is_term(terms, n, i))
            best_offer(best, i, cosine);
    }
    free(sum);
    return ok;
}

/* ---- Models ---------------------------------------------------------------------------------- */

/* Whether the names in STEM.txt have all terms. */
static bool has_terms(const char *folder, const char *stem, const struct term *terms, size_t n)
{
    struct names names = {0};
    char *path = model_path(folder, stem, ".txt");
    bool ok = path != NULL && names_read(&names, path);
    for (size_t i = 0; ok && i < n; i++)
        ok = names_find(&names, terms[i].name, strlen(terms[i].name)) != NAMES_NONE;
    names_fini(&names);
    free(path);
    return ok;
}

char *lexicon_of_model(const char *folder, const struct term *terms, size_t n)
{
    static const char *const stems[] = {"words", "entities", "items", "users", "relations"};
    const char *first = NULL, *fitting = NULL;
    outputs_recover(folder);
    for (size_t i = 0; i < sizeof stems / sizeof *stems && fitting == NULL; i++) {
        char *path = model_path(folder, stems[i], ".npy");
        if (path == NULL)
            return NULL;
        bool exists = access(path, F_OK) == 0;
        free(path);
        if (exists && first == NULL)
            first = stems[i];
        if (exists && has_terms(folder, stems[i], terms, n))
            fitting = stems[i];
    }
    if (first != NULL)
        return model_path(folder, fitting != NULL ? fitting : first, ".npy");
    task_fail("there is no model in the folder %s", folder);
    return NULL;
}
