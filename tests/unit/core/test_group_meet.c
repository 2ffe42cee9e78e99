/*
 * Barriers, sums and broadcasts: when the coordinator holds a request, what it answers, and how all who wait fail.
 */
#include "groups.h"

/* ---- BARRIER --------------------------------------------------------------------------------- */

static void a_barrier_opens_when_all_are_there(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    assert_held(barrier(&s, 0, 1));
    assert_held(barrier(&s, 2, 1));
    assert_held(barrier(&s, 0, 1));
    struct reply reply = barrier(&s, 1, 1);
    assert_done(reply);
    assert_true(reply.changed);
    for (uint32_t i = 0; i < 3; i++) {
        reply = barrier(&s, i, 1);
        assert_done(reply);
        assert_false(reply.changed);
    }
    assert_held(barrier(&s, 0, 5));
    assert_held(barrier(&s, 1, 5));
    reply = barrier(&s, 2, 4);
    assert_true(reply.changed);
    assert_done(reply);
    assert_done(barrier(&s, 0, 4));
    assert_held(barrier(&s, 0, 5));
    assert_error(barrier(&s, 0, 0), TERN_INVALID, "number 0");
    scene_close(&s);
}

static void who_did_not_look_gives_nobody_up(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    s.now_ns += 5 * DEADLINE;
    assert_false(group_tick(s.group, s.now_ns));
    assert_false(pass(&s, DEADLINE - 1, 0x3));
    assert_true(pass(&s, 1, 0x3));
    assert_error(barrier(&s, 0, 1), TERN_PEER, "nothing was heard of node 2");
    scene_close(&s);
}

static void a_barrier_fails_with_a_dead_member(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    for (uint32_t i = 0; i < 3; i++)
        barrier(&s, i, 1);
    assert_held(barrier(&s, 2, 2));
    assert_held(barrier(&s, 0, 2));
    assert_true(pass(&s, DEADLINE, 3));
    const char *sentence = "barrier 2: nothing was heard of node 2 for 10 s";
    assert_error(barrier(&s, 0, 2), TERN_PEER, sentence);
    assert_error(barrier(&s, 1, 2), TERN_PEER, sentence);
    assert_error(barrier(&s, 0, 2), TERN_PEER, sentence);
    assert_done(barrier(&s, 0, 1));
    assert_error(barrier(&s, 2, 2), TERN_PEER, "this node was given up");
    scene_close(&s);
}

static void a_barrier_fails_with_a_member_that_left_before(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    assert_held(barrier(&s, 0, 2));
    assert_held(barrier(&s, 2, 1));
    struct reply reply = bye(&s, 2);
    assert_held(reply);
    assert_true(reply.changed);
    assert_error(barrier(&s, 0, 2), TERN_PEER, "barrier 2: node 2 has left before it");
    assert_held(barrier(&s, 0, 1));
    assert_done(barrier(&s, 1, 1));
    assert_done(barrier(&s, 2, 1));
    assert_refused(barrier(&s, 2, 2), "after BYE");
    scene_close(&s);
}

/* Node 0 has found node 1 dead before the coordinator has, and leaves. */
static void who_left_for_a_silent_member_is_not_named_alone(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    assert_held(barrier(&s, 2, 2));
    assert_false(pass(&s, DEADLINE - 1, 1 | 4));
    assert_held(bye(&s, 0));
    assert_error(
        barrier(&s, 2, 2), TERN_PEER,
        "barrier 2: node 0 has left before it, and nothing was heard of node 1 for 10.0 s");
    scene_close(&s);
}

/* ---- REDUCE ---------------------------------------------------------------------------------- */

enum { N_ELEMENTS = 1000 };

/* Elements of every size, so that a sum in another order has other bits. */
static void fill_part(struct dice *dice, enum tern_type type, void *part)
{
    for (size_t i = 0; i < N_ELEMENTS; i++) {
        double x = (dice_unit(dice) - 0.5) * (double)(1 << dice_below(dice, 24));
        element_put(type, part, i, x);
    }
}

