/* Clocks, the pace of a node and the names of policies; and what bounded tables refuse. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#undef fail /* cmocka's; base/status.h has another */

#include "base/rand.h"
#include "core/bounded.h"
#include "core/worker_clocks.h"
#include "core/policy.h"
#include "wire/section.h"
#include "support/view.h"

/* ---- Clocks -------------------------------------------------------------------------------------- */

static uint64_t lowest_of(const struct min_clock *clocks, uint32_t *n)
{
    uint64_t lowest = CLOCK_RESTS;
    *n = 0;
    for (uint32_t i = 0; i < clocks->n; i++) {
        if (clocks->values[i] < lowest) {
            lowest = clocks->values[i];
            *n = 0;
        }
        *n += clocks->values[i] == lowest;
    }
    return lowest;
}

static void the_lowest_clock_is_known_however_they_move(void **state)
{
    (void)state;
    struct min_clock clocks;
    assert_true(min_clock_init(&clocks, 5, 0));
    for (uint64_t i = 0; i < 20000; i++) {
        uint32_t n, index = (uint32_t)(rand_at(1, i) % clocks.n);
        uint64_t draw = rand_at(2, i) % 10, value = clocks.values[index];
        if (draw == 0)
            value = CLOCK_RESTS;
        else if (value == CLOCK_RESTS)
            value = i / 100;
        else
            value += draw / 4;
        min_clock_set(&clocks, index, value);
        if (i % 1000 == 0)
            assert_true(min_clock_add(&clocks));
        assert_int_equal(clocks.lowest, lowest_of(&clocks, &n));
        assert_int_equal(clocks.n_lowest, n);
        uint32_t slowest = min_clock_slowest(&clocks);
        assert_true(clocks.lowest == CLOCK_RESTS ? slowest == clocks.n
                                                 : clocks.values[slowest] == clocks.lowest);
    }
    min_clock_fini(&clocks);
}

static void a_node_is_as_far_as_its_slowest_worker(void **state)
{
    (void)state;
    struct worker_clocks pace;
    uint32_t first, second, third;
    worker_clocks_init(&pace);
    assert_int_equal(worker_clocks_now(&pace).clock,
                     0); /* nobody runs away from a node without workers yet */
    assert_int_equal(worker_clocks_now(&pace).slowest, NO_WORKER);
    assert_true(worker_clocks_open(&pace, 7, 0, &first));
    assert_true(worker_clocks_open(&pace, 8, 0, &second));
    assert_false(worker_clocks_set(&pace, first, 1));
    assert_int_equal(worker_clocks_now(&pace).clock, 0);
    assert_int_equal(worker_clocks_now(&pace).slowest, 8);
    assert_true(worker_clocks_set(&pace, second, 3));
    assert_int_equal(worker_clocks_now(&pace).clock, 1);
    assert_int_equal(worker_clocks_now(&pace).slowest, 7);
    assert_true(worker_clocks_set(&pace, first, CLOCK_RESTS));
    assert_int_equal(worker_clocks_now(&pace).clock, 3);
    worker_clocks_close(&pace, second);
    assert_int_equal(worker_clocks_now(&pace).clock, CLOCK_RESTS);
    assert_int_equal(worker_clocks_now(&pace).highest, 3);
    assert_true(worker_clocks_open(&pace, 9, 5, &third));
    assert_int_equal(third, second);
    assert_int_equal(worker_clocks_now(&pace).clock, 5);
    assert_int_equal(worker_clocks_now(&pace).slowest, 9);
    worker_clocks_fini(&pace);
}

/* ---- Policies ------------------------------------------------------------------------------------- */

