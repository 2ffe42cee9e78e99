/*
 * The coordinator: what each request is answered with, when it is held, and how it fails; that trying
 * again and sending again change nothing; that hostile requests are answered, not followed.
 *
 * Every request goes through ask(), which checks what holds for all: at most one reply, whole, with the
 * request's number, the epoch and a right body check; a sentence with every failure.
 */
#include "core/group.h" /* before cmocka, whose macro fail() would hide the function */

#include "support/check.h"
#include "support/view.h"
#include "support/alloc.h"

enum { EPOCH = TEST_EPOCH, SHARDS = 2, MAX_NODES = 9, MIB = 1 << 20 };

#define SECOND UINT64_C(1000000000)
#define DEADLINE (10 * SECOND)
#define BEGIN (1000 * SECOND)

/* ---- A group to ask -------------------------------------------------------------------------- */

struct scene {
    struct group *group;
    struct buffer out;
    uint64_t now_ns;
    uint64_t number;
};

struct reply {
    enum served served;
    bool changed;
    struct frame frame;  /* if SERVED */
    const char *payload; /* valid until the next one */
};

static void scene_open(struct scene *scene, uint32_t n_nodes)
{
    *scene = (struct scene){.now_ns = BEGIN};
    scene->group = group_new(view_of(n_nodes), DEADLINE, BEGIN);
    group_set_shards(scene->group, SHARDS);
    assert_non_null(scene->group);
}

static void scene_close(struct scene *scene)
{
    group_free(scene->group);
    buffer_free(&scene->out);
}

static void check_reply(struct scene *scene, const struct frame *request, struct reply *reply)
{
    if (reply->served != SERVED) {
        assert_int_equal(buffer_size(&scene->out), 0);
        if (reply->served == REFUSED)
            assert_true(strlen(tern_error()) > 10);
        return;
    }
    assert_true(buffer_size(&scene->out) >= FRAME_HEADER_BYTES);
    ok(frame_decode(buffer_head(&scene->out), &reply->frame));
    const struct frame *frame = &reply->frame;
    const uint8_t *body = buffer_head(&scene->out) + FRAME_HEADER_BYTES;
    assert_int_equal(buffer_size(&scene->out), FRAME_HEADER_BYTES + frame->body_bytes);
    assert_int_equal(frame->number, request->number);
    assert_int_equal(frame->epoch, EPOCH);
    assert_int_equal(frame->count, 0);
    assert_int_equal(frame->flags, request->flags & FRAME_CHECKED);
    if (frame->flags & FRAME_CHECKED)
        assert_int_equal(frame->body_check, frame_body_check(body, frame->body_bytes));
    if (frame->kind == FRAME_ERROR)
        assert_true(frame->body_bytes > 10);
    reply->payload = (const char *)body;
}

static struct reply send(struct scene *scene, uint32_t from, const struct frame *request,
                         const void *payload)
{
    buffer_consume(&scene->out, buffer_size(&scene->out));
    check_forget();
    struct reply reply = {0};
    reply.served = group_request(scene->group, from, request, payload, scene->now_ns, &scene->out,
                                 &reply.changed);
    check_reply(scene, request, &reply);
    return reply;
}

static struct reply ask(struct scene *scene, uint32_t from, enum frame_kind kind, uint64_t a,
                        uint64_t b, const void *payload, size_t bytes)
{
    const uint64_t number = ++scene->number;
    const struct frame request = {
        .kind = kind,
        .flags = number % 2 ? FRAME_CHECKED : 0,
        .epoch = EPOCH,
        .number = number,
        .fields.raw = {a, b},
        .body_bytes = (uint32_t)bytes,
    };
    return send(scene, from, &request, payload);
}

static struct reply join(struct scene *scene, uint32_t node)
{
    char address[32];
    int bytes = snprintf(address, sizeof address, "10.0.0.%u:%u", node, 7000 + node);
    return ask(scene, node, FRAME_JOIN, 100 + node, 0, address, (size_t)bytes);
}

static void join_all(struct scene *scene, uint32_t n_nodes)
{
    scene_open(scene, n_nodes);
    for (uint32_t i = 0; i < n_nodes; i++)
        assert_int_equal(join(scene, i).served, i + 1 < n_nodes ? HELD : SERVED);
}