static void sum_parts(enum tern_type type, double parts[][N_ELEMENTS], uint32_t n, double *sum)
{
    memcpy(sum, parts[0], N_ELEMENTS * sizeof *sum);
    for (uint32_t node = 1; node < n; node++) {
        const void *part = parts[node];
        for (size_t i = 0; i < N_ELEMENTS; i++) {
            if (type == TERN_F32)
                ((float *)sum)[i] += ((const float *)part)[i];
            else if (type == TERN_F64)
                sum[i] += ((const double *)part)[i];
            else if (type == TERN_I32)
                ((uint32_t *)sum)[i] += ((const uint32_t *)part)[i];
            else
                ((uint64_t *)sum)[i] += ((const uint64_t *)part)[i];
        }
    }
}

static void a_sum_has_the_bits_of_the_order_of_nodes(void **state)
{
    (void)state;
    static double parts[MAX_NODES][N_ELEMENTS], sum[N_ELEMENTS];
    struct dice dice = {2};
    struct scene s;
    join_all(&s, MAX_NODES);
    for (uint64_t number = 1; number <= 80; number++) {
        enum tern_type type = (enum tern_type)(number % 4);
        const size_t bytes = N_ELEMENTS * element_size(type);
        uint32_t order[MAX_NODES];
        for (uint32_t i = 0; i < MAX_NODES; i++) {
            fill_part(&dice, type, parts[i]);
            uint32_t at = (uint32_t)dice_below(&dice, i + 1);
            order[i] = order[at];
            order[at] = i;
        }
        sum_parts(type, parts, MAX_NODES, sum);
        for (uint32_t i = 0; i < MAX_NODES; i++) {
            struct reply reply =
                ask(&s, order[i], FRAME_REDUCE, number, type, parts[order[i]], bytes);
            assert_int_equal(reply.served, i + 1 < MAX_NODES ? HELD : SERVED);
            if (i + 1 == MAX_NODES)
                assert_true(reply.changed);
        }
        for (uint32_t i = 0; i < MAX_NODES; i++)
            assert_values(ask(&s, i, FRAME_REDUCE, number, type, parts[i], bytes), sum, bytes);
    }
    scene_close(&s);
}

static void parts_that_do_not_fit_fail_for_all(void **state)
{
    (void)state;
    static char large[MIB + 4];
    const struct {
        uint64_t type;
        size_t bytes;
        enum tern_status status;
        const char *words;
    } cases[] = {
        {TERN_F32, 4, TERN_MISMATCH, "node 1 gives 4 bytes of f32, node 0 8 of f32"},
        {TERN_F64, 8, TERN_MISMATCH, "node 1 gives 8 bytes of f64, node 0 8 of f32"},
        {TERN_F32, MIB + 4, TERN_LIMIT, "node 1 gives 1048580 bytes"},
        {TERN_F32, 6, TERN_INVALID, "no whole elements of f32"},
        {4, 8, TERN_INVALID, "unknown type 4"},
        {UINT64_MAX, 8, TERN_INVALID, "unknown type"},
    };
    struct scene s;
    join_all(&s, 3);
    for (size_t c = 0; c < COUNT(cases); c++) {
        uint64_t number = c + 1;
        assert_held(ask(&s, 0, FRAME_REDUCE, number, TERN_F32, large, 8));
        struct reply reply = ask(&s, 1, FRAME_REDUCE, number, cases[c].type, large, cases[c].bytes);
        assert_true(reply.changed);
        assert_error(reply, cases[c].status, cases[c].words);
        assert_error(ask(&s, 0, FRAME_REDUCE, number, TERN_F32, large, 8), cases[c].status,
                     cases[c].words);
        assert_error(ask(&s, 2, FRAME_REDUCE, number, TERN_F32, large, 8), cases[c].status,
                     cases[c].words);
    }
    /* As the first one. */
    assert_error(ask(&s, 2, FRAME_REDUCE, 7, 99, large, 8), TERN_INVALID, "unknown type 99");
    assert_error(ask(&s, 0, FRAME_REDUCE, 7, TERN_I64, large, 8), TERN_INVALID, "unknown type 99");
    /* And what is just possible. */
    for (uint32_t i = 0; i < 3; i++)
        ask(&s, i, FRAME_REDUCE, 8, TERN_I64, large, MIB);
    assert_values(ask(&s, 0, FRAME_REDUCE, 8, TERN_I64, large, MIB), large, MIB);
    for (uint32_t i = 0; i < 3; i++)
        ask(&s, i, FRAME_REDUCE, 9, TERN_I64, NULL, 0);
    assert_values(ask(&s, 0, FRAME_REDUCE, 9, TERN_I64, NULL, 0), "", 0);
    assert_error(ask(&s, 0, FRAME_REDUCE, 0, TERN_I64, NULL, 0), TERN_INVALID, "number 0");
    scene_close(&s);
}

