/*
 * The rules of manager.h, one by one, with the managers of two to four nodes in one process; then all of
 * them at random, where sums must be exact; and messages that make no sense, which change nothing.
 */
#include "managers.h"

#include "core/manager_internal.h"

enum { N_KEYS = 30, LENGTH = 3, KEY = 2 /* at home at node 0 */ };

/* ---- Tables of integers that are added to -------------------------------------------------------- */

static struct managers integers(uint32_t n, const char *policy)
{
    struct tern_table_options options = shape(TERN_DENSE, TERN_I64, N_KEYS, LENGTH);
    return managers_new(n, policy, &options);
}

/* Pushes to a row that is here. */
static void push(struct member *member, uint64_t key, int64_t x)
{
    const int64_t update[LENGTH] = {x, 10 * x, -x};
    assert_true(store_push_one(&member->store, key, update));
}

/* The sum of what was pushed to the row that is here. */
static int64_t value(const struct member *member, uint64_t key)
{
    int64_t values[LENGTH] = {0};
    assert_true(store_pull_one(&member->store, key, values));
    assert_true(values[1] == 10 * values[0] && values[2] == -values[0]);
    return values[0];
}

static void create(struct managers *all, uint64_t key, int64_t x)
{
    struct member *home =
        &all->members[core_home(&all->members[0].core, &all->members[0].store, key)];
    ok(store_create(&home->store, key));
    push(home, key, x);
}

static const struct manager_counts *counts_of(const struct managers *all, uint32_t node)
{
    return manager_counts(all->members[node].manager);
}

static uint32_t location_at(const struct managers *all, uint32_t node, uint64_t key)
{
    uint32_t location = UINT32_MAX;
    assert_true(store_location(&all->members[node].store, key, &location));
    return location;
}

/* ---- Moving and copying -------------------------------------------------------------------------- */

static void a_key_that_one_node_wants_moves_there(void **state)
{
    (void)state;
    struct managers all = integers(3, "adaptive");
    create(&all, KEY, 5);
    want(&all.members[1], KEY);
    assert_true(manager_is_busy(all.members[1].manager));
    round_of(&all, 1);
    assert_int_equal(owner_of(&all, KEY), 1);
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_OWNED);
    assert_int_equal(value(&all.members[1], KEY), 5);
    assert_int_equal(location_at(&all, 0, KEY), location_make(1, 1));
    assert_int_equal(counts_of(&all, 1)->moved_here, 1);
    assert_int_equal(counts_of(&all, 0)->moved_away, 1);
    /* It stays when the intent is over, and nothing is left to say. */
    unwant(&all.members[1], KEY);
    quiesce(&all);
    assert_int_equal(owner_of(&all, KEY), 1);
    assert_false(manager_is_sharing(all.members[0].manager));
    assert_false(manager_is_sharing(all.members[1].manager));
    assert_false(manager_has_request(all.members[1].manager, 0));
    managers_free(&all);
}

/* A key that was never used comes into being where it is at home, with its initial value, and moves. */
static void a_key_that_was_never_used_moves_too(void **state)
{
    (void)state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, LENGTH);
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 4};
    struct managers all = managers_new(2, "adaptive", &options);
    for (uint64_t key = 0; key < 50; key++) {
        uint32_t home = ring_home(all.members[0].core.view, key);
        int64_t values[LENGTH];
        want(&all.members[1 - home], key);
        round_of(&all, 1 - home);
        assert_int_equal(owner_of(&all, key), 1 - home);
        assert_true(store_pull_one(&all.members[1 - home].store, key, values));
        assert_int_equal(values[0], 4);
    }
    managers_free(&all);
}

/* A node that is the owner, or the home of a key nobody has used, has nobody to ask. */
static void an_owner_asks_nobody(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    want(&all.members[0], KEY);
    create(&all, KEY + 1, 1);
    want(&all.members[0], KEY + 1);
    assert_false(manager_has_request(all.members[0].manager, 1));
    assert_false(manager_is_busy(all.members[0].manager));
    managers_free(&all);
}

static void a_key_that_its_owner_wants_is_copied(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    create(&all, KEY, 5);
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    assert_int_equal(state_of(&all.members[0], KEY), ENTRY_SHARED);
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_REPLICA);
    assert_int_equal(value(&all.members[1], KEY), 5);
    assert_int_equal(counts_of(&all, 1)->replicas_made, 1);
    assert_int_equal(counts_of(&all, 0)->moved_away, 0);
    assert_true(manager_is_sharing(all.members[0].manager));
    managers_free(&all);
}

static void each_node_that_wants_a_key_gets_a_replica(void **state)
{
    (void)state;
    struct managers all = integers(4, "adaptive");
    create(&all, KEY, 5);
    for (uint32_t i = 1; i < 4; i++) {
        want(&all.members[i], KEY);
        round_of(&all, i);
    }
    /* The first was alone; the others learn from the home where the key is. */
    assert_int_equal(owner_of(&all, KEY), 1);
    for (uint32_t i = 2; i < 4; i++) {
        assert_int_equal(state_of(&all.members[i], KEY), ENTRY_REPLICA);
        assert_int_equal(value(&all.members[i], KEY), 5);
        assert_int_equal(counts_of(&all, i)->redirected, 1);
    }
    managers_free(&all);
}

static void a_replica_ends_with_the_intent(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    create(&all, KEY, 5);
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    unwant(&all.members[1], KEY);
    quiesce(&all);
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_REPLICA);
    push(&all.members[1], KEY, 2);
    unwant(&all.members[1], KEY);
    quiesce(&all);
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_ELSEWHERE);
    assert_int_equal(state_of(&all.members[0], KEY), ENTRY_OWNED);
    assert_int_equal(value(&all.members[0], KEY), 7);
    assert_int_equal(counts_of(&all, 1)->replicas_ended, 1);
    assert_false(manager_is_sharing(all.members[0].manager));
    assert_false(manager_is_sharing(all.members[1].manager));
    managers_free(&all);
}

