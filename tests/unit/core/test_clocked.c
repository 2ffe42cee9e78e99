/*
 * Bounded tables whose rows are all in one memory: processes see each other's clocks on the board beside the table. Two nodes
 * of one process stand for two processes.
 */
#include "core/technique.h" /* before cmocka, whose macro fail() would hide the function */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/board.h"
#include "support/alloc.h"
#include "support/check.h"
#include "support/view.h"

enum { N_NODES = 2, N_KEYS = 10, S = 2, N_RINGS = 2000 };

struct nodes {
    struct board *board;
    struct core core[N_NODES];
    struct policy policy;
    struct core_table table[N_NODES];
    struct tern_table_options options;
};

static const struct node_clock at_rest = {.clock = CLOCK_RESTS, .slowest = NO_WORKER};

static struct node_clock at(uint64_t clock)
{
    return (struct node_clock){.clock = clock, .highest = clock, .slowest = 7};
}

static void tell(struct nodes *nodes, uint32_t node, struct node_clock clock)
{
    const struct core_table *table = &nodes->table[node];
    assert_ptr_equal(table->technique->told(table, clock), table->technique->bell(table));
}

static bool open_node(struct nodes *nodes, uint32_t node)
{
    nodes->core[node] = (struct core){.view = view_of(N_NODES), .node = node};
    nodes->table[node] = (struct core_table){.policy = &nodes->policy};
    strcpy(nodes->table[node].store.name, "rows");
    const struct technique_setup setup = {
        .options = &nodes->options, .is_whole = true, .board = nodes->board};
    return technique_open(&nodes->core[node], &nodes->table[node], &setup);
}

static void open_board(struct nodes *nodes, const char *policy)
{
    *nodes = (struct nodes){.options = shape(TERN_DENSE, TERN_F32, N_KEYS, 1)};
    assert_true(policy_find(policy, &nodes->policy));
    nodes->board = aligned_alloc(64, board_bytes(N_NODES));
    assert_non_null(nodes->board);
    memset(nodes->board, 0, board_bytes(N_NODES));
}

static void open_both(struct nodes *nodes, const char *policy)
{
    open_board(nodes, policy);
    for (uint32_t i = 0; i < N_NODES; i++)
        assert_true(open_node(nodes, i));
}

static void close_both(struct nodes *nodes)
{
    for (uint32_t i = 0; i < N_NODES; i++)
        if (nodes->table[i].state)
            technique_close(&nodes->table[i]);
    free(nodes->board);
}

static const uint64_t keys[3] = {1, 2, 3};

static struct access read_at(uint64_t clock, uint64_t min_clock)
{
    return (struct access){.clock = clock, .min_clock = min_clock, .keys = keys, .n = 3};
}

static bool may_read(const struct nodes *nodes, uint32_t node, uint64_t clock)
{
    struct access access = read_at(clock, clock);
    const struct core_table *table = &nodes->table[node];
    return table->technique->admit(table, &access);
}

static void test_a_read_waits_for_the_slowest_process(void **state)
{
    (void)state;
    struct nodes nodes;
    open_both(&nodes, "ssp:2");
    tell(&nodes, 0, at(5));
    tell(&nodes, 1, at(3));
    assert_true(may_read(&nodes, 0, 3 + S));
    assert_false(may_read(&nodes, 0, 3 + S + 1));
    tell(&nodes, 1, at(4));
    assert_true(may_read(&nodes, 0, 3 + S + 1));
    /* The own workers count, too, also before their clock is told. */
    struct access access = read_at(6, 3);
    assert_false(nodes.table[0].technique->admit(&nodes.table[0], &access));
    close_both(&nodes);
}

static void test_ages_are_counted(void **state)
{
    (void)state;
    struct nodes nodes;
    open_both(&nodes, "ssp:2");
    tell(&nodes, 0, at(5));
    tell(&nodes, 1, at(4));
    struct access access = read_at(5, 5);
    assert_true(nodes.table[0].technique->admit(&nodes.table[0], &access));
    assert_int_equal(access.ages[1], 3);
    assert_int_equal(access.ages[0], 0);
    assert_int_equal(access.n_stale, 0);
    close_both(&nodes);
}

static void test_a_process_that_has_still_to_open_is_waited_for(void **state)
{
    (void)state;
    struct nodes nodes;
    open_board(&nodes, "bsp");
    assert_true(open_node(&nodes, 0));
    const struct technique *technique = nodes.table[0].technique;
    tell(&nodes, 0, at(1));
    assert_true(technique->awaits_opening(&nodes.table[0]));
    assert_true(may_read(&nodes, 0, 0));
    assert_false(may_read(&nodes, 0, 1));
    const struct access access = read_at(1, 1);
    assert_int_equal(technique->blame(&nodes.core[0], &nodes.table[0], &access, at(1), 2.0),
                     TERN_LATE);
    assert_non_null(strstr(tern_error(), "node 1, which has no worker that works"));
    assert_true(open_node(&nodes, 1));
    tell(&nodes, 1, at(1));
    assert_false(technique->awaits_opening(&nodes.table[0]));
    assert_true(may_read(&nodes, 0, 1));
    close_both(&nodes);
}

