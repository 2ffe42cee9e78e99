/*
 * dense - loops over vectors and small matrices of floats, in the best instruction set of the machine.
 *
 * Matrices are stored row by row without gaps. Sums are formed in another order than written, and
 * products and sums may be fused, so results differ in the last bits between machines.
 */
#ifndef TASKS_DENSE_H
#define TASKS_DENSE_H

#include <stddef.h>

/* a . b */
float dense_dot(const float *a, const float *b, size_t n);

/* y += factor * x */
void dense_axpy(float factor, const float *x, float *y, size_t n);

/* c = a b^T: c[i][j] is the product of row i of a (n_a x n) and row j of b (n_b x n). */
void dense_rows_by_rows(const float *a, size_t n_a, const float *b, size_t n_b, size_t n, float *c);

/* c += w b, where w is n_c x n_b, b is n_b x n and c is n_c x n: rows of c gain weighted rows of b. */
void dense_add_weighted(const float *w, const float *b, size_t n_c, size_t n_b, size_t n, float *c);

/* x = e^(x - largest); returns the sum of the results. */
float dense_exp(float *x, float largest, size_t n);

/* x = 1 / (1 + e^-x); returns the sum of log(1 + e^x) of what x was, in [-87, 87]. */
float dense_logistic(float *x, size_t n);

/* The same without the sum, for any x. */
void dense_sigmoid(float *x, size_t n);

/* In double precision, for any x: x = log(1 + e^x), and p = 1 / (1 + e^-x) of what x was. The relative error is below 1e-14. */
void dense_softplus(double *x, double *p, size_t n);

/* The largest of n > 0 numbers. */
float dense_largest(const float *x, size_t n);

/* AdaGrad as an addition: row holds n values and n sums of squares, `gradient` n numbers. The difference,
 * 2n numbers, is what to add to the row. */
void dense_adagrad(const float *row, const float *gradient, float rate, size_t n,
                   float *difference);

#endif
