/*
 * The answering side when memory is short: a request that could not be answered is sent again, and is then
 * neither lost nor done twice. And what a server remembers of its lanes.
 */
#include "managers.h"

#include "core/manager_internal.h"
#include "core/server.h"
#include "support/alloc.h"
#include "wire/keys.h"

enum {
    N_KEYS = 30,
    LENGTH = 3,
    KEY = 2 /* at home at node 0 */,
    TABLE = 7,
    CLOSED = 5,
    REQUESTS = 1000
};

/* Two nodes, of which the first serves one lane of the second. */
struct site {
    struct managers all;
    struct managed managed;
    struct core_table table;
    struct server server;
    struct server_lane lane;
    struct buffer out;
};

static void site_init(struct site *site, const struct tern_table_options *options)
{
    *site = (struct site){.all = managers_new(2, "adaptive", options)};
    struct member *member = &site->all.members[0];
    /* A server finds a store in its table: from now on it is there. */
    site->table.number = TABLE;
    site->table.store = member->store;
    site->table.technique = &technique_managed;
    site->table.state = &site->managed;
    site->managed.managers[0] = member->manager;
    member->manager->store = &site->table.store;
    atomic_store(&member->core.tables[0], &site->table);
    ok(server_init(&site->server, &member->core, NULL));
    site->lane.node = 1;
}

static void site_fini(struct site *site)
{
    buffer_free(&site->out);
    server_lane_fini(&site->lane);
    server_fini(&site->server);
    site->all.members[0].store = site->table.store;
    managers_free(&site->all);
}

/* Sends a request until it is answered; the kind of the answer, and how often it was refused. */
static enum frame_kind answer_of(struct site *site, const struct frame *request,
                                 const uint8_t *body, size_t *n_refused)
{
    bool changed;
    struct frame answer;
    site->out.begin = site->out.end = 0;
    site->server.kept.n = 0;
    while (server_request(&site->server, &site->lane, request, body, 0, &site->out, &changed) !=
           SERVED) {
        ++*n_refused;
        alloc_fail_at(0);
    }
    const struct slice *kept = &site->server.kept;
    assert_true(kept->n + buffer_size(&site->out) >= FRAME_HEADER_BYTES);
    ok(frame_decode(kept->n ? kept->bytes : buffer_head(&site->out), &answer));
    return answer.kind;
}

/* A push of ones, number 1 of its lane. */
static struct frame push_frame(uint64_t key, uint8_t *body)
{
    const int64_t ones[LENGTH] = {1, 1, 1};
    struct frame frame = {.kind = FRAME_PUSH,
                          .table = TABLE,
                          .epoch = TEST_EPOCH,
                          .number = 1,
                          .count = 1,
                          .fields.access.oldest = 1};
    frame.keys_bytes = (uint32_t)keys_encode(&key, 1, body, &frame.flags);
    memcpy(body + frame.keys_bytes, ones, sizeof ones);
    frame.body_bytes = frame.keys_bytes + (uint32_t)sizeof ones;
    return frame;
}

/* A push of one to many keys, whose list is sent whole or named. */
static struct frame push_list(const struct site *site, uint64_t number, bool named, uint8_t *body)
{
    static const int64_t ones[N_KEYS * LENGTH] = {1, 1, 1};
    uint64_t keys[N_KEYS];
    struct frame frame = {.kind = FRAME_PUSH,
                          .table = TABLE,
                          .epoch = TEST_EPOCH,
                          .number = number,
                          .count = 5,
                          .fields.access.oldest = number};
    for (uint64_t i = 0; i < frame.count; i++)
        keys[i] = 5 - i; /* they do not ascend: 8 bytes each */
    frame.keys_bytes = (uint32_t)keys_encode(keys, frame.count, body, &frame.flags);
    assert_true(frame.keys_bytes > LISTS_SHORT);
    if (named) {
        const struct list_digest digest =
            list_digest(body, frame.keys_bytes, frame.count, frame.flags, site->lane.incarnation);
        list_digest_put(digest, body);
        frame.flags = FRAME_LIST_KNOWN;
        frame.keys_bytes = FRAME_DIGEST_BYTES;
    }
    const size_t bytes = frame.count * LENGTH * sizeof *ones;
    memcpy(body + frame.keys_bytes, ones, bytes);
    frame.body_bytes = frame.keys_bytes + (uint32_t)bytes;
    return frame;
}

