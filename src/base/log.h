/*
 * log - the debug log: joins, deaths, resumed links, failed rounds. Off unless TERN_LOG is set, to "stderr" or to the
 * path of a file, which lines are appended to. Each line has the seconds since the first one, the process and the node.
 *
 * For events that are rare: a line takes a system call. While the log is off, a call costs a load.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdint.h>

#include "tern/tern.h"

/* Opens what the variables name; fails if that is not possible. */
enum tern_status log_check(void);

/* Names the node in the lines that follow. */
void log_node(uint32_t node);

void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For the user rather than the developer: what a program waits for, what is not as safe as it could be. Goes to the log,
 * and also where TERN_NOTICES says, as the log does; the command `tern` sets that to stderr. */
void log_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
