/*
 * Bytes that decode to keys are the only ones for these keys in their coding, the keys survive being
 * encoded again, and sorting them gives a stable ascending permutation. So are bytes that choose a part of a list.
 *
 * The input is a byte of flags, two bytes of the number of keys, and the bytes to decode. They are
 * tried with that number and with the number of keys they seem to hold.
 */
#include "fuzz/fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "wire/frame.h"
#include "wire/keys.h"
#include "wire/lists.h"

static void *array_of(size_t n, size_t size)
{
    void *array = malloc(n > 0 ? n * size : 1);
    require(array != NULL);
    return array;
}

static void check_encoding(const uint64_t *keys, size_t n, const uint8_t *in, size_t bytes,
                           uint8_t flags)
{
    uint8_t *out = array_of(keys_max_bytes(n), 1);
    uint64_t *back = array_of(n, sizeof *back);
    uint8_t out_flags = flags;
    const size_t out_bytes = keys_encode(keys, n, out, &out_flags);
    require(out_bytes <= 8 * n);
    if (out_flags == flags)
        require(out_bytes == bytes && (bytes == 0 || memcmp(out, in, bytes) == 0));
    else if (flags & FRAME_KEYS_DELTA)
        require(bytes >= 8 * n);
    else
        require(out_bytes < 8 * n);
    require(keys_decode(out, out_bytes, out_flags, n, back));
    require(n == 0 || memcmp(back, keys, n * sizeof *keys) == 0);
    free(out);
    free(back);
}

static void check_sorting(const uint64_t *keys, size_t n)
{
    uint64_t *sorted = array_of(n, sizeof *sorted), *scratch = array_of(2 * n, sizeof *scratch);
    uint32_t *order = array_of(n, sizeof *order);
    keys_sort(keys, n, sorted, order, scratch);
    for (size_t i = 0; i < n; i++) {
        require(order[i] < n && sorted[i] == keys[order[i]]);
        /* Strictly ascending by key, then index: then no index stands twice, and it is stable. */
        require(i == 0 || sorted[i - 1] < sorted[i] ||
                (sorted[i - 1] == sorted[i] && order[i - 1] < order[i]));
    }
    free(sorted);
    free(scratch);
    free(order);
}

static void try_keys(const uint8_t *in, size_t bytes, uint8_t flags, size_t n)
{
    uint64_t *keys = array_of(n, sizeof *keys);
    if (keys_decode(in, bytes, flags, n, keys)) {
        check_encoding(keys, n, in, bytes, flags);
        check_sorting(keys, n);
    }
    free(keys);
}

enum { N_BASE = 500 };

static void try_part(const uint8_t *in, size_t bytes, size_t n)
{
    uint64_t all[N_BASE], chosen[N_BASE];
    for (uint64_t i = 0; i < N_BASE; i++)
        all[i] = chosen[i] = 7 * i * i;
    if (!list_part_decode(in, bytes, n, N_BASE, chosen))
        return;
    struct list_base base = {.n = 0};
    uint8_t out[FRAME_PART_BYTES];
    list_base_set(&base, (struct list_digest){1, 2}, all, N_BASE);
    require(list_part_encode(&base, chosen, n, SIZE_MAX, out) == FRAME_DIGEST_BYTES + bytes);
    require(memcmp(out + FRAME_DIGEST_BYTES, in, bytes) == 0);
    list_base_free(&base);
}

static size_t apparent_count(const uint8_t *in, size_t bytes, uint8_t flags)
{
    if (!(flags & FRAME_KEYS_DELTA))
        return bytes / 8;
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += in[i] < 0x80;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    const uint8_t flags = data[0] & FRAME_FLAGS;
    const size_t n = data[1] | (size_t)data[2] << 8;
    try_keys(data + 3, size - 3, flags, n);
    try_keys(data + 3, size - 3, flags, apparent_count(data + 3, size - 3, flags));
    size_t n_bits = 0;
    for (size_t i = 4; i < size; i++)
        n_bits += (size_t)__builtin_popcount(data[i]);
    try_part(data + 3, size - 3, n % N_BASE);
    try_part(data + 3, size - 3, n_bits);
    return 0;
}
