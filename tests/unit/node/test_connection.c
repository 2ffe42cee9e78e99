/*
 * Frames pass a connection whole, in order and unchanged, however the stream cuts them: also when a body
 * is read straight to where it belongs, and when bytes of somebody else are sent behind the buffer.
 */
#include "node/connection.h" /* before cmocka.h, whose fail() is a macro */

#include "support/check.h"

enum {
    FRAMES = 400,
    MAX_BODY = 100000,
    ROOM = 64 << 10, /* of the streams, less than the longest frame */
};

/* Byte i of the body of frame k. */
static uint8_t byte_of(size_t k, size_t i)
{
    return (uint8_t)(k * 31 + i * 7 + i / 251);
}

/* Bodies of all sizes, small ones more often. */
static size_t body_bytes(size_t k)
{
    return (k * UINT64_C(2654435761) >> 7) % MAX_BODY >> k % 12;
}

/* Puts frame k into the connection: its body into the buffer, or some of it behind. */
static void prepare(struct connection *connection, size_t k, uint8_t *body)
{
    size_t n = body_bytes(k), n_behind = k % 3 == 0 ? n : k % 3 == 1 ? n / 2 : 0;
    struct frame frame = {.kind = FRAME_VALUES, .number = k, .body_bytes = (uint32_t)n};
    uint8_t header[FRAME_HEADER_BYTES];
    for (size_t i = 0; i < n; i++)
        body[i] = byte_of(k, i);
    frame_encode(&frame, header);
    assert_true(buffer_append(&connection->out, header, sizeof header));
    assert_true(buffer_append(&connection->out, body, n - n_behind));
    connection->rest = (struct slice){body + n - n_behind, n_behind};
    assert_int_equal(connection_unsent(connection), FRAME_HEADER_BYTES + n);
}

/* Takes the next frame if it is there whole; one in two that is not is read to `place`. */
static bool take(struct connection *connection, size_t k, uint8_t *place, size_t *n_in_place)
{
    const uint8_t *body;
    enum cut found = cutter_next(&connection->cutter, FRAME_MAX_BODY_BYTES, &body);
    assert_int_not_equal(found, CUT_NONSENSE);
    if (found == CUT_NOTHING) {
        if (connection->cutter.has_header && !connection->cutter.target && k % 2)
            cutter_receive_at(&connection->cutter, place);
        return false;
    }
    assert_int_equal(connection->cutter.frame.number, k);
    assert_int_equal(connection->cutter.frame.body_bytes, body_bytes(k));
    for (size_t i = 0; i < body_bytes(k); i++)
        assert_int_equal(body[i], byte_of(k, i));
    *n_in_place += body == place;
    cutter_drop(&connection->cutter);
    return true;
}

static void frames_pass_whole(void **state)
{
    (void)state;
    static uint8_t body[MAX_BODY], place[MAX_BODY];
    struct stream *ends[2];
    ok(stream_pair(ROOM, ends));
    struct connection from = {.stream = ends[0]}, to = {.stream = ends[1]};
    size_t n_sent = 0, n_taken = 0, n_in_place = 0;
    while (n_taken < FRAMES) {
        if (!connection_unsent(&from) && n_sent < FRAMES)
            prepare(&from, n_sent++, body);
        assert_true(connection_write(&from, false));
        assert_true(connection_read(&to, 1 + n_taken * 97 % 9000) >= 0);
        while (n_taken < n_sent && take(&to, n_taken, place, &n_in_place))
            n_taken++;
    }
    assert_int_equal(buffer_size(&to.cutter.in), 0);
    assert_true(n_in_place > FRAMES / 20);
    connection_fini(&from);
    connection_fini(&to);
}

static void a_closed_connection_has_forgotten_all(void **state)
{
    (void)state;
    static uint8_t body[MAX_BODY], place[MAX_BODY];
    struct stream *ends[2];
    ok(stream_pair(ROOM, ends));
    struct connection from = {.stream = ends[0]}, to = {.stream = ends[1]};
    size_t k = 1, n_in_place = 0;
    while (body_bytes(k) < 8000 || k % 6 != 3) /* long, behind the buffer, and for its place */
        k++;
    prepare(&from, k, body);
    assert_true(connection_write(&from, false));
    assert_true(connection_read(&to, 100) > 0);
    assert_false(take(&to, k, place, &n_in_place));
    assert_ptr_equal(to.cutter.target, place);
    prepare(&from, k, body);
    connection_close(&from);
    connection_close(&to);
    assert_int_equal(connection_unsent(&from), 0);

    ok(stream_pair(ROOM, ends));
    from.stream = ends[0];
    to.stream = ends[1];
    prepare(&from, 0, body);
    assert_true(connection_write(&from, false));
    assert_true(connection_read(&to, ROOM) > 0);
    assert_true(take(&to, 0, place, &n_in_place));
    assert_int_equal(n_in_place, 0);
    connection_fini(&from);
    connection_fini(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_pass_whole),
        cmocka_unit_test(a_closed_connection_has_forgotten_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