static void a_sum_is_kept_until_all_have_gone_on(void **state)
{
    (void)state;
    const int32_t one[] = {1, 2}, sum[] = {3, 6};
    struct scene s;
    join_all(&s, 3);
    for (uint32_t i = 0; i < 3; i++)
        ask(&s, i, FRAME_REDUCE, 1, TERN_I32, one, 8);
    assert_held(ask(&s, 0, FRAME_REDUCE, 2, TERN_I32, one, 8));
    assert_held(ask(&s, 1, FRAME_REDUCE, 2, TERN_I32, one, 8));
    assert_values(ask(&s, 2, FRAME_REDUCE, 1, TERN_I32, one, 8), sum, 8);
    assert_values(ask(&s, 0, FRAME_REDUCE, 1, TERN_I32, one, 8), sum, 8);
    assert_values(ask(&s, 2, FRAME_REDUCE, 2, TERN_I32, one, 8), sum, 8);
    assert_held(ask(&s, 2, FRAME_REDUCE, 3, TERN_I32, one, 8));
    assert_error(ask(&s, 2, FRAME_REDUCE, 1, TERN_I32, one, 8), TERN_INVALID,
                 "reduction 1 is past");
    assert_values(ask(&s, 1, FRAME_REDUCE, 2, TERN_I32, one, 8), sum, 8);
    scene_close(&s);
}

static void a_member_that_skips_a_reduction_is_named(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    assert_held(ask(&s, 0, FRAME_REDUCE, 1, TERN_F32, NULL, 0));
    struct reply reply = ask(&s, 2, FRAME_REDUCE, 4, TERN_F32, NULL, 0);
    assert_held(reply);
    assert_true(reply.changed);
    assert_error(ask(&s, 0, FRAME_REDUCE, 1, TERN_F32, NULL, 0), TERN_MISMATCH,
                 "reduction 1: node 2 has gone on to 4");
    assert_error(ask(&s, 1, FRAME_REDUCE, 3, TERN_F32, NULL, 0), TERN_MISMATCH,
                 "reduction 3: node 2 has gone on to 4");
    assert_held(ask(&s, 0, FRAME_REDUCE, 4, TERN_F32, NULL, 0));
    assert_values(ask(&s, 1, FRAME_REDUCE, 4, TERN_F32, NULL, 0), "", 0);
    scene_close(&s);
}

static void a_reduction_fails_with_a_dead_or_gone_member(void **state)
{
    (void)state;
    struct scene s;
    join_and_die(&s, 3, 1);
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 3; i += 2)
            assert_error(ask(&s, i, FRAME_REDUCE, 1, TERN_F32, NULL, 0), TERN_PEER,
                         "reduction 1: nothing was heard of node 1 for 10 s");
    scene_close(&s);

    join_all(&s, 3);
    assert_held(ask(&s, 0, FRAME_REDUCE, 1, TERN_F32, NULL, 0));
    assert_held(bye(&s, 1));
    assert_error(ask(&s, 0, FRAME_REDUCE, 1, TERN_F32, NULL, 0), TERN_PEER,
                 "reduction 1: node 1 has left before it");
    assert_refused(ask(&s, 1, FRAME_REDUCE, 1, TERN_F32, NULL, 0), "after BYE");
    scene_close(&s);
}

