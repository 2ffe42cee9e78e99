/*
 * zipf - random numbers with Zipf's law, by rejection-inversion (Hörmann and Derflinger, 1996): a continuous density that
 * is as large near k as the wanted one is inverted, and the few draws that lie above k^-skew are taken back. `area` is its
 * integral.
 */
#include "common/zipf.h"

#include <math.h>

static double area(double x, double skew)
{
    return fabs(skew - 1) < 1e-9 ? log(x) : (pow(x, 1 - skew) - 1) / (1 - skew);
}

static double inverse_area(double y, double skew)
{
    return fabs(skew - 1) < 1e-9 ? exp(y) : pow(1 + y * (1 - skew), 1 / (1 - skew));
}

struct zipf zipf_make(double skew, int64_t n)
{
    return (struct zipf){
        .skew = skew,
        .n = (double)n,
        .low = area(1.5, skew) - 1,
        .high = area((double)n + 0.5, skew),
        .sure = 2 - inverse_area(area(2.5, skew) - pow(2, -skew), skew),
    };
}

int64_t zipf_draw(const struct zipf *zipf, struct rng *rng)
{
    for (;;) {
        double y = zipf->low + rng_unit(rng) * (zipf->high - zipf->low);
        double x = inverse_area(y, zipf->skew);
        double k = fmin(fmax(round(x), 1), zipf->n);
        if (k - x <= zipf->sure || y >= area(k + 0.5, zipf->skew) - pow(k, -zipf->skew))
            return (int64_t)k;
    }
}
