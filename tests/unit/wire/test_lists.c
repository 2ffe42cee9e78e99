/*
 * Lists of keys: a digest is of all of a list, the oldest lists are forgotten first, and memory has an end.
 */
#include "wire/lists.h"

#include <math.h>

#include "support/alloc.h"
#include "support/check.h"

enum { BYTES = 100 };

static struct key_list make_list(uint8_t *coded, uint32_t number)
{
    memset(coded, 7, BYTES);
    memcpy(coded + BYTES - sizeof number, &number, sizeof number);
    struct key_list list = {
        .coded = coded, .bytes = BYTES, .count = BYTES, .flags = FRAME_KEYS_DELTA};
    list.digest = list_digest(coded, BYTES, list.count, list.flags, 5);
    return list;
}

static void a_digest_is_of_all_of_a_list(void **state)
{
    (void)state;
    uint8_t coded[BYTES] = {0}, bytes[FRAME_DIGEST_BYTES];
    const struct list_digest digest = list_digest(coded, BYTES, BYTES, 1, 5);
    struct list_digest others[3 + BYTES] = {list_digest(coded, BYTES, BYTES - 1, 1, 5),
                                            list_digest(coded, BYTES, BYTES, 0, 5),
                                            list_digest(coded, BYTES, BYTES, 1, 6)};
    for (size_t i = 0; i < BYTES; i++) {
        coded[i] = 1;
        others[3 + i] = list_digest(coded, BYTES, BYTES, 1, 5);
        coded[i] = 0;
    }
    for (size_t i = 0; i < 3 + BYTES; i++)
        assert_true(others[i].low != digest.low && others[i].high != digest.high);
    list_digest_put(digest, bytes);
    const struct list_digest again = list_digest_get(bytes);
    assert_true(again.low == digest.low && again.high == digest.high);
}

/* How many of the first n lists are known; all of them have the bytes that they were given. */
static uint32_t count_known(const struct key_lists *lists, uint32_t n)
{
    uint8_t coded[BYTES];
    uint32_t n_known = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct key_list made = make_list(coded, i);
        const struct key_list *list = lists_find(lists, made.digest);
        n_known += list != NULL;
        assert_true(!list || memcmp(list->coded, coded, BYTES) == 0);
    }
    return n_known;
}

static void the_oldest_lists_are_forgotten_first(void **state)
{
    (void)state;
    struct key_lists lists = {.most = 0};
    uint8_t coded[BYTES];
    for (uint32_t i = 0; i < LISTS_MOST + 10; i++) {
        const struct key_list list = make_list(coded, i);
        assert_true(lists_add(&lists, &list));
        assert_false(lists_add(&lists, &list));
    }
    assert_int_equal(lists.n, LISTS_MOST);
    assert_int_equal(lists.bytes, LISTS_MOST * BYTES);
    assert_int_equal(count_known(&lists, 10), 0);
    assert_int_equal(count_known(&lists, LISTS_MOST + 10), LISTS_MOST);
    lists_clear(&lists);
    assert_int_equal(count_known(&lists, LISTS_MOST + 10), 0);
}

static void lists_take_no_more_than_their_bytes(void **state)
{
    (void)state;
    struct key_lists lists = {.most = 0};
    struct key_list list = {.bytes = LISTS_BYTES / 4, .count = 1};
    for (uint64_t i = 1; i <= 10; i++) {
        list.digest = (struct list_digest){i, i};
        assert_true(lists_add(&lists, &list));
        assert_true(lists.bytes <= LISTS_BYTES);
    }
    assert_int_equal(lists.n, 4);
    list.bytes = LISTS_BYTES + 1;
    list.digest.low = 11;
    assert_false(lists_add(&lists, &list));
    lists_clear(&lists);
}

static void without_memory_a_list_is_not_known(void **state)
{
    (void)state;
    uint8_t coded[BYTES];
    const struct key_list list = make_list(coded, 1);
    for (uint64_t n = 1; n <= 3; n++) {
        struct key_lists lists = {.most = 0};
        alloc_fail_at(n);
        const bool added = lists_add(&lists, &list);
        alloc_fail_at(0);
        assert_int_equal(lists_find(&lists, list.digest) != NULL, added);
        lists_clear(&lists);
    }
}

/* ---- Parts ------------------------------------------------------------------------------------ */

enum { N_BASE = 300, ROOM = FRAME_PART_BYTES };

