/*
 * gemm - products of matrices: OpenBLAS if the library was built with it, else loops of its own.
 *
 * c (m x n) = a (m x k) b (k x n), each without gaps, row by row; `transpose_a` means that a is stored as k x m. The own
 * loops add in an order that depends on the shape alone. They pack blocks of both matrices into `scratch`, which has
 * GEMM_SCRATCH_BYTES. Any thread, if it has a scratch of its own. gemm_parts divides a large product into up to n_parts, which the
 * engine's threads multiply; there `scratch` has part_bytes for each.
 */
#ifndef ND_GEMM_H
#define ND_GEMM_H

#include "nd/spec.h"

enum { GEMM_ROWS = 64, GEMM_COLUMNS = 256, GEMM_DEPTH = 256 };
#define GEMM_SCRATCH_BYTES ((size_t)(GEMM_ROWS + GEMM_COLUMNS) * GEMM_DEPTH * sizeof(double) + 64)

struct gemm {
    enum tern_nd_type type; /* f32 or f64 */
    bool transpose_a, transpose_b;
    bool adds; /* c += a b */
    int64_t m, n, k;
    int64_t row_a, row_b,
        row_c; /* numbers from a row to the next, as stored; 0: there are no gaps */
    const void *a, *b;
    void *c;
    void *scratch;
};

void gemm(const struct gemm *product);
void gemm_parts(const struct gemm *product, unsigned n_parts, size_t part_bytes);

/* "OpenBLAS" or "plain". */
const char *gemm_name(void);

#endif
