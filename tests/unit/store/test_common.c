/*
 * A table in common memory: two stores in it, as two processes have them, are one table; rows are in their natural
 * places, whoever makes them; latches that a dead process has left are found and freed, and no others.
 */
#include "support/check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#undef fail /* cmocka's; status.h has another */
#include "base/segment.h"
#include "store/common.h"

enum { N_KEYS = 3000, N_PUSHES = 20000 };

/* Two stores in one memory, at different addresses. */
struct both {
    struct common *memory[2];
    uint64_t name;
    struct store stores[2];
};

static void open_both(struct both *both, const struct tern_table_options *options)
{
    uint64_t bytes = common_bytes(options);
    ok(segment_new(bytes, (void **)&both->memory[0], &both->name));
    common_format(both->memory[0], options);
    ok(segment_attach(both->name, bytes, (void **)&both->memory[1]));
    for (int i = 0; i < 2; i++) {
        struct store_home home = {.end = options->n_keys, .common = both->memory[i]};
        ok(store_init(&both->stores[i], "both", options, &home));
    }
}

static void close_both(struct both *both)
{
    for (int i = 0; i < 2; i++) {
        store_fini(&both->stores[i]);
        segment_free(both->memory[i]);
    }
}

static uint64_t key_at(const struct store *store, uint64_t i)
{
    return store->index == TERN_DENSE ? i : scattered(i);
}

static void see_each_other(enum tern_index index, uint32_t length)
{
    struct tern_table_options options = shape(index, TERN_F32, N_KEYS, length);
    options.init = (struct tern_init){.kind = TERN_INIT_CONSTANT, .a = 2};
    struct both both;
    open_both(&both, &options);
    float ones[256], values[256];
    for (uint32_t i = 0; i < length; i++)
        ones[i] = 1;
    for (uint64_t i = 0; i < N_KEYS; i++) {
        struct store *one = &both.stores[i % 2], *other = &both.stores[1 - i % 2];
        uint64_t key = key_at(one, i);
        ok(store_create(one, key));
        assert_true(store_push_one(other, key, ones));
        assert_true(store_pull_one(one, key, values));
        for (uint32_t k = 0; k < length; k++)
            assert_true(values[k] == 3);
    }
    assert_int_equal(store_rows(&both.stores[0]), N_KEYS);
    assert_int_equal(store_rows(&both.stores[1]), N_KEYS);
    /* One that is pinned leaves its entry, if it was there, for the same place at both. */
    float *row, *same;
    uint64_t key = key_at(&both.stores[0], 17);
    ok(store_pin(&both.stores[0], key, (void **)&row));
    ok(store_pin(&both.stores[1], key, (void **)&same));
    row[0] = 5;
    assert_true(same[0] == 5);
    assert_true(store_unpin(&both.stores[0], key) && store_unpin(&both.stores[1], key));
    close_both(&both);
}

static void what_one_does_the_other_sees(void **state)
{
    (void)state;
    for (uint32_t length = 1; length < 200; length = 3 * length + 1) {
        see_each_other(TERN_DENSE, length);
        see_each_other(TERN_SPARSE, length);
    }
}

struct pusher {
    struct store *store;
    uint64_t seed;
};

static void *push_ones(void *context)
{
    const struct pusher *pusher = context;
    struct dice dice = {pusher->seed};
    const int64_t ones[4] = {1, 1, 1, 1};
    for (int i = 0; i < N_PUSHES; i++) {
        /* Few keys that all push to, and many that make a sparse index grow. */
        uint64_t key = key_at(pusher->store, i % 2 ? dice_below(&dice, 10) : dice_below(&dice, N_KEYS));
        holds(store_create(pusher->store, key) == TERN_OK);
        holds(store_push_one(pusher->store, key, ones));
    }
    return NULL;
}

