/*
 * keys - see keys.h.
 *
 * Delta coding: the first key, then the difference of each to the one before, as groups of 7 bits,
 * lowest first, each in a byte whose top bit says that another follows. Lengths of neighbours differ
 * at random, so code that branches on each byte would be mispredicted about once a key. Hence three
 * ways: numbers of 1 or 2 bytes without a branch between the two; those of up to 8 bytes through a
 * 64-bit word, all groups at once (spread, squeeze); those of 9 or 10, which are rare, byte by byte.
 */
#include "wire/keys.h"

#include <string.h>

#include "wire/bytes.h"
#include "wire/frame.h"

#define TOP_BITS UINT64_C(0x8080808080808080)

enum {
    SHORT_END = 1 << 14, /* numbers below take at most 2 bytes */
    WORD_BITS = 56,      /* what 8 bytes of 7 bits hold */
    MAX_NUMBER_BYTES = 10,
    INSERTION_MAX = 96, /* keys; up to there the passes of the radix sort cost more */
    DIGIT_BITS = 8,
    DIGITS = 1 << DIGIT_BITS,
};

/* Bits in x, at least 1. */
static unsigned width_of(uint64_t x)
{
    return 64 - (unsigned)__builtin_clzll(x | 1);
}

/* ---- Raw ------------------------------------------------------------------------------------- */

static size_t raw_encode(const uint64_t *keys, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        put_u64(out + 8 * i, keys[i]);
    return 8 * n;
}

static bool raw_decode(const uint8_t *in, size_t bytes, size_t n, uint64_t *keys)
{
    if (bytes / 8 != n || bytes % 8 != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        keys[i] = get_u64(in + 8 * i);
    return true;
}

/* ---- Delta ----------------------------------------------------------------------------------- */

/* The 8 groups of 7 bits of a number below 2^56, one per byte. */
static uint64_t spread(uint64_t x)
{
    x = (x & UINT64_C(0x000000000fffffff)) | (x & UINT64_C(0x00fffffff0000000)) << 4;
    x = (x & UINT64_C(0x00003fff00003fff)) | (x & UINT64_C(0x0fffc0000fffc000)) << 2;
    return (x & UINT64_C(0x007f007f007f007f)) | (x & UINT64_C(0x3f803f803f803f80)) << 1;
}

/* The inverse of spread; top bits do not count. */
static uint64_t squeeze(uint64_t x)
{
    x = (x & UINT64_C(0x007f007f007f007f)) | (x & UINT64_C(0x7f007f007f007f00)) >> 1;
    x = (x & UINT64_C(0x00003fff00003fff)) | (x & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (x & UINT64_C(0x000000000fffffff)) | (x & UINT64_C(0x0fffffff00000000)) >> 4;
}

static uint8_t *put_slowly(uint64_t x, uint8_t *out)
{
    for (; x >= 0x80; x >>= 7)
        *out++ = (uint8_t)(x | 0x80);
    *out++ = (uint8_t)x;
    return out;
}

/* Writes x and returns where it ends; may scribble over 8 bytes from `out` even if x takes fewer. */
static uint8_t *put_number(uint64_t x, uint8_t *out)
{
    if (x < SHORT_END) {
        const unsigned two = x >= 0x80;
        out[0] = (uint8_t)((x & 0x7f) | two << 7);
        out[1] = (uint8_t)(x >> 7);
        return out + 1 + two;
    }
    const unsigned width = width_of(x);
    if (width > WORD_BITS)
        return put_slowly(x, out);
    const unsigned bytes = (9 * width + 64) / 64; /* width / 7, rounded up */
    const uint64_t more = TOP_BITS & ((UINT64_C(1) << (8 * (bytes - 1))) - 1);
    put_u64(out, spread(x) | more);
    return out + bytes;
}

/* Writes the differences and returns where they end; NULL if the keys do not ascend. At each key at
 * least 10 bytes are left of keys_max_bytes(n), enough for any number and for what it scribbles. */
static uint8_t *delta_encode(const uint64_t *keys, size_t n, uint8_t *out)
{
    uint64_t previous = 0;
    for (size_t i = 0; i < n; i++) {
        if (keys[i] < previous)
            return NULL;
        out = put_number(keys[i] - previous, out);
        previous = keys[i];
    }
    return out;
}

size_t keys_encode(const uint64_t *keys, size_t n, uint8_t *out, uint8_t *flags)
{
    const uint8_t *end = delta_encode(keys, n, out);
    if (end != NULL && (size_t)(end - out) < 8 * n) {
        *flags |= FRAME_KEYS_DELTA;
        return (size_t)(end - out);
    }
    *flags &= (uint8_t)~FRAME_KEYS_DELTA;
    return raw_encode(keys, n, out);
}

/* Reads one number, byte by byte, and returns where it ends; NULL if it is cut off, has more than 64
 * bits or is not in its shortest form. */
static const uint8_t *get_slowly(const uint8_t *in, const uint8_t *end, uint64_t *x)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < MAX_NUMBER_BYTES && in < end; i++) {
        const uint8_t byte = *in++;
        sum |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte & 0x80)
            continue;
        if ((byte == 0 && i > 0) || (byte > 1 && i == MAX_NUMBER_BYTES - 1))
            return NULL;
        *x = sum;
        return in;
    }
    return NULL;
}

