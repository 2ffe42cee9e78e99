/* sets - the sets of loops, for the files of this folder. */
#ifndef KERNEL_SETS_H
#define KERNEL_SETS_H

#include "kernel/fixed.h"
#include "kernel/kernel.h"

/* Each exists only on its architecture. */
extern const struct kernel kernel_scalar;
extern const struct kernel kernel_avx2;
extern const struct kernel kernel_avx512;
extern const struct kernel kernel_neon;
extern const struct fixed fixed_scalar;
extern const struct fixed fixed_avx2;
extern const struct fixed fixed_avx512;
extern const struct fixed fixed_neon;

#endif
