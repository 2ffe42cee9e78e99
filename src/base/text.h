/* text - sentences written into a buffer of fixed size; what does not fit is cut off. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>

struct text {
    char *bytes;
    size_t size, used; /* used < size */
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
