/*
 * The replicas of graph:S at a node whose peers' answers come in an order that is rare: a value that is older than what the node
 * has pushed is not taken, a push that a value already has is not added again, and one that was executed on an earlier connection
 * makes the replica invalid. And what a home sends, for each count that it is asked with.
 */
#include "core/graph.h" /* before cmocka, whose macro fail() would hide the function */

#include "support/check.h"
#include "support/view.h"
#include "wire/number.h"

enum { N_KEYS = 10, REMOTE = 2, ROOM = 64 };

/* A table of node 1 of 2, which has a replica of a key at home at node 0. */
struct site {
    struct core core;
    struct policy policy;
    struct core_table table;
    struct placed *placed;
};

static void site_open(struct site *site, const char *policy)
{
    static const uint64_t replica_keys[] = {REMOTE};
    static const uint32_t replica_nodes[] = {1};
    static const struct tern_placement placement = {
        .replica_keys = replica_keys, .replica_nodes = replica_nodes, .n_replicas = 1};
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, N_KEYS, 1);
    options.placement = &placement;
    *site = (struct site){.core = {.node = 1, .view = view_of(2)}};
    assert_true(policy_find(policy, &site->policy));
    site->table.policy = &site->policy;
    assert_int_equal(placed_new(&site->core, &site->core, "graph", &options, &site->placed),
                     TERN_OK);
    struct store_home home =
        technique_home(&site->core, &site->policy, &options, site->placed, NULL);
    assert_int_equal(store_init(&site->table.store, "graph", &options, &home), TERN_OK);
    const struct technique_setup setup = {.options = &options, .generation = 1};
    assert_true(technique_open(&site->core, &site->table, &setup));
    assert_ptr_equal(site->table.technique, &technique_graph);
}

static void site_close(struct site *site)
{
    technique_close(&site->table);
    store_fini(&site->table.store);
    placed_free(site->placed);
}

static const struct counting *counting_of(const struct site *site)
{
    return site->table.technique->counting;
}

/* An operation on the remote key. */
static void op_init(struct op *op, const struct site *site, enum frame_kind kind, int64_t *value)
{
    static const uint64_t key = REMOTE;
    *op = (struct op){
        .kind = kind, .of = &site->table, .keys = &key, .values = (char *)value, .n = 1};
    op->sorted = op->few_sorted;
    op->order = op->few_order;
    op->sorted[0] = key;
}

/* Begins a pull; returns the number that is sent along. */
static uint64_t ask(struct op *op, const struct site *site, int64_t *value)
{
    uint8_t bytes[ROOM];
    uint64_t number = 0;
    op_init(op, site, FRAME_PULL, value);
    counting_of(site)->begin(&site->table, op, 1);
    assert_non_null(op->counted);
    const uint8_t *end = counting_of(site)->ask(&site->table, op, 0, 1, bytes);
    assert_ptr_equal(number_get(bytes, end, &number), end);
    return number;
}

/* It is answered: with a value that has `count` updates, or, of NULL, that so many are missing. True if that is all. */
static bool answer(struct op *op, const struct site *site, uint64_t count, const int64_t *sent)
{
    uint8_t bytes[ROOM] = {sent != NULL};
    const struct slice all = {bytes, (size_t)(number_put_slowly(count, bytes + 1) - bytes)};
    static const uint8_t none[8];
    size_t head, n_rows;
    assert_true(counting_of(site)->take(&site->table, op, 0, 1, all, &head, &n_rows,
                                        sent ? (const uint8_t *)sent : none));
    assert_int_equal(head, all.n);
    const bool done = counting_of(site)->finish(&site->table, op) == op->n;
    free(op->counted);
    return done;
}

/* A push of 100 was confirmed with this number. */
static void confirm(const struct site *site, uint64_t told)
{
    uint8_t bytes[ROOM];
    int64_t update = 100;
    struct op op;
    op_init(&op, site, FRAME_PUSH, &update);
    const struct slice all = {bytes, (size_t)(number_put_slowly(told, bytes) - bytes)};
    assert_true(counting_of(site)->confirm(&site->table, &op, 0, 1, all));
}

/* Begins a pull that must say that the replica has `count` updates, is told that it may be read, and gives the value. */
static int64_t read_replica(const struct site *site, uint64_t count)
{
    struct op op;
    int64_t value = 0;
    assert_int_equal(ask(&op, site, &value), 1 + 2 * count);
    assert_true(answer(&op, site, 0, NULL));
    return value;
}

