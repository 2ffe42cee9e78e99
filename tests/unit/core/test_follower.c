/*
 * A follower tells its leader what its workers want, once for all of them and each end after its beginning; waits for the
 * leader's rounds; and ends its intents before it closes the table.
 */
#include "core/follower.h" /* before cmocka, whose macro fail() would hide the function */

#include "base/pages.h"
#include "store/shared.h"
#include "support/check.h"
#include "support/view.h"
#include "wire/section.h"

enum { N_KEYS = 100, LEADER = 0, FOLLOWER = 1, OTHER = 2, N_PROCESSES = 2, PATIENCE_NS = 1000000 };

/* The two processes of a host, beside another host. */
struct host {
    struct view *view, *leaders;
    struct core core, member;
    struct policy policy;
    struct tern_table_options options;
    struct shared_table *memory;
    size_t memory_bytes;
    struct core_table tables[N_PROCESSES];
    struct buffer body, reply;
};

static void host_open(struct host *host, enum tern_index index, const char *policy,
                      size_t round_bytes)
{
    static const uint32_t members[] = {LEADER, LEADER, OTHER};
    *host = (struct host){.view = view_new(1, 3, members),
                          .options = shape(index, TERN_I64, index == TERN_DENSE ? N_KEYS : 0, 1)};
    host->leaders = view_of_leaders(host->view);
    host->core = (struct core){.node = FOLLOWER, .view = host->view};
    host->member = (struct core){.node = LEADER, .view = host->leaders};
    host->options.memory_limit_bytes = 1 << 20;
    assert_true(policy_find(policy, &host->policy));
    struct store_home home =
        technique_home(&host->member, &host->policy, &host->options, NULL, NULL);
    host->memory_bytes = shared_bytes(&host->options, &home);
    host->memory = pages_new(host->memory_bytes);
    assert_non_null(host->memory);
    shared_format(host->memory, &host->options, &home, PATIENCE_NS);
    home.shared = host->memory;
    for (uint32_t i = 0; i < N_PROCESSES; i++) {
        struct core_table *table = &host->tables[i];
        const struct technique_setup setup = {.options = &host->options,
                                              .generation = 1,
                                              .round_bytes = round_bytes,
                                              .is_member = true,
                                              .is_follower = i == FOLLOWER};
        ok(store_init(&table->store, "rows", &host->options, &home));
        table->policy = &host->policy;
        assert_true(technique_open(&host->member, table, &setup));
    }
}

static void host_close(struct host *host)
{
    for (uint32_t i = 0; i < N_PROCESSES; i++) {
        technique_close(&host->tables[i]);
        store_fini(&host->tables[i].store);
    }
    pages_free(host->memory, host->memory_bytes);
    buffer_free(&host->body);
    buffer_free(&host->reply);
    view_free(host->leaders);
    view_free(host->view);
}

/* How many keys of a kind the follower's last message has. */
static uint32_t count_told(const struct host *host, enum section_kind kind)
{
    struct section section;
    bool wrong;
    uint32_t n = 0;
    for (size_t at = 0;
         section_next(buffer_head(&host->body), buffer_size(&host->body), &at, &section, &wrong);)
        n += section.kind == kind ? section.count : 0;
    return n;
}

/* The leader gets a message. */
static enum tern_status serve(struct host *host, const void *body, size_t bytes)
{
    const struct frame frame = {
        .kind = FRAME_ROUND, .number = 1, .body_bytes = (uint32_t)bytes, .fields.round.step = 0};
    struct round_question question = {
        .from = FOLLOWER, .frame = &frame, .body = body, .out = &host->reply};
    host->reply.begin = host->reply.end = 0;
    return follower_serve(&host->tables[LEADER], 0, 1, &question);
}

/* The follower asks its leader, if it has something to say; whether it has more. */
static bool ask(struct host *host)
{
    struct core_table *table = &host->tables[FOLLOWER];
    struct frame frame = {0};
    bool more = false;
    host->body.begin = host->body.end = 0;
    assert_false(table->technique->has_question(table, 0, OTHER, 0));
    if (!table->technique->has_question(table, 0, LEADER, 0))
        return false;
    ok(table->technique->ask(table, 0, LEADER, 0, &host->body, &frame, &more));
    ok(serve(host, buffer_head(&host->body), buffer_size(&host->body)));
    return more;
}

/* Whether a process has active intents for a key; the leader's count those of all. */
static bool wants(const struct host *host, uint32_t process, uint64_t key)
{
    const struct core_table *table = &host->tables[process];
    bool is_wanted;
    table->technique->copy(&host->member, table, key, &is_wanted);
    return is_wanted;
}