static void push_beside_each_other(enum tern_index index)
{
    struct tern_table_options options = shape(index, TERN_I64, N_KEYS, 4);
    struct both both;
    open_both(&both, &options);
    pthread_t threads[4];
    struct pusher pushers[4];
    for (uint64_t i = 0; i < 4; i++) {
        pushers[i] = (struct pusher){&both.stores[i % 2], i};
        assert_int_equal(pthread_create(&threads[i], NULL, push_ones, &pushers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    all_held();
    int64_t sum = 0, value[4];
    for (uint64_t i = 0; i < N_KEYS; i++)
        if (store_pull_one(&both.stores[i % 2], key_at(&both.stores[0], i), value))
            sum += value[0];
    assert_int_equal(sum, 4 * N_PUSHES);
    close_both(&both);
}

static void latches_are_common(void **state)
{
    (void)state;
    push_beside_each_other(TERN_DENSE);
#ifndef UNDER_TSAN /* which takes an entry that has moved at the other address for one that nobody has ordered */
    push_beside_each_other(TERN_SPARSE);
#endif
}

static void stuck_latches_are_freed(void **state)
{
    (void)state;
    for (uint32_t length = 1; length <= 2; length++) {
        struct tern_table_options options = shape(TERN_DENSE, TERN_I32, N_KEYS, length);
        struct both both;
        struct stuck stuck[4];
        uint64_t word;
        const int32_t ones[2] = {1, 1};
        open_both(&both, &options);
        ok(store_create(&both.stores[0], 5));
        ok(store_create(&both.stores[0], 6));
        assert_int_equal(common_find_stuck(&both.stores[1], stuck, 4), 0);
        /* Left behind: two entries, one of them without a row, and an area. One is let go in time. */
        store_latch(&both.stores[0], 5, &word);
        store_latch(&both.stores[0], 9, &word);
        struct entry *in_use = store_latch(&both.stores[0], 6, &word);
        area_latch(&both.stores[0].areas[3]);
        assert_int_equal(common_find_stuck(&both.stores[1], stuck, 2), 2);
        assert_int_equal(common_find_stuck(&both.stores[1], stuck, 4), 4);
        entry_release_same(in_use, word);
        common_free_stuck(stuck, 4);
        assert_int_equal(common_find_stuck(&both.stores[0], stuck, 4), 0);
        int32_t value[2];
        assert_true(store_push_one(&both.stores[0], 5, ones));
        assert_true(store_pull_one(&both.stores[1], 5, value));
        assert_int_equal(value[0], 1);
        ok(store_create(&both.stores[1], 9));
        assert_true(store_push_one(&both.stores[0], 9, ones));
        /* What was noted before says nothing any more. */
        store_latch(&both.stores[0], 6, &word);
        common_free_stuck(stuck, 4);
        assert_int_equal(common_find_stuck(&both.stores[0], stuck, 4), 1);
        close_both(&both);
    }
}

/* Inserts keys until it is killed. */
static void insert_for_ever(uint64_t name, const struct tern_table_options *options, uint64_t first)
{
    void *memory;
    struct store store;
    struct store_home home = {0};
    const int32_t ones[2] = {1, 1};
    if (segment_attach(name, common_bytes(options), &memory))
        _exit(1);
    home.common = memory;
    if (store_init(&store, "both", options, &home))
        _exit(1);
    for (uint64_t i = first;; i++)
        if (store_create(&store, scattered(i)) || !store_push_one(&store, scattered(i), ones))
            _exit(1);
}

/* A process is killed while it makes the index grow: those that are left find all keys, and can insert others. */
static void an_index_is_mended(void **state)
{
    (void)state;
    enum { KILLS = 40, OURS = 300 };
    struct dice dice = {7};
    for (int round = 0; round < KILLS; round++) {
        struct tern_table_options options = shape(TERN_SPARSE, TERN_I32, 0, 1 + (uint32_t)round % 2);
        options.memory_limit_bytes = 1 << 28;
        struct both both;
        struct stuck stuck[64];
        const int32_t ones[2] = {1, 1};
        int32_t value[2];
        open_both(&both, &options);
        for (uint64_t i = 0; i < OURS; i++) {
            ok(store_create(&both.stores[0], scattered(i)));
            assert_true(store_push_one(&both.stores[0], scattered(i), ones));
        }
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            insert_for_ever(both.name, &options, 1000000);
        usleep((useconds_t)(500 + dice_below(&dice, 20000)));
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        common_free_stuck(stuck, common_find_stuck(&both.stores[1], stuck, 64));
        sparse_mend(both.stores[1].sparse);
        for (uint64_t i = 0; i < 2 * OURS; i++) {
            ok(store_create(&both.stores[1], scattered(i)));
            assert_true(store_push_one(&both.stores[1], scattered(i), ones));
            assert_true(store_pull_one(&both.stores[0], scattered(i), value));
            assert_int_equal(value[0], i < OURS ? 2 : 1);
        }
        close_both(&both);
    }
}

static void some_tables_are_not_for_it(void **state)
{
    (void)state;
    struct tern_table_options options = shape(TERN_DENSE, TERN_F32, N_KEYS, 4);
    assert_true(common_bytes(&options) >= N_KEYS * 24);
    options.n_keys = TERN_MAX_ROWS + 1;
    assert_int_equal(common_bytes(&options), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_does_the_other_sees),
        cmocka_unit_test(latches_are_common),
        cmocka_unit_test(stuck_latches_are_freed),
        cmocka_unit_test(an_index_is_mended),
        cmocka_unit_test(some_tables_are_not_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
