/* quantile - the middle of repeated measurements, and other quantiles. */
#ifndef CLI_QUANTILE_H
#define CLI_QUANTILE_H

#include <stddef.h>

/* The value below which a share of q of them lies, n > 0; leaves them in ascending order. */
double quantile(double *values, size_t n, double q);

static inline double median(double *values, size_t n)
{
    return quantile(values, n, 0.5);
}

#endif