static struct reply open_table(struct scene *scene, uint32_t from, const char *name,
                               const void *shape_of, size_t shape_bytes)
{
    uint8_t payload[1024];
    const size_t name_bytes = strlen(name);
    payload[0] = (uint8_t)name_bytes;
    payload[1] = (uint8_t)(name_bytes >> 8);
    memcpy(payload + 2, name, name_bytes);
    memcpy(payload + 2 + name_bytes, shape_of, shape_bytes);
    return ask(scene, from, FRAME_TABLE, 0, 0, payload, 2 + name_bytes + shape_bytes);
}

static struct reply barrier(struct scene *scene, uint32_t from, uint64_t number)
{
    return ask(scene, from, FRAME_BARRIER, number, 0, NULL, 0);
}

static struct reply bye(struct scene *scene, uint32_t from)
{
    return ask(scene, from, FRAME_BYE, 0, 0, NULL, 0);
}

static void assert_held(struct reply reply)
{
    assert_int_equal(reply.served, HELD);
}

static void assert_refused(struct reply reply, const char *word)
{
    assert_int_equal(reply.served, REFUSED);
    if (!strstr(tern_error(), word))
        fail_msg("the sentence does not say '%s': %s", word, tern_error());
}

static void assert_kind(struct reply reply, enum frame_kind kind)
{
    assert_int_equal(reply.served, SERVED);
    if (reply.frame.kind == FRAME_ERROR && kind != FRAME_ERROR)
        fail_msg("ERROR instead of %s: %.*s", frame_kind_name(kind), (int)reply.frame.body_bytes,
                 reply.payload);
    assert_int_equal(reply.frame.kind, kind);
}

static void assert_done(struct reply reply)
{
    assert_kind(reply, FRAME_DONE);
    assert_int_equal(reply.frame.body_bytes, 0);
}

static void assert_values(struct reply reply, const void *values, size_t bytes)
{
    assert_kind(reply, FRAME_VALUES);
    assert_int_equal(reply.frame.body_bytes, bytes);
    assert_memory_equal(reply.payload, values, bytes);
}

static void assert_error(struct reply reply, enum tern_status status, const char *words)
{
    assert_kind(reply, FRAME_ERROR);
    assert_int_equal(reply.frame.status, status);
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%.*s", (int)reply.frame.body_bytes, reply.payload);
    if (!strstr(sentence, words))
        fail_msg("the sentence does not say '%s': %s", words, sentence);
}

/* Lets time pass in which the members of the mask are heard of and the coordinator looks around. */
static bool pass(struct scene *scene, uint64_t ns, unsigned heard)
{
    bool changed = false;
    do {
        const uint64_t step_ns = ns < DEADLINE / 4 ? ns : DEADLINE / 4;
        scene->now_ns += step_ns;
        ns -= step_ns;
        for (uint32_t i = 0; i < MAX_NODES; i++)
            if (heard >> i & 1)
                group_heard(scene->group, i, scene->now_ns);
        changed |= group_tick(scene->group, scene->now_ns);
    } while (ns > 0);
    return changed;
}

/* Node `dead` of n has died. */
static void join_and_die(struct scene *scene, uint32_t n_nodes, uint32_t dead)
{
    join_all(scene, n_nodes);
    assert_false(pass(scene, DEADLINE - 1, ~(1u << dead)));
    assert_true(pass(scene, 1, ~(1u << dead)));
}

/* ---- JOIN ------------------------------------------------------------------------------------ */

static uint64_t get_le(const char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | (uint8_t)at[i];
    return value;
}

static void assert_roster(struct reply reply, uint32_t n_nodes)
{
    assert_kind(reply, FRAME_ROSTER);
    assert_int_equal(reply.frame.fields.roster.epoch, EPOCH);
    assert_int_equal(reply.frame.fields.roster.n_shards, SHARDS);
    const char *at = reply.payload;
    for (uint32_t i = 0; i < n_nodes; i++) {
        char address[32];
        size_t bytes = (size_t)snprintf(address, sizeof address, "10.0.0.%u:%u", i, 7000 + i);
        assert_int_equal(get_le(at, 8), 100 + i);
        assert_int_equal(get_le(at + 8, 8), 0);
        assert_int_equal(get_le(at + 16, 2), bytes);
        assert_memory_equal(at + 18, address, bytes);
        at += 18 + bytes;
    }
    assert_ptr_equal(at, reply.payload + reply.frame.body_bytes);
}

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

/* ---- Random schedules ------------------------------------------------------------------------ */

