/* run_lines - see run_lines.h. */
#include "run_lines.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FIRST_BYTES = 4096,
    WRITE_BYTES = 4096, /* what a pipe takes without blocking once poll says that it takes any */
    PATIENCE_MS = 100,
    DRAIN_READS = 1 << 10, /* more than a pipe holds, should somebody go on writing */
};

/* ---- Output ---------------------------------------------------------------------------------- */

void output_init(struct output *output, int fd, bool (*may_wait)(void))
{
    *output = (struct output){.fd = fd, .may_wait = may_wait};
    output->colour = isatty(fd) && getenv("NO_COLOR") == NULL;
}

/* Whether the output takes bytes now; false, with the error set, when waiting is over. */
static bool output_wait(struct output *output)
{
    struct pollfd wanted = {.fd = output->fd, .events = POLLOUT};
    while (poll(&wanted, 1, PATIENCE_MS) <= 0) {
        if (!output->may_wait()) {
            output->error = ETIMEDOUT;
            return false;
        }
    }
    return true;
}

static void output_flush(struct output *output)
{
    size_t done = 0;
    while (done < output->n_staged && output->error == 0 && output_wait(output)) {
        size_t n = output->n_staged - done;
        ssize_t n_written =
            write(output->fd, output->stage + done, n < WRITE_BYTES ? n : WRITE_BYTES);
        if (n_written >= 0)
            done += (size_t)n_written;
        else if (errno != EINTR && errno != EAGAIN)
            output->error = errno;
    }
    output->n_staged = 0;
}

static void output_append(struct output *output, const char *bytes, size_t n)
{
    while (n > 0) {
        size_t room = sizeof output->stage - output->n_staged;
        size_t part = n < room ? n : room;
        memcpy(output->stage + output->n_staged, bytes, part);
        output->n_staged += part;
        bytes += part;
        n -= part;
        if (output->n_staged == sizeof output->stage)
            output_flush(output);
    }
}

static void end_open_line(struct output *output)
{
    if (output->open != NULL)
        output_append(output, "\n", 1);
    output->open = NULL;
}

void output_message(struct output *output, const char *sentence)
{
    end_open_line(output);
    output_append(output, "tern: ", strlen("tern: "));
    output_append(output, sentence, strlen(sentence));
    output_append(output, "\n", 1);
    output_flush(output);
}

bool output_broken(const struct output *output)
{
    return output->error != 0 && output->error != ETIMEDOUT;
}

/* ---- Streams --------------------------------------------------------------------------------- */

static void begin_line(const struct lines *lines)
{
    struct output *output = lines->output;
    if (output->open == lines)
        return;
    end_open_line(output);
    char prefix[32];
    int n = output->colour ? snprintf(prefix, sizeof prefix, "\033[3%um[%u]\033[0m ",
                                      1 + lines->node % 6, lines->node)
                           : snprintf(prefix, sizeof prefix, "[%u] ", lines->node);
    output_append(output, prefix, (size_t)n);
}

/* Hands on the first n bytes: whole lines, and, if there is one, the beginning of another. */
static void emit(struct lines *lines, size_t n)
{
    const char *at = lines->bytes, *end = lines->bytes + n;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *next = newline != NULL ? newline + 1 : end;
        begin_line(lines);
        output_append(lines->output, at, (size_t)(next - at));
        lines->output->open = newline != NULL ? NULL : lines;
        at = next;
    }
    output_flush(lines->output);
    lines->n_bytes -= n;
    memmove(lines->bytes, lines->bytes + n, lines->n_bytes);
}

static void grow(struct lines *lines)
{
    size_t capacity = lines->capacity == 0 ? FIRST_BYTES : lines->capacity * 2;
    char *bytes = capacity <= LINE_MAX_BYTES ? realloc(lines->bytes, capacity) : NULL;
    if (bytes == NULL)
        return;
    lines->bytes = bytes;
    lines->capacity = capacity;
}

static void lines_end(struct lines *lines)
{
    emit(lines, lines->n_bytes);
    close(lines->fd);
    lines->fd = -1;
}

bool lines_pump(struct lines *lines)
{
    if (lines->fd < 0)
        return false;
    if (lines->n_bytes == lines->capacity)
        grow(lines);
    if (lines->n_bytes == lines->capacity)
        emit(lines, lines->n_bytes);
    size_t before = lines->n_bytes;
    ssize_t n = read(lines->fd, lines->bytes + before, lines->capacity - before);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n <= 0) {
        lines_end(lines);
        return false;
    }
    lines->n_bytes += (size_t)n;
    const char *newline = memrchr(lines->bytes + before, '\n', (size_t)n);
    if (newline != NULL)
        emit(lines, (size_t)(newline + 1 - lines->bytes));
    return true;
}

void lines_drain(struct lines *lines)
{
    for (int i = 0; i < DRAIN_READS && lines_pump(lines); i++)
        ;
    if (lines->fd >= 0)
        emit(lines, lines->n_bytes);
}

void lines_fini(struct lines *lines)
{
    if (lines->fd >= 0)
        close(lines->fd);
    free(lines->bytes);
}
