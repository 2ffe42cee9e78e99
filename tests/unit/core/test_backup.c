/*
 * Backups: a batch is kept whole or not at all, and the node that has it takes over with every row, state and record.
 */
#include "core/backup.h" /* before cmocka, whose macro fail() would hide the function */

#include <string.h>

#include "core/service.h"
#include "core/technique.h"
#include "store/rows.h"
#include "support/alloc.h"
#include "support/check.h"
#include "wire/bytes.h"

enum { N_NODES = 3, N_KEYS = 30, LENGTH = 2, NUMBER = 5 };

/* One node with one shard and one table. */
struct site {
    struct core core;
    struct view *view;
    struct peers peers;
    struct service service;
    struct policy policy;
    struct core_table table;
};

static uint64_t now_ns(void *driver)
{
    (void)driver;
    return 1;
}

static const struct io no_io = {.now_ns = now_ns};

static void site_init_policy(struct site *site, uint32_t node, uint32_t n_nodes, uint32_t n_backups,
                             const char *policy)
{
    *site = (struct site){.core = {.node = node, .n_shards = 1, .incarnation = node + 1}};
    site->core.view = site->view = view_new(1, n_nodes, NULL);
    assert_int_equal(peers_init(&site->peers, site->core.view, 1000), TERN_OK);
    for (uint32_t i = 0; i < n_nodes; i++)
        site->peers.incarnations[i] = i + 1;
    assert_int_equal(service_init(&site->service, &site->core, 0, &site->peers, NULL, &no_io, site),
                     TERN_OK);
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_I64,
                                         .n_keys = N_KEYS,
                                         .length = LENGTH,
                                         .policy = policy,
                                         .backups = n_backups};
    assert_true(policy_find(policy, &site->policy));
    policy_keep_home(&site->policy);
    struct core_table *table = &site->table;
    table->policy = &site->policy;
    table->number = NUMBER;
    table->backup = backup_new(&site->core, &options, NULL);
    struct store_home home =
        technique_home(&site->core, &site->policy, &options, NULL, table->backup);
    assert_int_equal(store_init(&table->store, "table", &options, &home), TERN_OK);
    const struct technique_setup setup = {.name = "table", .options = &options};
    assert_true(technique_open(&site->core, table, &setup));
    site->core.tables[NUMBER] = table;
}

static void site_init_with(struct site *site, uint32_t node, uint32_t n_nodes, uint32_t n_backups)
{
    site_init_policy(site, node, n_nodes, n_backups, "static");
}

static void site_init(struct site *site, uint32_t node)
{
    site_init_with(site, node, N_NODES, 1);
}

static void site_fini(struct site *site)
{
    technique_close(&site->table);
    store_fini(&site->table.store);
    backup_free(site->table.backup);
    service_fini(&site->service);
    peers_fini(&site->peers);
    view_free(site->view);
}

/* A lane of node 2 has pushed to a key of node 0, as its request of this number. */
static void push(struct site *site, uint64_t key, int64_t by, uint64_t number)
{
    const struct hello hello = {.node = 2, .incarnation = 3, .lane = 7};
    struct server_lane *lane = service_adopt_lane(&site->service, &hello);
    assert_non_null(lane);
    lane->node = hello.node;
    lane->incarnation = hello.incarnation;
    assert_int_equal(store_create(&site->table.store, key), TERN_OK);
    assert_true(store_push_one(&site->table.store, key, (int64_t[LENGTH]){by, by}));
    lane->executed = number;
    backup_note_write(&site->service.backup, &site->table, lane, &key, 1);
    assert_false(backup_is_safe(&site->service.backup, lane));
}

/* The next frame that a node sends, which is a whole batch, and to whom. */
static bool next_batch(struct site *site, struct slice *batch, uint32_t *peer)
{
    uint64_t begin;
    bool is_last;
    if (!backup_next(&site->service.backup, peer, batch, &begin, &is_last))
        return false;
    assert_int_equal(begin, 0);
    assert_true(is_last);
    return true;
}

