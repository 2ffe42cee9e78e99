/*
 * input - reads files of lines. See input.h.
 *
 * Below lines there is a decoder: zlib's, which also passes plain files on, or zstd's. Both are asked
 * for the next bytes and give 0 of them at the end. A compressed file that ends too early is a failure.
 */
#include "common/input.h"

#include <errno.h>
#include <fcntl.h>
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

/* ---- Decoders -------------------------------------------------------------------------------- */

struct decoder {
    gzFile gzip; /* NULL: zstd */
    FILE *file;
    ZSTD_DStream *zstd;
    ZSTD_inBuffer pending; /* compressed bytes not used yet */
    size_t wanted;         /* what zstd returned last; 0: a frame is complete */
    char block[BLOCK_BYTES];
};

static void decoder_close(struct decoder *decoder)
{
    if (decoder->gzip != NULL)
        gzclose(decoder->gzip);
    if (decoder->file != NULL)
        fclose(decoder->file);
    ZSTD_freeDStream(decoder->zstd);
    free(decoder);
}

static bool starts_like_zstd(int fd)
{
    static const unsigned char magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    unsigned char start[4];
    return pread(fd, start, sizeof start, 0) == sizeof start &&
           memcmp(start, magic, sizeof magic) == 0;
}

/* Takes over `fd` when it succeeds. */
static bool decoder_attach(struct decoder *decoder, int fd)
{
    if (!starts_like_zstd(fd)) {
        decoder->gzip = gzdopen(fd, "rb");
        return decoder->gzip != NULL && gzbuffer(decoder->gzip, BLOCK_BYTES) == 0;
    }
    decoder->zstd = ZSTD_createDStream();
    if (decoder->zstd == NULL)
        return false;
    decoder->file = fdopen(fd, "rb");
    return decoder->file != NULL;
}

static bool read_gzip(struct input *input, void *bytes, size_t size, size_t *n)
{
    gzFile gzip = input->decoder->gzip;
    int error = Z_OK;
    int got = gzread(gzip, bytes, (unsigned)size);
    const char *reason = gzerror(gzip, &error);
    if (got < 0 || error == Z_BUF_ERROR)
        return task_fail("%s: cannot read it: %s", input->path,
                         error == Z_ERRNO       ? strerror(errno)
                         : error == Z_BUF_ERROR ? "the gzip file ends too early"
                                                : reason);
    *n = (size_t)got;
    return true;
}

static bool read_zstd(struct input *input, void *bytes, size_t size, size_t *n)
{
    struct decoder *decoder = input->decoder;
    ZSTD_outBuffer out = {bytes, size, 0};
    while (out.pos == 0) {
        if (decoder->pending.pos == decoder->pending.size) {
            size_t got = fread(decoder->block, 1, sizeof decoder->block, decoder->file);
            decoder->pending = (ZSTD_inBuffer){decoder->block, got, 0};
            if (got == 0 && ferror(decoder->file))
                return task_fail("%s: cannot read it: %s", input->path, strerror(errno));
            if (got == 0 && decoder->wanted != 0)
                return task_fail("%s: cannot read it: the zstd file ends too early", input->path);
            if (got == 0)
                break;
        }
        decoder->wanted = ZSTD_decompressStream(decoder->zstd, &out, &decoder->pending);
        if (ZSTD_isError(decoder->wanted))
            return task_fail("%s: cannot read it: %s", input->path,
                             ZSTD_getErrorName(decoder->wanted));
    }
    *n = out.pos;
    return true;
}

static bool decode(struct input *input, void *bytes, size_t size, size_t *n)
{
    size = size < (1 << 30) ? size : 1 << 30;
    return input->decoder->gzip != NULL ? read_gzip(input, bytes, size, n)
                                        : read_zstd(input, bytes, size, n);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static bool open_decoder(struct input *input)
{
    struct stat status;
    int fd = open(input->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return task_fail("cannot open %s: %s", input->path, strerror(errno));
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
        close(fd);
        return task_fail("cannot read %s: it is a folder", input->path);
    }
    if (!decoder_attach(input->decoder, fd)) {
        close(fd);
        return task_fail_memory(input->path);
    }
    return true;
}

bool input_open(struct input *input, const char *path)
{
    *input = (struct input){.path = strdup(path),
                            .decoder = calloc(1, sizeof *input->decoder),
                            .buffer = malloc(BLOCK_BYTES),
                            .capacity = BLOCK_BYTES};
    bool ok = input->path != NULL && input->decoder != NULL && input->buffer != NULL
                  ? open_decoder(input)
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
    *length = n;
    input->line++;
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
