/* neon - the set for arm64: 4 floats at a time. */
#include "kernel/body_fixed.h"

const struct kernel kernel_neon = {.name = "neon", .vector_bytes = 16, BODY_LOOPS};
const struct fixed fixed_neon = BODY_FIXED;
