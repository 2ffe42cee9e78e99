/*
 * input - reads files of lines: plain, gzip or zstd, which the reader tells by the content, not by the name. A file
 * may be a pipe.
 *
 * A line ends with LF or CRLF; the last one may lack its end. The reader removes line ends, and a byte order mark before
 * the first line. A line may hold any bytes. Failures name the file and, where there is one, the line:
 * "data/train.txt:7: ...".
 */
#ifndef TASKS_INPUT_H
#define TASKS_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
    char *path;
    uint64_t line; /* the number of the line last read, from 1 */
    struct decoder *decoder;
    char *buffer;
    size_t capacity, begin, end; /* unread bytes: buffer[begin .. end) */
    bool at_end;                 /* the file has no more than is in the buffer */
};

enum input_result { INPUT_LINE, INPUT_END, INPUT_FAILED };

bool input_open(struct input *input, const char *path);
void input_close(struct input *input);

/* The next line, without its end and followed by a NUL; it may be changed, and is valid until the next
 * call. */
enum input_result input_line(struct input *input, char **line, size_t *length);

/* The next bytes, at most `size`; *n is 0 at the end. Not to be mixed with lines. */
bool input_bytes(struct input *input, void *bytes, size_t size, size_t *n);

/* task_fail() with the file and the line before the sentence. */
bool input_fail(const struct input *input, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Cuts a line at each of the characters `separators`; at most `max` fields are filled in, but all are
 * counted. Two separators in a row enclose an empty field. */
size_t input_fields(char *line, const char *separators, char **fields, size_t max);

/* A number that is all of a field, as in model.txt: a whole one is digits alone and below 2^50,
 * which is more than any option takes; a real one is finite. Otherwise input_fail(). */
bool input_whole(const struct input *input, const char *field, uint64_t *number);
bool input_real(const struct input *input, const char *field, double *number);

/* Finds the file of a folder that is called `stem`, or `stem` followed by .txt, .tsv, .csv or .dat, and
 * then perhaps by .gz or .zst. *path is to be freed, and NULL when there is none. When there are
 * several, the first in this order counts. */
bool input_find(const char *folder, const char *stem, char **path);

#endif