static void want(struct host *host, const uint64_t *keys, size_t n)
{
    struct core_table *table = &host->tables[FOLLOWER];
    table->technique->want(table, 0, keys, n);
}

static void unwant(struct host *host, const uint64_t *keys, size_t n)
{
    struct core_table *table = &host->tables[FOLLOWER];
    table->technique->unwant(table, 0, keys, n);
}

static void a_key_is_told_once_for_all_workers(void **state)
{
    (void)state;
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        const uint64_t keys[] = {3, 70, 99};
        struct host host;
        host_open(&host, (enum tern_index)index, "adaptive", 0);
        want(&host, keys, 3);
        want(&host, keys, 2);
        assert_false(ask(&host));
        assert_int_equal(count_told(&host, SECTION_ASKS), 3);
        assert_true(wants(&host, LEADER, 3) && wants(&host, LEADER, 99));
        unwant(&host, keys, 3);
        assert_false(ask(&host));
        assert_int_equal(count_told(&host, SECTION_ENDS), 1);
        assert_true(wants(&host, LEADER, 3) && !wants(&host, LEADER, 99));
        unwant(&host, keys, 2);
        assert_false(ask(&host));
        assert_int_equal(count_told(&host, SECTION_ENDS), 2);
        assert_false(wants(&host, LEADER, 3) || wants(&host, LEADER, 70));
        host_close(&host);
    }
}

static void an_end_is_told_after_its_beginning(void **state)
{
    (void)state;
    const uint64_t keys[] = {1, 2, 3, 4};
    struct host host;
    host_open(&host, TERN_DENSE, "adaptive", 64); /* one key of a kind in a message */
    want(&host, keys, 4);
    unwant(&host, keys, 4);
    for (int i = 0; i < 3; i++) {
        assert_true(ask(&host));
        assert_int_equal(count_told(&host, SECTION_ASKS), 1);
        assert_int_equal(count_told(&host, SECTION_ENDS), 0);
    }
    int n_ends = 0;
    for (bool more = true; more; n_ends++) {
        more = ask(&host);
        assert_int_equal(count_told(&host, SECTION_ENDS), 1);
    }
    assert_int_equal(n_ends, 4);
    for (int i = 0; i < 4; i++)
        assert_false(wants(&host, LEADER, keys[i]));
    host_close(&host);
}

static void a_key_that_is_localized_is_fetched(void **state)
{
    (void)state;
    const uint64_t key = N_KEYS - 1; /* at home at the other host */
    struct host host;
    host_open(&host, TERN_DENSE, "relocate", 0);
    struct core_table *leader = &host.tables[LEADER], *follower = &host.tables[FOLLOWER];
    assert_false(leader->technique->has_question(leader, 0, OTHER, 0));
    follower->technique->localize(follower, 0, &key, 1);
    assert_false(ask(&host));
    assert_int_equal(count_told(&host, SECTION_FETCHES), 1);
    ok(leader->technique->collect(leader, 0, true, false));
    assert_true(leader->technique->has_question(leader, 0, OTHER, 0));
    host_close(&host);
}

static void a_flush_waits_for_rounds_of_the_leader(void **state)
{
    (void)state;
    struct host host;
    host_open(&host, TERN_DENSE, "adaptive", 0);
    struct core_table *leader = &host.tables[LEADER], *follower = &host.tables[FOLLOWER];
    struct round_end end = {0};
    assert_false(follower_waits(leader, 0));
    follower->technique->begin_sweep(follower, 0);
    ok(follower->technique->collect(follower, 0, true, true));
    assert_true(follower_waits(leader, 0));
    (void)ask(&host);
    for (int i = 0; i < 2; i++) {
        end = (struct round_end){0};
        follower->technique->end(follower, 0, &end);
        assert_true(end.awaits && end.sweeps);
        follower_note_sweep(leader, 0);
        follower_note_round(leader, 0, false, false); /* left something over */
        follower_note_round(leader, 0, true, false);
    }
    assert_true(follower_waits(leader, 0));
    follower_note_round(leader, 0, false, true);
    assert_false(follower_waits(leader, 0));
    assert_true(follower_sweeps(leader, 0) > 0);
    end = (struct round_end){0};
    follower->technique->end(follower, 0, &end);
    assert_false(end.awaits || end.sweeps || end.left_over);
    host_close(&host);
}