/*
 * All members run the same script. A held request is tried again only when the group says that
 * something has changed, so a change it does not report shows as a hang. In between, any request that
 * was ever sent is sent again: one that was answered must get the same bytes, except that sums and
 * broadcasts that all have left behind may be past.
 */
enum { MAX_STEPS = 40 };

struct step {
    enum frame_kind kind;
    uint64_t a, b;
    size_t bytes;
};

struct actor {
    size_t at;    /* its step; n_steps: done */
    size_t end;   /* where it dies, or n_steps */
    bool waiting; /* the step is held */
    char *answers[MAX_STEPS];
    size_t answer_bytes[MAX_STEPS];
};

struct play {
    struct scene scene;
    struct dice dice;
    uint32_t n_nodes;
    size_t n_steps;
    struct step steps[MAX_STEPS];
    struct actor actors[MAX_NODES];
    bool buried; /* who dies has died, and the group knows */
    uint64_t n_answered, n_repeated, n_failed;
};

static void write_script(struct play *play)
{
    static const enum frame_kind kinds[] = {FRAME_TABLE, FRAME_BARRIER, FRAME_REDUCE,
                                            FRAME_BROADCAST};
    uint64_t numbers[FRAME_KINDS] = {0};
    play->n_steps = 3 + dice_below(&play->dice, MAX_STEPS - 3);
    play->steps[0] = (struct step){.kind = FRAME_JOIN};
    for (size_t i = 1; i + 1 < play->n_steps; i++) {
        struct step *step = &play->steps[i];
        step->kind = kinds[dice_below(&play->dice, COUNT(kinds))];
        step->a = ++numbers[step->kind];
        step->b = step->kind == FRAME_REDUCE ? dice_below(&play->dice, 4)
                                             : dice_below(&play->dice, play->n_nodes);
        step->bytes = 8 * dice_below(&play->dice, 20);
    }
    play->steps[play->n_steps - 1] = (struct step){.kind = FRAME_BYE};
}

/* What a node gives to a reduction or broadcast: small integers of the type, or any bytes. */
static void fill_payload(const struct step *step, uint32_t node, uint64_t *payload)
{
    enum tern_type type = step->kind == FRAME_REDUCE ? (enum tern_type)step->b : TERN_I64;
    for (size_t i = 0; i < step->bytes / element_size(type); i++)
        element_put(type, payload, i, (double)(scattered(step->a * 100 + i) % 1000 + node));
}

static struct reply perform(struct play *play, uint32_t node, size_t at)
{
    const struct step *step = &play->steps[at];
    uint64_t payload[20] = {0};
    play->scene.number = at; /* the same request has the same number */
    switch (step->kind) {
    case FRAME_JOIN:
        return join(&play->scene, node);
    case FRAME_TABLE: {
        char name[2] = {(char)('a' + step->b), 0};
        return open_table(&play->scene, node, name, name, 1);
    }
    case FRAME_REDUCE:
        fill_payload(step, node, payload);
        return ask(&play->scene, node, FRAME_REDUCE, step->a, step->b, payload, step->bytes);
    case FRAME_BROADCAST:
        fill_payload(step, node, payload);
        return ask(&play->scene, node, FRAME_BROADCAST, step->a, step->b, payload,
                   node == step->b ? step->bytes : 0);
    default:
        return ask(&play->scene, node, step->kind, step->a, 0, NULL, 0);
    }
}

static void check_answer(const struct play *play, size_t at, struct reply reply)
{
    const struct step *step = &play->steps[at];
    uint64_t expected[20] = {0}, part[20] = {0};
    switch (step->kind) {
    case FRAME_JOIN:
        assert_roster(reply, play->n_nodes);
        return;
    case FRAME_REDUCE: {
        enum tern_type type = (enum tern_type)step->b;
        for (uint32_t node = 0; node < play->n_nodes; node++) {
            fill_payload(step, node, part);
            for (size_t i = 0; i < step->bytes / element_size(type); i++)
                element_put(type, expected, i,
                            element_get(type, expected, i) + element_get(type, part, i));
        }
        assert_values(reply, expected, step->bytes);
        return;
    }
    case FRAME_BROADCAST:
        fill_payload(step, (uint32_t)step->b, expected);
        assert_values(reply, expected, step->bytes);
        return;
    default:
        assert_done(reply);
    }
}

static bool is_failure(struct reply reply)
{
    return reply.served == SERVED && reply.frame.kind == FRAME_ERROR;
}

