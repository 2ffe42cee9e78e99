/* quantile - see quantile.h. */
#include "quantile.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double quantile(double *values, size_t n, double q)
{
    qsort(values, n, sizeof *values, by_size);
    double at = q * (double)(n - 1);
    return (values[(size_t)at] + values[(size_t)(at + 0.5)]) / 2;
}
