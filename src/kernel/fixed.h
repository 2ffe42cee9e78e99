/*
 * fixed - the loops of the filter `fixed:B` (wire/filter.h), one set per instruction set like those of kernel.h: every set
 * gives the same bits.
 *
 * Numbers are rounded to whole numbers of steps. The inverse of a step, which is a power of two, may be no number of the type,
 * so it comes as two factors. A random part of a step is added before a number is cut off downwards: the mean is the number
 * itself, to 2^-31 of the largest, and a whole number stays what it is.
 */
#ifndef KERNEL_FIXED_H
#define KERNEL_FIXED_H

#include <stddef.h>
#include <stdint.h>

enum { FIXED_SLACK = 1 }; /* bytes behind 24-bit numbers that may be written */

struct fixed {
    /* For [0] f32 and [1] f64: the largest magnitude of n numbers, that of one which is not finite is not finite. */
    double (*largest[2])(const void *from, size_t n);
    /* The same for 8, 16 and 24 bits: numbers to whole numbers of steps, as bytes, lowest first. Random numbers follow from seed
     * and place, which is `at` for the first. */
    void (*round[2][3])(const void *from, size_t n, const double scale[2], uint32_t seed,
                        uint32_t at, uint8_t *out);
    /* And back, in two steps. */
    void (*unpack[3])(const uint8_t *in, size_t n, int32_t *steps);
    void (*unround[2])(const int32_t *steps, size_t n, const double scale[2], void *to);
};

/* The set that goes with kernel_get. */
const struct fixed *fixed_get(void);

/* That of kernel_at(i), for the tests. */
const struct fixed *fixed_at(size_t i);

#endif
