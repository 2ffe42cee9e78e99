/*
 * What is pushed to replicas and main copies reaches all who want the key: exactly once, also while the key moves, and
 * through the table's updater.
 */
#include "integers.h"

#include "core/manager_internal.h"

/* ---- Changes ------------------------------------------------------------------------------------- */

/* Three replicas and the owner change the key between rounds: all agree in the end, and each has always
 * seen what it did itself. */
static void changes_reach_all_through_the_owner(void **state)
{
    (void)state;
    struct managers all = one_key(4, "adaptive", 1);
    want_in_turn(&all, 0);
    int64_t sum = 1, own[4] = {0};
    struct dice dice = {9};
    for (int step = 0; step < 500; step++) {
        uint32_t i = (uint32_t)dice_below(&dice, 4);
        int64_t x = (int64_t)dice_below(&dice, 100);
        push(&all.members[i], KEY, x);
        sum += x;
        own[i] += x;
        round_of(&all, (uint32_t)dice_below(&dice, 4));
        for (uint32_t k = 0; k < 4; k++)
            assert_true(value(&all.members[k], KEY) >= own[k]);
    }
    quiesce(&all);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(value(&all.members[i], KEY), sum);
    managers_free(&all);
}

/* Of three exchanges, one is also of what was changed in rare keys; and so is any that somebody waits for. */
static void changes_of_rare_keys_wait(void **state)
{
    (void)state;
    struct managers all = shared_by_two(2, 1);
    static const uint64_t none[KEY / 64 + 1];
    struct manager *manager = all.members[1].manager;
    manager->often = none;
    manager->rare_every = 3;
    for (uint64_t round = 1; round <= 6; round++) {
        push(&all.members[1], KEY, 1);
        ok(manager_begin_round(manager, true));
        assert_int_equal(manager_has_todo(manager, 0), round % 3 == 0);
        if (manager_has_todo(manager, 0))
            exchange(&all, 1, 0);
        assert_int_equal(value(&all.members[0], KEY), (int64_t)(1 + round / 3 * 3));
    }
    push(&all.members[1], KEY, 1);
    manager_be_exact(manager, true);
    ok(manager_begin_round(manager, true));
    assert_true(manager_has_todo(manager, 0));
    quiesce(&all);
    assert_int_equal(value(&all.members[0], KEY), 8);
    managers_free(&all);
}

/* What a holder changes itself is not sent back to it. */
static void a_holder_does_not_get_its_own_delta(void **state)
{
    (void)state;
    struct managers all = one_key(3, "adaptive", 1);
    want_in_turn(&all, 0);
    quiesce(&all);
    uint64_t before[2] = {counts_of(&all, 1)->values_received, counts_of(&all, 2)->values_received};
    push(&all.members[1], KEY, 1);
    quiesce(&all);
    assert_int_equal(counts_of(&all, 1)->values_received, before[0]);
    assert_int_equal(counts_of(&all, 2)->values_received, before[1] + 1);
    assert_int_equal(counts_of(&all, 1)->deltas_sent, 1);
    assert_int_equal(counts_of(&all, 0)->deltas_received, 1);
    /* And with no change nothing is said. */
    uint64_t received = counts_of(&all, 2)->values_received;
    quiesce(&all);
    assert_int_equal(counts_of(&all, 1)->deltas_sent, 1);
    assert_int_equal(counts_of(&all, 2)->values_received, received);
    managers_free(&all);
}

/* A push while the delta before it is under way belongs to the next one. */
static void a_change_under_way_is_not_repeated(void **state)
{
    (void)state;
    struct managers all = shared_by_two(2, 1);
    push(&all.members[1], KEY, 10);
    ok(manager_take(all.members[1].manager));
    assert_true(ask_peer(&all, 1, 0));
    push(&all.members[1], KEY, 100);
    push(&all.members[0], KEY, 1000);
    ok(manager_take(all.members[0].manager));
    serve_peer(&all, 1, 0);
    push(&all.members[1], KEY, 10000);
    hear_peer(&all, 1, 0);
    assert_int_equal(value(&all.members[0], KEY), 1011);
    assert_int_equal(value(&all.members[1], KEY), 11111);
    quiesce(&all);
    assert_int_equal(value(&all.members[0], KEY), 11111);
    assert_int_equal(value(&all.members[1], KEY), 11111);
    managers_free(&all);
}

/* A replica that was changed after its end was told: its owner has given the key away meanwhile, so the
 * delta comes back and goes to the new owner, and then the replica ends. */
