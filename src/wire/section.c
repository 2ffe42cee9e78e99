/* section - see section.h. */
#include "wire/section.h"

#include "wire/frame.h"

void section_write(uint8_t *out, enum section_kind kind, uint32_t count, size_t item_bytes)
{
    put_u32(out, kind);
    put_u32(out + 4, count);
    put_u64(out + 8, item_bytes);
}

bool section_next(const uint8_t *body, size_t bytes, size_t *at, struct section *section,
                  bool *wrong)
{
    *wrong = *at != bytes;
    size_t left = bytes - *at;
    if (left < SECTION_HEADER_BYTES)
        return false;
    const uint8_t *in = body + *at;
    uint64_t kind = get_u32(in), count = get_u32(in + 4), item_bytes = get_u64(in + 8);
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
