/*
 * suggest - the name a user may have meant.
 */
#include "suggest.h"

#include <string.h>

#include "common/similar.h"

const char *suggest(const char *typed, const void *rows, size_t n, size_t row_bytes)
{
    size_t best = similar_limit(typed);
    const char *name = NULL;
    for (size_t i = 0; i < n; i++) {
        const char *candidate;
        memcpy(&candidate, (const char *)rows + i * row_bytes, sizeof candidate);
        size_t d = similar_distance(typed, candidate);
        if (d < strlen(candidate) && d <= best && (name == NULL || d < best)) {
            best = d;
            name = candidate;
        }
    }
    return name;
}
