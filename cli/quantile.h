/* quantile - medians and other quantiles of repeated measurements. */
#ifndef CLI_QUANTILE_H
#define CLI_QUANTILE_H

#include <stddef.h>

/* The q-quantile of n > 0 values; sorts them. */
double quantile(double *values, size_t n, double q);

static inline double median(double *values, size_t n)
{
    return quantile(values, n, 0.5);
}

#endif