/* An intent that begins before the end was told is no change at all. */
static void an_end_that_was_not_told_is_forgotten(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    create(&all, KEY, 5);
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    unwant(&all.members[1], KEY);
    want(&all.members[1], KEY);
    quiesce(&all);
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_REPLICA);
    assert_int_equal(counts_of(&all, 1)->replicas_made, 1);
    assert_int_equal(counts_of(&all, 1)->replicas_ended, 0);
    managers_free(&all);
}

static void a_key_moves_when_one_that_wants_it_is_left(void **state)
{
    (void)state;
    struct managers all = integers(3, "adaptive");
    create(&all, KEY, 5);
    for (uint32_t i = 0; i < 3; i++) {
        want(&all.members[i], KEY);
        round_of(&all, i);
    }
    unwant(&all.members[0], KEY);
    quiesce(&all);
    assert_int_equal(owner_of(&all, KEY), 0);
    push(&all.members[2], KEY, 3);
    unwant(&all.members[1], KEY);
    round_of(&all, 1);
    /* The next time that the last one asks, it gets the key, and keeps what it had changed. */
    push(&all.members[2], KEY, 4);
    round_of(&all, 2);
    assert_int_equal(owner_of(&all, KEY), 2);
    assert_int_equal(value(&all.members[2], KEY), 12);
    quiesce(&all);
    assert_int_equal(value(&all.members[2], KEY), 12);
    assert_int_equal(state_of(&all.members[2], KEY), ENTRY_OWNED);
    for (uint32_t i = 0; i < 3; i++)
        assert_false(manager_is_sharing(all.members[i].manager));
    managers_free(&all);
}

/* What was due is looked at again before it is done. */
static void a_key_that_is_wanted_again_does_not_move(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    create(&all, KEY, 5);
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    unwant(&all.members[0], KEY);
    want(&all.members[0], KEY);
    round_of(&all, 1);
    assert_int_equal(owner_of(&all, KEY), 0);
    unwant(&all.members[0], KEY);
    round_of(&all, 1);
    assert_int_equal(owner_of(&all, KEY), 1);
    managers_free(&all);
}

static void adaptive_replicate_never_moves(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive-replicate");
    create(&all, KEY, 5);
    want(&all.members[1], KEY);
    quiesce(&all);
    assert_int_equal(owner_of(&all, KEY), 0);
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_REPLICA);
    unwant(&all.members[1], KEY);
    quiesce(&all);
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_ELSEWHERE);
    managers_free(&all);
}

static void adaptive_relocate_never_copies(void **state)
{
    (void)state;
    struct managers all = integers(3, "adaptive-relocate");
    create(&all, KEY, 5);
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    want(&all.members[2], KEY);
    quiesce(&all);
    assert_int_equal(owner_of(&all, KEY), 0);
    unwant(&all.members[0], KEY);
    quiesce(&all);
    assert_int_equal(owner_of(&all, KEY), 0);
    unwant(&all.members[1], KEY);
    quiesce(&all);
    assert_int_equal(owner_of(&all, KEY), 2);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(counts_of(&all, i)->replicas_made, 0);
    managers_free(&all);
}

static void a_fetched_key_moves_once(void **state)
{
    (void)state;
    struct managers all = integers(3, "relocate");
    const uint64_t keys[] = {KEY, KEY + 1, KEY};
    create(&all, KEY, 5);
    for (uint32_t i = 1; i < 3; i++) {
        manager_fetch(all.members[i].manager, keys, COUNT(keys));
        round_of(&all, i);
        assert_int_equal(owner_of(&all, KEY), i);
        assert_int_equal(owner_of(&all, KEY + 1), i);
        assert_int_equal(value(&all.members[i], KEY), 5);
    }
    manager_fetch(all.members[2].manager, keys, COUNT(keys));
    assert_false(manager_is_busy(all.members[2].manager));
    quiesce(&all);
    assert_int_equal(owner_of(&all, KEY), 2);
    managers_free(&all);
}

/* A key that every node should have does not move: who asks for it gets a copy, and keeps it. */
static void a_fetched_key_that_is_wanted_for_good_is_copied(void **state)
{
    (void)state;
    struct managers all = integers(3, "multi");
    const uint64_t key = KEY;
    create(&all, KEY, 5);
    want(&all.members[0], KEY);
    for (uint32_t i = 1; i < 3; i++) {
        manager_fetch(all.members[i].manager, &key, 1);
        round_of(&all, i);
        assert_int_equal(owner_of(&all, KEY), 0);
        assert_int_equal(value(&all.members[i], KEY), 5);
    }
    push(&all.members[2], KEY, 100);
    quiesce(&all);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(value(&all.members[i], KEY), 105);
    assert_int_equal(counts_of(&all, 1)->replicas_made, 1);
    assert_int_equal(counts_of(&all, 1)->replicas_ended, 0);
    managers_free(&all);
}

/* ---- Where keys are ------------------------------------------------------------------------------ */

static void the_home_learns_where_a_key_went(void **state)
{
    (void)state;
    struct managers all = integers(4, "adaptive");
    create(&all, KEY, 5);
    for (uint32_t i = 1; i < 4; i++) {
        want(&all.members[i], KEY);
        round_of(&all, i);
        unwant(&all.members[i], KEY);
        /* Whoever had it tells the home with its next round. */
        round_of(&all, i - 1);
        assert_int_equal(location_at(&all, 0, KEY), location_make(i, i));
    }
    /* And it goes home again. */
    want(&all.members[0], KEY);
    round_of(&all, 0);
    assert_int_equal(owner_of(&all, KEY), 0);
    assert_int_equal(value(&all.members[0], KEY), 5);
    managers_free(&all);
}

