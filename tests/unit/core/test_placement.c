/*
 * Where keys live: the ring shares them out evenly and moves few when a node comes; ranges cover every
 * key exactly once and in order.
 */
#include "core/placement.h" /* before cmocka, whose macro fail() would hide the function */

#include "support/check.h"
#include "support/view.h"
#include "support/alloc.h"

enum { MAX_NODES = 50, N_KEYS = 200000 };

/* ---- Scattered keys -------------------------------------------------------------------------- */

/* By Zipf's law the most frequent key has more than all others of its node, so no more can be asked for than that the first
 * node has little more than that key. */
static void frequent_keys_are_dealt_out(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= MAX_NODES; n++) {
        const struct view *view = view_of(n);
        uint64_t counts[MAX_NODES] = {0};
        double weights[MAX_NODES] = {0}, most = 0, sum = 0;
        for (uint64_t i = 0; i < N_KEYS; i++) {
            uint32_t home = scattered_home(view, i);
            assert_true(home < n);
            counts[home]++;
            weights[home] += 1.0 / (double)(i + 1);
        }
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(counts[i], scattered_count(view, i, N_KEYS));
            assert_true(counts[i] >= N_KEYS / n && counts[i] <= N_KEYS / n + 1);
            sum += weights[i];
            most = weights[i] > most ? weights[i] : most;
        }
        assert_true(most <= 1 + (sum - 1) / n);
    }
}

/* ---- The ring -------------------------------------------------------------------------------- */

/* Keys that follow each other, as words of a vocabulary do, and scattered ones. */
static uint64_t key_of(bool scatter, uint64_t i)
{
    return scatter ? scattered(i) : i;
}

/* 64 points per node scatter its share by an eighth of it; the extremes of 50 nodes are three times
 * as far. The points are fixed, so these bounds hold in every run. */
static void every_node_gets_about_its_share(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= MAX_NODES; n++) {
        const struct view *view = view_of(n);
        for (int scatter = 0; scatter <= 1; scatter++) {
            uint64_t counts[MAX_NODES] = {0};
            for (uint64_t i = 0; i < N_KEYS; i++) {
                uint32_t home = ring_home(view, key_of(scatter, i));
                assert_true(home < n);
                counts[home]++;
            }
            for (uint32_t i = 0; i < n; i++) {
                double share = (double)counts[i] * n / N_KEYS;
                if (share < 0.65 || share > 1.40)
                    fail_msg("node %u of %u has %.3f of its share", i, n, share);
            }
        }
    }
}

static void a_new_node_takes_its_share_and_moves_nothing_else(void **state)
{
    (void)state;
    const struct view *before = view_of(1);
    for (uint32_t n = 2; n <= MAX_NODES; n++) {
        const struct view *after = view_of(n);
        uint64_t n_moved = 0;
        for (uint64_t i = 0; i < N_KEYS; i++) {
            uint32_t home = ring_home(after, i);
            if (home == ring_home(before, i))
                continue;
            assert_int_equal(home, n - 1);
            n_moved++;
        }
        double share = (double)n_moved * n / N_KEYS;
        if (share < 0.65 || share > 1.40)
            fail_msg("node %u of %u took %.3f of its share", n - 1, n, share);
        before = after;
    }
}

static void all_nodes_compute_the_same(void **state)
{
    (void)state;
    const struct view *one = view_of(7);
    const struct view *other = view_of(7);
    for (uint64_t i = 0; i < N_KEYS; i++)
        assert_int_equal(ring_home(one, scattered(i)), ring_home(other, scattered(i)));
}

/* The homes are part of what a cluster of several builds agrees on: these do not change. */
static void homes_are_fixed(void **state)
{
    (void)state;
    static const uint32_t homes[] = {37, 7, 5, 1, 15, 48, 24, 13, 26, 42};
    const struct view *view = view_of(50);
    for (uint64_t i = 0; i < COUNT(homes); i++)
        assert_int_equal(ring_home(view, i), homes[i]);
    assert_int_equal(ring_home(view, UINT64_MAX), 22);
}

