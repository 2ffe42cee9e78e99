/* A header comes back as it was written, and whatever else is refused with the field at fault. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "support/check.h"
#undef fail /* cmocka's; base/status.h has a function of this name */
#include "wire/frame.h"

/* The example of docs/PROTOCOL.md. */
static const struct frame example = {
    .kind = FRAME_PUSH,
    .flags = FRAME_KEYS_DELTA | FRAME_CHECKED,
    .table = 0x0102,
    .epoch = 0x03040506,
    .number = 0x0708090a0b0c0d0e,
    .count = 2,
    .keys_bytes = 3,
    .body_bytes = 19,
    .body_check = 0x2d2c2b2a,
    .fields.raw = {0x1112131415161718, 0x191a1b1c1d1e1f20},
};
static const uint8_t example_bytes[FRAME_HEADER_BYTES] = {
    0xd7, 0x08, 0x03, 0x03, 0x02, 0x01, 0x00, 0x00, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09,
    0x08, 0x07, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x20, 0x1f, 0x1e, 0x1d,
    0x1c, 0x1b, 0x1a, 0x19, 0x06, 0x05, 0x04, 0x03, 0x02, 0x00, 0x00, 0x00, 0x03, 0x00,
    0x00, 0x00, 0x13, 0x00, 0x00, 0x00, 0x2a, 0x2b, 0x2c, 0x2d, 0x8f, 0x19, 0x5b, 0x7c,
};

static void assert_same(const struct frame *x, const struct frame *y)
{
    assert_int_equal(x->kind, y->kind);
    assert_int_equal(x->flags, y->flags);
    assert_int_equal(x->table, y->table);
    assert_int_equal(x->status, y->status);
    assert_int_equal(x->epoch, y->epoch);
    assert_int_equal(x->number, y->number);
    assert_int_equal(x->count, y->count);
    assert_int_equal(x->keys_bytes, y->keys_bytes);
    assert_int_equal(x->body_bytes, y->body_bytes);
    assert_int_equal(x->body_check, y->body_check);
    assert_int_equal(x->fields.raw[0], y->fields.raw[0]);
    assert_int_equal(x->fields.raw[1], y->fields.raw[1]);
}

static void assert_round_trip(const struct frame *frame)
{
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(frame, header);
    struct frame back;
    memset(&back, 0xee, sizeof back);
    ok(frame_decode(header, &back));
    assert_same(&back, frame);
}

/* The frame, encoded with a right check sum, is refused for `words`, and the output is untouched. */
#define assert_refused(wrong, ...)                                                 \
    do {                                                                           \
        uint8_t header_[FRAME_HEADER_BYTES];                                       \
        frame_encode((wrong), header_);                                            \
        struct frame out_ = example;                                               \
        refused(frame_decode(header_, &out_), TERN_INVALID, "frame", __VA_ARGS__); \
        assert_same(&out_, &example);                                              \
    } while (0)

static void the_documented_example_holds(void **state)
{
    (void)state;
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(&example, header);
    assert_memory_equal(header, example_bytes, sizeof header);
    assert_round_trip(&example);
}

static struct frame random_frame(struct dice *dice)
{
    struct frame frame = {
        .kind = (enum frame_kind)(1 + dice_below(dice, FRAME_KINDS - 1)),
        .flags = (uint8_t)dice_below(dice, FRAME_FLAGS + 1),
        .table = (uint16_t)dice_roll(dice),
        .status = (uint16_t)(1 + dice_below(dice, UINT16_MAX)),
        .epoch = (uint32_t)dice_roll(dice),
        .number = dice_roll(dice),
        .count = (uint32_t)(dice_roll(dice) & FRAME_MAX_KEYS >> dice_below(dice, 17)),
        .body_check = (uint32_t)dice_roll(dice),
        .fields.raw = {dice_roll(dice), dice_roll(dice)},
    };
    if (dice_below(dice, 2))
        frame.count = (uint32_t)dice_below(dice, FRAME_MAX_KEYS + 1);
    if (frame.kind != FRAME_RANGE && frame.kind != FRAME_TOP)
        frame.keys_bytes = frame.flags & FRAME_KEYS_DELTA
                               ? frame.count + (uint32_t)dice_below(dice, 9 * frame.count + 1)
                               : 8 * frame.count;
    if (frame.flags & FRAME_LIST_KNOWN && frame.keys_bytes) {
        frame.flags &= (uint8_t)~FRAME_KEYS_DELTA;
        frame.keys_bytes = FRAME_DIGEST_BYTES;
        if (dice_below(dice, 2))
            frame.keys_bytes +=
                (uint32_t)dice_below(dice, FRAME_PART_BYTES - FRAME_DIGEST_BYTES + 1);
    } else {
        frame.flags &= (uint8_t)~FRAME_LIST_KNOWN;
    }
    frame.body_bytes =
        frame.keys_bytes + (uint32_t)dice_below(dice, FRAME_MAX_BODY_BYTES - frame.keys_bytes + 1);
    return frame;
}