static void policies_take_their_numbers_from_their_names(void **state)
{
    (void)state;
    struct policy policy;
    assert_true(policy_find(NULL, &policy));
    assert_string_equal(policy.name, "adaptive");
    assert_true(policy_find("bsp", &policy));
    assert_int_equal(policy.bound, BOUND_CLOCKS);
    assert_int_equal(policy.clocks, 0);
    assert_true(policy_find("ssp:3", &policy));
    assert_int_equal(policy.clocks, 3);
    assert_int_equal(policy.refresh, REFRESH_ON_DEMAND);
    assert_true(policy_find("essp:010", &policy));
    assert_string_equal(policy.name, "essp:10");
    assert_int_equal(policy.refresh, REFRESH_EACH_CLOCK);
    assert_true(policy_find("vap:0.5", &policy));
    assert_int_equal(policy.bound, BOUND_VALUE);
    assert_true(policy.value == 0.5 && !policy.shrinks);
    assert_true(policy_find("vap:2e-3/sqrt", &policy));
    assert_true(policy.value == 2e-3 && policy.shrinks);
}

static void other_names_are_no_policies(void **state)
{
    (void)state;
    static const char *const names[] = {"",
                                        "ssp",
                                        "ssp:",
                                        "ssp:x",
                                        "ssp:-1",
                                        "ssp:1.5",
                                        "ssp:1000001",
                                        "bsp:1",
                                        "essp: 1",
                                        "vap",
                                        "vap:0",
                                        "vap:-1",
                                        "vap:nan",
                                        "vap:inf",
                                        "vap:1/",
                                        "vap:1/log",
                                        "adaptive:1",
                                        "ssp:99999999999999999999999"};
    struct policy policy;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_false(policy_find(names[i], &policy));
}

/* ---- Sizes of updates ----------------------------------------------------------------------------- */

static void the_size_of_a_push_is_that_of_its_largest_sum(void **state)
{
    (void)state;
    const struct store store = {.type = TERN_F32, .length = 2, .value_bytes = 2 * sizeof(float)};
    const uint64_t keys[] = {5, 2, 5};
    const float updates[] = {0.5f, -1, 3, 0, -2.5f, 1};
    assert_true(bounded_size(&store, keys, 2, updates) == 3);
    assert_true(bounded_size(&store, keys, 3, updates) == 3.5);
    const float nothing[] = {0, (float)NAN};
    assert_true(isinf(bounded_size(&store, keys, 1, nothing)));
}

/* ---- Two nodes -------------------------------------------------------------------------------------- */

struct pair {
    struct core cores[2];
    struct core_table tables[2];
    struct bounded *bounded[2];
    struct policy policy;
};

static void pair_open(struct pair *pair, const char *name)
{
    memset(pair, 0, sizeof *pair);
    assert_true(policy_find(name, &pair->policy));
    struct tern_table_options options = {
        .struct_size = sizeof options, .type = TERN_I64, .n_keys = 10, .length = 1};
    for (uint32_t i = 0; i < 2; i++) {
        pair->cores[i] = (struct core){.node = i, .view = view_of(2)};
        struct store_home home = {.end = 10, .rows_everywhere = true};
        assert_int_equal(store_init(&pair->tables[i].store, "pair", &options, &home), TERN_OK);
        pair->tables[i].policy = &pair->policy;
        pair->bounded[i] = bounded_new(&pair->cores[i], &pair->tables[i]);
        assert_non_null(pair->bounded[i]);
    }
}

static void pair_close(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        bounded_free(pair->bounded[i]);
        store_fini(&pair->tables[i].store);
    }
}

static struct node_clock at(uint64_t clock)
{
    return (struct node_clock){.clock = clock, .highest = clock, .slowest = 0};
}

static struct node_clock resting(uint64_t highest)
{
    return (struct node_clock){.clock = CLOCK_RESTS, .highest = highest, .slowest = NO_WORKER};
}

/* A question and its answer, which may come later. */
struct talk {
    struct buffer question, answer;
};

/* Node `from` makes a question for the other one. */
static struct talk ask(struct pair *pair, uint32_t from)
{
    struct talk talk = {0};
    assert_true(bounded_has_request(pair->bounded[from], !from));
    assert_int_equal(bounded_request(pair->bounded[from], !from, &talk.question), TERN_OK);
    return talk;
}

/* The question comes to the other node. */
static void serve(struct pair *pair, uint32_t from, struct talk *talk)
{
    struct frame request = {.kind = FRAME_ROUND,
                            .body_bytes = (uint32_t)buffer_size(&talk->question)};
    assert_int_equal(bounded_serve(pair->bounded[!from], from, &request,
                                   buffer_head(&talk->question), &talk->answer),
                     TERN_OK);
}

