/*
 * The coordinator and its members: who joins, which tables they open, who counts as dead, how they leave; and what it does
 * without memory.
 */
#include "groups.h"

#include "support/alloc.h"

/* ---- JOIN ------------------------------------------------------------------------------------ */

static void the_roster_comes_when_all_have_joined(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 3);
    struct reply reply = join(&s, 2);
    assert_held(reply);
    assert_false(reply.changed);
    assert_held(join(&s, 0));
    assert_held(join(&s, 2));
    reply = join(&s, 1);
    assert_true(reply.changed);
    assert_roster(reply, 3);
    for (uint32_t i = 0; i < 3; i++) {
        reply = join(&s, i);
        assert_roster(reply, 3);
        assert_false(reply.changed);
    }
    scene_close(&s);
}

static void a_group_of_one_is_complete_at_once(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 1);
    assert_roster(join(&s, 0), 1);
    assert_done(barrier(&s, 0, 1));
    assert_values(ask(&s, 0, FRAME_REDUCE, 1, TERN_I32, "abcd", 4), "abcd", 4);
    assert_values(ask(&s, 0, FRAME_BROADCAST, 1, 0, "abc", 3), "abc", 3);
    assert_done(bye(&s, 0));
    assert_true(group_is_over(s.group));
    scene_close(&s);
}

static void another_process_cannot_join_in_a_members_place(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 4);
    assert_held(join(&s, 3));
    assert_error(ask(&s, 3, FRAME_JOIN, 5, 0, "x", 1), TERN_PEER,
                 "node 3 has joined already as another process");
    assert_held(join(&s, 3));
    scene_close(&s);
}

static void another_process_is_too_early_when_all_have_left(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 1);
    assert_roster(join(&s, 0), 1);
    assert_error(ask(&s, 0, FRAME_JOIN, 5, 0, "x", 1), TERN_PEER,
                 "node 0 has joined already as another process");
    assert_done(bye(&s, 0));
    assert_refused(ask(&s, 0, FRAME_JOIN, 5, 0, "x", 1), "joined already");
    scene_close(&s);
}

static void who_does_not_join_in_time_is_named(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 4);
    assert_held(join(&s, 0));
    assert_held(join(&s, 1));
    assert_false(pass(&s, DEADLINE - 1, 0));
    assert_held(join(&s, 1));
    assert_true(pass(&s, 1, 0));
    assert_false(pass(&s, 0, 0));
    const char *sentence = "node 2 and node 3 have not joined within 10 s";
    for (uint32_t i = 0; i < 4; i++)
        assert_error(join(&s, i), TERN_PEER, sentence);
    assert_error(barrier(&s, 0, 1), TERN_PEER, sentence);
    assert_error(ask(&s, 1, FRAME_REDUCE, 1, TERN_F32, NULL, 0), TERN_PEER, sentence);
    assert_refused(barrier(&s, 2, 1), "before it joined");
    assert_int_equal(ask(&s, 0, FRAME_PING, 0, 0, NULL, 0).frame.fields.ping_done.dead, 3);
    assert_held(bye(&s, 0));
    assert_false(group_is_over(s.group));
    assert_error(bye(&s, 1), TERN_PEER, sentence);
    assert_true(group_is_over(s.group));
    scene_close(&s);
}

static void long_lists_of_missing_nodes_are_cut(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 2000);
    assert_held(join(&s, 0));
    assert_true(pass(&s, DEADLINE, 0));
    assert_error(
        join(&s, 0), TERN_PEER,
        "node 1, node 2, node 3, node 4, node 5, node 6, node 7, node 8 and 1991 more have "
        "not joined");
    scene_close(&s);
    scene_open(&s, 2);
    assert_held(join(&s, 0));
    assert_true(pass(&s, DEADLINE, 0));
    assert_error(join(&s, 0), TERN_PEER, "node 1 has not joined");
    scene_close(&s);
}

static void addresses_have_at_most_255_bytes(void **state)
{
    (void)state;
    struct scene s;
    char address[256];
    memset(address, 'x', sizeof address);
    scene_open(&s, 1);
    assert_error(ask(&s, 0, FRAME_JOIN, 1, 0, address, 248), TERN_INVALID, "248 bytes");
    struct reply reply = ask(&s, 0, FRAME_JOIN, 1, 0, address, 247);
    assert_kind(reply, FRAME_ROSTER);
    assert_int_equal(reply.frame.body_bytes, 8 + 8 + 2 + 247);
    scene_close(&s);
}

