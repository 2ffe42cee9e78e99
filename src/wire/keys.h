/*
 * keys - the keys of a frame as bytes: differences of ascending keys in variable length when that is
 * shorter, else 8 bytes each. Pure functions.
 */
#ifndef WIRE_KEYS_H
#define WIRE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room that keys_encode may need for n keys. */
static inline size_t keys_max_bytes(size_t n)
{
    return 10 * n;
}

/* Writes n keys and returns their bytes; *flags gets FRAME_KEYS_DELTA set or cleared. Keys that do
 * not ascend (equal ones do) are written as they are. */
size_t keys_encode(const uint64_t *keys, size_t n, uint8_t *out, uint8_t *flags);

/* Reads exactly n keys from exactly `bytes`; false, with keys unspecified, if they do not fit, a
 * difference overflows, or a number is not in its shortest form. */
bool keys_decode(const uint8_t *in, size_t bytes, uint8_t flags, size_t n, uint64_t *keys);

/* Sorts keys and gives the permutation: sorted[i] was keys[order[i]]. Stable. `scratch` has room for
 * 2*n uint64_t. Quick for keys that already ascend. */
void keys_sort(const uint64_t *keys, size_t n, uint64_t *sorted, uint32_t *order,
               uint64_t *scratch);

#endif
