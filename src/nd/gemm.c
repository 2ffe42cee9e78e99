/* gemm - see gemm.h. */
#include "nd/gemm.h"

#include <string.h>

#include "nd/clones.h"

#include "nd/engine.h"

enum { PART_PRODUCTS = 1 << 19 }; /* multiplications, the least of a part */

/* A product whose rows have their lengths. */
static struct gemm complete(const struct gemm *product)
{
    struct gemm p = *product;
    p.row_a = p.row_a ? p.row_a : p.transpose_a ? p.m : p.k;
    p.row_b = p.row_b ? p.row_b : p.transpose_b ? p.k : p.n;
    p.row_c = p.row_c ? p.row_c : p.n;
    return p;
}

struct division {
    struct gemm product;
    unsigned n_parts;
    size_t part_bytes;
};

/* Some rows or some columns of the product, whichever are more. */
static void multiply_part(void *context, unsigned i)
{
    const struct division *division = context;
    struct gemm p = division->product;
    const size_t bytes = spec_type_bytes(p.type);
    int64_t *const length = p.m > p.n ? &p.m : &p.n;
    const int64_t begin = nd_engine_begin(*length, division->n_parts, i),
                  end = nd_engine_begin(*length, division->n_parts, i + 1);
    if (p.m > p.n) {
        p.a = (const char *)p.a + (size_t)(begin * (p.transpose_a ? 1 : p.row_a)) * bytes;
        p.c = (char *)p.c + (size_t)(begin * p.row_c) * bytes;
    } else {
        p.b = (const char *)p.b + (size_t)(begin * (p.transpose_b ? p.row_b : 1)) * bytes;
        p.c = (char *)p.c + (size_t)begin * bytes;
    }
    *length = end - begin;
    p.scratch = (char *)p.scratch + i * division->part_bytes;
    gemm(&p);
}

void gemm_parts(const struct gemm *product, unsigned n_parts, size_t part_bytes)
{
    struct division division = {complete(product), 1, part_bytes};
    const int64_t length = product->m > product->n ? product->m : product->n;
    const unsigned n = nd_engine_split(product->m * product->n * product->k, PART_PRODUCTS);
    division.n_parts = n < n_parts ? n : n_parts;
    if (division.n_parts > length)
        division.n_parts = (unsigned)length;
    nd_engine_parts(division.n_parts, multiply_part, &division);
}

#ifdef TERN_OPENBLAS
#include <cblas.h>

void gemm(const struct gemm *given)
{
    const struct gemm product = complete(given), *p = &product;
    const enum CBLAS_TRANSPOSE a = p->transpose_a ? CblasTrans : CblasNoTrans;
    const enum CBLAS_TRANSPOSE b = p->transpose_b ? CblasTrans : CblasNoTrans;
    const blasint m = (blasint)p->m, n = (blasint)p->n, k = (blasint)p->k;
    const blasint lda = (blasint)p->row_a, ldb = (blasint)p->row_b, ldc = (blasint)p->row_c;
    if (p->type == TERN_ND_F32)
        cblas_sgemm(CblasRowMajor, a, b, m, n, k, 1, p->a, lda, p->b, ldb, p->adds, p->c, ldc);
    else
        cblas_dgemm(CblasRowMajor, a, b, m, n, k, 1, p->a, lda, p->b, ldb, p->adds, p->c, ldc);
}

/* The engine has the threads; OpenBLAS must not start its own beside them. */
__attribute__((constructor)) static void one_thread(void)
{
    openblas_set_num_threads(1);
}

const char *gemm_name(void)
{
    return "OpenBLAS";
}
#else

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#define REAL float
#define LANES 8
#define NAME(x) x##_f32
#include "nd/gemm_body.h"

#define REAL double
#define LANES 4
#define NAME(x) x##_f64
#include "nd/gemm_body.h"

void gemm(const struct gemm *given)
{
    const struct gemm product = complete(given);
    if (product.type == TERN_ND_F32)
        multiply_f32(&product);
    else
        multiply_f64(&product);
}

const char *gemm_name(void)
{
    return "plain";
}
#endif
