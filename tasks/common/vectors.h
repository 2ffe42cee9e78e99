/*
 * vectors - files of vectors: NumPy's .npy, and word2vec's text and binary formats.
 *
 *   .npy       version 1.0, '<f4', C order, shape (rows, columns); names stand in a file of their own,
 *              one per line
 *   word2vec   "rows columns\n", then per vector the name, a space, and the numbers: in text separated
 *              by spaces, in binary as little-endian f32; each ends with LF. Blanks in names become
 *              underscores, since a blank ends a name.
 */
#ifndef TASKS_VECTORS_H
#define TASKS_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct outfile;

enum vectors_format { VECTORS_NPY, VECTORS_TEXT, VECTORS_BINARY };

/* What comes before the vectors, and each vector. An .npy file takes no names (NULL). */
void vectors_begin(struct outfile *out, enum vectors_format format, uint64_t n_rows,
                   uint64_t n_columns);
void vectors_add(struct outfile *out, enum vectors_format format, const char *name,
                 const float *vector, uint64_t n_columns);

/* An .npy file that is being read, row after row. */
struct npy {
    FILE *file;
    char *path;
    uint64_t n_rows, n_columns;
};

/* Reads the head; takes f4 in C order with one or two dimensions. */
bool npy_open(struct npy *npy, const char *path);
bool npy_read(struct npy *npy, uint64_t n_rows, float *values);

/* Makes `row` the next one to be read; called before the first one is. */
bool npy_skip(struct npy *npy, uint64_t row);
void npy_close(struct npy *npy);

#endif