/* The answer comes back. */
static void hear(struct pair *pair, uint32_t from, struct talk *talk)
{
    struct frame reply;
    assert_int_equal(frame_decode(buffer_head(&talk->answer), &reply), TERN_OK);
    assert_int_equal(bounded_answer(pair->bounded[from], !from, &reply,
                                    buffer_head(&talk->answer) + FRAME_HEADER_BYTES),
                     TERN_OK);
    buffer_free(&talk->question);
    buffer_free(&talk->answer);
}

/* Node `from` asks the other one; false if it has no reason to. */
static bool exchange(struct pair *pair, uint32_t from)
{
    if (!bounded_has_request(pair->bounded[from], !from))
        return false;
    struct talk talk = ask(pair, from);
    serve(pair, from, &talk);
    hear(pair, from, &talk);
    return true;
}

static void settle(struct pair *pair)
{
    bool goes_on = true;
    for (int tries = 0; goes_on; tries++) {
        bool asked = exchange(pair, 0);
        goes_on = exchange(pair, 1) || asked;
        assert_true(tries < 20);
    }
}

static void push(struct pair *pair, uint32_t node, uint64_t key, int64_t x)
{
    struct store *store = &pair->tables[node].store;
    assert_int_equal(store_create(store, key), TERN_OK);
    assert_true(store_push_one(store, key, &x));
}

static bool can_read(struct pair *pair, uint32_t node, uint64_t clock, uint64_t key, int64_t *x)
{
    uint32_t stale, ages[BOUNDED_STEPS];
    *x = 0;
    store_pull_one(&pair->tables[node].store, key, x);
    return !bounded_check(pair->bounded[node], clock, clock, &key, 1, &stale, ages);
}

static void a_read_waits_for_the_slowest_and_then_for_the_value(void **state)
{
    (void)state;
    struct pair pair;
    const uint32_t first = 0;
    const uint64_t key = 9; /* at home at node 1 */
    int64_t x;
    pair_open(&pair, "ssp:1");
    push(&pair, 0, key, 1);
    push(&pair, 1, key, 10);
    /* At clock 1 nothing is promised, but what there is is fetched once. */
    assert_false(can_read(&pair, 0, 1, key, &x));
    assert_int_equal(x, 1);
    assert_int_equal(bounded_want(pair.bounded[0], &key, &first, 1), TERN_OK);
    settle(&pair);
    assert_true(can_read(&pair, 0, 1, key, &x));
    assert_int_equal(x, 11);
    push(&pair, 1, key, 100);
    assert_int_equal(bounded_take(pair.bounded[0], at(2)), TERN_OK);
    assert_int_equal(bounded_take(pair.bounded[1], at(0)), TERN_OK);
    settle(&pair);
    assert_false(can_read(&pair, 0, 2, key, &x));
    assert_false(bounded_may_read(pair.bounded[0], 2, 2));
    struct standing standing = bounded_slowest(pair.bounded[0]);
    assert_int_equal(standing.node, 1);
    assert_int_equal(standing.clock, 0);
    assert_int_equal(bounded_take(pair.bounded[1], at(1)), TERN_OK);
    settle(&pair);
    assert_true(bounded_may_read(pair.bounded[0], 2, 2));
    assert_false(can_read(&pair, 0, 2, key, &x)); /* but the replica is too old */
    assert_int_equal(bounded_want(pair.bounded[0], &key, &first, 1), TERN_OK);
    settle(&pair);
    assert_true(can_read(&pair, 0, 2, key, &x));
    assert_int_equal(x, 111);
    assert_false(can_read(&pair, 0, 3, key, &x));
    pair_close(&pair);
}

