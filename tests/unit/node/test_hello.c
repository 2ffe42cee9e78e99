/* test_hello - the handshake: who has the token is let in, and nobody else learns anything. */
#include <string.h>

#include "node/hello.h"
#include "node/launch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { INCARNATION = 0x5eedf00d };

static const struct view view = {.epoch = 1, .n_nodes = 3};
static const struct core caller_core = {.node = 1, .view = &view, .incarnation = INCARNATION};
static const struct core called_core = {.node = 2, .view = &view, .incarnation = 77};

/* A handshake of two sides, step by step. */
struct talk {
    struct launch caller_place, called_place;
    struct handshake caller, called;
    struct buffer out;
    struct frame frame;
    const uint8_t *body;
};

static struct talk *new_talk(const char *caller_token, const char *called_token)
{
    static struct talk talk;
    buffer_free(&talk.out);
    talk = (struct talk){.caller_place = {.node = 1, .n_nodes = 3},
                         .called_place = {.node = 2, .n_nodes = 3}};
    strcpy(talk.caller_place.token, caller_token);
    strcpy(talk.called_place.token, called_token);
    return &talk;
}

/* Takes the one frame that was appended. */
static void deliver(struct talk *talk)
{
    static uint8_t bytes[FRAME_HEADER_BYTES + HELLO_MAX_BYTES];
    size_t n = buffer_size(&talk->out);
    assert_in_range(n, FRAME_HEADER_BYTES, sizeof bytes);
    memcpy(bytes, buffer_head(&talk->out), n);
    buffer_consume(&talk->out, n);
    assert_int_equal(frame_decode(bytes, &talk->frame), TERN_OK);
    assert_int_equal(FRAME_HEADER_BYTES + talk->frame.body_bytes, n);
    talk->body = bytes + FRAME_HEADER_BYTES;
}

static void call(struct talk *talk)
{
    assert_true(hello_call(&talk->caller, &caller_core, 5, 1, 2, &talk->out));
    deliver(talk);
}

static void challenge(struct talk *talk)
{
    assert_int_equal(hello_challenge(&talk->called, &talk->frame, talk->body, &talk->called_place,
                                     &called_core, &talk->out),
                     TERN_OK);
    deliver(talk);
}

static enum tern_status prove(struct talk *talk)
{
    return hello_prove(&talk->caller, &talk->frame, talk->body, &talk->caller_place, &talk->out);
}

static enum tern_status check(struct talk *talk)
{
    return hello_check(&talk->called, &talk->frame, talk->body, &talk->called_place);
}

static void both_have_the_token(void **state)
{
    (void)state;
    struct talk *talk = new_talk("secret", "secret");
    call(talk);
    assert_int_equal(talk->frame.fields.proof.incarnation, 0); /* the incarnation is not told yet */
    challenge(talk);
    assert_int_equal(talk->frame.fields.proof.incarnation, 0);
    assert_int_equal(prove(talk), TERN_OK);
    deliver(talk);
    assert_int_equal(check(talk), TERN_OK);
    assert_int_equal(talk->called.hello.node, 1);
    assert_int_equal(talk->called.hello.shard, 1);
    assert_int_equal(talk->called.hello.lane, 5);
    assert_int_equal(talk->called.hello.incarnation, INCARNATION);
}

static void a_called_node_without_the_token_learns_nothing(void **state)
{
    (void)state;
    struct talk *talk = new_talk("secret", "guess");
    call(talk);
    challenge(talk);
    assert_int_equal(prove(talk), TERN_PEER);
    assert_non_null(strstr(tern_error(), "TERN_TOKEN"));
    assert_int_equal(buffer_size(&talk->out), 0);
}

/* The caller ignores what the challenge proves, and sends a proof under a token of its own. */
static void a_caller_without_the_token_is_refused(void **state)
{
    (void)state;
    struct talk *talk = new_talk("guess", "guess");
    call(talk);
    challenge(talk);
    assert_int_equal(prove(talk), TERN_OK);
    deliver(talk);
    strcpy(talk->called_place.token, "secret");
    assert_int_equal(check(talk), TERN_PEER);
    assert_non_null(strstr(tern_error(), "TERN_TOKEN"));
}

/* Each bit of PROOF that a caller chooses is covered. */
static void a_changed_proof_is_refused(void **state)
{
    (void)state;
    struct talk *talk = new_talk("secret", "secret");
    for (uint32_t i = 0; i < 8 * HELLO_PROOF_BYTES + 64; i++) {
        call(talk);
        challenge(talk);
        assert_int_equal(prove(talk), TERN_OK);
        deliver(talk);
        uint8_t body[HELLO_PROOF_BYTES];
        memcpy(body, talk->body, sizeof body);
        if (i < 8 * HELLO_PROOF_BYTES)
            body[i / 8] ^= (uint8_t)(1 << i % 8);
        else
            talk->frame.fields.proof.incarnation ^= UINT64_C(1) << (i - 8 * HELLO_PROOF_BYTES);
        talk->body = body;
        assert_int_equal(check(talk), TERN_PEER);
    }
}

/* A recorded proof answers no other challenge, and a challenge is no proof. */
static void nothing_can_be_sent_again(void **state)
{
    (void)state;
    struct talk *talk = new_talk("secret", "secret");
    call(talk);
    challenge(talk);
    struct frame frame = {.kind = FRAME_PROOF, .body_bytes = HELLO_PROOF_BYTES};
    uint8_t recorded[HELLO_PROOF_BYTES];
    memcpy(recorded, talk->body + HELLO_NONCE_BYTES, sizeof recorded);
    assert_int_equal(hello_check(&talk->called, &frame, recorded, &talk->called_place), TERN_PEER);
    assert_int_equal(prove(talk), TERN_OK);
    deliver(talk);
    memcpy(recorded, talk->body, sizeof recorded);
    frame = talk->frame;
    call(talk);
    challenge(talk);
    assert_int_equal(hello_check(&talk->called, &frame, recorded, &talk->called_place), TERN_PEER);
}

static void another_cluster_is_refused(void **state)
{
    (void)state;
    struct talk *talk = new_talk("secret", "secret");
    talk->called_place.n_nodes = 4;
    call(talk);
    challenge(talk);
    assert_int_equal(prove(talk), TERN_OK);
    deliver(talk);
    assert_int_equal(check(talk), TERN_PEER);
    assert_non_null(strstr(tern_error(), "4 nodes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_have_the_token),
        cmocka_unit_test(a_called_node_without_the_token_learns_nothing),
        cmocka_unit_test(a_caller_without_the_token_is_refused),
        cmocka_unit_test(a_changed_proof_is_refused),
        cmocka_unit_test(nothing_can_be_sent_again),
        cmocka_unit_test(another_cluster_is_refused),
    };
    return cmocka_run_group_tests_name("hello", tests, NULL, NULL);
}
