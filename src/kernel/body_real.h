/*
 * body_real - the loops of one floating type; body.h includes it once per type.
 *
 * REAL is the type, NAME() makes the name of a loop, SQRT, FABS and COPYSIGN are the type's own.
 * Parameters are brought to the type once, before the loop; nothing in a loop is of another type.
 * Divisors that are the same for all elements become factors. tern.h has the formulas.
 */

static void NAME(add)(void *restrict to, const void *restrict from, size_t n)
{
    REAL *x = to;
    const REAL *y = from;
    foreach(i, n) x[i] += y[i];
}

static void NAME(sgd)(const double *p, size_t n, void *restrict value, void *restrict state,
                      const void *restrict update)
{
    (void)state;
    const REAL rate = (REAL)p[0];
    REAL *w = value;
    const REAL *g = update;
    foreach(i, n) w[i] -= rate * g[i];
}

static void NAME(momentum)(const double *p, size_t n, void *restrict value, void *restrict state,
                           const void *restrict update)
{
    const REAL rate = (REAL)p[0];
    const REAL decay = (REAL)p[1];
    REAL *w = value;
    REAL *m = state;
    const REAL *g = update;
    foreach(i, n)
    {
        const REAL mean = decay * m[i] + g[i];
        m[i] = mean;
        w[i] -= rate * mean;
    }
}

static void NAME(adagrad)(const double *p, size_t n, void *restrict value, void *restrict state,
                          const void *restrict update)
{
    const REAL rate = (REAL)p[0];
    const REAL epsilon = (REAL)p[1];
    REAL *w = value;
    REAL *s = state;
    const REAL *g = update;
    foreach(i, n)
    {
        const REAL sum = s[i] + g[i] * g[i];
        s[i] = sum;
        w[i] -= rate * g[i] / (SQRT(sum) + epsilon);
    }
}

/* An f32 t stops growing at 2^24, when the corrections for any usual beta have long been 1. */
static void NAME(adam)(const double *p, size_t n, void *restrict value, void *restrict state,
                       const void *restrict update)
{
    REAL *w = value;
    REAL *m = state;
    REAL *v = m + n;
    REAL *t = v + n;
    const REAL *g = update;
    *t += 1;
    const REAL keep_m = (REAL)p[1];
    const REAL take_m = (REAL)(1 - p[1]);
    const REAL keep_v = (REAL)p[2];
    const REAL take_v = (REAL)(1 - p[2]);
    const REAL rate = (REAL)(p[0] / (1 - pow(p[1], (double)*t)));
    const REAL scale = (REAL)(1 / __builtin_sqrt(1 - pow(p[2], (double)*t)));
    const REAL epsilon = (REAL)p[3];
    foreach(i, n)
    {
        const REAL mean = keep_m * m[i] + take_m * g[i];
        const REAL square = keep_v * v[i] + take_v * g[i] * g[i];
        m[i] = mean;
        v[i] = square;
        w[i] -= rate * mean / (SQRT(square) * scale + epsilon);
    }
}

static void NAME(ftrl)(const double *p, size_t n, void *restrict value, void *restrict state,
                       const void *restrict update)
{
    const REAL inverse_alpha = (REAL)(1 / p[0]);
    const REAL beta = (REAL)p[1];
    const REAL l1 = (REAL)p[2];
    const REAL l2 = (REAL)p[3];
    REAL *w = value;
    REAL *z = state;
    REAL *sum = z + n;
    const REAL *g = update;
    foreach(i, n)
    {
        const REAL new_sum = sum[i] + g[i] * g[i];
        const REAL root = SQRT(new_sum);
        const REAL s = (root - SQRT(sum[i])) * inverse_alpha;
        const REAL new_z = z[i] + (g[i] - s * w[i]);
        sum[i] = new_sum;
        z[i] = new_z;
        w[i] = (COPYSIGN(l1, new_z) - new_z) / ((beta + root) * inverse_alpha + l2);
        /* Overwritten, not chosen: gcc does not vectorise a division under a condition. */
        if (FABS(new_z) <= l1)
            w[i] = 0;
    }
}