static void eager_replicas_follow_the_clock(void **state)
{
    (void)state;
    struct pair pair;
    const uint32_t first = 0;
    const uint64_t key = 9;
    int64_t x;
    pair_open(&pair, "essp:0");
    assert_int_equal(bounded_want(pair.bounded[0], &key, &first, 1), TERN_OK);
    settle(&pair);
    for (uint64_t clock = 1; clock < 10; clock++) {
        push(&pair, 1, key, 1);
        assert_false(can_read(&pair, 0, clock, key, &x));
        assert_int_equal(bounded_take(pair.bounded[0], at(clock)), TERN_OK);
        assert_int_equal(bounded_take(pair.bounded[1], at(clock)), TERN_OK);
        settle(&pair);
        assert_true(can_read(&pair, 0, clock, key, &x));
        assert_int_equal(x, clock);
    }
    pair_close(&pair);
}

/* Both nodes ask at the same time; `late`: the row comes after the answer to what it crossed. */
static void a_row_is_crossed(const char *policy, bool late)
{
    struct pair pair;
    const uint32_t first = 0;
    const uint64_t key = 9;
    int64_t x;
    pair_open(&pair, policy);
    assert_int_equal(bounded_want(pair.bounded[0], &key, &first, 1), TERN_OK);
    settle(&pair);
    push(&pair, 0, key, 1);
    push(&pair, 1, key, 10);
    assert_int_equal(bounded_take(pair.bounded[0], at(1)), TERN_OK);
    assert_int_equal(bounded_take(pair.bounded[1], at(1)), TERN_OK);
    struct talk change = ask(&pair, 0), row = ask(&pair, 1);
    serve(&pair, 0, &change);
    if (late) {
        hear(&pair, 0, &change);
        push(&pair, 0, key, 100);
        assert_int_equal(bounded_take(pair.bounded[0], at(2)), TERN_OK);
        assert_true(bounded_is_busy(pair.bounded[0]));
        assert_false(bounded_has_request(pair.bounded[0], 1));
    }
    serve(&pair, 1, &row);
    hear(&pair, 1, &row);
    assert_true(can_read(&pair, 0, 1, key, &x));
    assert_int_equal(x, late ? 111 : 11);
    if (!late)
        hear(&pair, 0, &change);
    settle(&pair);
    store_pull_one(&pair.tables[1].store, key, &x);
    assert_int_equal(x, late ? 111 : 11);
    pair_close(&pair);
}

static void a_row_that_crosses_changes_gets_them(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        a_row_is_crossed("essp:0", late);
        a_row_is_crossed("vap:1000", late);
    }
}

/* The last of several questions with the rows has the clock that counts. */
static void a_clock_counts_when_all_rows_have_come(void **state)
{
    (void)state;
    struct pair pair;
    const uint64_t keys[] = {7, 8, 9};
    const uint32_t all[] = {0, 1, 2};
    int64_t x;
    pair_open(&pair, "essp:0");
    pair.bounded[1]->round_bytes = 1; /* a row in each question */
    assert_int_equal(bounded_want(pair.bounded[0], keys, all, 3), TERN_OK);
    settle(&pair);
    for (uint64_t key = 7; key < 10; key++)
        push(&pair, 1, key, 1);
    assert_int_equal(bounded_take(pair.bounded[0], at(1)), TERN_OK);
    assert_int_equal(bounded_take(pair.bounded[1], at(1)), TERN_OK);
    assert_int_equal(pair.bounded[1]->counts.questions, 0);
    for (int i = 0; i < 3; i++) {
        assert_false(can_read(&pair, 0, 1, 9, &x));
        assert_true(exchange(&pair, 1));
    }
    assert_true(can_read(&pair, 0, 1, 9, &x));
    assert_int_equal(x, 1);
    /* One message: nothing was asked for. */
    assert_false(exchange(&pair, 1));
    assert_int_equal(pair.bounded[0]->counts.values_received, 6);
    pair_close(&pair);
}

/* An answer may have room for a part of what was asked for: the rest is asked for at once, and not when something else is to be
 * said. The simulator does not see the difference, because a worker that waits asks again. */
