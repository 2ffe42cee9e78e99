/*
 * Packed sections: what is unpacked is what was packed, in fewer bytes; what is cut off or damaged is refused or unpacked
 * to something else that is well-formed, and nothing beyond the bytes is looked at.
 */
#include "wire/frame.h" /* before cmocka, whose macro fail() would hide the function */
#include "wire/pack.h"
#include "wire/section.h"

#include "support/check.h"

enum { N = 10000, KEYS = 1000000 };

static size_t item_bytes(const struct pack_shape *shape, enum section_kind kind)
{
    const size_t value = section_padded(shape->value_bytes);
    switch (kind) {
    case SECTION_MAINS:
        return 16 + value + section_padded(shape->state_bytes);
    case SECTION_COPIES:
        return 16 + value;
    case SECTION_DELTAS:
    case SECTION_VALUES:
        return 8 + value;
    case SECTION_ASKS:
    case SECTION_FETCHES:
    case SECTION_ENDS:
        return 8;
    case SECTION_CLOCKS:
        return 56;
    default:
        return 16;
    }
}

/* Appends a section; keys are `step` apart, or any if it is 0. */
static void append(struct buffer *body, const struct pack_shape *shape, enum section_kind kind,
                   uint32_t count, uint64_t step, struct dice *dice)
{
    const size_t bytes = item_bytes(shape, kind);
    uint8_t *at = buffer_reserve(body, SECTION_HEADER_BYTES + count * bytes);
    assert_non_null(at);
    section_write(at, kind, count, bytes);
    body->end += SECTION_HEADER_BYTES + count * bytes;
    at += SECTION_HEADER_BYTES;
    memset(at, 0, count * bytes);
    for (uint32_t i = 0; i < count; i++, at += bytes) {
        section_put(at, step ? step * i + dice_below(dice, step) : dice_roll(dice));
        const bool has_location = kind == SECTION_MAINS || kind == SECTION_COPIES;
        if (has_location)
            section_put(at + 8, 0x30000 + (step ? 7 : dice_below(dice, 5)));
        const bool has_value = has_location || kind == SECTION_DELTAS || kind == SECTION_VALUES;
        for (size_t k = 0; k < shape->value_bytes && has_value; k++)
            at[(has_location ? 16 : 8) + k] = (uint8_t)dice_roll(dice);
    }
}

/* Packs and unpacks; the bytes that are packed. */
static size_t there_and_back(const struct pack_shape *shape, const struct buffer *plain)
{
    struct buffer packed = {0}, again = {0};
    assert_true(pack_sections(shape, buffer_head(plain), buffer_size(plain), &packed));
    const size_t bytes = buffer_size(&packed);
    ok(unpack_sections(shape, buffer_head(&packed), bytes, &again));
    assert_int_equal(buffer_size(&again), buffer_size(plain));
    if (buffer_size(plain))
        assert_memory_equal(buffer_head(&again), buffer_head(plain), buffer_size(plain));
    assert_true(bytes <= buffer_size(plain));
    buffer_free(&packed);
    buffer_free(&again);
    return bytes;
}

static void all_kinds_come_back(void **state)
{
    (void)state;
    struct dice dice = {.state = 5};
    const size_t sizes[] = {0, 4, 8, 12, 64, 100};
    for (size_t v = 1; v < COUNT(sizes); v++)
        for (size_t s = 0; s < COUNT(sizes); s++)
            for (uint64_t step = 0; step < 400; step += 133) {
                const struct pack_shape shape = {.value_bytes = sizes[v], .state_bytes = sizes[s]};
                struct buffer plain = {0};
                there_and_back(&shape, &plain);
                for (int kind = SECTION_DELTAS; kind < SECTION_KINDS; kind++)
                    append(&plain, &shape, (enum section_kind)kind,
                           kind == SECTION_CLOCKS ? 1 : 1 + (uint32_t)dice_below(&dice, 9), step,
                           &dice);
                there_and_back(&shape, &plain);
                buffer_free(&plain);
            }
}

