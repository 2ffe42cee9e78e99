/*
 * counts - rows of counts: whole numbers in a table of Tern or, with --plain, in an ordinary array.
 *
 * A worker copies rows, changes the copies, and adds the differences. Differences are whole numbers, each added exactly once, so
 * a row is the sum of what all workers have counted, in any order. A worker subtracts only what it has added before, so no
 * count stays below 0. Threads that share the array use atomic additions, for the same reason.
 */
#ifndef TASKS_LDA_COUNTS_H
#define TASKS_LDA_COUNTS_H

#include "common/train.h"

struct counts {
    struct tern_table *table; /* NULL: the array */
    int32_t *values;          /* NULL: the table */
    bool shared;              /* several threads use the array */
    size_t length;
};

/* Opens n_keys rows of zeros, with a placement of their table or NULL. counts_close() is due in any case; a table ends with its node. */
bool counts_open(struct counts *counts, struct train *train, const struct tern_placement *placement,
                 const char *name, uint64_t n_keys, size_t length);
void counts_close(struct counts *counts);

/* Copies n rows. */
bool counts_get(const struct counts *counts, struct tern_worker *worker, const uint64_t *keys,
                size_t n, int32_t *rows);

/* Adds n differences, one behind the other, to n rows. */
bool counts_add(const struct counts *counts, struct tern_worker *worker, const uint64_t *keys,
                size_t n, const int32_t *differences);

/* Says that the worker will use n rows while begin <= its clock < end. */
bool counts_intend(const struct counts *counts, struct tern_worker *worker, const uint64_t *keys,
                   size_t n, uint64_t begin, uint64_t end);

#endif
