/* series - see series.h. */
#include "series.h"

#include <math.h>
#include <stdio.h>

enum { MAX_COLUMNS = 80, INDENT = 4 };

void series_print(const char *name, int width, const double *values, size_t n, int n_decimals)
{
    int column = printf("%*s%-*s", INDENT, "", width, name);
    for (size_t i = 0; i < n; i++) {
        char text[32];
        if (isnan(values[i]))
            continue;
        int length = snprintf(text, sizeof text, " %.*f", n_decimals, values[i]);
        if (column + length > MAX_COLUMNS)
            column = printf("\n%*s", INDENT + width, "") - 1;
        column += printf("%s", text);
    }
    printf("\n");
}
