/*
 * Messages that make no sense are refused by a manager, and change nothing.
 */
#include "integers.h"

#include "wire/section.h"

/* ---- Messages that make no sense ----------------------------------------------------------------- */

/* A body made by hand. */
struct forged {
    uint8_t bytes[4096];
    size_t n;
};

static uint8_t *forge(struct forged *forged, enum section_kind kind, uint32_t count,
                      size_t item_bytes)
{
    uint8_t *at = forged->bytes + forged->n;
    section_write(at, kind, count, item_bytes);
    memset(at + SECTION_HEADER_BYTES, 0, count * item_bytes);
    forged->n += SECTION_HEADER_BYTES + count * item_bytes;
    assert_true(forged->n <= sizeof forged->bytes);
    return at + SECTION_HEADER_BYTES;
}

/* The bodies that no request may have, each after a section that would be right. */
static bool bad_request(size_t which, struct forged *forged)
{
    const size_t delta = 8 + section_padded(LENGTH * 8);
    *forged = (struct forged){.n = 0};
    section_put(forge(forged, SECTION_ASKS, 1, 8), KEY);
    switch (which) {
    case 0: /* too short for a header */
        forged->n += 5;
        return true;
    case 1: /* a section that does not fit the body */
        forge(forged, SECTION_ENDS, 2, 8);
        forged->n -= 8;
        return true;
    case 2: /* no such kind */
        forge(forged, SECTION_KINDS, 1, 8);
        return true;
    case 3: /* a kind of answers */
        forge(forged, SECTION_MAINS, 1, 16 + 24);
        return true;
    case 4:
        forge(forged, SECTION_COPIES, 1, 16 + 24);
        return true;
    case 5:
        forge(forged, SECTION_AWAY_ASKS, 1, 16);
        return true;
    case 6: /* items of a wrong size */
        forge(forged, SECTION_ASKS, 1, 16);
        return true;
    case 7:
        forge(forged, SECTION_DELTAS, 1, delta - 8);
        return true;
    case 8:
        forge(forged, SECTION_DELTAS, 1, delta + 8);
        return true;
    case 9:
        forge(forged, SECTION_LOCATED, 1, 8);
        return true;
    case 10: /* keys that are not in the table */
        section_put(forge(forged, SECTION_ENDS, 1, 8), N_KEYS);
        return true;
    case 11:
        section_put(forge(forged, SECTION_DELTAS, 2, delta) + delta, UINT64_MAX);
        return true;
    case 12: /* a node that does not exist */
        section_put(forge(forged, SECTION_LOCATED, 1, 16) + 8, location_make(2, 1));
        return true;
    default:
        return false;
    }
}

static void bad_requests_are_refused_and_change_nothing(void **state)
{
    (void)state;
    struct managers all = one_key(2, "adaptive", 5);
    struct buffer out = {0};
    struct forged forged;
    size_t n_refused = 0;
    for (; bad_request(n_refused, &forged); n_refused++) {
        struct frame request = {.kind = FRAME_ROUND, .number = 1, .body_bytes = (uint32_t)forged.n};
        uint8_t *body = array_of(forged.n, 1);
        memcpy(body, forged.bytes, forged.n);
        refused(manager_serve(all.members[0].manager, 1, &request, body, &out), TERN_INVALID,
                "rows");
        free(body);
        assert_int_equal(buffer_size(&out), 0);
        assert_int_equal(state_of(&all.members[0], KEY), ENTRY_OWNED);
        assert_int_equal(value(&all.members[0], KEY), 5);
        assert_false(manager_is_sharing(all.members[0].manager));
    }
    assert_int_equal(n_refused, 13);
    buffer_free(&out);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    assert_int_equal(owner_of(&all, KEY), 1);
    managers_free(&all);
}

