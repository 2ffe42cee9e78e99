/*
 * Views: which nodes there are, and which of them share a memory.
 */
#include "core/view.h" /* before cmocka, whose macro fail() would hide the function */

#include "core/placement.h"
#include "support/check.h"
#include "support/alloc.h"

static void a_view_names_its_nodes_in_order(void **state)
{
    (void)state;
    struct view *view = view_new(9, 5, NULL);
    assert_non_null(view);
    assert_int_equal(view_epoch(view), 9);
    assert_int_equal(view_n_nodes(view), 5);
    uint32_t n = 0;
    view_each (i, view) {
        assert_true(view_has(view, i) && i < view_capacity(view));
        assert_int_equal(view_rank(view, i), n);
        assert_int_equal(view_at(view, n), i);
        n++;
    }
    assert_int_equal(n, 5);
    assert_false(view_has(view, 5));
    assert_false(view_has(view, UINT64_MAX));
    n = 0;
    view_each_while (i, view, n < 2)
        n++;
    assert_int_equal(n, 2);
    view_free(view);
}

static void nodes_are_members_of_their_own_unless_they_share(void **state)
{
    (void)state;
    struct view *apart = view_new(1, 4, NULL);
    struct view *shared = view_new(1, 4, (const uint32_t[]){0, 0, 2, 0});
    assert_non_null(apart);
    assert_non_null(shared);
    assert_int_equal(view_n_members(apart), 4);
    assert_int_equal(view_n_members(shared), 2);
    view_each (i, apart) {
        assert_int_equal(view_leader(apart, i), i);
        assert_int_equal(view_n_sharing(apart, i), 1);
        assert_int_equal(view_leader(shared, i), i == 2 ? 2 : 0);
    }
    assert_int_equal(view_n_sharing(shared, 0), 3);
    assert_int_equal(view_n_sharing(shared, 2), 1);
    /* Memory does not matter to where keys are at home. */
    for (uint64_t key = 0; key < 1000; key++)
        assert_int_equal(ring_home(apart, key), ring_home(shared, key));
    view_free(apart);
    view_free(shared);
}

static void the_leaders_of_members_are_a_view(void **state)
{
    (void)state;
    enum { N_KEYS = 1000 };
    struct view *view = view_new(3, 6, (const uint32_t[]){0, 0, 2, 3, 2, 3});
    struct view *leaders = view_of_leaders(view);
    static const uint32_t expected[] = {0, 2, 3};
    uint32_t n = 0;
    assert_int_equal(view_epoch(leaders), 3);
    assert_int_equal(view_capacity(leaders), 6);
    assert_int_equal(view_n_nodes(leaders), 3);
    view_each (i, leaders) {
        assert_int_equal(i, expected[n]);
        assert_int_equal(view_rank(leaders, i), n);
        assert_int_equal(view_at(leaders, n), i);
        assert_int_equal(view_leader(leaders, i), i);
        n++;
    }
    assert_int_equal(n, 3);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(view_has(leaders, i), i == 0 || i == 2 || i == 3);
    /* Every key has its home at a leader. */
    for (uint64_t key = 0; key < N_KEYS; key++) {
        const uint32_t home = range_home(leaders, key, N_KEYS);
        assert_true(view_has(leaders, ring_home(leaders, key)));
        assert_in_range(key, range_begin(leaders, home, N_KEYS),
                        range_end(leaders, home, N_KEYS) - 1);
    }
    view_free(leaders);
    view_free(view);
}

static void arcs_of_nodes_that_are_gone_go_to_the_next(void **state)
{
    (void)state;
    struct view *view = view_new(1, 5, NULL);
    view = view_without(view, 2, (const uint32_t[]){2}, 1);
    view = view_without(view, 3, (const uint32_t[]){4, 3}, 2);
    assert_non_null(view);
    assert_int_equal(view_epoch(view), 3);
    assert_int_equal(view_n_nodes(view), 5);
    const uint32_t homes[] = {0, 1, 0, 0, 0};
    for (uint32_t arc = 0; arc < 5; arc++)
        assert_int_equal(view_home(view, arc), homes[arc]);
    assert_int_equal(view_home(view->before, 2), 3);
    uint32_t backups[3];
    assert_int_equal(view_backups(view->before, 1, 1, backups), 1);
    assert_int_equal(backups[0], 3);
    assert_int_equal(view_backups(view->before, 3, 2, backups), 2);
    assert_int_equal(backups[0], 4);
    assert_int_equal(backups[1], 0);
    assert_int_equal(view_backups(view, 1, 3, backups), 1);
    assert_int_equal(backups[0], 0);
    for (uint32_t most = 0; most < 4; most++)
        for (uint32_t i = 0; i < 5; i++) {
            const uint32_t n_backups = view_backups(view->before, 1, most, backups);
            bool is_one = false;
            for (uint32_t k = 0; k < n_backups; k++)
                is_one |= backups[k] == i;
            assert_int_equal(view_is_backup(view->before, 1, most, i), is_one);
        }
    assert_false(view_is_backup(view->before, 2, 3, 3));
    uint32_t n = 0;
    view_each (i, view)
        assert_true(view_is_present(view, i) && i == n++);
    assert_int_equal(n, 2);
    assert_null(view_without(view, 4, (const uint32_t[]){0, 1}, 2));
    view_free(view);
}

