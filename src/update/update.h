/* update - what the updaters of this folder share: the checks of their parameters. */
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

#endif
