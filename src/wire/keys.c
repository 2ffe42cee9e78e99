/*
 * keys - see keys.h.
 *
 * Delta coding: the first key, then the difference of each to the one before, as numbers (number.h).
 */
#include "wire/keys.h"

#include <string.h>

#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/number.h"

enum {
    INSERTION_MAX = 96, /* keys; up to there the passes of the radix sort cost more */
    DIGIT_BITS = 8,
    DIGITS = 1 << DIGIT_BITS,
};

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

/* Writes the differences and returns where they end; NULL if the keys do not ascend. At each key at
 * least 10 bytes are left of keys_max_bytes(n), enough for any number and for what it scribbles. */
static uint8_t *delta_encode(const uint64_t *keys, size_t n, uint8_t *out)
{
    uint64_t previous = 0;
    for (size_t i = 0; i < n; i++) {
        if (keys[i] < previous)
            return NULL;
        out = number_put(keys[i] - previous, out);
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

static bool delta_decode(const uint8_t *in, size_t bytes, size_t n, uint64_t *keys)
{
    const uint8_t *const end = in + bytes;
    uint64_t previous = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t difference;
        in = number_get(in, end, &difference);
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
    const unsigned index_bits = number_width(n - 1);
    const uint64_t index_mask = (UINT64_C(1) << index_bits) - 1;
    uint64_t *words = scratch, *other = scratch + n;
    for (unsigned low = 0; low < number_width(differing); low += 64 - index_bits) {
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