static void keep_answer(struct play *play, uint32_t node, struct reply reply)
{
    struct actor *actor = &play->actors[node];
    const size_t bytes = buffer_size(&play->scene.out);
    if (is_failure(reply)) {
        assert_int_equal(reply.frame.status, TERN_PEER);
        play->n_failed++;
    } else {
        check_answer(play, actor->at, reply);
    }
    actor->answers[actor->at] = array_of(bytes, 1);
    memcpy(actor->answers[actor->at], buffer_head(&play->scene.out), bytes);
    actor->answer_bytes[actor->at] = bytes;
    actor->waiting = false;
    actor->at++;
    play->n_answered++;
}

/* Tries the step of a member; true if others should try theirs. */
static bool try_step(struct play *play, uint32_t node)
{
    struct actor *actor = &play->actors[node];
    struct reply reply = perform(play, node, actor->at);
    assert_int_not_equal(reply.served, REFUSED);
    actor->waiting = reply.served == HELD;
    if (reply.served == SERVED)
        keep_answer(play, node, reply);
    return reply.changed;
}

static void try_held(struct play *play)
{
    for (bool changed = true; changed;) {
        changed = false;
        const uint32_t first = (uint32_t)dice_below(&play->dice, play->n_nodes);
        for (uint32_t i = 0; i < play->n_nodes; i++) {
            uint32_t node = (first + i) % play->n_nodes;
            if (play->actors[node].waiting)
                changed |= try_step(play, node);
        }
    }
}

/* Whether the group knows that the member has died. */
static bool is_gone(const struct play *play, uint32_t node)
{
    return play->buried && play->actors[node].end < play->n_steps;
}

static bool is_past(const struct play *play, size_t at)
{
    if (play->steps[at].kind != FRAME_REDUCE && play->steps[at].kind != FRAME_BROADCAST)
        return false;
    for (uint32_t i = 0; i < play->n_nodes; i++)
        if (play->actors[i].at <= at && !is_gone(play, i))
            return false;
    return true;
}

/* Sends a step again that is answered or held. */
static bool repeat_step(struct play *play, uint32_t node)
{
    struct actor *actor = &play->actors[node];
    const size_t n_sent = actor->at + actor->waiting;
    if (n_sent == 0)
        return false;
    const size_t at = dice_below(&play->dice, n_sent);
    if (at == actor->at)
        return try_step(play, node);
    struct reply reply = perform(play, node, at);
    play->n_repeated++;
    assert_false(reply.changed);
    assert_int_equal(reply.served, SERVED);
    if (is_failure(reply) && reply.frame.status == TERN_INVALID) {
        assert_true(is_past(play, at));
        assert_error(reply, TERN_INVALID, "is past");
        return false;
    }
    assert_int_equal(buffer_size(&play->scene.out), actor->answer_bytes[at]);
    assert_memory_equal(buffer_head(&play->scene.out), actor->answers[at], actor->answer_bytes[at]);
    return false;
}

static bool is_finished(const struct actor *actor)
{
    return actor->at >= actor->end;
}

static bool all_wait(const struct play *play)
{
    for (uint32_t i = 0; i < play->n_nodes; i++)
        if (!is_finished(&play->actors[i]) && !play->actors[i].waiting)
            return false;
    return true;
}

/* Time passes in which only those are heard of that will not die. */
static void bury(struct play *play)
{
    unsigned living = 0;
    for (uint32_t i = 0; i < play->n_nodes; i++)
        if (play->actors[i].end == play->n_steps)
            living |= 1u << i;
    assert_true(pass(&play->scene, DEADLINE, living));
    play->buried = true;
    for (uint32_t i = 0; i < play->n_nodes; i++)
        if (play->actors[i].end < play->n_steps)
            play->actors[i].waiting = false;
}

static void run_play(struct play *play, bool somebody_dies)
{
    for (;;) {
        if (all_wait(play)) {
            if (play->buried || !somebody_dies)
                break;
            bury(play);
            try_held(play);
            continue;
        }
        uint32_t node = (uint32_t)dice_below(&play->dice, play->n_nodes);
        struct actor *actor = &play->actors[node];
        bool changed = false;
        if (dice_below(&play->dice, 3) == 0 && !is_gone(play, node))
            changed = repeat_step(play, node);
        else if (!is_finished(actor) && !actor->waiting)
            changed = try_step(play, node);
        if (changed)
            try_held(play);
    }
    for (uint32_t i = 0; i < play->n_nodes; i++)
        if (play->actors[i].end == play->n_steps)
            assert_int_equal(play->actors[i].at, play->n_steps);
    assert_true(group_is_over(play->scene.group));
}