static bool confirm(struct site *site)
{
    return backup_confirm(&site->service.backup, NULL, 0);
}

static enum served take_from(struct site *site, uint32_t from, const struct slice *batch, size_t n)
{
    const struct frame frame = {
        .kind = FRAME_BATCH, .body_bytes = (uint32_t)n, .fields.batch = {0, 1}};
    return backup_take(&site->service.backup, from, &frame, batch->bytes);
}

static enum served take(struct site *site, const struct slice *batch, size_t n)
{
    return take_from(site, 0, batch, n);
}

/* Sends the next batch to those of the sites that are to get it, until all have confirmed it; false: there is none. */
static bool send(struct site *from, struct site *const *sites)
{
    struct slice batch;
    uint32_t peer;
    bool is_over = false;
    while (!is_over && next_batch(from, &batch, &peer)) {
        struct buffer lacks = {0};
        struct backup *backup = &sites[peer]->service.backup;
        assert_int_equal(take_from(sites[peer], from->core.node, &batch, batch.n), SERVED);
        assert_true(backup_tell_lacks(backup, from->core.node, &lacks));
        is_over = backup_confirm(&from->service.backup, buffer_head(&lacks), buffer_size(&lacks));
        buffer_free(&lacks);
    }
    return is_over;
}

static void let_die(struct site *site, uint32_t node)
{
    struct service *services[] = {&site->service};
    struct view *next = view_without(site->view, view_epoch(site->view) + 1, &node, 1);
    assert_non_null(next);
    backup_change_view(&site->core, services, 1, next);
    site->view = next;
}

static void the_next_node_takes_over_rows_and_records(void **state)
{
    (void)state;
    struct site home, next;
    struct slice batch;
    uint32_t peer;
    int64_t row[LENGTH];
    site_init(&home, 0);
    site_init(&next, 1);
    push(&home, 3, 5, 40);
    assert_true(next_batch(&home, &batch, &peer));
    assert_int_equal(peer, 1);
    assert_int_equal(take(&next, &batch, batch.n), SERVED);
    assert_true(confirm(&home));
    push(&home, 3, 1, 41); /* which nobody else hears of */
    assert_false(store_is_home(&next.table.store, 3));
    let_die(&next, 0);
    assert_true(store_is_home(&next.table.store, 3));
    assert_true(store_pull_one(&next.table.store, 3, row));
    assert_int_equal(row[0], 5);
    const struct server_lane *lane = service_lane(&next.service, 2, lane_with_arc(7, 0));
    assert_non_null(lane);
    assert_int_equal(lane->executed, 40);
    /* It has them at node 2 again before a write is safe. */
    assert_false(backup_is_safe(&next.service.backup, lane));
    assert_true(next_batch(&next, &batch, &peer));
    assert_int_equal(peer, 2);
    assert_true(confirm(&next));
    assert_true(backup_is_safe(&next.service.backup, lane));
    site_fini(&home);
    site_fini(&next);
}

static void a_broken_batch_has_no_effect(void **state)
{
    (void)state;
    struct site home, next;
    struct slice batch;
    uint32_t peer;
    uint8_t bytes[512];
    site_init(&home, 0);
    site_init(&next, 1);
    push(&home, 3, 5, 40);
    push(&home, 4, 5, 41);
    assert_true(next_batch(&home, &batch, &peer));
    assert_true(batch.n < sizeof bytes);
    for (size_t n = 0; n < batch.n; n++)
        assert_int_equal(take(&next, &batch, n), REFUSED);
    const size_t at[] = {0, 8, 12, 16, batch.n - 36, batch.n - 4};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        memcpy(bytes, batch.bytes, batch.n);
        put_u32(bytes + at[i], UINT32_MAX - 1);
        const struct slice broken = {bytes, batch.n};
        assert_int_equal(take(&next, &broken, batch.n), REFUSED);
    }
    let_die(&next, 0);
    int64_t row[LENGTH];
    assert_false(store_pull_one(&next.table.store, 3, row));
    site_fini(&home);
    site_fini(&next);
}

