/*
 * loan - rows of parameters that a worker changes in place for a while.
 *
 * With --plain they are the rows of the array themselves. Of a table they are copies that are pulled
 * when the loan begins; when it ends, what has changed is added to the table, so that it does no harm
 * if others had the same rows meanwhile.
 */
#ifndef TASKS_MF_LOAN_H
#define TASKS_MF_LOAN_H

#include <stdlib.h>

#include "common/params.h"

struct loan {
    const struct params *params;
    const uint64_t *keys; /* the caller's, until the loan ends */
    size_t n;
    float *rows; /* of a table: the copies, and what they were at first */
    float *before;
};

/* Makes room for n rows at a time. */
static inline bool loan_init(struct loan *loan, const struct params *params, size_t n)
{
    size_t bytes = (n * params->length * sizeof(float) / 64 + 1) * 64;
    *loan = (struct loan){.params = params};
    if (params->values != NULL)
        return true;
    loan->rows = aligned_alloc(64, bytes);
    loan->before = aligned_alloc(64, bytes);
    return (loan->rows != NULL && loan->before != NULL) || task_fail_memory("a worker");
}

static inline void loan_fini(struct loan *loan)
{
    free(loan->rows);
    free(loan->before);
}

static inline bool loan_begin(struct loan *loan, struct tern_worker *worker, const uint64_t *keys,
                              size_t n)
{
    loan->keys = keys;
    loan->n = n;
    if (loan->rows == NULL)
        return true;
    if (!params_pull(loan->params, worker, keys, n, loan->before))
        return false;
    memcpy(loan->rows, loan->before, n * loan->params->length * sizeof(float));
    return true;
}

/* The i-th row. Rows with consecutive keys follow each other. */
static inline float *loan_row(const struct loan *loan, size_t i)
{
    return loan->rows != NULL ? loan->rows + i * loan->params->length
                              : loan->params->values + loan->keys[i] * loan->params->length;
}

static inline bool loan_end(struct loan *loan, struct tern_worker *worker)
{
    if (loan->rows == NULL)
        return true;
    for (size_t i = 0; i < loan->n * loan->params->length; i++)
        loan->before[i] = loan->rows[i] - loan->before[i];
    return params_add(loan->params, worker, loan->keys, loan->n, loan->before);
}

#endif
