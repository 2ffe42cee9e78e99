/*
 * What is unpacked are sections within the limits, and packed again they give the same sections. The first byte of the
 * input chooses what items have, and the filters.
 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "wire/frame.h"
#include "wire/pack.h"
#include "wire/section.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer plain = {0}, packed = {0}, again = {0};
    if (!size)
        return 0;
    const size_t length = data[0] % 8;
    const struct filters filters = {
        .zeros = data[0] & 0x40, .lz4 = data[0] & 0x80, .fixed_bits = data[0] & 0x80 ? 16 : 0};
    const struct pack_shape shape = {.value_bytes = 4 * length,
                                     .state_bytes = 4 * (size_t)(data[0] / 8 % 8),
                                     .filters = data[0] & 0xc0 ? &filters : NULL,
                                     .rows = {TERN_F32, length}};
    if (!unpack_sections(&shape, data + 1, size - 1, &plain)) {
        struct section section;
        size_t at = 0;
        bool wrong = false;
        require(buffer_size(&plain) <= FRAME_MAX_BODY_BYTES);
        while (section_next(buffer_head(&plain), buffer_size(&plain), &at, &section, &wrong)) {
        }
        require(!wrong && at == buffer_size(&plain));
        require(pack_sections(&shape, buffer_head(&plain), buffer_size(&plain), &packed));
        require(buffer_size(&packed) <= buffer_size(&plain));
        require(!unpack_sections(&shape, buffer_head(&packed), buffer_size(&packed), &again));
        require(buffer_size(&again) == buffer_size(&plain));
        require(!at || memcmp(buffer_head(&again), buffer_head(&plain), at) == 0);
    }
    buffer_free(&plain);
    buffer_free(&packed);
    buffer_free(&again);
    return 0;
}