static void the_rest_of_an_answer_is_asked_for(void **state)
{
    (void)state;
    static const char *const policies[] = {"ssp:1", "essp:0"};
    const uint64_t keys[] = {7, 8, 9};
    const uint32_t all[] = {0, 1, 2};
    struct pair pair;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        pair_open(&pair, policies[i]);
        pair.bounded[1]->round_bytes = 1; /* a row in each answer */
        assert_int_equal(bounded_want(pair.bounded[0], keys, all, 3), TERN_OK);
        for (uint64_t n = 1; n <= 3; n++) {
            assert_true(exchange(&pair, 0));
            assert_int_equal(pair.bounded[0]->counts.values_received, n);
        }
        assert_false(exchange(&pair, 0));
        pair_close(&pair);
    }
}

/* An answer that comes after a later row, which came with the clock, changes nothing. */
static void the_first_value_may_come_last(void **state)
{
    (void)state;
    struct pair pair;
    const uint32_t first = 0;
    const uint64_t key = 9;
    int64_t x;
    pair_open(&pair, "essp:0");
    assert_int_equal(bounded_want(pair.bounded[0], &key, &first, 1), TERN_OK);
    struct talk asking = ask(&pair, 0);
    serve(&pair, 0, &asking);
    push(&pair, 1, key, 10);
    assert_int_equal(bounded_take(pair.bounded[1], at(1)), TERN_OK);
    assert_true(exchange(&pair, 1));
    hear(&pair, 0, &asking);
    assert_true(can_read(&pair, 0, 1, key, &x));
    assert_int_equal(x, 10);
    pair_close(&pair);
}

/* With the update that is to be made, what is not seen is within the bound; a larger update is made alone. */
static void an_update_counts_itself(void **state)
{
    (void)state;
    struct pair pair;
    struct unseen unseen = {0};
    pair_open(&pair, "vap:2");
    const struct bounded *bounded = pair.bounded[0];
    assert_true(bounded_may_go_on(bounded, &unseen, 0, 2));
    assert_true(bounded_may_go_on(bounded, &unseen, 0, 7));
    bounded_pushed(pair.bounded[0], &unseen, 1.5);
    assert_true(bounded_may_go_on(bounded, &unseen, 0, 0));
    assert_true(bounded_may_go_on(bounded, &unseen, 0, 0.5));
    assert_false(bounded_may_go_on(bounded, &unseen, 0, 0.75));
    assert_false(bounded_may_go_on(bounded, &unseen, 0, 7));
    bounded_pushed(pair.bounded[0], &unseen, 0.75);
    assert_false(bounded_may_go_on(bounded, &unseen, 0, 0));
    pair_close(&pair);
}

/* Nobody waits for workers that rest, neither others nor they themselves when they read. */
static void those_who_rest_may_read(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, "bsp");
    assert_int_equal(bounded_take(pair.bounded[0], at(10)), TERN_OK);
    assert_int_equal(bounded_take(pair.bounded[1], at(3)), TERN_OK);
    settle(&pair);
    assert_false(bounded_may_read(pair.bounded[0], 10, 10));
    assert_int_equal(bounded_take(pair.bounded[0], resting(10)), TERN_OK);
    assert_int_equal(bounded_take(pair.bounded[1], resting(3)), TERN_OK);
    settle(&pair);
    assert_true(bounded_may_read(pair.bounded[0], 10, CLOCK_RESTS));
    assert_true(bounded_may_read(pair.bounded[1], 3, CLOCK_RESTS));
    pair_close(&pair);
}

/* Even a worker that has just been opened: what others were told of all clocks before theirs stays true. */
static void who_comes_back_is_not_behind_what_others_were_told(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, "bsp");
    assert_int_equal(bounded_take(pair.bounded[0], at(10)), TERN_OK);
    assert_int_equal(bounded_take(pair.bounded[1], at(3)), TERN_OK);
    settle(&pair);
    assert_true(bounded_may_read(pair.bounded[1], 10, 10));
    assert_true(bounded_is_awaited(pair.bounded[0]));
    assert_int_equal(bounded_take(pair.bounded[0], resting(10)), TERN_OK);
    settle(&pair);
    assert_false(bounded_is_awaited(pair.bounded[0]));
    assert_int_equal(bounded_highest(pair.bounded[0]), 10);
    assert_int_equal(bounded_take(pair.bounded[0], at(10)), TERN_OK);
    settle(&pair);
    assert_true(bounded_is_awaited(pair.bounded[0]));
    assert_false(bounded_may_read(pair.bounded[1], 11, 11));
    pair_close(&pair);
}