/* Before the home was told, an ask follows the key from node to node. */
static void an_ask_follows_a_key(void **state)
{
    (void)state;
    struct managers all = integers(4, "adaptive");
    create(&all, KEY, 5);
    for (uint32_t i = 1; i < 3; i++) {
        want(&all.members[i], KEY);
        round_of(&all, i);
        unwant(&all.members[i], KEY);
    }
    assert_int_equal(location_at(&all, 0, KEY), location_make(1, 1));
    want(&all.members[3], KEY);
    round_of(&all, 3);
    assert_int_equal(owner_of(&all, KEY), 3);
    assert_int_equal(counts_of(&all, 3)->redirected, 2);
    managers_free(&all);
}

static void old_news_do_not_replace_newer(void **state)
{
    (void)state;
    struct managers all = integers(3, "adaptive");
    struct store *store = &all.members[1].store;
    ok(store_learn(store, KEY, location_make(2, 7)));
    ok(store_learn(store, KEY, location_make(0, 6)));
    assert_int_equal(location_at(&all, 1, KEY), location_make(2, 7));
    ok(store_learn(store, KEY, location_make(0, 8)));
    assert_int_equal(location_at(&all, 1, KEY), location_make(0, 8));
    /* Numbers wrap around. */
    ok(store_learn(store, KEY + 1, location_make(2, 0xffff)));
    ok(store_learn(store, KEY + 1, location_make(0, 1)));
    assert_int_equal(location_at(&all, 1, KEY + 1), location_make(0, 1));
    managers_free(&all);
}

/* A value that comes late does not make a replica forget that its key has moved on since. */
static void an_old_copy_does_not_replace_newer_news(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    struct store *store = &all.members[1].store;
    int64_t row[LENGTH] = {5};
    bool used;
    create(&all, KEY, 5);
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    quiesce(&all);
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_REPLICA);
    ok(store_learn(store, KEY, location_make(1, 7)));
    store_receive_copy(store, KEY, location_make(0, 6), row, NO_SLOT, &used);
    assert_int_equal(location_at(&all, 1, KEY), location_make(1, 7));
    store_receive_copy(store, KEY, location_make(0, 8), row, NO_SLOT, &used);
    assert_int_equal(location_at(&all, 1, KEY), location_make(0, 8));
    managers_free(&all);
}

/* A replica that waits to be known again goes when nobody wants it any more, with what was changed in it. */
static void a_replica_whose_ask_is_given_up_goes(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    struct member *owner = &all.members[0], *holder = &all.members[1];
    int64_t row[LENGTH];
    create(&all, KEY, 5);
    want(owner, KEY);
    want(holder, KEY);
    quiesce(&all);
    unwant(holder, KEY);
    assert_true(ask_peer(&all, 1, 0));
    serve_peer(&all, 1, 0);
    /* The end is told already when the key is wanted again, and once more not. */
    want(holder, KEY);
    hear_peer(&all, 1, 0);
    assert_int_equal(state_of(holder, KEY), ENTRY_REPLICA);
    push(holder, KEY, 7);
    unwant(holder, KEY);
    quiesce(&all);
    assert_int_equal(state_of(holder, KEY), ENTRY_ELSEWHERE);
    assert_true(store_pull_one(&owner->store, KEY, row));
    assert_int_equal(row[0], 12);
    assert_false(manager_is_sharing(owner->manager) || manager_is_sharing(holder->manager));
    managers_free(&all);
}

/* Numbers of moves wrap around. Then the home is asked, and believed, or others would be asked for ever; but who
 * does not know yet that it gets the key is not believed. */
static void the_home_knows_better(void **state)
{
    (void)state;
    struct managers all = integers(4, "adaptive");
    struct store *store = &all.members[2].store;
    const uint64_t key = 4;
    const uint32_t home = 0, old = location_make(1, 5), later = location_make(3, 40005);
    ok(store_learn(store, key, old));
    ok(store_learn(store, key, later));
    ok(store_learn_from(store, key, location_make(3, 3), 1, home));
    ok(store_learn_from(store, key, later, 3, home));
    ok(store_learn_from(store, key, later, 1, NOBODY));
    assert_int_equal(location_at(&all, 2, key), old);
    ok(store_learn_from(store, key, later, 1, home));
    assert_int_equal(location_at(&all, 2, key), location_make(home, 40004));
    ok(store_learn_from(store, key, later, home, home));
    assert_int_equal(location_at(&all, 2, key), later);
    ok(store_learn(store, key + 1, location_make(home, 0)));
    ok(store_learn_from(store, key + 1, location_make(1, 60000), home, home));
    assert_int_equal(location_at(&all, 2, key + 1), location_make(1, 60000));
    managers_free(&all);
}

/* A node that asks for a key it has never heard of supposes that it is at home and has not moved. */
static void whoever_has_heard_nothing_believes_the_home(void **state)
{
    (void)state;
    static const uint32_t numbers[] = {1, 0x7fff, 0x8000, 0xf000, 0xfbff, 0xfff0, 0xfffa, 0xffff};
    struct managers all = integers(4, "adaptive");
    struct store *store = &all.members[2].store;
    const uint32_t home = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const uint64_t key = 2 * i;
        const uint32_t now = location_make(3, numbers[i]);
        ok(store_learn(store, key, location_make(home, 0)));
        ok(store_learn_from(store, key, now, home, home));
        assert_int_equal(location_at(&all, 2, key), now);
        ok(store_learn_from(store, key, location_make(home, 0), 1, home));
        assert_int_equal(location_at(&all, 2, key), now);
        /* If the node that should have it has heard nothing, either, the home is asked again, and believed. */
        ok(store_learn_from(store, key, location_make(home, 0), 3, home));
        assert_int_equal(location_at(&all, 2, key), location_make(home, numbers[i] - 1));
        ok(store_learn_from(store, key, now, home, home));
        assert_int_equal(location_at(&all, 2, key), now);
    }
    assert_int_equal(location_next(0), 1);
    assert_int_equal(location_next(0xffff), 1);
    managers_free(&all);
}