static void a_ring_without_memory_is_null(void **state)
{
    (void)state;
    const struct view *view = view_of(4);
    for (uint64_t n = 1; n <= 3; n++) {
        alloc_fail_at(n);
        assert_null(ring_new(view));
        alloc_fail_at(0);
    }
    ring_free(NULL);
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

static void small_ranges_cover_every_key_once_and_in_order(void **state)
{
    (void)state;
    uint64_t n_checked = 0;
    for (uint64_t n_keys = 1; n_keys <= 150; n_keys++) {
        for (uint32_t n_nodes = 1; n_nodes <= 60; n_nodes++) {
            const struct view *view = view_of(n_nodes);
            uint64_t key = 0;
            for (uint32_t node = 0; node < n_nodes; node++) {
                assert_int_equal(range_begin(view, node, n_keys), key);
                uint64_t end = range_end(view, node, n_keys);
                assert_true(end - key == n_keys / n_nodes || end - key == n_keys / n_nodes + 1);
                for (; key < end; key++, n_checked++)
                    assert_int_equal(range_home(view, key, n_keys), node);
            }
            assert_int_equal(key, n_keys);
        }
    }
    assert_int_equal(n_checked, 60 * 150 * 151 / 2);
}

/* The range of a node begins where it says and not one key earlier. */
static void check_edge(const struct view *view, uint32_t node, uint64_t n_keys)
{
    uint64_t begin = range_begin(view, node, n_keys);
    uint64_t end = range_end(view, node, n_keys);
    assert_true(begin <= end && end <= n_keys);
    if (begin > 0)
        assert_true(range_home(view, begin - 1, n_keys) < node);
    if (begin == end)
        return;
    assert_int_equal(range_home(view, begin, n_keys), node);
    assert_int_equal(range_home(view, end - 1, n_keys), node);
}

static void large_ranges_agree_with_homes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1,
                                     2,
                                     1000003,
                                     UINT32_MAX,
                                     UINT64_C(1) << 32,
                                     (UINT64_C(1) << 32) + 1,
                                     (UINT64_C(1) << 40) - 1,
                                     UINT64_C(1) << 40,
                                     UINT64_MAX / 3,
                                     UINT64_MAX - 1,
                                     UINT64_MAX};
    static const uint32_t nodes[] = {1, 2, 3, 50, 1000, 65536, 65537, UINT32_MAX};
    struct dice dice = {1};
    for (size_t s = 0; s < COUNT(sizes); s++) {
        for (size_t n = 0; n < COUNT(nodes); n++) {
            const uint64_t n_keys = sizes[s];
            const uint32_t n_nodes = nodes[n];
            const struct view *view = &(struct view){.n_nodes = n_nodes}; /* ranges need no ring */
            assert_int_equal(range_begin(view, 0, n_keys), 0);
            assert_int_equal(range_end(view, n_nodes - 1, n_keys), n_keys);
            assert_int_equal(range_home(view, n_keys - 1, n_keys), n_nodes - 1);
            check_edge(view, 0, n_keys);
            check_edge(view, n_nodes - 1, n_keys);
            for (int i = 0; i < 1000; i++) {
                check_edge(view, (uint32_t)dice_below(&dice, n_nodes), n_keys);
                uint64_t key = dice_below(&dice, n_keys);
                uint32_t home = range_home(view, key, n_keys);
                assert_true(range_begin(view, home, n_keys) <= key);
                assert_true(key < range_end(view, home, n_keys));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequent_keys_are_dealt_out),
        cmocka_unit_test(every_node_gets_about_its_share),
        cmocka_unit_test(a_new_node_takes_its_share_and_moves_nothing_else),
        cmocka_unit_test(all_nodes_compute_the_same),
        cmocka_unit_test(homes_are_fixed),
        cmocka_unit_test(a_ring_without_memory_is_null),
        cmocka_unit_test(small_ranges_cover_every_key_once_and_in_order),
        cmocka_unit_test(large_ranges_agree_with_homes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
