/* status - see status.h. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

/* The first is the program's, the second that of work aside. */
static _Thread_local char sentences[2][STATUS_SENTENCE_BYTES];
static _Thread_local unsigned n_aside;

static char *sentence(void)
{
    return sentences[n_aside > 0];
}

void status_aside(void)
{
    n_aside++;
}

void status_back(void)
{
    n_aside--;
}

enum tern_status fail(enum tern_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence(), STATUS_SENTENCE_BYTES, format, arguments);
    va_end(arguments);
    return status;
}

enum tern_status tern_fail(enum tern_status status, const char *text)
{
    return fail(status, "%s", text ? text : "");
}

const char *tern_error(void)
{
    return sentence();
}

const char *tern_status_name(enum tern_status status)
{
    static const char *const names[] = {
        [TERN_OK] = "TERN_OK",
        [TERN_INVALID] = "TERN_INVALID",
        [TERN_RANGE] = "TERN_RANGE",
        [TERN_CLOSED] = "TERN_CLOSED",
        [TERN_MISMATCH] = "TERN_MISMATCH",
        [TERN_NO_MEMORY] = "TERN_NO_MEMORY",
        [TERN_LIMIT] = "TERN_LIMIT",
        [TERN_BUSY] = "TERN_BUSY",
        [TERN_CONFLICT] = "TERN_CONFLICT",
        [TERN_PEER] = "TERN_PEER",
        [TERN_NETWORK] = "TERN_NETWORK",
        [TERN_LATE] = "TERN_LATE",
        [TERN_INTERRUPTED] = "TERN_INTERRUPTED",
    };
    if ((unsigned)status >= sizeof names / sizeof names[0])
        return "unknown status";
    return names[status];
}
