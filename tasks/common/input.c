/*
 * input - reads files of lines. See input.h.
 *
 * Below lines there is a decoder, which reads blocks of the file and unpacks them with zlib or zstd. It is
 * asked for the next bytes and gives 0 of them at the end. A compressed file that ends too early is a
 * failure. Nothing is read twice and nothing is sought, so a file may be a pipe.
 */
#include "common/input.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "common/sentence.h"

enum {
    BLOCK_BYTES = 1 << 18,
    LINE_MAX_BYTES = 1 << 26,
};

/* ---- Files ----------------------------------------------------------------------------------- */

enum packing { PLAIN, GZIP, ZSTD };

struct decoder {
    int fd;
    enum packing packing;
    z_stream gzip;
    ZSTD_DStream *zstd;
    bool inside;    /* a gzip member or zstd frame has begun, but is not complete */
    size_t at, end; /* bytes of the file that are not decoded yet: block[at .. end) */
    unsigned char block[BLOCK_BYTES];
};

static bool unreadable(const struct input *input, const char *why)
{
    return task_fail("%s: cannot read it: %s", input->path, why);
}

/* The next bytes of the file as it is; *n is 0 at its end. */
static bool read_file(const struct input *input, void *bytes, size_t size, size_t *n)
{
    ssize_t got;
    do {
        got = read(input->decoder->fd, bytes, size);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return unreadable(input, strerror(errno));
    *n = (size_t)got;
    return true;
}

/* Sees to it that the block has `n` bytes that are not decoded yet, or all that the file still has. */
static bool peek(const struct input *input, size_t n)
{
    struct decoder *decoder = input->decoder;
    size_t left = decoder->end - decoder->at, got = 1;
    if (left >= n)
        return true;
    memmove(decoder->block, decoder->block + decoder->at, left);
    decoder->at = 0;
    for (decoder->end = left; decoder->end < n && got > 0; decoder->end += got)
        if (!read_file(input, decoder->block + decoder->end, BLOCK_BYTES - decoder->end, &got))
            return false;
    return true;
}

static bool open_file(const struct input *input)
{
    struct decoder *decoder = input->decoder;
    struct stat status;
    decoder->fd = open(input->path, O_RDONLY | O_CLOEXEC);
    if (decoder->fd < 0)
        return task_fail("cannot open %s: %s", input->path, strerror(errno));
    if (fstat(decoder->fd, &status) == 0 && S_ISDIR(status.st_mode))
        return task_fail("cannot read %s: it is a folder", input->path);
    return true;
}

/* ---- Decoders -------------------------------------------------------------------------------- */

static const unsigned char gzip_magic[] = {0x1f, 0x8b};
static const unsigned char zstd_magic[] = {0x28, 0xb5, 0x2f, 0xfd};

/* Whether the block goes on with these bytes, after peek(). */
static bool goes_on_with(const struct decoder *decoder, const unsigned char *magic, size_t n)
{
    return decoder->end - decoder->at >= n && memcmp(decoder->block + decoder->at, magic, n) == 0;
}

/* By the first bytes, which stay in the block: a pipe would not give them twice. */
static bool find_packing(const struct input *input)
{
    enum { GZIP_ALONE = 16 + MAX_WBITS };
    struct decoder *decoder = input->decoder;
    if (!peek(input, sizeof zstd_magic))
        return false;
    if (goes_on_with(decoder, zstd_magic, sizeof zstd_magic)) {
        decoder->zstd = ZSTD_createDStream();
        decoder->packing = ZSTD;
        return decoder->zstd != NULL || task_fail_memory(input->path);
    }
    if (goes_on_with(decoder, gzip_magic, sizeof gzip_magic)) {
        if (inflateInit2(&decoder->gzip, GZIP_ALONE) != Z_OK)
            return task_fail_memory(input->path);
        decoder->packing = GZIP;
    }
    return true;
}

static void decoder_close(struct decoder *decoder)
{
    if (decoder->fd >= 0)
        close(decoder->fd);
    if (decoder->packing == GZIP)
        inflateEnd(&decoder->gzip);
    ZSTD_freeDStream(decoder->zstd);
    free(decoder);
}

/* Further members may follow one that is complete. What else follows does not count, as for gzip. */
static bool next_member(const struct input *input)
{
    struct decoder *decoder = input->decoder;
    if (!peek(input, sizeof gzip_magic))
        return false;
    if (goes_on_with(decoder, gzip_magic, sizeof gzip_magic))
        return inflateReset(&decoder->gzip) == Z_OK || unreadable(input, "zlib has failed");
    while (decoder->at < decoder->end) {
        decoder->at = decoder->end;
        if (!peek(input, 1))
            return false;
    }
    return true;
}

static bool unpack_gzip(const struct input *input, void *bytes, size_t size, size_t *n)
{
    struct decoder *decoder = input->decoder;
    z_stream *gzip = &decoder->gzip;
    gzip->next_in = decoder->block + decoder->at;
    gzip->avail_in = (uInt)(decoder->end - decoder->at);
    gzip->next_out = bytes;
    gzip->avail_out = (uInt)size;
    int result = inflate(gzip, Z_NO_FLUSH);
    decoder->at = decoder->end - gzip->avail_in;
    decoder->inside = result != Z_STREAM_END;
    *n = size - gzip->avail_out;
    if (result != Z_OK && result != Z_STREAM_END)
        return unreadable(input, gzip->msg != NULL ? gzip->msg : "it is no gzip file");
    return result == Z_OK || next_member(input);
}

static bool unpack_zstd(const struct input *input, void *bytes, size_t size, size_t *n)
{
    struct decoder *decoder = input->decoder;
    ZSTD_inBuffer in = {decoder->block, decoder->end, decoder->at};
    ZSTD_outBuffer out = {bytes, size, 0};
    size_t wanted = ZSTD_decompressStream(decoder->zstd, &out, &in);
    decoder->at = in.pos;
    decoder->inside = wanted != 0;
    *n = out.pos;
    return !ZSTD_isError(wanted) || unreadable(input, ZSTD_getErrorName(wanted));
}

static bool read_packed(const struct input *input, void *bytes, size_t size, size_t *n)
{
    struct decoder *decoder = input->decoder;
    bool is_gzip = decoder->packing == GZIP, ok = true;
    for (*n = 0; ok && *n == 0;) {
        if (!peek(input, 1))
            return false;
        if (decoder->at == decoder->end)
            return !decoder->inside || unreadable(input, is_gzip ? "the gzip file ends too early"
                                                                 : "the zstd file ends too early");
        ok = is_gzip ? unpack_gzip(input, bytes, size, n) : unpack_zstd(input, bytes, size, n);
    }
    return ok;
}

static bool read_plain(const struct input *input, void *bytes, size_t size, size_t *n)
{
    struct decoder *decoder = input->decoder;
    size_t left = decoder->end - decoder->at;
    if (left == 0)
        return read_file(input, bytes, size, n);
    *n = left < size ? left : size;
    memcpy(bytes, decoder->block + decoder->at, *n);
    decoder->at += *n;
    return true;
}

static bool decode(const struct input *input, void *bytes, size_t size, size_t *n)
{
    size = size < (1 << 30) ? size : 1 << 30;
    return input->decoder->packing == PLAIN ? read_plain(input, bytes, size, n)
                                            : read_packed(input, bytes, size, n);
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

bool input_open(struct input *input, const char *path)
{
    *input = (struct input){.path = strdup(path),
                            .decoder = calloc(1, sizeof *input->decoder),
                            .buffer = malloc(BLOCK_BYTES),
                            .capacity = BLOCK_BYTES};
    if (input->decoder != NULL)
        input->decoder->fd = -1;
    bool ok = input->path != NULL && input->decoder != NULL && input->buffer != NULL
                  ? open_file(input) && find_packing(input)
                  : task_fail_memory(path);
    if (!ok)
        input_close(input);
    return ok;
}

void input_close(struct input *input)
{
    if (input->decoder != NULL)
        decoder_close(input->decoder);
    free(input->buffer);
    free(input->path);
    *input = (struct input){0};
}

bool input_bytes(struct input *input, void *bytes, size_t size, size_t *n)
{
    return decode(input, bytes, size, n);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Gets more bytes behind those that are unread, and room for a NUL. */
static bool fill(struct input *input)
{
    size_t n = input->end - input->begin;
    memmove(input->buffer, input->buffer + input->begin, n);
    input->begin = 0;
    input->end = n;
    if (input->capacity - n < BLOCK_BYTES / 2) {
        if (n > LINE_MAX_BYTES) {
            input->line++;
            return input_fail(input, "the line is longer than %d bytes", LINE_MAX_BYTES);
        }
        char *larger = realloc(input->buffer, 2 * input->capacity);
        if (larger == NULL)
            return task_fail_memory(input->path);
        input->buffer = larger;
        input->capacity *= 2;
    }
    size_t got = 0;
    if (!decode(input, input->buffer + n, input->capacity - n - 1, &got))
        return false;
    input->at_end = got == 0;
    input->end = n + got;
    return true;
}

/* Passes over what some programs put before the first line: a byte order mark, in UTF-8. */
static size_t mark_bytes(const char *line, size_t n)
{
    static const char mark[3] = "\xef\xbb\xbf";
    return n >= sizeof mark && memcmp(line, mark, sizeof mark) == 0 ? sizeof mark : 0;
}

enum input_result input_line(struct input *input, char **line, size_t *length)
{
    char *end = NULL;
    size_t searched = 0;
    for (;;) {
        char *from = input->buffer + input->begin;
        size_t n = input->end - input->begin;
        end = memchr(from + searched, '\n', n - searched);
        if (end != NULL || input->at_end)
            break;
        searched = n;
        if (!fill(input))
            return INPUT_FAILED;
    }
    if (end == NULL && input->begin == input->end)
        return INPUT_END;
    *line = input->buffer + input->begin;
    size_t n = end != NULL ? (size_t)(end - *line) : input->end - input->begin;
    input->begin += n + (end != NULL);
    n -= n > 0 && (*line)[n - 1] == '\r';
    (*line)[n] = '\0';
    size_t n_mark = input->line++ == 0 ? mark_bytes(*line, n) : 0;
    *line += n_mark;
    *length = n - n_mark;
    return INPUT_LINE;
}

bool input_fail(const struct input *input, const char *format, ...)
{
    char sentence[512];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return task_fail("%s:%llu: %s", input->path, (unsigned long long)input->line, sentence);
}

size_t input_fields(char *line, const char *separators, char **fields, size_t max)
{
    size_t n = 0;
    for (char *field; (field = strsep(&line, separators)) != NULL; n++)
        if (n < max)
            fields[n] = field;
    return n;
}

bool input_whole(const struct input *input, const char *field, uint64_t *number)
{
    enum { MAX_DIGITS = 16 };
    size_t n = strspn(field, "0123456789");
    *number = n <= MAX_DIGITS ? strtoull(field, NULL, 10) : UINT64_MAX;
    return (n > 0 && field[n] == '\0' && *number < UINT64_C(1) << 50) ||
           input_fail(input, "'%s' is not a whole number from 0 to 2^50 - 1", field);
}

bool input_real(const struct input *input, const char *field, double *number)
{
    char *end;
    *number = strtod(field, &end);
    return (end != field && *end == '\0' && isfinite(*number)) ||
           input_fail(input, "'%s' is not a number", field);
}

/* ---- Folders --------------------------------------------------------------------------------- */

bool input_find(const char *folder, const char *stem, char **path)
{
    static const char *const kinds[] = {"", ".txt", ".tsv", ".csv", ".dat"};
    static const char *const packings[] = {"", ".gz", ".zst"};
    struct stat status;
    *path = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (size_t j = 0; j < sizeof packings / sizeof *packings; j++) {
            if (asprintf(path, "%s/%s%s%s", folder, stem, kinds[i], packings[j]) < 0) {
                *path = NULL;
                return task_fail_memory("the name of a file");
            }
            if (stat(*path, &status) == 0 && !S_ISDIR(status.st_mode))
                return true;
            free(*path);
            *path = NULL;
        }
    }
    return true;
}
