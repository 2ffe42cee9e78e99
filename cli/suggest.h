/*
 * suggest - the name a user may have meant.
 */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stddef.h>

/* The name nearest to `typed` among n rows of `row_bytes` that each begin with a `const char *`
 * name, or NULL when none is close: few letters added, dropped, changed or swapped. */
const char *suggest(const char *typed, const void *rows, size_t n, size_t row_bytes);

#endif
