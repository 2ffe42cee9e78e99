/* update - what the updaters of this folder share: the checks of their parameters, and elements of either type. */
#ifndef UPDATE_UPDATE_H
#define UPDATE_UPDATE_H

#include <math.h>

#include "tern/tern.h"

#define UPDATE_NEEDS_FLOATING "the table's type must be f32 or f64"

static inline bool update_is_floating(enum tern_type type)
{
    return type == TERN_F32 || type == TERN_F64;
}

static inline bool update_is_positive(double x)
{
    return isfinite(x) && x > 0;
}

static inline bool update_is_not_negative(double x)
{
    return isfinite(x) && x >= 0;
}

/* A share of the past to keep: in [0, 1). */
static inline bool update_is_decay(double x)
{
    return x >= 0 && x < 1;
}

/* Element i of an array of f32 or f64. */
static inline double update_get(enum tern_type type, const void *array, size_t i)
{
    return type == TERN_F64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

static inline void update_put(enum tern_type type, void *array, size_t i, double x)
{
    if (type == TERN_F64)
        ((double *)array)[i] = x;
    else
        ((float *)array)[i] = (float)x;
}

/* Whether the type is floating, and rate and epsilon, the first two parameters, are above 0. */
const char *update_check_adagrad(const struct tern_updater *updater, enum tern_type type);

#endif