static void random_frames_come_back(void **state)
{
    (void)state;
    struct dice dice = {1};
    for (unsigned i = 0; i < 100000; i++) {
        const struct frame frame = random_frame(&dice);
        assert_round_trip(&frame);
        assert_int_equal(frame_payload_bytes(&frame), frame.body_bytes - frame.keys_bytes);
    }
}

static void limits_themselves_are_allowed(void **state)
{
    (void)state;
    struct frame frame = {.kind = FRAME_PULL,
                          .count = FRAME_MAX_KEYS,
                          .keys_bytes = 8 * FRAME_MAX_KEYS,
                          .body_bytes = FRAME_MAX_BODY_BYTES};
    assert_round_trip(&frame);
    frame.flags = FRAME_KEYS_DELTA;
    frame.keys_bytes = FRAME_MAX_KEYS;
    assert_round_trip(&frame);
    frame.keys_bytes = 10 * FRAME_MAX_KEYS;
    assert_round_trip(&frame);
    frame = (struct frame){.kind = FRAME_RANGE, .count = FRAME_MAX_KEYS};
    assert_round_trip(&frame);
    frame = (struct frame){.kind = FRAME_ERROR, .status = UINT16_MAX};
    assert_round_trip(&frame);
}

/* Every change of one byte, and thus every burst of errors within one, is noticed. */
static void a_changed_byte_is_refused(void **state)
{
    (void)state;
    unsigned n_checked = 0;
    for (size_t at = 0; at < FRAME_HEADER_BYTES; at++) {
        for (unsigned change = 1; change < 256; change++) {
            uint8_t header[FRAME_HEADER_BYTES];
            frame_encode(&example, header);
            header[at] = (uint8_t)(header[at] ^ change);
            struct frame out = example;
            const char *name = at == 0 ? "magic" : at == 1 ? "version" : "header check";
            refused(frame_decode(header, &out), TERN_INVALID, name);
            assert_same(&out, &example);
            n_checked++;
        }
    }
    assert_int_equal(n_checked, 56 * 255);
}

static void two_changed_bits_are_refused(void **state)
{
    (void)state;
    unsigned n_checked = 0;
    for (unsigned i = 16; i < 8 * FRAME_HEADER_BYTES; i++) {
        for (unsigned j = 16; j < i; j++) {
            uint8_t header[FRAME_HEADER_BYTES];
            frame_encode(&example, header);
            header[i / 8] ^= (uint8_t)(1 << i % 8);
            header[j / 8] ^= (uint8_t)(1 << j % 8);
            struct frame out;
            assert_int_equal(frame_decode(header, &out), TERN_INVALID);
            n_checked++;
        }
    }
    assert_int_equal(n_checked, 432 * 431 / 2);
}

static void unknown_kinds_and_flags_are_refused(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 256; kind++) {
        const struct frame frame = {.kind = (enum frame_kind)kind, .status = 1};
        if (kind >= FRAME_HELLO && kind < FRAME_KINDS) {
            assert_round_trip(&frame);
            continue;
        }
        assert_refused(&frame, "kind");
    }
    for (unsigned flags = FRAME_FLAGS + 1; flags < 256; flags++) {
        const struct frame frame = {.kind = FRAME_PING, .flags = (uint8_t)flags};
        assert_refused(&frame, "PING", "flags");
    }
}

static void an_error_is_not_a_success(void **state)
{
    (void)state;
    const struct frame frame = {.kind = FRAME_ERROR, .status = TERN_OK};
    assert_refused(&frame, "ERROR", "status");
}

