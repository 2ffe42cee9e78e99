/*
 * rica_step - the objective, and the step of one filter. See rica.h. Pure; a space belongs to one thread.
 */
#ifndef TASKS_RICA_STEP_H
#define TASKS_RICA_STEP_H

#include <stdbool.h>
#include <stddef.h>

/* The examples, x of n x p, and c = x^T x. */
struct rica_data {
    size_t n, p;
    double *x, *c;
    double largest; /* eigenvalue of c, from above */
};

/* c and its largest eigenvalue from x. False after task_fail(). */
bool rica_prepare(struct rica_data *data);
void rica_data_fini(struct rica_data *data);

/* What a thread needs. */
struct rica_space {
    double *slopes;        /* p x p: (G - I) c + c (G - I) */
    double *factor;        /* p x p: of Cholesky */
    double *y, *mu, *xu;   /* n */
    double *z, *right, *u; /* p */
};

bool rica_space_init(struct rica_space *space, const struct rica_data *data);
void rica_space_fini(struct rica_space *space);

/* The smooth part of the objective at G = W^T W: tr((G - I) c (G - I)) / 2. */
double rica_loss(const struct rica_data *data, const double *gram);

/* The sum of |x w| of one filter. */
double rica_answers(const struct rica_data *data, const double *w);

/* Computes space->slopes; the gradient of the smooth part by a row w of W is w times that (6.6). */
void rica_slopes(const struct rica_data *data, const double *gram, struct rica_space *space);
void rica_gradient(const struct rica_data *data, const struct rica_space *space, const double *w,
                   double *gradient);

/*
 * The step of a filter (6.7): w becomes the minimum of
 *
 *   |u - z|_H^2 / (2 gamma) + lambda |x u|_1,    z = w - gamma H^-1 gradient
 *
 * by n_admm iterations of ADMM, the soft threshold of (6.9b) being lambda theta, applied to x u + theta mu. Then H^2 grows
 * by the square of the change. False if the system cannot be solved.
 */
bool rica_step(const struct rica_data *data, struct rica_space *space, double gamma, double lambda,
               size_t n_admm, double *w, double *h);

#endif
