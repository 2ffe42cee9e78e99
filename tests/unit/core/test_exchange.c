/*
 * What a node asks another about two tables at once: each gets its own answer, also when the requests come again or the
 * other has opened only one of them; and the age of copies when the time that is told goes back.
 */
#include "core/exchange.h" /* before cmocka, whose macro fail() would hide the function */
#include "core/manager_internal.h"
#include "core/server.h"

#include "support/check.h"
#include "support/view.h"

enum { TABLES = 2, N_KEYS = 40, FIRST_NUMBER = 3, MAX_PASSES = 8 };

/* A node and its tables, of which node 0 has the first half of the keys at first. */
struct side {
    struct core core;
    struct policy policy;
    struct core_table tables[TABLES];
};

/* Node 1 asks node 0. */
struct pair {
    struct side asker, owner;
    struct client client;
    struct exchange exchanges[TABLES];
    struct server server;
    struct server_lane lane;
};

static void side_init(struct side *side, uint32_t node)
{
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, N_KEYS, 1);
    side->core = (struct core){.node = node, .view = view_of(2)};
    assert_true(policy_find("adaptive", &side->policy));
    for (uint32_t i = 0; i < TABLES; i++) {
        struct core_table *table = &side->tables[i];
        struct store_home home = technique_home(&side->core, &side->policy, &options, NULL, NULL);
        ok(store_init(&table->store, "rows", &options, &home));
        table->number = (uint16_t)(FIRST_NUMBER + i);
        table->policy = &side->policy;
        const struct technique_setup setup = {.options = &options, .generation = 1};
        assert_true(technique_open(&side->core, table, &setup));
        atomic_store(&side->core.tables[table->number], table);
    }
}

static void side_fini(struct side *side)
{
    for (uint32_t i = 0; i < TABLES; i++) {
        technique_close(&side->tables[i]);
        store_fini(&side->tables[i].store);
    }
}

static struct pair *pair_new(void)
{
    struct pair *pair = array_of(1, sizeof *pair);
    side_init(&pair->owner, 0);
    side_init(&pair->asker, 1);
    ok(client_init(&pair->client, &pair->asker.core));
    ok(server_init(&pair->server, &pair->owner.core, NULL));
    pair->lane.node = 1;
    lane_welcome(&pair->client.lanes[0], 0);
    for (uint32_t i = 0; i < TABLES; i++)
        ok(exchange_init(&pair->exchanges[i], &pair->client, MAX_PASSES));
    return pair;
}

static void pair_free(struct pair *pair)
{
    client_fini(&pair->client);
    for (uint32_t i = 0; i < TABLES; i++)
        exchange_fini(&pair->exchanges[i]);
    server_lane_fini(&pair->lane);
    server_fini(&pair->server);
    side_fini(&pair->asker);
    side_fini(&pair->owner);
    free(pair);
}

/* Hands the answers in `out` to the client. */
static void deliver(struct pair *pair, struct buffer *out)
{
    while (buffer_size(out)) {
        struct frame answer;
        ok(frame_decode(buffer_head(out), &answer));
        ok(lane_reply(&pair->client, &pair->client.lanes[0], &answer,
                      buffer_head(out) + FRAME_HEADER_BYTES));
        buffer_consume(out, FRAME_HEADER_BYTES + answer.body_bytes);
    }
}

/* Sends what is queued and lets it be served. If `breaks`, the connection is then gone with all answers. */
static void carry(struct pair *pair, bool breaks)
{
    struct lane *lane = &pair->client.lanes[0];
    struct buffer sent = {0}, out = {0};
    assert_true(lane_send(&pair->client, lane, SIZE_MAX / 2, &sent));
    while (buffer_size(&sent)) {
        struct frame request;
        bool changed = false;
        ok(frame_decode(buffer_head(&sent), &request));
        assert_int_equal(server_request(&pair->server, &pair->lane, &request,
                                        buffer_head(&sent) + FRAME_HEADER_BYTES, 0, &out, &changed),
                         SERVED);
        buffer_consume(&sent, FRAME_HEADER_BYTES + request.body_bytes);
    }
    if (breaks) {
        lane_welcome(lane, pair->lane.executed);
        lane_resume(lane);
    } else {
        deliver(pair, &out);
    }
    buffer_free(&sent);
    buffer_free(&out);
}

static void begin_all(struct pair *pair, uint64_t now_ns)
{
    for (uint32_t i = 0; i < TABLES; i++) {
        ok(manager_take(managed_shard(&pair->asker.tables[i], 0)));
        ok(exchange_begin(&pair->exchanges[i], &pair->asker.tables[i], (struct node_clock){0},
                          now_ns));
    }
}