static void others_are_told_where_a_key_is(void **state)
{
    (void)state;
    struct managers all = integers(3, "adaptive");
    uint32_t location = 0;
    create(&all, KEY, 5);
    assert_int_equal(manager_find(all.members[0].manager, KEY, &location), KEY_HERE);
    assert_int_equal(manager_find(all.members[1].manager, KEY, &location), KEY_AWAY);
    assert_int_equal(location_node(location), 0);
    want(&all.members[1], KEY);
    assert_int_equal(manager_find(all.members[1].manager, KEY, &location), KEY_AWAY);
    assert_true(ask_peer(&all, 1, 0));
    assert_int_equal(manager_find(all.members[1].manager, KEY, &location), KEY_UNKNOWN);
    serve_peer(&all, 1, 0);
    assert_int_equal(manager_find(all.members[0].manager, KEY, &location), KEY_AWAY);
    assert_int_equal(location_node(location), 1);
    assert_int_equal(manager_find(all.members[1].manager, KEY, &location), KEY_UNKNOWN);
    hear_peer(&all, 1, 0);
    assert_int_equal(manager_find(all.members[1].manager, KEY, &location), KEY_HERE);
    assert_int_equal(location, location_make(1, 1));
    /* One that was never used is at home, and looking for it makes no row. */
    assert_int_equal(manager_find(all.members[0].manager, KEY + 1, &location), KEY_HERE);
    assert_int_equal(state_of(&all.members[0], KEY + 1), ENTRY_NONE);
    managers_free(&all);
}

/* ---- Changes ------------------------------------------------------------------------------------- */

/* Three replicas and the owner change the key between rounds: all agree in the end, and each has always
 * seen what it did itself. */
static void changes_reach_all_through_the_owner(void **state)
{
    (void)state;
    struct managers all = integers(4, "adaptive");
    create(&all, KEY, 1);
    for (uint32_t i = 0; i < 4; i++) {
        want(&all.members[i], KEY);
        round_of(&all, i);
    }
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

/* What a holder changes itself is not sent back to it. */
static void a_holder_does_not_get_its_own_delta(void **state)
{
    (void)state;
    struct managers all = integers(3, "adaptive");
    create(&all, KEY, 1);
    for (uint32_t i = 0; i < 3; i++) {
        want(&all.members[i], KEY);
        round_of(&all, i);
    }
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
    struct managers all = integers(2, "adaptive");
    create(&all, KEY, 1);
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
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
    struct managers all = integers(3, "adaptive");
    create(&all, KEY, 1);
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
    struct managers all = integers(3, "adaptive");
    const uint64_t keys[] = {KEY, KEY + 1};
    create(&all, KEY, 1);
    create(&all, KEY + 1, 1);
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
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
    struct managers all = integers(2, "adaptive");
    const uint64_t key = KEY;
    struct manager *manager = all.members[1].manager;
    create(&all, KEY, 1);
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

/* ---- Rows that stay ------------------------------------------------------------------------------ */

static void a_pinned_main_copy_stays(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    create(&all, KEY, 5);
    void *row = NULL;
    ok(store_pin(&all.members[0].store, KEY, &row));
    want(&all.members[1], KEY);
    quiesce(&all);
    assert_int_equal(owner_of(&all, KEY), 0);
    assert_int_equal(*(int64_t *)row, 5);
    /* The node that wants it gets a replica, and its changes come to the pinned row. */
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_REPLICA);
    push(&all.members[1], KEY, 1);
    quiesce(&all);
    assert_int_equal(*(int64_t *)row, 6);
    unwant(&all.members[1], KEY);
    quiesce(&all);
    assert_true(store_unpin(&all.members[0].store, KEY));
    want(&all.members[1], KEY);
    quiesce(&all);
    assert_int_equal(owner_of(&all, KEY), 1);
    assert_int_equal(value(&all.members[1], KEY), 6);
    managers_free(&all);
}

static void a_pinned_main_copy_is_not_fetched(void **state)
{
    (void)state;
    struct managers all = integers(2, "relocate");
    const uint64_t key = KEY;
    create(&all, KEY, 5);
    void *row = NULL;
    ok(store_pin(&all.members[0].store, KEY, &row));
    manager_fetch(all.members[1].manager, &key, 1);
    quiesce(&all);
    assert_int_equal(owner_of(&all, KEY), 0);
    assert_true(store_unpin(&all.members[0].store, KEY));
    manager_fetch(all.members[1].manager, &key, 1);
    quiesce(&all);
    assert_int_equal(owner_of(&all, KEY), 1);
    managers_free(&all);
}

static void a_pinned_replica_stays_until_it_is_unpinned(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    create(&all, KEY, 5);
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    void *row = NULL;
    ok(store_pin(&all.members[1].store, KEY, &row));
    unwant(&all.members[1], KEY);
    for (int i = 0; i < 5; i++)
        round_of(&all, 1);
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_REPLICA);
    assert_int_equal(*(int64_t *)row, 5);
    assert_true(store_unpin(&all.members[1].store, KEY));
    quiesce(&all);
    assert_int_equal(state_of(&all.members[1], KEY), ENTRY_ELSEWHERE);
    managers_free(&all);
}

/* ---- Memory -------------------------------------------------------------------------------------- */

