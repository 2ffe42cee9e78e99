/*
 * subspace - a step between epochs, over all weights at once, that makes the method fast where single weights are slow.
 *
 * Columns that add up to the same vector, such as those of one category, make steps of single weights short: a9a would take
 * thousands of epochs. So dbpg remembers how weights and margins have changed in each of the last SUBSPACE_MAX epochs, and
 * after an epoch makes one Newton step over the span of these changes: the margins of w + sum of a_k d_k are those of w plus
 * the sum of a_k times the margins of d_k, so neither slopes nor the objective need another pass over the pairs. It is what
 * conjugate gradients do, with an epoch as the preconditioner.
 *
 * A weight of 0 is left at 0, and |w| counts as linear; the step is halved until the objective falls enough, else it is not
 * taken. So the step never raises the objective.
 *
 * Nodes agree on sums, which have the same bits at all of them, so each computes the same step. Each sets the weights of its
 * own features; a weight that several nodes have is set several times, to the same number.
 */
#ifndef TASKS_LINEAR_SUBSPACE_H
#define TASKS_LINEAR_SUBSPACE_H

#include <stdbool.h>
#include <stddef.h>

struct dbpg;

enum { SUBSPACE_MAX = 8 };

struct subspace {
    size_t n;               /* directions */
    size_t next;            /* the slot of the next one */
    size_t n_steps;         /* so far */
    double *weights;        /* before the epoch; during a step the direction of the step */
    double *weight_changes; /* by feature, SUBSPACE_MAX each */
    bool *has_changed;      /* by feature: some of its changes are not 0 */
    double **margins, **margin_changes; /* the same, by thread and row */
};

/* Allocates for the columns of dbpg; subspace_fini() is due in any case. */
bool subspace_init(struct dbpg *dbpg);
void subspace_fini(struct dbpg *dbpg);

/* Weights and margins are a new beginning. */
void subspace_reset(struct dbpg *dbpg);

/* Makes the step; called by all nodes when all weights are fetched, which `ok` says of this node. */
bool subspace_step(struct dbpg *dbpg, bool ok);

/* Solves a x = b for a symmetric matrix of order n <= SUBSPACE_MAX, after scaling its diagonal to 1 and adding 1e-9 to it.
 * False if it is not positive definite. */
bool subspace_solve(size_t n, double a[SUBSPACE_MAX][SUBSPACE_MAX], const double *b, double *x);

#endif
