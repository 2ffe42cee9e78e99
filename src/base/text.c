/* text - see text.h. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

void text_add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = text->size - text->used;
    int n = vsnprintf(text->bytes + text->used, room, format, args);
    va_end(args);
    if (n > 0)
        text->used += (size_t)n < room ? (size_t)n : room - 1;
}
