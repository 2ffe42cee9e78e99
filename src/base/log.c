/* log - see log.h. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int to = -1; /* -1: the log is off */
static int notices_to = -1;
static uint64_t began_ns;
static _Atomic int64_t node_number = -1;

/* What could not be opened: the sentence of log_check(), or nothing. */
static char refusal[600];

/* The descriptor that a variable names, or -1. */
static int open_at(const char *name)
{
    const char *where = getenv(name);
    if (!where || !*where)
        return -1;
    if (strcmp(where, "stderr") == 0)
        return STDERR_FILENO;
    int fd = open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        snprintf(refusal, sizeof refusal, "%s is '%.400s', which cannot be opened: %s", name, where,
                 strerror(errno));
    return fd;
}

static void open_log(void)
{
    began_ns = clock_now_ns();
    to = open_at("TERN_LOG");
    notices_to = open_at("TERN_NOTICES");
}

enum tern_status log_check(void)
{
    pthread_once(&once, open_log);
    return refusal[0] ? fail(TERN_INVALID, "%s", refusal) : TERN_OK;
}

void log_node(uint32_t node)
{
    atomic_store_explicit(&node_number, node, memory_order_relaxed);
}

void log_line(const char *format, ...)
{
    pthread_once(&once, open_log);
    if (to < 0)
        return;
    char line[1024];
    const size_t most = sizeof line - 1; /* a line break follows */
    int at = snprintf(line, most, "tern %.6f [%ld] node %" PRId64 ": ",
                      (double)(clock_now_ns() - began_ns) / 1e9, (long)getpid(),
                      atomic_load_explicit(&node_number, memory_order_relaxed));
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(line + at, most - (size_t)at, format, arguments);
    va_end(arguments);
    size_t n = (size_t)(at + more);
    n = n < most ? n : most - 1;
    line[n++] = '\n';
    ssize_t written = write(to, line, n); /* one call: lines of several processes do not mix */
    (void)written;
}

void log_notice(const char *format, ...)
{
    char sentence[900], line[1024];
    va_list arguments;
    pthread_once(&once, open_log);
    if (to < 0 && notices_to < 0)
        return;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    log_line("%s", sentence);
    if (notices_to < 0 || notices_to == to)
        return;
    int n = snprintf(line, sizeof line, "tern: %s\n", sentence);
    ssize_t written = write(notices_to, line, (size_t)n);
    (void)written;
}
