/* What a server remembers of its lanes. The simulator looks at what it answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#undef fail /* cmocka's; base/status.h has another */

#include "core/server.h"

enum { CLOSED = 5, REQUESTS = 1000 };

/* A node may go on asking for a table that another one has closed, in every round: that must cost nothing. */
static void a_closed_table_is_refused_without_a_trace(void **state)
{
    (void)state;
    static struct core core = {.n_nodes = 2, .epoch = 1};
    struct server server;
    struct server_lane lane = {.node = 1};
    struct buffer out = {0};
    core_note_closed(&core, CLOSED);
    assert_int_equal(server_init(&server, &core, NULL), TERN_OK);
    static const enum frame_kind kinds[] = {FRAME_SYNC, FRAME_ROUND, FRAME_PUSH, FRAME_RANGE};
    for (uint64_t i = 0; i < REQUESTS; i++) {
        /* Each is sent twice: the answer to the first is lost. */
        const struct frame request = {
            .kind = kinds[i / 2 % 4], .table = CLOSED, .epoch = 1, .number = 1 + i / 2};
        struct frame reply;
        bool changed = false;
        out.begin = out.end = 0;
        assert_int_equal(server_request(&server, &lane, &request, NULL, 0, &out, &changed), SERVED);
        assert_int_equal(frame_decode(buffer_head(&out), &reply), TERN_OK);
        assert_int_equal(reply.kind, FRAME_ERROR);
        assert_int_equal(reply.status, TERN_CLOSED);
        assert_int_equal(reply.number, request.number);
        assert_int_equal(lane.executed, request.number);
    }
    assert_int_equal(lane.n_void, 0);
    assert_int_equal(buffer_size(&lane.sync), 0);
    buffer_free(&out);
    server_lane_fini(&lane);
    server_fini(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_table_is_refused_without_a_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
