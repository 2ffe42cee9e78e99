/*
 * The rules of manager.h on where keys are, one by one, with the managers of two to four nodes in one process:
 * moves, replicas, directories, rows that stay, memory, peers that have left.
 */
#include "integers.h"

#include "core/manager_internal.h"

/* ---- Moving and copying -------------------------------------------------------------------------- */

static void a_key_that_one_node_wants_moves_there(void **state)
{
    (void)state;
    struct managers all = one_key(3, "adaptive", 5);
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
    struct managers all = shared_by_two(2, 5);
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
    struct managers all = one_key(4, "adaptive", 5);
    want_in_turn(&all, 1);
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
    struct managers all = one_key(2, "adaptive", 5);
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
    struct managers all = shared_by_two(2, 5);
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
    struct managers all = one_key(3, "adaptive", 5);
    want_in_turn(&all, 0);
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
    struct managers all = shared_by_two(2, 5);
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
    struct managers all = one_key(2, "adaptive-replicate", 5);
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
    struct managers all = one_key(3, "adaptive-relocate", 5);
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
    struct managers all = one_key(3, "relocate", 5);
    const uint64_t keys[] = {KEY, KEY + 1, KEY};
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
    struct managers all = one_key(3, "multi", 5);
    const uint64_t key = KEY;
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
    struct managers all = one_key(4, "adaptive", 5);
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
    struct managers all = one_key(4, "adaptive", 5);
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
    struct managers all = one_key(2, "adaptive", 5);
    struct store *store = &all.members[1].store;
    int64_t row[LENGTH] = {5};
    bool used;
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
    struct managers all = one_key(2, "adaptive", 5);
    struct member *owner = &all.members[0], *holder = &all.members[1];
    int64_t row[LENGTH];
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
    struct managers all = one_key(3, "adaptive", 5);
    uint32_t location = 0;
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

/* ---- Rows that stay ------------------------------------------------------------------------------ */

static void a_pinned_main_copy_stays(void **state)
{
    (void)state;
    struct managers all = one_key(2, "adaptive", 5);
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
    struct managers all = one_key(2, "relocate", 5);
    const uint64_t key = KEY;
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
    struct managers all = shared_by_two(2, 5);
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

/* ---- Peers that have closed the table ------------------------------------------------------------ */

static void a_peer_that_closed_is_not_spoken_to(void **state)
{
    (void)state;
    struct managers all = shared_by_two(2, 5);
    struct manager *manager = all.members[1].manager;
    create(&all, KEY + 1, 5);
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
        cmocka_unit_test(a_pinned_main_copy_stays),
        cmocka_unit_test(a_pinned_main_copy_is_not_fetched),
        cmocka_unit_test(a_pinned_replica_stays_until_it_is_unpinned),
        cmocka_unit_test(a_full_table_does_not_ask),
        cmocka_unit_test(a_full_home_ends_the_ask),
        cmocka_unit_test(slots_are_used_again),
        cmocka_unit_test(a_peer_that_closed_is_not_spoken_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
