/*
 * Keys that are cut into shards: which one a key is in, that requests go to the shard of their keys and no other one
 * takes them, and that each manager looks after its own keys.
 */
#include "core/client.h" /* before cmocka, whose macro fail() would hide the function */
#include "core/manager_internal.h"
#include "core/server.h"
#include "wire/keys.h"
#include "wire/section.h"

#include "support/check.h"
#include "support/view.h"

enum { SHARDS = 3, N_KEYS = 600, TABLE = 4 };

/* A node and its table. Node 0 has the first half of the keys. */
struct side {
    struct core core;
    struct policy policy;
    struct core_table table;
};

static void side_init(struct side *side, uint32_t node, const char *policy)
{
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, N_KEYS, 1);
    *side = (struct side){.core = {.node = node, .view = view_of(2), .n_shards = SHARDS}};
    assert_true(policy_find(policy, &side->policy));
    struct core_table *table = &side->table;
    struct store_home home = technique_home(&side->core, &side->policy, &options, NULL, NULL);
    ok(store_init(&table->store, "rows", &options, &home));
    table->number = TABLE;
    table->policy = &side->policy;
    assert_true(technique_open(&side->core, table,
                               &(struct technique_setup){.options = &options, .generation = 1}));
    atomic_store(&side->core.tables[TABLE], table);
}

static void side_fini(struct side *side)
{
    technique_close(&side->table);
    store_fini(&side->table.store);
}

static void every_key_is_in_one_shard(void **state)
{
    (void)state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct store store = {.index = (enum tern_index)index, .n_shards = SHARDS};
        size_t counts[SHARDS] = {0}, n = 30000;
        for (uint64_t key = 0; key < n; key++) {
            uint32_t shard = store_shard(&store, key);
            assert_true(shard < SHARDS);
            counts[shard]++;
            /* What is kept of dense keys that lie together is in the same lines of memory. */
            if (index == TERN_DENSE)
                assert_int_equal(shard, store_shard(&store, key / SHARD_KEYS * SHARD_KEYS));
        }
        for (int i = 0; i < SHARDS; i++)
            assert_in_range(counts[i], n / SHARDS * 9 / 10, n / SHARDS * 11 / 10);
        store.n_shards = 1;
        assert_int_equal(store_shard(&store, 12345), 0);
    }
}

/* Has a server of a shard answer a request; the answer's kind. */
static enum frame_kind ask(struct core *core, uint32_t shard, const struct frame *request,
                           const uint8_t *body)
{
    struct server server;
    struct server_lane lane = {.node = 1};
    struct buffer out = {0};
    struct frame answer;
    bool changed = false;
    ok(server_init(&server, core, NULL));
    server.shard = shard;
    assert_int_equal(server_request(&server, &lane, request, body, 0, &out, &changed), SERVED);
    ok(frame_decode(buffer_head(&out), &answer));
    server_lane_fini(&lane);
    server_fini(&server);
    buffer_free(&out);
    return answer.kind;
}

static void requests_go_to_the_shard_of_their_keys(void **state)
{
    (void)state;
    struct side asker, owner;
    struct client client;
    side_init(&asker, 1, "static");
    side_init(&owner, 0, "static");
    ok(client_init(&client, &asker.core));
    assert_int_equal(client.n_lanes, 2 * SHARDS);

    enum { N = N_KEYS / 2 };
    uint64_t keys[N];
    uint32_t positions[N];
    int64_t values[N];
    for (uint32_t i = 0; i < N; i++) {
        keys[i] = positions[i] = i;
        values[i] = 1;
    }
    struct op op = {0};
    ok(client_start(&client, &op, FRAME_PUSH, &asker.table, keys, values, positions, N));
    size_t n_sent = 0;
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        struct buffer out = {0};
        struct lane *lane = &client.lanes[shard];
        assert_int_equal(lane->node, 0);
        assert_int_equal(lane->shard, shard);
        assert_true(lane_send(&client, lane, SIZE_MAX, &out));
        struct frame frame;
        ok(frame_decode(buffer_head(&out), &frame));
        const uint8_t *body = buffer_head(&out) + FRAME_HEADER_BYTES;
        uint64_t sent[N];
        assert_true(keys_decode(body, frame.keys_bytes, frame.flags, frame.count, sent));
        for (uint32_t i = 0; i < frame.count; i++)
            assert_int_equal(store_shard(&asker.table.store, sent[i]), shard);
        n_sent += frame.count;
        /* Nobody else takes them. */
        assert_int_equal(ask(&owner.core, (shard + 1) % SHARDS, &frame, body), FRAME_ERROR);
        assert_int_equal(ask(&owner.core, shard, &frame, body), FRAME_DONE);
        lane_fail(&client, lane, TERN_CLOSED, "enough");
        buffer_free(&out);
    }
    assert_int_equal(n_sent, N);
    for (uint64_t key = 0; key < N; key++) {
        int64_t value = 0;
        assert_true(store_pull_one(&owner.table.store, key, &value));
        assert_int_equal(value, 1);
    }
    op_end(&op);
    client_fini(&client);
    side_fini(&asker);
    side_fini(&owner);
}

/* A key of a shard. */
static uint64_t key_in(const struct store *store, uint32_t shard)
{
    uint64_t key = 0;
    while (store_shard(store, key) != shard)
        key++;
    return key;
}

static void a_manager_has_the_changes_of_its_own_keys(void **state)
{
    (void)state;
    struct side owner;
    side_init(&owner, 0, "adaptive");
    struct store *store = &owner.table.store;
    /* Node 1 wants a key of each shard that this node wants, too: both get it. */
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        struct manager *manager = managed_shard(&owner.table, shard);
        uint64_t key = key_in(store, shard);
        ok(store_create(store, key));
        manager_want(manager, &key, 1);
        uint64_t body[16];
        uint8_t *bytes = (uint8_t *)body;
        section_write(bytes, SECTION_ASKS, 1, sizeof key);
        section_put(bytes + SECTION_HEADER_BYTES, key);
        struct frame request = {
            .kind = FRAME_ROUND, .table = TABLE, .body_bytes = SECTION_HEADER_BYTES + sizeof key};
        struct buffer out = {0};
        struct manager *other = managed_shard(&owner.table, (shard + 1) % SHARDS);
        refused(manager_serve(other, 1, &request, bytes, &out), TERN_INVALID, "no sense");
        ok(manager_serve(manager, 1, &request, bytes, &out));
        assert_true(manager_is_sharing(manager));
        buffer_free(&out);
    }
    /* A change is taken by the manager of its key alone. */
    uint64_t key = key_in(store, 1);
    const int64_t one = 1;
    assert_true(store_push_one(store, key, &one));
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        struct manager *manager = managed_shard(&owner.table, shard);
        size_t before = keys_left(&manager->outboxes[1].dirty);
        ok(manager_take(manager));
        assert_int_equal(keys_left(&manager->outboxes[1].dirty) - before, shard == 1);
    }
    side_fini(&owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_in_one_shard),
        cmocka_unit_test(requests_go_to_the_shard_of_their_keys),
        cmocka_unit_test(a_manager_has_the_changes_of_its_own_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
