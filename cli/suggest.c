/*
 * suggest - edit distance between what was typed and what exists.
 *
 * The distance counts letters added, dropped, changed, and neighbours swapped (optimal string
 * alignment). Names longer than MAX_LETTERS are not compared: nobody mistypes those.
 */
#include "suggest.h"

#include <stdint.h>
#include <string.h>

#define MAX_LETTERS 31

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > MAX_LETTERS || m > MAX_LETTERS)
        return SIZE_MAX;
    size_t d[MAX_LETTERS + 1][MAX_LETTERS + 1];
    for (size_t i = 0; i <= n; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            size_t change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = least(change, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[n][m];
}

const char *suggest(const char *typed, const void *rows, size_t n, size_t row_bytes)
{
    /* One slip in three letters is still recognisable; more is another word. */
    size_t best = strlen(typed) / 3 + 1;
    const char *name = NULL;
    for (size_t i = 0; i < n; i++) {
        const char *candidate;
        memcpy(&candidate, (const char *)rows + i * row_bytes, sizeof candidate);
        size_t d = distance(typed, candidate);
        if (d < strlen(candidate) && d <= best && (name == NULL || d < best)) {
            best = d;
            name = candidate;
        }
    }
    return name;
}