/* The bodies that no answer may have, each after a main copy that would be right. */
static bool bad_answer(size_t which, struct forged *forged)
{
    const size_t row = 16 + LENGTH * 8;
    *forged = (struct forged){.n = 0};
    uint8_t *main = forge(forged, SECTION_MAINS, 1, row);
    section_put(main, KEY);
    section_put(main + 8, location_make(1, 1));
    switch (which) {
    case 0:
        forged->n += 15;
        return true;
    case 1:
        forge(forged, SECTION_COPIES, 2, row);
        forged->n -= 1;
        return true;
    case 2: /* kinds of requests */
        forge(forged, SECTION_DELTAS, 1, 8 + LENGTH * 8);
        return true;
    case 3:
        forge(forged, SECTION_ASKS, 1, 8);
        return true;
    case 4:
        forge(forged, SECTION_LOCATED, 1, 16);
        return true;
    case 5: /* sizes */
        forge(forged, SECTION_MAINS, 1, row + 8);
        return true;
    case 6:
        forge(forged, SECTION_COPIES, 1, 16);
        return true;
    case 7:
        forge(forged, SECTION_AWAY_DELTAS, 1, 8);
        return true;
    case 8: /* keys */
        section_put(forge(forged, SECTION_AWAY_ASKS, 1, 16), N_KEYS);
        return true;
    case 9:
        section_put(forge(forged, SECTION_COPIES, 1, row), UINT64_MAX);
        return true;
    case 10: /* nodes */
        section_put(forge(forged, SECTION_AWAY_ASKS, 1, 16) + 8, location_make(2, 0));
        return true;
    case 11:
        section_put(forge(forged, SECTION_MAINS, 1, row) + 8, location_make(0xffff, 0));
        return true;
    default:
        return false;
    }
}

static enum tern_status give_answer(struct managers *all, const struct forged *forged)
{
    const struct frame answer = {
        .kind = FRAME_ROUND_REPLY, .number = 1, .body_bytes = (uint32_t)forged->n};
    struct member *member = &all->members[1];
    bool more = false;
    uint8_t *body = array_of(forged->n, 1);
    memcpy(body, forged->bytes, forged->n);
    enum tern_status status =
        manager_answer(member->manager, 0, &member->questions[0].body, &answer, body, &more);
    free(body);
    return status;
}

static void bad_answers_are_refused_and_change_nothing(void **state)
{
    (void)state;
    struct managers all = one_key(2, "adaptive", 5);
    struct forged forged;
    want(&all.members[1], KEY);
    assert_true(ask_peer(&all, 1, 0));
    size_t n_refused = 0;
    for (; bad_answer(n_refused, &forged); n_refused++) {
        refused(give_answer(&all, &forged), TERN_PEER, "node 0", "rows");
        assert_int_equal(state_of(&all.members[1], KEY), ENTRY_ELSEWHERE);
        assert_int_equal(counts_of(&all, 1)->moved_here, 0);
    }
    assert_int_equal(n_refused, 12);
    struct frame odd = {.kind = FRAME_VALUES, .number = 1};
    bool more = false;
    refused(manager_answer(all.members[1].manager, 0, &all.members[1].questions[0].body, &odd, NULL,
                           &more),
            TERN_PEER, "node 0");
    /* The right answer is still welcome. */
    serve_peer(&all, 1, 0);
    hear_peer(&all, 1, 0);
    assert_int_equal(owner_of(&all, KEY), 1);
    managers_free(&all);
}

/* Rows that nobody asked for find no place: not for keys that are here, nor for others, nor twice. */
static void rows_that_were_not_asked_for_are_refused(void **state)
{
    (void)state;
    const size_t row = 16 + LENGTH * 8;
    const uint64_t keys[] = {KEY, N_KEYS - 1,
                             KEY + 1}; /* not wanted; here; wanted and not asked for */
    struct managers all = integers(2, "adaptive");
    create(&all, N_KEYS - 1, 7);
    for (size_t i = 0; i < COUNT(keys); i++)
        for (int copy = 0; copy <= 1; copy++) {
            struct forged forged = {.n = 0};
            section_put(forge(&forged, copy ? SECTION_COPIES : SECTION_MAINS, 1, row), keys[i]);
            refused(give_answer(&all, &forged), TERN_PEER, "node 0");
            assert_int_equal(is_main(&all.members[1], keys[i]), i == 1);
            assert_int_equal(value(&all.members[1], N_KEYS - 1), 7);
        }
    want(&all.members[1], KEY);
    assert_true(ask_peer(&all, 1, 0));
    struct forged forged = {.n = 0};
    uint8_t *items = forge(&forged, SECTION_MAINS, 2, row);
    section_put(items, KEY);
    section_put(items + row, KEY);
    refused(give_answer(&all, &forged), TERN_PEER, "node 0");
    managers_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_requests_are_refused_and_change_nothing),
        cmocka_unit_test(bad_answers_are_refused_and_change_nothing),
        cmocka_unit_test(rows_that_were_not_asked_for_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