static void a_list_that_is_not_known_is_asked_for_and_nothing_overtakes_it(void **state)
{
    (void)state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, N_KEYS, LENGTH);
    struct site site;
    uint8_t body[1024];
    size_t n_refused = 0;
    bool changed;
    int64_t values[LENGTH];
    site_init(&site, &options);
    site.lane.incarnation = 77;
    site.table.filters.keys = true;
    struct frame request = push_list(&site, 1, true, body);
    assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_FORGOTTEN);
    /* The next one was under way, and has no answer. */
    request = push_list(&site, 2, true, body);
    site.out.begin = site.out.end = 0;
    assert_int_equal(
        server_request(&site.server, &site.lane, &request, body, 0, &site.out, &changed), SERVED);
    assert_int_equal(buffer_size(&site.out), 0);
    request = push_list(&site, 1, false, body);
    assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_DONE);
    request = push_list(&site, 2, true, body);
    assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_DONE);
    /* Twice the same is done once. */
    assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_DONE);
    assert_true(store_pull_one(&site.table.store, 5, values));
    assert_int_equal(values[0], 2);
    /* A table without the filter knows no lists. */
    site.table.filters.keys = false;
    request = push_list(&site, 3, true, body);
    assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_ERROR);
    assert_int_equal(n_refused, 0);
    site_fini(&site);
}

/* A push of 10 to the keys 5, 3 and 1, as a part of the list of push_list(). */
static struct frame push_part(const struct site *site, uint64_t number, uint8_t *body)
{
    static const int64_t tens[3 * LENGTH] = {10, 10, 10, 10, 10, 10, 10, 10, 10};
    const uint8_t chosen[] = {0, 1 | 4 | 16};
    struct frame frame = push_list(site, number, true, body);
    memcpy(body + FRAME_DIGEST_BYTES, chosen, sizeof chosen);
    frame.keys_bytes += (uint32_t)sizeof chosen;
    frame.count = 3;
    memcpy(body + frame.keys_bytes, tens, sizeof tens);
    frame.body_bytes = frame.keys_bytes + (uint32_t)sizeof tens;
    return frame;
}

static void a_part_of_a_list_names_some_of_its_keys(void **state)
{
    (void)state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, N_KEYS, LENGTH);
    struct site site;
    uint8_t body[1024];
    size_t n_refused = 0;
    int64_t values[LENGTH];
    site_init(&site, &options);
    site.lane.incarnation = 77;
    site.table.filters.keys = true;
    struct frame request = push_part(&site, 1, body);
    assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_FORGOTTEN);
    request = push_list(&site, 1, false, body);
    assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_DONE);
    request = push_part(&site, 2, body);
    assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_DONE);
    assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_DONE);
    for (uint64_t key = 1; key <= 5; key++) {
        assert_true(store_pull_one(&site.table.store, key, values));
        assert_int_equal(values[0], (key == 5) + (key % 2 ? 10 : 0));
    }
    /* Bits of more keys than the request has, and of keys that the list does not have. */
    request = push_part(&site, 3, body);
    body[FRAME_DIGEST_BYTES + 1] |= 2;
    assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_ERROR);
    request = push_part(&site, 3, body);
    body[FRAME_DIGEST_BYTES + 1] = 1 | 4 | 32;
    assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_ERROR);
    site_fini(&site);
}

static void a_push_to_a_key_that_has_left_is_never_answered_as_done(void **state)
{
    (void)state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, N_KEYS, LENGTH);
    size_t n_refused = 0, n_before;
    uint64_t n = 1;
    do {
        struct site site;
        uint8_t body[256];
        site_init(&site, &options);
        ok(store_create(&site.table.store, KEY));
        want(&site.all.members[1], KEY);
        round_of(&site.all, 1);
        assert_int_equal(owner_of(&site.all, KEY), 1);
        struct frame request = push_frame(KEY, body);
        n_before = n_refused;
        alloc_fail_at(n++);
        assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_MOVED);
        alloc_fail_at(0);
        /* As long as its sender may have to send it again. */
        assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_MOVED);
        site_fini(&site);
    } while (n_refused > n_before);
    assert_true(n_refused >= 2);
}

/* The first allocations are those of the row, which may fail along with that of the note that it has. */
static void a_push_that_found_no_memory_is_never_answered_as_done(void **state)
{
    (void)state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, LENGTH);
    uint64_t key = 0;
    for (uint64_t n = 1; n <= 8; n++) {
        struct site site;
        uint8_t body[256];
        size_t n_refused = 0;
        site_init(&site, &options);
        while (ring_home(site.all.members[0].core.view, key))
            key++;
        struct frame request = push_frame(key, body);
        assert_non_null(buffer_reserve(&site.out, 1 << 10));
        alloc_fail_from(n);
        enum frame_kind answer = answer_of(&site, &request, body, &n_refused);
        alloc_fail_at(0);
        int64_t values[LENGTH] = {0};
        bool is_here = store_pull_one(&site.table.store, key, values);
        assert_int_equal(answer == FRAME_DONE, is_here && values[0] == 1);
        assert_int_equal(answer_of(&site, &request, body, &n_refused), FRAME_DONE);
        assert_true(store_pull_one(&site.table.store, key, values));
        assert_int_equal(values[0], 1);
        site_fini(&site);
    }
}