static void test_one_that_rests_or_has_closed_holds_nobody_back(void **state)
{
    (void)state;
    struct nodes nodes;
    open_both(&nodes, "bsp");
    tell(&nodes, 0, at(9));
    tell(&nodes, 1, at_rest);
    assert_true(may_read(&nodes, 0, 9));
    tell(&nodes, 1, at(4));
    assert_false(may_read(&nodes, 0, 9));
    technique_close(&nodes.table[1]);
    assert_true(may_read(&nodes, 0, 9));
    close_both(&nodes);
}

static void test_a_worker_returns_at_a_clock_that_nobody_has_passed(void **state)
{
    (void)state;
    struct nodes nodes;
    open_both(&nodes, "bsp");
    const struct technique *technique = nodes.table[1].technique;
    tell(&nodes, 0, at(6));
    tell(&nodes, 1, at_rest);
    uint64_t clock = 2;
    assert_false(technique->awaits_workers(&nodes.table[1], &clock));
    assert_int_equal(clock, 6);
    tell(&nodes, 0, at(7)); /* it was quicker than the line of the other */
    tell(&nodes, 1, at(clock));
    assert_true(technique->awaits_workers(&nodes.table[1], &clock));
    assert_int_equal(clock, 7);
    close_both(&nodes);
}

static void test_the_slowest_is_named(void **state)
{
    (void)state;
    struct nodes nodes;
    open_both(&nodes, "ssp:2");
    tell(&nodes, 0, at(9));
    tell(&nodes, 1, at(4));
    const struct access access = read_at(9, 9);
    assert_int_equal(
        nodes.table[0].technique->blame(&nodes.core[0], &nodes.table[0], &access, at(9), 2.0),
        TERN_LATE);
    assert_non_null(strstr(tern_error(), "worker 7 of node 1 holds everybody back"));
    assert_non_null(strstr(tern_error(), "clock 4"));
    close_both(&nodes);
}

static void test_a_bound_on_values_always_holds(void **state)
{
    (void)state;
    struct nodes nodes;
    open_both(&nodes, "vap:0.5");
    tell(&nodes, 0, at(9));
    assert_true(may_read(&nodes, 0, 9));
    const struct technique *technique = nodes.table[0].technique;
    const float update = 100;
    assert_true(technique->size(&nodes.table[0], keys, 1, &update) == 0);
    assert_true(technique->admit_update(&nodes.table[0], NULL, 9, 100));
    close_both(&nodes);
}

static void test_a_single_node_has_no_board(void **state)
{
    (void)state;
    struct nodes nodes;
    open_board(&nodes, "ssp:2");
    free(nodes.board);
    nodes.board = NULL;
    assert_true(open_node(&nodes, 0));
    const struct technique *technique = nodes.table[0].technique;
    assert_null(technique->told(&nodes.table[0], at(1)));
    assert_null(technique->bell(&nodes.table[0]));
    struct access access = read_at(5, 3);
    assert_true(technique->admit(&nodes.table[0], &access));
    access = read_at(6, 3);
    assert_false(technique->admit(&nodes.table[0], &access));
    close_both(&nodes);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct nodes nodes;
    open_board(&nodes, "ssp:2");
    (void)view_of(N_NODES);
    alloc_fail_at(1);
    const bool opened = open_node(&nodes, 0);
    alloc_fail_at(0);
    assert_false(opened);
    close_both(&nodes);
}

/* ---- The bell ------------------------------------------------------------------------------------ */

struct game {
    struct bell bell;
    _Atomic uint32_t turn;
};

/* Waits for an even or an odd turn, and begins the next one. No ring may be missed. */
static void play(struct game *game, uint32_t which)
{
    for (uint32_t i = which; i < N_RINGS; i += 2) {
        for (uint32_t seen = bell_read(&game->bell); atomic_load(&game->turn) != i;
             seen = bell_read(&game->bell))
            bell_wait(&game->bell, seen, UINT64_C(600000000000));
        atomic_store(&game->turn, i + 1);
        bell_ring(&game->bell);
    }
}

static void *play_odd(void *game)
{
    play(game, 1);
    return NULL;
}

static void test_no_ring_is_missed(void **state)
{
    (void)state;
    static struct game game;
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, play_odd, &game), 0);
    play(&game, 0);
    pthread_join(other, NULL);
    assert_int_equal(atomic_load(&game.turn), N_RINGS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_read_waits_for_the_slowest_process),
        cmocka_unit_test(test_ages_are_counted),
        cmocka_unit_test(test_a_process_that_has_still_to_open_is_waited_for),
        cmocka_unit_test(test_one_that_rests_or_has_closed_holds_nobody_back),
        cmocka_unit_test(test_a_worker_returns_at_a_clock_that_nobody_has_passed),
        cmocka_unit_test(test_the_slowest_is_named),
        cmocka_unit_test(test_a_bound_on_values_always_holds),
        cmocka_unit_test(test_a_single_node_has_no_board),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_ring_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
