/* avx2 - the set for x86-64 machines with AVX2: 8 floats at a time. The Makefile has its flags. */
#include "kernel/body_fixed.h"

const struct kernel kernel_avx2 = {.name = "avx2", .vector_bytes = 32, BODY_LOOPS};
const struct fixed fixed_avx2 = BODY_FIXED;