static void own_pushes_are_added_once(void **state)
{
    (void)state;
    struct site site;
    struct op op;
    int64_t value = 0;
    site_open(&site, "graph:5");
    assert_int_equal(ask(&op, &site, &value), 0);
    assert_true(answer(&op, &site, 3, &(int64_t){300}));
    assert_int_equal(value, 300);
    confirm(&site, 2 * 4);
    assert_int_equal(read_replica(&site, 4), 400);
    /* Update number 4 is among the three and one that the replica has by now, and so is number 3. */
    confirm(&site, 2 * 3);
    assert_int_equal(read_replica(&site, 4), 400);
    site_close(&site);
}

static void an_answer_that_is_older_than_a_push_is_not_taken(void **state)
{
    (void)state;
    struct site site;
    struct op first, second;
    int64_t value = 0, other = 0;
    site_open(&site, "graph:5");
    assert_int_equal(ask(&first, &site, &value), 0);
    assert_true(answer(&first, &site, 3, &(int64_t){300}));
    assert_int_equal(ask(&second, &site, &other), 1 + 2 * 3);
    confirm(&site, 2 * 12);
    assert_true(answer(&second, &site, 11, &(int64_t){1100}));
    assert_int_equal(other, 1100);
    assert_int_equal(read_replica(&site, 4), 400);
    /* Nor is one that is older than the replica itself. */
    assert_int_equal(ask(&first, &site, &value), 1 + 2 * 4);
    assert_int_equal(ask(&second, &site, &other), 1 + 2 * 4);
    assert_true(answer(&first, &site, 20, &(int64_t){2000}));
    assert_true(answer(&second, &site, 15, &(int64_t){1500}));
    assert_int_equal(read_replica(&site, 20), 2000);
    site_close(&site);
}

static void a_push_executed_before_makes_the_replica_invalid(void **state)
{
    (void)state;
    struct site site;
    struct op op;
    int64_t value = 0;
    site_open(&site, "graph:5");
    assert_int_equal(ask(&op, &site, &value), 0);
    assert_true(answer(&op, &site, 3, &(int64_t){300}));
    /* Meanwhile a pull was answered that the replica may be read: it is asked for again. */
    assert_int_equal(ask(&op, &site, &value), 1 + 2 * 3);
    confirm(&site, 2 * 7 + 1);
    assert_false(answer(&op, &site, 1, NULL));
    assert_int_equal(ask(&op, &site, &value), 0);
    assert_true(answer(&op, &site, 6, &(int64_t){600}));
    assert_int_equal(ask(&op, &site, &value), 0);
    assert_true(answer(&op, &site, 7, &(int64_t){700}));
    assert_int_equal(read_replica(&site, 7), 700);
    site_close(&site);
}

/* Node 1 as a home: key 7 has four updates. */
static void a_home_sends_what_lacks_more_than_the_bound(void **state)
{
    (void)state;
    static const struct {
        uint64_t asked;
        bool is_sent;
        uint64_t number;
    } cases[] = {{0, true, 4},         {1 + 2 * 4, false, 0}, {1 + 2 * 2, false, 2},
                 {1 + 2 * 1, true, 4}, {2 + 2 * 3, true, 4},  {2 + 2 * 4, false, 0},
                 {1 + 2 * 9, true, 4}};
    static const uint64_t key = 7;
    struct site site;
    site_open(&site, "graph:2");
    assert_int_equal(store_create(&site.table.store, key), TERN_OK);
    assert_int_equal(counting_of(&site)->reserve(&site.table, &key, 1), TERN_OK);
    for (uint64_t i = 1; i <= 4; i++)
        assert_int_equal(counting_of(&site)->write(&site.table, FRAME_PUSH, key, &(int64_t){1}),
                         2 * i);
    assert_int_equal(counting_of(&site)->written(&site.table, key), 2 * 4 + 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[ROOM], body[ROOM];
        const struct slice asked = {bytes,
                                    (size_t)(number_put_slowly(cases[i].asked, bytes) - bytes)};
        size_t head, n_rows;
        uint64_t number = 0;
        assert_int_equal(
            counting_of(&site)->serve(&site.table, &key, 1, asked, body, &head, &n_rows), TERN_OK);
        assert_int_equal(n_rows, cases[i].is_sent);
        assert_int_equal(body[0], cases[i].is_sent);
        assert_ptr_equal(number_get_slowly(body + 1, body + head, &number), body + head);
        assert_int_equal(number, cases[i].number);
    }
    site_close(&site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_pushes_are_added_once),
        cmocka_unit_test(an_answer_that_is_older_than_a_push_is_not_taken),
        cmocka_unit_test(a_push_executed_before_makes_the_replica_invalid),
        cmocka_unit_test(a_home_sends_what_lacks_more_than_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
