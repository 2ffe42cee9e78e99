/*
 * counts - numbers that are mostly small as bytes: seven bits in each, the lowest first, with the top bit set in all but the
 * last. Pure functions.
 */
#ifndef WIRE_COUNTS_H
#define WIRE_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COUNT_MAX_BYTES = 10 };

/* Writes a number; gives the address behind it. */
static inline uint8_t *count_put(uint8_t *at, uint64_t count)
{
    for (; count >= 0x80; count >>= 7)
        *at++ = (uint8_t)(count | 0x80);
    *at++ = (uint8_t)count;
    return at;
}

/* Reads a number from [at, end); gives the address behind it, or NULL if there is none of at most 64 bits in its shortest
 * form. */
static inline const uint8_t *count_get(const uint8_t *at, const uint8_t *end, uint64_t *count)
{
    *count = 0;
    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
        const uint8_t byte = *at++;
        if (shift == 63 && byte > 1)
            return NULL;
        *count |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return byte || !shift ? at : NULL;
    }
    return NULL;
}

#endif
