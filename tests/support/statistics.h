/*
 * statistics - tests of hypotheses on samples of keys, for programs with fixed seeds.
 *
 * Each gives a p-value: the probability that a sample which follows the hypothesis deviates from it as
 * much as the given one, or more. Whoever rejects below ALPHA rejects a true hypothesis once in
 * 1 / ALPHA seeds. Keys are given as numbers of classes, so that every class is met often enough:
 * chi-square is an approximation that holds when about 5 are expected in each cell.
 */
#ifndef SUPPORT_STATISTICS_H
#define SUPPORT_STATISTICS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define ALPHA 1e-4

/* The upper tail of the chi-square distribution: the regularised incomplete gamma function Q(df/2, x/2),
 * by its series below the mean and its continued fraction above. */
static inline double chi_square_tail(double x, double df)
{
    double a = df / 2;
    x /= 2;
    if (x <= 0)
        return 1;
    int sign;
    double front = exp(a * log(x) - x - lgamma_r(a, &sign));
    if (x < a + 1) {
        double term = 1 / a, sum = term;
        for (double k = a + 1; term > sum * 1e-15; k++)
            sum += term *= x / k;
        return 1 - front * sum;
    }
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (double i = 1; i < 10000; i++) {
        double an = -i * (i - a);
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        h *= d * c;
        if (fabs(d * c - 1) < 1e-15)
            break;
    }
    return front * h;
}

/* Hypothesis: the counts are those of independent draws with these probabilities. A count where the
 * probability is 0 refutes it. */
static inline double fit_p(const uint64_t *counts, const double *probabilities, size_t n)
{
    double total = 0, x = 0, df = -1;
    for (size_t i = 0; i < n; i++)
        total += (double)counts[i];
    for (size_t i = 0; i < n; i++) {
        double expected = total * probabilities[i], off = (double)counts[i] - expected;
        if (expected <= 0 && counts[i])
            return 0;
        if (expected <= 0)
            continue;
        x += off * off / expected;
        df++;
    }
    return chi_square_tail(x, df);
}

/* Counts of pairs of classes. */
struct pairs {
    size_t n_classes;
    uint64_t *counts; /* of (a, b) at a * n_classes + b; NULL when there is no memory */
};

static inline struct pairs pairs_new(size_t n_classes)
{
    return (struct pairs){n_classes, calloc(n_classes * n_classes, sizeof(uint64_t))};
}

static inline void pairs_add(struct pairs *pairs, size_t a, size_t b)
{
    pairs->counts[a * pairs->n_classes + b]++;
}

/* Hypothesis: the two members of the pairs are independent and each has these probabilities. Frees the
 * pairs. */
static inline double pairs_p(struct pairs *pairs, const double *probabilities)
{
    size_t n = pairs->n_classes;
    double *joint = calloc(n * n, sizeof *joint);
    double p = 0;
    for (size_t i = 0; joint && i < n * n; i++)
        joint[i] = probabilities[i / n] * probabilities[i % n];
    if (joint)
        p = fit_p(pairs->counts, joint, n * n);
    free(joint);
    free(pairs->counts);
    return p;
}

/* How far the frequency of any class is from its probability, at most, in standard errors of independent
 * draws that are used `uses` times each. They exceed 5 once in two million times for each class. */
static inline double worst_deviation(const uint64_t *counts, const double *probabilities,
                                     size_t n_classes, double uses)
{
    double total = 0, worst = 0;
    for (size_t i = 0; i < n_classes; i++)
        total += (double)counts[i];
    for (size_t i = 0; i < n_classes; i++) {
        double p = probabilities[i], error = sqrt(uses * p * (1 - p) / total);
        double off = fabs((double)counts[i] / total - p);
        double deviation = error > 0 ? off / error : off > 0 ? HUGE_VAL : 0;
        worst = deviation > worst ? deviation : worst;
    }
    return worst;
}

#endif
