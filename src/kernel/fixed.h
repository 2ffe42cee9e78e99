/*
 * fixed - the loops of the filter `fixed:B` (wire/filter.h), one set per instruction set like those of kernel.h: every set
 * gives the same bits.
 *
 * Numbers are rounded to whole numbers of steps. The inverse of a step, which is a power of two, may be no number of the type,
 * so it comes as two factors. A number is cut off towards zero and goes one step further from zero with the probability of
 * what was cut off: the mean is the number itself, and a whole number stays what it is.
 */
#ifndef KERNEL_FIXED_H
#define KERNEL_FIXED_H

#include <stddef.h>
#include <stdint.h>

enum { FIXED_SLACK = 1 }; /* bytes behind 24-bit numbers that may be written */

struct fixed {
    /* For [0] f32 and [1] f64: the largest magnitude of n numbers, that of one which is not finite is not finite; numbers to steps;
     * and back. Random numbers follow from seed and place, which is `at` for the first. */
    double (*largest[2])(const void *from, size_t n);
    void (*round[2])(const void *from, size_t n, const double scale[2], uint32_t seed, uint32_t at,
                     int32_t *steps);
    void (*unround[2])(const int32_t *steps, size_t n, const double scale[2], void *to);
    /* For 8, 16 and 24 bits: whole numbers to bytes, lowest first, and back. */
    void (*pack[3])(const int32_t *steps, size_t n, uint8_t *out);
    void (*unpack[3])(const uint8_t *in, size_t n, int32_t *steps);
};

/* The set that goes with kernel_get. */
const struct fixed *fixed_get(void);

/* That of kernel_at(i), for the tests. */
const struct fixed *fixed_at(size_t i);

#endif
