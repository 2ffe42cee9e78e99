/* npy - writes and reads arrays of NumPy's format: version 1.0, in C order, of one or two dimensions. */
#ifndef TASKS_NPY_H
#define TASKS_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/outputs.h"

/* Writes the head of an array of a type such as "<u8": n rows of n_columns, of one dimension if n_columns is 1. All heads have
 * the same size, so that of a file whose number of rows is known late can be written again at its beginning. */
void npy_write_head(struct outfile *out, const char *type, uint64_t n, size_t n_columns);

/* Reads folder/name, an array of a type such as "<u8" with value_bytes for each value: *n rows of n_columns. *values is to be
 * freed. */
bool npy_read_array(const char *folder, const char *name, const char *type, size_t value_bytes,
                    size_t n_columns, uint64_t *n, void **values);

#endif