static void an_arc_without_a_complete_copy_is_lost(void **state)
{
    (void)state;
    struct site site;
    const uint64_t key = 25;
    site_init(&site, 0);
    let_die(&site,
            1); /* node 2 has its keys, and this one a backup of both, which is not there yet */
    struct service *services[] = {&site.service};
    struct view *next = view_without(site.view, 3, (const uint32_t[]){2}, 1);
    backup_change_view(&site.core, services, 1, next);
    site.view = next;
    assert_int_equal(backup_check_lost(&site.table, &key, 1), TERN_OK);
    assert_int_equal(backup_check_lost(&site.table, (const uint64_t[]){15}, 1), TERN_PEER);
    assert_non_null(strstr(tern_error(), "10 keys of table 'table' are lost"));
    assert_false(store_is_home(&site.table.store, 15));
    assert_true(store_is_home(&site.table.store, key));
    site_fini(&site);
}

/* What a checkpoint has of node 1. */
static bool recover(struct core_table *table, uint32_t arc, uint32_t shard)
{
    const int64_t row[LENGTH] = {7, 7};
    assert_int_equal(arc, 1);
    assert_int_equal(shard, 0);
    return !rows_put(&table->store, 15, row, NULL, false) &&
           !rows_put(&table->store, 16, row, NULL, false);
}

static void what_is_lost_is_recovered_and_copies_that_came_are_newer(void **state)
{
    (void)state;
    struct site site, two;
    struct slice batch;
    uint32_t peer;
    int64_t row[LENGTH];
    site_init(&site, 0);
    site_init(&two, 2);
    site.table.backup->recover = recover;
    let_die(&two, 1);
    let_die(&site, 1);
    push(&two, 15, 9, 40);
    assert_true(next_batch(&two, &batch, &peer));
    assert_int_equal(peer, 0);
    assert_int_equal(take_from(&site, 2, &batch, batch.n), SERVED);
    let_die(&site, 2); /* whose own rows are all there, and not those it had of node 1 */
    assert_int_equal(backup_check_lost(&site.table, (const uint64_t[]){15, 16}, 2), TERN_OK);
    assert_true(store_is_home(&site.table.store, 16));
    assert_true(store_pull_one(&site.table.store, 15, row));
    assert_int_equal(row[0], 9);
    assert_true(store_pull_one(&site.table.store, 16, row));
    assert_int_equal(row[0], 7);
    site_fini(&site);
    site_fini(&two);
}

/* ---- Replicas ---------------------------------------------------------------------------------- */

/* Makes a replica of a key of node 0, which has `value` there, and pushes to it. */
static void make_replica(struct site *site, uint64_t key, int64_t value, int64_t by)
{
    struct store *store = &site->table.store;
    uint32_t slot;
    bool used;
    assert_int_equal(store_learn(store, key, location_make(0, 0)), TERN_OK);
    assert_true(store_take_slot(store, &slot));
    store_receive_copy(store, key, location_make(0, 0), (int64_t[LENGTH]){value, value}, slot,
                       &used);
    assert_true(used);
    assert_true(store_push_one(store, key, (int64_t[LENGTH]){by, by}));
}

static void assert_main(const struct site *site, uint64_t key, int64_t expected)
{
    struct entry *entry;
    int64_t row[LENGTH];
    assert_true(entry_is_main(store_look(&site->table.store, key, &entry)));
    assert_true(store_pull_one(&site->table.store, key, row));
    assert_int_equal(row[0], expected);
    assert_int_equal(row[LENGTH - 1], expected);
}