/* ---- BROADCAST ------------------------------------------------------------------------------- */

static void the_roots_bytes_go_to_all(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    assert_held(ask(&s, 0, FRAME_BROADCAST, 1, 2, NULL, 0));
    struct reply reply = ask(&s, 2, FRAME_BROADCAST, 1, 2, "hello", 5);
    assert_true(reply.changed);
    assert_values(reply, "hello", 5);
    for (uint32_t i = 0; i < 2; i++)
        assert_values(ask(&s, i, FRAME_BROADCAST, 1, 2, NULL, 0), "hello", 5);
    assert_values(ask(&s, 2, FRAME_BROADCAST, 1, 2, "hello", 5), "hello", 5);
    assert_error(ask(&s, 0, FRAME_BROADCAST, 2, 3, NULL, 0), TERN_INVALID, "names node 3");
    assert_error(ask(&s, 0, FRAME_BROADCAST, 2, 1, "x", 1), TERN_INVALID, "its root is node 1");
    assert_error(ask(&s, 0, FRAME_BROADCAST, 0, 0, "x", 1), TERN_INVALID, "number 0");
    scene_close(&s);
}

static void a_root_that_runs_ahead_is_held(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 2);
    assert_values(ask(&s, 0, FRAME_BROADCAST, 1, 0, "1", 1), "1", 1);
    assert_values(ask(&s, 0, FRAME_BROADCAST, 2, 0, "2", 1), "2", 1);
    assert_held(ask(&s, 0, FRAME_BROADCAST, 3, 0, "3", 1));
    assert_values(ask(&s, 1, FRAME_BROADCAST, 1, 0, NULL, 0), "1", 1);
    assert_held(ask(&s, 0, FRAME_BROADCAST, 3, 0, "3", 1));
    struct reply reply = ask(&s, 1, FRAME_BROADCAST, 2, 0, NULL, 0);
    assert_true(reply.changed);
    assert_values(reply, "2", 1);
    assert_values(ask(&s, 0, FRAME_BROADCAST, 3, 0, "3", 1), "3", 1);
    scene_close(&s);
}

static void who_has_left_finds_old_numbers_past(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    assert_values(ask(&s, 0, FRAME_BROADCAST, 1, 0, "1", 1), "1", 1);
    assert_values(ask(&s, 2, FRAME_BROADCAST, 1, 0, NULL, 0), "1", 1);
    assert_held(bye(&s, 2));
    assert_values(ask(&s, 2, FRAME_BROADCAST, 1, 0, NULL, 0), "1", 1);
    for (uint64_t number = 1; number <= 4; number++) {
        assert_kind(ask(&s, 0, FRAME_BROADCAST, number, 0, "x", 1), FRAME_VALUES);
        assert_kind(ask(&s, 1, FRAME_BROADCAST, number, 0, NULL, 0), FRAME_VALUES);
    }
    assert_error(ask(&s, 2, FRAME_BROADCAST, 1, 0, NULL, 0), TERN_INVALID, "broadcast 1 is past");
    assert_refused(ask(&s, 2, FRAME_BROADCAST, 4, 0, NULL, 0), "after BYE");
    scene_close(&s);
}

