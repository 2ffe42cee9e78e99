/* scalar - the reference set: one element at a time, for any machine. */
#if !defined(__clang__)
#pragma GCC optimize("no-tree-vectorize")
#endif

#define BODY_SCALAR
#include "kernel/body_fixed.h"

const struct kernel kernel_scalar = {.name = "scalar", .vector_bytes = 16, BODY_LOOPS};
const struct fixed fixed_scalar = BODY_FIXED;
