/*
 * The rules of manager.h all at random: sums must be exact, each key has one owner, and directories lead there.
 */
#include "integers.h"

#include "core/manager_internal.h"

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
        cmocka_unit_test(sums_are_exact_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