/* The same, quicker where 8 bytes may be read. */
static inline const uint8_t *get_number(const uint8_t *in, const uint8_t *end, uint64_t *x)
{
    if (end - in < 8)
        return get_slowly(in, end, x);
    const unsigned two = in[0] >> 7;
    if ((in[1] >> 7 & two) == 0) {
        *x = (in[0] & 0x7fU) | (in[1] & -two) << 7;
        return in[1] >= two ? in + 1 + two : NULL;
    }
    const uint64_t word = get_u64(in);
    const uint64_t stops = ~word & TOP_BITS;
    if (stops == 0)
        return get_slowly(in, end, x);
    const unsigned bits = (unsigned)__builtin_ctzll(stops) + 1;
    *x = squeeze(word << (64 - bits) >> (64 - bits));
    return word << (64 - bits) >> 56 != 0 ? in + bits / 8 : NULL;
}

static bool delta_decode(const uint8_t *in, size_t bytes, size_t n, uint64_t *keys)
{
    const uint8_t *const end = in + bytes;
    uint64_t previous = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t difference;
        in = get_number(in, end, &difference);
        if (in == NULL || previous + difference < previous)
            return false;
        keys[i] = previous += difference;
    }
    return in == end;
}

bool keys_decode(const uint8_t *in, size_t bytes, uint8_t flags, size_t n, uint64_t *keys)
{
    if (n == 0 || bytes == 0)
        return n == bytes;
    return flags & FRAME_KEYS_DELTA ? delta_decode(in, bytes, n, keys)
                                    : raw_decode(in, bytes, n, keys);
}

/* ---- Sorting --------------------------------------------------------------------------------- */

static bool ascends(const uint64_t *keys, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (keys[i] < keys[i - 1])
            return false;
    return true;
}

static void insertion_sort(const uint64_t *keys, size_t n, uint64_t *sorted, uint32_t *order)
{
    for (size_t i = 0; i < n; i++) {
        size_t j = i;
        for (; j > 0 && sorted[j - 1] > keys[i]; j--) {
            sorted[j] = sorted[j - 1];
            order[j] = order[j - 1];
        }
        sorted[j] = keys[i];
        order[j] = (uint32_t)i;
    }
}

/* One pass: from -> to, stably by the digit at bit `shift`. */
static void sort_by_digit(const uint64_t *from, size_t n, unsigned shift, uint64_t *to)
{
    size_t starts[DIGITS] = {0};
    for (size_t i = 0; i < n; i++)
        starts[from[i] >> shift & (DIGITS - 1)]++;
    size_t start = 0;
    for (size_t digit = 0; digit < DIGITS; digit++) {
        const size_t size = starts[digit];
        starts[digit] = start;
        start += size;
    }
    for (size_t i = 0; i < n; i++)
        to[starts[from[i] >> shift & (DIGITS - 1)]++] = from[i];
}

/*
 * Words of a key's bits above the key's index are sorted in place of keys with indices beside them,
 * which halves what each pass moves. Keys whose differing bits leave no room for the index take two
 * rounds, low bits first. Digits in which no two keys differ are skipped.
 */
static void radix_sort(const uint64_t *keys, size_t n, uint64_t *sorted, uint32_t *order,
                       uint64_t *scratch)
{
    uint64_t differing = 0;
    for (size_t i = 0; i < n; i++) {
        differing |= keys[i] ^ keys[0];
        order[i] = (uint32_t)i;
    }
    const unsigned index_bits = width_of(n - 1);
    const uint64_t index_mask = (UINT64_C(1) << index_bits) - 1;
    uint64_t *words = scratch, *other = scratch + n;
    for (unsigned low = 0; low < width_of(differing); low += 64 - index_bits) {
        for (size_t i = 0; i < n; i++)
            words[i] = keys[order[i]] >> low << index_bits | order[i];
        const uint64_t work = differing >> low << index_bits;
        for (unsigned shift = index_bits; shift < 64; shift += DIGIT_BITS) {
            if ((work >> shift & (DIGITS - 1)) == 0)
                continue;
            sort_by_digit(words, n, shift, other);
            uint64_t *const done = other;
            other = words;
            words = done;
        }
        for (size_t i = 0; i < n; i++)
            order[i] = (uint32_t)(words[i] & index_mask);
    }
    for (size_t i = 0; i < n; i++)
        sorted[i] = keys[order[i]];
}

void keys_sort(const uint64_t *keys, size_t n, uint64_t *sorted, uint32_t *order, uint64_t *scratch)
{
    if (n > INSERTION_MAX && !ascends(keys, n))
        radix_sort(keys, n, sorted, order, scratch);
    else
        insertion_sort(keys, n, sorted, order);
}
