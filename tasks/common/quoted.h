/* quoted - text as JSON has it. */
#ifndef TASKS_QUOTED_H
#define TASKS_QUOTED_H

/* Prints any text to standard output as a string of JSON. JSON is UTF-8: each byte that is not a part of it becomes
 * U+FFFD, the replacement character. */
void print_quoted(const char *text);

#endif
