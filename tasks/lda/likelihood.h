/*
 * likelihood - the logarithm of the probability of all words and their topics, log p(w, z).
 *
 * With the mixtures of documents and the words of topics integrated out (Griffiths and Steyvers, PNAS
 * 2004), and rise(x, n) = log Gamma(x + n) - log Gamma(x):
 *
 *   log p(w | z) = sum over topics    of  sum over words  of rise(beta, n_wk)  - rise(W beta, n_k)
 *   log p(z)     = sum over documents of  sum over topics of rise(alpha, n_dk) - rise(K alpha, n_d)
 */
#ifndef TASKS_LDA_LIKELIHOOD_H
#define TASKS_LDA_LIKELIHOOD_H

#include <stdint.h>

enum { RISE_KNOWN = 1024 };

double rise(double x, uint64_t n);

/* rise(x, n) for one x; those of small n are known. */
struct log_rising {
    double x;
    double known[RISE_KNOWN];
};

void log_rising_init(struct log_rising *log_rising, double x);

static inline double log_rising_at(const struct log_rising *log_rising, uint64_t n)
{
    return n < RISE_KNOWN ? log_rising->known[n] : rise(log_rising->x, n);
}

#endif