static void a_view_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct view *told = view_without(view_new(1, 4, NULL), 2, (const uint32_t[]){2}, 1);
    struct view *later = view_new(1, 4, NULL);
    struct buffer bytes = {0};
    assert_true(view_write(told, &bytes));
    uint8_t *head = buffer_head(&bytes);
    assert_int_equal(buffer_size(&bytes), 16);
    for (size_t n = 0; n < 16; n++)
        assert_null(view_read(later, head, n));
    head[8] = 4; /* no such node */
    assert_null(view_read(later, head, 16));
    head[8] = 2;
    head[12] = 3; /* it cannot be leaving and gone */
    assert_null(view_read(later, head, 16));
    head[12] = 5;
    assert_null(view_read(later, head, 16));
    head[12] = 0;
    later = view_read(later, head, 16);
    assert_non_null(later);
    assert_int_equal(view_epoch(later), 2);
    assert_false(view_is_present(later, 2));
    assert_null(view_read(later, head, 16)); /* it has that one */
    head[0] = 3;
    head[8] = 1; /* node 2 would return */
    assert_null(view_read(later, head, 16));
    buffer_free(&bytes);
    view_free(told);
    view_free(later);
}

static void a_node_that_leaves_has_one_backup_more(void **state)
{
    (void)state;
    uint32_t backups[4];
    struct buffer bytes = {0};
    struct view *view = view_with_leaving(view_new(1, 5, NULL), 2, 2);
    assert_non_null(view);
    assert_true(view_has_leaving(view) && view_is_leaving(view, 2) && view_is_present(view, 2));
    assert_int_equal(view_home(view, 2), 2);
    /* Its own rows are at one more; it is not counted where it has others'. */
    assert_int_equal(view_backups(view, 2, 1, backups), 2);
    assert_true(backups[0] == 3 && backups[1] == 4);
    assert_int_equal(view_backups(view, 1, 1, backups), 2);
    assert_true(backups[0] == 2 && backups[1] == 3);
    assert_int_equal(view_backups(view, 3, 1, backups), 1);
    assert_int_equal(view_backups(view, 4, 3, backups), 4);
    assert_int_equal(view_backups(view, 2, 0, backups), 0);
    for (uint32_t of = 0; of < 5; of++)
        for (uint32_t most = 0; most < 4; most++)
            for (uint32_t i = 0; i < 5; i++) {
                const uint32_t n_backups = view_backups(view, of, most, backups);
                bool is_one = false;
                for (uint32_t k = 0; k < n_backups; k++)
                    is_one |= backups[k] == i;
                assert_int_equal(view_is_backup(view, of, most, i), is_one);
            }
    assert_null(view_with_leaving(view, 3, 1)); /* one at a time */
    struct view *read = view_new(1, 5, NULL);
    assert_true(view_write(view, &bytes));
    read = view_read(read, buffer_head(&bytes), buffer_size(&bytes));
    assert_true(read && view_is_leaving(read, 2));
    read = view_without(read, 3, (const uint32_t[]){4}, 1);
    assert_true(read && view_is_leaving(read, 2));
    read = view_without(read, 4, (const uint32_t[]){2}, 1);
    assert_true(read && !view_has_leaving(read) && view_home(read, 2) == 3);
    assert_null(view_with_leaving(read, 5, 2));
    read = view_without(read, 5, (const uint32_t[]){0, 1}, 2);
    assert_non_null(read);
    assert_null(view_with_leaving(read, 6, 3)); /* it is the last */
    buffer_free(&bytes);
    view_free(view);
    view_free(read);
}

static void a_node_in_no_cluster_has_a_view_of_itself(void **state)
{
    (void)state;
    assert_int_equal(view_n_nodes(&view_alone), 1);
    assert_int_equal(view_n_members(&view_alone), 1);
    assert_true(view_has(&view_alone, 0));
    assert_int_equal(range_home(&view_alone, 7, 10), 0);
    assert_int_equal(range_end(&view_alone, 0, 10), 10);
}

static void the_size_of_a_view_has_limits(void **state)
{
    (void)state;
    check_forget();
    assert_null(view_new(1, 0, NULL));
    assert_non_null(strstr(tern_error(), "a cluster of 0 nodes"));
    assert_null(view_new(1, VIEW_MAX_NODES + 1, NULL));
    assert_non_null(strstr(tern_error(), "65537"));
}

static void a_view_without_memory_is_null(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 5; n++) {
        check_forget();
        alloc_fail_at(n);
        assert_null(view_new(1, 3, (const uint32_t[]){0, 0, 0}));
        alloc_fail_at(0);
        assert_non_null(strstr(tern_error(), "no memory for a cluster of 3 nodes"));
    }
    view_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_names_its_nodes_in_order),
        cmocka_unit_test(nodes_are_members_of_their_own_unless_they_share),
        cmocka_unit_test(the_leaders_of_members_are_a_view),
        cmocka_unit_test(arcs_of_nodes_that_are_gone_go_to_the_next),
        cmocka_unit_test(a_view_is_read_as_it_was_written),
        cmocka_unit_test(a_node_that_leaves_has_one_backup_more),
        cmocka_unit_test(a_node_in_no_cluster_has_a_view_of_itself),
        cmocka_unit_test(the_size_of_a_view_has_limits),
        cmocka_unit_test(a_view_without_memory_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
