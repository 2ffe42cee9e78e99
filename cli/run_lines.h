/*
 * run_lines - what the nodes of `tern run` print, line by line behind "[k] ".
 *
 * A stream (struct lines) is the standard output or error of one node: a pipe, and the beginning of
 * a line. An output is where the lines of many streams go. A line is written when its end has come,
 * so lines never mix. One that is longer than LINE_MAX_BYTES is passed on in pieces; should another
 * stream print in between, the line is broken there and goes on behind a prefix of its own. Nothing
 * is lost, and nothing else is added: a last line without an end stays without one.
 *
 * All of it belongs to one thread.
 */
#ifndef CLI_RUN_LINES_H
#define CLI_RUN_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum {
    LINE_MAX_BYTES = 1 << 22,
    STAGE_BYTES = 1 << 16,
};

struct output {
    int fd;
    bool colour;
    int error;                /* errno of the write that failed; nothing is written from then on */
    const struct lines *open; /* whose line has begun and not ended, or NULL */
    bool (*may_wait)(void);   /* asked now and then while the reader is slow */
    size_t n_staged;
    char stage[STAGE_BYTES];
};

struct lines {
    int fd; /* does not block; -1 when there is no more */
    unsigned node;
    struct output *output;
    char *bytes; /* read and not yet written */
    size_t n_bytes, capacity;
};

void output_init(struct output *output, int fd, bool (*may_wait)(void));

/* Writes "tern: " and the sentence on a line of its own. */
void output_message(struct output *output, const char *sentence);

/* Whether a write failed, other than for want of time. */
bool output_broken(const struct output *output);

/* Reads once, and writes the lines that are whole. True when there may be more to read now. */
bool lines_pump(struct lines *lines);

/* Reads what the pipe holds now, and writes all of it. */
void lines_drain(struct lines *lines);

void lines_fini(struct lines *lines);

#endif