/* The asker learns that the owner has opened the tables, and asks. */
static void knock_all(struct pair *pair, uint64_t now_ns)
{
    carry(pair, false);
    for (uint32_t i = 0; i < TABLES; i++) {
        assert_true(pair->exchanges[i].questions[0].op.fields.round.step == FRAME_OPEN_PROBE);
        ok(exchange_step(&pair->exchanges[i], &pair->asker.tables[i], now_ns));
    }
}

/* Goes on until there is nothing more to say. */
static void finish_all(struct pair *pair, uint64_t now_ns)
{
    for (uint32_t i = 0; i < TABLES; i++)
        while (pair->exchanges[i].runs) {
            if (!exchange_is_answered(&pair->exchanges[i], &pair->asker.tables[i]))
                carry(pair, false);
            ok(exchange_step(&pair->exchanges[i], &pair->asker.tables[i], now_ns));
        }
}

static bool has_main(const struct side *side, uint32_t table, uint64_t key)
{
    struct entry *entry;
    return entry_is_main(store_look(&side->tables[table].store, key, &entry));
}

static void requests_about_two_tables_that_come_again_get_the_answers_they_had(void **state)
{
    (void)state;
    struct pair *pair = pair_new();
    for (uint64_t i = 0; i < TABLES; i++) {
        uint64_t key = 1 + i;
        ok(store_create(&pair->owner.tables[i].store, key));
        manager_want(managed_shard(&pair->asker.tables[i], 0), &key, 1);
    }
    begin_all(pair, 1);
    knock_all(pair, 1);
    assert_true(pair->exchanges[0].runs && pair->exchanges[1].runs);
    /* The keys have left their owner, in answers that are lost, twice. */
    carry(pair, true);
    carry(pair, true);
    for (uint32_t i = 0; i < TABLES; i++) {
        assert_false(has_main(&pair->owner, i, 1 + i));
        assert_false(has_main(&pair->asker, i, 1 + i));
    }
    finish_all(pair, 2);
    for (uint32_t i = 0; i < TABLES; i++)
        assert_true(has_main(&pair->asker, i, 1 + i));
    assert_int_equal(pair->lane.n_kept, TABLES);
    pair_free(pair);
}

static void a_table_that_is_opened_late_holds_up_no_other(void **state)
{
    (void)state;
    struct pair *pair = pair_new();
    struct core_table *late = &pair->owner.tables[1];
    atomic_store(&pair->owner.core.tables[late->number], NULL);
    for (uint64_t i = 0; i < TABLES; i++) {
        uint64_t key = 1 + i;
        ok(store_create(&pair->owner.tables[i].store, key));
        manager_want(managed_shard(&pair->asker.tables[i], 0), &key, 1);
    }
    for (uint64_t ms = 0; ms < 50; ms++) {
        begin_all(pair, ms * 1000000);
        finish_all(pair, ms * 1000000);
        assert_true(has_main(&pair->asker, 0, 1));
        assert_false(exchange_waits(&pair->exchanges[0]));
        assert_true(exchange_waits(&pair->exchanges[1]));
    }
    assert_true(pair->lane.executed < 10); /* it is asked for less and less often */
    atomic_store(&pair->owner.core.tables[late->number], late);
    begin_all(pair, 100000000);
    finish_all(pair, 100000000);
    assert_true(has_main(&pair->asker, 1, 2));
    assert_false(exchange_waits(&pair->exchanges[1]));
    pair_free(pair);
}

static void a_time_that_goes_back_makes_no_copy_old(void **state)
{
    (void)state;
    struct pair *pair = pair_new();
    struct manager *asker = managed_shard(&pair->asker.tables[0], 0);
    struct manager *owner = managed_shard(&pair->owner.tables[0], 0);
    uint64_t key = 1;
    int64_t one = 1;
    ok(store_create(&pair->owner.tables[0].store, key));
    manager_want(owner, &key, 1);
    manager_want(asker, &key, 1);
    for (uint64_t turn = 0; turn < 5; turn++) {
        begin_all(pair, 1000 + 10 * turn);
        finish_all(pair, 500); /* by somebody who had looked at the clock before */
        assert_true(store_push_one(&pair->owner.tables[0].store, key, &one));
        ok(manager_take(owner));
    }
    const struct manager_counts *counts = manager_counts(asker);
    assert_true(counts->values_received > 1);
    assert_true(counts->staleness_ns_sum < 1e6);
    pair_free(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_about_two_tables_that_come_again_get_the_answers_they_had),
        cmocka_unit_test(a_table_that_is_opened_late_holds_up_no_other),
        cmocka_unit_test(a_time_that_goes_back_makes_no_copy_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
