/* rica_step - the objective, and the step of one filter. See rica_step.h. */
#include "rica/rica_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"
#include "rica/rica.h"

enum { N_POWERS = 30 };

/* ---- Small matrices --------------------------------------------------------------------------- */

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void axpy(double factor, const double *x, double *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* y = x u, of n x p. */
static void multiply(const struct rica_data *data, const double *u, double *y)
{
    for (size_t i = 0; i < data->n; i++)
        y[i] = dot(data->x + i * data->p, u, data->p);
}

/* The factor of Cholesky, in place; false if the matrix is not positive definite. */
static bool factorize(double *a, size_t p)
{
    for (size_t i = 0; i < p; i++)
        for (size_t j = 0; j <= i; j++) {
            const double sum = a[i * p + j] - dot(a + i * p, a + j * p, j);
            if (i == j && !(sum > 0))
                return false;
            a[i * p + j] = i == j ? sqrt(sum) : sum / a[j * p + j];
        }
    return true;
}

/* Solves L L^T x = b, in place. */
static void solve(const double *factor, size_t p, double *b)
{
    for (size_t i = 0; i < p; i++)
        b[i] = (b[i] - dot(factor + i * p, b, i)) / factor[i * p + i];
    for (size_t i = p; i-- > 0;) {
        b[i] /= factor[i * p + i];
        axpy(-b[i], factor + i * p, b, i);
    }
}

/* ---- Data ------------------------------------------------------------------------------------- */

/* By powers; a little above, because they come from below. */
static double largest_eigenvalue(const double *c, size_t p, double *space)
{
    double *next = space + p, size = 0;
    for (size_t j = 0; j < p; j++)
        space[j] = 1;
    for (int i = 0; i < N_POWERS; i++) {
        for (size_t j = 0; j < p; j++)
            next[j] = dot(c + j * p, space, p);
        size = sqrt(dot(next, next, p));
        for (size_t j = 0; j < p; j++)
            space[j] = size > 0 ? next[j] / size : 0;
    }
    return 1.1 * size;
}

bool rica_prepare(struct rica_data *data)
{
    const size_t p = data->p;
    double *space = calloc(2 * p, sizeof *space);
    data->c = calloc(p * p, sizeof *data->c);
    if (space == NULL || data->c == NULL) {
        free(space);
        return task_fail_memory("the products of the examples");
    }
    for (size_t i = 0; i < data->n; i++)
        for (size_t j = 0; j < p; j++)
            if (data->x[i * p + j] != 0)
                axpy(data->x[i * p + j], data->x + i * p, data->c + j * p, p);
    data->largest = largest_eigenvalue(data->c, p, space);
    free(space);
    return data->largest > 0 || task_fail("all examples are 0");
}

void rica_data_fini(struct rica_data *data)
{
    free(data->x);
    free(data->c);
    *data = (struct rica_data){0};
}

bool rica_space_init(struct rica_space *space, const struct rica_data *data)
{
    const size_t n = data->n, p = data->p;
    *space = (struct rica_space){.slopes = malloc(p * p * sizeof(double)),
                                 .factor = malloc(p * p * sizeof(double)),
                                 .y = malloc(n * sizeof(double)),
                                 .mu = malloc(n * sizeof(double)),
                                 .xu = malloc(n * sizeof(double)),
                                 .z = malloc(p * sizeof(double)),
                                 .right = malloc(p * sizeof(double)),
                                 .u = malloc(p * sizeof(double))};
    return (space->slopes != NULL && space->factor != NULL && space->y != NULL &&
            space->mu != NULL && space->xu != NULL && space->z != NULL && space->right != NULL &&
            space->u != NULL) ||
           task_fail_memory("the steps");
}

void rica_space_fini(struct rica_space *space)
{
    free(space->slopes);
    free(space->factor);
    free(space->y);
    free(space->mu);
    free(space->xu);
    free(space->z);
    free(space->right);
    free(space->u);
    *space = (struct rica_space){0};
}

/* ---- Objective -------------------------------------------------------------------------------- */

/* (G - I) c, row i. */
static void error_row(const struct rica_data *data, const double *gram, size_t i, double *row)
{
    const size_t p = data->p;
    memset(row, 0, p * sizeof *row);
    for (size_t k = 0; k < p; k++)
        axpy(gram[i * p + k] - (i == k), data->c + k * p, row, p);
}

double rica_loss(const struct rica_data *data, const double *gram)
{
    const size_t p = data->p;
    double row[RICA_MAX_PIXELS], sum = 0;
    for (size_t i = 0; i < p; i++) {
        error_row(data, gram, i, row);
        sum += dot(row, gram + i * p, p) - row[i];
    }
    return sum / 2;
}

double rica_answers(const struct rica_data *data, const double *w)
{
    double sum = 0;
    for (size_t i = 0; i < data->n; i++)
        sum += fabs(dot(data->x + i * data->p, w, data->p));
    return sum;
}

/* ---- Steps ------------------------------------------------------------------------------------ */

void rica_slopes(const struct rica_data *data, const double *gram, struct rica_space *space)
{
    const size_t p = data->p;
    for (size_t i = 0; i < p; i++)
        error_row(data, gram, i, space->slopes + i * p);
    /* The second product is the transpose of the first: both factors are symmetric. */
    for (size_t i = 0; i < p; i++)
        for (size_t j = 0; j <= i; j++)
            space->slopes[i * p + j] = space->slopes[j * p + i] =
                space->slopes[i * p + j] + space->slopes[j * p + i];
}

void rica_gradient(const struct rica_data *data, const struct rica_space *space, const double *w,
                   double *gradient)
{
    memset(gradient, 0, data->p * sizeof *gradient);
    for (size_t k = 0; k < data->p; k++)
        axpy(w[k], space->slopes + k * data->p, gradient, data->p);
}

static double soft(double value, double threshold)
{
    return value > threshold ? value - threshold : value < -threshold ? value + threshold : 0;
}

/* One iteration of ADMM (6.9): u, then y, then mu. */
static void iterate(const struct rica_data *data, struct rica_space *space, double gamma,
                    double theta, double lambda, const double *h)
{
    const size_t p = data->p;
    for (size_t j = 0; j < p; j++)
        space->u[j] = h[j] * space->z[j] / gamma;
    for (size_t i = 0; i < data->n; i++)
        axpy(space->y[i] / theta - space->mu[i], data->x + i * p, space->u, p);
    solve(space->factor, p, space->u);
    multiply(data, space->u, space->xu);
    for (size_t i = 0; i < data->n; i++) {
        space->y[i] = soft(space->xu[i] + theta * space->mu[i], lambda * theta);
        space->mu[i] += (space->xu[i] - space->y[i]) / theta;
    }
}

bool rica_step(const struct rica_data *data, struct rica_space *space, double gamma, double lambda,
               size_t n_admm, double *w, double *h)
{
    const size_t p = data->p;
    const double theta = gamma * data->largest; /* both parts of the system weigh about the same */
    rica_gradient(data, space, w, space->right);
    for (size_t j = 0; j < p; j++)
        space->z[j] = w[j] - gamma * space->right[j] / h[j];
    memcpy(space->factor, data->c, p * p * sizeof *space->factor);
    for (size_t j = 0; j < p * p; j++)
        space->factor[j] /= theta;
    for (size_t j = 0; j < p; j++)
        space->factor[j * p + j] += h[j] / gamma;
    if (!factorize(space->factor, p))
        return false;
    multiply(data, space->z, space->y);
    memset(space->mu, 0, data->n * sizeof *space->mu);
    for (size_t i = 0; i < n_admm; i++)
        iterate(data, space, gamma, theta, lambda, h);
    for (size_t j = 0; j < p; j++) {
        const double change = space->u[j] - w[j];
        h[j] = sqrt(h[j] * h[j] + change * change);
        w[j] = space->u[j];
    }
    return true;
}
