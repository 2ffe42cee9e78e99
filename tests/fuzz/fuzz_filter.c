/*
 * Rows that are decoded are as many as were asked for, and those of lossless filters, coded again, are the same rows. The
 * first two bytes of the input choose the filters, the type, and how many rows there are.
 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "wire/filter.h"

enum { MOST_ROWS = 40, MOST_LENGTH = 4, ROW_BYTES = 8 * MOST_LENGTH };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t rows[MOST_ROWS * ROW_BYTES], again[MOST_ROWS * ROW_BYTES];
    static uint8_t coded[(MOST_ROWS + 1) * ROW_BYTES + 8], scratch[2 * MOST_ROWS * ROW_BYTES + 64];
    if (size < 2)
        return 0;
    const struct filter_shape shape = {.type = (enum tern_type)(data[0] % 4),
                                       .length = 1 + data[0] / 4 % MOST_LENGTH};
    const bool is_real = shape.type == TERN_F32 || shape.type == TERN_F64;
    const struct filters filters = {.zeros = data[0] / 16 % 2,
                                    .lz4 = data[0] / 128,
                                    .fixed_bits = is_real ? (uint8_t)(8 * (data[0] / 32 % 4)) : 0};
    const size_t n = data[1] % (MOST_ROWS + 1);
    const size_t bytes =
        n * shape.length * (shape.type == TERN_F32 || shape.type == TERN_I32 ? 4U : 8U);
    if (!filter_decode(&filters, &shape, data + 2, size - 2, n, scratch, rows))
        return 0;
    const struct filters exact = {.zeros = filters.zeros, .lz4 = filters.lz4};
    struct filter_saved saved = {0};
    const size_t n_coded = filter_encode(&exact, &shape, rows, n, 1, coded, scratch, &saved);
    require(n_coded <= filter_max_bytes(n, n ? bytes / n : 0));
    require(n_coded + saved.zeros + saved.lz4 == 1 + bytes);
    require(filter_decode(&exact, &shape, coded, n_coded, n, scratch, again));
    require(memcmp(rows, again, bytes) == 0);
    return 0;
}
