/*
 * Sections: what is written is read back, one after the other; whatever else is there is recognised as
 * wrong, and nothing beyond the body is looked at.
 */
#include "wire/frame.h" /* before cmocka, whose macro fail() would hide the function */
#include "wire/section.h"

#include "support/check.h"

/* Appends a section whose items are full of distinct bytes; the end of the body. */
static size_t append(uint8_t *body, size_t at, enum section_kind kind, uint32_t count,
                     size_t item_bytes)
{
    section_write(body + at, kind, count, item_bytes);
    at += SECTION_HEADER_BYTES;
    for (size_t i = 0; i < count * item_bytes; i++)
        body[at + i] = (uint8_t)(kind * 31 + i);
    return at + count * item_bytes;
}

/* Whether a body is refused from its first section on, in memory of just its size. */
static bool is_wrong(const uint8_t *bytes, size_t n)
{
    uint8_t *body = array_of(n, 1);
    memcpy(body, bytes, n);
    struct section section, before;
    memset(&section, 0xee, sizeof section);
    before = section;
    size_t at = 0;
    bool wrong = false, read = section_next(body, n, &at, &section, &wrong);
    if (!read) {
        assert_int_equal(at, 0);
        assert_memory_equal(&section, &before, sizeof section);
    }
    free(body);
    return !read && wrong;
}

static void numbers_are_little_endian(void **state)
{
    (void)state;
    uint8_t bytes[8];
    section_put(bytes, UINT64_C(0x0102030405060708));
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(bytes[i], 8 - i);
    assert_int_equal(section_get(bytes), UINT64_C(0x0102030405060708));
    section_put(bytes, UINT64_MAX);
    assert_true(section_get(bytes) == UINT64_MAX);
}

static void a_header_has_the_bytes_of_the_protocol(void **state)
{
    (void)state;
    const uint8_t expected[SECTION_HEADER_BYTES] = {7,    0, 0, 0, 0x34, 0x12, 0, 0,
                                                    0x18, 1, 0, 0, 0,    0,    0, 0};
    uint8_t header[SECTION_HEADER_BYTES];
    section_write(header, SECTION_COPIES, 0x1234, 0x118);
    assert_memory_equal(header, expected, sizeof expected);
}

static void items_are_padded_to_words(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 100; bytes++) {
        assert_int_equal(section_padded(bytes) % 8, 0);
        assert_true(section_padded(bytes) >= bytes && section_padded(bytes) < bytes + 8);
    }
}

static void sections_are_read_as_they_were_written(void **state)
{
    (void)state;
    static uint8_t body[1 << 16];
    const size_t sizes[] = {8, 16, 24, 520};
    size_t bytes = 0, n = 0;
    for (enum section_kind kind = SECTION_DELTAS; kind < SECTION_KINDS; kind++)
        for (uint32_t count = 0; count < 4; count++)
            bytes = append(body, bytes, kind, count, sizes[kind % 4]);
    struct section section;
    size_t at = 0, begin = 0;
    bool wrong = true;
    for (enum section_kind kind = SECTION_DELTAS; kind < SECTION_KINDS; kind++)
        for (uint32_t count = 0; count < 4; count++, n++) {
            assert_true(section_next(body, bytes, &at, &section, &wrong));
            assert_false(wrong);
            assert_int_equal(section.kind, kind);
            /* The size of no items is nobody's business, but is kept. */
            assert_int_equal(section.count, count);
            assert_int_equal(section.item_bytes, sizes[kind % 4]);
            assert_ptr_equal(section.items, body + begin + SECTION_HEADER_BYTES);
            begin = at;
        }
    assert_int_equal(n, 4 * (SECTION_KINDS - 1));
    assert_int_equal(at, bytes);
    assert_false(section_next(body, bytes, &at, &section, &wrong));
    assert_false(wrong);
}

static void an_empty_body_is_right(void **state)
{
    (void)state;
    struct section section;
    size_t at = 0;
    bool wrong = true;
    assert_false(section_next(NULL, 0, &at, &section, &wrong));
    assert_false(wrong);
}

/* A body cut off anywhere but between sections is wrong, and its whole sections are read before. */
static void a_body_cut_off_is_wrong(void **state)
{
    (void)state;
    uint8_t body[1024];
    size_t ends[4] = {0};
    ends[1] = append(body, 0, SECTION_ASKS, 3, 8);
    ends[2] = append(body, ends[1], SECTION_LOCATED, 2, 16);
    ends[3] = append(body, ends[2], SECTION_DELTAS, 1, 40);
    size_t n_cut = 0;
    for (size_t bytes = 0; bytes <= ends[3]; bytes++) {
        uint8_t *cut = array_of(bytes, 1);
        memcpy(cut, body, bytes);
        struct section section;
        size_t at = 0, n = 0;
        bool wrong;
        while (section_next(cut, bytes, &at, &section, &wrong))
            n++;
        assert_int_equal(at, ends[n]);
        assert_true(ends[n] <= bytes && (n == 3 || bytes < ends[n + 1]));
        assert_int_equal(wrong, bytes != ends[n]);
        n_cut += wrong;
        free(cut);
    }
    assert_int_equal(n_cut, ends[3] - 3);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    uint8_t body[256];
    const struct {
        uint32_t kind, count;
        uint64_t item_bytes;
    } bad[] = {
        {0, 1, 8},
        {SECTION_KINDS, 1, 8},
        {UINT32_MAX, 1, 8},
        {SECTION_ASKS, 1, 0},
        {SECTION_ASKS, 0, 0},
        {SECTION_ASKS, 1, 7},
        {SECTION_ASKS, 1, 12},
        {SECTION_ASKS, 1, 248},
        {SECTION_ASKS, 31, 8},
        {SECTION_ASKS, FRAME_MAX_KEYS + 1, 8},
        {SECTION_ASKS, UINT32_MAX, 8},
        {SECTION_ASKS, 1, UINT64_MAX},
        {SECTION_ASKS, 1, UINT64_MAX - 7},
        {SECTION_ASKS, 2, UINT64_C(1) << 63},
        {SECTION_ASKS, UINT32_MAX, UINT64_C(1) << 32},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        memset(body, 0, sizeof body);
        section_write(body, (enum section_kind)bad[i].kind, bad[i].count, bad[i].item_bytes);
        if (!is_wrong(body, sizeof body))
            print_error("case %zu is taken for a section\n", i);
        assert_true(is_wrong(body, sizeof body));
    }
    section_write(body, SECTION_ASKS, 30, 8);
    assert_false(is_wrong(body, sizeof body));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_little_endian),
        cmocka_unit_test(a_header_has_the_bytes_of_the_protocol),
        cmocka_unit_test(items_are_padded_to_words),
        cmocka_unit_test(sections_are_read_as_they_were_written),
        cmocka_unit_test(an_empty_body_is_right),
        cmocka_unit_test(a_body_cut_off_is_wrong),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
