/*
 * frame - see frame.h; the layout is that of docs/PROTOCOL.md, every field at a multiple of its size.
 *
 * A header is believed in this order: magic and version say that the rest is laid out as here, the
 * check sum that it arrived as it was sent, and only then are the fields looked at. So a flipped bit
 * is reported as what it is, and not as a request with a strange count.
 */
#include "wire/frame.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "wire/bytes.h"

/* Not a character of ASCII, nor the first byte of a TLS record: a stray client is found out at once. */
enum { MAGIC = 0xd7 };

enum field {
    AT_MAGIC = 0,
    AT_VERSION = 1,
    AT_KIND = 2,
    AT_FLAGS = 3,
    AT_TABLE = 4,
    AT_STATUS = 6,
    AT_NUMBER = 8,
    AT_FIELDS = 16,
    AT_B = 24,
    AT_EPOCH = 32,
    AT_COUNT = 36,
    AT_KEYS_BYTES = 40,
    AT_BODY_BYTES = 44,
    AT_BODY_CHECK = 48,
    AT_HEADER_CHECK = 52,
};

_Static_assert(AT_HEADER_CHECK + 4 == FRAME_HEADER_BYTES, "the check sum ends the header");
_Static_assert(FRAME_MAX_BODY_BYTES >= TERN_MAX_VALUE_BYTES + 8,
               "one value and its key fit a body");

static uint32_t check_of(const void *data, size_t bytes)
{
    return (uint32_t)XXH3_64bits(data, bytes);
}

uint32_t frame_body_check(const void *body, size_t bytes)
{
    return check_of(body, bytes);
}

void frame_encode(const struct frame *frame, uint8_t header[FRAME_HEADER_BYTES])
{
    header[AT_MAGIC] = MAGIC;
    header[AT_VERSION] = FRAME_VERSION;
    header[AT_KIND] = (uint8_t)frame->kind;
    header[AT_FLAGS] = frame->flags;
    put_u16(header + AT_TABLE, frame->table);
    put_u16(header + AT_STATUS, frame->status);
    put_u64(header + AT_NUMBER, frame->number);
    put_u64(header + AT_FIELDS, frame->fields.raw[0]);
    put_u64(header + AT_FIELDS + 8, frame->fields.raw[1]);
    put_u32(header + AT_EPOCH, frame->epoch);
    put_u32(header + AT_COUNT, frame->count);
    put_u32(header + AT_KEYS_BYTES, frame->keys_bytes);
    put_u32(header + AT_BODY_BYTES, frame->body_bytes);
    put_u32(header + AT_BODY_CHECK, frame->body_check);
    put_u32(header + AT_HEADER_CHECK, check_of(header, AT_HEADER_CHECK));
}

/* Whether the rest of the header is laid out as here and arrived as it was sent. */
static enum tern_status check_header(const uint8_t *header)
{
    if (header[AT_MAGIC] != MAGIC)
        return fail(TERN_INVALID, "frame: the magic byte is 0x%02x, not 0x%02x", header[AT_MAGIC],
                    MAGIC);
    if (header[AT_VERSION] != FRAME_VERSION)
        return fail(TERN_INVALID, "frame: the version is %u; this is version %u",
                    header[AT_VERSION], FRAME_VERSION);
    const uint32_t sent = get_u32(header + AT_HEADER_CHECK);
    const uint32_t found = check_of(header, AT_HEADER_CHECK);
    if (sent != found)
        return fail(TERN_INVALID,
                    "frame: the header check is 0x%08" PRIx32 ", but the header has 0x%08" PRIx32,
                    sent, found);
    return TERN_OK;
}

static enum tern_status check_kind(const struct frame *frame)
{
    if (frame->kind < FRAME_HELLO || frame->kind >= FRAME_KINDS)
        return fail(TERN_INVALID, "frame: the kind %u is unknown", (unsigned)frame->kind);
    if ((frame->flags & ~FRAME_FLAGS) != 0)
        return fail(TERN_INVALID, "frame: %s has the unknown flags 0x%02x",
                    frame_kind_name(frame->kind), (unsigned)(frame->flags & ~FRAME_FLAGS));
    if (frame->kind == FRAME_ERROR && frame->status == TERN_OK)
        return fail(TERN_INVALID, "frame: ERROR has the status 0, which is success");
    return TERN_OK;
}