static void a_delta_that_misses_the_owner_comes_back(void **state)
{
    (void)state;
    struct managers all = one_key(3, "adaptive", 1);
    want(&all.members[0], KEY);
    want(&all.members[2], KEY);
    round_of(&all, 2);
    unwant(&all.members[2], KEY);
    ok(manager_take(all.members[2].manager));
    assert_true(ask_peer(&all, 2, 0));
    serve_peer(&all, 2, 0);
    unwant(&all.members[0], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    assert_int_equal(owner_of(&all, KEY), 1);
    push(&all.members[2], KEY, 50);
    hear_peer(&all, 2, 0);
    assert_int_equal(state_of(&all.members[2], KEY), ENTRY_REPLICA);
    exchange(&all, 2, 0);
    assert_int_equal(value(&all.members[2], KEY), 51);
    assert_int_equal(counts_of(&all, 2)->redirected, 1);
    assert_true(manager_is_busy(all.members[2].manager));
    quiesce(&all);
    assert_int_equal(value(&all.members[1], KEY), 51);
    assert_int_equal(state_of(&all.members[2], KEY), ENTRY_ELSEWHERE);
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_OWNED);
    managers_free(&all);
}

/* A write of another node to the main copy: those with replicas hear of it, and the writer is told
 * whether it is one of them. */
static void a_remote_write_reaches_the_replicas(void **state)
{
    (void)state;
    struct managers all = shared_by_two(3, 1);
    const uint64_t keys[] = {KEY, KEY + 1};
    create(&all, KEY + 1, 1);
    push(&all.members[0], KEY, 6);
    assert_false(manager_written(all.members[0].manager, 2, keys, 2));
    assert_true(manager_written(all.members[0].manager, 1, keys, 2));
    assert_false(manager_written(all.members[0].manager, 1, keys + 1, 1));
    exchange(&all, 1, 0);
    assert_int_equal(value(&all.members[1], KEY), 7);
    managers_free(&all);
}

/* A node writes to the main copy while a replica is on its way to it, and ends its interest before it hears of
 * what it wrote. A replica that is changed in that moment stays a little, without what was written: whoever
 * wrote must know. */
static void a_replica_that_outlives_its_end_is_untold(void **state)
{
    (void)state;
    struct managers all = one_key(2, "adaptive", 1);
    const uint64_t key = KEY;
    struct manager *manager = all.members[1].manager;
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    assert_true(ask_peer(&all, 1, 0));
    serve_peer(&all, 1, 0);
    push(&all.members[0], KEY, 6);
    assert_true(manager_written(all.members[0].manager, 1, &key, 1));
    hear_peer(&all, 1, 0);
    assert_int_equal(value(&all.members[1], KEY), 1);
    assert_false(manager_has_unregistered(manager, &key, 1));
    unwant(&all.members[1], KEY);
    ok(manager_take(manager));
    assert_true(ask_peer(&all, 1, 0));
    push(&all.members[1], KEY, 20);
    serve_peer(&all, 1, 0);
    hear_peer(&all, 1, 0);
    assert_int_equal(value(&all.members[1], KEY), 21);
    assert_true(manager_has_unregistered(manager, &key, 1));
    quiesce(&all);
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_ELSEWHERE);
    assert_false(manager_has_unregistered(manager, &key, 1));
    assert_int_equal(value(&all.members[0], KEY), 27);
    managers_free(&all);
}

/* The longest rows there are: of two that are changed, one at a time fits a frame. */
static void the_longest_rows_are_shared_and_moved(void **state)
{
    (void)state;
    enum { LONG = TERN_MAX_VALUE_BYTES / 8, N = 3 };
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, 2 * N, LONG);
    struct managers all = managers_new(2, "adaptive", &options);
    int64_t *row = array_of(LONG, sizeof *row);
    row[0] = row[LONG - 1] = 1;
    for (uint64_t key = 0; key < N; key++) {
        want(&all.members[0], key);
        want(&all.members[1], key);
    }
    quiesce(&all);
    for (uint64_t key = 0; key < N; key++) {
        assert_int_equal(state_of(&all.members[1], key), ENTRY_REPLICA);
        assert_true(store_push_one(&all.members[0].store, key, row));
        assert_true(store_push_one(&all.members[1].store, key, row));
        unwant(&all.members[0], key);
    }
    quiesce(&all);
    for (uint64_t key = 0; key < N; key++) {
        assert_int_equal(owner_of(&all, key), 1);
        assert_true(store_pull_one(&all.members[1].store, key, row));
        assert_true(row[0] == 2 && row[LONG - 1] == 2);
    }
    free(row);
    managers_free(&all);
}

/* An owner that always has more to tell than an answer takes: what is oldest comes first, so what there was
 * when a sweep began is here when it ends, which it does. */