static void broadcasts_fail_for_all_who_wait(void **state)
{
    (void)state;
    static char large[MIB + 1];
    struct scene s;
    join_all(&s, 3);
    /* Two opinions of the root. */
    assert_held(ask(&s, 0, FRAME_BROADCAST, 1, 1, NULL, 0));
    assert_error(ask(&s, 2, FRAME_BROADCAST, 1, 2, "x", 1), TERN_MISMATCH,
                 "its root is node 2 for node 2, node 1 for node 0");
    assert_error(ask(&s, 0, FRAME_BROADCAST, 1, 1, NULL, 0), TERN_MISMATCH, "broadcast 1");
    assert_error(ask(&s, 1, FRAME_BROADCAST, 1, 1, "x", 1), TERN_MISMATCH, "broadcast 1");
    /* Too late to fail for those who have it. */
    assert_values(ask(&s, 1, FRAME_BROADCAST, 2, 1, "x", 1), "x", 1);
    assert_error(ask(&s, 0, FRAME_BROADCAST, 2, 2, NULL, 0), TERN_MISMATCH, "broadcast 2");
    assert_values(ask(&s, 2, FRAME_BROADCAST, 2, 1, NULL, 0), "x", 1);
    /* Size. */
    assert_held(ask(&s, 0, FRAME_BROADCAST, 3, 1, NULL, 0));
    assert_error(ask(&s, 1, FRAME_BROADCAST, 3, 1, large, MIB + 1), TERN_LIMIT, "1048577");
    assert_error(ask(&s, 0, FRAME_BROADCAST, 3, 1, NULL, 0), TERN_LIMIT, "1048577");
    assert_error(ask(&s, 2, FRAME_BROADCAST, 3, 1, NULL, 0), TERN_LIMIT, "1048577");
    assert_values(ask(&s, 1, FRAME_BROADCAST, 4, 1, large, MIB), large, MIB);
    assert_values(ask(&s, 0, FRAME_BROADCAST, 4, 1, NULL, 0), large, MIB);
    assert_values(ask(&s, 2, FRAME_BROADCAST, 4, 1, NULL, 0), large, MIB);
    /* A root that skips, leaves or dies; others may. */
    assert_held(ask(&s, 0, FRAME_BROADCAST, 5, 1, NULL, 0));
    struct reply reply = ask(&s, 1, FRAME_BROADCAST, 6, 1, "x", 1);
    assert_held(reply); /* node 2 is at 4 */
    assert_true(reply.changed);
    assert_error(ask(&s, 0, FRAME_BROADCAST, 5, 1, NULL, 0), TERN_MISMATCH,
                 "broadcast 5: node 1 has gone on to 6");
    assert_held(bye(&s, 2));
    assert_values(ask(&s, 1, FRAME_BROADCAST, 6, 1, "x", 1), "x", 1);
    assert_values(ask(&s, 0, FRAME_BROADCAST, 6, 1, NULL, 0), "x", 1);
    assert_values(ask(&s, 1, FRAME_BROADCAST, 7, 1, "x", 1), "x", 1);
    assert_error(ask(&s, 0, FRAME_BROADCAST, 8, 2, NULL, 0), TERN_PEER,
                 "broadcast 8: node 2 has left before it");
    assert_true(pass(&s, DEADLINE, 1));
    assert_error(ask(&s, 0, FRAME_BROADCAST, 9, 1, NULL, 0), TERN_PEER,
                 "broadcast 9: nothing was heard of node 1");
    assert_values(ask(&s, 0, FRAME_BROADCAST, 10, 0, "alone", 5), "alone", 5);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_opens_when_all_are_there),
        cmocka_unit_test(who_did_not_look_gives_nobody_up),
        cmocka_unit_test(a_barrier_fails_with_a_dead_member),
        cmocka_unit_test(a_barrier_fails_with_a_member_that_left_before),
        cmocka_unit_test(who_left_for_a_silent_member_is_not_named_alone),
        cmocka_unit_test(a_sum_has_the_bits_of_the_order_of_nodes),
        cmocka_unit_test(parts_that_do_not_fit_fail_for_all),
        cmocka_unit_test(a_sum_is_kept_until_all_have_gone_on),
        cmocka_unit_test(a_member_that_skips_a_reduction_is_named),
        cmocka_unit_test(a_reduction_fails_with_a_dead_or_gone_member),
        cmocka_unit_test(the_roots_bytes_go_to_all),
        cmocka_unit_test(a_root_that_runs_ahead_is_held),
        cmocka_unit_test(who_has_left_finds_old_numbers_past),
        cmocka_unit_test(broadcasts_fail_for_all_who_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