/* Whether `count` keys can take keys_bytes; the count of a RANGE or TOP is a limit and announces none. */
static bool keys_fit(const struct frame *frame)
{
    const uint64_t count =
        frame->kind == FRAME_RANGE || frame->kind == FRAME_TOP ? 0 : frame->count;
    if (frame->flags & FRAME_LIST_KNOWN)
        return count && frame->keys_bytes >= FRAME_DIGEST_BYTES &&
               frame->keys_bytes <= FRAME_PART_BYTES && !(frame->flags & FRAME_KEYS_DELTA);
    if (frame->flags & FRAME_KEYS_DELTA)
        return frame->keys_bytes >= count && frame->keys_bytes <= 10 * count;
    return frame->keys_bytes == 8 * count;
}

static enum tern_status check_sizes(const struct frame *frame)
{
    const char *name = frame_kind_name(frame->kind);
    if (frame->count > FRAME_MAX_KEYS)
        return fail(TERN_INVALID, "frame: %s has the count %" PRIu32 "; at most %d is allowed",
                    name, frame->count, FRAME_MAX_KEYS);
    if (frame->body_bytes > FRAME_MAX_BODY_BYTES)
        return fail(TERN_INVALID, "frame: %s has body_bytes %" PRIu32 "; at most %d is allowed",
                    name, frame->body_bytes, FRAME_MAX_BODY_BYTES);
    if (frame->keys_bytes > frame->body_bytes)
        return fail(TERN_INVALID,
                    "frame: %s has keys_bytes %" PRIu32 ", more than its body_bytes %" PRIu32, name,
                    frame->keys_bytes, frame->body_bytes);
    if (!keys_fit(frame))
        return fail(TERN_INVALID,
                    "frame: %s has keys_bytes %" PRIu32 ", which its count %" PRIu32
                    " of %s keys cannot take",
                    name, frame->keys_bytes, frame->count,
                    frame->flags & FRAME_LIST_KNOWN   ? "named"
                    : frame->flags & FRAME_KEYS_DELTA ? "delta"
                                                      : "raw");
    return TERN_OK;
}

enum tern_status frame_decode(const uint8_t header[FRAME_HEADER_BYTES], struct frame *frame)
{
    enum tern_status status = check_header(header);
    if (status != TERN_OK)
        return status;
    const struct frame read = {
        .kind = (enum frame_kind)header[AT_KIND],
        .flags = header[AT_FLAGS],
        .table = get_u16(header + AT_TABLE),
        .status = get_u16(header + AT_STATUS),
        .epoch = get_u32(header + AT_EPOCH),
        .number = get_u64(header + AT_NUMBER),
        .count = get_u32(header + AT_COUNT),
        .keys_bytes = get_u32(header + AT_KEYS_BYTES),
        .body_bytes = get_u32(header + AT_BODY_BYTES),
        .body_check = get_u32(header + AT_BODY_CHECK),
        .fields.raw = {get_u64(header + AT_FIELDS), get_u64(header + AT_FIELDS + 8)},
    };
    status = check_kind(&read);
    if (status == TERN_OK)
        status = check_sizes(&read);
    if (status == TERN_OK)
        *frame = read;
    return status;
}

const char *frame_kind_name(enum frame_kind kind)
{
    static const char *const names[FRAME_KINDS] = {
        [FRAME_HELLO] = "HELLO",
        [FRAME_PULL] = "PULL",
        [FRAME_PUSH] = "PUSH",
        [FRAME_SET] = "SET",
        [FRAME_RANGE] = "RANGE",
        [FRAME_JOIN] = "JOIN",
        [FRAME_TABLE] = "TABLE",
        [FRAME_BARRIER] = "BARRIER",
        [FRAME_REDUCE] = "REDUCE",
        [FRAME_BROADCAST] = "BROADCAST",
        [FRAME_ROUND] = "ROUND",
        [FRAME_ROUND_REPLY] = "ROUND_REPLY",
        [FRAME_PING] = "PING",
        [FRAME_BYE] = "BYE",
        [FRAME_WELCOME] = "WELCOME",
        [FRAME_VALUES] = "VALUES",
        [FRAME_DONE] = "DONE",
        [FRAME_ROSTER] = "ROSTER",
        [FRAME_MOVED] = "MOVED",
        [FRAME_TASK] = "TASK",
        [FRAME_FINISHED] = "FINISHED",
        [FRAME_ERROR] = "ERROR",
        [FRAME_HOLD] = "HOLD",
        [FRAME_PROOF] = "PROOF",
        [FRAME_CHALLENGE] = "CHALLENGE",
        [FRAME_COUNT] = "COUNT",
        [FRAME_TOP] = "TOP",
        [FRAME_FORGOTTEN] = "FORGOTTEN",
        [FRAME_BATCH] = "BATCH",
        [FRAME_OUTDATED] = "OUTDATED",
    };
    if ((unsigned)kind >= FRAME_KINDS || names[kind] == NULL)
        return "unknown kind";
    return names[kind];
}