static void a_sweep_ends_whatever_is_added(void **state)
{
    (void)state;
    enum { LONG = ROUND_BYTES / 8, N = 8 };
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, 2 * N, LONG);
    struct managers all = managers_new(2, "adaptive", &options);
    struct manager *manager = all.members[1].manager;
    int64_t *row = array_of(LONG, sizeof *row);
    for (uint64_t key = 0; key < N; key++) {
        want(&all.members[0], key);
        want(&all.members[1], key);
    }
    for (uint64_t key = 0; key < N; key++)
        round_of(&all, 1);
    row[0] = 1;
    for (uint64_t key = 0; key < N; key++)
        assert_true(store_push_one(&all.members[0].store, key, row));
    ok(manager_take(all.members[0].manager));
    manager_begin_sweep(manager);
    int n_rounds = 0;
    for (; n_rounds <= N && !manager_is_swept(manager); n_rounds++) {
        exchange(&all, 1, 0);
        manager_round_ended(manager);
        assert_true(all.members[1].questions[0].more);
        for (uint64_t key = 0; key < 2; key++)
            assert_true(store_push_one(&all.members[0].store, key, row));
        ok(manager_take(all.members[0].manager));
    }
    assert_in_range(n_rounds, 2, N);
    for (uint64_t key = 0; key < N; key++) {
        assert_true(store_pull_one(&all.members[1].store, key, row));
        assert_true(row[0] >= 1);
    }
    /* A peer that there is no reason to ask has nothing to tell. */
    for (uint64_t key = 0; key < N; key++)
        unwant(&all.members[1], key);
    quiesce(&all);
    manager_begin_sweep(manager);
    assert_false(manager_is_swept(manager));
    round_of(&all, 1);
    assert_true(manager_is_swept(manager));
    free(row);
    managers_free(&all);
}

/* Rows so long that not all changes fit a request: a key that moves to the holder of a replica whose
 * change is still to be sent keeps it. */
static void changes_that_found_no_room_are_kept(void **state)
{
    (void)state;
    enum { LONG = ROUND_BYTES / 8, N = 8 };
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, 2 * N, LONG);
    struct managers all = managers_new(2, "adaptive", &options);
    int64_t *update = array_of(LONG, sizeof *update);
    update[0] = update[LONG - 1] = 1;
    for (uint64_t key = 0; key < N; key++) {
        want(&all.members[0], key);
        want(&all.members[1], key);
    }
    for (uint64_t key = 0; key < N; key++)
        round_of(&all, 1);
    for (uint64_t key = 0; key < N; key++) {
        assert_int_equal(state_of(&all.members[1], key), ENTRY_REPLICA);
        assert_true(store_push_one(&all.members[1].store, key, update));
        unwant(&all.members[0], key);
    }
    ok(manager_take(all.members[1].manager));
    int n_asked = 0;
    for (; n_asked < 4 * N && ask_peer(&all, 1, 0); n_asked++) {
        serve_peer(&all, 1, 0);
        hear_peer(&all, 1, 0);
        for (uint64_t key = 0; key < N; key++) {
            assert_true(store_pull_one(&all.members[1].store, key, update));
            assert_true(update[0] == 1 && update[LONG - 1] == 1);
        }
    }
    assert_true(n_asked > 1);
    quiesce(&all);
    for (uint64_t key = 0; key < N; key++) {
        assert_int_equal(owner_of(&all, key), 1);
        assert_true(store_pull_one(&all.members[1].store, key, update));
        assert_true(update[0] == 1 && update[LONG - 1] == 1);
    }
    free(update);
    managers_free(&all);
}

/* ---- Updaters ------------------------------------------------------------------------------------ */

/* An updater that shows how often it was called: the n-th call adds n times the update. */
static void apply_counted(const struct tern_updater *updater, enum tern_type type, size_t length,
                          void *row, void *its_state, const void *update)
{
    (void)updater;
    assert_int_equal(type, TERN_F64);
    double *values = row, *n_calls = its_state;
    ++*n_calls;
    for (size_t i = 0; i < length; i++)
        values[i] += *n_calls * ((const double *)update)[i];
}

static struct managers counted(uint32_t n)
{
    struct tern_table_options options = shape(TERN_DENSE, TERN_F64, N_KEYS, 1);
    options.updater =
        (struct tern_updater){.name = "counted", .state_per_row = 1, .apply = apply_counted};
    return managers_new(n, "adaptive", &options);
}

static void push_gradient(struct member *member, uint64_t key, double x)
{
    assert_true(store_push_one(&member->store, key, &x));
}

static int64_t weight(const struct member *member, uint64_t key)
{
    double x = -1;
    assert_true(store_pull_one(&member->store, key, &x));
    return (int64_t)x;
}

