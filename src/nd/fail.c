/*
 * fail - base/status.h for this library: libternnd has code of base/ of its own, but the sentence of a failure belongs to
 * libtern, whose tern_error() returns it.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/status.h"

enum tern_status fail(enum tern_status status, const char *format, ...)
{
    char sentence[STATUS_SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return tern_fail(status, sentence);
}
