/* likelihood - sums of log Gamma. See likelihood.h. */
#include "lda/likelihood.h"

#include <math.h>

/* lgamma() writes to a variable that all threads share. */
static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

double rise(double x, uint64_t n)
{
    return log_gamma(x + (double)n) - log_gamma(x);
}

void log_rising_init(struct log_rising *log_rising, double x)
{
    log_rising->x = x;
    for (uint64_t n = 0; n < RISE_KNOWN; n++)
        log_rising->known[n] = rise(x, n);
}