static void play_seed(uint64_t seed, bool somebody_dies, uint64_t *n_repeated, uint64_t *n_failed)
{
    struct play *play = array_of(1, sizeof *play);
    play->dice.state = seed;
    play->n_nodes = 2 + (uint32_t)dice_below(&play->dice, MAX_NODES - 2);
    scene_open(&play->scene, play->n_nodes);
    write_script(play);
    for (uint32_t i = 0; i < play->n_nodes; i++)
        play->actors[i].end = play->n_steps;
    if (somebody_dies) /* after it joined, and before BYE */
        play->actors[dice_below(&play->dice, play->n_nodes)].end =
            1 + dice_below(&play->dice, play->n_steps - 2);
    run_play(play, somebody_dies);
    if (!somebody_dies)
        assert_int_equal(play->n_answered, play->n_nodes * play->n_steps);
    *n_repeated += play->n_repeated;
    *n_failed += play->n_failed;
    for (uint32_t i = 0; i < play->n_nodes; i++)
        for (size_t at = 0; at < play->n_steps; at++)
            free(play->actors[i].answers[at]);
    scene_close(&play->scene);
    free(play);
}

static void sending_again_at_any_moment_changes_nothing(void **state)
{
    (void)state;
    uint64_t n_repeated = 0, n_failed = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++)
        play_seed(seed, false, &n_repeated, &n_failed);
    assert_int_equal(n_failed, 0);
    assert_true(n_repeated > 10000);
}

static void after_a_death_everybody_gets_an_answer(void **state)
{
    (void)state;
    uint64_t n_repeated = 0, n_failed = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++)
        play_seed(seed, true, &n_repeated, &n_failed);
    assert_true(n_failed > 1000);
    assert_true(n_repeated > 10000);
}

/* ---- Hostile requests ------------------------------------------------------------------------ */

static uint64_t hostile_number(struct dice *dice)
{
    static const uint64_t numbers[] = {0, 1, 2, 3, 4, 255, UINT32_MAX, UINT64_MAX - 1, UINT64_MAX};
    return dice_below(dice, 4) == 0 ? dice_roll(dice) : numbers[dice_below(dice, COUNT(numbers))];
}

static void hostile_requests_get_an_answer(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 4, 8, 64, 255, 256, 600, 4096, MIB, MIB + 8};
    static uint8_t noise[MIB + 8];
    struct dice dice = {3};
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)dice_roll(&dice);
    uint64_t n_served = 0;
    for (int round = 0; round < 100; round++) {
        struct scene s;
        scene_open(&s, 4);
        for (uint32_t i = 0; i < dice_below(&dice, 5); i++)
            join(&s, i);
        for (int i = 0; i < 500; i++) {
            const size_t size = sizes[dice_below(&dice, dice_below(&dice, 8) ? 10 : COUNT(sizes))];
            const size_t skip = dice_below(&dice, sizeof noise - size + 1);
            /* At the end of its memory, so that a sanitizer sees who reads on. */
            uint8_t *body = array_of(size, 1);
            memcpy(body, noise + skip, size);
            if (dice_below(&dice, 2) && size >= 2)
                body[1] = 0;
            enum frame_kind kind = (enum frame_kind)dice_below(&dice, FRAME_KINDS + 1);
            struct reply reply = ask(&s, (uint32_t)dice_below(&dice, 5), kind,
                                     hostile_number(&dice), hostile_number(&dice), body, size);
            n_served += reply.served == SERVED;
            free(body);
            pass(&s, dice_below(&dice, SECOND), (unsigned)dice_below(&dice, 16));
        }
        scene_close(&s);
    }
    assert_true(n_served > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_roster_comes_when_all_have_joined),
        cmocka_unit_test(a_group_of_one_is_complete_at_once),
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
        cmocka_unit_test(who_is_heard_of_lives),
        cmocka_unit_test(the_end_comes_when_all_have_said_bye),
        cmocka_unit_test(the_end_names_the_dead),
        cmocka_unit_test(a_group_without_memory_is_null),
        cmocka_unit_test(without_memory_requests_fail_and_can_be_sent_again),
        cmocka_unit_test(sending_again_at_any_moment_changes_nothing),
        cmocka_unit_test(after_a_death_everybody_gets_an_answer),
        cmocka_unit_test(hostile_requests_get_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