static void a_replica_becomes_the_main_copy(void **state)
{
    (void)state;
    struct site home, next;
    struct slice batch;
    uint32_t peer;
    site_init_policy(&home, 0, N_NODES, 1, "adaptive");
    site_init_policy(&next, 1, N_NODES, 1, "adaptive");
    push(&home, 3, 5, 40);
    push(&home, 2, 6, 41);
    assert_true(next_batch(&home, &batch, &peer));
    assert_int_equal(take(&next, &batch, batch.n), SERVED);
    assert_true(confirm(&home));
    make_replica(&next, 3, 5, 2); /* of a key that is in the batch, */
    make_replica(&next, 1, 0, 4); /* and of one that nobody has written to */
    assert_int_equal(store_learn(&next.table.store, 2, location_make(0, 0)), TERN_OK);
    assert_int_equal(store_learn(&next.table.store, 0, location_make(0, 0)), TERN_OK);
    let_die(&next, 0);
    assert_main(&next, 3, 7);
    assert_main(&next, 1, 4);
    assert_main(&next, 2, 6);
    assert_main(&next, 0, 0);
    struct server_lane *lane =
        (struct server_lane *)(uintptr_t)service_lane(&next.service, 2, lane_with_arc(7, 0));
    assert_non_null(lane);
    assert_int_equal(lane->executed, 41);
    site_fini(&home);
    site_fini(&next);
}

static void relocate_is_static_where_main_copies_stay(void **state)
{
    (void)state;
    struct policy relocate, fixed;
    assert_true(policy_find("relocate", &relocate));
    assert_true(policy_find("static", &fixed));
    assert_ptr_not_equal(technique_find(&relocate, false), technique_find(&fixed, false));
    policy_keep_home(&relocate);
    assert_ptr_equal(technique_find(&relocate, false), technique_find(&fixed, false));
}

/* ---- Several backups --------------------------------------------------------------------------- */

enum { FOUR = 4 };

static void four_init(struct site *sites, struct site **list, uint32_t n_backups)
{
    for (uint32_t i = 0; i < FOUR; i++) {
        list[i] = &sites[i];
        site_init_with(&sites[i], i, FOUR, n_backups);
    }
}

static void four_fini(struct site *sites)
{
    for (uint32_t i = 0; i < FOUR; i++)
        site_fini(&sites[i]);
}

static void a_write_is_safe_when_all_backups_have_it(void **state)
{
    (void)state;
    struct site sites[FOUR], *list[FOUR];
    struct slice batch;
    uint32_t peer;
    four_init(sites, list, 2);
    push(&sites[0], 3, 5, 40);
    const struct server_lane *lane = service_lane(&sites[0].service, 2, 7);
    for (uint32_t expected = 1; expected <= 2; expected++) {
        assert_false(backup_is_safe(&sites[0].service.backup, lane));
        assert_true(next_batch(&sites[0], &batch, &peer));
        assert_int_equal(peer, expected);
        assert_int_equal(take(&sites[peer], &batch, batch.n), SERVED);
        assert_int_equal(confirm(&sites[0]), expected == 2);
    }
    assert_true(backup_is_safe(&sites[0].service.backup, lane));
    /* Both nodes before the last one die at the same moment. */
    let_die(&sites[2], 0);
    let_die(&sites[2], 1);
    int64_t row[LENGTH];
    assert_true(store_is_home(&sites[2].table.store, 3));
    assert_true(store_pull_one(&sites[2].table.store, 3, row));
    assert_int_equal(row[0], 5);
    four_fini(sites);
}

