/* npy - reads the arrays of NumPy's format that Tern writes: version 1.0, in C order, of one or two dimensions. */
#ifndef TASKS_NPY_H
#define TASKS_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads folder/name, an array of a type such as "<u8" with value_bytes for each value: *n rows of n_columns. *values is to be
 * freed. */
bool npy_read_array(const char *folder, const char *name, const char *type, size_t value_bytes,
                    size_t n_columns, uint64_t *n, void **values);

#endif