/* What is left of a round that could not be served is its failure, which is told. */
static void a_round_that_fails_is_answered(void **state)
{
    (void)state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, N_KEYS, LENGTH);
    enum frame_kind answer = FRAME_ERROR;
    for (uint64_t n = 1; answer == FRAME_ERROR; n++) {
        struct site site;
        size_t n_refused = 0;
        site_init(&site, &options);
        site.server.sends_kept = true;
        want(&site.all.members[1], KEY);
        struct buffer *body = &site.all.members[1].questions[0].body;
        ok(manager_request(site.all.members[1].manager, 0, body));
        struct frame request = request_frame(body);
        struct buffer packed = {0};
        const struct pack_shape items = core_pack_shape(&site.table);
        assert_true(pack_sections(&items, buffer_head(body), buffer_size(body), &packed));
        request.table = TABLE;
        request.body_bytes = (uint32_t)buffer_size(&packed);
        alloc_fail_from(n);
        answer = answer_of(&site, &request, buffer_head(&packed), &n_refused);
        alloc_fail_at(0);
        buffer_free(&packed);
        site_fini(&site);
    }
    assert_int_equal(answer, FRAME_ROUND_REPLY);
}

/* A node may go on asking for a table that another one has closed, in every round: that must cost nothing. */
static void a_closed_table_is_refused_without_a_trace(void **state)
{
    (void)state;
    static struct core core;
    core.view = view_of(2);
    struct server server;
    struct server_lane lane = {.node = 1};
    struct buffer out = {0};
    core_note_closed(&core, CLOSED);
    assert_int_equal(server_init(&server, &core, NULL), TERN_OK);
    static const enum frame_kind kinds[] = {FRAME_ROUND, FRAME_PUSH, FRAME_RANGE};
    for (uint64_t i = 0; i < REQUESTS; i++) {
        /* Each is sent twice: the answer to the first is lost. */
        const struct frame request = {
            .kind = kinds[i / 2 % 3], .table = CLOSED, .epoch = 1, .number = 1 + i / 2};
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
    assert_int_equal(lane.n_kept, 0);
    buffer_free(&out);
    server_lane_fini(&lane);
    server_fini(&server);
}

/* Whether a table is open is answered at once, as often as it is asked and whatever the request carries beside, and no
 * answer is kept for it. */
static void a_knock_is_answered_at_once(void **state)
{
    (void)state;
    static struct core core;
    core.view = view_of(2);
    static struct core_table table = {.number = TABLE};
    struct server server;
    struct server_lane lane = {.node = 1};
    struct buffer out = {0};
    core_note_closed(&core, CLOSED);
    assert_int_equal(server_init(&server, &core, NULL), TERN_OK);
    static const uint8_t junk[64] = {1, 2, 3};
    static const struct {
        uint16_t table;
        bool is_open;
        enum frame_kind kind;
        enum tern_status status;
    } cases[] = {{TABLE, false, FRAME_ERROR, TERN_BUSY},
                 {CLOSED, false, FRAME_ERROR, TERN_CLOSED},
                 {TABLE, true, FRAME_ROUND_REPLY, TERN_OK}};
    for (uint64_t i = 0; i < 4 * sizeof cases / sizeof *cases; i++) {
        /* Each is sent twice, with and without bytes that do not belong there. */
        const uint32_t bytes = i / 2 % 2 ? sizeof junk : 0;
        const struct frame request = {.kind = FRAME_ROUND,
                                      .table = cases[i / 4].table,
                                      .epoch = 1,
                                      .number = 1 + i / 2,
                                      .body_bytes = bytes,
                                      .fields.round.step = FRAME_OPEN_PROBE};
        struct frame reply;
        bool changed = false;
        out.begin = out.end = 0;
        atomic_store(&core.tables[TABLE], cases[i / 4].is_open ? &table : NULL);
        assert_int_equal(server_request(&server, &lane, &request, junk, 0, &out, &changed), SERVED);
        assert_int_equal(frame_decode(buffer_head(&out), &reply), TERN_OK);
        assert_int_equal(reply.kind, cases[i / 4].kind);
        assert_int_equal(reply.status, cases[i / 4].status);
        assert_int_equal(lane.executed, request.number);
    }
    assert_int_equal(lane.n_void, 0);
    assert_int_equal(lane.n_kept, 0);
    atomic_store(&core.tables[TABLE], NULL);
    buffer_free(&out);
    server_lane_fini(&lane);
    server_fini(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_that_is_not_known_is_asked_for_and_nothing_overtakes_it),
        cmocka_unit_test(a_part_of_a_list_names_some_of_its_keys),
        cmocka_unit_test(a_push_to_a_key_that_has_left_is_never_answered_as_done),
        cmocka_unit_test(a_push_that_found_no_memory_is_never_answered_as_done),
        cmocka_unit_test(a_round_that_fails_is_answered),
        cmocka_unit_test(a_closed_table_is_refused_without_a_trace),
        cmocka_unit_test(a_knock_is_answered_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