static void the_state_travels_with_the_key(void **state)
{
    (void)state;
    struct managers all = counted(3);
    ok(store_create(&all.members[0].store, KEY));
    push_gradient(&all.members[0], KEY, 1); /* 1 */
    want(&all.members[1], KEY);
    round_of(&all, 1);
    push_gradient(&all.members[1], KEY, 1); /* + 2 */
    unwant(&all.members[1], KEY);
    want(&all.members[2], KEY);
    round_of(&all, 2);
    push_gradient(&all.members[2], KEY, 1); /* + 3 */
    assert_int_equal(weight(&all.members[2], KEY), 6);
    managers_free(&all);
}

/* What is pushed to a replica is gathered, and applied once where the main copy is; the replica's next
 * value is the owner's. */
static void gathered_updates_are_applied_once_by_the_owner(void **state)
{
    (void)state;
    struct managers all = counted(2);
    ok(store_create(&all.members[0].store, KEY));
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    for (int i = 0; i < 3; i++)
        push_gradient(&all.members[1], KEY, 5);
    quiesce(&all);
    assert_int_equal(weight(&all.members[0], KEY), 15); /* 1 * 15 */
    assert_int_equal(weight(&all.members[1], KEY), 15);
    push_gradient(&all.members[0], KEY, 1); /* + 2 * 1 */
    push_gradient(&all.members[1], KEY, 1); /* + 3 * 1 */
    quiesce(&all);
    assert_int_equal(weight(&all.members[0], KEY), 20);
    assert_int_equal(weight(&all.members[1], KEY), 20);
    assert_int_equal(counts_of(&all, 1)->deltas_sent, 2);
    managers_free(&all);
}

/* A replica that becomes the main copy applies what it had gathered, once, with the state that came. */
static void promotion_applies_what_was_gathered(void **state)
{
    (void)state;
    struct managers all = counted(2);
    ok(store_create(&all.members[0].store, KEY));
    push_gradient(&all.members[0], KEY, 1); /* 1 */
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    unwant(&all.members[0], KEY);
    ok(manager_take(all.members[1].manager));
    assert_true(ask_peer(&all, 1, 0));
    push_gradient(&all.members[1], KEY, 3);
    push_gradient(&all.members[1], KEY, 4);
    serve_peer(&all, 1, 0);
    hear_peer(&all, 1, 0);
    assert_int_equal(owner_of(&all, KEY), 1);
    assert_int_equal(weight(&all.members[1], KEY), 15); /* + 2 * 7 */
    push_gradient(&all.members[1], KEY, 1);             /* + 3 */
    quiesce(&all);
    assert_int_equal(weight(&all.members[1], KEY), 18);
    managers_free(&all);
}

/* A gathered update whose delta came back is not lost and not doubled. */
static void gathered_updates_come_back_too(void **state)
{
    (void)state;
    struct managers all = counted(3);
    ok(store_create(&all.members[0].store, KEY));
    want(&all.members[0], KEY);
    want(&all.members[2], KEY);
    round_of(&all, 2);
    unwant(&all.members[2], KEY);
    assert_true(ask_peer(&all, 2, 0));
    serve_peer(&all, 2, 0);
    unwant(&all.members[0], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    push_gradient(&all.members[2], KEY, 8);
    hear_peer(&all, 2, 0);
    exchange(&all, 2, 0);
    push_gradient(&all.members[2], KEY, 1);
    quiesce(&all);
    assert_int_equal(weight(&all.members[1], KEY), 9);
    assert_int_equal(state_of(&all.members[2], KEY), ENTRY_ELSEWHERE);
    managers_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_reach_all_through_the_owner),
        cmocka_unit_test(changes_of_rare_keys_wait),
        cmocka_unit_test(a_holder_does_not_get_its_own_delta),
        cmocka_unit_test(a_change_under_way_is_not_repeated),
        cmocka_unit_test(a_delta_that_misses_the_owner_comes_back),
        cmocka_unit_test(a_remote_write_reaches_the_replicas),
        cmocka_unit_test(a_replica_that_outlives_its_end_is_untold),
        cmocka_unit_test(the_longest_rows_are_shared_and_moved),
        cmocka_unit_test(a_sweep_ends_whatever_is_added),
        cmocka_unit_test(changes_that_found_no_room_are_kept),
        cmocka_unit_test(the_state_travels_with_the_key),
        cmocka_unit_test(gathered_updates_are_applied_once_by_the_owner),
        cmocka_unit_test(promotion_applies_what_was_gathered),
        cmocka_unit_test(gathered_updates_come_back_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
