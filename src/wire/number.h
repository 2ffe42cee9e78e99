/*
 * number - whole numbers in as few bytes as they need: groups of 7 bits, lowest first, each in a byte whose top bit says
 * that another follows.
 *
 * Lengths of neighbours differ at random, so code that branches on each byte would be mispredicted about once a number.
 * Hence three ways: numbers of 1 or 2 bytes without a branch between the two; those of up to 8 bytes through a 64-bit
 * word, all groups at once (number_spread, number_squeeze); those of 9 or 10, which are rare, byte by byte. Pure
 * functions.
 */
#ifndef WIRE_NUMBER_H
#define WIRE_NUMBER_H

#include "wire/bytes.h"

#define NUMBER_TOP_BITS UINT64_C(0x8080808080808080)

enum {
    NUMBER_SHORT_END = 1 << 14, /* numbers below take at most 2 bytes */
    NUMBER_WORD_BITS = 56,      /* what 8 bytes of 7 bits hold */
    NUMBER_MAX_BYTES = 10,
};

/* Bits in x, at least 1. */
static inline unsigned number_width(uint64_t x)
{
    return 64 - (unsigned)__builtin_clzll(x | 1);
}

/* The 8 groups of 7 bits of a number below 2^56, one per byte. */
static inline uint64_t number_spread(uint64_t x)
{
    x = (x & UINT64_C(0x000000000fffffff)) | (x & UINT64_C(0x00fffffff0000000)) << 4;
    x = (x & UINT64_C(0x00003fff00003fff)) | (x & UINT64_C(0x0fffc0000fffc000)) << 2;
    return (x & UINT64_C(0x007f007f007f007f)) | (x & UINT64_C(0x3f803f803f803f80)) << 1;
}

/* The inverse of number_spread; top bits do not count. */
static inline uint64_t number_squeeze(uint64_t x)
{
    x = (x & UINT64_C(0x007f007f007f007f)) | (x & UINT64_C(0x7f007f007f007f00)) >> 1;
    x = (x & UINT64_C(0x00003fff00003fff)) | (x & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (x & UINT64_C(0x000000000fffffff)) | (x & UINT64_C(0x0fffffff00000000)) >> 4;
}

static inline uint8_t *number_put_slowly(uint64_t x, uint8_t *out)
{
    for (; x >= 0x80; x >>= 7)
        *out++ = (uint8_t)(x | 0x80);
    *out++ = (uint8_t)x;
    return out;
}

/* Writes x and returns where it ends; may scribble over 8 bytes from `out` even if x takes fewer. */
static inline uint8_t *number_put(uint64_t x, uint8_t *out)
{
    if (x < NUMBER_SHORT_END) {
        const unsigned two = x >= 0x80;
        out[0] = (uint8_t)((x & 0x7f) | two << 7);
        out[1] = (uint8_t)(x >> 7);
        return out + 1 + two;
    }
    const unsigned width = number_width(x);
    if (width > NUMBER_WORD_BITS)
        return number_put_slowly(x, out);
    const unsigned bytes = (9 * width + 64) / 64; /* width / 7, rounded up */
    const uint64_t more = NUMBER_TOP_BITS & ((UINT64_C(1) << (8 * (bytes - 1))) - 1);
    put_u64(out, number_spread(x) | more);
    return out + bytes;
}

/* Reads one number, byte by byte, and returns where it ends; NULL if it is cut off, has more than 64
 * bits or is not in its shortest form. */
static inline const uint8_t *number_get_slowly(const uint8_t *in, const uint8_t *end, uint64_t *x)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < NUMBER_MAX_BYTES && in < end; i++) {
        const uint8_t byte = *in++;
        sum |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte & 0x80)
            continue;
        if ((byte == 0 && i > 0) || (byte > 1 && i == NUMBER_MAX_BYTES - 1))
            return NULL;
        *x = sum;
        return in;
    }
    return NULL;
}

/* The same, quicker where 8 bytes may be read. */
static inline const uint8_t *number_get(const uint8_t *in, const uint8_t *end, uint64_t *x)
{
    if (end - in < 8)
        return number_get_slowly(in, end, x);
    const unsigned two = in[0] >> 7;
    if ((in[1] >> 7 & two) == 0) {
        *x = (in[0] & 0x7fU) | (in[1] & -two) << 7;
        return in[1] >= two ? in + 1 + two : NULL;
    }
    const uint64_t word = get_u64(in);
    const uint64_t stops = ~word & NUMBER_TOP_BITS;
    if (stops == 0)
        return number_get_slowly(in, end, x);
    const unsigned bits = (unsigned)__builtin_ctzll(stops) + 1;
    *x = number_squeeze(word << (64 - bits) >> (64 - bits));
    return word << (64 - bits) >> 56 != 0 ? in + bits / 8 : NULL;
}

/* A difference that may go either way as a number: small if it is small. */
static inline uint64_t number_fold(uint64_t difference)
{
    return difference << 1 ^ (0 - (difference >> 63));
}

static inline uint64_t number_unfold(uint64_t folded)
{
    return folded >> 1 ^ (0 - (folded & 1));
}

#endif
