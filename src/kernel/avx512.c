/* avx512 - the set for x86-64 machines with AVX-512 F, DQ, BW and VL: 16 floats at a time. The
 * Makefile has its flags. */
#include "kernel/body_fixed.h"

const struct kernel kernel_avx512 = {.name = "avx512", .vector_bytes = 64, BODY_LOOPS};
const struct fixed fixed_avx512 = BODY_FIXED;