static void what_is_left_over_goes_before_what_is_new(void **state)
{
    (void)state;
    struct pair pair;
    int64_t x;
    pair_open(&pair, "ssp:0");
    struct bounded *bounded = pair.bounded[0];
    bounded->round_bytes = 1; /* a row in each question */
    for (uint64_t clock = 1; clock <= 10; clock++) {
        for (uint64_t key = 5; key < 10; key++) /* at home at node 1 */
            push(&pair, 0, key, 1);
        assert_int_equal(bounded_take(bounded, at(clock)), TERN_OK);
        assert_true(exchange(&pair, 0));
    }
    /* Two times of five rows: what was changed at clock 1, and until clock 6. */
    assert_int_equal(bounded->counts.deltas_sent, 10);
    assert_int_equal(bounded_slowest(pair.bounded[1]).clock, 6);
    store_pull_one(&pair.tables[1].store, 7, &x);
    assert_true(x >= 6); /* a row is sent as it is then */
    assert_int_equal(bounded_take(bounded, at(10)), TERN_OK);
    settle(&pair);
    store_pull_one(&pair.tables[1].store, 7, &x);
    assert_int_equal(x, 10);
    assert_int_equal(bounded_slowest(pair.bounded[1]).clock, 10);
    pair_close(&pair);
}

static void nonsense_is_refused_and_has_no_effect(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, "essp:0");
    struct bounded *bounded = pair.bounded[1];
    uint8_t body[256];
    struct buffer out = {0};
    for (uint64_t i = 0; i < 20000; i++) {
        size_t n = rand_at(i, 0) % sizeof body;
        for (size_t k = 0; k < n; k++)
            body[k] = (uint8_t)rand_at(i, k + 1);
        if (n >= SECTION_HEADER_BYTES && i % 2)
            section_write(body, (enum section_kind)(rand_at(i, 500) % 13), 1,
                          8 * (rand_at(i, 501) % 12));
        struct frame request = {.kind = FRAME_ROUND, .body_bytes = (uint32_t)n};
        out.begin = out.end = 0;
        enum tern_status status = bounded_serve(bounded, 0, &request, body, &out);
        /* A lone section of clocks is a question. */
        assert_true(status == TERN_INVALID || (i % 2 && status == TERN_OK));
        struct frame answer = {.kind = FRAME_ROUND_REPLY, .body_bytes = (uint32_t)n};
        status = bounded_answer(pair.bounded[0], 1, &answer, body);
        assert_true(status == TERN_PEER || (i % 2 && status == TERN_OK));
    }
    assert_int_equal(store_rows(&pair.tables[1].store), 0);
    assert_int_equal(store_rows(&pair.tables[0].store), 0);
    buffer_free(&out);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_clock_is_known_however_they_move),
        cmocka_unit_test(a_node_is_as_far_as_its_slowest_worker),
        cmocka_unit_test(policies_take_their_numbers_from_their_names),
        cmocka_unit_test(other_names_are_no_policies),
        cmocka_unit_test(the_size_of_a_push_is_that_of_its_largest_sum),
        cmocka_unit_test(a_read_waits_for_the_slowest_and_then_for_the_value),
        cmocka_unit_test(eager_replicas_follow_the_clock),
        cmocka_unit_test(a_row_that_crosses_changes_gets_them),
        cmocka_unit_test(a_clock_counts_when_all_rows_have_come),
        cmocka_unit_test(the_rest_of_an_answer_is_asked_for),
        cmocka_unit_test(the_first_value_may_come_last),
        cmocka_unit_test(an_update_counts_itself),
        cmocka_unit_test(those_who_rest_may_read),
        cmocka_unit_test(who_comes_back_is_not_behind_what_others_were_told),
        cmocka_unit_test(what_is_left_over_goes_before_what_is_new),
        cmocka_unit_test(nonsense_is_refused_and_has_no_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