static void who_takes_over_sends_on_what_others_may_lack(void **state)
{
    (void)state;
    struct site sites[FOUR], *list[FOUR];
    struct slice batch;
    uint32_t peer;
    int64_t row[LENGTH];
    four_init(sites, list, 2);
    push(&sites[0], 3, 5, 40);
    assert_true(send(&sites[0], list));
    push(&sites[0], 4, 6, 41); /* the first backup has it, and the second has not */
    assert_true(next_batch(&sites[0], &batch, &peer));
    assert_int_equal(take(&sites[1], &batch, batch.n), SERVED);
    for (uint32_t i = 1; i < FOUR; i++)
        let_die(&sites[i], 0);
    /* One batch later the second has all that the first has, and need not be sent all rows. */
    assert_true(send(&sites[1], list));
    assert_true(backup_is_safe(&sites[1].service.backup,
                               service_lane(&sites[1].service, 2, lane_with_arc(7, 0))));
    let_die(&sites[2], 1);
    assert_true(store_pull_one(&sites[2].table.store, 4, row));
    assert_int_equal(row[0], 6);
    assert_true(store_pull_one(&sites[2].table.store, 3, row));
    const struct server_lane *lane = service_lane(&sites[2].service, 2, lane_with_arc(7, 0));
    assert_int_equal(lane->executed, 41);
    four_fini(sites);
}

static void a_new_backup_gets_all_rows_while_writes_go_on(void **state)
{
    (void)state;
    struct site sites[FOUR], *list[FOUR];
    int64_t row[LENGTH];
    four_init(sites, list, 1);
    push(&sites[0], 3, 5, 40);
    assert_true(send(&sites[0], list));
    let_die(&sites[0], 1);
    let_die(&sites[2], 1);
    push(&sites[0], 4, 6, 41);
    assert_true(send(&sites[0], list)); /* node 2 says that it has no copy */
    assert_true(backup_is_safe(&sites[0].service.backup, service_lane(&sites[0].service, 2, 7)));
    assert_false(backup_is_flushed(&sites[0].service.backup, 0));
    assert_true(send(&sites[0], list));
    assert_true(backup_is_flushed(&sites[0].service.backup, 0));
    assert_false(send(&sites[0], list));
    let_die(&sites[2], 0);
    assert_int_equal(backup_check_lost(&sites[2].table, (const uint64_t[]){3}, 1), TERN_OK);
    assert_true(store_pull_one(&sites[2].table.store, 3, row));
    assert_int_equal(row[0], 5);
    four_fini(sites);
}

/* What only the node's own workers wrote goes in batches of limited length. */
static void a_flush_waits_for_the_sweep_that_has_all(void **state)
{
    (void)state;
    struct site sites[FOUR], *list[FOUR];
    four_init(sites, list, 1);
    struct store *store = &sites[0].table.store;
    struct backup *backup = &sites[0].service.backup;
    for (uint64_t key = 0; key < 7; key++) {
        assert_int_equal(store_create(store, key), TERN_OK);
        assert_true(store_push_one(store, key, (int64_t[LENGTH]){1, 1}));
    }
    const uint64_t sweep = backup_last(backup);
    assert_false(backup_is_flushed(backup, sweep));
    assert_true(send(&sites[0], list));
    assert_true(backup_is_flushed(backup, sweep));
    assert_false(backup_is_flushed(backup, backup_last(backup)));
    four_fini(sites);
}

/* ---- Batches that no node sends ------------------------------------------------------------------ */

/* A section of `n` rows of node 0's keys from `first` on; its length. */
static size_t put_rows(uint8_t *to, uint64_t first, uint32_t n)
{
    const size_t bytes = 8 + LENGTH * sizeof(int64_t);
    memset(to, 0, 12 + n * bytes);
    put_u16(to, NUMBER);
    put_u32(to + 4, n);
    put_u32(to + 8, (uint32_t)bytes);
    for (uint32_t i = 0; i < n; i++)
        put_u64(to + 12 + i * bytes, first + i);
    return 12 + n * bytes;
}