/* A table that is full does not ask; it does when there is room again. */
static void a_full_table_does_not_ask(void **state)
{
    (void)state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, 1000);
    options.memory_limit_bytes = 400000;
    struct managers all = managers_new(2, "adaptive", &options);
    uint64_t keys[N_KEYS], n = 0, n_here = 0;
    for (uint64_t key = 0; n < N_KEYS; key++)
        if (ring_home(all.members[0].core.view, key) == 0)
            keys[n++] = key;
    manager_want(all.members[1].manager, keys, n);
    quiesce(&all);
    for (uint64_t i = 0; i < n; i++)
        n_here += is_main(&all.members[1], keys[i]);
    assert_true(n_here > 2 && n_here < n);
    /* A row and its base. */
    assert_true(n_here * 2 * 1000 * sizeof(int64_t) <= options.memory_limit_bytes);
    assert_false(manager_has_request(all.members[1].manager, 0));
    manager_unwant(all.members[1].manager, keys, n);
    /* One leaves, so another may come. */
    uint64_t here = 0, away = 0;
    for (uint64_t i = 0; i < n; i++)
        *(is_main(&all.members[1], keys[i]) ? &here : &away) = keys[i];
    want(&all.members[0], here);
    quiesce(&all);
    want(&all.members[1], away);
    quiesce(&all);
    assert_int_equal(owner_of(&all, here), 0);
    assert_int_equal(owner_of(&all, away), 1);
    managers_free(&all);
}

/* A home that has no memory for a key that was never used says so, and is not asked for ever. */
static void a_full_home_ends_the_ask(void **state)
{
    (void)state;
    struct tern_table_options options = shape(TERN_SPARSE, TERN_I64, 0, 1000);
    options.memory_limit_bytes = 400000;
    struct managers all = managers_new(2, "adaptive", &options);
    uint64_t key = 0;
    for (bool made = true; made; key++)
        made = ring_home(all.members[0].core.view, key) != 0 ||
               store_create(&all.members[0].store, key) == TERN_OK;
    key--;
    want(&all.members[1], key);
    manager_fetch(all.members[1].manager, &key, 1);
    quiesce(&all);
    assert_int_equal(owner_of(&all, key), 2);
    unwant(&all.members[1], key);
    quiesce(&all);
    assert_int_equal(all.members[1].manager->spares.n, 0);
    managers_free(&all);
}