static void the_largest_roster_is_a_frame(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, VIEW_MAX_NODES);
    char address[247] = "";
    for (uint32_t i = 0; i + 1 < VIEW_MAX_NODES; i++)
        assert_held(ask(&s, i, FRAME_JOIN, 1, 0, address, 247));
    struct reply reply = ask(&s, VIEW_MAX_NODES - 1, FRAME_JOIN, 1, 0, address, 247);
    assert_kind(reply, FRAME_ROSTER);
    assert_int_equal(reply.frame.body_bytes, 265 * VIEW_MAX_NODES);
    scene_close(&s);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void nothing_but_join_is_answered_before_join(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 2);
    assert_held(join(&s, 1));
    for (int kind = FRAME_TABLE; kind <= FRAME_BYE; kind++)
        assert_refused(ask(&s, 0, (enum frame_kind)kind, 1, 0, NULL, 0), "before it joined");
    scene_close(&s);
}

static void what_is_no_business_of_the_group_is_refused(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 2);
    for (int kind = 0; kind <= FRAME_KINDS; kind++) {
        if ((kind >= FRAME_JOIN && kind <= FRAME_BROADCAST) || kind == FRAME_PING ||
            kind == FRAME_BYE)
            continue;
        assert_refused(ask(&s, 0, (enum frame_kind)kind, 1, 0, NULL, 0), "does not answer");
    }
    assert_refused(barrier(&s, 2, 1), "node 2, but the group has 2 nodes");
    const struct frame keyed = {.kind = FRAME_BARRIER,
                                .fields.collective.number = 1,
                                .count = 1,
                                .keys_bytes = 8,
                                .body_bytes = 8};
    assert_refused(send(&s, 0, &keyed, "12345678"), "has keys");
    assert_held(barrier(&s, 0, 1));
    scene_close(&s);
}

/* ---- TABLE ----------------------------------------------------------------------------------- */

static void a_name_keeps_its_number(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            struct reply reply = open_table(&s, i, "weights", "shape 1", 7);
            assert_done(reply);
            assert_int_equal(reply.frame.table, 0);
            reply = open_table(&s, 2 - i, "biases", "", 0);
            assert_done(reply);
            assert_int_equal(reply.frame.table, 1);
        }
    }
    assert_error(open_table(&s, 2, "weights", "shape 2", 7), TERN_MISMATCH,
                 "table 'weights' was opened by node 0 first");
    assert_error(open_table(&s, 0, "biases", "x", 1), TERN_MISMATCH,
                 "table 'biases' was opened by node 2 first");
    assert_int_equal(open_table(&s, 2, "weights", "shape 1", 7).frame.table, 0);
    scene_close(&s);
}

static void tables_have_a_limit(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 2);
    for (unsigned i = 0; i < FRAME_MAX_TABLES; i++) {
        struct reply reply = ask(&s, i % 2, FRAME_TABLE, i / 2, 0, i % 2 ? "\1\0b" : "\1\0a", 3);
        assert_done(reply);
        assert_int_equal(reply.frame.table, i);
    }
    assert_error(open_table(&s, 0, "straw", "", 0), TERN_LIMIT, "'straw'");
    assert_int_equal(open_table(&s, 0, "b", "", 0).frame.table, 1);
    scene_close(&s);
}

/* Who has closed a table and opens it again gets another one, of any shape, and the same as all who do. */
static void tables_that_are_opened_again_are_new(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 2);
    assert_int_equal(open_table(&s, 0, "t", "one", 3).frame.table, 0);
    struct reply reply = ask(&s, 0, FRAME_TABLE, 1, 0, "\1\0ttwo", 6);
    assert_done(reply);
    assert_int_equal(reply.frame.table, 1);
    assert_int_equal(open_table(&s, 1, "t", "one", 3).frame.table, 0);
    assert_error(ask(&s, 1, FRAME_TABLE, 1, 0, "\1\0tone", 6), TERN_MISMATCH, "by node 0 first");
    assert_int_equal(ask(&s, 1, FRAME_TABLE, 1, 0, "\1\0ttwo", 6).frame.table, 1);
    scene_close(&s);
}

