/*
 * example_lines - parsers of single lines, for examples.c alone.
 *
 * A parser gets the bytes of a line between two pointers, changes nothing in them, and appends one example, or none for
 * a line without content. It never reads at or past the end. Failures name file and line.
 */
#ifndef TASKS_EXAMPLE_LINES_H
#define TASKS_EXAMPLE_LINES_H

#include "common/examples.h"

/* A line that is being parsed. */
struct example_line {
    const struct examples_options *options;
    const char *path;
    uint64_t number;
    const struct example_columns *columns;
    struct examples *out;
};

typedef bool example_parser(const struct example_line *line, const char *at, const char *end);

example_parser example_libsvm, example_libffm, example_vw, example_row;

/* task_fail() with file and line before the sentence. */
bool example_fail(const struct example_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Begins an example: adds one feature to it; ends it. */
bool example_add(const struct example_line *line, uint64_t key, double value, uint32_t field);
bool example_end(const struct example_line *line, double label, double weight);

/* Tells the namer, which there must be, that the feature that was added last is called by these pieces of text, one behind
 * the other. */
struct example_piece {
    const char *text;
    size_t length;
};
bool example_name(const struct example_line *line, const struct example_piece *pieces, size_t n);

/* A finite number at *at, which moves behind it; false, without a sentence, when there is none. */
bool example_real(const char **at, const char *end, double *number);

/* The same for a whole number that is below 2^64. */
bool example_whole(const char **at, const char *end, uint64_t *number);

/* ---- Columns ---------------------------------------------------------------------------------- */

/* What the heading of a file says; `separator` is ',' or '\t'. NULL after task_fail(). */
struct example_columns *example_columns_read(const struct example_line *line, const char *at,
                                             const char *end, char separator);

/* The columns of Criteo's files. */
struct example_columns *example_columns_criteo(void);

void example_columns_free(struct example_columns *columns);

/* The format that a first line suggests. */
enum examples_format example_detect(const char *at, const char *end);

#endif