/* Slots go back and forth: keys that come and go for long take no more of them than there are keys. */
static void slots_are_used_again(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    for (uint64_t key = 0; key < N_KEYS; key++)
        create(&all, key, 1);
    for (int i = 0; i < 300; i++) {
        uint32_t node = (uint32_t)(i % 2);
        for (uint64_t key = 0; key < N_KEYS; key++)
            want(&all.members[node], key);
        round_of(&all, node);
        for (uint64_t key = 0; key < N_KEYS; key++) {
            assert_true(is_main(&all.members[node], key));
            unwant(&all.members[node], key);
        }
    }
    for (uint32_t i = 0; i < 2; i++)
        assert_true(store_slots(&all.members[i].store) <= N_KEYS);
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

/* ---- Peers that have closed the table ------------------------------------------------------------ */

static void a_peer_that_closed_is_not_spoken_to(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    struct manager *manager = all.members[1].manager;
    create(&all, KEY, 5);
    create(&all, KEY + 1, 5);
    want(&all.members[0], KEY);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    push(&all.members[1], KEY, 1);
    want(&all.members[1], KEY + 1);
    ok(manager_take(manager));
    manager_forget_peer(manager, 0);
    assert_false(manager_has_request(manager, 0));
    assert_false(manager_is_busy(manager));
    /* What is here can be used as before, and nothing piles up for the peer. */
    for (int i = 0; i < 10; i++) {
        push(&all.members[1], KEY, 1);
        ok(manager_take(manager));
        assert_int_equal(manager->outboxes[0].deltas.n, 0);
        assert_false(manager_has_request(manager, 0));
    }
    assert_int_equal(value(&all.members[1], KEY), 16);
    unwant(&all.members[1], KEY);
    unwant(&all.members[1], KEY + 1);
    assert_false(manager_is_busy(manager));
    managers_free(&all);
}

/* ---- Messages that make no sense ----------------------------------------------------------------- */

/* A body made by hand. */
struct forged {
    uint8_t bytes[4096];
    size_t n;
};

static uint8_t *forge(struct forged *forged, enum section_kind kind, uint32_t count,
                      size_t item_bytes)
{
    uint8_t *at = forged->bytes + forged->n;
    section_write(at, kind, count, item_bytes);
    memset(at + SECTION_HEADER_BYTES, 0, count * item_bytes);
    forged->n += SECTION_HEADER_BYTES + count * item_bytes;
    assert_true(forged->n <= sizeof forged->bytes);
    return at + SECTION_HEADER_BYTES;
}

/* The bodies that no request may have, each after a section that would be right. */
static bool bad_request(size_t which, struct forged *forged)
{
    const size_t delta = 8 + section_padded(LENGTH * 8);
    *forged = (struct forged){.n = 0};
    section_put(forge(forged, SECTION_ASKS, 1, 8), KEY);
    switch (which) {
    case 0: /* too short for a header */
        forged->n += 5;
        return true;
    case 1: /* a section that does not fit the body */
        forge(forged, SECTION_ENDS, 2, 8);
        forged->n -= 8;
        return true;
    case 2: /* no such kind */
        forge(forged, SECTION_KINDS, 1, 8);
        return true;
    case 3: /* a kind of answers */
        forge(forged, SECTION_MAINS, 1, 16 + 24);
        return true;
    case 4:
        forge(forged, SECTION_COPIES, 1, 16 + 24);
        return true;
    case 5:
        forge(forged, SECTION_AWAY_ASKS, 1, 16);
        return true;
    case 6: /* items of a wrong size */
        forge(forged, SECTION_ASKS, 1, 16);
        return true;
    case 7:
        forge(forged, SECTION_DELTAS, 1, delta - 8);
        return true;
    case 8:
        forge(forged, SECTION_DELTAS, 1, delta + 8);
        return true;
    case 9:
        forge(forged, SECTION_LOCATED, 1, 8);
        return true;
    case 10: /* keys that are not in the table */
        section_put(forge(forged, SECTION_ENDS, 1, 8), N_KEYS);
        return true;
    case 11:
        section_put(forge(forged, SECTION_DELTAS, 2, delta) + delta, UINT64_MAX);
        return true;
    case 12: /* a node that does not exist */
        section_put(forge(forged, SECTION_LOCATED, 1, 16) + 8, location_make(2, 1));
        return true;
    default:
        return false;
    }
}

static void bad_requests_are_refused_and_change_nothing(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    struct buffer out = {0};
    struct forged forged;
    create(&all, KEY, 5);
    size_t n_refused = 0;
    for (; bad_request(n_refused, &forged); n_refused++) {
        struct frame request = {.kind = FRAME_ROUND, .number = 1, .body_bytes = (uint32_t)forged.n};
        uint8_t *body = array_of(forged.n, 1);
        memcpy(body, forged.bytes, forged.n);
        refused(manager_serve(all.members[0].manager, 1, &request, body, &out), TERN_INVALID,
                "rows");
        free(body);
        assert_int_equal(buffer_size(&out), 0);
        assert_int_equal(state_of(&all.members[0], KEY), ENTRY_OWNED);
        assert_int_equal(value(&all.members[0], KEY), 5);
        assert_false(manager_is_sharing(all.members[0].manager));
    }
    assert_int_equal(n_refused, 13);
    buffer_free(&out);
    want(&all.members[1], KEY);
    round_of(&all, 1);
    assert_int_equal(owner_of(&all, KEY), 1);
    managers_free(&all);
}

/* The bodies that no answer may have, each after a main copy that would be right. */
static bool bad_answer(size_t which, struct forged *forged)
{
    const size_t row = 16 + LENGTH * 8;
    *forged = (struct forged){.n = 0};
    uint8_t *main = forge(forged, SECTION_MAINS, 1, row);
    section_put(main, KEY);
    section_put(main + 8, location_make(1, 1));
    switch (which) {
    case 0:
        forged->n += 15;
        return true;
    case 1:
        forge(forged, SECTION_COPIES, 2, row);
        forged->n -= 1;
        return true;
    case 2: /* kinds of requests */
        forge(forged, SECTION_DELTAS, 1, 8 + LENGTH * 8);
        return true;
    case 3:
        forge(forged, SECTION_ASKS, 1, 8);
        return true;
    case 4:
        forge(forged, SECTION_LOCATED, 1, 16);
        return true;
    case 5: /* sizes */
        forge(forged, SECTION_MAINS, 1, row + 8);
        return true;
    case 6:
        forge(forged, SECTION_COPIES, 1, 16);
        return true;
    case 7:
        forge(forged, SECTION_AWAY_DELTAS, 1, 8);
        return true;
    case 8: /* keys */
        section_put(forge(forged, SECTION_AWAY_ASKS, 1, 16), N_KEYS);
        return true;
    case 9:
        section_put(forge(forged, SECTION_COPIES, 1, row), UINT64_MAX);
        return true;
    case 10: /* nodes */
        section_put(forge(forged, SECTION_AWAY_ASKS, 1, 16) + 8, location_make(2, 0));
        return true;
    case 11:
        section_put(forge(forged, SECTION_MAINS, 1, row) + 8, location_make(0xffff, 0));
        return true;
    default:
        return false;
    }
}

static enum tern_status give_answer(struct managers *all, const struct forged *forged)
{
    const struct frame answer = {
        .kind = FRAME_ROUND_REPLY, .number = 1, .body_bytes = (uint32_t)forged->n};
    struct member *member = &all->members[1];
    bool more = false;
    uint8_t *body = array_of(forged->n, 1);
    memcpy(body, forged->bytes, forged->n);
    enum tern_status status =
        manager_answer(member->manager, 0, &member->questions[0].body, &answer, body, &more);
    free(body);
    return status;
}

static void bad_answers_are_refused_and_change_nothing(void **state)
{
    (void)state;
    struct managers all = integers(2, "adaptive");
    struct forged forged;
    create(&all, KEY, 5);
    want(&all.members[1], KEY);
    assert_true(ask_peer(&all, 1, 0));
    size_t n_refused = 0;
    for (; bad_answer(n_refused, &forged); n_refused++) {
        refused(give_answer(&all, &forged), TERN_PEER, "node 0", "rows");
        assert_int_equal(state_of(&all.members[1], KEY), ENTRY_ELSEWHERE);
        assert_int_equal(counts_of(&all, 1)->moved_here, 0);
    }
    assert_int_equal(n_refused, 12);
    struct frame odd = {.kind = FRAME_VALUES, .number = 1};
    bool more = false;
    refused(manager_answer(all.members[1].manager, 0, &all.members[1].questions[0].body, &odd, NULL,
                           &more),
            TERN_PEER, "node 0");
    /* The right answer is still welcome. */
    serve_peer(&all, 1, 0);
    hear_peer(&all, 1, 0);
    assert_int_equal(owner_of(&all, KEY), 1);
    managers_free(&all);
}

/* Rows that nobody asked for find no place: not for keys that are here, nor for others, nor twice. */
static void rows_that_were_not_asked_for_are_refused(void **state)
{
    (void)state;
    const size_t row = 16 + LENGTH * 8;
    const uint64_t keys[] = {KEY, N_KEYS - 1,
                             KEY + 1}; /* not wanted; here; wanted and not asked for */
    struct managers all = integers(2, "adaptive");
    create(&all, N_KEYS - 1, 7);
    for (size_t i = 0; i < COUNT(keys); i++)
        for (int copy = 0; copy <= 1; copy++) {
            struct forged forged = {.n = 0};
            section_put(forge(&forged, copy ? SECTION_COPIES : SECTION_MAINS, 1, row), keys[i]);
            refused(give_answer(&all, &forged), TERN_PEER, "node 0");
            assert_int_equal(is_main(&all.members[1], keys[i]), i == 1);
            assert_int_equal(value(&all.members[1], N_KEYS - 1), 7);
        }
    want(&all.members[1], KEY);
    assert_true(ask_peer(&all, 1, 0));
    struct forged forged = {.n = 0};
    uint8_t *items = forge(&forged, SECTION_MAINS, 2, row);
    section_put(items, KEY);
    section_put(items + row, KEY);
    refused(give_answer(&all, &forged), TERN_PEER, "node 0");
    managers_free(&all);
}

/* ---- Everything at random ------------------------------------------------------------------------ */

enum { SOAK_NODES = 4, SOAK_KEYS = 24, SOAK_STEPS = 30000 };

struct soak {
    struct managers all;
    struct dice dice;
    bool sparse, runs[SOAK_NODES];
    int pass[SOAK_NODES];
    uint32_t n_wants[SOAK_NODES][SOAK_KEYS];
    int64_t sums[SOAK_KEYS];
};

static uint64_t soak_key(const struct soak *soak, size_t i)
{
    return soak->sparse ? scattered(i) : i;
}

/* Begins or ends an intent. */
static void soak_intend(struct soak *soak, uint32_t node, bool fetches)
{
    size_t i = dice_below(&soak->dice, SOAK_KEYS);
    uint64_t key = soak_key(soak, i);
    if (fetches) {
        manager_fetch(soak->all.members[node].manager, &key, 1);
    } else if (soak->n_wants[node][i] && dice_below(&soak->dice, 2)) {
        soak->n_wants[node][i]--;
        unwant(&soak->all.members[node], key);
    } else if (soak->n_wants[node][i] < 3 && dice_below(&soak->dice, 3) == 0) {
        soak->n_wants[node][i]++;
        want(&soak->all.members[node], key);
    }
}

/* A push of a node: to its own row, or to the main copy, if it is not under way. */
static void soak_push(struct soak *soak, uint32_t node)
{
    size_t i = dice_below(&soak->dice, SOAK_KEYS);
    uint64_t key = soak_key(soak, i);
    const struct member *any = &soak->all.members[0];
    struct member *home = &soak->all.members[core_home(&any->core, &any->store, key)];
    ok(store_create(&home->store, key));
    int64_t x = 1 + (int64_t)dice_below(&soak->dice, 9);
    uint32_t owner = owner_of(&soak->all, key);
    const int64_t update[LENGTH] = {x, 10 * x, -x};
    if (!store_push_one(&soak->all.members[node].store, key, update)) {
        if (owner == soak->all.n)
            return;
        push(&soak->all.members[owner], key, x);
        manager_written(soak->all.members[owner].manager, node, &key, 1);
    }
    soak->sums[i] += x;
}

/* Asks all peers there is a reason to ask; false if there is none. */
static bool soak_ask(struct soak *soak, uint32_t node)
{
    struct member *member = &soak->all.members[node];
    bool asked = false;
    for (uint32_t to = 0; to < SOAK_NODES; to++)
        if (!soak->pass[node] || member->questions[to].more ||
            manager_has_todo(member->manager, to))
            asked |= ask_peer(&soak->all, node, to);
    return asked;
}

/* Carries one message of a node's round, or begins or ends it. */
static void soak_round(struct soak *soak, uint32_t node)
{
    struct member *member = &soak->all.members[node];
    if (!soak->runs[node]) {
        soak->pass[node] = 0;
        ok(manager_take(member->manager));
        soak->runs[node] = soak_ask(soak, node);
        return;
    }
    uint32_t unserved[SOAK_NODES], n = 0;
    for (uint32_t to = 0; to < SOAK_NODES; to++)
        if (member->questions[to].asked && !member->questions[to].served)
            unserved[n++] = to;
    if (n) {
        serve_peer(&soak->all, node, unserved[dice_below(&soak->dice, n)]);
        return;
    }
    for (uint32_t to = 0; to < SOAK_NODES; to++)
        if (member->questions[to].asked)
            hear_peer(&soak->all, node, to);
    soak->runs[node] = ++soak->pass[node] < MAX_PASSES && soak_ask(soak, node);
    if (!soak->runs[node])
        manager_round_ended(member->manager);
}

/* Each key has one owner with the exact sum, and replicas are where they are wanted and say the same. */
static void soak_check(const struct soak *soak)
{
    for (size_t i = 0; i < SOAK_KEYS; i++) {
        uint64_t key = soak_key(soak, i);
        uint32_t owner = owner_of(&soak->all, key);
        if (owner == soak->all.n) {
            assert_int_equal(soak->sums[i], 0);
            continue;
        }
        assert_int_equal(value(&soak->all.members[owner], key), soak->sums[i]);
        for (uint32_t k = 0; k < SOAK_NODES; k++) {
            if (state_of(&soak->all.members[k], key) != ENTRY_REPLICA)
                continue;
            assert_true(soak->n_wants[k][i] > 0);
            assert_int_equal(value(&soak->all.members[k], key), soak->sums[i]);
        }
    }
}

/* Whoever asks its own directory, and goes on from there, arrives. */
static void soak_check_directories(const struct soak *soak)
{
    for (size_t i = 0; i < SOAK_KEYS; i++)
        for (uint32_t k = 0; k < SOAK_NODES; k++) {
            uint64_t key = soak_key(soak, i);
            uint32_t location = 0, at = k;
            int hops = 0;
            while (manager_find(soak->all.members[at].manager, key, &location) != KEY_HERE) {
                at = location_node(location);
                assert_true(++hops <= SOAK_NODES);
            }
        }
}

static void finish_rounds(struct soak *soak)
{
    for (uint32_t k = 0; k < SOAK_NODES; k++)
        while (soak->runs[k])
            soak_round(soak, k);
    quiesce(&soak->all);
}

static void soak_through(const char *policy, bool sparse, uint64_t seed)
{
    struct tern_table_options options =
        shape(sparse ? TERN_SPARSE : TERN_DENSE, TERN_I64, SOAK_KEYS, LENGTH);
    struct soak *soak = array_of(1, sizeof *soak);
    *soak = (struct soak){
        .all = managers_new(SOAK_NODES, policy, &options), .dice = {seed}, .sparse = sparse};
    struct policy answers;
    assert_true(policy_find(policy, &answers));
    bool fetches = answers.main == MAIN_ON_LOCALIZE;
    for (int step = 0; step < SOAK_STEPS; step++) {
        uint32_t node = (uint32_t)dice_below(&soak->dice, SOAK_NODES);
        switch (dice_below(&soak->dice, 4)) {
        case 0:
            soak_intend(soak, node, fetches);
            break;
        case 1:
            soak_push(soak, node);
            break;
        default:
            soak_round(soak, node);
            break;
        }
        if (step % 5000 == 4999) {
            finish_rounds(soak);
            soak_check(soak);
        }
    }
    for (uint32_t k = 0; k < SOAK_NODES; k++)
        for (size_t i = 0; i < SOAK_KEYS; i++)
            for (; soak->n_wants[k][i]; soak->n_wants[k][i]--)
                unwant(&soak->all.members[k], soak_key(soak, i));
    finish_rounds(soak);
    soak_check(soak);
    soak_check_directories(soak);
    uint64_t n_moved = 0;
    for (uint32_t k = 0; k < SOAK_NODES; k++) {
        assert_false(manager_is_sharing(soak->all.members[k].manager));
        assert_int_equal(soak->all.members[k].manager->spares.n, 0);
        n_moved += counts_of(&soak->all, k)->moved_here;
        assert_true(soak->sparse || store_slots(&soak->all.members[k].store) <= SOAK_KEYS);
    }
    assert_true(n_moved > 100 || answers.main == MAIN_AT_HOME);
    managers_free(&soak->all);
    free(soak);
}

static void sums_are_exact_whatever_happens(void **state)
{
    (void)state;
    const char *const policies[] = {"adaptive", "adaptive-replicate", "adaptive-relocate",
                                    "relocate"};
    for (size_t i = 0; i < COUNT(policies); i++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            print_message("%s, seed %d\n", policies[i], (int)seed);
            soak_through(policies[i], seed % 2, seed);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_one_node_wants_moves_there),
        cmocka_unit_test(a_key_that_was_never_used_moves_too),
        cmocka_unit_test(an_owner_asks_nobody),
        cmocka_unit_test(a_key_that_its_owner_wants_is_copied),
        cmocka_unit_test(each_node_that_wants_a_key_gets_a_replica),
        cmocka_unit_test(a_replica_ends_with_the_intent),
        cmocka_unit_test(an_end_that_was_not_told_is_forgotten),
        cmocka_unit_test(a_key_moves_when_one_that_wants_it_is_left),
        cmocka_unit_test(a_key_that_is_wanted_again_does_not_move),
        cmocka_unit_test(adaptive_replicate_never_moves),
        cmocka_unit_test(adaptive_relocate_never_copies),
        cmocka_unit_test(a_fetched_key_moves_once),
        cmocka_unit_test(a_fetched_key_that_is_wanted_for_good_is_copied),
        cmocka_unit_test(the_home_learns_where_a_key_went),
        cmocka_unit_test(an_ask_follows_a_key),
        cmocka_unit_test(old_news_do_not_replace_newer),
        cmocka_unit_test(an_old_copy_does_not_replace_newer_news),
        cmocka_unit_test(a_replica_whose_ask_is_given_up_goes),
        cmocka_unit_test(the_home_knows_better),
        cmocka_unit_test(whoever_has_heard_nothing_believes_the_home),
        cmocka_unit_test(others_are_told_where_a_key_is),
        cmocka_unit_test(changes_reach_all_through_the_owner),
        cmocka_unit_test(a_holder_does_not_get_its_own_delta),
        cmocka_unit_test(a_change_under_way_is_not_repeated),
        cmocka_unit_test(a_delta_that_misses_the_owner_comes_back),
        cmocka_unit_test(a_remote_write_reaches_the_replicas),
        cmocka_unit_test(a_replica_that_outlives_its_end_is_untold),
        cmocka_unit_test(the_longest_rows_are_shared_and_moved),
        cmocka_unit_test(a_sweep_ends_whatever_is_added),
        cmocka_unit_test(changes_that_found_no_room_are_kept),
        cmocka_unit_test(a_pinned_main_copy_stays),
        cmocka_unit_test(a_pinned_main_copy_is_not_fetched),
        cmocka_unit_test(a_pinned_replica_stays_until_it_is_unpinned),
        cmocka_unit_test(a_full_table_does_not_ask),
        cmocka_unit_test(a_full_home_ends_the_ask),
        cmocka_unit_test(slots_are_used_again),
        cmocka_unit_test(the_state_travels_with_the_key),
        cmocka_unit_test(gathered_updates_are_applied_once_by_the_owner),
        cmocka_unit_test(promotion_applies_what_was_gathered),
        cmocka_unit_test(gathered_updates_come_back_too),
        cmocka_unit_test(a_peer_that_closed_is_not_spoken_to),
        cmocka_unit_test(bad_requests_are_refused_and_change_nothing),
        cmocka_unit_test(bad_answers_are_refused_and_change_nothing),
        cmocka_unit_test(rows_that_were_not_asked_for_are_refused),
        cmocka_unit_test(sums_are_exact_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
