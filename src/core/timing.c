/* timing - see timing.h. */
#include "core/timing.h"

#include <math.h>

static const double smoothing = 0.1, quantile = 0.9999, first_rate = 10;

void timing_init(struct timing *timing)
{
    *timing = (struct timing){.rate = first_rate};
}

/* Sums the probabilities from a k below which there is nothing to speak of: at most some ten standard
 * deviations of them. */
uint64_t poisson_quantile(double rate, double p)
{
    if (rate <= 0)
        return 0;
    double first = floor(rate - 9 * sqrt(rate));
    double k = first > 0 ? first : 0;
    int sign; /* lgamma() would write a variable that all threads share */
    double probability = exp(k * log(rate) - rate - lgamma_r(k + 1, &sign));
    double sum = probability;
    while (sum < p && k < rate + 20 * sqrt(rate) + 50) {
        k++;
        probability *= rate / k;
        sum += probability;
    }
    return (uint64_t)k;
}

uint64_t timing_round(struct timing *timing, uint64_t clock)
{
    double advanced = (double)(clock - timing->clock);
    timing->clock = clock;
    /* A worker that pauses, as for an evaluation, says nothing about its speed. */
    if (advanced > 0)
        timing->rate = (1 - smoothing) * timing->rate + smoothing * advanced;
    double rate = advanced > timing->rate ? advanced : timing->rate;
    return clock + poisson_quantile(2 * rate, quantile);
}