/* A record of node 2's lane 7 with `n` void numbers; its length. */
static size_t put_record(uint8_t *to, uint32_t n)
{
    memset(to, 0, 36 + 8 * (size_t)n);
    put_u32(to, 2);
    put_u64(to + 8, 3);
    put_u64(to + 16, 7);
    put_u64(to + 24, 40);
    put_u32(to + 32, n);
    return 36 + 8 * (size_t)n;
}

static void a_table_comes_once_in_a_batch(void **state)
{
    (void)state;
    struct site next;
    uint8_t bytes[1000] = {0};
    size_t n = 4;
    site_init(&next, 1);
    put_u32(bytes, 2);
    n += put_rows(bytes + n, 0, 4);
    n += put_rows(bytes + n, 4, 4);
    n += 4; /* no records */
    assert_int_equal(take(&next, &(struct slice){.bytes = bytes}, n), REFUSED);
    site_fini(&next);
}

static void a_record_may_come_twice(void **state)
{
    (void)state;
    struct site next;
    uint8_t bytes[1000] = {0};
    size_t n = 8;
    site_init(&next, 1);
    put_u32(bytes + 4, 2);
    n += put_record(bytes + n, 20);
    n += put_record(bytes + n, 3);
    assert_int_equal(take(&next, &(struct slice){.bytes = bytes}, n), SERVED);
    let_die(&next, 0);
    const struct server_lane *lane = service_lane(&next.service, 2, lane_with_arc(7, 0));
    assert_non_null(lane);
    assert_int_equal(lane->n_void, 3);
    site_fini(&next);
}

/* ---- Memory -------------------------------------------------------------------------------------- */

/* Tries to send what there is, from 0 to 1, with the n-th allocation failing; true if it failed. */
static bool send_failing(struct site *home, struct site *next, uint64_t n)
{
    struct slice batch;
    uint32_t peer;
    alloc_fail_at(n);
    const uint64_t before = alloc_count();
    if (next_batch(home, &batch, &peer) && take(next, &batch, batch.n) == SERVED)
        confirm(home);
    const bool failed = alloc_count() - before >= n;
    alloc_fail_at(0);
    return failed;
}

static void nothing_is_safe_without_memory_for_its_copy(void **state)
{
    (void)state;
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        struct site home, next;
        int64_t row[LENGTH];
        site_init(&home, 0);
        site_init(&next, 1);
        push(&home, 3, 2, 40);
        assert_false(send_failing(&home, &next, 100));
        buffer_free(&home.service.backup.batch); /* as after a long batch */
        push(&home, 3, 3, 41);
        failed = send_failing(&home, &next, n);
        const struct server_lane *lane = service_lane(&home.service, 2, 7);
        assert_non_null(lane);
        if (backup_is_safe(&home.service.backup, lane)) {
            let_die(&next, 0);
            assert_true(store_is_home(&next.table.store, 3));
            assert_true(store_pull_one(&next.table.store, 3, row));
            assert_int_equal(row[0], 5);
        } else {
            assert_true(failed);
        }
        site_fini(&home);
        site_fini(&next);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_node_takes_over_rows_and_records),
        cmocka_unit_test(a_broken_batch_has_no_effect),
        cmocka_unit_test(a_replica_becomes_the_main_copy),
        cmocka_unit_test(relocate_is_static_where_main_copies_stay),
        cmocka_unit_test(an_arc_without_a_complete_copy_is_lost),
        cmocka_unit_test(what_is_lost_is_recovered_and_copies_that_came_are_newer),
        cmocka_unit_test(a_write_is_safe_when_all_backups_have_it),
        cmocka_unit_test(who_takes_over_sends_on_what_others_may_lack),
        cmocka_unit_test(a_new_backup_gets_all_rows_while_writes_go_on),
        cmocka_unit_test(a_flush_waits_for_the_sweep_that_has_all),
        cmocka_unit_test(a_table_comes_once_in_a_batch),
        cmocka_unit_test(a_record_may_come_twice),
        cmocka_unit_test(nothing_is_safe_without_memory_for_its_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