/* The first to open a table says where all are to have it, be it nowhere; each opening anew. */
static void the_first_to_open_a_table_makes_its_memory(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    assert_int_equal(ask(&s, 1, FRAME_TABLE, 0, 11, "\1\0t", 3).frame.fields.table_done.segment,
                     11);
    assert_int_equal(ask(&s, 0, FRAME_TABLE, 0, 22, "\1\0t", 3).frame.fields.table_done.segment,
                     11);
    assert_int_equal(ask(&s, 1, FRAME_TABLE, 0, 33, "\1\0t", 3).frame.fields.table_done.segment,
                     11);
    assert_int_equal(ask(&s, 0, FRAME_TABLE, 1, 44, "\1\0t", 3).frame.fields.table_done.segment,
                     44);
    assert_int_equal(ask(&s, 2, FRAME_TABLE, 0, 0, "\1\0u", 3).frame.fields.table_done.segment, 0);
    assert_int_equal(ask(&s, 0, FRAME_TABLE, 0, 55, "\1\0u", 3).frame.fields.table_done.segment, 0);
    scene_close(&s);
}

static void malformed_tables_are_errors(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 2);
    char payload[2 + 64 + 513] = {0};
    assert_error(ask(&s, 0, FRAME_TABLE, 0, 0, NULL, 0), TERN_INVALID, "shorter");
    assert_error(ask(&s, 0, FRAME_TABLE, 0, 0, "\1", 1), TERN_INVALID, "shorter");
    assert_error(ask(&s, 0, FRAME_TABLE, 0, 0, "\2\0a", 3), TERN_INVALID, "shorter");
    assert_error(ask(&s, 0, FRAME_TABLE, 0, 0, "\377\377a", 3), TERN_INVALID, "shorter");
    assert_error(ask(&s, 0, FRAME_TABLE, 0, 0, "\0\0a", 3), TERN_INVALID, "empty name");
    assert_error(ask(&s, 0, FRAME_TABLE, 0, 0, "\2\0a\0", 4), TERN_INVALID, "zeros");
    memset(payload + 2, 'n', 64);
    payload[0] = 64;
    assert_error(ask(&s, 0, FRAME_TABLE, 0, 0, payload, 66), TERN_LIMIT, "name of 64 bytes");
    payload[0] = 63;
    assert_error(ask(&s, 0, FRAME_TABLE, 0, 0, payload, 65 + 513), TERN_LIMIT, "shape of 513");
    assert_done(ask(&s, 0, FRAME_TABLE, 0, 0, payload, 65 + 512));
    scene_close(&s);
}

/* ---- Death, PING and BYE --------------------------------------------------------------------- */

static void who_is_heard_of_lives(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, 3);
    join(&s, 0);
    join(&s, 1);
    /* Who waits for the others to join need not be heard of; the deadline begins afterwards. */
    assert_false(pass(&s, DEADLINE - 1, 0));
    join(&s, 2);
    assert_false(pass(&s, DEADLINE - 1, 0));
    for (int i = 0; i < 100; i++)
        assert_false(pass(&s, DEADLINE - 1, 7));
    assert_int_equal(ask(&s, 0, FRAME_PING, 0, 0, NULL, 0).frame.fields.ping_done.dead, 0);
    /* Trying a held request again is not hearing of the member. */
    scene_close(&s);
    join_all(&s, 3);
    for (int i = 0; i < 9; i++) {
        assert_false(pass(&s, SECOND, 3));
        assert_held(barrier(&s, 2, 1));
    }
    assert_true(pass(&s, SECOND, 3));
    struct reply reply = ask(&s, 0, FRAME_PING, 0, 0, NULL, 0);
    assert_done(reply);
    assert_int_equal(reply.frame.fields.ping_done.dead, 1 + 2);
    assert_false(pass(&s, 1, 7));
    assert_int_equal(ask(&s, 0, FRAME_PING, 0, 0, NULL, 0).frame.fields.ping_done.dead, 3);
    assert_error(ask(&s, 2, FRAME_PING, 0, 0, NULL, 0), TERN_PEER, "node 2");
    assert_error(join(&s, 2), TERN_PEER, "nothing was heard of node 2");
    assert_error(ask(&s, 2, FRAME_JOIN, 9, 0, NULL, 0), TERN_PEER, "as another process");
    assert_roster(join(&s, 1), 3);
    /* Time that goes back, and nodes that are none, do no harm. */
    assert_false(group_tick(s.group, 0));
    group_heard(s.group, 3, s.now_ns);
    group_heard(s.group, UINT32_MAX, s.now_ns);
    scene_close(&s);
}

static void the_end_comes_when_all_have_said_bye(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    assert_held(bye(&s, 1));
    assert_held(bye(&s, 0));
    assert_held(bye(&s, 1));
    assert_false(group_is_over(s.group));
    /* Who has left need not be heard of. */
    assert_false(pass(&s, DEADLINE, 4));
    struct reply reply = bye(&s, 2);
    assert_true(reply.changed);
    assert_done(reply);
    assert_true(group_is_over(s.group));
    for (uint32_t i = 0; i < 3; i++)
        assert_done(bye(&s, i));
    scene_close(&s);
}