static void a_leader_that_has_closed_is_not_waited_for(void **state)
{
    (void)state;
    const uint64_t key = 5;
    struct host host;
    host_open(&host, TERN_DENSE, "adaptive", 0);
    struct core_table *table = &host.tables[FOLLOWER];
    struct round_end end = {0};
    want(&host, &key, 1);
    table->technique->peer_closed(table, 0, LEADER);
    ok(table->technique->collect(table, 0, true, true));
    assert_false(table->technique->has_question(table, 0, LEADER, 0));
    table->technique->end(table, 0, &end);
    assert_false(end.awaits || end.left_over || end.sweeps);
    host_close(&host);
}

static void closing_ends_what_the_leader_knows_of(void **state)
{
    (void)state;
    const uint64_t keys[] = {7, 8, 9};
    for (int index = TERN_DENSE; index <= TERN_SPARSE; index++) {
        struct host host;
        host_open(&host, (enum tern_index)index, "adaptive", 0);
        struct core_table *table = &host.tables[FOLLOWER];
        want(&host, keys, 2);
        assert_false(ask(&host));
        want(&host, keys + 1, 2); /* the last one is not told yet */
        assert_true(table->technique->retire(table, 0));
        want(&host, keys, 1); /* and nothing begins any more */
        assert_false(ask(&host));
        assert_int_equal(count_told(&host, SECTION_ENDS), 3);
        assert_false(table->technique->retire(table, 0));
        for (int i = 0; i < 3; i++)
            assert_false(wants(&host, LEADER, keys[i]));
        host_close(&host);
        /* A leader that was told nothing, and may still open the table, is not waited for. */
        host_open(&host, (enum tern_index)index, "adaptive", 0);
        table = &host.tables[FOLLOWER];
        want(&host, keys, 3);
        assert_false(table->technique->retire(table, 0));
        assert_false(table->technique->has_question(table, 0, LEADER, 0));
        host_close(&host);
    }
}

/* Bytes of another process are checked whole before anything is done. */
static void nonsense_is_refused_whole(void **state)
{
    (void)state;
    const struct {
        enum section_kind kind;
        size_t item_bytes;
        uint64_t key;
    } wrong[] = {{SECTION_ASKS, 8, N_KEYS}, {SECTION_ASKS, 16, 1}, {SECTION_COPIES, 8, 1}};
    struct host host;
    host_open(&host, TERN_DENSE, "adaptive", 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        _Alignas(8) uint8_t body[2 * SECTION_HEADER_BYTES + 24] = {0};
        section_write(body, SECTION_ASKS, 1, 8);
        section_put(body + SECTION_HEADER_BYTES, 4);
        uint8_t *second = body + SECTION_HEADER_BYTES + 8;
        section_write(second, wrong[i].kind, 1, wrong[i].item_bytes);
        section_put(second + SECTION_HEADER_BYTES, wrong[i].key);
        const size_t bytes = 2 * SECTION_HEADER_BYTES + 8 + wrong[i].item_bytes;
        refused(serve(&host, body, bytes), TERN_INVALID, "makes no sense");
        assert_false(wants(&host, LEADER, 4));
    }
    /* Nor does a follower manage the table for others. */
    struct round_question question = {.from = OTHER};
    struct core_table *table = &host.tables[FOLLOWER];
    refused(table->technique->answer(table, 0, &question), TERN_INVALID, "has it from node 0");
    uint32_t location;
    uint64_t round;
    assert_int_equal(table->technique->find(table, 0, 4, &location, &round), KEY_AWAY);
    assert_int_equal(location_node(location), LEADER);
    host_close(&host);
}

static void bounded_tables_and_caches_are_not_shared(void **state)
{
    (void)state;
    static const char *const shared[] = {"adaptive", "static", "replicate", "relocate", "multi"};
    static const char *const apart[] = {"bsp", "ssp:2", "essp:1", "vap:1", "graph:3", "cached"};
    struct policy policy;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        assert_true(policy_find(shared[i], &policy) && follower_is_for(&policy));
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        assert_true(policy_find(apart[i], &policy) && !follower_is_for(&policy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_told_once_for_all_workers),
        cmocka_unit_test(an_end_is_told_after_its_beginning),
        cmocka_unit_test(a_key_that_is_localized_is_fetched),
        cmocka_unit_test(a_flush_waits_for_rounds_of_the_leader),
        cmocka_unit_test(a_leader_that_has_closed_is_not_waited_for),
        cmocka_unit_test(closing_ends_what_the_leader_knows_of),
        cmocka_unit_test(nonsense_is_refused_whole),
        cmocka_unit_test(bounded_tables_and_caches_are_not_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
