/* gemm - see gemm.h. */
#include "nd/gemm.h"

#include <string.h>

#include "nd/clones.h"

#ifdef TERN_OPENBLAS
#include <cblas.h>

void gemm(const struct gemm *p)
{
    const enum CBLAS_TRANSPOSE a = p->transpose_a ? CblasTrans : CblasNoTrans;
    const enum CBLAS_TRANSPOSE b = p->transpose_b ? CblasTrans : CblasNoTrans;
    const blasint m = (blasint)p->m, n = (blasint)p->n, k = (blasint)p->k;
    const blasint lda = p->transpose_a ? m : k, ldb = p->transpose_b ? k : n;
    if (p->type == TERN_ND_F32)
        cblas_sgemm(CblasRowMajor, a, b, m, n, k, 1, p->a, lda, p->b, ldb, p->adds, p->c, n);
    else
        cblas_dgemm(CblasRowMajor, a, b, m, n, k, 1, p->a, lda, p->b, ldb, p->adds, p->c, n);
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

void gemm(const struct gemm *p)
{
    if (p->type == TERN_ND_F32)
        multiply_f32(p);
    else
        multiply_f64(p);
}

const char *gemm_name(void)
{
    return "plain";
}
#endif
