/* The rounds of a table of which every node has every key, with messages that take less than there is. */
#include "core/replica.h" /* before cmocka, whose macro fail() would hide the function */

#include "core/placement.h"
#include "wire/keys.h"
#include "support/check.h"
#include "support/view.h"

enum { N_NODES = 2, N_KEYS = 200, LENGTH = 2, OWNER = 0, OTHER = 1, BODY_KEYS = 7 };

struct member {
    struct core core;
    struct core_table table;
    struct replication *replication;
};

static bool is_at_home(const void *context, uint64_t key)
{
    const struct member *member = context;
    return range_home(member->core.view, key, N_KEYS) == member->core.node;
}

static void open_all(struct member *members)
{
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, N_KEYS, LENGTH);
    for (uint32_t i = 0; i < N_NODES; i++) {
        struct member *member = &members[i];
        *member = (struct member){.core = {.node = i, .view = view_of(N_NODES)}};
        struct store_home home = {.rows_everywhere = true,
                                  .end = N_KEYS,
                                  .main_begin = range_begin(member->core.view, i, N_KEYS),
                                  .main_end = range_end(member->core.view, i, N_KEYS),
                                  .has = is_at_home,
                                  .context = member};
        ok(store_init(&member->table.store, "rows", &options, &home));
        member->replication = replication_new(&member->core, &member->table);
        assert_non_null(member->replication);
        replication_limit(member->replication, BODY_KEYS * LENGTH * sizeof(int64_t));
        for (uint64_t key = 0; key < N_KEYS; key++)
            ok(store_create(&member->table.store, key));
    }
}

static void close_all(struct member *members)
{
    for (uint32_t i = 0; i < N_NODES; i++) {
        replication_free(members[i].replication);
        store_fini(&members[i].table.store);
    }
}

static void push(struct member *member, uint64_t key)
{
    assert_true(store_push_one(&member->table.store, key, (const int64_t[LENGTH]){1, 2}));
}

static int64_t value(const struct member *member, uint64_t key)
{
    int64_t values[LENGTH] = {0};
    assert_true(store_pull_one(&member->table.store, key, values));
    assert_int_equal(values[1], 2 * values[0]);
    return values[0];
}

/* One question of OTHER to OWNER; true if the owner has more to tell. */
static bool exchange(struct member *members)
{
    struct replication *asking = members[OTHER].replication, *owner = members[OWNER].replication;
    struct buffer body = {0}, out = {0};
    struct frame request, answer;
    uint64_t keys[BODY_KEYS];
    int64_t deltas[BODY_KEYS * LENGTH];
    bool more;
    ok(replication_request(asking, OWNER, &body, &request, &more));
    assert_in_range(request.count, 0, BODY_KEYS);
    const uint8_t *bytes = buffer_head(&body);
    assert_true(keys_decode(bytes, request.keys_bytes, request.flags, request.count, keys));
    memcpy(deltas, bytes + request.keys_bytes, frame_payload_bytes(&request));
    ok(replication_merge(owner, OTHER, keys, request.count, deltas));
    assert_true(replication_reply(owner, OTHER, &request, &out));
    ok(frame_decode(buffer_head(&out), &answer));
    ok(replication_answer(asking, OWNER, &answer, buffer_head(&out) + FRAME_HEADER_BYTES));
    buffer_free(&body);
    buffer_free(&out);
    return answer.fields.round_reply.left;
}

/* Changes that find no room in a round are left over, until all are at the owner, whatever is changed
 * meanwhile. */
static void changes_without_room_are_left_over(void **state)
{
    (void)state;
    struct member members[N_NODES];
    open_all(members);
    for (uint64_t key = 0; key < N_KEYS / 2; key++)
        push(&members[OTHER], key);
    int n_rounds = 0;
    bool is_left_over = true;
    for (; is_left_over && n_rounds < N_KEYS; n_rounds++) {
        ok(replication_take(members[OTHER].replication));
        exchange(members);
        is_left_over = replication_round_ended(members[OTHER].replication);
        for (uint64_t key = 0; key < 2 * BODY_KEYS; key++)
            push(&members[OTHER], key);
    }
    assert_int_equal(n_rounds, (N_KEYS / 2 + BODY_KEYS - 1) / BODY_KEYS);
    for (uint64_t key = 0; key < N_KEYS / 2; key++)
        assert_true(value(&members[OWNER], key) >= 1);
    close_all(members);
}

/* An owner that changes its first rows all the time has always more to tell than an answer takes. The last
 * ones get their turn, and a sweep, which brings all that there was when it began, ends. */
static void a_sweep_ends_whatever_is_added(void **state)
{
    (void)state;
    struct member members[N_NODES];
    open_all(members);
    struct replication *asking = members[OTHER].replication;
    for (uint64_t key = 0; key < N_KEYS / 2; key++)
        push(&members[OWNER], key);
    replication_begin_sweep(asking);
    int n_rounds = 0;
    for (; !replication_is_swept(asking) && n_rounds < N_KEYS; n_rounds++) {
        ok(replication_take(members[OWNER].replication));
        assert_true(exchange(members));
        replication_round_ended(asking);
        for (uint64_t key = 0; key < 2 * BODY_KEYS; key++)
            push(&members[OWNER], key);
    }
    assert_in_range(n_rounds, N_KEYS / 2 / BODY_KEYS, N_KEYS / BODY_KEYS);
    for (uint64_t key = 0; key < N_KEYS / 2; key++)
        assert_true(value(&members[OTHER], key) >= 1);
    /* It is over at once when there is nothing to tell. */
    ok(replication_take(members[OWNER].replication));
    while (exchange(members))
        continue;
    replication_begin_sweep(asking);
    assert_false(replication_is_swept(asking));
    assert_false(exchange(members));
    replication_round_ended(asking);
    assert_true(replication_is_swept(asking));
    close_all(members);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_without_room_are_left_over),
        cmocka_unit_test(a_sweep_ends_whatever_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
