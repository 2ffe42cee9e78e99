/* sentence - how a task says what went wrong. See sentence.h. */
#include "common/sentence.h"

#include <stdarg.h>
#include <stdio.h>

#include <tern/tern.h>

static _Thread_local char sentence[1024];

bool task_fail(const char *format, ...)
{
    /* Through a second buffer, because an argument may be the present sentence. */
    char text[sizeof sentence];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(sentence, sizeof sentence, "%s", text);
    return false;
}

bool task_fail_tern(const char *doing)
{
    return task_fail("%s: %s", doing, tern_error());
}

bool task_fail_memory(const char *what)
{
    return task_fail("there is no memory for %s", what);
}

const char *task_error(void)
{
    return sentence;
}
