/*
 * Lists of keys: a digest is of all of a list, the oldest lists are forgotten first, and memory has an end.
 */
#include "wire/lists.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_is_of_all_of_a_list),
        cmocka_unit_test(the_oldest_lists_are_forgotten_first),
        cmocka_unit_test(lists_take_no_more_than_their_bytes),
        cmocka_unit_test(without_memory_a_list_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