/* With filters the same bits come back, whatever the values; zeros and whole numbers of steps take fewer bytes. */
static void filters_change_nothing(void **state)
{
    (void)state;
    enum { LENGTH = 3, ROWS = 1000 };
    static const char *const names[] = {"zeros", "fixed:8", "lz4", "zeros,fixed:16,lz4"};
    size_t bytes[COUNT(names)][2];
    for (size_t i = 0; i < COUNT(names); i++)
        for (int whole = 0; whole < 2; whole++) {
            struct dice dice = {.state = 9};
            struct filters filters;
            struct filter_counts counts = {0};
            struct buffer plain = {0};
            ok(filters_parse("w", names[i], TERN_F32, &filters));
            const struct pack_shape shape = {.value_bytes = LENGTH * sizeof(float),
                                             .state_bytes = 8,
                                             .filters = &filters,
                                             .rows = {TERN_F32, LENGTH},
                                             .counts = &counts};
            for (int kind = SECTION_DELTAS; kind <= SECTION_MAINS; kind++)
                append(&plain, &shape, (enum section_kind)kind, ROWS, 7, &dice);
            append(&plain, &(struct pack_shape){.value_bytes = 40}, SECTION_DELTAS, 5, 0, &dice);
            /* Every second change is nothing, the others are small whole numbers. */
            uint8_t *item = buffer_head(&plain) + SECTION_HEADER_BYTES;
            for (uint32_t k = 0; whole && k < ROWS; k++, item += item_bytes(&shape, SECTION_DELTAS))
                for (size_t e = 0; e < LENGTH; e++) {
                    const float value = k % 2 ? 0 : (float)dice_below(&dice, 100) / 4;
                    memcpy(item + 8 + 4 * e, &value, sizeof value);
                }
            bytes[i][whole] = there_and_back(&shape, &plain);
            assert_int_equal(counts.zeros > 0, whole && filters.zeros);
            assert_int_equal(counts.fixed > 0, whole && filters.fixed_bits);
            buffer_free(&plain);
        }
    for (size_t i = 0; i < COUNT(names); i++)
        assert_true(bytes[i][1] + 5 * ROWS < bytes[i][0]);
}

/* A kind whose items are not as the table says travels as well. */
static void other_items_come_back(void **state)
{
    (void)state;
    struct dice dice = {.state = 6};
    const struct pack_shape shape = {.value_bytes = 4}, other = {.value_bytes = 40};
    struct buffer plain = {0};
    append(&plain, &other, SECTION_DELTAS, 5, 0, &dice);
    append(&plain, &other, SECTION_CLOCKS, 3, 9, &dice);
    there_and_back(&shape, &plain);
    buffer_free(&plain);
}

/* The figure: one f32 with its key, among 10,000 sorted keys of 1,000,000, in at most 6 bytes. */
static void one_float_takes_six_bytes(void **state)
{
    (void)state;
    const enum section_kind kinds[] = {SECTION_DELTAS, SECTION_VALUES, SECTION_COPIES};
    const struct pack_shape shape = {.value_bytes = 4};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct dice dice = {.state = 7};
        struct buffer plain = {0};
        append(&plain, &shape, kinds[i], N, KEYS / N, &dice);
        const size_t bytes = there_and_back(&shape, &plain);
        print_message("section %d: %.2f bytes, unpacked %.2f\n", (int)kinds[i], (double)bytes / N,
                      (double)buffer_size(&plain) / N);
        assert_true(bytes <= 6 * N);
        buffer_free(&plain);
    }
}

static void damage_is_no_harm(void **state)
{
    (void)state;
    struct dice dice = {.state = 8};
    const struct pack_shape shape = {.value_bytes = 12, .state_bytes = 4};
    struct buffer plain = {0}, packed = {0};
    for (int kind = SECTION_DELTAS; kind < SECTION_KINDS; kind++)
        append(&plain, &shape, (enum section_kind)kind, kind == SECTION_CLOCKS ? 1 : 3, 50, &dice);
    assert_true(pack_sections(&shape, buffer_head(&plain), buffer_size(&plain), &packed));
    const size_t bytes = buffer_size(&packed);
    size_t n_refused = 0;
    for (size_t i = 0; i < 20 * bytes; i++) {
        /* In memory of just its size: a sanitizer sees what is read beyond it. */
        const size_t n = i < bytes ? i : bytes;
        uint8_t *cut = array_of(n, 1);
        memcpy(cut, buffer_head(&packed), n);
        if (n == bytes)
            cut[i % bytes] = (uint8_t)dice_roll(&dice);
        struct buffer again = {0};
        n_refused += unpack_sections(&shape, cut, n, &again) == TERN_INVALID;
        buffer_free(&again);
        free(cut);
    }
    assert_true(n_refused > bytes);
    buffer_free(&plain);
    buffer_free(&packed);
}

/* A few bytes announce no memory: neither many items nor long ones. */
static void announcements_are_refused(void **state)
{
    (void)state;
    const struct pack_shape shape = {.value_bytes = 1 << 20};
    const uint8_t cases[][12] = {
        {SECTION_DELTAS, 0x80, 0x80, 0x04},            /* 65,536 rows */
        {SECTION_ASKS, 0x81, 0x80, 0x04, 0},           /* 65,537 keys */
        {SECTION_ASKS | 0x80, 1, 0xff, 0xff, 0xff, 3}, /* long items */
        {SECTION_CLOCKS, 1, 0xff, 0xff, 0xff, 3},      /* many words */
        {0, 1, 0},                                     /* no kind */
        {SECTION_KINDS, 1, 0},                         /* no kind */
        {SECTION_CLOCKS, 2, 0, 0},                     /* clocks have no layout */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buffer out = {0};
        refused(unpack_sections(&shape, cases[i], sizeof cases[i], &out), TERN_INVALID, "unpacked");
        buffer_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds_come_back),       cmocka_unit_test(other_items_come_back),
        cmocka_unit_test(one_float_takes_six_bytes), cmocka_unit_test(damage_is_no_harm),
        cmocka_unit_test(announcements_are_refused), cmocka_unit_test(filters_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
