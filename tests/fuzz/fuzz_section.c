/*
 * Sections that are read lie in the body one after the other, within the limits, and their headers are
 * the only ones for what they say; what is left over is reported as wrong.
 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "wire/frame.h"
#include "wire/section.h"

static void check_section(const uint8_t *body, size_t begin, size_t end,
                          const struct section *section)
{
    require(section->kind >= SECTION_DELTAS && section->kind < SECTION_KINDS);
    require(section->count <= FRAME_MAX_KEYS);
    require(section->item_bytes >= 8 && section->item_bytes % 8 == 0);
    require(section->items == body + begin + SECTION_HEADER_BYTES);
    require(end - begin == SECTION_HEADER_BYTES + section->count * section->item_bytes);
    uint8_t again[SECTION_HEADER_BYTES];
    section_write(again, section->kind, section->count, section->item_bytes);
    require(memcmp(again, body + begin, sizeof again) == 0);
    for (uint32_t i = 0; i < section->count; i++) {
        const uint8_t *item = section->items + i * section->item_bytes;
        section_put(again, section_get(item));
        require(memcmp(again, item, 8) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct section section, untouched;
    memset(&section, 0xee, sizeof section);
    size_t at = 0, begin = 0;
    bool wrong;
    for (untouched = section; section_next(data, size, &at, &section, &wrong); begin = at) {
        require(!wrong && at > begin && at <= size);
        check_section(data, begin, at, &section);
        untouched = section;
    }
    require(at == begin && wrong == (at != size));
    require(memcmp(&section, &untouched, sizeof section) == 0);
    return 0;
}
