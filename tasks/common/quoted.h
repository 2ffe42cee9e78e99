/* quoted - strings of JSON. */
#ifndef TASKS_QUOTED_H
#define TASKS_QUOTED_H

#include <stdio.h>

/* Prints any text, to a file or to standard output, as a string of JSON. JSON is UTF-8: each byte that is not a part of it becomes
 * U+FFFD, the replacement character. */
void write_quoted(FILE *file, const char *text);
void print_quoted(const char *text);

#endif
