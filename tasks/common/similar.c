/* similar - finds the names that somebody may have meant. See similar.h. */
#include "common/similar.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LETTERS = 31, MAX_HINTS = 3 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t similar_distance(const char *typed, const char *name)
{
    size_t n = strlen(typed), m = strlen(name);
    if (n > MAX_LETTERS || m > MAX_LETTERS)
        return SIZE_MAX;
    size_t d[MAX_LETTERS + 1][MAX_LETTERS + 1];
    for (size_t i = 0; i <= n; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            size_t change = d[i - 1][j - 1] + (typed[i - 1] != name[j - 1]);
            d[i][j] = least(change, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && typed[i - 1] == name[j - 2] && typed[i - 2] == name[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[n][m];
}

size_t similar_limit(const char *typed)
{
    return strlen(typed) / 3 + 1;
}

/* A name in lower case, in which a blank is an underscore; cut off where it is too long to be compared. */
static void fold(const char *name, char folded[MAX_LETTERS + 2])
{
    size_t i = 0;
    for (; i <= MAX_LETTERS && name[i] != '\0'; i++)
        folded[i] = name[i] == ' ' ? '_' : (char)tolower((unsigned char)name[i]);
    folded[i] = '\0';
}

size_t similar_names(const struct names *names, const char *typed, size_t n, uint32_t *numbers)
{
    char wanted[MAX_LETTERS + 2], folded[MAX_LETTERS + 2];
    size_t distances[MAX_HINTS], n_found = 0, n_letters;
    size_t limit = similar_limit(typed);
    n = n < MAX_HINTS ? n : MAX_HINTS;
    fold(typed, wanted);
    n_letters = strlen(wanted);
    for (uint32_t i = 0; n > 0 && i < names->n; i++) {
        fold(names_at(names, i), folded);
        size_t length = strlen(folded);
        if (length > n_letters + limit || n_letters > length + limit)
            continue;
        size_t distance = similar_distance(wanted, folded);
        if (distance > limit || distance >= length ||
            (n_found == n && distance >= distances[n - 1]))
            continue;
        size_t at = n_found < n ? n_found++ : n - 1;
        for (; at > 0 && distances[at - 1] > distance; at--) {
            distances[at] = distances[at - 1];
            numbers[at] = numbers[at - 1];
        }
        distances[at] = distance;
        numbers[at] = i;
    }
    return n_found;
}

void similar_hint(const struct names *names, const char *typed, char *hint, size_t size)
{
    uint32_t numbers[MAX_HINTS];
    size_t n = similar_names(names, typed, MAX_HINTS, numbers), used = 0;
    hint[0] = '\0';
    for (size_t i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(hint + used, size - used, "%s'%s'",
                                 i == 0       ? "; did you mean "
                                 : i + 1 == n ? " or "
                                              : ", ",
                                 names_at(names, numbers[i]));
}