static void sizes_beyond_the_limits_are_refused(void **state)
{
    (void)state;
    struct frame frame = {.kind = FRAME_PULL,
                          .count = FRAME_MAX_KEYS + 1,
                          .keys_bytes = 8 * (FRAME_MAX_KEYS + 1),
                          .body_bytes = 8 * (FRAME_MAX_KEYS + 1)};
    assert_refused(&frame, "PULL", "count 65537");
    frame.count = UINT32_MAX;
    assert_refused(&frame, "PULL", "count 4294967295");
    frame = (struct frame){.kind = FRAME_RANGE, .count = FRAME_MAX_KEYS + 1};
    assert_refused(&frame, "RANGE", "count");

    frame = (struct frame){.kind = FRAME_SET, .body_bytes = FRAME_MAX_BODY_BYTES + 1};
    assert_refused(&frame, "SET", "body_bytes");
    frame.body_bytes = UINT32_MAX;
    assert_refused(&frame, "SET", "body_bytes");

    frame = (struct frame){.kind = FRAME_SET, .count = 2, .keys_bytes = 16, .body_bytes = 15};
    assert_refused(&frame, "SET", "keys_bytes 16", "body_bytes 15");
    frame.body_bytes = 0;
    assert_refused(&frame, "SET", "keys_bytes", "body_bytes");
}

/* Every keys_bytes for small counts, against the rule written out. */
static void keys_that_cannot_be_are_refused(void **state)
{
    (void)state;
    unsigned n_refused = 0;
    for (uint32_t count = 0; count <= 40; count++) {
        for (uint32_t bytes = 0; bytes <= 420; bytes++) {
            for (unsigned delta = 0; delta < 2; delta++) {
                const struct frame frame = {.kind = FRAME_PULL,
                                            .flags = (uint8_t)delta,
                                            .count = count,
                                            .keys_bytes = bytes,
                                            .body_bytes = 1000};
                const bool possible =
                    delta ? bytes >= count && bytes <= 10 * count : bytes == 8 * count;
                if (possible) {
                    assert_round_trip(&frame);
                    continue;
                }
                assert_refused(&frame, "PULL", "keys_bytes", "count", delta ? "delta" : "raw");
                n_refused++;
            }
        }
    }
    assert_int_equal(n_refused, 2 * 41 * 421 - 41 - (9 * 820 + 41));
    const struct frame keys_of_a_range = {
        .kind = FRAME_RANGE, .count = 2, .keys_bytes = 16, .body_bytes = 16};
    assert_refused(&keys_of_a_range, "RANGE", "keys_bytes");
}

/* Random bytes are no frame, and bytes that decode are exactly what encoding gives. */
static void random_bytes_are_refused(void **state)
{
    (void)state;
    struct dice dice = {2};
    for (unsigned i = 0; i < 100000; i++) {
        uint8_t header[FRAME_HEADER_BYTES];
        for (size_t at = 0; at < sizeof header; at++)
            header[at] = (uint8_t)dice_roll(&dice);
        if (i % 2)
            memcpy(header, example_bytes, 2);
        struct frame out;
        assert_int_equal(frame_decode(header, &out), TERN_INVALID);
    }
}

static void the_body_check_sees_every_bit(void **state)
{
    (void)state;
    uint8_t body[300];
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (uint8_t)scattered(i);
    for (size_t bytes = 0; bytes <= sizeof body; bytes++) {
        const uint32_t check = frame_body_check(body, bytes);
        assert_int_equal(frame_body_check(body, bytes), check);
        for (size_t bit = 0; bit < 8 * bytes; bit++) {
            body[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_int_not_equal(frame_body_check(body, bytes), check);
            body[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
    assert_int_equal(frame_body_check(NULL, 0), frame_body_check(body, 0));
}

static void every_kind_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = FRAME_HELLO; i < FRAME_KINDS; i++)
        for (int j = FRAME_HELLO; j < i; j++)
            assert_string_not_equal(frame_kind_name((enum frame_kind)i),
                                    frame_kind_name((enum frame_kind)j));
    assert_string_equal(frame_kind_name(FRAME_PULL), "PULL");
    assert_string_equal(frame_kind_name(FRAME_ERROR), "ERROR");
    assert_string_equal(frame_kind_name((enum frame_kind)0), "unknown kind");
    assert_string_equal(frame_kind_name(FRAME_KINDS), "unknown kind");
    assert_string_equal(frame_kind_name((enum frame_kind)255), "unknown kind");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documented_example_holds),
        cmocka_unit_test(random_frames_come_back),
        cmocka_unit_test(limits_themselves_are_allowed),
        cmocka_unit_test(a_changed_byte_is_refused),
        cmocka_unit_test(two_changed_bits_are_refused),
        cmocka_unit_test(unknown_kinds_and_flags_are_refused),
        cmocka_unit_test(an_error_is_not_a_success),
        cmocka_unit_test(sizes_beyond_the_limits_are_refused),
        cmocka_unit_test(keys_that_cannot_be_are_refused),
        cmocka_unit_test(random_bytes_are_refused),
        cmocka_unit_test(the_body_check_sees_every_bit),
        cmocka_unit_test(every_kind_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
