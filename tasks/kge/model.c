/* model - how ComplEx, DistMult and RESCAL score a triple. See model.h. */
#include "kge/model.h"

#include <math.h>
#include <string.h>

#include "common/dense.h"

const char *const model_names[] = {"complex", "distmult", "rescal", NULL};

/* ---- DistMult -------------------------------------------------------------------------------- */

static void multiply(const float *restrict a, const float *restrict b, size_t n, float *restrict c)
{
    for (size_t i = 0; i < n; i++)
        c[i] = a[i] * b[i];
}

static void multiply_back(const float *restrict a, const float *restrict b,
                          const float *restrict gradient, size_t n, float *restrict a_gradient,
                          float *restrict b_gradient)
{
    for (size_t i = 0; i < n; i++) {
        a_gradient[i] += b[i] * gradient[i];
        b_gradient[i] += a[i] * gradient[i];
    }
}

/* ---- ComplEx --------------------------------------------------------------------------------- */

/* `sign` is 1 for the product with r, -1 for that with conj(r). */
static void multiply_complex(const float *restrict a, const float *restrict r, float sign, size_t n,
                             float *restrict c)
{
    const float *restrict a_im = a + n, *restrict r_im = r + n;
    float *restrict c_im = c + n;
    for (size_t i = 0; i < n; i++) {
        float im = sign * r_im[i];
        c[i] = a[i] * r[i] - a_im[i] * im;
        c_im[i] = a[i] * im + a_im[i] * r[i];
    }
}

static void multiply_complex_back(const float *restrict a, const float *restrict r, float sign,
                                  const float *restrict gradient, size_t n,
                                  float *restrict a_gradient, float *restrict r_gradient)
{
    const float *restrict a_im = a + n, *restrict r_im = r + n, *restrict g_im = gradient + n;
    float *restrict a_gradient_im = a_gradient + n, *restrict r_gradient_im = r_gradient + n;
    for (size_t i = 0; i < n; i++) {
        float im = sign * r_im[i];
        a_gradient[i] += r[i] * gradient[i] + im * g_im[i];
        a_gradient_im[i] += r[i] * g_im[i] - im * gradient[i];
        r_gradient[i] += a[i] * gradient[i] + a_im[i] * g_im[i];
        r_gradient_im[i] += sign * (a[i] * g_im[i] - a_im[i] * gradient[i]);
    }
}

/* ---- RESCAL ---------------------------------------------------------------------------------- */

/* a r for the object, r a for the subject. */
static void transform(enum side side, const float *a, const float *r, size_t n, float *c)
{
    memset(c, 0, n * sizeof *c);
    for (size_t i = 0; i < n; i++, r += n)
        if (side == ASK_OBJECT)
            dense_axpy(a[i], r, c, n);
        else
            c[i] = dense_dot(r, a, n);
}

static void transform_back(enum side side, const float *a, const float *r, const float *gradient,
                           size_t n, float *a_gradient, float *r_gradient)
{
    for (size_t i = 0; i < n; i++, r += n, r_gradient += n) {
        if (side == ASK_OBJECT) {
            a_gradient[i] += dense_dot(r, gradient, n);
            dense_axpy(a[i], gradient, r_gradient, n);
        } else {
            dense_axpy(gradient[i], r, a_gradient, n);
            dense_axpy(gradient[i], a, r_gradient, n);
        }
    }
}

/* ---- Any ------------------------------------------------------------------------------------- */

size_t model_relation_length(enum kge_model model, size_t n)
{
    return model == KGE_RESCAL ? n * n : n;
}

static float sign_of(enum side side)
{
    return side == ASK_OBJECT ? 1 : -1;
}

void model_question(enum kge_model model, enum side side, const float *given, const float *relation,
                    size_t n, float *question)
{
    if (model == KGE_COMPLEX)
        multiply_complex(given, relation, sign_of(side), n / 2, question);
    else if (model == KGE_RESCAL)
        transform(side, given, relation, n, question);
    else
        multiply(given, relation, n, question);
}

void model_question_back(enum kge_model model, enum side side, const float *given,
                         const float *relation, const float *question_gradient, size_t n,
                         float *given_gradient, float *relation_gradient)
{
    if (model == KGE_COMPLEX)
        multiply_complex_back(given, relation, sign_of(side), question_gradient, n / 2,
                              given_gradient, relation_gradient);
    else if (model == KGE_RESCAL)
        transform_back(side, given, relation, question_gradient, n, given_gradient,
                       relation_gradient);
    else
        multiply_back(given, relation, question_gradient, n, given_gradient, relation_gradient);
}

void model_penalty_back(enum kge_model model, int power, float weight, const float *x, size_t n,
                        float *gradient)
{
    if (power == 2) {
        for (size_t i = 0; i < n; i++)
            gradient[i] += 2 * weight * x[i];
    } else if (model == KGE_COMPLEX) {
        for (size_t i = 0, half = n / 2; i < half; i++) {
            float modulus = sqrtf(x[i] * x[i] + x[half + i] * x[half + i]);
            gradient[i] += 3 * weight * modulus * x[i];
            gradient[half + i] += 3 * weight * modulus * x[half + i];
        }
    } else {
        for (size_t i = 0; i < n; i++)
            gradient[i] += 3 * weight * fabsf(x[i]) * x[i];
    }
}