static void the_coordinator_learns_who_knows_the_end(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    assert_held(bye(&s, 0));
    assert_held(ask(&s, 1, FRAME_BYE, 1, 0, NULL, 0)); /* too early to know */
    assert_done(bye(&s, 2));
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(group_end_is_known(s.group));
        assert_done(ask(&s, i, FRAME_BYE, 1, 0, NULL, 0));
    }
    assert_true(group_end_is_known(s.group));
    scene_close(&s);
}

static void the_end_names_the_dead(void **state)
{
    (void)state;
    struct scene s;
    join_and_die(&s, 3, 1);
    assert_held(bye(&s, 0));
    assert_error(bye(&s, 2), TERN_PEER, "nothing was heard of node 1 for 10 s");
    assert_error(bye(&s, 0), TERN_PEER, "nothing was heard of node 1 for 10 s");
    assert_true(group_is_over(s.group));
    scene_close(&s);
}

/* ---- Leaving alone --------------------------------------------------------------------------- */

static struct reply part(struct scene *s, uint32_t from)
{
    return ask(s, from, FRAME_BYE, 0, 1, NULL, 0);
}

/* A member says that its backups are complete in an epoch. */
static struct reply ping(struct scene *s, uint32_t from, uint32_t formed)
{
    return ask(s, from, FRAME_PING, 0, formed, NULL, 0);
}

static void open_backed(struct scene *s, uint32_t n_backups)
{
    const struct frame request = {
        .kind = FRAME_TABLE, .table = (uint16_t)n_backups, .number = ++s->number, .body_bytes = 3};
    assert_done(send(s, 1, &request, "\1\0t"));
}

static void a_member_that_leaves_alone_waits_for_all_backups(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    open_backed(&s, 1);
    assert_held(part(&s, 2));
    assert_held(part(&s, 2));
    assert_held(part(&s, 1)); /* one at a time */
    for (uint32_t i = 0; i < 3; i++)
        assert_false(ping(&s, i, EPOCH).changed);
    assert_held(barrier(&s, 0, 1));
    assert_false(ping(&s, 0, EPOCH + 1).changed);
    assert_false(ping(&s, 2, EPOCH + 1).changed);
    assert_false(ping(&s, 0, 0).changed); /* not any more */
    struct reply reply = ping(&s, 1, EPOCH + 1);
    assert_false(reply.changed);
    assert_int_equal(reply.frame.epoch, EPOCH + 1);
    reply = ping(&s, 0, EPOCH + 1);
    assert_true(reply.changed);
    assert_int_equal(reply.frame.epoch, EPOCH + 2);
    assert_done(part(&s, 2));
    assert_done(part(&s, 2));
    assert_int_equal(ping(&s, 2, 0).served, SERVED);
    assert_error(barrier(&s, 2, 1), TERN_CLOSED, "node 2 has left the job");
    assert_error(join(&s, 2), TERN_CLOSED, "node 2 has left the job");
    assert_true(barrier(&s, 1, 1).served == SERVED);
    assert_held(part(&s, 1));
    assert_false(ping(&s, 0, EPOCH + 3).changed);
    assert_true(ping(&s, 1, EPOCH + 3).changed);
    assert_done(part(&s, 1));
    assert_done(bye(&s, 0));
    assert_true(group_end_is_known(s.group) || group_is_over(s.group));
    scene_close(&s);
}

static void a_death_does_not_end_a_leave(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 4);
    open_backed(&s, 1);
    assert_held(part(&s, 2));
    assert_true(group_ended(s.group, 3));
    for (uint32_t i = 0; i < 2; i++)
        assert_false(ping(&s, i, EPOCH + 2).changed);
    assert_true(ping(&s, 2, EPOCH + 2).changed);
    assert_done(part(&s, 2));
    /* Nor is one that dies itself awaited. */
    assert_held(part(&s, 1));
    assert_true(group_ended(s.group, 1));
    assert_error(part(&s, 1), TERN_PEER, "was given up");
    scene_close(&s);
}

