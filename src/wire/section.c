/* section - see section.h. */
#include "wire/section.h"

#include "wire/frame.h"

static void put(uint8_t *out, uint64_t x, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(x >> 8 * i);
}

static uint64_t get(const uint8_t *in, size_t bytes)
{
    uint64_t x = 0;
    for (size_t i = 0; i < bytes; i++)
        x |= (uint64_t)in[i] << 8 * i;
    return x;
}

void section_write(uint8_t *out, enum section_kind kind, uint32_t count, size_t item_bytes)
{
    put(out, kind, 4);
    put(out + 4, count, 4);
    put(out + 8, item_bytes, 8);
}

bool section_next(const uint8_t *body, size_t bytes, size_t *at, struct section *section,
                  bool *wrong)
{
    *wrong = *at != bytes;
    size_t left = bytes - *at;
    if (left < SECTION_HEADER_BYTES)
        return false;
    const uint8_t *in = body + *at;
    uint64_t kind = get(in, 4), count = get(in + 4, 4), item_bytes = get(in + 8, 8);
    left -= SECTION_HEADER_BYTES;
    if (kind < SECTION_DELTAS || kind >= SECTION_KINDS || count > FRAME_MAX_KEYS ||
        item_bytes < 8 || item_bytes % 8 || item_bytes > left || count > left / item_bytes)
        return false;
    *section = (struct section){.kind = (enum section_kind)kind,
                                .count = (uint32_t)count,
                                .item_bytes = item_bytes,
                                .items = in + SECTION_HEADER_BYTES};
    *at += SECTION_HEADER_BYTES + count * item_bytes;
    *wrong = false;
    return true;
}
