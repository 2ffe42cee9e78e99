/*
 * A header that decodes is within the limits, and encodes to the very bytes it was read from.
 *
 * The input is a header, cut off or padded with zeros. It is tried as it is, and then once more as an
 * attacker would send it: with the right magic, version and check sum.
 */
#include "fuzz/fuzz.h"

#include <endian.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "wire/frame.h"

static void seal(uint8_t header[FRAME_HEADER_BYTES])
{
    header[0] = 0xd7;
    header[1] = FRAME_VERSION;
    const uint32_t check = htole32((uint32_t)XXH3_64bits(header, FRAME_HEADER_BYTES - 4));
    memcpy(header + FRAME_HEADER_BYTES - 4, &check, sizeof check);
}

static void try_header(const uint8_t header[FRAME_HEADER_BYTES])
{
    struct frame frame, untouched;
    memset(&frame, 0xee, sizeof frame);
    untouched = frame;
    if (frame_decode(header, &frame) != TERN_OK) {
        require(memcmp(&frame, &untouched, sizeof frame) == 0);
        require(strncmp(tern_error(), "frame: ", 7) == 0);
        return;
    }
    require(frame.kind >= FRAME_HELLO && frame.kind < FRAME_KINDS);
    require((frame.flags & ~FRAME_FLAGS) == 0);
    require(frame.count <= FRAME_MAX_KEYS);
    require(frame.body_bytes <= FRAME_MAX_BODY_BYTES);
    require(frame.keys_bytes <= frame.body_bytes);
    require(frame.kind == FRAME_RANGE || frame.kind == FRAME_TOP ||
            (frame.count == 0) == (frame.keys_bytes == 0));
    require(frame.kind != FRAME_ERROR || frame.status != TERN_OK);
    uint8_t again[FRAME_HEADER_BYTES];
    frame_encode(&frame, again);
    require(memcmp(again, header, sizeof again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t header[FRAME_HEADER_BYTES] = {0};
    if (size > 0)
        memcpy(header, data, size < sizeof header ? size : sizeof header);
    try_header(header);
    seal(header);
    try_header(header);
    return 0;
}