static void some_cannot_leave_alone(void **state)
{
    (void)state;
    struct scene s;
    join_all(&s, 3);
    assert_error(part(&s, 1), TERN_INVALID, "no table was opened yet");
    open_backed(&s, 1);
    assert_error(part(&s, 0), TERN_INVALID, "node 0 coordinates the job");
    assert_held(bye(&s, 1));
    assert_error(part(&s, 1), TERN_CLOSED, "node 1 has left the job");
    assert_done(open_table(&s, 0, "other", "", 0));
    assert_error(part(&s, 2), TERN_INVALID, "table 'other' has no backups");
    scene_close(&s);
    join_and_die(&s, 3, 1);
    assert_error(part(&s, 2), TERN_PEER, "node 1");
    scene_close(&s);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void a_group_without_memory_is_null(void **state)
{
    (void)state;
    const struct view *view = view_of(3);
    for (uint64_t n = 1; n <= 3; n++) {
        check_forget();
        alloc_fail_at(n);
        assert_null(group_new(view, DEADLINE, 0));
        alloc_fail_at(0);
        assert_non_null(strstr(tern_error(), "no memory for a group of 3 nodes"));
    }
    group_free(NULL);
}

/* The n-th allocation of a request fails. */
static struct reply starve(struct scene *s, uint64_t n, uint32_t from, enum frame_kind kind,
                           uint64_t a, uint64_t b, const void *payload, size_t bytes)
{
    alloc_fail_at(n);
    struct reply reply = ask(s, from, kind, a, b, payload, bytes);
    alloc_fail_at(0);
    return reply;
}

static void without_memory_requests_fail_and_can_be_sent_again(void **state)
{
    (void)state;
    static char large[MIB];
    struct scene s;
    join_all(&s, 2);
    assert_error(starve(&s, 1, 0, FRAME_TABLE, 0, 0, "\1\0t", 3), TERN_NO_MEMORY, "'t'");
    assert_done(open_table(&s, 0, "t", "", 0));
    /* A part that could not be kept fails the reduction for all. */
    assert_held(ask(&s, 0, FRAME_REDUCE, 1, TERN_F32, large, 8));
    assert_error(starve(&s, 1, 1, FRAME_REDUCE, 1, TERN_F32, large, 8), TERN_NO_MEMORY,
                 "reduction 1: no memory");
    assert_error(ask(&s, 0, FRAME_REDUCE, 1, TERN_F32, large, 8), TERN_NO_MEMORY, "reduction 1");
    assert_error(starve(&s, 1, 0, FRAME_BROADCAST, 1, 0, "x", 1), TERN_NO_MEMORY, "broadcast 1");
    assert_error(ask(&s, 1, FRAME_BROADCAST, 1, 0, NULL, 0), TERN_NO_MEMORY, "broadcast 1");
    /* A reply that could not be made is an ERROR, and can be asked for again. */
    assert_error(starve(&s, 2, 0, FRAME_BROADCAST, 2, 0, large, MIB), TERN_NO_MEMORY, "BROADCAST");
    assert_values(ask(&s, 0, FRAME_BROADCAST, 2, 0, large, MIB), large, MIB);
    /* Not even that. */
    buffer_free(&s.out);
    alloc_fail_from(1);
    struct reply reply = join(&s, 0);
    alloc_fail_at(0);
    assert_refused(reply, "no memory to answer JOIN of node 0");
    assert_roster(join(&s, 0), 2);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_roster_comes_when_all_have_joined),
        cmocka_unit_test(a_group_of_one_is_complete_at_once),
        cmocka_unit_test(a_member_that_leaves_alone_waits_for_all_backups),
        cmocka_unit_test(a_death_does_not_end_a_leave),
        cmocka_unit_test(some_cannot_leave_alone),
        cmocka_unit_test(another_process_cannot_join_in_a_members_place),
        cmocka_unit_test(another_process_is_too_early_when_all_have_left),
        cmocka_unit_test(who_does_not_join_in_time_is_named),
        cmocka_unit_test(long_lists_of_missing_nodes_are_cut),
        cmocka_unit_test(addresses_have_at_most_255_bytes),
        cmocka_unit_test(the_largest_roster_is_a_frame),
        cmocka_unit_test(nothing_but_join_is_answered_before_join),
        cmocka_unit_test(what_is_no_business_of_the_group_is_refused),
        cmocka_unit_test(a_name_keeps_its_number),
        cmocka_unit_test(tables_have_a_limit),
        cmocka_unit_test(tables_that_are_opened_again_are_new),
        cmocka_unit_test(the_first_to_open_a_table_makes_its_memory),
        cmocka_unit_test(malformed_tables_are_errors),
        cmocka_unit_test(who_is_heard_of_lives),
        cmocka_unit_test(the_end_comes_when_all_have_said_bye),
        cmocka_unit_test(the_coordinator_learns_who_knows_the_end),
        cmocka_unit_test(the_end_names_the_dead),
        cmocka_unit_test(a_group_without_memory_is_null),
        cmocka_unit_test(without_memory_requests_fail_and_can_be_sent_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