static void make_base(struct list_base *base)
{
    uint64_t keys[N_BASE];
    for (uint64_t i = 0; i < N_BASE; i++)
        keys[i] = 1000 + i * i;
    list_base_set(base, (struct list_digest){3, 4}, keys, N_BASE);
    assert_int_equal(base->n, N_BASE);
}

/* The bytes of a part, which is decoded to the same keys; 0: it is none. */
static size_t part_bytes(const struct list_base *base, const uint64_t *keys, size_t n, size_t most)
{
    uint8_t out[ROOM];
    uint64_t back[N_BASE];
    const size_t bytes = list_part_encode(base, keys, n, most, out);
    if (!bytes)
        return 0;
    assert_true(bytes < most && list_is_part(base, keys, n));
    const struct list_digest digest = list_digest_get(out);
    assert_true(digest.low == 3 && digest.high == 4);
    const uint8_t *rest = out + FRAME_DIGEST_BYTES;
    const size_t n_rest = bytes - FRAME_DIGEST_BYTES;
    memcpy(back, base->keys, sizeof back);
    assert_true(list_part_decode(rest, n_rest, n, N_BASE, back));
    assert_memory_equal(back, keys, n * sizeof *keys);
    /* Of another number of keys, of a shorter list, or cut off, the same bytes are no part. */
    for (size_t wrong = 0; wrong <= N_BASE; wrong++)
        assert_true(wrong == n || !list_part_decode(rest, n_rest, wrong, N_BASE, back));
    assert_false(
        list_part_decode(rest, n_rest, n, (size_t)sqrt((double)(keys[n - 1] - 1000)), back));
    for (size_t cut = 0; cut < n_rest; cut++)
        assert_false(list_part_decode(rest, cut, n, N_BASE, back));
    return bytes;
}

static void a_part_takes_a_bit_for_each_key_between_its_ends(void **state)
{
    (void)state;
    struct list_base base = {.n = 0};
    make_base(&base);
    struct dice dice = {1};
    for (unsigned trial = 0; trial < 2000; trial++) {
        uint64_t keys[N_BASE];
        const uint64_t rarity = 1 + dice_below(&dice, 40);
        size_t n = 0, first = 0, last = 0;
        for (size_t i = 0; i < N_BASE; i++)
            if (!dice_below(&dice, rarity)) {
                first = n ? first : i;
                last = i;
                keys[n++] = base.keys[i];
            }
        if (!n || n == N_BASE)
            continue;
        const size_t expected =
            FRAME_DIGEST_BYTES + (first < 128 ? 1U : 2U) + (last - first + 8) / 8;
        assert_int_equal(part_bytes(&base, keys, n, ROOM), expected);
        assert_int_equal(part_bytes(&base, keys, n, expected), 0);
        keys[dice_below(&dice, n)] += 2; /* no square is 2 above another one */
        assert_int_equal(part_bytes(&base, keys, n, ROOM), 0);
    }
    list_base_free(&base);
}

static void what_is_no_part(void **state)
{
    (void)state;
    struct list_base base = {.n = 0};
    uint64_t keys[N_BASE] = {0};
    assert_int_equal(part_bytes(&base, keys, 1, ROOM), 0); /* there is no base */
    make_base(&base);
    memcpy(keys, base.keys, N_BASE * sizeof *keys);
    assert_int_equal(part_bytes(&base, keys, N_BASE, ROOM), 0); /* all of it */
    assert_int_equal(part_bytes(&base, keys, N_BASE - 1, ROOM), FRAME_DIGEST_BYTES + 1 + 38);
    keys[1] = keys[0];
    assert_int_equal(part_bytes(&base, keys, 2, ROOM), 0);
    const uint8_t bad[][3] = {{0, 0, 1}, {0, 2, 1}, {0, 1, 0}, {0x80, 0, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t n = 0; n < 3; n++)
            assert_false(list_part_decode(bad[i], 3, n, N_BASE, keys));
    list_base_free(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_is_of_all_of_a_list),
        cmocka_unit_test(the_oldest_lists_are_forgotten_first),
        cmocka_unit_test(lists_take_no_more_than_their_bytes),
        cmocka_unit_test(without_memory_a_list_is_not_known),
        cmocka_unit_test(a_part_takes_a_bit_for_each_key_between_its_ends),
        cmocka_unit_test(what_is_no_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
