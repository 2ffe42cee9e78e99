/*
 * counts - how often things were counted: rows of whole numbers, in a table of Tern or, with --plain, in
 * an ordinary array.
 *
 * Rows are copied, changed by whoever has the copy, and the differences added. Since differences are
 * whole numbers that are added exactly once, a row is the sum of what all workers have counted, in
 * whatever order they come; and since what a worker takes away it has added before, none is below 0 for
 * good. Where several threads share the array it is added to by atomic additions, so that the same holds
 * for it.
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

/* Opens n_keys rows of zeros. counts_close() is due in any case; a table ends with its node. */
bool counts_open(struct counts *counts, struct train *train, const char *name, uint64_t n_keys,
                 size_t length);
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
