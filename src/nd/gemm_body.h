/*
 * gemm_body - the plain loops of gemm.c for one type. The includer defines REAL, LANES (numbers in 32 bytes) and NAME(x).
 *
 * Blocks of a and b are packed so that the innermost loop reads both in order: of a, 4 rows at a time; of b, 2 * LANES
 * columns at a time, padded with zeros. The loop keeps 4 x 2 vectors of sums in registers.
 */
typedef REAL NAME(vector) __attribute__((vector_size(32), aligned(8)));

enum { NAME(WIDTH) = 2 * LANES };

static void NAME(pack_a)(const struct gemm *p, int64_t row, int64_t m, int64_t depth, int64_t k,
                         REAL *to)
{
    const REAL *a = p->a;
    for (int64_t i = 0; i < m; i += 4)
        for (int64_t d = 0; d < k; d++)
            for (int64_t r = i; r < i + 4; r++)
                *to++ = r >= m ? 0
                               : a[p->transpose_a ? (depth + d) * p->row_a + row + r
                                                  : (row + r) * p->row_a + depth + d];
}

static void NAME(pack_b)(const struct gemm *p, int64_t depth, int64_t k, int64_t column, int64_t n,
                         REAL *to)
{
    const REAL *b = p->b;
    for (int64_t j = 0; j < n; j += NAME(WIDTH))
        for (int64_t d = 0; d < k; d++)
            for (int64_t c = j; c < j + NAME(WIDTH); c++)
                *to++ = c >= n ? 0
                               : b[p->transpose_b ? (column + c) * p->row_b + depth + d
                                                  : (depth + d) * p->row_b + column + c];
}

/* Adds the product of 4 packed rows and 2 * LANES packed columns to the corner of c with `rows` and `columns`. */
CLONES static void NAME(corner)(const REAL *a, const REAL *b, int64_t k, REAL *c, int64_t stride,
                                int64_t rows, int64_t columns)
{
    NAME(vector) sum[4][2] = {0};
    for (int64_t d = 0; d < k; d++, a += 4, b += NAME(WIDTH)) {
        const NAME(vector) left = *(const NAME(vector) *)b,
                           right = *(const NAME(vector) *)(b + LANES);
        for (int r = 0; r < 4; r++) {
            sum[r][0] += a[r] * left;
            sum[r][1] += a[r] * right;
        }
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++)
            c[r * stride + j] += sum[r][j / LANES][j % LANES];
}

static void NAME(multiply)(const struct gemm *p)
{
    REAL *packed_b = p->scratch, *packed_a = packed_b + GEMM_COLUMNS * GEMM_DEPTH, *c = p->c;
    for (int64_t i = 0; i < p->m && !p->adds; i++)
        memset(c + i * p->row_c, 0, (size_t)p->n * sizeof *c);
    for (int64_t column = 0; column < p->n; column += GEMM_COLUMNS) {
        const int64_t n = least(p->n - column, GEMM_COLUMNS);
        for (int64_t depth = 0; depth < p->k; depth += GEMM_DEPTH) {
            const int64_t k = least(p->k - depth, GEMM_DEPTH);
            NAME(pack_b)(p, depth, k, column, n, packed_b);
            for (int64_t row = 0; row < p->m; row += GEMM_ROWS) {
                const int64_t m = least(p->m - row, GEMM_ROWS);
                NAME(pack_a)(p, row, m, depth, k, packed_a);
                for (int64_t j = 0; j < n; j += NAME(WIDTH))
                    for (int64_t i = 0; i < m; i += 4)
                        NAME(corner)
                (packed_a + i * k, packed_b + j * k, k, c + (row + i) * p->row_c + column + j,
                 p->row_c, least(m - i, 4), least(n - j, NAME(WIDTH)));
            }
        }
    }
}

#undef REAL
#undef LANES
#undef NAME
